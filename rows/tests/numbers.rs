//! Numbers of identity columns, where a story tells it better than the model (`numbers_model.rs`).

use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Options, ReadableTable, Result};
use quipu_rows::{
    Column, Constraint, DataType, Database, Identity, IndexSchema, RowTable, TableSchema, Value, Violation,
};

fn database() -> Database {
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

fn numbered(data_type: DataType, identity: Identity) -> TableSchema {
    TableSchema::new("t")
        .column(Column::new("id", data_type).identity(identity))
        .column(Column::new("v", DataType::I64))
        .key(["id"])
        .check("positive", "v > 0")
}

fn insert(table: &RowTable) -> Result<i128> {
    match table.insert_columns(&["v"], 1)?.get("id")? {
        Value::Int(number) => Ok(number),
        other => panic!("{other}"),
    }
}

fn all_given_out(result: Result<i128>) -> String {
    let error = result.unwrap_err();
    let violation = Violation::of(&error).expect("a violation");
    assert_eq!((error.kind(), violation.constraint), (ErrorKind::Invalid, Constraint::NumbersUsedUp), "{error}");
    error.to_string()
}

#[test]
fn a_table_with_a_small_type_that_is_opened_for_each_row_takes_as_many_rows_as_the_type_has_numbers() {
    for (data_type, last) in [(DataType::I8, 127), (DataType::U8, 255)] {
        for is_killed in [false, true] {
            let mut disk = SimDisk::new();
            for number in 1..=last {
                let options = Options {
                    disk: std::sync::Arc::new(disk.clone()),
                    log_segment_bytes: 64 << 10,
                    memory_bytes: 64 << 20,
                    ..Options::without_files()
                };
                let database = Database::open(&Db::open("/rows", options).unwrap()).unwrap();
                if number == 1 {
                    database.create_table(&numbered(data_type, Identity::Always)).unwrap();
                }
                let table = database.table("t").unwrap();
                assert_eq!(insert(&table).unwrap(), number);
                if number == last {
                    assert_eq!(
                        all_given_out(insert(&table)),
                        format!(
                            "table t has given out all numbers of column id, up to {last}, the last of {data_type}: \
                             set its next number to one that is free (`set_next_number`), or move the rows to a table \
                             with a wider type"
                        )
                    );
                }
                if is_killed {
                    disk = disk.kill();
                }
            }
        }
    }
}

#[test]
fn an_insert_that_a_check_or_the_range_refuses_takes_no_number() {
    let database = database();
    let table = database.create_table(&numbered(DataType::I8, Identity::ByDefault)).unwrap();
    for expected in 1..=10 {
        for _ in 0..30 {
            table.insert((None::<i8>, -1)).unwrap_err();
        }
        table.insert((127, -1)).unwrap_err();
        table.insert((1_000, 1)).unwrap_err();
        table.insert((i64::MAX, 1)).unwrap_err();
        table.put((126, -1)).unwrap_err();
        assert_eq!(insert(&table).unwrap(), expected);
        table.update(Value::Int(expected), &[("id", Value::Int(120)), ("v", Value::Int(-1))]).unwrap_err();
    }
}

#[test]
fn a_transaction_that_is_rolled_back_gives_its_numbers_back() {
    let database = database();
    let table = database.create_table(&numbered(DataType::I64, Identity::ByDefault)).unwrap();
    let last = i64::MAX;
    let never_mind = database.write(|transaction| {
        transaction.table("t")?.insert((last, 1))?;
        transaction.table("t")?.insert((None::<i64>, 1)).unwrap_err();
        Err::<(), _>(quipu::Error::new(ErrorKind::Invalid, "never mind"))
    });
    never_mind.unwrap_err();
    let open = database.begin();
    open.table("t").unwrap().insert((last, 1)).unwrap();
    drop(open);
    assert_eq!(insert(&table).unwrap(), 1);
    assert_eq!(database.next_number("t", "id").unwrap(), Some(2));
}

#[test]
fn transactions_that_are_open_at_once_get_different_numbers_and_do_not_conflict() {
    let database = database();
    let table = database.create_table(&numbered(DataType::I8, Identity::Always)).unwrap();
    let open: Vec<_> = (0..5).map(|_| database.begin()).collect();
    for number in 1..=20 {
        let row = open[number % 5].table("t").unwrap().insert_columns(&["v"], 1).unwrap();
        assert_eq!(row.get("id").unwrap(), Value::Int(number as i128));
    }
    for (place, transaction) in open.into_iter().enumerate() {
        if place == 2 { transaction.rollback() } else { transaction.commit().unwrap() }
    }
    assert_eq!((table.len().unwrap(), insert(&table).unwrap()), (16, 21));
}

#[test]
fn threads_that_insert_at_once_get_every_number_once() {
    let database = database();
    let table = database.create_table(&numbered(DataType::U8, Identity::Always)).unwrap();
    let insert_all = |is_optimistic: bool| {
        loop {
            let inserted = if is_optimistic {
                let transaction = database.begin();
                let inserted = transaction.table("t").and_then(|t| t.insert_columns(&["v"], 1).map(drop));
                inserted.and_then(|()| transaction.commit())
            } else {
                insert(&table).map(drop)
            };
            match inserted {
                Ok(()) => {}
                Err(error) if error.to_string().starts_with("table t has given out all numbers") => return,
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || insert_all(thread % 2 == 0));
        }
    });
    assert_eq!(table.len().unwrap(), 255);
}

