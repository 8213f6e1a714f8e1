//! The server's log: lines with time and level, to standard error or to a file.
//!
//! Every line is written at once. If the log cannot be written, the server goes on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::system::clock;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What happens to single clients.
    Verbose,
    /// What happens to the server.
    Notice,
    /// What an operator should look at.
    Warning,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Verbose => "verbose",
            Level::Notice => "notice",
            Level::Warning => "warning",
        }
    }

    /// The level of that name, as `loglevel` has them.
    pub fn of(name: &str) -> Level {
        match name {
            "debug" | "verbose" => Level::Verbose,
            "warning" => Level::Warning,
            _ => Level::Notice,
        }
    }
}

/// Where lines go.
#[derive(Debug, Default)]
pub struct Log {
    file: Option<Mutex<File>>,
}

impl Log {
    /// To a file, at its end; to standard error if there is none.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>) -> std::io::Result<Log> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Log { file: path.map(open).transpose()?.map(Mutex::new) })
    }

    /// Writes a line.
    pub fn write(&self, level: Level, text: std::fmt::Arguments<'_>) {
        let line = format!("{} {:7} {text}\n", time_text(clock::now_ms()), level.name());
        // There is nowhere to say that this fails.
        let _ = match &self.file {
            Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}

/// A moment as `2026-01-31T12:34:56.789Z`.
pub fn time_text(ms: u64) -> String {
    let (seconds, millis) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a day since 1970: Hinnant, "chrono-compatible low-level date algorithms".
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn moments() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
        ] {
            assert_eq!(time_text(ms), text);
        }
    }
}
