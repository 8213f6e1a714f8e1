//! Reads a sorted set in an order that does not change: that of its members' hashes.
//!
//! A scan reads the part by member, and its cursor is the hash at which it continues. So nothing needs to be remembered
//! between two calls, whatever happens to scores meanwhile: a member that stays in the set keeps its place in the scan.
//!
//! That part has a hash and a score; the member itself stands in the part by score. Where few members share a score,
//! all of them are looked at. Where many do, the whole part by score is read once for a [`Window`] of hashes, with the
//! members that have them. A window is only a hint: what it says is looked up in the set as it is now, and what it does
//! not know is looked for.
//!
//! Costs: for `n` members, `k` of which share a score, O(log n + k) each where `k` is small; else O(n) for a window of
//! some 65,000 members, and O(log n) each.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu::Result;

use super::sorted_set::{HASH_BITS, Named, SortedSet, Span, member_hash};
use super::value::CollectionId;

/// A member with its score and its hash.
#[derive(Clone, Debug)]
pub struct Hashed {
    /// The hash of its name.
    pub hash: u64,
    /// Its name.
    pub member: Vec<u8>,
    /// Its score.
    pub score: f64,
}

/// Members whose hashes are below a limit, which is lowered when they become too many.
struct Collected {
    members: Vec<Hashed>,
    bytes: usize,
    bytes_max: usize,
    /// The first hash that is left out.
    end: u64,
}

impl Collected {
    fn below(end: u64, bytes_max: usize) -> Collected {
        Collected { members: Vec::new(), bytes: 0, bytes_max, end }
    }

    fn push(&mut self, hash: u64, member: &[u8], score: f64) {
        if hash < self.end {
            self.bytes += member.len() + size_of::<Hashed>();
            self.members.push(Hashed { hash, member: member.to_vec(), score });
            if self.bytes > self.bytes_max {
                self.cut();
            }
        }
    }

    fn sort(&mut self) {
        self.members.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.member.cmp(&b.member)));
    }

    /// Leaves out the upper half, but not the first hash.
    fn cut(&mut self) {
        self.sort();
        let first = self.members.first().map(|member| member.hash);
        let mut bytes = 0;
        let cut = self.members.iter().position(|member| {
            bytes += member.member.len() + size_of::<Hashed>();
            bytes > self.bytes_max / 2 && Some(member.hash) != first
        });
        if let Some(hash) = cut.map(|cut| self.members[cut].hash) {
            self.end = hash;
            self.members.retain(|member| member.hash < hash);
            self.bytes = self.members.iter().map(|member| member.member.len() + size_of::<Hashed>()).sum();
        }
    }
}

/// Members of a set whose hashes lie in a range, in order, as they were at some moment.
pub struct Window {
    start: u64,
    end: u64,
    members: Vec<Hashed>,
}

/// Members of a window at most, as far as hashes are spread evenly.
const WINDOW_ROWS_MAX: u64 = 1 << 16;
/// Bytes of a window at most.
const WINDOW_BYTES_MAX: usize = 8 << 20;
/// Windows that are kept.
const WINDOWS_MAX: usize = 4;
/// How long an unused one is kept.
const IDLE_MS_MAX: u64 = 60_000;

impl Window {
    /// Reads a set for those of its hashes that begin with `start`. One step a member of the set.
    fn read(set: &SortedSet<'_>, start: u64) -> Result<Window> {
        let all = set.all()?;
        let width = (u128::from(WINDOW_ROWS_MAX) << HASH_BITS) / u128::from(all.rows.max(1));
        let end = start.saturating_add(u64::try_from(width).unwrap_or(u64::MAX).max(1)).min(1 << HASH_BITS);
        let mut collected = Collected::below(end, WINDOW_BYTES_MAX);
        let hash_seed = set.hash_seed();
        set.walk(all, false, |member, score| {
            let hash = member_hash(hash_seed, member);
            if hash >= start {
                collected.push(hash, member, score);
            }
        })?;
        collected.sort();
        Ok(Window { start, end: collected.end, members: collected.members })
    }

    fn with_hash(&self, hash: u64) -> &[Hashed] {
        let start = self.members.partition_point(|member| member.hash < hash);
        let end = self.members.partition_point(|member| member.hash <= hash);
        &self.members[start..end]
    }
}

/// The windows of the sets that were read last.
#[derive(Default)]
pub struct Windows {
    /// Those that were used last stand at the end.
    kept: Mutex<VecDeque<(CollectionId, u64, Arc<Window>)>>,
}

