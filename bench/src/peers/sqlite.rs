//! SQLite through rusqlite, compiled in: B-trees, one writer, readers beside it in WAL mode.
//!
//! - Table: keys of at most 8 bytes are the integer primary key (SQLite's fastest table; 8-byte keys with the sign
//!   turned, so that the order stays), longer ones a BLOB key WITHOUT ROWID, unless values are longer than a 20th of a
//!   page, up to which SQLite's documentation recommends that: of values of 1000 bytes the common table was loaded
//!   twice as fast, and read and updated as fast or faster; only scans took twice as long as WITHOUT ROWID in pages of
//!   8 KiB.
//! - no durability and `os`: WAL, `synchronous = OFF`: commits are written, not synced. `sync`: WAL, `synchronous =
//!   FULL`.
//! - Statements are prepared once. One connection writes, under a mutex (that is faster than its busy handler);
//!   another reads.
//! - A client has one connection for its reads and its writes: a connection forgets its cache when another has written.
//!   The cache's size is that of each connection.
//! - Without a caller's transaction: one transaction over all inserts, as each statement would commit by itself.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{CachedStatement, Connection};

use crate::clock::{Deadline, Stopwatch};
use crate::rows::{Rows, fingerprint};
use crate::store::{Client, Durability, Reader, Result, RollBack, Setup, Snapshot, Store, StoreKind, WithUncommitted};

pub(crate) const SQLITE: StoreKind = StoreKind {
    name: "sqlite",
    settings: "SQLite (rusqlite 0.41): WAL; integer key up to 8 bytes; none and os synchronous=OFF; sync FULL",
    durable: true,
    has_cache: true,
    only_files: false,
    settling: "wal_checkpoint(TRUNCATE); there is no work in the background",
    bytes_max: (usize::MAX, usize::MAX),
    open,
};

struct SqliteStore {
    path: PathBuf,
    setup: Setup,
    /// Held by the thread that writes, on this connection or on its own.
    writer: Mutex<Connection>,
    /// Connections that read, while no thread uses them: opening one takes longer than a question.
    idle: Mutex<Vec<Connection>>,
    /// Length of the keys; 0 before the table exists.
    key_bytes: AtomicUsize,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Store>> {
    let path = dir.join("sqlite");
    let writer = connect(&path, setup)?;
    let key_bytes: i64 = writer.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    Ok(Box::new(SqliteStore {
        path,
        setup,
        writer: Mutex::new(writer),
        idle: Mutex::default(),
        key_bytes: AtomicUsize::new(key_bytes as usize),
    }))
}

/// A connection to the database in this file.
pub(crate) fn connect(path: &Path, setup: Setup) -> Result<Connection> {
    let connection = Connection::open(path)?;
    let synchronous = if setup.durability == Durability::Sync { "FULL" } else { "OFF" };
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{}; PRAGMA temp_store = MEMORY;",
        setup.cache_bytes >> 10
    ))?;
    Ok(connection)
}

/// The longest values that stand in the tree of the keys: a 20th of a page.
const VALUE_BYTES_IN_KEY_TREE_MAX: usize = 4096 / 20;

/// The key as SQLite has it.
fn key_value(key: &[u8]) -> Value {
    match key.len() {
        0 => Value::Integer(i64::MIN),
        1..8 => Value::Integer(fingerprint(key) as i64), // 4 bytes: small positive numbers
        8 => Value::Integer((fingerprint(key) ^ (1 << 63)) as i64),
        _ => Value::Blob(key.to_vec()),
    }
}

const INSERT: &str = "INSERT INTO t (k, v) VALUES (?, ?)";
const PUT: &str = "INSERT INTO t (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
const GET: &str = "SELECT v FROM t WHERE k = ?";
const SCAN: &str = "SELECT k, v FROM t WHERE k >= ? ORDER BY k LIMIT ?";
const COUNT: &str = "SELECT count(*) FROM t WHERE k >= ? AND k < ?";

fn insert(statement: &mut CachedStatement<'_>, key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() <= 8 {
        let Value::Integer(key) = key_value(key) else { unreachable!("a short key is a number") };
        statement.execute((key, value))?;
    } else {
        statement.execute((key, value))?;
    }
    Ok(())
}

