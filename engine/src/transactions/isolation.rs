//! Isolation levels: which reads of an optimistic transaction must be unchanged at its commit.

/// How far an optimistic transaction is kept apart from others. Whatever it is, the transaction reads one snapshot and
/// its own writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// All that it has read must be unchanged at its commit, so it might as well have run at that moment.
    #[default]
    Serializable,
    /// The rows that it writes must be unchanged: of two transactions that write one row, the first to commit wins.
    /// What it has only read may change, so two transactions may each decide by what the other is about to change
    /// (write skew). [`TableTransaction::relying`](crate::TableTransaction::relying) excepts single reads.
    Snapshot,
}
