//! The workloads: each asks one question and answers it with tables.

mod btree_inserts;
mod http;
mod memory;
mod offset_cost;
mod offset_tree;
mod positions;
mod snapshots;
mod sst_index;
mod transactions;

use crate::Workload;

/// The workload whose `--stores` are servers.
pub(crate) const OF_SERVERS: &str = offset_tree::WORKLOAD.name;

pub(crate) const WORKLOADS: &[Workload] = &[
    btree_inserts::WORKLOAD,
    positions::WORKLOAD,
    sst_index::WORKLOAD,
    offset_cost::WORKLOAD,
    offset_tree::WORKLOAD,
    http::WORKLOAD,
    memory::WORKLOAD,
    snapshots::WORKLOAD,
    transactions::WORKLOAD,
];
