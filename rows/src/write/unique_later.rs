//! Unique indexes that are checked at the end of the statement or of the transaction; until then two rows may have the
//! same values.
//!
//! Their entries have the keys of their rows at their ends, as those of an index that is not unique. A row that takes
//! values counts the entries of these, which costs a descent or two; where there are several, they are looked at now or
//! later. The transaction relies on the count, so one of two that take the same values at once is refused.

use quipu::tuple::{self, Element};
use quipu::{Error, ErrorKind, ReadableTable, Result};

use crate::catalogue::engine_tables::Trees;
use crate::definition::index::IndexDefinition;
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::read::row::RowView;
use crate::schema::constraint::{Constraint, Deferral};
use crate::transaction::RowTransaction;
use crate::transaction::deferred_constraints::Repeated;
use crate::value::Value;
use crate::write::complete::RowValues;
use crate::write::violations::broken;

/// The part of an entry's key that is of its values; none if one of them is NULL, which is compared with nothing.
pub(crate) fn values_of(index: &IndexDefinition, row: &[Value<'_>], entry: &[u8]) -> Option<Vec<u8>> {
    let is_null = |expression: &crate::expression::Expression| {
        expression.evaluate(&RowValues(row)).is_ok_and(|value| value.is_null())
    };
    let is_compared = index.declared.nulls_equal || !index.expressions.iter().any(is_null);
    if index.declared.deferral == Deferral::Never || !is_compared {
        return None;
    }
    Some(values_in(index, entry).to_vec())
}

/// The part of an entry's key that is of its values.
pub(crate) fn values_in<'e>(index: &IndexDefinition, entry: &'e [u8]) -> &'e [u8] {
    let length = tuple::parts(entry).take(index.expressions.len()).map(|part| part.bytes().len()).sum();
    &entry[..length]
}

/// Looks whether another row has the values of an entry that was written, or leaves that for later.
///
/// # Errors
/// [`Exists`](ErrorKind::Exists) if one has.
pub(crate) fn look(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    index: &IndexDefinition,
    values: Vec<u8>,
) -> Result<()> {
    let range = KeyRange::beginning_with(values.clone());
    if transaction.relying_tree(&index.tree)?.count(range.bounds())? < 2 {
        return Ok(());
    }
    let deferred = transaction.postponed.defers(&index.declared.name, index.declared.deferral);
    let repeated = (definition.number, index.number, values);
    let mut noted = Some(repeated);
    if deferred {
        transaction.postponed.check_unique.set(Some(check_at_the_end));
    }
    if transaction.postponed.note(deferred, |waiting| waiting.repeated.extend(noted.take())) {
        return Ok(());
    }
    Err(not_unique(transaction, definition, index, &range)?)
}

fn check_at_the_end(transaction: &RowTransaction<'_>) -> Result<()> {
    transaction.postponed.end();
    let repeated = std::mem::take(&mut transaction.postponed.deferred.borrow_mut().repeated);
    let result = repeated.iter().try_for_each(|repeated| check(transaction, repeated));
    if result.is_err() {
        transaction.postponed.deferred.borrow_mut().repeated.extend(repeated);
    }
    result
}

/// Looks at values that several rows had.
///
/// # Errors
/// [`Exists`](ErrorKind::Exists) if they still have.
pub(crate) fn check(transaction: &RowTransaction<'_>, (table, number, values): &Repeated) -> Result<()> {
    let definition = match transaction.definition_of_handle(*table) {
        Err(error) if error.kind() == ErrorKind::Missing => return Ok(()),
        definition => definition?,
    };
    let Some(index) = definition.indexes.iter().find(|index| index.number == *number) else { return Ok(()) };
    look(transaction, &definition, index, values.clone())
}

/// Looks whether no two rows that there are have the same values.
///
/// # Errors
/// [`Exists`](ErrorKind::Exists) if two have.
pub(crate) fn check_all(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    index: &IndexDefinition,
) -> Result<()> {
    let (mut last, mut repeated, mut failed) = (Vec::new(), None, None);
    transaction.tree(&index.tree)?.for_each_limited(.., u64::MAX, |key, _| {
        let values = values_in(index, key);
        if failed.is_none() && repeated.is_none() && !last.is_empty() && last == values {
            match has_null(index, key) {
                Ok(true) => {}
                Ok(false) => repeated = Some(values.to_vec()),
                Err(error) => failed = Some(error),
            }
        }
        last.clear();
        last.extend_from_slice(values);
    })?;
    match (failed, repeated) {
        (Some(error), _) => Err(error),
        (None, Some(values)) => Err(not_unique(transaction, definition, index, &KeyRange::beginning_with(values))?),
        (None, None) => Ok(()),
    }
}

/// Whether one of the values of an entry is a NULL that is compared with nothing.
pub(crate) fn has_null(index: &IndexDefinition, entry: &[u8]) -> Result<bool> {
    if index.declared.nulls_equal {
        return Ok(false);
    }
    // What a key has of some types does not tell the value, but whether there is one.
    for part in tuple::parts(entry).take(index.expressions.len()) {
        if part.element()? == Element::Null {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The error of rows that have the same values, whose entries stand in this range.
#[cold]
fn not_unique(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    index: &IndexDefinition,
    range: &KeyRange,
) -> Result<Error> {
    let mut found = None;
    transaction.tree(&index.tree)?.for_each_limited(range.bounds(), 1, |key, value| {
        found = Some(index.row_key(key, value));
    })?;
    let row_key = found.transpose()?.unwrap_or_default();
    let value = transaction.tree(&definition.rows)?.get(&row_key)?.unwrap_or_default();
    let view = RowView::new(definition, &row_key, &value)?;
    let row = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<Vec<_>>>()?;
    let (name, columns) = (&index.declared.name, index.declared.columns.join(", "));
    let what = format!("another row has the same {columns} in the unique index {name}");
    let key = index.values(&definition.columns, &view);
    Ok(broken(definition, &row, Constraint::Unique, what).named(name).of_key(key).into_error())
}
