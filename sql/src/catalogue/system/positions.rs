//! Functions of positions and counts: `quipu_rank`, `quipu_nth`, `quipu_split`, `quipu_tally`, `quipu_sample`.
//!
//! Each takes a table, whose rows are in the order of its primary key, or an index, and reads counts in the tree: a
//! descent or two, however many rows there are. They see what their statement sees.

use quipu_rows::{DataType, Ordered, Row, Span, Value};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::catalogue::lookup::may;
use crate::catalogue::system::ask::number;
use crate::catalogue::system::source::{Element, Index, Source, indexes_of};
use crate::catalogue::{Table, oids};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::key_ranges;
use crate::execute::view::in_table;
use crate::functions::strings::quote_identifier;
use crate::functions::{Environment, quote_literal, write_json};
use crate::identity::rights::{Right, denied};
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType, text};

/// The most parts that a table is cut into, and the most rows that are drawn, by one call.
const COUNT_MAX: i64 = 1_000_000;

/// Runs the same code over the rows of a table, or of an index of it, in their order.
macro_rules! in_order_of {
    ($source:expr, $place:expr, $name:ident => $body:expr) => {{
        let read = $source.view.table(&$place.table.rows_name)?;
        in_table!(read, read => match $place.index.as_ref().and_then(|index| index.rows_name) {
            None => {
                let $name = read;
                $body
            }
            Some(index) => {
                let $name = read.entries(index)?;
                $body
            }
        })
    }};
}

/// An order of rows that a function is asked about.
struct AskedTree<'s> {
    table: &'s Table,
    /// The index, or the primary key; none of a table without one.
    index: Option<Index<'s>>,
}

impl<'s> AskedTree<'s> {
    /// The order of the relation that is the first argument.
    fn of(source: &'s Source<'_>, arguments: &[Datum]) -> Result<AskedTree<'s>> {
        let oid = number(arguments, 0);
        if let Some(table) = source.table(oid) {
            require_select(source, table)?;
            let index = indexes_of(table).into_iter().find(|index| index.is_primary);
            return Ok(AskedTree { table, index });
        }
        let Some(index) = source.indexes().find(|index| index.oid == oid) else {
            let what = "the first argument is neither a table nor an index";
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, what);
            return Err(error.with_hint("Views and sequences have no order of rows."));
        };
        require_select(source, index.table)?;
        if !index.is_ready {
            let what = format!("index \"{}\" is still being built", index.name);
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        Ok(AskedTree { table: index.table, index: Some(index) })
    }

    /// Fails unless conditions can say where a part begins: by columns that ascend and are never NULL.
    fn check_comparable(&self) -> Result<()> {
        let is_comparable = |element: &Element| {
            let column = element.place.and_then(|place| self.table.declared.columns.get(place));
            column.is_some_and(|column| column.not_null && !column.hidden) && !element.is_descending
        };
        if self.index.as_ref().is_some_and(|index| index.elements.iter().all(is_comparable)) {
            return Ok(());
        }
        let what = "a part can only be told by a key of columns that ascend and are NOT NULL";
        Err(SqlError::unsupported(what, "Split by such an index, or by a table whose primary key is one."))
    }
}

fn require_select(source: &Source<'_>, table: &Table) -> Result<()> {
    let is_allowed = may(&*source.identity.rights, Right::Select, &table.schema, &table.name);
    if is_allowed { Ok(()) } else { Err(denied(&format!("table {}", table.name))) }
}

/// The type of a column of a key.
fn type_in_key(table: &Table, name: &str, data_type: DataType) -> SqlType {
    let declared = table.place(name).map(|place| table.columns[place].sql_type.without_domain());
    // Others are read as rows have them.
    let of_enum = declared.filter(|declared| matches!(declared.base, BaseType::Enum(_)));
    of_enum.unwrap_or_else(|| SqlType::of_column(data_type))
}

