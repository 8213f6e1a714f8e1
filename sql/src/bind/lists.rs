//! Lists in which a value is searched: IN, and arrays of ANY and ALL. One that is long, and the same for all rows, is
//! searched like a set.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::plan::expression::{Among, Comparison, Expr, Quantifier, SetNumber};
use crate::types::BaseType;
use crate::types::datum::{Array, Datum};

/// Values after IN from which on they are searched as one.
pub(super) const LONG: usize = 8;

/// Finds out how a value is searched in a list, which may be sorted for that. `number` is asked for the number of a
/// set.
pub(super) fn among(list: &mut [Expr], number: impl FnOnce() -> usize) -> Among {
    if list.len() < LONG {
        Among::Each
    } else if sort_constants(list) {
        Among::Sorted
    } else if list.iter().all(Expr::is_same_for_all) {
        Among::Set(SetNumber(number()))
    } else {
        Among::Each
    }
}

/// The number of the set of an array's elements, if it is asked whether a value is one of them or none, and all rows
/// have the same array. `number` is asked for it.
pub(super) fn set_of(
    function: &Quantifier,
    array: &Expr,
    is_all: bool,
    number: impl FnOnce() -> usize,
) -> Option<SetNumber> {
    let is_search = match function {
        Quantifier::Comparison(Comparison::Equal) => !is_all,
        Quantifier::Comparison(Comparison::Unequal) => is_all,
        _ => false,
    };
    (is_search && array.is_same_for_all()).then(|| SetNumber(number()))
}

/// An array of these elements, which are no arrays.
pub(super) fn array_of(element: BaseType, items: Vec<Expr>) -> Expr {
    let constant = |item: &Expr| match item {
        Expr::Constant(value) => Some(value.clone()),
        _ => None,
    };
    match items.iter().map(constant).collect() {
        Some(values) => Expr::Constant(Datum::Array(Arc::new(Array::new(element, values)))),
        None => Expr::Array { element, items },
    }
}

/// Sorts a long list of constants of one kind. Returns whether it has done so.
fn sort_constants(list: &mut [Expr]) -> bool {
    let is_one_kind = list.windows(2).all(|two| match two {
        [Expr::Constant(a), Expr::Constant(b)] => a.sorts_beside(b),
        _ => false,
    });
    if !is_one_kind {
        return false;
    }
    list.sort_by(|a, b| match (a, b) {
        (Expr::Constant(a), Expr::Constant(b)) => a.cmp(b),
        _ => Ordering::Equal,
    });
    true
}
