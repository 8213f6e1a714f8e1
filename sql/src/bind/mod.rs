//! From the tree of a statement to its plan: names are looked up, types are found, operators and functions chosen, and
//! the ways to the rows.
//!
//! | file | what it is |
//! |---|---|
//! | `names` | what names mean |
//! | `scope` | the columns that an expression can see |
//! | `system_columns` | `ctid`, `xmin` and the like |
//! | `types` | types as statements write them |
//! | `parameters` | the types of `$1` and so on |
//! | `expression`, `call` | expressions; functions, aggregates and window functions |
//! | `computed_once` | CASE, NULLIF and BETWEEN, which compare one value more than once |
//! | `lists` | IN, and arrays of ANY and ALL |
//! | `subselect` | sub-selects in expressions |
//! | `rows` | rows and arrays as values: their fields and elements |
//! | `query`, `select`, `groups` | queries; GROUP BY |
//! | `with`, `search` | WITH; SEARCH and CYCLE of WITH RECURSIVE |
//! | `row_functions` | functions of rows in a select list |
//! | `numbered_pages` | pages by `row_number()` |
//! | `late_outputs` | outputs that are computed after the sort |
//! | `schemas` | the schemas of names in a view |
//! | `stars` | the columns that `*` stands for in a view |
//! | `from`, `from_functions` | FROM; functions in it |
//! | `implied` | equalities that follow from others |
//! | `join_order`, `join_cost` | orders of joins, and what each costs, by counts |
//! | `constants` | what is computed of constants |
//! | `access` | which key finds the rows of a table |
//! | `counted` | aggregates that come out of the tallies of a tree |
//! | `change`, `conflict` | INSERT, UPDATE, DELETE; ON CONFLICT |
//! | `cursors` | keys of the rows of cursors, and WHERE CURRENT OF |
//! | `updatable` | tables that are written, and views through which they are |
//! | `merge` | MERGE, and statements with parts that change rows |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sqlparser::ast;
use sqlparser::tokenizer::Span;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::plan::expression::{DomainCheck, DomainChecks, Expr, NotNull};
use crate::plan::query::{OutputColumn, Query};
use crate::stack::is_stack_short;
use crate::tokens::position_of;
use crate::types::cast::{CastContext, can_cast};
use crate::types::datum::Datum;
use crate::types::user::{Domain, UserType};
use crate::types::{BaseType, SqlType, text};

mod access;
mod call;
pub mod change;
mod computed_once;
mod conflict;
mod constants;
mod counted;
pub mod cursors;
mod expression;
mod from;
mod from_functions;
mod groups;
mod implied;
mod join_cost;
mod join_order;
mod late_outputs;
mod lists;
pub mod merge;
pub mod names;
mod numbered_pages;
mod parameters;
mod query;
mod row_functions;
mod rows;
pub mod schemas;
mod scope;
mod search;
mod select;
pub mod stars;
mod subselect;
pub mod system_columns;
pub mod types;
pub mod updatable;
mod with;

pub use crate::dialect::folded;
use names::Names;
use parameters::Parameters;
use scope::{Level, WithName};
use with::BoundWith;

/// The deepest nesting of queries and expressions.
const DEPTH_MAX: usize = 200;

/// Makes the plan of one statement.
pub struct Binder<'b> {
    names: &'b dyn Names,
    environment: &'b dyn Environment,
    /// The text of the statement, for places in it.
    text: &'b str,
    /// The types of parameters, as far as they are known.
    pub(crate) parameters: Parameters,
    /// The queries around the place that is being bound, the innermost last.
    levels: Vec<Level>,
    /// The queries of WITH that can be named.
    with: Vec<WithName>,
    /// Those of each WITH RECURSIVE around the place that are bound, by the place of its first name.
    with_done: Vec<(usize, Vec<BoundWith>)>,
    /// The places of the names of those that are being bound, and of the first name of their WITH; the innermost last.
    with_begun: Vec<(usize, usize)>,
    /// The numbers of recursive queries that parts of them have named, as often as they did.
    references: Vec<usize>,
    /// The numbers of all queries of WITH that were named so far.
    named: Vec<usize>,
    /// How often a query was bound once more.
    bound_again: usize,
    /// The windows that WINDOW names, of each SELECT around the place.
    window_names: Vec<Vec<(String, ast::WindowSpec)>>,
    /// Views that are being bound, so that one that names itself is found.
    views: Vec<String>,
    next_number: usize,
    depth: usize,
    /// Values that are computed once around the place that is being bound.
    known: usize,
    /// Whether a literal was read that stands for another moment at another time.
    is_dated: bool,
    /// Stars of the text by the places of their first characters, if they are to be noted: where each ends, and the
    /// columns that it stands for.
    stars: Option<BTreeMap<usize, (usize, String)>>,
    /// Names without a schema by the places of their first characters, if they are to be noted.
    schemas: Option<BTreeMap<usize, names::Written>>,
    /// Tables that the statement has read or written, by name, with what was known of them.
    tables: HashMap<String, Arc<names::TableShape>>,
}

