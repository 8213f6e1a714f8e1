//! The last turn that failed: what the node says of it, in its log once in a while and in its report for a while.

/// How long a node that has failed says so, if no other turn fails.
const TROUBLE_MS: u64 = 2000;
/// How often the log says the same.
const SAID_EVERY_MS: u64 = 10_000;

/// The last failure.
#[derive(Debug, Default)]
pub(super) struct LastFailure {
    why: String,
    at_ms: Option<u64>,
    said_ms: Option<u64>,
}

impl LastFailure {
    /// Notes a failure. Returns whether the log is to say it: on a full disk each turn may fail.
    pub(super) fn note(&mut self, why: &str, now_ms: u64) -> bool {
        let is_said = self.why == why && self.said_ms.is_some_and(|said_ms| now_ms < said_ms + SAID_EVERY_MS);
        self.at_ms = Some(now_ms);
        if !is_said {
            self.why = why.to_owned();
            self.said_ms = Some(now_ms);
        }
        !is_said
    }

    /// What is wrong, as far as a failure of late tells.
    pub(super) fn trouble(&self, now_ms: u64) -> Option<String> {
        self.at_ms.filter(|at_ms| now_ms < at_ms + TROUBLE_MS).map(|_| self.why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_in_a_while_and_reported_while_it_lasts() {
        let mut failure = LastFailure::default();
        assert_eq!(failure.trouble(0), None);
        assert!(failure.note("full", 0));
        for now_ms in (1000..SAID_EVERY_MS).step_by(1000) {
            assert!(!failure.note("full", now_ms));
            assert_eq!(failure.trouble(now_ms + TROUBLE_MS - 1).as_deref(), Some("full"));
        }
        assert!(failure.note("other", 9500) && failure.note("full", 9501) && !failure.note("full", 9502));
        assert!(failure.note("full", 9501 + SAID_EVERY_MS));
        assert_eq!(failure.trouble(9501 + SAID_EVERY_MS + TROUBLE_MS), None);
    }
}
