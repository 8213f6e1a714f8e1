//! Goal: changes of definitions within a transaction are seen by it at once and by others after its commit, are undone
//! with it or with a savepoint, and conflict with what others do to the same table; whatever ends the transaction, no
//! tree is left that no definition names. Method: each change is made in both kinds of transactions, rolled back,
//! rolled back to a savepoint and committed, beside another session that reads and writes, and the whole is checked.

use quipu::{Db, ErrorKind, Options, Result};
use quipu_rows::{
    Action, Check, Column, DataType, Database, DefinitionsIn, ForeignKey, Identity, IndexSchema, Isolation, Ordered,
    Span, TableSchema, Value,
};

fn set_up() -> Database {
    let database = Database::open(&Db::open("/definitions", Options::without_files()).unwrap()).unwrap();
    let carriers = TableSchema::new("carriers")
        .column(Column::new("code", DataType::TEXT))
        .column(Column::new("name", DataType::TEXT))
        .key(["code"]);
    let flights = TableSchema::new("flights")
        .column(Column::new("id", DataType::I32).identity(Identity::ByDefault))
        .column(Column::new("carrier", DataType::TEXT).not_null())
        .column(Column::new("delay", DataType::I32))
        .column(Column::new("note", DataType::TEXT).default("'none'"))
        .key(["id"])
        .index(IndexSchema::new("delay", ["delay"]).include(["note"]))
        .check("possible", "delay > -100")
        .foreign_key(ForeignKey::new("of_carrier", ["carrier"], "carriers").on_delete(Action::Cascade));
    let log = TableSchema::new("log").column(Column::new("what", DataType::TEXT));
    database.create_table(&carriers).unwrap();
    database.create_table(&flights).unwrap();
    database.create_table(&log).unwrap();
    for code in ["AA", "B6", "UA"] {
        database.table("carriers").unwrap().insert((code, format!("carrier {code}"))).unwrap();
        database.table("log").unwrap().insert(code).unwrap();
    }
    for id in 0..12 {
        let carrier = ["AA", "B6", "UA"][id as usize % 3];
        let delay = (id % 4 != 0).then_some(id % 5);
        database.table("flights").unwrap().insert((id, carrier, delay, format!("note {id}"))).unwrap();
    }
    database
}

