//! GROUP BY: its expressions, and the sets of them that ROLLUP, CUBE and GROUPING SETS make.

use std::collections::HashSet;

use sqlparser::ast::{self, GroupByExpr, GroupByWithModifier};

use crate::bind::query::output_place;
use crate::bind::select::Outputs;
use crate::bind::types::has_equality;
use crate::bind::{Binder, folded};
use crate::error::{Result, SqlError, SqlState};
use crate::known_words::DISTINCT;
use crate::plan::expression::Expr;

/// The most sets of CUBE.
const SETS_MAX: usize = 4_096;

/// Sets of groups, by their places.
type Sets = Vec<Vec<usize>>;

impl Binder<'_> {
    /// The expressions of GROUP BY, and the sets of them if there is more than one.
    pub(super) fn groups(&mut self, written: &GroupByExpr, outputs: &Outputs) -> Result<(Vec<Expr>, Option<Sets>)> {
        let GroupByExpr::Expressions(written, modifiers) = written else {
            return Err(SqlError::unsupported("GROUP BY ALL is not supported", "Name the expressions."));
        };
        if written.is_empty() && modifiers.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut groups = Vec::new();
        // Sets of each element; those of all are their products.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut is_plain = modifiers.is_empty();
        let is_mark = |element: &ast::Expr| matches!(element, ast::Expr::Identifier(ident) if ident.value == DISTINCT);
        let is_distinct = written.first().is_some_and(is_mark);
        for element in &written[usize::from(is_distinct)..] {
            let choices = match sets_of(self, element, outputs, &mut groups)? {
                Some(choices) => choices,
                None => vec![vec![self.group(element, outputs, &mut groups)?]],
            };
            is_plain &= matches!(&choices[..], [one] if one.len() == 1);
            if sets.len().saturating_mul(choices.len()) > SETS_MAX {
                return Err(too_many_sets());
            }
            sets = sets
                .iter()
                .flat_map(|set| choices.iter().map(move |choice| [&set[..], &choice[..]].concat()))
                .collect();
        }
        match &modifiers[..] {
            [] => {}
            [GroupByWithModifier::Rollup] => {
                let all = sets.pop().unwrap_or_default();
                sets = (0..=all.len()).rev().map(|end| all[..end].to_vec()).collect();
            }
            [GroupByWithModifier::Cube] => {
                let parts: Vec<Vec<usize>> =
                    sets.pop().unwrap_or_default().into_iter().map(|part| vec![part]).collect();
                sets = cube(&parts)?;
            }
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "GROUP BY takes ROLLUP, CUBE and GROUPING SETS")),
        }
        // An expression that several elements have is in a set once.
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        if is_distinct {
            let mut known = HashSet::new();
            sets.retain(|set| known.insert(set.clone()));
        }
        Ok((groups, (!is_plain).then_some(sets)))
    }

    fn group_parts(
        &mut self,
        parts: &[Vec<ast::Expr>],
        outputs: &Outputs,
        groups: &mut Vec<Expr>,
    ) -> Result<Vec<Vec<usize>>> {
        let mut all = Vec::new();
        for part in parts {
            let places = part.iter().map(|element| self.group(element, outputs, groups));
            all.push(places.collect::<Result<Vec<_>>>()?);
        }
        Ok(all)
    }

    /// The place of an expression among those of GROUP BY.
    fn group(&mut self, written: &ast::Expr, outputs: &Outputs, groups: &mut Vec<Expr>) -> Result<usize> {
        let mut inner = written;
        while let ast::Expr::Nested(nested) = inner {
            inner = nested;
        }
        let output = match inner {
            // A column of a table is meant before an output of the same name.
            ast::Expr::Identifier(ident) => match self.column(std::slice::from_ref(ident)) {
                Ok(_) => None,
                Err(error) => match output_place("GROUP BY", inner, &outputs.columns)? {
                    Some(place) => Some(place),
                    None => return Err(error),
                },
            },
            other => output_place("GROUP BY", other, &outputs.columns)?,
        };
        let (expr, sql_type) = match output {
            Some(place) => (outputs.exprs[place].clone(), outputs.columns[place].sql_type),
            None => {
                let aggregates = self.level().aggregates.take();
                let bound = self.expr(inner);
                self.level().aggregates = aggregates;
                let bound = bound?;
                let bound = self.text_if_unknown(bound)?;
                (bound.expr, bound.sql_type)
            }
        };
        has_equality(sql_type)?;
        if expr.any(&|part| matches!(part, Expr::Window(_))) {
            let what = "window functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, what));
        }
        if expr.any(&|part| matches!(part, Expr::Aggregate(_))) {
            let what = "aggregate functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, what));
        }
        let known = groups.iter().position(|known| *known == expr);
        Ok(known.unwrap_or_else(|| {
            groups.push(expr);
            groups.len() - 1
        }))
    }
}

