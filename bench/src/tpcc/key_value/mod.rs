//! Stores of keys and values: the tables and indexes as ranges of keys, the transactions written by hand.
//!
//! Keys and values are those of `encoding`. Rows are read where they lie and written whole. Nothing but the
//! transactions keeps indexes and rows together.

#[cfg(feature = "peers")]
mod fjall;
#[cfg(feature = "peers")]
mod lmdb;
mod quipu;
#[cfg(feature = "peers")]
mod redb;
mod transactions;

#[cfg(feature = "peers")]
pub(super) use fjall::FJALL;
#[cfg(feature = "peers")]
pub(super) use lmdb::LMDB;
pub(super) use quipu::QUIPU;
#[cfg(feature = "peers")]
pub(super) use redb::REDB;

use std::sync::atomic::{AtomicI32, Ordering};

use super::contestant::{Contestant, Rows, Session};
use super::encoding::{decode, encode, key_of, number_at};
use super::population::Take;
use super::records::{Customer, Order, Record, Table};
use crate::store::Result;

/// A range of keys of its own: a table, or one of the two indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Of(Table),
    CustomersByName,
    OrdersByCustomer,
}

impl Tree {
    /// How many there are.
    pub(super) const COUNT: usize = 11;

    /// Its place among them.
    pub(super) fn number(self) -> usize {
        match self {
            Tree::Of(table) => table as usize,
            Tree::CustomersByName => 9,
            Tree::OrdersByCustomer => 10,
        }
    }
}

/// What a transaction can read.
pub(super) trait Reading {
    /// Lends the value of a key. Returns whether there is one.
    fn get(&self, tree: Tree, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Lends keys and values of `from..to` in key order, or backwards, while `see` returns true.
    fn scan(&self, tree: Tree, range: [&[u8]; 2], backwards: bool, see: See<'_>) -> Result<()>;
}

/// Is lent keys and values until it returns false.
pub(super) type See<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> bool;

/// What a transaction can write.
pub(super) trait Writing: Reading {
    /// Puts a value, new or in the place of the old one.
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key that is there.
    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<()>;
}

/// A store with transactions.
pub(super) trait KeyValue: Sync {
    /// Runs a transaction that commits if `work` returns true and is rolled back if it returns false or fails. Returns
    /// how often `work` was run again after a conflict.
    fn write(&self, work: &mut dyn FnMut(&mut dyn Writing) -> Result<bool>) -> Result<u64>;

    /// Reads one moment.
    fn read(&self, work: &mut dyn FnMut(&dyn Reading) -> Result<()>) -> Result<()>;

    /// As [`Contestant::settle`].
    fn settle(&self) -> Result<()>;
}

/// The contestant over any of them.
pub(super) struct ByHand<K> {
    store: K,
    /// The next key of the history, which has none of its own.
    history: AtomicI32,
}

impl<K: KeyValue> ByHand<K> {
    /// A contestant; its history goes on where the store's ends.
    pub(super) fn new(store: K) -> Result<Self> {
        let mut last = 0;
        store.read(&mut |reading| {
            let range: [&[u8]; 2] = [&[], &[0xff; 8]];
            reading.scan(Tree::Of(Table::History), range, true, &mut |key, _| {
                last = number_at(key, 0);
                false
            })
        })?;
        Ok(ByHand { store, history: AtomicI32::new(last + 1) })
    }

    fn next_history(&self) -> i32 {
        self.history.fetch_add(1, Ordering::Relaxed)
    }
}

/// Rows that one transaction loads.
const LOADED_AT_ONCE: usize = 10_000;

impl<K: KeyValue> Contestant for ByHand<K> {
    fn load(&self, table: Table, rows: Rows<'_>) -> Result<()> {
        let mut entries: Vec<Entry> = Vec::new();
        rows(&mut |record| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            encode(record, || self.next_history(), &mut key, &mut value)?;
            entries.push((key, value));
            if entries.len() == LOADED_AT_ONCE { self.put_all(Tree::Of(table), &mut entries) } else { Ok(()) }
        })?;
        self.put_all(Tree::Of(table), &mut entries)
    }

    fn build_indexes(&self) -> Result<()> {
        for (table, tree) in [(Table::Customer, Tree::CustomersByName), (Table::Order, Tree::OrdersByCustomer)] {
            let mut entries: Vec<Entry> = Vec::new();
            self.visit(table, &mut |record| {
                match record {
                    Record::Customer(customer) => entries.push((name_key(customer), Vec::new())),
                    Record::Order(order) => entries.push((order_by_customer_key(order), Vec::new())),
                    _ => {}
                }
                Ok(())
            })?;
            entries.sort_unstable();
            for chunk in entries.chunks_mut(LOADED_AT_ONCE) {
                self.put_all(tree, &mut chunk.to_vec())?;
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.store.settle()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(transactions::Terminal::new(self)))
    }

    fn visit(&self, table: Table, take: Take<'_>) -> Result<()> {
        let mut failed = None;
        self.store.read(&mut |reading| {
            let range: [&[u8]; 2] = [&[], &[0xff; 20]];
            reading.scan(Tree::Of(table), range, false, &mut |key, value| {
                failed = decode(table, key, value).and_then(|record| take(&record)).err();
                failed.is_none()
            })
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

impl<K: KeyValue> ByHand<K> {
    fn put_all(&self, tree: Tree, entries: &mut Vec<Entry>) -> Result<()> {
        self.store.write(&mut |writing| {
            entries.iter().try_for_each(|(key, value)| writing.put(tree, key, value))?;
            Ok(true)
        })?;
        entries.clear();
        Ok(())
    }
}

/// The beginning of the keys of customers of a last name.
fn last_name_key(warehouse: i32, district: i32, last: &str) -> Vec<u8> {
    let mut key = key_of([warehouse, district]).to_vec();
    key.extend_from_slice(last.as_bytes());
    key.push(0);
    key
}

/// The key of a customer in the index by name: ends with its number.
fn name_key(customer: &Customer<'_>) -> Vec<u8> {
    let mut key = last_name_key(customer.warehouse, customer.district, customer.last);
    key.extend_from_slice(customer.first.as_bytes());
    key.push(0);
    key.extend_from_slice(&customer.id.to_be_bytes());
    key
}

fn order_by_customer_key(order: &Order) -> Vec<u8> {
    key_of([order.warehouse, order.district, order.customer, order.id]).to_vec()
}
