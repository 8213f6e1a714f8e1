//! The values that parameters have now, by name: those of Redis 7.0 and Quipu's own.
//!
//! Every name of Redis is accepted and remembered, so that programs that set it find it. Those that have an effect here
//! stand in `served`, with what they do. A value is kept as `CONFIG GET` shows it; values that are needed for every
//! command are kept as numbers, too.
//!
//! Invariant: the number is always that of the text.
//!
//! Not here: where values come from: files (`file`), and the command line of the program (`cli/src/serve`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use quipu::Durability;

use super::kinds::Kind;
use super::served::{self, Effect, Served, Then};

/// The least of `memtable-bytes` that is not 0: the engine's.
const MEMTABLE_BYTES_MIN: u64 = 256 << 10;

/// Quipu's name for Redis's `dir`.
const DATA: (&str, &str) = ("data", "dir");

/// When a value may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Any,
    Start,
    /// As `Start`, but refused in other words.
    Protected,
}

/// A name, and what it may be.
pub(super) struct Parameter {
    pub name: &'static str,
    /// What it was called before.
    older_name: Option<&'static str>,
    pub kind: Kind,
    pub when: When,
    pub default: &'static str,
    /// What it does; `None`: it is only remembered.
    pub served: Option<&'static Served>,
}

/// All names, in order of the alphabet.
pub(super) fn list() -> &'static [Parameter] {
    static LIST: OnceLock<Vec<Parameter>> = OnceLock::new();
    LIST.get_or_init(|| {
        let of_redis = include_str!("redis_parameters.txt").lines().filter(|line| !line.starts_with('#'));
        let of_redis = of_redis.filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let (older_name, rest) = rest.split_once(' ')?;
            declare(name, Some(older_name).filter(|name| *name != "-"), rest)
        });
        let own = served::all().filter_map(|served| declare(served.name, None, served.declared?));
        let mut list: Vec<_> = of_redis.chain(own).collect();
        list.sort_by_key(|parameter| parameter.name);
        list
    })
}

/// Reads `int:0:65535 start 6379`: a kind, when it may be given, a default.
fn declare(name: &'static str, older_name: Option<&'static str>, text: &'static str) -> Option<Parameter> {
    let mut words = text.splitn(3, ' ');
    let kind = Kind::parse(words.next()?)?;
    let when = match words.next()? {
        "start" => When::Start,
        "protected" => When::Protected,
        _ => When::Any,
    };
    let known = if name == DATA.1 { DATA.0 } else { name };
    let served = served::all().find(|served| served.name == known);
    Some(Parameter { name, older_name, kind, when, default: words.next().unwrap_or(""), served })
}

/// The number of a name, whatever its case.
fn number_of(name: &str) -> Option<usize> {
    static NUMBERS: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let names = |(number, parameter): (usize, &'static Parameter)| {
            std::iter::once(parameter.name).chain(parameter.older_name).map(move |name| (name, number))
        };
        list().iter().enumerate().flat_map(names).collect()
    });
    let name = name.to_ascii_lowercase();
    numbers.get(if name == DATA.0 { DATA.1 } else { &name }).copied()
}

/// What has this name.
pub(super) fn named(name: &str) -> Option<&'static Parameter> {
    number_of(name).map(|number| &list()[number])
}

/// Whether there is something of that name to configure.
pub fn is_known(name: &str) -> bool {
    number_of(name).is_some()
}

/// All names, the older ones too.
pub fn names() -> impl Iterator<Item = &'static str> {
    list().iter().flat_map(|parameter| std::iter::once(parameter.name).chain(parameter.older_name))
}

/// Whether what has this name does something here; the others are only remembered.
pub fn has_effect(name: &str) -> bool {
    name.eq_ignore_ascii_case("users") || named(name).is_some_and(|parameter| parameter.served.is_some())
}

/// What has to be done with the running server after this was changed.
pub fn to_do_after(name: &str) -> Option<Then> {
    named(name)?.served?.then
}

/// Why a value was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Nothing has this name.
    Unknown,
    /// It cannot be this value, or not now: why.
    Because(String),
}