/// The sets of an element of GROUP BY, or of GROUPING SETS within another; none of an expression.
fn sets_of(
    binder: &mut Binder<'_>,
    element: &ast::Expr,
    outputs: &Outputs,
    groups: &mut Vec<Expr>,
) -> Result<Option<Sets>> {
    binder.deeper(|binder| {
        let (word, parts) = match element {
            ast::Expr::Rollup(parts) => ("rollup", parts.clone()),
            ast::Expr::Cube(parts) => ("cube", parts.clone()),
            ast::Expr::GroupingSets(elements) => {
                let mut sets = Vec::new();
                for element in elements {
                    let within = match &element[..] {
                        [one] => sets_of(binder, one, outputs, groups)?,
                        _ => None,
                    };
                    sets.extend(match within {
                        Some(within) => within,
                        None => binder.group_parts(std::slice::from_ref(element), outputs, groups)?,
                    });
                    if sets.len() > SETS_MAX {
                        return Err(too_many_sets());
                    }
                }
                return Ok(Some(sets));
            }
            // A row of expressions is all of them.
            ast::Expr::Tuple(parts) => {
                return binder.group_parts(std::slice::from_ref(parts), outputs, groups).map(Some);
            }
            // Within others, the parser takes them for calls.
            ast::Expr::Function(call) => match sets_as_call(call) {
                Some(found) => found,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if parts.iter().any(Vec::is_empty) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{word} takes expressions")));
        }
        let parts = binder.group_parts(&parts, outputs, groups)?;
        Ok(Some(match word {
            "rollup" => (0..=parts.len()).rev().map(|end| parts[..end].concat()).collect(),
            _ => cube(&parts)?,
        }))
    })
}

/// ROLLUP or CUBE, and its parts, of what looks like a call.
fn sets_as_call(call: &ast::Function) -> Option<(&'static str, Vec<Vec<ast::Expr>>)> {
    let [name] = &call.name.0[..] else { return None };
    let word = match name.as_ident().filter(|name| name.quote_style.is_none()).map(folded)?.as_str() {
        "rollup" => "rollup",
        "cube" => "cube",
        _ => return None,
    };
    let ast::FunctionArguments::List(list) = &call.args else { return None };
    let part = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Tuple(parts))) => Some(parts.clone()),
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(part)) => Some(vec![part.clone()]),
        _ => None,
    };
    Some((word, list.args.iter().map(part).collect::<Option<_>>()?))
}

#[cold]
fn too_many_sets() -> SqlError {
    let what = format!("too many grouping sets present (maximum {SETS_MAX})");
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, what)
}

/// All sub-sets of parts.
fn cube(parts: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    if parts.len() > 12 {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "CUBE is limited to 12 elements"));
    }
    let all = 1usize << parts.len();
    let set = |bits: usize| {
        let chosen = parts.iter().enumerate().filter(|(at, _)| bits & (1 << (parts.len() - 1 - at)) != 0);
        chosen.flat_map(|(_, part)| part.iter().copied()).collect()
    };
    Ok((0..all).rev().map(set).collect())
}
