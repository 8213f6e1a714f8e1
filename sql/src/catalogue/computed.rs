//! Expressions of checks and indexes that rows do not have: rows keep them in SQL's words, and ask for their values
//! where they write (`sql('i64', 'integer -> abs("$1")', a)`).
//!
//! The first argument is the type of the value in rows. The second has the types of the columns, then the expression,
//! which knows them by their places. So a column that gets another name is renamed by rows alone.

use quipu_rows::Value;
use quipu_rows::generated::{Compute, compute_expressions_by};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::bind::{Binder, Bound, value_alone};
use crate::catalogue::column_type::{self, UserTypes};
use crate::catalogue::generated::{Alone, asks_catalogue, computed, depends_on_more, into_rows};
use crate::catalogue::writer;
use crate::dialect;
use crate::dialect::Dialect;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::statement;
use crate::types::SqlType;
use crate::types::datum::Datum;

/// The word that rows have before such an expression.
const WORD: &str = "sql(";
/// The word before one of a check that depends on the session that writes.
const WORD_WHEN_WRITTEN: &str = "sql_when_written(";
/// What stands between the types and the expression.
const ARROW: &str = " -> ";

/// Where an expression of an index stands, whose values may be of any type that sorts.
pub const INDEX_EXPRESSION: &str = "index expression";

/// Where the condition of a CHECK stands, which may depend on the session that writes.
pub const CHECK: &str = "check constraint";

/// Has such expressions computed in this process, by all that write rows.
pub(super) fn compute_expressions() {
    compute_expressions_by(|text| compile(text).map_err(into_rows));
}

