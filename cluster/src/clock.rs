//! The clock of a node: hybrid logical timestamps (Kulkarni et al., 2014).
//!
//! A timestamp is wall time in milliseconds times 65,536, plus a counter. The clock gives each once, above every one
//! that it gave or met, so a write that has seen another outranks it whatever the wall clocks say.
//!
//! Invariants:
//! 1. A timestamp is given once, over restarts too: none is given as high as the limit that is stored. The limit is
//!    stored in the commit of the first stamp above the last one, and nothing is sent before that commit is durable. A
//!    restart goes on from the limit, [`LEAD_MS`] ahead of the last stamp at most.
//! 2. The clock follows what it meets only up to [`Clock::bound`] ahead of the wall. Above a version further ahead
//!    (an entity that was written while some clock was wrong) it gives stamps that leave it where it is.
//! 3. A clock that finds itself further ahead than the bound, because its wall clock was wrong and is right again, goes
//!    back to the wall and begins its next *turn*, as at each start. The lowest 8 bits of a timestamp are the turn it
//!    was given in, so no turn gives a timestamp of another. (After 256 turns their numbers come again; by then a
//!    timestamp can come twice only where two turns with one number were wrong by the same time, to the millisecond.)
//! 4. Timestamps of one turn grow, but for those above versions far ahead, which grow for one entity.
//!
//! Cost: an addition; a put of nine bytes four times a second at most.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Now, Version};
use crate::mutations::Mutations;

/// How far the stored limit is ahead of the stamp that moves it.
pub const LEAD_MS: u64 = 250;
const COUNTER_BITS: u32 = 16;
/// The timestamps of a turn lie so far apart.
const STEP: u64 = 1 << 8;
/// Ranges of far stamps that are remembered apart; of more, the lowest two become one.
const FAR_RANGES_MAX: usize = 64;

/// The first timestamp of a millisecond.
pub fn time_of_ms(ms: u64) -> u64 {
    ms.min(u64::MAX >> COUNTER_BITS) << COUNTER_BITS
}

/// The millisecond of a timestamp.
pub fn ms_of_time(time: u64) -> u64 {
    time >> COUNTER_BITS
}

/// A version that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The version.
    pub version: Version,
    /// Whether it is above a version that is further ahead than clocks may be: replicas take it only because of that.
    pub is_far: bool,
    /// Whether [`Clock::fact`] has to be stored before the version leaves this node.
    pub is_to_be_stored: bool,
}

/// Gives versions.
#[derive(Clone, Debug)]
pub struct Clock {
    node: NodeId,
    turn: u8,
    /// The highest timestamp given or met, but for far ones.
    last: u64,
    /// What is stored.
    limit: u64,
    ahead_ms_max: u64,
    /// Where far stamps of this turn lie: first and last of ranges that do not touch.
    far: BTreeMap<u64, u64>,
    /// Times that it went back to the wall.
    pub went_back: u64,
    /// Stamps given above versions far ahead.
    pub far_stamps: u64,
    /// Faults that a test puts in.
    pub(crate) mutations: Mutations,
}

impl Clock {
    /// The next turn of the clock of `node`, from what [`Clock::fact`] was when it was stored last. It follows others
    /// up to `ahead_ms_max` ahead of the wall. The fact has to be stored before the first stamp.
    pub fn new(node: NodeId, fact: Option<&[u8]>, ahead_ms_max: u64) -> Clock {
        let stored = fact.and_then(|fact| {
            let (limit, rest) = fact.split_first_chunk()?;
            Some((u64::from_le_bytes(*limit), rest.first()?.wrapping_add(1)))
        });
        let (limit, turn) = stored.unwrap_or_default();
        let far = BTreeMap::new();
        let mutations = Mutations::default();
        Clock { node, turn, last: limit, limit, ahead_ms_max, far, went_back: 0, far_stamps: 0, mutations }
    }

    /// The limit and the turn, to be stored.
    pub fn fact(&self) -> [u8; 9] {
        let mut fact = [self.turn; 9];
        fact[..8].copy_from_slice(&self.limit.to_le_bytes());
        fact
    }

    /// The next version, above `above` too; none if there is none.
    pub fn stamp(&mut self, now: Now, above: Version) -> Option<Stamp> {
        let bound = self.bound(now);
        let is_far = above.time > bound && !self.mutations.far_stamp_moves_clock();
        let mut is_to_be_stored = false;
        // Before a far stamp too: below `last` this turn may have given it.
        if self.last > bound && !self.mutations.clock_never_goes_back() {
            (self.last, self.limit, self.turn) = (0, 0, self.turn.wrapping_add(1));
            self.far.clear();
            self.went_back += 1;
            is_to_be_stored = true;
        }
        let time = if is_far {
            self.far_stamps += 1;
            self.far_stamp(above.time)
        } else {
            let at_least = self.last.max(above.time).max(time_of_ms(now.wall_ms).saturating_sub(1));
            self.last = self.next_after(at_least);
            self.pass_far_stamps();
            if self.last >= self.limit {
                self.limit = self.last.saturating_add(time_of_ms(LEAD_MS));
                is_to_be_stored = true;
            }
            self.last
        };
        let version = Version { time, node: self.node };
        (version > above).then_some(Stamp { version, is_far, is_to_be_stored })
    }

