//! The type of a field in a file: missing, a text, a number, a time; and the message where a person could expect
//! another.

use crate::program::Place;

const SCHEMA: &str = r#"{"table": "t", "columns": [{"name": "id", "type": "i64"}, {"name": "s", "type": "text"}],
    "key": ["id"]}"#;

fn jsonl(place: &Place, data: &str) -> String {
    place.out(&format!("export --data {data} --table t --format jsonl"))
}

/// The rows of a table as JSON lines.
fn rows_of(place: &Place, table: &str) -> String {
    place.out(&format!("export --data db --table {table} --format jsonl"))
}

/// The first line of what an import says: the columns with their types.
fn columns(place: &Place, arguments: &str) -> String {
    let said = place.out(arguments);
    said.lines().next().unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn csv_tells_null_from_the_empty_text_and_from_texts_that_read_as_marks() {
    let place = Place::new();
    let lines = "{\"id\":1,\"s\":\"\"}\n{\"id\":2,\"s\":null}\n{\"id\":3,\"s\":\"NA\"}\n";
    place.write("t.json", SCHEMA);
    place.write("t.jsonl", lines);
    place.run("import t.jsonl --data db --schema t.json").success();
    place.run("export --data db --table t -o out.csv");
    assert_eq!(place.read("out.csv"), "id,s\n1,\"\"\n2,\n3,\"NA\"\n");
    place.run("import out.csv --data same --schema t.json").success();
    assert_eq!(jsonl(&place, "same"), lines);
    // Also if NA is asked for as a mark: it stands in quotes.
    place.run("import out.csv --data marked --schema t.json --missing NA").success();
    assert_eq!(jsonl(&place, "marked"), lines);
}

#[test]
fn a_file_of_one_column_may_have_null_in_any_row() {
    let place = Place::new();
    let schema = r#"{"table": "t", "columns": [{"name": "s", "type": "text"}]}"#;
    let lines = "{\"s\":null}\n{\"s\":\"\"}\n{\"s\":null}\n{\"s\":\"x\"}\n";
    place.write("t.json", schema);
    place.write("t.jsonl", lines);
    place.run("import t.jsonl --data db --schema t.json").success();
    place.run("export --data db --table t -o out.csv");
    assert_eq!(place.read("out.csv"), "s\n\n\"\"\n\nx\n");
    place.run("import out.csv --data same --schema t.json").success();
    assert_eq!(jsonl(&place, "same"), lines);
}

#[test]
fn na_is_missing_among_numbers_and_times_and_a_text_among_texts() {
    let place = Place::new();
    place.write("x.csv", "code,n,day,flag\nNA,1,NA,NA\nPE,NA,2024-01-01,True\n\"NA,\",\"\",,FALSE\n");
    let said = place.out("import x.csv --data a --table t --key code");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "t: code text, n i64, day date, flag bool; key code",
            "column code: 1 field NA taken as text; `--missing NA` takes them as missing",
            "column n: 1 field NA taken as missing",
            "column day: 1 field NA taken as missing",
            "column flag: 1 field NA taken as missing",
        ]
    );
    let rows = "{\"code\":\"NA\",\"n\":1,\"day\":null,\"flag\":null}\n\
                {\"code\":\"NA,\",\"n\":null,\"day\":null,\"flag\":false}\n\
                {\"code\":\"PE\",\"n\":null,\"day\":\"2024-01-01\",\"flag\":true}\n";
    assert_eq!(jsonl(&place, "a"), rows);

    place.write("day.csv", "id,day\n1,NA\n2,2024-01-01\n");
    let types = columns(&place, "import day.csv --data b --table t --key id --missing ''");
    assert_eq!(types, "t: id i64, day text", "there is no mark");
    place.write("y.csv", "id,s\n1,NA\n2,\"NA\"\n");
    let said = place.out("import y.csv --data c --table t --key id --missing NA --json");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["notes"], serde_json::json!(["column s: 1 field NA taken as missing"]));
    assert_eq!(jsonl(&place, "c"), "{\"id\":1,\"s\":null}\n{\"id\":2,\"s\":\"NA\"}\n");
}

