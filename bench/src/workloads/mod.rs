//! The workloads: each asks one question and answers it with tables.

mod blind;
mod btree_inserts;
mod disk;
mod http;
mod memory;
mod memory_disk;
mod offset_cost;
mod offset_tree;
mod positions;
mod replication;
mod server_disk;
mod snapshots;
mod sorted_load;
mod sql;
mod sst_index;
mod tpcc;
mod transactions;
mod typed_rows;
mod ycsb;

use crate::{Options, Workload};

/// Whether `--stores` means others than those on the shelf, or more: servers, or stores of typed rows.
pub(crate) fn has_stores_of_its_own(options: &Options) -> bool {
    let is_asked = |workload: &Workload| options.workload.as_deref() == Some(workload.name);
    let have = [
        &offset_tree::WORKLOAD,
        &replication::WORKLOAD,
        &server_disk::WORKLOAD,
        &sql::WORKLOAD,
        &tpcc::WORKLOAD,
        &typed_rows::WORKLOAD,
    ];
    have.into_iter().any(is_asked) || (is_asked(&ycsb::WORKLOAD) && (options.ycsb.resp || options.ycsb.typed))
}

/// Whether its tables are larger than memory, so that stores that differ in their files alone are worth a line each.
pub(crate) fn is_of_files(workload: &Workload) -> bool {
    [disk::WORKLOAD.name, server_disk::WORKLOAD.name, ycsb::WORKLOAD.name].contains(&workload.name)
}

pub(crate) const WORKLOADS: &[Workload] = &[
    btree_inserts::WORKLOAD,
    positions::WORKLOAD,
    sst_index::WORKLOAD,
    blind::WORKLOAD,
    sorted_load::WORKLOAD,
    disk::WORKLOAD,
    offset_cost::WORKLOAD,
    offset_tree::WORKLOAD,
    server_disk::WORKLOAD,
    http::WORKLOAD,
    replication::WORKLOAD,
    memory::WORKLOAD,
    memory_disk::WORKLOAD,
    snapshots::WORKLOAD,
    transactions::WORKLOAD,
    ycsb::WORKLOAD,
    tpcc::WORKLOAD,
    typed_rows::WORKLOAD,
    sql::WORKLOAD,
];
