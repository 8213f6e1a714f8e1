//! Replies that are not compared byte for byte, and why: the one list. `quipu-suite exceptions` prints it.
//!
//! An exception frees only what it names. Errors are always compared byte for byte, and so is every reply of a command
//! that is not here.

use crate::command::Command;

/// How the replies to a command must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The same bytes.
    Exact,
    /// Integers this near; negative ones are answers of their own kind and must be equal.
    Near(u64),
    /// The same items in any order.
    AnyOrder,
    /// The same kind of reply, whatever it holds.
    SameKind,
    /// The same structure, items and kinds, whatever the texts hold.
    SameShape,
    /// Pairs with the same names in the same order, and the same values but for those of these names.
    FieldsExcept(&'static [&'static str]),
}

/// A command whose answer is legitimately free in part.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// Its name; with a space and the subcommand if only that is meant, with a space and nothing if only calls without
    /// one are.
    pub command: &'static str,
    /// How its replies must agree.
    pub rule: Rule,
    /// What is not compared.
    pub free: &'static str,
    /// Why not.
    pub why: &'static str,
}

const CLOCK: &str = "the two servers execute the command some milliseconds apart";
const ITERATION: &str =
    "order and portions of an iteration are free; full iterations are compared as sets by a step of their own";
const CHANCE: &str = "the answer is random; what it was drawn from is compared by a step of its own";
const IDENTITY: &str = "it tells the servers apart";

/// All exceptions.
pub const EXCEPTIONS: &[Exception] = &[
    Exception { command: "TTL", rule: Rule::Near(2), free: "2 seconds", why: CLOCK },
    Exception { command: "PTTL", rule: Rule::Near(2000), free: "2000 milliseconds", why: CLOCK },
    Exception { command: "EXPIRETIME", rule: Rule::Near(2), free: "2 seconds", why: CLOCK },
    Exception { command: "PEXPIRETIME", rule: Rule::Near(2000), free: "2000 milliseconds", why: CLOCK },
    Exception {
        command: "OBJECT IDLETIME",
        rule: Rule::SameKind,
        free: "the time",
        why: "small integers are one object in Redis for all keys, which may be as old as the server",
    },
    Exception {
        command: "OBJECT REFCOUNT",
        rule: Rule::Near(1),
        free: "one reference",
        why: "inside MULTI the queued words of Redis hold a reference to the object",
    },
    Exception { command: "TIME", rule: Rule::SameShape, free: "the time", why: CLOCK },
    Exception { command: "KEYS", rule: Rule::AnyOrder, free: "the order", why: ITERATION },
    Exception { command: "SCAN", rule: Rule::SameKind, free: "cursor and keys", why: ITERATION },
    Exception { command: "ZSCAN", rule: Rule::SameKind, free: "cursor, members and scores", why: ITERATION },
    Exception {
        command: "RANDOMKEY",
        rule: Rule::SameKind,
        free: "which key",
        why: "the answer is random; whether there is one is compared",
    },
    Exception { command: "ZRANDMEMBER", rule: Rule::SameShape, free: "which members", why: CHANCE },
    Exception {
        command: "DUMP",
        rule: Rule::SameKind,
        free: "the payload",
        why: "its format is the server's own; that RESTORE takes it is compared by a step of its own",
    },
    Exception { command: "HELLO", rule: Rule::FieldsExcept(&["id", "version"]), free: "id and version", why: IDENTITY },
    Exception { command: "CLIENT ID", rule: Rule::SameKind, free: "the number", why: IDENTITY },
    Exception { command: "INFO", rule: Rule::SameKind, free: "the text", why: IDENTITY },
    Exception {
        command: "COMMAND ",
        rule: Rule::SameKind,
        free: "the list, without a subcommand",
        why: "its order is another in each process of redis-server, and which commands there are tells the servers apart",
    },
    Exception { command: "COMMAND COUNT", rule: Rule::SameKind, free: "the number", why: IDENTITY },
];

/// How the replies to `command` must agree.
pub fn rule_of(command: &Command) -> Rule {
    let (name, subcommand) = (command.name(), command.upper(1));
    EXCEPTIONS
        .iter()
        .find(|exception| match exception.command.split_once(' ') {
            Some((of, sub)) => of == name && sub == subcommand,
            None => exception.command == name,
        })
        .map_or(Rule::Exact, |exception| exception.rule)
}

/// The list as a table.
pub fn table() -> String {
    let mut lines = String::from("command          not compared                       why\n");
    lines.push_str("(any number)     the sign of zero                   a score of -0 is told as 0 or -0 by Redis, as the set's encoding happens to be\n");
    lines.push_str("(OBJECT ENCODING) skiplist where there is listpack  a sorted set that was large and is small again keeps its encoding in Redis\n");
    lines.push_str("INFO             not sent: it is refused inside MULTI\n");
    lines.push_str("(inline command) words with a zero byte             Redis waits for more input after one; here it is a byte like any other\n");
    for exception in EXCEPTIONS {
        lines.push_str(&format!("{:<16} {:<34} {}\n", exception.command, exception.free, exception.why));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_by_name_and_subcommand() {
        assert_eq!(rule_of(&Command::new("ttl k")), Rule::Near(2));
        assert_eq!(rule_of(&Command::new("object IDLETIME k")), Rule::SameKind);
        assert_eq!(rule_of(&Command::new("object encoding k")), Rule::Exact);
        assert_eq!(rule_of(&Command::new("GET TTL")), Rule::Exact);
        assert_eq!(rule_of(&Command::new("COMMAND")), Rule::SameKind);
        assert_eq!(rule_of(&Command::new("COMMAND GETKEYS")), Rule::Exact);
        assert_eq!(rule_of(&Command { words: vec![] }), Rule::Exact);
    }
}
