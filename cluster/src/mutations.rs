//! Faults that tests put into the machine: a checker that finds none of them proves nothing.

/// Faults that a test puts into the machine, to see that the checker finds them. Not for production.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mutations {
    /// Counts `Older` as a confirmation.
    pub older_is_ack: bool,
    /// Answers a read with the first answer, not the newest of `ack`.
    pub first_answer_wins: bool,
    /// Says that it is ready, and answers reads, while it still copies.
    pub answers_while_copying: bool,
    /// Drops tombstones at once.
    pub drops_graves_early: bool,
    /// Confirms a write before it has `ack` confirmations.
    pub answers_early: bool,
    /// Counts a partition at two replicas.
    pub counts_twice: bool,
    /// Writes go to the old replicas alone while others copy.
    pub writes_old_only: bool,
    /// A stamp above a version far ahead takes the clock with it.
    pub far_stamp_moves_clock: bool,
    /// A clock that is far ahead of the wall stays there.
    pub clock_never_goes_back: bool,
    /// The leader of a round draws its line by its own clock alone.
    pub line_is_leaders_own: bool,
    /// A replica takes any line.
    pub takes_any_line: bool,
    /// A replica refuses what is far ahead of its clock though another has it.
    pub refuses_known: bool,
    /// A note that a key has moved is answered as if the key were absent.
    pub note_is_absent: bool,
    /// A note does not keep the copy that it takes the place of.
    pub note_destroys_copy: bool,
    /// A tombstone of expiry wins over its value before it is due.
    pub early_tombstone_wins: bool,
    /// A write is stamped again though an earlier stamp may be stored.
    pub stamps_after_stored: bool,
}
