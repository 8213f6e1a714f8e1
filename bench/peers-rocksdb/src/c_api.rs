//! The functions of `rocksdb/c.h` (7.x) that the bench calls, as they stand there.

use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// Types that are only ever seen behind a pointer.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            bytes: [u8; 0],
            marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque!(
    BlockBasedTableOptions,
    Cache,
    ColumnFamily,
    Db,
    FilterPolicy,
    FlushOptions,
    Iter,
    OptimisticTransactionDb,
    OptimisticTransactionOptions,
    Options,
    PinnableSlice,
    ReadOptions,
    Snapshot,
    Transaction,
    WriteBatch,
    WriteOptions,
);

/// Where a function leaves an error message, which `rocksdb_free` frees; null before the call.
pub(crate) type ErrorOut = *mut *mut c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub(crate) fn rocksdb_free(pointer: *mut c_void);

    pub(crate) fn rocksdb_options_create() -> *mut Options;
    pub(crate) fn rocksdb_options_destroy(options: *mut Options);
    pub(crate) fn rocksdb_options_set_create_if_missing(options: *mut Options, value: c_uchar);
    pub(crate) fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    pub(crate) fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
    pub(crate) fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut BlockBasedTableOptions,
    );
    pub(crate) fn rocksdb_block_based_options_create() -> *mut BlockBasedTableOptions;
    pub(crate) fn rocksdb_block_based_options_destroy(options: *mut BlockBasedTableOptions);
    pub(crate) fn rocksdb_block_based_options_set_block_cache(options: *mut BlockBasedTableOptions, cache: *mut Cache);
    pub(crate) fn rocksdb_block_based_options_set_filter_policy(
        options: *mut BlockBasedTableOptions,
        policy: *mut FilterPolicy,
    );
    pub(crate) fn rocksdb_cache_create_lru(capacity: usize) -> *mut Cache;
    pub(crate) fn rocksdb_cache_destroy(cache: *mut Cache);
    pub(crate) fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: c_double) -> *mut FilterPolicy;

    pub(crate) fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const Options,
        name: *const c_char,
        count: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        families: *mut *mut ColumnFamily,
        error: ErrorOut,
    ) -> *mut OptimisticTransactionDb;
    pub(crate) fn rocksdb_column_family_handle_destroy(family: *mut ColumnFamily);
    pub(crate) fn rocksdb_optimistictransactiondb_close(database: *mut OptimisticTransactionDb);
    pub(crate) fn rocksdb_optimistictransactiondb_get_base_db(database: *mut OptimisticTransactionDb) -> *mut Db;
    pub(crate) fn rocksdb_optimistictransactiondb_close_base_db(base: *mut Db);
    pub(crate) fn rocksdb_property_int(database: *mut Db, name: *const c_char, out: *mut u64) -> c_int;

    pub(crate) fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    pub(crate) fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    pub(crate) fn rocksdb_flush(database: *mut Db, options: *const FlushOptions, error: ErrorOut);
    pub(crate) fn rocksdb_compact_range(
        database: *mut Db,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    );

    pub(crate) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub(crate) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub(crate) fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, value: c_uchar);
    pub(crate) fn rocksdb_writeoptions_disable_WAL(options: *mut WriteOptions, disable: c_int);
    pub(crate) fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub(crate) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub(crate) fn rocksdb_readoptions_set_snapshot(options: *mut ReadOptions, snapshot: *const Snapshot);

    pub(crate) fn rocksdb_put(
        database: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: ErrorOut,
    );
    pub(crate) fn rocksdb_writebatch_create() -> *mut WriteBatch;
    pub(crate) fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
    pub(crate) fn rocksdb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    pub(crate) fn rocksdb_write(
        database: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: ErrorOut,
    );

    pub(crate) fn rocksdb_get_pinned(
        database: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        error: ErrorOut,
    ) -> *mut PinnableSlice;
    pub(crate) fn rocksdb_batched_multi_get_cf(
        database: *mut Db,
        options: *const ReadOptions,
        family: *mut ColumnFamily,
        count: usize,
        keys: *const *const c_char,
        key_lens: *const usize,
        values: *mut *mut PinnableSlice,
        errors: *mut *mut c_char,
        sorted_input: bool,
    );
    pub(crate) fn rocksdb_pinnableslice_value(slice: *const PinnableSlice, len: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_pinnableslice_destroy(slice: *mut PinnableSlice);

    pub(crate) fn rocksdb_create_iterator(database: *mut Db, options: *const ReadOptions) -> *mut Iter;
    pub(crate) fn rocksdb_iter_destroy(iterator: *mut Iter);
    pub(crate) fn rocksdb_iter_seek(iterator: *mut Iter, key: *const c_char, key_len: usize);
    pub(crate) fn rocksdb_iter_valid(iterator: *const Iter) -> c_uchar;
    pub(crate) fn rocksdb_iter_next(iterator: *mut Iter);
    pub(crate) fn rocksdb_iter_key(iterator: *const Iter, len: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_iter_value(iterator: *const Iter, len: *mut usize) -> *const c_char;
    pub(crate) fn rocksdb_iter_get_error(iterator: *const Iter, error: ErrorOut);

    pub(crate) fn rocksdb_create_snapshot(database: *mut Db) -> *const Snapshot;
    pub(crate) fn rocksdb_release_snapshot(database: *mut Db, snapshot: *const Snapshot);

    pub(crate) fn rocksdb_optimistictransaction_options_create() -> *mut OptimisticTransactionOptions;
    pub(crate) fn rocksdb_optimistictransaction_options_destroy(options: *mut OptimisticTransactionOptions);
    pub(crate) fn rocksdb_optimistictransaction_begin(
        database: *mut OptimisticTransactionDb,
        write: *const WriteOptions,
        options: *const OptimisticTransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;
    pub(crate) fn rocksdb_transaction_destroy(transaction: *mut Transaction);
    pub(crate) fn rocksdb_transaction_put(
        transaction: *mut Transaction,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: ErrorOut,
    );
    pub(crate) fn rocksdb_transaction_create_iterator(
        transaction: *mut Transaction,
        options: *const ReadOptions,
    ) -> *mut Iter;
    pub(crate) fn rocksdb_transaction_commit(transaction: *mut Transaction, error: ErrorOut);
    pub(crate) fn rocksdb_transaction_rollback(transaction: *mut Transaction, error: ErrorOut);
}