#[test]
fn no_record_of_a_csv_file_ends_it() {
    let place = Place::new();
    place.write("x.csv", "v\na\n\0the end\0\nb\n");
    let said = place.out("import x.csv --data db --table t --key v");
    assert!(said.contains("\n3 rows in "), "{said}");
    let out = place.out("export --data db --table t");
    assert_eq!(out, "v\n\0the end\0\na\nb\n");
    place.write("y.csv", "id,s\n1,\0the end\0\n2,b\n");
    place.run("import y.csv --data db --table u --key id").success();
    assert_eq!(place.out("export --data db --table u"), "id,s\n1,\0the end\0\n2,b\n");
}

#[test]
fn a_member_that_json_lines_leave_out_has_its_default() {
    let place = Place::new();
    let schema = r#"{"table": "t", "columns": [{"name": "id", "type": "i64"},
        {"name": "state", "type": "text", "not_null": true, "default": "'new'"},
        {"name": "n", "type": "i64", "default": "7"}, {"name": "m", "type": "i64"}], "key": ["id"]}"#;
    place.write("t.json", schema);
    place.write("t.jsonl", "{\"id\":1}\n{\"id\":2,\"n\":null,\"state\":\"old\"}\n{\"m\":3,\"id\":3}\n");
    let rows = "{\"id\":1,\"state\":\"new\",\"n\":7,\"m\":null}\n\
                {\"id\":2,\"state\":\"old\",\"n\":null,\"m\":null}\n\
                {\"id\":3,\"state\":\"new\",\"n\":7,\"m\":3}\n";
    for (data, options) in [("loaded", ""), ("batches", "--batch 2"), ("replaced", "--on-conflict replace")] {
        place.run(&format!("import t.jsonl --data {data} --schema t.json {options}")).success();
        assert_eq!(jsonl(&place, data), rows, "{data}");
    }
    place.write("more.jsonl", "{\"id\":1,\"m\":1}\n{\"id\":4}\n");
    place.run("import more.jsonl --data replaced --table t --on-conflict skip").success();
    assert_eq!(jsonl(&place, "replaced"), format!("{rows}{}", "{\"id\":4,\"state\":\"new\",\"n\":7,\"m\":null}\n"));
    place.write("null.jsonl", "{\"id\":5,\"state\":null}\n");
    let error = place.run("import null.jsonl --data loaded --table t").failure();
    assert!(error.contains("line 1: ") && error.contains("column state: NULL in a column that is NOT NULL"), "{error}");
}

#[test]
fn times_and_booleans_of_other_programs_have_their_types() {
    let place = Place::new();
    let files = [
        ("pandas.csv", "id,t,z,f\n1,2024-01-01 05:15:00,2024-01-01 05:15:00+02:00,True\n2,,,\n"),
        ("polars.csv", "id,t,z,f\n1,2024-01-01T05:15:00.000000,2024-01-01T05:15:00.000000+0200,true\n2,,,\n"),
        ("duckdb.csv", "id,t,z,f\n1,2024-01-01 05:15:00,2024-01-01 05:15:00+02,TRUE\n2,,,\n"),
        (
            "pandas.jsonl",
            "{\"id\":1,\"t\":\"2024-01-01T05:15:00.000\",\"z\":\"2024-01-01T03:15:00.000Z\",\"f\":true}\n{\"id\":2}\n",
        ),
    ];
    let rows = "{\"id\":1,\"t\":\"2024-01-01T05:15:00Z\",\"z\":\"2024-01-01T03:15:00Z\",\"f\":true}\n\
                {\"id\":2,\"t\":null,\"z\":null,\"f\":null}\n";
    for (name, file) in files {
        place.write(name, file);
        let data = name.replace('.', "_");
        let types = columns(&place, &format!("import {name} --data {data} --table t --key id"));
        assert_eq!(types, "t: id i64, t timestamp, z timestamp, f bool", "{name}");
        assert_eq!(jsonl(&place, &data), rows, "{name}");
    }
}