fn fill(connection: &Connection, rows: Rows, deadline: &Deadline) -> Result<u64> {
    fill_by(INSERT, connection, rows, deadline)
}

fn fill_by(statement: &str, connection: &Connection, rows: Rows, deadline: &Deadline) -> Result<u64> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut cursor = rows.cursor();
    while !deadline.passed_at(cursor.done())
        && let Some((key, value)) = cursor.advance()
    {
        insert(&mut statement, key, value)?;
    }
    Ok(cursor.done())
}

fn count(connection: &Connection, from: &[u8], to: &[u8]) -> Result<u64> {
    let mut statement = connection.prepare_cached(COUNT)?;
    Ok(statement.query_row((key_value(from), key_value(to)), |row| row.get::<_, i64>(0))? as u64)
}

impl SqliteStore {
    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives each row to `statement`, in one transaction.
    fn bulk_by(&self, statement: &str, rows: Rows, deadline: &Deadline) -> Result<u64> {
        let connection = self.writer();
        self.create(&connection, rows.key_bytes(), rows.value_bytes())?;
        connection.execute_batch("BEGIN")?;
        let done = fill_by(statement, &connection, rows, deadline)?;
        connection.execute_batch("COMMIT")?;
        Ok(done)
    }

    /// Creates the table that suits keys of this length; the first insert knows it.
    fn create(&self, connection: &Connection, key_bytes: usize, value_bytes: usize) -> Result<()> {
        if self.key_bytes.swap(key_bytes, Ordering::Relaxed) == 0 {
            connection.execute_batch(match (key_bytes, value_bytes) {
                (..=8, _) => "CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB NOT NULL)",
                (_, ..=VALUE_BYTES_IN_KEY_TREE_MAX) => {
                    "CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
                }
                _ => "CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB NOT NULL)",
            })?;
            // For who opens it again.
            connection.execute_batch(&format!("PRAGMA user_version = {key_bytes}"))?;
        }
        Ok(())
    }

    /// A connection to read with, not in a transaction.
    fn reader(&self) -> Result<SqliteReader<'_>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| connect(&self.path, self.setup), Ok)?;
        Ok(SqliteReader { connection: Some(connection), store: self })
    }

    /// A connection in a read transaction.
    fn reading(&self) -> Result<SqliteReader<'_>> {
        let reader = self.reader()?;
        reader.connection().execute_batch("BEGIN")?;
        // The transaction's moment is that of its first read.
        let mut first = reader.connection().prepare_cached("SELECT 1 FROM t LIMIT 1")?;
        first.exists(())?;
        drop(first);
        Ok(reader)
    }
}

impl Store for SqliteStore {
    fn insert_plain(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.insert_bulk(rows, deadline)
    }

    fn insert_each(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.create(&self.writer(), rows.key_bytes(), rows.value_bytes())?;
        let mut cursor = rows.cursor();
        while !deadline.passed()
            && let Some((key, value)) = cursor.advance()
        {
            let connection = self.writer();
            let mut statement = connection.prepare_cached(INSERT)?;
            insert(&mut statement, key, value)?;
        }
        Ok(cursor.done())
    }

    fn insert_bulk(&self, rows: Rows, deadline: &Deadline) -> Result<u64> {
        self.bulk_by(INSERT, rows, deadline)
    }

    fn put_bulk(&self, rows: Rows) -> Result<u64> {
        self.bulk_by(PUT, rows, &Deadline::never())
    }

    fn roll_back(&self, rows: Rows) -> Result<Option<RollBack>> {
        let connection = self.writer();
        self.create(&connection, rows.key_bytes(), rows.value_bytes())?;
        let watch = Stopwatch::start();
        connection.execute_batch("BEGIN")?;
        fill(&connection, rows, &Deadline::never())?;
        let insert = watch.stop();
        let watch = Stopwatch::start();
        connection.execute_batch("ROLLBACK")?;
        Ok(Some(RollBack { insert, roll_back: watch.stop() }))
    }

