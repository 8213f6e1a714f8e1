//! Expressions: their types, the operators that they mean.

use sqlparser::ast::{self, BinaryOperator, Ident, Spanned, UnaryOperator, Value};

use crate::bind::constants::{as_days, called};
use crate::bind::rows::values_of_row;
use crate::bind::subselect::row_subquery;
use crate::bind::types::{note_type, sql_type};
use crate::bind::{Binder, Bound, computed_once, lists, rows};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::functions::{Call, common_type_of, resolve_function, resolve_operator};
use crate::plan::expression::{Callee, Comparison, Expr, Quantifier};
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType, bits, text};

/// Whether the blanks at the end of a `char(n)` count where it is matched with a pattern. Where they cannot, the value
/// is left as it is, so that an index finds it.
fn has_blanks_in_match(symbol: &str, value: &Bound, pattern: &Bound) -> bool {
    let is_like = symbol.contains("~~");
    if !symbol.trim_start_matches('!').starts_with('~') || value.sql_type.base != BaseType::Char {
        return false;
    }
    let Expr::Constant(Datum::Text(pattern)) = &pattern.expr else { return true };
    !match is_like {
        true => pattern.ends_with('%') && !pattern.contains([' ', '_', '\\']),
        false => pattern.strip_prefix('^').unwrap_or(pattern).chars().all(char::is_alphanumeric),
    }
}

/// A `char(n)` as text, with the blanks that fill it; other values as they are.
fn with_blanks(binder: &mut Binder<'_>, value: Bound) -> Result<Bound> {
    let Some(length) = value.sql_type.length().filter(|_| is_char(value.sql_type)) else { return Ok(value) };
    let text = Bound { expr: binder.coerce(value, SqlType::TEXT, CastContext::Implicit)?, sql_type: SqlType::TEXT };
    let length = Bound { expr: Expr::Constant(Datum::Int(length.into())), sql_type: SqlType::INT4 };
    binder.function("rpad", vec![text, length])
}

fn is_char(sql_type: SqlType) -> bool {
    sql_type.base == BaseType::Char && !sql_type.is_array
}

pub(super) fn truth(expr: Expr) -> Bound {
    Bound { expr, sql_type: SqlType::BOOL }
}

fn literal(text: &str) -> Bound {
    Bound { expr: Expr::Constant(Datum::text(text)), sql_type: SqlType::UNKNOWN }
}

fn unsupported(what: &ast::Expr) -> SqlError {
    SqlError::unsupported(format!("the expression {what} is not supported"), "docs/sql.md has what is.")
}

