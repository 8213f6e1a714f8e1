//! Rows and arrays as values: their fields and elements, whole tables, comparisons that know NULL.

use std::sync::Arc;

use sqlparser::ast::{self, AccessExpr, FunctionArg, FunctionArgExpr, Subscript};

use crate::bind::scope::NamedColumn;
use crate::bind::{Binder, Bound, folded, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::set_functions;
use crate::functions::subscripts::{LEFT_OUT, SET_ELEMENT, SET_IN_JSON, SET_SLICE};
use crate::plan::expression::{Comparison, Expr};
use crate::types::cast::{CastContext, can_cast, refuse_count};
use crate::types::datum::{Datum, refuse_dimensions};
use crate::types::user::Composite;
use crate::types::{BaseType, SqlType};

fn truth(expr: Expr) -> Bound {
    Bound { expr, sql_type: SqlType::BOOL }
}

/// `t.*` within an expression: the whole row of a table.
pub(super) fn whole_row(binder: &Binder<'_>, table: &ast::ObjectName) -> Result<Bound> {
    let (_, table) = object_name(table)?;
    let columns = binder.all_columns(Some(&table))?;
    let names = columns.iter().map(|(_, name, _)| Arc::clone(name)).collect();
    let values = columns.into_iter().map(|(bound, ..)| (bound.sql_type, bound.expr)).collect();
    Ok(Bound { expr: Expr::Record(values, Some(names)), sql_type: BaseType::Record.into() })
}

/// The whole row of a table as the argument of a function: NULL where an outer join has none.
pub(super) fn whole_row_or_null(binder: &mut Binder<'_>, written: &ast::Expr, bound: Bound) -> Bound {
    let table = match written {
        ast::Expr::Identifier(table) => folded(table),
        ast::Expr::QualifiedWildcard(table, _) => table.to_string().trim_matches('"').to_owned(),
        _ => return bound,
    };
    if !matches!(bound.expr, Expr::Record(..)) {
        return bound;
    }
    // A row that is there has a value in its key, which may be hidden.
    let relations = &binder.level().relations;
    let Some(relation) = relations.iter().find(|relation| *relation.name == *table) else { return bound };
    let is_null = |slot: usize| Expr::IsNull { value: Box::new(Expr::Slot(slot)), is_negated: false };
    let is_missing = relation.columns.iter().filter(|column| column.merged.is_none());
    let is_missing = Expr::And(is_missing.map(|column| is_null(column.slot)).collect());
    let branches = vec![(is_missing, Expr::Constant(Datum::Null))];
    Bound { expr: Expr::Case { branches, otherwise: Box::new(bound.expr) }, sql_type: bound.sql_type }
}

/// A row that is written as one of a composite type: each value as one of the type of its attribute.
pub(super) fn of_composite(
    binder: &mut Binder<'_>,
    values: &[(SqlType, Expr)],
    (from, to): (SqlType, SqlType),
    composite: &Composite,
    context: CastContext,
) -> Result<Expr> {
    refuse_count(values.len(), from, to, composite)?;
    let mut fields = Vec::with_capacity(values.len());
    for ((sql_type, expr), to) in values.iter().zip(&composite.types) {
        let bound = Bound { expr: expr.clone(), sql_type: *sql_type };
        fields.push((*to, binder.coerce(bound, *to, context)?));
    }
    Ok(Expr::Record(fields, Some(Arc::clone(&composite.names))))
}

/// The field of a value of a composite type.
pub(super) fn attribute(value: Bound, name: &str) -> Result<Bound> {
    let missing = || {
        let what = format!("column \"{name}\" not found in data type {}", value.sql_type.bare());
        SqlError::new(SqlState::UNDEFINED_COLUMN, what)
    };
    let composite = value.sql_type.base.composite().ok_or_else(missing)?;
    let at = composite.names.iter().position(|known| **known == *name).ok_or_else(missing)?;
    let sql_type = composite.types[at].without_domain();
    Ok(Bound { expr: Expr::Field { value: Box::new(value.expr), at }, sql_type })
}

/// The fields of a value of a composite type, with their names.
pub(super) fn attributes(value: &Bound) -> Result<Vec<NamedColumn>> {
    let names = value.sql_type.base.composite().map(|composite| Arc::clone(&composite.names)).unwrap_or_default();
    names.iter().map(|name| Ok((attribute(value.clone(), name)?, Arc::clone(name), None))).collect()
}

/// The columns of `*`, of `t.*`, or of `(c).*`, where `c` is a column of a composite type.
pub(super) fn all_of(binder: &mut Binder<'_>, of: Option<&ast::ObjectName>) -> Result<Vec<NamedColumn>> {
    let Some(name) = of else { return binder.all_columns(None) };
    let (_, table) = object_name(name)?;
    let missing = match binder.all_columns(Some(&table)) {
        Err(error) => error,
        found => return found,
    };
    let parts: Vec<ast::Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
    match binder.column(&parts) {
        Ok(bound) if bound.sql_type.base.composite().is_some() && !bound.sql_type.is_array => attributes(&bound),
        _ => Err(missing),
    }
}

/// The fields of `(f(x)).*`, which is a call around the row.
pub(super) fn fields_of_call(binder: &mut Binder<'_>, call: &ast::Function) -> Result<Vec<NamedColumn>> {
    let ast::FunctionArguments::List(list) = &call.args else { return Ok(Vec::new()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(written))] = &list.args[..] else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a row has one value before its fields"));
    };
    let row = binder.expr(written)?;
    if row.sql_type.base.composite().is_some() && !row.sql_type.is_array {
        return attributes(&row);
    }
    let Expr::Record(values, names) = row.expr else {
        let what = match row.sql_type.base {
            BaseType::Record => "record type has not been registered".to_owned(),
            _ => format!("type {} is not composite", row.sql_type.bare()),
        };
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
    };
    let name = |at: usize| names.as_ref().and_then(|names| names.get(at)).cloned();
    let named = values.into_iter().enumerate().map(|(at, (sql_type, expr))| {
        let name = name(at).unwrap_or_else(|| format!("f{}", at + 1).into());
        (Bound { expr, sql_type }, name, None)
    });
    Ok(named.collect())
}

