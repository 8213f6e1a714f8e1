//! Scripts of the shell, with what it answers.

use crate::program::{Place, Running};

/// Runs the lines of a transcript that begin with `> ` as one script, and compares all it prints with the other lines.
fn transcript(place: &Place, arguments: &str, transcript: &str) {
    let script: String =
        transcript.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n")).collect();
    let expected: String =
        transcript.lines().filter(|line| !line.starts_with("> ")).map(|line| format!("{line}\n")).collect();
    let out = place.run_with(&format!("shell --data db --create {arguments}"), script).success();
    for (line, (out, expected)) in out.lines().zip(expected.lines()).enumerate() {
        assert_eq!(out, expected, "line {} of the output", line + 1);
    }
    assert_eq!(out.lines().count(), expected.lines().count());
}

#[test]
fn a_table_with_columns() {
    transcript(
        &Place::new(),
        "",
        "\
> create towns key country:text,city:text value people:i64,altitude:f64 index size:people sum people
towns: key country text, city text; value people i64, altitude f64
> put PE,Cusco 428450,3399.5
done
> insert PE,Lima people=10092000
done
> insert BO,\"La Paz\" 816044,null
done
> put GL,Nuuk altitude=5
done
> scan
country  city      people  altitude
───────  ──────  ────────  ────────
BO       La Paz    816044
GL       Nuuk                   5.0
PE       Cusco     428450    3399.5
PE       Lima    10092000
4 rows
> scan PE limit 1
country  city   people  altitude
───────  ─────  ──────  ────────
PE       Cusco  428450    3399.5
1 of 2 rows
> scan reverse limit 1
country  city    people  altitude
───────  ────  ────────  ────────
PE       Lima  10092000
1 of 4 rows
> get BO,\"La Paz\"
country  city    people  altitude
───────  ──────  ──────  ────────
BO       La Paz  816044
> get BO,Sucre
no row
> count
4 rows
> count PE
2 rows
> count P*
2 rows
> count BO .. PE
2 rows
> count BO ..= PE
4 rows
> count .. GL
1 row
> rank PE,Cusco
2 rows before it, the key is there
> rank JP
2 rows before it, the key is not there
> nth 1
country  city  people  altitude
───────  ────  ──────  ────────
GL       Nuuk               5.0
> nth 4
no row
> page 2 5 ..
country  city     people  altitude
───────  ─────  ────────  ────────
PE       Cusco    428450    3399.5
PE       Lima   10092000
offsets 2 to 3 of 4 rows
> page 9 5
no row at offset 9 of 4 rows
> split 2
PE,Cusco
2 parts
> first PE
country  city   people  altitude
───────  ─────  ──────  ────────
PE       Cusco  428450    3399.5
> last
country  city    people  altitude
───────  ────  ────────  ────────
PE       Lima  10092000
> use towns.size
towns.size: index size (people) of table towns
> scan
country  city      people  altitude
───────  ──────  ────────  ────────
GL       Nuuk                   5.0
PE       Cusco     428450    3399.5
BO       La Paz    816044
PE       Lima    10092000
4 rows
> quantile 0.5 0 ..
country  city    people  altitude
───────  ──────  ──────  ────────
BO       La Paz  816044
> explain count 1 .. 1000000
2 rows; through index size; all in memory
> use towns
towns: key country text, city text; value people i64, altitude f64
> put PE,Cusco people=1
done
> remove GL,Nuuk
removed
> remove GL,Nuuk
no row
> use towns.size
towns.size: index size (people) of table towns
> scan
country  city      people  altitude
───────  ──────  ────────  ────────
PE       Cusco          1
BO       La Paz    816044
PE       Lima    10092000
3 rows
> use towns
towns: key country text, city text; value people i64, altitude f64
> index name:lower(city) unique
created
> update PE,Cusco altitude=3399.5
done
> groups 1
country  rows
───────  ────
BO          1
PE          2
2 groups
> schema
table towns
  country text not null
  city text not null
  people i64
  altitude f64
  key (country, city)
  index size (people)
  index unique name (lower(city))
  sum people
> tables
table       rows  key           index of
──────────  ────  ────────────  ────────
towns          3  country,city
towns.size     3  people        towns
towns.name     3  lower(city)   towns
> drop towns.size
dropped
> drop towns
dropped
> tables
no table; `create` makes one
",
    );
}

