//! Functions, aggregates and window functions.

use std::sync::Arc;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident};

use crate::bind::constants::called;
use crate::bind::query::direction_of;
use crate::bind::types::has_equality;
use crate::bind::{Binder, Bound, computed_once, folded, object_name, rows};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::postgres::known;
use crate::functions::{
    AggregateCall, SUBSCRIPTS_OF_VECTOR, aggregates, common_type, list, resolve_aggregate, resolve_set_function,
    resolve_spread, set_functions,
};
use crate::known_words::{ELEMENT, EXCLUDE, VARIADIC};
use crate::plan::expression::Expr;
use crate::plan::query::{
    Aggregate, Direction, Exclusion, FrameEnd, FrameUnit, WindowCall, WindowFrame, WindowFunction,
};
use crate::plan::source::RowsOf;
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// The arguments of a call as they are written.
struct Written<'w> {
    args: &'w [FunctionArg],
    is_distinct: bool,
    clauses: &'w [FunctionArgumentClause],
}

impl<'w> Written<'w> {
    fn of(function: &'w ast::Function) -> Result<Written<'w>> {
        match &function.args {
            FunctionArguments::None => Ok(Written { args: &[], is_distinct: false, clauses: &[] }),
            FunctionArguments::List(list) => {
                let is_distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
                Ok(Written { args: &list.args, is_distinct, clauses: &list.clauses })
            }
            FunctionArguments::Subquery(_) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "a sub-select as an argument needs parentheses of its own"))
            }
        }
    }

    fn is_star(&self) -> bool {
        matches!(self.args, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
    }
}

/// The clauses in which there can be functions of rows.
const PLACES_OF_ROWS: [&str; 3] = ["SELECT", "GROUP BY", "ORDER BY"];

/// The names of the arguments of functions of paths in JSON, which are texts here.
const NAMES_OF_PATHS: [&str; 4] = ["target", "path", "vars", "silent"];

/// The name by which an argument is given, and its value.
fn name_of_argument(arg: &FunctionArg) -> Option<(String, &ast::Expr)> {
    match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => Some((folded(name), value)),
        // `:=` is an operator to the parser.
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::Assignment,
            right,
        })) => match &**left {
            ast::Expr::Identifier(name) => Some((folded(name), right)),
            _ => None,
        },
        _ => None,
    }
}

/// The value of an argument of PostgreSQL's functions that may be left out.
fn default_of_argument(name: &str) -> Option<&'static str> {
    Some(match name {
        "years" | "months" | "weeks" | "days" | "hours" | "mins" | "secs" => "0",
        "create_if_missing" | "strict" => "true",
        "insert_after" | "silent" => "false",
        "vars" => "{}",
        _ => return None,
    })
}

/// The arguments of a call of a function, in its order where some are given by their names.
pub(super) fn arguments_of(binder: &mut Binder<'_>, name: &str, args: &[FunctionArg]) -> Result<Vec<Bound>> {
    let Some(first) = args.iter().position(|arg| name_of_argument(arg).is_some()) else {
        let mut arguments = binder.arguments(args)?;
        // Drivers name the result of a call so, `{? = call lower(?)}`, as PostgreSQL lets them.
        let is_result = |it: &Bound| it.sql_type.base == BaseType::Void && matches!(it.expr, Expr::Parameter(_));
        arguments.retain(|argument| !is_result(argument));
        return Ok(arguments);
    };
    let mut arguments = binder.arguments(&args[..first])?;
    let mut named = Vec::new();
    for arg in &args[first..] {
        let Some((given, value)) = name_of_argument(arg) else {
            let what = "positional argument cannot follow named argument";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        };
        if named.iter().any(|(known, _)| *known == given) {
            let what = format!("argument name \"{given}\" used more than once");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
        }
        named.push((given, binder.expr(value)?));
    }
    let fits = |names: &[&str]| named.iter().all(|(given, _)| names[first..].contains(&given.as_str()));
    let functions = known().functions.iter().filter(|function| function.name == name);
    let of_paths = name.starts_with("jsonb_path_").then_some(&NAMES_OF_PATHS[..]);
    let mut names =
        functions.map(|function| &function.names[..function.names.len().min(function.arguments.len())]).chain(of_paths);
    let Some(names) = names.find(|names| names.len() >= args.len() && fits(names)) else {
        let shown = |bound: &Bound| bound.sql_type.bare().to_string();
        let mut parts: Vec<String> = arguments.iter().map(shown).collect();
        parts.extend(named.iter().map(|(given, bound)| format!("{given} => {}", shown(bound))));
        let what = format!("function {name}({}) does not exist", parts.join(", "));
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, what).with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ));
    };
    for wanted in &names[first..] {
        if let Some(at) = named.iter().position(|(given, _)| given == wanted) {
            arguments.push(named.swap_remove(at).1);
        } else if named.is_empty() {
            // The rest have their defaults.
            break;
        } else {
            let value = default_of_argument(wanted).ok_or_else(|| {
                let what = format!("function {name} does not exist without its argument {wanted}");
                SqlError::new(SqlState::UNDEFINED_FUNCTION, what)
            })?;
            arguments.push(Bound { expr: Expr::Constant(Datum::text(value)), sql_type: SqlType::UNKNOWN });
        }
    }
    Ok(arguments)
}

