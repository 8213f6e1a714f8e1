//! Goal: after a loss, and after whatever else makes them differ, rows, indexes and constraints agree again, with every
//! row that is left. Method: entries of indexes are changed, and the rows are not; and bits are flipped in every run
//! file of a database, which the engine repairs first. Replay: SEED=... cargo test -p quipu-rows --test all repair::

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::tuple::{self, Element};
use quipu::{Db, ErrorKind, ReadableTable, WritableTable};
use quipu_rows::{Action, Column, DataType, Database, ForeignKey, IndexSchema, Ordered, Span, TableSchema, Value};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::crash::options;
use quipu_testing::seeds::seeds;

fn open(disk: &SimDisk) -> Database {
    Database::open(&Db::open("/db", options(disk)).unwrap()).unwrap()
}

/// Towns refer to countries, by a unique index; each index is of another kind.
fn set_up(disk: &SimDisk) -> Database {
    let database = open(disk);
    let countries = TableSchema::new("countries")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("code", DataType::TEXT).not_null())
        .key(["id desc"])
        .index(IndexSchema::new("code", ["code"]).unique());
    let towns = TableSchema::new("towns")
        .column(Column::new("country", DataType::TEXT))
        .column(Column::new("name", DataType::TEXT))
        .column(Column::new("people", DataType::I64))
        .column(Column::new("mayor", DataType::TEXT))
        .key(["country", "name"])
        .index(IndexSchema::new("size", ["people desc"]).include(["mayor"]).sum("people"))
        .index(IndexSchema::new("small", ["people"]).predicate("people < 500"))
        .index(IndexSchema::new("mayor", ["mayor"]).unique())
        .check("not_empty", "people >= 0")
        .foreign_key(
            ForeignKey::new("of_country", ["country"], "countries").references(["code"]).on_delete(Action::Cascade),
        );
    database.create_table(&countries).unwrap();
    database.create_table(&towns).unwrap();
    database
}

fn code(number: i32) -> String {
    format!("C{number:02}")
}

/// Rows in runs over each other, and the last ones in the log.
fn fill(database: &Database, random: &mut StdRng) {
    for part in 0..3 {
        database
            .write(|transaction| {
                let (countries, towns) = (transaction.table("countries")?, transaction.table("towns")?);
                for number in 20 * part..20 * (part + 1) {
                    countries.insert((number, code(number)))?;
                }
                for number in 0..150 {
                    let country = code(random.random_range(0..20 * (part + 1)));
                    let mayor = format!("mayor {part} {number}");
                    let people = (number % 5 > 0).then_some(random.random_range(0..1_000_i64));
                    towns.put((country, format!("town {}", number % 90), people, mayor))?;
                }
                let gone = Span::eq(code(random.random_range(0..20 * (part + 1))));
                towns.delete_range(gone).map(drop)
            })
            .unwrap();
        if part < 2 {
            database.db().checkpoint().unwrap();
        }
    }
}

fn problems(database: &Database) -> Vec<String> {
    quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems
}

fn tree_of(database: &Database, name: &str) -> quipu::Table {
    let names = database.tree_names().unwrap();
    let tree = names.iter().find(|(_, known)| *known == name).expect("an index of this name").0;
    database.db().open_table(tree).unwrap().unwrap()
}

