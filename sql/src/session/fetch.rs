//! The steps of a cursor that goes forwards and backwards.

use sqlparser::ast;

use crate::error::{Result, SqlError, SqlState};

/// Where FETCH goes from the row that a cursor stands on.
pub(super) enum Step {
    /// So many rows further, or to the end.
    Forward(Option<u64>),
    /// So many rows back, or to the start.
    Backward(Option<u64>),
    /// To the row of this number, from the end if it is negative.
    To(i64),
    /// So many rows away, of which the last one is given.
    By(i64),
}

/// What FETCH says.
pub(super) fn step_of(direction: &ast::FetchDirection) -> Result<Step> {
    use ast::FetchDirection;
    let number = |limit: &ast::ValueWithSpan| match &limit.value {
        ast::Value::Number(digits, _) => digits.parse::<i64>().map_err(|_| ()),
        _ => Err(()),
    };
    let refused = |()| SqlError::new(SqlState::SYNTAX_ERROR, "FETCH takes a number of rows");
    let several = |limit: &ast::ValueWithSpan, is_forward: bool| -> Result<Step> {
        let count = number(limit).map_err(refused)?;
        let rows = Some(count.unsigned_abs());
        Ok(if count == 0 || (count > 0) == is_forward { Step::Forward(rows) } else { Step::Backward(rows) })
    };
    Ok(match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Step::Forward(Some(1)),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => several(limit, true)?,
        FetchDirection::All | FetchDirection::ForwardAll => Step::Forward(None),
        FetchDirection::Prior | FetchDirection::Backward { limit: None } => Step::Backward(Some(1)),
        FetchDirection::Backward { limit: Some(limit) } => several(limit, false)?,
        FetchDirection::BackwardAll => Step::Backward(None),
        FetchDirection::First => Step::To(1),
        FetchDirection::Last => Step::To(-1),
        FetchDirection::Absolute { limit } => Step::To(number(limit).map_err(refused)?),
        FetchDirection::Relative { limit } => Step::By(number(limit).map_err(refused)?),
    })
}

impl Step {
    /// The rows that it gives, of a cursor that stands on one of `size`; the first row has the number 1 in `place`.
    pub(super) fn take(&self, size: usize, place: &mut usize) -> Vec<usize> {
        let one = |place: usize| if (1..=size).contains(&place) { vec![place - 1] } else { Vec::new() };
        let (from, rows) = match *self {
            Step::Forward(Some(0)) => return one(*place),
            Step::Forward(rows) => {
                let end = rows.map_or(size + 1, |rows| place.saturating_add(rows as usize).min(size + 1));
                let given = (*place..end.min(size)).collect();
                *place = end;
                return given;
            }
            Step::Backward(rows) => {
                let end = rows.map_or(0, |rows| place.saturating_sub(rows as usize));
                let given = (end.max(1)..*place).rev().map(|place| place - 1).collect();
                *place = end;
                return given;
            }
            Step::To(row) if row < 0 => (size as i64 + 1, row),
            Step::To(row) => (0, row),
            Step::By(rows) => (*place as i64, rows),
        };
        *place = from.saturating_add(rows).clamp(0, size as i64 + 1) as usize;
        one(*place)
    }
}
