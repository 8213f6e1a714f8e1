//! The tables that hold the state of a node: five ordered, counted tables, changed in one commit a turn.
//!
//! A turn is all that the shell gives the node at once: it opens a [`Tables`], lets the node take its inputs, commits,
//! and sends the node's outputs only after that commit is durable. So reads see the writes of the turn, and no client
//! or peer learns of a write that a crash could undo.
//!
//! Two implementations: [`ModelTables`](crate::model::ModelTables) in plain maps, for large simulations, and
//! [`EngineTables`](crate::engine::EngineTables) over the engine.

use quipu::{Result, Tally};

/// The tables of a node: [`record`](crate::record) has their keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Values. Measures rows, bytes and hash.
    Entities,
    /// Tombstones. Measures rows, bytes and hash.
    Graves,
    /// Which value expires when.
    Expires,
    /// What peers have missed. Measures rows and bytes.
    Hints,
    /// Settings, horizons, places of copies.
    Facts,
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 5] = [Table::Entities, Table::Graves, Table::Expires, Table::Hints, Table::Facts];

    /// Whether a row of this table with this value serves to free space.
    pub fn frees(self, value: &[u8]) -> bool {
        matches!(self, Table::Graves | Table::Facts) && value.len() <= FREEING_BYTES_MAX
    }
}

/// What space is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomFor {
    /// For rows to be stored: a full disk has none.
    Growth,
    /// For what frees space: removals, tombstones, facts. Some is kept for that.
    Removal,
}

/// The longest row of `graves` or `facts` that serves to free space, in bytes of its value.
pub const FREEING_BYTES_MAX: usize = 1 << 10;

/// Ordered, counted tables. Ranges go from `start` to before `end`.
///
/// # Errors
/// All methods: those of the storage. A node that gets one answers that it has failed, and changes nothing more in that
/// turn.
pub trait Tables {
    /// Lends the value of a key to `read`.
    fn get_with<R>(&self, table: Table, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R>;

    /// Whether there is space for rows of so many `bytes` more in this turn, which is kept for them then. To be asked
    /// before the first of what is done as a whole; what is written without may fail the turn.
    fn has_room(&mut self, what: RoomFor, bytes: usize) -> Result<bool>;

    /// Puts a row. Those of `graves` and `facts` serve to free space, unless they are long.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a row, if there is one.
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()>;

    /// Rows, bytes and hash of a range. O(log n) in the engine.
    fn tally(&self, table: Table, start: &[u8], end: &[u8]) -> Result<Tally>;

    /// The key with `offset` rows of the range before it. O(log n) in the engine.
    fn nth(&self, table: Table, start: &[u8], end: &[u8], offset: u64) -> Result<Option<Vec<u8>>>;

    /// Lends up to `rows` rows from the start of a range, in order, until `visit` returns false.
    fn scan(
        &self,
        table: Table,
        start: &[u8],
        end: &[u8],
        rows: usize,
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// What a row of `entities` or `graves` adds to the hash of a tally.
    fn row_hash(&self, key: &[u8], value: &[u8]) -> u64;

    /// Whether there is space to grow, or for a removal if what is written `frees` space.
    fn has_room_for(&mut self, frees: bool, bytes: usize) -> Result<bool> {
        Ok(self.has_room(RoomFor::Growth, bytes)? || frees && self.has_room(RoomFor::Removal, bytes)?)
    }

    /// A copy of the value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(table, key, |value| value.map(<[u8]>::to_vec))
    }
}
