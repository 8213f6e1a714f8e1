//! Positions, sorted sets and transactions, each question with the answer it must get.

use super::{Batch, Dialect, Request, Row, iproto, resp};
use crate::rows::{Draw, Rows};

/// What is asked about positions among rows with the keys 0 to `rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// How many rows there are between two keys.
    Count,
    /// How many rows there are below a key.
    Rank,
    /// The row of that number.
    Nth,
}

impl Position {
    pub(crate) const ALL: [Position; 3] = [Position::Count, Position::Rank, Position::Nth];

    /// As in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Position::Count => "count",
            Position::Rank => "rank",
            Position::Nth => "nth",
        }
    }

    /// Adds a random question. Tarantool's protocol knows [`Position::Nth`] only, as a select with an offset.
    pub(crate) fn push(self, dialect: Dialect, batch: &mut Batch, rows: u64, draw: &mut Draw) {
        let (number, sync) = (draw.below(rows), batch.len());
        let key = number.to_be_bytes();
        batch.push(|out, answer| match (dialect, self) {
            (Dialect::Resp, Position::Count) => {
                let end = number + draw.below(rows - number + 1);
                let (from, to) = ([b"[", &key[..]].concat(), [b"(", &end.to_be_bytes()[..]].concat());
                resp::command(out, &[b"Q.COUNT", &from, &to]);
                resp::integer(answer, end - number);
            }
            (Dialect::Resp, Position::Rank) => {
                resp::command(out, &[b"Q.RANK", &key]);
                resp::integer(answer, number);
            }
            (Dialect::Resp, Position::Nth) => {
                resp::command(out, &[b"Q.NTH", number.to_string().as_bytes()]);
                resp::bulk(answer, &key);
            }
            (Dialect::Iproto, _) => {
                iproto::select_offset(out, sync, number);
                iproto::tuple(answer, number, &Row::new(number, false).value);
            }
        });
    }
}

/// A sorted set whose scores are the numbers 0 to its size, so that a member's score is its rank.
pub(crate) struct SortedSet {
    names: Rows,
    /// Of each member.
    scores: Vec<u64>,
    /// The member of each score.
    members: Vec<u64>,
}

/// Its key.
const SET: &[u8] = b"set";
/// The length of a member's name.
pub(crate) const NAME_BYTES: usize = 16;
/// How many members a page has.
const PAGE: u64 = 10;

impl SortedSet {
    /// One whose members have these scores, each of which is there once.
    pub(crate) fn new(seed: u64, scores: Vec<u64>) -> Self {
        let mut members = vec![0; scores.len()];
        for (member, score) in scores.iter().enumerate() {
            members[*score as usize] = member as u64;
        }
        SortedSet { names: Rows::new(seed, scores.len() as u64, NAME_BYTES, 0), scores, members }
    }

    fn size(&self) -> u64 {
        self.scores.len() as u64
    }

    /// Adds the request that puts a member into the set, where it must be new.
    pub(crate) fn push_member(&self, batch: &mut Batch, member: u64) {
        batch.push(|out, answer| {
            let mut score = Vec::with_capacity(20);
            resp::decimal(&mut score, self.scores[member as usize]);
            resp::command(out, &[b"ZADD", SET, &score, &self.names.key(member)]);
            resp::integer(answer, 1);
        });
    }
}

/// What is asked about a whole sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortedSetQuestion {
    /// A member's rank.
    Rank,
    /// Ten members from a random rank on.
    Range,
    /// How many members have a score between two.
    Count,
}

impl SortedSetQuestion {
    pub(crate) const ALL: [SortedSetQuestion; 3] =
        [SortedSetQuestion::Rank, SortedSetQuestion::Range, SortedSetQuestion::Count];

