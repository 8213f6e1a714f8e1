//! A row of values, from what a caller gives: defaults and numbers for what is not given, each value as its column
//! holds it.

use quipu::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use crate::definition::table::{CheckDefinition, TableDefinition};
use crate::expression::evaluate::Failed;
use crate::schema::column::Identity;
use crate::schema::constraint::Constraint;
use crate::schema::invalid;
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::write::broken::{broken, broken_in_column, list};

/// The values of all columns, in the order of the schema.
pub(crate) type Values<'v> = SmallVec<[Value<'v>; 16]>;

/// The row of values for all columns that are not hidden, in their order. NULL for an identity column stands for the
/// next number.
pub(crate) fn from_all<'v>(
    definition: &TableDefinition,
    given: &'v [Value<'_>],
    transaction: &RowTransaction<'_>,
) -> Result<Values<'v>> {
    let mut left = given.iter();
    let mut row = Values::new();
    for column in &definition.columns {
        let value = match column.declared.hidden {
            true => None,
            false => Some(left.next().ok_or_else(|| wrong_count(definition, given))?),
        };
        row.push(match value {
            Some(value) => value.borrowed(),
            None => Value::Null,
        });
    }
    if left.next().is_some() {
        return Err(wrong_count(definition, given));
    }
    for place in 0..row.len() {
        let value = std::mem::replace(&mut row[place], Value::Null);
        row[place] = number(definition, place, value, transaction, &row)?;
    }
    complete(definition, row)
}

/// The row of values for some columns, the others having their defaults.
pub(crate) fn from_some<'v>(
    definition: &'v TableDefinition,
    places: &[usize],
    given: &'v [Value<'_>],
    transaction: &RowTransaction<'_>,
) -> Result<Values<'v>> {
    if places.len() != given.len() {
        return Err(invalid(format!(
            "table {}: {} values for {} columns",
            definition.name(),
            given.len(),
            places.len()
        )));
    }
    let mut row: Values<'v> = definition.columns.iter().map(|column| column.default.borrowed()).collect();
    let mut is_given: SmallVec<[bool; 16]> = SmallVec::from_elem(false, row.len());
    for (&place, value) in places.iter().zip(given) {
        if std::mem::replace(&mut is_given[place], true) {
            let name = &definition.columns[place].declared.name;
            return Err(invalid(format!("table {}: column {name} is named twice", definition.name())));
        }
        row[place] = value.borrowed();
    }
    for place in 0..row.len() {
        let value = std::mem::replace(&mut row[place], Value::Null);
        row[place] = number(definition, place, value, transaction, &row)?;
    }
    complete(definition, row)
}

/// The value of a column, which is a number if the table gives them out.
fn number<'v>(
    definition: &TableDefinition,
    place: usize,
    value: Value<'v>,
    transaction: &RowTransaction<'_>,
    row: &[Value<'_>],
) -> Result<Value<'v>> {
    let column = &definition.columns[place];
    let Some(identity) = column.declared.identity else { return Ok(value) };
    let brought = match value {
        Value::Null => None,
        Value::Int(int) if identity == Identity::ByDefault => Some(int),
        Value::Int(_) => {
            let what = format!("{value} for a column that always has a number of the table; give NULL or leave it out");
            return Err(broken_in_column(definition, row, place, Constraint::Identity, what));
        }
        other => return Ok(other),
    };
    let tree = transaction
        .shared
        .numbers_tree()
        .ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the database is open read-only; open it for writing"))?;
    let numbered = (definition.number, column.number);
    let number = transaction.shared.numbers.take(tree, numbered, brought, &transaction.reserve())?;
    Ok(Value::Int(number))
}

/// Fails if the column always has a number of the table, which no statement changes.
pub(crate) fn refuse_own_number(definition: &TableDefinition, row: &[Value<'_>], place: usize) -> Result<()> {
    if definition.columns[place].declared.identity != Some(Identity::Always) {
        return Ok(());
    }
    let what = "a column that always has a number of the table cannot be changed";
    Err(broken_in_column(definition, row, place, Constraint::Identity, what))
}

/// Makes each value that of its column.
fn complete<'v>(definition: &TableDefinition, mut row: Values<'v>) -> Result<Values<'v>> {
    for place in 0..row.len() {
        accept(definition, &mut row, place)?;
    }
    Ok(row)
}