/// The values of a row that is written, `t.*` among them.
pub(super) fn values_in_row(binder: &mut Binder<'_>, written: &[ast::Expr]) -> Result<Vec<(SqlType, Expr)>> {
    let mut values = Vec::new();
    for written in written {
        let bound = binder.expr(written)?;
        match (written, bound.expr) {
            (ast::Expr::QualifiedWildcard(..), Expr::Record(columns, _)) => values.extend(columns),
            (_, expr) => values.push((bound.sql_type, expr)),
        }
    }
    Ok(values)
}

/// The field of a row: of a table that is named, of the rows of a function, or of ROW(...), whose fields are `f1`
/// and so on. None if the value is no row whose fields are known.
pub(super) fn field(binder: &mut Binder<'_>, root: &ast::Expr, row: &Bound, name: &str) -> Result<Option<Bound>> {
    let Expr::Record(values, _) = &row.expr else { return Ok(None) };
    let mut written = root;
    while let ast::Expr::Nested(inner) = written {
        written = inner;
    }
    let at = match written {
        ast::Expr::Identifier(table) => {
            return binder.column(&[table.clone(), ast::Ident::with_quote('"', name)]).map(Some);
        }
        ast::Expr::Function(function) => {
            let (_, called) = object_name(&function.name)?;
            match set_functions().iter().find(|known| known.name == called) {
                Some(known) => known.columns.iter().position(|(column, _)| *column == name),
                None => place_of_field(name),
            }
        }
        _ => place_of_field(name),
    };
    match at.and_then(|at| values.get(at)) {
        Some((sql_type, expr)) => Ok(Some(Bound { expr: expr.clone(), sql_type: *sql_type })),
        None => {
            let what = format!("could not identify column \"{name}\" in record data type");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what))
        }
    }
}