/// The array of VARIADIC, if an argument is one.
///
/// # Errors
/// 42601 if another argument follows it.
fn spread_array(written: &ast::Expr) -> Result<Option<&ast::Expr>> {
    let ast::Expr::Function(function) = written else { return Ok(None) };
    let [ast::ObjectNamePart::Identifier(Ident { value: name, .. })] = &function.name.0[..] else { return Ok(None) };
    if name != VARIADIC {
        return Ok(None);
    }
    match &Written::of(function)?.args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] => Ok(Some(array)),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "an argument follows VARIADIC")),
    }
}

/// A call of a function with an array of its last arguments; none if the function has a fixed number of arguments.
fn spread_call(binder: &mut Binder<'_>, name: &str, args: &[FunctionArg]) -> Result<Option<Bound>> {
    let arguments = binder.arguments(args)?;
    let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
    let Some(call) = resolve_spread(name, &types)? else { return Ok(None) };
    let mut values = Vec::with_capacity(arguments.len());
    for (argument, to) in arguments.into_iter().zip(call.arguments.clone()) {
        values.push(binder.coerce(argument, to, CastContext::Implicit)?);
    }
    Ok(Some(Bound { sql_type: call.returns, expr: called(call, values, binder.environment) }))
}

impl Binder<'_> {
    /// A call of a function, an aggregate or a window function.
    pub(super) fn function_call(&mut self, function: &ast::Function) -> Result<Bound> {
        let (schema, name) = object_name(&function.name)?;
        if let FunctionArguments::Subquery(query) = &function.args
            && name == "array"
        {
            return self.array_subquery(query);
        }
        let written = Written::of(function)?;
        if written.is_distinct && written.is_star() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\"")
                .with_hint("count(*) counts all rows; DISTINCT takes values."));
        }
        if name == "count" && written.args.is_empty() {
            let what = "count(*) must be used to call a parameterless aggregate function";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        let is_plain = function.over.is_none() && function.filter.is_none() && !written.is_distinct;
        if schema.is_none()
            && is_plain
            && let Some(bound) = self.special(&name, &written)?
        {
            return Ok(bound);
        }
        let position =
            function.name.0.first().and_then(|part| part.as_ident()).and_then(|part| self.position(part.span));
        if function.over.is_some() {
            return self.window(&name, function, &written).map_err(|error| error.at(position));
        }
        if aggregates().iter().any(|aggregate| aggregate.name == name) {
            return self.aggregate(&name, function, &written).map_err(|error| error.at(position));
        }
        let is_of_order = matches!(&*name, "rank" | "dense_rank" | "percent_rank" | "cume_dist");
        if is_of_order && !function.within_group.is_empty() {
            return self.expr(&hypothetical(&name, function, &written)?).map_err(|error| error.at(position));
        }
        if window_function(&name).is_some() {
            let what = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what).at(position));
        }
        if written.is_distinct || function.filter.is_some() || !function.within_group.is_empty() {
            let arguments = self.arguments(written.args)?;
            self.function(&name, arguments).map_err(|error| error.at(position))?;
            let what = format!("DISTINCT, FILTER and WITHIN GROUP are for aggregates, which {name} is not");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what).at(position));
        }
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(last))) = written.args.last()
            && spread_array(last)?.is_some()
            && let Some(bound) = spread_call(self, &name, written.args).map_err(|error| error.at(position))?
        {
            return Ok(bound);
        }
        let arguments = arguments_of(self, &name, written.args).map_err(|error| error.at(position))?;
        if set_functions().iter().any(|function| function.name == name) {
            return row_function(self, &name, arguments).map_err(|error| error.at(position));
        }
        self.function(&name, arguments).map_err(|error| error.at(position))
    }

    /// A call of a function of rows whose columns stand in the slots from one on.
    pub(super) fn rows_of(&mut self, name: &str, arguments: Vec<Bound>, slot: usize) -> Result<RowsOf> {
        let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
        // Vectors of the catalogue are counted from 0.
        let is_of_vector = name == "generate_subscripts" && types.first().is_some_and(|first| first.is_vector());
        let call = resolve_set_function(if is_of_vector { SUBSCRIPTS_OF_VECTOR } else { name }, &types)?;
        let mut values = Vec::new();
        for (argument, to) in arguments.into_iter().zip(call.arguments.clone()) {
            values.push(self.coerce(argument, to, CastContext::Implicit)?);
        }
        let slots = slot..slot + call.columns.len();
        Ok(RowsOf { call, arguments: values, slots })
    }

    /// The arguments of a call.
    pub(super) fn arguments(&mut self, args: &[FunctionArg]) -> Result<Vec<Bound>> {
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(written)) => {
                    arguments.push(self.expr(spread_array(written)?.unwrap_or(written))?);
                }
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)) => {
                    arguments.push(rows::whole_row(self, table)?);
                }
                FunctionArg::Named { name: Ident { value: name, .. }, .. } => {
                    let what = format!("the argument {name} is given by its name, which is not supported here");
                    return Err(SqlError::unsupported(what, "Give arguments in their order."));
                }
                _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "* can be an argument of count alone")),
            }
        }
        Ok(arguments)
    }

    /// What looks like a function and is built into the language.
    fn special(&mut self, name: &str, written: &Written<'_>) -> Result<Option<Bound>> {
        Ok(Some(match name {
            "coalesce" | "greatest" | "least" => {
                for arg in written.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg
                        && spread_array(arg)?.is_some()
                    {
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"VARIADIC\""));
                    }
                }
                let values = match name {
                    "coalesce" => {
                        let what = "set-returning functions are not allowed in COALESCE";
                        without_row_functions(self, what, |binder| binder.arguments(written.args))?
                    }
                    _ => self.arguments(written.args)?,
                };
                let (values, sql_type) = self.in_common(values, &name.to_uppercase())?;
                let expr = match name {
                    "coalesce" => Expr::Coalesce(values),
                    _ => Expr::Extreme { is_greatest: name == "greatest", values },
                };
                Bound { expr, sql_type }
            }
            "nullif" => {
                let [a, b] = written.args else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two values"));
                };
                let a = self.arguments(std::slice::from_ref(a))?.pop();
                let Some(a) = a else { return Ok(None) };
                computed_once::null_if(self, a, b)?
            }
            "row" => {
                let mut values = Vec::new();
                for argument in written.args {
                    let bound = self.arguments(std::slice::from_ref(argument))?.pop();
                    match (argument, bound) {
                        (
                            FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)),
                            Some(Bound { expr: Expr::Record(columns, _), .. }),
                        ) => values.extend(columns),
                        (_, bound) => values.extend(bound.map(|bound| (bound.sql_type, bound.expr))),
                    }
                }
                Bound { expr: Expr::Record(values, None), sql_type: BaseType::Record.into() }
            }
            "grouping" => grouping(self, written)?,
            ELEMENT => match written.args {
                [
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(target)),
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
                ] => rows::with_element(self, target, value)?,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn aggregate(&mut self, name: &str, function: &ast::Function, written: &Written<'_>) -> Result<Bound> {
        let given = arguments_given(self);
        if std::mem::replace(&mut self.level().is_in_aggregate, true) {
            return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested"));
        }
        let bound = without_windows(self, |binder| {
            let what = "aggregate function calls cannot contain window function calls";
            binder.level().no_window = Some((SqlState::GROUPING_ERROR, what));
            let what = "aggregate function calls cannot contain set-returning function calls";
            without_row_functions(binder, what, |binder| binder.bind_aggregate(name, function, written))
        });
        self.level().is_in_aggregate = false;
        let (aggregate, sql_type) = bound?;
        // One that looks at nothing but rows of the query around this one is an aggregate of that query.
        if is_of_outer(&aggregate) {
            return in_outer(self, given, |binder| binder.aggregate(name, function, written));
        }
        let place = self.level().place;
        let Some(aggregates) = &mut self.level().aggregates else {
            let what = format!("aggregate functions are not allowed in {place}");
            return Err(SqlError::new(SqlState::GROUPING_ERROR, what));
        };
        let known = aggregates.iter().position(|known| *known == aggregate);
        let at = known.unwrap_or_else(|| {
            aggregates.push(aggregate);
            aggregates.len() - 1
        });
        Ok(Bound { expr: Expr::Aggregate(at), sql_type })
    }

    fn bind_aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        written: &Written<'_>,
    ) -> Result<(Aggregate, SqlType)> {
        refuse_within_group(function, written)?;
        let mut arguments = if written.is_star() { Vec::new() } else { self.arguments(written.args)? };
        let mut order = Vec::new();
        for clause in written.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => order.extend(self.order_of(keys)?),
                other => {
                    let what = format!("{other} in a call is not supported");
                    return Err(SqlError::unsupported(what, "There are DISTINCT, ORDER BY and FILTER."));
                }
            }
        }
        for key in &function.within_group {
            let value = self.expr(&key.expr)?;
            let value = self.text_if_unknown(value)?;
            order.push((value.expr.clone(), direction_of(&key.options, value.sql_type)));
            arguments.push(value);
        }
        for (argument, arg) in arguments.iter_mut().zip(written.args) {
            let bound = argument.clone();
            *argument = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(written)) => rows::whole_row_or_null(self, written, bound),
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)) => {
                    let token = AttachedToken::empty();
                    rows::whole_row_or_null(self, &ast::Expr::QualifiedWildcard(table.clone(), token), bound)
                }
                _ => bound,
            };
        }
        let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
        if written.is_distinct {
            types.iter().try_for_each(|sql_type| has_equality(*sql_type))?;
            refuse_other_order(&arguments, &order)?;
        }
        let call = resolve_aggregate(name, &types)?;
        refuse_other_kind(&call, !function.within_group.is_empty())?;
        let mut values = Vec::new();
        for (argument, to) in arguments.into_iter().zip(call.arguments.clone()) {
            values.push(self.coerce(argument, to, CastContext::Implicit)?);
        }
        let filter = match &function.filter {
            Some(filter) => {
                let bound = self.expr(filter)?;
                Some(self.condition(bound, "FILTER")?)
            }
            None => None,
        };
        let sql_type = call.returns;
        Ok((Aggregate { call, arguments: values, is_distinct: written.is_distinct, filter, order }, sql_type))
    }

    /// The expressions of an ORDER BY within a call or a window.
    fn order_of(&mut self, keys: &[ast::OrderByExpr]) -> Result<Vec<(Expr, Direction)>> {
        let mut order = Vec::new();
        for key in keys {
            let value = self.expr(&key.expr)?;
            let value = self.text_if_unknown(value)?;
            order.push((value.expr, direction_of(&key.options, value.sql_type)));
        }
        Ok(order)
    }

    // --- window functions -------------------------------------------------------------------------------------------

    fn window(&mut self, name: &str, function: &ast::Function, written: &Written<'_>) -> Result<Bound> {
        let level = self.level();
        if level.windows.is_none() {
            let what = format!("window functions are not allowed in {}", level.place);
            return Err(match level.no_window {
                Some((state, what)) => SqlError::new(state, what),
                None => SqlError::new(SqlState::WINDOWING_ERROR, what),
            });
        }
        let (call, sql_type) = without_windows(self, |binder| bind_window(binder, name, function, written))?;
        let Some(windows) = &mut self.level().windows else { return Err(internal()) };
        let known = windows.iter().position(|known| *known == call);
        let at = known.unwrap_or_else(|| {
            windows.push(call);
            windows.len() - 1
        });
        Ok(Bound { expr: Expr::Window(at), sql_type })
    }

    fn named_window(&self, name: &str) -> Result<ast::WindowSpec> {
        let windows = self.window_names.last();
        let found = windows.and_then(|windows| windows.iter().find(|(known, _)| known == name));
        found
            .map(|(_, spec)| spec.clone())
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist")))
    }

    /// A window that is based on a named one.
    fn with_base(&self, spec: ast::WindowSpec) -> Result<ast::WindowSpec> {
        let Some(base) = &spec.window_name else { return Ok(spec) };
        let base = self.named_window(&crate::bind::folded(base))?;
        let order_by = if spec.order_by.is_empty() { base.order_by } else { spec.order_by };
        let window_frame = spec.window_frame.or(base.window_frame);
        Ok(ast::WindowSpec { window_name: None, partition_by: base.partition_by, order_by, window_frame })
    }

    fn window_arguments(
        &mut self,
        name: &str,
        function: WindowFunction,
        arguments: Vec<Bound>,
    ) -> Result<(WindowFunction, Vec<Expr>, SqlType)> {
        let expected = match function {
            WindowFunction::Ntile | WindowFunction::FirstValue | WindowFunction::LastValue => 1..=1,
            WindowFunction::NthValue => 2..=2,
            WindowFunction::Lag | WindowFunction::Lead => 1..=3,
            _ => 0..=0,
        };
        let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
        let no_function = || {
            let what = format!("function {name}({}) does not exist", list(&types));
            SqlError::new(SqlState::UNDEFINED_FUNCTION, what)
        };
        if !expected.contains(&arguments.len()) {
            return Err(no_function());
        }
        let returns = match function {
            WindowFunction::PercentRank | WindowFunction::CumeDist => BaseType::Float8.into(),
            WindowFunction::Ntile => SqlType::INT4,
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => SqlType::INT8,
            _ => {
                // The value and what stands in for it are of one type.
                let types: Vec<SqlType> = arguments.iter().step_by(2).map(|argument| argument.sql_type).collect();
                common_type(&types).map_err(|_| no_function())?.bare()
            }
        };
        let mut values = Vec::new();
        for (place, argument) in arguments.into_iter().enumerate() {
            let to = match (&function, place) {
                (WindowFunction::Ntile, 0) => SqlType::INT4,
                (_, 1) => SqlType::INT4,
                _ => returns,
            };
            values.push(self.coerce(argument, to, CastContext::Implicit)?);
        }
        Ok((function, values, returns))
    }

    fn window_frame(
        &mut self,
        written: Option<&ast::WindowFrame>,
        order_by: &[ast::OrderByExpr],
        order: &mut [(Expr, Direction)],
    ) -> Result<WindowFrame> {
        let (start, end, values) = (FrameEnd::First, FrameEnd::Current, [None, None]);
        let Some(written) = written else {
            return Ok(WindowFrame { unit: FrameUnit::Range, start, end, values, exclusion: Exclusion::Nothing });
        };
        let unit = match written.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
        };
        let end_bound = written.end_bound.as_ref().unwrap_or(&ast::WindowFrameBound::CurrentRow);
        use ast::WindowFrameBound::{CurrentRow, Following, Preceding};
        let refused = match (&written.start_bound, end_bound) {
            (Following(None), _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, Preceding(None)) => Some("frame end cannot be UNBOUNDED PRECEDING"),
            (CurrentRow, Preceding(_)) => Some("frame starting from current row cannot have preceding rows"),
            (Following(_), Preceding(_) | CurrentRow) => {
                Some("frame starting from following row cannot have preceding rows")
            }
            _ => None,
        };
        if let Some(what) = refused {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, what));
        }
        let is_distant = |bound: &ast::WindowFrameBound| matches!(bound, Preceding(Some(_)) | Following(Some(_)));
        if unit == FrameUnit::Groups && order.is_empty() {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, "GROUPS mode requires an ORDER BY clause"));
        }
        if unit == FrameUnit::Range && (is_distant(&written.start_bound) || is_distant(end_bound)) {
            return range_frame(self, (&written.start_bound, end_bound), order_by, order);
        }
        let (start, end) = (self.frame_end(&written.start_bound)?, self.frame_end(end_bound)?);
        Ok(WindowFrame { unit, start, end, values, exclusion: Exclusion::Nothing })
    }

    fn frame_end(&mut self, written: &ast::WindowFrameBound) -> Result<FrameEnd> {
        let mut distance = |written: &ast::Expr| {
            let bound = self.expr(written)?;
            self.coerce(bound, SqlType::INT8, CastContext::Implicit)
        };
        Ok(match written {
            ast::WindowFrameBound::CurrentRow => FrameEnd::Current,
            ast::WindowFrameBound::Preceding(None) => FrameEnd::First,
            ast::WindowFrameBound::Following(None) => FrameEnd::Last,
            ast::WindowFrameBound::Preceding(Some(written)) => FrameEnd::Before(distance(written)?),
            ast::WindowFrameBound::Following(Some(written)) => FrameEnd::After(distance(written)?),
        })
    }
}

