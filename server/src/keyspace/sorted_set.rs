//! Sorted sets over the table of elements. `docs/internals/format-keyspace.md` has the picture.
//!
//! A set has two parts under its id. *By score*: score and member, in the order in which Redis lists them; counted, so
//! that a rank, a count and an offset are a descent each. *By member*: five bytes of the member's hash and its score,
//! which finds the score of a member: the part by score says whether it is this member's. Members are stored once.
//!
//! Invariants:
//! 1. Each member has one entry by score.
//! 2. Each pair of a hash and a score that some member has, has one entry by member; its value counts the *further*
//!    members that share the pair, and is empty without them. (With a million members of one score, one pair of
//!    members shares its entry about every second time.)
//! 3. There is nothing else under the id. [`SortedSet::check`] looks.
//!
//! Costs: a score two descents, a rank four, a count two.
//! Not here: writing ([`super::sorted_set_writer`]), keys, kinds, watchers (`changes`), what commands make of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use quipu::{Bounds, Entry, ReadableTable, Result, TableView};
use rand::Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::data::malformed;
use super::score::{self, SCORE_BYTES_MAX};
use super::value::{CollectionId, ID_BYTES};
use super::{Data, Tables};

pub use super::sorted_set_writer::{Scoring, Writer};

const BY_SCORE: u8 = 0;
const BY_MEMBER: u8 = 1;
const PREFIX_BYTES: usize = ID_BYTES + 1;
const HASH_BYTES: usize = 5;
/// Bits of a member's hash.
pub const HASH_BITS: u32 = 8 * HASH_BYTES as u32;
/// Bytes before the score in the part by member.
const PLACE_BYTES: usize = PREFIX_BYTES + HASH_BYTES;
/// Rows read at a time where they are copied.
const CHUNK_ROWS: u64 = 256;

/// The upper 40 bits of a member's hash.
#[inline]
pub fn member_hash(hash_seed: u64, member: &[u8]) -> u64 {
    xxh3_64_with_seed(member, hash_seed) >> 24
}

fn prefix(id: CollectionId, part: u8) -> [u8; PREFIX_BYTES] {
    let mut prefix = [part; PREFIX_BYTES];
    prefix[..ID_BYTES].copy_from_slice(&id.bytes());
    prefix
}

/// The key of a member in the part by score.
#[inline]
pub fn score_key(id: CollectionId, score: f64, member: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX_BYTES + SCORE_BYTES_MAX + member.len() + 1);
    key.extend_from_slice(&prefix(id, BY_SCORE));
    key.extend_from_slice(&score::encode(score));
    key.extend_from_slice(member);
    key
}

/// Where the part by member begins that a hash has, or where it ends if `is_end`.
#[inline]
fn hash_place(id: CollectionId, hash: u64, is_end: bool) -> [u8; PLACE_BYTES] {
    let mut place = [0; PLACE_BYTES];
    place[..ID_BYTES].copy_from_slice(&id.bytes());
    // Part and hash are one number, so that the place after the last hash is right too.
    let number = (u64::from(BY_MEMBER) << (8 * HASH_BYTES)) + hash + u64::from(is_end);
    place[ID_BYTES..].copy_from_slice(&number.to_be_bytes()[8 - HASH_BYTES - 1..]);
    place
}

#[inline]
pub(super) fn member_key(id: CollectionId, hash: u64, score: f64) -> Vec<u8> {
    let mut key = Vec::with_capacity(PLACE_BYTES + SCORE_BYTES_MAX);
    key.extend_from_slice(&hash_place(id, hash, false));
    key.extend_from_slice(&score::encode(score));
    key
}

/// How many further members share an entry by member.
pub(super) fn sharers(value: &[u8]) -> Option<u32> {
    if value.is_empty() { Some(0) } else { value.try_into().ok().map(u32::from_le_bytes) }
}

/// Score and member of a key in the part by score.
#[inline]
fn take_apart(key: &[u8]) -> Result<(f64, &[u8])> {
    let after = key.get(PREFIX_BYTES..).ok_or_else(malformed)?;
    let (score, len) = score::decode(after).ok_or_else(malformed)?;
    Ok((score, &after[len..]))
}

/// A range of the part by score, as two keys: from the first on, up to the second, which is not in it.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it begins.
    pub start: Vec<u8>,
    /// Where it ends.
    pub end: Vec<u8>,
}

impl Span {
    /// All members.
    pub fn whole(id: CollectionId) -> Span {
        Span { start: prefix(id, BY_SCORE).to_vec(), end: prefix(id, BY_MEMBER).to_vec() }
    }

