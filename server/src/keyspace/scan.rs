//! Where iterations over keys go on: a cursor is a number, and a place is a key.
//!
//! A client that iterates gets a number, and comes back with it; what stands behind the number is kept here. Keys are read in order, so a key that is there from
//! the start of an iteration to its end is returned, whatever else changes meanwhile.
//!
//! Invariants:
//! 1. Places and their bytes are bounded: the oldest go first.
//! 2. An iteration holds two places at most, so that a client that lost an answer can ask again: its place before the last is dropped when it uses the last.
//! 3. A number is not given twice while the server runs, and hardly ever after it was started anew: what is not known is told to start over.
//!
//! Not here: what is looked for ([`crate::command::scan`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where an iteration goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    database: usize,
    /// The last key that was looked at.
    key: Box<[u8]>,
    /// The cursor that this one followed.
    before: u64,
}

/// The places of all iterations, by cursor.
#[derive(Debug)]
pub struct Cursors {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    places: BTreeMap<u64, Place>,
    next: u64,
    bytes: usize,
}

/// Places at most.
const PLACES_MAX: usize = 1 << 16;
/// Bytes of all their keys at most.
const BYTES_MAX: usize = 64 << 20;
/// Cursors begin below this at random, so that those of an earlier process are not taken for others; they stay exact in clients that count in floating point.
const FIRST_MAX: u64 = 1 << 52;

impl Default for Cursors {
    fn default() -> Self {
        Cursors::starting_at(rand::random_range(1..FIRST_MAX))
    }
}

impl Cursors {
    fn starting_at(next: u64) -> Cursors {
        Cursors { state: Mutex::new(State { places: BTreeMap::new(), next, bytes: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key behind which the iteration in a database goes on; `None` if it starts over.
    pub fn find(&self, cursor: u64, database: usize) -> Option<Box<[u8]>> {
        let mut state = self.state();
        let place = state.places.get(&cursor).filter(|place| place.database == database)?;
        let (key, before) = (place.key.clone(), place.before);
        state.remove(before);
        Some(key)
    }

    /// A cursor that goes on behind a key. `before` is the one that led here.
    pub fn make(&self, before: u64, database: usize, key: &[u8]) -> u64 {
        let mut state = self.state();
        let cursor = state.next;
        state.next += 1;
        state.bytes += key.len();
        state.places.insert(cursor, Place { database, key: key.into(), before });
        while state.places.len() > PLACES_MAX || state.bytes > BYTES_MAX {
            let Some((&oldest, _)) = state.places.first_key_value() else { break };
            state.remove(oldest);
        }
        cursor
    }
}

impl State {
    fn remove(&mut self, cursor: u64) {
        if let Some(place) = self.places.remove(&cursor) {
            self.bytes -= place.key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Cursors, PLACES_MAX};

    #[test]
    fn a_cursor_can_be_used_again_until_the_one_after_the_next_is() {
        let cursors = Cursors::starting_at(100);
        let first = cursors.make(0, 3, b"a");
        assert_eq!(cursors.find(first, 3).as_deref(), Some(&b"a"[..]));
        assert_eq!(cursors.find(first, 2), None, "of another database");
        let second = cursors.make(first, 3, b"b");
        assert_eq!(cursors.find(first, 3).as_deref(), Some(&b"a"[..]), "the answer was lost");
        assert_eq!(cursors.find(second, 3).as_deref(), Some(&b"b"[..]));
        assert_eq!(cursors.find(first, 3), None);
        assert_eq!(cursors.find(77, 3), None);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let cursors = Cursors::starting_at(1);
        let made: Vec<u64> = (0..PLACES_MAX + 10).map(|_| cursors.make(0, 0, b"key")).collect();
        assert_eq!(cursors.find(made[9], 0), None);
        assert!(cursors.find(made[10], 0).is_some());
        let large = vec![b'x'; BYTES_MAX / 2];
        let made = [(); 3].map(|()| cursors.make(0, 0, &large));
        assert_eq!(made.map(|cursor| cursors.find(cursor, 0).is_some()), [false, true, true]);
        assert_eq!(cursors.state().bytes, 2 * large.len());
    }
}
