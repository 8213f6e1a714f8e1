//! The write-ahead log: records of bytes under ascending sequence numbers, in preallocated files.
//!
//! A [`Log`] appends records and makes them durable; [`recover`] reads them back after a crash.
//! `docs/internals/format-log.md` describes the bytes, in the same order as `format.rs`.
//!
//! | file | what it is |
//! |---|---|
//! | `writer`, `appender` | appending records; which files are released |
//! | `segment` | files: made, kept ready, used again |
//! | `group_commit` | one sync for all that wait |
//! | `format`, `frames` | bytes; reading them a window at a time |
//! | `recovery`, `replay`, `torn_tail` | which files are the log; their records, and what ends them |
//! | `segment_bytes` | a segment in memory, for tests |
//!
//! Invariants:
//! 1. A record is there as a whole or not at all, however many segments it spans.
//! 2. Recovery visits a prefix of what was appended: records are lost from the end only, and there is never a hole.
//! 3. Every record below a position that [`Log::sync`] has returned for is in that prefix, or recovery fails with
//!    `Corrupt`.
//! 4. A segment's name, length and allocation are durable before its first byte is stored.
//! 5. A segment id is never used twice, and checksums start from the id, so bytes of a file's former use never verify.
//! 6. Bytes after a cut are never read as records again: recovery goes on in the last segment after a durable frame
//!    that says so, and frames of earlier openings count no more after it; or in a fresh segment, whose durable header
//!    names the cut.
//! 7. After a failed write or sync nothing more is acknowledged, and a failed sync is never tried again.
//!
//! Durability: [`Log::append`] stores into a mapped file, so its records survive a killed process (`os`); [`Log::sync`]
//! makes them survive a power loss (`sync`). There is no cheaper third way: a store costs about as much as a copy into
//! a buffer, so `none` is `os` without the promise.
//!
//! Cost: an append is one uncontended lock, one checksum and one copy, with no system call and no allocation: 36 ns for
//! 40 bytes, page faults included. Entering another segment costs little more if [`Log::prepare_spare`] was called in
//! time. A sync is one `fdatasync` for all that wait, plus one for every segment filled since the last. Recovery reads
//! each segment once, a window at a time.
//!
//! Assumed of the disk: what `io` lists; and that stores into allocated bytes need no new space, so a copy-on-write
//! file system may kill the process (`SIGBUS`) when it is full.
//!
//! Not here: tables, transactions, what a record means, when to checkpoint, threads.

mod appender;
mod format;
mod frames;
mod group_commit;
mod recovery;
mod replay;
mod segment;
#[cfg(any(test, feature = "fuzz"))]
mod segment_bytes;
mod torn_tail;
mod writer;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

pub use format::Lsn;
pub(crate) use format::is_log_name;
pub use recovery::{OtherDatabase, Recovered, recover};
#[cfg(any(test, feature = "fuzz"))]
pub use segment_bytes::decode_segment;
pub use writer::{Log, LogOptions, Room};
