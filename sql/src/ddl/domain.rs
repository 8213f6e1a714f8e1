//! CREATE and ALTER DOMAIN.

use std::sync::Arc;

use sqlparser::ast::{Expr, Ident};

use crate::catalogue::{Catalogue, ObjectNumber, TypeKind, column_type};
use crate::ddl::{Ddl, column_types, names};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::strings::quote_identifier;
use crate::type_change::{DomainConstraint, TypeChange};
use crate::types::SqlType;

/// Names and texts of the conditions of a domain, by name.
type Checks = Vec<(String, String)>;

/// What a new domain is.
pub(super) fn kind(ddl: &Ddl<'_>, name: &str, change: &TypeChange) -> Result<Option<TypeKind>> {
    let TypeChange::CreateDomain { base, default, constraints } = change else { return Ok(None) };
    let (base, _) = column_types::of_column(base, ddl)?;
    super::types::rely_on(ddl, base)?;
    let mut checks = Checks::new();
    let (mut says_not_null, mut says_null) = (false, false);
    for constraint in constraints {
        match constraint {
            DomainConstraint::NotNull => says_not_null = true,
            DomainConstraint::Null => says_null = true,
            DomainConstraint::Check(given, condition) => {
                add_check(ddl, &mut checks, name, base, (given.as_ref(), condition))?;
            }
        }
    }
    if says_null && says_not_null {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting NULL/NOT NULL constraints"));
    }
    let default = default.as_ref().map(|default| default_text(ddl, default, base)).transpose()?;
    let base = column_type::written(base, ddl.catalogue()?.user_types());
    Ok(Some(TypeKind::Domain { base, not_null: says_not_null, default, checks }))
}

/// The text of a default, which must be a value of the type.
fn default_text(ddl: &Ddl<'_>, default: &Expr, base: SqlType) -> Result<String> {
    if !ddl.context.evaluator.is_volatile(default) {
        ddl.context.evaluator.evaluate(default, base, None)?;
    }
    Ok(default.to_string())
}

fn add_check(
    ddl: &Ddl<'_>,
    checks: &mut Checks,
    domain: &str,
    base: SqlType,
    (given, condition): (Option<&Ident>, &Expr),
) -> Result<()> {
    ddl.context.evaluator.bind_condition(condition, base)?;
    let is_taken = |name: &str| checks.iter().any(|(known, _)| known == name);
    let name = match given.map(folded) {
        Some(name) if is_taken(&name) => {
            let what = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, what));
        }
        Some(name) => name,
        None => names::choose(domain, "", "check", is_taken),
    };
    checks.push((name, condition.to_string()));
    checks.sort();
    Ok(())
}

/// Changes what a domain is. Returns whether the values that there are must be looked at.
pub(super) fn alter(ddl: &Ddl<'_>, name: &str, kind: &mut TypeKind, change: &TypeChange) -> Result<bool> {
    let TypeKind::Domain { base, not_null, default, checks } = kind else {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{name} is not a domain")));
    };
    let sql_type = column_type::parse_among(base, ddl.catalogue()?.user_types()).unwrap_or(SqlType::TEXT);
    let missing = |constraint: &str| {
        let what = format!("constraint \"{constraint}\" of domain \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, what)
    };
    match change {
        TypeChange::SetDefault(written) => {
            *default = written.as_ref().map(|written| default_text(ddl, written, sql_type)).transpose()?;
        }
        TypeChange::SetNotNull(is_not_null) => {
            let is_new = *is_not_null && !*not_null;
            *not_null = *is_not_null;
            return Ok(is_new);
        }
        TypeChange::AddConstraint(DomainConstraint::Check(given, condition), is_not_valid) => {
            add_check(ddl, checks, name, sql_type, (given.as_ref(), condition))?;
            return Ok(!is_not_valid);
        }
        TypeChange::AddConstraint(..) => {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "unrecognized constraint subtype: NOT NULL")
                .with_hint("Use ALTER DOMAIN ... SET NOT NULL."));
        }
        TypeChange::DropConstraint(ident, if_exists) => {
            let constraint = folded(ident);
            let before = checks.len();
            checks.retain(|(known, _)| *known != constraint);
            if checks.len() == before {
                if !if_exists {
                    return Err(missing(&constraint));
                }
                ddl.notice(format!("constraint \"{constraint}\" of domain \"{name}\" does not exist, skipping"));
            }
        }
        TypeChange::RenameConstraint(from, to) => {
            let (from, to) = (folded(from), folded(to));
            if checks.iter().any(|(known, _)| *known == to) {
                let what = format!("constraint \"{to}\" for domain {name} already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, what));
            }
            let found = checks.iter_mut().find(|(known, _)| *known == from).ok_or_else(|| missing(&from))?;
            found.0 = to;
            checks.sort();
        }
        TypeChange::ValidateConstraint(ident) => {
            let constraint = folded(ident);
            if !checks.iter().any(|(known, _)| *known == constraint) {
                return Err(missing(&constraint));
            }
            return Ok(true);
        }
        _ => {}
    }
    Ok(false)
}

/// Fails if a column of a domain has a value that this no longer takes.
pub(super) fn look_at_values(ddl: &Ddl<'_>, number: ObjectNumber) -> Result<()> {
    let catalogue = ddl.catalogue()?;
    for table in catalogue.tables().values() {
        for (column, known) in table.declared.columns.iter().zip(&table.columns) {
            if !is_made_of(&catalogue, column_type::user_number(column), number) {
                continue;
            }
            let Some(user) = known.sql_type.base.user_type() else { continue };
            let text = format!(
                "(SELECT count({}::{}.{}) FROM {}.{})",
                quote_identifier(&column.name),
                quote_identifier(&user.schema),
                quote_identifier(&user.name),
                quote_identifier(&table.schema),
                quote_identifier(&table.name)
            );
            let count = crate::statement::parse_expression(&text)?;
            let Err(error) = ddl.context.evaluator.evaluate(&count, SqlType::INT8, None) else { continue };
            let (column, table) = (&column.name, &table.name);
            return Err(match error.state() {
                SqlState::NOT_NULL_VIOLATION => {
                    let what = format!("column \"{column}\" of table \"{table}\" contains null values");
                    SqlError::new(SqlState::NOT_NULL_VIOLATION, what).in_table(table).in_column(column)
                }
                SqlState::CHECK_VIOLATION => {
                    let what = format!(
                        "column \"{column}\" of table \"{table}\" contains values that violate the new constraint"
                    );
                    SqlError::new(SqlState::CHECK_VIOLATION, what).in_table(table).in_column(column)
                }
                _ => error,
            });
        }
    }
    Ok(())
}

/// Whether a type is another one, or a domain that is made of that.
fn is_made_of(catalogue: &Arc<Catalogue>, own: Option<ObjectNumber>, number: ObjectNumber) -> bool {
    let mut next = own;
    while let Some(own) = next {
        if own == number {
            return true;
        }
        next = match catalogue.types().get(&own).map(|known| &known.kind) {
            Some(TypeKind::Domain { base, .. }) => column_type::number_of(base),
            _ => None,
        };
    }
    false
}
