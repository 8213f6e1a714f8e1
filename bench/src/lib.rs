//! Workloads that measure Quipu, its peers beside it in the same run on the same rows.
//!
//! | module | |
//! |---|---|
//! | [`store`] | what a store must do to be measured |
//! | `quipu_store`, `peers/` | one adapter each; a comment says which settings and why |
//! | `sql/` | servers that are asked by PostgreSQL's own programs |
//! | `socket/` | servers and a client without a driver, for what is measured from outside |
//! | `ycsb/` | the records, requests and threads of YCSB |
//! | `tpcc/` | the tables, transactions and checks of TPC-C, over typed rows, SQL, and keys and values |
//! | `replication/` | clusters of three processes, and requests to them at a fixed rate |
//! | `typed_rows/` | a table of typed columns with an index, in stores that know such |
//! | `disk/` | loading and asking stores of tables larger than memory, each in a process of its own |
//! | `workloads/` | one each: what is asked, how it is timed, which table comes out |
//! | [`rows`] | the keys, values and questions, equal for all stores |
//! | [`report`] | tables, bars, JSON |
//! | `clock`, `latencies`, `paired`, `yardstick` | time, percentiles, comparisons, the bare disk |
//! | `machine`, `place`, `program` | what the machine is, where files go, child processes |
//! | `sparse` | a file system whose files have holes where a run has zeros |
//! | `options` | the command line |
//!
//! Rules: stores take turns (A B A B) and medians are shown; every answer is compared between the stores; a figure that
//! ran out of time says so; a store that cannot do a thing has a dash, not a zero.
//!
//! Peers are built with the feature `peers`; RocksDB, which needs a C++ library, in the workspace `peers-rocksdb/`.

pub mod clock;
mod disk;
mod latencies;
mod machine;
mod options;
mod paired;
mod peers;
mod place;
mod program;
mod quipu_store;
mod replication;
pub mod report;
pub mod rows;
mod socket;
mod sparse;
mod sql;
pub mod store;
mod tpcc;
mod typed_rows;
mod workloads;
mod yardstick;
mod ycsb;

pub use options::Options;
pub use peers::stores;
pub use program::Program;

use machine::Ticks;
use place::Place;
use report::Table;
use store::{Result, StoreKind};
use workloads::WORKLOADS;

/// Everything a workload is given.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    pub(crate) stores: Vec<StoreKind>,
    pub(crate) program: &'a Program,
    pub(crate) place: Place,
}

/// A workload: what it measures, and how to run it.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Measures, and hands out each table as soon as it is full.
    pub(crate) run: fn(&Bench<'_>, &mut dyn FnMut(Table)) -> Result<()>,
    /// Its part in a child process.
    pub(crate) child: Option<ChildPart>,
}

pub(crate) type ChildPart = fn(&Bench<'_>, &[String]) -> Result<()>;

impl Bench<'_> {
    /// Shows the user what is being measured.
    pub(crate) fn progress(&self, what: std::fmt::Arguments<'_>) {
        if !self.options.smoke {
            eprintln!("… {what}");
        }
    }
}

/// Runs what `options` ask for, with [the stores of this build](stores), and prints the tables.
///
/// # Errors
/// An unknown workload or store; a store that failed or answered differently from another.
pub fn run(options: &Options, program: &Program) -> Result<()> {
    run_with(options, program, stores())
}

/// As [`run`], with these stores.
///
/// # Errors
/// As [`run`].
pub fn run_with(options: &Options, program: &Program, stores: Vec<StoreKind>) -> Result<()> {
    match options.workload.as_deref() {
        None => {
            list(&stores);
            Ok(())
        }
        Some(program::CHILD) => child(options, program, stores),
        Some(_) => {
            let place = Place::new(options.dir.as_deref())?;
            if options.json {
                println!("{}", serde_json::json!({ "machine": machine::describe(&place), "seed": options.seed }));
            } else {
                println!("{}; seed {}\n", machine::describe(&place), options.seed);
            }
            measure(options, program, stores, &mut |workload, table| {
                if options.json {
                    print!("{}", table.json_lines(workload));
                } else {
                    println!("{}", table.markdown());
                }
            })
        }
    }
}

/// Runs what `options` ask for and hands out each table with its workload's name.
///
/// # Errors
/// As [`run`].
pub fn measure(
    options: &Options,
    program: &Program,
    stores: Vec<StoreKind>,
    show: &mut dyn FnMut(&str, &Table),
) -> Result<()> {
    let asked = options.workload.as_deref().unwrap_or("all");
    let chosen: Vec<&Workload> = WORKLOADS.iter().filter(|workload| asked == "all" || workload.name == asked).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        return Err(format!("no workload `{asked}`; there are {} and all", names.join(", ")).into());
    }
    let place = Place::new(options.dir.as_deref())?;
    // Servers, and stores of typed rows, have names of their own, which their workloads know.
    let shelf = if workloads::has_stores_of_its_own(options) { stores } else { choose(stores, &options.stores)? };
    for workload in chosen {
        let mut stores = shelf.clone();
        stores.retain(|store| !store.only_files || workloads::is_of_files(workload));
        if stores.is_empty() {
            let names = options.stores.join(", ");
            return Err(
                format!("{}: no store `{names}`, which differs from others in its files alone", workload.name).into()
            );
        }
        let bench = Bench { options, stores, program, place: place.clone() };
        let mut before = Ticks::now();
        let run = (workload.run)(&bench, &mut |mut table| {
            let now = Ticks::now();
            let stolen = now.stolen_percent_since(&before);
            if stolen >= 1.0 {
                table.note(format!("The hypervisor took {stolen:.0} % of the CPU's time from these figures."));
            }
            show(workload.name, &table);
            before = now;
        });
        run.map_err(|error| format!("{}: {error}", workload.name))?;
    }
    Ok(())
}

/// The names of all workloads.
pub fn workload_names() -> Vec<&'static str> {
    WORKLOADS.iter().map(|workload| workload.name).collect()
}

fn child(options: &Options, program: &Program, stores: Vec<StoreKind>) -> Result<()> {
    let (name, arguments) = options.child_arguments.split_first().ok_or("a child needs a workload")?;
    let workload = WORKLOADS.iter().find(|workload| workload.name == *name).ok_or("a child of an unknown workload")?;
    let run = workload.child.ok_or("a workload without child processes")?;
    run(&Bench { options, stores, program, place: Place::new(options.dir.as_deref())? }, arguments)
}

/// The stores named, in the order of the shelf; all of them if none is.
fn choose(mut shelf: Vec<StoreKind>, names: &[String]) -> Result<Vec<StoreKind>> {
    if let Some(unknown) = names.iter().find(|name| shelf.iter().all(|store| store.name != **name)) {
        let known: Vec<&str> = shelf.iter().map(|store| store.name).collect();
        return Err(format!("no store `{unknown}` in this build, which has {}", known.join(", ")).into());
    }
    shelf.retain(|store| names.is_empty() || names.iter().any(|name| name == store.name));
    Ok(shelf)
}

fn list(stores: &[StoreKind]) {
    println!("Workloads:");
    for workload in WORKLOADS {
        println!("  {:<14} {}", workload.name, workload.about);
    }
    println!("  {:<14} every one of them", "all");
    println!("\nStores in this build:");
    for store in stores {
        println!("  {:<14} {}", store.name, store.settings);
    }
}
