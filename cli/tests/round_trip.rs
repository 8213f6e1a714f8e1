//! Rows go out by every way and come in by every way, and are what they were.
//!
//! Rows are drawn of all types of columns, with values that some way would take for others: texts that read as marks
//! of missing fields, numbers that floats do not hold, zero with a sign. They are written by the library and compared
//! by it, value for value, so that nothing that the program says about itself is trusted.

use quipu::{Db, Options};
use quipu_rows::{
    Column, DataType, Database, Date, Decimal, Identity, RowTransaction, TableSchema, Timestamp, Uuid, Value,
    keyed_bytes,
};
use quipu_testing::seeds;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::program::Place;

/// All types, but for parameters.
const TYPES: [&str; 24] = [
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f32",
    "f64",
    "decimal(4,2)",
    "decimal(18,0)",
    "decimal(38,38)",
    "decimal(38,10)",
    "text",
    "text(unicode)",
    "numeric",
    "bytes",
    "bytes(keyed)",
    "date",
    "timestamp",
    "uuid",
    "json",
];

/// Texts that readers of files and of lines take for something else, and pieces of others.
const TEXTS: [&str; 48] = [
    "",
    "NA",
    "N/A",
    "null",
    "NULL",
    "\\N",
    "nan",
    "NaN",
    "-",
    "?",
    ".",
    "..",
    "..=",
    "true",
    "True",
    "0",
    "007",
    "-0",
    "1e5",
    "\"",
    "\"\"",
    "a,b",
    ",",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\0",
    "\0the end\0",
    "\u{1a}",
    "\u{feff}",
    "\u{feff}x",
    " ",
    " x ",
    "é",
    "e\u{301}",
    "\u{85}",
    "\u{2028}",
    "\u{7f}",
    "\u{ffff}",
    "\u{10ffff}",
    "👍",
    "'",
    "#",
    "*",
    "a=b",
    "\\",
    "\\x00",
];

/// JSON that programs read as other JSON.
const JSONS: [&str; 22] = [
    "12345678901234567890123",
    "9007199254740993.0",
    "0.10",
    "-0",
    "-0.0",
    "1E5",
    "1e400",
    "1e-400",
    r#"{"a":1,"a":2}"#,
    r#"{"b":1,"a":{"":null}}"#,
    r#""\ud800""#,
    r#""\u0000\n\/""#,
    r#""NA""#,
    r#""null""#,
    r#""""#,
    "\"\u{7f}\u{85}\u{2028}\"",
    "[]",
    "{}",
    "[null,[[[true]]]]",
    "true",
    "7",
    r#""a,b""#,
];

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

fn random_text(random: &mut StdRng) -> String {
    (0..pick(random, &[1, 1, 1, 2, 3])).map(|_| pick(random, &TEXTS)).collect()
}

fn random_float(random: &mut StdRng, any: f64, least: f64, most: f64) -> f64 {
    let infinite = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    match random.random_range(0..4) {
        0 => pick(random, &[0.0, -0.0, 1.0, -1.5, 0.1, 1e16, 9_007_199_254_740_993.0, 123_456_789.0]),
        1 => pick(random, &infinite),
        2 => pick(random, &[least, -least, most, -most]),
        _ => any,
    }
}

fn random_int(random: &mut StdRng, min: i128, max: i128) -> Value<'static> {
    Value::Int(match random.random_range(0..4) {
        0 => min,
        1 => max,
        2 => random.random_range(min.max(-3)..=max.min(3)),
        _ => (random.random::<i128>() >> random.random_range(64..126)).clamp(min, max),
    })
}

