//! What identity columns give out.
//!
//! Numbers ascend from 1. A block of them is reserved on disk before the first is given out, so a crash loses the rest
//! of the block and gives none out twice. Giving out is no part of a transaction: what is rolled back leaves a gap.
//!
//! Within [`Database::write`](crate::Database::write) the block is reserved by that transaction. If it is rolled back,
//! so is the block, but numbers in memory go on; the next one who needs a number looks what is reserved.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use quipu::tuple::{self, Element};
use quipu::{Db, Durability, Error, ErrorKind, ReadableTable, Result, Transaction, WritableTable};

use crate::definition::document::{ColumnNumber, TableNumber};

/// Numbers that are reserved together.
const BLOCK: i128 = 1_000;

/// An identity column.
pub(crate) type NumberedColumn = (TableNumber, ColumnNumber);

/// The next numbers of all identity columns that were asked for.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<HashMap<NumberedColumn, Next>>);

/// What one column gives out.
#[derive(Clone, Copy, Debug)]
struct Next {
    number: i128,
    /// Numbers below are reserved on disk.
    reserved: i128,
}

fn key(column: NumberedColumn) -> Vec<u8> {
    tuple::encode(&[Element::Int(column.0.into()), Element::Int(column.1.into())])
}

fn reserved(numbers: &impl ReadableTable, column: NumberedColumn) -> Result<i128> {
    let Some(value) = numbers.get(key(column))? else { return Ok(1) };
    match tuple::element_at(&value, 0) {
        Some(Element::Int(number)) => Ok(number),
        _ => Err(Error::new(ErrorKind::Corrupt, "a reserved number is damaged: run `quipu check`")),
    }
}

/// Where a block is reserved.
pub(crate) enum Reserve<'r> {
    /// In a commit of its own.
    Apart(&'r Db),
    /// In the transaction of the single writer, in which no other commit can be made.
    Within(&'r Transaction),
}

impl Numbers {
    /// Takes the next number of a column, or, if a row brings its own, sees to it that it is not given out later.
    ///
    /// # Errors
    /// Those of a commit.
    pub(crate) fn take(
        &self,
        tree: &quipu::Table,
        column: NumberedColumn,
        brought: Option<i128>,
        reserve: &Reserve<'_>,
    ) -> Result<i128> {
        match reserve {
            Reserve::Apart(db) => self.take_apart(tree, column, brought, db),
            Reserve::Within(transaction) => self.take_within(tree, column, brought, transaction),
        }
    }

    fn take_apart(&self, tree: &quipu::Table, column: NumberedColumn, brought: Option<i128>, db: &Db) -> Result<i128> {
        loop {
            let end = {
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let next = match all.entry(column) {
                    Entry::Occupied(next) => next.into_mut(),
                    Entry::Vacant(vacant) => {
                        let reserved = reserved(tree, column)?;
                        vacant.insert(Next { number: reserved, reserved })
                    }
                };
                let number = brought.unwrap_or(next.number);
                let after = next.number.max(number.saturating_add(1));
                if after <= next.reserved {
                    next.number = after;
                    return Ok(number);
                }
                after.saturating_add(BLOCK)
            };
            // Without the lock: the single writer may be waiting for it. As durable as the rows that will have the
            // numbers, whose commit comes after this one in the log.
            let end = db.write_with(Durability::None, |transaction| {
                let tree = transaction.table(tree)?;
                let end = end.max(reserved(&tree, column)?);
                tree.put(key(column), tuple::encode(&[Element::Int(end)]))?;
                Ok(end)
            })?;
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(next) = all.get_mut(&column) {
                next.reserved = next.reserved.max(end);
            }
        }
    }

    fn take_within(
        &self,
        tree: &quipu::Table,
        column: NumberedColumn,
        brought: Option<i128>,
        transaction: &Transaction,
    ) -> Result<i128> {
        let tree = transaction.table(tree)?;
        let reserved = reserved(&tree, column)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = all.entry(column).or_insert(Next { number: reserved, reserved });
        let number = brought.unwrap_or(next.number);
        next.number = next.number.max(number.saturating_add(1));
        if next.number > reserved {
            let end = next.number.saturating_add(BLOCK);
            tree.put(key(column), tuple::encode(&[Element::Int(end)]))?;
        }
        // What this transaction reserves may be rolled back.
        next.reserved = next.reserved.min(reserved);
        Ok(number)
    }
}
