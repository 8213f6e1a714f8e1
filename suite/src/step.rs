//! Steps: what both servers are given between two comparisons. Shrinking keeps or drops a step of a history as a
//! whole.
//!
//! Clients `0..`[`TALKERS`] send pipelines and may be inside a transaction at any time. Client [`ASIDE`] never is, so
//! that the steps that need an answer before they can go on are sent there.

use std::fmt;

use crate::command::Command;

/// The number of clients that send pipelines.
pub const TALKERS: usize = 3;
/// The client that never enters a transaction.
pub const ASIDE: usize = TALKERS;

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Commands in one write, or in several that end at any byte.
    Pipeline {
        /// Which client sends it.
        client: usize,
        /// Groups of commands that only make sense together.
        units: Vec<Vec<Command>>,
        /// The ends of all writes but the last, in bytes.
        cuts: Vec<usize>,
    },
    /// Commands of which some are not answered (CLIENT REPLY OFF and SKIP).
    Hushed {
        /// The commands.
        commands: Vec<Command>,
        /// Which of them are answered.
        answered: Vec<usize>,
    },
    /// Commands, time passes, commands: keys that expire meanwhile, and are looked at in the end.
    Wait {
        /// What comes first; it gives its keys less time than the pause takes.
        before: Vec<Command>,
        /// The pause.
        pause_ms: u64,
        /// What comes then; it touches all keys that have expired.
        after: Vec<Command>,
    },
    /// A full iteration by SCAN or ZSCAN; what it finds is compared as a set.
    Iterate {
        /// The command of its first portion.
        command: Command,
        /// Which word the cursor is.
        cursor: usize,
    },
    /// DUMP, and RESTORE of what the same server dumped.
    Transfer {
        /// The key to dump.
        from: Vec<u8>,
        /// The key to restore.
        to: Vec<u8>,
        /// The time to live, and what follows the payload.
        ttl_ms: i64,
        /// Options of RESTORE.
        options: Vec<&'static str>,
    },
    /// ZRANDMEMBER: each server's answer must be drawn from the set, which must be the same.
    Sample {
        /// The sorted set.
        key: Vec<u8>,
        /// How many: negative with repetitions.
        count: i64,
        /// Whether scores are wanted.
        with_scores: bool,
    },
}

impl Step {
    /// A pipeline of one unit, in one write.
    pub fn single(client: usize, unit: Vec<Command>) -> Step {
        Step::Pipeline { client, units: vec![unit], cuts: Vec::new() }
    }

    /// The number of commands that it sends at least.
    pub fn command_count(&self) -> usize {
        match self {
            Step::Pipeline { units, .. } => units.iter().map(Vec::len).sum(),
            Step::Hushed { commands, .. } => commands.len(),
            Step::Wait { before, after, .. } => before.len() + after.len(),
            Step::Iterate { .. } => 1,
            Step::Transfer { .. } | Step::Sample { .. } => 2,
        }
    }

    /// The commands that it names, for counting which ones are tested.
    pub fn commands(&self) -> Vec<Command> {
        match self {
            Step::Pipeline { units, .. } => units.concat(),
            Step::Hushed { commands, .. } => commands.clone(),
            Step::Wait { before, after, .. } => [before.as_slice(), after].concat(),
            Step::Iterate { command, .. } => vec![command.clone()],
            Step::Transfer { from, to, .. } => {
                vec![Command::new("DUMP").arg(from.clone()), Command::new("RESTORE").arg(to.clone())]
            }
            Step::Sample { key, .. } => vec![Command::new("ZRANDMEMBER").arg(key.clone())],
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Pipeline { client, units, cuts } => {
                let commands = units.concat();
                if commands.len() > 1 {
                    writeln!(formatter, "client {client}: {} commands at once, cut at bytes {cuts:?}", commands.len())?;
                } else if !cuts.is_empty() {
                    writeln!(formatter, "client {client}: cut at bytes {cuts:?}")?;
                }
                for command in &commands {
                    writeln!(formatter, "client {client}> {command}")?;
                }
            }
            Step::Hushed { commands, answered } => {
                writeln!(formatter, "client {ASIDE}: {} at once, answered: {answered:?}", commands.len())?;
                for command in commands {
                    writeln!(formatter, "client {ASIDE}> {command}")?;
                }
            }
            Step::Wait { before, pause_ms, after } => {
                for command in before {
                    writeln!(formatter, "client {ASIDE}> {command}")?;
                }
                writeln!(formatter, "({pause_ms} ms pass)")?;
                for command in after {
                    writeln!(formatter, "client {ASIDE}> {command}")?;
                }
            }
            Step::Iterate { command, .. } => writeln!(formatter, "client {ASIDE}> {command}  (and on until cursor 0)")?,
            Step::Transfer { from, to, ttl_ms, options } => {
                writeln!(formatter, "client {ASIDE}> {}", Command::new("DUMP").arg(from.clone()))?;
                let restore = Command::new("RESTORE").arg(to.clone()).number(ttl_ms);
                writeln!(formatter, "client {ASIDE}> {restore} (what was dumped) {}", options.join(" "))?;
            }
            Step::Sample { key, count, with_scores } => {
                let command =
                    Command::new("ZRANDMEMBER").arg(key.clone()).number(count).when(*with_scores, "WITHSCORES");
                writeln!(formatter, "client {ASIDE}> {command}")?;
            }
        }
        Ok(())
    }
}
