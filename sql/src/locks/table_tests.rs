//! Locks at work: by hand, and at random beside a plain account of who has what.

use quipu_testing::seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::locks::mode::LockMode::{
    Exclusive as EX, RowExclusive as RX, Share as SH, ShareRowExclusive as SRX, ShareUpdateExclusive as SUX,
};
use crate::locks::mode::{LockMode, MODES};

fn name(key: i64) -> LockName {
    LockName { table: "t".into(), key: vec![Datum::Int(key)] }
}

#[test]
fn a_lock_goes_to_those_that_wait_in_their_order() {
    let mut locks = LockTable::default();
    let row = name(1);
    assert_eq!(locks.ask(1, &row, EX, true), Asked::Given);
    assert_eq!(locks.ask(1, &row, EX, true), Asked::Had);
    assert_eq!(locks.ask(2, &row, EX, true), Asked::Queued);
    assert_eq!(locks.ask(3, &row, EX, true), Asked::Queued);
    assert_eq!(locks.ask(4, &row, EX, false), Asked::Taken);
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
    assert_eq!(locks.ask(1, &row, SH, true), Asked::Given);
    assert_eq!(locks.ask(2, &row, SH, true), Asked::Given);
    assert_eq!(locks.ask(3, &row, EX, true), Asked::Queued);
    // A later reader does not overtake the writer that waits.
    assert_eq!(locks.ask(4, &row, SH, true), Asked::Queued);
    assert_eq!(locks.release(1, &row), [] as [Owner; 0]);
    assert_eq!(locks.release(2, &row), [3]);
    locks.stop_waiting(3);
    assert_eq!(locks.release(3, &row), [4]);
}

#[test]
fn two_that_would_wait_for_each_other_are_told_so() {
    let mut locks = LockTable::default();
    assert_eq!(locks.ask(1, &name(1), EX, true), Asked::Given);
    assert_eq!(locks.ask(2, &name(2), EX, true), Asked::Given);
    assert_eq!(locks.ask(1, &name(2), EX, true), Asked::Queued);
    assert_eq!(locks.ask(2, &name(1), EX, true), Asked::Deadlock);
    // Who is refused ends, and the other goes on.
    assert_eq!(locks.release(2, &name(2)), [1]);
}

#[test]
fn an_owner_that_has_got_its_lock_and_does_not_know_yet_is_in_no_circle() {
    let mut locks = LockTable::default();
    let (teller, branch) = (name(1), name(2));
    assert_eq!(locks.ask(1, &branch, EX, true), Asked::Given);
    assert_eq!(locks.ask(2, &teller, EX, true), Asked::Given);
    assert_eq!(locks.ask(2, &branch, EX, true), Asked::Queued);
    assert_eq!(locks.ask(3, &branch, EX, true), Asked::Queued);
    assert_eq!(locks.release(1, &branch), [2]);
    // The third waits for the second, which waits for nothing any more; so does one that wants the teller.
    assert_eq!(locks.ask(4, &teller, EX, true), Asked::Queued);
    assert_eq!(locks.ask(5, &branch, EX, true), Asked::Queued);
    assert!(!locks.is_waiting(2));
}

#[test]
fn two_readers_that_both_want_to_write_are_a_deadlock() {
    let mut locks = LockTable::default();
    let row = name(1);
    assert_eq!(locks.ask(1, &row, SH, true), Asked::Given);
    assert_eq!(locks.ask(2, &row, SH, true), Asked::Given);
    assert_eq!(locks.ask(1, &row, EX, true), Asked::Queued);
    assert_eq!(locks.ask(2, &row, EX, true), Asked::Deadlock);
    assert_eq!(locks.release(2, &row), [1]);
}

#[test]
fn modes_conflict_as_those_of_postgresql() {
    // The table of its chapter on explicit locking: x for two that cannot be had at once.
    let table = [
        ". . . . . . . x",
        ". . . . . . x x",
        ". . . . x x x x",
        ". . . x x x x x",
        ". . x x . x x x",
        ". . x x x x x x",
        ". x x x x x x x",
        "x x x x x x x x",
    ];
    for (mode, line) in MODES.into_iter().zip(table) {
        let conflicts: Vec<bool> = MODES.into_iter().map(|other| mode.conflicts_with(other)).collect();
        let expected: Vec<bool> = line.split(' ').map(|word| word == "x").collect();
        assert_eq!(conflicts, expected, "{mode:?}");
    }
    assert!(SRX.covers(SH) && SRX.covers(RX) && !SH.covers(RX) && !RX.covers(SH));
}

