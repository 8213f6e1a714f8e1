//! A range that stays open from step to step, with the table that it reads.

use quipu::{Entry, Range, Result, Table};
use self_cell::self_cell;

use quipu::{Bounds, Read};

self_cell! {
    struct Cell {
        owner: Table,
        #[not_covariant]
        dependent: Range,
    }
}

/// A range over a live table: it shows the table as it was when it was opened.
pub struct HeldRange(Cell);

impl HeldRange {
    /// Opens it.
    pub fn open(table: &Table, bounds: Bounds<'_>) -> HeldRange {
        HeldRange(Cell::new(table.clone(), |table| table.range(bounds)))
    }

    /// The next row from either end.
    pub fn pull(&mut self, reverse: bool) -> Option<Result<Entry>> {
        self.0.with_dependent_mut(|_, range| if reverse { range.next_back() } else { range.next() })
    }
}
