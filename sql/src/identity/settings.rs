//! The parameters of a session: what SET and SHOW know.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::error::{Result, SqlError, SqlState};
use crate::types::date_style::{DateStyle, IntervalStyle};
use crate::types::moment;
use crate::types::text_encoding::TextEncoding;

/// A parameter: its name, its default, whether it can be set, and whether clients are told when it changes.
struct Parameter {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    is_reported: bool,
}

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It cannot be set.
    Fixed,
    /// Any text.
    Text,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// The name of an encoding.
    Encoding,
    /// `on` or `off`.
    Switch,
    /// A length of time in milliseconds, or with a unit.
    Time,
    /// An integer.
    Integer,
    /// A number.
    Real,
    /// A size in kilobytes, or with a unit.
    Size,
    /// The same, or -1 for none.
    SizeOrNone,
    /// How dates are written, and the order of day, month and year in those that are read.
    DateStyle,
    /// How many digits numbers of floating point have beside 15, or 6; all that tell them apart from 1 on.
    FloatDigits,
    /// How strings of bytes are written.
    ByteForm,
    /// How intervals are written.
    IntervalStyle,
    /// The least kind of messages that clients get.
    Messages,
    /// A time zone.
    Zone,
    /// A level of isolation.
    Isolation,
}

const INTERVAL_STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
const ISOLATIONS: &[&str] = &["read uncommitted", "read committed", "repeatable read", "serializable"];

const fn parameter(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter { name, default, kind, is_reported: false }
}

const fn reported(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter { name, default, kind, is_reported: true }
}

