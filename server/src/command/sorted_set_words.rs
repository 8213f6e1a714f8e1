//! Shared by the commands about sorted sets: scores, ranks and members as words, answers of members, the set at a key.

use std::ops::Bound;

use super::{Call, CommandResult, Refusal, check_key, refusal};
use crate::keyspace::sorted_set::{Found, SortedSet};
use crate::keyspace::sorted_set_writer::{Scoring, Writer};
use crate::keyspace::value::{CollectionId, Entry, Header, Kind};
use crate::keyspace::{Change, KEY_BYTES_MAX};
use crate::resp::number;
use crate::resp::reply::{Protocol, Reply};

/// Members with their scores.
pub(super) type Members = Vec<(Vec<u8>, f64)>;

/// Members that a store writes with interleaved descents.
const STORED_AT_ONCE: usize = 512;

/// The id of the sorted set that an entry holds.
///
/// # Errors
/// `WRONGTYPE` if it holds something else.
pub(super) fn id_of(entry: Option<Entry<'_>>) -> Result<Option<CollectionId>, Refusal> {
    match entry {
        None => Ok(None),
        Some(entry) if entry.header.kind == Kind::SortedSet => Ok(entry.collection()),
        Some(_) => Err(refusal::WRONG_TYPE),
    }
}

impl Call<'_, '_> {
    /// The id of the sorted set at a key that is read.
    pub(super) fn sorted_set_id(&self, key: &[u8]) -> Result<Option<CollectionId>, Refusal> {
        id_of(self.entry(key)?)
    }

    /// The id of the sorted set at a key that is written to.
    pub(super) fn sorted_set_to_change(&self, key: &[u8]) -> Result<Option<CollectionId>, Refusal> {
        id_of(self.data.entry(self.database(), key)?)
    }

    /// The sorted set at a key.
    pub(super) fn sorted_set(&self, key: &[u8]) -> Result<Option<SortedSet<'_>>, Refusal> {
        match self.sorted_set_id(key)? {
            None => Ok(None),
            Some(id) => Ok(Some(SortedSet::open(self.data, self.database(), id)?)),
        }
    }

    /// The sorted set with an id.
    pub(super) fn sorted_set_with(&self, id: CollectionId) -> Result<SortedSet<'_>, Refusal> {
        Ok(SortedSet::open(self.data, self.database(), id)?)
    }

    /// Removes members that stand together from the set at a key, and the key with the last of them.
    pub(super) fn remove_members(&mut self, key: &[u8], id: CollectionId, found: Found, all: u64) -> CommandResult {
        let database = self.database();
        if found.rows == all {
            self.data.remove(database, key)?;
        } else if found.rows > 0 {
            Writer::open(self.data, database, id)?.remove_found(found)?;
            self.data.touch(database, key);
        }
        Ok(())
    }

    /// Puts a sorted set of these different members at a key, whatever stood there; none removes the key. Answers how
    /// many there are.
    pub(super) fn store_members(&mut self, key: &[u8], members: &[(Vec<u8>, f64)]) -> CommandResult {
        let database = self.database();
        if members.is_empty() {
            self.data.remove(database, key)?;
        } else {
            check_key(key)?;
            let id = self.data.new_id();
            self.data.change(database, key, |_, new| {
                Header::new(Kind::SortedSet).encode(new);
                new.extend_from_slice(&id.bytes());
                Change::Put
            })?;
            let mut writer = Writer::open(self.data, database, id)?;
            for chunk in members.chunks(STORED_AT_ONCE) {
                let scorings: Vec<_> =
                    chunk.iter().map(|(member, score)| Scoring { member, old: None, new: *score }).collect();
                if let Err(error) = writer.put_many(&scorings) {
                    // No key without members, and none with a part of them.
                    self.data.remove(database, key)?;
                    return Err(error.into());
                }
            }
        }
        self.reply.integer(members.len() as i64);
        Ok(())
    }
}

/// Begins an answer of members: an array of them; with their scores in the older protocol an array of both in turn, in
/// the newer one of pairs.
pub(super) fn begin_members(reply: &mut Reply, members: u64, with_scores: bool) {
    let is_flat = with_scores && reply.protocol == Protocol::Resp2;
    reply.array(if is_flat { members * 2 } else { members } as usize);
}