#[test]
fn numbers_that_no_float_is_and_codes_keep_all_their_digits() {
    let place = Place::new();
    let rows = "1,12345678901234567.89,32E0134\n2,0.1234567890123456789012,1E5\n3,1e-400,7E7\n";
    place.write("x.csv", format!("id,v,code\n{rows}"));
    let said = place.out("import x.csv --data db --table t --key id");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "t: id i64, v text, code text; key id");
    let note = "column v is text: it has numbers that f64 cannot hold exactly; `--types v=f64` rounds them";
    assert_eq!(lines[1], note);
    assert_eq!(place.out("export --data db --table t"), format!("id,v,code\n{rows}"));
    let types = "import x.csv --data other --table t --key id --types v=f64";
    assert_eq!(columns(&place, types), "t: id i64, v f64, code text");

    let lines = "{\"id\":1,\"v\":9007199254740993.0}\n{\"id\":2,\"v\":0.5}\n";
    place.write("x.jsonl", lines);
    assert_eq!(columns(&place, "import x.jsonl --data json --table t --key id"), "t: id i64, v json");
    assert_eq!(jsonl(&place, "json"), lines);

    // The schema alone goes to standard output, what is to know beside it.
    let shown = place.run("import x.csv --table t --key id --show-schema");
    assert_eq!((shown.code, shown.err.trim_end()), (Some(0), note));
    assert!(shown.out.starts_with('{'), "{}", shown.out);
}

#[test]
fn rows_that_are_alike_in_a_first_load_are_told_with_their_lines() {
    let place = Place::new();
    place.write("u.csv", "id,s\n1,x\n2,\"a\nb\"\n3,z\n2,c\n5,x\n");
    let error = place.run("import u.csv --data db --table t --key id").failure();
    assert!(error.starts_with("quipu: u.csv: lines 3 and 6: table t, row (2): two rows have this key"), "{error}");
    let error = place.run("import u.csv --data db --table t --key id --types id=text").failure();
    assert!(error.starts_with("quipu: u.csv: lines 3 and 6: table t, row (\"2\"): two rows have this key"), "{error}");

    let unique = r#"{"table": "t", "columns": [{"name": "id", "type": "i64"}, {"name": "s", "type": "text(unicode)"}],
        "key": ["id"], "indexes": [{"name": "s", "columns": ["s"], "unique": true}]}"#;
    place.write("unique.json", unique);
    place.write("u.csv", "id,s\n1,Zoe\n2,a\n3,zoë\n");
    let error = place.run("import u.csv --data db --schema unique.json").failure();
    let expected = "quipu: u.csv: lines 2 and 4: table t: rows (1) and (3) have the same s, so the index s cannot be";
    assert!(error.starts_with(expected), "{error}");

    place.write("unicode.json", unique.replace("\"key\": [\"id\"]", "\"key\": [\"s\"]"));
    let error = place.run("import u.csv --data db --schema unicode.json").failure();
    assert!(error.starts_with("quipu: u.csv: lines 2 and 4: table t, row (\"Zoe\"): two rows have"), "{error}");

    place.write("u.jsonl", "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n{\"id\":1}\n");
    let error = place.run("import u.jsonl --data db --table t --key id").failure();
    assert!(error.starts_with("quipu: u.jsonl: lines 1, 3 and 4: table t, row (1): two rows have"), "{error}");
}

#[test]
fn a_key_that_is_too_long_is_told_with_its_line() {
    let place = Place::new();
    place.write("long.csv", format!("id,n\nb,1\n{},2\n", "a".repeat(70_000)));
    let error = place.run("import long.csv --data db --table t --key id").failure();
    assert!(error.starts_with("quipu: long.csv: line 3: table t, row (\"aaaa"), "{error}");
    let limit = "a key of 70002 bytes is over the limit of 65536 bytes; shorten it; nothing was imported";
    assert!(error.contains(limit), "{error}");
    let error = place.run("import long.csv --data db --table t --key n --index by=id").failure();
    assert!(error.contains("table t, row (2), index by: a key of 700"), "{error}");
}

