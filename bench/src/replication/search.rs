//! A search for the highest rate that is held: doubled until one is not held, then bisected.
//!
//! A rate is not held if two turns in a row say so: one can be due to other work on the machine.

/// The search ends when the lowest rate that is not held is at most so many times the highest that is.
const CLOSE_ENOUGH: f64 = 1.08;
/// Rates below are not tried.
const LOWEST_PER_S: f64 = 20.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    held_per_s: Option<f64>,
    broken_per_s: Option<f64>,
    trying_per_s: f64,
    /// Whether the rate under trial has failed once.
    is_doubted: bool,
}

impl Search {
    /// Begins with this rate.
    pub(crate) fn from(per_s: f64) -> Self {
        Search { held_per_s: None, broken_per_s: None, trying_per_s: per_s, is_doubted: false }
    }

    /// The rate to try, unless the search is over.
    pub(crate) fn next(&self) -> Option<f64> {
        let is_close = match (self.held_per_s, self.broken_per_s) {
            (Some(held), Some(broken)) => broken <= held * CLOSE_ENOUGH,
            _ => false,
        };
        (!is_close && self.trying_per_s >= LOWEST_PER_S).then_some(self.trying_per_s)
    }

    /// Whether the rate of [`Search::next`] was held.
    pub(crate) fn tell(&mut self, is_held: bool) {
        match (is_held, self.is_doubted) {
            (true, _) => self.held_per_s = Some(self.trying_per_s),
            (false, true) => self.broken_per_s = Some(self.trying_per_s),
            (false, false) => {
                self.is_doubted = true;
                return;
            }
        }
        self.is_doubted = false;
        self.trying_per_s = match (self.held_per_s, self.broken_per_s) {
            (Some(held), Some(broken)) => f64::midpoint(held, broken),
            (Some(held), None) => held * 2.0,
            (None, Some(broken)) => broken / 2.0,
            (None, None) => self.trying_per_s,
        };
    }

    /// The highest rate that was held.
    pub(crate) fn held_per_s(&self) -> Option<f64> {
        self.held_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server that holds `limit` is found to hold, and after how many turns.
    fn found(start: f64, limit: f64) -> (Option<f64>, usize) {
        let (mut search, mut turns) = (Search::from(start), 0);
        while let Some(rate) = search.next() {
            search.tell(rate <= limit);
            turns += 1;
        }
        (search.held_per_s(), turns)
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for start in [1_000.0, 20_000.0, 900_000.0] {
            let (held, turns) = found(start, 44_000.0);
            let held = held.unwrap();
            assert!((44_000.0 / CLOSE_ENOUGH..=44_000.0).contains(&held), "{held}");
            assert!(turns <= 20, "{turns}");
        }
        assert_eq!(found(5_000.0, 0.0).0, None);
    }

    #[test]
    fn one_slow_turn_decides_nothing() {
        let mut search = Search::from(100.0);
        search.tell(false);
        assert_eq!(search.next(), Some(100.0));
        search.tell(true);
        assert_eq!((search.held_per_s(), search.next()), (Some(100.0), Some(200.0)));
    }
}
