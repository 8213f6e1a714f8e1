//! Quipu: an ordered, durable, transactional key-value database in which every tree keeps a **tally**.
//!
//! On live tables, inside transactions and at snapshots, it tells exactly and in logarithmic time how many rows lie in
//! a range, which row is number 5,000,000, and what the rank of a key is.
//!
//! **Use it** for pages at any offset with their exact total, ranks, medians, counts and sums over ranges, queues, and
//! work that is split into equal parts, in a program that is the only one to write its database.
//!
//! **Do not use it** for reports over whole tables (DuckDB), if several processes write one database (PostgreSQL,
//! SQLite), for data that fits into memory, is mostly read and never counted (LMDB), for overwrites without reading of
//! far more data than memory (RocksDB), or if files must be readable by later versions: this is 0.1, unreleased, and
//! tested on Linux. `docs/comparison.md` has the figures.
//!
//! # Overview of types
//!
//! - [`Db`]: an open database. [`Db::open`], [`Db::ensure_table`], [`Db::write`], [`Db::begin`], [`Db::snapshot`].
//! - [`Table`]: a table. [`Snapshot`]: all tables at one moment; [`TableView`]: one of them;
//!   [`LendingView`](latched::LendingView): one that lends values; [`TableSnapshot`]: one that borrows nothing.
//!   [`Transaction`] and [`TableTransaction`]: the same inside a transaction.
//! - [`ReadableTable`] and [`WritableTable`]: the operations that all of these share. [`Bounds`]: ranges of keys.
//!   [`Cursor`], [`Rows`], [`OwnedRows`], [`RowPage`], [`Entry`]: results, of [`bytes`].
//! - [`Tally`]: rows, bytes, hash and sum of a range; [`Measures`]: which of them a table keeps.
//! - [`Error`]: its [`ErrorKind`] says what to do next.
//!
//! What fewer programs need has modules:
//!
//! - [`mod@tuple`]: composite keys that sort as people expect.
//! - [`cost`]: what a read will cost, and what it has cost. [`histogram`]: where rows lie.
//! - [`isolation`]: what an optimistic transaction relies on. [`ingest`]: many sorted rows as one commit.
//! - [`files`]: checks, restores and repairs a database that is closed. [`Db::backup`] copies one that is written to.
//! - [`stats`]: what [`Db::stats`] and work on the files report. [`waits`]: where threads wait, for a profiler.
//! - [`latched`]: reads and writes in place, for servers. [`io`]: the disk, and one that fails on purpose, for tests.
//!
//! No name here is one of `quipu_rows`, so both can be imported whole.
//!
//! # Five examples
//!
//! Rows are keys and values, and both are bytes. A closure given to [`Db::write`] is one transaction:
//!
//! ```
//! use quipu::{Db, Options, ReadableTable, WritableTable};
//! # fn main() -> quipu::Result<()> {
//! # let options = Options::without_files();
//! let db = Db::open("/data/scores", options)?;
//! let scores = db.ensure_table("scores")?;
//! db.write(|tx| {
//!     let scores = tx.table(&scores)?;
//!     for points in 0..10_000u32 {
//!         scores.insert((points * 7 % 10_000).to_be_bytes(), format!("a player with {points}"))?;
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(scores.len()?, 10_000);
//! # Ok(())
//! # }
//! ```
//!
//! Positions and counts take one descent, however many rows there are:
//!
//! ```
//! # use quipu::{Db, Options, ReadableTable, WritableTable};
//! # fn main() -> quipu::Result<()> {
//! # let db = Db::open("/data/scores", Options::without_files())?;
//! # let scores = db.ensure_table("scores")?;
//! # db.write(|tx| (0..10_000u32).try_for_each(|points| tx.table(&scores)?.put(points.to_be_bytes(), b"")))?;
//! let key = |points: u32| points.to_be_bytes();
//! assert_eq!(scores.rank(key(2_500))?, 2_500); // rows below it
//! assert_eq!(scores.count(&key(1_000)..&key(3_000))?, 2_000);
//! let page = scores.page(.., 5_000, 10)?; // ten rows from the 5,000th on, and how many there are
//! assert_eq!((page.entries.len(), page.total), (10, 10_000));
//! let median = scores.quantile(.., 0.5)?.expect("there are rows");
//! assert_eq!(*median.key, key(5_000));
//! # Ok(())
//! # }
//! ```
//!
//! [`Measures`] are kept with the number of rows: bytes, a hash, and the sum of a field. So a total over any range
//! takes one descent too:
//!
//! ```
//! use quipu::{Db, Measures, Options, ReadableTable, SumField, TableOptions, WritableTable};
//! # fn main() -> quipu::Result<()> {
//! # let db = Db::open("/data/shop", Options::without_files())?;
//! let measures = Measures { bytes: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
//! let sales = db.create_table("sales", TableOptions { measures, ..TableOptions::default() })?;
//! sales.put("2026-11-01 till 3", 1_250i64.to_be_bytes())?;
//! sales.put("2026-11-02 till 1", 300i64.to_be_bytes())?;
//! sales.put("2026-12-01 till 3", 99i64.to_be_bytes())?;
//! let november = sales.tally("2026-11".."2026-12")?;
//! assert_eq!((november.rows, november.sum), (2, 1_550));
//! # Ok(())
//! # }
//! ```
//!
//! Several transactions can be open at once. If a commit changes what another transaction has read, counts included,
//! that transaction is refused when it commits. [`Db::retry`] runs one again until it is not:
//!
//! ```
//! use quipu::{Db, ErrorKind, Options, ReadableTable, WritableTable};
//! # fn main() -> quipu::Result<()> {
//! # let db = Db::open("/data/seats", Options::without_files())?;
//! let booked = db.ensure_table("booked")?;
//! let (anna, ben) = (db.begin(), db.begin());
//! for (transaction, seat) in [(&anna, "12A"), (&ben, "12B")] {
//!     let booked = transaction.table(&booked)?;
//!     assert_eq!(booked.len()?, 0); // "I am the first"
//!     booked.insert(seat, b"")?;
//! }
//! anna.commit()?;
//! assert_eq!(ben.commit().unwrap_err().kind(), ErrorKind::Conflict);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Snapshot`] is all tables at one moment. It is taken at once, blocks no thread, and can go to other threads:
//!
//! ```
//! use quipu::{Db, Options, ReadableTable, WritableTable};
//! # fn main() -> quipu::Result<()> {
//! # let db = Db::open("/data/log", Options::without_files())?;
//! let lines = db.ensure_table("lines")?;
//! lines.put("1", "started")?;
//! let before = db.snapshot();
//! lines.put("2", "stopped")?;
//! let then = before.table(&lines)?;
//! assert_eq!((then.len()?, lines.len()?), (1, 2));
//! let keys: Vec<_> = then.range(..).map(|entry| Ok(entry?.key)).collect::<quipu::Result<_>>()?;
//! assert_eq!(*keys[0], *b"1");
//! # Ok(())
//! # }
//! ```