/// A value of a type, not NULL.
fn random_value(data_type: DataType, random: &mut StdRng) -> Value<'static> {
    match data_type {
        DataType::Bool => Value::Bool(random.random()),
        DataType::I8 => random_int(random, i8::MIN.into(), i8::MAX.into()),
        DataType::I16 => random_int(random, i16::MIN.into(), i16::MAX.into()),
        DataType::I32 => random_int(random, i32::MIN.into(), i32::MAX.into()),
        DataType::I64 => random_int(random, i64::MIN.into(), i64::MAX.into()),
        DataType::U8 => random_int(random, 0, u8::MAX.into()),
        DataType::U16 => random_int(random, 0, u16::MAX.into()),
        DataType::U32 => random_int(random, 0, u32::MAX.into()),
        DataType::U64 => random_int(random, 0, u64::MAX.into()),
        DataType::F32 => {
            let any = f32::from_bits(random.next_u32());
            let float = random_float(random, any.into(), f32::from_bits(1).into(), f32::MAX.into());
            Value::Float((float as f32).into())
        }
        DataType::F64 => {
            let any = f64::from_bits(random.next_u64());
            Value::Float(random_float(random, any, f64::from_bits(1), f64::MAX))
        }
        DataType::Decimal { precision, scale } => {
            let most = 10i128.pow(precision.into()) - 1;
            let units = pick(random, &[0, 1, -1, most, -most]);
            let units = if random.random() { units } else { random.random_range(-most..=most) };
            let digits = format!("{:0>width$}", units.unsigned_abs(), width = usize::from(scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
            let sign = if units < 0 { "-" } else { "" };
            let point = if scale == 0 { "" } else { "." };
            Value::Decimal(Decimal::parse(&format!("{sign}{whole}{point}{fraction}")).unwrap())
        }
        DataType::Numeric => {
            let digits = |random: &mut StdRng| random.random_range(0..=u128::MAX);
            let texts =
                ["NaN".to_owned(), "-Infinity".to_owned(), "0.00".to_owned(), format!("-{}.50", digits(random))];
            let long = format!("{}{}.{:040}", 1 + digits(random), digits(random), digits(random));
            Value::Numeric(texts.get(random.random_range(0..8)).unwrap_or(&long).clone().into())
        }
        DataType::Text(_) => Value::from(random_text(random)),
        DataType::Bytes => Value::from(random_text(random).into_bytes().into_iter().chain([0xff]).collect::<Vec<u8>>()),
        DataType::KeyedBytes => {
            let sort_key = random_text(random).into_bytes();
            Value::from(keyed_bytes::join(&sort_key, &[random.random()]))
        }
        DataType::Date => {
            let far = ["-009999-01-01", "9999-12-31", "0000-02-29", "-000001-12-31", "1970-01-01", "1969-12-31"];
            let far = Date::parse(pick(random, &far)).unwrap();
            let near = Date::from_days(random.random_range(-4_371_587..2_932_896)).unwrap();
            Value::Date(if random.random() { far } else { near })
        }
        DataType::Timestamp => {
            let far = ["-009999-01-01T00:00:00Z", "9999-12-30T22:00:00.999999Z", "1969-12-31T23:59:59.999999Z"];
            let far = Timestamp::parse(pick(random, &far)).unwrap();
            let near = Timestamp::from_microseconds(random.random_range(-3_000_000_000_000_000..3_000_000_000_000_000));
            Value::Timestamp(if random.random() { far } else { near.unwrap() })
        }
        DataType::Uuid => Value::Uuid(Uuid::from_u128(random.random::<u128>() >> random.random_range(0..128))),
        DataType::Json => Value::Json((pick(random, &JSONS)).into()),
    }
}

/// A table with a column of each type that may be NULL, texts that may not, and a column of some type in its key.
fn schema(random: &mut StdRng) -> TableSchema {
    let mut columns = vec![Column::new("n", DataType::I32)];
    columns.push(Column::new("k", DataType::parse(pick(random, &TYPES)).unwrap()).not_null());
    columns.push(Column::new("not null", DataType::TEXT).not_null());
    columns.push(Column::new("numbered", DataType::U32).identity(Identity::Always));
    for (number, name) in TYPES.iter().enumerate() {
        columns.push(Column::new(format!("c{number} \"{name}\""), DataType::parse(name).unwrap()));
    }
    // Another order than that of the key.
    let last = columns.len() - 1;
    columns.swap(1, random.random_range(1..=last));
    TableSchema { columns, ..TableSchema::new("t").key(["k", "n"]) }
}

fn random_rows(schema: &TableSchema, random: &mut StdRng) -> Vec<Vec<Value<'static>>> {
    let row = |number: i32, random: &mut StdRng| {
        let value = |column: &Column| match column.name.as_str() {
            "n" => Value::from(number),
            "numbered" => Value::from(random.random_range(1..u32::MAX)),
            _ if !column.not_null && random.random_range(0..5) == 0 => Value::Null,
            _ => random_value(column.data_type, random),
        };
        schema.columns.iter().map(value).collect()
    };
    (0..60).map(|number| row(number, random)).collect()
}

/// Opens a database for as long as `work` takes.
fn with_database<T>(place: &Place, data: &str, work: impl FnOnce(&Database) -> T) -> T {
    // The program may not have let go of the lock yet.
    for _ in 0..100 {
        if let Ok(db) = Db::open(place.path(data), Options::default()) {
            return work(&Database::open(&db).unwrap());
        }
        std::thread::yield_now();
    }
    panic!("{data} cannot be opened");
}

/// All rows of the table, with every bit that a value has.
fn rows_of(database: &Database, table: &str) -> Vec<Vec<String>> {
    let snapshot = database.snapshot();
    let table = snapshot.table(table).unwrap();
    let rows = quipu_rows::Ordered::rows(&table, ..).unwrap();
    let values = rows.map(|row| row.unwrap().values().unwrap().iter().map(|value| format!("{value:?}")).collect());
    values.collect()
}

