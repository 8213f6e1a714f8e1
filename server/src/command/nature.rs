//! What Redis tells of its commands, and what follows from it: categories for access rules, where keys stand and how they are used.
//!
//! The facts about Redis's commands are a file beside this one, as `COMMAND INFO` of Redis 7.0 gives them; those of the commands that only Quipu has follow
//! from their lines in the table.
//!
//! Cost: the file is read once, in a millisecond. Not here: who may do what ([`crate::users`]), and what Redis has no word for.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::table::{Flags, Group, Spec, by_number};
use super::{Refusal, is_word, refusal};

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
    /// Behind this word, sought from a place on; backwards from the end if it is negative.
    Behind(&'static str, i32),
    /// Nobody can say in general.
    Unknown,
}

/// Which words from there on are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// To a last one (negative: from the end), every how many-th, and which part of those that are left (2: half of them).
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
    /// Nobody can say in general.
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
pub struct Nature {
    /// As Redis names them.
    pub flags: Vec<&'static str>,
    /// First key, last key, step.
    pub places: (i32, i32, i32),
    /// A bit for each of [`CATEGORIES`].
    pub categories: u32,
    /// Hints for those who route commands.
    pub tips: Vec<&'static str>,
    /// Where its keys stand.
    pub keys: Vec<KeySpec>,
    /// Its family, as Redis names it.
    pub group: &'static str,
}

/// The lines of the file, by name.
fn redis_commands() -> &'static HashMap<&'static str, Nature> {
    static COMMANDS: OnceLock<HashMap<&'static str, Nature>> = OnceLock::new();
    COMMANDS.get_or_init(|| {
        let lines = include_str!("redis_commands.txt").lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(parse_line).collect()
    })
}

/// Names of commands that Redis has and the table does not, with their families.
pub fn absent() -> Vec<(&'static str, &'static str)> {
    let known = |name: &str| super::find(name.as_bytes()).is_some();
    let mut names: Vec<_> = redis_commands()
        .iter()
        .filter(|(name, _)| !name.contains('|') && !known(name))
        .map(|(name, nature)| (*name, nature.group))
        .collect();
    names.sort_unstable();
    names
}

/// Whether Redis 7.0 has a command of this name.
pub fn is_redis(name: &str) -> bool {
    redis_commands().contains_key(name)
}

/// What is told of a command.
pub fn of(spec: &Spec) -> &'static Nature {
    static NATURES: OnceLock<Vec<Nature>> = OnceLock::new();
    static NOTHING: Nature =
        Nature { flags: Vec::new(), places: (0, 0, 0), categories: 0, tips: Vec::new(), keys: Vec::new(), group: "" };
    let natures = NATURES.get_or_init(|| {
        let known = redis_commands();
        by_number().iter().map(|spec| known.get(spec.name).cloned().unwrap_or_else(|| own(spec))).collect()
    });
    natures.get(usize::from(spec.number)).unwrap_or(&NOTHING)
}

/// What follows from a line of the table.
fn own(spec: &Spec) -> Nature {
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
    Nature { flags, places, categories, tips: Vec::new(), keys, group: spec.group.name() }
}

fn parse_line(line: &'static str) -> Option<(&'static str, Nature)> {
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
    Some((name, Nature { flags, places, categories, tips, keys, group: words.next()? }))
}

fn parse_keys(text: &'static str) -> Option<KeySpec> {
    let mut parts = text.split(':');
    let (flags, begin, span) = (parts.next()?, parts.next()?, parts.next()?);
    let begin = match begin.split_at_checked(1)? {
        ("i", number) => Begin::Word(number.parse().ok()?),
        ("w", rest) => {
            let (word, from) = rest.split_once('@')?;
            Begin::Behind(word, from.parse().ok()?)
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

/// A key among the words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    /// Which word it is.
    pub place: usize,
    /// What happens to it, as Redis says it.
    pub flags: Vec<&'static str>,
}

impl KeyPlace {
    /// Whether the command may tell what stands at the key.
    pub fn is_read(&self) -> bool {
        self.flags.contains(&"access")
    }

    /// Whether the command may change what stands at the key.
    pub fn is_written(&self) -> bool {
        ["insert", "update", "delete"].iter().any(|flag| self.flags.contains(flag))
    }
}

/// Which keys a command reaches beside those that it names.
pub enum Reach<'a> {
    /// No others, or none whose content it tells: names and their number are told as Redis tells them.
    Named,
    /// Those between two bounds, as they were sent.
    Range {
        /// Of the first key.
        low: &'a [u8],
        /// Of the last.
        high: &'a [u8],
    },
    /// All of them.
    All,
    /// Those of a command among its words.
    Inner(&'a [&'a [u8]]),
}

