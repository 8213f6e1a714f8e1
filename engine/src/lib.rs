//! Quipu: an ordered, durable, transactional key-value database in which every tree keeps a **tally**.
//!
//! It tells, exactly and in logarithmic time, how many rows lie in a range, which row is number 5,000,000, and what the rank of a key is:
//! on live tables, inside transactions, and at snapshots.
//!
//! # Overview of types
//!
//! - [`Db`]: an open database. [`Db::open`], [`Db::table`], [`Db::write`], [`Db::begin`], [`Db::read`].
//! - [`Table`]: a table; [`Snapshot`] and [`TableView`]: all tables, and one, at a moment; [`Transaction`] and [`TableTransaction`]: the same inside a transaction.
//! - [`Read`] and [`Write`]: what can be done with each of them alike. [`Bounds`]: ranges of keys. [`Cursor`], [`Range`], [`Page`], [`Entry`]: answers.
//! - [`Plan`], [`Histogram`], [`Explained`]: what an answer will cost, where rows lie, what an answer has cost; [`Cost`], [`Charge`].
//! - [`Tally`]: rows, bytes, hash and sum of a range; [`Measures`]: which of them a table keeps.
//! - [`mod@tuple`]: composite keys that sort as people expect.
//! - [`check()`]: everything that is wrong with the files of a database. [`Db::backup`]: a copy of it while it is written to; [`restore()`]: and back. [`repair()`]: what can be saved of
//!   a damaged one.
//! - [`Error`]: its [`ErrorKind`] says what to do next.
//!
//! # Example
//!
//! ```
//! use quipu::{Bounds, Db, Options, Read, Write};
//! # fn main() -> quipu::Result<()> {
//! # let options = Options::in_memory();
//! let db = Db::open("/data/scores", options)?;
//! let scores = db.table("scores")?;
//! db.write(|tx| {
//!     let scores = tx.table(&scores)?;
//!     for player in 0..10_000u32 {
//!         scores.insert((player * 7 % 10_000).to_be_bytes(), format!("player {player}"))?;
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(scores.len()?, 10_000);
//! assert_eq!(scores.rank(2500u32.to_be_bytes())?, 2500);
//! let page = scores.page(.., 5_000, 10)?;
//! assert_eq!((page.entries.len(), page.total), (10, 10_000));
//! let median = scores.quantile(.., 0.5)?.expect("there are rows");
//! assert_eq!(*median.key, 5000u32.to_be_bytes());
//! # Ok(())
//! # }
//! ```

mod backup;
mod blind;
mod bounds;
mod check;
mod checkpoint;
mod commit;
mod committed;
mod compaction;
mod compression;
mod cursor;
mod db;
mod decision;
mod edit;
mod entry;
mod error;
mod explain;
mod failures;
mod index_pages;
pub mod io;
mod keeper;
mod latch;
mod layers;
mod log;
mod manifest;
mod memory;
mod mixed;
mod observation;
mod open;
mod options;
mod page;
mod pieces;
mod preload;
mod range;
mod read;
mod record;
mod repair;
mod run;
mod sample;
mod snapshot;
mod source;
mod stack;
mod stats;
mod sync;
mod table;
mod tally;
mod transaction;
mod tree;
pub mod tuple;
mod unresolved;
mod validation;
pub mod waits;
mod writer;

#[doc(hidden)]
pub mod bench;
#[doc(hidden)]
pub mod fuzz;

pub use backup::{BackupInfo, BackupOptions, restore};
pub use bounds::Bounds;
pub use check::{CheckReport, check};
pub use checkpoint::CheckpointInfo;
pub use committed::Committed;
pub use compression::Compression;
pub use cursor::Cursor;
pub use db::{Db, Progress};
pub use edit::{Action, Edit};
pub use entry::{Entry, Key, Page, Value};
pub use error::{Error, ErrorKind, Result};
pub use explain::Explained;
pub use failures::{Failure, Task};
pub use index_pages::IndexPages;
pub use options::{Durability, Options, RunIndex, TableOptions};
pub use range::Range;
pub use read::{Charge, Plan, Read};
pub use repair::{Loss, RepairReport, repair};
pub use run::{Bucket, Estimate, Histogram, Preloaded, Resolution};
pub use snapshot::{Look, Snapshot, TableView};
pub use source::Cost;
pub use stats::{Stats, TableStats};
pub use table::{Table, Write, WriteBatch};
pub use tally::{Field, Measures, Tally};
pub use transaction::{Savepoint, TableTransaction, Transaction};
