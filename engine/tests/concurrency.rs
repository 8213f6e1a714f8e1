//! Goal: with real threads on a real disk, readers see whole commits only, optimistic transactions are serializable,
//! and what was acknowledged is there afterwards. Method: threads that write under an invariant (rows move between
//! tables, money between accounts) and threads that test it on snapshots, with the background thread, checkpoints and
//! frozen layers beside them. The amount of work is fixed, the interleaving is not. Replay: SEED=... repeats the draws,
//! not the interleaving; run a failing test in a loop.

use quipu::files::check;
use quipu::io::{Disk, File, Lock, Mapping, OpenMode, RealDisk};
use quipu::{
    Db, Durability, ErrorKind, Measures, Options, ReadableTable, SumField, Table, TableOptions, Tally, WritableTable,
    WriteBatch,
};
use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use tempfile::TempDir;

fn options() -> Options {
    Options {
        page_bytes: 256,
        run_page_bytes: 256,
        log_segment_bytes: 64 << 10,
        memory_bytes: 256 << 20,
        checkpoint_log_bytes: 128 << 10,
        durability: Durability::Os,
        ..Options::default()
    }
}

fn with_sum() -> TableOptions {
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    TableOptions { measures, ..TableOptions::default() }
}

/// The tally by reading every row.
fn recount(table: &impl ReadableTable) -> (i64, i64, i64) {
    let mut counted = (0, 0, 0);
    table
        .for_each(.., |key, value| {
            counted.0 += 1;
            counted.1 += (key.len() + value.len()) as i64;
            counted.2 += SumField::BigEndian { at: 0 }.extract(value);
            true
        })
        .unwrap();
    counted
}

fn assert_tally(table: &impl ReadableTable) -> Tally {
    let tally = table.tally(..).unwrap();
    assert_eq!(recount(table), (tally.rows, tally.bytes, tally.sum));
    tally
}

/// Opens what is left when all handles are gone without a `close`, and checks the files.
fn reopen(dir: &Path) -> Db {
    let report = check(dir, &options(), &mut |_| ()).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    Db::open(dir, options()).unwrap()
}

/// Lets threads run until the main work is done.
struct Until(Arc<AtomicBool>);

impl Until {
    fn new() -> Self {
        Until(Arc::default())
    }