#[test]
fn what_a_file_is_compressed_with_is_told() {
    let place = Place::new();
    place.write("x.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    let error = place.run("import x.csv.gz --data db --table t --key id").failure();
    assert!(error.contains("the gzip data is damaged or cut short"), "{error}");
    let outcome = place.run("import x.csv.xz --data db --table t --key id");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("x.csv.xz is compressed with xz, which is not read"), "{}", outcome.err);

    place.write("x.csv", "id,s\n1,a\n");
    place.run("import x.csv --data db --table t --key id").success();
    for (name, complaint) in [
        (
            "out.csv.xz",
            "out.csv.xz: an export is compressed with gzip or zstd; write to standard output, and pipe it: `",
        ),
        ("out.json.LZ4 --schema", "out.json.LZ4: an export is compressed with gzip or zstd"),
        ("out.json", "out.json: an export is an object a line, and no array; name it .jsonl, or add --format jsonl"),
        ("out.parquet.gz", "out.parquet.gz: Parquet is compressed as it is; leave the ending out"),
        ("out", "out has no name that tells its format: add --format csv, jsonl or parquet"),
    ] {
        let outcome = place.run(&format!("export --data db --table t -o {name}"));
        assert_eq!(outcome.code, Some(2), "{name}: {}", outcome.err);
        assert!(outcome.err.contains(complaint), "{name}: {}", outcome.err);
        assert!(!place.path(name.split(' ').next().unwrap()).exists(), "{name}");
    }
}

#[test]
fn null_of_json_is_not_written_as_null() {
    let place = Place::new();
    let schema = r#"{"table": "t", "columns": [{"name": "id", "type": "i64"}, {"name": "j", "type": "json"}],
        "key": ["id"]}"#;
    place.write("t.json", schema);
    place.write("t.csv", "id,j\n1,\n2,null\n");
    place.run("import t.csv --data db --schema t.json").success();
    assert_eq!(place.out("export --data db --table t"), "id,j\n1,\n2,null\n");
    let error = place.run("export --data db --table t --format jsonl").failure();
    assert!(error.starts_with("quipu: row 2, column j: null of JSON is not NULL"), "{error}");
}

#[test]
fn other_delimiters_are_read() {
    let place = Place::new();
    place.write("x.csv", "id;price\n1;\"a;b\"\n2;a,b\n");
    place.run("import x.csv --data db --table t --key id --delimiter ;").success();
    assert_eq!(place.out("export --data db --table t"), "id,price\n1,a;b\n2,\"a,b\"\n");
    place.write("x.tsv", "id\tprice\n3\tx\n");
    place.run("import x.tsv --format csv --data db --table t --delimiter tab").success();
    assert_eq!(place.ask("db", "t", "get 3")["row"]["price"], "x");
    let outcome = place.run("import x.csv --data db --table t --delimiter '\"'");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("a delimiter is neither a quote"), "{}", outcome.err);
}

