//! The C interface made safe: every handle is freed once, lifetimes keep the database open under what came from it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use quipu_bench::rows::Key;
use quipu_bench::store::{Durability, Result, Setup};

use crate::c_api::*;

/// The name of the table that every database has.
const FAMILY: &CStr = c"default";
/// `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;

/// An open database.
pub(crate) struct Database {
    transactional: NonNull<OptimisticTransactionDb>,
    /// The same database, for everything but transactions.
    base: NonNull<Db>,
    /// The one of its tables that there is.
    family: NonNull<ColumnFamily>,
    write: NonNull<WriteOptions>,
}

// SAFETY: a RocksDB database may be used from all threads at once; the write options are not changed after `open`.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

/// Runs a C call that reports errors through a pointer.
fn checked<T>(call: impl FnOnce(ErrorOut) -> T) -> Result<T> {
    let mut message: *mut c_char = ptr::null_mut();
    let answer = call(&raw mut message);
    if message.is_null() {
        return Ok(answer);
    }
    // SAFETY: a message is a string that ends in 0 and that we own until we free it, once, here.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        rocksdb_free(message.cast());
        text
    };
    Err(format!("rocksdb: {text}").into())
}

fn some<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| "rocksdb gave no handle".into())
}

impl Database {
    /// Opens an empty database: no compression (values are random), one cache, Bloom filters of 10 bits, background
    /// work on two threads; everything else as it comes.
    pub(crate) fn open(dir: &Path, setup: Setup) -> Result<Self> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: every pointer passed was just created by the matching call and is freed once. The table options copy
        // the cache's shared pointer and take over the filter policy; the options copy the table options; the database
        // copies the options.
        unsafe {
            let table = rocksdb_block_based_options_create();
            let cache = rocksdb_cache_create_lru(setup.cache_bytes as usize);
            rocksdb_block_based_options_set_block_cache(table, cache);
            rocksdb_cache_destroy(cache);
            rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10.0));
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_increase_parallelism(options, 2);
            rocksdb_options_set_compression(options, NO_COMPRESSION);
            rocksdb_options_set_block_based_table_factory(options, table);
            rocksdb_block_based_options_destroy(table);
            let mut family = ptr::null_mut();
            let opened = checked(|error| {
                rocksdb_optimistictransactiondb_open_column_families(
                    options,
                    name.as_ptr(),
                    1,
                    [FAMILY.as_ptr()].as_ptr(),
                    [options.cast_const()].as_ptr(),
                    &raw mut family,
                    error,
                )
            });
            rocksdb_options_destroy(options);
            let (transactional, family) = (some(opened?)?, some(family)?);
            let base = some(rocksdb_optimistictransactiondb_get_base_db(transactional.as_ptr()))?;
            let write = some(rocksdb_writeoptions_create())?;
            rocksdb_writeoptions_set_sync(write.as_ptr(), u8::from(setup.durability == Durability::Sync));
            rocksdb_writeoptions_disable_WAL(write.as_ptr(), c_int::from(setup.durability == Durability::None));
            Ok(Database { transactional, base, family, write })
        }
    }

    /// Writes one row.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: the handles live as long as `self`; lengths are those of the slices, which RocksDB copies.
        checked(|error| unsafe {
            let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
            rocksdb_put(self.base.as_ptr(), self.write.as_ptr(), key_start, key.len(), value_start, value.len(), error);
        })
    }

    /// Writes all rows of a batch atomically.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        // SAFETY: the handles live as long as `self` and `batch`.
        checked(|error| unsafe { rocksdb_write(self.base.as_ptr(), self.write.as_ptr(), batch.0.as_ptr(), error) })
    }

    /// Writes the memtable to a file, and waits for that.
    pub(crate) fn flush(&self) -> Result<()> {
        // SAFETY: the database is open; the options, which wait as they come, are freed after the call.
        checked(|error| unsafe {
            let options = rocksdb_flushoptions_create();
            rocksdb_flush(self.base.as_ptr(), options, error);
            rocksdb_flushoptions_destroy(options);
        })
    }

    /// Compacts all keys, and waits for that. The interface tells of no error.
    pub(crate) fn compact(&self) {
        // SAFETY: the database is open; no bounds.
        unsafe { rocksdb_compact_range(self.base.as_ptr(), ptr::null(), 0, ptr::null(), 0) };
    }

    /// Takes a snapshot to read from.
    pub(crate) fn snapshot(&self) -> Result<View<'_>> {
        // SAFETY: the database is open; the snapshot is released and the options are destroyed in `View::drop`.
        unsafe {
            let options = some(rocksdb_readoptions_create())?;
            let snapshot = rocksdb_create_snapshot(self.base.as_ptr());
            rocksdb_readoptions_set_snapshot(options.as_ptr(), snapshot);
            Ok(View { database: self, options, snapshot })
        }
    }

    /// What there is at each call, with no snapshot.
    pub(crate) fn latest(&self) -> Result<View<'_>> {
        // SAFETY: no arguments; destroyed in `View::drop`.
        let options = some(unsafe { rocksdb_readoptions_create() })?;
        Ok(View { database: self, options, snapshot: ptr::null() })
    }

    /// Begins an optimistic transaction.
    pub(crate) fn begin(&self) -> Result<Open<'_>> {
        // SAFETY: the database is open and the options are freed after the call, which copies them.
        unsafe {
            let options = rocksdb_optimistictransaction_options_create();
            let begun = rocksdb_optimistictransaction_begin(
                self.transactional.as_ptr(),
                self.write.as_ptr(),
                options,
                ptr::null_mut(),
            );
            rocksdb_optimistictransaction_options_destroy(options);
            let read = rocksdb_readoptions_create();
            Ok(Open { _database: self, transaction: some(begun)?, read: some(read)? })
        }
    }

    /// What the database says of itself.
    pub(crate) fn property(&self, name: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the database is open, the name ends in 0, and the answer goes to a local.
        let known = unsafe { rocksdb_property_int(self.base.as_ptr(), name.as_ptr(), &raw mut value) };
        (known == 0).then_some(value)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: created in `open`, freed here only; views, cursors and transactions borrow the database, so none is
        // left.
        unsafe {
            rocksdb_writeoptions_destroy(self.write.as_ptr());
            rocksdb_column_family_handle_destroy(self.family.as_ptr());
            rocksdb_optimistictransactiondb_close_base_db(self.base.as_ptr());
            rocksdb_optimistictransactiondb_close(self.transactional.as_ptr());
        }
    }
}

