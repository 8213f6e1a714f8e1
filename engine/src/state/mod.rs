//! State that the handles of an open database share: the published version, snapshots, the writer.

pub(crate) mod attachments;
pub(crate) mod ending;
pub(crate) mod failures;
pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod key_ranges;
pub(crate) mod latch;
pub(crate) mod layer_removal;
pub(crate) mod logged;
pub(crate) mod memtable_limit;
pub(crate) mod page_loading;
pub(crate) mod pending_commit;
pub(crate) mod publish;
pub(crate) mod reclaim;
pub(crate) mod registry;
pub(crate) mod run_files;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod table_snapshot;
pub(crate) mod threads;
pub(crate) mod versions;
pub(crate) mod writer;