/// All values.
#[derive(Debug)]
pub struct Parameters {
    values: RwLock<Vec<String>>,
    /// Which were set by `CONFIG SET`.
    changed: Vec<AtomicBool>,
    durability: AtomicU8,
    /// How many clients may be connected: `maxclients`.
    pub clients_max: AtomicU64,
    /// Bytes of memory above which writes are refused, 0 if there is no limit: `maxmemory`.
    pub memory_bytes_max: AtomicU64,
    /// Bytes of rows in memory above which they go to disk, 0 if all stay there: `memtable-bytes`.
    pub(super) memtable_bytes: AtomicU64,
    /// Bytes of pages of runs that are kept in memory: `cache-bytes`.
    pub cache_bytes: AtomicU64,
    /// Microseconds for which a thread asks for more to do before it sleeps: `poll-us`.
    pub poll_us: AtomicU64,
    /// Bytes of memory that all clients together may hold, 0 for the usual limit: `maxmemory-clients`.
    clients_bytes_max: AtomicU64,
    /// The same as a part of `maxmemory`, in percent; 0 if it is no such part.
    clients_percent: AtomicU64,
    /// Bytes of a command that has not come whole above which its client is closed: `client-query-buffer-limit`.
    pub query_bytes_max: AtomicU64,
    /// Bytes of answers that are not taken above which their client is closed, 0 if there is no limit:
    /// `client-output-buffer-limit`.
    pub output_bytes_max: AtomicU64,
    /// As `output_bytes_max`, if it lasts for `output_soft_s`.
    pub output_soft_bytes_max: AtomicU64,
    /// Seconds for which `output_soft_bytes_max` may be passed.
    pub output_soft_s: AtomicU64,
    /// Seconds without a command after which a client is closed, 0 for never: `timeout`.
    pub idle_s: AtomicU64,
    /// Microseconds from which a command is slow; negative: none is. `slowlog-log-slower-than`.
    pub slow_us: AtomicI64,
    /// Slow commands that are kept: `slowlog-max-len`.
    pub slow_commands_max: AtomicU64,
    /// Milliseconds from which an event is kept for `LATENCY`; 0: none is. `latency-monitor-threshold`.
    pub latency_ms: AtomicU64,
    /// Bytes of one word of a command: `proto-max-bulk-len`.
    pub bulk_bytes_max: AtomicU64,
    /// Refusals that `ACL LOG` keeps: `acllog-max-len`.
    pub refusals_max: AtomicU64,
    pub(super) is_protected: AtomicBool,
}

impl Default for Parameters {
    fn default() -> Self {
        let parameters = Parameters {
            values: RwLock::new(list().iter().map(|parameter| parameter.default.to_owned()).collect()),
            changed: list().iter().map(|_| AtomicBool::new(false)).collect(),
            durability: AtomicU8::new(0),
            clients_max: AtomicU64::new(0),
            memory_bytes_max: AtomicU64::new(0),
            memtable_bytes: AtomicU64::new(0),
            cache_bytes: AtomicU64::new(0),
            poll_us: AtomicU64::new(0),
            clients_bytes_max: AtomicU64::new(0),
            clients_percent: AtomicU64::new(0),
            query_bytes_max: AtomicU64::new(0),
            output_bytes_max: AtomicU64::new(0),
            output_soft_bytes_max: AtomicU64::new(0),
            output_soft_s: AtomicU64::new(0),
            idle_s: AtomicU64::new(0),
            slow_us: AtomicI64::new(0),
            slow_commands_max: AtomicU64::new(0),
            latency_ms: AtomicU64::new(0),
            bulk_bytes_max: AtomicU64::new(0),
            refusals_max: AtomicU64::new(0),
            is_protected: AtomicBool::new(true),
        };
        list().iter().for_each(|parameter| parameters.take_effect(parameter, parameter.default));
        parameters
    }
}

