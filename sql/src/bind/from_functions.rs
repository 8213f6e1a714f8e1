//! Functions in FROM: those of rows, those of one value, and several of them beside each other.

use std::sync::Arc;

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments, TableAlias, TableAliasColumnDef};

use crate::bind::call::arguments_of;
use crate::bind::from::Item;
use crate::bind::scope::{ScopeColumn, Shown};
use crate::bind::types::sql_type;
use crate::bind::{Binder, Bound, folded, object_name, rows};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::json_records::{RECORD, RECORDS, VALUE};
use crate::functions::{resolve_set_function, set_functions};
use crate::known_words::{DEFINED, ROWS_FROM};
use crate::plan::expression::Expr;
use crate::plan::source::{RowsOf, Source};
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// The functions whose rows may have the columns that the statement says.
const OF_JSON: [&str; 8] = [
    "json_to_record",
    "json_to_recordset",
    "jsonb_to_record",
    "jsonb_to_recordset",
    "json_populate_record",
    "json_populate_recordset",
    "jsonb_populate_record",
    "jsonb_populate_recordset",
];

/// Columns that a statement says: their names and types.
type Columns = Vec<(Arc<str>, SqlType)>;

/// A call in FROM.
struct Called {
    name: String,
    arguments: Vec<Bound>,
    /// Whether the first argument is written as `NULL::record`.
    is_of_no_type: bool,
    /// The columns that the statement says its rows have.
    columns: Option<Columns>,
}

/// What calls give, in the slots from one on.
struct Given {
    calls: Vec<RowsOf>,
    columns: Vec<ScopeColumn>,
    end: usize,
    /// Whether one of them gives rows of a type that has attributes.
    has_rows: bool,
}

/// A call of a function in FROM, or calls of several.
pub(super) fn bind(
    binder: &mut Binder<'_>,
    name: &ast::ObjectName,
    args: &[FunctionArg],
    has_ordinality: bool,
    alias: Option<&TableAlias>,
) -> Result<Item> {
    let name = object_name(name)?.1;
    if name == ROWS_FROM {
        let called = args.iter().map(|arg| one_of_several(binder, arg)).collect::<Result<Vec<_>>>()?;
        return item(binder, called, has_ordinality, alias);
    }
    let columns = columns_said(binder, alias.map_or(&[], |alias| &alias.columns))?;
    if columns.is_some() && has_ordinality {
        let what = "WITH ORDINALITY cannot be used with a column definition list";
        return Err(
            SqlError::new(SqlState::SYNTAX_ERROR, what).with_hint("Put the column definition list inside ROWS FROM().")
        );
    }
    let named = alias.filter(|_| columns.is_some()).map(|alias| TableAlias { columns: Vec::new(), ..alias.clone() });
    let called = called(binder, name, args, columns)?;
    item(binder, vec![called], has_ordinality, named.as_ref().or(alias))
}

/// The arrays of UNNEST.
pub(super) fn unnest(
    binder: &mut Binder<'_>,
    arrays: &[ast::Expr],
    has_ordinality: bool,
    alias: Option<&TableAlias>,
) -> Result<Item> {
    let arguments = arrays.iter().map(|array| binder.expr(array)).collect::<Result<Vec<_>>>()?;
    let called = Called { name: "unnest".to_owned(), arguments, is_of_no_type: false, columns: None };
    item(binder, vec![called], has_ordinality, alias)
}

fn called(binder: &mut Binder<'_>, name: String, args: &[FunctionArg], columns: Option<Columns>) -> Result<Called> {
    let mut args = args.to_vec();
    let mut is_of_no_type = false;
    if OF_JSON.contains(&&*name)
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = args.first_mut()
        && let ast::Expr::Cast { expr, data_type: ast::DataType::Custom(of_type, _), .. } = &*first
        && of_type.to_string().eq_ignore_ascii_case("record")
    {
        is_of_no_type = true;
        *first = (**expr).clone();
    }
    let arguments = arguments_of(binder, &name, &args)?;
    Ok(Called { name, arguments, is_of_no_type, columns })
}

