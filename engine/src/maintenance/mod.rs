//! Background work: memory, flushes, checkpoints, merges of runs.

pub(crate) mod background;
pub(crate) mod checkpoint_and_flush;
pub(crate) mod compaction;
pub(crate) mod layers;
pub(crate) mod left_runs;
pub(crate) mod many_runs;
pub(crate) mod memory;
pub(crate) mod merge_choice;
pub(crate) mod merge_pieces;
pub(crate) mod parts_writer;
pub(crate) mod preload_tables;
pub(crate) mod remove_files;
pub(crate) mod resolve;
