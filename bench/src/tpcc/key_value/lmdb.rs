//! LMDB through heed: a database for each table and index; settings as in `peers/lmdb.rs`.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::{ByHand, KeyValue, Reading, See, Tree, Writing};
use crate::peers::lmdb as settings;
use crate::store::{Result, Setup};
use crate::tpcc::contestant::{Contestant, ContestantKind};

pub(in crate::tpcc) const LMDB: ContestantKind = ContestantKind {
    name: "lmdb",
    settings: "LMDB (heed 0.23): rows by hand; none and os NOSYNC|WRITEMAP; sync default flags; cached by the system",
    has_cache: false,
    only_files: false,
    open,
};

type Part = Database<'static, Bytes, Bytes>;

struct Lmdb {
    env: Env<WithoutTls>,
    parts: Vec<Part>,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Contestant>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(settings::MAP_BYTES).max_dbs(Tree::COUNT as u32);
    settings::set_flags(&mut options, setup.durability);
    // SAFETY: a fresh directory that no other process opens, so the file is not changed behind the mapping.
    let env = unsafe { options.open(dir)? };
    let mut parts = Vec::new();
    for number in 0..Tree::COUNT {
        let name = number.to_string();
        let txn = env.write_txn()?;
        let part = env
            .create_databases_and_commit(txn, |opener, txn| {
                opener.create_database(txn, Some(&name)).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        parts.push(part);
    }
    Ok(Box::new(ByHand::new(Lmdb { env, parts })?))
}

struct Reader<'a> {
    txn: &'a RoTxn<'a, WithoutTls>,
    parts: &'a [Part],
}

struct Writer<'a> {
    txn: RwTxn<'a>,
    parts: &'a [Part],
}

fn get(part: Part, txn: &RoTxn<'_>, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
    Ok(part.get(txn, key)?.map(see).is_some())
}

fn scan(part: Part, txn: &RoTxn<'_>, [from, to]: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
    // It refuses keys without a byte, in ranges too.
    let start = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
    let range = (start, Bound::Excluded(to));
    if backwards {
        for row in part.rev_range(txn, &range)? {
            let (key, value) = row?;
            if !see(key, value) {
                break;
            }
        }
    } else {
        for row in part.range(txn, &range)? {
            let (key, value) = row?;
            if !see(key, value) {
                break;
            }
        }
    }
    Ok(())
}

impl Reading for Reader<'_> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(self.parts[tree.number()], self.txn, key, see)
    }

    fn scan(&self, tree: Tree, range: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        scan(self.parts[tree.number()], self.txn, range, backwards, see)
    }
}

impl Reading for Writer<'_> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(self.parts[tree.number()], &self.txn, key, see)
    }

    fn scan(&self, tree: Tree, range: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        scan(self.parts[tree.number()], &self.txn, range, backwards, see)
    }
}

impl Writing for Writer<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.parts[tree.number()].put(&mut self.txn, key, value)?)
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<()> {
        self.parts[tree.number()].delete(&mut self.txn, key)?;
        Ok(())
    }
}

impl KeyValue for Lmdb {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool>) -> Result<u64> {
        let mut writer = Writer { txn: self.env.write_txn()?, parts: &self.parts };
        if work(&mut writer)? {
            writer.txn.commit()?;
        }
        Ok(0)
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<()>) -> Result<()> {
        let txn = self.env.read_txn()?;
        work(&Reader { txn: &txn, parts: &self.parts })
    }

    fn settle(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}
