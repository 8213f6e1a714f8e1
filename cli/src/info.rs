//! The answer to `INFO`: fields by name, and what they say of keys, commands and the nodes of a cluster.

use std::collections::BTreeMap;

/// What a server says of itself.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// All fields of `INFO` by name.
    fields: BTreeMap<String, String>,
}

impl Info {
    /// From the text of an answer.
    pub(crate) fn parse(text: &str) -> Info {
        let fields = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        Info { fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// A field; empty if the server does not tell it.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A count; 0 if the server does not tell it.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Fields whose names begin so, without that beginning.
    pub(crate) fn with_prefix<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
        self.fields.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// The keys of all databases.
    pub(crate) fn keys(&self) -> u64 {
        let databases = self.with_prefix("db").filter(|(number, _)| number.parse::<u32>().is_ok());
        databases.map(|(_, value)| part(value, "keys").unwrap_or(0.0) as u64).sum()
    }

    /// The node's address, and its peers', each with how it stands; none if the server is alone.
    pub(crate) fn nodes(&self) -> Option<(&str, Vec<(&str, &str)>)> {
        let own = self.fields.get("quipu_node")?;
        let fact = |value, name: &str| parts(value).find(|(other, _)| *other == name).map_or("", |(_, fact)| fact);
        let peers = self.with_prefix("quipu_peer_").map(|(_, value)| (fact(value, "url"), fact(value, "health")));
        Some((own, peers.collect()))
    }

    /// How often a command was called, and the microseconds that took.
    pub(crate) fn calls(&self, command: &str) -> (u64, f64) {
        let value = self.text(&format!("cmdstat_{command}"));
        (part(value, "calls").unwrap_or(0.0) as u64, part(value, "usec").unwrap_or(0.0))
    }

    /// The percentiles of a command's duration since the server began, in microseconds: `p50`, `p99` and the like.
    pub(crate) fn percentiles(&self, command: &str) -> Vec<(&str, f64)> {
        let value = self.text(&format!("latency_percentiles_usec_{command}"));
        parts(value).filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
    }
}

/// The parts of `a=1,b=2`.
fn parts(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split(',').filter_map(|part| part.split_once('='))
}

/// The part of that name as a number.
fn part(value: &str, name: &str) -> Option<f64> {
    parts(value).find(|(other, _)| *other == name).and_then(|(_, value)| value.parse().ok())
}
