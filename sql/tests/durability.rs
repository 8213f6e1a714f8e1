//! Goal: outside of a transaction, nothing is told that a power loss could take back, though another session has
//! committed it without waiting for the disk. Method: a disk in memory that loses what was not synced, or that fails.

use std::io;
use std::sync::Arc;

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, Options};
use quipu_sql::SqlDatabase;

use crate::sessions::{Client, code, lines};

fn over(disk: &SimDisk) -> (Db, SqlDatabase) {
    let db =
        Db::open("/sql", Options { disk: Arc::new(disk.clone()), ..Options::without_files() }).expect("a database");
    let sql = SqlDatabase::open(&db).expect("SQL over it");
    (db, sql)
}

/// A database with an empty table, and one that writes to it without waiting for the disk.
fn with_writer() -> (SimDisk, SqlDatabase, Client) {
    let disk = SimDisk::new();
    let (_, database) = over(&disk);
    let writer = Client::new(&database, "anna");
    lines(&writer, "CREATE TABLE t (id bigint PRIMARY KEY, n bigint)");
    lines(&writer, "SET synchronous_commit = off");
    (disk, database, writer)
}

/// The rows after a power loss.
fn left(disk: &SimDisk) -> Vec<String> {
    let (_, database) = over(&disk.crash_with(CrashMode::LoseAll, 1));
    lines(&Client::new(&database, "anna"), "SELECT id FROM t")
}

#[test]
fn what_a_session_was_told_survives_a_power_loss() {
    let told = [
        "SELECT n FROM t WHERE id = 1",
        "SELECT count(*) FROM t",
        "SELECT id FROM t ORDER BY n DESC",
        "EXPLAIN ANALYZE SELECT id FROM t",
        "UPDATE t SET n = 2 WHERE n = 7",
        "INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING",
        "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        "BEGIN; SELECT n FROM t; COMMIT",
        "PREPARE p AS SELECT n FROM t; EXECUTE p",
        "COPY (SELECT n FROM t) TO STDOUT",
    ];
    for text in told {
        let (disk, database, writer) = with_writer();
        let reader = Client::new(&database, "bert");
        lines(&writer, "INSERT INTO t VALUES (1, 1)");
        assert_eq!(code(&reader, text), "00000", "{text}");
        assert_eq!(left(&disk), ["1"], "{text}");
    }
    // Without them it is gone: the disk does lose what is not synced. Nor do queries wait within a transaction, or
    // those of a session that asks for less.
    for text in ["SHOW work_mem", "BEGIN; SELECT n FROM t", "SET synchronous_commit = off; SELECT n FROM t"] {
        let (disk, database, writer) = with_writer();
        let reader = Client::new(&database, "bert");
        lines(&writer, "INSERT INTO t VALUES (1, 1)");
        assert_eq!(code(&reader, text), "00000", "{text}");
        assert_eq!(left(&disk), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn no_session_is_told_what_a_failed_sync_may_have_lost() {
    let (disk, database, writer) = with_writer();
    let reader = Client::new(&database, "bert");
    lines(&reader, "INSERT INTO t VALUES (0, 0)");
    lines(&writer, "INSERT INTO t VALUES (1, 1)");
    disk.fail_at(disk.steps(), io::ErrorKind::Other);
    for text in ["SELECT n FROM t WHERE id = 1", "SELECT count(*) FROM t", "BEGIN; SELECT n FROM t; COMMIT"] {
        assert_eq!(code(&reader, text), "58030", "{text}");
    }
    assert_eq!(left(&disk), ["0"]);
}
