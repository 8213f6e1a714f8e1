//! Goal: a full disk is a state that ends: rows, tables and indexes go on the database that is open, and then it grows
//! again; what makes it grow is refused as a whole. Method: a disk in memory that is as full as wanted.

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, Error, ErrorKind, Options};
use quipu_rows::{
    Action, Column, DataType, Database, ForeignKey, Identity, IndexSchema, RowTransaction, Span, TableSchema, Value,
};
use quipu_testing::seeds::seeds;

const SEGMENT_BYTES: usize = 32 << 10;

fn open(disk: &SimDisk) -> Database {
    let options = Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 512,
        run_page_bytes: 512,
        log_segment_bytes: SEGMENT_BYTES,
        memtable_bytes: 1 << 20,
        ..Options::without_files()
    };
    Database::open(&Db::open("/db", options).unwrap()).unwrap()
}

/// Towns with an index, streets that refer to them and go with them, and a table that has nothing to do with them.
fn create_tables(database: &Database) {
    let towns = TableSchema::new("towns")
        .column(Column::new("id", DataType::I64).identity(Identity::ByDefault))
        .column(Column::new("name", DataType::TEXT).not_null())
        .column(Column::new("note", DataType::TEXT))
        .key(["id"])
        .index(IndexSchema::new("name", ["name"]));
    let streets = TableSchema::new("streets")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("town", DataType::I64).not_null())
        .key(["id"])
        .foreign_key(ForeignKey::new("of_town", ["town"], "towns").on_delete(Action::Cascade));
    let other = TableSchema::new("other")
        .column(Column::new("id", DataType::I64))
        .column(Column::new("text", DataType::TEXT))
        .key(["id"]);
    for schema in [towns, streets, other] {
        database.create_table(&schema).unwrap();
    }
    database.table("other").unwrap().insert((-1, "first")).unwrap();
}

/// Where the rows of a full disk are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rows {
    /// Many are in the log and in memory alone.
    InLog,
    /// All are in runs, but for one, of which the log is full.
    InRuns,
}

/// Inserts towns, each with a street, until the disk takes no more. Returns the number of towns.
fn fill(disk: &SimDisk, database: &Database, rows: Rows) -> i64 {
    let mut towns = 0;
    let insert = |number: i64| {
        database.write(|transaction| {
            let row = (format!("town {number}"), "n".repeat(600));
            transaction.table("towns")?.insert_columns(&["name", "note"], row)?;
            transaction.table("streets")?.insert((number, number))
        })
    };
    while towns < 120 {
        insert(towns + 1).unwrap();
        towns += 1;
        if towns == 120 || rows == Rows::InLog && towns == 50 {
            database.db().checkpoint().unwrap();
            disk.set_capacity(disk.used_bytes());
        }
        if rows == Rows::InLog && towns >= 50 {
            while insert(towns + 1).inspect_err(assert_is_full).is_ok() {
                towns += 1;
            }
            break;
        }
    }
    // Nor is there room for the least change.
    let other = database.table("other").unwrap();
    (0..).find(|number: &u32| other.update(-1, &[("text", Value::Text(number.to_string().into()))]).is_err());
    towns
}

fn assert_is_full(error: &Error) {
    assert!(error.kind() == ErrorKind::Full && error.is_full_disk(), "{error}");
    assert!(error.to_string().contains("free some space on the disk"), "{error}");
}

/// What makes a database grow is refused, and leaves nothing.
fn refuse_what_grows(database: &Database, towns: i64) {
    let table = database.table("towns").unwrap();
    let name = "n".repeat(SEGMENT_BYTES / 2);
    assert_is_full(&table.insert((towns + 7, "more", &*name)).unwrap_err());
    assert_is_full(&table.update(1, &[("note", Value::Text((&*name).into()))]).unwrap_err());
    let schema = TableSchema::new("more").column(Column::new("id", DataType::I64)).key(["id"]);
    assert_is_full(&database.create_table(&schema).err().unwrap());
    assert_is_full(&database.create_index("towns", IndexSchema::new("more", ["name"]), &mut |_| ()).unwrap_err());
    assert_is_full(&database.add_column("towns", Column::new("more", DataType::I64)).unwrap_err());
    // What frees space lets nothing in beside it.
    let both = |transaction: &RowTransaction<'_>| {
        transaction.table("streets")?.delete_range(..)?;
        transaction.table("other")?.insert((5, &*name))
    };
    assert_is_full(&database.write(both).unwrap_err());
    let transaction = database.begin();
    transaction.definitions().drop_index("towns", "name").unwrap();
    transaction.table("other").unwrap().insert((5, &*name)).unwrap();
    assert_is_full(&transaction.commit().unwrap_err());
    assert_eq!(database.tables().unwrap(), ["other", "streets", "towns"]);
    assert_eq!(table.schema().unwrap().indexes.len(), 1);
    assert_eq!((table.len().unwrap(), database.table("streets").unwrap().len().unwrap()), (towns as u64, towns as u64));
    check(database);
}

