//! Commands on keys of any kind, and on whole databases.

use super::words::{any_key, future_s, key_pair, lex_key, pattern, readable_key, ttl_ms, value};
use crate::command::Command;
use crate::dice::Dice;
use crate::step::Step;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &[
    "DEL",
    "UNLINK",
    "EXISTS",
    "TYPE",
    "KEYS",
    "SCAN",
    "RANDOMKEY",
    "RENAME",
    "RENAMENX",
    "COPY",
    "TOUCH",
    "OBJECT",
    "DUMP",
    "RESTORE",
    "DBSIZE",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB",
    "MOVE",
    "SELECT",
];

/// Some command, or some that belong together.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (40, "DEL"),
        (15, "UNLINK"),
        (30, "EXISTS"),
        (30, "TYPE"),
        (20, "KEYS"),
        (8, "SCAN"),
        (6, "RANDOMKEY"),
        (35, "RENAME"),
        (25, "RENAMENX"),
        (40, "COPY"),
        (15, "TOUCH"),
        (50, "OBJECT"),
        (8, "DUMP"),
        (10, "RESTORE"),
        (25, "DBSIZE"),
        (3, "FLUSHDB"),
        (2, "FLUSHALL"),
        (4, "SWAPDB"),
        (15, "MOVE"),
        (12, "SELECT"),
    ]);
    let command = Command::new(name);
    vec![match name {
        "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => {
            let count = 1 + dice.below(3);
            command.args((0..count).map(|_| readable_key(dice)))
        }
        "KEYS" => command.arg(pattern(dice)),
        "SCAN" => command.arg(dice.weighted(&[(4, "0"), (1, "abc"), (1, "18446744073709551616")])),
        "RANDOMKEY" if dice.percent(20) => {
            let emptied = [Command::new("FLUSHDB"), Command::new("RANDOMKEY")];
            return emptied.to_vec();
        }
        "RANDOMKEY" | "DBSIZE" => command,
        "RENAME" | "RENAMENX" => command.args(key_pair(dice)),
        "COPY" => {
            let command = command.args(key_pair(dice));
            let command = if dice.percent(15) {
                command.arg("DB").arg(dice.pick(&["0", "1", "1", "2", "99", "-1", "x"]))
            } else {
                command
            };
            command.when(dice.percent(50), "replace")
        }
        "OBJECT" => {
            let what = dice.weighted(&[(10, "ENCODING"), (5, "refcount"), (2, "IDLETIME"), (1, "FREQ"), (1, "FOO")]);
            command.arg(what).arg(readable_key(dice))
        }
        "RESTORE" => {
            // Nothing that RESTORE would take: what each server takes is its own affair, and tested by
            // `Step::Transfer`.
            let payload = if dice.percent(50) {
                value(dice)
            } else {
                b"\x00\x01a\x0a\x00\x01\x02\x03\x04\x05\x06\x07\x08".to_vec()
            };
            let ttl = if dice.percent(80) { "0".to_string() } else { dice.pick(&["-1", "abc", ""]).to_string() };
            let command = command.arg(any_key(dice)).arg(ttl).arg(payload);
            command.when(dice.percent(70), "REPLACE").when(dice.percent(10), "FOO")
        }
        "FLUSHDB" | "FLUSHALL" => match dice.below(6) {
            0 => command.arg("SYNC"),
            1 => command.arg("async"),
            2 => command.arg("FOO"),
            _ => command,
        },
        "SWAPDB" => command.arg(database(dice)).arg(database(dice)),
        "MOVE" => command.arg(any_key(dice)).arg(database(dice)),
        // Back at once, mostly: commands are to meet in database 0.
        "SELECT" if dice.percent(80) => {
            return vec![command.arg(database(dice)), Command::new("DBSIZE"), Command::new("SELECT 0")];
        }
        "SELECT" => command.arg(database(dice)),
        _ => command.arg(readable_key(dice)),
    }]
}

fn database(dice: &mut Dice) -> &'static str {
    dice.weighted(&[(10, "0"), (10, "1"), (4, "2"), (1, "15"), (1, "16"), (1, "-1"), (1, "abc"), (1, ""), (1, "1.0")])
}

/// A full iteration.
pub(super) fn iterate(dice: &mut Dice) -> Step {
    let (command, cursor) = if dice.percent(50) {
        (Command::new("SCAN 0"), 1)
    } else {
        let key = if dice.percent(30) { lex_key(dice) } else { super::words::sorted_set_key(dice) };
        (Command::new("ZSCAN").arg(key).arg("0"), 2)
    };
    let mut command = command;
    if dice.percent(50) {
        command = command.arg("MATCH").arg(pattern(dice));
    }
    if dice.percent(50) {
        command =
            command.arg("count").arg(dice.weighted(&[(3, "1"), (3, "3"), (3, "100"), (1, "0"), (1, "-1"), (1, "x")]));
    }
    if cursor == 1 && dice.percent(40) {
        command = command.arg("TYPE").arg(dice.pick(&["string", "zset", "ZSET", "hash", "nothing"]));
    }
    Step::Iterate { command: command.when(dice.percent(2), "FOO"), cursor }
}

/// DUMP and RESTORE.
pub(super) fn transfer(dice: &mut Dice) -> Step {
    let mut options = Vec::new();
    let mut ttl_ms = if dice.percent(50) { 0 } else { ttl_ms(dice) };
    if dice.percent(75) {
        options.push("REPLACE");
    }
    if dice.percent(20) {
        options.push("ABSTTL");
        ttl_ms = dice.weighted(&[(1, 1000), (3, 0)]);
        if ttl_ms == 0 {
            ttl_ms = future_s(dice) * 1000;
        }
    }
    match dice.below(12) {
        0 => options.extend(["IDLETIME", "10"]),
        1 => options.extend(["FREQ", "100"]),
        2 => options.push("FOO"),
        3 => options.extend(["IDLETIME", "-1"]),
        _ => {}
    }
    let [from, to] = key_pair(dice);
    Step::Transfer { from, to, ttl_ms, options }
}
