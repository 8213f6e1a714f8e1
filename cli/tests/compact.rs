//! `compact`: runs become one, and are written anew with the index that is asked for.

mod program;

use program::Place;
use quipu::{Db, Options, Read, RunIndex, Write};

/// A table on disk in three runs, and one in memory.
fn database(place: &Place) {
    let db = Db::open(place.path("db"), Options::default()).unwrap();
    let table = db.table("t").unwrap();
    for run in 0..3u32 {
        for number in 0..200u32 {
            table.put((number * 3 + run).to_be_bytes(), [run as u8; 50]).unwrap();
        }
        table.flush().unwrap();
    }
    drop(table);
    db.table("small").unwrap().put("k", "v").unwrap();
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
        [("--index flat", RunIndex::Flat), ("--rewrite", RunIndex::Flat), ("--index tree", RunIndex::Tree)]
    {
        let out = place.out(&format!("compact db {flags}"));
        assert_eq!((runs_of(&out, "t ").1, runs_of(&out, "small ").1), ("1", "0"), "{flags}");
        let db = Db::open(place.path("db"), Options::default()).unwrap();
        let table = db.table("t").unwrap();
        assert_eq!((table.len().unwrap(), table.options().index), (600, index), "{flags}");
        assert_eq!(db.table("small").unwrap().len().unwrap(), 1);
    }
    assert!(place.out("check db").contains("all is well"));
}

#[test]
fn what_is_not_there_is_named() {
    let place = Place::new();
    database(&place);
    assert!(place.run("compact none").failure().contains("no such directory"));
    assert!(place.run("compact db tt").failure().contains("there are small, t"));
    assert!(place.run("compact db --index round").err.contains("tree, flat"));
    assert!(place.run("compact --help").out.contains("--rewrite"));
}