fn check(database: &Database) {
    let problems = quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

type Removal = fn(&Database, i64) -> quipu::Result<()>;
/// Of so many towns those that are left; none if their table is not.
type Left = fn(i64) -> Option<u64>;

/// Ways to free space, each with the towns that are left of so many.
const REMOVALS: [(&str, Removal, Left); 11] = [
    (
        "rows one by one, and what refers to them",
        |database, towns| (1..=towns).try_for_each(|id| database.table("towns")?.delete(id).map(drop)),
        |_| Some(0),
    ),
    (
        "a range of rows",
        |database, _| database.write(|transaction| transaction.table("towns")?.delete_range(..).map(drop)),
        |_| Some(0),
    ),
    (
        "a range in an optimistic transaction",
        |database, towns| {
            let transaction = database.begin();
            transaction.table("towns")?.delete_range(Span::lt(towns))?;
            transaction.commit()
        },
        |_| Some(1),
    ),
    (
        "tables emptied, with their numbers",
        |database, _| database.write(|transaction| transaction.definitions().truncate(&["streets", "towns"], true)),
        |_| Some(0),
    ),
    (
        "tables emptied in an optimistic transaction",
        |database, _| {
            let transaction = database.begin();
            transaction.definitions().truncate(&["streets", "towns"], false)?;
            transaction.commit()
        },
        |_| Some(0),
    ),
    ("an index", |database, _| database.drop_index("towns", "name"), |towns| Some(towns as u64)),
    (
        "an index in an optimistic transaction",
        |database, _| {
            let transaction = database.begin();
            transaction.definitions().drop_index("towns", "name")?;
            transaction.commit()
        },
        |towns| Some(towns as u64),
    ),
    (
        "a table that refers to another",
        |database, _| database.drop_table("streets").map(drop),
        |towns| Some(towns as u64),
    ),
    (
        "tables",
        |database, _| database.drop_table("streets").and_then(|_| database.drop_table("towns")).map(drop),
        |_| None,
    ),
    (
        "tables in a transaction",
        |database, _| {
            database.write(|transaction| {
                let definitions = transaction.definitions();
                definitions.drop_table("streets").and_then(|_| definitions.drop_table("towns")).map(drop)
            })
        },
        |_| None,
    ),
    (
        "tables in an optimistic transaction",
        |database, _| {
            let transaction = database.begin();
            transaction.definitions().drop_table("streets")?;
            transaction.definitions().drop_table("towns")?;
            transaction.commit()
        },
        |_| None,
    ),
];

#[test]
fn rows_tables_and_indexes_go_on_a_full_disk_and_the_database_grows_again() {
    for seed in seeds(REMOVALS.len() as u64) {
        let (name, remove, left) = REMOVALS[seed as usize % REMOVALS.len()];
        for rows in [Rows::InLog, Rows::InRuns] {
            let what = format!("{name}, with rows {rows:?}");
            let disk = SimDisk::new();
            let database = open(&disk);
            create_tables(&database);
            let towns = fill(&disk, &database, rows);
            if rows == Rows::InLog && left(towns) == Some(towns as u64) {
                // What stays in memory does not fit into the space that is kept.
                continue;
            }
            assert!(towns > 80, "{towns}");
            refuse_what_grows(&database, towns);
            remove(&database, towns).unwrap_or_else(|error| panic!("{what}: {error}"));
            let count = || database.open_table("towns").unwrap().map(|table| table.len().unwrap());
            assert_eq!(count(), left(towns), "{what}");
            let full = disk.used_bytes();
            if count() == Some(towns as u64) {
                // What stays in memory takes space before the log gives back its own.
                disk.set_capacity(full + 4 * SEGMENT_BYTES as u64);
            }
            database.db().checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
            disk.set_capacity(full);
            let other = database.table("other").unwrap();
            for id in 0..20 {
                let inserted = other.insert((id, "o".repeat(200)));
                inserted.unwrap_or_else(|error| panic!("{what}, row {id}: {error}"));
            }
            check(&database);
            drop((other, database));
            let database = open(&disk.kill());
            let count = database.open_table("towns").unwrap().map(|table| table.len().unwrap());
            assert_eq!((count, database.table("other").unwrap().len().unwrap()), (left(towns), 21), "{what}");
            check(&database);
        }
    }
}
