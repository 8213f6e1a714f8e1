//! Indexes follow their table, whatever happens to it.

use std::collections::BTreeSet;

use quipu::tuple::Element;
use quipu::{Db, ErrorKind, Options, ReadableTable, TableOptions};
use quipu_rows::old::{Column, ColumnType, RowTable, Schema, bounds, keys_with};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn open() -> (Db, Schema) {
    let db = Db::open("/rows", Options::in_memory()).unwrap();
    let columns = [("id", ColumnType::Int), ("city", ColumnType::Text), ("people", ColumnType::Int)]
        .map(|(name, column_type)| Column { name: name.to_owned(), column_type });
    (db, Schema::new(columns.to_vec(), &["id".to_owned()]).unwrap())
}

fn index(name: &str, columns: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), columns.iter().map(|&column| column.to_owned()).collect())
}

#[test]
fn random_changes_leave_each_index_with_the_rows_of_its_table() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (db, schema) = open();
    let by_city = index("city", &["city", "people"]);
    let table = RowTable::create(&db, "towns", &schema, &[by_city], TableOptions::default()).unwrap();
    for _ in 0..300 {
        let gives_up = random.random_range(0..4) == 0;
        let written = db.write(|transaction| {
            let mut writer = table.within(transaction)?;
            for _ in 0..random.random_range(1..5) {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                let city = ["Bern", "Cusco", "", "Be\0rn"][random.random_range(0..4)];
                let people =
                    [Element::Null, Element::Int(random.random_range(-3..3))][random.random_range(0..2)].clone();
                schema.encode_row(
                    &[Element::Int(random.random_range(0..20)), city.into(), people],
                    &mut key,
                    &mut value,
                );
                match random.random_range(0..4) {
                    0 if !writer.rows().contains(&key)? => writer.insert(&key, &value)?,
                    1 => writer.remove(&key).map(drop)?,
                    _ => writer.put(&key, &value)?,
                }
            }
            if gives_up { Err(quipu::Error::new(ErrorKind::Invalid, "given up")) } else { Ok(()) }
        });
        assert_eq!(written.is_err(), gives_up);

        let by_city = RowTable::open(&db, "towns.city").unwrap().unwrap();
        let index_schema = by_city.schema.as_ref().unwrap();
        let names: Vec<&str> = index_schema.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["city", "people", "id"]);
        let places: Vec<usize> = names.iter().map(|name| schema.place(name).unwrap()).collect();
        let expected: BTreeSet<String> = (table.table.range(..))
            .map(|entry| {
                let entry = entry.unwrap();
                let row = schema.decode_row(&entry.key, &entry.value).unwrap();
                format!("{:?}", places.iter().map(|&place| &row[place]).collect::<Vec<_>>())
            })
            .collect();
        let found: Vec<String> = (by_city.table.range(..))
            .map(|entry| {
                let entry = entry.unwrap();
                format!("{:?}", index_schema.decode_row(&entry.key, &entry.value).unwrap())
            })
            .collect();
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        let bern = keys_with(&[Element::from("Bern")]);
        let rows = expected.iter().filter(|row| row.starts_with("[Text(\"Bern\")")).count() as u64;
        assert_eq!(by_city.table.count(bounds(&bern)).unwrap(), rows);
    }
    assert!(table.table.len().unwrap() > 5);
}

#[test]
fn an_index_of_no_column_creates_nothing() {
    let (db, schema) = open();
    let wrong = index("mayor", &["mayor"]);
    let Err(error) = RowTable::create(&db, "towns", &schema, &[wrong], TableOptions::default()) else {
        panic!("there is no such column");
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), r#"index mayor: there is no column "mayor"; the columns are id, city, people"#);
    assert!(db.tables().is_empty());
}

#[test]
fn a_table_is_dropped_with_its_indexes_and_without_those_of_others() {
    let (db, schema) = open();
    let indexes = [index("city", &["city"]), index("people", &["people", "city"])];
    let towns = RowTable::create(&db, "towns", &schema, &indexes, TableOptions::default()).unwrap();
    RowTable::create(&db, "towns.old", &schema, &indexes[..1], TableOptions::default()).unwrap();
    assert_eq!(towns.index_names().collect::<Vec<_>>(), ["city", "people"]);
    assert_eq!(RowTable::open(&db, "towns.people").unwrap().unwrap().index_of(), Some("towns"));
    towns.drop(&db).unwrap();
    let mut left: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
    left.sort();
    assert_eq!(left, ["towns.old", "towns.old.city"]);
}

#[test]
fn bytes_that_are_no_row_are_refused_where_there_are_indexes() {
    let (db, schema) = open();
    let by_city = index("city", &["city"]);
    let table = RowTable::create(&db, "towns", &schema, &[by_city], TableOptions::default()).unwrap();
    let refused = db.write(|transaction| table.within(transaction)?.put(b"junk", b"junk")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(table.table.len().unwrap(), 0);
}
