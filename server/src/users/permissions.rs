//! A set of allowed commands and keys. A user may have several, each of which may allow a command.

use std::fmt;
use std::sync::OnceLock;

use indexmap::{IndexMap, IndexSet};

use crate::facts::key_places::{self, KeyPlace, Reach};
use crate::facts::redis::{self, CATEGORIES};
use crate::facts::{Flags, Spec, all, by_number, find};
use crate::resp::glob;

/// Why a command is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Not this command.
    Command,
    /// Not with this key.
    Key {
        /// The key, or the lowest bound of a range.
        key: Vec<u8>,
        /// Where it stands among the command's words.
        place: usize,
    },
}

impl Denied {
    /// How far the command was looked at.
    pub fn place(&self) -> Option<usize> {
        match self {
            Denied::Command => None,
            Denied::Key { place, .. } => Some(*place),
        }
    }
}

/// What may be done with the keys of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    /// What stands there may be told.
    read: bool,
    /// What stands there may be changed.
    write: bool,
}

/// A set of commands and keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Permissions {
    /// A bit for each command and subcommand, by number.
    commands: Vec<u64>,
    /// All commands are allowed, those of later versions too.
    all_commands: bool,
    /// The rules that made `commands`, after `+@all` or `-@all`: what each is about, and whether it allows that.
    command_rules: IndexMap<String, bool>,
    /// Which keys, by patterns as `KEYS` takes them.
    keys: IndexMap<Vec<u8>, Access>,
    all_keys: bool,
    channels: IndexSet<Vec<u8>>,
    all_channels: bool,
}

impl Permissions {
    /// Nothing.
    pub fn none() -> Permissions {
        Permissions { commands: vec![0; by_number().len().div_ceil(64)], ..Permissions::default() }
    }

    /// Everything.
    pub fn all() -> Permissions {
        let mut permissions = Permissions { all_keys: true, all_channels: true, ..Permissions::none() };
        permissions.allow_all();
        permissions
    }

    /// Whether nothing is forbidden.
    pub fn is_everything(&self) -> bool {
        self.all_keys && self.all_commands && self.command_rules.is_empty()
    }

