//! CREATE SEQUENCE, and defaults of columns that take numbers of one.

use std::sync::Arc;

use sqlparser::ast::{DataType, Expr, ObjectName, SequenceOptions, UnaryOperator, Value as Literal};

use crate::catalogue::sequences::{Position, position_taken};
use crate::catalogue::{ObjectNumber, Owner, Relation, Sequence, Table, sequences};
use crate::ddl::expression::ColumnDefault;
use crate::ddl::{Ddl, Tag, column_types, names, no_column, relation_exists};
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;

/// What a statement says of a sequence.
pub(super) struct Declared<'s> {
    pub(super) data_type: Option<&'s DataType>,
    pub(super) options: &'s [SequenceOptions],
    pub(super) owned_by: &'s Option<ObjectName>,
}

/// An integer of a statement.
pub(super) fn number(expression: &Expr) -> Result<i64> {
    let wrong = || SqlError::new(SqlState::SYNTAX_ERROR, format!("{expression} is not an integer"));
    match expression {
        Expr::Value(value) => match &value.value {
            Literal::Number(number, _) => number.parse().map_err(|_| wrong()),
            _ => Err(wrong()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr)?.checked_neg().ok_or_else(wrong),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => number(expr),
        _ => Err(wrong()),
    }
}

pub(super) fn create(
    ddl: &Ddl<'_>,
    (schema, name): (String, String),
    declared: Declared<'_>,
    if_not_exists: bool,
) -> Result<Tag> {
    if ddl.catalogue()?.relation(Some(&schema), &name, &[]).is_some() {
        if if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok("CREATE SEQUENCE");
        }
        return Err(relation_exists(&name));
    }
    let sql_type = declared.data_type.map_or(Ok(SqlType::INT8), |data_type| column_types::of(data_type, ddl))?;
    let mut sequence = with_options(Sequence::new(schema, name, sql_type), declared.options)?;
    sequence.owner = declared.owned_by.as_ref().map(|name| owner(ddl, name)).transpose()?.flatten();
    ddl.store().put_sequence(ddl.transaction, None, &sequence)?;
    Ok("CREATE SEQUENCE")
}

/// A new sequence with what is said of it.
///
/// # Errors
/// 22023 if that does not go together.
pub(super) fn with_options(mut sequence: Sequence, options: &[SequenceOptions]) -> Result<Sequence> {
    let (mut min, mut max, mut start) = (None, None, None);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(by, _) => sequence.increment = number(by)?,
            SequenceOptions::MinValue(value) => min = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => max = value.as_ref().map(number).transpose()?,
            SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            SequenceOptions::Cycle(is_not) => sequence.cycles = !is_not,
            SequenceOptions::Cache(size) => sequence.cache = cache_size(size)?,
        }
    }
    if sequence.increment == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "INCREMENT must not be zero"));
    }
    if sequence.increment < 0 {
        (sequence.min, sequence.max) = (-sequence.max - 1, -1);
    }
    (sequence.min, sequence.max) = (min.unwrap_or(sequence.min), max.unwrap_or(sequence.max));
    sequence.start = start.unwrap_or(if sequence.increment > 0 { sequence.min } else { sequence.max });
    refuse_wrong(&sequence)?;
    Ok(sequence)
}

/// The number after CACHE.
pub(super) fn cache_size(written: &Expr) -> Result<i64> {
    let size = number(written)?;
    if size < 1 {
        let what = format!("CACHE ({size}) must be greater than zero");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    Ok(size)
}

/// Gives a column numbers of a sequence of its own as its default: an identity column whose numbers are not those of
/// the table.
pub(super) fn give_numbers(
    ddl: &Ddl<'_>,
    (schema, table, rows_name): (&str, &str, &str),
    (column, is_always): (&str, bool),
    sequence: Sequence,
    position: Position,
) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    let is_taken = |name: &str| catalogue.relation(Some(schema), name, &[]).is_some();
    let name = match sequence.name.is_empty() {
        true => names::choose(table, column, "seq", is_taken),
        false => sequence.name.clone(),
    };
    let in_rows = ddl.transaction.table(rows_name)?;
    let owner = in_rows.schema().place(column).and_then(|place| in_rows.column_number(place));
    let owner = owner.map(|column| Owner { table: in_rows.number(), column });
    let generates = Some(is_always);
    let sequence = Sequence { schema: schema.to_owned(), name, owner, generates, ..sequence };
    let number = ddl.store().put_sequence(ddl.transaction, None, &sequence)?;
    ddl.definitions().set_not_null(rows_name, column)?;
    ddl.definitions().set_sql_default(rows_name, column, Some(&sequence.default_text()))?;
    ddl.context.catalogues.sequences().begin_at(ddl.transaction, (number, &sequence), position)
}