/// The values that arguments give for the first columns of a key.
fn key_values(
    table: &Table,
    given: &[Datum],
    columns: &[(String, DataType)],
    environment: &dyn Environment,
) -> Result<Vec<Value<'static>>> {
    if given.len() > columns.len() {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!("the key has fewer columns, {}, than there are values, {}", columns.len(), given.len());
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
            .with_detail(format!("The key is ({}).", names.join(", "))));
    }
    let value = |(given, (name, data_type)): (&Datum, &(String, DataType))| {
        let sql_type = type_in_key(table, name, *data_type);
        let parsed = match given {
            // What is written in quotes has the type of the column.
            Datum::Text(written) if !matches!(data_type, DataType::Text(_)) => {
                Some(text::parse(written, sql_type, environment)?)
            }
            _ => None,
        };
        let given = parsed.as_ref().unwrap_or(given);
        key_ranges::exact(given, *data_type).ok_or_else(|| {
            let what = format!("the value given for column \"{name}\" is not of type {sql_type}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
        })
    };
    given.iter().zip(columns).map(value).collect()
}

/// The key of a row as a JSON object.
fn key_object(table: &Table, order: &impl Ordered, row: &Row, environment: &dyn Environment) -> Result<Datum> {
    let mut out = String::from("{");
    for ((name, data_type), value) in order.key_columns().iter().zip(order.key_values(row)?) {
        if out.len() > 1 {
            out.push_str(", ");
        }
        crate::types::json::write_string(name, &mut out);
        out.push_str(": ");
        let sql_type = type_in_key(table, name, *data_type);
        write_json(&Datum::of_column(value, sql_type)?, sql_type, environment, &mut out)?;
    }
    out.push('}');
    Ok(Datum::Json(out.into()))
}

/// The answer of `quipu_rank` and `quipu_nth`.
///
/// # Errors
/// 42809 if the first argument is no table or index, 22023 if values do not fit its key; those of reading.
pub(super) fn ask(source: &Source<'_>, function: &str, arguments: &[Datum]) -> Result<Datum> {
    let place = AskedTree::of(source, arguments)?;
    let environment = source.environment;
    match function {
        "quipu_rank" => in_order_of!(source, place, order => {
            let values = key_values(place.table, &arguments[1..], &order.key_columns(), environment)?;
            Ok(Datum::Int(order.rank(values)? as i64))
        }),
        _ => in_order_of!(source, place, order => {
            let offset = arguments.get(1).and_then(Datum::as_int).unwrap_or(0);
            let row = match u64::try_from(offset) {
                Ok(offset) => order.nth(.., offset)?,
                Err(_) => order.nth_back(.., offset.unsigned_abs() - 1)?,
            };
            row.map_or(Ok(Datum::Null), |row| key_object(place.table, &order, &row, environment))
        }),
    }
}

/// The rows of `quipu_split`, `quipu_tally`, `quipu_sample` and `quipu_sequence`.
///
/// # Errors
/// Those of [`ask`]; 22023 if a number is out of its range.
pub(super) fn rows(source: &Source<'_>, function: &str, arguments: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    if function == "quipu_sequence" {
        return sequence(source, number(arguments, 0));
    }
    let place = AskedTree::of(source, arguments)?;
    let environment = source.environment;
    match function {
        "quipu_split" => {
            let parts = count_of(arguments, "the number of parts")?;
            in_order_of!(source, place, order => split(&order, &place, parts, environment))
        }
        "quipu_sample" => {
            let rows = count_of(arguments, "the number of rows")? as usize;
            let mut random = match arguments.get(2).and_then(Datum::as_int) {
                Some(seed) => SmallRng::seed_from_u64(seed as u64),
                None => SmallRng::from_rng(&mut rand::rng()),
            };
            in_order_of!(source, place, order => {
                let drawn = order.sample(.., rows, &mut random)?;
                drawn.iter().map(|row| Ok(vec![key_object(place.table, &order, row, environment)?])).collect()
            })
        }
        _ => in_order_of!(source, place, order => {
            let columns = order.key_columns();
            let first = columns.get(..1).unwrap_or_default();
            let span = match arguments {
                [_, low, high] => {
                    let mut span = Span::all();
                    for (end, is_low) in [(low, true), (high, false)] {
                        let values = key_values(place.table, std::slice::from_ref(end), first, environment)?;
                        span = span.and(if is_low { Span::ge(values) } else { Span::lt(values) });
                    }
                    span
                }
                _ => Span::all(),
            };
            let footprint = order.footprint(&span)?;
            let bytes = footprint.page_bytes.saturating_add(footprint.value_bytes);
            let sum = order.sum(&span).map_or(Datum::Null, Datum::of_value);
            Ok(vec![vec![Datum::Int(footprint.rows as i64), Datum::Int(bytes as i64), numeric(sum)]])
        }),
    }
}

