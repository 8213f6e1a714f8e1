//! A table on disk, in two processes: one loads and settles it, the next opens it and asks. So what a store holds in
//! memory, and how long it takes to open, is not mixed with what loading has left.
//!
//! | module | |
//! |---|---|
//! | `load` | random order, transactions of 1000 rows, then what the store offers to come to rest |
//! | `ask` | opening, gets, scans, positions, overwriting, and reading what was overwritten |
//!
//! Invariants:
//! 1. Keys and values are random bytes and follow from the seed: nothing to gain by compressing, and the same for all
//!    stores.
//! 2. Every value read is read whole. The first thousand answers to gets are compared with what was written; a row that
//!    is not found, or that should not be there, is an error. The first answers of scans and positions are handed out,
//!    to be compared between stores.
//! 3. A process tells what it found as one line of JSON.

mod ask;
mod load;

use std::path::PathBuf;

use serde_json::Value;

use crate::rows::Rows;
use crate::store::{Durability, Result, Setup, StoreKind};
use crate::{Bench, Program};

pub(crate) use ask::{MOMENTS, ask};
pub(crate) use load::load;

pub(crate) const KEY_BYTES: usize = 8;
pub(crate) const VALUE_BYTES: usize = 100;

/// One store's table, and what a process must know to work on it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) dir: PathBuf,
    pub(crate) store: String,
    pub(crate) seed: u64,
    pub(crate) rows: u64,
    pub(crate) cache_bytes: u64,
    /// The time limit of a question.
    pub(crate) seconds: f64,
}

impl Job {
    /// Runs `part` of it in a process of its own.
    pub(crate) fn in_child(&self, program: &Program, workload: &str, part: &str) -> Result<Value> {
        let Job { dir, store, seed, rows, cache_bytes, seconds } = self;
        let dir = dir.to_str().ok_or("the name of the directory is not UTF-8")?;
        let numbers = [seed, rows, cache_bytes].map(u64::to_string);
        let arguments = [&[workload, part, store, dir].map(str::to_owned)[..], &numbers, &[seconds.to_string()]];
        let text = program.child(&[], &arguments.concat())?;
        let line = text.lines().find(|line| line.starts_with('{')).ok_or("the child told nothing")?;
        Ok(serde_json::from_str(line)?)
    }

    /// Does the part that the arguments of a child name.
    pub(crate) fn do_part(bench: &Bench<'_>, arguments: &[String]) -> Result<()> {
        let [part, store, dir, seed, rows, cache_bytes, seconds] = arguments else {
            return Err("a child needs seven arguments".into());
        };
        let kind = bench.stores.iter().find(|kind| kind.name == store).ok_or("no such store")?;
        let job = Job {
            dir: PathBuf::from(dir),
            store: store.clone(),
            seed: seed.parse()?,
            rows: rows.parse()?,
            cache_bytes: cache_bytes.parse()?,
            seconds: seconds.parse()?,
        };
        let told = match part.as_str() {
            "load" => load(&job, kind)?,
            "ask" => ask(&job, kind)?,
            other => return Err(format!("no part `{other}`").into()),
        };
        println!("{told}");
        Ok(())
    }

    fn all_rows(&self) -> Rows {
        Rows::new(self.seed, self.rows, KEY_BYTES, VALUE_BYTES)
    }

    fn open(&self, kind: &StoreKind) -> Result<Box<dyn crate::store::Store>> {
        let setup = Setup { durability: Durability::Os, cache_bytes: self.cache_bytes, in_memory: false };
        (kind.open)(&self.dir, setup)
    }
}
