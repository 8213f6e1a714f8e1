//! Files go into tables and come out as they were.

use crate::program::Place;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

const TOWNS: &str = "\
city,country,people,altitude,note
Cusco,PE,428450,3399.0,navel
\"San José, CR\",CR,,1172.0,\"says \"\"hello\"\"\"
La Paz,BO,816044,3640.5,\"two
lines\"
Nuuk,GL,19872,5.0,NA
Ōsaka,JP,2753862,-1.25,'
";

const IMPORT: &str = "import towns.csv --data db --table towns --key country,city --index size=people --sum people";

fn towns() -> Place {
    let place = Place::new();
    place.write("towns.csv", TOWNS);
    place.run(IMPORT).success();
    place
}

#[test]
fn a_csv_file_comes_back() {
    let place = towns();
    let expected = "\
city,country,people,altitude,note
La Paz,BO,816044,3640.5,\"two
lines\"
\"San José, CR\",CR,,1172.0,\"says \"\"hello\"\"\"
Nuuk,GL,19872,5.0,\"NA\"
Ōsaka,JP,2753862,-1.25,'
Cusco,PE,428450,3399.0,navel
";
    assert_eq!(place.out("export --data db --table towns"), expected);
}

#[test]
fn importing_an_export_gives_the_same_tally() {
    let place = towns();
    let before = place.ask("db", "towns", "tally");
    assert_eq!(before["rows"], 5);
    assert_eq!(before["sum"], 428450 + 816044 + 19872 + 2753862);
    for format in ["csv", "jsonl"] {
        let exported = place.run(&format!("export --data db --table towns -o out.{format}"));
        assert_eq!(exported.err, format!("5 rows of table towns in out.{format}\n"));
        let import =
            IMPORT.replace("towns.csv", &format!("out.{format}")).replace("--data db", &format!("--data {format}"));
        place.run(&import).success();
        assert_eq!(place.ask(format, "towns", "tally"), before, "{format}");
        assert_eq!(place.ask(format, "towns.size", "tally"), place.ask("db", "towns.size", "tally"));
        assert_eq!(place.ask(format, "towns.size", "scan"), place.ask("db", "towns.size", "scan"));
    }
}

