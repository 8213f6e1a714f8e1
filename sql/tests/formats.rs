//! Goal: SQL's catalogue and packed values lie as their page says. Method: each block of an example in
//! `docs/internals/format-sql-catalogue.md` begins with statements, and with values to be packed; they are done on a
//! new database, and the trees and bytes then are compared with the rest of the block. `BLESS=1` writes the blocks
//! anew.
#![expect(clippy::disallowed_methods, reason = "documents are read and written, not a database")]

use std::fmt::Write;
use std::path::Path;

use quipu::{Db, Options, ReadableTable};
use quipu_sql::types::packed;
use quipu_sql::{Datum, Result, Session, Sink, SqlDatabase, SqlError};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// The values of the last row.
#[derive(Default)]
struct LastRow(Vec<Datum>);

impl Sink for LastRow {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0 = values.to_vec();
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

/// Runs a statement, and gives the values of its last row.
fn run(session: &mut Session, statement: &str) -> Vec<Datum> {
    let mut row = LastRow::default();
    let prepared = session.prepare(statement, &[]).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let mut portal = session.bind(&prepared, Vec::new()).unwrap();
    session.execute(&mut portal, None, true, &mut row).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    session.sync().unwrap();
    row.0
}

/// The block with what there is after its first lines are done.
fn done(block: &str) -> String {
    let db = Db::open("/formats", Options::without_files()).unwrap();
    let mut session = SqlDatabase::open(&db).unwrap().session("quipu", "quipu");
    let (mut text, mut values) = (String::new(), String::new());
    for line in block.lines().take_while(|line| !line.starts_with("--")) {
        writeln!(text, "{line}").unwrap();
        let Some(value) = line.strip_prefix("value ") else {
            run(&mut session, line);
            continue;
        };
        let bytes = match &run(&mut session, &format!("SELECT {value}"))[..] {
            [Datum::Bytes(bytes)] => bytes.to_vec(),
            [packed] => packed::pack(packed).unwrap_or_else(|| panic!("{line}")),
            other => panic!("{line}: {other:?}"),
        };
        writeln!(values, "{value} => {}", hex(&bytes)).unwrap();
    }
    if !values.is_empty() {
        return format!("{text}-- values\n{values}");
    }
    for name in ["rows.sequences", "rows.sql"] {
        writeln!(text, "-- {name}").unwrap();
        for entry in db.open_table(name).unwrap().expect("a tree of SQL").range(..) {
            let entry = entry.unwrap();
            let value = match std::str::from_utf8(&entry.value) {
                Ok(told) if told.bytes().all(|byte| byte >= b' ') => told.to_owned(),
                _ => hex(&entry.value),
            };
            writeln!(text, "{} => {value}", hex(&entry.key)).unwrap();
        }
    }
    text
}

#[test]
fn the_catalogue_and_packed_values_lie_as_their_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/format-sql-catalogue.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let is_blessed = std::env::var_os("BLESS").is_some();
    let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
    let mut found = 0;
    for part in parts.iter_mut().skip(1).step_by(2) {
        let Some(block) = part.strip_prefix("golden\n") else { continue };
        let now = done(block);
        found += 1;
        if is_blessed {
            *part = format!("golden\n{now}");
        } else {
            assert_eq!(block, now, "if the format is meant to change, run the test with BLESS=1");
        }
    }
    assert_eq!(found, 3, "the examples of the page");
    if is_blessed {
        std::fs::write(&path, parts.join("```")).unwrap();
    }
}