#[test]
fn a_mode_that_conflicts_with_none_before_it_overtakes_them() {
    let mut locks = LockTable::default();
    let table = LockName::of_table("t");
    assert_eq!(locks.ask(1, &table, RX, true), Asked::Given);
    assert_eq!(locks.ask(2, &table, SUX, true), Asked::Given);
    assert_eq!(locks.ask(3, &table, SRX, true), Asked::Queued);
    // It conflicts with the third, which waits, but another one does not.
    assert_eq!(locks.ask(4, &table, RX, true), Asked::Queued);
    assert_eq!(locks.ask(5, &table, LockMode::RowShare, true), Asked::Given);
    // An owner that has it already waits for the others that have it, and not for those in the queue.
    assert_eq!(locks.ask(2, &table, SRX, true), Asked::Queued);
    assert_eq!(locks.release(1, &table), [2]);
    assert_eq!(locks.reduce(2, &table, SUX), [] as [Owner; 0]);
    assert_eq!(locks.release(2, &table), [3]);
    assert_eq!(locks.release(3, &table), [4]);
}

#[test]
fn whatever_is_asked_no_two_have_what_conflicts_and_none_waits_for_ever() {
    seeds::with_seeds(200, |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let mut locks = LockTable::default();
        let names: Vec<LockName> = (0..3).map(name).chain([LockName::of_table("t"), LockName::of_table("u")]).collect();
        let owners: Vec<Owner> = (0..6).collect();
        let end = |locks: &mut LockTable, owner: Owner| {
            for name in &names {
                for given in locks.release(owner, name) {
                    assert!(!locks.is_waiting(given), "SEED={seed}");
                }
            }
        };
        for _ in 0..400 {
            let owner = owners[random.random_range(0..owners.len())];
            if locks.is_waiting(owner) {
                if random.random_ratio(1, 20) {
                    locks.stop_waiting(owner);
                    end(&mut locks, owner);
                }
                continue;
            }
            if random.random_ratio(1, 5) {
                end(&mut locks, owner);
                continue;
            }
            let name = &names[random.random_range(0..names.len())];
            let mode = match name.is_table() {
                true => MODES[random.random_range(0..MODES.len())],
                false => LockMode::of_row(random.random_ratio(1, 3)),
            };
            if name.is_table() && mode.is_strong() && random.random_ratio(1, 2) {
                locks.reduce(owner, name, LockMode::AccessShare);
            }
            let has = |locks: &LockTable| {
                let mut own = locks.all().into_iter().filter(|lock| lock.owner == owner && lock.name == *name);
                own.any(|lock| lock.is_granted && lock.mode.covers(mode))
            };
            match locks.ask(owner, name, mode, random.random_ratio(3, 4)) {
                Asked::Given | Asked::Had => assert!(has(&locks), "SEED={seed}"),
                Asked::Queued => assert!(locks.is_waiting(owner), "SEED={seed}"),
                Asked::Taken => assert!(!has(&locks), "SEED={seed}"),
                Asked::Deadlock => end(&mut locks, owner),
            }
            let all = locks.all();
            let granted = || all.iter().filter(|lock| lock.is_granted);
            for (one, other) in granted().flat_map(|one| granted().map(move |other| (one, other))) {
                let is_allowed =
                    one.name != other.name || one.owner == other.owner || !one.mode.conflicts_with(other.mode);
                assert!(is_allowed, "SEED={seed}: {one:?} beside {other:?}");
            }
        }
        // Each owner that does not wait ends, until none is left: a circle of waiting owners would stay.
        for _ in 0..owners.len() * 2 {
            for &owner in &owners {
                if !locks.is_waiting(owner) {
                    end(&mut locks, owner);
                }
            }
        }
        assert!(locks.is_empty(), "SEED={seed}: {locks:?}");
    });
}