#[test]
fn json_lines_keep_what_csv_cannot_say() {
    let place = Place::new();
    let lines = concat!(
        r#"{"id":1,"name":"","tags":["a",{"b":null}],"big":18446744073709551615,"flag":true,"odd":"1"}"#,
        "\n",
        r#"{"id":2,"name":"NA","tags":null,"big":1,"flag":null,"odd":2}"#,
        "\n",
        r#"{"id":3,"name":null,"tags":[],"big":null,"flag":false,"odd":null}"#,
        "\n",
    );
    place.write("x.jsonl", lines);
    let report: serde_json::Value =
        serde_json::from_str(&place.out("import x.jsonl --data db --table x --key id --json")).unwrap();
    let types: Vec<&str> =
        report["columns"].as_array().unwrap().iter().map(|column| column["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["i64", "text", "json", "u64", "bool", "json"]);
    assert_eq!(place.out("export --data db --table x --format jsonl"), lines);
}

#[test]
fn members_that_come_late_are_columns_too() {
    let place = Place::new();
    place.write("x.jsonl", "{\"id\": 1}\n\n{\"id\": 2, \"late\": 2.5}\n{\"late\": 3, \"id\": 3}\n");
    place.run("import x.jsonl --data db --table x --key id").success();
    let expected = "id,late\n1,\n2,2.5\n3,3.0\n";
    assert_eq!(place.out("export --data db --table x"), expected);
}

#[test]
fn compressed_files_and_pipes_are_read() {
    let place = towns();
    let before = place.ask("db", "towns", "tally");
    let (head, tail) = TOWNS.as_bytes().split_at(50);
    let mut frames = compress_to_vec(head, CompressionLevel::Fastest);
    frames.extend_from_slice(&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    frames.extend(compress_to_vec(tail, CompressionLevel::Fastest));
    place.write("towns.csv.zst", &frames);
    place.run(&IMPORT.replace("towns.csv", "towns.csv.zst").replace("--data db", "--data zst")).success();
    assert_eq!(place.ask("zst", "towns", "tally"), before);

    let piped = IMPORT.replace("towns.csv", "- --format csv").replace("--data db", "--data pipe");
    place.run_with(&piped, &frames).success();
    assert_eq!(place.ask("pipe", "towns", "tally"), before);

    frames.truncate(frames.len() - 5);
    place.write("cut.csv.zst", &frames);
    let error = place.run(&IMPORT.replace("towns.csv", "cut.csv.zst").replace("--data db", "--data cut")).failure();
    assert!(error.starts_with("quipu: cannot read cut.csv.zst: the zstd data is damaged or cut short"), "{error}");
}

#[test]
fn types_are_found_over_the_whole_file_or_declared() {
    let place = Place::new();
    let mut file = "id,zip,ratio\n".to_owned();
    for id in 0..5_000 {
        file.push_str(&format!("{id},{:05},{id}\n", 10_000 + id));
    }
    place.write("x.csv", format!("{file}5000,00001,0.5\n"));
    let types = |out: String| out.lines().next().unwrap().to_owned();
    let out = place.out("import x.csv --data a --table x --key id");
    assert_eq!(types(out), "x: id i64, zip text, ratio f64; key id");
    place.write("y.csv", &file);
    let out = place.out("import y.csv --data a --table y --key zip,id --types zip=text,ratio=f64");
    assert_eq!(types(out), "y: id i64, zip text, ratio f64; key zip,id");
    assert_eq!(place.ask("a", "y", "count 1000*")["count"], 10);

    place.write("codes.csv", "code,n\nNA,1\nPE,2\n");
    place.run("import codes.csv --data a --table codes --key code --missing -").success();
    assert_eq!(place.ask("a", "codes", "get NA")["row"]["n"], 1);
}

#[test]
fn a_taken_key_is_an_error_or_replaced_or_skipped() {
    let place = towns();
    place.write("more.csv", "note,city,country,people,altitude\nnew,Lima,PE,10092000,161.0\nmoved,Cusco,PE,1,2.0\n");
    let import = "import more.csv --data db --table towns";
    let before = place.ask("db", "towns", "tally");
    let error = place.run(import).failure();
    let expected = "quipu: more.csv: line 3: table towns, row (\"PE\", \"Cusco\"): a row of this key is there already; \
                    nothing was imported, table towns is as it was\n";
    assert_eq!(error, expected);
    assert_eq!(place.ask("db", "towns", "tally"), before);

    let report = |policy: &str| -> serde_json::Value {
        serde_json::from_str(&place.out(&format!("{import} --on-conflict {policy} --json"))).unwrap()
    };
    let skipped = report("skip");
    assert_eq!([&skipped["rows"], &skipped["skipped"], &skipped["table_rows"]], [1, 1, 6]);
    assert_eq!(place.ask("db", "towns", "get PE,Cusco")["row"]["note"], "navel");

    let replaced = report("replace");
    assert_eq!([&replaced["rows"], &replaced["replaced"], &replaced["table_rows"]], [2, 2, 6]);
    assert_eq!(place.ask("db", "towns", "get PE,Cusco")["row"]["note"], "moved");
    assert_eq!(place.ask("db", "towns.size", "len")["count"], 6);
    assert_eq!(place.ask("db", "towns.size", "count 428450")["count"], 0, "the old entry is gone");
    assert_eq!(place.ask("db", "towns.size", "count 1")["count"], 1);
}

#[test]
fn a_table_without_rows_is_loaded_straight_to_disk() {
    let place = Place::new();
    let csv = |numbers: &mut dyn Iterator<Item = u32>| {
        let lines: String = numbers.map(|number| format!("{number},name {}\n", number % 1000)).collect();
        format!("id,name\n{lines}")
    };
    place.write("down.csv", csv(&mut (0..60_000).rev()));
    let said = place.run("import down.csv --data db --table t --key id --index by=name").success();
    assert!(said.contains("60,000 rows in ") && said.contains("the table has 60,000"), "{said}");
    assert_eq!(place.out("export --data db --table t"), csv(&mut (0..60_000)));
    assert_eq!(place.ask("db", "t.by", "count \"name 7\"")["count"], 60);
    let stats: serde_json::Value = serde_json::from_str(&place.out("stats db --json")).unwrap();
    assert_eq!((&stats["tables"][0]["table"], &stats["tables"][0]["runs"]), (&"t".into(), &1.into()), "{stats}");
    place.run("check db").success();

    place.write("twice.csv", "id,name\n1,a\n2,b\n1,c\n");
    let error = place.run("import twice.csv --data db --table u --key id").failure();
    let twice =
        "lines 2 and 4: table u, row (1): two rows have this key; `--key id,name` would do; nothing was imported";
    assert!(error.contains(twice) && error.contains("there is no table u"), "{error}");
}

#[test]
fn a_key_of_which_rows_have_the_same_is_told_with_one_that_would_do() {
    let place = Place::new();
    let error = |file: &str, key: &str| {
        place.write("x.csv", file);
        place.run(&format!("import x.csv --data db --table t --key {key}")).failure()
    };
    let flights = "day,number,to,note\n1,7,LIM,a\n1,7,CUZ,\n1,8,LIM,a\n2,7,LIM,c\n";
    assert!(error(flights, "day").contains("`--key day,number,to` would do"), "no column with missing fields");
    assert!(error(flights, "number").contains("`--key number,day,to` would do"));
    let alike = error("a,b\n1,x\n2,x\n1,x\n", "a");
    assert!(alike.contains("no columns tell all rows apart: leave --key out, and rows are numbered"), "{alike}");
    // A table that is there keeps its key.
    place.write("x.csv", "a\n1\n");
    place.run("import x.csv --data db --table u --key a").success();
    place.write("x.csv", "a\n2\n2\n");
    assert!(!place.run("import x.csv --data db --table u").failure().contains("--key"));
}

#[test]
fn rows_of_a_file_without_a_key_are_numbered_in_its_order() {
    let place = Place::new();
    place.write("Towns-2026.csv", "name\nCusco\nLima\nCusco\n");
    let said = place.run("import Towns-2026.csv --data db").success();
    assert!(said.starts_with("Towns-2026: name text; key rowid\nno key was named: rows are numbered"), "{said}");
    assert_eq!(place.out("export --data db --table Towns-2026"), "name\nCusco\nLima\nCusco\n");
    place.run("import Towns-2026.csv --data db").success();
    assert_eq!(place.ask("db", "Towns-2026", "count")["count"], 6);
}

#[test]
fn files_are_read_as_they_are() {
    let place = Place::new();
    let expected = "name,note,price\nCafé,,1.5\nÑandú,\"a,b\",2.5\n";
    let latin1 = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let text =
        |delimiter: &str| ["name~note~price", "Café~~1.5", "Ñandú~\"a,b\"~2.5\n"].join("\n").replace('~', delimiter);
    let json = "[{\"name\": \"Café\", \"note\": null, \"price\": 1.5},\n\
                {\"name\": \"Ñandú\", \"note\": \"a,b\", \"price\": 2.5}]";
    let files: [(&str, Vec<u8>, &str); 11] = [
        ("a.csv", text(",").into(), ""),
        ("b.tsv", text("\t").into(), ""),
        ("c.txt", text("\t").into(), ""),
        ("d.csv", text(";").into(), ""),
        ("e.dat", text("|").into(), ""),
        ("f.csv", latin1(&text(";")), "--encoding latin1"),
        ("g.csv", utf16(&format!("\u{feff}{}", text(","))), ""),
        ("h.csv", utf16(&text(",")), "--encoding utf-16le"),
        ("i.json", json.into(), ""),
        ("j", json.into(), ""),
        ("k.csv", text(",").split_once('\n').unwrap().1.into(), "--no-header --columns name,note,price"),
    ];
    for (name, bytes, options) in files {
        let table = name.split('.').next().unwrap();
        place.write(name, &bytes);
        place.run(&format!("import {name} --data db {options}")).success();
        assert_eq!(place.out(&format!("export --data db --table {table}")), expected, "{name}");
        let piped = place.run_with(&format!("import - --data db --table {table}_piped {options}"), &bytes);
        piped.success();
        assert_eq!(place.out(&format!("export --data db --table {table}_piped")), expected, "{name}, piped");
    }
    for ending in ["csv.gz", "csv.zst", "tsv.gz", "jsonl.zst", "tsv"] {
        let said = place.run(&format!("export --data db --table a -o out.{ending}"));
        assert_eq!((said.code, said.err), (Some(0), format!("2 rows of table a in out.{ending}\n")));
        place.run(&format!("import out.{ending} --data {ending}")).success();
        assert_eq!(place.out(&format!("export --data {ending} --table out")), expected, "{ending}");
    }
}

/// An export to `.psv` had commas, and an import of one expects bars.
#[test]
fn the_name_of_a_file_says_its_delimiter_to_import_and_export() {
    let place = towns();
    let expected = place.out("export --data db --table towns");
    for (name, delimiter) in [("o.csv", ','), ("o.tsv", '\t'), ("o.tab", '\t'), ("o.psv", '|'), ("o.psv.gz", '|')] {
        place.run(&format!("export --data db --table towns -o {name}"));
        if !name.ends_with("gz") {
            let header = ["city", "country", "people", "altitude", "note"].join(&delimiter.to_string());
            assert_eq!(place.read(name).lines().next(), Some(header.as_str()), "{name}");
        }
        place.run(&format!("import {name} --data {name}.db --table towns --key country,city")).success();
        assert_eq!(place.out(&format!("export --data {name}.db --table towns")), expected, "{name}");
    }
}

/// A header of one name `a|b|c|d`, or one with more semicolons than commas, was cut there.
#[test]
fn names_of_columns_with_delimiters_come_back() {
    let place = Place::new();
    let files = ["a|b|c|d\n", "a|b|c|d\nx|y\n", "price (USD;EUR;GBP),b\n1,2\n", "price (USD;EUR;GBP),b\n"];
    for (number, content) in files.into_iter().enumerate() {
        place.write("in.csv", content);
        place.run(&format!("import in.csv --data db --table t{number} --delimiter ,")).success();
        place.run(&format!("export --data db --table t{number} -o out.csv"));
        place.run(&format!("import out.csv --data db --table u{number}")).success();
        let export = |table: &str| place.out(&format!("export --data db --table {table}{number}"));
        assert_eq!(export("u"), export("t"), "{content}");
        assert!(export("t").starts_with('"'), "{content}: others are not misled");
        // Into the table that is there, with its header as others write it.
        place.run(&format!("import in.csv --data db --table u{number}")).success();
    }
}

/// It said `1 rows`.
#[test]
fn one_row_is_no_plural() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    assert!(place.out("import t.csv --data db --key id").contains("\n1 row in "));
    assert_eq!(place.run("export --data db --table t -o o.csv").err, "1 row of table t in o.csv\n");
    place.write("u.csv", "id\n2\nx\n");
    let kept = place.run("import u.csv --data db --table t --batch 1").failure();
    assert!(kept.contains("the 1 row of the batches before stays in table t; "), "{kept}");
}

#[test]
fn a_schema_goes_out_and_comes_in() {
    let place = towns();
    place.run("export --data db --table towns --schema -o towns.json").success();
    let schema = place.read("towns.json");
    let corrected = schema.replace("\"i64\"", "\"u32\"");
    assert_ne!(schema, corrected);
    place.write("corrected.json", &corrected);
    let said = place.run("import towns.csv --data other --schema corrected.json").success();
    assert!(said.starts_with("towns: city text, country text, people u32, altitude f64, note text;"), "{said}");
    assert_eq!(place.ask("other", "towns", "scan"), place.ask("db", "towns", "scan"));
    assert_eq!(place.out("export --data other --table towns --schema"), corrected);

    let shown =
        place.out("import towns.csv --table towns --key country,city --index size=people --sum people --show-schema");
    place.write("shown.json", shown);
    let error = place.run("import towns.csv --data other --schema shown.json").failure();
    let expected =
        "table towns exists and its column is `people u32`, not `people i64`; the schema file says otherwise";
    assert_eq!(error, format!("quipu: {expected}\n"));
    place.write("nonsense.json", "{\"table\": \"t\", \"columns\": [], \"colour\": 1}");
    let error = place.run("import towns.csv --data other --schema nonsense.json").failure();
    assert!(error.contains("nonsense.json: not a schema: unknown field `colour`"), "{error}");
}

#[test]
fn defaults_and_numbers_stand_in_for_columns_that_a_file_lacks() {
    let place = Place::new();
    let schema = r#"{"table": "t", "columns": [
        {"name": "id", "type": "i64", "identity": "always"}, {"name": "name", "type": "text", "not_null": true},
        {"name": "state", "type": "text", "default": "'new'"}], "key": ["id"]}"#;
    place.write("t.json", schema);
    place.write("t.csv", "name\na\n\"\"\n");
    place.run("import t.csv --data db --schema t.json").success();
    place.run("import t.csv --data db --table t --batch 1").success();
    // Closing the database leaves no gap.
    let rows: Vec<String> = place.out("export --data db --table t").lines().map(str::to_owned).collect();
    assert_eq!(rows, ["id,name,state", "1,a,new", "2,\"\",new", "3,a,new", "4,\"\",new"]);
}

