//! `check` and `stats`, on whole and on damaged files.
#![expect(clippy::disallowed_methods, reason = "the files are damaged on purpose")]

use crate::program::Place;
use serde_json::Value as Json;

/// A database with a checkpoint of 5,000 rows and a log after it with 1,000 more.
fn database() -> Place {
    let place = Place::new();
    let rows = |range: std::ops::Range<u32>| range.map(|id| format!("{id},{}\n", id % 7)).collect::<String>();
    place.write("a.csv", format!("id,n\n{}", rows(0..5_000)));
    place.write("b.csv", format!("id,n\n{}", rows(5_000..6_000)));
    place.run("import a.csv --data db --table t --key id --index by=n --sum n").success();
    let info: Json = serde_json::from_str(&place.out("shell --data db --json -c checkpoint")).unwrap();
    // Three of the catalogue among them.
    assert_eq!(info["checkpoint"]["rows_written"], 10_003);
    place.run("import b.csv --data db --table t").success();
    place
}

/// The files of the database whose names contain `part`.
fn files(place: &Place, part: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = place.path("db").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_string_lossy().contains(part));
    files.sort();
    files
}

#[test]
fn whole_files_are_well() {
    let place = database();
    let report: Json = serde_json::from_str(&place.out("check db --json")).unwrap();
    assert_eq!(report["faults"], serde_json::json!([]));
    assert_eq!(report["runs"], 3, "that of the catalogue among them");
    let rows: Vec<&Json> = report["tables"].as_array().unwrap().iter().map(|table| &table["rows"]).collect();
    assert_eq!(rows[..2], [6_000, 6_000]);
    let text = place.out("check db");
    assert!(text.ends_with("all is well: every checksum and every tally is right\n"), "{text}");

    let stats: Json = serde_json::from_str(&place.out("stats db --json")).unwrap();
    assert_eq!(stats["tables"][0]["sum"], report["tables"][0]["sum"]);
    assert_eq!(stats["tables"][0]["hash"], report["tables"][0]["hash"]);
    let number = stats["checkpoint"].as_u64().unwrap();
    assert!(number > 0 && place.out("stats db").contains(&format!("checkpoint  number {number}, ")));
}

#[test]
fn a_damaged_run_is_named() {
    let place = database();
    for file in files(&place, "run-") {
        let whole = std::fs::read(&file).unwrap();
        for at in [whole.len() / 3, whole.len() / 2] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            let outcome = place.run("check db --json");
            let report: Json = serde_json::from_str(&outcome.out).unwrap();
            assert!(!report["faults"].as_array().unwrap().is_empty(), "{} at {at}", file.display());
            assert!(outcome.failure().contains("keep its files"));
        }
        std::fs::write(&file, whole).unwrap();
    }
    place.run("check db").success();
}

