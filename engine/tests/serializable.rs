//! Goal: optimistic transactions are serializable, counts and positions included, and conflict no more than they must.
//! Method: named cases for each kind of read against each kind of write; then many random transactions interleaved on
//! one thread, whose read results flow into what they write, and which are replayed one by one on a model in the order
//! of their commits: every read must give the same again.
//! Replay: SEED=... cargo test -p quipu --test all serializable::

use std::collections::BTreeMap;

use crate::model_map::{fresh, rng, seeds};
use quipu::{
    Bounds, Db, Entry, ErrorKind, Measures, ReadableTable, Result, Savepoint, SumField, Table, TableOptions,
    TableTransaction, Transaction, WritableTable, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A table with the keys "b", "d", ... "z".
fn letters(db: &Db) -> Table {
    let table = db.ensure_table("letters").unwrap();
    for letter in (b'b'..=b'z').step_by(2) {
        table.put([letter], "0").unwrap();
    }
    table
}

/// Whether a transaction that reads, then writes elsewhere, commits although `other` committed between.
fn commits(read: impl Fn(&TableTransaction<'_>) -> Result<()>, other: impl Fn(&Table) -> Result<()>) -> bool {
    commits_beside(&read, &other)
}

/// [`commits`], compiled once for its many callers.
fn commits_beside(read: &dyn Fn(&TableTransaction<'_>) -> Result<()>, other: &dyn Fn(&Table) -> Result<()>) -> bool {
    let db = fresh();
    let (table, elsewhere) = (letters(&db), db.ensure_table("elsewhere").unwrap());
    let transaction = db.begin();
    read(&transaction.table(&table).unwrap()).unwrap();
    transaction.table(&elsewhere).unwrap().put("mark", "").unwrap();
    other(&table).unwrap();
    match transaction.commit() {
        Ok(()) => assert!(elsewhere.contains("mark").unwrap()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.to_string().contains("again"), "{error}");
            assert!(!elsewhere.contains("mark").unwrap(), "nothing of a conflict is there");
            return false;
        }
    }
    true
}

#[test]
fn write_skew_on_a_count_aborts() {
    // Two doctors go off call, each having seen that two are on.
    let db = fresh();
    let doctors = db.ensure_table("doctors").unwrap();
    doctors.put("alice", "").unwrap();
    doctors.put("bob", "").unwrap();
    let leave = |who: &str| {
        let transaction = db.begin();
        let on_call = transaction.table(&doctors).unwrap();
        assert_eq!(on_call.count(..).unwrap(), 2);
        on_call.remove(who).unwrap();
        transaction
    };
    let (alice, bob) = (leave("alice"), leave("bob"));
    alice.commit().unwrap();
    assert_eq!(bob.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(doctors.len().unwrap(), 1);
}

#[test]
fn a_count_conflicts_with_inserts_and_removals_in_its_range_only() {
    let count = |table: &TableTransaction<'_>| table.count("f".."p").map(|count| assert_eq!(count, 5));
    assert!(!commits(count, |table| table.insert("g", "")), "an insert in the range");
    assert!(!commits(count, |table| table.remove("h").map(|_| ())), "a removal in the range");
    assert!(!commits(count, |table| table.remove_range("h".."k").map(|_| ())), "a removal of a part of the range");
    assert!(commits(count, |table| table.put("h", "new")), "an overwrite in the range");
    assert!(
        commits(count, |table| table.replace("h", "a value that is quite a bit longer")),
        "an overwrite in the range"
    );
    assert!(commits(count, |table| table.insert("e", "")), "an insert before the range");
    assert!(commits(count, |table| table.insert("p", "").or(Ok(()))), "an insert at the open end");
    assert!(commits(count, |table| table.remove("z").map(|_| ())), "a removal after the range");
    // What comes and goes again leaves the answer as it was.
    assert!(commits(count, |table| table.insert("g", "").and_then(|()| table.remove("g").map(|_| ()))));
    assert!(commits(count, |table| table.freeze().and_then(|()| table.put("h", "new")).and_then(|()| table.thaw())));
}

#[test]
fn counts_of_many_ranges_conflict_as_one_by_one() {
    let counts = |table: &TableTransaction<'_>| {
        let ranges = [Bounds::from("b".."d"), Bounds::from("f".."p"), Bounds::from("x".."t")];
        table.count_many(&ranges).map(|counts| assert_eq!(counts[1..], [5, 0]))
    };
    assert!(!commits(counts, |table| table.insert("g", "")), "an insert in one of the ranges");
    assert!(!commits(counts, |table| table.insert("c", "")), "an insert in another");
    assert!(!commits(counts, |table| table.remove("h").map(|_| ())), "a removal in one of them");
    assert!(commits(counts, |table| table.put("h", "new")), "an overwrite in one of them");
    assert!(commits(counts, |table| table.insert("e", "")), "an insert between them");
    assert!(commits(counts, |table| table.insert("w", "")), "an insert into one that ends before it starts");
}

#[test]
fn positions_conflict_with_what_moves_them() {
    type Ask = fn(&TableTransaction<'_>) -> Result<Option<Entry>>;
    // All of these read row "j", the fifth.
    let asks: [(&str, Ask); 4] = [
        ("nth", |table| table.nth(.., 4)),
        ("nth in a range", |table| table.nth("d".."q", 3)),
        ("nth_many", |table| Ok(table.nth_many(&[4])?.pop().flatten())),
        ("page", |table| Ok(table.page(.., 4, 1)?.entries.pop())),
    ];
    for (name, ask) in asks {
        let read = |table: &TableTransaction<'_>| ask(table).map(|row| assert_eq!(*row.unwrap().key, *b"j"));
        assert!(!commits(read, |table| table.insert("e", "")), "{name}: an insert before");
        assert!(!commits(read, |table| table.remove("d").map(|_| ())), "{name}: a removal before");
        assert!(!commits(read, |table| table.remove("j").map(|_| ())), "{name}: a removal of the row");
        assert!(!commits(read, |table| table.put("j", "new")), "{name}: an overwrite of the row");
        assert!(commits(read, |table| table.put("d", "new")), "{name}: an overwrite before");
        if !name.starts_with("page") {
            assert!(commits(read, |table| table.insert("s", "")), "{name}: an insert after it");
        }
    }
    let past = |table: &TableTransaction<'_>| table.nth("d".."h", 2).map(|row| assert!(row.is_none()));
    assert!(!commits(past, |table| table.insert("e", "")), "a row where there was none");
    assert!(commits(past, |table| table.insert("x1", "")), "after the range that was too short");
    let page = |table: &TableTransaction<'_>| table.page(.., 4, 1).map(|page| assert_eq!(page.total, 13));
    assert!(!commits(page, |table| table.insert("y", "")), "the total of a page");
    let quantile =
        |table: &TableTransaction<'_>| table.quantile(.., 0.5).map(|row| assert_eq!(*row.unwrap().key, *b"n"));
    assert!(!commits(quantile, |table| table.insert("y", "")), "an insert after it moves a quantile");
    assert!(!commits(quantile, |table| table.put("n", "new")), "the row of the quantile");
    assert!(commits(quantile, |table| table.put("p", "new")), "another row");
    let rank = |table: &TableTransaction<'_>| table.rank("h").map(|rank| assert_eq!(rank, 3));
    assert!(!commits(rank, |table| table.insert("a", "")), "an insert below");
    assert!(!commits(rank, |table| table.remove("f").map(|_| ())), "a removal below");
    assert!(commits(rank, |table| table.remove("h").map(|_| ())), "the key itself");
    assert!(commits(rank, |table| table.put("f", "new")), "an overwrite below");
    let ranks = |table: &TableTransaction<'_>| table.rank_many(&["d", "h"]).map(|ranks| assert_eq!(ranks, [1, 3]));
    assert!(!commits(ranks, |table| table.insert("e", "")), "an insert between");
    assert!(commits(ranks, |table| table.insert("i", "")), "an insert above");
    let sample = |table: &TableTransaction<'_>| {
        table.sample("d".."h", 9, &mut StdRng::seed_from_u64(1)).map(|rows| assert_eq!(rows.len(), 2))
    };
    assert!(!commits(sample, |table| table.insert("e", "")), "a range that was sampled");
    assert!(!commits(sample, |table| table.put("f", "new")), "a row that was drawn");
    let split = |table: &TableTransaction<'_>| table.split_points(.., 2).map(|cuts| assert_eq!(cuts.len(), 1));
    assert!(!commits(split, |table| table.insert("y", "")), "a range that was split");
    assert!(commits(split, |table| table.put("d", "new")), "an overwrite in a range that was split");
}

/// A deletion says nothing of whether there was a row, and yet it must not forget one that comes meanwhile.
#[test]
fn a_deletion_of_a_key_that_another_commit_puts_meanwhile_conflicts() {
    let delete = |table: &TableTransaction<'_>| table.delete("g");
    assert!(!commits(delete, |table| table.put("g", "")));
    assert!(commits(delete, |table| table.put("i", "")));
    assert!(!commits(|table| table.delete("h"), |table| table.remove("h").map(|_| ())));
    assert!(commits(|table| table.delete("h"), |table| table.put("h", "new")), "it goes, whatever its value");
}

#[test]
fn rows_that_were_read_conflict_with_their_change() {
    let get = |table: &TableTransaction<'_>| table.get("h").map(|value| assert!(value.is_some()));
    assert!(!commits(get, |table| table.put("h", "new")));
    assert!(!commits(get, |table| table.remove("h").map(|_| ())));
    assert!(commits(get, |table| table.put("h", "0")), "the same value again");
    assert!(commits(get, |table| table.put("f", "new")));
    let miss = |table: &TableTransaction<'_>| table.get_many(&["g", "h"]).map(|values| assert!(values[0].is_none()));
    assert!(!commits(miss, |table| table.insert("g", "")), "a phantom of a get");
    let contains = |table: &TableTransaction<'_>| table.contains("h").map(|found| assert!(found));
    assert!(!commits(contains, |table| table.remove("h").map(|_| ())));
    assert!(commits(contains, |table| table.put("h", "new")), "liveness does not depend on the value");
    let range = |table: &TableTransaction<'_>| table.range("d".."j").try_for_each(|row| row.map(|_| ()));
    assert!(!commits(range, |table| table.insert("g", "")), "a phantom of a range");
    assert!(!commits(range, |table| table.remove("h").map(|_| ())));
    assert!(!commits(range, |table| table.put("h", "new")));
    assert!(
        !commits(range, |table| table.insert("g", "").and_then(|()| table.remove("h").map(|_| ()))),
        "one for another"
    );
    assert!(commits(range, |table| table.insert("k", "")));
    assert!(!commits(range, |table| table.freeze().and_then(|()| table.put("h", "new"))), "across layers");
    assert!(commits(range, |table| table.freeze().and_then(|()| table.put("j", "new"))), "across layers");
    let each = |table: &TableTransaction<'_>| table.for_each("d".."j", |_, _| true);
    assert!(!commits(each, |table| table.insert("g", "")));
    let first_three = |table: &TableTransaction<'_>| {
        let mut rows = 0;
        table.for_each_limited("d".., 3, |_, _| rows += 1)?;
        assert_eq!(rows, 3);
        Ok(())
    };
    assert!(!commits(first_three, |table| table.insert("g", "")), "one that would have come before the third");
    assert!(!commits(first_three, |table| table.put("h", "new")));
    assert!(commits(first_three, |table| table.insert("i", "")), "one after the last that was asked for");
    let more_than_there_are = |table: &TableTransaction<'_>| table.for_each_limited("x".., 3, |_, _| ());
    assert!(!commits(more_than_there_are, |table| table.insert("zz", "")), "one that would have been the third");
    assert!(
        commits(|table| table.for_each_limited(.., 0, |_, _| ()), |table| table.insert("a", "")),
        "nothing was read"
    );
    let prefix = |table: &TableTransaction<'_>| table.prefix("h").try_for_each(|row| row.map(|_| ()));
    assert!(!commits(prefix, |table| table.insert("hh", "")));
    assert!(commits(prefix, |table| table.insert("i", "")));
    let first = |table: &TableTransaction<'_>| table.first().map(|row| assert_eq!(*row.unwrap().key, *b"b"));
    assert!(!commits(first, |table| table.insert("a", "")));
    assert!(!commits(first, |table| table.remove("b").map(|_| ())));
    assert!(commits(first, |table| table.insert("y", "")));
    let last = |table: &TableTransaction<'_>| table.last().map(|row| assert_eq!(*row.unwrap().key, *b"z"));
    assert!(!commits(last, |table| table.insert("zz", "")));
    assert!(commits(last, |table| table.insert("a", "")));
    let seek = |table: &TableTransaction<'_>| {
        let mut cursor = table.cursor();
        assert!(cursor.seek("g")?);
        assert_eq!(cursor.offset()?, 3);
        Ok(())
    };
    assert!(!commits(seek, |table| table.insert("g1", "")), "a row that the cursor would have met");
    assert!(!commits(seek, |table| table.insert("a", "")), "a row that moves its offset");
    let insert = |table: &TableTransaction<'_>| table.insert("g", "mine");
    assert!(!commits(insert, |table| table.put("g", "")), "two inserts of one key");
    let remove = |table: &TableTransaction<'_>| table.remove("g").map(|found| assert!(!found));
    assert!(!commits(remove, |table| table.put("g", "")), "a removal that found nothing");
    let remove_range = |table: &TableTransaction<'_>| table.remove_range("f".."j").map(|count| assert_eq!(count, 2));
    assert!(!commits(remove_range, |table| table.insert("g", "")), "a row that a removal did not see");
}

