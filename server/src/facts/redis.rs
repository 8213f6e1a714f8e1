//! Facts of Redis about its commands: categories for access rules, where keys stand and how they are used.
//!
//! The facts about Redis's commands are a file beside this one, as `COMMAND INFO` of Redis 7.0 gives them. Those of the
//! commands that only Quipu has follow from their lines in the table.
//!
//! Cost: the file is read once, in a millisecond. Not here: who may do what ([`crate::users`]), and what Redis has no
//! word for.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::spec::{Flags, Group, Spec};
use super::table::{by_number, find};
use crate::resp::word::is_word;

/// The names of the categories of access rules, each with its bit's number as its place.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The category of that name, as a bit.
pub fn category(name: &[u8]) -> Option<u32> {
    CATEGORIES.iter().position(|category| is_word(name, category)).map(|place| 1 << place)
}

/// Where the keys of a command begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the word of this number.
    Word(usize),
    /// After this word, which is looked for from a place on; backwards from the end if the place is negative.
    After(&'static str, i32),
    /// Unknown in general.
    Unknown,
}

/// Which words from there on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// To a last one (negative: from the end), every how many-th, and which part of those that are left (2: half of
    /// them).
    To {
        /// The last, from the beginning, or from the end if negative.
        last: i32,
        /// From one to the next.
        step: usize,
        /// What part of the words left they are, if over 1.
        part: usize,
    },
    /// As many as a word says.
    Counted {
        /// Where that word stands.
        at: usize,
        /// Where the first key stands.
        first: usize,
        /// From one to the next.
        step: usize,
    },
    /// Unknown in general.
    Unknown,
}

/// Where some of a command's keys stand, and what happens to them.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// As Redis names them: `RO`, `access`, `update` and so on.
    pub flags: Vec<&'static str>,
    /// Where they begin.
    pub begin: Begin,
    /// Which they are.
    pub span: Span,
}

/// What Redis tells of a command, or would.
#[derive(Clone, Debug, Default)]
pub struct RedisFacts {
    /// As Redis names them.
    pub flags: Vec<&'static str>,
    /// First key, last key, step.
    pub places: (i32, i32, i32),
    /// A bit for each of [`CATEGORIES`].
    pub categories: u32,
    /// Hints for proxies that route commands.
    pub tips: Vec<&'static str>,
    /// Where its keys stand.
    pub keys: Vec<KeySpec>,
    /// Its family, as Redis names it.
    pub group: &'static str,
}

/// The lines of the file, by name.
fn redis_commands() -> &'static HashMap<&'static str, RedisFacts> {
    static COMMANDS: OnceLock<HashMap<&'static str, RedisFacts>> = OnceLock::new();
    COMMANDS.get_or_init(|| {
        let lines = include_str!("redis_commands.txt").lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(parse_line).collect()
    })
}

/// Names of commands that Redis has and the table does not, with their families.
pub fn absent() -> Vec<(&'static str, &'static str)> {
    let known = |name: &str| find(name.as_bytes()).is_some();
    let mut names: Vec<_> = redis_commands()
        .iter()
        .filter(|(name, _)| !name.contains('|') && !known(name))
        .map(|(name, facts)| (*name, facts.group))
        .collect();
    names.sort_unstable();
    names
}

/// Whether Redis 7.0 has a command of this name.
pub fn is_redis(name: &str) -> bool {
    redis_commands().contains_key(name)
}

/// What is told of a command.
pub fn of(spec: &Spec) -> &'static RedisFacts {
    static ALL: OnceLock<Vec<RedisFacts>> = OnceLock::new();
    static NOTHING: RedisFacts = RedisFacts {
        flags: Vec::new(),
        places: (0, 0, 0),
        categories: 0,
        tips: Vec::new(),
        keys: Vec::new(),
        group: "",
    };
    let all = ALL.get_or_init(|| {
        let known = redis_commands();
        by_number().iter().map(|spec| known.get(spec.name).cloned().unwrap_or_else(|| own(spec))).collect()
    });
    all.get(usize::from(spec.number)).unwrap_or(&NOTHING)
}