#[test]
fn a_table_that_gives_out_numbers_moves_with_them() {
    let place = Place::new();
    let schema = r#"{"table": "t", "columns": [{"name": "id", "type": "i64", "identity": "always"},
        {"name": "v", "type": "text"}], "key": ["id"]}"#;
    place.write("t.json", schema);
    place.write("t.jsonl", "{\"v\":\"a\"}\n{\"v\":\"b\"}\n{\"v\":\"c\"}\n");
    place.run("import t.jsonl --data db --schema t.json").success();
    place.run("shell --data db -c 'remove 1' -c 'update 3 d'").success();
    for (number, format) in ["csv", "jsonl"].into_iter().enumerate() {
        place.run(&format!("export --data db --table t -o out.{format}"));
        for options in ["", "--batch 1"] {
            let data = format!("{format}{}", options.len());
            place.run(&format!("import out.{format} --data {data} --schema t.json {options}")).success();
            let rows = place.out(&format!("export --data {data} --table t"));
            assert_eq!(rows, "id,v\n2,b\n3,d\n", "{number}");
            place.write("new.csv", "v\nnew\n");
            place.run(&format!("import new.csv --data {data} --table t")).success();
            assert_eq!(place.ask(&data, "t", "get 4")["row"]["v"], "new", "the next number comes after the last");
        }
    }
}