impl Parameters {
    /// When a commit is answered.
    pub fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            0 => Durability::Sync,
            1 => Durability::Os,
            _ => Durability::None,
        }
    }

    /// Bytes of rows in memory above which they go to disk, 0 if all stay there: `memtable-bytes`, and no more than
    /// half of `maxmemory`. So rows go to disk, and writers wait for that, well before writes are refused.
    pub fn memtable_bytes(&self) -> u64 {
        let wanted = self.memtable_bytes.load(Ordering::Relaxed);
        match self.memory_bytes_max.load(Ordering::Relaxed) {
            0 => wanted,
            max => wanted.min((max / 2).max(MEMTABLE_BYTES_MIN)),
        }
    }

    /// Whether clients of other machines are turned away while there is no password: `protected-mode`.
    pub fn is_protected(&self) -> bool {
        self.is_protected.load(Ordering::Relaxed)
    }

    /// Bytes of memory that all clients together may hold, 0 for the usual limit: `maxmemory-clients`.
    pub fn clients_bytes_max(&self) -> u64 {
        match self.clients_percent.load(Ordering::Relaxed) {
            0 => self.clients_bytes_max.load(Ordering::Relaxed),
            percent => (self.memory_bytes_max.load(Ordering::Relaxed) / 100).saturating_mul(percent),
        }
    }

    /// The value of a name, as `CONFIG GET` shows it.
    pub fn get(&self, name: &str) -> Option<String> {
        let number = number_of(name)?;
        self.values.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    /// Names that match patterns, each with its value. A name that was asked for in other letters comes back in these.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(String, String)> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<(String, String)> = Vec::new();
        let is_plain = |pattern: &[u8]| !pattern.iter().any(|byte| b"*?[\\".contains(byte));
        // Patterns may be many: what was found is looked at no more.
        let mut left: Vec<&str> = names().chain([DATA.0]).collect();
        for pattern in patterns {
            let is_plain = is_plain(pattern);
            left.retain(|name| {
                let is_meant = match is_plain {
                    true => name.as_bytes().eq_ignore_ascii_case(pattern),
                    false => *name != DATA.0 && crate::resp::glob::matches(pattern, name.as_bytes(), true),
                };
                if let Some(number) = number_of(name).filter(|_| is_meant) {
                    let name =
                        if is_plain { String::from_utf8_lossy(pattern).into_owned() } else { (*name).to_owned() };
                    found.push((name, values[number].clone()));
                }
                !is_meant
            });
        }
        found
    }

    /// Sets a value while the server starts.
    pub(super) fn set_at_start(&self, name: &str, value: &str) -> Result<(), Rejected> {
        let number = number_of(name).ok_or(Rejected::Unknown)?;
        let value = list()[number].kind.normal(value, &self.value(number)).map_err(Rejected::Because)?;
        self.put(number, value);
        Ok(())
    }

    /// What a value would be kept as, if it may be set while the server runs.
    pub fn check(&self, name: &str, value: &str) -> Result<String, Rejected> {
        let number = number_of(name).ok_or(Rejected::Unknown)?;
        let parameter = &list()[number];
        match parameter.when {
            When::Any => {}
            When::Start => return Err(Rejected::Because("can't set immutable config".to_owned())),
            When::Protected => return Err(Rejected::Because("can't set protected config".to_owned())),
        }
        parameter.kind.normal(value, &self.value(number)).map_err(Rejected::Because)
    }

    /// Sets a value that [`Parameters::check`] has returned.
    pub fn set(&self, name: &str, value: String) {
        if let Some(number) = number_of(name) {
            self.changed[number].store(true, Ordering::Relaxed);
            self.put(number, value);
        }
    }

    /// What `CONFIG SET` has changed, with its values.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let changed = |number: &usize| self.changed[*number].load(Ordering::Relaxed);
        (0..list().len()).filter(changed).map(|number| (list()[number].name, values[number].clone())).collect()
    }

    fn value(&self, number: usize) -> String {
        self.values.read().unwrap_or_else(PoisonError::into_inner)[number].clone()
    }

    fn put(&self, number: usize, value: String) {
        let name = list()[number].name;
        self.take_effect(&list()[number], &value);
        // Two names for one thing: when commits are durable.
        let twin = match (name, value.as_str()) {
            ("durability", "sync") => Some(("appendfsync", "always")),
            ("durability", "os") => Some(("appendfsync", "everysec")),
            ("durability", _) => Some(("appendfsync", "no")),
            ("appendfsync", "always") => Some(("durability", "sync")),
            ("appendfsync", _) => Some(("durability", "os")),
            _ => None,
        };
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values[number] = value;
        if let Some((name, value)) = twin
            && let Some(number) = number_of(name)
        {
            values[number] = value.to_owned();
        }
    }

    /// Keeps the number beside a value.
    fn take_effect(&self, parameter: &Parameter, value: &str) {
        match parameter.served.map(|served| &served.effect) {
            Some(Effect::Number(place)) => place(self).store(value.parse().unwrap_or(0), Ordering::Relaxed),
            Some(Effect::Kept(keep)) => keep(self, value),
            Some(Effect::Read | Effect::Start(_)) | None => {}
        }
    }

    /// When a commit is answered, in Quipu's words or in Redis's.
    pub(super) fn put_durability(&self, value: &str) {
        let level = match value {
            "sync" | "always" => 0,
            "os" | "everysec" | "no" => 1,
            _ => 2,
        };
        self.durability.store(level, Ordering::Relaxed);
    }

    /// What all clients may hold: bytes, or percents of `maxmemory`.
    pub(super) fn put_clients_limit(&self, value: &str) {
        let percent = value.strip_suffix('%').and_then(|number| number.parse().ok());
        self.clients_bytes_max.store(value.parse().unwrap_or(0), Ordering::Relaxed);
        self.clients_percent.store(percent.unwrap_or(0), Ordering::Relaxed);
    }

    /// The limits of the class `normal`, which come first.
    pub(super) fn put_output_limits(&self, value: &str) {
        let mut numbers = value.split(' ').skip(1).filter_map(|number| number.parse().ok());
        for place in [&self.output_bytes_max, &self.output_soft_bytes_max, &self.output_soft_s] {
            place.store(numbers.next().unwrap_or(0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_and_every_default_allowed() {
        let lines =
            include_str!("redis_parameters.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let own = served::all().filter(|served| served.declared.is_some()).count();
        assert_eq!(lines.count() + own, list().len());
        for parameter in list().iter().filter(|parameter| !parameter.default.is_empty()) {
            let kept = parameter.kind.normal(parameter.default, parameter.default);
            assert_eq!(kept.as_deref(), Ok(parameter.default), "{}", parameter.name);
        }
        // The least that the table names is the one that `maxmemory` goes down to.
        let kind = &named("memtable-bytes").expect("a parameter").kind;
        assert!(kind.normal(&MEMTABLE_BYTES_MIN.to_string(), "").is_ok());
        assert!(kind.normal(&(MEMTABLE_BYTES_MIN - 1).to_string(), "").is_err());
        for served in served::all() {
            assert!(named(served.name).is_some_and(|parameter| parameter.served.is_some()), "{}", served.name);
        }
    }

    #[test]
    fn values_are_checked_as_redis_checks_them() {
        let parameters = Parameters::default();
        let because = |text: &str| Err(Rejected::Because(text.to_owned()));
        assert_eq!(parameters.check("nosuch", "1"), Err(Rejected::Unknown));
        assert_eq!(parameters.check("maxclients", "abc"), because("argument couldn't be parsed into an integer"));
        assert_eq!(parameters.check("maxclients", "0"), because("argument must be between 1 and 4294967295 inclusive"));
        assert_eq!(parameters.check("maxmemory", "1GB"), Ok("1073741824".to_owned()));
        assert_eq!(parameters.check("maxmemory", "12xx"), because("argument must be a memory value"));
        assert_eq!(parameters.check("daemonize", "yes"), because("can't set immutable config"));
        assert_eq!(parameters.check("dir", "/x"), because("can't set protected config"));
        assert_eq!(parameters.check("maxmemory-clients", "10%"), Ok("10%".to_owned()));
        let over = "percentage argument must be less or equal to 100";
        assert_eq!(parameters.check("maxmemory-clients", "101%"), because(over));
        assert_eq!(parameters.check("aof-disable-auto-gc", "yes"), Ok("yes".to_owned()));
        assert_eq!(parameters.check("oom-score-adj-values", " 1  2 -3"), Ok("1 2 -3".to_owned()));
        assert_eq!(parameters.check("oom-score-adj-values", "1 2"), because("wrong number of arguments"));
        let outside = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
        assert_eq!(parameters.check("oom-score-adj-values", "a b c"), because(outside));
        assert_eq!(parameters.check("oom-score-adj-values", "0 0 2001"), because(outside));
        let percentiles = parameters.check("latency-tracking-info-percentiles", "50.0 99.90 0.001");
        assert_eq!(percentiles, Ok("50 99.9 0.001".to_owned()));
        let class = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
        assert_eq!(parameters.check("notify-keyspace-events", "Q"), because(class));
        let limits = parameters.check("client-output-buffer-limit", "normal 1mb 2 3");
        assert_eq!(limits.as_deref(), Ok("normal 1048576 2 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60"));
    }

    /// They were taken, told by `CONFIG GET`, and nothing was evicted or told.
    #[test]
    fn what_is_not_done_is_refused() {
        let parameters = Parameters::default();
        for policy in ["allkeys-lru", "volatile-ttl", "ALLKEYS-LFU"] {
            let refused = parameters.check("maxmemory-policy", policy);
            assert!(
                matches!(&refused, Err(Rejected::Because(why)) if why.contains("nothing is evicted")),
                "{refused:?}"
            );
            assert!(parameters.set_at_start("maxmemory-policy", policy).is_err());
        }
        assert_eq!(parameters.check("maxmemory-policy", "NoEviction"), Ok("noeviction".to_owned()));
        for events in ["KEA", "Ex"] {
            let refused = parameters.check("notify-keyspace-events", events);
            assert!(matches!(&refused, Err(Rejected::Because(why)) if why.contains("not told")), "{refused:?}");
        }
        assert_eq!(parameters.check("notify-keyspace-events", ""), Ok(String::new()));
    }

    /// With the usual gigabyte for rows in memory, rows reached `maxmemory` before they went to disk, and writes were
    /// refused that fitted a moment later.
    #[test]
    fn rows_go_to_disk_well_before_writes_are_refused() {
        let parameters = Parameters::default();
        let megabytes = |number: u64| number << 20;
        assert_eq!(parameters.memtable_bytes(), megabytes(1024));
        parameters.set("maxmemory", megabytes(20).to_string());
        assert_eq!(parameters.memtable_bytes(), megabytes(10));
        parameters.set("memtable-bytes", megabytes(4).to_string());
        assert_eq!(parameters.memtable_bytes(), megabytes(4));
        parameters.set("memtable-bytes", "0".to_owned());
        assert_eq!(parameters.memtable_bytes(), 0, "all rows stay in memory, as in Redis");
        parameters.set("memtable-bytes", megabytes(1).to_string());
        parameters.set("maxmemory", "1".to_owned());
        assert_eq!(parameters.memtable_bytes(), MEMTABLE_BYTES_MIN);
    }

    #[test]
    fn a_part_of_the_memory_for_clients_follows_the_memory() {
        let parameters = Parameters::default();
        parameters.set("maxmemory-clients", "10%".to_owned());
        assert_eq!(parameters.clients_bytes_max(), 0, "no limit of memory, none of clients");
        parameters.set("maxmemory", "5000".to_owned());
        assert_eq!(parameters.clients_bytes_max(), 500);
        parameters.set("maxmemory-clients", "7".to_owned());
        assert_eq!(parameters.clients_bytes_max(), 7);
    }

    #[test]
    fn both_names_of_durability_agree() {
        let parameters = Parameters::default();
        parameters.set("appendfsync", "everysec".to_owned());
        assert_eq!((parameters.durability(), parameters.get("durability").as_deref()), (Durability::Os, Some("os")));
        parameters.set("durability", "sync".to_owned());
        assert_eq!(parameters.get("appendfsync").as_deref(), Some("always"));
        assert_eq!(parameters.durability(), Durability::Sync);
    }
}
