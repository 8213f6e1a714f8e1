//! Goal: of a long COPY into an empty table the table has all rows or none, and its client is told the first failure
//! in the order of the data. Method: forty thousand rows in messages of some thousand bytes, with failures of values
//! and of rows in both orders; COPY that is given up.

use std::fmt::Write;

use quipu_sql::{Datum, Progress, Result, Sink, SqlError};

use crate::sessions::{Client, code, database, run};

const ROWS: u64 = 40_000;

/// The data of a COPY: rows in no order, of which those of some lines are others.
fn data(others: &[(u64, &str)]) -> String {
    let mut data = String::new();
    for line in 1..=ROWS {
        let id = line * 7_919 % 40_009;
        match others.iter().find(|(other, _)| *other == line) {
            Some((_, row)) => data.push_str(row),
            None => write!(data, "{id},{},\"name, {id}\"", id % 100).expect("written"),
        }
        data.push('\n');
    }
    data
}

fn with_table() -> Client {
    let client = Client::new(&database(), "one");
    let table = "CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v >= 0), s text); CREATE INDEX ON t (v)";
    run(&client, table).expect("created");
    client
}

fn counts(client: &Client) -> Vec<Option<String>> {
    let text = "SELECT count(*), count(DISTINCT id), sum(id), sum(v), sum(length(s)), (SELECT count(*) FROM t WHERE v = 7) \
                FROM t";
    run(client, text).expect("counted").remove(0)
}

#[test]
fn a_long_copy_into_an_empty_table_loads_what_its_data_say() {
    let client = with_table();
    let answer = client.send(&format!("COPY t FROM STDIN (FORMAT csv)\n\n{}", data(&[])), false);
    assert_eq!(answer.recv().expect("an answer").expect("copied").tag, format!("COPY {ROWS}"));
    let (mut ids, mut values, mut letters, mut sevens) = (0, 0, 0, 0);
    for line in 1..=ROWS {
        let id = line * 7_919 % 40_009;
        (ids, values, letters) = (ids + id, values + id % 100, letters + format!("name, {id}").len());
        sevens += u64::from(id % 100 == 7);
    }
    let rows = ROWS.to_string();
    let wanted = [rows.clone(), rows, ids.to_string(), values.to_string(), letters.to_string(), sevens.to_string()];
    assert_eq!(counts(&client), wanted.map(Some));
}

#[test]
fn the_first_failure_of_a_long_copy_is_told_with_its_line() {
    let client = with_table();
    let fails = |others: &[(u64, &str)]| {
        let text = format!("COPY t FROM STDIN (FORMAT csv)\n\n{}", data(others));
        let error = client.send(&text, false).recv().expect("an answer").expect_err("it is refused");
        assert_eq!(counts(&client)[0], Some("0".to_owned()));
        (error.state().code(), error.parts().context.clone().unwrap_or_default())
    };
    let (broken, malformed) = ("50000,-1,x", "50000,one,x");
    let of_the_row = |line: u64| ("23514", format!("COPY t, line {line}"));
    let of_the_value = |line: u64| ("22P02", format!("COPY t, line {line}, column v: \"one\""));
    for line in [9_000, 20_000, 39_000] {
        for later in [line + 1, line + 700] {
            assert_eq!(fails(&[(line, broken), (later, malformed)]), of_the_row(line));
            assert_eq!(fails(&[(line, malformed), (later, broken)]), of_the_value(line));
        }
    }
    assert_eq!(fails(&[(30_000, "50000,1")]).0, "22P04");
    assert_eq!(fails(&[(ROWS, broken)]), of_the_row(ROWS));
    // A key that comes twice is found when the rows are sorted.
    assert_eq!(fails(&[(30_000, "7919,1,twice")]).0, "23505");
    assert_eq!(code(&client, &format!("COPY t FROM STDIN (FORMAT csv)\n\n{}", data(&[]))), "00000");
}

struct Nothing;

