//! Goal: what a session was told is there after a power loss, and nothing of what was undone. Method: sessions in
//! threads move money between accounts and write each move down, with savepoints, cursors, cancels and clients that
//! vanish, over a simulated disk, of which copies are taken meanwhile that have lost what was not synced.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, Durability, Options};
use quipu_sql::SqlDatabase;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::sessions::{Client, code, lines};

const ACCOUNTS: i64 = 6;
const CLIENTS: usize = 4;
const MOVES: usize = 150;
/// What a client may be told beside success: that others were in its way, or that it was cancelled.
const REFUSALS: &[&str] = &["40001", "40P01", "55P03", "57014", "25P02"];

/// Keys of moves whose commit was acknowledged, and of those that were rolled back.
#[derive(Clone, Default)]
struct Told {
    there: Vec<String>,
    gone: Vec<String>,
}

fn over(disk: &SimDisk) -> (Db, SqlDatabase) {
    let options = Options {
        disk: Arc::new(disk.clone()),
        durability: Durability::Sync,
        log_segment_bytes: 64 << 10,
        ..Options::without_files()
    };
    let db = Db::open("/sql", options).expect("a database");
    let sql = SqlDatabase::open(&db).expect("SQL over it");
    (db, sql)
}

/// A client that moves money.
struct Mover<'m> {
    database: &'m SqlDatabase,
    client: Client,
    number: usize,
    random: StdRng,
    told: &'m Mutex<Told>,
}

impl Mover<'_> {
    /// Runs a statement. Returns whether it succeeded; an error must be one that a client has to expect.
    fn runs(&self, text: &str) -> bool {
        let code = code(&self.client, text);
        assert!(code == "00000" || REFUSALS.contains(&code), "{text}: {code}");
        code == "00000"
    }

    fn note(&self, key: String, is_there: bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if is_there { told.there.push(key) } else { told.gone.push(key) }
    }

    /// A transaction that moves money, some other way each time.
    fn step(&mut self, step: usize) {
        let key = format!("{}-{step}", self.number);
        let (from, to) = (self.random.random_range(0..ACCOUNTS), self.random.random_range(0..ACCOUNTS));
        let amount = self.random.random_range(1..50);
        let level = ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
        let level = level[self.random.random_range(0..level.len())];
        let write_down = format!("INSERT INTO history VALUES ('{key}', {from}, {to}, {amount})");
        let take = format!("UPDATE account SET balance = balance - {amount} WHERE id = {from}");
        let give = format!("UPDATE account SET balance = balance + {amount} WHERE id = {to}");
        let mut is_done = self.runs(&format!("BEGIN ISOLATION LEVEL {level}"));
        if step.is_multiple_of(5) {
            is_done &= self.runs("DECLARE c CURSOR FOR SELECT sum(balance) FROM account");
        }
        is_done &= self.runs(&write_down) && self.runs(&take);
        if step.is_multiple_of(3) && is_done {
            let wrong =
                "UPDATE account SET balance = 1000000 WHERE id = 0; INSERT INTO history VALUES ('wrong', 0, 0, 0)";
            is_done = self.runs("SAVEPOINT s");
            if is_done && !self.runs(wrong) {
                is_done = false;
            }
            is_done = is_done && self.runs("ROLLBACK TO s");
        }
        match self.random.random_range(0..10) {
            0 => {
                // It vanishes in the middle of a transaction.
                self.client = Client::new(self.database, "anna");
                return self.note(key, false);
            }
            1 => {
                let waits = self.client.send(&give, false);
                self.client.cancel();
                is_done &= waits.recv().expect("an answer").is_ok();
            }
            _ => is_done = is_done && self.runs(&give),
        }
        let is_kept = is_done && !step.is_multiple_of(7);
        let has_ended = self.runs(if is_kept { "COMMIT" } else { "ROLLBACK" });
        if has_ended || !is_kept {
            self.note(key, is_kept);
        }
        if step.is_multiple_of(4) {
            assert_eq!(lines(&self.client, "SELECT sum(balance) FROM account"), ["6000"]);
        }
    }
}

/// Whether a database is in order: all that was told before is there, and each balance is what the moves say.
fn judge(db: &Db, sql: &SqlDatabase, told: &Told, what: &str) {
    let client = Client::new(sql, "judge");
    let keys = lines(&client, "SELECT key FROM history ORDER BY key");
    for key in &told.there {
        assert!(keys.binary_search(key).is_ok(), "{what}: {key} was acknowledged");
    }
    for key in &told.gone {
        assert!(keys.binary_search(key).is_err(), "{what}: {key} was rolled back");
    }
    assert!(keys.binary_search(&"wrong".to_owned()).is_err(), "{what}: a savepoint was undone");
    assert_eq!(lines(&client, "SELECT count(*) FROM history"), [keys.len().to_string()], "{what}");
    let wrong = "SELECT id, balance FROM account a WHERE balance <> 1000
        + coalesce((SELECT sum(amount) FROM history WHERE target = a.id), 0)
        - coalesce((SELECT sum(amount) FROM history WHERE source = a.id), 0)";
    assert_eq!(lines(&client, wrong), Vec::<String>::new(), "{what}");
    let check = quipu_rows::check(db, &mut |_| {}).expect("a check");
    assert_eq!(check.problems, Vec::<String>::new(), "{what}");
}

#[test]
fn what_was_acknowledged_survives_a_power_loss_and_moves_are_whole() {
    let disk = SimDisk::new();
    let (db, sql) = over(&disk);
    let first = Client::new(&sql, "anna");
    lines(&first, "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)");
    lines(
        &first,
        "CREATE TABLE history (key text PRIMARY KEY, source int REFERENCES account, target int REFERENCES account,
            amount int)",
    );
    lines(&first, "CREATE INDEX history_target ON history (target)");
    lines(&first, &format!("INSERT INTO account SELECT g, 1000 FROM generate_series(0, {}) g", ACCOUNTS - 1));
    let told = Mutex::new(Told::default());
    let left = AtomicUsize::new(CLIENTS);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (sql, told, left) = (&sql, &told, &left);
            scope.spawn(move || {
                let client = Client::new(sql, "anna");
                let random = StdRng::seed_from_u64(number as u64);
                let mut mover = Mover { database: sql, client, number, random, told };
                for step in 1..=MOVES {
                    mover.step(step);
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut images = 0;
        while left.load(Ordering::SeqCst) > 0 && images < 1_000 {
            let before = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mode = [CrashMode::LoseAll, CrashMode::Random, CrashMode::KeepAll][images % 3];
            let (db, sql) = over(&disk.crash_with(mode, images as u64));
            judge(&db, &sql, &before, &format!("image {images} ({mode:?})"));
            images += 1;
        }
        assert!(images >= 3, "{images} images");
    });
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(told.there.len() >= MOVES, "{} of {} moves were made", told.there.len(), MOVES * CLIENTS);
    judge(&db, &sql, &told, "the end");
    // No lock has stayed; the last session to vanish may still be ending.
    lines(&first, "SET lock_timeout = '20s'");
    assert_eq!(code(&first, "SELECT id FROM account FOR UPDATE"), "00000");
}