    fn read(&self, run: &mut dyn FnMut(&dyn Reader) -> Result<()>) -> Result<()> {
        run(&self.reading()?)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(self.reading()?)))
    }

    fn with_uncommitted(&self, rows: Rows, run: WithUncommitted<'_>) -> Result<bool> {
        let connection = self.writer();
        connection.execute_batch("BEGIN")?;
        fill(&connection, rows, &Deadline::never())?;
        run(&mut |from, to| count(&connection, from, to))?;
        connection.execute_batch("ROLLBACK")?;
        Ok(true)
    }

    fn count_in_transaction(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        // A single SELECT is a transaction.
        count(self.reader()?.connection(), from, to)
    }

    fn settle(&self) -> Result<()> {
        let connection = self.writer();
        let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
        let is_busy: i64 = statement.query_row((), |row| row.get(0))?;
        if is_busy == 0 { Ok(()) } else { Err("SQLite: a checkpoint found the log in use".into()) }
    }

    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(SqliteClient { connection: connect(&self.path, self.setup)?, store: self }))
    }
}

struct SqliteClient<'a> {
    connection: Connection,
    store: &'a SqliteStore,
}

impl Client for SqliteClient<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = self.store.writer();
        self.store.create(&writer, key.len(), value.len())?;
        insert(&mut self.connection.prepare_cached(PUT)?, key, value)
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(GET)?;
        let mut rows = statement.query((key_value(key),))?;
        let Some(row) = rows.next()? else { return Ok(false) };
        see(row.get_ref(0)?.as_blob()?);
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut statement = self.connection.prepare_cached(SCAN)?;
        let mut rows = statement.query((key_value(from), limit as i64))?;
        let key_bytes = self.store.key_bytes.load(Ordering::Relaxed).min(8);
        while let Some(row) = rows.next()? {
            let value = row.get_ref(1)?.as_blob()?;
            match row.get_ref(0)? {
                // As `key_value` made it.
                ValueRef::Integer(number) if key_bytes == 8 => see(&(number as u64 ^ (1 << 63)).to_be_bytes(), value),
                ValueRef::Integer(number) => see(&number.to_be_bytes()[8 - key_bytes..], value),
                key => see(key.as_blob()?, value),
            }
        }
        Ok(())
    }
}

struct SqliteReader<'a> {
    /// There until it is dropped.
    connection: Option<Connection>,
    store: &'a SqliteStore,
}

impl SqliteReader<'_> {
    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("a reader in use has its connection")
    }

    /// The fingerprint of a key that SQLite gave back.
    fn key_fingerprint(&self, key: ValueRef<'_>) -> u64 {
        match key {
            ValueRef::Integer(number) if self.store.key_bytes.load(Ordering::Relaxed) == 8 => number as u64 ^ (1 << 63),
            ValueRef::Integer(number) => number as u64,
            ValueRef::Blob(bytes) => fingerprint(bytes),
            _ => 0,
        }
    }
}

impl Drop for SqliteReader<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take().expect("dropped once");
        if connection.is_autocommit() || connection.execute_batch("COMMIT").is_ok() {
            self.store.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Reader for SqliteReader<'_> {
    fn scan(&self, _: &[u8], _: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        Err("SQLite answers by its own statements".into())
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        let mut statement = self.connection().prepare_cached(GET)?;
        let mut rows = statement.query((key_value(key),))?;
        Ok(match rows.next()? {
            Some(row) => fingerprint(row.get_ref(0)?.as_blob()?),
            None => 0,
        })
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(self.connection(), from, to)
    }

    fn rank(&self, key: &[u8]) -> Result<u64> {
        let mut statement = self.connection().prepare_cached("SELECT count(*) FROM t WHERE k < ?")?;
        Ok(statement.query_row((key_value(key),), |row| row.get::<_, i64>(0))? as u64)
    }

    fn page(&self, offset: u64, limit: u64) -> Result<u64> {
        let mut statement = self.connection().prepare_cached("SELECT k FROM t ORDER BY k LIMIT ? OFFSET ?")?;
        let mut rows = statement.query((limit as i64, offset as i64))?;
        let mut sum = 0_u64;
        while let Some(row) = rows.next()? {
            sum = sum.wrapping_add(self.key_fingerprint(row.get_ref(0)?));
        }
        Ok(sum)
    }
}

impl Snapshot for SqliteReader<'_> {
    fn count(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        count(self.connection(), from, to)
    }
}
