//! Makes long answers a piece at a time, as fast as their client takes them, so that no answer is ever held whole.
//!
//! A command that runs beside the loop, with a snapshot, may answer by leaving [`Pieces`] in its session. What it has
//! answered by then, such as the length of an array, is sent first. Between two pieces only the snapshot is held.
//!
//! Not here: when the next piece is made ([`crate::execution::long`]).

use std::ops::{Bound, Range, RangeBounds};

use quipu::{Bounds, Entry, ReadableTable, Result, Snapshot, Table};

use super::sorted_set_words::answer_member;
use crate::keyspace::sorted_set::{Found, SortedSet};
use crate::keyspace::value::CollectionId;
use crate::keyspace::{Data, Keyspace};
use crate::resp::glob;
use crate::resp::reply::Reply;
use crate::state::pieces::Pieces;
use crate::system::clock;

/// Bytes that a piece should have.
pub const PIECE_BYTES: usize = 64 << 10;

/// Rows that are looked at for one piece, at most: below a millisecond.
pub const PIECE_ROWS_MAX: u64 = 4096;

/// How many rows make a piece, going by those before.
struct Pace {
    rows: u64,
}

impl Pace {
    fn new() -> Pace {
        Pace { rows: 16 }
    }

    /// So many rows had so many bytes.
    fn note(&mut self, rows: u64, bytes: usize) {
        let fitting = (PIECE_BYTES as u64 * rows.max(1)) / bytes.max(1) as u64;
        self.rows = fitting.clamp(1, PIECE_ROWS_MAX).min(2 * self.rows);
    }
}

/// Keys that begin with some bytes and match a pattern: counted first, unless all of them match, and then listed.
pub struct KeyPieces {
    snapshot: Snapshot,
    keys: Table,
    pattern: Vec<u8>,
    prefix: Vec<u8>,
    /// How many match of those that were looked at; `None` once that was answered.
    matching: Option<u64>,
    /// The key that was looked at last.
    place: Option<Vec<u8>>,
}

impl KeyPieces {
    /// Of `rows` keys that begin with `prefix`, which is what matches of `pattern` begin with.
    pub fn new(snapshot: Snapshot, keys: Table, pattern: &[u8], prefix: Vec<u8>, rows: u64, reply: &mut Reply) -> Self {
        let all_match = matches!(pattern, [plain @ .., b'*'] if *plain == *prefix);
        if all_match {
            reply.array(rows as usize);
        }
        let matching = (!all_match).then_some(0);
        KeyPieces { snapshot, keys, pattern: pattern.to_vec(), prefix, matching, place: None }
    }
}

impl Pieces for KeyPieces {
    fn next(&mut self, _: &Keyspace, reply: &mut Reply) -> Result<bool> {
        let all = Bounds::prefix(&self.prefix);
        let start = self.place.as_deref().map_or(Bound::Included(&*self.prefix), Bound::Excluded);
        let (begun, mut rows, mut last) = (reply.bytes.len(), 0, None);
        let (pattern, matching) = (&self.pattern, &mut self.matching);
        self.snapshot.table(&self.keys)?.for_each(Bounds::new(start, all.end_bound()), |key, _| {
            if glob::matches(pattern, key, false) {
                match matching {
                    Some(count) => *count += 1,
                    None => reply.bulk(key),
                }
            }
            rows += 1;
            let is_full = rows == PIECE_ROWS_MAX || reply.bytes.len() - begun >= PIECE_BYTES;
            if is_full {
                last = Some(key.to_vec());
            }
            !is_full
        })?;
        self.place = last;
        if self.place.is_some() {
            return Ok(true);
        }
        // The end: of the count, or of all.
        let Some(count) = self.matching.take() else { return Ok(false) };
        reply.array(count as usize);
        Ok(count > 0)
    }
}

/// Members of a sorted set that stand together.
pub struct MemberPieces {
    snapshot: Snapshot,
    elements: Table,
    id: CollectionId,
    hash_seed: u64,
    found: Found,
    reverse: bool,
    with_scores: bool,
    done: u64,
    pace: Pace,
}

impl MemberPieces {
    /// Those of `set`, which lies in `elements`, from the last one on if `reverse`.
    pub fn new(
        snapshot: Snapshot,
        elements: Table,
        set: &SortedSet<'_>,
        found: Found,
        reverse: bool,
        with_scores: bool,
    ) -> Self {
        let (id, hash_seed) = (set.id(), set.hash_seed());
        MemberPieces { snapshot, elements, id, hash_seed, found, reverse, with_scores, done: 0, pace: Pace::new() }
    }
}

impl Pieces for MemberPieces {
    fn next(&mut self, _: &Keyspace, reply: &mut Reply) -> Result<bool> {
        let begun = reply.bytes.len();
        let rows = self.pace.rows.min(self.found.rows - self.done);
        let part =
            if self.reverse { self.found.part_from_end(self.done, rows) } else { self.found.part(self.done, rows) };
        let set = SortedSet::over(self.snapshot.table(&self.elements)?, self.id, self.hash_seed);
        set.walk(part, self.reverse, |member, score| answer_member(reply, member, score, self.with_scores))?;
        self.pace.note(rows, reply.bytes.len() - begun);
        self.done += rows;
        Ok(self.done < self.found.rows)
    }
}

/// How a row of the table of keys of a database is answered.
pub type RowAnswer = fn(&Data<'_>, usize, &Entry, &mut Reply) -> Result<()>;

/// Rows of the table of keys that stand together.
pub struct RowPieces {
    snapshot: Snapshot,
    database: usize,
    keys: Table,
    rows: Range<u64>,
    reverse: bool,
    answer: RowAnswer,
    done: u64,
    pace: Pace,
}

impl RowPieces {
    /// Those of `keys`, which is that of `database`, at these offsets; the last one first if `reverse`.
    pub fn new(
        snapshot: Snapshot,
        database: usize,
        keys: Table,
        rows: Range<u64>,
        reverse: bool,
        answer: RowAnswer,
    ) -> Self {
        RowPieces { snapshot, database, keys, rows, reverse, answer, done: 0, pace: Pace::new() }
    }
}

impl Pieces for RowPieces {
    fn next(&mut self, keyspace: &Keyspace, reply: &mut Reply) -> Result<bool> {
        let begun = reply.bytes.len();
        let all = self.rows.end - self.rows.start;
        let rows = self.pace.rows.min(all - self.done);
        let first = if self.reverse { self.rows.end - self.done - rows } else { self.rows.start + self.done };
        let data = Data::patiently_at(keyspace, &self.snapshot, clock::now_ms());
        let mut entries = data.view(&self.keys)?.page(.., first, rows as usize)?.entries;
        if self.reverse {
            entries.reverse();
        }
        for row in &entries {
            (self.answer)(&data, self.database, row, reply)?;
        }
        self.pace.note(rows, reply.bytes.len() - begun);
        self.done += rows;
        Ok(self.done < all)
    }
}