/// Makes a value that of its column.
///
/// # Errors
/// That it is of another type, or NULL where there must be a value.
#[inline]
pub(crate) fn accept(definition: &TableDefinition, row: &mut [Value<'_>], place: usize) -> Result<()> {
    let declared = &definition.columns[place].declared;
    let value = std::mem::replace(&mut row[place], Value::Null);
    if value.is_null() {
        if declared.not_null {
            let what = "NULL in a column that is NOT NULL";
            return Err(broken_in_column(definition, row, place, Constraint::NotNull, what));
        }
        return Ok(());
    }
    match declared.data_type.accept(value.borrowed()) {
        // Where nothing has changed, the value itself is kept, which may own its bytes.
        // A key keeps neither the sign of zero nor the bits of NaN: nor do entries of indexes that have the column.
        Ok(Value::Float(float)) if definition.primary.places.contains(&place) => {
            row[place] = Value::Float(as_in_keys(float));
        }
        Ok(accepted) if is_same(&accepted, &value) => {
            drop(accepted);
            row[place] = value;
        }
        Ok(accepted) => row[place] = accepted.into_owned(),
        Err(what) => {
            row[place] = value.into_owned();
            return Err(broken_in_column(definition, row, place, Constraint::Type, what));
        }
    }
    Ok(())
}

/// The float that comes back from a key.
fn as_in_keys(float: f64) -> f64 {
    if float.is_nan() {
        f64::NAN
    } else if float == 0.0 {
        0.0
    } else {
        float
    }
}

/// Whether a value was accepted as it is.
#[inline]
fn is_same(accepted: &Value<'_>, given: &Value<'_>) -> bool {
    match (accepted, given) {
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) => true,
        (Value::Json(accepted), Value::Json(given)) => accepted.len() == given.len(),
        _ => false,
    }
}

/// Fails if a check that reads one of the columns is false. `changed` is none of a new row.
pub(crate) fn check(definition: &TableDefinition, row: &Values<'_>, changed: Option<&[usize]>) -> Result<()> {
    for check in &definition.checks {
        if changed.is_none_or(|changed| check.reads.iter().any(|place| changed.contains(place))) {
            check_one(definition, row, check)?;
        }
    }
    Ok(())
}

/// Fails if a check is false.
pub(crate) fn check_one(definition: &TableDefinition, row: &Values<'_>, check: &CheckDefinition) -> Result<()> {
    let name = &check.declared.name;
    let what = match check.condition.holds(&RowValues(row)) {
        Ok(None | Some(true)) => return Ok(()),
        Ok(Some(false)) => {
            let column = |place: usize| &definition.columns[place].declared.name;
            let read = check.reads.iter().map(|&place| format!("{} = {}", column(place), row[place]));
            let read: Vec<String> = read.collect();
            format!("check {name} fails: {}, with {}", check.declared.condition, read.join(", "))
        }
        Err(Failed::Arithmetic(what)) => format!("check {name}: {}: {what}", check.declared.condition),
        Err(Failed::Read(error)) => return Err(error),
    };
    Err(broken(definition, row, Constraint::Check, what).named(name).into_error())
}

/// Values of a row, for expressions.
pub(crate) struct RowValues<'r, 'v>(pub(crate) &'r [Value<'v>]);

impl crate::expression::evaluate::Columns for RowValues<'_, '_> {
    fn column(&self, place: usize) -> Result<Value<'_>> {
        Ok(self.0[place].borrowed())
    }
}

#[cold]
fn wrong_count(definition: &TableDefinition, given: &[Value<'_>]) -> Error {
    let columns: Vec<&str> = definition
        .columns
        .iter()
        .filter(|column| !column.declared.hidden)
        .map(|column| &*column.declared.name)
        .collect();
    let (count, names, row) = (columns.len(), columns.join(", "), list(given));
    invalid(format!("table {}, row {row}: {} values for {count} columns: {names}", definition.name(), given.len()))
}