    /// The first timestamp of this turn after another.
    fn next_after(&self, time: u64) -> u64 {
        let same = time - time % STEP + u64::from(self.turn);
        if same > time { same } else { same.saturating_add(STEP) }
    }

    /// A timestamp above `above` that this turn has not given.
    fn far_stamp(&mut self, above: u64) -> u64 {
        let mut time = self.next_after(above);
        let mut first = time;
        // In a range, or next to one: after its end.
        while let Some((low, high)) = self.far.range(..=time.saturating_add(STEP)).next_back().map(|(l, h)| (*l, *h))
            && high.saturating_add(STEP) >= time
        {
            self.far.remove(&low);
            first = first.min(low);
            time = time.max(self.next_after(high));
        }
        self.far.insert(first, time);
        if self.far.len() > FAR_RANGES_MAX
            && let Some((low, _)) = self.far.pop_first()
            && let Some((_, high)) = self.far.pop_first()
        {
            self.far.insert(low, high);
        }
        time
    }

    /// Where time has come to far stamps that were given, it goes on after them.
    fn pass_far_stamps(&mut self) {
        while let Some((low, high)) = self.far.first_key_value().map(|(low, high)| (*low, *high))
            && low <= self.last
        {
            self.far.pop_first();
            if high >= self.last {
                self.last = self.next_after(high);
            }
        }
    }

    /// Notes a version that was met, unless it is too far ahead.
    pub fn meet(&mut self, now: Now, version: Version) {
        if version.time <= self.bound(now) {
            self.last = self.last.max(version.time);
        }
    }

    /// The highest timestamp that is taken from others.
    pub fn bound(&self, now: Now) -> u64 {
        time_of_ms(now.wall_ms.saturating_add(self.ahead_ms_max))
    }

