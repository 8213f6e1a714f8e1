//! The parameters that can be configured: their names, the values each may have, and the values they have now. They are
//! those of Redis 7.0 and Quipu's own.
//!
//! Every name of Redis is accepted and remembered, so that programs that set it find it. Those that have an effect here
//! are listed in [`Parameters`]. A value is kept as `CONFIG GET` shows it; values that are needed for every command are
//! kept as numbers, too.
//!
//! Invariant: the number is always that of the text.
//!
//! Not here: where values come from (files, the command line), what they do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use quipu::Durability;

use super::texts::{buffer_limits, event_classes, oom_scores, parse_bytes, save_points};

/// Quipu's own, in the form of the file that lists Redis's.
const OWN: &str = "\
cache-bytes - bytes:0:1125899906842624 any 268435456
cluster - text start
cluster-drain-ms - int:0:600000 start 5000
cluster-grace-s - int:600:31536000 start 86400
cluster-hint-age-s - int:1:31536000 start 10800
cluster-hint-bytes - bytes:65536:1125899906842624 start 1073741824
cluster-repair-bytes-per-second - bytes:65536:1125899906842624 start 16777216
cluster-repair-interval-s - int:1:31536000 start 600
cluster-request-timeout-ms - int:50:60000 start 1000
cluster-secret-file - text start
cluster-stamp-once - bool start no
cluster-tls-ca-cert-file - text start
cluster-tls-cert-file - text start
cluster-tls-key-file - text start
durability - one-of:sync|os|none any sync
http-port - int:0:65535 start 0
join - text start
long-threads - int:0:256 start 0
memtable-bytes - bytes:0:1125899906842624 any 1073741824
peer-port - int:0:65535 start 0
poll-us - int:0:1000000 any 50
replicas - int:0:32 start 0
self-url - text start
threads - int:1:256 start 1
";

/// The least of `memtable-bytes` that is not 0: the engine's.
const MEMTABLE_BYTES_MIN: u64 = 256 << 10;

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// `yes` or `no`.
    Bool,
    /// Anything, or something that only its name knows.
    Text,
    /// An integer within bounds.
    Integer(i64, i64),
    /// A number of bytes within bounds, `10mb` for instance.
    Bytes(u64, u64),
    /// One of these words.
    OneOf(Vec<&'static str>),
}

/// When a value may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Any,
    Start,
    /// As `Start`, but refused in other words.
    Protected,
}

/// A name, and what it may be.
#[derive(Debug)]
struct Parameter {
    name: &'static str,
    /// What it was called before.
    older_name: Option<&'static str>,
    kind: Kind,
    when: When,
    default: &'static str,
}

/// All names, in order of the alphabet.
fn list() -> &'static [Parameter] {
    static LIST: OnceLock<Vec<Parameter>> = OnceLock::new();
    LIST.get_or_init(|| {
        let lines = include_str!("redis_parameters.txt").lines().chain(OWN.lines());
        let mut list: Vec<_> = lines.filter(|line| !line.starts_with('#')).filter_map(parse_line).collect();
        list.sort_by_key(|parameter| parameter.name);
        list
    })
}

