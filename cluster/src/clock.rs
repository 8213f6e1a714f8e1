//! The clock of a node: hybrid logical timestamps (Kulkarni et al., 2014).
//!
//! A timestamp is wall time in milliseconds times 65,536, plus a counter. The clock gives each once, above every one
//! that it gave or met, so a write that has seen another outranks it whatever the wall clocks say.
//!
//! Invariants:
//! 1. Timestamps of one clock grow, over restarts too: none is given as high as the limit that is stored. The limit is
//!    stored in the commit of the first stamp above the last one, and nothing is sent before that commit is durable. A
//!    restart goes on from the limit, [`LEAD_MS`] ahead of the last stamp at most.
//! 2. The clock follows what it meets only up to [`Clock::bound`] ahead of the wall. What replicas have *stored* it
//!    always follows: otherwise such an entity could never be written again.
//!
//! Cost: an addition; a put of eight bytes four times a second at most.

use crate::ids::{NodeId, Now, Version};

/// How far the stored limit is ahead of the stamp that moves it.
pub const LEAD_MS: u64 = 250;
const COUNTER_BITS: u32 = 16;

/// The first timestamp of a millisecond.
pub fn time_of_ms(ms: u64) -> u64 {
    ms.min(u64::MAX >> COUNTER_BITS) << COUNTER_BITS
}

/// The millisecond of a timestamp.
pub fn ms_of_time(time: u64) -> u64 {
    time >> COUNTER_BITS
}

/// Gives versions.
#[derive(Clone, Debug)]
pub struct Clock {
    node: NodeId,
    /// The highest timestamp given or met.
    last: u64,
    /// What is stored.
    limit: u64,
    ahead_ms_max: u64,
}

impl Clock {
    /// The clock of `node`, going on from the stored limit (0 if there is none). It follows others up to `ahead_ms_max`
    /// ahead of the wall.
    pub fn new(node: NodeId, limit: u64, ahead_ms_max: u64) -> Clock {
        Clock { node, last: limit, limit, ahead_ms_max }
    }

    /// The next version, above `above` too. With it comes the new limit, where it has to be stored before the version
    /// leaves this node.
    pub fn stamp(&mut self, now: Now, above: Version) -> (Version, Option<u64>) {
        self.last = self.last.max(above.time).saturating_add(1).max(time_of_ms(now.wall_ms));
        let mut stored = None;
        if self.last >= self.limit {
            self.limit = self.last.saturating_add(time_of_ms(LEAD_MS));
            stored = Some(self.limit);
        }
        (Version { time: self.last, node: self.node }, stored)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall_ms: u64) -> Now {
        Now { ticks_ms: 0, wall_ms }
    }

    #[test]
    fn versions_grow_whatever_the_wall_clock_does_and_over_restarts() {
        let mut clock = Clock::new(NodeId(3), 0, 60_000);
        let (mut last, mut limit) = (Version::ZERO, 0);
        for wall_ms in [1000, 1000, 1001, 5, 5, 2000, 1999, 1_000_000, 3] {
            let (version, stored) = clock.stamp(at(wall_ms), Version::ZERO);
            limit = stored.unwrap_or(limit);
            assert!(version > last && version.time < limit, "{version} after {last}, below {limit}");
            last = version;
        }
        let mut again = Clock::new(NodeId(3), limit, 60_000);
        let (version, stored) = again.stamp(at(4), Version::ZERO);
        assert!(version > last && version.time <= last.time + time_of_ms(LEAD_MS) + 1);
        assert!(stored.is_some_and(|stored| stored > version.time));
    }

    #[test]
    fn the_limit_is_stored_four_times_a_second() {
        let mut clock = Clock::new(NodeId(0), 0, 60_000);
        let stored = (0..10_000u64).filter(|n| clock.stamp(at(5000 + n / 10), Version::ZERO).1.is_some()).count();
        assert!((4..=5).contains(&stored), "{stored}");
    }

    #[test]
    fn a_stamp_tops_what_was_met_and_what_is_stored_but_not_what_is_far_ahead() {
        let mut clock = Clock::new(NodeId(0), 0, 60_000);
        let ahead = |ms: u64| Version { time: time_of_ms(ms), node: NodeId(9) };
        clock.meet(at(1000), ahead(61_000));
        assert!(clock.stamp(at(1000), Version::ZERO).0 > ahead(61_000));
        clock.meet(at(1000), ahead(90_000));
        assert!(clock.stamp(at(1000), Version::ZERO).0 < ahead(90_000));
        // A replica has it stored.
        assert!(clock.stamp(at(1000), ahead(90_000)).0 > ahead(90_000));
        assert_eq!(clock.stamp(at(1000), Version { time: u64::MAX, node: NodeId(0) }).0.time, u64::MAX);
    }
}