    /// Those whose scores lie in a range.
    pub fn of_scores(id: CollectionId, min: Bound<f64>, max: Bound<f64>) -> Span {
        let Span { start, end } = Span::whole(id);
        let before = |score| score_key(id, score, b"");
        let after = |score| {
            let mut key = score_key(id, score, b"");
            // The first key that does not begin with it. No score is all ones, so something is left.
            while let Some(last) = key.pop() {
                if last != 0xFF {
                    key.push(last + 1);
                    break;
                }
            }
            key
        };
        Span {
            start: match min {
                Bound::Unbounded => start,
                Bound::Included(score) => before(score),
                Bound::Excluded(score) => after(score),
            },
            end: match max {
                Bound::Unbounded => end,
                Bound::Included(score) => after(score),
                Bound::Excluded(score) => before(score),
            },
        }
    }

    /// Those of one score whose members lie in a range.
    pub fn of_members(id: CollectionId, score: f64, min: Bound<&[u8]>, max: Bound<&[u8]>) -> Span {
        let Span { start, end } = Span::of_scores(id, Bound::Included(score), Bound::Included(score));
        let before = |member| score_key(id, score, member);
        let after = |member| {
            let mut key = score_key(id, score, member);
            key.push(0);
            key
        };
        Span {
            start: match min {
                Bound::Unbounded => start,
                Bound::Included(member) => before(member),
                Bound::Excluded(member) => after(member),
            },
            end: match max {
                Bound::Unbounded => end,
                Bound::Included(member) => after(member),
                Bound::Excluded(member) => before(member),
            },
        }
    }
}

/// Members that stand together: how many rows of the table lie before them, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    base: u64,
    /// How many members there are.
    pub rows: u64,
}

impl Found {
    /// How many rows of the table lie before it.
    pub fn base(self) -> u64 {
        self.base
    }

    /// The offset in it of the row that has so many before it in the table.
    pub fn offset_of(self, rank: u64) -> u64 {
        rank.saturating_sub(self.base)
    }

    /// The part of it from `offset` on, of `rows` members at most.
    pub fn part(self, offset: u64, rows: u64) -> Found {
        let offset = offset.min(self.rows);
        Found { base: self.base + offset, rows: rows.min(self.rows - offset) }
    }

    /// The same part, counted from the end.
    pub fn part_from_end(self, offset: u64, rows: u64) -> Found {
        let left = self.rows - offset.min(self.rows);
        let rows = rows.min(left);
        Found { base: self.base + left - rows, rows }
    }
}

/// What the part by member says of members: those with this hash and this score are so many.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The hash of their names.
    pub hash: u64,
    /// Their score.
    pub score: f64,
    /// How many they are: one, in all but a millionth of cases.
    pub members: u32,
}

impl Named {
    fn decode(key: &[u8], value: &[u8]) -> Option<Named> {
        let mut hash = [0; 8];
        hash[8 - HASH_BYTES..].copy_from_slice(key.get(PREFIX_BYTES..PLACE_BYTES)?);
        let (score, _) = score::decode(&key[PLACE_BYTES..])?;
        Some(Named { hash: u64::from_be_bytes(hash), score, members: sharers(value)?.saturating_add(1) })
    }
}

/// A sorted set to read.
pub struct SortedSet<'v> {
    elements: TableView<'v>,
    id: CollectionId,
    hash_seed: u64,
}