const PARAMETERS: [Parameter; 112] = [
    reported("application_name", "", Kind::Text),
    parameter("autovacuum", "off", Kind::Fixed),
    parameter("backslash_quote", "safe_encoding", Kind::Text),
    parameter("block_size", "8192", Kind::Fixed),
    parameter("bytea_output", "hex", Kind::ByteForm),
    parameter("check_function_bodies", "on", Kind::Switch),
    reported("client_encoding", "UTF8", Kind::Encoding),
    parameter("client_min_messages", "notice", Kind::Messages),
    parameter("constraint_exclusion", "partition", Kind::Word(&["partition", "on", "off"])),
    parameter("cpu_index_tuple_cost", "0.005", Kind::Real),
    parameter("cpu_operator_cost", "0.0025", Kind::Real),
    parameter("cpu_tuple_cost", "0.01", Kind::Real),
    parameter("cursor_tuple_fraction", "0.1", Kind::Real),
    parameter("data_checksums", "on", Kind::Fixed),
    parameter("data_directory", "", Kind::Fixed),
    reported("DateStyle", "ISO, MDY", Kind::DateStyle),
    parameter("default_statistics_target", "100", Kind::Integer),
    parameter("default_table_access_method", "heap", Kind::Text),
    parameter("default_tablespace", "", Kind::Text),
    parameter("default_toast_compression", "pglz", Kind::Text),
    parameter("default_transaction_deferrable", "off", Kind::Switch),
    parameter("default_transaction_isolation", "read committed", Kind::Isolation),
    reported("default_transaction_read_only", "off", Kind::Switch),
    parameter("effective_cache_size", "4GB", Kind::Size),
    parameter("effective_io_concurrency", "1", Kind::Integer),
    parameter("enable_async_append", "on", Kind::Switch),
    parameter("enable_bitmapscan", "on", Kind::Switch),
    parameter("enable_gathermerge", "on", Kind::Switch),
    parameter("enable_hashagg", "on", Kind::Switch),
    parameter("enable_hashjoin", "on", Kind::Switch),
    parameter("enable_incremental_sort", "on", Kind::Switch),
    parameter("enable_indexonlyscan", "on", Kind::Switch),
    parameter("enable_indexscan", "on", Kind::Switch),
    parameter("enable_material", "on", Kind::Switch),
    parameter("enable_memoize", "on", Kind::Switch),
    parameter("enable_mergejoin", "on", Kind::Switch),
    parameter("enable_nestloop", "on", Kind::Switch),
    parameter("enable_parallel_append", "on", Kind::Switch),
    parameter("enable_parallel_hash", "on", Kind::Switch),
    parameter("enable_partition_pruning", "on", Kind::Switch),
    parameter("enable_partitionwise_aggregate", "off", Kind::Switch),
    parameter("enable_partitionwise_join", "off", Kind::Switch),
    parameter("enable_seqscan", "on", Kind::Switch),
    parameter("enable_sort", "on", Kind::Switch),
    parameter("enable_tidscan", "on", Kind::Switch),
    parameter("escape_string_warning", "on", Kind::Switch),
    parameter("extra_float_digits", "1", Kind::FloatDigits),
    parameter("force_parallel_mode", "off", Kind::Word(&["off", "on", "regress"])),
    parameter("from_collapse_limit", "8", Kind::Integer),
    parameter("geqo", "on", Kind::Switch),
    parameter("geqo_threshold", "12", Kind::Integer),
    parameter("hash_mem_multiplier", "2", Kind::Real),
    parameter("idle_in_transaction_session_timeout", "0", Kind::Time),
    parameter("idle_session_timeout", "0", Kind::Time),
    reported("in_hot_standby", "off", Kind::Fixed),
    reported("integer_datetimes", "on", Kind::Fixed),
    reported("IntervalStyle", "postgres", Kind::IntervalStyle),
    reported("is_superuser", "on", Kind::Fixed),
    parameter("jit", "off", Kind::Switch),
    parameter("jit_above_cost", "100000", Kind::Real),
    parameter("join_collapse_limit", "8", Kind::Integer),
    parameter("join_reorder_ms", "5", Kind::Integer),
    parameter("lc_collate", "C", Kind::Fixed),
    parameter("lc_ctype", "C.UTF-8", Kind::Fixed),
    parameter("lc_messages", "C", Kind::Text),
    parameter("lc_monetary", "C", Kind::Text),
    parameter("lc_numeric", "C", Kind::Text),
    parameter("lc_time", "C", Kind::Text),
    parameter("lock_timeout", "0", Kind::Time),
    parameter("maintenance_work_mem", "64MB", Kind::Size),
    parameter("max_connections", "1", Kind::Fixed),
    parameter("max_identifier_length", "128", Kind::Fixed),
    parameter("max_index_keys", "32", Kind::Fixed),
    parameter("max_parallel_maintenance_workers", "2", Kind::Integer),
    parameter("max_parallel_workers", "8", Kind::Integer),
    parameter("max_parallel_workers_per_gather", "2", Kind::Integer),
    parameter("max_prepared_transactions", "0", Kind::Fixed),
    parameter("min_parallel_index_scan_size", "512kB", Kind::Size),
    parameter("min_parallel_table_scan_size", "8MB", Kind::Size),
    parameter("parallel_leader_participation", "on", Kind::Switch),
    parameter("parallel_setup_cost", "1000", Kind::Real),
    parameter("parallel_tuple_cost", "0.1", Kind::Real),
    parameter("password_encryption", "scram-sha-256", Kind::Word(&["scram-sha-256"])),
    parameter("plan_cache_mode", "auto", Kind::Word(&["auto", "force_custom_plan", "force_generic_plan"])),
    parameter("port", "0", Kind::Fixed),
    parameter("quote_all_identifiers", "off", Kind::Switch),
    parameter("random_page_cost", "4", Kind::Real),
    parameter("recursive_worktable_factor", "10", Kind::Real),
    parameter("role", "none", Kind::Word(&["none"])),
    parameter("row_security", "on", Kind::Switch),
    parameter("search_path", "\"$user\", public", Kind::Text),
    parameter("seq_page_cost", "1", Kind::Real),
    reported("server_encoding", "UTF8", Kind::Fixed),
    reported("server_version", concat!("15.0 (Quipu ", env!("CARGO_PKG_VERSION"), ")"), Kind::Fixed),
    parameter("server_version_num", "150000", Kind::Fixed),
    parameter("session_authorization", "", Kind::Fixed),
    parameter("ssl", "off", Kind::Fixed),
    reported("standard_conforming_strings", "on", Kind::Word(&["on"])),
    parameter("statement_memory", "256MB", Kind::Size),
    parameter("statement_timeout", "0", Kind::Time),
    parameter("synchronize_seqscans", "on", Kind::Switch),
    parameter("synchronous_commit", "on", Kind::Word(&["on", "off", "local", "remote_write", "remote_apply"])),
    parameter("temp_buffers", "8MB", Kind::Size),
    parameter("temp_file_limit", "-1", Kind::SizeOrNone),
    reported("TimeZone", "UTC", Kind::Zone),
    parameter("transaction_deferrable", "off", Kind::Switch),
    parameter("transaction_isolation", "read committed", Kind::Isolation),
    parameter("transaction_read_only", "off", Kind::Switch),
    parameter("wal_block_size", "8192", Kind::Fixed),
    parameter("wal_level", "replica", Kind::Fixed),
    parameter("work_mem", "4MB", Kind::Size),
    parameter("xmloption", "content", Kind::Word(&["content", "document"])),
];