#[test]
fn a_tally_conflicts_with_what_changes_it() {
    let case = |other: fn(&Table)| {
        let db = fresh();
        let measures =
            Measures { bytes: true, hash: false, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
        let table = db.create_table("t", TableOptions { measures, ..TableOptions::default() }).unwrap();
        for number in 0..9i64 {
            table.put([number as u8], number.to_be_bytes()).unwrap();
        }
        let transaction = db.begin();
        let inside = transaction.table(&table).unwrap();
        let sum = inside.tally(&[2u8]..&[5]).unwrap().sum;
        assert_eq!(sum, 2 + 3 + 4);
        inside.put([200], sum.to_be_bytes()).unwrap();
        other(&table);
        transaction.commit().is_ok()
    };
    assert!(!case(|table| table.put([3], 4i64.to_be_bytes()).unwrap()), "an overwrite that changes the sum");
    assert!(case(|table| table.put([3], 3i64.to_be_bytes()).unwrap()), "an overwrite that leaves it");
    assert!(case(|table| table.put([6], 1i64.to_be_bytes()).unwrap()), "an overwrite elsewhere");
    assert!(!case(|table| assert!(table.remove([3]).unwrap())), "a removal");
}

#[test]
fn blind_puts_never_conflict_and_the_last_commit_wins() {
    let db = fresh();
    let table = letters(&db);
    let transactions: Vec<Transaction> = (0..4).map(|_| db.begin()).collect();
    for (number, transaction) in transactions.iter().enumerate() {
        let inside = transaction.table(&table).unwrap();
        for key in ["a", "b", "c", "z"] {
            inside.put(key, format!("{number}")).unwrap();
        }
    }
    table.remove("b").unwrap();
    table.put("z", "someone else").unwrap();
    for transaction in transactions {
        transaction.commit().unwrap();
    }
    assert_eq!(table.len().unwrap(), 13 + 2);
    for key in ["a", "b", "c", "z"] {
        assert_eq!(&**table.get(key).unwrap().as_ref().unwrap(), b"3");
    }
}

#[test]
fn a_retry_ends_as_the_single_writer_when_every_attempt_has_met_a_conflict() {
    let db = fresh();
    let table = db.ensure_table("t").unwrap();
    let mut attempts = 0;
    let seen = db.retry(3, |transaction| {
        attempts += 1;
        let seen = transaction.table(&table)?.len()?;
        // Others are always faster, until they have to wait.
        if attempts <= 3 {
            table.put([attempts], "")?;
        }
        transaction.table(&table)?.put("mine", [attempts])?;
        Ok(seen)
    });
    assert_eq!((seen.unwrap(), attempts), (3, 4));
    assert_eq!(table.get("mine").unwrap().as_deref(), Some(&[4][..]));
    let failed: quipu::Result<()> = db.retry(3, |transaction| {
        attempts += 1;
        transaction.table(&table)?.insert("mine", "")
    });
    assert_eq!((failed.unwrap_err().kind(), attempts), (ErrorKind::Exists, 5), "only conflicts are tried again");
}

#[test]
fn read_only_transactions_never_conflict() {
    let db = fresh();
    let table = letters(&db);
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    assert_eq!(inside.count(..).unwrap(), 13);
    table.remove_range(..).unwrap();
    assert_eq!(inside.range(..).count(), 13);
    assert!(!inside.remove("not there").unwrap());
    transaction.commit().unwrap();
    assert!(table.is_empty().unwrap());
}

/// A blind write's weight depends on whether its key is live. If that changes under a transaction that has counted
/// nothing, the weight is made anew.
#[test]
fn weights_are_right_when_others_changed_what_was_written_blindly() {
    for measures in [Measures::ROWS, Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS }] {
        let db = fresh();
        let table = db.create_table("t", TableOptions { measures, ..TableOptions::default() }).unwrap();
        for key in ["a", "b", "c", "d"] {
            table.put(key, "old").unwrap();
        }
        let transaction = db.begin();
        let inside = transaction.table(&table).unwrap();
        for key in ["a", "b", "x", "y"] {
            inside.put(key, format!("mine of {key}")).unwrap();
        }
        assert!(table.remove("a").unwrap());
        table.put("b", "longer than before").unwrap();
        table.insert("x", "theirs").unwrap();
        table.freeze().unwrap();
        transaction.commit().unwrap();
        assert_eq!(table.len().unwrap(), 6);
        let fresh = fresh();
        let copy = fresh.create_table("t", TableOptions { measures, ..TableOptions::default() }).unwrap();
        for row in table.range(..) {
            let row = row.unwrap();
            copy.put(&*row.key, &*row.value).unwrap();
        }
        for end in ["a", "b", "bb", "x", "y", "z"] {
            assert_eq!(table.tally(..end).unwrap(), copy.tally(..end).unwrap(), "below {end}");
        }
        table.thaw().unwrap();
        assert_eq!(table.tally(..).unwrap(), copy.tally(..).unwrap());
    }
}

