//! Fields of rows, elements and parts of arrays, values in JSON: `r.a`, `a[1][2:3]`, `j['a']`.

use sqlparser::ast::{self, AccessExpr, Subscript};

use crate::bind::{Binder, Bound, folded, rows};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::subscripts::{LEFT_OUT, SET_ELEMENT, SET_SLICE};
use crate::plan::expression::Expr;
use crate::types::cast::CastContext;
use crate::types::datum::{DIMENSIONS_MAX, Datum};
use crate::types::{BaseType, SqlType};

/// What the subscripts of an array name.
pub(super) enum Places {
    /// The place of an element in each dimension.
    Element(Vec<Expr>),
    /// The ends of a part in each dimension.
    Slice(Vec<(Option<Expr>, Option<Expr>)>),
}

fn not_subscripted(sql_type: SqlType) -> SqlError {
    let what = format!("cannot subscript type {sql_type} because it does not support subscripting");
    SqlError::new(SqlState::DATATYPE_MISMATCH, what)
}

impl Binder<'_> {
    /// A field of a row, an element of an array, or a value in JSON.
    pub(super) fn access(&mut self, root: &ast::Expr, chain: &[AccessExpr]) -> Result<Bound> {
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
        let mut bound = if names.is_empty() { self.expr(root)? } else { self.column(&names)? };
        let mut at = 0;
        while let Some(access) = chain.get(at) {
            at += 1;
            bound = match access {
                AccessExpr::Dot(ast::Expr::Identifier(name)) => self.field(root, bound, &folded(name))?,
                AccessExpr::Subscript(_) if bound.sql_type.is_array => {
                    let subscript = |access: &'_ AccessExpr| matches!(access, AccessExpr::Subscript(_));
                    let count = chain[at..].iter().take_while(|access| subscript(access)).count();
                    let subscripts = &chain[at - 1..at + count];
                    at += count;
                    self.subscripted(bound, subscripts)?
                }
                AccessExpr::Subscript(Subscript::Index { index })
                    if matches!(bound.sql_type.base, BaseType::Json | BaseType::Jsonb) =>
                {
                    let index = self.expr(index)?;
                    self.operator("->", bound, index)?
                }
                _ => return Err(not_subscripted(bound.sql_type)),
            };
        }
        Ok(bound)
    }

    /// A field of a row.
    fn field(&mut self, root: &ast::Expr, bound: Bound, name: &str) -> Result<Bound> {
        let of_type = bound.sql_type;
        if of_type.base == BaseType::Record {
            return match rows::field(self, root, &bound, name)? {
                Some(field) => Ok(field),
                // The only rows with names that a value can be are those of `_pg_expandarray`.
                None if matches!(name, "x" | "n") => self.function(&format!(".{name}"), vec![bound]),
                None => {
                    let what = format!("could not identify column \"{name}\" in record data type");
                    Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what))
                }
            };
        }
        if of_type.base.composite().is_some() && !of_type.is_array {
            return rows::attribute(bound, name);
        }
        let what = format!("column notation .{name} applied to type {}, which is not a composite type", of_type.bare());
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what))
    }

    /// An element of an array, or a part of it if one of the subscripts says so.
    fn subscripted(&mut self, bound: Bound, subscripts: &[AccessExpr]) -> Result<Bound> {
        let Bound { expr: array, sql_type } = bound;
        let array = Box::new(array);
        Ok(match self.subscripts(sql_type, subscripts)? {
            Places::Element(places) => Bound { expr: Expr::Subscript { array, places }, sql_type: sql_type.element() },
            Places::Slice(ends) => Bound { expr: Expr::Slice { array, ends }, sql_type },
        })
    }

    /// What subscripts of an array say. Where one is of a part, an index is that of the last element.
    pub(super) fn subscripts(&mut self, array: SqlType, subscripts: &[AccessExpr]) -> Result<Places> {
        let mut place = |written: &ast::Expr| -> Result<Expr> {
            let mut place = self.expr(written)?;
            if array.is_vector() {
                let one = Bound { expr: Expr::Constant(Datum::Int(1)), sql_type: SqlType::INT4 };
                place = self.operator("+", place, one)?;
            }
            self.coerce(place, SqlType::INT4, CastContext::Assignment)
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
        if places.len().max(ends.len()) > DIMENSIONS_MAX {
            let count = places.len().max(ends.len());
            let what = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        Ok(if has_slice { Places::Slice(ends) } else { Places::Element(places) })
    }

    /// The array of `SET a[2] = value`, with the value in it: see `known_words::elements`.
    pub(super) fn with_element(&mut self, target: &ast::Expr, value: &ast::Expr) -> Result<Bound> {
        let ast::Expr::CompoundFieldAccess { root, access_chain } = target else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "what is set is an element of a column"));
        };
        let is_subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
        let first = access_chain.iter().position(is_subscript).unwrap_or(access_chain.len());
        let (names, subscripts) = access_chain.split_at(first);
        let array = if names.is_empty() { self.expr(root)? } else { self.access(root, names)? };
        if !array.sql_type.is_array && array.sql_type.base == BaseType::Jsonb {
            let what = "an element of a jsonb value cannot be set by a subscript";
            return Err(SqlError::unsupported(what, "Write column = jsonb_set(column, '{key}', value)."));
        }
        if !array.sql_type.is_array {
            return Err(not_subscripted(array.sql_type));
        }
        if !subscripts.iter().all(is_subscript) {
            let what = "a field of an element of an array cannot be set alone";
            return Err(SqlError::unsupported(what, "Set the whole element: SET a[1] = ROW(...)."));
        }
        let sql_type = array.sql_type;
        let places = self.subscripts(sql_type, subscripts)?;
        let value = self.expr(value)?;
        let (name, wanted, places) = match places {
            Places::Element(places) => (SET_ELEMENT, sql_type.element(), places),
            Places::Slice(ends) => {
                let end = |end: Option<Expr>| end.unwrap_or(Expr::Constant(Datum::Int(LEFT_OUT)));
                (SET_SLICE, sql_type, ends.into_iter().flat_map(|(low, high)| [end(low), end(high)]).collect())
            }
        };
        let given = value.sql_type;
        let value = self.coerce(value, wanted, CastContext::Assignment).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            let (wanted, given) = (wanted.bare(), given.bare());
            let what = format!("subscripted assignment requires type {wanted} but expression is of type {given}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, what)
                .with_hint("You will need to rewrite or cast the expression.")
        })?;
        let mut arguments = vec![array, Bound { expr: value, sql_type: wanted }];
        arguments.extend(places.into_iter().map(|expr| Bound { expr, sql_type: SqlType::INT4 }));
        self.function(name, arguments)
    }
}
