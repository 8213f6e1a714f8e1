//! Values of domains. Within expressions they are values of the type that the domain is made of; where they become
//! values of the domain, its conditions are looked at.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::{Binder, Bound};
use crate::error::Result;
use crate::plan::expression::{DomainCheck, DomainChecks, Expr};
use crate::types::SqlType;
use crate::types::cast::CastContext;
use crate::types::user::UserType;

/// The name by which the condition of a domain knows the value.
const VALUE: &str = "value";

impl Binder<'_> {
    /// A value as one of a domain.
    pub(super) fn domain_value(&mut self, bound: Bound, to: SqlType, context: CastContext) -> Result<Expr> {
        // A literal is read as the type reads it: what is too long is refused.
        let context = if bound.sql_type == SqlType::UNKNOWN { CastContext::Assignment } else { context };
        let value = self.coerce(bound, to.without_domain(), context)?;
        let mut checks = DomainChecks::default();
        self.add_checks(to, &mut checks)?;
        Ok(Expr::Domain { value: Box::new(value), checks: Arc::new(checks) })
    }

    /// Adds the conditions of a domain, after those of the one that it is made of.
    fn add_checks(&self, sql_type: SqlType, checks: &mut DomainChecks) -> Result<()> {
        let Some((user, domain)) = domain_of(sql_type) else { return Ok(()) };
        self.add_checks(domain.base, checks)?;
        if domain.is_not_null && checks.not_null.is_none() {
            checks.not_null = Some(user.shown.as_str().into());
        }
        for (name, text) in &domain.checks {
            let written = crate::statement::parse_expression(text)?;
            let mut binder = Binder::new(self.names, self.environment, text, &[]);
            let condition = binder.condition_of_domain(&written, sql_type)?;
            checks.checks.push(DomainCheck {
                domain: user.shown.as_str().into(),
                name: name.as_str().into(),
                condition,
            });
        }
        Ok(())
    }

    /// Binds a condition of a domain of this type, or one that is made of this type, in a binder of its own.
    ///
    /// # Errors
    /// Those of its names and types.
    pub fn condition_of_domain(&mut self, written: &ast::Expr, sql_type: SqlType) -> Result<Expr> {
        self.add_column("", VALUE, sql_type.without_domain());
        let bound = self.expr(written)?;
        self.condition(bound, "CHECK")
    }

    /// Binds the value that the row of one column is, as one of another type.
    ///
    /// # Errors
    /// Those of the cast.
    pub fn value_as(&mut self, from: SqlType, to: SqlType) -> Result<Expr> {
        let value = Bound { expr: Expr::Slot(0), sql_type: from.without_domain() };
        self.coerce(value, to, CastContext::Assignment)
    }
}

fn domain_of(sql_type: SqlType) -> Option<(UserType, &'static crate::types::user::Domain)> {
    let user = sql_type.base.user_type().filter(|_| !sql_type.is_array)?;
    Some((user, user.domain()?))
}

/// Whether a column of this type refuses NULL by its domain.
pub(super) fn refuses_null(sql_type: SqlType) -> bool {
    domain_of(sql_type).is_some_and(|(_, domain)| domain.is_not_null || refuses_null(domain.base))
}

/// The text of the default that a column has by its domain.
pub(super) fn default_of(sql_type: SqlType) -> Option<&'static str> {
    let (_, domain) = domain_of(sql_type)?;
    domain.default.as_deref().or_else(|| default_of(domain.base))
}