/// One of the functions of ROWS FROM.
fn one_of_several(binder: &mut Binder<'_>, arg: &FunctionArg) -> Result<Called> {
    let function = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Function(function))) => Some(function.clone()),
        _ => None,
    };
    let args_of = |function: &ast::Function| match &function.args {
        FunctionArguments::List(list) => list.args.clone(),
        _ => Vec::new(),
    };
    let Some(mut call) = function(arg) else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{arg} is not a call of a function")));
    };
    let (mut name, mut columns) = (object_name(&call.name)?.1, None);
    if name == DEFINED
        && let [inner, FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Value(text)))] = &args_of(&call)[..]
        && let (Some(inner), ast::Value::SingleQuotedString(text)) = (function(inner), &text.value)
    {
        let query = crate::statement::parse_query(&format!("SELECT FROM \"?\" AS \"?\"({text})"))?;
        if let ast::SetExpr::Select(select) = &*query.body
            && let Some(ast::TableFactor::Table { alias: Some(alias), .. }) =
                select.from.first().map(|from| &from.relation)
        {
            columns = columns_said(binder, &alias.columns)?;
        }
        (name, call) = (object_name(&inner.name)?.1, inner);
    }
    called(binder, name, &args_of(&call), columns)
}

/// The columns that an alias says, if it says their types.
fn columns_said(binder: &Binder<'_>, written: &[TableAliasColumnDef]) -> Result<Option<Columns>> {
    if written.iter().all(|column| column.data_type.is_none()) {
        return Ok(None);
    }
    let column = |column: &TableAliasColumnDef| match &column.data_type {
        Some(data_type) => Ok((folded(&column.name).into(), sql_type(data_type, binder.names)?)),
        None => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("column \"{}\" needs a type", column.name))),
    };
    written.iter().map(column).collect::<Result<_>>().map(Some)
}

