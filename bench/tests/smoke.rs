//! Every workload runs at its smallest size with every store of this build, so that none can rot.

use std::path::Path;

use quipu_bench::report::{Cell, Table};
use quipu_bench::{Options, Program, measure, stores, workload_names};

/// Runs a workload and returns its tables.
fn tables(workload: &str) -> Vec<Table> {
    tables_with(Options::smoke(workload))
}

fn tables_with(mut options: Options) -> Vec<Table> {
    let program = Program::at(env!("CARGO_BIN_EXE_quipu-bench"), &[]);
    let workload = options.workload.clone().unwrap_or_default();
    // Servers: the `quipu` of the same build, unless another is named.
    let quipu = Path::new(env!("CARGO_BIN_EXE_quipu-bench")).with_file_name("quipu");
    options.quipu = (std::env::var_os("QUIPU_BIN").is_none() && quipu.exists()).then_some(quipu);
    let mut tables = Vec::new();
    measure(&options, &program, stores(), &mut |name, table| {
        assert_eq!(name, workload);
        assert!(!table.markdown().is_empty());
        assert!(table.json_lines(name).lines().all(|line| line.starts_with('{')));
        tables.push(table.clone());
    })
    .unwrap_or_else(|error| panic!("{error}"));
    assert!(tables.iter().any(|table| !table.rows().is_empty()), "{workload} has no figures");
    tables
}

#[test]
fn btree_inserts() {
    tables("btree-inserts");
}

#[test]
fn positions() {
    tables("positions");
}

#[test]
fn sst_index() {
    tables("sst-index");
}

/// Every durable store loads all rows, which the workload counts, and Quipu once more by an ingest; one line has none.
#[test]
fn sorted_load() {
    let table = &tables("sorted-load")[0];
    let measured = stores().iter().filter(|store| store.durable && !store.only_files).count();
    assert_eq!(table.rows().len(), 2 * (measured + 2), "{}", table.markdown());
    let ingests = table.rows().iter().filter(|row| row[1] == Cell::text("ingest"));
    assert!(ingests.map(|row| &row[2]).eq([&Cell::text("quipu"); 2]), "{}", table.markdown());
}

/// Every durable store loads, settles, is opened again and answers all.
#[test]
fn disk() {
    let tables = tables("disk");
    let durable = stores().iter().filter(|store| store.durable).count();
    assert_eq!(tables[0].rows().len(), durable);
    assert!(tables[1].rows().iter().all(|row| row[2] != Cell::Missing));
}

#[test]
fn blind() {
    let table = &tables("blind")[0];
    // A blind write reads no page, so neither do a thousand.
    let of_blind = table.rows().iter().filter(|row| row[1] == Cell::text("blind"));
    assert!(of_blind.map(|row| &row[3]).all(|reads| *reads == Cell::Times(0.0)), "{}", table.markdown());
}

#[test]
fn offset_cost() {
    tables("offset-cost");
}

/// With the servers that are installed; the others have dashes.
#[test]
fn offset_tree() {
    tables("offset-tree");
}

/// The server, where it is built, and each store load all rows, and give what was written last.
#[test]
fn server_disk() {
    let check = |tables: &[Table], contestants: usize| {
        let rows = tables[0].rows();
        assert_eq!(rows.len(), contestants, "{}", tables[0].markdown());
        for row in rows.iter().filter(|row| row[0] != Cell::text("quipu-server")) {
            assert!(row[1..5].iter().all(|cell| matches!(cell, Cell::PerSecond(_))), "{row:?}");
        }
    };
    check(&tables("server-disk"), 2);
    let mut options = Options::smoke("server-disk");
    let durable = stores().into_iter().filter(|store| store.durable && store.name != "quipu-flat");
    options.stores = durable.map(|store| store.name.to_owned()).collect();
    let named = options.stores.len();
    check(&tables_with(options), named);
}

/// With PostgreSQL, whose `pgbench` is the client, where it is installed.
#[test]
fn sql() {
    let tables = tables("sql");
    assert_eq!(tables.len(), 3);
    let rows = tables[0].rows().len();
    let rates = tables[1].rows().iter().chain(tables[2].rows());
    assert_eq!(rates.filter(|row| matches!(row[4], Cell::PerSecond(_))).count(), rows * 13);
}

#[test]
fn http() {
    tables("http");
}

#[test]
fn memory() {
    tables("memory");
}

#[test]
fn memory_disk() {
    tables("memory-disk");
}

#[test]
fn snapshots() {
    tables("snapshots");
}

#[test]
fn transactions() {
    tables("transactions");
}

/// Every store does everything, with one thread and with two, finds all records and makes no error.
#[test]
fn ycsb() {
    let tables = tables("ycsb");
    let rates = tables[0].rows();
    for row in rates {
        assert_eq!(row[4], Cell::Count(200), "{row:?}");
        assert_eq!(row[8..], [Cell::Count(0), Cell::Count(0)], "{row:?}");
    }
    let flat_and_tree = rates.iter().filter(|row| [Cell::text("quipu"), Cell::text("quipu-flat")].contains(&row[1]));
    assert_eq!(flat_and_tree.count(), 7 * 2 * 2);
    let fitting = stores().iter().filter(|store| store.holds(24, 1000)).count();
    assert_eq!(rates.len(), 7 * 2 * fitting);
}

