//! Remembers where iterations over keys continue: a cursor is a hash of the last key that was looked at.
//!
//! Keys are read in order, so a key that exists from the start of an iteration to its end is returned, whatever else
//! changes meanwhile. For the newest cursors, the key is remembered here. For any other cursor, the key is looked for
//! among all keys ([`Cursors::names`]). So a cursor is valid as long as its key exists, even after a restart, and
//! iterations of other clients cannot take it away: it is lost only if it was forgotten *and* its key was removed.
//!
//! Invariants:
//! 1. What is remembered is bounded. Cursors that were used go first, then the oldest.
//! 2. A cursor that is remembered stands for one key. Of those that are looked for, two of a billion keys share one
//!    with a probability below one in ten million.
//!
//! Not here: what is looked for ([`crate::command::scan`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The places of iterations, by cursor.
#[derive(Debug)]
pub struct Cursors {
    hash_seed: u64,
    state: Mutex<CursorsState>,
}

#[derive(Debug, Default)]
struct CursorsState {
    places: HashMap<u64, ScanPlace>,
    /// Cursors in the order in which they are forgotten.
    order: BTreeMap<(IsNew, u64), u64>,
    next: u64,
    bytes: usize,
}

/// Whether no client has gone on from there since it was given.
type IsNew = bool;

#[derive(Debug)]
struct ScanPlace {
    key: Box<[u8]>,
    order: (IsNew, u64),
}

/// Places at most.
const PLACES_MAX: usize = 1 << 16;
/// Bytes of all their keys at most.
const BYTES_MAX: usize = 16 << 20;
/// Cursors have so many bits: they stay exact in clients that count in floating point.
const CURSOR_BITS: u32 = 53;

impl Cursors {
    /// With hashes of this seed.
    pub fn new(hash_seed: u64) -> Cursors {
        Cursors { hash_seed, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, CursorsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        // Zero is where an iteration begins.
        (xxh3_64_with_seed(key, self.hash_seed) >> (u64::BITS - CURSOR_BITS)).max(1)
    }

    /// Whether a cursor stands for this key, if it stands for one that is there.
    pub fn names(&self, cursor: u64, key: &[u8]) -> bool {
        self.cursor_of(key) == cursor
    }

    /// The key after which an iteration goes on, if that is remembered.
    pub fn find(&self, cursor: u64) -> Option<Box<[u8]>> {
        self.state().touch(cursor, false)
    }

    /// The cursor that goes on after a key; `None` if another key has it, so that another place is to be chosen.
    pub fn make(&self, key: &[u8]) -> Option<u64> {
        let cursor = self.cursor_of(key);
        let mut state = self.state();
        match state.touch(cursor, true) {
            Some(known) if *known == *key => return Some(cursor),
            Some(_) => return None,
            None => {}
        }
        let order = state.next_order(true);
        state.bytes += key.len();
        state.order.insert(order, cursor);
        state.places.insert(cursor, ScanPlace { key: key.into(), order });
        while state.places.len() > PLACES_MAX || state.bytes > BYTES_MAX {
            let Some((_, oldest)) = state.order.pop_first() else { break };
            if let Some(place) = state.places.remove(&oldest) {
                state.bytes -= place.key.len();
            }
        }
        Some(cursor)
    }
}

impl CursorsState {
    fn next_order(&mut self, is_new: IsNew) -> (IsNew, u64) {
        self.next += 1;
        (is_new, self.next)
    }

    /// Moves a place to the end of the order.
    fn touch(&mut self, cursor: u64, is_new: IsNew) -> Option<Box<[u8]>> {
        let order = self.next_order(is_new);
        let place = self.places.get_mut(&cursor)?;
        self.order.remove(&place.order);
        self.order.insert(order, cursor);
        place.order = order;
        Some(place.key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Cursors, PLACES_MAX};

    #[test]
    fn all_iterations_share_a_place() {
        let cursors = Cursors::new(1);
        let first = cursors.make(b"a").expect("a cursor");
        assert_eq!(cursors.make(b"a"), Some(first));
        assert_eq!(cursors.find(first).as_deref(), Some(&b"a"[..]));
        assert!(cursors.names(first, b"a") && !cursors.names(first, b"b"));
        assert_eq!(cursors.find(first + 1), None);
        assert_eq!(cursors.state().places.len(), 1);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_and_those_that_were_used_before() {
        let cursors = Cursors::new(1);
        let waits = cursors.make(b"waits").expect("a cursor");
        // Another iteration gets on quickly.
        for number in 0..2 * PLACES_MAX {
            let cursor = cursors.make(&number.to_be_bytes()).expect("a cursor");
            assert!(cursors.find(cursor).is_some());
        }
        assert!(cursors.find(waits).is_some());
        // Many are begun and left.
        let left: Vec<u64> = (0..PLACES_MAX as u32).filter_map(|number| cursors.make(&number.to_be_bytes())).collect();
        assert_eq!(cursors.find(waits), None);
        assert!(cursors.find(left[0]).is_some());
        let large: Vec<Vec<u8>> = (0..3).map(|number| vec![number; BYTES_MAX / 2]).collect();
        let made: Vec<u64> = large.iter().filter_map(|key| cursors.make(key)).collect();
        let is_known: Vec<bool> = made.iter().map(|cursor| cursors.find(*cursor).is_some()).collect();
        assert_eq!(is_known, [false, true, true]);
        assert_eq!(cursors.state().bytes, BYTES_MAX);
    }
}
