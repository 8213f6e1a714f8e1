//! Rows in bulk: loaded into tables without any, and read as batches of columns.

use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Options};
use quipu_rows::{
    Batch, BuildOptions, Collation, Column, ColumnValues, Constraint, DataType, Database, Date, Decimal, ForeignKey,
    Identity, IndexSchema, Ordered, Span, TableSchema, Timestamp, Value, Violation,
};

fn options(disk: &SimDisk) -> Options {
    Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 1024,
        run_page_bytes: 1024,
        log_segment_bytes: 64 << 10,
        memory_bytes: 256 << 20,
        background: false,
        ..Options::default()
    }
}

fn database() -> Database {
    Database::open(&Db::open("/db", options(&SimDisk::new())).unwrap()).unwrap()
}

fn squares() -> TableSchema {
    TableSchema::new("squares")
        .column(Column::new("n", DataType::I32))
        .column(Column::new("square", DataType::I64))
        .column(Column::new("text", DataType::TEXT))
        .key(["n"])
        .index(IndexSchema::new("square", ["square desc"]).unique())
        .index(IndexSchema::new("even", ["text", "n"]).predicate("n % 2 = 0").sum("square"))
        .check("positive", "n >= 0")
        .sum("square")
}

fn square(n: i32) -> [Value<'static>; 3] {
    [n.into(), (i64::from(n) * i64::from(n)).into(), format!("text {}", n % 7).into()]
}

/// Numbers below `count` in an order of their own.
fn shuffled(count: i32) -> impl Iterator<Item = i32> {
    (0..count).map(move |n| ((i64::from(n) * 7_919) % i64::from(count)) as i32)
}

