//! Goal: a statement that is nested takes a time that is linear in its length, or is refused. Method: forms of the
//! grammar, each nested in itself so deep that to read a part twice at each level would not end.

use std::path::Path;

use quipu::{Db, Options};
use quipu_sql::{Session, SqlDatabase, SqlState};

use crate::sessions::{Client, code};

/// What comes before, what is opened at each level, the innermost, and what is closed at each level.
const FORMS: [(&str, &str, &str, &str); 58] = [
    ("SELECT ", "abs(", "1", ")"),
    ("SELECT ", "coalesce(NULL, ", "1", ")"),
    ("SELECT ", "replace(", "'a'", ", 'a', 'b')"),
    ("SELECT ", "greatest(", "1", ", 2)"),
    ("SELECT ", "nullif(", "1", ", 2)"),
    ("SELECT ", "round(", "1.5", ", 1)"),
    ("SELECT ", "position('a' IN ", "'b'", ")::text"),
    ("SELECT ", "position(", "'b'", " IN 'a')::text"),
    ("SELECT ", "position(", "1", ", 2)"),
    ("SELECT ", "substring(", "'abc'", " FROM 1 FOR 2)"),
    ("SELECT ", "substring(", "'abc'", " SIMILAR '%' ESCAPE '#')"),
    ("SELECT ", "overlay(", "'abc'", " PLACING 'x' FROM 1)"),
    ("SELECT ", "trim(", "'abc'", ")"),
    ("SELECT ", "trim(BOTH FROM ", "'abc'", ")"),
    ("SELECT ", "extract(year FROM date '2020-01-01' + ", "1", "::int)"),
    ("SELECT ", "cast(", "1", " AS int)"),
    ("SELECT ", "(", "1", ")::int"),
    ("SELECT ", "CASE WHEN true THEN ", "1", " ELSE 2 END"),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 ELSE 2 END"),
    ("SELECT ", "ARRAY[", "1", "]"),
    ("SELECT ", "ROW(", "1", ")"),
    ("SELECT ", "(1, ", "1", ")"),
    ("SELECT ", "1 IN (", "1", ")::int"),
    ("SELECT ", "1 IN (SELECT ", "1", ")::int"),
    ("SELECT ", "exists(SELECT ", "1", ")"),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT ", "x FROM (SELECT ", "1 AS x", ") AS x"),
    ("SELECT 1 FROM ", "(", "generate_series(1, 1)", " CROSS JOIN generate_series(1, 1))"),
    ("", "SELECT 1 FROM ((", "SELECT 1", ") x CROSS JOIN (SELECT 1) y)"),
    ("SELECT ", "NOT ", "true", ""),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "1 BETWEEN 0 AND (", "1", ")::int"),
    ("SELECT ", "'a' LIKE (", "'a'", ")::text"),
    ("SELECT ", "ceil(", "1", ")"),
    ("SELECT ", "coalesce((SELECT count(", "1", ")), 0)"),
    ("SELECT ", "(SELECT count(*) FILTER (WHERE ", "true", ")) = 1"),
    ("SELECT ", "(SELECT sum(1) OVER (ORDER BY ", "1", "))"),
    ("SELECT ", "(ARRAY[1, 2, 3])[", "1", "]"),
    ("SELECT ", "'a' || (", "'b'", ")"),
    ("SELECT ", "(", "now()", " AT TIME ZONE 'UTC')"),
    ("", "(SELECT 1 UNION ", "SELECT 1", ")"),
    ("", "(", "SELECT 1", " UNION SELECT 1)"),
    ("", "(", "SELECT 1", " ORDER BY 1)"),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1"),
    ("SELECT 1 FROM ", "LATERAL (SELECT 1 FROM ", "generate_series(1, 1)", ") y"),
    ("", "VALUES ((", "VALUES (1)", "))"),
    ("SELECT ", "(1 = ANY (ARRAY[", "1", "]::int[]))::int"),
    ("SELECT ", "(1 = ANY (SELECT ", "1", "))::int"),
    ("", "EXPLAIN ", "SELECT 1", ""),
    ("SELECT ", "jsonb_build_object('a', ", "1", ")"),
    ("SELECT ", "(", "1", ") IS NULL"),
    ("SELECT ", "(true IS DISTINCT FROM ", "true", ")"),
    ("SELECT ", "(1 + ", "1", ")"),
    ("SELECT 1 FROM ", "generate_series(1, (SELECT count(*)::int FROM ", "generate_series(1, 1)", ")) g"),
    ("SELECT 1 FROM (SELECT 1 AS a) t GROUP BY ", "ROLLUP (", "a", ")"),
    ("SELECT ", "make_interval(days => ", "1", ")"),
    ("SELECT ", "unnest(ARRAY[", "1", "])"),
    ("SELECT ", "(SELECT string_agg(", "'a'", ", ','))"),
];