/// Takes away every seventh entry of an index, and puts others there that no row has.
fn spoil(database: &Database, name: &str) {
    let tree = tree_of(database, name);
    let mut entries = Vec::new();
    tree.for_each(.., |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    for (key, value) in entries.iter().step_by(7) {
        tree.remove(key).unwrap();
        tree.put([&key[..], &[0x16, 0x07]].concat(), value).unwrap();
    }
}

#[test]
fn an_index_is_built_again_from_its_rows_whatever_it_has() {
    let database = set_up(&SimDisk::new());
    fill(&database, &mut StdRng::seed_from_u64(1));
    assert_eq!(problems(&database), [""; 0]);
    for (table, index) in [("towns", "size"), ("towns", "small"), ("towns", "mayor"), ("countries", "code")] {
        let before = database.table(table).unwrap().schema().unwrap();
        spoil(&database, &format!("{table}.{index}"));
        assert!(problems(&database)[0].contains(&format!("index {table}.{index}")));
        let mut writes = 0;
        database
            .rebuild_index(table, index, &mut |_| {
                writes += 1;
                let towns = database.table("towns").unwrap();
                towns.put((code(1), format!("beside {writes}"), writes, format!("mayor of {index} {writes}"))).unwrap();
            })
            .unwrap();
        assert!(writes > 0);
        assert_eq!(problems(&database), [""; 0], "{table}.{index}");
        assert_eq!(database.table(table).unwrap().schema().unwrap(), before, "nothing else has changed");
    }
    let missing = database.rebuild_index("towns", "none", &mut |_| ()).unwrap_err();
    assert_eq!(missing.to_string(), "table towns has no index \"none\"");
}

/// Two rows have what is unique, as an older one may that comes back: the rebuild names them and changes nothing.
#[test]
fn two_rows_of_the_same_values_are_named_by_the_index_that_was_to_be_built_again() {
    let database = set_up(&SimDisk::new());
    fill(&database, &mut StdRng::seed_from_u64(2));
    let (countries, towns) = (database.table("countries").unwrap(), database.table("towns").unwrap());
    let rows = tree_of(&database, "countries");
    countries.insert((100, "new")).unwrap();
    let as_it_was = rows.get(key_of(&database, "countries", 100)).unwrap().unwrap();
    countries.update(100, &[("code", Value::from("newer"))]).unwrap();
    countries.insert((101, "new")).unwrap();
    towns.insert(("new", "a town", 1, "a mayor")).unwrap();
    // An older row comes back.
    rows.put(key_of(&database, "countries", 100), as_it_was).unwrap();
    let error = database.rebuild_index("countries", "code", &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("so the index code cannot be unique"), "{error}");
    assert!(!problems(&database).is_empty());
    let report = quipu_rows::repair(database.db(), &mut |_| ()).unwrap();
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(report.rebuilt, ["countries.code"]);
    assert!(report.lifted[0].starts_with("foreign key of_country of table towns, (country) to countries (code)"));
    assert!(report.lifted[1].contains("rows (100) and (101) have the same code"), "{:?}", report.lifted);
    assert_eq!(problems(&database), [""; 0]);
    let now = database.snapshot();
    let code = now.table("countries").unwrap().index("code").unwrap();
    assert_eq!(code.count(Span::eq("new")).unwrap(), 2);
    assert!(!code.schema().unique);
}

/// The bytes of the key of a row.
fn key_of(database: &Database, table: &str, id: i32) -> Vec<u8> {
    let now = database.snapshot();
    let range = now.table(table).unwrap().range_of(Span::eq(id)).unwrap();
    let bounds = range.bounds();
    match std::ops::RangeBounds::start_bound(&bounds) {
        std::ops::Bound::Included(key) => key.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_constraint_that_rows_break_is_lifted_and_told() {
    let database = set_up(&SimDisk::new());
    fill(&database, &mut StdRng::seed_from_u64(3));
    let towns = database.table("towns").unwrap();
    let now = database.snapshot();
    let referring = now.table("towns").unwrap().first(..).unwrap().unwrap();
    let country = Value::into_owned(referring.get("country").unwrap());
    // A country is lost, and its entry is not.
    let of_code = now.table("countries").unwrap().index("code").unwrap().get(country.borrowed()).unwrap().unwrap();
    let Value::Int(id) = of_code.get("id").unwrap() else { panic!("an id") };
    let rows = tree_of(&database, "countries");
    rows.remove(key_of(&database, "countries", id as i32)).unwrap();
    let before = towns.len().unwrap();
    let report = quipu_rows::repair(database.db(), &mut |_| ()).unwrap();
    assert_eq!((report.problems.len(), &report.rebuilt[..]), (0, &["countries.code".to_owned()][..]));
    let [lifted] = &report.lifted[..] else { panic!("{:?}", report.lifted) };
    assert!(lifted.contains("on delete cascade, on update restrict: table towns, row ("), "{lifted}");
    assert!(lifted.contains(&format!("there is no row ({country}) in table countries")), "{lifted}");
    assert_eq!(problems(&database), [""; 0]);
    assert_eq!(towns.len().unwrap(), before, "no row is removed");
    // Once its country is back, the constraint can be too.
    database.table("countries").unwrap().insert((id as i32, country)).unwrap();
    let again = ForeignKey::new("of_country", ["country"], "countries").references(["code"]);
    database.add_foreign_key("towns", again, &mut |_| ()).unwrap();
    assert!(quipu_rows::repair(database.db(), &mut |_| ()).unwrap() == Default::default(), "nothing is left to do");
}

/// Takes records of the catalogue away while its tables are closed, and repairs.
fn without(records: &[&[Element<'static>]]) -> (SimDisk, quipu::Result<quipu_rows::RowRepair>) {
    let disk = SimDisk::new();
    let database = set_up(&disk);
    fill(&database, &mut StdRng::seed_from_u64(4));
    let trees = database.tree_names().unwrap().len();
    drop(database);
    let db = Db::open("/db", options(&disk)).unwrap();
    let catalogue = db.open_table("rows.catalogue").unwrap().unwrap();
    for record in records {
        assert!(catalogue.remove(tuple::encode(record)).unwrap());
    }
    let lost = Database::open(&db).map(drop).unwrap_err();
    assert!(lost.to_string().starts_with("a part of the catalogue of rows is lost"), "{lost}");
    let repaired = quipu_rows::repair(&db, &mut |_| ());
    let left = db.tables().iter().filter(|table| table.name()[5..].parse::<u32>().is_ok()).count();
    assert_eq!(left, trees, "no tree is dropped");
    drop(db);
    (disk, repaired)
}

#[test]
fn names_that_the_catalogue_has_lost_are_put_back() {
    let (root, name) = ([Element::Int(0)], [Element::Int(1), Element::from("towns")]);
    for records in [&[&root[..]][..], &[&name], &[&root, &name]] {
        let (disk, repaired) = without(records);
        let repaired = repaired.unwrap();
        assert_eq!(repaired.catalogue.len(), records.len(), "{repaired:?}");
        let database = open(&disk);
        assert_eq!(problems(&database), [""; 0]);
        assert_eq!(database.tables().unwrap(), ["countries", "towns"]);
        answers(&database);
        let another = TableSchema::new("another").column(Column::new("id", DataType::I8)).key(["id"]);
        database.create_table(&another).unwrap().insert(1).unwrap();
        database.rename_column("towns", "mayor", "head").unwrap();
        drop(database);
        assert_eq!(problems(&open(&disk)), [""; 0]);
    }
}

/// If a name and its definition were both lost, the next opening took the trees of the table for what a crash had left,
/// and dropped all its rows.
#[test]
fn a_lost_definition_takes_no_rows_with_it() {
    let (name, definition) = ([Element::Int(1), Element::from("towns")], [Element::Int(2), Element::Int(2)]);
    for records in [&[&definition[..]][..], &[&name, &definition]] {
        let (disk, repaired) = without(records);
        assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Corrupt);
        let db = Db::open("/db", options(&disk)).unwrap();
        assert!(Database::open(&db).is_err());
    }
}

/// A repair of the engine used to leave indexes with entries of rows that are lost, and without those of rows that are
/// there: `check` condemned what had just been repaired, and queries failed.
#[test]
fn flipped_bits_in_any_run_leave_rows_that_agree_after_a_repair() {
    let (mut repaired, mut rebuilt, mut lifted, mut without_catalogue) = (0, 0, 0, 0);
    for seed in seeds(4) {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let database = set_up(&disk);
        fill(&database, random);
        database.db().sync().unwrap();
        drop(database);
        let runs = disk.file_names().into_iter().filter(|path| path.to_string_lossy().contains("run-"));
        for path in runs.flat_map(|path| [path.clone(), path.clone(), path]) {
            let disk = disk.crash_with(CrashMode::KeepAll, 0);
            for _ in 0..random.random_range(1..4) {
                let bits = disk.read_file(&path).unwrap().len() as u64 * 8;
                disk.flip_bit(&path, random.random_range(0..bits));
            }
            let report = quipu::files::repair("/db", &options(&disk), &mut |_| ()).unwrap();
            assert_eq!(report.faults, [""; 0]);
            let db = Db::open("/db", options(&disk)).unwrap();
            let of_catalogue = report.lost.iter().any(|loss| loss.table == "rows.catalogue");
            match quipu_rows::repair(&db, &mut |_| ()) {
                Ok(found) => {
                    assert_eq!(found.problems, [""; 0], "{}: {:?}", path.display(), report.lost);
                    rebuilt += found.rebuilt.len();
                    lifted += found.lifted.len();
                    let database = Database::open(&db).unwrap();
                    assert_eq!(problems(&database), [""; 0], "{}", path.display());
                    answers(&database);
                    assert_eq!(database.tables().unwrap(), ["countries", "towns"], "{}", path.display());
                    for loss in &report.lost {
                        for key in loss.low.iter().chain(&loss.high) {
                            assert!(loss.table == "rows.numbers" || database.key_of_tree(&loss.table, key).is_ok());
                        }
                    }
                }
                Err(error) => {
                    assert!(of_catalogue && error.kind() == ErrorKind::Corrupt, "{}: {error:?}", path.display());
                    without_catalogue += 1;
                }
            }
            drop(db);
            let found = quipu::files::check("/db", &options(&disk), &mut |_| ()).unwrap();
            assert_eq!(found.faults, [""; 0], "{}", path.display());
            repaired += 1;
        }
    }
    println!(
        "{repaired} repaired, {rebuilt} indexes rebuilt, {lifted} lifted, {without_catalogue} without a catalogue"
    );
    assert!(rebuilt > 0);
}

/// Every row is found by each index.
fn answers(database: &Database) {
    let now = database.snapshot();
    for name in now.tables().unwrap() {
        let table = now.table(&name).unwrap();
        for index in &table.schema().indexes {
            let asked = table.index(&index.name).unwrap();
            let found = asked.rows(..).unwrap().collect::<quipu::Result<Vec<_>>>().unwrap().len();
            let expected = match &index.predicate {
                None => table.len().unwrap(),
                Some(_) => {
                    let rows = table.rows(..).unwrap().map(|row| row.unwrap());
                    rows.filter(|row| matches!(row.get("people"), Ok(Value::Int(people)) if people < 500)).count()
                        as u64
                }
            };
            assert_eq!(found as u64, expected, "{name}.{}", index.name);
        }
    }
}