/// A file as spreadsheets write it where numbers have a comma.
#[test]
fn numbers_with_a_decimal_comma_are_read_where_they_can_be_nothing_else() {
    let place = Place::new();
    place.write("sales.csv", "id;price;code;kilos\n1;1.234,56;1,234;7\n2;-12,5;2,345;8,25\n3;;3,456;9\n");
    let out = place.out("import sales.csv --data db --key id");
    assert!(out.starts_with("sales: id i64, price f64, code text, kilos f64; key id\n"), "{out}");
    let told =
        "numbers with a decimal comma, as 12,5, were read in price, kilos; `--types price=text` leaves them unchanged";
    assert!(out.contains(told), "{out}");
    assert!(
        out.contains("column code is text: its fields may be numbers with a decimal comma; `--decimal-comma`"),
        "{out}"
    );
    let rows = "{\"id\":1,\"price\":1234.56,\"code\":\"1,234\",\"kilos\":7.0}\n\
                {\"id\":2,\"price\":-12.5,\"code\":\"2,345\",\"kilos\":8.25}\n\
                {\"id\":3,\"price\":null,\"code\":\"3,456\",\"kilos\":9.0}\n";
    assert_eq!(rows_of(&place, "sales"), rows);
    // A table has its types, and nothing is guessed any more.
    place.write("more.csv", "id;price;code;kilos\n4;1,5;x;1\n");
    let error = place.run("import more.csv --data db --table sales").failure();
    let what = "line 2: column price: \"1,5\" is not of type f64; `--decimal-comma` reads it as 1.5; nothing was";
    assert!(error.contains(what), "{error}");
    place.run("import more.csv --data db --table sales --decimal-comma").success();
    assert_eq!(place.ask("db", "sales", "get 4")["row"]["price"], 1.5);
    // A point elsewhere in the file says that commas are something else, such as lists.
    place.write("lists.csv", "id;choices;price\n1;1,2;0.5\n2;2,3;1.5\n");
    let out = place.out("import lists.csv --data db --key id");
    assert!(out.starts_with("lists: id i64, choices text, price f64; key id\n"), "{out}");
}

#[test]
fn numbers_with_a_decimal_comma_are_read_on_request() {
    let place = Place::new();
    place.write("a.csv", "id,price,groups,share\n1,\"1 234,5\",1.000,\"0,5\"\n2,\"7,25\",2.000.000,\"1,0\"\n");
    let out = place.out("import a.csv --data db --key id --decimal-comma --types 'share=decimal(5,2)'");
    assert!(out.starts_with("a: id i64, price f64, groups i64, share decimal(5,2); key id\n"), "{out}");
    let rows = "{\"id\":1,\"price\":1234.5,\"groups\":1000,\"share\":\"0.50\"}\n\
                {\"id\":2,\"price\":7.25,\"groups\":2000000,\"share\":\"1.00\"}\n";
    assert_eq!(rows_of(&place, "a"), rows);
    for (field, what) in [
        ("1.5", "column price: \"1.5\" is not a number with a decimal comma, such as 1.234,56"),
        ("1.2345,6", "column price: \"1.2345,6\" is not a number with a decimal comma"),
    ] {
        place.write("wrong.csv", format!("id;price;groups;share\n3;{field};1;1\n"));
        let error = place.run("import wrong.csv --data db --table a --decimal-comma").failure();
        assert!(error.contains(&format!("line 2: {what}")), "{error}");
    }
    place.write("wrong.csv", "id;price;groups;share\n3;1;1,5;1\n");
    let error = place.run("import wrong.csv --data db --table a --decimal-comma").failure();
    assert!(error.contains("line 2: column groups: \"1,5\", which is 1.5: \"1.5\" is not of type i64"), "{error}");
}