/// A member in an answer that [`begin_members`] began.
#[inline]
pub(super) fn answer_member(reply: &mut Reply, member: &[u8], score: f64, with_scores: bool) {
    if with_scores && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        reply.double(score);
    }
}

/// The score that a word spells.
pub(super) fn score(word: &[u8]) -> Result<f64, Refusal> {
    number::parse_f64(word).ok_or(refusal::NOT_FLOAT)
}

/// Whether a member may be stored.
pub(super) fn check_member(member: &[u8]) -> CommandResult {
    if member.len() > KEY_BYTES_MAX {
        return Err(Refusal::new(format!(
            "ERR a member of {} bytes is over the limit of {KEY_BYTES_MAX}",
            member.len()
        )));
    }
    Ok(())
}

pub(super) fn answer_score(reply: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// Offset and number of the members from one rank to another, which may be counted from the end; `None` if there are
/// none.
pub(super) fn rank_part(start: i64, stop: i64, rows: u64) -> Option<(u64, u64)> {
    let rows = rows as i64;
    let from_end = |rank: i64| if rank < 0 { rank + rows } else { rank };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(rows - 1));
    (start <= stop && start < rows).then(|| (start as u64, (stop - start) as u64 + 1))
}

/// The bounds that two words spell.
pub(super) fn score_bounds(min: &[u8], max: &[u8]) -> Option<(Bound<f64>, Bound<f64>)> {
    Some((score_bound(min)?, score_bound(max)?))
}

/// `5`, `(5`, `-inf`. Redis gives it to `strtod`, which passes over spaces, reads as far as a zero byte, rounds what is
/// too large to infinity, and takes nothing for 0.
fn score_bound(word: &[u8]) -> Option<Bound<f64>> {
    let (word, is_open) = match word {
        [b'(', rest @ ..] => (rest, true),
        _ => (word, false),
    };
    let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    let word = &word[..end];
    let start = word.iter().position(|byte| !matches!(byte, b' ' | 9..=13)).unwrap_or(0);
    let text = &word[start..];
    let score = match number::parse_f64(text) {
        Some(score) => score,
        None if word.is_empty() => 0.0,
        None if text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) => {
            std::str::from_utf8(text).ok()?.parse().ok()?
        }
        None => return None,
    };
    Some(if is_open { Bound::Excluded(score) } else { Bound::Included(score) })
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included};

    use super::{rank_part, score_bound};

    #[test]
    fn bounds_are_read_as_strtod_reads() {
        for (word, bound) in [
            (&b"5"[..], Some(Included(5.0))),
            (b"(5", Some(Excluded(5.0))),
            (b"", Some(Included(0.0))),
            (b"(", Some(Excluded(0.0))),
            (b" 1", Some(Included(1.0))),
            (b"1 ", None),
            (b" ", None),
            (b"1\0x", Some(Included(1.0))),
            (b"1e999", Some(Included(f64::INFINITY))),
            (b"-1e999", Some(Included(f64::NEG_INFINITY))),
            (b"1e-999", Some(Included(0.0))),
            (b"+inf", Some(Included(f64::INFINITY))),
            (b"(-Infinity", Some(Excluded(f64::NEG_INFINITY))),
            (b"0x10", Some(Included(16.0))),
            (b"nan", None),
            (b"x", None),
        ] {
            assert_eq!(score_bound(word), bound, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn ranks_are_counted_from_either_end() {
        for (start, stop, rows, part) in [
            (0, -1, 5, Some((0, 5))),
            (0, 0, 5, Some((0, 1))),
            (-2, -1, 5, Some((3, 2))),
            (-100, 100, 5, Some((0, 5))),
            (3, 2, 5, None),
            (5, 9, 5, None),
            (0, -6, 5, None),
            (i64::MIN, i64::MAX, 5, Some((0, 5))),
            (0, -1, 0, None),
        ] {
            assert_eq!(rank_part(start, stop, rows), part, "{start} {stop} {rows}");
        }
    }
}
