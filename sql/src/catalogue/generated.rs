//! Generated columns: expressions of the other columns of a row, bound without a session, a clock or a table. So a row
//! has one value of each, whatever writes it: rows ask for it where they write ([`compute_generated_by`]).

use std::sync::Arc;

use jiff::tz::TimeZone;
use quipu_rows::generated::{Compute, compute_generated_by};
use quipu_rows::{Column, TableSchema, Timestamp, Value};

use crate::bind::Binder;
use crate::bind::names::{Named, Names};
use crate::catalogue::column_type::{self, UserTypes};
use crate::catalogue::computed::compute_expressions;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::{Context, NoLocks, Running};
use crate::execute::evaluate::evaluate;
use crate::execute::view::View;
use crate::functions::{Environment, Volatility};
use crate::plan::expression::Expr;
use crate::statement;
use crate::types::date_style::DateStyle;
use crate::types::datum::Datum;
use crate::types::user::TypeNames;
use crate::types::{BaseType, SqlType};

/// Functions that PostgreSQL counts among those whose values depend on the session.
const STABLE: [&str; 20] = [
    "array_to_json",
    "array_to_string",
    "concat",
    "concat_ws",
    "format",
    "json_array_elements_text",
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_path_exists_tz",
    "jsonb_path_query_first_tz",
    "quote_literal",
    "row_to_json",
    "to_char",
    "to_date",
    "to_json",
    "to_jsonb",
    "to_timestamp",
    "to_regclass",
];

/// Has generated columns, and expressions in SQL's words, computed in this process, by all that write rows.
pub fn compute_generated_columns() {
    compute_generated_by(|schema, place| compile(schema, place).map_err(into_rows));
    compute_expressions();
}

pub(super) fn into_rows(error: SqlError) -> quipu::Error {
    quipu::Error::caused_by(quipu::ErrorKind::Invalid, error.to_string(), error)
}

fn compile(schema: &TableSchema, place: usize) -> Result<Box<Compute>> {
    let expr = bind(schema, place)?;
    let types_of_users = UserTypes::new();
    let sql_type = |column| column_type::of_column(column, &types_of_users);
    let types: Arc<[SqlType]> = schema.columns.iter().map(sql_type).collect();
    Ok(Box::new(move |row| {
        let datum = |(value, sql_type): (&Value<'_>, &SqlType)| Datum::of_column(value.borrowed(), *sql_type);
        let frame = row.iter().zip(&*types).map(datum).collect::<Result<Vec<_>>>();
        frame.and_then(|frame| computed(&expr, &frame, &Alone::default())).map_err(into_rows)
    }))
}

pub(super) fn computed(expr: &Expr, frame: &[Datum], environment: &dyn Environment) -> Result<Value<'static>> {
    let running = Running::default();
    let context = Context {
        view: View::Nothing,
        environment,
        parameters: &[],
        arguments: &[],
        state: &running,
        locker: &NoLocks,
    };
    let value = evaluate(expr, frame, &context)?;
    let value = value.to_value().map(Value::into_owned);
    value.ok_or_else(|| SqlError::new(SqlState::DATATYPE_MISMATCH, "no column can hold such a value"))
}

/// The expression of a generated column, over a frame of all columns of its table.
///
/// # Errors
/// [`INVALID_OBJECT_DEFINITION`](SqlState::INVALID_OBJECT_DEFINITION) if it depends on more than its row, or on another
/// generated column; those of its names and types.
pub fn bind(schema: &TableSchema, place: usize) -> Result<Expr> {
    let column = &schema.columns[place];
    let text = column.generated.as_deref().unwrap_or_default();
    let written = statement::parse_expression(text)?;
    let alone = Alone::default();
    let mut binder = Binder::new(&alone, &alone, text, &[]);
    let name = schema.table.rsplit('.').next().unwrap_or_default();
    let types_of_users = UserTypes::new();
    for column in &schema.columns {
        binder.add_column(name, &column.name, column_type::of_column(column, &types_of_users));
    }
    refuse_user_type(column)?;
    let to = column_type::of_column(column, &types_of_users);
    let expr = binder.assigned_value(&written, to).or_else(|error| {
        // It may be wrong only because a type is not known.
        schema.columns.iter().filter(|column| text.contains(&column.name)).try_for_each(refuse_user_type)?;
        Err(match error.state() {
            SqlState::CANNOT_COERCE => {
                let what = format!("column \"{}\" is of type {}, which its expression is not", column.name, to.bare());
                let hint = "You will need to rewrite or cast the expression.";
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, what).with_detail(error.message().to_owned());
                error.with_hint(hint)
            }
            _ => error,
        })
    })?;
    if expr.any(&|part| matches!(part, Expr::Subquery(_))) {
        return Err(no_query());
    }
    let refused = |what: String| SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, what);
    let mut reads = Vec::new();
    expr.add_slots(&mut reads);
    reads.iter().try_for_each(|&read| refuse_user_type(&schema.columns[read]))?;
    if let Some(read) = reads.iter().find(|&&read| schema.columns[read].generated.is_some()) {
        let name = &schema.columns[*read].name;
        let what = format!("cannot use generated column \"{name}\" in column generation expression");
        return Err(refused(what).with_detail("A generated column cannot reference another generated column."));
    }
    if expr.any(&depends_on_more) {
        return Err(refused("generation expression is not immutable".to_owned()));
    }
    Ok(expr)
}