impl<'v> SortedSet<'v> {
    /// The set with this id in a database that has tables.
    pub fn open(data: &'v Data<'_>, database: usize, id: CollectionId) -> Result<SortedSet<'v>> {
        let elements = data.view(&data.tables_to_write(database)?.elements)?.into_view();
        Ok(SortedSet { elements, id, hash_seed: data.keyspace().hash_seed() })
    }

    /// The set with this id in a table of elements.
    pub fn over(elements: TableView<'v>, id: CollectionId, hash_seed: u64) -> SortedSet<'v> {
        SortedSet { elements, id, hash_seed }
    }

    /// Its id.
    pub fn id(&self) -> CollectionId {
        self.id
    }

    /// What its members are hashed with.
    pub fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// How many members there are.
    pub fn len(&self) -> Result<u64> {
        self.elements.count(Bounds::prefix(&prefix(self.id, BY_SCORE)))
    }

    /// Whether there is no member: not for longer than a command takes.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Result<Option<f64>> {
        let hash = member_hash(self.hash_seed, member);
        for score in Candidates::of(&self.elements, self.id, hash)?.scores() {
            if self.elements.contains(score_key(self.id, score, member))? {
                return Ok(Some(score));
            }
        }
        Ok(None)
    }

    /// How many members stand before one that has this score.
    pub fn rank(&self, member: &[u8], score: f64) -> Result<u64> {
        let (start, key) = (prefix(self.id, BY_SCORE), score_key(self.id, score, member));
        self.elements.count(&start[..]..&key[..])
    }

    /// How many members lie in a range.
    pub fn count(&self, span: &Span) -> Result<u64> {
        if span.start >= span.end {
            return Ok(0);
        }
        self.elements.count(&span.start[..]..&span.end[..])
    }

    /// The members of a range.
    pub fn find(&self, span: &Span) -> Result<Found> {
        if span.start >= span.end {
            return Ok(Found { base: 0, rows: 0 });
        }
        let base = self.elements.rank(&span.start)?;
        Ok(Found { base, rows: self.elements.rank(&span.end)? - base })
    }

    /// All members.
    pub fn all(&self) -> Result<Found> {
        self.find(&Span::whole(self.id))
    }

    /// The members that `ZRANGEBYLEX` and its like mean. If all scores are the same, those between the bounds, in two
    /// descents. If they are not, Redis leaves the answer open; here it is what Redis does with a small set: from the
    /// first member within the bounds on (the last one if `reverse`) as long as they follow one another; every member
    /// is looked at.
    pub fn find_members(&self, min: Bound<&[u8]>, max: Bound<&[u8]>, reverse: bool) -> Result<Found> {
        let all = self.all()?;
        let Some(score) = self.common_score(all)? else {
            return self.find_among_scores(all, min, max, reverse);
        };
        self.find(&Span::of_members(self.id, score, min, max))
    }

    /// The score that all members have, if they have one.
    pub fn common_score(&self, all: Found) -> Result<Option<f64>> {
        let (mut first, mut last) = (None, None);
        self.walk(all.part(0, 1), false, |_, score| first = Some(score))?;
        self.walk(all.part_from_end(0, 1), false, |_, score| last = Some(score))?;
        Ok(first.filter(|first| last.is_none_or(|last| last == *first)))
    }

    fn find_among_scores(&self, all: Found, min: Bound<&[u8]>, max: Bound<&[u8]>, reverse: bool) -> Result<Found> {
        let is_above_min = |member: &[u8]| (min, Bound::Unbounded).contains_member(member);
        let is_below_max = |member: &[u8]| (Bound::Unbounded, max).contains_member(member);
        let nothing = Found { base: all.base, rows: 0 };
        let mut offset = 0;
        // Forwards: the first run of members within the bounds. Backwards: the run up to the last one below the end.
        let (mut run_start, mut found, mut is_over) = (None, None, false);
        let (mut first_fits, mut last_fits) = (None, false);
        self.walk(all, false, |member, _| {
            let (above, below) = (is_above_min(member), is_below_max(member));
            first_fits.get_or_insert(below);
            last_fits = above;
            if reverse {
                run_start = if above { run_start.or(Some(offset)) } else { None };
                if below {
                    found = run_start.map(|start| (start, offset + 1));
                }
            } else if !is_over && (above || found.is_some()) {
                if below {
                    found = Some((found.map_or(offset, |(start, _)| start), offset + 1));
                } else {
                    is_over = true;
                }
            }
            offset += 1;
        })?;
        Ok(match found {
            Some((start, end)) if first_fits == Some(true) && last_fits => all.part(start, end - start),
            _ => nothing,
        })
    }

    /// Calls `visit` with each member and its score, in order or from the last to the first.
    pub fn walk(&self, found: Found, reverse: bool, mut visit: impl FnMut(&[u8], f64)) -> Result<()> {
        let Found { base, rows } = found;
        if reverse || rows <= CHUNK_ROWS {
            let mut left = rows;
            while left > 0 {
                let chunk = left.min(CHUNK_ROWS);
                let page = self.elements.page(.., base + left - chunk, chunk as usize)?;
                let mut see = |entry: &Entry| -> Result<()> {
                    let (score, member) = take_apart(&entry.key)?;
                    visit(member, score);
                    Ok(())
                };
                if reverse {
                    page.entries.iter().rev().try_for_each(&mut see)?;
                } else {
                    page.entries.iter().try_for_each(&mut see)?;
                }
                left -= chunk;
            }
            return Ok(());
        }
        let Some(first) = self.elements.nth(.., base)? else { return Err(malformed()) };
        let (mut left, mut outcome) = (rows, Ok(()));
        self.elements.for_each(&first.key[..].., |key, _| {
            match take_apart(key) {
                Ok((score, member)) => visit(member, score),
                Err(error) => outcome = Err(error),
            }
            left -= 1;
            left > 0 && outcome.is_ok()
        })?;
        outcome
    }

    /// Calls `visit` with `rows` different members, each subset as likely as any other.
    pub fn sample(&self, rows: usize, rng: &mut impl Rng, mut visit: impl FnMut(&[u8], f64)) -> Result<()> {
        for entry in self.elements.sample(Bounds::prefix(&prefix(self.id, BY_SCORE)), rows, rng)? {
            let (score, member) = take_apart(&entry.key)?;
            visit(member, score);
        }
        Ok(())
    }

    /// Calls `visit` with the members that come after a place, which is a key of the part by score, until it says
    /// false.
    pub fn walk_after(&self, place: &[u8], mut visit: impl FnMut(&[u8], &[u8], f64) -> bool) -> Result<()> {
        let end = prefix(self.id, BY_MEMBER);
        let bounds = Bounds::new(Bound::Excluded(place), Bound::Excluded(&end));
        let mut outcome = Ok(());
        self.elements.for_each(bounds, |key, _| match take_apart(key) {
            Ok((score, member)) => visit(key, member, score),
            Err(error) => {
                outcome = Err(error);
                false
            }
        })?;
        outcome
    }

    /// Whether a member is there with this score.
    pub fn has(&self, member: &[u8], score: f64) -> Result<bool> {
        self.elements.contains(score_key(self.id, score, member))
    }

    /// Calls `visit` with what the part by member has from a hash on, in the order of hashes, until it says false.
    pub fn walk_hashes(&self, from: u64, mut visit: impl FnMut(Named) -> bool) -> Result<()> {
        if from >> HASH_BITS != 0 {
            return Ok(());
        }
        let (start, end) = (hash_place(self.id, from, false), prefix(self.id, BY_MEMBER + 1));
        let mut outcome = Ok(());
        self.elements.for_each(Bounds::new(Bound::Included(&start), Bound::Excluded(&end)), |key, value| {
            match Named::decode(key, value) {
                Some(named) => visit(named),
                None => {
                    outcome = Err(malformed());
                    false
                }
            }
        })?;
        outcome
    }

    /// What is broken, in words; nothing if the set is whole.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let mut expected: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut members: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        let mut rows = 0;
        self.elements.for_each(Bounds::prefix(&prefix(self.id, BY_SCORE)), |key, value| {
            rows += 1;
            match take_apart(key) {
                Ok((score, member)) => {
                    let hash = member_hash(self.hash_seed, member);
                    *expected.entry(member_key(self.id, hash, score)).or_default() += 1;
                    if let Some(other) = members.insert(member.to_vec(), score) {
                        faults.push(format!("{} has the scores {other} and {score}", member.escape_ascii()));
                    }
                }
                Err(_) => faults.push(format!("{} is not a score and member", key.escape_ascii())),
            }
            if !value.is_empty() {
                faults.push(format!("{} has a value", key.escape_ascii()));
            }
            true
        })?;
        if rows != self.len()? {
            faults.push(format!("{rows} members are counted as {}", self.len()?));
        }
        self.elements.for_each(Bounds::prefix(&prefix(self.id, BY_MEMBER)), |key, value| {
            let stored = sharers(value).map(|further| further + 1);
            let real = expected.remove(key);
            if stored != real {
                faults.push(format!("{} stands for {stored:?} members instead of {real:?}", key.escape_ascii()));
            }
            true
        })?;
        faults.extend(expected.keys().map(|key| format!("{} is missing", key.escape_ascii())));
        let both = self.elements.count(&prefix(self.id, BY_SCORE)[..]..&prefix(self.id, BY_MEMBER + 1)[..])?;
        if self.elements.count(Bounds::prefix(&self.id.bytes()))? != both {
            faults.push("there is more than the two parts under its id".to_owned());
        }
        Ok(faults)
    }
}