mod bounds;
pub mod bytes;
mod cache;
mod catalog;
mod compression;
pub mod cost;
mod db;
mod error;
pub mod files;
pub mod histogram;
pub mod ingest;
mod inner_pages;
pub mod io;
pub mod isolation;
pub mod latched;
mod log;
mod maintenance;
mod options;
mod page;
mod probe;
mod progress;
mod read;
mod run;
mod stack;
mod state;
pub mod stats;
mod sync;
mod table;
mod tally;
mod transactions;
mod tree;
pub mod tuple;
pub mod waits;
mod write;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;

pub use bounds::Bounds;
pub use compression::Compression;
pub use db::Db;
pub use error::{Error, ErrorKind, Result};
pub use inner_pages::InnerPages;
pub use options::{Durability, Options, RunLayout, TableOptions};
pub use progress::Progress;
pub use read::cursor::Cursor;
pub use read::entry::{Entry, RowPage};
pub use read::readable::ReadableTable;
pub use read::rows::Rows;
pub use state::snapshot::{Snapshot, TableView};
pub use state::table_handle::Table;
pub use state::table_snapshot::{OwnedRows, TableSnapshot};
pub use table::WriteBatch;
pub use tally::{Measures, SumField, Tally};
pub use transactions::table_transaction::TableTransaction;
pub use transactions::transaction::{Savepoint, Transaction};
pub use write::writable::WritableTable;