/// An expression with the type of its value.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The expression.
    pub expr: Expr,
    /// Its type.
    pub sql_type: SqlType,
}

/// A query with what it gives.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The query.
    pub query: Query,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
}

impl<'b> Binder<'b> {
    /// Binds a statement of this text; the types of its first parameters may be known.
    pub fn new(
        names: &'b dyn Names,
        environment: &'b dyn Environment,
        text: &'b str,
        parameters: &[Option<SqlType>],
    ) -> Binder<'b> {
        Binder {
            names,
            environment,
            text,
            parameters: Parameters::new(parameters),
            levels: Vec::new(),
            with: Vec::new(),
            with_done: Vec::new(),
            with_begun: Vec::new(),
            references: Vec::new(),
            named: Vec::new(),
            bound_again: 0,
            window_names: Vec::new(),
            views: Vec::new(),
            next_number: 0,
            known: 0,
            is_dated: false,
            depth: 0,
            stars: None,
            schemas: None,
            tables: HashMap::new(),
        }
    }

    /// Adds a column of a row that expressions can see: for those that are bound alone.
    pub fn add_column(&mut self, table: &str, name: &str, sql_type: SqlType) {
        let level = self.level();
        let slot = level.frame;
        level.frame += 1;
        let sql_type = sql_type.without_domain();
        let column = scope::ScopeColumn {
            name: name.into(),
            sql_type,
            slot,
            origin: None,
            shown: scope::Shown::Always,
            merged: None,
        };
        match level.relations.last_mut() {
            Some(relation) => relation.columns.push(column),
            None => level.relations.push(scope::Relation {
                name: table.into(),
                schema: None,
                columns: vec![column],
                is_visible: true,
                needs_name: false,
                is_one_value: false,
                system: None,
            }),
        }
    }

    /// Binds an expression that stands alone, as a value that is assigned to a column of this type.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn assigned_value(&mut self, written: &ast::Expr, to: SqlType) -> Result<Expr> {
        let bound = self.expr(written)?;
        self.coerce(bound, to, CastContext::Assignment)
    }

    /// The type of an expression that stands alone.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn type_of(&mut self, written: &ast::Expr) -> Result<SqlType> {
        Ok(value_alone(self, written)?.sql_type)
    }

    /// Whether the same text may mean something else when it is read again: `'today'`.
    pub fn is_dated(&self) -> bool {
        self.is_dated
    }

    fn number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Goes one level deeper.
    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX || is_stack_short() {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
                .with_detail(format!("Queries and expressions may be {DEPTH_MAX} levels deep.")));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// The place in the text: characters from 1 on.
    fn position(&self, span: Span) -> Option<usize> {
        position_of(self.text, span.start.line, span.start.column)
    }

    /// A value as one of another type, for what takes it.
    ///
    /// # Errors [`DATATYPE_MISMATCH`](SqlState::DATATYPE_MISMATCH) or [`CANNOT_COERCE`](SqlState::CANNOT_COERCE) if
    /// it cannot be; those of a literal that is no value of the type.
    fn coerce(&mut self, bound: Bound, to: SqlType, context: CastContext) -> Result<Expr> {
        if let (BaseType::Domain(_), false) = (to.base, to.is_array) {
            return domain_value(self, bound, to, context);
        }
        let Bound { expr, sql_type } = bound;
        if sql_type == to {
            return Ok(expr);
        }
        if let (Expr::Record(values, _), Some(composite), false) = (&expr, to.base.composite(), to.is_array) {
            return rows::of_composite(self, values, (sql_type, to), composite, context);
        }
        if sql_type == SqlType::UNKNOWN {
            match expr {
                Expr::Parameter(place) => {
                    let known = self.parameters.take_type(place, to);
                    return self.cast(Expr::Parameter(place), known, to, context);
                }
                Expr::Constant(Datum::Text(text)) => {
                    // A number alone has the unit of the fields that an interval declares.
                    let is_interval = to.base == BaseType::Interval && !to.is_array;
                    let from = if to.is_vector() || is_interval { to } else { to.bare() };
                    let value = text::parse(&text, from, self.environment)?;
                    self.is_dated |= is_dated(&text, to);
                    return self.cast(Expr::Constant(value), from, to, context);
                }
                Expr::Constant(Datum::Null) => return Ok(Expr::Constant(Datum::Null)),
                other => return self.cast(other, SqlType::TEXT, to, CastContext::Explicit),
            }
        }
        self.cast(expr, sql_type, to, context)
    }

    fn cast(&self, value: Expr, from: SqlType, to: SqlType, context: CastContext) -> Result<Expr> {
        let is_same = from.bare() == to.bare() && (to.modifier == -1 || from.modifier == to.modifier);
        if is_same {
            return Ok(value);
        }
        if !can_cast(from, to, context) {
            let what = format!("cannot cast type {} to {}", from.bare(), to.bare());
            return Err(SqlError::new(SqlState::CANNOT_COERCE, what));
        }
        if let Expr::Constant(constant) = &value
            && is_constant_cast(from, to)
        {
            let value = crate::types::cast::cast(constant.clone(), from, to, context, self.environment)?;
            return Ok(Expr::Constant(value));
        }
        Ok(Expr::Cast { value: Box::new(value), from, to, context })
    }

    /// A value that must be true or false.
    fn condition(&mut self, bound: Bound, place: &str) -> Result<Expr> {
        if bound.sql_type != SqlType::BOOL && bound.sql_type != SqlType::UNKNOWN {
            let what = format!("argument of {place} must be type boolean, not type {}", bound.sql_type.bare());
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
        }
        self.coerce(bound, SqlType::BOOL, CastContext::Implicit)
    }

    /// What stands in an output: a literal whose type nothing says is text.
    fn text_if_unknown(&mut self, bound: Bound) -> Result<Bound> {
        if bound.sql_type != SqlType::UNKNOWN {
            return Ok(bound);
        }
        let expr = self.coerce(bound, SqlType::TEXT, CastContext::Implicit)?;
        Ok(Bound { expr, sql_type: SqlType::TEXT })
    }
}