    /// How far the last stamp is ahead of the wall.
    pub fn ahead_ms(&self, now: Now) -> u64 {
        ms_of_time(self.last).saturating_sub(now.wall_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn at(wall_ms: u64) -> Now {
        Now { ticks_ms: 0, wall_ms }
    }

    fn ahead(ms: u64) -> Version {
        Version { time: time_of_ms(ms), node: NodeId(9) }
    }

    fn stamp(clock: &mut Clock, wall_ms: u64, above: Version) -> Version {
        clock.stamp(at(wall_ms), above).unwrap().version
    }

    #[test]
    fn versions_grow_whatever_the_wall_clock_does_and_over_restarts() {
        let mut clock = Clock::new(NodeId(3), None, 60_000);
        let (mut last, mut fact) = (Version::ZERO, clock.fact());
        for wall_ms in [1000, 1000, 1001, 5, 5, 2000, 1999, 50_000, 3] {
            let given = clock.stamp(at(wall_ms), Version::ZERO).unwrap();
            if given.is_to_be_stored {
                fact = clock.fact();
            }
            let limit = Clock::new(NodeId(3), Some(&fact), 60_000).limit;
            assert!(given.version > last && given.version.time < limit, "{given:?} after {last}, below {limit}");
            last = given.version;
        }
        let mut again = Clock::new(NodeId(3), Some(&fact), 60_000);
        let given = again.stamp(at(4), Version::ZERO).unwrap();
        assert!(given.version > last && given.version.time <= last.time + time_of_ms(LEAD_MS) + STEP);
        assert!(given.is_to_be_stored);
    }

    #[test]
    fn the_limit_is_stored_four_times_a_second() {
        let mut clock = Clock::new(NodeId(0), None, 60_000);
        let is_stored = |n: &u64| clock.stamp(at(5000 + n / 10), Version::ZERO).unwrap().is_to_be_stored;
        let stored = (0..10_000u64).filter(is_stored).count();
        assert!((4..=5).contains(&stored), "{stored}");
    }

    #[test]
    fn a_stamp_tops_what_was_met_and_what_is_stored_but_not_what_is_far_ahead() {
        let mut clock = Clock::new(NodeId(0), None, 60_000);
        clock.meet(at(1000), ahead(61_000));
        assert!(stamp(&mut clock, 1000, Version::ZERO) > ahead(61_000));
        clock.meet(at(1000), ahead(90_000));
        assert!(stamp(&mut clock, 1000, Version::ZERO) < ahead(90_000));
        // A replica has it stored.
        let given = clock.stamp(at(1000), ahead(90_000)).unwrap();
        assert!(given.version > ahead(90_000) && given.is_far);
        assert_eq!(clock.stamp(at(1000), Version { time: u64::MAX, node: NodeId(0) }), None, "there is nothing above");
    }

    /// A client wrote an entity that an hour's error of some clock had left in the future, and the clock that stamped
    /// that write stood in the future from then on, over restarts: its stamps of all other entities were refused.
    #[test]
    fn a_stamp_above_a_far_version_leaves_the_clock_and_its_limit_where_they_are() {
        let mut clock = Clock::new(NodeId(0), None, 60_000);
        let before = stamp(&mut clock, 1000, Version::ZERO);
        let fact = clock.fact();
        let far = stamp(&mut clock, 1000, ahead(1000 + HOUR_MS));
        assert!(far > ahead(1000 + HOUR_MS) && clock.fact() == fact);
        let after = stamp(&mut clock, 1001, Version::ZERO);
        assert!(after > before && after.time <= time_of_ms(1001) + STEP);
        assert!(stamp(&mut clock, 1001, far) > far, "the next one of that entity grows");
    }

    #[test]
    fn far_stamps_differ_from_each_other_and_from_those_that_come_when_time_is_there() {
        let mut clock = Clock::new(NodeId(0), None, 60_000);
        let mut given = std::collections::BTreeSet::new();
        for n in 0..1000u64 {
            // Two entities with versions that lie close, and many apart.
            for above in [ahead(HOUR_MS), ahead(HOUR_MS + n % 3), ahead(HOUR_MS + n * 90)] {
                assert!(given.insert(stamp(&mut clock, 1000, above)));
            }
        }
        assert!(clock.far.len() <= FAR_RANGES_MAX);
        let mut again = Clock::new(NodeId(0), Some(&clock.fact()), 60_000);
        assert!(given.insert(stamp(&mut again, 1000, ahead(HOUR_MS))), "nor from those of the start before");
        for n in 0..500u64 {
            assert!(given.insert(stamp(&mut clock, HOUR_MS - 10 + n, Version::ZERO)));
        }
    }

    /// A clock was set back by days after it had stamped a write right above a line. Its next stamp above that line was
    /// the same.
    #[test]
    fn found_a_far_stamp_of_a_clock_that_was_set_back_had_been_given() {
        let line = ahead(2 * HOUR_MS);
        for wall_ms in [2 * HOUR_MS, 2 * HOUR_MS - 30_000] {
            let mut clock = Clock::new(NodeId(0), None, 60_000);
            let first = stamp(&mut clock, wall_ms, line);
            let again = clock.stamp(at(HOUR_MS), line).unwrap();
            assert!(again.version > line && again.version != first);
            assert!(again.is_far && again.is_to_be_stored && clock.went_back == 1);
            let mut restarted = Clock::new(NodeId(0), Some(&clock.fact()), 60_000);
            assert!(![first, again.version].contains(&stamp(&mut restarted, HOUR_MS, line)));
        }
    }

    /// A wall clock was an hour ahead while a node stamped writes, and was set right: the node stamped an hour ahead
    /// until the hour was over, also after a restart, and every stamp was refused.
    #[test]
    fn a_clock_that_was_ahead_comes_back_when_the_wall_is_right_and_gives_nothing_twice() {
        let mut clock = Clock::new(NodeId(0), None, 60_000);
        let mut given: std::collections::BTreeSet<_> =
            (0..500).map(|n| stamp(&mut clock, HOUR_MS + n, Version::ZERO)).collect();
        let mut again = Clock::new(NodeId(0), Some(&clock.fact()), 60_000);
        for clock in [&mut clock, &mut again] {
            let right = clock.stamp(at(1000), Version::ZERO).unwrap();
            assert!(right.version.time <= time_of_ms(1000) + STEP && right.is_to_be_stored);
            assert_eq!((clock.went_back, clock.ahead_ms(at(1000))), (1, 0));
            let fact = clock.fact();
            let limit = Clock::new(NodeId(0), Some(&fact), 60_000).limit;
            assert!(limit <= time_of_ms(1001 + LEAD_MS), "the way back is durable");
        }
        for n in 0..500 {
            assert!(given.insert(stamp(&mut clock, HOUR_MS + n, Version::ZERO)), "an hour later, time {n}");
        }
        // By less than the bound it waits, and goes on above.
        let last = stamp(&mut clock, HOUR_MS + 600, Version::ZERO);
        assert!(stamp(&mut clock, HOUR_MS - 50_000, Version::ZERO) > last && clock.went_back == 1);
    }
}
