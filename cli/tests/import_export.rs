//! Files go into tables and come out as they were.

mod program;

use program::Place;
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
Nuuk,GL,19872,5.0,
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
        let hint = "to import them again: --key country,city --types city=text,country=text,people=int,altitude=float,note=text\n";
        assert_eq!(exported.err, format!("5 rows of table towns in out.{format}\n{hint}"));
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
    assert_eq!(types, ["int", "text", "json", "json", "bool", "json"]);
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
    assert!(error.starts_with("quipu: cut.csv.zst: cannot read it: the zstd data is damaged or cut short"), "{error}");
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
    assert_eq!(types(out), "x: id int, zip text, ratio float; key id");
    place.write("y.csv", &file);
    let out = place.out("import y.csv --data a --table y --key zip,id --types zip=text,ratio=float");
    assert_eq!(types(out), "y: id int, zip text, ratio float; key zip,id");
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
    let expected = "quipu: more.csv: line 3: a row of key PE,Cusco (country,city) is there already; \
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
fn sorted_records_go_straight_to_disk() {
    let place = Place::new();
    let csv = |numbers: std::ops::Range<u32>, name: &str| {
        let lines: String = numbers.map(|number| format!("{number},{name}{number}\n")).collect();
        format!("id,name\n{lines}")
    };
    place.write("old.csv", csv(0..5000, "old"));
    place.write("new.csv", csv(4000..9000, "new"));
    let import = "--data db --table t --key id --sorted";
    let said = place.run(&format!("import old.csv {import}")).success();
    assert!(said.contains("5,000 rows in ") && said.contains("the table has 5,000"), "{said}");
    let error = place.run(&format!("import new.csv {import}")).failure();
    assert!(error.contains("exists") && error.contains("nothing was imported, table t is as it was"), "{error}");
    assert_eq!(place.ask("db", "t", "tally")["rows"], 5000);
    let said = place.run(&format!("import new.csv {import} --on-conflict replace")).success();
    assert!(said.contains("(1,000 of them replaced a row); the table has 9,000"), "{said}");
    assert_eq!(place.out("export --data db --table t"), csv(0..4000, "old") + &csv(4000..9000, "new")[8..]);
    place.run("check db").success();
    // What else might be asked for has no such order.
    place.run("import old.csv --data db --table u --key id --index n=name").success();
    let error = place.run("import new.csv --data db --table u --sorted").failure();
    assert!(error.contains("table u exists with indexes"), "{error}");
}

#[test]
fn an_error_keeps_the_batches_before_it_or_nothing() {
    let place = Place::new();
    place.write("x.csv", "id,n\n1,1\n2,2\n3,3\n4,4\n5,five\n6,6\n");
    let import = "import x.csv --data db --table x --key id --types id=int,n=int";
    let reason = r#"quipu: x.csv: line 6: column n: "five" is not of type int"#;
    let kept =
        "the 4 rows of the batches before stay in table x; import again with --on-conflict skip to go on after them";
    assert_eq!(place.run(&format!("{import} --batch 2")).failure(), format!("{reason}; {kept}\n"));
    assert_eq!(place.ask("db", "x", "len")["count"], 4);

    place.write("x.csv", "id,n\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n");
    place.run(&format!("{import} --batch 2 --on-conflict skip")).success();
    assert_eq!(place.ask("db", "x", "len")["count"], 6);

    place.write("x.csv", "id,n\n7,1\n8,2\n9,nine\n");
    let kept = "nothing was imported, table x is as it was";
    let reason = r#"quipu: x.csv: line 4: column n: "nine" is not of type int"#;
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
    assert_eq!(index, "people,country,city\n428450,PE,Cusco\n816044,BO,La Paz\n");
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