#[test]
fn an_error_keeps_the_batches_before_it_or_nothing() {
    let place = Place::new();
    place.write("x.csv", "id,n\n1,1\n2,2\n3,3\n4,4\n5,five\n6,6\n");
    let import = "import x.csv --data db --table x --key id --types id=i64,n=i64";
    let reason = r#"quipu: x.csv: line 6: column n: "five" is not of type i64"#;
    let kept =
        "the 4 rows of the batches before stay in table x; import again with --on-conflict skip to go on after them";
    assert_eq!(place.run(&format!("{import} --batch 2")).failure(), format!("{reason}; {kept}\n"));
    assert_eq!(place.ask("db", "x", "len")["count"], 4);

    place.write("x.csv", "id,n\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n");
    place.run(&format!("{import} --batch 2 --on-conflict skip")).success();
    assert_eq!(place.ask("db", "x", "len")["count"], 6);

    place.write("x.csv", "id,n\n7,1\n8,2\n9,nine\n");
    let kept = "nothing was imported, table x is as it was";
    let reason = r#"quipu: x.csv: line 4: column n: "nine" is not of type i64"#;
    assert_eq!(place.run(&format!("{import} --atomic")).failure(), format!("{reason}; {kept}\n"));
    assert_eq!(place.ask("db", "x", "len")["count"], 6);

    let fresh = import.replace("--table x", "--table fresh");
    let kept = "nothing was imported and there is no table fresh";
    assert_eq!(place.run(&format!("{fresh} --atomic")).failure(), format!("{reason}; {kept}\n"));
    let error = place.run("shell --data db --table fresh -c len").failure();
    assert_eq!(error, "quipu: there is no table \"fresh\"; there are x\n");
}

