//! Parquet files go out and come in with all their types, and wrong ones are refused with what is wrong.

#![cfg(feature = "parquet")]

use std::fmt::Write;

use crate::program::Place;

/// All types, NULL and not, with the least and the greatest values of each.
const SCHEMA: &str = r#"{"table": "t", "columns": [
    {"name": "id", "type": "i64"}, {"name": "flag", "type": "bool"},
    {"name": "a", "type": "i8"}, {"name": "b", "type": "i16"}, {"name": "c", "type": "i32"},
    {"name": "d", "type": "u8"}, {"name": "e", "type": "u16"}, {"name": "f", "type": "u32"},
    {"name": "g", "type": "u64"}, {"name": "h", "type": "f32"}, {"name": "i", "type": "f64"},
    {"name": "j", "type": "decimal(9,2)"}, {"name": "k", "type": "decimal(18,0)"}, {"name": "l", "type": "decimal(38,10)"},
    {"name": "m", "type": "text", "not_null": true}, {"name": "n", "type": "text(unicode)"},
    {"name": "o", "type": "bytes"}, {"name": "p", "type": "date"}, {"name": "q", "type": "timestamp"},
    {"name": "r", "type": "uuid"}, {"name": "s", "type": "json"}], "key": ["id desc"]}"#;

const ROWS: &[&str] = &[
    r#"{"id":9223372036854775807,"flag":true,"a":127,"b":32767,"c":2147483647,"d":255,"e":65535,"f":4294967295,"g":18446744073709551615,"h":3.4028235e38,"i":1.7976931348623157e308,"j":9999999.99,"k":999999999999999999,"l":9999999999999999999999999999.9999999999,"m":"\u0000ü\n","n":"Straße","o":"\\x00ff","p":"9999-12-31","q":"9999-12-31 23:59:59.999999","r":"ffffffff-ffff-ffff-ffff-ffffffffffff","s":{"b":[1,2.5,null],"a":"x"}}"#,
    r#"{"id":0,"flag":null,"a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null,"h":null,"i":null,"j":null,"k":null,"l":null,"m":"","n":null,"o":null,"p":null,"q":null,"r":null,"s":null}"#,
    r#"{"id":-1,"flag":false,"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0.0,"i":-0.0,"j":0.00,"k":0,"l":0.0000000001,"m":"a","n":"","o":"\\x","p":"1970-01-01","q":"1970-01-01 00:00:00","r":"00000000-0000-0000-0000-000000000000","s":[]}"#,
    r#"{"id":-9223372036854775808,"flag":false,"a":-128,"b":-32768,"c":-2147483648,"d":1,"e":1,"f":1,"g":1,"h":-3.4028235e38,"i":5e-324,"j":-9999999.99,"k":-999999999999999999,"l":-9999999999999999999999999999.9999999999,"m":"b","n":"b","o":"\\x7f","p":"-009999-01-01","q":"-009999-01-01 00:00:00","r":"00112233-4455-6677-8899-aabbccddeeff","s":"text"}"#,
];

fn all_types() -> Place {
    let place = Place::new();
    place.write("t.json", SCHEMA);
    place.write("t.jsonl", ROWS.join("\n"));
    place.run("import t.jsonl --data db --schema t.json").success();
    place
}

