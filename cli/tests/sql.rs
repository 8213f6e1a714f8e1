//! Goal: `quipu sql` answers alike over a database of its own and over a server, and as psql does. Method: scripts from
//! a pipe, whose whole output is compared.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::program::{Place, Running, Server, free_port};

/// A server of clients of PostgreSQL.
struct Served {
    _server: Server,
    port: u16,
}

fn serve(place: &Place, more: &[&str]) -> Served {
    let port = free_port();
    let server = place.serve(&[&["--pg-port", &port.to_string(), "--port", "0"], more].concat());
    Served { _server: server, port }
}

/// Runs a script over a database of the process and over a server. Both must end alike. Returns the exit code, the
/// output, and what was said of errors.
fn run_both(arguments: &str, script: &str) -> (Option<i32>, String, String) {
    let place = Place::new();
    let server = serve(&place, &[]);
    let local = place.run_with(&format!("sql --data db --create {arguments}"), script);
    let url = format!("postgres://default@127.0.0.1:{}/quipu", server.port);
    let connected = place.run_with(&format!("sql --connect {url} {arguments}"), script);
    assert_eq!(local.out, connected.out, "{}\n{}", local.err, connected.err);
    assert_eq!((local.code, &local.err), (connected.code, &connected.err));
    (local.code, local.out, local.err)
}

/// What a script prints that must succeed.
fn both(arguments: &str, script: &str) -> String {
    let (code, out, err) = run_both(arguments, script);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    out
}