#[test]
fn ranges_are_exported() {
    let place = towns();
    let cities = |options: &str| {
        let out = place.out(&format!("export --data db --table towns --format jsonl {options}"));
        let city =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["city"].as_str().unwrap().to_owned();
        out.lines().map(city).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(cities("--prefix GL"), "Nuuk");
    assert_eq!(cities("--from GL"), "Nuuk Ōsaka Cusco");
    assert_eq!(cities("--to GL"), "La Paz San José, CR");
    assert_eq!(cities("--from CR --to 'JP,A'"), "San José, CR Nuuk");
    assert_eq!(cities("--prefix '\"CR\",\"San José, CR\"'"), "San José, CR");
    let index = place.out("export --data db --table towns.size --from 20000 --to 900000");
    let rows = "Cusco,PE,428450,3399.0,navel\nLa Paz,BO,816044,3640.5,\"two\nlines\"\n";
    assert_eq!(index, format!("city,country,people,altitude,note\n{rows}"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let rows: String = (0..50_000).map(|id| format!("{id},some text that fills the pipe\n")).collect();
    place.write("x.csv", format!("id,text\n{rows}"));
    place.run("import x.csv --data db --table x --key id").success();
    let (out, outcome) = place.run_and_leave("export --data db --table x", 10);
    assert_eq!(out, "id,text\n0,");
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
}
