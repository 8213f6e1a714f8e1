//! The trait of a store that is measured, and the list of all stores.
//!
//! A call covers many rows, so that the price of the dynamic call does not show, and so that each adapter can do the
//! work in the way that is best for its store (one prepared statement, one cursor). What is timed is the call and
//! nothing else.

use std::error::Error;
use std::path::Path;

use crate::clock::{Deadline, Spent};
use crate::rows::{Key, Rows, fingerprint};

/// The bench only passes errors on to a person.
pub type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Memory that each store may use as a cache, where a workload does not say: enough for everything it loads.
pub const CACHE_BYTES: u64 = 1 << 30;

/// What a commit promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing.
    None,
    /// In the operating system's hands: survives a killed process.
    Os,
    /// On stable storage: survives a power cut.
    Sync,
}

impl From<Durability> for quipu::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::None => quipu::Durability::None,
            Durability::Os => quipu::Durability::Os,
            Durability::Sync => quipu::Durability::Sync,
        }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// What its commits promise.
    pub durability: Durability,
    /// Memory for pages or blocks of its files, where it takes such a setting ([`StoreKind::has_cache`]).
    pub cache_bytes: u64,
    /// Whether a store that can keep all rows in memory is to.
    pub in_memory: bool,
}

impl From<Durability> for Setup {
    fn from(durability: Durability) -> Self {
        Setup { durability, cache_bytes: CACHE_BYTES, in_memory: true }
    }
}

/// A kind of store: a name and a way to open one.
#[derive(Clone, Copy, Debug)]
pub struct StoreKind {
    /// As in `--stores`.
    pub name: &'static str,
    /// The settings that matter, in one line.
    pub settings: &'static str,
    /// Whether it writes to a disk at all.
    pub durable: bool,
    /// Whether it takes the size of its cache as a setting. Otherwise all of it is in memory, or cached by the
    /// operating system.
    pub has_cache: bool,
    /// Whether it differs from another one in its files alone, so that only workloads of tables larger than memory
    /// measure it.
    pub only_files: bool,
    /// What [`Store::settle`] does, in a few words.
    pub settling: &'static str,
    /// The longest key and value it can hold.
    pub bytes_max: (usize, usize),
    /// Opens an empty one in an empty directory, or the one that was closed there.
    pub open: fn(&Path, Setup) -> Result<Box<dyn Store>>,
}

impl StoreKind {
    /// Whether it can hold such rows.
    pub fn fits(&self, rows: &Rows) -> bool {
        self.holds(rows.key_bytes(), rows.value_bytes())
    }

    /// Whether it can hold keys and values of such lengths.
    pub fn holds(&self, key_bytes: usize, value_bytes: usize) -> bool {
        key_bytes <= self.bytes_max.0 && value_bytes <= self.bytes_max.1
    }
}

/// What undoing a transaction took.
#[derive(Clone, Copy, Debug)]
pub struct RollBack {
    /// The inserts before it.
    pub insert: Spent,
    /// The undoing itself.
    pub roll_back: Spent,
}

/// The work that a caller of [`Store::with_uncommitted`] does; what it is given counts in the transaction that holds
/// the uncommitted rows.
pub type WithUncommitted<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&[u8], &[u8]) -> Result<u64>) -> Result<()>;

/// An open store with one table of bytes.
///
/// The inserting calls return how many rows they inserted before the deadline.
pub trait Store: Send + Sync {
    /// Inserts row by row with no transaction of the caller's, as fast as the store goes. A store that knows no writes
    /// outside of a transaction holds one open over all of them.
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64>;

    /// Inserts each row in a transaction of its own, with the durability the store was opened with.
    /// Several threads may do so at once.
    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64>;

    /// Inserts all rows in one transaction, with the durability the store was opened with.
    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64>;

    /// Puts all rows in one transaction, new or in the place of old ones, with the durability the store was opened
    /// with.
    fn put_bulk(&self, rows: Rows) -> Result<u64> {
        // Of most stores an insert overwrites; the others say otherwise.
        self.insert_bulk(rows, &Deadline::never())
    }

    /// Puts all rows in one transaction, with the durability the store was opened with, in the best way the store has
    /// for rows that come in ascending order, each above all keys of the table.
    fn append(&self, rows: Rows) -> Result<u64> {
        self.insert_bulk(rows, &Deadline::never())
    }