/// The row that a sequence is as a relation.
fn sequence(source: &Source<'_>, oid: u32) -> Result<Vec<Vec<Datum>>> {
    let found = source.catalogue.sequences().iter().find(|(number, _)| oids::object(**number) == oid);
    let Some((&number, sequence)) = found else {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "the argument is not a sequence"));
    };
    let position =
        source.shared.catalogues.sequences().position_in_view(source.view, &source.catalogue, (number, sequence))?;
    Ok(vec![vec![Datum::Int(position.last), Datum::Int(0), Datum::Bool(position.is_called)]])
}

fn numeric(value: Datum) -> Datum {
    match value {
        Datum::Int(int) => Datum::Numeric(int.into()),
        other => other,
    }
}

fn count_of(arguments: &[Datum], what: &str) -> Result<u64> {
    let count = arguments.get(1).and_then(Datum::as_int).unwrap_or(0);
    if !(1..=COUNT_MAX).contains(&count) {
        let text = format!("{what} must be between 1 and {COUNT_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
    }
    Ok(count as u64)
}

/// A part's number, how many rows it has, and a condition that its rows keep and no others.
fn split(
    order: &impl Ordered,
    place: &AskedTree<'_>,
    parts: u64,
    environment: &dyn Environment,
) -> Result<Vec<Vec<Datum>>> {
    place.check_comparable()?;
    let columns = order.key_columns();
    let names: Vec<String> = columns.iter().map(|(name, _)| quote_identifier(name)).collect();
    let compared = |comparison: &str, values: Vec<Value<'static>>| -> Result<String> {
        let mut written = Vec::with_capacity(values.len());
        for (value, (name, data_type)) in values.into_iter().zip(&columns) {
            let sql_type = type_in_key(place.table, name, *data_type);
            let value = Datum::of_column(value, sql_type)?;
            written.push(quote_literal(&text::to_string(&value, sql_type, environment)?));
        }
        Ok(match &names[..] {
            [name] => format!("{name} {comparison} {}", written.concat()),
            _ => format!("({}) {comparison} ({})", names.join(", "), written.join(", ")),
        })
    };
    let total = order.len()?;
    let predicate =
        place.index.as_ref().and_then(|index| index.predicate.as_ref()).map(|predicate| format!("({predicate})"));
    let parts = parts.min(total.max(1));
    let first_of = |part: u64| (u128::from(total) * u128::from(part) / u128::from(parts)) as u64;
    let mut rows = Vec::new();
    let mut start = None;
    for part in 1..=parts {
        let (begin, end) = (first_of(part - 1), first_of(part));
        let next = if end < total { order.nth(.., end)? } else { None };
        let mut conditions: Vec<String> = predicate.iter().cloned().chain(start.take()).collect();
        if let Some(next) = next {
            conditions.push(compared("<", order.key_values(&next)?)?);
            start = Some(compared(">=", order.key_values(&next)?)?);
        }
        let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        rows.push(vec![Datum::Int(part as i64), Datum::Int((end - begin) as i64), Datum::text(condition)]);
    }
    Ok(rows)
}
