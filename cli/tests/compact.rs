//! `compact`: runs become one, and are written anew with the index that is asked for.

use crate::program::Place;
use quipu::{Db, Options, ReadableTable, RunLayout, WritableTable};
use quipu_rows::Database;

/// A table on disk in three runs, and one in memory.
fn database(place: &Place) {
    let db = Db::open(place.path("db"), Options::default()).unwrap();
    let table = db.ensure_table("t").unwrap();
    for run in 0..3u32 {
        for number in 0..200u32 {
            table.put((number * 3 + run).to_be_bytes(), [run as u8; 50]).unwrap();
        }
        table.flush().unwrap();
    }
    drop(table);
    db.ensure_table("small").unwrap().put("k", "v").unwrap();
    db.close().unwrap();
}

/// The runs that a line of the answer tells of a table, before and after.
fn runs_of<'o>(out: &'o str, table: &str) -> (&'o str, &'o str) {
    let line = out.lines().find(|line| line.starts_with(table)).unwrap_or_else(|| panic!("{table}: {out}"));
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[1], words[4])
}

#[test]
fn runs_become_one() {
    let place = Place::new();
    database(&place);
    assert_eq!(runs_of(&place.out("compact db"), "t "), ("3", "1"));
    assert_eq!(runs_of(&place.out("compact db t"), "t "), ("1", "1"));
    assert!(place.out("check db").contains("all is well"));
}

#[test]
fn a_rewrite_changes_the_index_and_no_row() {
    let place = Place::new();
    database(&place);
    for (flags, index) in
        [("--layout flat", RunLayout::Flat), ("--rewrite", RunLayout::Flat), ("--layout tree", RunLayout::Tree)]
    {
        let out = place.out(&format!("compact db {flags}"));
        assert_eq!((runs_of(&out, "t ").1, runs_of(&out, "small ").1), ("1", "0"), "{flags}");
        let db = Db::open(place.path("db"), Options::default()).unwrap();
        let table = db.ensure_table("t").unwrap();
        assert_eq!((table.len().unwrap(), table.options().layout), (600, index), "{flags}");
        assert_eq!(db.ensure_table("small").unwrap().len().unwrap(), 1);
    }
    assert!(place.out("check db").contains("all is well"));
}

#[test]
fn imported_rows_are_stored_as_the_import_says() {
    let place = Place::new();
    let mut rows = "id,text\n".to_owned();
    for number in 0..3000 {
        rows.push_str(&format!("{number},the same words again and again and again\n"));
    }
    place.write("rows.csv", &rows);
    for (table, flags) in [("plain", ""), ("packed", "--compress"), ("stays", "--compress --in-memory")] {
        place.run(&format!("import rows.csv --data db --table {table} --key id {flags}")).success();
    }
    let db = Db::open(place.path("db"), Options::default()).unwrap();
    let names = Database::open(&db).unwrap().tree_names().unwrap();
    let tree = |name: &str| names.iter().find(|(_, table)| *table == name).unwrap().0.clone();
    let open = |name: &str| db.open_table(&tree(name)).unwrap().unwrap();
    for name in ["plain", "packed"] {
        open(name).flush().unwrap();
    }
    assert_eq!((open("plain").options().in_memory, open("stays").options().in_memory), (false, true));
    let bytes =
        |name: &str| db.stats().tables.iter().find(|table| table.name == tree(name)).map(|table| table.run_bytes);
    assert!(2 * bytes("packed").unwrap() < bytes("plain").unwrap(), "{:?}", db.stats().tables);
    drop(db);
    // A table that exists takes the flags that it was made with.
    place.run("import rows.csv --data db --table stays --key id --compress --in-memory --on-conflict skip").success();
    let exported: Vec<String> = ["plain", "packed", "stays"]
        .iter()
        .map(|table| place.out(&format!("export --data db --table {table}")))
        .collect();
    assert!(exported[0] == exported[1] && exported[0] == exported[2]);
}

#[test]
fn what_is_not_there_is_named() {
    let place = Place::new();
    database(&place);
    assert!(place.run("compact none").failure().contains("no such directory"));
    assert!(place.run("compact db tt").failure().contains("there are small, t"));
    assert!(place.run("compact db --layout round").err.contains("tree, flat"));
    assert!(place.run("compact --help").out.contains("--rewrite"));
}