/// Rows compute generated columns and know no types that users have made.
fn refuse_user_type(column: &Column) -> Result<()> {
    if column_type::user_number(column).is_none() {
        return Ok(());
    }
    let what =
        format!("column \"{}\" has a type of a user: no generated column can read or have such a type", column.name);
    Err(SqlError::unsupported(what, "Compute it by a view or in the query."))
}

/// The generated columns of a table that read the column at a place.
///
/// # Errors
/// Those of [`bind`].
pub fn readers(schema: &TableSchema, place: usize) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for generated in (0..schema.columns.len()).filter(|&at| schema.columns[at].generated.is_some()) {
        let mut reads = Vec::new();
        bind(schema, generated)?.add_slots(&mut reads);
        if reads.contains(&place) {
            found.push(generated);
        }
    }
    Ok(found)
}

fn no_query() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in column generation expression")
}

/// Whether a part of an expression has another value at another time, or for another session.
pub(super) fn depends_on_more(part: &Expr) -> bool {
    match part {
        Expr::Call { call, .. } => {
            let (function, arguments) = (call.0.function, &call.0.arguments);
            let has_zone = arguments.iter().any(|of| of.base == BaseType::TimestampTz);
            // What is joined to a text is cast to one.
            if function.name == "||" && function.returns.base.is_text() {
                return arguments.iter().any(|of| !of.base.is_text() && is_of_session(*of, SqlType::TEXT));
            }
            function.volatility != Volatility::Immutable
                || STABLE.contains(&function.name)
                || has_zone && ["date_part", "date_trunc", "extract", "+", "-", "age"].contains(&function.name)
        }
        // A literal was read when the column was declared.
        Expr::Cast { value, from, to, .. } => !matches!(**value, Expr::Constant(_)) && is_of_session(*from, *to),
        Expr::Parameter(_) | Expr::Outer(_) | Expr::Default => true,
        _ => false,
    }
}

/// Whether a part of a check asks for more than its row and the session: tables, the catalogue, or a change of them.
pub(super) fn asks_catalogue(part: &Expr) -> bool {
    match part {
        Expr::Call { call, .. } => {
            let function = call.0.function;
            let asks = ["pg_", "to_reg", "has_", "quipu_", "currval", "lastval", "nextval", "set_config", "setval"];
            function.volatility != Volatility::Immutable && asks.iter().any(|word| function.name.starts_with(word))
        }
        Expr::Cast { value, from, to, .. } => {
            !matches!(**value, Expr::Constant(_)) && from.base.is_oid() != to.base.is_oid()
        }
        Expr::Subquery(_) | Expr::Parameter(_) | Expr::Outer(_) | Expr::Default => true,
        _ => false,
    }
}

/// Whether a cast depends on parameters of the session: on how dates are written, or on the time zone.
fn is_of_session(from: SqlType, to: SqlType) -> bool {
    let is_text = |of: SqlType| of.base.is_text();
    let is_moment =
        |of: SqlType| matches!(of.base.of_bounds(), BaseType::Date | BaseType::Timestamp | BaseType::TimestampTz);
    let has_zone = |of: SqlType| of.base.of_bounds() == BaseType::TimestampTz;
    is_text(from) && (is_moment(to) || matches!(to.base, BaseType::Time | BaseType::Interval))
        || is_moment(from) && is_text(to)
        || has_zone(from) != has_zone(to) && (is_moment(from) || is_moment(to))
        || from.base.is_oid() != to.base.is_oid() && (is_text(from) || is_text(to))
        // How values are written that are made of others is as immutable as these may be, which is not looked at.
        || from.is_array != to.is_array && (is_text(from) || is_text(to))
        || matches!(from.base, BaseType::Range(_) | BaseType::Multirange(_)) && is_text(to)
}

static UTC: TimeZone = TimeZone::UTC;

/// Where there is neither a session nor a table.
#[derive(Default)]
pub(super) struct Alone {
    /// The time, if it may be asked for.
    pub(super) now: Timestamp,
}

impl Names for Alone {
    fn relation(&self, _schema: Option<&str>, _name: &str) -> Result<Option<Named>> {
        Err(no_query())
    }

    fn all(&self) -> Vec<String> {
        Vec::new()
    }
}

impl TypeNames for Alone {
    fn type_named(&self, _schema: Option<&str>, _name: &str) -> Option<SqlType> {
        None
    }
}

fn outside() -> SqlError {
    SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, "generation expression is not immutable")
}

impl Environment for Alone {
    fn transaction_time(&self) -> Timestamp {
        self.now
    }

    fn statement_time(&self) -> Timestamp {
        self.now
    }

    fn time_zone(&self) -> &TimeZone {
        &UTC
    }

    fn date_style(&self) -> DateStyle {
        DateStyle::default()
    }

    fn setting(&self, _name: &str) -> Option<String> {
        None
    }

    fn user(&self) -> &str {
        ""
    }

    fn database(&self) -> &str {
        ""
    }

    fn process(&self) -> i32 {
        0
    }

    fn object_number(&self, _kind: BaseType, _name: &str) -> Result<u32> {
        Err(outside())
    }

    fn object_name(&self, _kind: BaseType, _number: u32) -> Option<String> {
        None
    }

    fn ask_catalogue(&self, _function: &str, _arguments: &[Datum]) -> Result<Datum> {
        Err(outside())
    }

    fn catalogue_rows(&self, _table: &str) -> Result<Vec<Vec<Datum>>> {
        Err(outside())
    }

    fn ask_rows(&self, _function: &str, _arguments: &[Datum]) -> Result<Vec<Vec<Datum>>> {
        Err(outside())
    }

    fn sequence(&self, _function: &str, _arguments: &[Datum]) -> Result<Datum> {
        Err(outside())
    }
}
