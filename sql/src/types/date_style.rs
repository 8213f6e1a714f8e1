//! The parameters `DateStyle`, the form in which dates are written and the order of their parts in those that are read,
//! and `IntervalStyle`, the form in which intervals are written.

use std::fmt;

use crate::error::{Result, SqlError, SqlState};

/// How intervals are written: the parameter `IntervalStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs`
    Verbose,
    /// `+1-2 -3 +4:05:06`
    Standard,
    /// `P1Y2M-3DT4H5M6S`
    Iso,
}

impl IntervalStyle {
    /// That of a value of the parameter.
    pub fn of_setting(value: &str) -> IntervalStyle {
        match value {
            "postgres_verbose" => IntervalStyle::Verbose,
            "sql_standard" => IntervalStyle::Standard,
            "iso_8601" => IntervalStyle::Iso,
            _ => IntervalStyle::Postgres,
        }
    }
}

/// The value of the parameter `DateStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateStyle {
    /// How dates are written.
    pub form: Form,
    /// The order of their fields.
    pub order: Order,
}

/// How dates are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `2024-01-02 03:04:05+01`
    #[default]
    Iso,
    /// `2024-01-02T03:04:05+01:00`: in JSON, not by the parameter.
    Xsd,
    /// `Tue Jan 02 03:04:05 2024 CET`
    Postgres,
    /// `01/02/2024 03:04:05 CET`
    Sql,
    /// `02.01.2024 03:04:05 CET`
    German,
}

/// The order of the fields of a date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    /// `02/01/2024` is of February.
    Month,
    /// It is of January.
    Day,
    /// The year comes first in what is read; what is written is as with the month first.
    Year,
}

impl DateStyle {
    /// Dates as JSON has them.
    pub const JSON: DateStyle = DateStyle { form: Form::Xsd, order: Order::Month };

    /// What words set, one or two of them; what they do not say stays as it is.
    ///
    /// # Errors
    /// 22023 for another word, and for two forms or orders.
    pub fn parse(text: &str, before: DateStyle) -> Result<DateStyle> {
        let refused = |detail: String| {
            let what = format!("invalid value for parameter \"DateStyle\": \"{text}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what).with_detail(detail)
        };
        let conflict = || refused("Conflicting \"datestyle\" specifications.".to_owned());
        let (mut form, mut order) = (None, None);
        for word in text.split(',').map(|word| word.trim().to_ascii_lowercase()) {
            let (told, placed) = match &*word {
                "" if text.trim().is_empty() => (None, None),
                "iso" => (Some(Form::Iso), None),
                "sql" => (Some(Form::Sql), None),
                word if word.starts_with("postgres") => (Some(Form::Postgres), None),
                word if word.starts_with("german") => (Some(Form::German), None),
                "mdy" | "us" => (None, Some(Order::Month)),
                word if word.starts_with("noneuro") => (None, Some(Order::Month)),
                "dmy" => (None, Some(Order::Day)),
                word if word.starts_with("euro") => (None, Some(Order::Day)),
                "ymd" => (None, Some(Order::Year)),
                "default" => {
                    form = form.or(Some(Form::Iso));
                    order = order.or(Some(Order::Month));
                    continue;
                }
                word => return Err(refused(format!("Unrecognized key word: \"{word}\"."))),
            };
            if form.is_some() && told.is_some() && form != told
                || order.is_some() && placed.is_some() && order != placed
            {
                return Err(conflict());
            }
            form = told.or(form);
            order = placed.or(order);
        }
        // The style of a country has its order.
        let order = order.unwrap_or(if form == Some(Form::German) { Order::Day } else { before.order });
        Ok(DateStyle { form: form.unwrap_or(before.form), order })
    }
}

/// As SHOW has it: `ISO, MDY`.
impl fmt::Display for DateStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Iso | Form::Xsd => "ISO",
            Form::Postgres => "Postgres",
            Form::Sql => "SQL",
            Form::German => "German",
        };
        let order = match self.order {
            Order::Month => "MDY",
            Order::Day => "DMY",
            Order::Year => "YMD",
        };
        write!(f, "{form}, {order}")
    }
}
