//! Handles of tables that are no longer there: every operation says so, whether another table has the name now or not.

use quipu::{Db, ErrorKind, Options, Result};
use quipu_rows::{Column, DataType, Database, IndexSchema, Ordered, RecordTable, RowTable, TableSchema, Value};

fn database() -> Database {
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

fn towns() -> TableSchema {
    TableSchema::new("town")
        .column(Column::new("name", DataType::TEXT))
        .column(Column::new("people", DataType::I64).not_null())
        .key(["name"])
        .index(IndexSchema::new("size", ["people"]))
}

#[derive(quipu_rows::Record, Debug)]
#[table(name = "town")]
struct Town {
    #[column(primary_key)]
    name: String,
    people: i64,
}

fn operations(town: &RowTable, records: &RecordTable<Town>) -> Vec<(&'static str, Result<()>)> {
    let people = || [("people", Value::from(2))];
    let record = || Town { name: "Puno".into(), people: 1 };
    vec![
        ("schema", town.schema().map(drop)),
        ("get", town.get("Cusco").map(drop)),
        ("contains", town.contains("Cusco").map(drop)),
        ("len", town.len().map(drop)),
        ("is_empty", town.is_empty().map(drop)),
        ("count", town.count(..).map(drop)),
        ("with", town.with(|town| town.rank("Cusco")).map(drop)),
        ("with_index", town.with_index("size", |size| size.count(..)).map(drop)),
        ("insert", town.insert(("Lima", 1))),
        ("insert_columns", town.insert_columns(&["name", "people"], ("Lima", 1)).map(drop)),
        ("put", town.put(("Cusco", 1)).map(drop)),
        ("update", town.update("Cusco", &people()).map(drop)),
        ("delete", town.delete("Cusco").map(drop)),
        ("get of records", records.get("Cusco").map(drop)),
        ("contains of records", records.contains("Cusco").map(drop)),
        ("nth of records", records.nth(.., 0).map(drop)),
        ("page of records", records.page(.., 0, 1).map(drop)),
        ("insert of records", records.insert(&record())),
        ("insert_returning of records", records.insert_returning(&record()).map(drop)),
        ("put of records", records.put(&record()).map(drop)),
        ("update of records", records.update(&record()).map(drop)),
        ("delete of records", records.delete("Cusco").map(drop)),
    ]
}

#[test]
fn every_operation_of_a_handle_says_that_its_table_has_been_dropped() {
    for was_asked in [false, true] {
        for is_made_again in [false, true] {
            let database = database();
            let (town, records) = (database.create_table(&towns()).unwrap(), database.table_of::<Town>().unwrap());
            town.insert(("Cusco", 1)).unwrap();
            if was_asked {
                operations(&town, &records);
            }
            database.drop_table("town").unwrap();
            if is_made_again {
                database.create_table(&towns()).unwrap().insert(("Cusco", 1)).unwrap();
            }
            for (name, result) in operations(&town, &records) {
                let error = result.expect_err(name);
                assert_eq!(
                    (error.kind(), error.to_string()),
                    (ErrorKind::Missing, "the table has been dropped".to_owned()),
                    "{name}, made again: {is_made_again}"
                );
            }
            if is_made_again {
                assert_eq!(database.table("town").unwrap().len().unwrap(), 1);
            }
        }
    }
}

#[test]
fn a_transaction_whose_table_is_dropped_meanwhile_conflicts() {
    let database = database();
    let town = database.create_table(&towns()).unwrap();
    town.insert(("Cusco", 1)).unwrap();
    let transaction = database.begin();
    let in_transaction = transaction.table("town").unwrap();
    database.drop_table("town").unwrap();
    let result = in_transaction.insert(("Lima", 1)).and_then(|()| in_transaction.delete("Cusco"));
    let kind = result.map(drop).and_then(|()| transaction.commit()).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Conflict);
}
