//! State that the handles of an open database share: the published version, snapshots, the writer.
//!
//! | file | what it is |
//! |---|---|
//! | `shared` | all that the handles share, and who may write |
//! | `table_handle` | the handle of a table |
//! | `versions`, `latch` | what is published, and what snapshots hold; the lock over it |
//! | `writer` | what only the writer touches, and the turn to write |
//! | `ending`, `logged` | the last steps of each change; a record that is in the log and not yet applied |
//! | `publish`, `pending_commit` | showing a change to readers; commits that are visible and not yet durable |
//! | `layer_removal`, `key_ranges` | a range that is removed from all layers of a table; sets of ranges |
//! | `snapshot`, `table_snapshot` | snapshots and their views; snapshots that own one table |
//! | `registry`, `reclaim` | the epochs that snapshots read; pages that no snapshot sees any more |
//! | `run_files` | which files of runs there are, and whose turn it is to write them |
//! | `page_loading` | what latched reads and writes lacked |
//! | `memtable_limit` | how much memory rows may take before they go to runs |
//! | `health`, `failures` | whether the database can be written to; which background work failed |
//! | `threads` | waking and stopping the background threads |
//! | `attachments` | what layers above attach to an open database |

pub(crate) mod attachments;
pub(crate) mod ending;
pub(crate) mod failures;
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
pub(crate) mod table_handle;
pub(crate) mod table_snapshot;
pub(crate) mod threads;
pub(crate) mod versions;
pub(crate) mod writer;
