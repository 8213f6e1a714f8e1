//! The address of a server, and the user who asks it: a URL of libpq's kind, and what the environment adds.

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::{Failure, Result};

/// The port of PostgreSQL.
const PORT: u16 = 5432;
/// How long a server may take until the session begins, if nothing is said.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether TLS is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// Never.
    Disable,
    /// If the server can.
    Prefer,
    /// Always; the server's certificate is not looked at.
    Require,
    /// Always, and the certificate must be of this host and of an authority that is known.
    Verify,
}

/// A server, and who asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) tls: Tls,
    /// The authorities that may have signed the server's certificate.
    pub(super) authorities: Option<PathBuf>,
    /// Parameters of the session: `application_name`, `options` and their like.
    pub(super) parameters: Vec<(String, String)>,
    /// How long the server may take until the session begins; none for ever.
    pub(super) connect_timeout: Option<Duration>,
}

impl Address {
    /// Reads a URL: `postgres://user:password@host:port/database?sslmode=require`.
    pub(super) fn parse(url: &str) -> Result<Address> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Address::with(url, variable)
    }

    fn with(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Address> {
        let wrong =
            |what: &str| Failure::Usage(format!("--connect: {what}; postgres://USER@HOST:PORT/DATABASE is a URL"));
        let scheme = ["postgres://", "postgresql://"].into_iter().find(|scheme| url.starts_with(scheme));
        let rest = &url[scheme.ok_or_else(|| wrong("a URL begins with postgres://"))?.len()..];
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (login, None),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let given = |text: String| (!text.is_empty()).then_some(text);
        let port = given(port.to_owned()).or_else(|| variable("PGPORT"));
        let user = given(decoded(user)?).or_else(|| variable("PGUSER")).or_else(|| variable("USER"));
        let user = user.unwrap_or_else(|| "default".to_owned());
        let database = given(decoded(database)?).or_else(|| variable("PGDATABASE"));
        let mut address = Address {
            host: given(decoded(host)?).or_else(|| variable("PGHOST")).unwrap_or_else(|| "localhost".to_owned()),
            port: match port {
                None => PORT,
                Some(port) => port.parse().map_err(|_| wrong(&format!("{port} is not a port")))?,
            },
            password: password.or_else(|| variable("PGPASSWORD")),
            database: database.unwrap_or_else(|| user.clone()),
            user,
            tls: Tls::Prefer,
            authorities: variable("PGSSLROOTCERT").map(PathBuf::from),
            parameters: vec![("application_name".to_owned(), "quipu sql".to_owned())],
            connect_timeout: Some(CONNECT_TIMEOUT),
        };
        let timeout = |seconds: &str| match seconds.trim().parse::<i64>() {
            Ok(seconds) => Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)),
            Err(_) => Err(wrong(&format!("connect_timeout has seconds, and not {seconds}"))),
        };
        if let Some(seconds) = variable("PGCONNECT_TIMEOUT") {
            address.connect_timeout = timeout(&seconds)?;
        }
        if let Some(zone) = variable("PGTZ") {
            address.parameters.push(("TimeZone".to_owned(), zone));
        }
        let mut mode = variable("PGSSLMODE");
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong(&format!("{pair} has no value")))?;
            let value = decoded(value)?;
            match name {
                "sslmode" => mode = Some(value),
                "sslrootcert" => address.authorities = Some(PathBuf::from(value)),
                "user" => address.user = value,
                "password" => address.password = Some(value),
                "application_name" | "options" => {
                    address.parameters.retain(|(known, _)| known != name);
                    address.parameters.push((name.to_owned(), value));
                }
                "connect_timeout" => address.connect_timeout = timeout(&value)?,
                "target_session_attrs" | "channel_binding" | "gssencmode" => {}
                other => return Err(wrong(&format!("the parameter {other} is not known"))),
            }
        }
        address.tls = match mode.as_deref() {
            None | Some("prefer" | "allow") => Tls::Prefer,
            Some("disable") => Tls::Disable,
            // As libpq has it: authorities that are given are not given in vain.
            Some("require") if address.authorities.is_none() => Tls::Require,
            Some("require" | "verify-ca" | "verify-full") => Tls::Verify,
            Some(other) => return Err(wrong(&format!("sslmode has no {other}"))),
        };
        if address.tls == Tls::Verify && address.authorities.is_none() {
            return Err(wrong("verify-ca and verify-full need sslrootcert=FILE or PGSSLROOTCERT"));
        }
        if address.host.starts_with('/') {
            return Err(wrong("sockets of the file system are not spoken to; name a host"));
        }
        Ok(address)
    }
}

/// A part of a URL without its percent signs.
fn decoded(text: &str) -> Result<String> {
    let wrong = || Failure::Usage(format!("--connect: {text} has a percent sign with no byte after it"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let none = |_: &str| None;
        let address = Address::with("postgres://ann:s%40c@db:5433/air?sslmode=require", none).expect("an address");
        let parts = (address.host.as_str(), address.port, address.user.as_str(), address.password.as_deref());
        assert_eq!(parts, ("db", 5433, "ann", Some("s@c")));
        assert_eq!((address.database.as_str(), address.tls), ("air", Tls::Require));
        let address = Address::with("postgresql://[::1]:7", none).expect("an address");
        let parts = (address.host.as_str(), address.port, address.user.as_str(), address.database.as_str());
        assert_eq!(parts, ("::1", 7, "default", "default"));
        let environment = |name: &str| match name {
            "PGHOST" => Some("far".to_owned()),
            "PGUSER" => Some("bob".to_owned()),
            "PGSSLMODE" => Some("disable".to_owned()),
            _ => None,
        };
        let address = Address::with("postgres://", environment).expect("an address");
        assert_eq!((address.host.as_str(), address.user.as_str(), address.tls), ("far", "bob", Tls::Disable));
        let timeout = |url: &str| Address::with(url, none).map(|address| address.connect_timeout).ok();
        assert_eq!(timeout("postgres://a"), Some(Some(CONNECT_TIMEOUT)));
        assert_eq!(timeout("postgres://a?connect_timeout=3"), Some(Some(Duration::from_secs(3))));
        assert_eq!(timeout("postgres://a?connect_timeout=0"), Some(None));
        assert_eq!(timeout("postgres://a?connect_timeout=soon"), None);
        for url in
            ["", "http://a", "postgres://a:b", "postgres://a?b=c", "postgres://a?sslmode=verify-full", "postgres://%4"]
        {
            assert!(matches!(Address::with(url, none), Err(Failure::Usage(_))), "{url}");
        }
    }
}
