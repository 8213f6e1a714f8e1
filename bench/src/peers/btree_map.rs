//! `std::collections::BTreeMap`: what memory alone allows. Not durable, no transactions, no snapshots; a lock around
//! it, as a program with threads would need, is taken once for a call of the bench.
//!
//! `btreemap-int` keeps keys and values in 8 bytes each and so is the fastest a plain ordered map can be; `btreemap`
//! keeps byte strings of any length, as all other stores here do.

use std::collections::BTreeMap;
use std::collections::btree_map::Keys;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::clock::Deadline;
use crate::rows::{Rows, fingerprint};
use crate::store::{Client, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

/// Keys and values of at most 8 bytes.
pub(crate) const INTEGERS: StoreKind = StoreKind {
    name: "btreemap-int",
    settings: "std BTreeMap<u64, u64>: in memory, not durable",
    durable: false,
    has_cache: false,
    only_files: false,
    settling: "nothing to do",
    bytes_max: (8, 8),
    open: |_: &Path, _: Setup| Ok(Box::new(MapStore::<u64>(Mutex::default()))),
};

/// Keys and values of any length.
pub(crate) const BYTES: StoreKind = StoreKind {
    name: "btreemap",
    settings: "std BTreeMap<Vec<u8>, Vec<u8>>: in memory, not durable",
    durable: false,
    has_cache: false,
    only_files: false,
    settling: "nothing to do",
    bytes_max: (usize::MAX, usize::MAX),
    open: |_: &Path, _: Setup| Ok(Box::new(MapStore::<Vec<u8>>(Mutex::default()))),
};

/// What stands for a byte string in the map.
trait SumField: Ord + Send + Sync + 'static {
    fn of(bytes: &[u8]) -> Self;
    fn fingerprint(&self) -> u64;
    fn with_bytes<T>(&self, run: impl FnOnce(&[u8]) -> T) -> T;
}

impl SumField for Vec<u8> {
    fn of(bytes: &[u8]) -> Self {
        bytes.to_vec()
    }
    fn fingerprint(&self) -> u64 {
        fingerprint(self)
    }
    fn with_bytes<T>(&self, run: impl FnOnce(&[u8]) -> T) -> T {
        run(self)
    }
}

/// The byte string as a big-endian number: the same order among strings of one length.
impl SumField for u64 {
    fn of(bytes: &[u8]) -> Self {
        fingerprint(bytes)
    }
    fn fingerprint(&self) -> u64 {
        *self
    }
    fn with_bytes<T>(&self, run: impl FnOnce(&[u8]) -> T) -> T {
        run(&self.to_be_bytes())
    }
}

struct MapStore<F>(Mutex<BTreeMap<F, F>>);

impl<F: SumField> Store for MapStore<F> {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = rows.cursor();
        while !deadline.passed_at(cursor.done())
            && let Some((key, value)) = cursor.advance()
        {
            map.insert(F::of(key), F::of(value));
        }
        Ok(cursor.done())
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.insert_plain(rows, deadline)
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.insert_plain(rows, deadline)
    }

    fn roll_back(&self, _: Rows) -> Result<Option<RollBack>> {
        Ok(None)
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(None)
    }

    fn with_uncommitted(&self, _: Rows, _: WithUncommitted<'_>) -> Result<bool> {
        Ok(false)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        Reader::count(&*self.0.lock().unwrap_or_else(PoisonError::into_inner), from, to)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl<F: SumField> Client for &MapStore<F> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(F::of(key), F::of(value));
        Ok(())
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(&F::of(key)).map(|value| value.with_bytes(see)).is_some())
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in map.range(F::of(from)..).take(limit as usize) {
            key.with_bytes(|key| value.with_bytes(|value| see(key, value)));
        }
        Ok(())
    }
}

impl<F: SumField> Reader for BTreeMap<F, F> {
    fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        for key in self.range((Bound::Included(F::of(from)), Bound::Unbounded)).map(|(key, _)| key) {
            if !key.with_bytes(&mut *visit) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(BTreeMap::get(self, &F::of(key)).map_or(0, F::fingerprint))
    }

    // Counting through the iterator itself, without a call per row, is what a user of the map would write.
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        Ok(self.range(F::of(from)..F::of(to)).count() as u64)
    }

    fn rank(&self, key: &[u8]) -> Result<u64> {
        Ok(self.range(..F::of(key)).count() as u64)
    }

    fn page(&self, offset: u64, limit: u64) -> Result<u64> {
        let keys: Keys<'_, F, F> = self.keys();
        let rows = keys.skip(offset as usize).take(limit as usize);
        Ok(rows.fold(0, |sum: u64, key| sum.wrapping_add(key.fingerprint())))
    }
}
