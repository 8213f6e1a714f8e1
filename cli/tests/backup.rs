//! `backup` and `restore`, and a backup of what a server has open.
#![expect(clippy::disallowed_methods, reason = "the files are damaged on purpose")]

use crate::program::Place;

/// A database of 5,000 rows.
fn database() -> Place {
    let place = Place::new();
    let rows: String = (0..5_000).map(|id| format!("{id},{}\n", id % 7)).collect();
    place.write("a.csv", format!("id,n\n{rows}"));
    place.run("import a.csv --data db --table t --key id --index by=n").success();
    place
}

#[test]
fn a_copy_is_a_database_and_what_is_restored_too() {
    let place = database();
    let told = place.out("backup db copies/monday");
    assert!(told.starts_with("copies/monday: 4 tables as of commit "), "{told}");
    assert!(told.ends_with("shared with the database\n"), "{told}");
    assert!(!place.out("backup --copy db copies/tuesday").contains("shared"));
    assert!(place.out("check copies/monday").contains("all is well"));
    std::fs::remove_dir_all(place.path("db")).unwrap();
    let told = place.out("restore copies/monday db");
    let names: Vec<&str> = told.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..3], ["t", "t.by", "rows.catalogue"], "the trees by what they are: {told}");
    let export = |data: &str| place.out(&format!("export --data {data} --table t"));
    assert_eq!(export("db"), export("copies/tuesday"));
    assert_eq!(export("db").lines().count(), 5_001);
    assert!(place.out("restore copies/monday --data again").contains("again: 4 tables as of commit "));
    assert_eq!(export("again"), export("db"));
    assert_eq!(place.run("restore copies/monday").code, Some(2));
    assert_eq!(place.run("restore copies/monday other --data again").code, Some(2));
}

#[test]
fn what_cannot_be_is_said() {
    let place = database();
    place.run("backup db copy").success();
    assert!(place.run("backup db copy").failure().contains("copy is not empty"));
    assert!(place.run("backup db db/copy").failure().contains("choose a directory elsewhere"));
    assert!(place.run("backup none copy").failure().contains("no such directory"));
    assert!(place.run("restore copy db").failure().contains("db is not empty"));
    assert!(place.run("restore none other").failure().contains("no such directory"));
    std::fs::create_dir(place.path("empty")).unwrap();
    assert!(place.run("restore empty other").failure().contains("no backup in empty"));
    let is_run = |path: &std::path::PathBuf| path.to_string_lossy().contains("run-");
    let mut files = place.path("copy").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let run = files.find(is_run).unwrap();
    let mut bytes = std::fs::read(&run).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&run, bytes).unwrap();
    let error = place.run("restore copy other").failure();
    assert!(error.contains(run.file_name().unwrap().to_str().unwrap()), "{error}");
    assert!(error.contains("nothing was restored"), "{error}");
    assert!(!place.path("other").exists());
}
