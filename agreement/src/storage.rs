//! The log of Raft on disk: rows of the node's table of facts.
//!
//! | key | value |
//! |---|---|
//! | `log entry ` and its index, big-endian | the entry |
//! | `log vote` | the term, and for whom this node has voted in it |
//! | `log committed` | the last entry that was known to be agreed |
//! | `log purged` | the last entry that a snapshot has made superfluous |
//! | `log snapshot` | the last snapshot: what it covers, and the topology |
//!
//! Entries and votes are on stable storage before Raft goes on, whatever the node's durability is.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, LogState, OptionalSend, RaftLogReader, SnapshotMeta, Vote};
use quipu::{ReadableTable, Result};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::tables::{Table, Tables};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::types::{LogId, Stored, Types, damaged, decode, encode, failed};

type LogEntry = openraft::Entry<Types>;
type Meta = SnapshotMeta<u64, openraft::EmptyNode>;

const ENTRY: &[u8] = b"log entry ";
const ENTRIES_END: &[u8] = b"log entry!";
const VOTE: &[u8] = b"log vote";
const COMMITTED: &[u8] = b"log committed";
const PURGED: &[u8] = b"log purged";
const SNAPSHOT: &[u8] = b"log snapshot";

fn entry_key(index: u64) -> Vec<u8> {
    [ENTRY, &index.to_be_bytes()].concat()
}

/// The log of one node.
#[derive(Clone)]
pub(super) struct LogStore {
    store: EngineStore,
}

/// What is changed in one commit.
#[derive(Default)]
struct Writes {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    removals: Vec<Vec<u8>>,
}

impl Writes {
    fn put<T: Serialize>(key: &[u8], value: &T) -> Writes {
        Writes { puts: vec![(key.to_vec(), encode(value))], removals: Vec::new() }
    }
}

impl LogStore {
    pub(super) fn new(store: EngineStore) -> LogStore {
        LogStore { store }
    }

    /// Writes, and returns when that is on stable storage.
    fn write(&self, writes: &Writes) -> Result<()> {
        self.store.turn_and_sync(|turn| {
            writes.puts.iter().try_for_each(|(key, value)| turn.put(Table::Facts, key, value))?;
            writes.removals.iter().try_for_each(|key| turn.remove(Table::Facts, key))
        })
    }

    fn read<T: DeserializeOwned>(&self, key: &[u8], what: &str) -> Result<Option<T>> {
        let Some(bytes) = self.store.table(Table::Facts).get(key)? else { return Ok(None) };
        decode(&bytes).map(Some).ok_or_else(|| damaged(what))
    }

    /// Entries from `start` to before `end`.
    fn entries(&self, start: u64, end: Option<u64>) -> Result<Vec<LogEntry>> {
        let end = end.map_or_else(|| ENTRIES_END.to_vec(), entry_key);
        let rows = self.store.table(Table::Facts).range(&entry_key(start)[..]..&end[..]);
        let entry = |row: Result<quipu::Entry>| decode(&row?.value).ok_or_else(|| damaged("an entry"));
        rows.map(entry).collect()
    }

    /// The keys of entries from `start` to before `end`.
    fn keys(&self, start: u64, end: Option<u64>) -> Result<Vec<Vec<u8>>> {
        Ok(self.entries(start, end)?.iter().map(|entry| entry_key(entry.log_id.index)).collect())
    }

    fn state(&self) -> Result<LogState<Types>> {
        let purged: Option<LogId> = self.read(PURGED, "the end of what was purged")?;
        let last = self.store.table(Table::Facts).range(ENTRY..ENTRIES_END).next_back();
        let last: Option<LogEntry> = match last {
            Some(row) => Some(decode(&row?.value).ok_or_else(|| damaged("the last entry"))?),
            None => None,
        };
        let last_log_id = last.map(|entry| entry.log_id).or(purged);
        Ok(LogState { last_purged_log_id: purged, last_log_id })
    }

    /// The last snapshot, and the topology in it.
    pub(super) fn snapshot(&self) -> Result<Option<(Meta, Vec<u8>)>> {
        self.read(SNAPSHOT, "the snapshot")
    }

    /// Replaces the snapshot.
    pub(super) fn save_snapshot(&self, snapshot: &(Meta, Vec<u8>)) -> Result<()> {
        self.write(&Writes::put(SNAPSHOT, snapshot))
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Stored<Vec<LogEntry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => Some(end + 1),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        self.entries(start, end).map_err(|error| failed(&error, ErrorSubject::Logs, ErrorVerb::Read))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Stored<LogState<Types>> {
        self.state().map_err(|error| failed(&error, ErrorSubject::Logs, ErrorVerb::Read))
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        let saved = self.write(&Writes::put(VOTE, vote));
        saved.map_err(|error| failed(&error, ErrorSubject::Vote, ErrorVerb::Write))
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        self.read(VOTE, "the vote").map_err(|error| failed(&error, ErrorSubject::Vote, ErrorVerb::Read))
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Stored<()> {
        let saved = self.write(&Writes::put(COMMITTED, &committed));
        saved.map_err(|error| failed(&error, ErrorSubject::Store, ErrorVerb::Write))
    }

    async fn read_committed(&mut self) -> Stored<Option<LogId>> {
        let read = self.read::<Option<LogId>>(COMMITTED, "what is agreed");
        read.map(Option::flatten).map_err(|error| failed(&error, ErrorSubject::Store, ErrorVerb::Read))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Stored<()>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let row = |entry: LogEntry| (entry_key(entry.log_id.index), encode(&entry));
        let writes = Writes { puts: entries.into_iter().map(row).collect(), ..Writes::default() };
        match self.write(&writes) {
            Ok(()) => {
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(error) => {
                callback.log_io_completed(Err(std::io::Error::other(error.to_string())));
                Err(failed(&error, ErrorSubject::Logs, ErrorVerb::Write))
            }
        }
    }

    async fn truncate(&mut self, log_id: LogId) -> Stored<()> {
        let truncated =
            self.keys(log_id.index, None).and_then(|removals| self.write(&Writes { removals, ..Writes::default() }));
        truncated.map_err(|error| failed(&error, ErrorSubject::Logs, ErrorVerb::Delete))
    }

    async fn purge(&mut self, log_id: LogId) -> Stored<()> {
        let purged = self
            .keys(0, Some(log_id.index + 1))
            .and_then(|removals| self.write(&Writes { removals, ..Writes::put(PURGED, &log_id) }));
        purged.map_err(|error| failed(&error, ErrorSubject::Logs, ErrorVerb::Delete))
    }
}