#[test]
fn a_table_of_strings() {
    transcript(
        &Place::new(),
        "",
        r#"> create notes
notes: keys and values are strings
> put a first note
done
> put "a b" second
done
> put a,c \x00\xff
done
> put null ""
done
> get "a b"
key  value
───  ──────
a b  second
> scan a
key  value
───  ──────────
a    first note
a b  second
a,c  \x00\xff
3 rows
> count a .. a,c
2 rows
> count a ..= a,c
3 rows
> split 2
"a,c"
2 parts
> json on
{"json":true}
> scan
{"rows":[{"key":"a","value":"first note"},{"key":"a b","value":"second"},{"key":"a,c","value_hex":"00ff"},{"key":"null","value":""}],"total":4}
"#,
    );
}

#[test]
fn the_next_number_of_an_identity_column_is_told_and_set() {
    let place = Place::new();
    let columns = r#"[{"name": "id", "type": "i8", "identity": "by_default"}, {"name": "v", "type": "i64"}]"#;
    place.write("t.json", format!(r#"{{"table": "t", "columns": {columns}, "key": ["id"]}}"#));
    place.write("t.csv", "id,v\n127,1\n");
    place.run("import t.csv --data db --schema t.json").success();
    transcript(
        &place,
        "--table t",
        "\
> number id
all numbers have been given out
> number id -3
-3
> json on
{\"json\":true}
> number id
{\"next\":-3}
",
    );
    let error = place.run_with("shell --data db --table t", "number id 1,000\n").failure();
    assert_eq!(error, "quipu: line 1: table t, column id: 1000 is out of the range of i8, -128 to 127\n");
}

#[test]
fn transactions_and_savepoints() {
    transcript(
        &Place::new(),
        "",
        "\
> create n key n:i64 value text:text index t:text
n: key n i64; value text text
> put 1 one
done
> begin
begun
> put 2 two
done
> savepoint here
set
> put 3 three
done
> remove 1
removed
> count
2 rows
> nth 0
n  text
─  ────
2  two
> rollback to here
rolled back
> put 4 four
done
> rollback to here
rolled back
> scan
n  text
─  ────
1  one
2  two
2 rows
> release here
released
> commit
committed
> begin
begun
> remove 1
removed
> len
1 row
> rollback
rolled back
> len
2 rows
> use n.t
n.t: index t (text) of table n
> scan
n  text
─  ────
1  one
2  two
2 rows
",
    );
}

#[test]
fn a_script_ends_at_its_first_error() {
    let place = Place::new();
    let script = "create t key n:i64\nput 1\n\n# a comment\nput x\nput 2\n";
    let outcome = place.run_with("shell --data db --create", script);
    assert_eq!(outcome.out, "t: key n i64\ndone\n");
    assert_eq!(outcome.failure(), "quipu: line 5: column n: \"x\" is not of type i64\n");

    let outcome = place.run_with("shell --data db --keep-going", "put x\nput 2\nput\nlen\n");
    assert_eq!(outcome.out, "done\n2 rows\n");
    let errors = "quipu: line 1: column n: \"x\" is not of type i64\nquipu: line 3: usage: put KEY VALUE\nquipu: 2 commands failed\n";
    assert_eq!(outcome.failure(), errors);
}

#[test]
fn errors_say_what_to_do() {
    let place = Place::new();
    let create = "create t key n:i64 value a:text index by:a\ncreate u key n:i64\nput 1\n";
    place.run_with("shell --data db --create", create).success();
    let errors = [
        ("count", "no table is in use; there are t, t.by, u"),
        ("use v", "there is no table \"v\"; there are t, t.by, u"),
        ("use t.by\nput x,1", "table t.by is an index: write to table t, and it follows"),
        ("use u\ninsert 1", "there is a row of that key; `put` replaces it"),
        ("commit", "no transaction is open; `begin` opens one"),
        ("begin\nbegin", "a transaction is open; `commit` or `rollback` ends it"),
        ("begin\ncreate v", "`create` is not a part of a transaction; `commit` or `rollback` first"),
        ("begin\nrollback to x", "there is no savepoint \"x\""),
        ("begin", "the script ends within a transaction, which was rolled back"),
        ("create v key a:text,a:i64", "table v: two columns have the name a"),
        ("create v value a:i64", "columns of the value, indexes and sums need columns of the key"),
        ("help nothing", "there is no such command"),
    ];
    for (script, complaint) in errors {
        let error = place.run_with("shell --data db", script).failure();
        let line = script.lines().count();
        assert_eq!(error, format!("quipu: line {line}: {complaint}\n"), "{script}");
    }
}

#[test]
fn an_unknown_type_is_told_with_those_there_are() {
    let error = Place::new().run("shell --data db --create -c 'create v key a:blob'").failure();
    assert!(error.starts_with("quipu: line 1: \"blob\" is not a type; there are bool, i8, i16, i32, i64, "), "{error}");
}

#[test]
fn a_database_open_for_reading_is_not_changed() {
    let place = Place::new();
    place.run_with("shell --data db --create", "create t key n:i64\nput 1\n").success();
    assert_eq!(place.out("shell --data db --read-only -c len"), "1 row\n");
    let error = place.run("shell --data db --read-only -c 'put 2'").failure();
    assert!(error.starts_with("quipu: line 1: "), "{error}");
    assert_eq!(place.out("shell --data db -c len"), "1 row\n");
}

#[test]
fn json_answers_are_one_object_each() {
    let place = Place::new();
    let script = "create t key n:i64 value a:f64 sum a\n";
    assert!(place.run_with("shell --data db --create", script).failure().contains("sum: column a is of type f64"));
    let script = "create t key n:i64 value a:f64\nput 1 0.5\nput 2 inf\ntiming on\ncount\ntiming off\ntables\nsample 9\nsplit 2\nget 3\n";
    let out = place.run_with("shell --data db --create --json", script).success();
    let answers: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 10);
    assert_eq!(answers[4]["count"], 2);
    assert!(answers[4]["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(answers[6]["tables"][0]["rows"], 2);
    assert_eq!(answers[7]["rows"], serde_json::json!([{"n": 1, "a": 0.5}, {"n": 2, "a": "inf"}]));
    assert_eq!(answers[8], serde_json::json!({"keys": ["2"]}));
    assert_eq!(answers[9], serde_json::json!({"row": null}));
}

#[test]
fn json_answers_have_the_json_of_columns_as_it_is_stored() {
    let place = Place::new();
    let values = ["12345678901234567890123", "9007199254740993.0", "0.10", r#"{"a":1,"a":2}"#, "1e400", r#""\ud800""#];
    let rows: Vec<String> =
        values.iter().enumerate().map(|(id, value)| format!("{{\"id\":{id},\"j\":{value}}}")).collect();
    place.write(
        "t.json",
        r#"{"table": "t", "columns": [{"name": "id", "type": "i64"}, {"name": "j", "type": "json"}], "key": ["id"]}"#,
    );
    place.write("t.jsonl", rows.join("\n"));
    place.run("import t.jsonl --data db --schema t.json").success();
    let out = place.out("shell --data db --json -c scan -c 'get 4' -c 'groups 1 2'");
    let expected = format!(
        "{{\"rows\":[{}],\"total\":6}}\n{{\"row\":{}}}\n{{\"groups\":[{{\"values\":[2],\"rows\":1}}]}}\n",
        rows.join(","),
        rows[4]
    );
    assert_eq!(out, expected);
    assert!(place.out("shell --data db -c 'get 5'").contains(r#"5  "\ud800""#));
}

#[test]
fn sums_have_all_their_digits_in_json() {
    let place = Place::new();
    let script = "create t key n:i64 value d:decimal(18,3) sum d\nput 1 123456789012345.671\nput 2 0.001\ntally\n";
    let out = place.run_with("shell --data db --create --json", script).success();
    assert_eq!(out.lines().last(), Some(r#"{"rows":2,"sum":123456789012345.672}"#));
}

#[test]
fn a_name_that_is_mistyped_is_not_taken_for_a_value() {
    transcript(
        &Place::new(),
        "",
        r#"> create t key id:i64 value title:text
t: key id i64; value title text
> put 1 one
done
> put 2 "title=z"
done
> put 3 title="a ""b"" = c"
done
> scan
id  title
──  ─────────
1   one
2   title=z
3   a "b" = c
3 rows
"#
        .replace("1   one", " 1  one")
        .replace("2   title", " 2  title")
        .replace("3   a", " 3  a")
        .as_str(),
    );
    let place = Place::new();
    place.run_with("shell --data db --create", "create t key id:i64 value title:text\nput 1 one\n").success();
    let named = "there are title; a text with an = stands in quotes";
    let star = "a star stands for a range of keys; put quotes around a text that ends with one";
    for (line, complaint) in [
        ("put 2 titel=abc", format!("there is no column \"titel\" beside the key; {named}")),
        ("update 1 id=6", "column id is one of the key, which stands before the values and does not change".to_owned()),
        (
            "put id=2 two",
            "a key is written as its values alone, without names; put quotes around id=2 if it is a text".to_owned(),
        ),
        ("put 2 two*", star.to_owned()),
        ("remove 1*", star.to_owned()),
        ("put 2 title=a title=b", "column title has two values".to_owned()),
        (
            "put 2 a,b",
            "a row of this table has 1 column beside its key, title; write all between commas, or some as name=value"
                .to_owned(),
        ),
    ] {
        let error = place.run_with("shell --data db", format!("{line}\n")).failure();
        assert_eq!(error, format!("quipu: line 1: {complaint}\n"), "{line}");
    }
    assert_eq!(place.out("export --data db --table t"), "id,title\n1,one\n");
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark() {
    let place = Place::new();
    let out = place.run_with("shell --data db --create", "\u{feff}create t key n:i64\nput 1\n").success();
    assert_eq!(out, "t: key n i64\ndone\n");
}

#[test]
fn every_topic_has_help() {
    let place = Place::new();
    let help = place.out("shell --data db --create -c help");
    for word in ["quantile Q [RANGE]", "JFK,7 .. JFK,9", "rollback [to SAVEPOINT]"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(place.out("shell --data db -c 'help scan'").contains("Example: scan JFK,7 .. JFK,9 limit 5 reverse"));
}

#[test]
fn rows_that_are_numbered_show_their_numbers() {
    let place = Place::new();
    place.write("towns.csv", "name,people\nCusco,428450\nLima,10092000\nCusco,1\n");
    place.run("import towns.csv --data db --index by=name").success();
    let script = "\
> use towns
towns: key rowid i64; value name text, people i64
> scan
rowid  name     people
─────  ─────  ────────
    1  Cusco    428450
    2  Lima   10092000
    3  Cusco         1
3 rows
> put null Nuuk,19872
done
> nth -1
rowid  name  people
─────  ────  ──────
    4  Nuuk   19872
> update 4 people=19905
done
> remove 1
removed
> use towns.by
towns.by: index by (name) of table towns
> get Cusco
rowid  name   people
─────  ─────  ──────
    3  Cusco       1
> groups name
name   rows
─────  ────
Cusco     1
Lima      1
Nuuk      1
3 groups
> json on
{\"json\":true}
> first
{\"row\":{\"rowid\":3,\"name\":\"Cusco\",\"people\":1}}";
    transcript(&place, "", script);
}

#[test]
fn ranges_need_no_blanks_and_groups_take_names() {
    let place = Place::new();
    place.write("days.csv", "day,n,name\n2013-01-30,1,a..b\n2013-01-31,2,c\n2013-02-01,3,d\n");
    place.run("import days.csv --data db --key day,n --index by=name").success();
    let script = "\
> use days
days: key day date, n i64; value name text
> count ..2013-02-01
2 rows
> count ..=2013-02-01
3 rows
> count 2013-01-31..
2 rows
> count 2013-01-31..2013-02-01
1 row
> groups day 2013-01-31..
day         rows
──────────  ────
2013-01-31     1
2013-02-01     1
2 groups
> nth -4
no row
> use days.by
days.by: index by (name) of table days
> count a..b
1 row
> split 3
c,2013-01-31,2
d,2013-02-01,3
3 parts";
    transcript(&place, "", script);
    let error = place.run("shell --data db -c 'use days' -c 'groups n'").failure();
    let told = "groups go by the columns that the order begins with, of day,n; for n, `use` an index that begins so";
    assert!(error.ends_with(&format!("{told}\n")), "{error}");
}

/// `stats air` was the only way there, and `shell --data air` the only one here.
#[test]
fn a_database_is_named_by_its_place_or_by_the_option_in_every_command() {
    let place = Place::new();
    place.write("t.csv", "id\n1\n");
    place.run("import t.csv --data db --key id").success();
    let check = if cfg!(feature = "server") { "check @" } else { "stats @" };
    for command in ["stats @", check, "compact @", "compact @ t", "export @ --table t", "shell @ -c 'count'"] {
        let by_place = place.out(&command.replace('@', "db"));
        assert_eq!(place.out(&command.replace('@', "--data db")), by_place, "{command}");
        let twice = match command.starts_with("compact") {
            // The word after it would be a table.
            true => ("db t --data db", "the database has two names"),
            false => ("db --data db", "cannot be used with"),
        };
        for (wrong, told) in
            [("", "not provided"), twice].into_iter().take(if command == "compact @ t" { 0 } else { 2 })
        {
            let outcome = place.run(&command.replace('@', wrong));
            assert!(outcome.code == Some(2) && outcome.err.contains(told), "{command}: {outcome:?}");
        }
    }
    for (number, command) in
        ["backup db", "backup --data db", "backup db --copy", "backup --copy --data db"].iter().enumerate()
    {
        assert!(place.out(&format!("{command} copy{number}")).starts_with(&format!("copy{number}: ")), "{command}");
    }
    for command in ["backup", "backup db", "backup --data db", "backup --data db db copy"] {
        assert_eq!(place.run(command).code, Some(2), "{command}");
    }
}

/// `groups` is a question as well, and `explain` did not know it.
#[test]
fn every_question_is_explained() {
    let place = Place::new();
    place.write("t.csv", "a,b\n1,1\n1,2\n2,1\n");
    place.run("import t.csv --data db --key a,b").success();
    let questions = [
        "get 1,1",
        "scan",
        "count 1",
        "len",
        "rank 2",
        "nth 1",
        "page 0 2",
        "quantile 0.5",
        "sample 2",
        "split 2",
        "groups 1",
        "groups a 1",
        "tally",
        "first",
        "last",
    ];
    for question in questions {
        let out = place.out(&format!("shell --data db -c 'explain {question}'"));
        let summary = out.lines().last().unwrap_or_default().to_owned();
        assert!(summary.contains("by the primary key; "), "{question}: {out}");
    }
    let groups = place.ask("db", "t", "explain groups 1");
    assert_eq!(groups["groups"], serde_json::json!([{"values": [1], "rows": 2}, {"values": [2], "rows": 1}]));
    assert_eq!(groups["order"], "by the primary key");
    let strings = place.run("shell --data db -c 'create s' -c 'explain groups 1'").failure();
    assert!(strings.contains("strings have no columns to make groups of"), "{strings}");
    let numbered = place.out("shell --data db -c 'help put'");
    assert!(numbered.contains("Where rows are numbered, `put null` adds one."), "{numbered}");
}

/// Ctrl-C ends the command that runs, and a script with it; it once ended the program in the middle of a line.
#[test]
fn an_interrupt_stops_a_command() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|id| format!("{id},{}\n", "x".repeat(50))).collect();
    place.write("rows.csv", format!("id,text\n{rows}"));
    place.run("import rows.csv --data db --key id");
    for more in [[].as_slice(), &["--keep-going"]] {
        // What is printed does not fit into the pipe, so the command runs until it is read.
        let shell = ["shell", "--data", "db"];
        let mut running = Running::begin(&place, &[&shell, more].concat(), "scan limit all\nlen\n");
        assert_eq!(running.line().trim(), "id  text");
        let (code, out, err) = running.interrupt();
        assert_eq!((code, err.as_str()), (Some(1), "quipu: stopped by Ctrl-C\n"));
        let last = out.lines().last().unwrap();
        assert!(out.ends_with('\n') && last.ends_with(&format!("  {}", "x".repeat(50))), "{last}");
        assert!(out.lines().count() < 20_000, "{last}");
    }
}