/// Whether a range of members holds one.
trait ContainsMember {
    fn contains_member(&self, member: &[u8]) -> bool;
}

impl ContainsMember for (Bound<&[u8]>, Bound<&[u8]>) {
    fn contains_member(&self, member: &[u8]) -> bool {
        Bounds::new(self.0, self.1).contains(member)
    }
}

/// The scores that members with a hash have: one in all but a millionth of cases.
struct Candidates {
    first: Option<f64>,
    others: Vec<f64>,
}

impl Candidates {
    fn of(elements: &TableView<'_>, id: CollectionId, hash: u64) -> Result<Candidates> {
        let (start, end) = (hash_place(id, hash, false), hash_place(id, hash, true));
        let mut candidates = Candidates { first: None, others: Vec::new() };
        let mut is_malformed = false;
        elements.for_each(&start[..]..&end[..], |key, _| {
            match score::decode(&key[PLACE_BYTES..]) {
                Some((score, _)) if candidates.first.is_none() => candidates.first = Some(score),
                Some((score, _)) => candidates.others.push(score),
                None => is_malformed = true,
            }
            true
        })?;
        if is_malformed { Err(malformed()) } else { Ok(candidates) }
    }

    fn scores(self) -> impl Iterator<Item = f64> {
        self.first.into_iter().chain(self.others)
    }
}

