//! The disk and the tables of a machine: the model's, or the engine's over its simulated disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu::io::sim::SimDisk;
use quipu::{Db, Durability, Options, ReadableTable, Result};

use crate::engine::{EngineStore, Space};
use crate::ids::Now;
use crate::limits::Limits;
use crate::model::ModelTables;
use crate::node::{Identity, Input, Node, Output};
use crate::routing::Routing;
use crate::tables::Table;

/// Commits between two checkpoints, each of which also writes the entities to a run.
const CHECKPOINT_EVERY: u64 = 300;
const DIR: &str = "db";

/// What a machine keeps its tables in.
#[derive(Debug)]
pub enum Store {
    /// Maps.
    Model(ModelTables),
    /// The engine.
    Engine(EngineDisk),
}

/// A database on a simulated disk.
pub struct EngineDisk {
    disk: SimDisk,
    hash_seed: u64,
    open: Option<(Db, EngineStore)>,
    commits: u64,
    /// Whether turns find the disk full.
    is_full: bool,
}

impl std::fmt::Debug for EngineDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineDisk").field("commits", &self.commits).finish_non_exhaustive()
    }
}

impl EngineDisk {
    fn open(&mut self) -> Result<&(Db, EngineStore)> {
        if self.open.is_none() {
            let options = Options {
                page_bytes: 256,
                run_page_bytes: 256,
                log_segment_bytes: 8192,
                memory_bytes: 16 << 20,
                checkpoint_log_bytes: 0,
                background: false,
                durability: Durability::None,
                disk: Arc::new(self.disk.clone()),
                ..Options::default()
            };
            let db = Db::open(DIR, options)?;
            let store = EngineStore::open(&db, self.hash_seed)?;
            self.open = Some((db, store));
        }
        Ok(self.open.as_ref().expect("opened above"))
    }

    /// Runs a turn and commits it.
    fn turn<R>(&mut self, work: impl FnOnce(&mut crate::engine::EngineTables<'_>) -> Result<R>) -> Result<R> {
        let is_due = (self.commits + 1).is_multiple_of(CHECKPOINT_EVERY);
        let space = if self.is_full { Space::Lacking } else { Space::Asked };
        let (db, store) = self.open()?;
        let result = store.turn_in(space, work)?.answer;
        if is_due {
            db.checkpoint()?;
            if let Some(entities) = db.open_table("cluster.entities")? {
                entities.flush()?;
            }
        }
        self.commits += 1;
        Ok(result)
    }
}

impl Store {
    /// An empty store.
    pub fn new(hash_seed: u64, has_engine: bool) -> Store {
        match has_engine {
            false => Store::Model(ModelTables::new(hash_seed)),
            true => {
                Store::Engine(EngineDisk { disk: SimDisk::new(), hash_seed, open: None, commits: 0, is_full: false })
            }
        }
    }

    /// Has the disk be full, or not any more.
    pub fn set_full(&mut self, is_full: bool) {
        match self {
            Store::Model(tables) => tables.is_full = is_full,
            Store::Engine(engine) => engine.is_full = is_full,
        }
    }

    /// See [`Identity::found`]. Durable at once.
    pub fn found(&mut self, identity: &Identity, limits: &Limits) -> Result<()> {
        match self {
            Store::Model(tables) => identity.found(tables, limits)?,
            Store::Engine(engine) => engine.turn(|tables| identity.found(tables, limits))?,
        }
        let commits = self.commits();
        self.sync(commits)
    }

    /// See [`Identity::read`].
    pub fn identity(&mut self) -> Result<Option<Identity>> {
        match self {
            Store::Model(tables) => Identity::read(tables),
            Store::Engine(engine) => engine.turn(|tables| Identity::read(tables)),
        }
    }

    /// See [`Node::open`].
    pub fn start(
        &mut self,
        now: Now,
        identity: &Identity,
        limits: &Limits,
        routing: Routing,
        seed: u64,
    ) -> Result<Node> {
        let (own, limits) = (identity.node, limits.clone());
        match self {
            Store::Model(tables) => Node::open(now, tables, own, limits, routing, seed),
            Store::Engine(engine) => engine.turn(|tables| Node::open(now, tables, own, limits, routing, seed)),
        }
    }

    /// A turn of a node. Returns the number of commits so far.
    pub fn turn(&mut self, node: &mut Node, now: Now, input: Input<'_>, out: &mut Vec<Output>) -> Result<u64> {
        match self {
            Store::Model(tables) => {
                node.on(now, input, tables, out)?;
                Ok(tables.commit())
            }
            Store::Engine(engine) => {
                engine.turn(|tables| node.on(now, input, tables, out))?;
                Ok(engine.commits)
            }
        }
    }

    fn commits(&mut self) -> u64 {
        match self {
            Store::Model(tables) => tables.commit(),
            Store::Engine(engine) => engine.commits,
        }
    }

    /// Brings all commits up to this number to stable storage.
    pub fn sync(&mut self, commits: u64) -> Result<()> {
        match self {
            Store::Model(tables) => {
                tables.synced(commits);
                Ok(())
            }
            Store::Engine(engine) => engine.open()?.0.sync(),
        }
    }

    /// The process ends; with `loses_power`, some of what was not synced is lost.
    pub fn crash(&mut self, loses_power: bool, random: u64) {
        match self {
            Store::Model(tables) => {
                let lost = if loses_power { random % (tables.unsynced() as u64 + 1) } else { 0 };
                tables.crash(lost as usize);
            }
            Store::Engine(engine) => {
                let found = if loses_power { engine.disk.crash(random) } else { engine.disk.kill() };
                engine.open = None;
                engine.disk = found;
            }
        }
    }

    /// All rows of a table.
    pub fn rows(&self, table: Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
        match self {
            Store::Model(tables) => tables.rows(table).clone(),
            Store::Engine(engine) => {
                let mut rows = BTreeMap::new();
                let Some((_, store)) = &engine.open else { return rows };
                let copy = |key: &[u8], value: &[u8]| {
                    rows.insert(key.to_vec(), value.to_vec());
                    true
                };
                store.table(table).for_each(.., copy).expect("a simulated disk without faults");
                rows
            }
        }
    }

    /// What `quipu check` finds wrong in the files; nothing, if there are none.
    pub fn faults(&self) -> Vec<String> {
        match self {
            Store::Model(_) => Vec::new(),
            Store::Engine(engine) => {
                let options = Options { disk: Arc::new(engine.disk.kill()), ..Options::without_files() };
                match quipu::files::check(DIR, &options, &mut |_| ()) {
                    Ok(report) => report.faults.iter().map(|fault| format!("{fault:?}")).collect(),
                    Err(error) => vec![error.to_string()],
                }
            }
        }
    }
}
