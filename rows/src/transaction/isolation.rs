//! Isolation levels of optimistic transactions.

/// How far an optimistic transaction is kept apart from others. The engine's ([`quipu::isolation::Isolation`]) has no
/// statements, so it lacks [`Isolation::ReadCommitted`].
///
/// | | lost update | write skew | phantoms | reads that change within it |
/// |---|---|---|---|---|
/// | serializable | refused | refused | refused | none |
/// | snapshot | refused | possible | none, but as write skew | none |
/// | read committed | possible between statements, refused within one | possible | possible | from statement to
/// statement |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// It might as well have run alone, at the moment of its commit.
    #[default]
    Serializable,
    /// It sees the moment of its begin; of two that write one row, the first to commit wins.
    Snapshot,
    /// Each of its statements ([`RowTransaction::begin_statement`](crate::RowTransaction::begin_statement)) sees what
    /// was committed before it; rows that it has written must be unchanged by others at its commit.
    ReadCommitted,
}

impl Isolation {
    /// The isolation of the engine for it.
    pub(crate) fn of_engine(self) -> quipu::isolation::Isolation {
        match self {
            Isolation::Serializable => quipu::isolation::Isolation::Serializable,
            Isolation::Snapshot | Isolation::ReadCommitted => quipu::isolation::Isolation::Snapshot,
        }
    }
}
