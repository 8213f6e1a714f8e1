//! Goal: transactions make objects beside each other without a conflict, no two objects get one number, and no two one
//! name. Method: sessions in turns, on a disk in memory that is closed, killed and opened again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, Options};
use quipu_sql::SqlDatabase;

use crate::sessions::{Client, code, database, lines};

const WAIT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

/// Statements that make an object each of the name that stands for `#`.
const KINDS: [&str; 9] = [
    "CREATE SEQUENCE sequence_#",
    "CREATE TABLE serial_# (id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY)",
    "CREATE VIEW view_# AS SELECT 1 AS one",
    "CREATE TYPE enum_# AS ENUM ('a', 'b')",
    "CREATE TYPE row_# AS (a int)",
    "CREATE DOMAIN domain_# AS int",
    "CREATE SCHEMA schema_#",
    "CREATE MATERIALIZED VIEW kept_# AS SELECT 1 AS one",
    "CREATE TEMP TABLE temporary_# (id serial)",
];

fn opened(disk: &SimDisk) -> SqlDatabase {
    let options = Options { disk: Arc::new(disk.clone()), ..Options::default() };
    SqlDatabase::open(&Db::open("/sql", options).expect("a database")).expect("SQL over it")
}

#[test]
fn transactions_make_objects_of_all_kinds_beside_each_other() {
    let database = database();
    let clients = ["anna", "ben", "carl"].map(|name| (name, Client::new(&database, name)));
    for kind in KINDS {
        for (_, client) in &clients {
            lines(client, "BEGIN");
        }
        for (name, client) in &clients {
            assert_eq!(code(client, &kind.replace('#', name)), "00000", "{kind}");
        }
        for (name, client) in clients.iter().rev() {
            assert_eq!(code(client, "COMMIT"), "00000", "{kind} of {name}");
        }
    }
    let twice = "SELECT oid, count(*) FROM (SELECT oid FROM pg_class UNION ALL SELECT oid FROM pg_namespace) o \
                 GROUP BY oid HAVING count(*) > 1 UNION ALL SELECT oid, count(*) FROM pg_type GROUP BY oid \
                 HAVING count(*) > 1";
    assert_eq!(lines(&clients[0].1, twice), [""; 0]);
    assert_eq!(lines(&clients[1].1, "SELECT count(*) FROM pg_class WHERE relname ~ '^serial_.*seq$'"), ["6"]);
}

#[test]
fn one_that_makes_what_another_has_made_waits_and_finds_it() {
    for kind in &KINDS[..8] {
        let (database, kind) = (database(), kind.replace('#', "x"));
        let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
        for (end, answer) in [("ROLLBACK", "00000"), ("COMMIT", "other")] {
            lines(&anna, "BEGIN");
            lines(&anna, &kind);
            let waits = ben.send(&format!("BEGIN; {kind}"), false);
            assert!(waits.recv_timeout(WAIT).is_err(), "{kind} waits");
            lines(&anna, end);
            let told = waits.recv_timeout(LONG).expect("it goes on");
            let state = told.map_or_else(|error| error.state().code(), |_| "00000");
            let exists = ["42P07", "42710", "42P06"].contains(&state);
            assert!(if answer == "other" { exists } else { state == answer }, "{kind}: {state} after {end}");
            lines(&ben, "ROLLBACK");
        }
    }
}

#[test]
fn if_not_exists_waits_and_takes_what_is_there_then() {
    let database = database();
    let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
    lines(&anna, "BEGIN; CREATE TABLE t (id serial)");
    let waits = ben.send("CREATE TABLE IF NOT EXISTS t (id serial); INSERT INTO t DEFAULT VALUES", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    lines(&anna, "INSERT INTO t DEFAULT VALUES; COMMIT");
    assert!(waits.recv_timeout(LONG).expect("it goes on").is_ok());
    assert_eq!(lines(&anna, "SELECT id FROM t ORDER BY id"), ["1", "2"]);
}

#[test]
fn nothing_is_made_in_a_schema_that_another_transaction_drops() {
    let database = database();
    let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
    lines(&anna, "CREATE SCHEMA s");
    lines(&anna, "BEGIN; DROP SCHEMA s");
    let waits = ben.send("CREATE TABLE s.t (id int)", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    lines(&anna, "COMMIT");
    let told = waits.recv_timeout(LONG).expect("it goes on");
    assert_eq!(told.map_or_else(|error| error.state().code(), |_| "00000"), "3F000");
}

#[test]
fn no_number_is_given_twice_whatever_becomes_of_its_transaction() {
    let mut disk = SimDisk::new();
    let mut seen = BTreeSet::new();
    for round in 0..6 {
        let database = opened(&disk);
        let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
        let mut given = Vec::new();
        lines(&anna, "BEGIN");
        for at in 0..3 + round * 20 {
            lines(&anna, &format!("CREATE SEQUENCE gone_{round}_{at}"));
        }
        given.extend(lines(&anna, &format!("SELECT oid FROM pg_class WHERE relname LIKE 'gone_{round}_%'")));
        lines(&ben, &format!("CREATE SEQUENCE alone_{round}"));
        lines(&ben, &format!("BEGIN; CREATE SEQUENCE stays_{round}; COMMIT"));
        lines(&anna, if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" });
        if round % 2 == 0 {
            seen.extend(given.iter().cloned());
        }
        let kept = lines(&ben, "SELECT oid FROM pg_class WHERE relkind = 'S'");
        assert!(round % 2 != 0 || kept.iter().all(|oid| !given.contains(oid)), "round {round}");
        let distinct: BTreeSet<&String> = kept.iter().collect();
        assert_eq!(distinct.len(), kept.len(), "round {round}");
        assert!(kept.iter().all(|oid| !seen.contains(oid)), "round {round}: one that was rolled back comes again");
        drop((anna, ben, database));
        disk = if round % 3 == 0 { disk.kill() } else { disk.crash_with(CrashMode::LoseAll, round) };
    }
}
