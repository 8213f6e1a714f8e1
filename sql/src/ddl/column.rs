//! Columns of CREATE TABLE and ADD COLUMN.

use quipu_rows::{Column, Identity};
use sqlparser::ast::{ColumnDef, ColumnOption, Expr, GeneratedAs, GeneratedExpressionMode, SequenceOptions};

use crate::bind::system_columns::is_system_column;
use crate::catalogue::{Sequence, column_type};
use crate::ddl::constraint::{self, Declared, Parts, Unique};
use crate::ddl::expression::ColumnDefault;
use crate::ddl::{Ddl, column_types, names, sequence, types};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{BaseType, SqlType};

/// A column as a statement declares it.
pub(super) struct NewColumn {
    pub(super) column: Column,
    pub(super) sql_type: SqlType,
    /// The expression of its default.
    pub(super) default: Option<Expr>,
    /// The first number of an identity column.
    pub(super) start: Option<i64>,
    /// The sequence of its own that an identity column has, and whether it always has numbers of that.
    pub(super) numbers: Option<(Sequence, bool)>,
    /// Whether it was declared by `serial`.
    pub(super) is_serial: bool,
}

/// What the options of an identity column say: its first number, or, if its numbers do not follow each other up to the
/// last one of the type, a sequence of its own.
///
/// # Errors
/// 22023 if they do not go together, or the type has no such numbers.
pub(super) fn numbers_of(options: &[SequenceOptions], sql_type: SqlType) -> Result<(Option<i64>, Option<Sequence>)> {
    let base = sql_type.without_domain();
    if !matches!(base.base, BaseType::Int2 | BaseType::Int4 | BaseType::Int8) || base.is_array {
        let what = "identity column type must be smallint, integer, or bigint";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    let own = sequence::with_options(Sequence::new("", "", base), options)?;
    Ok(if own.counts_up() { (Some(own.start).filter(|start| *start != 1), None) } else { (None, Some(own)) })
}

/// Reads a column, and adds the constraints that stand with it to `parts`.
pub(super) fn read(ddl: &Ddl<'_>, def: &ColumnDef, parts: &mut Parts) -> Result<NewColumn> {
    let name = folded(&def.name);
    if is_system_column(&name) {
        let what = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, what));
    }
    let serial = column_types::serial(&def.data_type);
    let (sql_type, data_type) = column_types::of_column(&def.data_type, ddl)?;
    types::rely_on(ddl, sql_type)?;
    let catalogue = ddl.catalogue()?;
    let sql_text = column_type::to_keep(sql_type, catalogue.user_types());
    let mut column = Column { sql_type: sql_text, ..Column::new(name.clone(), data_type) };
    let (mut new, mut numbers) = ((None, None), None);
    if serial.is_some() {
        column = column.identity(Identity::ByDefault);
    }
    for option in &def.options {
        let given = option.name.as_ref().map(folded);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => column.not_null = true,
            ColumnOption::Default(expression) => {
                match sequence::with_whole_name(ddl, ColumnDefault::of(expression, sql_type, ddl))? {
                    ColumnDefault::None => {}
                    ColumnDefault::Constant(text) => column.default = Some(text),
                    ColumnDefault::Computed(text) => column.sql_default = Some(text),
                }
                new.0 = Some(expression.clone());
            }
            ColumnOption::PrimaryKey(key) => {
                let deferral = constraint::deferral(key.characteristics.as_ref())?;
                parts.add(given, Declared::PrimaryKey(vec![name.clone()], deferral))?;
            }
            ColumnOption::Unique(unique) => {
                parts.add(given, Declared::Unique(Unique::of(vec![name.clone()], unique)?))?;
            }
            ColumnOption::Check(check) => {
                let given = given.or(check.name.as_ref().map(folded));
                parts.add(given, Declared::Check((*check.expr).clone(), Some(name.clone())))?;
            }
            ColumnOption::ForeignKey(foreign_key) => {
                parts.add(given, Declared::ForeignKey(vec![name.clone()], Box::new(foreign_key.clone())))?;
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                let identity = match generated_as {
                    GeneratedAs::Always => Identity::Always,
                    _ => Identity::ByDefault,
                };
                let (start, own) = numbers_of(sequence_options.as_deref().unwrap_or_default(), sql_type)?;
                new.1 = start;
                match own {
                    None => column = column.identity(identity),
                    Some(own) => {
                        column.not_null = true;
                        numbers = Some((own, identity == Identity::Always));
                    }
                }
            }
            ColumnOption::Generated { generation_expr: Some(expression), generation_expr_mode, .. } => {
                if *generation_expr_mode != Some(GeneratedExpressionMode::Stored) {
                    let what = format!("column \"{name}\" is generated, and does not say that it is STORED");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, what).with_hint("Write (expression) STORED."));
                }
                column.generated = Some(expression.to_string());
            }
            ColumnOption::Collation(name) => column.sql_collation = names::collation(name, sql_type)?,
            ColumnOption::Comment(_) => {}
            other => {
                let what = format!("not supported for column \"{name}\": {other}");
                return Err(SqlError::unsupported(what, "Leave it out."));
            }
        }
    }
    let is_identity = column.identity.is_some() || numbers.is_some();
    if is_identity && (column.default.is_some() || column.sql_default.is_some()) {
        let what = format!("both default and identity specified for column \"{name}\"");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    }
    Ok(NewColumn { column, sql_type, default: new.0, start: new.1, numbers, is_serial: serial.is_some() })
}
