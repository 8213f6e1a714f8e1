//! The numbers of identity columns.
//!
//! For each identity column, the tree `rows.numbers` has the next number: one more than the greatest number of
//! committed rows, whether the column gave it or a caller did. The commit of the rows writes it. So a crash loses no
//! number, and a transaction that is rolled back takes none. Open transactions do not conflict over it: at its commit,
//! each raises it above its own numbers ([`Patch`]).
//!
//! The numbers of open transactions are only in memory.
//!
//! Invariants:
//! 1. A number that is given out is greater than those of all committed rows, and no other open transaction has it.
//! 2. A transaction keeps its numbers until its commit is visible or it has ended without one. So no other transaction
//!    gets them in between.
//!
//! Costs: a look-up in memory for each number, and a look-up in the tree for the first one after a commit; a write to
//! the tree for each transaction. A transaction with numbers far apart keeps up to 3 MB of them ([`Ranges`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu::isolation::Patch;
use quipu::tuple::{self, Element};
use quipu::{Error, ErrorKind, ReadableTable, Result, Savepoint, Transaction, WritableTable};
use smallvec::SmallVec;

use crate::catalogue::ranges::Ranges;
use crate::catalogue::savepoints::SavepointStates;
use crate::catalogue::shared::{Shared, read_only};
use crate::definition::document::{ColumnNumber, TableNumber};

/// An identity column.
pub(crate) type NumberedColumn = (TableNumber, ColumnNumber);

/// What identity columns that were asked for give out.
#[derive(Default)]
pub(crate) struct Numbers {
    columns: Mutex<HashMap<NumberedColumn, Column>>,
    holders: AtomicU64,
}

/// What one column gives out.
#[derive(Default)]
struct Column {
    /// The number after those of committed rows; none if the tree has to be asked.
    next: Option<i128>,
    /// The numbers of open transactions.
    held: SmallVec<[(HolderId, Ranges); 1]>,
}

/// A transaction that is open.
type HolderId = u64;

impl Column {
    fn own(&mut self, holder: HolderId) -> &mut Ranges {
        let place = self.held.iter().position(|(other, _)| *other == holder).unwrap_or_else(|| {
            self.held.push((holder, Ranges::default()));
            self.held.len() - 1
        });
        &mut self.held[place].1
    }
}

/// The key of a column in `rows.numbers`.
pub(crate) fn key((table, column): NumberedColumn) -> Vec<u8> {
    tuple::encode(&[Element::Int(table.into()), Element::Int(column.into())])
}

/// The number after those of committed rows, as its bytes.
pub(crate) fn value(next: i128) -> Vec<u8> {
    tuple::encode(&[Element::Int(next)])
}

/// The number that a new column gives out first.
pub(crate) const FIRST: i128 = 1;

fn next_of(value: &[u8]) -> Result<i128> {
    match tuple::element_at(value, 0) {
        Some(Element::Int(number)) => Ok(number),
        _ => Err(Error::new(ErrorKind::Corrupt, "the next number of a column is damaged: run `quipu check`")),
    }
}

/// The number after those of the rows that `tree` sees committed.
pub(crate) fn next_in(tree: &impl ReadableTable, column: NumberedColumn) -> Result<i128> {
    tree.get(key(column))?.map_or(Ok(FIRST), |value| next_of(&value))
}

impl Numbers {
    fn columns(&self) -> MutexGuard<'_, HashMap<NumberedColumn, Column>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers of one transaction. Dropped, it gives them back: after the commit of those that rows have.
pub(crate) struct Holder {
    shared: Arc<Shared>,
    id: HolderId,
    used: RefCell<SmallVec<[NumberedColumn; 2]>>,
    savepoints: RefCell<Savepoints>,
    /// The next numbers of columns that the transaction has defined, or whose next number it has set.
    set: RefCell<HashMap<NumberedColumn, i128>>,
}

/// What was added since the first savepoint that is still there.
#[derive(Default)]
struct Savepoints {
    /// Each with how much had been added before it.
    marks: SavepointStates<usize>,
    added: Vec<(NumberedColumn, i128)>,
}

impl Holder {
    pub(crate) fn new(shared: Arc<Shared>) -> Holder {
        let id = shared.numbers.holders.fetch_add(1, Ordering::Relaxed);
        let (used, savepoints, set) = Default::default();
        Holder { shared, id, used, savepoints, set }
    }

    /// Takes the next number of a column; none if it would be greater than `last`.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), and those of reading.
    pub(crate) fn take(&self, numbered: NumberedColumn, last: i128) -> Result<Option<i128>> {
        let tree = self.shared.numbers_tree().ok_or_else(read_only)?;
        let mut columns = self.shared.numbers.columns();
        let column = columns.entry(numbered).or_default();
        let next = match (self.set.borrow().get(&numbered), column.next) {
            (Some(&set), _) => set,
            (None, Some(next)) => next,
            (None, None) => *column.next.insert(next_in(tree, numbered)?),
        };
        let own = column.own(self.id).last().map_or(next, |own| next.max(own.saturating_add(1)));
        let mut number = own;
        while let Some(held) = column.held.iter().filter_map(|(_, held)| held.last_from(number)).max() {
            number = held.saturating_add(1);
        }
        self.note_used(numbered);
        if number > last {
            return Ok(None);
        }
        column.own(self.id).add(number);
        self.note_added(numbered, number);
        Ok(Some(number))
    }