    fn flag(&self) -> impl Fn() -> bool + use<> {
        let flag = self.0.clone();
        move || !flag.load(Ordering::SeqCst)
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn snapshots_see_whole_transactions() {
    const ROWS: u32 = 300;
    const VALUE: i64 = 1_000_000_007;
    let seed = seed_or(1);
    eprintln!("SEED={seed}");
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let left = db.create_table("left", with_sum()).unwrap();
    let right = db.create_table("right", with_sum()).unwrap();
    db.write(|tx| {
        for number in 0..ROWS {
            tx.table(&left)?.insert(number.to_be_bytes(), VALUE.to_be_bytes())?;
        }
        Ok(())
    })
    .unwrap();
    thread::scope(|scope| {
        let done = Until::new();
        for reader in 0..2 {
            let (goes_on, db, left, right) = (done.flag(), &db, &left, &right);
            scope.spawn(move || {
                let mut seen = 0;
                let mut held = None;
                while goes_on() {
                    let snapshot = db.snapshot();
                    let (l, r) = (snapshot.table(left).unwrap(), snapshot.table(right).unwrap());
                    let (l, r) = (assert_tally(&l), assert_tally(&r));
                    assert_eq!(l.rows + r.rows, i64::from(ROWS));
                    assert_eq!(l.sum + r.sum, i64::from(ROWS) * VALUE);
                    assert!(snapshot.sequence() >= seen, "time goes backwards");
                    seen = snapshot.sequence();
                    // An old snapshot stays what it was.
                    let (old, tally) = held.get_or_insert_with(|| (snapshot.clone(), l));
                    assert_eq!(assert_tally(&old.table(left).unwrap()), *tally);
                    if seen % 7 == reader {
                        held = None;
                    }
                    // Live ranges are of one moment too.
                    let rows: Vec<_> = left.range(..).map(|entry| entry.unwrap().key).collect();
                    assert!(rows.is_sorted());
                }
            });
        }
        let (goes_on, layered) = (done.flag(), &left);
        scope.spawn(move || {
            while goes_on() {
                layered.freeze().unwrap();
                thread::yield_now();
                layered.thaw().unwrap();
            }
        });
        let (goes_on, checkpointed) = (done.flag(), &db);
        scope.spawn(move || {
            while goes_on() {
                checkpointed.checkpoint().unwrap();
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (db, left, right) = (&db, &left, &right);
                scope.spawn(move || {
                    let random = &mut StdRng::seed_from_u64(seed ^ writer << 32);
                    for _ in 0..500 {
                        move_rows(db, left, right, random);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        drop(done);
    });
    drop((left, right, db));
    let db = reopen(dir.path());
    let tables = db.tables();
    let total = assert_tally(&tables[0]) + assert_tally(&tables[1]);
    assert_eq!((total.rows, total.sum), (i64::from(ROWS), i64::from(ROWS) * VALUE));
}

/// Moves some rows from one table to the other, in one of the three ways to commit several writes.
fn move_rows(db: &Db, left: &Table, right: &Table, random: &mut StdRng) {
    let (from, to) = if random.random_bool(0.5) { (left, right) } else { (right, left) };
    let start = random.random_range(0..300u32);
    // More than is applied in place, at times.
    let count = if random.random_range(0..8) == 0 { 120 } else { random.random_range(1..6) };
    let (low, high) = (start.to_be_bytes(), (start + count).to_be_bytes());
    let work = |tx: &quipu::Transaction| -> quipu::Result<()> {
        let (from, to) = (tx.table(from)?, tx.table(to)?);
        let rows: Vec<_> = from.range(&low..&high).collect::<quipu::Result<_>>()?;
        for row in &rows {
            to.insert(&row.key, &row.value)?;
        }
        let removed = from.remove_range(&low..&high)?;
        assert_eq!(removed, rows.len() as u64);
        assert_eq!(from.count(&low..&high)?, 0);
        Ok(())
    };
    if random.random_bool(0.5) {
        db.write(work).unwrap();
        return;
    }
    loop {
        let tx = db.begin();
        work(&tx).unwrap();
        match tx.commit() {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            result => return result.unwrap(),
        }
    }
}

#[test]
fn optimistic_transfers_keep_the_sum() {
    const ACCOUNTS: u32 = 12;
    const TRANSFERS: u64 = 120;
    const THREADS: u64 = 6;
    let seed = seed_or(1);
    eprintln!("SEED={seed}");
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let accounts = db.create_table("accounts", with_sum()).unwrap();
    let journal = db.ensure_table("journal").unwrap();
    for account in 0..ACCOUNTS {
        accounts.put(account.to_be_bytes(), 1000i64.to_be_bytes()).unwrap();
    }
    let conflicts = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (db, accounts, journal, conflicts) = (&db, &accounts, &journal, &conflicts);
            scope.spawn(move || {
                let random = &mut StdRng::seed_from_u64(seed ^ number << 32);
                let mut done = 0;
                while done < TRANSFERS {
                    let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
                    let amount = random.random_range(0..50i64);
                    let tx = db.begin();
                    {
                        let (accounts, journal) = (tx.table(accounts).unwrap(), tx.table(journal).unwrap());
                        let balance = |account: u32| {
                            let value = accounts.get(account.to_be_bytes()).unwrap().expect("an account");
                            i64::from_be_bytes(value[..].try_into().unwrap())
                        };
                        let rest = balance(from) - amount;
                        accounts.put(from.to_be_bytes(), rest.to_be_bytes()).unwrap();
                        accounts.put(to.to_be_bytes(), (balance(to) + amount).to_be_bytes()).unwrap();
                        // A position that all threads want: only the count tells who is next.
                        let place = journal.len().unwrap();
                        journal.insert(place.to_be_bytes(), number.to_be_bytes()).unwrap();
                        // Others come between, on any number of cores.
                        thread::yield_now();
                        if done % 16 == 0 {
                            assert_eq!(accounts.tally(..).unwrap().sum, i64::from(ACCOUNTS) * 1000);
                        }
                    }
                    match tx.commit() {
                        Ok(()) => done += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    eprintln!("{} conflicts", conflicts.into_inner());
    drop((accounts, journal, db));
    let db = reopen(dir.path());
    let accounts = db.ensure_table("accounts").unwrap();
    let tally = assert_tally(&accounts);
    assert_eq!((tally.rows, tally.sum), (i64::from(ACCOUNTS), i64::from(ACCOUNTS) * 1000));
    // No place was given twice, and none left out.
    let journal = db.ensure_table("journal").unwrap();
    assert_eq!(journal.len().unwrap(), THREADS * TRANSFERS);
    let last = journal.last().unwrap().unwrap().key;
    assert_eq!(last[..], (THREADS * TRANSFERS - 1).to_be_bytes());
    for number in 0..THREADS {
        let mut rows = 0;
        journal
            .for_each(.., |_, value| {
                rows += u64::from(*value == number.to_be_bytes());
                true
            })
            .unwrap();
        assert_eq!(rows, TRANSFERS);
    }
}

/// The real disk with slow syncs, counted.
#[derive(Debug, Default)]
struct CountingDisk {
    syncs: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CountingFile {
    file: Box<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let file = RealDisk.open(path, mode)?;
        Ok(Box::new(CountingFile { file, syncs: self.syncs.clone() }))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        RealDisk.lock(path)
    }
}

impl File for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        // As long as the others need to arrive.
        for _ in 0..200 {
            thread::yield_now();
        }
        self.file.sync()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.file.map(len)
    }
}

#[test]
fn synced_commits_share_syncs_and_are_all_there() {
    const THREADS: u32 = 8;
    const COMMITS: u32 = 60;
    let dir = TempDir::new().unwrap();
    let syncs = Arc::new(AtomicU64::new(0));
    let disk = Arc::new(CountingDisk { syncs: syncs.clone() });
    let db = Db::open(dir.path(), Options { disk, durability: Durability::Sync, checkpoint_log_bytes: 0, ..options() })
        .unwrap();
    let table = db.ensure_table("t").unwrap();
    let before = syncs.load(Ordering::SeqCst);
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (table, start) = (&table, &start);
            scope.spawn(move || {
                start.wait();
                for commit in 0..COMMITS {
                    table.insert((number * COMMITS + commit).to_be_bytes(), [7; 100]).unwrap();
                }
            });
        }
    });
    let syncs = syncs.load(Ordering::SeqCst) - before;
    eprintln!("{syncs} syncs for {} commits", THREADS * COMMITS);
    assert!(syncs < u64::from(THREADS * COMMITS) / 2, "{syncs} syncs");
    drop((table, db));
    let db = reopen(dir.path());
    assert_eq!(db.ensure_table("t").unwrap().len().unwrap(), u64::from(THREADS * COMMITS));
}

/// Commits of thousands of rows become visible at once, to point reads, counts and snapshots.
#[test]
fn large_commits_become_visible_at_once() {
    const BATCH: u32 = 2000;
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let table = db.create_table("t", with_sum()).unwrap();
    thread::scope(|scope| {
        let done = Until::new();
        for _ in 0..2 {
            let (goes_on, db, table) = (done.flag(), &db, &table);
            scope.spawn(move || {
                while goes_on() {
                    assert_eq!(table.len().unwrap() % u64::from(BATCH), 0);
                    let snapshot = db.snapshot();
                    let view = snapshot.table(table).unwrap();
                    let tally = view.tally(..).unwrap();
                    assert_eq!(tally.rows % i64::from(BATCH), 0);
                    // All rows have the number of their commit's round.
                    if let Some(first) = view.first().unwrap() {
                        let round = i64::from_be_bytes(first.value[..8].try_into().unwrap());
                        assert_eq!(tally.sum, round * tally.rows);
                    }
                }
            });
        }
        for round in 0..16i64 {
            // Overwrites what is there and doubles it, empties it now and then.
            let rows = if round % 5 == 4 { 0 } else { BATCH * (1 + round as u32 % 5) };
            let mut batch = WriteBatch::new();
            for row in 0..rows {
                batch.put(&table, (row.wrapping_mul(2_654_435_761)).to_be_bytes(), round.to_be_bytes());
            }
            match rows {
                0 => drop(table.remove_range(..).unwrap()),
                _ => db.apply(batch).unwrap(),
            }
        }
        drop(done);
    });
    let tally = assert_tally(&table);
    drop((table, db));
    let db = reopen(dir.path());
    assert_eq!(assert_tally(&db.ensure_table("t").unwrap()), tally);
    assert!(db.stats().checkpoint > 0, "the background thread took no checkpoint");
}

/// The log grows though memory does not: the background thread must notice by itself.
#[test]
fn the_background_thread_bounds_the_log_of_overwrites() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut writes = 0;
    while db.stats().checkpoint < 5 {
        for _ in 0..100 {
            table.put("always the same", [7; 200]).unwrap();
        }
        writes += 100;
        let log_bytes = db.stats().log_tail_bytes;
        assert!(
            log_bytes < 64 << 20,
            "{writes} writes, {log_bytes} bytes of log, {} checkpoints",
            db.stats().checkpoint
        );
        thread::yield_now();
    }
}

#[test]
fn tables_come_and_go_beside_readers() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let stays = db.create_table("stays", with_sum()).unwrap();
    stays.put("k", "v").unwrap();
    thread::scope(|scope| {
        let done = Until::new();
        for _ in 0..2 {
            let (goes_on, db) = (done.flag(), &db);
            scope.spawn(move || {
                while goes_on() {
                    let snapshot = db.snapshot();
                    for table in db.tables() {
                        match table.len() {
                            Ok(rows) => assert!(rows <= 50),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Missing),
                        }
                        // What the snapshot has, it keeps, dropped or not.
                        let Ok(view) = snapshot.table(&table) else { continue };
                        let tally = assert_tally(&view);
                        thread::yield_now();
                        assert_eq!(assert_tally(&view), tally);
                        for entry in table.range(..) {
                            if let Err(error) = entry {
                                assert_eq!(error.kind(), ErrorKind::Missing);
                                break;
                            }
                        }
                    }
                }
            });
        }
        for round in 0..400u32 {
            let name = format!("table {}", round % 3);
            let table = db.create_table(&name, with_sum()).unwrap();
            db.write(|tx| (0..50u32).try_for_each(|row| tx.table(&table)?.put(row.to_be_bytes(), [1; 20]))).unwrap();
            let tx = db.begin();
            tx.table(&table).unwrap().put("late", "l").unwrap();
            assert!(db.drop_table(&name).unwrap());
            assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Missing);
            assert_eq!(table.put("k", "v").unwrap_err().kind(), ErrorKind::Missing);
        }
        drop(done);
    });
    drop((stays, db));
    let db = reopen(dir.path());
    assert_eq!(db.tables().len(), 1);
    // No thread looks any more, so what the dropped tables took is free again.
    drop(db.snapshot());
    assert!(db.stats().page_bytes <= 64 << 10, "{:?}", db.stats());
}

/// Whatever a closure of `write` does, it must not wait for a checkpoint that waits for it.
#[test]
fn a_write_closure_does_not_wait_for_a_checkpoint() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let table = db.ensure_table("t").unwrap();
    thread::scope(|scope| {
        let done = Until::new();
        let (goes_on, beside) = (done.flag(), &db);
        scope.spawn(move || {
            while goes_on() {
                beside.checkpoint().unwrap();
            }
        });
        for round in 0..300u32 {
            db.write(|tx| {
                tx.table(&table)?.put(round.to_be_bytes(), "v")?;
                thread::yield_now();
                db.stats();
                db.snapshot().table(&table)?.len()?;
                assert_eq!(db.checkpoint().unwrap_err().kind(), ErrorKind::Invalid);
                assert_eq!(table.put("k", "v").unwrap_err().kind(), ErrorKind::Invalid);
                Ok(())
            })
            .unwrap();
        }
        drop(done);
    });
    assert_eq!(table.len().unwrap(), 300);
}

/// A row goes at the front and one comes at the end with each commit, so the rows at all offsets of one version have
/// consecutive keys, whatever pages were missing on the way to some of them.
#[test]
fn many_answers_are_of_one_version_though_pages_are_missing() {
    const ROWS: u64 = 4000;
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), Options { cache_bytes: 4 << 10, memtable_bytes: 32 << 10, ..options() }).unwrap();
    let table = db.ensure_table("queue").unwrap();
    db.write(|transaction| {
        let table = transaction.table(&table)?;
        (0..ROWS).try_for_each(|number| table.put(number.to_be_bytes(), [7; 40]))
    })
    .unwrap();
    table.flush().unwrap();
    let is_done = AtomicBool::new(false);
    let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            for first in 0..3000_u64 {
                let mut batch = WriteBatch::new();
                batch.delete(&table, first.to_be_bytes());
                batch.put(&table, (first + ROWS).to_be_bytes(), [7; 40]);
                db.apply(batch).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        let offsets: Vec<u64> = (0..ROWS).step_by(37).collect();
        while !is_done.load(Ordering::Acquire) {
            let rows = table.nth_many(&offsets).unwrap();
            let first = number(&rows[0].as_ref().unwrap().key);
            for (offset, row) in offsets.iter().zip(&rows) {
                assert_eq!(number(&row.as_ref().unwrap().key), first + offset);
            }
            let keys: Vec<[u8; 8]> = (0..ROWS + 3000).step_by(41).map(u64::to_be_bytes).collect();
            let found = table.get_many(&keys).unwrap();
            let live: Vec<bool> = found.iter().map(Option::is_some).collect();
            // Live keys stand together, and are as many as a window of that length may hold.
            let live_rows = live.iter().filter(|is_live| **is_live).count() as u64;
            assert!(live.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 2, "{live:?}");
            assert!((ROWS / 41..=ROWS / 41 + 1).contains(&live_rows), "{live_rows}");
            let ranks = table.rank_many(&keys).unwrap();
            let steps: Vec<u64> = ranks.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).collect();
            assert!(steps.iter().rev().skip(1).rev().skip(1).all(|step| *step == 41), "{steps:?}");
        }
    });
    drop((table, db));
    reopen(dir.path());
}
