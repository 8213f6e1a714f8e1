//! Rows that views refuse: WITH CHECK OPTION.

use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Context;
use crate::execute::evaluate::holds;
use crate::execute::key_locks::Written;
use crate::plan::change::Target;
use crate::types::datum::Datum;
use crate::types::text::to_string;

/// The longest text of a value in an error, in bytes.
const SHOWN_MAX: usize = 64;

/// Fails if a row that was written through a view is not one that the view may have.
pub(super) fn refuse_unseen(target: &Target, table: &Written<'_>, row: &[Datum], context: &Context<'_>) -> Result<()> {
    for check in &target.checks {
        if !holds(&check.condition, row, context)? {
            let what = format!("new row violates check option for view \"{}\"", check.view);
            let error = SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, what);
            return Err(error.with_detail(format!("Failing row contains ({}).", shown(target, table, row, context))));
        }
    }
    Ok(())
}

fn shown(target: &Target, table: &Written<'_>, row: &[Datum], context: &Context<'_>) -> String {
    let columns = table.schema().columns.iter().zip(row).zip(target.types.iter());
    let values = columns.filter(|((column, _), _)| !column.hidden).map(|((_, value), sql_type)| {
        let mut text = match value {
            Datum::Null => "null".to_owned(),
            value => to_string(value, *sql_type, context.environment).unwrap_or_default(),
        };
        if text.len() > SHOWN_MAX {
            text.truncate(text.floor_char_boundary(SHOWN_MAX));
            text.push_str("...");
        }
        text
    });
    values.collect::<Vec<_>>().join(", ")
}