    /// The number after those that rows have which the transaction sees or has written. Another one may have it by now.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), and those of reading.
    pub(crate) fn next(&self, numbered: NumberedColumn) -> Result<i128> {
        let tree = self.shared.numbers_tree().ok_or_else(read_only)?;
        let columns = self.shared.numbers.columns();
        let column = columns.get(&numbered);
        let next = match (self.set.borrow().get(&numbered), column.and_then(|column| column.next)) {
            (Some(&next), _) | (None, Some(next)) => next,
            (None, None) => next_in(tree, numbered)?,
        };
        let held = column.and_then(|column| column.held.iter().find(|(holder, _)| *holder == self.id));
        let own = held.and_then(|(_, own)| own.last());
        Ok(own.map_or(next, |own| next.max(own.saturating_add(1))))
    }

    /// Notes the number of a row that has been written.
    pub(crate) fn add(&self, numbered: NumberedColumn, number: i128) {
        if self.shared.numbers.columns().entry(numbered).or_default().own(self.id).add(number) {
            self.note_added(numbered, number);
        }
        self.note_used(numbered);
    }

    /// Gives back a number that no row has.
    pub(crate) fn give_back(&self, numbered: NumberedColumn, number: i128) {
        if let Some(column) = self.shared.numbers.columns().get_mut(&numbered) {
            column.own(self.id).remove(number);
        }
    }

    /// Notes that the transaction has set the next number of a column. Its rows so far have their numbers.
    pub(crate) fn set_next(&self, numbered: NumberedColumn, next: i128) {
        self.set.borrow_mut().insert(numbered, next);
        if let Some(column) = self.shared.numbers.columns().get_mut(&numbered) {
            *column.own(self.id) = Ranges::default();
        }
        self.note_used(numbered);
    }

    /// Whether the transaction has defined the column or set its next number.
    pub(crate) fn has_set(&self, numbered: NumberedColumn) -> bool {
        self.set.borrow().contains_key(&numbered)
    }

    /// Looks again at the next numbers that the transaction has set, some of which may be undone.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn look_again(&self, transaction: &Transaction) -> Result<()> {
        let Some(tree) = self.shared.numbers_tree() else { return Ok(()) };
        for (&numbered, next) in &mut *self.set.borrow_mut() {
            *next = next_in(&transaction.table(tree)?, numbered)?;
        }
        Ok(())
    }

    fn note_used(&self, numbered: NumberedColumn) {
        let mut used = self.used.borrow_mut();
        if !used.contains(&numbered) {
            used.push(numbered);
        }
    }

    fn note_added(&self, numbered: NumberedColumn, number: i128) {
        let mut savepoints = self.savepoints.borrow_mut();
        if !savepoints.marks.is_empty() {
            savepoints.added.push((numbered, number));
        }
    }

    /// Marks a point to roll back to.
    pub(crate) fn mark(&self, savepoint: Savepoint) {
        let mut savepoints = self.savepoints.borrow_mut();
        let added = savepoints.added.len();
        savepoints.marks.mark(savepoint, added);
    }

    /// Gives back what was added since the savepoint, which stays.
    pub(crate) fn roll_back_to(&self, savepoint: Savepoint) {
        let mut savepoints = self.savepoints.borrow_mut();
        let Some(&added) = savepoints.marks.back_to(savepoint) else { return };
        for (numbered, number) in savepoints.added.drain(added..) {
            self.give_back(numbered, number);
        }
    }

    /// Forgets the savepoint and those after it.
    pub(crate) fn release(&self, savepoint: Savepoint) {
        let mut savepoints = self.savepoints.borrow_mut();
        savepoints.marks.release(savepoint);
        if savepoints.marks.is_empty() {
            savepoints.added.clear();
        }
    }

    /// Writes what is after the numbers of the transaction, to be committed with its rows.
    ///
    /// # Errors
    /// Those of a write.
    pub(crate) fn write(&self, transaction: &Transaction) -> Result<()> {
        for &numbered in &*self.used.borrow() {
            let last = self.shared.numbers.columns().get_mut(&numbered).and_then(|column| column.own(self.id).last());
            let (Some(last), Some(tree)) = (last, self.shared.numbers_tree()) else { continue };
            let next = last.saturating_add(1);
            let tree = transaction.table(tree)?;
            let raise = Patch::new(move |bytes| Ok(value(next.max(next_of(bytes)?))));
            // It is there but after a repair that has lost it: then of two transactions that write it one conflicts.
            if !tree.patch(key(numbered), &raise)? {
                let tree = tree.relying();
                tree.put(key(numbered), value(next.max(next_in(&tree, numbered)?)))?;
            }
        }
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let used = self.used.get_mut();
        if used.is_empty() {
            return;
        }
        let mut columns = self.shared.numbers.columns();
        for numbered in used {
            if let Some(column) = columns.get_mut(numbered) {
                column.held.retain(|(holder, _)| *holder != self.id);
                column.next = None;
            }
        }
    }
}
