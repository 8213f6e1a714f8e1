//! The workloads: each asks one question and answers it with tables.

mod btree_inserts;
mod memory;
mod offset_cost;
mod positions;
mod snapshots;
mod transactions;

use crate::Workload;

pub(crate) const WORKLOADS: &[Workload] = &[
    btree_inserts::WORKLOAD,
    positions::WORKLOAD,
    offset_cost::WORKLOAD,
    memory::WORKLOAD,
    snapshots::WORKLOAD,
    transactions::WORKLOAD,
];
