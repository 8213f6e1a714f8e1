//! The session of tests: in Berlin, at a known moment, with a few objects in the catalogue.

use jiff::tz::TimeZone;
use quipu_rows::Timestamp;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::types::BaseType;
use crate::types::date_style::DateStyle;
use crate::types::datum::Datum;

/// A session that answers the same each time.
pub(crate) struct Fixed {
    zone: TimeZone,
    now: Timestamp,
}

impl Fixed {
    /// A session in Berlin, on 2024-03-10 at 12:34:56.789012 UTC.
    pub fn new() -> Fixed {
        let zone = TimeZone::get("Europe/Berlin").expect("the zone is known");
        let now = Timestamp::parse("2024-03-10T12:34:56.789012Z").expect("a moment");
        Fixed { zone, now }
    }
}

impl Environment for Fixed {
    fn transaction_time(&self) -> Timestamp {
        self.now
    }

    fn statement_time(&self) -> Timestamp {
        self.now
    }

    fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    fn date_style(&self) -> DateStyle {
        DateStyle::default()
    }

    fn setting(&self, name: &str) -> Option<String> {
        (name == "TimeZone").then(|| "Europe/Berlin".to_owned())
    }

    fn user(&self) -> &str {
        "postgres"
    }

    fn database(&self) -> &str {
        "postgres"
    }

    fn process(&self) -> i32 {
        7
    }

    fn object_number(&self, kind: BaseType, name: &str) -> Result<u32> {
        if kind == BaseType::RegType
            && let Some(base) = BaseType::all().find(|base| base.catalogue_name() == name)
        {
            return Ok(crate::SqlType::from(base).oid());
        }
        match name {
            "pg_class" => Ok(1259),
            _ => Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))),
        }
    }

    fn object_name(&self, kind: BaseType, number: u32) -> Option<String> {
        if kind == BaseType::RegType {
            return crate::SqlType::of_oid(number).map(|sql_type| sql_type.to_string());
        }
        (number == 1259).then(|| "pg_class".to_owned())
    }

    fn ask_catalogue(&self, function: &str, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::text(function))
    }

    fn catalogue_rows(&self, _table: &str) -> Result<Vec<Vec<Datum>>> {
        Ok(Vec::new())
    }

    fn ask_rows(&self, _: &str, _: &[Datum]) -> Result<Vec<Vec<Datum>>> {
        Ok(Vec::new())
    }

    fn sequence(&self, _: &str, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::Int(1))
    }
}