#[test]
fn dates_are_read_in_the_order_that_is_asked_for() {
    let place = Place::new();
    place.write("days.csv", "id,a,b,c\n1,04.07.2013,04/07/2013,2013-07-04\n2,24.12.2013,12/11/2013,2013-12-24\n");
    let out = place.out("import days.csv --data db --key id");
    assert!(out.starts_with("days: id i64, a text, b text, c date; key id\n"), "{out}");
    assert!(
        out.contains("column a is text: its fields may be dates; `--date-format DD.MM.YYYY` reads them so\n"),
        "{out}"
    );
    assert!(
        out.contains(
            "column b is text: its fields may be dates; `--date-format` says whether as DD/MM/YYYY or MM/DD/YYYY\n"
        ),
        "{out}"
    );
    let out =
        place.out("import days.csv --data db --table d2 --key id --date-format DD.MM.YYYY --date-format b=MM/DD/YYYY");
    assert!(out.starts_with("d2: id i64, a date, b date, c date; key id\n"), "{out}");
    let rows = "{\"id\":1,\"a\":\"2013-07-04\",\"b\":\"2013-04-07\",\"c\":\"2013-07-04\"}\n\
                {\"id\":2,\"a\":\"2013-12-24\",\"b\":\"2013-12-11\",\"c\":\"2013-12-24\"}\n";
    assert_eq!(rows_of(&place, "d2"), rows);
    place.write("times.csv", "id,at\n1,7/4/2013 05:15\n2,12/24/2013 17:00:30.5\n");
    let out = place.out("import times.csv --data db --key id --date-format %m/%d/%Y");
    assert!(out.starts_with("times: id i64, at timestamp; key id\n"), "{out}");
    assert_eq!(place.ask("db", "times", "get 2")["row"]["at"], "2013-12-24T17:00:30.5Z");
    // A format for one column is more than a guess.
    place.write("wrong.csv", "id,a,b,c\n3,04.07.2013,13/07/2013,2013-07-04\n");
    let error = place.run("import wrong.csv --data db --key id --date-format b=MM/DD/YYYY").failure();
    let what = "line 2: column b: \"13/07/2013\" is not of type date with the date as MM/DD/YYYY; nothing was imported";
    assert!(error.contains(what), "{error}");
    let error = place.run("import wrong.csv --data db --table d2").failure();
    assert!(error.contains("column a: \"04.07.2013\" is not of type date as 2013-07-04; `--date-format` reads it, as DD.MM.YYYY or MM.DD.YYYY;"), "{error}");
    let outcome = place.run("import wrong.csv --data db --key id --date-format DD.MM.YY");
    assert!(outcome.code == Some(2) && outcome.err.contains("a year has four digits: YYYY"), "{}", outcome.err);
    assert!(
        place
            .run("import wrong.csv --data db --key id --date-format x=DD.MM.YYYY")
            .failure()
            .contains("there is no column \"x\"")
    );
}

#[test]
fn words_are_booleans_on_request() {
    let place = Place::new();
    place.write("members.csv", "id,paid,active,level\n1,yes,1,0\n2,no,0,1\n3,,1,2\n");
    let out = place.out("import members.csv --data db --key id");
    assert!(out.starts_with("members: id i64, paid text, active i64, level i64; key id\n"), "{out}");
    assert!(out.contains("column paid is text: `--booleans yes,no` makes true and false of its words\n"), "{out}");
    let out = place.out("import members.csv --data db --table m2 --key id --booleans yes,no --booleans active=1,0");
    assert!(out.starts_with("m2: id i64, paid bool, active bool, level i64; key id\n"), "{out}");
    let rows = "{\"id\":1,\"paid\":true,\"active\":true,\"level\":0}\n\
                {\"id\":2,\"paid\":false,\"active\":false,\"level\":1}\n\
                {\"id\":3,\"paid\":null,\"active\":true,\"level\":2}\n";
    assert_eq!(rows_of(&place, "m2"), rows);
    // Of all columns: one with other numbers stays what it is.
    let out = place.out("import members.csv --data db --table m3 --key id --booleans 1,0");
    assert!(out.starts_with("m3: id i64, paid text, active bool, level i64; key id\n"), "{out}");
    place.write("wrong.csv", "id,paid,active,level\n4,maybe,1,0\n");
    let error = place.run("import wrong.csv --data db --table m2 --booleans yes,no").failure();
    assert!(
        error.contains("line 2: column paid: \"maybe\" is neither \"yes\" nor \"no\", which --booleans says"),
        "{error}"
    );
    let error = place.run("import wrong.csv --data db --table m2").failure();
    assert!(
        error.contains("line 2: column paid: \"maybe\" is not of type bool; `--booleans yes,no` says other words"),
        "{error}"
    );
    place.write("a.jsonl", "{\"id\":1}\n");
    assert_eq!(place.run("import a.jsonl --data db --booleans yes,no").code, Some(2));
}
