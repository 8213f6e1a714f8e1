//! Background work: memory, flushes, checkpoints, merges of runs.
//!
//! | file | what it is |
//! |---|---|
//! | `background` | what the background threads do, and when |
//! | `memory` | which table goes to disk when memory is short, and who waits |
//! | `checkpoint_and_flush` | checkpoints of all tables, flushes of one |
//! | `merge_choice`, `merge_pieces` | which runs are merged, and what of them is not rewritten |
//! | `compaction` | merging them |
//! | `parts_writer` | the files of one run, as merges and ingests write them |
//! | `layers` | a new run in place of old layers |
//! | `removal_manifest` | a manifest that names which ranges were removed from runs |
//! | `remove_files` | files that were replaced, and those that a failed job or a crash has left |
//! | `many_runs` | writers are slowed until runs are merged |
//! | `resolve` | weights of blind writes, looked up many at once |
//! | `preload_tables` | inner pages that are read before they are needed |

pub(crate) mod background;
pub(crate) mod checkpoint_and_flush;
pub(crate) mod compaction;
pub(crate) mod layers;
pub(crate) mod many_runs;
pub(crate) mod memory;
pub(crate) mod merge_choice;
pub(crate) mod merge_pieces;
pub(crate) mod parts_writer;
pub(crate) mod preload_tables;
pub(crate) mod removal_manifest;
pub(crate) mod remove_files;
pub(crate) mod resolve;