/// A count that included the transaction's own insert relies on that key having been dead, even if nothing else in the
/// range has changed in number.
#[test]
fn a_count_over_own_writes_relies_on_their_weights() {
    let db = fresh();
    let table = letters(&db);
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    inside.put("m", "mine").unwrap();
    assert_eq!(inside.count(..).unwrap(), 14);
    // As many rows as before, but now the put of "m" would add none.
    db.write(|tx| tx.table(&table)?.insert("m", "theirs").and_then(|()| tx.table(&table)?.remove("b").map(|_| ())))
        .unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// The same where the write has been rolled back since: the count has been seen, and the decision made.
#[test]
fn a_count_over_writes_that_were_rolled_back_relies_on_their_weights() {
    let db = fresh();
    let table = letters(&db);
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    let savepoint = transaction.savepoint();
    inside.put("m", "mine").unwrap();
    assert_eq!(inside.count(..).unwrap(), 14);
    transaction.rollback_to(savepoint).unwrap();
    inside.put("seen", "14").unwrap();
    db.write(|tx| tx.table(&table)?.insert("m", "theirs").and_then(|()| tx.table(&table)?.remove("b").map(|_| ())))
        .unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// Rows that were walked do not depend on weights: a blind put stays blind.
#[test]
fn a_walk_elsewhere_leaves_blind_puts_blind() {
    let db = fresh();
    let table = letters(&db);
    let transaction = db.begin();
    let inside = transaction.table(&table).unwrap();
    assert_eq!(inside.range("b".."h").count(), 3);
    inside.put("y", "mine").unwrap();
    table.put("y", "theirs").unwrap();
    transaction.commit().unwrap();
    assert_eq!(table.len().unwrap(), 14);
}

#[test]
fn a_transaction_sees_its_snapshot_and_not_what_came_after() {
    let db = fresh();
    let table = letters(&db);
    let transaction = db.begin();
    table.insert("c", "").unwrap();
    let late = db.ensure_table("late").unwrap();
    let inside = transaction.table(&table).unwrap();
    assert_eq!(inside.len().unwrap(), 13);
    assert!(inside.get("c").unwrap().is_none());
    late.put("x", "").unwrap();
    assert!(transaction.table(&late).unwrap().is_empty().unwrap(), "a table that it has not seen has no rows");
    // It read the past, so it cannot write in the present.
    inside.put("q", "").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_write_inside_the_closure_of_a_write_is_refused() {
    let db = fresh();
    let table = letters(&db);
    let nested = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("transaction"), "{error}");
    };
    db.write(|tx| {
        tx.table(&table)?.put("a", "")?;
        nested(db.write(|_| Ok(())));
        nested(table.put("a", ""));
        nested(table.remove("a").map(|_| ()));
        nested(table.remove_range(..).map(|_| ()));
        nested(db.apply(WriteBatch::new()));
        nested(db.checkpoint().map(|_| ()));
        nested(db.create_table("new", TableOptions::default()).map(|_| ()));
        nested(db.drop_table("letters").map(|_| ()));
        let other = db.begin();
        other.table(&table)?.put("q", "")?;
        nested(other.commit());
        assert_eq!(db.snapshot().table(&table)?.len()?, 13, "readers go on, and see nothing of it");
        Ok(())
    })
    .unwrap();
    assert_eq!(table.len().unwrap(), 14);
}

#[test]
fn a_panic_in_the_closure_of_a_write_changes_nothing() {
    let db = fresh();
    let table = letters(&db);
    let before = table.tally(..).unwrap();
    for writes in [1, 500] {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.write(|tx| -> Result<()> {
                let table = tx.table(&table)?;
                (0..writes).try_for_each(|number: u32| table.put(number.to_be_bytes(), "half"))?;
                panic!("the closure's own trouble");
            })
        }));
        assert!(result.is_err());
        assert_eq!(table.tally(..).unwrap(), before);
    }
    table.put("a", "after").unwrap();
    db.write(|tx| tx.table(&table)?.put("c", "after")).unwrap();
    assert_eq!(table.len().unwrap(), 15);
    let used = db.stats().memory_bytes();
    assert!(used < 20 * 256, "{used} bytes are in use: the private layers were kept");
}

