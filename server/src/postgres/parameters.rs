//! The parameters of a session that stand in the startup packet, and those that a client is told.

use quipu_sql::functions::Environment;
use quipu_sql::{SqlError, SqlState};

use super::messages::Startup;

/// The newest version of the protocol that is spoken: 3 and this.
pub(super) const MINOR_MAX: u16 = 2;

/// The version of PostgreSQL whose behaviour clients may count on, and what they are told of this one.
const SERVER_VERSION: &str = concat!("15.0 (Quipu ", env!("CARGO_PKG_VERSION"), ")");

/// What a client is told when its session begins, and the values of those of which the session says nothing.
const REPORTED: [(&str, &str); 13] = [
    ("server_version", SERVER_VERSION),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("application_name", ""),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
    ("session_authorization", ""),
    ("in_hot_standby", "off"),
    ("default_transaction_read_only", "off"),
];

/// Names and values of what a client is told when its session begins.
pub(super) fn reported(environment: &dyn Environment) -> impl Iterator<Item = (&'static str, String)> {
    REPORTED.iter().map(|(name, default)| {
        let value = match *name {
            "session_authorization" => Some(environment.user().to_owned()),
            name => environment.setting(name),
        };
        (*name, value.unwrap_or_else(|| (*default).to_owned()))
    })
}

/// What a startup packet says.
pub(super) struct Told<'m> {
    pub(super) user: &'m str,
    pub(super) database: &'m str,
    /// Parameters of the session.
    pub(super) settings: Vec<(String, String)>,
    /// Options of the protocol, none of which is known.
    pub(super) unknown: Vec<&'m str>,
}

impl<'m> Told<'m> {
    /// # Errors
    /// No user is named, or replication is asked for.
    pub(super) fn read(startup: &Startup<'m>) -> Result<Told<'m>, SqlError> {
        let (mut user, mut database) = ("", "");
        let (mut settings, mut unknown) = (Vec::new(), Vec::new());
        for (name, value) in &startup.parameters {
            match *name {
                "user" => user = value,
                "database" => database = value,
                "options" => options(value, &mut settings)?,
                "replication" if matches!(*value, "false" | "off" | "no" | "0") => {}
                "replication" => {
                    let hint = "`quipu serve --cluster` replicates keys; there is no stream of tables.";
                    return Err(SqlError::unsupported("replication is not supported", hint));
                }
                name if name.starts_with("_pq_.") => unknown.push(name),
                name => settings.push((name.to_owned(), (*value).to_owned())),
            }
        }
        if user.is_empty() {
            let text = "no PostgreSQL user name specified in startup packet";
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, text));
        }
        Ok(Told { user, database: if database.is_empty() { user } else { database }, settings, unknown })
    }
}

/// Settings among the switches of a command line: `-c name=value` or `--name=value`, where a backslash takes away the
/// meaning of a space.
fn options(text: &str, settings: &mut Vec<(String, String)>) -> Result<(), SqlError> {
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let assignment = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("-c").or(word.strip_prefix("--")).map(str::to_owned)
        };
        let pair = assignment.as_deref().and_then(|assignment| assignment.split_once('='));
        let Some((name, value)) = pair else {
            let text = format!("invalid command-line argument for server process: {word}");
            let error = SqlError::new(SqlState::SYNTAX_ERROR, text);
            return Err(error.with_hint("Options are written as `-c name=value`."));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut has_word) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_ascii_whitespace() => {
                if std::mem::take(&mut has_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            '\\' => {
                has_word = true;
                word.extend(letters.next());
            }
            letter => {
                has_word = true;
                word.push(letter);
            }
        }
    }
    words.extend(has_word.then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let of = |text: &str| {
            let mut settings = Vec::new();
            options(text, &mut settings).map(|()| settings).map_err(|error| error.message().to_owned())
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let both = vec![pair("search_path", "a, b"), pair("geqo", "off")];
        assert_eq!(of(r" -c search_path=a,\ b  --geqo=off "), Ok(both));
        assert_eq!(of("-cwork-mem=1"), Ok(vec![pair("work_mem", "1")]));
        assert_eq!(of(""), Ok(vec![]));
        assert!(of("-c").is_err() && of("-x").is_err() && of("-c a").is_err() && of("a=b").is_err());
    }

    #[test]
    fn what_a_startup_packet_says() {
        let startup =
            |parameters: &[(&'static str, &'static str)]| Startup { minor: 0, parameters: parameters.to_vec() };
        let told = startup(&[("user", "a"), ("_pq_.x", "1"), ("TimeZone", "UTC")]);
        let told = Told::read(&told).expect("told");
        assert_eq!((told.user, told.database, told.unknown), ("a", "a", vec!["_pq_.x"]));
        assert_eq!(told.settings, [("TimeZone".to_owned(), "UTC".to_owned())]);
        assert!(Told::read(&startup(&[("database", "a")])).is_err());
        assert!(Told::read(&startup(&[("user", "a"), ("replication", "database")])).is_err());
        assert!(Told::read(&startup(&[("user", "a"), ("replication", "off")])).is_ok());
    }
}
