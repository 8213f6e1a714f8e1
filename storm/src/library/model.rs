//! The model of a database: tables by name, each a counted map. A copy of it costs a few pointers, so every commit
//! can be remembered.

use std::collections::BTreeMap;
use std::rc::Rc;

use quipu::{Bounds, RunLayout, TableOptions, Tally};

use crate::library::rows::Rows;

/// A table.
#[derive(Clone)]
pub struct TableModel {
    /// A number of its own: a table that was dropped and made again is another one.
    pub number: u64,
    /// How it was declared.
    pub options: Rc<TableOptions>,
    /// What it holds.
    pub rows: Rows,
}

impl TableModel {
    /// The tally of a range, row by row.
    pub fn tally(&self, bounds: &Bounds<'_>) -> Tally {
        let measures = &self.options.measures;
        let (from, to) = self.rows.span(bounds);
        if !measures.bytes && !measures.hash && measures.sum.is_none() {
            return Tally { rows: (to - from) as i64, ..Tally::ZERO };
        }
        self.rows.slice(from, to).map(|(key, value)| measures.of_row(key, &value.bytes())).sum()
    }
}

/// All tables.
#[derive(Clone, Default)]
pub struct State {
    /// By name.
    pub tables: BTreeMap<String, TableModel>,
}

impl State {
    /// Whether both hold the same. The index is no part of it: a rewrite changes it beside commits.
    pub fn same(&self, other: &State) -> bool {
        self.tables.len() == other.tables.len()
            && self.tables.iter().zip(&other.tables).all(|((name, a), (other_name, b))| {
                name == other_name && same_options(&a.options, &b.options) && a.rows.same(&b.rows)
            })
    }
}

/// Whether tables are declared alike, but for the index.
pub fn same_options(a: &TableOptions, b: &TableOptions) -> bool {
    let plain = |options: &TableOptions| TableOptions { layout: RunLayout::Tree, ..options.clone() };
    plain(a) == plain(b)
}