impl Binder<'_> {
    /// Binds an expression.
    pub(super) fn expr(&mut self, written: &ast::Expr) -> Result<Bound> {
        let bound = self.deeper(|binder| binder.bind_expr(written));
        bound.map_err(|error| error.at(self.position(start_of(written).span())))
    }

    fn exprs(&mut self, written: &[ast::Expr]) -> Result<Vec<Bound>> {
        written.iter().map(|written| self.expr(written)).collect()
    }

    fn bind_expr(&mut self, written: &ast::Expr) -> Result<Bound> {
        match written {
            ast::Expr::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            ast::Expr::CompoundIdentifier(parts) => self.column(parts),
            ast::Expr::Value(value) => self.value(&value.value, value.span),
            ast::Expr::Nested(inner) => self.expr(inner),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            ast::Expr::IsNull(inner) => self.is_null(inner, false),
            ast::Expr::IsNotNull(inner) => self.is_null(inner, true),
            ast::Expr::IsTrue(inner) => self.is_truth(inner, Some(true), false),
            ast::Expr::IsNotTrue(inner) => self.is_truth(inner, Some(true), true),
            ast::Expr::IsFalse(inner) => self.is_truth(inner, Some(false), false),
            ast::Expr::IsNotFalse(inner) => self.is_truth(inner, Some(false), true),
            ast::Expr::IsUnknown(inner) => self.is_truth(inner, None, false),
            ast::Expr::IsNotUnknown(inner) => self.is_truth(inner, None, true),
            ast::Expr::IsDistinctFrom(a, b) => self.is_distinct(a, b, false),
            ast::Expr::IsNotDistinctFrom(a, b) => self.is_distinct(a, b, true),
            ast::Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let comparison = if *negated { Comparison::Unequal } else { Comparison::Equal };
                self.quantified_subquery(expr, comparison, subquery, *negated)
            }
            ast::Expr::Between { expr, negated, low, high } => computed_once::between(self, expr, *negated, low, high),
            ast::Expr::Like { negated, any: true, expr, pattern, escape_char: None } => {
                let op = if *negated { BinaryOperator::PGNotLikeMatch } else { BinaryOperator::PGLikeMatch };
                self.quantified(expr, &op, pattern, false)
            }
            ast::Expr::ILike { negated, any: true, expr, pattern, escape_char: None } => {
                let op = if *negated { BinaryOperator::PGNotILikeMatch } else { BinaryOperator::PGILikeMatch };
                self.quantified(expr, &op, pattern, false)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like("like", *negated, expr, pattern, escape_char.as_ref())
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like("ilike", *negated, expr, pattern, escape_char.as_ref())
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                self.like("similar", *negated, expr, pattern, escape_char.as_ref())
            }
            ast::Expr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false),
            ast::Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true),
            ast::Expr::Cast { kind, expr, data_type, array, format } => {
                foreign::cast(kind, *array, format.as_ref())?;
                let to = sql_type(data_type, self.names)?;
                note_type(self, data_type, to);
                self.cast_expr(expr, to)
            }
            ast::Expr::TypedString(typed) => {
                let value = self.value(&typed.value.value, typed.value.span)?;
                let to = sql_type(&typed.data_type, self.names)?;
                note_type(self, &typed.data_type, to);
                self.explicit(value, to)
            }
            ast::Expr::Interval(interval) => self.interval(interval),
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                let (timestamp, zone) = (self.expr(timestamp)?, self.expr(time_zone)?);
                self.function("timezone", vec![zone, timestamp])
            }
            ast::Expr::Extract { field, expr, .. } => {
                let field = field.to_string().to_lowercase();
                let value = self.expr(expr)?;
                self.function("extract", vec![literal(field.trim_matches(['\'', '"'])), value])
            }
            ast::Expr::Ceil { expr, .. } => self.call_by_name("ceil", &[expr]),
            ast::Expr::Floor { expr, .. } => self.call_by_name("floor", &[expr]),
            ast::Expr::Position { expr, r#in } => self.call_by_name("position", &[r#in, expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let name = if *shorthand { "substr" } else { "substring" };
                self.substring(name, expr, substring_from.as_deref(), substring_for.as_deref())
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                self.trim(*trim_where, trim_what.as_deref(), expr, trim_characters.as_deref())
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments: Vec<&ast::Expr> = vec![expr, overlay_what, overlay_from];
                arguments.extend(overlay_for.as_deref());
                self.call_by_name("overlay", &arguments)
            }
            ast::Expr::Collate { expr, collation } => self.collate(expr, collation),
            ast::Expr::Function(function) => {
                foreign::function(function)?;
                self.function_call(function)
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                computed_once::case(self, operand.as_deref(), conditions, else_result.as_deref())
            }
            ast::Expr::Exists { subquery, negated } => self.exists(subquery, *negated),
            ast::Expr::Subquery(query) => self.scalar_subquery(query),
            ast::Expr::Tuple(values) => self.row(values),
            ast::Expr::Array(array) => self.array(&array.elem),
            ast::Expr::QualifiedWildcard(table, _) => rows::whole_row(self, table),
            ast::Expr::CompoundFieldAccess { root, access_chain } => rows::access(self, root, access_chain),
            other => Err(unsupported(other)),
        }
    }

    fn value(&mut self, value: &Value, span: sqlparser::tokenizer::Span) -> Result<Bound> {
        Ok(match value {
            Value::Number(digits, _) => self.number_literal(digits)?,
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => literal(text),
            Value::DollarQuotedString(text) => literal(&text.value),
            Value::SingleQuotedByteStringLiteral(digits) => {
                Bound { expr: Expr::Constant(bits::of_binary(digits)?), sql_type: BaseType::Bit.into() }
            }
            Value::HexStringLiteral(digits) => {
                Bound { expr: Expr::Constant(bits::of_hexadecimal(digits)?), sql_type: BaseType::Bit.into() }
            }
            Value::Boolean(value) => truth(Expr::Constant(Datum::Bool(*value))),
            Value::Null => Bound { expr: Expr::Constant(Datum::Null), sql_type: SqlType::UNKNOWN },
            Value::Placeholder(name) => {
                let named = self.parameters.named(name);
                let (place, sql_type) = named.map_err(|error| error.at(self.position(span)))?;
                Bound { expr: Expr::Parameter(place), sql_type }
            }
            other => {
                let what = format!("the literal {other} is not supported");
                return Err(SqlError::unsupported(what, "Write text in single quotes, bytes as '\\x...'::bytea."));
            }
        })
    }

    fn number_literal(&self, digits: &str) -> Result<Bound> {
        let digits = digits.replace('_', "");
        if let Ok(int) = digits.parse::<i64>() {
            let base = if i32::try_from(int).is_ok() { BaseType::Int4 } else { BaseType::Int8 };
            return Ok(Bound { expr: Expr::Constant(Datum::Int(int)), sql_type: base.into() });
        }
        let numeric = SqlType::from(BaseType::Numeric);
        let value = text::parse(&digits, numeric, self.environment)?;
        Ok(Bound { expr: Expr::Constant(value), sql_type: numeric })
    }

    // --- operators --------------------------------------------------------------------------------------------------

    fn binary(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Bound> {
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let word = if *op == BinaryOperator::And { "AND" } else { "OR" };
                let mut parts = Vec::new();
                self.collect_conditions(left, op, word, &mut parts)?;
                self.collect_conditions(right, op, word, &mut parts)?;
                return Ok(truth(if *op == BinaryOperator::And { Expr::And(parts) } else { Expr::Or(parts) }));
            }
            BinaryOperator::Overlaps => {
                if let (ast::Expr::Tuple(first), ast::Expr::Tuple(second)) = (left, right)
                    && first.len() == 2
                    && second.len() == 2
                {
                    let bounds = first.iter().chain(second).map(|bound| self.expr(bound)).collect::<Result<_>>()?;
                    return self.function("overlaps", bounds);
                }
            }
            _ => {}
        }
        // A row of operators is a tree that is as deep as the row is long: it is bound from its first value on.
        let (mut row, mut first) = (vec![(left, op, right)], left);
        while let ast::Expr::BinaryOp { left, op, right } = first
            && !matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Overlaps)
        {
            row.push((left, op, right));
            first = left;
        }
        let mut bound = self.expr(first)?;
        while let Some((left, op, right)) = row.pop() {
            let symbol = symbol_of(op);
            // An operator before a sub-select or an array of ANY is bound with it.
            let b = match Comparison::of(&symbol) {
                Some(_) => beside_row(self, right, left)?,
                None => self.expr(right)?,
            };
            bound = self.operator(&symbol, bound, b)?;
        }
        Ok(bound)
    }

    /// Conditions that stand in a row of ANDs, or of ORs, so that a long row is not a deep tree.
    fn collect_conditions(
        &mut self,
        written: &ast::Expr,
        op: &BinaryOperator,
        word: &str,
        parts: &mut Vec<Expr>,
    ) -> Result<()> {
        let mut rights = Vec::new();
        let mut next = written;
        while let ast::Expr::BinaryOp { left, op: inner, right } = next
            && inner == op
        {
            rights.push(&**right);
            next = left;
        }
        for written in std::iter::once(next).chain(rights.into_iter().rev()) {
            let bound = self.expr(written)?;
            parts.push(self.condition(bound, word)?);
        }
        Ok(())
    }

    /// An operator between two values.
    pub(super) fn operator(&mut self, symbol: &str, a: Bound, b: Bound) -> Result<Bound> {
        if let Some(comparison) = Comparison::of(symbol) {
            return self.compare(comparison, a, b);
        }
        let a = if has_blanks_in_match(symbol, &a, &b) { with_blanks(self, a)? } else { a };
        let call = resolve_operator(symbol, Some(a.sql_type), b.sql_type)?;
        let (left, right) = (call.arguments[0], call.arguments[1]);
        let arguments =
            vec![self.coerce(a, left, CastContext::Implicit)?, self.coerce(b, right, CastContext::Implicit)?];
        Ok(Bound { sql_type: call.returns, expr: called(call, arguments, self.environment) })
    }

    /// A comparison.
    pub(super) fn compare(&mut self, comparison: Comparison, a: Bound, b: Bound) -> Result<Bound> {
        if let (Expr::Record(left, None), Expr::Record(right, None)) = (&a.expr, &b.expr) {
            return self.compare_rows(comparison, left.clone(), right.clone());
        }
        let is_text = |sql_type: SqlType| sql_type.base == BaseType::CaselessText && !sql_type.is_array;
        let is_caseless = is_text(a.sql_type) || is_text(b.sql_type);
        let call = resolve_operator(comparison.symbol(), Some(a.sql_type), b.sql_type)?;
        let (left, right) = compared_as(&call);
        // JSON compares by what it says, not by its text.
        if left.base == BaseType::Jsonb && !left.is_array {
            let arguments =
                vec![self.coerce(a, left, CastContext::Implicit)?, self.coerce(b, right, CastContext::Implicit)?];
            return Ok(truth(Expr::Call { call: Callee(call), arguments }));
        }
        // Integers of any two sizes, and the like, compare as they are.
        let is_comparable = |sql_type: SqlType, to: SqlType| {
            sql_type == to.bare() || (is_exact_number(sql_type) && is_exact_number(to))
        };
        let mut side = |bound: Bound, to: SqlType| match is_comparable(bound.sql_type.bare(), to) {
            true => Ok(bound.expr),
            false => self.coerce(bound, to, CastContext::Implicit),
        };
        let sides = Box::new(as_days([side(a, left)?, side(b, right)?], self.environment));
        Ok(truth(Expr::Compare { comparison, is_caseless, sides }))
    }

    /// `(a, b) = (c, d)` is `a = c AND b = d`; other comparisons go by the first pair that differs.
    fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: Vec<(SqlType, Expr)>,
        right: Vec<(SqlType, Expr)>,
    ) -> Result<Bound> {
        if left.len() != right.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"));
        }
        let bound = |(sql_type, expr): (SqlType, Expr)| Bound { expr, sql_type };
        let pairs: Vec<(Bound, Bound)> = left.into_iter().map(bound).zip(right.into_iter().map(bound)).collect();
        if let Comparison::Equal | Comparison::Unequal = comparison {
            let mut parts = Vec::new();
            for (a, b) in pairs {
                parts.push(self.compare(comparison, a, b)?.expr);
            }
            return Ok(truth(if comparison == Comparison::Equal { Expr::And(parts) } else { Expr::Or(parts) }));
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (a, b) in pairs {
            let common = common_type_of("row comparison", &[a.sql_type, b.sql_type])?;
            left.push((common, self.coerce(a, common, CastContext::Implicit)?));
            right.push((common, self.coerce(b, common, CastContext::Implicit)?));
        }
        let sides = Box::new([Expr::Record(left, None), Expr::Record(right, None)]);
        Ok(truth(Expr::Compare { comparison, is_caseless: false, sides }))
    }

    fn unary(&mut self, op: UnaryOperator, written: &ast::Expr) -> Result<Bound> {
        if op == UnaryOperator::Not {
            let bound = self.expr(written)?;
            let condition = self.condition(bound, "NOT")?;
            return Ok(truth(Expr::Not(Box::new(condition))));
        }
        // The least integers have no positive counterpart.
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, written)
            && let Value::Number(digits, _) = &value.value
        {
            return self.number_literal(&format!("-{digits}"));
        }
        let bound = self.expr(written)?;
        let symbol = match op {
            UnaryOperator::Plus => "+",
            UnaryOperator::Minus => "-",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            _ => return Err(unsupported(written)),
        };
        let call = resolve_operator(symbol, None, bound.sql_type)?;
        let to = call.arguments[0];
        let arguments = vec![self.coerce(bound, to, CastContext::Implicit)?];
        let returns = call.returns;
        Ok(Bound { expr: Expr::Call { call: Callee(call), arguments }, sql_type: returns })
    }

    fn is_null(&mut self, written: &ast::Expr, is_negated: bool) -> Result<Bound> {
        let bound = self.expr(written)?;
        let value = Box::new(self.text_if_unknown(bound)?.expr);
        Ok(truth(Expr::IsNull { value, is_negated }))
    }

    fn is_truth(&mut self, written: &ast::Expr, truth_wanted: Option<bool>, is_negated: bool) -> Result<Bound> {
        let bound = self.expr(written)?;
        let value = Box::new(self.condition(bound, "IS")?);
        Ok(truth(Expr::IsTruth { value, truth: truth_wanted, is_negated }))
    }

    fn is_distinct(&mut self, a: &ast::Expr, b: &ast::Expr, is_negated: bool) -> Result<Bound> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        rows::is_distinct_from(self, a, b, is_negated)
    }

    fn in_list(&mut self, written: &ast::Expr, list: &[ast::Expr], is_negated: bool) -> Result<Bound> {
        let left = self.expr(written)?;
        let items = self.exprs(list)?;
        let is_row = matches!(left.expr, Expr::Record(..));
        if is_row && let Some(found) = in_rows(self, &left, &items, is_negated)? {
            return Ok(truth(found));
        }
        if is_row || left.sql_type.base == BaseType::CaselessText {
            let mut parts = Vec::new();
            for item in items {
                parts.push(self.compare(Comparison::Equal, left.clone(), item)?.expr);
            }
            let any = Expr::Or(parts);
            return Ok(truth(if is_negated { Expr::Not(Box::new(any)) } else { any }));
        }
        let (left, mut list) = in_common(self, left, items)?;
        let among = lists::among(&mut list, || self.number());
        Ok(truth(Expr::In { left: Box::new(left), list, among, is_negated }))
    }

    fn like(
        &mut self,
        kind: &str,
        is_negated: bool,
        written: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
    ) -> Result<Bound> {
        if let (Some(array), None) = (all_of(pattern), escape)
            && let Some(op) = match_operator(kind, is_negated)
        {
            return self.quantified(written, &op, array, true);
        }
        let (value, pattern) = (self.expr(written)?, self.expr(pattern)?);
        let escape = escape.map(|escape| self.value(&escape.value, escape.span)).transpose()?;
        let (escaped, symbol) = match (kind, is_negated) {
            ("similar", false) => ("similar_to_escape", "~"),
            ("similar", true) => ("similar_to_escape", "!~"),
            ("ilike", false) => ("like_escape", "~~*"),
            ("ilike", true) => ("like_escape", "!~~*"),
            (_, false) => ("like_escape", "~~"),
            (_, true) => ("like_escape", "!~~"),
        };
        let pattern = match (escape, kind) {
            (Some(escape), _) => self.function(escaped, vec![pattern, escape])?,
            (None, "similar") => self.function(escaped, vec![pattern])?,
            (None, _) => pattern,
        };
        self.operator(symbol, value, pattern)
    }

    /// `= ANY (...)` and its like.
    fn quantified(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, is_all: bool) -> Result<Bound> {
        let symbol = symbol_of(op);
        let mut inner = right;
        while let ast::Expr::Nested(nested) = inner {
            inner = nested;
        }
        if let ast::Expr::Subquery(query) = inner {
            let Some(comparison) = Comparison::of(&symbol) else { return Err(unsupported(right)) };
            return self.quantified_subquery(left, comparison, query, is_all);
        }
        let (left, array) = (self.expr(left)?, self.expr(right)?);
        let element = match array.sql_type {
            SqlType::UNKNOWN => left.sql_type.bare(),
            sql_type if sql_type.is_array => sql_type.element(),
            _ => {
                let what = "op ANY/ALL (array) requires array on right side";
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
            }
        };
        let call = resolve_operator(&symbol, Some(left.sql_type), element)?;
        let (left_type, element_type) = match Comparison::of(&symbol) {
            Some(_) => compared_as(&call),
            None => (call.arguments[0], call.arguments[1]),
        };
        let left = self.coerce(left, left_type, CastContext::Implicit)?;
        let array_type = SqlType { is_array: true, ..element_type.bare() };
        let array = match array.sql_type.is_array && is_exact_number(element) && is_exact_number(element_type) {
            true => array.expr,
            false => self.coerce(array, array_type, CastContext::Implicit)?,
        };
        let function = match Comparison::of(&symbol) {
            Some(comparison) => Quantifier::Comparison(comparison),
            None => Quantifier::Operator(Callee(call)),
        };
        let set = lists::set_of(&function, &array, is_all, || self.number());
        Ok(truth(Expr::Quantified { left: Box::new(left), function, array: Box::new(array), is_all, set }))
    }

    // --- what has a form of its own ---------------------------------------------------------------------------------

    fn cast_expr(&mut self, written: &ast::Expr, to: SqlType) -> Result<Bound> {
        let bound = match written {
            ast::Expr::Nested(inner) => return self.cast_expr(inner, to),
            ast::Expr::Array(array) if to.is_array && !to.is_vector() => array_of_cast(self, &array.elem, to)?,
            written => self.expr(written)?,
        };
        self.explicit(bound, to)
    }

    fn explicit(&mut self, bound: Bound, to: SqlType) -> Result<Bound> {
        // A literal of what the session decides is read when the statement runs.
        if let (SqlType::UNKNOWN, Expr::Constant(Datum::Text(_))) = (bound.sql_type, &bound.expr)
            && (to.base.is_oid() || to.base == BaseType::TimestampTz)
        {
            let value = Box::new(bound.expr);
            let expr = Expr::Cast { value, from: SqlType::TEXT, to, context: CastContext::Explicit };
            return Ok(Bound { expr, sql_type: to });
        }
        let expr = self.coerce(bound, to, CastContext::Explicit)?;
        Ok(Bound { expr, sql_type: to.without_domain() })
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Bound> {
        let bound = self.expr(&interval.value)?;
        let fields = match (&interval.leading_field, &interval.last_field) {
            (Some(first), Some(last)) => Some(format!("{first} TO {last}")),
            (first, _) => first.as_ref().map(ToString::to_string),
        };
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
        let sql_type = SqlType::interval(fields.as_deref(), digits).ok_or_else(|| {
            let what = format!("an interval has no fields {}", fields.unwrap_or_default());
            SqlError::new(SqlState::SYNTAX_ERROR, what)
        })?;
        self.explicit(bound, sql_type)
    }

    fn call_by_name(&mut self, name: &str, written: &[&ast::Expr]) -> Result<Bound> {
        let arguments = written.iter().map(|written| self.expr(written)).collect::<Result<Vec<_>>>()?;
        self.function(name, arguments)
    }

    /// A function of values that are bound.
    pub(super) fn function(&mut self, name: &str, mut arguments: Vec<Bound>) -> Result<Bound> {
        if let ("octet_length", [text]) = (name, &mut arguments[..]) {
            *text = with_blanks(self, text.clone())?;
        }
        let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
        let call = match resolve_function(name, &types) {
            Err(error) if error.state() == SqlState::UNDEFINED_FUNCTION && types.len() == 1 => {
                // A type's name is that of a function, too.
                let ident = Ident { quote_style: Some('"'), ..Ident::new(name) };
                let written = ast::DataType::Custom(ast::ObjectName::from(vec![ident]), Vec::new());
                let (Ok(to), Some(argument)) = (sql_type(&written, self.names), arguments.into_iter().next()) else {
                    return Err(error);
                };
                return match self.explicit(argument, to) {
                    Err(refused) if refused.state() == SqlState::CANNOT_COERCE => Err(error),
                    cast => cast,
                };
            }
            call => call?,
        };
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, to) in arguments.into_iter().zip(call.arguments.clone()) {
            values.push(self.coerce(argument, to, CastContext::Implicit)?);
        }
        Ok(Bound { sql_type: call.returns, expr: called(call, values, self.environment) })
    }

    fn substring(
        &mut self,
        name: &str,
        written: &ast::Expr,
        from: Option<&ast::Expr>,
        length: Option<&ast::Expr>,
    ) -> Result<Bound> {
        let mut arguments = vec![self.expr(written)?];
        match (from, length) {
            (None, Some(length)) => {
                arguments.push(Bound { expr: Expr::Constant(Datum::Int(1)), sql_type: SqlType::INT4 });
                arguments.push(self.expr(length)?);
            }
            (from, length) => {
                for part in from.into_iter().chain(length) {
                    arguments.push(self.expr(part)?);
                }
            }
        }
        self.function(name, arguments)
    }

    fn trim(
        &mut self,
        side: Option<ast::TrimWhereField>,
        what: Option<&ast::Expr>,
        written: &ast::Expr,
        characters: Option<&[ast::Expr]>,
    ) -> Result<Bound> {
        let name = match side {
            None | Some(ast::TrimWhereField::Both) => "btrim",
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
        };
        let mut arguments: Vec<&ast::Expr> = vec![written];
        arguments.extend(what);
        arguments.extend(characters.unwrap_or_default());
        self.call_by_name(name, &arguments)
    }

    fn collate(&mut self, written: &ast::Expr, collation: &ast::ObjectName) -> Result<Bound> {
        let bound = self.expr(written)?;
        if crate::bind::object_name(collation)?.1 == "unicode" {
            let bound = self.text_if_unknown(bound)?;
            return Ok(Bound { sql_type: BaseType::CaselessText.into(), ..bound });
        }
        crate::bind::types::collation(collation).map(|_| bound)
    }

    /// Values as those of the type that all can be.
    pub(super) fn in_common(&mut self, values: Vec<Bound>, place: &str) -> Result<(Vec<Expr>, SqlType)> {
        let types: Vec<SqlType> = values.iter().map(|value| value.sql_type).collect();
        let common = common_type_of(place, &types)?;
        let mut exprs = Vec::with_capacity(values.len());
        for value in values {
            exprs.push(self.coerce(value, common, CastContext::Implicit)?);
        }
        Ok((exprs, common))
    }

    fn row(&mut self, written: &[ast::Expr]) -> Result<Bound> {
        let values = rows::values_in_row(self, written)?;
        Ok(Bound { expr: Expr::Record(values, None), sql_type: BaseType::Record.into() })
    }

    fn array(&mut self, written: &[ast::Expr]) -> Result<Bound> {
        let items = self.exprs(written)?;
        let (items, element) = self.in_common(items, "ARRAY")?;
        Ok(array_in(element, items))
    }
}