    /// Takes rows that come in ascending order by a call that writes them straight to files, outside of transactions.
    /// `None` if the store has no such call.
    fn ingest(&self, _rows: Rows) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Inserts all rows in one transaction and rolls it back. `None` if the store knows no such thing.
    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>>;

    /// Lends a reader. Where reading needs a transaction, one is open for as long as the reader is lent.
    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()>;

    /// Takes a snapshot. `None` if the store knows no such thing.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>>;

    /// Begins a transaction, inserts the rows, lets `run` do its work meanwhile and rolls back. `false`, with `run` not
    /// called, if the store knows no transactions.
    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool>;

    /// Begins a transaction, counts the rows of `from..to` in it and commits: one that may write where several such may
    /// be open at once, else one that reads.
    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64>;

    /// A client for one thread, with what it keeps between calls, such as a connection.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// Does, and waits for, what writing has left to do, so that what is read next is the store at rest, and all of it
    /// is in its files.
    fn settle(&self) -> Result<()>;

    /// Memory that the store says it uses, in bytes.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// Reads a store. Answers are numbers that equal stores give equally.
///
/// The provided methods scan, which is what a store without counts has to do.
pub trait Reader {
    /// Visits rows in key order, from the first with a key of at least `from`, while `visit` returns true.
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()>;

    /// The fingerprint of the key's value; 0 if there is none.
    fn get(&self, key: &[u8]) -> Result<u64>;

    /// How many rows there are in `from..to`.
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let mut count = 0;
        self.scan(from, &mut |key| {
            let inside = key < to;
            count += u64::from(inside);
            inside
        })?;
        Ok(count)
    }

    /// How many rows there are below `key`.
    fn rank(&self, key: &[u8]) -> Result<u64> {
        self.count(&[], key)
    }

    /// The sum of the fingerprints of the keys of `limit` rows from number `offset` on.
    fn page(&self, offset: u64, limit: u64) -> Result<u64> {
        let (mut number, mut sum) = (0, 0_u64);
        self.scan(&[], &mut |key| {
            if number >= offset {
                sum = sum.wrapping_add(fingerprint(key));
            }
            number += 1;
            number < offset + limit
        })?;
        Ok(sum)
    }

    /// The fingerprint of the key of row number `offset`.
    fn nth(&self, offset: u64) -> Result<u64> {
        self.page(offset, 1)
    }

    /// Whether [`Reader::get_many`] is one call of the store, not one for each key.
    fn has_get_many(&self) -> bool {
        false
    }

    /// The sum of many [`Reader::get`].
    fn get_many(&self, keys: &[Key]) -> Result<u64> {
        keys.iter().try_fold(0, |sum: u64, key| Ok(sum.wrapping_add(self.get(key)?)))
    }

    /// The sum of many [`Reader::rank`].
    fn rank_many(&self, keys: &[Key]) -> Result<u64> {
        keys.iter().try_fold(0, |sum: u64, key| Ok(sum.wrapping_add(self.rank(key)?)))
    }

    /// The sum of many [`Reader::count`].
    fn count_many(&self, ranges: &[(Key, Key)]) -> Result<u64> {
        ranges.iter().try_fold(0, |sum: u64, (from, to)| Ok(sum.wrapping_add(self.count(from, to)?)))
    }

    /// The sum of many [`Reader::nth`].
    fn nth_many(&self, offsets: &[u64]) -> Result<u64> {
        offsets.iter().try_fold(0, |sum: u64, offset| Ok(sum.wrapping_add(self.nth(*offset)?)))
    }
}

/// Single calls of one thread, each complete by itself: a read sees all that was committed before it, and a put is a
/// commit with the durability the store was opened with. Other clients go on at the same time.
pub trait Client: Send {
    /// Puts a row, new or in the place of the old one.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Writes part of a row that is there, if the client has a way to do that; else puts all of it. `version` is one
    /// that no other write has.
    fn update(&mut self, key: &[u8], value: &[u8], version: u64) -> Result<()> {
        let _ = version;
        self.put(key, value)
    }

    /// Lends the value of `key` to `see`. Returns whether there is one.
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Lends key and value of the first `limit` rows with keys of at least `from` to `see`, in key order.
    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

/// A moment of a store, until it is dropped.
pub trait Snapshot {
    /// How many rows there were in `from..to`.
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64>;
}