#[test]
fn the_next_number_is_set_where_all_have_been_given_out_and_those_that_rows_have_are_passed_over() {
    let database = database();
    let table = database.create_table(&numbered(DataType::I8, Identity::ByDefault)).unwrap();
    for number in [127, 3, 4] {
        table.insert((number, 1)).unwrap();
    }
    all_given_out(insert(&table));
    table.delete(127).unwrap();
    all_given_out(insert(&table));
    assert_eq!(database.next_number("t", "id").unwrap(), None);
    database.set_next_number("t", "id", 2).unwrap();
    assert_eq!([insert(&table).unwrap(), insert(&table).unwrap()], [2, 5]);
    // `put` passes over them as well, and replaces no row.
    database.set_next_number("t", "id", 2).unwrap();
    assert!(!table.put((None::<i8>, 9)).unwrap());
    assert_eq!(table.get(6).unwrap().unwrap().get("v").unwrap(), Value::Int(9));
    database.set_next_number("t", "id", -128).unwrap();
    assert_eq!(insert(&table).unwrap(), -128);
    let error = database.set_next_number("t", "id", 128).unwrap_err();
    assert_eq!(error.to_string(), "table t, column id: 128 is out of the range of i8, -128 to 127");
    let error = database.set_next_number("t", "v", 1).unwrap_err();
    assert_eq!(error.to_string(), "column v of table t has no numbers of the table (`identity`)");
    assert_eq!(database.set_next_number("u", "v", 1).unwrap_err().kind(), ErrorKind::Missing);
}

/// A table whose identity column is not its key.
fn beside_a_key(identity: Identity, is_unique: bool) -> TableSchema {
    let by_number = IndexSchema::new("by_number", ["number"]);
    TableSchema::new("t")
        .column(Column::new("name", DataType::TEXT))
        .column(Column::new("number", DataType::U8).identity(identity))
        .column(Column::new("v", DataType::I64))
        .key(["name"])
        .index(if is_unique { by_number.unique() } else { by_number })
}