/// A frame whose ends are so much away by the value of the order. That becomes of a type in which the distance can
/// be added to it.
fn range_frame(
    binder: &mut Binder<'_>,
    bounds: (&ast::WindowFrameBound, &ast::WindowFrameBound),
    order_by: &[ast::OrderByExpr],
    order: &mut [(Expr, Direction)],
) -> Result<WindowFrame> {
    let ([written], [(value, direction)]) = (order_by, order) else {
        let what = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
        return Err(SqlError::new(SqlState::WINDOWING_ERROR, what));
    };
    let bound = binder.expr(&written.expr)?;
    let (of_value, of_distance) = match bound.sql_type.base {
        BaseType::Int2 | BaseType::Int4 | BaseType::Int8 | BaseType::Numeric => (BaseType::Numeric, BaseType::Numeric),
        BaseType::Float4 | BaseType::Float8 => (BaseType::Float8, BaseType::Float8),
        BaseType::Date | BaseType::Timestamp => (BaseType::Timestamp, BaseType::Interval),
        BaseType::TimestampTz => (BaseType::TimestampTz, BaseType::Interval),
        BaseType::Interval => (BaseType::Interval, BaseType::Interval),
        _ => {
            let what = "RANGE with offset PRECEDING/FOLLOWING is not supported for column type";
            let what = format!("{what} {}", bound.sql_type.bare());
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
    };
    *value = binder.coerce(bound, of_value.into(), CastContext::Implicit)?;
    let (value, is_descending) = (value.clone(), direction.is_descending);
    let mut end = |bound: &ast::WindowFrameBound| -> Result<(FrameEnd, Option<Expr>)> {
        let (distance, is_before) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok((FrameEnd::Current, None)),
            ast::WindowFrameBound::Preceding(None) => return Ok((FrameEnd::First, None)),
            ast::WindowFrameBound::Following(None) => return Ok((FrameEnd::Last, None)),
            ast::WindowFrameBound::Preceding(Some(distance)) => (distance, true),
            ast::WindowFrameBound::Following(Some(distance)) => (distance, false),
        };
        let distance = binder.expr(distance)?;
        let distance = binder.coerce(distance, of_distance.into(), CastContext::Implicit)?;
        let symbol = if is_before == is_descending { "+" } else { "-" };
        let from = Bound { expr: value.clone(), sql_type: of_value.into() };
        let by = Bound { expr: distance.clone(), sql_type: of_distance.into() };
        let there = binder.operator(symbol, from, by)?.expr;
        Ok((if is_before { FrameEnd::Before(distance) } else { FrameEnd::After(distance) }, Some(there)))
    };
    let ((start, first), (end, last)) = (end(bounds.0)?, end(bounds.1)?);
    Ok(WindowFrame { unit: FrameUnit::Range, start, end, values: [first, last], exclusion: Exclusion::Nothing })
}