impl Sink for Nothing {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

#[test]
fn a_long_copy_that_is_given_up_leaves_nothing() {
    let (database, data) = (database(), data(&[]));
    let client = Client::new(&database, "one");
    run(&client, "CREATE TABLE t (id int PRIMARY KEY, v int, s text); CREATE INDEX ON t (v)").expect("created");
    let give_up = move |is_told: bool| {
        let mut session = database.session("two", "quipu");
        let prepared = session.prepare("COPY t FROM STDIN (FORMAT csv)", &[]).expect("prepared");
        let mut portal = session.bind(&prepared, Vec::new()).expect("bound");
        let Progress::CopyIn(mut copy) = session.execute(&mut portal, None, true, &mut Nothing).expect("begun") else {
            panic!("it takes data");
        };
        for part in data.as_bytes().chunks(8_000) {
            session.copy_data(&mut copy, part).expect("taken");
        }
        match is_told {
            true => assert_eq!(session.copy_fail(copy, "enough").state().code(), "57014"),
            false => drop(copy),
        }
    };
    for is_told in [true, false] {
        let give_up = give_up.clone();
        let thread = std::thread::Builder::new().stack_size(quipu_sql::STACK_BYTES).spawn(move || give_up(is_told));
        thread.expect("a thread").join().expect("it ends");
        assert_eq!(run(&client, "SELECT count(*) FROM t").expect("counted"), [[Some("0".to_owned())]]);
        // The table is free for others.
        assert_eq!(code(&client, "INSERT INTO t VALUES (1, 1, 'x'); DELETE FROM t"), "00000");
    }
}

#[test]
fn options_are_taken_in_parentheses_and_in_the_words_of_old() {
    let client = Client::new(&database(), "one");
    run(&client, "CREATE TABLE t (a text, b text); INSERT INTO t VALUES ('x', NULL), ('y,z', '')").expect("a table");
    for (options, written) in [
        ("WITH CSV HEADER FORCE QUOTE a, b ENCODING 'UTF8'", "a,b\n\"x\",\n\"y,z\",\"\"\n"),
        ("CSV FORCE QUOTE * ENCODING 'LATIN1'", "\"x\",\n\"y,z\",\"\"\n"),
        ("DELIMITERS ':' NULL AS 'nil'", "x:nil\ny,z:\n"),
        ("USING DELIMITERS ':'", "x:\\N\ny,z:\n"),
        ("DELIMITER AS '|' CSV QUOTE AS '''' ESCAPE '\\'", "x|\ny,z|''\n"),
        ("WITH", "x\t\\N\ny,z\t\n"),
        ("(FORMAT csv, FORCE_QUOTE *)", "\"x\",\n\"y,z\",\"\"\n"),
        ("(HEADER 1, FORMAT csv)", "a,b\nx,\n\"y,z\",\"\"\n"),
        ("(HEADER off, FREEZE, FORMAT csv)", "x,\n\"y,z\",\"\"\n"),
    ] {
        let rows = run(&client, &format!("COPY t TO STDOUT {options}")).expect(options);
        let data: String = rows.into_iter().flatten().flatten().collect();
        assert_eq!(data, written, "{options}");
    }
    for (rest, state) in [
        ("TO STDOUT (FORMAT csv, HEADER, HEADER)", "42601"),
        ("TO STDOUT CSV CSV", "42601"),
        ("TO STDOUT CSV NONSENSE", "42601"),
        ("TO STDOUT (FORMAT csv, FORCE_NULL (a))", "0A000"),
        ("TO STDOUT CSV FORCE NULL a", "0A000"),
        ("TO STDOUT (HEADER match)", "0A000"),
        ("TO STDOUT (nonsense 1)", "42601"),
        ("TO STDOUT (FORMAT csv, NULL 'q\"')", "0A000"),
        ("TO STDOUT (DELIMITER 'ab')", "0A000"),
        ("TO STDOUT (DELIMITER E'\\n')", "22023"),
        ("TO STDOUT (FORMAT text, QUOTE 'x')", "0A000"),
        ("TO STDOUT (FORMAT binary, DELIMITER 'x')", "42601"),
        ("TO STDOUT WHERE a = 'a'", "42601"),
        ("FROM STDIN (FORMAT csv, FORCE_QUOTE (a))", "0A000"),
        ("(a) FROM STDIN (FORMAT csv, FORCE_NOT_NULL (b))", "42P10"),
        ("FROM STDIN (FORMAT csv, HEADER perhaps)", "42601"),
        ("FROM STDIN (FORMAT csv, FREEZE 2)", "42601"),
        ("FROM STDIN (FORMAT csv, FORCE_NULL 2)", "22023"),
        ("FROM STDIN (FORMAT xml)", "22023"),
        ("FROM STDIN (DELIMITER)", "42601"),
        ("FROM STDIN (ENCODING 'none')", "22023"),
        ("FROM STDIN CSV QUOTE ','", "22023"),
        ("FROM STDIN NULL ',' DELIMITER ','", "0A000"),
        ("FROM STDIN DELIMITER 'a'", "22023"),
        ("FROM STDIN (FORMAT csv,)", "42601"),
        ("FROM STDIN ()", "42601"),
    ] {
        assert_eq!(code(&client, &format!("COPY t {rest}")), state, "{rest}");
    }
    for (options, taken) in [
        ("WITH CSV HEADER FORCE NOT NULL b", "y y|x y"),
        ("(FORMAT csv, HEADER match)", "y y|x y"),
        ("CSV FORCE NULL b QUOTE '\"' NULL AS 'y' FREEZE HEADER", "y -|x -"),
        ("WITH DELIMITER AS ',' NULL AS 'y' ENCODING 'LATIN1' WHERE a <> 'a'", "\"y\" -|\"x\" \"y\""),
    ] {
        let copy = format!("DELETE FROM t; COPY t FROM STDIN {options}\n\na,b\n\"y\",y\n\"x\",\"y\"\n");
        run(&client, &copy).expect(options);
        let rows = run(&client, "SELECT a, coalesce(b, '-') FROM t").expect("the rows");
        let rows: Vec<String> =
            rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows.join("|"), taken, "{options}");
    }
}
