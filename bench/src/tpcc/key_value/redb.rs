//! redb: one table, whose keys begin with the number of the table or index, since opening eleven tables in each
//! transaction costs more than a byte in each key; settings as in `peers/redb.rs`.

use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::{ByHand, KeyValue, Reading, See, Tree, Writing};
use crate::peers::redb::durability_of;
use crate::store::{Result, Setup};
use crate::tpcc::contestant::{Contestant, ContestantKind};

pub(in crate::tpcc) const REDB: ContestantKind = ContestantKind {
    name: "redb",
    settings: "redb 4.5: rows by hand, all in one table; none and os Durability::None; sync Immediate",
    has_cache: true,
    only_files: false,
    open,
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("t");

struct Redb {
    database: Database,
    durability: redb::Durability,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Contestant>> {
    let database = Builder::new().set_cache_size(setup.cache_bytes as usize).create(dir.join("redb"))?;
    let durability = durability_of(setup);
    let txn = database.begin_write()?;
    txn.open_table(TABLE)?;
    txn.commit()?;
    Ok(Box::new(ByHand::new(Redb { database, durability })?))
}

/// The key with the number of its table before it.
fn whole(tree: Tree, key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + 1);
    whole.push(tree.number() as u8);
    whole.extend_from_slice(key);
    whole
}

/// The one table, in a transaction.
struct View<T>(T);

impl<T: ReadableTable<&'static [u8], &'static [u8]>> Reading for View<T> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.get(&*whole(tree, key))?.map(|value| see(value.value())).is_some())
    }

    fn scan(&self, tree: Tree, [from, to]: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        let (from, to) = (whole(tree, from), whole(tree, to));
        let mut range = self.0.range::<&[u8]>(&*from..&*to)?;
        while let Some(row) = if backwards { range.next_back() } else { range.next() } {
            let (key, value) = row?;
            if !see(&key.value()[1..], value.value()) {
                break;
            }
        }
        Ok(())
    }
}

impl Writing for View<redb::Table<'_, &'static [u8], &'static [u8]>> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(&*whole(tree, key), value)?;
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<()> {
        self.0.remove(&*whole(tree, key))?;
        Ok(())
    }
}

impl KeyValue for Redb {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool>) -> Result<u64> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(self.durability)?;
        let commits = work(&mut View(txn.open_table(TABLE)?))?;
        if commits {
            txn.commit()?;
        } else {
            txn.abort()?;
        }
        Ok(0)
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<()>) -> Result<()> {
        work(&View(self.database.begin_read()?.open_table(TABLE)?))
    }

    fn settle(&self) -> Result<()> {
        // A commit of this kind makes the earlier ones durable.
        Ok(self.database.begin_write()?.commit()?)
    }
}