#[test]
fn what_is_damaged_is_rebuilt_from_the_rest() {
    let place = database();
    assert!(place.out("check --repair db").starts_with("there is nothing to repair"));
    assert!(!place.path("db/damaged-1").exists());
    let size = |path: &std::path::PathBuf| path.metadata().unwrap().len();
    let run = files(&place, "run-").into_iter().max_by_key(size).unwrap();
    let whole = std::fs::read(&run).unwrap();
    let mut bytes = whole.clone();
    bytes[whole.len() / 3] ^= 1;
    std::fs::write(&run, &bytes).unwrap();
    let outcome = place.run("check --repair db");
    assert!(outcome.out.contains("lost: ") && outcome.out.contains(" keys from "), "{}", outcome.out);
    assert!(outcome.out.contains("written anew: table \"t\" with 5,"), "{}", outcome.out);
    assert_eq!(std::fs::read(place.path("db/damaged-1").join(run.file_name().unwrap())).unwrap(), bytes);
    let lost = outcome.out.lines().find(|line| line.starts_with("lost: ")).unwrap();
    let key = lost.split("keys from ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(key.parse::<i64>().is_ok(), "a key as people write it: {lost}");
    if let Some(high) = lost.split(" to below ").nth(1) {
        let high = high.split(':').next().unwrap();
        assert!(high.parse::<i64>().is_ok(), "so is the end: {lost}");
    }
    // The index had entries of the rows that are lost, and `check` condemned what was repaired.
    assert!(outcome.out.contains("built again from its rows: index t.by"), "{}", outcome.out);
    assert!(outcome.failure().contains("whole again"));
    place.run("check db").success();
    // Cut off, it has lost all; the log has not.
    let run = files(&place, "run-").pop().unwrap();
    std::fs::write(&run, &whole[..whole.len() / 2]).unwrap();
    let outcome = place.run("check --repair db --json");
    let report: Json = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!((&report["lost"][0]["low"], &report["faults"]), (&Json::Null, &serde_json::json!([])));
    outcome.failure();
    assert!(place.path("db/damaged-2").exists());
    assert_eq!(report["indexes"], serde_json::json!(["t.by"]));
    place.run("check db").success();
    assert!(place.run("shell --data db -c 'rebuild t'").failure().contains("t is not an index"));
    assert!(place.out("shell --data db -c 'rebuild t.by'").contains("rebuilt"));
    assert!(place.out("check --repair db").starts_with("there is nothing to repair"));
    // Without it, nothing is known.
    std::fs::write(place.path("db/MANIFEST"), "nonsense").unwrap();
    assert!(place.run("check --repair db").failure().contains("cannot be repaired"));
}

/// It was told that entries of `rows.2` were lost, and that not all was saved.
#[test]
fn a_damaged_index_is_built_again_and_nothing_is_lost() {
    let mut whole = 0;
    for number in 0..3 {
        let place = database();
        let run = files(&place, "run-").swap_remove(number);
        let mut bytes = std::fs::read(&run).unwrap();
        let at = bytes.len() / 3;
        bytes[at] ^= 1;
        std::fs::write(&run, bytes).unwrap();
        let outcome = place.run("check --repair db");
        if outcome.code != Some(0) {
            assert!(outcome.out.contains("lost: "), "{outcome:?}");
            continue;
        }
        whole += 1;
        assert!(outcome.out.contains("built again from its rows: index t.by\n"), "{}", outcome.out);
        assert!(!outcome.out.contains("lost: ") && !outcome.out.contains("rows."), "{}", outcome.out);
        place.run("check db").success();
        assert_eq!(place.out("export --data db --table t").lines().count(), 6_001);
        assert_eq!(place.ask("db", "t.by", "count")["count"], 6_000);
    }
    assert_eq!(whole, 1, "only the index has its entries elsewhere");
}

/// After the repair of a damaged catalogue, opening the database once dropped the trees that no definition named any
/// more: all rows there were.
#[test]
fn a_lost_catalogue_takes_no_rows_with_it() {
    let place = database();
    let smallest = files(&place, "run-").into_iter().min_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&smallest).unwrap();
    bytes[32] ^= 1;
    std::fs::write(&smallest, bytes).unwrap();
    let repaired = place.run("check --repair db");
    assert!(repaired.out.contains("lost: 3 entries of table \"rows.catalogue\""), "{}", repaired.out);
    let advice = format!("{}{}", repaired.out, repaired.err);
    assert!(advice.contains("a part of the catalogue of rows is lost") && !advice.contains("quipu check"), "{advice}");
    assert!(repaired.err.contains("db still has 1 fault after the repair; keep its files, and restore"), "{advice}");
    for command in ["shell --data db -c tables", "import a.csv --data db --table t", "check db"] {
        let outcome = place.run(command);
        let said = format!("{}{}", outcome.out, outcome.err);
        assert!(said.contains("a part of the catalogue of rows is lost"), "{command}: {said}");
        assert_ne!(outcome.code, Some(0), "{command}");
    }
    let db = quipu::Db::open(place.path("db"), quipu::Options::default()).unwrap();
    let stats = db.stats();
    let rows = stats.tables.iter().find(|table| table.comment == "rows of table t").map(|table| table.tally.rows);
    assert_eq!(rows, Some(6_000), "{stats:?}");
}

#[test]
fn a_directory_without_a_database_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("db")).unwrap();
    for command in ["check db", "stats db", "shell --data db -c tables", "export --data db --table t"] {
        let error = place.run(command).failure();
        assert!(error.contains("there is no database in db"), "{command}: {error}");
    }
    assert!(files(&place, "MANIFEST").is_empty());
}