fn parse_line(line: &'static str) -> Option<Parameter> {
    let mut words = line.splitn(5, ' ');
    let name = words.next()?;
    let older_name = Some(words.next()?).filter(|name| *name != "-");
    let (kind, bounds) = words.next().map(|word| word.split_once(':').unwrap_or((word, "")))?;
    let kind = match kind {
        "bool" => Kind::Bool,
        "int" => bounds.split_once(':').and_then(|(a, b)| Some(Kind::Integer(a.parse().ok()?, b.parse().ok()?)))?,
        "bytes" => bounds.split_once(':').and_then(|(a, b)| Some(Kind::Bytes(a.parse().ok()?, b.parse().ok()?)))?,
        "one-of" => Kind::OneOf(bounds.split('|').collect()),
        _ => Kind::Text,
    };
    let when = match words.next()? {
        "start" => When::Start,
        "protected" => When::Protected,
        _ => When::Any,
    };
    Some(Parameter { name, older_name, kind, when, default: words.next().unwrap_or("") })
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
    numbers.get(if name == "data" { "dir" } else { &name }).copied()
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
    const EFFECTIVE: &[&str] = &[
        "acllog-max-len",
        "appendfsync",
        "bind",
        "cache-bytes",
        "client-output-buffer-limit",
        "client-query-buffer-limit",
        "cluster",
        "cluster-drain-ms",
        "cluster-grace-s",
        "cluster-hint-age-s",
        "cluster-hint-bytes",
        "cluster-repair-bytes-per-second",
        "cluster-repair-interval-s",
        "cluster-request-timeout-ms",
        "cluster-secret-file",
        "cluster-stamp-once",
        "cluster-tls-ca-cert-file",
        "cluster-tls-cert-file",
        "cluster-tls-key-file",
        "data",
        "dir",
        "durability",
        "enable-debug-command",
        "http-port",
        "io-threads",
        "join",
        "latency-monitor-threshold",
        "latency-tracking",
        "latency-tracking-info-percentiles",
        "logfile",
        "loglevel",
        "long-threads",
        "maxclients",
        "maxmemory",
        "maxmemory-clients",
        "memtable-bytes",
        "peer-port",
        "poll-us",
        "port",
        "proto-max-bulk-len",
        "protected-mode",
        "replicas",
        "requirepass",
        "self-url",
        "slowlog-log-slower-than",
        "slowlog-max-len",
        "threads",
        "timeout",
        "tls-auth-clients",
        "tls-ca-cert-file",
        "tls-cert-file",
        "tls-key-file",
        "tls-port",
        "unixsocket",
        "unixsocketperm",
        "users",
    ];
    EFFECTIVE.contains(&name.to_ascii_lowercase().as_str())
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
    memtable_bytes: AtomicU64,
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
    is_protected: AtomicBool,
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
        list().iter().for_each(|parameter| parameters.take_effect(parameter.name, parameter.default));
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
        let mut left: Vec<&str> = names().chain(["data"]).collect();
        for pattern in patterns {
            let is_plain = is_plain(pattern);
            left.retain(|name| {
                let is_meant = match is_plain {
                    true => name.as_bytes().eq_ignore_ascii_case(pattern),
                    false => *name != "data" && crate::resp::glob::matches(pattern, name.as_bytes(), true),
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
        let value = normal(&list()[number], value, &self.value(number)).map_err(Rejected::Because)?;
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
        normal(parameter, value, &self.value(number)).map_err(Rejected::Because)
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
        self.take_effect(name, &value);
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
    fn take_effect(&self, name: &str, value: &str) {
        let store = |place: &AtomicU64| place.store(value.parse().unwrap_or(0), Ordering::Relaxed);
        match name {
            "durability" => {
                let level = match value {
                    "sync" => 0,
                    "os" => 1,
                    _ => 2,
                };
                self.durability.store(level, Ordering::Relaxed);
            }
            "appendfsync" => self.durability.store(u8::from(value != "always"), Ordering::Relaxed),
            "maxclients" => store(&self.clients_max),
            "maxmemory" => store(&self.memory_bytes_max),
            "memtable-bytes" => store(&self.memtable_bytes),
            "cache-bytes" => store(&self.cache_bytes),
            "poll-us" => store(&self.poll_us),
            "maxmemory-clients" => {
                store(&self.clients_bytes_max);
                let percent = value.strip_suffix('%').and_then(|number| number.parse().ok());
                self.clients_percent.store(percent.unwrap_or(0), Ordering::Relaxed);
            }
            "client-query-buffer-limit" => store(&self.query_bytes_max),
            "client-output-buffer-limit" => {
                let mut numbers = value.split(' ').skip(1).filter_map(|number| number.parse().ok());
                for place in [&self.output_bytes_max, &self.output_soft_bytes_max, &self.output_soft_s] {
                    place.store(numbers.next().unwrap_or(0), Ordering::Relaxed);
                }
            }
            "timeout" => store(&self.idle_s),
            "slowlog-log-slower-than" => self.slow_us.store(value.parse().unwrap_or(-1), Ordering::Relaxed),
            "slowlog-max-len" => store(&self.slow_commands_max),
            "latency-monitor-threshold" => store(&self.latency_ms),
            "proto-max-bulk-len" => store(&self.bulk_bytes_max),
            "protected-mode" => self.is_protected.store(value == "yes", Ordering::Relaxed),
            "acllog-max-len" => store(&self.refusals_max),
            _ => {}
        }
    }
}

/// A value as it is kept, or why it cannot be. `old` is what it was.
fn normal(parameter: &Parameter, value: &str, old: &str) -> Result<String, String> {
    match &parameter.kind {
        Kind::Bool => {
            let lower = value.to_ascii_lowercase();
            if lower != "yes" && lower != "no" {
                return Err("argument must be 'yes' or 'no'".to_owned());
            }
            Ok(lower)
        }
        Kind::Integer(min, max) => {
            let radix = if parameter.name == "unixsocketperm" { 8 } else { 10 };
            let number = i64::from_str_radix(value, radix)
                .map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
            if number < *min || number > *max {
                return Err(format!("argument must be between {min} and {max} inclusive"));
            }
            Ok(match parameter.name {
                "unixsocketperm" => format!("{number:o}"),
                "hz" => number.clamp(1, 500).to_string(),
                _ => number.to_string(),
            })
        }
        Kind::Bytes(..) if parameter.name == "maxmemory-clients" && value.ends_with('%') => {
            let percent: u64 = (value.trim_end_matches('%').parse())
                .map_err(|_| "argument must be a memory or percent value".to_owned())?;
            if percent > 100 {
                return Err("percentage argument must be less or equal to 100".to_owned());
            }
            Ok(format!("{percent}%"))
        }
        Kind::Bytes(min, max) => {
            let number = parse_bytes(value).ok_or("argument must be a memory value")?;
            if number < *min || number > *max {
                return Err(format!("argument must be between {min} and {max} inclusive"));
            }
            if parameter.name == "memtable-bytes" && (1..MEMTABLE_BYTES_MIN).contains(&number) {
                return Err(format!("argument must be 0, or {MEMTABLE_BYTES_MIN} at least"));
            }
            Ok(number.to_string())
        }
        Kind::OneOf(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
            Some(word) if parameter.name == "maxmemory-policy" && *word != "noeviction" => {
                Err("nothing is evicted here: over maxmemory, writes are refused; only noeviction is there".to_owned())
            }
            Some(word) => Ok((*word).to_owned()),
            None => Err(format!("argument(s) must be one of the following: {}", words.join(", "))),
        },
        Kind::Text => match parameter.name {
            "client-output-buffer-limit" => buffer_limits(value, old),
            "save" => save_points(value),
            "notify-keyspace-events" => event_classes(value),
            "latency-tracking-info-percentiles" => {
                let number = |word: &str| word.parse().ok().filter(|number: &f64| (0.0..=100.0).contains(number));
                // As short as may be: `50` for `50.0`.
                let numbers: Option<Vec<String>> =
                    value.split_whitespace().map(|word| number(word).map(|number| number.to_string())).collect();
                numbers
                    .map(|numbers| numbers.join(" "))
                    .ok_or_else(|| "Invalid latency-tracking-info-percentiles parameters".to_owned())
            }
            "oom-score-adj-values" => oom_scores(value),
            _ => Ok(value.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_and_every_default_allowed() {
        let lines =
            include_str!("redis_parameters.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(lines.count() + OWN.lines().count(), list().len());
        for parameter in list() {
            let kept = normal(parameter, parameter.default, parameter.default);
            assert_eq!(kept.as_deref(), Ok(parameter.default), "{}", parameter.name);
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