    /// As in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SortedSetQuestion::Rank => "zrank",
            SortedSetQuestion::Range => "zrange of 10",
            SortedSetQuestion::Count => "zcount",
        }
    }

    /// Adds a random question.
    pub(crate) fn push(self, set: &SortedSet, batch: &mut Batch, draw: &mut Draw) {
        let number = draw.below(set.size());
        let decimal = |number: u64| number.to_string().into_bytes();
        batch.push(|out, answer| match self {
            SortedSetQuestion::Rank => {
                resp::command(out, &[b"ZRANK", SET, &set.names.key(number)]);
                resp::integer(answer, set.scores[number as usize]);
            }
            SortedSetQuestion::Range => {
                let last = (number + PAGE).min(set.size()) - 1;
                resp::command(out, &[b"ZRANGE", SET, &decimal(number), &decimal(last)]);
                resp::array(answer, last + 1 - number);
                for score in number..=last {
                    resp::bulk(answer, &set.names.key(set.members[score as usize]));
                }
            }
            SortedSetQuestion::Count => {
                let last = number + draw.below(set.size() - number);
                resp::command(out, &[b"ZCOUNT", SET, &decimal(number), &decimal(last)]);
                resp::integer(answer, last + 1 - number);
            }
        });
    }
}

/// One question in a transaction of its own: `MULTI`, the question and `EXEC`, sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// A read of one row.
    Get,
    /// A count of the rows between two keys.
    Count,
}

impl Transaction {
    pub(crate) const ALL: [Transaction; 2] = [Transaction::Get, Transaction::Count];

    /// As in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transaction::Get => "MULTI, GET, EXEC",
            Transaction::Count => "MULTI, Q.COUNT, EXEC",
        }
    }

    /// Adds the three requests of one transaction among rows with the keys 0 to `rows`.
    pub(crate) fn push(self, batch: &mut Batch, rows: u64, draw: &mut Draw) {
        push_status(batch, b"MULTI", "OK");
        let mut question = Batch::default();
        match self {
            Transaction::Get => {
                Dialect::Resp.push(&mut question, Request::Select, &Row::new(draw.below(rows), false));
            }
            Transaction::Count => Position::Count.push(Dialect::Resp, &mut question, rows, draw),
        }
        batch.push(|out, answer| {
            out.extend_from_slice(question.requests());
            resp::status(answer, "QUEUED");
        });
        batch.push(|out, answer| {
            resp::command(out, &[b"EXEC"]);
            resp::array(answer, 1);
            answer.extend_from_slice(question.answer(0).unwrap_or_default());
        });
    }
}

/// A transaction that stays open: `MULTI` and so many `SET`s of rows that are not there.
pub(crate) fn queued_sets(rows: u64, sets: u64) -> Batch {
    let mut batch = Batch::default();
    push_status(&mut batch, b"MULTI", "OK");
    for number in 0..sets {
        let row = Row::new(rows + number, false);
        batch.push(|out, answer| {
            resp::command(out, &[b"SET", &row.key.to_be_bytes(), &row.value]);
            resp::status(answer, "QUEUED");
        });
    }
    batch
}

/// Its end.
pub(crate) fn withdraw_queued() -> Batch {
    let mut batch = Batch::default();
    push_status(&mut batch, b"DISCARD", "OK");
    batch
}

fn push_status(batch: &mut Batch, command: &[u8], status: &str) {
    batch.push(|out, answer| {
        resp::command(out, &[command]);
        resp::status(answer, status);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_answered_in_an_array() {
        let mut batch = Batch::default();
        Transaction::Count.push(&mut batch, 1, &mut Draw::new(1));
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.answer(1), Some(&b"+QUEUED\r\n"[..]));
        let executed = batch.answer(2).unwrap();
        assert!(executed.starts_with(b"*1\r\n:"), "{}", executed.escape_ascii());
        assert!(batch.requests().starts_with(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$7\r\nQ.COUNT\r\n$9\r\n["));
    }

    #[test]
    fn a_page_at_the_end_of_a_sorted_set_is_short() {
        let set = SortedSet::new(1, vec![2, 0, 1]);
        let mut draw = Draw::new(1);
        for _ in 0..20 {
            let mut batch = Batch::default();
            SortedSetQuestion::Range.push(&set, &mut batch, &mut draw);
            let answer = batch.answer(0).unwrap();
            let members = answer[1] - b'0';
            assert!((1..=3).contains(&members));
            // The last one is the member of the highest score.
            assert!(answer[..answer.len() - 2].ends_with(&set.names.key(0)));
        }
    }
}