/// Which keys a command reaches beside those that it names.
pub fn reach<'a>(spec: &Spec, args: &'a [&'a [u8]]) -> Reach<'a> {
    let range = |from: usize| match args.get(from..from + 2) {
        Some([low, high]) => Reach::Range { low, high },
        _ => Reach::All,
    };
    match spec.name {
        "q.count" | "q.tally" | "q.range" | "q.quantile" | "q.sample" | "q.split" | "q.delrange" | "q.watch" => {
            range(1)
        }
        "q.nth" => range(2),
        // The rank of a key counts all that lie below.
        "q.rank" | "q.backup" | "swapdb" | "debug|object" => Reach::All,
        "q.at" => Reach::Inner(args.get(2..).unwrap_or_default()),
        _ => Reach::Named,
    }
}

/// The keys among the words of a command.
///
/// # Errors
/// The words are not such that keys can be told.
pub fn keys(spec: &Spec, args: &[&[u8]]) -> Result<Vec<KeyPlace>, Refusal> {
    const INVALID: Refusal = refusal::text("ERR Invalid arguments specified for command");
    let nature = of(spec);
    let mut found = Vec::new();
    for keys in &nature.keys {
        if keys.flags.contains(&"not_key") {
            continue;
        }
        let start = match keys.begin {
            Begin::Word(number) => Some(number),
            Begin::Behind(word, from) => behind(args, word, from),
            Begin::Unknown => None,
        };
        let Some(start) = start else { continue };
        let flags = usage(spec, args, &keys.flags);
        let mut add = |place: usize| found.push(KeyPlace { place, flags: flags.clone() });
        match keys.span {
            Span::To { last, step, part } => {
                let last = if last >= 0 {
                    start + last as usize
                } else if part > 1 {
                    (start + args.len().saturating_sub(start) / part).saturating_sub(last.unsigned_abs() as usize)
                } else {
                    args.len().saturating_sub(last.unsigned_abs() as usize)
                };
                if last >= args.len() && start < args.len() {
                    return Err(INVALID);
                }
                (start..=last).step_by(step.max(1)).filter(|place| *place < args.len()).for_each(&mut add);
            }
            Span::Counted { at, first, step } => {
                let count = args.get(start + at).and_then(|word| crate::resp::number::parse_i64(word));
                let count = usize::try_from(count.ok_or(INVALID)?).map_err(|_| INVALID)?;
                let first = start + first;
                let end = count.checked_mul(step.max(1)).and_then(|width| first.checked_add(width)).ok_or(INVALID)?;
                if end > args.len() {
                    return Err(INVALID);
                }
                (first..end).step_by(step.max(1)).for_each(&mut add);
            }
            Span::Unknown => {}
        }
    }
    if spec.name == "sort"
        && let Some(place) = args.iter().rposition(|word| is_word(word, "store"))
        && place > 1
        && place + 1 < args.len()
    {
        found.push(KeyPlace { place: place + 1, flags: vec!["OW", "update"] });
    }
    Ok(found)
}

/// Some commands use a key differently with some words.
fn usage(spec: &Spec, args: &[&[u8]], flags: &[&'static str]) -> Vec<&'static str> {
    if flags.contains(&"variable_flags") {
        let has = |word: &str| args.iter().skip(3).any(|arg| is_word(arg, word));
        match spec.name {
            "set" if has("get") => return vec!["RW", "access", "update"],
            "set" => return vec!["OW", "update"],
            "bitfield" if !args.iter().skip(2).any(|arg| is_word(arg, "set") || is_word(arg, "incrby")) => {
                return vec!["RO", "access"];
            }
            "bitfield" => return vec!["RW", "access", "update"],
            _ => {}
        }
    }
    flags.to_vec()
}

/// The place behind a word.
fn behind(args: &[&[u8]], word: &str, from: i32) -> Option<usize> {
    let is_it = |place: &usize| args[*place].eq_ignore_ascii_case(word.as_bytes());
    let place = if from >= 0 {
        (from as usize..args.len()).find(is_it)
    } else {
        (1..=args.len().checked_sub(from.unsigned_abs() as usize)?).rev().find(is_it)
    };
    place.map(|place| place + 1).filter(|place| *place < args.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;

    #[test]
    fn keys_are_found_where_redis_finds_them() {
        for (line, expected) in [
            ("get a", "a"),
            ("set a b", "a"),
            ("del a b c", "a b c"),
            ("mset a 1 b 2", "a b"),
            ("ping", ""),
            ("zunionstore d 2 a b weights 1 2", "d a b"),
            ("zinterstore d 1 a", "d a"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Some(spec) = find(words[0]) else { continue };
            let keys = keys(spec, &words).expect("keys");
            let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(words[key.place]).into_owned()).collect();
            assert_eq!(keys.join(" "), expected, "{line}");
        }
    }

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

    /// Commands that name no keys and tell no more of them than their names or their number, as in Redis, or are about none.
    const TOLD_AS_REDIS_DOES: [&str; 8] =
        ["keys", "scan", "randomkey", "dbsize", "flushall", "flushdb", "lolwut", "unwatch"];

    #[test]
    fn a_command_that_reads_or_writes_keys_names_them_or_needs_rights_to_all() {
        let mut unbound = Vec::new();
        for spec in by_number() {
            let touches = spec.flags.has(Flags::READ) || spec.flags.has(Flags::WRITE);
            let words: Vec<&[u8]> = std::iter::once(spec.name.as_bytes()).chain([&b"-"[..], b"+", b"1"]).collect();
            let is_bound = !of(spec).keys.is_empty() || !matches!(reach(spec, &words), Reach::Named);
            if touches && !is_bound && !TOLD_AS_REDIS_DOES.contains(&spec.name) {
                unbound.push(spec.name);
            }
        }
        assert!(unbound.is_empty(), "rights by key do not bind {unbound:?}");
    }
}
