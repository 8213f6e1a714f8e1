//! Outputs of a query that are computed after its sort.

use std::sync::Arc;

use crate::bind::BoundQuery;
use crate::bind::query::plain;
use crate::plan::expression::Expr;
use crate::plan::query::{Body, Distinct, Select, SortKey};
use crate::plan::source::Source;
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
            move_slots(&mut output, &mut |slot| {
                exprs.push(Expr::Slot(slot));
                exprs.len() - 1
            });
            outputs.push(output);
        }
        Some(Late { outputs })
    }

    /// The query around the one that is sorted, which has so many outputs.
    pub(super) fn around(self, sorted: BoundQuery, width: usize) -> BoundQuery {
        let visible = self.outputs.len();
        let source = Source::Subselect { query: Arc::new(sorted.query), arguments: None, slots: 0..width };
        let select = Select {
            frame: width,
            source,
            grouping: None,
            windows: Vec::new(),
            output: self.outputs,
            distinct: Distinct::No,
            lock: None,
        };
        BoundQuery { query: plain(Body::Select(Box::new(select)), visible), columns: sorted.columns }
    }
}

/// Has an expression read other slots.
fn move_slots(expr: &mut Expr, to: &mut dyn FnMut(usize) -> usize) {
    if let Expr::Slot(slot) = expr {
        *slot = to(*slot);
        return;
    }
    let changed: Result<(), std::convert::Infallible> = expr.change_parts(&mut |part| {
        move_slots(part, to);
        Ok(())
    });
    let Ok(()) = changed;
}
