//! Goal: indexes are built beside writers, none of whom is asked to run again, and have the entries of the rows.
//! Method: sessions that write in transactions and on their own while another one builds and drops indexes; the checker
//! of rows afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quipu::{Db, Options};
use quipu_sql::SqlDatabase;

use crate::sessions::{Client, code, lines};

fn with_rows(rows: u64) -> (Db, SqlDatabase) {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let client = Client::new(&database, "anna");
    lines(&client, "CREATE TABLE t (id int PRIMARY KEY, v int, w int, same int DEFAULT 1)");
    lines(&client, &format!("INSERT INTO t SELECT g, g * 7 % 1000, g FROM generate_series(1, {rows}) g"));
    (db, database)
}

fn check(db: &Db) {
    let problems = quipu_rows::check(db, &mut |_| ()).expect("it is checked").problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn no_writer_is_asked_to_run_again_beside_builds_that_end_and_builds_that_fail() {
    let (db, database) = with_rows(3_000);
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 1..=3_u64 {
            let (database, is_over, written) = (&database, &is_over, &written);
            scope.spawn(move || {
                let client = Client::new(database, "writer");
                let mut key = number;
                while !is_over.load(Ordering::Relaxed) {
                    key = key * 48_271 % 2_999 + 1;
                    let change = format!("UPDATE t SET v = v + {number} WHERE id = {key}");
                    // Keys of others are below those that it adds and removes.
                    let add = format!("INSERT INTO t VALUES ({}, {key}, {})", 10_000 * number, 10_000 * number);
                    let remove = format!("DELETE FROM t WHERE id = {}", 10_000 * number);
                    let statements = match number {
                        1 => [change, add, remove],
                        _ => [format!("BEGIN; {add}"), remove, format!("{change}; COMMIT")],
                    };
                    for statement in statements {
                        assert_eq!(code(&client, &statement), "00000", "{statement}");
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let client = Client::new(&database, "builder");
        let mut before = 0;
        for round in 0..8 {
            while written.load(Ordering::Relaxed) < before + 10 {
                std::thread::yield_now();
            }
            before = written.load(Ordering::Relaxed);
            let (index, expected) = match round % 4 {
                0 => ("INDEX CONCURRENTLY x ON t (v)", "00000"),
                1 => ("UNIQUE INDEX CONCURRENTLY x ON t (w, id)", "00000"),
                2 => ("INDEX CONCURRENTLY x ON t (v DESC) INCLUDE (w) WHERE v > 500", "00000"),
                _ => ("UNIQUE INDEX CONCURRENTLY x ON t (same)", "23505"),
            };
            assert_eq!(code(&client, &format!("CREATE {index}")), expected, "{index}");
            if expected == "00000" {
                assert_eq!(code(&client, "DROP INDEX x"), "00000");
            }
        }
        assert_eq!(code(&client, "CREATE INDEX CONCURRENTLY stays ON t (v, w)"), "00000");
        is_over.store(true, Ordering::Relaxed);
    });
    let client = Client::new(&database, "anna");
    assert_eq!(lines(&client, "SELECT indexname FROM pg_indexes WHERE tablename = 't'").len(), 2);
    assert_eq!(lines(&client, "SELECT count(*) FROM t WHERE v > -1"), lines(&client, "SELECT count(*) FROM t"));
    check(&db);
}

#[test]
fn the_index_of_many_rows_is_built_outside_of_a_transaction_and_leaves_nothing_if_it_fails() {
    let (db, database) = with_rows(50_000);
    let client = Client::new(&database, "anna");
    assert_eq!(code(&client, "CREATE INDEX t_v ON t (v)"), "00000");
    assert_eq!(code(&client, "CREATE INDEX t_v ON t (v)"), "42P07");
    assert_eq!(code(&client, "CREATE INDEX IF NOT EXISTS t_v ON t (v)"), "00000");
    assert_eq!(code(&client, "CREATE INDEX IF NOT EXISTS none ON nothing (v)"), "42P01");
    let refused = client.send("CREATE UNIQUE INDEX same ON t (same)", false).recv().expect("an answer");
    let refused = refused.expect_err("all rows have one value");
    assert_eq!((refused.state().code(), refused.message()), ("23505", "could not create unique index \"same\""));
    assert_eq!(code(&client, "SET statement_timeout = 1"), "00000");
    assert_eq!(code(&client, "CREATE INDEX late ON t (w, v)"), "57014");
    // So is what looks at all rows within a transaction.
    for statement in ["ALTER TABLE t ADD CHECK (w + v > 0)", "ALTER TABLE t ALTER w TYPE text"] {
        assert_eq!(code(&client, &format!("{statement}; SELECT 1")), "57014", "{statement}");
    }
    assert_eq!(code(&client, "RESET statement_timeout"), "00000");
    let names = lines(&client, "SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1");
    assert_eq!(names, ["t_pkey", "t_v"]);
    assert_eq!(lines(&client, "SELECT count(*) FROM t WHERE v = 7"), ["50"]);
    // In a transaction it is built of what that sees.
    assert_eq!(code(&client, "BEGIN; DELETE FROM t WHERE id > 10; CREATE UNIQUE INDEX u ON t (w)"), "00000");
    assert_eq!(lines(&client, "SELECT count(*) FROM t WHERE w > 4"), ["6"]);
    assert_eq!(code(&client, "ROLLBACK"), "00000");
    check(&db);
}

#[test]
fn rows_that_come_from_the_table_are_kept_before_they_are_written() {
    let (_, database) = with_rows(0);
    let client = Client::new(&database, "anna");
    // Kept, they would take more.
    assert_eq!(code(&client, "SET statement_memory = '1MB'"), "00000");
    assert_eq!(code(&client, "INSERT INTO t SELECT g, g, g FROM generate_series(1, 20000) g"), "00000");
    // Those that do are kept, in a file if they do not fit into memory.
    assert_eq!(code(&client, "BEGIN; INSERT INTO t SELECT id + 20000, v, w FROM t"), "00000");
    assert_eq!(lines(&client, "SELECT count(*), sum(w - v) FROM t"), ["40000|0"]);
    assert_eq!(code(&client, "ROLLBACK"), "00000");
    // Rows of the statement itself are not read by it.
    assert_eq!(code(&client, "INSERT INTO t SELECT id + 20000, v, w FROM t WHERE id <= 3"), "00000");
    assert_eq!(lines(&client, "SELECT count(*), max(id) FROM t"), ["20003|20003"]);
    // So are those that are changed or go.
    assert_eq!(code(&client, "ALTER TABLE t ADD COLUMN long text DEFAULT repeat('x', 1000)"), "00000");
    assert_eq!(code(&client, "UPDATE t SET v = v + 1"), "00000");
    assert_eq!(lines(&client, "UPDATE t SET v = v + 1 RETURNING v - w").len(), 20003);
    assert_eq!(lines(&client, "SELECT count(*) FROM t WHERE v = w + 2"), ["20003"]);
    assert_eq!(code(&client, "DELETE FROM t WHERE w >= 0"), "00000");
}
