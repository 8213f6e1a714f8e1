//! The filter of a scan, asked of rows where they stand: one that it turns away is not copied, and of the others only
//! those columns are read that a part of the filter needs.
//!
//! Of an index, entries are asked what they have the columns for, and the rest of the filter of their rows.

use quipu_rows::RowView;

use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::source::Scan;
use crate::types::datum::Datum;

/// A filter in parts.
pub(super) struct EarlyFilter {
    parts: Vec<Part>,
    /// Whether it is known which parts entries can be asked.
    is_known: bool,
}

/// One of the conditions that must all be true.
struct Part {
    /// The places of the columns that it reads, but for those that parts before it have read.
    places: Vec<usize>,
    /// Whether entries are asked it.
    is_early: bool,
}

impl EarlyFilter {
    /// The filter of a scan; none if it has none, or one that must be asked row by row as rows are wanted: it draws
    /// numbers, has sub-selects, or its answers are kept.
    pub(super) fn of(scan: &Scan) -> Option<EarlyFilter> {
        let filter = scan.filter.as_ref().filter(|_| scan.lookup.is_none())?;
        if !is_asked_early(filter) {
            return None;
        }
        let own = scan.base..scan.base + scan.width;
        let part = |condition: &Expr| {
            let mut slots = Vec::new();
            condition.add_slots(&mut slots);
            slots.sort_unstable();
            slots.dedup();
            let places = slots.into_iter().filter(|slot| own.contains(slot)).map(|slot| slot - scan.base).collect();
            Part { places, is_early: false }
        };
        Some(EarlyFilter { parts: parts_of(filter).iter().map(part).collect(), is_known: false })
    }

    /// Whether all parts that the row, or the entry of an index, can be asked are true; `holds` says so of one. Writes
    /// the columns that they read into their slots.
    pub(super) fn keeps(
        &mut self,
        filter: &Expr,
        row: &RowView<'_>,
        scan: &Scan,
        frame: &mut [Datum],
        holds: impl Fn(&Expr, &[Datum]) -> Result<bool>,
    ) -> Result<bool> {
        if !self.is_known {
            self.decide(row);
        }
        for (part, condition) in self.parts.iter().zip(parts_of(filter)).filter(|(part, _)| part.is_early) {
            for &place in &part.places {
                frame[scan.base + place] = Datum::of_column(row.value(place)?, scan.types[place])?;
            }
            if !holds(condition, frame)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The other parts.
    pub(super) fn rest<'f>(&'f self, filter: &'f Expr) -> impl Iterator<Item = &'f Expr> {
        let parts = self.parts.iter().zip(parts_of(filter));
        parts.filter(|(part, _)| !part.is_early).map(|(_, condition)| condition)
    }

    #[cold]
    fn decide(&mut self, row: &RowView<'_>) {
        let mut read: Vec<usize> = Vec::new();
        for part in &mut self.parts {
            part.is_early = part.places.iter().all(|&place| row.has(place));
            if part.is_early {
                part.places.retain(|place| !read.contains(place));
                read.extend(&part.places);
            }
        }
        self.is_known = true;
    }
}

/// Whether an expression can be evaluated while a row stands in its table: it draws no numbers and reads no tables.
pub(super) fn is_asked_early(expr: &Expr) -> bool {
    !expr.is_volatile() && !expr.any(&|part| matches!(part, Expr::Subquery(_)))
}

/// The conditions of a filter.
fn parts_of(filter: &Expr) -> &[Expr] {
    match filter {
        Expr::And(parts) => parts,
        other => std::slice::from_ref(other),
    }
}
