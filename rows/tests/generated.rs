//! Goal: a generated column has what its expression comes to, whichever way its row is written, and no other value is
//! taken. Method: an expression that this file computes, and each kind of write.

use quipu::{Db, ErrorKind, Options, Result};
use quipu_rows::generated::compute_generated_by;
use quipu_rows::{
    Action, BuildOptions, Column, Constraint, DataType, Database, ForeignKey, IndexSchema, Ordered, Span, TableSchema,
    Value, Violation,
};

/// The one expression: twice the column whose name it is; an error for 13.
fn set_up() -> Database {
    compute_generated_by(|schema, place| {
        let name = schema.columns[place].generated.clone().unwrap_or_default();
        let read = schema.place(&name).expect("a column");
        Ok(Box::new(move |row| match &row[read] {
            Value::Int(13) => Err(quipu::Error::new(ErrorKind::Invalid, "thirteen")),
            Value::Int(value) => Ok(Value::Int(2 * value)),
            _ => Ok(Value::Null),
        }))
    });
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

fn schema(name: &str) -> TableSchema {
    let twice = Column { generated: Some("v".to_owned()), ..Column::new("twice", DataType::I64) };
    TableSchema::new(name)
        .column(Column::new("id", DataType::I64))
        .column(Column::new("v", DataType::I64))
        .column(twice)
        .key(["id"])
}

fn is_generated(result: Result<impl std::fmt::Debug>) -> bool {
    let error = result.expect_err("refused");
    Violation::of(&error).is_some_and(|violation| violation.constraint == Constraint::Generated)
}

fn rows(database: &Database, table: &str) -> Vec<(i128, Option<i128>)> {
    let table = database.table(table).unwrap();
    let int = |value: Value<'_>| if let Value::Int(value) = value { Some(value) } else { None };
    let row = |id: i64| table.get(id).unwrap().map(|row| (i128::from(id), int(row.get("twice").unwrap())));
    (0..40).filter_map(row).collect()
}

#[test]
fn it_is_computed_by_whatever_writes_its_row() {
    let database = set_up();
    let table = database.create_table(&schema("t").index(IndexSchema::new("doubled", ["twice"]))).unwrap();
    table.insert((1, 5, Value::Null)).unwrap();
    table.insert((2, 5, 10)).unwrap();
    assert!(is_generated(table.insert((3, 5, 11))));
    table.insert_columns(&["id", "v"], (3, 6)).unwrap();
    assert!(is_generated(table.insert_columns(&["id", "twice"], (4, 6))));
    assert_eq!(table.insert_columns(&["id"], 4).unwrap().get("twice").unwrap(), Value::Null);
    assert!(table.update(1, &[("v", Value::Int(7))]).unwrap());
    assert!(is_generated(table.update(1, &[("twice", Value::Int(7))])));
    assert!(table.update(1, &[("twice", Value::Int(14))]).unwrap());
    assert!(table.update(1, &[("twice", Value::Null)]).unwrap());
    assert!(table.put((2, 8, Value::Null)).unwrap());
    assert!(!table.put((5, 9, Value::Null)).unwrap());
    assert!(table.insert((6, 13, Value::Null)).unwrap_err().to_string().contains("thirteen"));
    assert_eq!(rows(&database, "t"), [(1, Some(14)), (2, Some(16)), (3, Some(12)), (4, None), (5, Some(18))]);
    let (first, second) = (database.begin(), database.begin());
    for (transaction, id) in [(&first, 1), (&second, 2)] {
        transaction.table("t").unwrap().update(id, &[("v", Value::Int(20))]).unwrap();
    }
    first.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(rows(&database, "t")[..2], [(1, Some(40)), (2, Some(40))]);
    let snapshot = database.snapshot();
    let read = snapshot.table("t").unwrap();
    assert_eq!(read.entries("doubled").unwrap().count(Span::eq(40)).unwrap(), 2);
}

#[test]
fn rows_that_are_loaded_added_and_changed_by_others_have_it() {
    let database = set_up();
    database.create_table(&schema("loaded")).unwrap();
    let mut load = database.begin_load("loaded", &BuildOptions::default()).unwrap();
    load.push(&[Value::Int(1), Value::Int(4), Value::Null]).unwrap();
    load.push_at(&[0, 1], &[Value::Int(2), Value::Int(5)]).unwrap();
    load.commit(&mut |_| ()).unwrap();
    assert_eq!(rows(&database, "loaded"), [(1, Some(8)), (2, Some(10))]);
    // A foreign key that changes what it is computed from.
    let parent = TableSchema::new("parent").column(Column::new("id", DataType::I64)).key(["id"]);
    let parent = database.create_table(&parent).unwrap();
    parent.insert(3).unwrap();
    let key = ForeignKey::new("of", ["v"], "parent").on_update(Action::Cascade).on_delete(Action::SetNull);
    database.create_table(&schema("child").foreign_key(key)).unwrap();
    database.table("child").unwrap().insert((1, 3, Value::Null)).unwrap();
    parent.update(3, &[("id", Value::Int(4))]).unwrap();
    assert_eq!(rows(&database, "child"), [(1, Some(8))]);
    parent.delete(4).unwrap();
    assert_eq!(rows(&database, "child"), [(1, None)]);
    // A column that is added, said in other words, and computed no more.
    let transaction = database.begin();
    let definitions = transaction.definitions();
    let more = Column { generated: Some("id".to_owned()), ..Column::new("more", DataType::I64) };
    definitions.add_column_filled("loaded", more, &mut |_| Ok(Value::Null)).unwrap();
    definitions.set_generated("loaded", "twice", None).unwrap();
    transaction.commit().unwrap();
    let loaded = database.table("loaded").unwrap();
    loaded.update(1, &[("twice", Value::Int(1))]).unwrap();
    let row = loaded.get(1).unwrap().unwrap();
    assert_eq!((row.get("twice").unwrap(), row.get("more").unwrap()), (Value::Int(1), Value::Int(2)));
}

#[test]
fn it_has_no_default_and_no_numbers() {
    let database = set_up();
    let mut wrong = schema("t");
    wrong.columns[2].default = Some("1".to_owned());
    assert!(database.create_table(&wrong).is_err_and(|error| error.kind() == ErrorKind::Invalid));
}