/// The elements of an array that is cast are cast one by one, so that they need no type in common. If one of them is an
/// array, all are.
fn array_of_cast(binder: &mut Binder<'_>, written: &[ast::Expr], to: SqlType) -> Result<Bound> {
    let bind = |element: &ast::Expr| match element {
        ast::Expr::Array(inner) => array_of_cast(binder, &inner.elem, to),
        element => binder.expr(element),
    };
    let elements = written.iter().map(bind).collect::<Result<Vec<_>>>()?;
    let is_nested = elements.iter().any(|element| element.sql_type.is_array);
    let of_elements = if is_nested { to } else { to.element() };
    let cast = |element| Ok(binder.explicit(element, of_elements)?.expr);
    let items = elements.into_iter().map(cast).collect::<Result<Vec<_>>>()?;
    Ok(array_in(of_elements, items))
}

/// The array of elements of a type, or of arrays of it.
fn array_in(of_elements: SqlType, items: Vec<Expr>) -> Bound {
    let expr = match of_elements.is_array {
        true => Expr::Array { element: of_elements.base, items },
        false => lists::array_of(of_elements.base, items),
    };
    Bound { expr, sql_type: SqlType::array_of(of_elements.base) }
}

/// The types in which a comparison compares its sides. Moments of different types become those of the finer one.
pub(super) fn compared_as(call: &Call) -> (SqlType, SqlType) {
    use BaseType::{Date, Timestamp, TimestampTz};
    let (left, right) = (call.arguments[0], call.arguments[1]);
    let common = match (left.base, right.base) {
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => TimestampTz,
        _ => return (left, right),
    };
    (SqlType { base: common, ..left }, SqlType { base: common, ..right })
}

