//! `stats` with its histograms, and `explain` of the shell, of tables in memory and on disk.

use crate::program::Place;
use quipu::{Db, Measures, Options, TableOptions, WritableTable};
use serde_json::Value as Json;

/// A table of 3,000 rows on disk, of which as many as asked are changed in memory.
fn on_disk(place: &Place, changed: u32) {
    let db = Db::open(place.path("db"), Options { run_page_bytes: 1024, ..Options::default() }).unwrap();
    let options = TableOptions { measures: Measures { bytes: true, ..Measures::ROWS }, ..TableOptions::default() };
    let table = db.create_table("t", options).unwrap();
    let key = |number: u32| format!("row {number:05}");
    db.write(|transaction| {
        let table = transaction.table(&table)?;
        (0..3000).try_for_each(|number| table.put(key(number), vec![b'v'; if number < 300 { 200 } else { 10 }]))
    })
    .unwrap();
    table.flush().unwrap();
    (0..changed).for_each(|number| assert!(table.remove(key(10 * number)).unwrap()));
    drop(table);
    db.close().unwrap();
}

fn json(place: &Place, line: &str) -> Json {
    serde_json::from_str(&place.out(line)).unwrap()
}

/// Rows of a blind table in a run, and writes over them that were not asked about: `stats` tells how many, and counts
/// are exact all the same.
#[test]
fn unresolved_writes_are_told() {
    let place = Place::new();
    let db = Db::open(place.path("db"), Options::default()).unwrap();
    let table = db.create_table("t", TableOptions { blind_writes: true, ..TableOptions::default() }).unwrap();
    db.write(|transaction| {
        let table = transaction.table(&table)?;
        (0..100).try_for_each(|number| table.put(format!("{number:03}"), "v"))
    })
    .unwrap();
    table.flush().unwrap();
    (90..110).for_each(|number| table.put(format!("{number:03}"), "w").unwrap());
    drop(table);
    db.close().unwrap();
    let out = place.out("stats db");
    assert!(out.contains("20 writes to \"t\""), "{out}");
    let table = &json(&place, "stats db --json")["tables"][0];
    assert_eq!((table["unresolved"].as_u64(), table["rows"].as_u64()), (Some(20), Some(100)));
    let histogram = &json(&place, "stats db --histogram --json")["histograms"][0];
    assert_eq!(histogram["rows"].as_u64(), Some(110));
    assert_eq!(json(&place, "check db --json")["tables"][0]["rows"].as_u64(), Some(110));
}

#[test]
fn a_comment_on_a_table_is_told() {
    let place = Place::new();
    place.write("a.csv", "id,n\n1,2\n");
    place.run("import a.csv --data db --table t --key id --comment pairs").success();
    place.run("import a.csv --data db --table u --key id").success();
    let out = place.out("stats db");
    assert!(out.contains("comment") && out.contains("pairs"), "{out}");
    let tables = &json(&place, "stats db --json")["tables"];
    assert_eq!((tables[0]["comment"].as_str(), tables[1]["comment"].as_str()), (Some("pairs"), Some("")));
}

#[test]
fn a_histogram_is_drawn() {
    let place = Place::new();
    let rows: String = (0..8).map(|id| format!("{},{id},{}\n", ["AA", "B6"][id / 4], "x".repeat(10 * id))).collect();
    place.write("a.csv", format!("carrier,flight,note\n{rows}"));
    place.run("import a.csv --data db --table t --key carrier,flight").success();
    let out = place.out("stats db --histogram --buckets 4");
    let (head, lines) = out.split_at(out.match_indices('\n').nth(2).unwrap().0 + 1);
    assert_eq!(head.lines().next(), Some("t: 8 rows"));
    assert!(head.lines().nth(1).unwrap().starts_with("from  "), "{head}");
    let firsts: Vec<&str> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(firsts, ["AA,0", "AA,2", "B6,4", "B6,6"]);
    assert!(lines.lines().all(|line| line.contains("█")), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");

    let histogram =
        &json(&place, "stats db --histogram --table t --from AA,2 --to B6,6 --buckets 2 --json")["histograms"][0];
    assert_eq!((histogram["rows"].as_u64(), histogram["pages"].as_u64()), (Some(4), Some(0)));
    assert_eq!(histogram["buckets"][1]["from"], "B6,4");
    assert_eq!(histogram["buckets"][1]["rows_until"], serde_json::json!([4, 4]));
}

#[test]
fn a_histogram_of_a_table_on_disk_says_what_it_read() {
    let place = Place::new();
    on_disk(&place, 100);
    let out = place.out("stats db --histogram");
    assert!(out.starts_with("t: 2,900 rows, ") && out.contains(" pages looked at, "), "{out}");
    let histogram = &json(&place, "stats db --histogram --buckets 10 --json")["histograms"][0];
    let buckets = histogram["buckets"].as_array().unwrap();
    assert!(buckets.len() >= 10 && buckets.len() <= 30, "{} buckets", buckets.len());
    assert!(buckets.iter().all(|bucket| bucket["from"].as_str().unwrap().starts_with("\"row ")), "{histogram}");
    assert_eq!(buckets.last().unwrap()["rows_until"], serde_json::json!([2900, 2900]));

    let stats = json(&place, "stats db --json");
    assert_eq!(stats["tables"][0]["runs"], 1);
    assert!(stats["tables"][0]["run_bytes"].as_u64() > Some(60_000), "{stats}");
    let text = place.out("stats db");
    assert!(text.contains("on disk") && text.contains("\ncache       0 B of "), "{text}");
}

#[test]
fn an_explanation_says_what_an_answer_took() {
    let place = Place::new();
    on_disk(&place, 0);
    let cost = &place.ask("db", "t", "explain nth 1500")["cost"];
    assert_eq!((cost["runs"].as_u64(), cost["pages"].as_u64()), (Some(1), cost["pages_read"].as_u64()));
    let out = place.out("shell --data db --table t -c 'explain count' -c 'explain count \"row 01\" .. \"row 02\"'");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("3,000 rows; 0 pages of 1 run, 0 read in 0 rounds; the range has 3,000 rows on "),
        "{out}"
    );
    assert!(lines[1].starts_with("1,000 rows; ") && lines[1].contains(" round; the range has 1,000 rows on "), "{out}");
    place.run("shell --data new --create -c 'create t' -c 'put a b' -c 'explain get a'").success();
}

#[test]
fn options_of_histograms_belong_together() {
    let place = Place::new();
    on_disk(&place, 0);
    for line in ["stats db --table t", "stats db --histogram --from a", "stats db --histogram --buckets 0"] {
        assert_eq!(place.run(line).code, Some(2), "{line}");
    }
    assert!(place.run("stats db --histogram --table u").failure().contains("there is no table \"u\""));
}