/// What comes before, what stands once and more in a row, and what comes after.
const ROWS: [(&str, &str, &str); 22] = [
    ("SELECT 1", " + 1", ""),
    ("SELECT 1", " - 1 * 1", ""),
    ("SELECT 'a'", " || 'b'", ""),
    ("SELECT '{}'::jsonb", " -> 'a'", ""),
    ("SELECT '{}'::jsonb", "['a']", ""),
    ("SELECT 1", "::int", ""),
    ("SELECT now()", " AT TIME ZONE 'utc'", ""),
    ("SELECT 1", " IS NULL", ""),
    ("SELECT true", " = true", ""),
    ("SELECT 'a'", " LIKE 'a'", ""),
    ("SELECT 1", " BETWEEN 1 AND 2", ""),
    ("SELECT 1 WHERE 1 = 1", " OR 1 = 2", ""),
    ("SELECT 1 WHERE 1 = 1", " AND 1 = 2", ""),
    ("SELECT 1", " UNION ALL SELECT 1", ""),
    ("SELECT 1", " EXCEPT SELECT 1", ""),
    ("SELECT 1 + CASE WHEN true THEN 1", " WHEN true THEN 1 + 1", " END"),
    ("SELECT 1", " + CASE WHEN true THEN 1 ELSE 2 END", ""),
    ("EXPLAIN SELECT 1 WHERE 1 = 1", " OR 1 = 2", ""),
    ("PREPARE p AS SELECT 1 WHERE 1 = 1", " OR 1 = 2", ""),
    ("DECLARE c CURSOR FOR SELECT 1 WHERE 1 = 1", " OR 1 = 2", ""),
    ("CREATE VIEW v AS SELECT 1 WHERE 1 = 1", " OR 1 = 2", ""),
    ("CREATE TABLE t (a int CHECK (a = 1", " OR a = 2", "))"),
];

/// A session over a new database, in a thread whose stack is as large as that of a connection.
fn in_a_session(run: impl FnOnce(&mut Session) + Send + 'static) {
    let run = || {
        let db = Db::open(Path::new("/nesting"), Options::without_files()).expect("a database");
        let database = SqlDatabase::open(&db).expect("SQL over it");
        run(&mut database.session("default", "main"));
    };
    let thread = std::thread::Builder::new().stack_size(quipu_sql::STACK_BYTES).spawn(run).expect("a thread");
    thread.join().expect("it ends");
}

#[test]
fn long_rows_of_operators_are_computed_or_refused() {
    let db = Db::open(Path::new("/nesting"), Options::without_files()).expect("a database");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let client = Client::new(&database, "default");
    for (first, next, last) in ROWS {
        for count in [3, 490, 3_000, 9_990, 100_000] {
            let text = format!("{first}{}{last}", next.repeat(count));
            let Err(error) = client.send(&text, false).recv().expect("the session lives") else { continue };
            assert_ne!(error.state(), SqlState::INTERNAL_ERROR, "{first}{next} x {count}: {error}");
            let is_refused = error.state() == SqlState::STATEMENT_TOO_COMPLEX;
            let is_row = [" + 1", " || 'b'", " OR 1 = 2", " UNION ALL SELECT 1"].contains(&next);
            assert!(!(is_row && is_refused) || count > 490, "{first}{next} x {count}: {error}");
        }
    }
}

/// A release build had a stack of 2 MiB for a connection, which forty nested joins overflowed: the server was gone.
#[test]
fn found_nested_statements_that_took_the_whole_stack() {
    let db = Db::open(Path::new("/nesting"), Options::without_files()).expect("a database");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let client = Client::new(&database, "default");
    for (before, open, inner, close) in FORMS {
        for depth in [2, 20, 45, 95, 1_000] {
            let text = format!("{before}{}{inner}{}", open.repeat(depth), close.repeat(depth));
            for text in [format!("EXPLAIN {text}"), text] {
                // Quotes of a text within texts double at each level, until it is longer than one may be.
                if depth == 45 && ["ROW(", "(1, "].contains(&open) {
                    continue;
                }
                let Err(error) = client.send(&text, false).recv().expect("the session lives") else { continue };
                assert_ne!(error.state(), SqlState::INTERNAL_ERROR, "{before}{open} x {depth}: {error}");
            }
        }
    }
}

