//! Quipu: a table of typed rows. Each call is one commit of the table, or one look at it as it is.

use std::cell::RefCell;
use std::path::Path;

use quipu::{Db, RunLayout};
use quipu_rows::{Column, DataType, Database, Ordered as _, RowTable, RowView, Span, TableSchema, Value};

use super::{FIELDS, UserTable, UserTableKind, bytes_of, field_name, field_of, text};
use crate::store::{Client, Result, Setup};

pub(super) const TREE: UserTableKind = UserTableKind {
    name: "quipu",
    settings: "Quipu: typed rows, one commit a call (put, update)",
    open: |dir, setup| open(dir, setup, RunLayout::Tree),
};

/// The same with the flat index in the run files.
pub(super) const FLAT: UserTableKind = UserTableKind {
    name: "quipu-flat",
    settings: "Quipu with a flat index: as above, but a run file has one list of its leaves in place of a tree above them",
    open: |dir, setup| open(dir, setup, RunLayout::Flat),
};

struct Rows(RowTable);

fn open(dir: &Path, setup: Setup, layout: RunLayout) -> Result<Box<dyn UserTable>> {
    let database = Database::open(&Db::open(dir, crate::tpcc::options_of(setup))?)?;
    let mut schema = TableSchema::new("usertable").key(["ycsb_key"]);
    schema = schema.column(Column::new("ycsb_key", DataType::TEXT).not_null());
    for field in 0..FIELDS {
        schema = schema.column(Column::new(field_name(field), DataType::Bytes).not_null());
    }
    let table = database.create_table(&schema)?;
    for name in database.tree_names()?.keys() {
        if let Some(tree) = database.db().open_table(name)? {
            tree.rewrite(layout, &mut |_| ())?;
        }
    }
    Ok(Box::new(Rows(table)))
}

impl UserTable for Rows {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let names = (0..FIELDS).map(field_name).collect();
        Ok(Box::new(RowsClient { table: &self.0, names, value: RefCell::default() }))
    }

    fn count(&self) -> Result<u64> {
        Ok(self.0.len()?)
    }
}

struct RowsClient<'t> {
    table: &'t RowTable,
    names: Vec<String>,
    /// The fields of a row, one after the other.
    value: RefCell<Vec<u8>>,
}

/// Joins the fields of a row.
fn join(row: &RowView<'_>, into: &mut Vec<u8>) -> quipu::Result<()> {
    into.clear();
    for place in 1..=FIELDS {
        if let Value::Bytes(bytes) = row.value(place)? {
            into.extend_from_slice(&bytes);
        }
    }
    Ok(())
}

impl Client for RowsClient<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut values: [Value<'_>; FIELDS + 1] = std::array::from_fn(|_| Value::Null);
        values[0] = text(key)?.into();
        for (field, cell) in values[1..].iter_mut().enumerate() {
            *cell = value[bytes_of(field, value.len())].into();
        }
        self.table.put(&values[..])?;
        Ok(())
    }

    fn update(&mut self, key: &[u8], value: &[u8], version: u64) -> Result<()> {
        let field = field_of(version);
        let change = [(&*self.names[field], Value::from(&value[bytes_of(field, value.len())]))];
        match self.table.update(text(key)?, &change)? {
            true => Ok(()),
            false => Err("no row to update".into()),
        }
    }

    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let key = text(key)?;
        let is_there = self.table.with(|table| {
            table.get_with(key, |row| match row {
                Some(row) => join(&row, &mut self.value.borrow_mut()).map(|()| true),
                None => Ok(false),
            })
        })?;
        if is_there {
            see(&self.value.borrow());
        }
        Ok(is_there)
    }

    fn scan(&mut self, from: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let from = text(from)?;
        let (see, left) = (RefCell::new(see), RefCell::new(limit));
        if limit == 0 {
            return Ok(());
        }
        Ok(self.table.with(|table| {
            table.for_each(Span::ge(from), |row| {
                let mut value = self.value.borrow_mut();
                join(&row, &mut value)?;
                if let Value::Text(key) = row.value(0)? {
                    see.borrow_mut()(key.as_bytes(), &value);
                }
                *left.borrow_mut() -= 1;
                Ok(*left.borrow() > 0)
            })
        })?)
    }
}