/// IS DISTINCT FROM, or, negated, IS NOT DISTINCT FROM. Rows differ if one of their values does.
pub(super) fn is_distinct_from(binder: &mut Binder<'_>, a: Bound, b: Bound, is_negated: bool) -> Result<Bound> {
    if let (Expr::Record(left, _), Expr::Record(right, _)) = (&a.expr, &b.expr) {
        if left.len() != right.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"));
        }
        let bound = |(sql_type, expr): &(SqlType, Expr)| Bound { expr: expr.clone(), sql_type: *sql_type };
        let mut parts = Vec::new();
        for (a, b) in left.iter().zip(right) {
            parts.push(is_distinct_from(binder, bound(a), bound(b), is_negated)?.expr);
        }
        return Ok(truth(if is_negated { Expr::And(parts) } else { Expr::Or(parts) }));
    }
    let compared = binder.compare(Comparison::Equal, a, b)?;
    match compared.expr {
        Expr::Compare { sides, .. } => Ok(truth(Expr::IsDistinct { sides, is_negated })),
        // JSON compares by a function, whose value is NULL if one side is.
        Expr::Call { call, arguments } => {
            let is_null = |value: &Expr| Expr::IsNull { value: Box::new(value.clone()), is_negated: false };
            let both = Expr::And(arguments.iter().map(is_null).collect());
            let is_same = Expr::Coalesce(vec![Expr::Call { call, arguments }, both]);
            Ok(truth(if is_negated { is_same } else { Expr::Not(Box::new(is_same)) }))
        }
        other => Ok(truth(if is_negated { other } else { Expr::Not(Box::new(other)) })),
    }
}

/// The place of a field of ROW(...), which is called `f1` and so on.
fn place_of_field(name: &str) -> Option<usize> {
    name.strip_prefix('f')?.parse::<usize>().ok()?.checked_sub(1)
}

/// What the subscripts of an array name.
enum Places {
    /// The place of an element in each dimension.
    Element(Vec<Expr>),
    /// The ends of a part in each dimension.
    Slice(Vec<(Option<Expr>, Option<Expr>)>),
}

fn not_subscripted(sql_type: SqlType) -> SqlError {
    let what = format!("cannot subscript type {sql_type} because it does not support subscripting");
    SqlError::new(SqlState::DATATYPE_MISMATCH, what)
}

/// A field of a row, an element of an array, or a value in JSON.
pub(super) fn access(binder: &mut Binder<'_>, root: &ast::Expr, chain: &[AccessExpr]) -> Result<Bound> {
    // The names at the head are those of a column and its table.
    let mut names = Vec::new();
    if let ast::Expr::Identifier(first) = root {
        names.push(first.clone());
        let part = |access: &AccessExpr| match access {
            AccessExpr::Dot(ast::Expr::Identifier(part)) => Some(part.clone()),
            _ => None,
        };
        names.extend(chain.iter().map_while(part));
    }
    let chain = &chain[names.len().saturating_sub(1)..];
    let mut bound = if names.is_empty() { binder.expr(root)? } else { binder.column(&names)? };
    let mut at = 0;
    while let Some(access) = chain.get(at) {
        at += 1;
        bound = match access {
            AccessExpr::Dot(ast::Expr::Identifier(name)) => field_of(binder, root, bound, &folded(name))?,
            AccessExpr::Subscript(_) if bound.sql_type.is_array => {
                let subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
                let count = chain[at..].iter().take_while(|access| subscript(access)).count();
                let subscripts = &chain[at - 1..at + count];
                at += count;
                subscripted(binder, bound, subscripts)?
            }
            AccessExpr::Subscript(Subscript::Index { index })
                if matches!(bound.sql_type.base, BaseType::Json | BaseType::Jsonb) =>
            {
                value_of_json(binder, bound, index)?
            }
            AccessExpr::Subscript(Subscript::Index { index }) if bound.sql_type == BaseType::Name.into() => {
                character_of(binder, bound, index)?
            }
            _ => return Err(not_subscripted(bound.sql_type)),
        };
    }
    Ok(bound)
}

/// A value in JSON by a key, or by a place: an object takes a number for a key, an array a text for a place.
fn value_of_json(binder: &mut Binder<'_>, json: Bound, index: &ast::Expr) -> Result<Bound> {
    let index = binder.expr(index)?;
    let key = subscript_of_json(binder, index)?;
    let path = Expr::Array { element: BaseType::Text, items: vec![key] };
    binder.operator("#>", json, Bound { expr: path, sql_type: SqlType::array_of(BaseType::Text) })
}