/// Types whose values are exact numbers, which compare with each other as they are.
pub(super) fn is_exact_number(sql_type: SqlType) -> bool {
    let is_number = matches!(sql_type.base, BaseType::Int2 | BaseType::Int4 | BaseType::Int8 | BaseType::Numeric);
    is_number && !sql_type.is_array
}

/// The array of `ALL (array)`, which the parser takes for a function.
fn all_of(pattern: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(function) = pattern else { return None };
    let [ast::ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
    match &list.args[..] {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] if is_all => Some(array),
        _ => None,
    }
}

/// The operator of LIKE or ILIKE.
fn match_operator(kind: &str, is_negated: bool) -> Option<BinaryOperator> {
    Some(match (kind, is_negated) {
        ("like", false) => BinaryOperator::PGLikeMatch,
        ("like", true) => BinaryOperator::PGNotLikeMatch,
        ("ilike", false) => BinaryOperator::PGILikeMatch,
        ("ilike", true) => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// The characters of an operator.
fn symbol_of(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        BinaryOperator::PGExp => "^".to_owned(),
        BinaryOperator::PGBitwiseXor => "#".to_owned(),
        other => other.to_string(),
    }
}

/// The expression that an expression begins with, if operators are all that makes it another one.
fn start_of(mut written: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::BinaryOp { left: inner, .. }
    | ast::Expr::Cast { kind: ast::CastKind::DoubleColon, expr: inner, .. }
    | ast::Expr::AtTimeZone { timestamp: inner, .. }
    | ast::Expr::IsNull(inner)
    | ast::Expr::IsNotNull(inner)
    | ast::Expr::CompoundFieldAccess { root: inner, .. } = written
    {
        written = inner;
    }
    written
}

/// The right side of a comparison: of a sub-select beside a row, a row of its columns.
fn beside_row(binder: &mut Binder<'_>, right: &ast::Expr, left: &ast::Expr) -> Result<Bound> {
    let ast::Expr::Subquery(query) = right else { return binder.expr(right) };
    let Some(values) = values_of_row(left) else { return binder.expr(right) };
    let fields = row_subquery(binder, query)?;
    if fields.len() != values.len() {
        let many = if fields.len() > values.len() { "many" } else { "few" };
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {many} columns")));
    }
    Ok(Bound { expr: Expr::Record(fields, None), sql_type: BaseType::Record.into() })
}

/// A value and others as those of the type that all can be.
fn in_common(binder: &mut Binder<'_>, left: Bound, items: Vec<Bound>) -> Result<(Expr, Vec<Expr>)> {
    let types: Vec<SqlType> = std::iter::once(left.sql_type).chain(items.iter().map(|item| item.sql_type)).collect();
    let common = common_type_of("IN", &types)?.bare();
    let left = match is_exact_number(left.sql_type.bare()) && is_exact_number(common) {
        true => left.expr,
        false => binder.coerce(left, common, CastContext::Implicit)?,
    };
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        list.push(binder.coerce(item, common, CastContext::Implicit)?);
    }
    Ok((left, list))
}

/// `(a, b) IN ((1, 2), (3, 4), ...)` of many rows; none if one after the other is compared, since they are few, or of
/// types that compare in another way.
fn in_rows(binder: &mut Binder<'_>, left: &Bound, items: &[Bound], is_negated: bool) -> Result<Option<Expr>> {
    let Expr::Record(row, None) = &left.expr else { return Ok(None) };
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        match &item.expr {
            Expr::Record(values, None) if values.len() == row.len() => rows.push(values),
            _ => return Ok(None),
        }
    }
    let is_plain = |(sql_type, _): &(SqlType, Expr)| {
        let is_other = matches!(sql_type.base, BaseType::CaselessText | BaseType::Json | BaseType::Jsonb);
        !is_other && sql_type.base != BaseType::Record && sql_type.base.composite().is_none()
    };
    if items.len() < lists::LONG || row.is_empty() || !row.iter().chain(rows.iter().copied().flatten()).all(is_plain) {
        return Ok(None);
    }
    let types = |at: usize| row.iter().chain(rows.iter().copied().flatten()).skip(at).step_by(row.len());
    let is_comparable = |at: usize| {
        let types: Vec<SqlType> = types(at).map(|(sql_type, _)| *sql_type).collect();
        common_type_of("IN", &types).is_ok()
    };
    if !(0..row.len()).all(is_comparable) {
        return Ok(None);
    }
    let (mut lefts, mut columns) = (Vec::new(), vec![Vec::with_capacity(row.len()); rows.len()]);
    for (at, (sql_type, value)) in row.iter().enumerate() {
        let bound = |(sql_type, expr): &(SqlType, Expr)| Bound { expr: expr.clone(), sql_type: *sql_type };
        let column = rows.iter().map(|row| bound(&row[at])).collect();
        let (value, column) = in_common(binder, bound(&(*sql_type, value.clone())), column)?;
        lefts.push((*sql_type, value));
        columns.iter_mut().zip(column).for_each(|(list, value)| list.push((*sql_type, value)));
    }
    let mut list: Vec<Expr> = columns.into_iter().map(|values| Expr::Record(values, None)).collect();
    let among = lists::among(&mut list, || binder.number());
    Ok(Some(Expr::In { left: Box::new(Expr::Record(lefts, None)), list, among, is_negated }))
}
