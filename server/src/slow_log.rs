//! Commands that took long.

use std::time::Duration;

use crate::session::Session;

/// The last commands that took longer than a threshold.
#[derive(Default)]
pub struct SlowLog {}

impl SlowLog {
    /// Notes a command if it took long.
    #[inline]
    pub fn note(&self, _: &Session, _: &[&[u8]], _: Duration) {}
}
