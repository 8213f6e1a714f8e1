//! Tables and rows that own the moment they were taken at: in structs, on other threads, after their database is
//! closed and their table dropped.

use std::sync::mpsc;
use std::thread;

use quipu::{Db, Entry, ErrorKind, Options, OwnedRows, ReadableTable, Result, Snapshot, TableSnapshot, WritableTable};

fn database() -> Db {
    Db::open("/db", Options::without_files()).unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn keys(rows: impl Iterator<Item = Result<Entry>>) -> Vec<Vec<u8>> {
    rows.map(|entry| entry.unwrap().key.to_vec()).collect()
}

#[test]
fn they_go_to_other_threads_and_live_as_long_as_they_are_held() {
    fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<Snapshot>();
    goes_anywhere::<TableSnapshot>();
    goes_anywhere::<OwnedRows>();
}

#[test]
fn a_table_at_a_moment_answers_the_same_while_others_write_drop_and_close() {
    let db = database();
    let table = db.ensure_table("t").unwrap();
    (0..1000).for_each(|number| table.put(key(number), b"then").unwrap());
    let then = table.snapshot().unwrap();
    assert_eq!((then.name(), then.sequence()), ("t", db.stats().sequence));
    (0..1000).for_each(|number| table.put(key(number * 2), b"now").unwrap());
    let expected: Vec<Vec<u8>> = (0..1000).map(|number| key(number).to_vec()).collect();
    let ask = |then: TableSnapshot| {
        assert_eq!((then.len().unwrap(), then.rank(key(500)).unwrap()), (1000, 500));
        assert_eq!(&*then.get(key(10)).unwrap().unwrap(), b"then");
        assert_eq!(keys(then.range(..)), expected);
        assert_eq!(keys(then.into_range(..)), expected);
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            let then = then.clone();
            scope.spawn(|| ask(then));
        }
    });
    db.drop_table("t").unwrap();
    ask(then.clone());
    db.close().unwrap();
    ask(then);
}

#[test]
fn rows_are_read_on_by_the_thread_that_they_are_sent_to_from_both_ends() {
    let db = database();
    let table = db.ensure_table("t").unwrap();
    (0..5000).for_each(|number| table.put(key(number), b"").unwrap());
    let mut rows = table.snapshot().unwrap().into_range(&key(10)..&key(4990)).first_chunk(3);
    assert_eq!(*rows.next().unwrap().unwrap().key, key(10));
    assert_eq!(*rows.next_back().unwrap().unwrap().key, key(4989));
    (0..5000).for_each(|number| assert!(table.remove(key(number)).unwrap()));
    let (sender, receiver) = mpsc::channel();
    sender.send(rows).unwrap();
    let rest = thread::spawn(move || keys(receiver.recv().unwrap())).join().unwrap();
    assert_eq!(rest, (11..4989).map(|number| key(number).to_vec()).collect::<Vec<_>>());
    assert!(table.is_empty().unwrap());
}

#[test]
fn a_table_of_another_database_and_one_that_is_not_there_are_refused() {
    let (db, other) = (database(), database());
    let table = db.ensure_table("t").unwrap();
    let stranger = other.ensure_table("t").unwrap();
    assert_eq!(db.snapshot().into_table(&stranger).unwrap_err().kind(), ErrorKind::Invalid);
    let before = db.snapshot();
    let later = db.ensure_table("later").unwrap();
    assert_eq!(before.into_table(&later).unwrap_err().kind(), ErrorKind::Missing);
    db.drop_table("t").unwrap();
    assert_eq!(table.snapshot().unwrap_err().kind(), ErrorKind::Missing);
}

#[test]
fn what_a_snapshot_held_back_is_freed_when_the_last_of_its_tables_goes() {
    let db = database();
    let table = db.ensure_table("t").unwrap();
    (0..20_000).for_each(|number| table.put(key(number), [7; 100]).unwrap());
    let then = table.snapshot().unwrap();
    let again = then.clone();
    (0..20_000).for_each(|number| table.put(key(number), [8; 100]).unwrap());
    drop(then);
    let held = db.memory_bytes();
    drop(again);
    // The next writes free it.
    (0..20_000).for_each(|number| table.put(key(number), [9; 100]).unwrap());
    let later = table.snapshot().unwrap();
    assert!(db.memory_bytes() <= held, "{} after, {held} before", db.memory_bytes());
    assert_eq!(later.len().unwrap(), 20_000);
}

#[test]
fn a_snapshot_opens_tables_that_were_dropped_since() {
    let db = Db::open("/db", Options::without_files()).unwrap();
    db.ensure_table("old").unwrap().put("a", "1").unwrap();
    let snapshot = db.snapshot();
    assert!(db.drop_table("old").unwrap());
    db.ensure_table("new").unwrap();
    let old = snapshot.open_table("old").unwrap();
    assert_eq!(snapshot.table(&old).unwrap().len().unwrap(), 1);
    assert!(snapshot.open_table("new").is_none());
}

#[test]
fn what_is_attached_is_there_for_all_handles_until_the_database_closes() {
    let options = Options::without_files();
    let db = Db::open("/db", options.clone()).unwrap();
    let first = db.attachment(|| 7u64);
    assert_eq!((*db.clone().attachment(|| 8u64), *db.attachment(|| "text")), (7, "text"));
    let held = std::sync::Arc::downgrade(&first);
    drop((first, db));
    assert!(held.upgrade().is_none());
    assert_eq!(*Db::open("/db", options).unwrap().attachment(|| 8u64), 8);
}