#[test]
fn a_number_that_an_update_brings_is_not_given_out_later() {
    for is_unique in [false, true] {
        let database = database();
        let table = database.create_table(&beside_a_key(Identity::ByDefault, is_unique)).unwrap();
        let number_of = |name: &str| table.get(name).unwrap().unwrap().get("number").unwrap().into_owned();
        table.insert(("a", None::<u8>, 1)).unwrap();
        table.update("a", &[("number", Value::Int(5))]).unwrap();
        table.insert(("b", None::<u8>, 1)).unwrap();
        assert_eq!(number_of("b"), Value::Int(6));
        database
            .write(|transaction| transaction.table("t")?.update_with("a", |_| Ok(vec![(1, Value::Int(8))])))
            .unwrap();
        table.put(("b", 10, 1)).unwrap();
        table.put(("b", None::<u8>, 1)).unwrap();
        assert_eq!((number_of("a"), number_of("b")), (Value::Int(8), Value::Int(11)));
        let changed = database.write(|transaction| {
            let table = transaction.table("t")?;
            let change = table.change(&["number"], |_| Ok(vec![Value::Int(20)]))?;
            table.apply("a", &change)
        });
        assert!(changed.unwrap());
        table.insert(("c", None::<u8>, 1)).unwrap();
        assert_eq!(number_of("c"), Value::Int(21));
    }
}

#[test]
fn a_row_that_is_replaced_keeps_its_number_and_takes_no_other() {
    let database = database();
    let table = database.create_table(&beside_a_key(Identity::Always, true)).unwrap();
    for _ in 0..300 {
        table.put(("a", None::<u8>, 1)).unwrap();
    }
    table.insert(("b", None::<u8>, 1)).unwrap();
    let numbers = ["a", "b"].map(|name| table.get(name).unwrap().unwrap().get("number").unwrap().into_owned());
    assert_eq!(numbers, [Value::Int(1), Value::Int(2)]);
    // One that another row has is passed over in a unique index.
    database.set_next_number("t", "number", 1).unwrap();
    table.insert(("c", None::<u8>, 1)).unwrap();
    assert_eq!(table.get("c").unwrap().unwrap().get("number").unwrap(), Value::Int(3));
}

#[test]
fn rows_of_another_database_bring_their_numbers_into_a_column_that_always_has_its_own() {
    let database = database();
    let table = database.create_table(&numbered(DataType::I32, Identity::Always)).unwrap();
    table.insert((7, 1)).unwrap_err();
    let refused = database.begin_load("t", &Default::default()).unwrap().push(&[7.into(), 1.into()]);
    assert_eq!(Violation::of(&refused.unwrap_err()).unwrap().constraint, Constraint::Identity);
    // A load that is given up takes none.
    let mut load = database.begin_load("t", &Default::default()).unwrap().bringing_numbers();
    load.push(&[2_000.into(), 1.into()]).unwrap();
    drop(load);
    let mut load = database.begin_load("t", &Default::default()).unwrap().bringing_numbers();
    for number in [70, 7, 700] {
        load.push(&[number.into(), 1.into()]).unwrap();
    }
    load.push(&[Value::Null, 1.into()]).unwrap();
    load.commit(&mut |_| ()).unwrap();
    assert!(table.contains(701).unwrap());
    assert_eq!(insert(&table).unwrap(), 702);
    let written = database.write(|transaction| {
        let table = transaction.table("t")?.bringing_numbers();
        table.insert((800, 1))?;
        table.put((800, 2))?;
        table.update(800, &[("id", Value::Int(900))])
    });
    assert!(written.unwrap());
    assert_eq!(insert(&table).unwrap(), 901);
}

#[test]
fn a_column_that_is_dropped_and_added_again_begins_anew_and_so_does_a_table() {
    let database = database();
    let schema = TableSchema::new("t").column(Column::new("name", DataType::TEXT)).key(["name"]);
    let numbers = |database: &Database| database.db().ensure_table("rows.numbers").unwrap().len().unwrap();
    let before = numbers(&database);
    let table = database.create_table(&schema).unwrap();
    for _ in 0..2 {
        database.add_column("t", Column::new("number", DataType::U8).identity(Identity::Always)).unwrap();
        table.insert_columns(&["name"], "a").unwrap();
        assert_eq!(table.get("a").unwrap().unwrap().get("number").unwrap(), Value::Int(1));
        table.delete("a").unwrap();
        assert_eq!(numbers(&database), before + 1);
        database.drop_column("t", "number").unwrap();
    }
    database.create_table(&TableSchema { table: "u".into(), ..numbered(DataType::I64, Identity::Always) }).unwrap();
    database.drop_table("u").unwrap();
    assert_eq!(numbers(&database), before);
}