/// The scores of many members of sets, with descents that are interleaved. `None` as a set: it does not exist.
pub fn scores_many(
    data: &Data<'_>,
    tables: &Tables,
    sets: &[Option<CollectionId>],
    members: &[&[u8]],
) -> Result<Vec<Option<f64>>> {
    let elements = data.view(&tables.elements)?;
    let hash_seed = data.keyspace().hash_seed();
    let asked = || sets.iter().zip(members).enumerate().filter_map(|(at, (id, member))| id.map(|id| (at, id, *member)));
    let hashes: Vec<u64> = asked().map(|(_, _, member)| member_hash(hash_seed, member)).collect();
    let places: Vec<[u8; PLACE_BYTES]> =
        asked().zip(&hashes).map(|((_, id, _), &hash)| hash_place(id, hash, false)).collect();
    // Ranks that are not used: the descents fetch the pages, all together, in which each member is then looked up
    // alone.
    elements.rank_many(&places)?;
    let (mut numbers, mut found, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for ((at, id, member), hash) in asked().zip(hashes) {
        for score in Candidates::of(&elements, id, hash)?.scores() {
            numbers.push(at);
            found.push(score);
            keys.push(score_key(id, score, member));
        }
    }
    let mut scores = vec![None; members.len()];
    for ((number, score), value) in numbers.into_iter().zip(found).zip(elements.get_many(&keys)?) {
        if value.is_some() {
            scores[number] = Some(score);
        }
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the example in `docs/internals/format-keyspace.md`.
    #[test]
    fn the_page_is_right() {
        let page = include_str!("../../../docs/internals/format-keyspace.md");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let id = CollectionId(5);
        let members = [(-3.0, b"c"), (1.0, b"a"), (1.5, b"b")];
        let mut keys: Vec<Vec<u8>> = members.iter().map(|(score, member)| score_key(id, *score, *member)).collect();
        keys.extend(members.iter().map(|(score, member)| member_key(id, member_hash(0, *member), *score)));
        let missing: Vec<String> =
            keys.iter().map(|key| format!("| `{}` | |", hex(key))).filter(|row| !page.contains(row)).collect();
        assert!(missing.is_empty(), "the page lacks {missing:#?}");
    }

    #[test]
    fn the_place_after_the_last_hash_is_in_the_next_part() {
        let id = CollectionId(1);
        let last = (1 << (8 * HASH_BYTES)) - 1;
        assert_eq!(hash_place(id, last, true)[..PREFIX_BYTES], prefix(id, BY_MEMBER + 1));
        assert!(hash_place(id, last, true) > hash_place(id, last, false));
    }

    #[test]
    fn spans_hold_what_they_say() {
        let id = CollectionId(9);
        let scores = [f64::NEG_INFINITY, -1e300, -2.5, -1.0, 0.0, 5e-324, 0.1, 1.0, 255.0, f64::MAX, f64::INFINITY];
        for &min in &scores {
            for &max in &scores {
                for open in 0..4 {
                    let low = if open & 1 != 0 { Bound::Excluded(min) } else { Bound::Included(min) };
                    let high = if open & 2 != 0 { Bound::Excluded(max) } else { Bound::Included(max) };
                    let span = Span::of_scores(id, low, high);
                    for &score in &scores {
                        for member in [&b""[..], b"\xff\xff", b"m"] {
                            let key = score_key(id, score, member);
                            let is_inside = span.start <= key && key < span.end;
                            let is_meant = (if open & 1 != 0 { score > min } else { score >= min })
                                && (if open & 2 != 0 { score < max } else { score <= max });
                            assert_eq!(is_inside, is_meant, "{score} in {low:?} to {high:?}");
                        }
                    }
                }
            }
        }
    }
}
