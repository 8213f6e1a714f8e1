//! Faults that tests put into the machine: a checker that finds none of them proves nothing.
//!
//! Only a build with the feature `simulation` has them. In any other the machine asks for constants.

macro_rules! mutations {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// Faults that a test puts into the machine, to see that the checker finds them. Not for production.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Mutations {
            $(
                $(#[$about])*
                #[cfg(feature = "simulation")]
                pub $name: bool,
            )*
        }

        impl Mutations {
            $(
                $(#[$about])*
                #[cfg(feature = "simulation")]
                pub(crate) fn $name(self) -> bool {
                    self.$name
                }

                $(#[$about])*
                #[cfg(not(feature = "simulation"))]
                pub(crate) const fn $name(self) -> bool {
                    false
                }
            )*
        }
    };
}

mutations! {
    /// Counts `Older` as a confirmation.
    older_is_ack,
    /// Answers a read with the first answer, not the newest of `ack`.
    first_answer_wins,
    /// Says that it is ready, and answers reads, while it still copies.
    answers_while_copying,
    /// Drops tombstones at once.
    drops_graves_early,
    /// Confirms a write before it has `ack` confirmations.
    answers_early,
    /// Says that a write was not made for lack of space, though a replica may have it.
    full_is_certain,
    /// Counts a partition at two replicas.
    counts_twice,
    /// Writes go to the old replicas alone while others copy.
    writes_old_only,
    /// A stamp above a version far ahead takes the clock with it.
    far_stamp_moves_clock,
    /// A clock that is far ahead of the wall stays there.
    clock_never_goes_back,
    /// The leader of a round draws its line by its own clock alone.
    line_is_leaders_own,
    /// A replica takes any line.
    takes_any_line,
    /// A replica refuses what is far ahead of its clock though another has it.
    refuses_known,
    /// A note that a key has moved is answered as if the key were absent.
    note_is_absent,
    /// A note does not keep the copy that it takes the place of.
    note_destroys_copy,
    /// A note that is read keeps the copy of its own class alone.
    note_keeps_its_class,
    /// A tombstone of expiry wins over its value before it is due.
    early_tombstone_wins,
    /// A write is stamped again though an earlier stamp may be stored.
    stamps_after_stored,
    /// Replicas are made equal while the write is on its way to some, and not after it.
    makes_equal_once,
    /// A read goes on in the next epoch with the replicas of the one before.
    reads_span_epochs,
    /// A read that follows a note takes what is older than it for the newest.
    forgets_notes,
    /// A node copies before it knows which `from` are in use.
    copies_untold,
    /// What only a leaving node has leaves with it, where no node comes for it.
    leaves_with_rows,
    /// A copy that began in one epoch goes on in the next.
    copies_span_epochs,
    /// A node that copies keeps the horizon that it had before the rows went elsewhere.
    keeps_horizon,
    /// A replica trusts a horizon that was raised while its clock was ahead.
    trusts_any_horizon,
    /// A node that copies does not take the floor along.
    copies_no_floor,
    /// A node that copies keeps what the others had refused as too old.
    copies_beside_refused,
    /// A horizon that was raised while clocks were ahead stays until that time.
    keeps_far_horizon,
    /// A write is stamped without regard to floors that are known.
    forgets_lines,
    /// A round that ends goes on waiting for what it has asked.
    round_leaves_questions,
    /// A change that copies is not given up when that is asked for.
    abort_is_ignored,
    /// No member is declared dead while members change.
    dead_wait_for_change,
    /// A change goes on though it gives places to dead nodes alone.
    dead_get_places,
}