/// Writes a file, which the program tells on standard error.
fn export(place: &Place, line: &str) {
    let said = place.run(line);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

fn jsonl(place: &Place, data: &str) -> String {
    place.out(&format!("export --data {data} --table t --format jsonl"))
}

#[test]
fn all_types_come_back_with_null_and_at_their_limits() {
    let place = all_types();
    let before = jsonl(&place, "db");
    assert_eq!(before.lines().count(), ROWS.len());
    let said = place.run("export --data db --table t -o t.parquet");
    assert_eq!(said.err, "4 rows of table t in t.parquet\n");
    place.run("import t.parquet --data same --schema t.json").success();
    assert_eq!(jsonl(&place, "same"), before);
    assert_eq!(place.out("export --data same --table t --schema"), place.out("export --data db --table t --schema"));

    // Without a schema, the file's own types; it does not say how texts sort.
    let said = place.run("import t.parquet --data own --table t --key 'id desc'").success();
    let types = "t: id i64, flag bool, a i8, b i16, c i32, d u8, e u16, f u32, g u64, h f32, i f64, j decimal(9,2), \
                 k decimal(18,0), l decimal(38,10), m text, n text, o bytes, p date, q timestamp, r uuid, s json; \
                 key id desc\n";
    assert!(said.starts_with(types), "{said}");
    assert_eq!(jsonl(&place, "own"), before);
    let schema = place.out("export --data own --table t --schema");
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let is_not_null = |column: &&serde_json::Value| column["not_null"] == true;
    let not_null: Vec<_> = schema["columns"].as_array().unwrap().iter().filter(is_not_null).collect();
    assert_eq!(not_null.iter().map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>(), ["id", "m"]);
    #[cfg(feature = "server")]
    place.run("check own").success();
}

#[test]
fn tables_without_rows_and_ranges_and_indexes_are_files_too() {
    let place = all_types();
    let range = "export --data db --table t --from 0 --to=-5 -o range.parquet";
    assert_eq!(place.run(range).err, "2 rows of table t in range.parquet\n");
    export(&place, "export --data db --table t --from=-5 --to=-5 -o empty.parquet");
    let said = place.run("import empty.parquet --data empty --table t --key id").success();
    assert!(said.contains("\n0 rows in "), "{said}");
    assert_eq!(place.out("export --data empty --table t").lines().count(), 1);
    place.run("import range.parquet --data empty --table t").success();
    assert_eq!(jsonl(&place, "empty").lines().count(), 2);

    let bytes = place.read_bytes("range.parquet");
    place.run_with("import - --format parquet --data piped --table t --key id", bytes).success();
    assert_eq!(jsonl(&place, "piped"), jsonl(&place, "empty"));
    let shown = place.out("import range.parquet --table t --key id --show-schema");
    assert!(shown.contains("\"decimal(38,10)\""), "{shown}");
}

#[test]
fn many_rows_are_groups_of_rows() {
    let place = Place::new();
    let mut lines = "id,name,size\n".to_owned();
    for id in 0..130_000 {
        let size = if id % 7 == 0 { String::new() } else { format!("{}.5", id % 100) };
        writeln!(lines, "{id},name {},{size}", id % 1000).unwrap();
    }
    place.write("t.csv", &lines);
    place.run("import t.csv --data db --table t --key id --index by=name,size").success();
    export(&place, "export --data db --table t -o t.parquet");
    place.run("import t.parquet --data again --table t --key id --index by=name,size").success();
    assert_eq!(place.out("export --data again --table t"), lines);
    assert_eq!(place.ask("again", "t.by", "count \"name 7\"")["count"], 130);
    export(&place, "export --data db --table t.by --prefix '\"name 7\"' -o by.parquet");
    place.run("import by.parquet --data by --table t --key name,id").success();
    assert_eq!(place.ask("by", "t", "len")["count"], 130);
}

#[test]
fn types_may_be_said_otherwise_where_values_allow_it() {
    let place = Place::new();
    place.write("t.csv", "id,day,small,id2\n1,2026-11-25,7,00112233-4455-6677-8899-aabbccddeeff\n");
    place.run("import t.csv --data db --table t --key id --types day=text,small=i64,id2=text").success();
    export(&place, "export --data db --table t -o t.parquet");
    let types = "--types day=date,small=decimal(5,2),id2=uuid";
    let said = place.run(&format!("import t.parquet --data other --table t --key id {types}")).success();
    assert!(said.starts_with("t: id i64, day date, small decimal(5,2), id2 uuid;"), "{said}");
    let row = r#"{"id":1,"day":"2026-11-25","small":"7.00","id2":"00112233-4455-6677-8899-aabbccddeeff"}"#;
    assert_eq!(jsonl(&place, "other"), format!("{row}\n"));
    let error = place.run("import t.parquet --data wrong --table t --key id --types day=i64").failure();
    let expected = "quipu: t.parquet: row 1: column day: \"2026-11-25\" is not of type i64; nothing was imported and \
                    there is no table t\n";
    assert_eq!(error, expected);
}

#[test]
fn wrong_files_are_refused_and_leave_nothing() {
    let place = all_types();
    export(&place, "export --data db --table t -o t.parquet");
    let whole = place.read_bytes("t.parquet");
    let import = "import x.parquet --data new --table t --key id";
    let refused = |bytes: &[u8]| {
        place.write("x.parquet", bytes);
        let error = place.run(import).failure();
        assert!(error.starts_with("quipu: x.parquet: "), "{error}");
        error
    };
    assert!(refused(b"").contains("it is not a Parquet file: it does not begin with PAR1"));
    assert!(refused(b"id,name\n1,a\n2,b\n").contains("it is not a Parquet file"));
    for part in 1..8 {
        let error = refused(&whole[..whole.len() * part / 8]);
        assert!(error.contains("the Parquet file is cut short: it does not end with PAR1"), "{error}");
    }
    let footer = [&whole[..whole.len() / 2], b"PAR1"].concat();
    assert!(refused(&footer).contains("the Parquet file is damaged, or of a kind that is not read"));

    let error = place.run("import t.parquet --data db --table t --on-conflict error").failure();
    assert!(error.contains("t.parquet: row 1: table t, row (9223372036854775807): a row of this key"), "{error}");
    let error = place.run("import t.parquet --data new --table t --key nr").failure();
    assert!(error.contains("there is no column \"nr\"; the columns are id, flag"), "{error}");
    let error = place.run("import t.parquet --data new --table t --key id --types x=i64").failure();
    assert!(error.contains("there is no column \"x\""), "{error}");

    place.write("less.json", SCHEMA.replace(r#"{"name": "flag", "type": "bool"},"#, ""));
    let error = place.run("import t.parquet --data less --schema less.json").failure();
    assert!(error.contains("t.parquet: column \"flag\" is not in the table; nothing was imported"), "{error}");
    place.write("more.json", SCHEMA.replace(r#"{"name": "flag""#, r#"{"name": "x", "type": "i8"}, {"name": "flag""#));
    let error = place.run("import t.parquet --data more --schema more.json").failure();
    assert!(error.contains("t.parquet: there is no column \"x\", which the table has; nothing"), "{error}");
    place.write("other.json", SCHEMA.replace("\"i8\"", "\"date\""));
    let error = place.run("import t.parquet --data other --schema other.json").failure();
    assert!(error.contains("row 1: column a: 127 is an integer, expected date; nothing was imported"), "{error}");
    let error = place.run("import t.parquet --data db --schema other.json").failure();
    assert!(error.contains("table t exists and its column is `a i8`, not `a date`"), "{error}");
}

#[test]
fn damage_is_an_error_or_other_rows_and_never_a_panic() {
    let place = all_types();
    export(&place, "export --data db --table t -o t.parquet");
    let whole = place.read_bytes("t.parquet");
    for at in (4..whole.len() - 4).step_by(whole.len() / 30) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        place.write("x.parquet", &bytes);
        let outcome = place.run(&format!("import x.parquet --data x{at} --table t --key id"));
        assert!(matches!(outcome.code, Some(0 | 1)), "byte {at}: {:?}, {}", outcome.code, outcome.err);
        assert!(!outcome.err.contains("panicked"), "byte {at}: {}", outcome.err);
    }
}
