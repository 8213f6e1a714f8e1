//! Locks at work: by hand, and at random beside a plain account of who has what.

use quipu_testing::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn name(key: i64) -> LockName {
    LockName { table: "t".into(), key: vec![Datum::Int(key)] }
}

#[test]
fn a_lock_goes_to_those_that_wait_in_their_order() {
    let mut locks = LockTable::default();
    let row = name(1);
    assert_eq!(locks.ask(1, &row, false, true), Asked::Given);
    assert_eq!(locks.ask(1, &row, false, true), Asked::Had);
    assert_eq!(locks.ask(2, &row, false, true), Asked::Queued);
    assert_eq!(locks.ask(3, &row, false, true), Asked::Queued);
    assert_eq!(locks.ask(4, &row, false, false), Asked::Taken);
    assert_eq!(locks.release(1, &row), [2]);
    assert!(!locks.is_waiting(2) && locks.is_waiting(3));
    locks.stop_waiting(2);
    assert_eq!(locks.release(2, &row), [3]);
    locks.stop_waiting(3);
    locks.release(3, &row);
    assert!(locks.is_empty());
}

#[test]
fn a_lock_is_shared_by_those_that_only_read() {
    let mut locks = LockTable::default();
    let row = name(1);
    assert_eq!(locks.ask(1, &row, true, true), Asked::Given);
    assert_eq!(locks.ask(2, &row, true, true), Asked::Given);
    assert_eq!(locks.ask(3, &row, false, true), Asked::Queued);
    // A later reader does not overtake the writer that waits.
    assert_eq!(locks.ask(4, &row, true, true), Asked::Queued);
    assert_eq!(locks.release(1, &row), [] as [Owner; 0]);
    assert_eq!(locks.release(2, &row), [3]);
    locks.stop_waiting(3);
    assert_eq!(locks.release(3, &row), [4]);
}

#[test]
fn two_that_would_wait_for_each_other_are_told_so() {
    let mut locks = LockTable::default();
    assert_eq!(locks.ask(1, &name(1), false, true), Asked::Given);
    assert_eq!(locks.ask(2, &name(2), false, true), Asked::Given);
    assert_eq!(locks.ask(1, &name(2), false, true), Asked::Queued);
    assert_eq!(locks.ask(2, &name(1), false, true), Asked::Deadlock);
    // Who is refused ends, and the other goes on.
    assert_eq!(locks.release(2, &name(2)), [1]);
}

#[test]
fn an_owner_that_has_got_its_lock_and_does_not_know_yet_is_in_no_circle() {
    let mut locks = LockTable::default();
    let (teller, branch) = (name(1), name(2));
    assert_eq!(locks.ask(1, &branch, false, true), Asked::Given);
    assert_eq!(locks.ask(2, &teller, false, true), Asked::Given);
    assert_eq!(locks.ask(2, &branch, false, true), Asked::Queued);
    assert_eq!(locks.ask(3, &branch, false, true), Asked::Queued);
    assert_eq!(locks.release(1, &branch), [2]);
    // The third waits for the second, which waits for nothing any more; so does one that wants the teller.
    assert_eq!(locks.ask(4, &teller, false, true), Asked::Queued);
    assert_eq!(locks.ask(5, &branch, false, true), Asked::Queued);
    assert!(!locks.is_waiting(2));
}

#[test]
fn two_readers_that_both_want_to_write_are_a_deadlock() {
    let mut locks = LockTable::default();
    let row = name(1);
    assert_eq!(locks.ask(1, &row, true, true), Asked::Given);
    assert_eq!(locks.ask(2, &row, true, true), Asked::Given);
    assert_eq!(locks.ask(1, &row, false, true), Asked::Queued);
    assert_eq!(locks.ask(2, &row, false, true), Asked::Deadlock);
    assert_eq!(locks.release(2, &row), [1]);
}

/// One owner of the random test: what it has, and what it waits for.
#[derive(Default)]
struct Account {
    held: Vec<LockName>,
    waits: Option<LockName>,
}

#[test]
fn whatever_is_asked_no_two_write_one_row_and_none_waits_for_ever() {
    seeds::with_seeds(200, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut locks, mut shared) = (LockTable::default(), std::collections::HashMap::new());
        let mut accounts: Vec<Account> = (0..6).map(|_| Account::default()).collect();
        for _ in 0..400 {
            let owner = random.random_range(0..accounts.len());
            if accounts[owner].waits.is_some() {
                continue;
            }
            if random.random_ratio(1, 5) {
                end(&mut locks, &mut accounts, owner);
                shared.retain(|(other, _), _| *other != owner);
                continue;
            }
            let row = name(random.random_range(0..5));
            let (is_shared, waits) = (random.random_ratio(1, 3), random.random_ratio(3, 4));
            match locks.ask(owner as Owner, &row, is_shared, waits) {
                Asked::Given | Asked::Had => {
                    let known = shared.entry((owner, row.clone())).or_insert(true);
                    *known &= is_shared;
                    accounts[owner].held.push(row);
                }
                Asked::Queued => {
                    shared.entry((owner, row.clone())).and_modify(|known| *known &= is_shared).or_insert(is_shared);
                    accounts[owner].waits = Some(row);
                }
                Asked::Taken => {}
                Asked::Deadlock => {
                    end(&mut locks, &mut accounts, owner);
                    shared.retain(|(other, _), _| *other != owner);
                }
            }
            for row in (0..5).map(name) {
                let owners = locks.owners(&row);
                let writers = owners.iter().filter(|owner| {
                    let owner = usize::try_from(**owner).unwrap_or(0);
                    accounts[owner].waits.as_ref() != Some(&row) && shared.get(&(owner, row.clone())) == Some(&false)
                });
                assert!(writers.count() == 0 || owners.len() == 1, "SEED={seed}: {owners:?} have {row:?}");
            }
        }
        // Each owner that does not wait ends, until none is left: a circle of waiting owners would stay.
        for _ in 0..accounts.len() * 2 {
            for owner in 0..accounts.len() {
                if accounts[owner].waits.is_none() {
                    end(&mut locks, &mut accounts, owner);
                }
            }
        }
        assert!(locks.is_empty(), "SEED={seed}: {locks:?}");
    });
}

/// Gives back all that an owner has, and tells those that have got something by that.
fn end(locks: &mut LockTable, accounts: &mut [Account], owner: usize) {
    for row in std::mem::take(&mut accounts[owner].held) {
        for other in locks.release(owner as Owner, &row) {
            let other = usize::try_from(other).unwrap_or(0);
            assert!(!locks.is_waiting(other as Owner));
            if let Some(got) = accounts[other].waits.take() {
                accounts[other].held.push(got);
            }
        }
    }
}