/// A subscript of JSON, which is a number or a text.
fn subscript_of_json(binder: &mut Binder<'_>, index: Bound) -> Result<Expr> {
    let can = |to| can_cast(index.sql_type, to, CastContext::Implicit);
    if !can(SqlType::TEXT) && !can(SqlType::INT4) {
        let what = format!("subscript type {} is not supported", index.sql_type.bare());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what)
            .with_hint("jsonb subscript must be coercible to either integer or text."));
    }
    binder.coerce(index, SqlType::TEXT, CastContext::Explicit)
}

/// The JSON of `SET column['a'][0] = value`, with the value in it. What lacks on the way is made.
fn with_value_in_json(
    binder: &mut Binder<'_>,
    json: Bound,
    subscripts: &[AccessExpr],
    value: &ast::Expr,
) -> Result<Bound> {
    let (mut items, mut is_number) = (Vec::new(), None);
    for subscript in subscripts {
        let AccessExpr::Subscript(Subscript::Index { index }) = subscript else {
            let what = "jsonb subscript does not support slices";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
        };
        let index = binder.expr(index)?;
        let is_int =
            index.sql_type != SqlType::UNKNOWN && can_cast(index.sql_type, SqlType::INT4, CastContext::Implicit);
        is_number.get_or_insert(is_int);
        items.push(subscript_of_json(binder, index)?);
    }
    let value = binder.expr(value)?;
    let given = value.sql_type;
    let json_type = SqlType::from(BaseType::Jsonb);
    let value = binder.coerce(value, json_type, CastContext::Assignment).map_err(|error| {
        if error.state() != SqlState::CANNOT_COERCE && error.state() != SqlState::DATATYPE_MISMATCH {
            return error;
        }
        let what = format!("subscripted assignment requires type jsonb but expression is of type {}", given.bare());
        SqlError::new(SqlState::DATATYPE_MISMATCH, what).with_hint("You will need to rewrite or cast the expression.")
    })?;
    let is_number = Expr::Constant(Datum::Bool(is_number.unwrap_or(false)));
    let path = Expr::Array { element: BaseType::Text, items };
    let arguments = vec![
        json,
        Bound { expr: value, sql_type: json_type },
        Bound { expr: is_number, sql_type: BaseType::Bool.into() },
        Bound { expr: path, sql_type: SqlType::array_of(BaseType::Text) },
    ];
    binder.function(SET_IN_JSON, arguments)
}

/// A character of a name, whose places are counted from 0.
fn character_of(binder: &mut Binder<'_>, name: Bound, index: &ast::Expr) -> Result<Bound> {
    let int = |int| Bound { expr: Expr::Constant(Datum::Int(int)), sql_type: SqlType::INT4 };
    let index = binder.expr(index)?;
    let place = binder.operator("+", index, int(1))?;
    let text = Bound { expr: binder.coerce(name, SqlType::TEXT, CastContext::Explicit)?, sql_type: SqlType::TEXT };
    let character = binder.function("substr", vec![text, place, int(1)])?;
    let sql_type = BaseType::SingleChar.into();
    Ok(Bound { expr: binder.coerce(character, sql_type, CastContext::Explicit)?, sql_type })
}

/// A field of a row.
fn field_of(binder: &mut Binder<'_>, root: &ast::Expr, bound: Bound, name: &str) -> Result<Bound> {
    let of_type = bound.sql_type;
    if of_type.base == BaseType::Record {
        return match field(binder, root, &bound, name)? {
            Some(field) => Ok(field),
            // The only rows with names that a value can be are those of `_pg_expandarray`.
            None if matches!(name, "x" | "n") => binder.function(&format!(".{name}"), vec![bound]),
            None => {
                let what = format!("could not identify column \"{name}\" in record data type");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what))
            }
        };
    }
    if of_type.base.composite().is_some() && !of_type.is_array {
        return attribute(bound, name);
    }
    let what = format!("column notation .{name} applied to type {}, which is not a composite type", of_type.bare());
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what))
}

/// An element of an array, or a part of it if one of the subscripts says so.
fn subscripted(binder: &mut Binder<'_>, bound: Bound, subscripts: &[AccessExpr]) -> Result<Bound> {
    let Bound { expr: array, sql_type } = bound;
    let array = Box::new(array);
    Ok(match places_of(binder, sql_type, subscripts)? {
        Places::Element(places) => Bound { expr: Expr::Subscript { array, places }, sql_type: sql_type.element() },
        Places::Slice(ends) => Bound { expr: Expr::Slice { array, ends }, sql_type },
    })
}