// The random test.

/// One step of a transaction, with what it read. Values that are written tell all that was read before.
#[derive(Clone, Debug)]
enum Step {
    ReadableTable { table: usize, question: Question, answer: String },
    Put { table: usize, key: u8, value: String },
    Insert { table: usize, key: u8, value: String, done: bool },
    Remove { table: usize, key: u8, done: bool },
    RemoveRange { table: usize, low: u8, high: u8, rows: u64 },
    Savepoint,
    RollbackTo(usize),
}

#[derive(Clone, Debug)]
enum Question {
    Count(u8, u8),
    Nth(u8, u8, u64),
    Rank(u8),
    Page(u8, u8, u64, usize),
    Quantile(u8, u8),
    Range(u8, u8, usize, bool),
    Get(u8),
    Contains(u8),
    Tally(u8, u8),
}

const KEYS: u8 = 24;

impl Question {
    fn random(rng: &mut StdRng) -> Question {
        let (low, high) = (rng.random_range(0..KEYS), rng.random_range(0..=KEYS));
        match rng.random_range(0..10) {
            0 | 1 => Question::Count(low, high),
            2 => Question::Nth(low, high, rng.random_range(0..6)),
            3 => Question::Rank(low),
            4 => Question::Page(low, high, rng.random_range(0..4), rng.random_range(0..3)),
            5 => Question::Quantile(low, high),
            6 => Question::Range(low, high, rng.random_range(1..20), rng.random()),
            7 => Question::Get(low),
            8 => Question::Contains(low),
            _ => Question::Tally(low, high),
        }
    }

