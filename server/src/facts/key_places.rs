//! Places of keys among the words of a command, and other keys that it reaches.
//!
//! Not here: who may use them ([`crate::users`]).

use super::redis::{self, Begin, Span};
use super::spec::Spec;
use crate::resp::number::parse_i64;
use crate::resp::word::is_word;

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

/// The word that is the key of a command that has one, always in the same place.
pub fn only_key(spec: &Spec) -> Option<usize> {
    match redis::of(spec).keys.as_slice() {
        [keys] if !keys.flags.contains(&"not_key") => match (keys.begin, keys.span) {
            (Begin::Word(place), Span::To { last: 0, .. }) => Some(place),
            _ => None,
        },
        _ => None,
    }
}

/// The keys among the words of a command; `None` if the words are too few for the keys that they announce.
pub fn keys(spec: &Spec, args: &[&[u8]]) -> Option<Vec<KeyPlace>> {
    let mut found = Vec::new();
    for keys in &redis::of(spec).keys {
        if keys.flags.contains(&"not_key") {
            continue;
        }
        let start = match keys.begin {
            Begin::Word(number) => Some(number),
            Begin::After(word, from) => after(args, word, from),
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
                    return None;
                }
                (start..=last).step_by(step.max(1)).filter(|place| *place < args.len()).for_each(&mut add);
            }
            Span::Counted { at, first, step } => {
                let count = args.get(start + at).and_then(|word| parse_i64(word));
                let count = usize::try_from(count?).ok()?;
                let first = start + first;
                let end = count.checked_mul(step.max(1)).and_then(|width| first.checked_add(width))?;
                if end > args.len() {
                    return None;
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
    Some(found)
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

/// The place after a word.
fn after(args: &[&[u8]], word: &str, from: i32) -> Option<usize> {
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
    use crate::facts::{Flags, by_number, find};

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

    /// Commands that name no keys and tell no more of them than their names or their number, as in Redis, or are about
    /// none.
    const TOLD_AS_REDIS_DOES: [&str; 8] =
        ["keys", "scan", "randomkey", "dbsize", "flushall", "flushdb", "lolwut", "unwatch"];

    #[test]
    fn a_command_that_reads_or_writes_keys_names_them_or_needs_rights_to_all() {
        let mut unbound = Vec::new();
        for spec in by_number() {
            let touches = spec.flags.has(Flags::READ) || spec.flags.has(Flags::WRITE);
            let words: Vec<&[u8]> = std::iter::once(spec.name.as_bytes()).chain([&b"-"[..], b"+", b"1"]).collect();
            let is_bound = !redis::of(spec).keys.is_empty() || !matches!(reach(spec, &words), Reach::Named);
            if touches && !is_bound && !TOLD_AS_REDIS_DOES.contains(&spec.name) {
                unbound.push(spec.name);
            }
        }
        assert!(unbound.is_empty(), "rights by key do not bind {unbound:?}");
    }
}