/// A call of a function of rows in an expression: its value, or the row of its values.
///
/// # Errors
/// Those of its arguments, and 0A000 where there can be none.
fn row_function(binder: &mut Binder<'_>, name: &str, arguments: Vec<Bound>) -> Result<Bound> {
    let place = binder.level().place;
    if !PLACES_OF_ROWS.contains(&place) {
        return match binder.function(name, arguments) {
            Err(error) if error.state() == SqlState::UNDEFINED_FUNCTION => {
                let place = if place.is_empty() { "VALUES" } else { place };
                Err(no_row_functions(&format!("set-returning functions are not allowed in {place}")))
            }
            bound => bound,
        };
    }
    let slot = binder.level().frame;
    let mut rows = binder.rows_of(name, arguments, slot)?;
    let level = binder.level();
    let is_same = |known: &&RowsOf| {
        let is_function = std::ptr::eq(known.call.function, rows.call.function);
        is_function && known.call.columns == rows.call.columns && known.arguments == rows.arguments
    };
    // One that is written again is the same, unless it may give other rows.
    let is_once = place != "SELECT" || !rows.arguments.iter().any(Expr::is_volatile);
    match level.row_functions.iter().find(is_same).filter(|_| is_once) {
        Some(known) => rows.slots = known.slots.clone(),
        None => {
            level.frame = rows.slots.end;
            level.row_functions.push(rows.clone());
        }
    }
    let columns: Vec<_> =
        rows.slots.zip(&rows.call.columns).map(|(slot, column)| (column.1, Expr::Slot(slot))).collect();
    let names = rows.call.columns.iter().map(|(name, _)| Arc::from(*name)).collect();
    Ok(match &columns[..] {
        [(sql_type, expr)] => Bound { expr: expr.clone(), sql_type: *sql_type },
        _ => Bound { expr: Expr::Record(columns, Some(names)), sql_type: BaseType::Record.into() },
    })
}