    fn ask(&self, table: &impl ReadableTable) -> String {
        let text = |key: &[u8], value: &[u8]| (key[0], String::from_utf8_lossy(value).into_owned());
        let row = |row: Option<Entry>| row.map(|row| text(&row.key, &row.value));
        match *self {
            Question::Count(low, high) => format!("{}", table.count(&[low]..&[high]).unwrap()),
            Question::Nth(low, high, offset) => format!("{:?}", row(table.nth(&[low]..&[high], offset).unwrap())),
            Question::Rank(key) => format!("{}", table.rank([key]).unwrap()),
            Question::Page(low, high, offset, limit) => {
                let page = table.page(&[low]..&[high], offset, limit).unwrap();
                let rows: Vec<_> = page.entries.into_iter().map(|entry| row(Some(entry))).collect();
                format!("{} {rows:?}", page.total)
            }
            Question::Quantile(low, high) => format!("{:?}", row(table.quantile(&[low]..&[high], 0.5).unwrap())),
            Question::Range(low, high, limit, reverse) => {
                let range = &[low][..]..&[high][..];
                let mut rows = Vec::new();
                match (reverse, low % 2) {
                    (true, _) => {
                        rows.extend(table.range(range).rev().take(limit).map(|entry| row(entry.ok())));
                    }
                    (false, 0) => rows.extend(table.range(range).take(limit).map(|entry| row(entry.ok()))),
                    (false, _) => {
                        let see = |key: &[u8], value: &[u8]| rows.push(Some(text(key, value)));
                        table.for_each_limited(range, limit as u64, see).unwrap();
                    }
                }
                format!("{rows:?}")
            }
            Question::Get(key) => format!("{:?}", table.get([key]).unwrap()),
            Question::Contains(key) => format!("{}", table.contains([key]).unwrap()),
            Question::Tally(low, high) => format!("{:?}", table.tally(&[low]..&[high]).unwrap()),
        }
    }