impl Windows {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(CollectionId, u64, Arc<Window>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets unused ones.
    pub fn end_idle(&self, now_ms: u64) {
        self.kept().retain(|(_, used_ms, _)| used_ms + IDLE_MS_MAX > now_ms);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, id: CollectionId, hash: u64, now_ms: u64) -> Option<Arc<Window>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(of, _, window)| *of == id && (window.start..window.end).contains(&hash))?;
        let (_, _, window) = kept.remove(at)?;
        kept.push_back((id, now_ms, window.clone()));
        Some(window)
    }

    fn keep(&self, id: CollectionId, window: Arc<Window>, now_ms: u64) {
        let mut kept = self.kept();
        // It takes the place of what overlaps it.
        kept.retain(|(of, _, other)| *of != id || other.end <= window.start || window.end <= other.start);
        kept.push_back((id, now_ms, window));
        while kept.len() > WINDOWS_MAX {
            kept.pop_front();
        }
    }
}

/// What a step of a scan comes to.
pub enum Portion {
    /// Members in the order of their hashes, and the hash at which the scan goes on; `None` at its end.
    Members(Vec<Hashed>, Option<u64>),
    /// The set is to be read as a whole first, which [`Scan::may_read_all`] has not allowed.
    ReadsAll,
}

/// A step of a scan of a set.
pub struct Scan<'s> {
    /// The windows to look at.
    pub windows: &'s Windows,
    /// The time.
    pub now_ms: u64,
    /// How many members are wanted.
    pub rows: u64,
    /// How many bytes they should have together at most.
    pub bytes_max: usize,
    /// Whether the whole set may be read.
    pub may_read_all: bool,
}

/// Members that are looked at for each that is wanted, before a window is read.
const LOOKED_AT_MAX: u64 = 32;

impl Scan<'_> {
    /// The members from a hash on.
    pub fn step(&self, set: &SortedSet<'_>, from: u64) -> Result<Portion> {
        let (mut named, mut next) = (Vec::new(), None);
        let (mut members, mut last) = (0, None);
        set.walk_hashes(from, |entry| {
            if members >= self.rows && last != Some(entry.hash) {
                next = Some(entry.hash);
                return false;
            }
            members += u64::from(entry.members);
            last = Some(entry.hash);
            named.push(entry);
            true
        })?;
        let mut found = Collected::below(next.unwrap_or(1 << HASH_BITS), self.bytes_max);
        let window = self.windows.find(set.id(), from, self.now_ms);
        let mut unknown = named;
        if let Some(window) = &window {
            unknown = look_up(set, window, unknown, &mut found)?;
            if unknown.iter().all(|named| named.hash >= window.end) && window.end < found.end {
                // The rest is another window's.
                found.end = window.end;
                unknown.clear();
            }
        }
        if !unknown.is_empty() && !self.look_among_scores(set, &mut unknown, &mut found)? {
            if !self.may_read_all {
                return Ok(Portion::ReadsAll);
            }
            let window = Arc::new(Window::read(set, from)?);
            self.windows.keep(set.id(), window.clone(), self.now_ms);
            found.end = found.end.min(window.end);
            look_up(set, &window, unknown, &mut found)?;
        }
        found.sort();
        let end = found.end;
        found.members.retain(|member| member.hash < end);
        let is_cut = next.is_none_or(|next| end < next) && end < 1 << HASH_BITS;
        Ok(Portion::Members(found.members, if is_cut { Some(end) } else { next }))
    }

    /// Looks for members among all that have their scores, if those are few. Says whether they were.
    fn look_among_scores(&self, set: &SortedSet<'_>, unknown: &mut [Named], found: &mut Collected) -> Result<bool> {
        let rows_max = LOOKED_AT_MAX * (unknown.len() as u64 + LOOKED_AT_MAX);
        unknown.sort_unstable_by(|a, b| a.score.total_cmp(&b.score).then(a.hash.cmp(&b.hash)));
        let (mut rows, mut groups) = (0, Vec::new());
        for group in unknown.chunk_by(|a, b| a.score == b.score) {
            let score = group[0].score;
            let of_score = set.find(&Span::of_scores(set.id(), Bound::Included(score), Bound::Included(score)))?;
            rows += of_score.rows;
            if rows > rows_max {
                return Ok(false);
            }
            groups.push((group, of_score));
        }
        let hash_seed = set.hash_seed();
        for (group, of_score) in groups {
            set.walk(of_score, false, |member, score| {
                let hash = member_hash(hash_seed, member);
                if group.binary_search_by_key(&hash, |named| named.hash).is_ok() {
                    found.push(hash, member, score);
                }
            })?;
        }
        Ok(true)
    }
}

/// Looks up members that a window knows. Returns those that it does not.
fn look_up(set: &SortedSet<'_>, window: &Window, wanted: Vec<Named>, found: &mut Collected) -> Result<Vec<Named>> {
    let mut unknown = Vec::new();
    for named in wanted {
        let mut members = 0;
        let candidates = window.with_hash(named.hash);
        for candidate in candidates {
            members += u32::from(set.has(&candidate.member, named.score)?);
        }
        if members < named.members {
            unknown.push(named);
            continue;
        }
        for candidate in candidates {
            if set.has(&candidate.member, named.score)? {
                found.push(named.hash, &candidate.member, named.score);
            }
        }
    }
    Ok(unknown)
}