/// Binds something in which there can be no functions of rows.
///
/// # Errors
/// Its own, and 0A000 with this message if there are some.
pub(super) fn without_row_functions<'b, T>(
    binder: &mut Binder<'b>,
    what: &str,
    bind: impl FnOnce(&mut Binder<'b>) -> Result<T>,
) -> Result<T> {
    let before = binder.level().row_functions.len();
    let bound = bind(binder)?;
    if binder.level().row_functions.len() > before { Err(no_row_functions(what)) } else { Ok(bound) }
}

#[cold]
fn no_row_functions(what: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint("Write the function in FROM.")
}

/// GROUPING(...): marked by a constant text that grouping replaces. See `select`.
fn grouping(binder: &mut Binder<'_>, written: &Written<'_>) -> Result<Bound> {
    let given = arguments_given(binder);
    let values = binder.arguments(written.args)?;
    let has = |is_wanted: &dyn Fn(&Expr) -> bool| values.iter().any(|value| value.expr.any(is_wanted));
    if has(&|part| matches!(part, Expr::Outer(_))) && !has(&|part| matches!(part, Expr::Slot(_))) {
        return in_outer(binder, given, |binder| grouping(binder, written));
    }
    if binder.level().is_in_aggregate {
        return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested"));
    }
    if binder.level().aggregates.is_none() {
        let what = format!("grouping operations are not allowed in {}", binder.level().place);
        return Err(SqlError::new(SqlState::GROUPING_ERROR, what));
    }
    let values = values.into_iter().map(|value| (value.sql_type, value.expr)).collect();
    // A row of the groups; `select` makes the number of it.
    let marked = vec![(SqlType::INT4, Expr::Default), (SqlType::UNKNOWN, Expr::Record(values, None))];
    Ok(Bound { expr: Expr::Record(marked, None), sql_type: SqlType::INT4 })
}