const TABLES: &str = "\
CREATE TABLE towns (id int PRIMARY KEY, name text NOT NULL UNIQUE, people int DEFAULT 0 CHECK (people >= 0));
CREATE TABLE roads (id int PRIMARY KEY, town int REFERENCES towns, note jsonb, open bool);
INSERT INTO towns VALUES (1, 'Cusco', 428450), (2, 'La
Paz', 816044), (3, 'a;b', NULL);
";

#[test]
fn a_script_is_answered_as_psql_does() {
    let script = format!(
        "{TABLES}\
SELECT * FROM towns ORDER BY id; SELECT 'x' WHERE false;
UPDATE towns SET people = 1 WHERE id = 3 RETURNING id;
BEGIN; DELETE FROM towns WHERE id = 2; ROLLBACK;
SELECT $$a;b$$ AS \"Quoted\", -1.50::numeric AS n /* ; */ \\gx
SELECT 2"
    );
    let expected = "\
CREATE TABLE
CREATE TABLE
INSERT 0 3
 id | name  | people 
----+-------+--------
  1 | Cusco | 428450
  2 | La   +| 816044
    | Paz   | 
  3 | a;b   |       
(3 rows)

 ?column? 
----------
(0 rows)

 id 
----
  3
(1 row)

UPDATE 1
BEGIN
DELETE 1
ROLLBACK
-[ RECORD 1 ]-
Quoted | a;b
n      | -1.50

 ?column? 
----------
        2
(1 row)

";
    assert_eq!(both("", &script), expected);
}

#[test]
fn rows_are_csv_and_json() {
    let rows = "INSERT INTO roads VALUES (1, 1, '{\"a\": [1, null]}', true), (2, NULL, NULL, false);
SELECT r.id, t.name, note, open, 'NaN'::float8 AS id FROM roads r LEFT JOIN towns t ON t.id = town ORDER BY 1;
SELECT name FROM towns WHERE id = 2;\n";
    let script = format!("{TABLES}{rows}");
    let expected = "id,name,note,open,id
1,Cusco,\"{\"\"a\"\": [1, null]}\",t,NaN
2,,,f,NaN
name
\"La
Paz\"
";
    assert_eq!(both("--csv", &script), expected);
    // As `quipu export` and COPY write them: without quotes a missing value, in quotes the text that looks like one.
    let texts = "SELECT NULL AS a, '' AS b, 'NA' AS c, ' ' AS d, E'\\\\.' AS e;\n";
    assert_eq!(both("--csv", texts), "a,b,c,d,e\n,\"\",\"NA\", ,\"\\.\"\n");
    let expected = "{\"id\":1,\"name\":\"Cusco\",\"note\":{\"a\": [1, null]},\"open\":true,\"id_2\":\"NaN\"}
{\"id\":2,\"name\":null,\"note\":null,\"open\":false,\"id_2\":\"NaN\"}
{\"name\":\"La\\nPaz\"}
";
    assert_eq!(both("--json", &script), expected);
}

#[test]
fn errors_show_their_place() {
    let script = "SELECT 1;\n\nSELECT\n  nothing FROM (VALUES (1)) v;\nSELECT 1 +;\n\\nothing\nSELECT 3;\n";
    let (code, out, err) = run_both("--csv", script);
    assert_eq!((code, out.as_str()), (Some(1), "?column?\n1\n?column?\n3\n"));
    let expected =
        "<stdin>:4: ERROR:  column \"nothing\" does not exist\nLINE 2:   nothing FROM (VALUES (1)) v\n          ^\n";
    assert!(err.starts_with(expected), "{err}");
    assert!(err.contains("<stdin>:5: ERROR:  syntax error at "), "{err}");
    assert!(err.contains("<stdin>:6: unknown command \\nothing"), "{err}");
    assert!(err.ends_with("quipu: 3 statements failed\n"), "{err}");
    let (code, out, err) = run_both("--csv --on-error stop", script);
    assert_eq!((code, out.as_str()), (Some(1), "?column?\n1\n"));
    assert!(err.starts_with(expected) && err.ends_with("quipu: 1 statement failed\n"), "{err}");
}

#[test]
fn notices_hints_and_details_are_shown() {
    let script =
        "CREATE TABLE t (id int PRIMARY KEY);\nDROP TABLE IF EXISTS nothing;\nINSERT INTO t VALUES (1), (1);\n";
    let (code, out, err) = run_both("", script);
    assert_eq!((code, out.as_str()), (Some(1), "CREATE TABLE\nDROP TABLE\n"));
    assert!(err.starts_with("NOTICE:  table \"nothing\" does not exist, skipping\n"), "{err}");
    assert!(err.contains("ERROR:  duplicate key value violates unique constraint \"t_pkey\"\nDETAIL:  Key (id)=(1)"));
}

#[test]
fn tables_are_described() {
    let script = format!(
        "{TABLES}CREATE INDEX roads_open ON roads (open);
CREATE VIEW big AS SELECT id FROM towns WHERE people > 1;
\\pset pager off
\\d
\\d towns
\\d roads;
\\dt t*
\\di roads*
\\dv
\\ds
\\dn
\\d nothing
"
    );
    let (code, out, err) = run_both("", &script);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("Did not find any relation named \"nothing\".") && err.contains("unknown command \\pset"),
        "{err}"
    );
    let towns = "         Table \"public.towns\"
 Column |  Type   | Nullable | Default 
--------+---------+----------+---------
 id     | integer | not null | 
 name   | text    | not null | 
 people | integer |          | 0
Indexes:
    \"towns_pkey\" PRIMARY KEY, btree (id)
    \"towns_name_key\" UNIQUE CONSTRAINT, btree (name)
Check constraints:
    \"towns_people_check\" CHECK (";
    assert!(out.contains(towns), "{out}");
    let others = "\nReferenced by:
    TABLE \"roads\" CONSTRAINT \"roads_town_fkey\" FOREIGN KEY (town) REFERENCES towns(id)\n";
    assert!(out.contains(others), "{out}");
    assert!(out.contains("Foreign-key constraints:\n    \"roads_town_fkey\" FOREIGN KEY (town) REFERENCES towns(id)"));
    for line in [" public | towns | table | ", " public | roads_open ", " public | big  | view | "] {
        assert!(out.contains(line), "{line}: {out}");
    }
}

#[test]
fn data_is_copied_both_ways() {
    let place = Place::new();
    place.write("rows.csv", "id,name\n1,\"a,b\"\n2,\n");
    let script = "CREATE TABLE t (id int PRIMARY KEY, name text);
\\copy t from 'rows.csv' with (format csv, header)
COPY t FROM STDIN;
3\tc
\\.
\\copy (SELECT * FROM t ORDER BY id) to out.txt
COPY t TO STDOUT CSV;
\\copy t from nothing.csv
COPY t FROM STDIN;
x\tagain
\\.
SELECT count(*) FROM t;
";
    let server = serve(&place, &[]);
    let url = format!("postgres://default@127.0.0.1:{}/quipu?sslmode=disable", server.port);
    for backend in ["--data db --create".to_owned(), format!("--connect {url}")] {
        let outcome = place.run_with(&format!("sql {backend}"), script);
        let expected =
            "CREATE TABLE\nCOPY 2\nCOPY 1\nCOPY 3\n1,\"a,b\"\n2,\n3,c\n count \n-------\n     3\n(1 row)\n\n";
        assert_eq!(outcome.out, expected, "{}", outcome.err);
        assert!(outcome.err.starts_with("<stdin>:8: cannot open nothing.csv"), "{}", outcome.err);
        assert!(outcome.err.contains("<stdin>:9: ERROR:  invalid input syntax for type integer"), "{}", outcome.err);
        assert!(outcome.err.contains("\nCONTEXT:  COPY t, line 1"), "{}", outcome.err);
        assert_eq!(place.read("out.txt"), "1\ta,b\n2\t\\N\n3\tc\n");
    }
}

/// `\copy` wrote plain text into a file whose name ends in `.gz`, which gzip and `quipu import` could not read.
#[test]
fn copied_data_is_compressed_as_its_name_says() {
    let place = Place::new();
    place.out("sql --data db --create -c 'CREATE TABLE n (a int PRIMARY KEY); INSERT INTO n VALUES (1), (2), (3)'");
    for (name, magic) in [("n.csv.gz", &[0x1f, 0x8b][..]), ("n.csv.zst", &[0x28, 0xb5, 0x2f, 0xfd]), ("n.csv", b"a\n")]
    {
        place.run_with("sql --data db", format!("\\copy n to {name} csv header\n")).success();
        #[expect(clippy::disallowed_methods, reason = "a file of the test, not of a database")]
        let bytes = std::fs::read(place.path(name)).unwrap();
        assert!(bytes.starts_with(magic), "{name}: {bytes:?}");
        let script = format!("DELETE FROM n;\n\\copy n from {name} csv header\n");
        assert_eq!(place.run_with("sql --data db", script).success(), "DELETE 3\nCOPY 3\n");
        place.run(&format!("import {name} --data {name}.db --table n --key a")).success();
    }
    for script in ["\\copy n to n.csv.xz csv\n", "\\copy n from n.csv.xz csv\n"] {
        assert!(place.run_with("sql --data db", script).failure().contains("xz"));
    }
    assert!(!place.path("n.csv.xz").exists());
}

#[test]
fn scripts_include_scripts_and_words_run() {
    let place = Place::new();
    place.write("inner.sql", "\u{feff}SELECT 1 AS inner;\n\\q\nSELECT 9;\n");
    place.write("outer.sql", "\\i inner.sql\n\\echo 'done'\nSELECT 2 AS outer;\nSELECT x;\n");
    let outcome = place.run("sql --data db --create --csv -f outer.sql");
    assert_eq!(outcome.out, "inner\n1\ndone\nouter\n2\n");
    assert!(outcome.failure().starts_with("outer.sql:4: ERROR:  column \"x\" does not exist\nLINE 1: SELECT x\n"));
    let out = place.out("sql --data db -c 'SELECT 1 AS a; SELECT 2 AS b' -c '\\x' -c 'SELECT 3 AS c'");
    let table = |name: &str, value: u8| format!(" {name} \n---\n {value}\n(1 row)\n\n");
    assert_eq!(out, table("a", 1) + &table("b", 2) + "Expanded display is on.\n-[ RECORD 1 ]\nc | 3\n\n");
    let outcome = place.run_with("sql --data db", "\\i loop.sql\n");
    assert!(outcome.failure().contains("cannot open loop.sql"));
    place.write("loop.sql", "\\i loop.sql\n");
    assert!(place.run_with("sql --data db", "\\i loop.sql\n").failure().contains("scripts within 16 scripts"));
}

/// As dumps of PostgreSQL begin and end.
#[test]
fn restrict_refuses_commands_until_its_key_comes_again() {
    let place = Place::new();
    let script = "\\restrict abc\nSELECT 1 AS a;\n\\! touch made\n\\unrestrict abd\n\\unrestrict abc\n\\echo done\n";
    let outcome = place.run_with("sql --data db --create --csv", script);
    assert_eq!(outcome.out, "a\n1\ndone\n");
    assert!(outcome.err.contains("\\! is refused"), "{}", outcome.err);
    assert!(outcome.err.contains("not the key"), "{}", outcome.err);
    assert!(!place.path("made").exists());
    assert!(place.run_with("sql --data db", "\\restrict\n").failure().contains("needs a key"));
    assert!(place.run_with("sql --data db", "\\unrestrict x\n").failure().contains("there was no"));
}

#[test]
fn what_is_wrong_has_its_exit_code() {
    let place = Place::new();
    assert_eq!(place.run("sql").code, Some(2));
    assert_eq!(place.run("sql --connect http://a").code, Some(2));
    assert_eq!(place.run("sql --data db --create --csv --json").code, Some(2));
    assert!(place.run("sql --data nothing -c 'SELECT 1'").failure().contains("there is no database in nothing"));
    let unused = free_port();
    let refused = place.run(&format!("sql --connect postgres://127.0.0.1:{unused} -c 'SELECT 1'")).failure();
    assert!(refused.contains("cannot connect to 127.0.0.1"), "{refused}");
    // A server of another protocol waits for more: the shell waited with it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    for mode in ["disable", "prefer"] {
        let url = format!("postgres://{address}?connect_timeout=1&sslmode={mode}");
        let said = place.run(&format!("sql --connect {url} -c 'SELECT 1'")).failure();
        assert!(said.contains("does not answer"), "{said}");
    }
    let outcome = place.run_with("sql --data db --create", "BEGIN;\nCREATE TABLE t (a int);\n");
    assert!(outcome.err.contains("the transaction was not ended"), "{}", outcome.err);
    let read_only = place.run("sql --data db --read-only -c 'CREATE TABLE t (a int)'").failure();
    assert!(read_only.contains("read-only"), "{read_only}");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let place = Place::new();
    place.write("many.sql", "SELECT * FROM generate_series(1, 1000000);\n");
    place.out("sql --data db --create -c 'SELECT 1'");
    let (_, outcome) = place.run_and_leave("sql --data db -f many.sql", 100);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
}

#[test]
fn a_password_is_proved() {
    let place = Place::new();
    let server = serve(&place, &["--requirepass", "se cret"]);
    let url =
        |login: &str| format!("sql --connect postgres://{login}@127.0.0.1:{}/q --csv -c 'SELECT 1 AS a'", server.port);
    assert_eq!(place.out(&url("default:se%20cret")), "a\n1\n");
    assert!(place.run(&url("default:wrong")).failure().contains("password authentication failed"));
    assert!(place.run(&url("default")).failure().contains("asks for a password"));
}

#[test]
fn a_server_shows_its_certificate() {
    let place = Place::new();
    let authority = |name: &str| {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        place.write(name, parameters.self_signed(&key).unwrap().pem());
        Issuer::new(parameters, key)
    };
    authority("other.pem");
    let issuer = authority("authority.pem");
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    place.write("own.key", key.serialize_pem());
    place.write("own.pem", parameters.signed_by(&key, &issuer).unwrap().pem());
    let path = |name: &str| place.path(name).display().to_string();
    let (certificate, own) = (path("own.pem"), path("own.key"));
    let more = ["--tls-cert-file", &certificate, "--tls-key-file", &own, "--pg-require-tls", "yes"];
    let server = serve(&place, &more);
    let run = |host: &str, parameters: &str| {
        let place_of = format!("postgres://default@{host}:{}/quipu?{parameters}", server.port);
        place.run(&format!("sql --connect {place_of} --csv -c 'SELECT 1 AS a' -c \\conninfo"))
    };
    for parameters in ["sslmode=require", "sslmode=prefer", "sslmode=verify-full&sslrootcert=authority.pem"] {
        let out = run("localhost", parameters).success();
        assert!(out.starts_with("a\n1\nPostgreSQL 15.0 (Quipu ") && out.contains(", TLS, database \"quipu\""), "{out}");
    }
    run("localhost", "sslmode=disable").failure();
    for (host, file) in [("localhost", "other.pem"), ("127.0.0.1", "authority.pem")] {
        let error = run(host, &format!("sslmode=verify-full&sslrootcert={file}")).failure();
        assert!(error.contains("certificate"), "{error}");
    }
}

/// Ctrl-C stops the statement, and a script with it.
#[test]
fn an_interrupt_stops_a_statement() {
    let place = Place::new();
    let server = serve(&place, &[]);
    let url = format!("postgres://default@127.0.0.1:{}/quipu", server.port);
    for backend in [["--data", "db", "--create"].as_slice(), &["--connect", &url]] {
        let script = "\\echo begun\nSELECT pg_sleep(60);\n\\echo not\n";
        let mut running = Running::begin(&place, &[&["sql"], backend].concat(), script);
        assert_eq!(running.line(), "begun\n");
        let (code, rest, err) = running.interrupt();
        assert_eq!((code, rest.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("ERROR:  canceling statement due to user request"), "{err}");
    }
}
