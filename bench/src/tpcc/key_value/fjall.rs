//! fjall: a keyspace for each table and index, optimistic transactions that are made again after a conflict; settings
//! as in `peers/fjall.rs`.

use std::path::Path;

use fjall::{OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode, Readable};

use super::{ByHand, KeyValue, Reading, See, Tree, Writing};
use crate::peers::fjall::{open_database, open_keyspace, persist_mode};
use crate::store::{Durability, Result, Setup};
use crate::tpcc::contestant::{Contestant, ContestantKind};

pub(in crate::tpcc) const FJALL: ContestantKind = ContestantKind {
    name: "fjall",
    settings: "fjall 3.1: rows by hand, a keyspace each, optimistic transactions; os: journal to the system",
    has_cache: true,
    only_files: false,
    open,
};

struct Fjall {
    database: OptimisticTxDatabase,
    parts: Vec<OptimisticTxKeyspace>,
    durability: Durability,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Contestant>> {
    let database = open_database(dir, setup)?;
    let parts = (0..Tree::COUNT).map(|number| open_keyspace(&database, setup, &format!("t{number}")));
    let parts = parts.collect::<Result<_>>()?;
    Ok(Box::new(ByHand::new(Fjall { database, parts, durability: setup.durability })?))
}

fn get(from: &impl Readable, part: &OptimisticTxKeyspace, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
    Ok(from.get(part, key)?.map(|value| see(&value)).is_some())
}

fn scan(
    of: &impl Readable,
    part: &OptimisticTxKeyspace,
    [from, to]: [&[u8]; 2],
    backwards: bool,
    see: See<'_>,
) -> Result<()> {
    let mut rows = of.range(part, from..to);
    while let Some(row) = if backwards { rows.next_back() } else { rows.next() } {
        let (key, value) = row.into_inner()?;
        if !see(&key, &value) {
            break;
        }
    }
    Ok(())
}

struct Reader<'a> {
    of: &'a Fjall,
    snapshot: fjall::Snapshot,
}

struct Writer<'a> {
    of: &'a Fjall,
    txn: OptimisticWriteTx,
}

impl Reading for Reader<'_> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.snapshot, &self.of.parts[tree.number()], key, see)
    }

    fn scan(&self, tree: Tree, range: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        scan(&self.snapshot, &self.of.parts[tree.number()], range, backwards, see)
    }
}

impl Reading for Writer<'_> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.txn, &self.of.parts[tree.number()], key, see)
    }

    fn scan(&self, tree: Tree, range: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        scan(&self.txn, &self.of.parts[tree.number()], range, backwards, see)
    }
}

impl Writing for Writer<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.insert(&self.of.parts[tree.number()], key, value);
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<()> {
        self.txn.remove(&self.of.parts[tree.number()], key);
        Ok(())
    }
}

impl KeyValue for Fjall {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool>) -> Result<u64> {
        let mode = persist_mode(self.durability);
        for conflicts in 0.. {
            let mut writer = Writer { of: self, txn: self.database.write_tx()?.durability(mode) };
            if !work(&mut writer)? {
                writer.txn.rollback();
                return Ok(conflicts);
            }
            if writer.txn.commit()?.is_ok() {
                return Ok(conflicts);
            }
        }
        unreachable!("the loop ends with a commit or a rollback")
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<()>) -> Result<()> {
        work(&Reader { of: self, snapshot: self.database.read_tx() })
    }

    fn settle(&self) -> Result<()> {
        for part in &self.parts {
            part.inner().rotate_memtable_and_wait()?;
            part.inner().major_compact()?;
        }
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}