/// What subscripts of an array say. Where one is of a part, an index is that of the last element.
fn places_of(binder: &mut Binder<'_>, array: SqlType, subscripts: &[AccessExpr]) -> Result<Places> {
    let mut place = |written: &ast::Expr| -> Result<Expr> {
        let mut place = binder.expr(written)?;
        if array.is_vector() {
            let one = Bound { expr: Expr::Constant(Datum::Int(1)), sql_type: SqlType::INT4 };
            place = binder.operator("+", place, one)?;
        }
        binder.coerce(place, SqlType::INT4, CastContext::Assignment)
    };
    let is_slice = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
    let (has_slice, mut places, mut ends) = (subscripts.iter().any(is_slice), Vec::new(), Vec::new());
    for access in subscripts {
        match access {
            AccessExpr::Subscript(Subscript::Index { index }) if has_slice => {
                ends.push((Some(Expr::Constant(Datum::Int(1))), Some(place(index)?)));
            }
            AccessExpr::Subscript(Subscript::Index { index }) => places.push(place(index)?),
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                let low = lower_bound.as_ref().map(&mut place).transpose()?;
                ends.push((low, upper_bound.as_ref().map(&mut place).transpose()?));
            }
            _ => return Err(not_subscripted(array)),
        }
    }
    refuse_dimensions(subscripts.len())?;
    Ok(if has_slice { Places::Slice(ends) } else { Places::Element(places) })
}

/// The array of `SET a[2] = value`, with the value in it: see `known_words::elements`.
pub(super) fn with_element(binder: &mut Binder<'_>, target: &ast::Expr, value: &ast::Expr) -> Result<Bound> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = target else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "what is set is an element of a column"));
    };
    let is_subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
    let first = access_chain.iter().position(is_subscript).unwrap_or(access_chain.len());
    let (names, subscripts) = access_chain.split_at(first);
    let array = if names.is_empty() { binder.expr(root)? } else { access(binder, root, names)? };
    if !array.sql_type.is_array && array.sql_type.base == BaseType::Jsonb {
        return with_value_in_json(binder, array, subscripts, value);
    }
    if !array.sql_type.is_array {
        return Err(not_subscripted(array.sql_type));
    }
    if !subscripts.iter().all(is_subscript) {
        let what = "a field of an element of an array cannot be set alone";
        return Err(SqlError::unsupported(what, "Set the whole element: SET a[1] = ROW(...)."));
    }
    let sql_type = array.sql_type;
    let places = places_of(binder, sql_type, subscripts)?;
    let value = binder.expr(value)?;
    let (name, wanted, places) = match places {
        Places::Element(places) => (SET_ELEMENT, sql_type.element(), places),
        Places::Slice(ends) => {
            let end = |end: Option<Expr>| end.unwrap_or(Expr::Constant(Datum::Int(LEFT_OUT)));
            (SET_SLICE, sql_type, ends.into_iter().flat_map(|(low, high)| [end(low), end(high)]).collect())
        }
    };
    let given = value.sql_type;
    let value = binder.coerce(value, wanted, CastContext::Assignment).map_err(|error| {
        if error.state() != SqlState::CANNOT_COERCE {
            return error;
        }
        let (wanted, given) = (wanted.bare(), given.bare());
        let what = format!("subscripted assignment requires type {wanted} but expression is of type {given}");
        SqlError::new(SqlState::DATATYPE_MISMATCH, what).with_hint("You will need to rewrite or cast the expression.")
    })?;
    let mut arguments = vec![array, Bound { expr: value, sql_type: wanted }];
    arguments.extend(places.into_iter().map(|expr| Bound { expr, sql_type: SqlType::INT4 }));
    binder.function(name, arguments)
}

/// The values of ROW(...).
pub(super) fn values_of_row(written: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match written {
        ast::Expr::Tuple(values) => Some(values.iter().collect()),
        ast::Expr::Nested(inner) => values_of_row(inner),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let value = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}
