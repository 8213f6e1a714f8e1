//! The workloads with RocksDB beside Quipu and the maps: its adapter must give the answers the others give.

use std::process::Command;

fn run(workload: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu-bench-rocksdb")).args([workload, "--smoke"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rocksdb_stands_in_every_table_of_stores() {
    for workload in [
        "btree-inserts",
        "positions",
        "sorted-load",
        "memory",
        "snapshots",
        "transactions",
        "ycsb",
        "disk",
        "server-disk",
    ] {
        assert!(run(workload).contains("| rocksdb"), "{workload}");
    }
}