/// Which messages clients get beside errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// Notices and warnings.
    #[default]
    All,
    /// Warnings.
    Warnings,
    /// None.
    None,
}

impl Messages {
    fn of_setting(word: &str) -> Option<Messages> {
        match word {
            "debug" | "debug5" | "debug4" | "debug3" | "debug2" | "debug1" | "log" | "info" | "notice" => {
                Some(Messages::All)
            }
            "warning" => Some(Messages::Warnings),
            "error" => Some(Messages::None),
            _ => None,
        }
    }
}

/// The values of all parameters of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Those of [`PARAMETERS`], in their order, and those of the client's own, with a point in their names.
    values: Vec<(String, String)>,
    time_zone: TimeZone,
    date_style: DateStyle,
    interval_style: IntervalStyle,
    float_digits: i32,
    escapes_bytes: bool,
    messages: Messages,
    /// What RESET comes back to.
    at_start: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Settings {
        let values: Vec<(String, String)> =
            PARAMETERS.iter().map(|known| (known.name.to_owned(), known.default.to_owned())).collect();
        Settings {
            at_start: values.clone(),
            values,
            time_zone: TimeZone::UTC,
            date_style: DateStyle::default(),
            interval_style: IntervalStyle::default(),
            float_digits: 1,
            escapes_bytes: false,
            messages: Messages::default(),
        }
    }
}

/// A word, if it is one of some; a hint of these if not.
fn one_of(words: &[&str], value: &str) -> std::result::Result<String, String> {
    let word = value.trim().to_lowercase();
    if words.contains(&&*word) { Ok(word) } else { Err(format!("Available values: {}.", words.join(", "))) }
}