/// How many arguments each level is given.
fn arguments_given(binder: &Binder<'_>) -> Vec<usize> {
    binder.levels.iter().map(|level| level.arguments.len()).collect()
}

/// Binds something as a part of the query around this one, to which it is given. The arguments that binding it here
/// has added are taken back.
fn in_outer<'b>(
    binder: &mut Binder<'b>,
    given: Vec<usize>,
    bind: impl FnOnce(&mut Binder<'b>) -> Result<Bound>,
) -> Result<Bound> {
    binder.levels.iter_mut().zip(given).for_each(|(level, count)| level.arguments.truncate(count));
    let Some(inner) = binder.levels.pop().filter(|_| !binder.levels.is_empty()) else { return Err(internal()) };
    let depth = binder.levels.len() - 1;
    let bound = bind(binder);
    binder.levels.push(inner);
    bound.map(|bound| binder.handed_down(bound, depth))
}

/// Binds something in which there can be no window function.
fn without_windows<'b, T>(binder: &mut Binder<'b>, bind: impl FnOnce(&mut Binder<'b>) -> Result<T>) -> Result<T> {
    let level = binder.level();
    let (windows, no_window) = (level.windows.take(), level.no_window);
    let bound = bind(binder);
    let level = binder.level();
    (level.windows, level.no_window) = (windows, no_window);
    bound
}