/// Typed tables do everything, and read the same fields.
#[test]
fn ycsb_of_typed_tables() {
    let mut options = Options::smoke("ycsb");
    options.ycsb.typed = true;
    let tables = tables_with(options);
    let rows = tables[0].rows();
    assert!(rows.len() >= 7 * 2 * 2, "{rows:?}");
    for row in rows {
        assert_eq!((&row[4], &row[8..]), (&Cell::Count(200), &[Cell::Count(0), Cell::Count(0)][..]), "{row:?}");
    }
}

/// Over RESP, with the servers that are installed: the others, and scans of Redis, have dashes.
#[test]
fn ycsb_over_resp() {
    let mut options = Options::smoke("ycsb");
    options.ycsb.resp = true;
    let tables = tables_with(options);
    for row in tables[0].rows() {
        assert!(row[4] == Cell::Missing || row[8..] == [Cell::Count(0), Cell::Count(0)], "{row:?}");
    }
}

/// With the servers that are installed.
#[test]
fn replication() {
    for row in tables("replication")[0].rows().iter().filter(|row| row.len() > 1) {
        assert_eq!(row[9], Cell::Count(0), "failed: {row:?}");
    }
}

/// Each promise has a plot, and each line of the percentiles one of the highest rates.
#[test]
fn replication_with_plots_and_highest_rates() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::smoke("replication");
    options.stores = vec!["quipu".to_owned()];
    options.replication.highest = true;
    options.replication.plots = Some(directory.path().join("plots"));
    let tables = tables_with(options);
    let [percentiles, plots, highest] = &tables[..] else {
        assert_eq!(tables[0].rows()[0].len(), 1, "no `quipu`: {}", tables[0].markdown());
        return;
    };
    assert_eq!((percentiles.rows().len(), plots.rows().len(), highest.rows().len()), (6, 3, 6));
    for row in plots.rows() {
        let Cell::Text(path) = &row[1] else { panic!("no path: {row:?}") };
        assert!(std::fs::read_to_string(path).unwrap().contains("99.99 %"), "{path}");
    }
}

/// Every contestant commits, none fails, and all conditions of consistency hold.
#[test]
fn tpcc() {
    for think_time in [false, true] {
        let mut options = Options::smoke("tpcc");
        (options.tpcc.think_time, options.seconds) = (think_time, 3.0);
        let tables = if think_time { tables_with(options) } else { tables("tpcc") };
        assert_eq!(tables.len(), 2);
        for row in tables[0].rows() {
            assert!(matches!(row[7], Cell::Count(1..)), "committed: {row:?}");
            assert_eq!(row[9], Cell::Count(0), "failed: {row:?}");
        }
    }
    let mut options = Options::smoke("tpcc");
    (options.tpcc.cache_percent, options.threads) = (vec![10], vec![1]);
    options.stores = ["quipu", "quipu-kv"].map(str::to_owned).to_vec();
    assert_eq!(tables_with(options)[0].rows().len(), 2);
}

/// Every store takes all rows, answers alike and is read whole; Quipu has one method more.
#[test]
fn typed_rows() {
    let tables = tables("typed-rows");
    let stores = tables[2].rows().len();
    let of_quipu = |table: &Table| table.rows().iter().filter(|row| row.contains(&Cell::text("quipu"))).count();
    assert_eq!(tables[0].rows().len(), 2 * (2 * stores + 1), "{}", tables[0].markdown());
    assert_eq!((of_quipu(&tables[0]), of_quipu(&tables[1]), of_quipu(&tables[2])), (6, 4, 1));
}

#[test]
fn every_workload_has_a_smoke_test() {
    let here = include_str!("smoke.rs");
    for name in workload_names() {
        assert!(here.contains(&format!("tables(\"{name}\")")), "{name}");
    }
}

#[test]
fn an_unknown_workload_or_store_is_named_with_the_known_ones() {
    let program = Program::at("unused", &[]);
    let error_of = |options: Options| measure(&options, &program, stores(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error_of(Options::smoke("unheard")).contains("btree-inserts"));
    let mut options = Options::smoke("memory");
    options.stores = vec!["unheard".to_owned()];
    assert!(error_of(options).contains("btreemap"));
    let mut options = Options::smoke("memory");
    options.stores = vec!["quipu-flat".to_owned()];
    assert!(error_of(options).contains("no store `quipu-flat`"));
    for (workload, known) in [("offset-tree", "tarantool"), ("replication", "etcd"), ("server-disk", "quipu-server")] {
        let mut options = Options::smoke(workload);
        options.stores = vec!["unheard".to_owned()];
        assert!(error_of(options).contains(known));
    }
}