/// What follows from a line of the table.
fn own(spec: &Spec) -> RedisFacts {
    let mut flags = Vec::new();
    let mut categories = Vec::new();
    let told: [(Flags, &'static str, &[&str]); 7] = [
        (Flags::WRITE, "write", &["write"]),
        (Flags::READ, "readonly", &["read"]),
        (Flags::DENY_OOM, "denyoom", &[]),
        (Flags::ADMIN, "admin", &["admin", "dangerous"]),
        (Flags::FAST, "fast", &["fast"]),
        (Flags::NO_AUTH, "no_auth", &[]),
        (Flags::NO_MULTI, "no_multi", &[]),
    ];
    for (flag, name, implied) in told {
        if spec.flags.has(flag) {
            flags.push(name);
            categories.extend(implied);
        }
    }
    if !spec.flags.has(Flags::FAST) {
        categories.push("slow");
    }
    if matches!(spec.name, "q.delrange" | "q.backup") {
        categories.push("dangerous");
    }
    categories.extend(match spec.group {
        Group::Generic | Group::Ordered => Some("keyspace"),
        Group::String => Some("string"),
        Group::Bitmap => Some("bitmap"),
        Group::SortedSet => Some("sortedset"),
        Group::Transactions => Some("transaction"),
        Group::Connection => Some("connection"),
        Group::Server | Group::Absent => None,
    });
    let places = (spec.keys.first, spec.keys.last, spec.keys.step);
    let keys = (spec.keys.first > 0)
        .then(|| KeySpec {
            flags: if spec.flags.has(Flags::WRITE) { vec!["RW", "access", "update"] } else { vec!["RO", "access"] },
            begin: Begin::Word(spec.keys.first as usize),
            span: Span::To {
                last: if spec.keys.last < 0 { spec.keys.last } else { spec.keys.last - spec.keys.first },
                step: spec.keys.step.max(1) as usize,
                part: 0,
            },
        })
        .into_iter()
        .collect();
    let categories = categories.into_iter().filter_map(|name| category(name.as_bytes())).fold(0, |all, one| all | one);
    RedisFacts { flags, places, categories, tips: Vec::new(), keys, group: spec.group.name() }
}

fn parse_line(line: &'static str) -> Option<(&'static str, RedisFacts)> {
    let mut words = line.split(' ');
    let (name, _arity) = (words.next()?, words.next()?);
    let list =
        |word: &'static str| -> Vec<&'static str> { if word == "-" { Vec::new() } else { word.split(',').collect() } };
    let flags = list(words.next()?);
    let mut places = words.next()?.split(',').filter_map(|number| number.parse().ok());
    let places = (places.next()?, places.next()?, places.next()?);
    let categories = list(words.next()?).into_iter().filter_map(|name| category(name.as_bytes()));
    let categories = categories.fold(0, |all, one| all | one);
    let tips = list(words.next()?);
    let keys = words.next()?.split(';').filter_map(parse_keys).collect();
    Some((name, RedisFacts { flags, places, categories, tips, keys, group: words.next()? }))
}

fn parse_keys(text: &'static str) -> Option<KeySpec> {
    let mut parts = text.split(':');
    let (flags, begin, span) = (parts.next()?, parts.next()?, parts.next()?);
    let begin = match begin.split_at_checked(1)? {
        ("i", number) => Begin::Word(number.parse().ok()?),
        ("w", rest) => {
            let (word, from) = rest.split_once('@')?;
            Begin::After(word, from.parse().ok()?)
        }
        _ => Begin::Unknown,
    };
    let (kind, numbers) = span.split_at_checked(1)?;
    let mut numbers = numbers.split(',').filter_map(|number| number.parse::<i32>().ok());
    let span = match kind {
        "r" => Span::To { last: numbers.next()?, step: numbers.next()? as usize, part: numbers.next()? as usize },
        "k" => Span::Counted {
            at: numbers.next()? as usize,
            first: numbers.next()? as usize,
            step: numbers.next()? as usize,
        },
        _ => Span::Unknown,
    };
    Some(KeySpec { flags: flags.split('+').collect(), begin, span })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the table says otherwise than Redis: a later version of Redis does so, or `docs` say why.
    const OTHERWISE: &[&str] = &["zrank", "zrevrank"];

    #[test]
    fn the_table_agrees_with_redis() {
        let mut differ = Vec::new();
        for line in include_str!("redis_commands.txt").lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(spec) = by_number().iter().find(|spec| spec.name == words[0]) else { continue };
            let keys = format!("{},{},{}", spec.keys.first, spec.keys.last, spec.keys.step);
            let flags: Vec<&str> = words[2].split(',').collect();
            let has_keys = |text: &str| if text.starts_with("0,") { "none".to_owned() } else { text.to_owned() };
            let same = spec.arity.to_string() == words[1]
                && (has_keys(&keys) == has_keys(words[3]))
                && spec.flags.has(Flags::WRITE) == flags.contains(&"write")
                && spec.flags.has(Flags::DENY_OOM) == flags.contains(&"denyoom")
                && spec.flags.has(Flags::NO_AUTH) == flags.contains(&"no_auth");
            if !same && !OTHERWISE.contains(&spec.name) {
                differ.push(format!("{}: {} {keys}, Redis: {line}", spec.name, spec.arity));
            }
        }
        assert!(differ.is_empty(), "{}", differ.join("\n"));
    }

    #[test]
    fn each_line_of_the_file_is_understood() {
        assert!(redis_commands().len() > 350);
        assert!(redis_commands()["get"].keys[0].flags.contains(&"access"));
    }
}