    /// The same of a map, said naively. Questions whose answer has a shape of its own are asked of a table that holds
    /// the map.
    fn ask_model(&self, model: &Rows, measures: &Measures) -> String {
        let between = |low: u8, high: u8| -> Vec<(u8, String)> {
            model
                .iter()
                .filter(|(key, _)| (low..high).contains(*key))
                .map(|(&key, value)| (key, value.clone()))
                .collect()
        };
        match *self {
            Question::Count(low, high) => format!("{}", between(low, high).len()),
            Question::Nth(low, high, offset) => format!("{:?}", between(low, high).get(offset as usize)),
            Question::Rank(key) => format!("{}", between(0, key).len()),
            Question::Page(low, high, offset, limit) => {
                let all = between(low, high);
                let rows: Vec<_> = all.iter().skip(offset as usize).take(limit).map(Some).collect();
                format!("{} {rows:?}", all.len())
            }
            Question::Quantile(low, high) => {
                let all = between(low, high);
                let offset = (0.5 * (all.len().max(1) - 1) as f64 + 0.5).floor() as usize;
                format!("{:?}", all.get(offset))
            }
            Question::Range(low, high, limit, reverse) => {
                let mut all = between(low, high);
                if reverse {
                    all.reverse();
                }
                format!("{:?}", all.iter().take(limit).map(Some).collect::<Vec<_>>())
            }
            Question::Get(key) => {
                format!("{:?}", model.get(&key).map(|value| quipu::bytes::Value::from(value.as_bytes())))
            }
            Question::Contains(key) => format!("{}", model.contains_key(&key)),
            Question::Tally(low, high) => {
                let rows: Vec<(Vec<u8>, Vec<u8>)> =
                    between(low, high).into_iter().map(|(key, value)| (vec![key], value.into_bytes())).collect();
                let rows: Vec<(&Vec<u8>, &Vec<u8>)> = rows.iter().map(|row| (&row.0, &row.1)).collect();
                format!("{:?}", crate::model_map::tally_of(measures, &rows))
            }
        }
    }
}

