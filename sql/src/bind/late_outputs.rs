//! Outputs of a query that are computed after its sort.

use crate::bind::BoundQuery;
use crate::bind::query::around;
use crate::plan::expression::Expr;
use crate::plan::query::SortKey;
use crate::types::datum::Datum;

/// Outputs that are computed once the rows are sorted, of those rows alone that a limit lets through: `nextval` takes a
/// number for each of these.
pub(super) struct Late {
    outputs: Vec<Expr>,
}

impl Late {
    /// Takes values that are others each time out of the outputs of a query that is sorted by others; none if there are
    /// none. What they are computed of is among its outputs then.
    pub(super) fn of(exprs: &mut Vec<Expr>, visible: usize, sort: &[SortKey]) -> Option<Late> {
        let is_sorted_by = |place: usize| sort.iter().any(|key| key.place == place);
        if sort.is_empty() || !(0..visible).any(|place| exprs[place].is_volatile() && !is_sorted_by(place)) {
            return None;
        }
        let mut outputs = Vec::with_capacity(visible);
        for place in 0..visible {
            if !exprs[place].is_volatile() || is_sorted_by(place) {
                outputs.push(Expr::Slot(place));
                continue;
            }
            let mut output = std::mem::replace(&mut exprs[place], Expr::Constant(Datum::Null));
            output.replace(&mut |part| {
                let Expr::Slot(_) = part else { return None };
                exprs.push(part.clone());
                Some(Expr::Slot(exprs.len() - 1))
            });
            outputs.push(output);
        }
        Some(Late { outputs })
    }

    /// The query around the one that is sorted, which has so many outputs.
    pub(super) fn around(self, sorted: BoundQuery, width: usize) -> BoundQuery {
        around(sorted.query, width, self.outputs, sorted.columns)
    }
}
