//! Errors are reported on standard error, with the place, and no files remain.

use crate::program::Place;

/// Arguments, the file `x.csv` or `x.jsonl`, the complaint.
const WRONG: &[(&str, &[u8], &str)] = &[
    ("x.csv --key id", b"", "x.csv: the file is empty; its first line must name the columns"),
    ("x.csv --key id", b"id,n\n1,2\n3\n", "x.csv: line 3: 1 field, but the first line has 2 columns"),
    (
        "x.csv --key id",
        b"id,n\r\n\r\n1,2\r\n3,4,5\r\n",
        "x.csv: line 4: 3 fields, but the first line has 2 columns; `--skip-lines` passes over lines that stand before a table",
    ),
    ("x.csv --key id", b"id,n\n1,\"2\n3,4\n", "x.csv: line 2: a quote is opened here and never closed"),
    (
        "x.csv --key id",
        b"id,n\n1,\xff\n",
        "x.csv: line 2: field 2 is not UTF-8; say what it is, as with `--encoding latin1`",
    ),
    ("x.csv --key nr", b"id,n\n1,2\n", "x.csv: table t: key: there is no column \"nr\"; the columns are id, n"),
    ("x.csv --key id,id", b"id,n\n1,2\n", "x.csv: table t: key: column id is named twice"),
    (
        "x.csv --key id --index by=m",
        b"id,n\n1,2\n",
        "x.csv: table t: index by: there is no column \"m\"; the columns are id, n",
    ),
    ("x.csv --key id --sum m", b"id,n\n1,2\n", "x.csv: table t: sum: there is no column \"m\"; the columns are id, n"),
    (
        "x.csv --key id --sum n",
        b"id,n\n1,x\n",
        "x.csv: table t: sum: column n is of type text; sums are of integers, or decimals of 18 digits at most",
    ),
    ("x.csv --key id --types m=i64", b"id,n\n1,2\n", "x.csv: there is no column \"m\"; the columns are id, n"),
    (
        "x.csv --key id --types n=i64",
        b"id,n\n1,2\n2,x\n",
        "x.csv: line 3: column n: \"x\" is not of type i64; nothing was imported and there is no table t",
    ),
    (
        "x.csv --key id",
        b"id,n\n1,2\n\n1,3\n",
        "x.csv: lines 2 and 4: table t, row (1): two rows have this key; `--key id,n` would do; nothing was imported and there is no table t",
    ),
    ("x.jsonl --key id", b"", "x.jsonl: there are no records, so the columns are not known"),
    (
        "x.jsonl --key id",
        b"{\"id\": 1}\n{\"id\": 2\n",
        "x.jsonl: line 2: the object does not end on its line; each line is an object, or the file is an array of them",
    ),
    ("x.jsonl --key id", b"{\"id\": 1}\n7\n", "x.jsonl: line 2: it is JSON, but not an object"),
    ("x.jsonl --key id", b"{\"id\": \"\xff\"}\n", "x.jsonl: line 1: it is not UTF-8"),
    (
        "x.jsonl --key id --types n=i64",
        b"{\"id\": 1, \"n\": 1}\n{\"id\": 2, \"n\": \"x\"}\n",
        "x.jsonl: line 2: column n: \"x\" is not of type i64; nothing was imported and there is no table t",
    ),
];

#[test]
fn wrong_files_are_refused_with_the_line() {
    for (arguments, file, complaint) in WRONG {
        let place = Place::new();
        place.write(arguments.split(' ').next().unwrap(), file);
        let error = place.run(&format!("import {arguments} --data db --table t")).failure();
        assert_eq!(error, format!("quipu: {complaint}\n"), "{arguments} of {}", file.escape_ascii());
        let tables = place.out("shell --data db --json -c tables");
        assert_eq!(tables, "{\"tables\":[]}\n", "{arguments} of {}", file.escape_ascii());
    }
}

