//! Transactions: their private layers, what they have read, and whether it still holds.

pub(crate) mod conflicts;
pub(crate) mod isolation;
pub(crate) mod patches;
pub(crate) mod private_table;
pub(crate) mod table_transaction;
pub(crate) mod transaction;
pub(crate) mod unresolved_keys;
