//! Set-returning functions in a select list. They are joined after the tables of FROM, so that each row comes once for
//! each row of theirs. Those that groups and window functions do not read are joined after these.

use std::ops::Range;
use std::sync::Arc;

use crate::bind::from::Item;
use crate::plan::expression::Expr;
use crate::plan::query::Query;
use crate::plan::source::{JoinKind, RowsOf, Source};

/// A FROM with functions of rows after it. Those that take no other's rows give theirs beside each other, and so do
/// those that take theirs.
pub(super) fn joined(item: Option<Item>, functions: Vec<RowsOf>) -> Option<Item> {
    let mut depths: Vec<usize> = Vec::new();
    for function in &functions {
        let mut reads = Vec::new();
        function.arguments.iter().for_each(|value| value.add_slots(&mut reads));
        let before = functions.iter().zip(&depths);
        let taken = before.filter(|(known, _)| reads.iter().any(|slot| known.slots.contains(slot)));
        depths.push(taken.map(|(_, depth)| depth + 1).max().unwrap_or(0));
    }
    // They come after all tables, and one that reads nothing is asked again for each row, as the others are.
    let mut own = Vec::new();
    item.iter().for_each(|item| add_first_slots(item, &mut own));
    let stages = depths.iter().max().map_or(0, |deepest| deepest + 1);
    (0..stages).fold(item, |item, stage| {
        let of_stage = functions.iter().zip(&depths).filter(|(_, depth)| **depth == stage);
        let calls: Vec<RowsOf> = of_stage.map(|(function, _)| function.clone()).collect();
        let mut needs = own.clone();
        calls.iter().flat_map(|call| &call.arguments).for_each(|value| value.add_slots(&mut needs));
        // Between the first and the last of them may stand those of the next stages, which are written later.
        let start = calls.iter().map(|call| call.slots.start).min().unwrap_or(0);
        let end = calls.iter().map(|call| call.slots.end).max().unwrap_or(0);
        let source = Source::Function { calls, ordinality: None };
        let function = Item::Other { source, slots: start..end, needs };
        Some(match item {
            None => function,
            Some(item) => {
                Item::Join { kind: JoinKind::Inner, left: Box::new(item), right: Box::new(function), on: Vec::new() }
            }
        })
    })
}

/// Adds the first slot of each part.
fn add_first_slots(item: &Item, slots: &mut Vec<usize>) {
    match item {
        Item::Table { base, .. } => slots.push(*base),
        Item::Other { slots: own, .. } => slots.extend((!own.is_empty()).then_some(own.start)),
        Item::Join { left, right, .. } => {
            add_first_slots(left, slots);
            add_first_slots(right, slots);
        }
    }
}

/// Takes the functions that none of these expressions reads, be it through another function.
pub(super) fn take_unread<'e>(functions: &mut Vec<RowsOf>, exprs: impl Iterator<Item = &'e Expr>) -> Vec<RowsOf> {
    let mut reads = Vec::new();
    exprs.for_each(|expr| expr.add_slots(&mut reads));
    // Those that a function takes stand before it.
    for function in functions.iter().rev() {
        if reads.iter().any(|slot| function.slots.contains(slot)) {
            function.arguments.iter().for_each(|value| value.add_slots(&mut reads));
        }
    }
    functions.extract_if(.., |function| !reads.iter().any(|slot| function.slots.contains(slot))).collect()
}

/// Whether an expression reads what one of these functions gives.
pub(super) fn reads_any(expr: &Expr, functions: &[RowsOf]) -> bool {
    expr.any(&|part| matches!(part, Expr::Slot(slot) if functions.iter().any(|known| known.slots.contains(slot))))
}

/// A SELECT in two: functions of rows come to the rows of the first. In the frame of the second, the slots of the
/// functions are followed by the values of the first.
pub(super) struct Cut {
    functions: Vec<RowsOf>,
    /// Where the slots of each function stood before.
    slots: Vec<Range<usize>>,
    /// How many slots the functions have.
    width: usize,
    /// Whether window functions are those of the second SELECT.
    is_before_windows: bool,
    /// The values of the first SELECT.
    pub(super) values: Vec<Expr>,
}

impl Cut {
    /// Before these functions, and perhaps before window functions.
    pub(super) fn before(functions: Vec<RowsOf>, is_before_windows: bool) -> Cut {
        let slots = functions.iter().map(|function| function.slots.clone()).collect();
        let width = functions.iter().map(|function| function.slots.len()).sum();
        let mut cut = Cut { functions: Vec::new(), slots, width, is_before_windows, values: Vec::new() };
        let mut end = 0;
        for mut function in functions {
            function.slots = end..end + function.slots.len();
            end = function.slots.end;
            function.arguments.iter_mut().for_each(|value| cut.change(value));
            cut.functions.push(function);
        }
        cut
    }

    /// Makes an expression of the first SELECT one of the second.
    pub(super) fn change(&mut self, expr: &mut Expr) {
        self.change_part(expr, false);
    }

    fn change_part(&mut self, expr: &mut Expr, is_in_once: bool) {
        if let Expr::Slot(slot) = expr
            && let Some(function) = self.slots.iter().position(|slots| slots.contains(slot))
        {
            let before: usize = self.slots[..function].iter().map(ExactSizeIterator::len).sum();
            *slot = before + *slot - self.slots[function].start;
            return;
        }
        let is_of_second = |part: &Expr| match part {
            Expr::Slot(slot) => self.slots.iter().any(|slots| slots.contains(slot)),
            Expr::Window(_) => self.is_before_windows,
            _ => false,
        };
        let is_read =
            |part: &Expr| matches!(part, Expr::Slot(_) | Expr::Aggregate(_) | Expr::Window(_) | Expr::Default);
        // What is known within an expression that computes it once is not known outside.
        let is_known = |part: &Expr| matches!(part, Expr::Known(_));
        if expr.any(&is_read) && !expr.any(&is_of_second) && !(is_in_once && expr.any(&is_known)) {
            *expr = Expr::Slot(self.width + self.place(expr));
            return;
        }
        let is_in_once = is_in_once || matches!(expr, Expr::Once { .. });
        let Ok(()) = expr.change_parts::<std::convert::Infallible>(&mut |part| {
            self.change_part(part, is_in_once);
            Ok(())
        });
    }

    /// The place of a value among those of the first SELECT.
    pub(super) fn place(&mut self, value: &Expr) -> usize {
        self.values.iter().position(|known| known == value).unwrap_or_else(|| {
            self.values.push(value.clone());
            self.values.len() - 1
        })
    }

    /// The FROM of the second SELECT without the functions, the functions, and the size of its frame.
    pub(super) fn second(self, first: Query) -> (Item, Vec<RowsOf>, usize) {
        let slots = self.width..self.width + self.values.len();
        let source = Source::Subselect { query: Arc::new(first), arguments: None, slots: slots.clone() };
        let frame = slots.end;
        (Item::Other { source, slots, needs: Vec::new() }, self.functions, frame)
    }
}