#[test]
fn nested_statements_are_read_in_linear_time_or_refused() {
    in_a_session(|session| {
        for (before, open, inner, close) in FORMS {
            // Once at each depth: what takes long to find out is often what fails in the end.
            for depth in [3, 40, 400] {
                let text = format!("{before}{}{inner}{}", open.repeat(depth), close.repeat(depth));
                for text in [text.clone(), format!("{text} )"), text[..text.len() - 1].to_owned()] {
                    let Err(error) = session.prepare(&text, &[]) else { continue };
                    let is_internal = error.state() == SqlState::INTERNAL_ERROR;
                    assert!(!is_internal, "{before}{open}...: {error}");
                }
            }
        }
        let deep = format!("SELECT {}'a'{}", "replace(".repeat(40), ", 'a', 'b')".repeat(40));
        session.prepare(&deep, &[]).expect("as deep as people write it");
    });
}

/// Each subscript made an array of its own, each as long as one may be.
#[test]
fn subscripts_of_jsonb_make_no_more_elements_than_one_array_may_have() {
    let database = crate::sessions::database();
    let client = Client::new(&database, "anna");
    assert_eq!(
        code(&client, "CREATE TABLE deep (id int PRIMARY KEY, j jsonb); INSERT INTO deep VALUES (1, '{}')"),
        "00000"
    );
    for subscripts in ["[9000000]", &"[8000000]".repeat(30), "[2147483647][2147483647]"] {
        let text = format!("UPDATE deep SET j['a']{subscripts} = '1'");
        assert_eq!(code(&client, &text), "54000", "{subscripts}");
    }
    assert_eq!(code(&client, "UPDATE deep SET j['a'][2][3]['b'] = '1'"), "00000");
}

/// Queries of WITH that read each other in a row are run one after the other; recursive ones run rounds of each other.
#[test]
fn long_rows_of_queries_of_with_are_run_or_refused() {
    let db = Db::open(Path::new("/nesting"), Options::without_files()).expect("a database");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let client = Client::new(&database, "default");
    for (count, is_recursive) in [(3, false), (2_000, false), (3, true), (2_000, true)] {
        let mut text = String::from("WITH RECURSIVE q0 AS (SELECT 1 AS n)");
        for at in 1..count {
            let (own, before) = (format!("q{at}"), format!("q{}", at - 1));
            text += &match is_recursive {
                false => format!(", {own} AS (SELECT n FROM {before})"),
                true => format!(
                    ", {own} AS (SELECT 1 AS n UNION ALL SELECT {own}.n + 1 FROM {own}, {before} WHERE {own}.n < 2 AND \
                     {before}.n = 1)"
                ),
            };
        }
        text += &format!(" SELECT max(n) FROM q{}", count - 1);
        let done = client.send(&text, false).recv().expect("the session lives");
        let is_refused = done.as_ref().is_err_and(|error| error.state() == SqlState::STATEMENT_TOO_COMPLEX);
        assert!(done.is_ok() || is_refused && count > 3 && is_recursive, "{count}, {is_recursive}: {:?}", done.err());
    }
}

/// A query is bound once more when that shows that it is not recursive, or which types the other side has: within each
/// other they would take twice the time a level.
#[test]
fn queries_that_are_bound_once_more_within_each_other_are_refused() {
    in_a_session(|session| {
        for count in [3, 40] {
            let with = "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL (".repeat(count);
            let union: String = (1..=count).map(|number| format!("SELECT ${number} UNION ALL (")).collect();
            for (first, last) in [(with, ")) SELECT n FROM a"), (union, ")")] {
                let text = format!("{first}SELECT 1{}", last.repeat(count));
                let done = session.prepare(&text, &[]).map(drop);
                let is_refused = done.as_ref().is_err_and(|error| error.state() == SqlState::STATEMENT_TOO_COMPLEX);
                assert_eq!(is_refused, count == 40, "{text}: {done:?}");
            }
        }
    });
}