/// # Errors
/// Bounds, or a start, that do not go together.
pub(super) fn refuse_wrong(sequence: &Sequence) -> Result<()> {
    let bounds = Sequence::new("", "", sequence.sql_type()).max;
    for (what, value) in [("MINVALUE", sequence.min), ("MAXVALUE", sequence.max)] {
        if !(-bounds - 1..=bounds).contains(&value) {
            let what = format!("{what} ({value}) is out of range for sequence data type {}", sequence.sql_type());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
    }
    if sequence.min >= sequence.max || !(sequence.min..=sequence.max).contains(&sequence.start) {
        let (start, min, max) = (sequence.start, sequence.min, sequence.max);
        let what = format!("START value ({start}) is not between MINVALUE ({min}) and MAXVALUE ({max})");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    Ok(())
}

/// The column that a sequence belongs to; none for `NONE`.
fn owner(ddl: &Ddl<'_>, name: &ObjectName) -> Result<Option<Owner>> {
    let mut parts = names::parts(name)?;
    let column = parts.pop().unwrap_or_default();
    let Some(table) = parts.pop() else { return Ok(None) };
    let table = ddl.table(&names::Name { schema: parts.pop(), name: table })?;
    let place = table.place(&column).ok_or_else(|| no_column(&column, &table.name))?;
    Ok(Some(Owner { table: table.number, column: table.columns[place].number }))
}

// --- Defaults that take numbers -------------------------------------------------------------------------------------

/// A default of `nextval('name')` names its sequence with the schema, so that it means the same one for ever.
pub(super) fn with_whole_name(ddl: &Ddl<'_>, default: ColumnDefault) -> Result<ColumnDefault> {
    let ColumnDefault::Computed(text) = &default else { return Ok(default) };
    let Some(name) = sequences::of_default(text) else { return Ok(default) };
    Ok(match ddl.relation(&names::Name { schema: name.0, name: name.1 })? {
        Some(Relation::Sequence(_, sequence)) => ColumnDefault::Computed(sequence.default_text()),
        _ => default,
    })
}

/// Has a serial column take its numbers of its sequence, as its default: so far its table gives them, one after the
/// other. Returns whether it was one.
pub(super) fn part_from_table(ddl: &Ddl<'_>, table: &Table, at: usize) -> Result<bool> {
    let catalogue = ddl.catalogue()?;
    let found = catalogue.sequence_of(table.number, table.columns[at].number);
    let Some((number, sequence)) = found.filter(|(_, sequence)| sequence.is_serial) else { return Ok(false) };
    part(ddl, (table, at), (number, sequence), None)?;
    Ok(true)
}

/// Has a column take its numbers of its sequence, as this is from now on: from this position, or after those
/// that the table has given.
pub(super) fn part(
    ddl: &Ddl<'_>,
    (table, at): (&Table, usize),
    (number, sequence): (ObjectNumber, &Sequence),
    position: Option<Position>,
) -> Result<()> {
    let own = Sequence { is_identity: false, is_serial: false, ..sequence.clone() };
    let (rows_name, column) = (&*table.rows_name, &*table.declared.columns[at].name);
    let position = position.map_or_else(|| position_taken(ddl.transaction, (rows_name, column), &own), Ok)?;
    ddl.definitions().set_identity(rows_name, column, None)?;
    if own.generates.is_some() {
        ddl.definitions().set_not_null(rows_name, column)?;
    }
    ddl.definitions().set_sql_default(rows_name, column, Some(&own.default_text()))?;
    ddl.store().write_to_free(ddl.transaction)?;
    ddl.context.catalogues.sequences().begin_at(ddl.transaction, (number, &own), position)
}

/// The columns whose default is the next number of a sequence: their tables, as rows know them, and their names.
pub(super) fn columns_numbered(ddl: &Ddl<'_>, sequence: &Sequence) -> Result<Vec<(Arc<Table>, String)>> {
    let text = sequence.default_text();
    let catalogue = ddl.catalogue()?;
    let mut found = Vec::new();
    for table in catalogue.tables().values() {
        let columns = table.declared.columns.iter();
        let numbered = columns.filter(|column| column.sql_default.as_ref() == Some(&text));
        found.extend(numbered.map(|column| (Arc::clone(table), column.name.clone())));
    }
    Ok(found)
}

/// Stores a sequence that has another name or schema, also where defaults name it.
pub(super) fn renamed(ddl: &Ddl<'_>, number: ObjectNumber, old: &Sequence, new: &Sequence) -> Result<()> {
    for (table, column) in columns_numbered(ddl, old)? {
        ddl.definitions().set_sql_default(&table.rows_name, &column, Some(&new.default_text()))?;
    }
    ddl.store().put_sequence(ddl.transaction, Some(number), new).map(drop)
}