fn assert_same(way: &str, seed: u64, schema: &TableSchema, found: &[Vec<String>], expected: &[Vec<String>]) {
    for (found, expected) in found.iter().zip(expected) {
        for ((found, expected), column) in found.iter().zip(expected).zip(&schema.columns) {
            assert_eq!(found, expected, "SEED={seed}: {way}: column {}", column.name);
        }
    }
    assert_eq!(found.len(), expected.len(), "SEED={seed}: {way}");
}

/// A value as a word of the shell.
fn word(data_type: DataType, value: &Value<'_>) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut word = String::from("\"");
    for character in data_type.to_text(value).chars() {
        match character {
            '"' | '\\' => word.extend(['\\', character]),
            '\n' => word.push_str("\\n"),
            '\r' => word.push_str("\\r"),
            other => word.push(other),
        }
    }
    word + "\""
}

#[test]
fn every_value_comes_back_from_every_way_out_by_every_way_in() {
    let formats: &[&str] = if cfg!(feature = "parquet") { &["csv", "jsonl", "parquet"] } else { &["csv", "jsonl"] };
    for seed in seeds::seeds(3) {
        let mut random = StdRng::seed_from_u64(seed);
        let place = Place::new();
        let schema = schema(&mut random);
        place.write("t.json", schema.to_json());
        let rows = random_rows(&schema, &mut random);
        let db = Db::open(place.path("db"), Options::default()).unwrap();
        let database = Database::open(&db).unwrap();
        database.create_table(&schema).unwrap();
        let insert = |transaction: &RowTransaction<'_>| {
            let table = transaction.table("t")?.bringing_numbers();
            rows.iter().try_for_each(|row| table.insert_values(row))
        };
        database.write(insert).unwrap();
        let expected = rows_of(&database, "t");

        // As columns in memory.
        database.create_table(&TableSchema { table: "batches".to_owned(), ..schema.clone() }).unwrap();
        let mut load = database.begin_load("batches", &Default::default()).unwrap().bringing_numbers();
        for batch in database.snapshot().scan("t").unwrap().batch_rows(7).batches().unwrap() {
            load.push_batch(&batch.unwrap()).unwrap();
        }
        load.commit(&mut |_| ()).unwrap();
        assert_same("batches", seed, &schema, &rows_of(&database, "batches"), &expected);
        drop((database, db));

        // As files, loaded and in transactions.
        for (number, format) in formats.iter().enumerate() {
            let said = place.run(&format!("export --data db --table t -o t.{format}"));
            assert_eq!(said.err, format!("60 rows of table t in t.{format}\n"), "SEED={seed}");
            let options = if (seed as usize + number).is_multiple_of(2) { "" } else { "--batch 7" };
            place.run(&format!("import t.{format} --data {format} --schema t.json {options}")).success();
            let found = with_database(&place, format, |database| rows_of(database, "t"));
            assert_same(format, seed, &schema, &found, &expected);
        }

        // As a script of the shell, and as what it answers.
        let is_key = |column: &&Column| ["k", "n"].contains(&column.name.as_str());
        let value: Vec<&Column> = schema.columns.iter().filter(|column| !is_key(column)).collect();
        // There, a row cannot bring a number to a column that always has one of the table.
        place.write("shell.json", schema.to_json().replace("\"always\"", "\"by_default\""));
        place.run("import t.jsonl --data shell --schema shell.json").success();
        let mut script = String::from("use t\n");
        for row in &rows {
            let words = |names: &[&str]| -> String {
                let place_of = |name: &&str| schema.place(name).unwrap();
                let word = |place: usize| word(schema.columns[place].data_type, &row[place]);
                names.iter().map(place_of).map(word).collect::<Vec<_>>().join(",")
            };
            let names: Vec<&str> = value.iter().map(|column| column.name.as_str()).collect();
            script.push_str(&format!("remove {}\ninsert {0} {}\n", words(&["k", "n"]), words(&names)));
        }
        script.push_str("json on\nscan limit all\n");
        let out = place.run_with("shell --data shell", script).success();
        let found = with_database(&place, "shell", |database| rows_of(database, "t"));
        assert_same("script", seed, &schema, &found, &expected);
        let answer = out.lines().last().unwrap();
        let answer = answer.strip_prefix("{\"rows\":[").unwrap().strip_suffix("],\"total\":60}").unwrap();
        let lines: Vec<String> = place.read("t.jsonl").lines().map(str::to_owned).collect();
        assert_eq!(answer, lines.join(","), "SEED={seed}: the shell answers what an export writes");
    }
}
