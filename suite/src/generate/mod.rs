//! Seeded histories: all commands of some groups, on few keys, mostly valid, from several clients.

mod bits;
mod connection;
mod expiry;
mod keys;
mod long_strings;
mod mistakes;
mod sorted_sets;
mod strings;
mod words;

use std::fmt;

use crate::command::Command;
use crate::dice::Dice;
use crate::step::{Step, TALKERS};

/// Commands of a pipeline are at most this many bytes, but for the last one: a server may stop reading while no client
/// reads its replies.
const PIPELINE_BYTES: usize = 64 << 10;

/// A group of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// GET, SET and their kin.
    Strings,
    /// SET to DEL on long strings.
    LongStrings,
    /// SETBIT to BITFIELD.
    Bits,
    /// DEL to SELECT.
    Keys,
    /// EXPIRE to PEXPIRETIME, and waiting.
    Expiry,
    /// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    Transactions,
    /// The Z commands.
    SortedSets,
    /// PING to RESET, and calls that no server knows.
    Connection,
    /// Malformed frames on connections of their own: [`frames`](crate::frames).
    Protocol,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 9] = [
        Group::Strings,
        Group::LongStrings,
        Group::Bits,
        Group::Keys,
        Group::Expiry,
        Group::Transactions,
        Group::SortedSets,
        Group::Connection,
        Group::Protocol,
    ];

    /// The word for it on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Group::Strings => "strings",
            Group::LongStrings => "long-strings",
            Group::Bits => "bits",
            Group::Keys => "keys",
            Group::Expiry => "expiry",
            Group::Transactions => "transactions",
            Group::SortedSets => "sorted-sets",
            Group::Connection => "connection",
            Group::Protocol => "protocol",
        }
    }

    /// The group of a word.
    ///
    /// # Errors
    ///
    /// If there is none; tells which ones there are.
    pub fn of_name(name: &str) -> Result<Group, String> {
        Group::ALL.into_iter().find(|group| group.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Group::ALL.iter().map(|group| group.name()).collect();
            format!("no group {name:?}; there are {}", names.join(", "))
        })
    }

    /// The names of its commands.
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Group::Strings => strings::NAMES,
            Group::LongStrings => long_strings::NAMES,
            Group::Bits => bits::NAMES,
            Group::Keys => keys::NAMES,
            Group::Expiry => expiry::NAMES,
            Group::Transactions => &["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"],
            Group::SortedSets => sorted_sets::NAMES,
            Group::Connection => connection::NAMES,
            Group::Protocol => &[],
        }
    }

    fn weight(self) -> usize {
        match self {
            Group::Strings => 25,
            Group::LongStrings => 3,
            Group::Bits => 8,
            Group::Keys => 14,
            Group::Expiry => 10,
            Group::Transactions => 6,
            Group::SortedSets => 32,
            Group::Connection => 5,
            Group::Protocol => 0,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A stream of steps, determined by a seed.
#[derive(Debug)]
pub struct Stream {
    dice: Dice,
    groups: Vec<(usize, Group)>,
    protocol: u8,
    /// Whether each client is in a transaction, as far as can be told without the replies.
    in_transaction: [bool; TALKERS],
}

impl Stream {
    /// The stream of a seed, from some groups, for connections that speak version `protocol`.
    pub fn new(seed: u64, groups: &[Group], protocol: u8) -> Stream {
        let groups = groups.iter().map(|group| (group.weight(), *group)).filter(|(weight, _)| *weight > 0).collect();
        Stream { dice: Dice::new(seed), groups, protocol, in_transaction: [false; TALKERS] }
    }

    /// The next step; `None` if none of the groups is made of commands.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.groups.is_empty() {
            return None;
        }
        let group = self.dice.weighted(&self.groups);
        let dice = &mut self.dice;
        match group {
            Group::Keys if dice.percent(12) => return Some(keys::iterate(dice)),
            Group::Keys if dice.percent(12) => return Some(keys::transfer(dice)),
            // Rarely: it costs as much time as some thousand other commands.
            Group::Expiry if dice.below(400) == 0 => return Some(expiry::wait(dice)),
            Group::SortedSets if dice.percent(3) => return Some(sorted_sets::sample(dice)),
            Group::Connection if dice.percent(10) => return Some(connection::hushed(dice)),
            _ => {}
        }
        Some(self.pipeline())
    }

    fn pipeline(&mut self) -> Step {
        let client = self.dice.below(TALKERS);
        let size = match self.dice.below(20) {
            0..=9 => 1,
            10..=14 => 5,
            15..=18 => 2 + self.dice.below(19),
            _ => 100,
        };
        let mut units = Vec::new();
        let (mut count, mut bytes) = (0, 0);
        while count < size && bytes < PIPELINE_BYTES {
            for unit in self.units(client) {
                count += unit.len();
                bytes += unit.iter().flat_map(|command| &command.words).map(|word| word.len() + 16).sum::<usize>();
                if unit.iter().any(long_strings::is_about_one) {
                    // So many bytes may be answered, too: it is the last.
                    bytes += PIPELINE_BYTES;
                }
                units.push(unit);
            }
        }
        let mut cuts = Vec::new();
        if self.dice.percent(8) {
            cuts = (0..1 + self.dice.below(3)).map(|_| self.dice.below(bytes.max(1))).collect();
            cuts.sort_unstable();
        }
        Step::Pipeline { client, units, cuts }
    }

    /// A unit, or a whole transaction of several.
    fn units(&mut self, client: usize) -> Vec<Vec<Command>> {
        let simple = |text: &str| vec![Command::new(text)];
        let has_transactions = self.groups.iter().any(|(_, group)| *group == Group::Transactions);
        if has_transactions && self.in_transaction[client] && self.dice.percent(15) {
            self.in_transaction[client] = false;
            return vec![simple(if self.dice.percent(80) { "EXEC" } else { "DISCARD" })];
        }
        let group = self.dice.weighted(&self.groups);
        if group != Group::Transactions {
            return vec![self.unit(group)];
        }
        match self.dice.below(20) {
            0..=3 => {
                self.in_transaction[client] = true;
                vec![simple("MULTI")]
            }
            4..=8 => {
                let count = 1 + self.dice.below(3);
                let dice = &mut self.dice;
                vec![vec![Command::new("WATCH").args((0..count).map(|_| words::readable_key(dice)))]]
            }
            9 => vec![simple("UNWATCH")],
            10 => vec![simple(self.dice.pick(&[
                "EXEC",
                "DISCARD",
                "MULTI x",
                "EXEC x",
                "WATCH",
                "DISCARD x",
                "UNWATCH x",
            ]))],
            _ => {
                let mut units = vec![simple("MULTI")];
                for _ in 0..self.dice.below(6) {
                    let group = self.dice.weighted(&self.groups);
                    if group != Group::Transactions {
                        units.push(self.unit(group));
                    }
                }
                if self.dice.percent(5) {
                    units.push(simple(self.dice.pick(&["MULTI", "WATCH k", "NOSUCH", "GET", "UNWATCH"])));
                }
                units.push(simple(if self.dice.percent(90) { "EXEC" } else { "DISCARD" }));
                self.in_transaction[client] = false;
                units
            }
        }
    }

    fn unit(&mut self, group: Group) -> Vec<Command> {
        let dice = &mut self.dice;
        let mut unit = match group {
            Group::Strings => strings::unit(dice),
            Group::LongStrings => long_strings::unit(dice),
            Group::Bits => bits::unit(dice),
            Group::Keys => keys::unit(dice),
            Group::Expiry => expiry::unit(dice),
            Group::SortedSets => sorted_sets::unit(dice),
            Group::Connection | Group::Protocol | Group::Transactions => connection::unit(dice, self.protocol),
        };
        // A unit of several is of a kind that must stay as it is.
        if let [command] = unit.as_mut_slice() {
            if dice.percent(5) {
                *command = mistakes::with_mistake(dice, command);
            }
            if dice.percent(10) {
                *command = mistakes::with_mixed_case(dice, command);
            }
        }
        unit
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn steps(seed: u64, groups: &[Group], count: usize) -> Vec<Step> {
        let mut stream = Stream::new(seed, groups, 2);
        (0..count).map_while(|_| stream.next_step()).collect()
    }

    #[test]
    fn a_seed_determines_the_stream() {
        assert_eq!(steps(1, &Group::ALL, 500), steps(1, &Group::ALL, 500));
        assert_ne!(steps(1, &Group::ALL, 500), steps(2, &Group::ALL, 500));
    }

    #[test]
    fn every_command_of_every_group_is_sent() {
        let mut sent: BTreeMap<String, usize> = BTreeMap::new();
        for step in steps(3, &Group::ALL, 20_000) {
            for command in step.commands() {
                *sent.entry(command.name()).or_default() += 1;
            }
        }
        for group in Group::ALL {
            for name in group.commands() {
                let count = sent.get(*name).copied().unwrap_or(0);
                assert!(count >= 20, "{name} of {group} was sent {count} times");
            }
        }
    }

    #[test]
    fn a_group_alone_sends_its_own_commands() {
        for step in steps(5, &[Group::Bits], 500) {
            for command in step.commands() {
                assert!(Group::Bits.commands().contains(&command.name().as_str()), "{command}");
            }
        }
        assert!(steps(5, &[Group::Protocol], 10).is_empty());
    }

    #[test]
    fn no_pipeline_leaves_a_key_that_expires_soon() {
        for step in steps(11, &Group::ALL, 30_000) {
            let Step::Pipeline { units, .. } = step else { continue };
            for command in units.concat() {
                for pair in command.words[1..].windows(2).filter(|_| command.name() == "SET") {
                    let option = String::from_utf8_lossy(&pair[0]).to_uppercase();
                    let number = std::str::from_utf8(&pair[1]).ok().and_then(|number| number.parse::<i64>().ok());
                    // No server takes a plus sign.
                    let number = number.filter(|_| pair[1][0] != b'+');
                    let least = match option.as_str() {
                        "EX" => 100_000,
                        "PX" => 100_000_000,
                        _ => continue,
                    };
                    assert!(number.is_none_or(|number| number <= 0 || number >= least), "{command}");
                }
            }
        }
    }
}
