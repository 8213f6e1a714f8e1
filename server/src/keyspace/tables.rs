//! The tables of the keyspace, and what bounds them.

use quipu::Table;

/// The table of what is to be removed.
pub(super) const REMOVALS: &str = "removals";
/// The table of what a server knows of its database.
pub(super) const FACTS: &str = "server";

/// How many databases `SELECT` chooses from.
pub const DATABASES: usize = 16;

/// Bytes of the longest key, and of the longest member of a collection.
pub const KEY_BYTES_MAX: usize = 65_000;

/// The tables of one database.
#[derive(Debug)]
pub struct Tables {
    /// Key to header and body.
    pub keys: Table,
    /// Id and element, or number and piece.
    pub elements: Table,
    /// Key to further bytes and id, of the keys that have elements or pieces under an id.
    pub owners: Table,
    /// Deadline (big-endian milliseconds) and key.
    pub expires: Table,
}