/// Rows to write at once.
pub(crate) struct Batch(NonNull<WriteBatch>);

impl Batch {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: no arguments; destroyed in `drop`.
        Ok(Batch(some(unsafe { rocksdb_writebatch_create() })?))
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: the batch is ours; lengths are those of the slices, which RocksDB copies.
        unsafe {
            rocksdb_writebatch_put(self.0.as_ptr(), key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed here only.
        unsafe { rocksdb_writebatch_destroy(self.0.as_ptr()) };
    }
}

/// The options of reading, and the snapshot that is read if there is one.
pub(crate) struct View<'a> {
    database: &'a Database,
    options: NonNull<ReadOptions>,
    /// May be null.
    snapshot: *const Snapshot,
}

// SAFETY: options and snapshot are used through `&self` only by calls that RocksDB allows from any thread.
unsafe impl Send for View<'_> {}

impl View<'_> {
    /// Shows the value of a key.
    pub(crate) fn get<T>(&self, key: &[u8], show: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        // SAFETY: database and options live; the length is that of the slice.
        let pinned = checked(|error| unsafe {
            let (base, options) = (self.database.base.as_ptr(), self.options.as_ptr());
            rocksdb_get_pinned(base, options, key.as_ptr().cast(), key.len(), error)
        })?;
        let Some(pinned) = NonNull::new(pinned) else { return Ok(None) };
        // SAFETY: the value's bytes stay where they are until the slice is destroyed, which happens after `show`, once.
        unsafe {
            let mut len = 0;
            let start = rocksdb_pinnableslice_value(pinned.as_ptr(), &raw mut len);
            let answer = show(std::slice::from_raw_parts(start.cast(), len));
            rocksdb_pinnableslice_destroy(pinned.as_ptr());
            Ok(Some(answer))
        }
    }

    /// Shows the values of those of the keys that are there.
    pub(crate) fn get_many(&self, keys: &[Key], mut show: impl FnMut(&[u8])) -> Result<()> {
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values: Vec<*mut PinnableSlice> = vec![ptr::null_mut(); keys.len()];
        let mut errors: Vec<*mut c_char> = vec![ptr::null_mut(); keys.len()];
        // SAFETY: database, family and options live; all four arrays are as long as is said, and lengths are those of
        // the keys.
        unsafe {
            rocksdb_batched_multi_get_cf(
                self.database.base.as_ptr(),
                self.options.as_ptr(),
                self.database.family.as_ptr(),
                keys.len(),
                starts.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        for pinned in values.into_iter().filter_map(NonNull::new) {
            // SAFETY: as in `get`.
            unsafe {
                let mut len = 0;
                let start = rocksdb_pinnableslice_value(pinned.as_ptr(), &raw mut len);
                show(std::slice::from_raw_parts(start.cast(), len));
                rocksdb_pinnableslice_destroy(pinned.as_ptr());
            }
        }
        // Every message is freed, and the first is told.
        let mut told = Ok(());
        for message in errors {
            // SAFETY: `error` points to a local of `checked`.
            let one = checked(|error| unsafe { *error = message });
            told = told.and(one);
        }
        told
    }

    /// A cursor before the first key of at least `from`.
    pub(crate) fn seek(&self, from: &[u8]) -> Result<Cursor<'_>> {
        // SAFETY: database and options live, also as long as the cursor, which borrows the view.
        let iterator = unsafe { rocksdb_create_iterator(self.database.base.as_ptr(), self.options.as_ptr()) };
        Cursor::new(some(iterator)?, from, self)
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `Database::snapshot` or `latest`, freed here only; cursors borrow the view, so none is
        // left.
        unsafe {
            rocksdb_readoptions_destroy(self.options.as_ptr());
            if !self.snapshot.is_null() {
                rocksdb_release_snapshot(self.database.base.as_ptr(), self.snapshot);
            }
        }
    }
}