/// Binds an expression that stands alone; a literal whose type nothing says is text.
///
/// # Errors
/// Those of its names and types.
pub fn value_alone(binder: &mut Binder<'_>, written: &ast::Expr) -> Result<Bound> {
    let bound = binder.expr(written)?;
    binder.text_if_unknown(bound)
}

/// The name by which the condition of a domain knows the value.
const VALUE: &str = "value";

/// A value as one of a domain: within expressions it has the type that the domain is made of, and where it becomes one
/// of the domain, the conditions of that are looked at.
fn domain_value(binder: &mut Binder<'_>, bound: Bound, to: SqlType, context: CastContext) -> Result<Expr> {
    let value = binder.coerce(bound, to.without_domain(), context)?;
    let mut checks = DomainChecks::default();
    add_checks(binder, to, &mut checks)?;
    Ok(Expr::Domain { value: Box::new(value), checks: Arc::new(checks) })
}

/// Adds the conditions of a domain, after those of the one that it is made of.
fn add_checks(binder: &Binder<'_>, sql_type: SqlType, checks: &mut DomainChecks) -> Result<()> {
    let Some((user, domain)) = domain_of(sql_type) else { return Ok(()) };
    add_checks(binder, domain.base, checks)?;
    if domain.is_not_null && checks.not_null.is_none() {
        checks.not_null = Some(NotNull::Domain(user.shown.as_str().into()));
    }
    for (name, text) in &domain.checks {
        let written = crate::statement::parse_expression(text)?;
        let mut own = Binder::new(binder.names, binder.environment, text, &[]);
        let condition = condition_of_domain(&mut own, &written, sql_type)?;
        let (domain, name) = (user.shown.as_str().into(), name.as_str().into());
        checks.checks.push(DomainCheck { domain, name, condition });
    }
    Ok(())
}

