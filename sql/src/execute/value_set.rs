//! Sets of values in which others are searched: those of a long IN, and the elements of an array that all rows have.
//!
//! A search is one look-up, but for NULL, for rows with NULL in them, and beside such values: whether they are equal
//! depends on that.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::types::datum::Datum;

/// Values, each once.
pub(crate) struct ValueSet {
    /// Those without NULL.
    known: HashSet<Datum, RandomState>,
    /// NULL, and rows with NULL in them.
    open: Vec<Datum>,
    /// Whether there is NULL for all of them.
    is_null: bool,
}

fn is_open(value: &Datum) -> bool {
    match value {
        Datum::Null => true,
        Datum::Record(fields) => fields.iter().any(|(_, value)| is_open(value)),
        _ => false,
    }
}

impl ValueSet {
    /// The set of values; none are NULL for all of them.
    pub(crate) fn new(values: Option<Vec<Datum>>) -> ValueSet {
        let is_null = values.is_none();
        let (mut open, known): (Vec<Datum>, Vec<Datum>) = values.unwrap_or_default().into_iter().partition(is_open);
        open.dedup();
        ValueSet { known: known.into_iter().collect(), open, is_null }
    }

    /// Whether a value equals one of them; none if that depends on a NULL. `equal` says so of two values one of which
    /// has NULL in it.
    pub(crate) fn has(&self, value: &Datum, equal: impl Fn(&Datum, &Datum) -> Option<bool>) -> Option<bool> {
        if self.is_null {
            return None;
        }
        if value.is_null() {
            return (self.known.is_empty() && self.open.is_empty()).then_some(false);
        }
        if self.known.contains(value) {
            return Some(true);
        }
        let mut found = Some(false);
        let others = self.known.iter().filter(|_| is_open(value)).chain(&self.open);
        for other in others {
            match equal(value, other) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => found = None,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::evaluate::equal;
    use crate::types::SqlType;

    fn ints(values: &[Option<i64>]) -> Datum {
        let field = |value: &Option<i64>| (SqlType::INT4, value.map_or(Datum::Null, Datum::Int));
        Datum::record(values.iter().map(field).collect())
    }

    #[test]
    fn null_leaves_it_open_whether_a_value_is_there() {
        let set = |values: &[Datum]| ValueSet::new(Some(values.to_vec()));
        let (one, two) = (Datum::Int(1), Datum::Int(2));
        assert_eq!(ValueSet::new(None).has(&one, equal), None);
        assert_eq!(set(&[]).has(&Datum::Null, equal), Some(false));
        assert_eq!(set(std::slice::from_ref(&one)).has(&Datum::Null, equal), None);
        assert_eq!(set(std::slice::from_ref(&one)).has(&two, equal), Some(false));
        assert_eq!(set(&[one.clone(), Datum::Null]).has(&one, equal), Some(true));
        assert_eq!(set(&[one, Datum::Null]).has(&two, equal), None);
    }

    #[test]
    fn rows_with_null_differ_where_other_columns_do() {
        let set = ValueSet::new(Some(vec![ints(&[Some(1), Some(2)]), ints(&[Some(3), None])]));
        assert_eq!(set.has(&ints(&[Some(1), Some(2)]), equal), Some(true));
        assert_eq!(set.has(&ints(&[Some(1), None]), equal), None);
        assert_eq!(set.has(&ints(&[Some(2), None]), equal), Some(false));
        assert_eq!(set.has(&ints(&[Some(3), Some(1)]), equal), None);
        assert_eq!(set.has(&ints(&[Some(4), Some(1)]), equal), Some(false));
        assert_eq!(set.has(&ints(&[None, Some(1)]), equal), None);
    }
}
