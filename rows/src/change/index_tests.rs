//! Builds of indexes a step at a time, with writes between the steps.

use quipu::{Db, Options};

use super::*;
use crate::{Column, DataType, Database, Ordered, TableSchema, Value, check};

/// A table of five rows, `a` being ten times `id`.
fn table_of_five() -> (Db, Database) {
    let db = Db::open("/rows", Options::in_memory()).unwrap();
    let database = Database::open(&db).unwrap();
    let schema = TableSchema::new("t")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("a", DataType::I64))
        .key(["id"]);
    let table = database.create_table(&schema).unwrap();
    (1..=5_i64).for_each(|id| assert!(table.insert((id, 10 * id)).is_ok()));
    (db, database)
}

fn set(database: &Database, id: i64, a: i64) {
    assert!(database.table("t").unwrap().update(id, &[("a", Value::Int(a.into()))]).unwrap());
}

/// A row changed between the commit that has writers note changes and the snapshot that the build reads, and again
/// afterwards: the note told of the entry before the first change, and the entry between the two stayed for ever. A
/// commit that waits for the disk is seen by others meanwhile, so the time between was that of a sync.
#[test]
fn found_an_index_kept_entries_of_rows_that_changed_before_its_snapshot() {
    let plain = IndexSchema::new("x", ["a"]);
    for declared in [plain.clone(), plain.clone().predicate("a >= 0"), plain.unique()] {
        let (db, database) = table_of_five();
        let build = database.shared().begin_build("t", declared, &BuildOptions::default()).unwrap();
        set(&database, 1, 11);
        // It takes what another row had.
        set(&database, 2, 12);
        set(&database, 3, 20);
        build.fill(&mut |_| ()).unwrap();
        set(&database, 1, 111);
        set(&database, 4, 12_000);
        build.catch_up(None).unwrap();
        database.shared().drop_trees([build.missed]).unwrap();
        let snapshot = database.snapshot();
        let table = snapshot.table("t").unwrap();
        let index = table.index("x").unwrap();
        assert_eq!(index.len().unwrap(), 5);
        for (offset, a) in [12_i128, 20, 50, 111, 12_000].into_iter().enumerate() {
            let row = index.nth(.., offset as u64).unwrap().unwrap();
            assert_eq!(row.get("a").unwrap(), Value::Int(a));
        }
        assert_eq!(check(&db, &mut |_| ()).unwrap().problems.len(), 0);
    }
}

/// What a transaction noted before the notes were forgotten, and relied on, it notes again.
#[test]
fn a_transaction_that_relied_on_a_forgotten_note_conflicts() {
    let (db, database) = table_of_five();
    let build = database.shared().begin_build("t", IndexSchema::new("x", ["a"]), &BuildOptions::default()).unwrap();
    set(&database, 1, 11);
    let transaction = database.begin();
    transaction.table("t").unwrap().update(1_i64, &[("a", Value::Int(12))]).unwrap();
    build.fill(&mut |_| ()).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    build.catch_up(None).unwrap();
    database.shared().drop_trees([build.missed]).unwrap();
    assert_eq!(database.snapshot().table("t").unwrap().index("x").unwrap().len().unwrap(), 5);
    assert_eq!(check(&db, &mut |_| ()).unwrap().problems.len(), 0);
}
