//! Many sorted rows as one commit, without the log: see [`Table::begin_ingest`](crate::Table::begin_ingest).

pub use crate::write::ingest::{Ingest, Ingested, Overlap};