fn compile(text: &str) -> Result<Box<Compute>> {
    let damaged = || SqlError::new(SqlState::DATA_CORRUPTED, format!("not an expression: {text}"));
    let (types, written) = text.split_once(ARROW).ok_or_else(damaged)?;
    let known = UserTypes::new();
    let types: Option<Vec<SqlType>> =
        types.split(';').filter(|name| !name.is_empty()).map(|name| column_type::parse_among(name, &known)).collect();
    let types = types.ok_or_else(damaged)?;
    let expr = bind(written, &types)?.expr;
    let asks_session = expr.any(&depends_on_more);
    Ok(Box::new(move |values: &[Value<'_>]| {
        let datum = |(value, sql_type): (&Value<'_>, &SqlType)| Datum::of_column(value.borrowed(), *sql_type);
        let frame = values.iter().zip(&types).map(datum).collect::<Result<Vec<_>>>();
        let value = frame.and_then(|frame| match asks_session {
            true => writer::with(|session| computed(&expr, &frame, session)),
            false => computed(&expr, &frame, &Alone::default()),
        });
        value.map_err(into_rows)
    }))
}

/// The name of the column at a place.
fn name_of(place: usize) -> String {
    format!("${}", place + 1)
}

fn bind(written: &str, types: &[SqlType]) -> Result<Bound> {
    let tree = statement::parse_expression(written)?;
    let alone = Alone::default();
    let mut binder = Binder::new(&alone, &alone, written, &[]);
    for (place, sql_type) in types.iter().enumerate() {
        binder.add_column("", &name_of(place), *sql_type);
    }
    value_alone(&mut binder, &tree)
}

/// An expression over columns of these types as rows keep it, and its type in SQL. None if it names no column.
///
/// # Errors
/// [`INVALID_OBJECT_DEFINITION`](SqlState::INVALID_OBJECT_DEFINITION) if it depends on more than its row; those of its
/// names and types.
pub fn in_rows(
    expression: &ast::Expr,
    type_of: &dyn Fn(&str) -> Option<SqlType>,
    place: &str,
) -> Result<Option<(String, SqlType)>> {
    let text = expression.to_string();
    let tokens = Tokenizer::new(&Dialect, &text).tokenize().unwrap_or_default();
    let next = |at: usize| tokens[at + 1..].iter().find(|token| !matches!(token, Token::Whitespace(_)));
    let (mut names, mut types, mut written): (Vec<String>, Vec<SqlType>, _) = (Vec::new(), Vec::new(), String::new());
    for (at, token) in tokens.iter().enumerate() {
        let found = match token {
            Token::Word(word) if !matches!(next(at), Some(Token::LParen | Token::Period)) => {
                let name = dialect::folded_word(word);
                type_of(&name).map(|sql_type| (name, sql_type))
            }
            _ => None,
        };
        let Some((name, sql_type)) = found else {
            written.push_str(&dialect::written(token));
            continue;
        };
        let column = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            types.push(sql_type.without_domain());
            names.len() - 1
        });
        written.push_str(&format!("\"{}\"", name_of(column)));
    }
    let not_immutable = || {
        let what = format!("functions in {place} must be marked IMMUTABLE");
        SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, what)
    };
    if names.is_empty() {
        return match bind(&written, &types)?.expr.any(&depends_on_more) {
            true => Err(not_immutable()),
            false => Ok(None),
        };
    }
    let is_of_user = |sql_type: &SqlType| sql_type.base.user_type().is_some();
    if types.iter().any(is_of_user) {
        return Err(SqlError::unsupported(
            format!("cannot use this expression here: {text}"),
            "Beside columns of a type that a user has made there are comparisons, AND, OR, NOT, IS NULL and IN.",
        ));
    }
    let bound = bind(&written, &types)?;
    if bound.expr.any(&|part| matches!(part, Expr::Subquery(_))) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use subquery in {place}")));
    }
    let asks_more = if place == CHECK { asks_catalogue } else { depends_on_more };
    if bound.expr.any(&asks_more) {
        return Err(not_immutable());
    }
    if place != INDEX_EXPRESSION && bound.sql_type != SqlType::BOOL {
        let what = format!("argument of {place} must be type boolean, not type {}", bound.sql_type.bare());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    let Some(held) = bound.sql_type.column_type().filter(|_| bound.sql_type.is_sorted()) else {
        let what = format!("no index can sort values of the type {}", bound.sql_type);
        return Err(SqlError::unsupported(what, "Cast it to another type."));
    };
    let kept: Vec<String> = types.iter().map(|sql_type| column_type::written(*sql_type, &UserTypes::new())).collect();
    // A text in rows has no escapes.
    let kept = format!("'{}{ARROW}{}'", kept.join(";"), written.replace('\'', "''"));
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let word = if bound.expr.any(&depends_on_more) { WORD_WHEN_WRITTEN } else { WORD };
    Ok(Some((format!("{word}'{held}', {kept}, {})", quoted.join(", ")), bound.sql_type)))
}

/// Whether rows keep an expression in SQL's words.
pub fn is_in_rows(text: &str) -> bool {
    text.starts_with(WORD) || text.starts_with(WORD_WHEN_WRITTEN)
}

/// An expression that rows have, in SQL's words.
pub fn in_sql(text: &str) -> String {
    if !is_in_rows(text) {
        return text.to_owned();
    }
    shown(text).unwrap_or_else(|| text.to_owned())
}

fn shown(text: &str) -> Option<String> {
    let ast::Expr::Function(call) = statement::parse_expression(text).ok()? else { return None };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let mut arguments = list.args.iter().filter_map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    });
    let ast::Expr::Value(kept) = arguments.nth(1)? else { return None };
    let ast::Value::SingleQuotedString(kept) = &kept.value else { return None };
    let (_, written) = kept.split_once(ARROW)?;
    let columns: Vec<String> = arguments.map(ToString::to_string).collect();
    let tokens = Tokenizer::new(&Dialect, written).tokenize().ok()?;
    let named = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_some() && word.value.starts_with('$') => {
            let place: Option<usize> = word.value[1..].parse().ok();
            place
                .and_then(|place| columns.get(place.checked_sub(1)?).cloned())
                .unwrap_or_else(|| dialect::written(token))
        }
        token => dialect::written(token),
    };
    Some(tokens.iter().map(named).collect())
}