type Make = fn(&DefinitionsIn<'_>) -> Result<()>;

/// Each with the table that it changes.
const CHANGES: [(&str, &str, Make); 27] = [
    ("create a table", "crews", |definitions| {
        let crews = TableSchema::new("crews")
            .column(Column::new("id", DataType::I32).identity(Identity::Always))
            .column(Column::new("flight", DataType::I32))
            .key(["id"])
            .foreign_key(ForeignKey::new("of_flight", ["flight"], "flights"));
        definitions.create_table(&crews)
    }),
    ("drop a table", "flights", |definitions| definitions.drop_table("flights").map(drop)),
    ("drop a table without a key", "log", |definitions| definitions.drop_table("log").map(drop)),
    ("rename a table", "carriers", |definitions| definitions.rename_table("carriers", "companies")),
    ("truncate a table", "flights", |definitions| definitions.truncate(&["flights"], true)),
    ("truncate two tables", "carriers", |definitions| definitions.truncate(&["carriers", "flights"], false)),
    ("comment", "flights", |definitions| definitions.set_comment("flights", "what flies")),
    ("add a column", "flights", |definitions| {
        definitions.add_column("flights", Column::new("seats", DataType::I16).not_null().default("150"))
    }),
    ("add a column with a value", "flights", |definitions| {
        let column = Column { sql_default: Some("now()".to_owned()), ..Column::new("at", DataType::I64).not_null() };
        definitions.add_column_with("flights", column, &Value::Int(7))
    }),
    ("add a column with values", "flights", |definitions| {
        let column = Column::new("twice", DataType::I64);
        definitions.add_column_filled("flights", column, &mut |row| match row.get("id")? {
            Value::Int(id) => Ok(Value::Int(2 * id)),
            _ => Ok(Value::Null),
        })
    }),
    ("add numbers", "carriers", |definitions| {
        let column = Column::new("number", DataType::I64).identity(Identity::ByDefault);
        definitions.add_column_filled("carriers", column, &mut |_| Ok(Value::Null))
    }),
    ("drop a column", "carriers", |definitions| definitions.drop_column("carriers", "name")),
    ("rename a column", "flights", |definitions| definitions.rename_column("flights", "delay", "late")),
    ("set a default", "flights", |definitions| definitions.set_default("flights", "note", Some("'other'"))),
    ("set a default of SQL", "flights", |definitions| definitions.set_sql_default("flights", "note", Some("now()"))),
    ("widen a column", "carriers", |definitions| {
        definitions.add_column("carriers", Column::new("size", DataType::I16))?;
        definitions.alter_column_type("carriers", "size", (DataType::I64, None), None)
    }),
    ("widen an included key", "flights", |definitions| {
        definitions.alter_column_type("flights", "delay", (DataType::I64, Some("int8".to_owned())), None)
    }),
    ("convert a column", "flights", |definitions| {
        let text = |_: &quipu_rows::RowView<'_>, value: &Value<'_>| Ok(Value::from(format!("<{value}>")));
        definitions.drop_constraint("flights", "possible")?;
        definitions.alter_column_type("flights", "delay", (DataType::TEXT, None), Some(&text))
    }),
    ("make a column NOT NULL", "flights", |definitions| definitions.set_not_null("flights", "note")),
    ("let a column be NULL", "flights", |definitions| definitions.drop_not_null("flights", "carrier")),
    ("give a column numbers", "flights", |definitions| definitions.set_identity("flights", "id", None)),
    ("add a key", "log", |definitions| {
        definitions.set_primary_key("log", &["what desc".to_owned()], Some("log_pkey".to_owned()))
    }),
    ("add constraints", "flights", |definitions| {
        definitions.add_column("flights", Column::new("other", DataType::TEXT))?;
        definitions.add_check("flights", Check::new("short", "length(note) < 10"))?;
        definitions.add_foreign_key("flights", ForeignKey::new("of_other", ["other"], "carriers"))
    }),
    ("drop the indexes that a foreign key goes by", "flights", |definitions| {
        definitions.create_index("flights", IndexSchema::new("mine", ["carrier"]))?;
        definitions.relieve_index("flights", Some("of_carrier_index"))?;
        definitions.drop_index("flights", "of_carrier_index")?;
        definitions.relieve_index("flights", Some("mine"))?;
        definitions.drop_index("flights", "mine")
    }),
    ("add a check that is not valid", "flights", |definitions| {
        definitions.add_check("flights", Check { not_valid: true, ..Check::new("few", "id < 5") })
    }),
    ("create indexes", "flights", |definitions| {
        definitions.create_index("flights", IndexSchema::new("unique", ["note"]).unique())?;
        definitions
            .create_index("flights", IndexSchema::new("late", ["delay desc"]).predicate("delay > 2").sum("delay"))
    }),
    ("drop an index", "flights", |definitions| {
        definitions.rename_constraint("flights", "delay", "gone")?;
        definitions.drop_index("flights", "gone")
    }),
];

/// What is declared, and the rows, by table.
fn state(database: &Database) -> Vec<(String, Vec<String>)> {
    let now = database.snapshot();
    let state = now.tables().unwrap().into_iter().map(|name| {
        let table = now.table(&name).unwrap();
        let rows = table.rows(Span::all()).unwrap().map(|row| format!("{:?}", row.unwrap()));
        (table.schema().to_json(), rows.collect())
    });
    state.collect()
}

fn check(database: &Database, what: &str) {
    let found = quipu_rows::check(database.db(), &mut |_| ()).unwrap();
    assert_eq!((found.problems, found.notes), (Vec::new(), Vec::new()), "{what}");
    let trees = database.tree_names().unwrap();
    for tree in database.db().tables() {
        let is_named = trees.contains_key(tree.name()) || ["rows.catalogue", "rows.numbers"].contains(&tree.name());
        assert!(is_named, "{what}: {} is left", tree.name());
    }
}

/// What is seen in the transaction is what others see after the commit.
fn seen(transaction: &quipu_rows::RowTransaction<'_>) -> Vec<(String, u64)> {
    let names = transaction.definitions().tables().unwrap();
    let tables = names.keys().map(|name| {
        let table = transaction.table(name).unwrap();
        (table.schema().to_json(), table.len().unwrap())
    });
    tables.collect()
}

/// The trees of a table whose change was refused used to be dropped with the transaction, so its rows were lost and the
/// database could not be opened. Found by the storm.
#[test]
fn a_change_that_is_refused_half_way_leaves_the_rows_of_its_table() {
    let disk = quipu::io::sim::SimDisk::new();
    let options = || quipu::Options { disk: std::sync::Arc::new(disk.clone()), ..quipu::Options::default() };
    let database = Database::open(&Db::open("/db", options()).unwrap()).unwrap();
    let column = |name: &str, data_type| Column::new(name, data_type);
    let schema =
        TableSchema::new("t").column(column("id", DataType::I32)).column(column("n", DataType::I32)).key(["id"]);
    let table = database.create_table(&schema.check("small", "n < 100")).unwrap();
    table.insert((1, 10)).unwrap();
    let transaction = database.begin();
    let definitions = transaction.definitions();
    definitions.create_table(&TableSchema::new("other").column(column("x", DataType::I8))).unwrap();
    let refuse = |_: &quipu_rows::RowView<'_>, _: &Value<'_>| Err(quipu::Error::new(quipu::ErrorKind::Invalid, "no"));
    definitions.alter_column_type("t", "n", (DataType::TEXT, None), Some(&refuse)).unwrap_err();
    drop(transaction);
    assert_eq!(table.get(1).unwrap().unwrap().values().unwrap(), [Value::Int(1), Value::Int(10)]);
    drop((table, database));
    let database = Database::open(&Db::open("/db", options()).unwrap()).unwrap();
    assert_eq!(database.table("t").unwrap().len().unwrap(), 1);
}

#[test]
fn a_change_is_seen_at_once_by_its_transaction_and_by_others_after_the_commit() {
    for (name, _, make) in CHANGES {
        for isolation in [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted] {
            let database = set_up();
            let (before, version) = (state(&database), database.catalogue_version().unwrap());
            let transaction = database.begin_with(isolation);
            assert_eq!(transaction.catalogue_version().unwrap(), version);
            make(&transaction.definitions()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_ne!(transaction.catalogue_version().unwrap(), version, "{name}");
            assert_eq!(state(&database), before, "{name}: others see it too early");
            let within = seen(&transaction);
            transaction.commit().unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(seen(&database.begin()), within, "{name}");
            assert_ne!(database.catalogue_version().unwrap(), version, "{name}");
            check(&database, name);
        }
        let database = set_up();
        let within = database.write(|transaction| {
            make(&transaction.definitions())?;
            Ok(seen(transaction))
        });
        assert_eq!(seen(&database.begin()), within.unwrap(), "{name}");
        check(&database, name);
    }
}

#[test]
fn a_change_is_undone_with_its_transaction_and_with_a_savepoint() {
    for (name, _, make) in CHANGES {
        let database = set_up();
        let before = state(&database);
        let transaction = database.begin();
        make(&transaction.definitions()).unwrap();
        transaction.rollback();
        assert_eq!(state(&database), before, "{name}");
        check(&database, name);
        let failed = database.write(|transaction| {
            make(&transaction.definitions())?;
            Err::<(), _>(quipu::Error::new(ErrorKind::Invalid, "no"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no", "{name}");
        assert_eq!(state(&database), before, "{name}");
        check(&database, name);
        // Back to a savepoint, then again, and what is written then stays.
        for is_single in [false, true] {
            let database = set_up();
            let twice = |transaction: &quipu_rows::RowTransaction<'_>| {
                let within = seen(transaction);
                let savepoint = transaction.savepoint();
                make(&transaction.definitions())?;
                let after = seen(transaction);
                transaction.rollback_to(savepoint)?;
                assert_eq!(seen(transaction), within, "{name}");
                transaction.table("log")?.insert("undone")?;
                transaction.table("log")?.delete_range(Span::all())?;
                transaction.rollback_to(savepoint)?;
                make(&transaction.definitions())?;
                assert_eq!(seen(transaction), after, "{name}");
                transaction.release(savepoint)?;
                Ok(after)
            };
            let after = if is_single {
                database.write(twice).unwrap()
            } else {
                let transaction = database.begin();
                let after = twice(&transaction).unwrap();
                transaction.commit().unwrap();
                after
            };
            assert_eq!(seen(&database.begin()), after, "{name}");
            check(&database, name);
        }
    }
}

#[test]
fn two_changes_of_one_table_conflict_and_so_do_a_change_and_rows_that_others_write() {
    for (name, table, make) in CHANGES {
        let database = set_up();
        let (first, second) = (database.begin(), database.begin());
        make(&first.definitions()).unwrap();
        make(&second.definitions()).unwrap();
        first.commit().unwrap();
        assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict, "{name}");
        check(&database, name);
        if table == "crews" {
            continue;
        }
        // Rows that were written before the change was committed.
        let database = set_up();
        let (change, write) = (database.begin(), database.begin());
        make(&change.definitions()).unwrap();
        let row = match table {
            "flights" => vec![Value::Int(77), Value::from("AA"), Value::Int(3), Value::from("new")],
            "carriers" => vec![Value::from("DL"), Value::from("Delta")],
            _ => vec![Value::from("more")],
        };
        write.table(table).unwrap().insert(row).unwrap();
        change.commit().unwrap();
        assert_eq!(write.commit().unwrap_err().kind(), ErrorKind::Conflict, "{name}");
        check(&database, name);
    }
}

/// What looks at all rows relies on them.
#[test]
fn an_index_or_a_constraint_conflicts_with_rows_that_were_written_meanwhile() {
    let changes: [Make; 4] = [
        |definitions| definitions.create_index("log", IndexSchema::new("what", ["what"])),
        |definitions| definitions.add_check("log", Check::new("short", "length(what) < 5")),
        |definitions| definitions.set_not_null("log", "what"),
        |definitions| definitions.set_primary_key("log", &["what".to_owned()], None),
    ];
    for make in changes {
        for isolation in [Isolation::Serializable, Isolation::Snapshot, Isolation::ReadCommitted] {
            let database = set_up();
            let transaction = database.begin_with(isolation);
            make(&transaction.definitions()).unwrap();
            database.table("log").unwrap().insert("much more").unwrap();
            assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
            check(&database, "after a conflict");
        }
    }
}

#[test]
fn rows_are_written_by_the_definition_of_now() {
    let database = set_up();
    database
        .write(|transaction| {
            let stale = transaction.table("flights")?;
            let definitions = transaction.definitions();
            definitions.create_index("flights", IndexSchema::new("note", ["note"]).unique())?;
            assert_eq!(stale.insert((50, "AA", 1, "x")).unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(stale.delete(5).unwrap_err().kind(), ErrorKind::Invalid);
            let flights = transaction.table("flights")?;
            flights.insert((50, "AA", 1, "x"))?;
            assert_eq!(flights.insert((51, "AA", 1, "x")).unwrap_err().kind(), ErrorKind::Exists);
            definitions.rename_table("carriers", "companies")?;
            // A change of one table leaves others as they are, but for the names that they refer to.
            transaction.table("flights")?.insert((52, "B6", 1, "y"))?;
            transaction.table("companies")?.delete("AA")?;
            assert_eq!(transaction.table("flights")?.len()?, 9);
            definitions.truncate(&["flights"], true)?;
            let row = transaction.table("flights")?.insert_columns(&["carrier", "note"], ("UA", "1"))?;
            assert_eq!(row.get("id")?, Value::Int(1));
            definitions.set_next_number("flights", "id", 100)?;
            let row = transaction.table("flights")?.insert_columns(&["carrier", "note"], ("UA", "2"))?;
            assert_eq!(row.get("id")?, Value::Int(100));
            Ok(())
        })
        .unwrap();
    let row = database.table("flights").unwrap().insert_columns(&["carrier", "note"], ("UA", "3")).unwrap();
    assert_eq!(row.get("id").unwrap(), Value::Int(101));
    check(&database, "at the end");
}

/// What fails half way leaves nothing, and the transaction goes on.
#[test]
fn a_change_that_is_refused_has_done_nothing() {
    let database = set_up();
    let before = state(&database);
    let refused: [(Make, ErrorKind); 9] = [
        (|d| d.create_table(&TableSchema::new("log").column(Column::new("x", DataType::I8))), ErrorKind::Exists),
        (|d| d.drop_table("carriers").map(drop), ErrorKind::Invalid),
        (|d| d.truncate(&["carriers"], false), ErrorKind::Invalid),
        (|d| d.add_check("flights", Check::new("no", "id < 5")), ErrorKind::Invalid),
        (|d| d.set_not_null("flights", "delay"), ErrorKind::Invalid),
        (|d| d.create_index("flights", IndexSchema::new("one", ["carrier"]).unique()), ErrorKind::Exists),
        (|d| d.set_primary_key("flights", &["carrier".to_owned()], None), ErrorKind::Exists),
        (|d| d.set_primary_key("carriers", &["name".to_owned()], None), ErrorKind::Invalid),
        (
            |d| d.alter_column_type("carriers", "code", (DataType::I64, None), Some(&|_, _| Ok(Value::Int(1)))),
            ErrorKind::Exists,
        ),
    ];
    database
        .write(|transaction| {
            for (place, (make, kind)) in refused.iter().enumerate() {
                let error = make(&transaction.definitions()).expect_err(&place.to_string());
                assert_eq!(error.kind(), *kind, "{place}: {error}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(state(&database), before);
    check(&database, "what is refused");
}

#[test]
fn a_database_that_is_open_read_only_says_so_of_each_change() {
    for has_rows in [false, true] {
        let disk = quipu::io::sim::SimDisk::new();
        let options =
            |read_only| Options { disk: std::sync::Arc::new(disk.clone()), read_only, ..Options::without_files() };
        let db = Db::open("/definitions", options(false)).unwrap();
        if has_rows {
            let towns = TableSchema::new("towns").column(Column::new("name", DataType::TEXT)).key(["name"]);
            Database::open(&db).unwrap().create_table(&towns).unwrap();
        }
        drop(db);
        let database = Database::open(&Db::open("/definitions", options(true)).unwrap()).unwrap();
        let roads = TableSchema::new("roads").column(Column::new("name", DataType::TEXT)).key(["name"]);
        let refused = database.create_table(&roads).err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::ReadOnly), "has rows: {has_rows}");
        if has_rows {
            let column = Column::new("people", DataType::I64);
            assert_eq!(database.add_column("towns", column).unwrap_err().kind(), ErrorKind::ReadOnly);
            assert_eq!(database.drop_table("towns").unwrap_err().kind(), ErrorKind::ReadOnly);
        }
    }
}

#[test]
fn what_is_not_valid_binds_new_rows_and_old_ones_once_it_is_validated() {
    let database = set_up();
    let not_valid = Check { not_valid: true, ..Check::new("few", "id > 5") };
    let nowhere =
        ForeignKey { not_valid: true, ..ForeignKey::new("of_note", ["note"], "carriers").references(["code"]) };
    database.write(|tx| tx.definitions().add_check("flights", not_valid.clone())).unwrap();
    let added = database.add_foreign_key("flights", nowhere.clone(), &mut |_| ());
    added.unwrap();
    check(&database, "rows of before break what is not valid");
    let flights = database.table("flights").unwrap();
    for (id, note) in [(-1, "AA"), (20, "nowhere")] {
        assert_eq!(flights.insert((id, "AA", 1, note)).unwrap_err().kind(), ErrorKind::Invalid, "{id}");
    }
    flights.insert((20, "AA", 1, "AA")).unwrap();
    let validate = |name: &str| database.write(|tx| tx.definitions().validate_constraint("flights", name));
    assert_eq!(validate("few").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(validate("of_note").unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!validate("nothing").unwrap());
    let schema = || database.table("flights").unwrap().schema().unwrap();
    assert_eq!((schema().checks.last(), schema().foreign_keys.last()), (Some(&not_valid), Some(&nowhere)));
    for id in 0..12 {
        flights.delete(id).unwrap();
    }
    assert!(validate("few").unwrap() && validate("of_note").unwrap());
    assert!(!schema().checks.iter().any(|check| check.not_valid));
    assert!(!schema().foreign_keys.iter().any(|foreign_key| foreign_key.not_valid));
    check(&database, "all rows keep them");
}