type Rows = BTreeMap<u8, String>;

/// A transaction that is under way: what it did so far, and a digest of what it read.
struct Actor {
    transaction: Transaction,
    steps: Vec<Step>,
    savepoints: Vec<Savepoint>,
    read: u64,
    read_only: bool,
    /// The tables as they were when it began.
    begun: Vec<Rows>,
}

impl Actor {
    fn step(&mut self, tables: &[Table], rng: &mut StdRng) {
        let table = rng.random_range(0..tables.len());
        let inside = self.transaction.table(&tables[table]).unwrap();
        let key = rng.random_range(0..KEYS);
        let value = format!("{:x}", self.read & 0xFFFF);
        match rng.random_range(0..20) {
            0..=8 => self.ask(tables, table, rng),
            _ if self.read_only => self.ask(tables, table, rng),
            9..=13 => {
                inside.put([key], &value).unwrap();
                self.steps.push(Step::Put { table, key, value });
            }
            14 => {
                let done = inside.insert([key], &value).is_ok();
                self.read = self.read.wrapping_mul(31).wrapping_add(u64::from(done));
                self.steps.push(Step::Insert { table, key, value, done });
            }
            15 | 16 => {
                let done = inside.remove([key]).unwrap();
                self.read = self.read.wrapping_mul(31).wrapping_add(u64::from(done));
                self.steps.push(Step::Remove { table, key, done });
            }
            17 => {
                let (low, high) = (key, (key + 3).min(KEYS));
                let rows = inside.remove_range(&[low]..&[high]).unwrap();
                self.read = self.read.wrapping_mul(31).wrapping_add(rows);
                self.steps.push(Step::RemoveRange { table, low, high, rows });
            }
            18 => {
                self.savepoints.push(self.transaction.savepoint());
                self.steps.push(Step::Savepoint);
            }
            _ if self.savepoints.is_empty() => {}
            _ => {
                let depth = rng.random_range(0..self.savepoints.len());
                self.transaction.rollback_to(self.savepoints[depth]).unwrap();
                self.savepoints.truncate(depth + 1);
                self.steps.push(Step::RollbackTo(depth));
            }
        }
    }

    fn ask(&mut self, tables: &[Table], table: usize, rng: &mut StdRng) {
        let question = Question::random(rng);
        let answer = question.ask(&self.transaction.table(&tables[table]).unwrap());
        self.read = answer.bytes().fold(self.read, |read, byte| read.wrapping_mul(31).wrapping_add(u64::from(byte)));
        self.steps.push(Step::ReadableTable { table, question, answer });
    }
}