    /// Whether a command is allowed, whatever its keys.
    fn allows(&self, number: u16) -> bool {
        self.commands.get(usize::from(number) / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }

    /// Whether a command with these words is allowed.
    pub fn may(&self, spec: &'static Spec, args: &[&[u8]]) -> Result<(), Denied> {
        if !self.allows(spec.number) && !spec.flags.has(Flags::NO_AUTH) {
            return Err(Denied::Command);
        }
        if self.all_keys {
            return Ok(());
        }
        // Words in which no keys can be told are refused by the command itself.
        for key in key_places::keys(spec, args).unwrap_or_default() {
            if !self.may_use(args[key.place], &key) {
                return Err(Denied::Key { key: args[key.place].to_vec(), place: key.place });
            }
        }
        match key_places::reach(spec, args) {
            Reach::Named => Ok(()),
            Reach::All => Err(Denied::Key { key: b"*".to_vec(), place: 0 }),
            Reach::Range { low, high } if self.may_use_range(low, high, spec.flags.has(Flags::WRITE)) => Ok(()),
            Reach::Range { low, .. } => Err(Denied::Key { key: low.to_vec(), place: 0 }),
            Reach::Inner(inner) => match find(inner.first().copied().unwrap_or_default()) {
                Some(spec) => self.may(spec, inner),
                None => Ok(()),
            },
        }
    }

    /// Whether every key that could lie between two bounds may be used: those that begin as a pattern like `order:*`
    /// does, with both bounds.
    fn may_use_range(&self, low: &[u8], high: &[u8], is_write: bool) -> bool {
        let key_of = |bound: &'_ [u8]| bound.strip_prefix(b"[").or(bound.strip_prefix(b"(")).map(<[u8]>::to_vec);
        let (Some(first), Some(last)) = (key_of(low), key_of(high)) else { return false };
        let covers = |pattern: &[u8]| {
            let Some(prefix) = pattern.strip_suffix(b"*") else { return false };
            let is_plain = !prefix.iter().any(|byte| b"*?[]\\".contains(byte)) && !prefix.is_empty();
            // The first key after all that begin so.
            let mut behind = prefix.to_vec();
            let has_one = behind.last_mut().is_some_and(|last| {
                *last = last.wrapping_add(1);
                *last != 0
            });
            let ends = last.starts_with(prefix) || has_one && high.starts_with(b"(") && last == behind;
            is_plain && first.starts_with(prefix) && ends
        };
        let enough = |access: &Access| if is_write { access.write } else { access.read };
        self.keys.iter().any(|(pattern, access)| enough(access) && covers(pattern))
    }

    fn may_use(&self, key: &[u8], place: &KeyPlace) -> bool {
        let enough = |access: &Access| (access.read || !place.is_read()) && (access.write || !place.is_written());
        self.keys.iter().any(|(pattern, access)| enough(access) && glob::matches(pattern, key, false))
    }

    fn set(&mut self, spec: &Spec, allowed: bool) {
        for number in std::iter::once(spec.number).chain(spec.subcommands.iter().map(|sub| sub.number)) {
            let bits = &mut self.commands[usize::from(number) / 64];
            *bits = *bits & !(1 << (number % 64)) | u64::from(allowed) << (number % 64);
        }
    }

    /// A container's bit does not speak for its subcommands here: each has categories of its own.
    fn set_category(&mut self, category: u32, allowed: bool) {
        for (bits, theirs) in self.commands.iter_mut().zip(commands_of(category)) {
            *bits = if allowed { *bits | theirs } else { *bits & !theirs };
        }
    }

    fn allow_all(&mut self) {
        self.commands.fill(u64::MAX);
        (self.all_commands, self.command_rules) = (true, IndexMap::new());
    }

    /// Applies one rule. `false` if it is not one of permissions.
    ///
    /// # Errors
    /// Why it is malformed.
    pub fn apply(&mut self, word: &[u8]) -> Result<bool, String> {
        const UNKNOWN: &str = "Unknown command or category name in ACL";
        let lower = String::from_utf8_lossy(word).to_ascii_lowercase();
        match lower.as_str() {
            "allkeys" | "~*" => (self.all_keys, self.keys) = (true, IndexMap::new()),
            "resetkeys" => (self.all_keys, self.keys) = (false, IndexMap::new()),
            "allchannels" | "&*" => (self.all_channels, self.channels) = (true, IndexSet::new()),
            "resetchannels" => (self.all_channels, self.channels) = (false, IndexSet::new()),
            "allcommands" | "+@all" => self.allow_all(),
            "nocommands" | "-@all" => {
                self.commands.fill(0);
                (self.all_commands, self.command_rules) = (false, IndexMap::new());
            }
            _ => match word.first() {
                Some(b'~' | b'%') => self.add_keys(word)?,
                Some(b'&') => {
                    if self.all_channels {
                        return Err(after_all("channels", "allchannels"));
                    }
                    check_pattern(&word[1..])?;
                    self.channels.insert(word[1..].to_vec());
                }
                Some(sign @ (b'+' | b'-')) => {
                    let (allowed, name) = (*sign == b'+', &lower[1..]);
                    if let Some(category) = name.strip_prefix('@') {
                        let bit = redis::category(category.as_bytes()).ok_or(UNKNOWN)?;
                        self.set_category(bit, allowed);
                    } else if let Some((container, sub)) = name.split_once('|') {
                        let spec = find(container.as_bytes()).ok_or(UNKNOWN)?;
                        let found = spec.subcommands.iter().find(|spec| spec.name == name);
                        match found {
                            Some(spec) => self.set(spec, allowed),
                            // The first word of a command that has no subcommands: Redis has deprecated it, and here it
                            // is not.
                            None if sub.contains('|') || sub.is_empty() => return Err(UNKNOWN.to_owned()),
                            None if spec.subcommands.is_empty() && allowed => {
                                return Err("Allowing first-arg of a command is not supported".to_owned());
                            }
                            None => return Err(UNKNOWN.to_owned()),
                        }
                    } else {
                        match find(name.as_bytes()) {
                            Some(spec) => self.set(spec, allowed),
                            // What Redis has and Quipu has not is forbidden anyway, so rules for it are kept.
                            None if redis::is_redis(name) => {}
                            None => return Err(UNKNOWN.to_owned()),
                        }
                    }
                    self.note_rule(name, allowed);
                }
                _ => return Ok(false),
            },
        }
        Ok(true)
    }

    fn add_keys(&mut self, word: &[u8]) -> Result<(), String> {
        const SYNTAX: &str = "Syntax error";
        let (mut read, mut write, mut place) = (word[0] == b'~', word[0] == b'~', 1);
        if word[0] == b'%' {
            loop {
                match word.get(place).map(u8::to_ascii_uppercase) {
                    Some(b'R') if !read => read = true,
                    Some(b'W') if !write => write = true,
                    Some(b'~') if place > 1 => break,
                    _ => return Err(SYNTAX.to_owned()),
                }
                place += 1;
            }
            place += 1;
        }
        if self.all_keys {
            return Err(after_all("patterns", "allkeys"));
        }
        let pattern = &word[place..];
        check_pattern(pattern)?;
        let access = self.keys.entry(pattern.to_vec()).or_insert(Access { read: false, write: false });
        access.read |= read;
        access.write |= write;
        Ok(())
    }

    /// Keeps a rule about commands, in place of what it makes void.
    fn note_rule(&mut self, name: &str, allowed: bool) {
        self.command_rules.shift_remove(name);
        if find(name.as_bytes()).is_some_and(|spec| !spec.subcommands.is_empty()) {
            let container = format!("{name}|");
            self.command_rules.retain(|known, _| !known.starts_with(&container));
        }
        self.command_rules.insert(name.to_owned(), allowed);
    }

    /// The rules about commands.
    pub fn command_text(&self) -> String {
        let mut text = if self.all_commands { "+@all" } else { "-@all" }.to_owned();
        for (name, allowed) in &self.command_rules {
            text.push_str(if *allowed { " +" } else { " -" });
            text.push_str(name);
        }
        text
    }

    /// The rules about keys.
    pub fn key_text(&self) -> String {
        if self.all_keys {
            return "~*".to_owned();
        }
        let one = |(pattern, access): (&Vec<u8>, &Access)| {
            let access = match (access.read, access.write) {
                (true, true) => "~",
                (true, false) => "%R~",
                _ => "%W~",
            };
            format!("{access}{}", String::from_utf8_lossy(pattern))
        };
        self.keys.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The rules about channels.
    pub fn channel_text(&self) -> String {
        if self.all_channels {
            return "&*".to_owned();
        }
        let one = |pattern: &Vec<u8>| format!("&{}", String::from_utf8_lossy(pattern));
        self.channels.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Permissions {
    /// As `ACL LIST` shows them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.key_text();
        if !keys.is_empty() {
            write!(f, "{keys} ")?;
        }
        if !self.all_channels {
            f.write_str("resetchannels ")?;
        }
        let channels = self.channel_text();
        if !channels.is_empty() {
            write!(f, "{channels} ")?;
        }
        f.write_str(&self.command_text())
    }
}

fn check_pattern(pattern: &[u8]) -> Result<(), String> {
    let is_bad = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    if pattern.iter().any(is_bad) { Err("Syntax error".to_owned()) } else { Ok(()) }
}

fn after_all(what: &str, word: &str) -> String {
    let (reset, list) = if what == "channels" { ("resetchannels", "channels") } else { ("resetkeys", "patterns") };
    format!(
        "Adding a pattern after the * pattern (or the '{word}' flag) is not valid and does not have any effect. \
         Try '{reset}' to start with an empty list of {list}"
    )
}

/// A bit for each command and subcommand of a category, by number.
fn commands_of(category: u32) -> &'static [u64] {
    static COMMANDS: OnceLock<Vec<Vec<u64>>> = OnceLock::new();
    let all = COMMANDS.get_or_init(|| {
        let of = |place: usize| {
            let mut bits = vec![0; by_number().len().div_ceil(64)];
            for spec in by_number().iter().filter(|spec| redis::of(spec).categories >> place & 1 == 1) {
                bits[usize::from(spec.number) / 64] |= 1 << (spec.number % 64);
            }
            bits
        };
        (0..CATEGORIES.len()).map(of).collect()
    });
    all.get(category.trailing_zeros() as usize).map_or(&[], Vec::as_slice)
}

/// The commands and subcommands of a category.
pub fn members(category: u32) -> Vec<&'static str> {
    let has = |spec: &&'static Spec| redis::of(spec).categories & category != 0;
    all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands)).filter(has).map(|spec| spec.name).collect()
}

/// The names of the categories that a command has.
pub fn categories_of(spec: &Spec) -> impl Iterator<Item = &'static str> + use<> {
    let bits = redis::of(spec).categories;
    CATEGORIES.iter().enumerate().filter(move |(place, _)| bits >> place & 1 == 1).map(|(_, name)| *name)
}
