//! Goal: a statement that is nested takes a time that is linear in its length, or is refused. Method: forms of the
//! grammar, each nested in itself so deep that to read a part twice at each level would not end.

use std::path::Path;

use quipu::{Db, Options};
use quipu_sql::{SqlDatabase, SqlState};

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

#[test]
fn nested_statements_are_read_in_linear_time_or_refused() {
    let run = || {
        let db = Db::open(Path::new("/nesting"), Options::without_files()).expect("a database");
        let database = SqlDatabase::open(&db).expect("SQL over it");
        let mut session = database.session("default", "main");
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
    };
    // As deep as the stack of a connection allows.
    let thread = std::thread::Builder::new().stack_size(quipu_sql::STACK_BYTES).spawn(run).expect("a thread");
    thread.join().expect("it ends");
}