/// Says why there can be no window function in what is bound now.
fn no_window(binder: &mut Binder<'_>, what: &'static str) {
    binder.level().no_window = Some((SqlState::WINDOWING_ERROR, what));
}

/// Fails if WITHIN GROUP stands with what cannot stand beside it.
fn refuse_within_group(function: &ast::Function, written: &Written<'_>) -> Result<()> {
    if function.within_group.is_empty() {
        return Ok(());
    }
    let has_order = written.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let what = match (written.is_distinct, has_order) {
        (true, _) => "cannot use DISTINCT with WITHIN GROUP",
        (_, true) => "cannot use multiple ORDER BY clauses with WITHIN GROUP",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, what))
}

/// Fails if an aggregate of an ordered set has no WITHIN GROUP, or another one has it.
fn refuse_other_kind(call: &AggregateCall, has_within_group: bool) -> Result<()> {
    let name = call.aggregate.name;
    let what = match (call.aggregate.ordered_arguments > 0, has_within_group) {
        (true, false) => format!("WITHIN GROUP is required for ordered-set aggregate {name}"),
        (false, true) => format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"),
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what))
}

/// Fails if an aggregate of values that differ has an order by something else than they.
fn refuse_other_order(arguments: &[Bound], order: &[(Expr, Direction)]) -> Result<()> {
    let is_argument = |key: &Expr| arguments.iter().any(|argument| argument.expr == *key);
    if order.iter().all(|(key, _)| is_argument(key)) {
        return Ok(());
    }
    let what = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
    Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, what))
}

/// Whether an aggregate looks at values of the query around its own, and at none of its own.
fn is_of_outer(aggregate: &Aggregate) -> bool {
    let parts = || {
        let order = aggregate.order.iter().map(|(value, _)| value);
        aggregate.arguments.iter().chain(&aggregate.filter).chain(order)
    };
    parts().any(|part| part.any(&|part| matches!(part, Expr::Outer(_))))
        && !parts().any(|part| part.any(&|part| matches!(part, Expr::Slot(_))))
}