/// Runs the steps alone on the model: every read must answer as it did.
fn replay(steps: &[Step], models: &mut Vec<Rows>, measures: &Measures) {
    let mut savepoints: Vec<Vec<Rows>> = Vec::new();
    for step in steps {
        match step {
            Step::ReadableTable { table, question, answer } => {
                let expected = question.ask_model(&models[*table], measures);
                assert_eq!(*answer, expected, "{question:?} does not fit the order of commits, in {steps:#?}");
            }
            Step::Put { table, key, value } => {
                models[*table].insert(*key, value.clone());
            }
            Step::Insert { table, key, value, done } => {
                assert_eq!(*done, !models[*table].contains_key(key), "{steps:#?}");
                if *done {
                    models[*table].insert(*key, value.clone());
                }
            }
            Step::Remove { table, key, done } => {
                assert_eq!(*done, models[*table].remove(key).is_some(), "{steps:#?}");
            }
            Step::RemoveRange { table, low, high, rows } => {
                let before = models[*table].len();
                models[*table].retain(|key, _| !(low..high).contains(&key));
                assert_eq!(*rows, (before - models[*table].len()) as u64, "{steps:#?}");
            }
            Step::Savepoint => savepoints.push(models.clone()),
            Step::RollbackTo(depth) => {
                models.clone_from(&savepoints[*depth]);
                savepoints.truncate(depth + 1);
            }
        }
    }
}

#[test]
fn committed_transactions_ran_in_the_order_of_their_commits() {
    let (mut committed, mut unchanged, mut conflicts) = (0, 0, 0);
    for seed in seeds(40) {
        let mut rng = rng(seed);
        let measures = [
            Measures::ROWS,
            Measures { bytes: true, hash: true, sum: None, ..Measures::ROWS },
            Measures { sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS },
        ][rng.random_range(0..3)];
        let db = fresh();
        let tables: Vec<Table> = ["left", "right"]
            .iter()
            .map(|name| {
                let options = TableOptions { measures, blind_writes: *name == "right", ..TableOptions::default() };
                db.create_table(name, options).unwrap()
            })
            .collect();
        let mut models = vec![Rows::new(), Rows::new()];
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..600 {
            while actors.len() < 4 {
                let read_only = rng.random_range(0..8) == 0;
                actors.push(Actor {
                    transaction: db.begin(),
                    steps: Vec::new(),
                    savepoints: Vec::new(),
                    read: 0,
                    read_only,
                    begun: models.clone(),
                });
            }
            let number = rng.random_range(0..actors.len());
            match rng.random_range(0..40) {
                0..=5 => {
                    let mut actor = actors.swap_remove(number);
                    let before = db.stats().sequence;
                    match actor.transaction.commit() {
                        Ok(()) if db.stats().sequence > before => {
                            assert!(!actor.read_only);
                            replay(&actor.steps, &mut models, &measures);
                            committed += 1;
                        }
                        // It changed nothing, so it ran when it began.
                        Ok(()) => {
                            replay(&actor.steps, &mut actor.begun, &measures);
                            unchanged += 1;
                        }
                        Err(error) => {
                            assert!(!actor.read_only, "a transaction that only read failed: {error}");
                            assert_eq!(error.kind(), ErrorKind::Conflict);
                            conflicts += 1;
                        }
                    }
                    for (table, model) in tables.iter().zip(&models) {
                        let found: Vec<(u8, Vec<u8>)> = table
                            .range(..)
                            .map(|row| row.unwrap())
                            .map(|row| (row.key[0], row.value.to_vec()))
                            .collect();
                        assert!(
                            found
                                .iter()
                                .map(|(key, value)| (key, &**value))
                                .eq(model.iter().map(|(key, value)| (key, value.as_bytes())))
                        );
                        let all = Question::Tally(0, KEYS);
                        assert_eq!(all.ask(table), all.ask_model(model, &measures));
                    }
                }
                6 => {
                    let actor = actors.swap_remove(number);
                    actor.transaction.rollback();
                }
                7 => {
                    let (table, key) = (rng.random_range(0..2), rng.random_range(0..KEYS));
                    if rng.random() {
                        tables[table].put([key], "alone").unwrap();
                        models[table].insert(key, "alone".into());
                    } else {
                        tables[table].remove([key]).unwrap();
                        models[table].remove(&key);
                    }
                }
                8 => tables[rng.random_range(0..2)].freeze().unwrap(),
                9 => tables[rng.random_range(0..2)].thaw().unwrap(),
                10 if rng.random_range(0..4) == 0 => tables[rng.random_range(0..2)].flush().unwrap(),
                10 if rng.random_range(0..3) == 0 => drop(tables[1].resolve_blind_writes(&[0]..&[KEYS / 2]).unwrap()),
                _ => actors[number].step(&tables, &mut rng),
            }
        }
    }
    println!("{committed} commits, {unchanged} that changed nothing, {conflicts} conflicts");
    assert!(committed > 5 && unchanged > 5 && conflicts > 5, "the test tests nothing");
}
