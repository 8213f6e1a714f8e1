//! Goal: the bytes of rows, index entries and the catalogue are those that the documents show. Method: each block of an
//! example in `docs/internals/format-row.md` and `docs/internals/format-catalogue.md` begins with what is done, as
//! `schema`, `change` and `row` lines; it is done on a new database, and what lies in the trees then is compared with
//! the rest of the block. `BLESS=1` writes the blocks anew.
#![expect(clippy::disallowed_methods, reason = "documents are read and written, not a database")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use quipu::{Db, Options, ReadableTable};
use quipu_rows::{Column, DataType, Database, IndexSchema, TableSchema, Value};

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals").join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// What a line of a block asks for.
fn apply(database: &Database, table: &mut String, line: &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "schema" => {
            let schema = TableSchema::from_json(rest).unwrap_or_else(|error| panic!("{line}: {error}"));
            database.create_table(&schema).unwrap_or_else(|error| panic!("{line}: {error}"));
            *table = schema.table;
        }
        "row" => {
            let schema = database.table(table).unwrap().schema().unwrap();
            let values: Vec<serde_json::Value> = serde_json::from_str(rest).unwrap();
            let columns = schema.columns.iter().filter(|column| !column.hidden);
            let values = values.iter().zip(columns).map(|(value, column)| {
                column.data_type.parse_json(&value.to_string()).unwrap_or_else(|what| panic!("{line}: {what}"))
            });
            let values: Vec<Value<'_>> = values.collect();
            database.table(table).unwrap().insert(values).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        "add-column" => {
            let column: Column = serde_json::from_str(rest).unwrap();
            database.add_column(table, column).unwrap();
        }
        "drop-column" => database.drop_column(table, rest).unwrap(),
        "create-index" => {
            let index: IndexSchema = serde_json::from_str(rest).unwrap();
            database.create_index(table, index, &mut |_| ()).unwrap();
        }
        _ => panic!("{line}"),
    }
}

/// The block with what there is after its first lines are done.
fn done(block: &str) -> String {
    let db = Db::open("/formats", Options::without_files()).unwrap();
    let database = Database::open(&db).unwrap();
    let mut table = String::new();
    let asked: Vec<&str> = block.lines().take_while(|line| !line.starts_with("--")).collect();
    asked.iter().for_each(|line| apply(&database, &mut table, line));
    let mut text = asked.iter().map(|line| format!("{line}\n")).collect::<String>();
    let names = database.tree_names().unwrap();
    let is_catalogue = block.contains("-- rows.catalogue");
    for tree in db.tables() {
        let shown = match (is_catalogue, names.get(tree.name())) {
            (true, None) => tree.name().to_owned(),
            (false, Some(name)) => name.clone(),
            _ => continue,
        };
        writeln!(text, "-- {shown}").unwrap();
        for entry in tree.range(..) {
            let entry = entry.unwrap();
            let value = match std::str::from_utf8(&entry.value) {
                Ok(json) if json.starts_with('{') => json.to_owned(),
                _ => hex(&entry.value),
            };
            writeln!(text, "{} => {value}", hex(&entry.key)).unwrap();
        }
    }
    text
}

fn compare(name: &str, blocks_min: usize) {
    let path = document(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
    let mut found = 0;
    for part in parts.iter_mut().skip(1).step_by(2) {
        let Some(block) = part.strip_prefix("golden\n") else { continue };
        let now = done(block);
        found += 1;
        if std::env::var_os("BLESS").is_some() {
            *part = format!("golden\n{now}");
        } else {
            assert_eq!(block, now, "{name}: if the format is meant to change, run the test with BLESS=1");
        }
    }
    assert!(found >= blocks_min, "{name} has {found} examples");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, parts.join("```")).unwrap();
    }
}

#[test]
fn rows_lie_as_their_page_says() {
    compare("format-row.md", 4);
}

#[test]
fn the_catalogue_lies_as_its_page_says() {
    compare("format-catalogue.md", 2);
}

#[test]
fn every_type_has_an_example() {
    let page = std::fs::read_to_string(document("format-row.md")).unwrap();
    for name in DataType::names().split(", ").map(|name| name.split('(').next().unwrap_or_default()) {
        assert!(page.contains(&format!("\"type\": \"{name}")), "{name}");
    }
}