/// A transaction that has not ended.
pub(crate) struct Open<'a> {
    _database: &'a Database,
    transaction: NonNull<Transaction>,
    read: NonNull<ReadOptions>,
}

impl Open<'_> {
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: the transaction is ours; lengths are those of the slices, which RocksDB copies.
        checked(|error| unsafe {
            let (key_start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
            rocksdb_transaction_put(self.transaction.as_ptr(), key_start, key.len(), value_start, value.len(), error);
        })
    }

    /// A cursor over the database and the transaction's own writes, before the first key of at least `from`.
    pub(crate) fn seek(&self, from: &[u8]) -> Result<Cursor<'_>> {
        // SAFETY: transaction and options live, also as long as the cursor, which borrows the transaction.
        let iterator = unsafe { rocksdb_transaction_create_iterator(self.transaction.as_ptr(), self.read.as_ptr()) };
        Cursor::new(some(iterator)?, from, self)
    }

    pub(crate) fn commit(self) -> Result<()> {
        // SAFETY: the transaction is ours and still open.
        checked(|error| unsafe { rocksdb_transaction_commit(self.transaction.as_ptr(), error) })
    }

    pub(crate) fn roll_back(self) -> Result<()> {
        // SAFETY: the transaction is ours and still open.
        checked(|error| unsafe { rocksdb_transaction_rollback(self.transaction.as_ptr(), error) })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `Database::begin`, freed here only; cursors borrow the transaction, so none is left.
        unsafe {
            rocksdb_readoptions_destroy(self.read.as_ptr());
            rocksdb_transaction_destroy(self.transaction.as_ptr());
        }
    }
}

/// Walks over rows in key order. Borrows what it came from.
pub(crate) struct Cursor<'a> {
    iterator: NonNull<Iter>,
    started: bool,
    _source: std::marker::PhantomData<&'a ()>,
}

impl<'a> Cursor<'a> {
    fn new<S>(iterator: NonNull<Iter>, from: &[u8], _source: &'a S) -> Result<Self> {
        // SAFETY: a fresh iterator; the length is that of the slice.
        unsafe { rocksdb_iter_seek(iterator.as_ptr(), from.as_ptr().cast(), from.len()) };
        Ok(Cursor { iterator, started: false, _source: std::marker::PhantomData })
    }

    /// The next row's key.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<&[u8]>> {
        // SAFETY: the iterator is ours; `next` and `key` are called only while it is valid; the key's bytes stay where
        // they are until the iterator moves, for which the caller has to give the slice back.
        unsafe {
            let iterator = self.iterator.as_ptr();
            if self.started && rocksdb_iter_valid(iterator) != 0 {
                rocksdb_iter_next(iterator);
            }
            self.started = true;
            if rocksdb_iter_valid(iterator) == 0 {
                checked(|error| rocksdb_iter_get_error(iterator, error))?;
                return Ok(None);
            }
            let mut len = 0;
            let start = rocksdb_iter_key(iterator, &raw mut len);
            Ok(Some(std::slice::from_raw_parts(start.cast(), len)))
        }
    }

    /// Key and value of the next row.
    #[inline]
    pub(crate) fn advance_row(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let iterator = self.iterator.as_ptr();
        let Some(key) = self.advance()? else { return Ok(None) };
        // SAFETY: the iterator stands at a row, as `advance` returned its key; the value's bytes stay where they are
        // until it moves, for which the caller has to give both slices back.
        unsafe {
            let mut len = 0;
            let start = rocksdb_iter_value(iterator, &raw mut len);
            Ok(Some((key, std::slice::from_raw_parts(start.cast(), len))))
        }
    }

    /// How many rows there are before `to`.
    pub(crate) fn count_to(mut self, to: &[u8]) -> Result<u64> {
        let mut count = 0;
        while self.advance()?.is_some_and(|key| key < to) {
            count += 1;
        }
        Ok(count)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: created for this cursor, destroyed here only.
        unsafe { rocksdb_iter_destroy(self.iterator.as_ptr()) };
    }
}
