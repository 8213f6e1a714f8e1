//! Commands on strings.

use super::words::{float, future_s, integer, position, string_key, ttl_ms, ttl_s, value};
use crate::command::Command;
use crate::dice::Dice;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &[
    "GET",
    "SET",
    "SETNX",
    "SETEX",
    "PSETEX",
    "GETSET",
    "GETDEL",
    "GETEX",
    "MGET",
    "MSET",
    "MSETNX",
    "APPEND",
    "STRLEN",
    "GETRANGE",
    "SUBSTR",
    "SETRANGE",
    "INCR",
    "DECR",
    "INCRBY",
    "DECRBY",
    "INCRBYFLOAT",
    "LCS",
];

/// Some command, or some that belong together.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (14, "SET"),
        (10, "GET"),
        (2, "SETNX"),
        (2, "SETEX"),
        (2, "PSETEX"),
        (2, "GETSET"),
        (2, "GETDEL"),
        (4, "GETEX"),
        (3, "MGET"),
        (3, "MSET"),
        (2, "MSETNX"),
        (4, "APPEND"),
        (2, "STRLEN"),
        (5, "GETRANGE"),
        (1, "SUBSTR"),
        (4, "SETRANGE"),
        (3, "INCR"),
        (2, "DECR"),
        (4, "INCRBY"),
        (3, "DECRBY"),
        (4, "INCRBYFLOAT"),
        (3, "LCS"),
    ]);
    let command = Command::new(name);
    vec![match name {
        "SET" => return set(dice),
        "GETEX" => getex(dice),
        "LCS" => lcs(dice),
        "SETNX" | "GETSET" | "APPEND" => command.arg(string_key(dice)).arg(value(dice)),
        "SETEX" => {
            let ttl = time_to_live(dice, ttl_s);
            command.arg(string_key(dice)).arg(ttl).arg(value(dice))
        }
        "PSETEX" => {
            let ttl = time_to_live(dice, ttl_ms);
            command.arg(string_key(dice)).arg(ttl).arg(value(dice))
        }
        "MGET" => {
            let count = 1 + dice.below(4);
            command.args((0..count).map(|_| string_key(dice)))
        }
        "MSET" | "MSETNX" => {
            let count = 1 + dice.below(3);
            (0..count).fold(command, |command, _| command.arg(string_key(dice)).arg(value(dice)))
        }
        "GETRANGE" | "SUBSTR" => command.arg(string_key(dice)).arg(position(dice)).arg(position(dice)),
        "SETRANGE" => {
            // What lies between fills memory, so the offsets are small, or past what any server allows.
            let offset = match dice.below(20) {
                0 => dice.pick(&["-1", "4294967296", "9223372036854775807", "abc", "1.5", ""]).to_string(),
                1 => dice.within(0..=4000).to_string(),
                _ => dice.within(0..=40).to_string(),
            };
            command.arg(string_key(dice)).arg(offset).arg(value(dice))
        }
        "INCRBY" | "DECRBY" => {
            let key = numeric_key(dice);
            command.arg(key).arg(integer(dice))
        }
        "INCR" | "DECR" => command.arg(numeric_key(dice)),
        "INCRBYFLOAT" => {
            let key = numeric_key(dice);
            command.arg(key).arg(float(dice))
        }
        _ => command.arg(string_key(dice)),
    }]
}

/// A key that holds a number, more often than others.
fn numeric_key(dice: &mut Dice) -> Vec<u8> {
    if dice.percent(85) { b"counter".to_vec() } else { string_key(dice) }
}

/// Mostly a time to live that lasts; now and then one that no command takes.
fn time_to_live(dice: &mut Dice, lasting: fn(&mut Dice) -> i64) -> String {
    if dice.percent(8) {
        dice.pick(&["0", "-1", "abc", "9223372036854775807", "-9223372036854775808", "1.5", ""]).to_string()
    } else {
        lasting(dice).to_string()
    }
}

fn set(dice: &mut Dice) -> Vec<Command> {
    if dice.percent(30) {
        let number = if dice.percent(80) { dice.within(-1000..=1000).to_string() } else { integer(dice) };
        return vec![Command::new("SET counter").arg(number)];
    }
    let key = string_key(dice);
    let mut command = Command::new("SET").arg(key.clone()).arg(value(dice));
    if dice.percent(40) {
        return vec![command];
    }
    if dice.percent(4) {
        // The key is there until a client looks at it, and DBSIZE counts it so long: look at once.
        let past = if dice.percent(50) { ("EXAT", "1") } else { ("PXAT", "1000") };
        return vec![command.arg(past.0).arg(past.1), Command::new("EXISTS").arg(key)];
    }
    let mut options = Vec::new();
    let rounds = if dice.percent(5) { 2 } else { 1 };
    for _ in 0..rounds {
        match dice.below(8) {
            0 => options.push(vec!["EX".to_string(), time_to_live(dice, ttl_s)]),
            1 => options.push(vec!["px".to_string(), time_to_live(dice, ttl_ms)]),
            2 => options.push(vec!["EXAT".to_string(), future_s(dice).to_string()]),
            3 => options.push(vec!["PXAT".to_string(), (future_s(dice) * 1000).to_string()]),
            4 => options.push(vec!["KEEPTTL".to_string()]),
            _ => {}
        }
    }
    if dice.percent(35) {
        options.push(vec![dice.pick(&["NX", "XX", "xx"]).to_string()]);
    }
    if dice.percent(30) {
        options.push(vec!["GET".to_string()]);
    }
    if dice.percent(3) {
        options.push(vec![dice.pick(&["NX", "XX", "FOO", "EX", "KEEPTTL", "PERSIST"]).to_string()]);
    }
    while !options.is_empty() {
        command = command.args(options.swap_remove(dice.below(options.len())));
    }
    vec![command]
}

fn getex(dice: &mut Dice) -> Command {
    let command = Command::new("GETEX").arg(string_key(dice));
    match dice.below(9) {
        0 => command.arg("EX").arg(time_to_live(dice, ttl_s)),
        1 => command.arg("PX").arg(time_to_live(dice, ttl_ms)),
        2 => command.arg("EXAT").number(future_s(dice)),
        3 => command.arg("PXAT").number(future_s(dice) * 1000),
        4 | 5 => command.arg("persist"),
        6 => command.arg("EXAT").number(1),
        7 => command.arg(dice.pick(&["EX", "KEEPTTL", "NX", "PERSIST EX", "FOO"])),
        _ => command,
    }
}

fn lcs(dice: &mut Dice) -> Command {
    let mut command = Command::new("LCS").arg(string_key(dice)).arg(string_key(dice));
    let (length, index) =
        dice.weighted(&[(3, (false, false)), (3, (true, false)), (5, (false, true)), (1, (true, true))]);
    if dice.percent(40) {
        command =
            command.arg("MINMATCHLEN").arg(if dice.percent(90) { dice.within(-1..=6).to_string() } else { "x".into() });
    }
    command.when(length, "LEN").when(index, "idx").when(dice.percent(40), "WITHMATCHLEN")
}
