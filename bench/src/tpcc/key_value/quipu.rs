//! Quipu's engine, with rows by hand as the peers have them: what typed rows cost on top of it shows beside.

use std::path::Path;

use quipu::{Bounds, Db, Error, ErrorKind, ReadableTable, Table, TableOptions, WritableTable};

use super::{ByHand, KeyValue, Reading, See, Tree, Writing};
use crate::store::{Result, Setup};
use crate::tpcc::contestant::{Contestant, ContestantKind};

pub(in crate::tpcc) const QUIPU: ContestantKind = ContestantKind {
    name: "quipu-kv",
    settings: "Quipu's engine: rows by hand, a table each; writing transactions one after the other (Db::write)",
    has_cache: true,
    only_files: false,
    open,
};

struct Engine {
    db: Db,
    tables: Vec<Table>,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Contestant>> {
    let db = Db::open(dir, crate::tpcc::options_of(setup))?;
    let mut tables = Vec::new();
    for number in 0..Tree::COUNT {
        let name = number.to_string();
        tables.push(match db.open_table(&name)? {
            Some(table) => table,
            None => db.create_table(&name, TableOptions::default())?,
        });
    }
    Ok(Box::new(ByHand::new(Engine { db, tables })?))
}

/// The tables, in a transaction or at a moment.
struct View<T>(Vec<T>);

impl<T: ReadableTable> Reading for View<T> {
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0[tree.number()].get_with(key, |value| value.map(see).is_some())?)
    }

    fn scan(&self, tree: Tree, [from, to]: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()> {
        let (table, range) = (&self.0[tree.number()], Bounds::from(from..to));
        if backwards {
            for row in table.range(range).rev() {
                let row = row?;
                if !see(&row.key, &row.value) {
                    break;
                }
            }
            return Ok(());
        }
        table.for_each(range, |key, value| see(key, value))?;
        Ok(())
    }
}

impl<T: WritableTable> Writing for View<T> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.0[tree.number()].put(key, value)?;
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<()> {
        self.0[tree.number()].remove(key)?;
        Ok(())
    }
}

impl KeyValue for Engine {
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool>) -> Result<u64> {
        let mut outcome = Ok(true);
        let written = self.db.write(|transaction| {
            let tables = self.tables.iter().map(|table| transaction.table(table)).collect::<quipu::Result<_>>()?;
            outcome = work(&mut View(tables));
            // An error rolls the transaction back.
            if matches!(outcome, Ok(true)) { Ok(()) } else { Err(Error::new(ErrorKind::Invalid, "rolled back")) }
        });
        if outcome? {
            written?;
        }
        Ok(0)
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<()>) -> Result<()> {
        let now = self.db.snapshot();
        let tables = self.tables.iter().map(|table| now.table(table)).collect::<quipu::Result<_>>()?;
        work(&View::<_>(tables))
    }

    fn settle(&self) -> Result<()> {
        for table in &self.tables {
            table.flush()?;
            table.compact()?;
        }
        Ok(())
    }
}