#[test]
fn requests_against_the_table_there_is_are_refused() {
    let place = Place::new();
    place.write("x.csv", "id,n,m\n1,2,a\n");
    place.run("import x.csv --data db --table t --key id --index by=n").success();
    place.run("shell --data db --create -c 'create plain'").success();
    let advice = "leave the option out, or import into a new table";
    let refused = [
        ("--table t --key n", format!("table t exists with the key id; {advice}")),
        ("--table t --types n=text", format!("table t exists and its column n is of type i64; {advice}")),
        ("--table t --types k=text", format!("table t exists without a column \"k\"; {advice}")),
        ("--table t --index other=n", format!("table t exists without an index other; {advice}")),
        ("--table t --sum n", format!("table t exists and does not add up n; {advice}")),
        ("--table t --compress", format!("table t exists and is not compressed; {advice}")),
        ("--table t --in-memory", format!("table t exists and is not kept in memory; {advice}")),
        ("--table t.by", "table t.by is an index: import into table t, and it follows".to_owned()),
        ("--table plain", "table plain exists and has no columns: rows of a file do not go into it".to_owned()),
    ];
    for (arguments, complaint) in refused {
        assert_eq!(
            place.run(&format!("import x.csv --data db {arguments}")).failure(),
            format!("quipu: {complaint}\n")
        );
    }
    let unchanged = "nothing was imported, table t is as it was";
    place.write("y.csv", "id,n\n1,2\n");
    let error = place.run("import y.csv --data db --table t").failure();
    assert_eq!(error, format!("quipu: y.csv: line 1: there is no column \"m\", which the table has; {unchanged}\n"));
    place.write("y.csv", "id,n,m,k\n1,2,a,b\n");
    let error = place.run("import y.csv --data db --table t").failure();
    assert_eq!(error, format!("quipu: y.csv: line 1: column \"k\" is not in the table; {unchanged}\n"));
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::new();
    place.write("x.csv", "id\n1\n");
    place.write("x.txt", "id\n1\n");
    let wrong = [
        ("", "Usage: quipu <COMMAND>"),
        ("fly", "unrecognized subcommand 'fly'"),
        ("import x.csv --table t --key id", "--data <DIR>"),
        (
            "import x.txt.xz --data db --table t",
            "x.txt.xz is compressed with xz, which is not read: decompress it first",
        ),
        ("import x.csv --data db --encoding latin", "it is not a name of an encoding; there are latin1, utf-16le"),
        ("import x.csv --data db --columns a", "--no-header"),
        ("import - --data db", "name the table: --table"),
        (
            "import x.csv --data db --table t --key id --types id=blob",
            "\"blob\" is not a type; there are bool, i8, i16",
        ),
        ("import x.csv --data db --table t --key id --index id", "write it as name=column,column"),
        ("import x.csv --data db --table t --key id --batch 0", "0 is not in 1.."),
        ("import x.csv --data db --table t --key id --batch 5 --atomic", "cannot be used with"),
        ("import x.csv --data db --schema s.json --key id", "cannot be used with"),
        ("export --data db --table t --prefix a --from b", "cannot be used with"),
        ("demo --data . --rows 2000", ". is not empty; the demo wants a directory of its own"),
    ];
    for (arguments, complaint) in wrong {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments}: {}", outcome.err);
        assert!(outcome.err.contains(complaint), "{arguments}: {}", outcome.err);
        assert_eq!(outcome.out, "", "{arguments}");
    }
}

#[test]
fn missing_files_and_directories_create_nothing() {
    let place = Place::new();
    let error = place.run("import no.csv --data db --table t --key id").failure();
    assert!(error.starts_with("quipu: cannot read no.csv: "), "{error}");
    let error = place.run("import . --data db --table t --key id --format csv").failure();
    assert!(error.starts_with("quipu: cannot read .: "), "{error}");
    for command in ["export --data db --table t", "shell --data db -c tables", "stats db", "check db"] {
        let error = place.run(command).failure();
        assert!(error.starts_with("quipu: there is no database in db"), "{command}: {error}");
    }
    assert!(!place.path("db").exists());
}

#[cfg(feature = "bench")]
#[test]
fn bench_lists_its_workloads_and_refuses_others() {
    let place = Place::new();
    assert!(place.out("bench").contains("Workloads:\n"));
    let error = place.run("bench nothing").failure();
    assert!(error.starts_with("quipu: no workload `nothing`; there are "), "{error}");
}

#[cfg(not(feature = "bench"))]
#[test]
fn a_program_without_the_benchmarks_says_how_to_build_one_that_has_them() {
    let place = Place::new();
    let error = place.run("bench positions --rows 1M").failure();
    assert!(error.contains("`cargo run --release -p quipu-cli --features bench -- bench`"), "{error}");
    assert!(place.out("bench --help").contains("--features peers"));
}

#[test]
fn every_command_teaches() {
    let place = Place::new();
    for command in ["", "import", "export", "shell", "check", "stats", "bench", "demo"] {
        let help = place.out(&format!("{command} --help"));
        assert!(help.contains("Usage: quipu"), "{help}");
        assert!(["demo", "bench"].contains(&command) || help.contains("Examples:\n"), "{help}");
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(120), "{command}: {widest:?}");
    }
}
