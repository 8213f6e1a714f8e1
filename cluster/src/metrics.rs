//! Counters of what a node does.

use quipu::Error;

use crate::api::Answer;
use crate::protocol::Refusal;

/// Counts since the start. They wrap.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Frames received.
    pub frames_received: u64,
    /// Frames that could not be decoded.
    pub bad_frames: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Bytes of frames sent.
    pub bytes_sent: usize,
    /// Frames sent, by kind of message.
    pub sent_by_kind: [u64; 32],
    /// Requests answered as asked for.
    pub answered: u64,
    /// Requests answered "not enough replicas".
    pub not_enough: u64,
    /// Writes answered "full".
    pub full: u64,
    /// Requests answered "overloaded".
    pub overloaded: u64,
    /// Writes that were stamped again, because a replica had something newer.
    pub restamps: u64,
    /// Rows that were mended after a read.
    pub read_repairs: u64,
    /// Hints left for peers, handed over, and dropped because of their number or age.
    pub hints_left: u64,
    /// See above.
    pub hints_sent: u64,
    /// See above.
    pub hints_dropped: u64,
    /// Ranges compared with other replicas.
    pub ranges_compared: u64,
    /// Rows received from or given to other replicas.
    pub rows_moved: u64,
    /// Bytes of messages of repair and copies, in both directions.
    pub repair_bytes: u64,
    /// Comparisons that ended, and that were given up.
    pub sessions_done: u64,
    /// See above.
    pub sessions_failed: u64,
    /// Rounds that raised a horizon, and that were given up.
    pub rounds_done: u64,
    /// See above.
    pub rounds_failed: u64,
    /// Partitions copied.
    pub partitions_copied: u64,
    /// Refusals that peers have answered, by reason.
    refusals_received: [u64; 8],
    /// Refusals that this node has answered, by reason.
    refusals_given: [u64; 8],
    /// Writes answered "not enough replicas" because this node's clock is far ahead of most others.
    pub stamps_refused: u64,
    /// Writes answered "not enough replicas" because they needed a second stamp, and the first may be stored.
    pub stamped_once: u64,
    /// Reads that met a state that is to be found elsewhere, and asked on.
    pub notes_followed: u64,
    /// Long values for which a replica was asked after it had said that it has them.
    pub long_values_fetched: u64,
    /// Errors of the storage.
    pub storage_errors: u64,
    /// The last of them.
    pub storage_error: Option<String>,
}

impl Metrics {
    pub(crate) fn note_sent(&mut self, kind: u8, bytes: usize) {
        self.frames_sent += 1;
        self.bytes_sent += bytes;
        self.sent_by_kind[usize::from(kind) % 32] += 1;
    }

    pub(crate) fn note_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::NotEnoughReplicas => self.not_enough += 1,
            Answer::Full => self.full += 1,
            Answer::Overloaded => self.overloaded += 1,
            _ => self.answered += 1,
        }
    }

    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        self.refusals_received[refusal as usize % 8] += 1;
    }

    pub(crate) fn note_refused(&mut self, refusal: Refusal) {
        self.refusals_given[refusal as usize % 8] += 1;
    }

    /// Refusals that peers have answered, each reason by its name.
    pub fn refusals_received(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Refusal::ALL.into_iter().map(|refusal| (refusal.name(), self.refusals_received[refusal as usize % 8]))
    }

    /// Refusals that this node has answered, each reason by its name.
    pub fn refusals_given(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Refusal::ALL.into_iter().map(|refusal| (refusal.name(), self.refusals_given[refusal as usize % 8]))
    }

    pub(crate) fn note_session(&mut self, is_done: bool) {
        if is_done {
            self.sessions_done += 1;
        } else {
            self.sessions_failed += 1;
        }
    }

    pub(crate) fn note_failure(&mut self, error: &Error) {
        self.storage_errors += 1;
        self.storage_error = Some(error.to_string());
    }
}
