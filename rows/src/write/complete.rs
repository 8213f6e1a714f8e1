//! A row of values, from what a caller gives: defaults and numbers for what is not given, each value as its column
//! holds it.

use quipu::{Error, Result};
use smallvec::SmallVec;

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::numbers::{Holder, NumberedColumn};
use crate::definition::row::{encode_value, overwritten};
use crate::definition::table::{CheckDefinition, TableDefinition};
use crate::expression::evaluate::Failed;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::column::Identity;
use crate::schema::constraint::{Constraint, Violation};
use crate::schema::invalid;
use crate::value::text::counted;
use crate::value::{Value, Values};
use crate::write::violations::{broken, broken_in_column, list};

/// A new row. The numbers that the table has given it are given back unless the row is kept.
pub(crate) struct NewRow<'h, 'v> {
    pub(crate) row: Values<'v>,
    given: Given<'h>,
}

/// Numbers that a table has given to a row, each with the place of its column.
pub(crate) struct Given<'h> {
    holder: &'h Holder,
    numbers: SmallVec<[(usize, NumberedColumn, i128); 1]>,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        for (_, numbered, number) in self.numbers.drain(..) {
            self.holder.give_back(numbered, number);
        }
    }
}

impl<'h, 'v> NewRow<'h, 'v> {
    /// The row was written: its numbers are not given out again, those that it has brought among them.
    pub(crate) fn keep(self, definition: &TableDefinition) -> Values<'v> {
        let NewRow { row, mut given } = self;
        let numbers = std::mem::take(&mut given.numbers);
        for &place in &definition.numbered {
            if !numbers.iter().any(|(given, ..)| *given == place)
                && let Some((numbered, number)) = number_of(definition, &row, place)
            {
                given.holder.add(numbered, number);
            }
        }
        row
    }

    /// The numbers alone.
    pub(crate) fn without_row(self) -> Given<'h> {
        self.given
    }

    /// Whether it was given a number for one of the columns at these places.
    pub(crate) fn was_given(&self, places: &[usize]) -> bool {
        self.given.numbers.iter().any(|(given, ..)| places.contains(given))
    }

    /// Keeps the number that it was given for the column at this place.
    pub(crate) fn keep_number(&mut self, place: usize) {
        self.given.numbers.retain(|(given, ..)| *given != place);
    }

    /// Whether a row was refused since another has a number that this one was given. That happens where rows have
    /// brought numbers, and the next one was set to one before theirs.
    pub(crate) fn has_taken_number(&self, definition: &TableDefinition, error: &Error) -> bool {
        let of_table = |violation: &&Violation| violation.table == definition.name();
        let Some(violation) = Violation::of(error).filter(of_table) else { return false };
        match violation.constraint {
            Constraint::PrimaryKey => self.was_given(&definition.primary.places),
            Constraint::Unique => definition
                .indexes
                .iter()
                .any(|index| Some(&index.declared.name) == violation.name.as_ref() && self.was_given(&index.reads)),
            _ => false,
        }
    }
}

/// An identity column of a table and the number that a row has in it.
pub(crate) fn number_of(
    definition: &TableDefinition,
    row: &[Value<'_>],
    place: usize,
) -> Option<(NumberedColumn, i128)> {
    match row[place] {
        Value::Int(number) => Some(((definition.number, definition.columns[place].number), number)),
        _ => None,
    }
}

/// The row of values for all columns that are not hidden, in their order. NULL for an identity column stands for the
/// next number. Only a row that `brings_numbers` may have another in a column that always has a number of the table.
pub(crate) fn from_all<'h, 'v>(
    definition: &TableDefinition,
    given: &'v [Value<'_>],
    holder: &'h Holder,
    brings_numbers: bool,
) -> Result<NewRow<'h, 'v>> {
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
    complete(definition, row, holder, brings_numbers)
}