fn bind_window(
    binder: &mut Binder<'_>,
    name: &str,
    function: &ast::Function,
    written: &Written<'_>,
) -> Result<(WindowCall, SqlType)> {
    let mut spec = match &function.over {
        Some(ast::WindowType::WindowSpec(spec)) => spec.clone(),
        Some(ast::WindowType::NamedWindow(ident)) => binder.named_window(&crate::bind::folded(ident))?,
        None => return Err(internal()),
    };
    let own = take_exclusion(&mut spec);
    let mut spec = binder.with_base(spec)?;
    let exclusion = take_exclusion(&mut spec).or(own).unwrap_or_default();
    no_window(binder, "window function calls cannot be nested");
    let what = "window function calls cannot contain set-returning function calls";
    let arguments = match written.is_star() {
        true => Vec::new(),
        false => without_row_functions(binder, what, |binder| binder.arguments(written.args))?,
    };
    let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
    let (window_function, arguments, sql_type) = match window_function(name) {
        Some(window_function) => binder.window_arguments(name, window_function, arguments)?,
        None if !function.within_group.is_empty() => {
            let what = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        None => {
            let call = resolve_aggregate(name, &types)?;
            let mut values = Vec::new();
            for (argument, to) in arguments.into_iter().zip(call.arguments.clone()) {
                values.push(binder.coerce(argument, to, CastContext::Implicit)?);
            }
            let returns = call.returns;
            (WindowFunction::Aggregate(call), values, returns)
        }
    };
    if written.is_distinct {
        let what = "DISTINCT is not implemented for window functions";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    let filter = match &function.filter {
        Some(filter) => {
            no_window(binder, "window functions are not allowed in FILTER");
            let what = "set-returning functions are not allowed in FILTER";
            let bound = without_row_functions(binder, what, |binder| binder.expr(filter))?;
            Some(binder.condition(bound, "FILTER")?)
        }
        None => None,
    };
    no_window(binder, "window functions are not allowed in window definitions");
    let mut partition = Vec::new();
    for written in &spec.partition_by {
        let bound = binder.expr(written)?;
        partition.push(binder.text_if_unknown(bound)?.expr);
    }
    let mut order = binder.order_of(&spec.order_by)?;
    let frame = binder.window_frame(spec.window_frame.as_ref(), &spec.order_by, &mut order)?;
    let frame = WindowFrame { exclusion, ..frame };
    Ok((WindowCall { function: window_function, arguments, filter, partition, order, frame }, sql_type))
}

/// What a frame leaves out, which stands as the last value of the order, or of the partition.
fn take_exclusion(spec: &mut ast::WindowSpec) -> Option<Exclusion> {
    let read = |written: Option<&ast::Expr>| match written {
        Some(ast::Expr::Identifier(ident)) if ident.quote_style.is_some() => {
            match ident.value.strip_prefix(EXCLUDE)? {
                "CURRENT" => Some(Exclusion::CurrentRow),
                "GROUP" => Some(Exclusion::Group),
                "TIES" => Some(Exclusion::Ties),
                _ => Some(Exclusion::Nothing),
            }
        }
        _ => None,
    };
    if let Some(found) = read(spec.order_by.last().map(|key| &key.expr)) {
        spec.order_by.pop();
        return Some(found);
    }
    let found = read(spec.partition_by.last())?;
    spec.partition_by.pop();
    Some(found)
}

/// An aggregate of where a row would stand among others, as one that counts the rows before it.
fn hypothetical(name: &str, function: &ast::Function, written: &Written<'_>) -> Result<ast::Expr> {
    let keys = &function.within_group;
    if keys.len() != written.args.len() {
        let what = format!("function {name} takes as many arguments as its order has values");
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, what));
    }
    let (mut before, mut equal) = (Vec::new(), Vec::<String>::new());
    for (key, argument) in keys.iter().zip(written.args) {
        let (own, given) = (format!("({})", key.expr), format!("({argument})"));
        let is_descending = key.options.asc == Some(false);
        let sign = if is_descending { '>' } else { '<' };
        let nulls = match key.options.nulls_first.unwrap_or(is_descending) {
            true => format!("{own} IS NULL AND {given} IS NOT NULL"),
            false => format!("{own} IS NOT NULL AND {given} IS NULL"),
        };
        let is_before = format!("(coalesce({own} {sign} {given}, FALSE) OR {nulls})");
        before.push(equal.iter().chain([&is_before]).cloned().collect::<Vec<_>>().join(" AND "));
        equal.push(format!("{own} IS NOT DISTINCT FROM {given}"));
    }
    let before = before.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" OR ");
    let equal = equal.join(" AND ");
    let kept = function.filter.as_ref().map_or_else(|| "TRUE".to_owned(), |filter| format!("({filter})"));
    let ranked = format!("count(*) FILTER (WHERE {kept} AND ({before}))");
    let all = format!("count(*) FILTER (WHERE {kept})");
    let text = match name {
        "rank" => format!("1 + {ranked}"),
        "dense_rank" => {
            let values = keys.iter().map(|key| key.expr.to_string()).collect::<Vec<_>>().join(", ");
            format!("1 + count(DISTINCT ROW({values})) FILTER (WHERE {kept} AND ({before}))")
        }
        "percent_rank" => format!("CASE {all} WHEN 0 THEN 0.0::float8 ELSE {ranked}::float8 / {all} END"),
        _ => format!("(1 + count(*) FILTER (WHERE {kept} AND (({before}) OR ({equal}))))::float8 / (1 + {all})"),
    };
    crate::statement::parse_expression(&text)
}

fn internal() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a function was bound where there can be none")
}

fn window_function(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "row_number" => WindowFunction::RowNumber,
        "rank" => WindowFunction::Rank,
        "dense_rank" => WindowFunction::DenseRank,
        "percent_rank" => WindowFunction::PercentRank,
        "cume_dist" => WindowFunction::CumeDist,
        "ntile" => WindowFunction::Ntile,
        "lag" => WindowFunction::Lag,
        "lead" => WindowFunction::Lead,
        "first_value" => WindowFunction::FirstValue,
        "last_value" => WindowFunction::LastValue,
        "nth_value" => WindowFunction::NthValue,
        _ => return None,
    })
}