/// Binds a condition of a domain of this type, or one that is made of this type, in a binder of its own.
///
/// # Errors
/// Those of its names and types.
pub fn condition_of_domain(binder: &mut Binder<'_>, written: &ast::Expr, sql_type: SqlType) -> Result<Expr> {
    binder.add_column("", VALUE, sql_type.without_domain());
    let found = binder.type_of(written)?;
    if found != SqlType::BOOL {
        let what = format!("argument of CHECK must be type boolean, not type {}", found.bare());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    binder.assigned_value(written, SqlType::BOOL)
}

/// Binds the value that the row of one column is, as one of another type.
///
/// # Errors
/// Those of the cast.
pub fn value_as(binder: &mut Binder<'_>, from: SqlType, to: SqlType) -> Result<Expr> {
    let value = Bound { expr: Expr::Slot(0), sql_type: from.without_domain() };
    binder.coerce(value, to, CastContext::Assignment)
}

fn domain_of(sql_type: SqlType) -> Option<(UserType, &'static Domain)> {
    let user = sql_type.base.user_type().filter(|_| !sql_type.is_array)?;
    Some((user, user.domain()?))
}

/// Whether a column of this type refuses NULL by its domain.
fn refuses_null(sql_type: SqlType) -> bool {
    domain_of(sql_type).is_some_and(|(_, domain)| domain.is_not_null || refuses_null(domain.base))
}

/// The text of the default that a column has by its domain.
pub fn default_of_domain(sql_type: SqlType) -> Option<&'static str> {
    let (_, domain) = domain_of(sql_type)?;
    domain.default.as_deref().or_else(|| default_of_domain(domain.base))
}

/// Whether a cast has the same value whatever the session says, so that it can be done once.
fn is_constant_cast(from: SqlType, to: SqlType) -> bool {
    let is_moment = |sql_type: SqlType| {
        use BaseType::{Date, Interval, Time, TimeTz, Timestamp};
        matches!(sql_type.base.of_bounds(), Date | Time | TimeTz | Timestamp | Interval)
    };
    // 'today' is another day tomorrow.
    if from.base.is_text() && is_moment(to) || is_moment(from) && to.base.is_text() {
        return false;
    }
    let depends = |sql_type: SqlType| {
        let is_of_session = matches!(
            sql_type.base.of_bounds(),
            BaseType::TimestampTz | BaseType::Unknown | BaseType::Record | BaseType::Composite(_)
        );
        is_of_session || sql_type.base.is_oid()
    };
    !depends(from) && !depends(to)
}

/// Whether a literal of a type depends on the time, the time zone, or the parameters of how dates and intervals are
/// written.
fn is_dated(text: &str, to: SqlType) -> bool {
    use crate::types::BaseType::{Composite, Date, Interval, Time, Timestamp, TimestampTz};
    let bytes = text.as_bytes();
    let is_plain = bytes.len() > 5
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5].is_ascii_digit()
        && !bytes.iter().any(u8::is_ascii_alphabetic);
    match to.base.of_bounds() {
        TimestampTz | Composite(_) => true,
        Date | Timestamp => !is_plain,
        Time => bytes.iter().any(u8::is_ascii_alphabetic),
        // By the parameter IntervalStyle, the sign is that of the first part or of all.
        Interval => bytes.contains(&b'-'),
        _ => false,
    }
}

/// A name as messages show it.
pub(crate) fn shown_name(name: &ast::ObjectName) -> String {
    let parts = name.0.iter().map(|part| part.as_ident().map_or_else(|| part.to_string(), folded));
    parts.collect::<Vec<_>>().join(".")
}

/// The schema, if there is one, and the name of an object.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if there are more parts, or one is no name.
pub fn object_name(name: &ast::ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = Vec::new();
    for part in &name.0 {
        match part.as_ident() {
            Some(ident) => parts.push(folded(ident)),
            None => return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("improper name: {name}"))),
        }
    }
    match parts.len() {
        1 => Ok((None, parts.swap_remove(0))),
        2 => {
            let name = parts.pop().unwrap_or_default();
            Ok((parts.pop(), name))
        }
        3 => {
            let name = parts.pop().unwrap_or_default();
            Ok((parts.pop(), name))
        }
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("improper qualified name (too many dotted names): {name}"),
        )),
    }
}