/// The rows of calls beside each other.
fn item(
    binder: &mut Binder<'_>,
    called: Vec<Called>,
    has_ordinality: bool,
    alias: Option<&TableAlias>,
) -> Result<Item> {
    let base = binder.level().frame;
    let name = called.first().map_or_else(String::new, |called| called.name.clone());
    let is_alone = called.len() == 1;
    let mut given = Given { calls: Vec::new(), columns: Vec::new(), end: base, has_rows: false };
    for call in called {
        // A column without a name is called as the table is.
        let is_only = is_alone && !(call.name == "unnest" && call.arguments.len() > 1);
        let own = call.name.clone();
        let named = alias.filter(|_| is_only).map_or(own, |alias| folded(&alias.name));
        if let Some((rows, columns)) = rows_of_json(binder, &call, given.end)? {
            given.add_said(binder, rows, columns)?;
            continue;
        }
        if call.columns.is_some() {
            let of_rows = call.arguments.first().is_some_and(|first| first.sql_type.base.composite().is_some());
            let what = match OF_JSON.contains(&&*call.name) && of_rows {
                true => "a column definition list is redundant for a function returning a named composite type",
                false => "a column definition list is only allowed for functions returning \"record\"",
            };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        if !set_functions().iter().any(|function| function.name == call.name) {
            let value = binder.function(&call.name, call.arguments)?;
            let value = binder.text_if_unknown(value)?;
            let slots = given.end..given.end + 1;
            let call = resolve_set_function(VALUE, &[value.sql_type])?;
            given.add(RowsOf { call, arguments: vec![value.expr], slots }, &named)?;
            continue;
        }
        // Several arrays are unnested beside each other.
        let groups: Vec<Vec<Bound>> = match &*call.name {
            "unnest" if call.arguments.len() > 1 => call.arguments.into_iter().map(|array| vec![array]).collect(),
            _ => vec![call.arguments],
        };
        for arguments in groups {
            let rows = binder.rows_of(&call.name, arguments, given.end)?;
            given.add(rows, &named)?;
        }
    }
    let is_one_value = given.end == base + 1 && !has_ordinality && !given.has_rows;
    let ordinality = has_ordinality.then_some(given.end);
    if has_ordinality {
        given.columns.push(column("ordinality", SqlType::INT8, given.end));
    }
    let slots = base..given.end + usize::from(has_ordinality);
    binder.add_relation(&name, None, given.columns, alias)?;
    let level = binder.level();
    level.frame = slots.end;
    if let Some(relation) = level.relations.last_mut() {
        relation.is_one_value = is_one_value;
    }
    let mut needs = Vec::new();
    given.calls.iter().flat_map(|rows| &rows.arguments).for_each(|value| value.add_slots(&mut needs));
    // A value alone needs no rows.
    let source = match &mut given.calls[..] {
        [RowsOf { call, arguments, .. }] if call.function.name == VALUE && !has_ordinality => {
            let value = arguments.pop().unwrap_or(Expr::Constant(Datum::Null));
            Source::Value { value, slot: base }
        }
        _ => Source::Function { calls: given.calls, ordinality },
    };
    Ok(Item::Other { source, slots, needs })
}

fn column(name: &str, sql_type: SqlType, slot: usize) -> ScopeColumn {
    let (name, shown) = (name.into(), Shown::Always);
    ScopeColumn { name, sql_type, slot, origin: None, shown, merged: None }
}

impl Given {
    /// Adds a call, whose columns without names are called so.
    fn add(&mut self, rows: RowsOf, named: &str) -> Result<()> {
        for (slot, (own, sql_type)) in rows.slots.clone().zip(&rows.call.columns) {
            // A row has its attributes for columns.
            if sql_type.base.composite().is_some() && !sql_type.is_array {
                self.has_rows = true;
                let value = Bound { expr: Expr::Slot(slot), sql_type: *sql_type };
                let attributes = rows::attributes(&value)?.into_iter();
                self.columns.extend(attributes.map(|(bound, name, _)| ScopeColumn {
                    merged: Some(bound.expr),
                    ..column(&name, bound.sql_type, slot)
                }));
                continue;
            }
            self.columns.push(column(if own.is_empty() { named } else { own }, *sql_type, slot));
        }
        self.end = rows.slots.end;
        self.calls.push(rows);
        Ok(())
    }

    /// Adds a call whose columns the statement says. Domains look at their values where they are read.
    fn add_said(&mut self, binder: &mut Binder<'_>, rows: RowsOf, columns: Columns) -> Result<()> {
        for (slot, (name, sql_type)) in rows.slots.clone().zip(columns) {
            let bare = sql_type.without_domain();
            let value = Bound { expr: Expr::Slot(slot), sql_type: bare };
            let merged = match bare == sql_type {
                true => None,
                false => Some(binder.coerce(value, sql_type, CastContext::Explicit)?),
            };
            self.columns.push(ScopeColumn { merged, ..column(&name, bare, slot) });
        }
        self.has_rows = true;
        self.end = rows.slots.end;
        self.calls.push(rows);
        Ok(())
    }
}

/// A call of a function of JSON whose columns the statement, or a row of a table, says; none if its type does.
fn rows_of_json(binder: &mut Binder<'_>, called: &Called, slot: usize) -> Result<Option<(RowsOf, Columns)>> {
    let Called { name, arguments, is_of_no_type, columns } = called;
    if !OF_JSON.contains(&&**name) {
        return Ok(None);
    }
    let (base, json) = match (&arguments[..], name.contains("_populate_")) {
        ([json], false) => (None, json),
        ([base, json] | [base, json, _], true) => (Some(base), json),
        _ => return Ok(None),
    };
    let columns = match (base.map(|base| &base.expr), columns) {
        (Some(Expr::Record(values, names)), None)
            if base.is_some_and(|base| base.sql_type.base == BaseType::Record) =>
        {
            let name = |at: usize| names.as_ref().and_then(|names| names.get(at)).cloned();
            let name = |at: usize| name(at).unwrap_or_else(|| format!("f{}", at + 1).into());
            values.iter().enumerate().map(|(at, (sql_type, _))| (name(at), *sql_type)).collect()
        }
        (Some(_), _) if base.is_some_and(|base| base.sql_type.base.composite().is_some()) => return Ok(None),
        (Some(_), None) if !is_of_no_type => return Ok(None),
        (_, Some(columns)) => columns.clone(),
        (_, None) => {
            let what = "a column definition list is required for functions returning \"record\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
    };
    let kind = if name.starts_with("jsonb") { BaseType::Jsonb } else { BaseType::Json };
    let json = binder.coerce(json.clone(), kind.into(), CastContext::Implicit)?;
    let base = match base {
        Some(base) if base.sql_type.base == BaseType::Record => base.expr.clone(),
        _ => Expr::Constant(Datum::Null),
    };
    let names = columns.iter().map(|(name, _)| Expr::Constant(Datum::Text(Arc::clone(name)))).collect();
    let names = Expr::Array { element: BaseType::Text, items: names };
    let types = [BaseType::Record.into(), BaseType::Jsonb.into(), SqlType::array_of(BaseType::Text)];
    let mut call = resolve_set_function(if name.ends_with("set") { RECORDS } else { RECORD }, &types)?;
    call.columns = columns.iter().map(|(_, sql_type)| ("", sql_type.without_domain())).collect();
    let slots = slot..slot + columns.len();
    Ok(Some((RowsOf { call, arguments: vec![base, json, names], slots }, columns)))
}