/// The row of values for some columns, the others having their defaults. See [`from_all`].
pub(crate) fn from_some<'h, 'v>(
    definition: &'v TableDefinition,
    places: &[usize],
    given: &'v [Value<'_>],
    holder: &'h Holder,
    brings_numbers: bool,
) -> Result<NewRow<'h, 'v>> {
    if places.len() != given.len() {
        return Err(invalid(format!(
            "table {}: {} for {}",
            definition.name(),
            counted(given.len(), "value"),
            counted(places.len(), "column")
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
    complete(definition, row, holder, brings_numbers)
}

/// Makes each value that of its column, and then, in a row that is right so far, gives it its numbers.
fn complete<'h, 'v>(
    definition: &TableDefinition,
    mut row: Values<'v>,
    holder: &'h Holder,
    brings_numbers: bool,
) -> Result<NewRow<'h, 'v>> {
    let mut asked: SmallVec<[usize; 1]> = SmallVec::new();
    for place in 0..row.len() {
        let identity = definition.columns[place].declared.identity;
        if identity.is_some() && row[place].is_null() {
            asked.push(place);
            continue;
        }
        if is_generated(definition, place) && row[place].is_null() {
            continue;
        }
        accept(definition, &mut row, place)?;
        if identity == Some(Identity::Always) && !brings_numbers {
            let value = std::mem::replace(&mut row[place], Value::Null);
            let what = format!("{value} for a column that always has a number of the table; give NULL or leave it out");
            return Err(broken_in_column(definition, &row, place, Constraint::Identity, what));
        }
    }
    let mut given = Given { holder, numbers: SmallVec::new() };
    for place in asked {
        let column = &definition.columns[place];
        let (_, last) = column.declared.data_type.int_range().unwrap_or((0, i128::MAX));
        let numbered = (definition.number, column.number);
        let number = holder.take(numbered, last)?.ok_or_else(|| all_given_out(definition, place, last))?;
        given.numbers.push((place, numbered, number));
        row[place] = Value::Int(number);
    }
    generate(definition, &mut row, |_| true)?;
    Ok(NewRow { row, given })
}

/// The generated columns of a row of a table with these values, one for each column: their places and values.
///
/// # Errors
/// Those of their expressions, and that of a program without SQL.
pub fn generated_values<T: Trees>(table: &TableIn<'_, T>, row: &[Value<'_>]) -> Result<Vec<(usize, Value<'static>)>> {
    let schema = &table.definition.document.schema;
    let generated = table.definition.generated.iter();
    generated.map(|column| Ok((column.place, column.value(schema, row)?))).collect()
}

/// Whether a column is computed from others.
pub(crate) fn is_generated(definition: &TableDefinition, place: usize) -> bool {
    definition.generated.iter().any(|column| column.place == place)
}

/// Computes the generated columns of a row whose other columns are right so far. A value that was given for one must be
/// NULL, or what it comes to.
pub(crate) fn generate(
    definition: &TableDefinition,
    row: &mut [Value<'_>],
    is_given: impl Fn(usize) -> bool,
) -> Result<()> {
    for column in &definition.generated {
        let place = column.place;
        let given = std::mem::replace(&mut row[place], Value::Null);
        row[place] = column.value(&definition.document.schema, row)?;
        accept(definition, row, place)?;
        if is_given(place) && !given.is_null() && given != row[place] {
            let what = format!("{given} for a column that is computed: it comes to {}; leave it out", row[place]);
            return Err(broken_in_column(definition, row, place, Constraint::Generated, what));
        }
    }
    Ok(())
}

/// The error of a column whose numbers have all been given out.
#[cold]
fn all_given_out(definition: &TableDefinition, place: usize, last: i128) -> Error {
    let (table, column) = (definition.name().to_owned(), definition.columns[place].declared.name.clone());
    let data_type = definition.columns[place].declared.data_type;
    let message = format!(
        "table {table} has given out all numbers of column {column}, up to {last}, the last of {data_type}: set its \
         next number to one that is free (`set_next_number`), or move the rows to a table with a wider type"
    );
    let constraint = Constraint::NumbersUsedUp;
    Violation { column: Some(column), ..Violation::new(constraint, &table, message) }.into_error()
}

/// Fails if the column always has a number of the table, which no statement changes.
pub(crate) fn refuse_own_number(definition: &TableDefinition, row: &[Value<'_>], place: usize) -> Result<()> {
    if definition.columns[place].declared.identity != Some(Identity::Always) {
        return Ok(());
    }
    let what = "a column that always has a number of the table cannot be changed";
    Err(broken_in_column(definition, row, place, Constraint::Identity, what))
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
        (Value::Text(_), Value::Text(_)) | (Value::Bytes(_), Value::Bytes(_)) | (Value::Json(_), Value::Json(_)) => {
            true
        }
        (Value::Numeric(accepted), Value::Numeric(given)) => accepted == given,
        _ => false,
    }
}

/// The value of a row of which some columns change, that no index has.
pub(crate) fn patched<'v>(
    definition: &TableDefinition,
    view: &RowView<'_>,
    changes: impl Iterator<Item = (usize, Value<'v>)> + Clone,
) -> Result<Vec<u8>> {
    if let Some(value) = overwritten(definition, view.value, changes.clone()) {
        return Ok(value);
    }
    let mut row: Values<'_> = (0..definition.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
    let mut changed: SmallVec<[usize; 16]> = SmallVec::new();
    for (place, value) in changes {
        row[place] = value.into_owned();
        accept(definition, &mut row, place)?;
        changed.push(place);
    }
    check(definition, &row, Some(&changed))?;
    let mut value = Vec::with_capacity(view.value.len() + 16);
    encode_value(definition, &row, &mut value);
    Ok(value)
}

/// Fails if a check that reads one of the columns is false. `changed` is `None` for a new row.
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
        Err(Failed::NoValue(what)) => format!("check {name}: {}: {what}", check.declared.condition),
        Err(Failed::Read(error)) => return Err(error),
    };
    Err(broken(definition, row, Constraint::Check, what).in_row(definition, row).named(name).into_error())
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
    let (table, names, row) = (definition.name(), columns.join(", "), list(given));
    let (given, count) = (counted(given.len(), "value"), counted(columns.len(), "column"));
    invalid(format!("table {table}, row {row}: {given} for {count}: {names}"))
}