fn assert_sound(database: &Database) {
    assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn rows_in_any_order_are_loaded_in_parts_of_any_size() {
    for (sort_bytes, ingest_rows) in [(1 << 20, 0), (1 << 20, 1 << 20), (3_000, 0), (700, 5)] {
        let database = database();
        let squares = database.create_table(&squares()).unwrap();
        let options = BuildOptions { sort_bytes, ingest_rows, ..BuildOptions::default() };
        let mut load = database.begin_load("squares", &options).unwrap();
        for n in shuffled(1_000) {
            load.push(&square(n)).unwrap();
        }
        assert_eq!((load.rows(), squares.len().unwrap()), (1_000, 0), "nobody sees them yet");
        let mut stages = Vec::new();
        assert_eq!(load.commit(&mut |progress| stages.push(progress.stage)).unwrap(), 1_000);
        assert!(stages.contains(&"building indexes"));
        assert_eq!(squares.len().unwrap(), 1_000);
        assert_sound(&database);
        let now = database.snapshot();
        let table = now.table("squares").unwrap();
        assert_eq!(table.sum(Span::lt(10)).unwrap(), Value::Int((0..10).map(|n| n * n).sum()));
        assert_eq!(table.index("square").unwrap().nth(.., 10).unwrap().unwrap().get("n").unwrap(), Value::Int(989));
        assert_eq!(table.index("even").unwrap().count(Span::eq("text 3")).unwrap(), 71);
        // It goes on as any other table.
        squares.insert((1_000, 1_000_000i64, "more")).unwrap();
        squares.insert((1_001, 1_000_000i64, "more")).unwrap_err();
        let full = database.begin_load("squares", &options).err().unwrap();
        assert_eq!(full.to_string(), "table squares has 1001 rows: a load needs an empty table");
    }
}

#[test]
fn an_index_without_rows_is_loaded_in_parts_too() {
    let options = BuildOptions { sort_bytes: 700, ingest_rows: 0, ..BuildOptions::default() };
    let database = database();
    database.create_table(&squares().index(IndexSchema::new("none", ["n"]).predicate("n < -5"))).unwrap();
    let mut load = database.begin_load("squares", &options).unwrap();
    shuffled(500).for_each(|n| load.push(&square(n)).unwrap());
    assert_eq!(load.commit(&mut |_| ()).unwrap(), 500);
    let now = database.snapshot();
    let squares = now.table("squares").unwrap();
    assert_eq!((squares.len().unwrap(), squares.index("none").unwrap().len().unwrap()), (500, 0));
}

#[test]
fn what_a_load_refuses_leaves_the_table_as_it_was() {
    for sort_bytes in [1 << 20, 700] {
        let options = BuildOptions { sort_bytes, ingest_rows: 0, ..BuildOptions::default() };
        let database = database();
        database.create_table(&squares()).unwrap();
        let trees = database.db().tables().len();
        let refused = |mut rows: Box<dyn Iterator<Item = [Value<'static>; 3]>>| {
            let mut load = database.begin_load("squares", &options).unwrap();
            let pushed = rows.by_ref().try_for_each(|row| load.push(&row));
            let error = pushed.and_then(|()| load.commit(&mut |_| ())).unwrap_err();
            (error.to_string(), Violation::of(&error).map(|violation| violation.constraint))
        };
        let twice = refused(Box::new(shuffled(500).chain([77]).map(square)));
        assert_eq!(twice, ("table squares, row (77): two rows have this key".to_owned(), Some(Constraint::PrimaryKey)));
        let (alike, constraint) =
            refused(Box::new(shuffled(500).map(square).chain([[600.into(), Value::Int(81), Value::Null]])));
        assert_eq!(constraint, Some(Constraint::Unique));
        assert!(alike.contains("have the same square desc, so the index square cannot be unique"), "{alike}");
        assert!(alike.contains("(9)") && alike.contains("(600)"), "{alike}");
        let checked = refused(Box::new([square(-1)].into_iter()));
        assert_eq!(checked.1, Some(Constraint::Check));
        let typed = refused(Box::new([["x".into(), Value::Null, Value::Null]].into_iter()));
        assert_eq!(typed.0, "table squares, row (\"x\"), column n: \"x\" is text, expected i32");
        let mut load = database.begin_load("squares", &options).unwrap();
        load.push(&square(-1)).unwrap_err();
        assert_eq!(load.push(&square(1)).unwrap_err().kind(), ErrorKind::Invalid);
        drop(load);
        // A writer who was faster.
        let mut load = database.begin_load("squares", &options).unwrap();
        load.push(&square(1)).unwrap();
        database.table("squares").unwrap().insert_values_of(&square(2));
        let beaten = load.commit(&mut |_| ()).unwrap_err();
        assert_eq!(beaten.kind(), ErrorKind::Conflict);
        assert_eq!(database.table("squares").unwrap().len().unwrap(), 1);
        assert_eq!(database.db().tables().len(), trees, "nothing is left behind");
        assert_sound(&database);
    }
}

trait InsertValuesOf {
    fn insert_values_of(&self, values: &[Value<'static>]);
}

impl InsertValuesOf for quipu_rows::RowTable {
    fn insert_values_of(&self, values: &[Value<'static>]) {
        self.insert(values.to_vec()).unwrap();
    }
}

#[test]
fn loaded_rows_refer_to_rows_that_stay() {
    let database = database();
    let parents = TableSchema::new("parents").column(Column::new("id", DataType::I32)).key(["id"]);
    let children = TableSchema::new("children")
        .column(Column::new("id", DataType::I64).identity(Identity::Always))
        .column(Column::new("parent", DataType::I32))
        .key(["id"])
        .foreign_key(ForeignKey::new("of_parent", ["parent"], "parents"));
    let parents = database.create_table(&parents).unwrap();
    let children = database.create_table(&children).unwrap();
    for id in 0..5 {
        parents.insert(id).unwrap();
    }
    let load = |last: i32| {
        let mut load = database.begin_load("children", &BuildOptions::default()).unwrap();
        let mut batch = Batch::new([("parent", DataType::I32)]);
        for id in 0..100 {
            batch.push_values(&[if id % 10 == 9 { Value::Null } else { Value::Int(id % 5) }]).unwrap();
        }
        load.push_batch(&batch)?;
        load.push(&[Value::Null, last.into()])?;
        Ok::<_, quipu::Error>(load)
    };
    let refused = load(7).err().unwrap();
    assert!(refused.to_string().ends_with("foreign key of_parent: there is no row (7) in table parents"), "{refused}");
    let open = load(1).unwrap();
    // No row refers to it yet, so it can go; then the load has relied on it in vain.
    parents.delete(3).unwrap();
    assert_eq!(open.commit(&mut |_| ()).unwrap_err().kind(), ErrorKind::Conflict);
    parents.insert(3).unwrap();
    assert_eq!(load(1).unwrap().commit(&mut |_| ()).unwrap(), 101);
    assert_eq!(children.len().unwrap(), 101);
    parents.delete(3).unwrap_err();
    assert_sound(&database);
    let itself = TableSchema::new("people")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("boss", DataType::I32))
        .key(["id"])
        .foreign_key(ForeignKey::new("has_boss", ["boss"], "people"));
    database.create_table(&itself).unwrap();
    assert_eq!(database.begin_load("people", &BuildOptions::default()).err().unwrap().kind(), ErrorKind::Invalid);
}

#[test]
fn an_old_snapshot_sees_no_loaded_rows() {
    let database = database();
    database.create_table(&squares()).unwrap();
    let before = database.snapshot();
    let mut load = database.begin_load("squares", &BuildOptions::default()).unwrap();
    (0..10).for_each(|n| load.push(&square(n)).unwrap());
    load.commit(&mut |_| ()).unwrap();
    assert_eq!(before.table("squares").unwrap().len().unwrap(), 0);
    assert_eq!(before.table("squares").unwrap().index("square").unwrap().count(..).unwrap(), 0);
    assert_eq!(database.snapshot().table("squares").unwrap().len().unwrap(), 10);
}

#[test]
fn a_crash_while_rows_are_loaded_leaves_none_or_all() {
    let load = |database: &Database| {
        let options = BuildOptions { sort_bytes: 800, ingest_rows: 0, ..BuildOptions::default() };
        let mut load = database.begin_load("squares", &options)?;
        for n in shuffled(60) {
            load.push(&square(n))?;
        }
        load.commit(&mut |_| ())
    };
    let set_up = |disk: &SimDisk| {
        let database = Database::open(&Db::open("/db", options(disk)).unwrap()).unwrap();
        database.create_table(&squares()).unwrap();
        database
    };
    let disk = SimDisk::new();
    let database = set_up(&disk);
    let first = disk.steps();
    load(&database).unwrap();
    drop(database);
    for step in first..disk.steps() {
        let disk = SimDisk::new();
        let database = set_up(&disk);
        disk.cut_at(step);
        let result = load(&database);
        drop(database);
        for lot in 0..3 {
            let disk = disk.crash(step * 3 + lot);
            let database = Database::open(&Db::open("/db", options(&disk)).unwrap()).unwrap();
            let rows = database.table("squares").unwrap().len().unwrap();
            assert!(rows == 60 || rows == 0 && result.is_err(), "step {step}: {rows} rows");
            assert_sound(&database);
            assert_eq!(database.db().tables().len(), 5, "step {step}: no tree is left behind");
        }
    }
}

#[test]
fn batches_have_the_rows_of_a_scan_in_both_directions() {
    let database = database();
    let decimal = DataType::Decimal { precision: 30, scale: 3 };
    let types = [
        ("id", DataType::I64),
        ("bool", DataType::Bool),
        ("i8", DataType::I8),
        ("u64", DataType::U64),
        ("f32", DataType::F32),
        ("f64", DataType::F64),
        ("decimal", decimal),
        ("text", DataType::TEXT),
        ("unicode", DataType::Text(Collation::Unicode)),
        ("bytes", DataType::Bytes),
        ("date", DataType::Date),
        ("timestamp", DataType::Timestamp),
        ("uuid", DataType::Uuid),
        ("json", DataType::Json),
    ];
    let mut schema = TableSchema::new("all").key(["id desc"]);
    for (name, data_type) in types {
        schema = schema.column(Column::new(name, data_type));
    }
    schema = schema.index(IndexSchema::new("text", ["text"]).include(["f64"]));
    let all = database.create_table(&schema).unwrap();
    let row = |id: i64| -> Vec<Value<'static>> {
        let values: Vec<Value<'static>> = vec![
            id.into(),
            (id % 2 == 0).into(),
            (id as i8).into(),
            (u64::MAX - id as u64).into(),
            (id as f32 / 3.0).into(),
            (id as f64 / 3.0).into(),
            Decimal::new(i128::from(id) << 70, 3).unwrap().into(),
            format!("text {}", "x".repeat(id as usize % 20)).into(),
            format!("É {}", id % 4).into(),
            vec![id as u8; id as usize % 5].into(),
            Date::from_days(id as i32).unwrap().into(),
            Timestamp::from_microseconds(id * 1_000_003).unwrap().into(),
            uuid::Uuid::from_u128(id as u128).into(),
            Value::Json(format!("[{id}]").into()),
        ];
        values
            .into_iter()
            .enumerate()
            .map(|(place, value)| if place > 0 && id as usize % 14 == place { Value::Null } else { value })
            .collect()
    };
    database
        .write(|transaction| {
            let all = transaction.table("all")?;
            (0..100).try_for_each(|id| all.insert_values(&row(id)))
        })
        .unwrap();
    let now = database.snapshot();
    for batch_rows in [1, 7, 1_000] {
        for is_reverse in [false, true] {
            let scan = now.scan("all").unwrap().span(Span::ge(90).and_le(10)).unwrap().batch_rows(batch_rows);
            let scan = if is_reverse { scan.reverse() } else { scan };
            let mut batches = scan.batches().unwrap();
            let mut batch = batches.new_batch();
            let mut found = Vec::new();
            while batches.read_into(&mut batch).unwrap() {
                assert!(batch.rows() <= batch_rows);
                for number in 0..batch.rows() {
                    let values: Vec<Value<'static>> =
                        (0..types.len()).map(|column| batch.value(column, number).unwrap().into_owned()).collect();
                    found.push(values);
                }
            }
            let mut expected: Vec<Vec<Value<'static>>> = (10..=90).rev().map(row).collect();
            if is_reverse {
                expected.reverse();
            }
            assert_eq!(found, expected);
        }
    }
    // Parts of one snapshot, read by threads; in an index, only what it has.
    let parts = now.table("all").unwrap().split(.., 4).unwrap();
    let rows: usize = parts
        .into_iter()
        .map(|part| {
            let batches = now.scan("all").unwrap().columns(&["id"]).unwrap().range(part).batches().unwrap();
            std::thread::spawn(move || batches.map(|batch| batch.unwrap().rows()).sum::<usize>()).join().unwrap()
        })
        .sum();
    assert_eq!(rows, 100);
    let by_text = || now.scan("all").unwrap().index("text").unwrap();
    let covered = by_text().columns(&["text", "f64", "id"]).unwrap().batches().unwrap().next().unwrap().unwrap();
    assert_eq!(covered.rows(), 100);
    assert_eq!(covered.columns()[0].nulls, 7);
    assert!(matches!(&covered.columns()[2].values, ColumnValues::I64(ids) if ids.len() == 100));
    let refused = by_text().batches().err().unwrap();
    assert_eq!(refused.to_string(), "index all.text has no column bool; include it, or read the table");
    // The same rows go into another table by their batches.
    let copy = TableSchema { table: "copy".to_owned(), ..schema.clone() };
    database.create_table(&copy).unwrap();
    let mut load = database.begin_load("copy", &BuildOptions::default()).unwrap();
    for batch in now.scan("all").unwrap().batch_rows(9).batches().unwrap() {
        load.push_batch(&batch.unwrap()).unwrap();
    }
    load.commit(&mut |_| ()).unwrap();
    let copied = database.snapshot();
    let values = |snapshot: &quipu_rows::RowSnapshot, table: &str| -> Vec<Vec<Value<'static>>> {
        let table = snapshot.table(table).unwrap();
        let rows = table.rows(..).unwrap();
        rows.map(|row| row.unwrap().values().unwrap().into_iter().map(Value::into_owned).collect()).collect()
    };
    assert_eq!(values(&copied, "copy"), values(&now, "all"));
    drop(all);
    assert_sound(&database);
}