fn known(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Parameters that a transaction has set for itself alone, each with the value that the session keeps: that from before
/// it, or the last one that the transaction has set for the session.
#[derive(Clone, Debug, Default)]
pub struct LocalSettings(Vec<(String, String)>);

impl LocalSettings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a parameter that is about to be set for the transaction alone.
    pub fn note(&mut self, name: &str, settings: &Settings) {
        if !self.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            self.0.push((name.to_owned(), settings.get(name).unwrap_or_default().to_owned()));
        }
    }

    /// Forgets a parameter that is set for the session, or all of them.
    pub fn forget(&mut self, name: Option<&str>) {
        self.0.retain(|(known, _)| name.is_some_and(|name| !known.eq_ignore_ascii_case(name)));
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

impl Settings {
    /// The value of a parameter; none if there is no such.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// The search path as it was written.
    pub fn search_path(&self) -> &str {
        self.get("search_path").unwrap_or("public")
    }

    /// The time zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.time_zone
    }

    /// How dates are written and read.
    pub fn date_style(&self) -> DateStyle {
        self.date_style
    }

    /// How intervals are written.
    pub fn interval_style(&self) -> IntervalStyle {
        self.interval_style
    }

    /// The parameter `extra_float_digits`.
    pub fn float_digits(&self) -> i32 {
        self.float_digits
    }

    /// Whether strings of bytes are written in the form `escape`.
    pub fn escapes_bytes(&self) -> bool {
        self.escapes_bytes
    }

    /// Which messages clients get.
    pub fn messages(&self) -> Messages {
        self.messages
    }

    /// That of the client's texts.
    pub fn encoding(&self) -> TextEncoding {
        self.get("client_encoding").and_then(TextEncoding::of_name).unwrap_or(TextEncoding::UTF8)
    }

    /// All parameters, for SHOW ALL.
    pub fn all(&self) -> &[(String, String)] {
        &self.values
    }

    /// Those that clients are told of.
    pub fn reported(&self) -> impl Iterator<Item = (&str, &str)> {
        let told = PARAMETERS.iter().filter(|known| known.is_reported);
        told.filter_map(|known| Some((known.name, self.get(known.name)?)))
    }

    /// Sets a parameter. Returns its name if clients are told of it.
    ///
    /// # Errors
    /// [`UNDEFINED_OBJECT`](SqlState::UNDEFINED_OBJECT) if there is no such,
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) if it cannot have the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>> {
        let Some(parameter) = known(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            match self.values.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, own)) => value.clone_into(own),
                None => self.values.push((name.to_owned(), value.to_owned())),
            }
            return Ok(None);
        };
        let value = self.accepted(parameter, value)?;
        if let Some((_, own)) = self.values.iter_mut().find(|(known, _)| known == parameter.name) {
            *own = value;
        }
        Ok(parameter.is_reported.then_some(parameter.name))
    }

    /// Sets a parameter as the client asks for it when it connects.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    pub fn set_at_start(&mut self, name: &str, value: &str) -> Result<()> {
        self.set(name, value)?;
        self.at_start.clone_from(&self.values);
        Ok(())
    }

    /// Says the value of a parameter that cannot be set.
    pub fn tell(&mut self, name: &str, value: &str) {
        debug_assert!(known(name).is_some_and(|known| known.kind == Kind::Fixed), "{name} is not fixed");
        for values in [&mut self.values, &mut self.at_start] {
            values.iter_mut().filter(|(known, _)| known == name).for_each(|(_, own)| value.clone_into(own));
        }
    }

    /// Gives a parameter the value that it had at the start, or all of them.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    pub fn reset(&mut self, name: Option<&str>) -> Result<Vec<&'static str>> {
        let mut told = Vec::new();
        for (own, value) in self.at_start.clone() {
            if name.is_none_or(|name| own.eq_ignore_ascii_case(name)) && self.get(&own) != Some(&value) {
                told.extend(self.set(&own, &value)?);
            }
        }
        match name {
            Some(name) if known(name).is_none() && !name.contains('.') => Err(unknown(name)),
            _ => Ok(told),
        }
    }

    /// Gives parameters that were set for a transaction alone the values that the session keeps.
    pub fn end_local(&mut self, local: &LocalSettings) {
        for (name, kept) in &local.0 {
            // The value was accepted once, so it is now. One of the client's own is empty afterwards, as in PostgreSQL.
            let _ = self.set(name, kept);
        }
    }

    /// Between transactions, their parameters are those of the next one.
    pub fn show_defaults(settings: &mut Arc<Settings>) {
        for (name, default) in [
            ("transaction_isolation", "default_transaction_isolation"),
            ("transaction_read_only", "default_transaction_read_only"),
            ("transaction_deferrable", "default_transaction_deferrable"),
        ] {
            let Some(value) = settings.get(default).filter(|value| settings.get(name) != Some(value)) else { continue };
            let value = value.to_owned();
            // It was accepted as a default.
            let _ = Arc::make_mut(settings).set(name, &value);
        }
    }

    fn accepted(&mut self, parameter: &Parameter, value: &str) -> Result<String> {
        let refused = || {
            let what = format!("invalid value for parameter \"{}\": \"{value}\"", parameter.name);
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
        };
        let value = if value.eq_ignore_ascii_case("default") { parameter.default } else { value };
        Ok(match parameter.kind {
            Kind::Fixed => {
                let what = format!("parameter \"{}\" cannot be changed", parameter.name);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
            Kind::Text => value.to_owned(),
            Kind::Word(words) => one_of(words, value).map_err(|hint| refused().with_hint(hint))?,
            Kind::IntervalStyle => {
                let word = one_of(INTERVAL_STYLES, value).map_err(|hint| refused().with_hint(hint))?;
                self.interval_style = IntervalStyle::of_setting(&word);
                word
            }
            Kind::Messages => {
                let word = value.trim().to_lowercase();
                let hint = "Available values: debug5, debug4, debug3, debug2, debug1, log, notice, warning, error.";
                self.messages = Messages::of_setting(&word).ok_or_else(|| refused().with_hint(hint))?;
                word
            }
            Kind::Encoding => {
                // Some clients send the name in quotes when they connect.
                let found = TextEncoding::of_name(value.trim().trim_matches('\''));
                let hint = || format!("Available values: {}.", TextEncoding::names().collect::<Vec<_>>().join(", "));
                found.ok_or_else(|| refused().with_hint(hint()))?.name().to_owned()
            }
            Kind::Switch => match &*value.to_lowercase() {
                "on" | "true" | "yes" | "1" | "t" => "on".to_owned(),
                "off" | "false" | "no" | "0" | "f" => "off".to_owned(),
                _ => return Err(refused().with_hint("It takes a Boolean value.")),
            },
            Kind::Time => {
                let time = parse_time(value).ok_or_else(refused)?;
                shown_time(time)
            }
            Kind::Integer => value.trim().parse::<i64>().map_err(|_| refused())?.to_string(),
            Kind::Real => {
                let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(refused)?.to_string()
            }
            Kind::Size => {
                parse_size(value).ok_or_else(refused)?;
                value.trim().to_owned()
            }
            Kind::SizeOrNone => {
                if value.trim() != "-1" {
                    parse_size(value).ok_or_else(refused)?;
                }
                value.trim().to_owned()
            }
            Kind::DateStyle => {
                self.date_style = DateStyle::parse(value, self.date_style)?;
                self.date_style.to_string()
            }
            Kind::FloatDigits => {
                let digits = value.trim().parse::<i32>().map_err(|_| refused())?;
                if !(-15..=3).contains(&digits) {
                    let what =
                        format!("{digits} is outside the valid range for parameter \"{}\" (-15 .. 3)", parameter.name);
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
                }
                self.float_digits = digits;
                digits.to_string()
            }
            Kind::ByteForm => {
                let word = value.trim().to_lowercase();
                if !["escape", "hex"].contains(&&*word) {
                    return Err(refused().with_hint("Available values: escape, hex."));
                }
                self.escapes_bytes = word == "escape";
                word
            }
            Kind::Zone => {
                // A number alone is hours to the east, unlike in a name of a zone.
                let hours = value.trim().parse::<f64>().ok().filter(|hours| hours.is_finite());
                let name = hours.map_or_else(|| value.trim().to_owned(), moment::name_of_hours);
                self.time_zone = moment::zone(&name).map_err(|_| refused())?;
                // The name as the time zone database has it.
                let known = TimeZone::get(&name).ok().and_then(|zone| zone.iana_name().map(str::to_owned));
                known.unwrap_or(name)
            }
            Kind::Isolation => {
                let word = value.to_lowercase();
                if !ISOLATIONS.contains(&&*word) {
                    return Err(refused());
                }
                word
            }
        })
    }

    fn time(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(parse_time).filter(|time| !time.is_zero())
    }

    /// How long a statement may take.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// How long a client may say nothing between two statements.
    pub fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        self.time(if in_transaction { "idle_in_transaction_session_timeout" } else { "idle_session_timeout" })
    }

    /// How long a lock is waited for.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.time("lock_timeout")
    }

    /// How many bytes of rows a statement may keep.
    pub fn statement_memory(&self) -> usize {
        self.get("statement_memory").and_then(parse_size).unwrap_or(256 << 20)
    }

    /// How many bytes the temporary files of a session may have; none if there is no limit.
    pub fn temporary_file_bytes(&self) -> Option<u64> {
        self.get("temp_file_limit").and_then(parse_size).map(|bytes| bytes as u64)
    }

    /// Whether a parameter is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }
}

/// A length of time in milliseconds, or with a unit.
fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let milliseconds = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

fn shown_time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    match milliseconds {
        0 => "0".to_owned(),
        _ if milliseconds.is_multiple_of(60_000) => format!("{}min", milliseconds / 60_000),
        _ if milliseconds.is_multiple_of(1_000) => format!("{}s", milliseconds / 1_000),
        _ => format!("{milliseconds}ms"),
    }
}

/// A size in kilobytes, or with a unit, in bytes.
fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().ok()?;
    let unit = match &*text[digits..].trim().to_lowercase() {
        "" | "kb" => 1 << 10,
        "b" => 1,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}
