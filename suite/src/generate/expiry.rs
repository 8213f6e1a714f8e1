//! Commands on times to live. What they set is past, or lasts longer than any test; keys that expire while the test
//! runs are the business of [`wait`].

use super::words::{any_key, future_s, readable_key, ttl_ms, ttl_s, value};
use crate::command::Command;
use crate::dice::Dice;
use crate::step::Step;

/// The commands of this group.
pub(super) const NAMES: &[&str] =
    &["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "TTL", "PTTL", "PERSIST", "EXPIRETIME", "PEXPIRETIME"];

/// Some command.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (6, "EXPIRE"),
        (4, "PEXPIRE"),
        (4, "EXPIREAT"),
        (4, "PEXPIREAT"),
        (6, "TTL"),
        (4, "PTTL"),
        (4, "PERSIST"),
        (4, "EXPIRETIME"),
        (4, "PEXPIRETIME"),
    ]);
    let command = Command::new(name).arg(readable_key(dice));
    let lasting = match name {
        "EXPIRE" => ttl_s(dice),
        "PEXPIRE" => ttl_ms(dice),
        "EXPIREAT" => future_s(dice),
        "PEXPIREAT" => future_s(dice) * 1000,
        _ => return vec![command],
    };
    let time = match dice.below(20) {
        0 => dice.pick(&["0", "-1", "-9223372036854775808"]).to_string(),
        1 => dice.pick(&["9223372036854775807", "abc", "", "1.5", "9223372036854775808"]).to_string(),
        // Long past, relative or absolute.
        2 => dice.pick(&["-100", "-1000000"]).to_string(),
        _ => lasting.to_string(),
    };
    let mut command = command.arg(time);
    if dice.percent(45) {
        command = command.arg(dice.pick(&["NX", "XX", "GT", "LT", "nx", "gt"]));
        if dice.percent(15) {
            command = command.arg(dice.pick(&["NX", "XX", "GT", "LT", "FOO"]));
        }
    }
    vec![command]
}

/// A key that expires while the test looks away, seen by one command or other, or by a transaction that watches it.
pub(super) fn wait(dice: &mut Dice) -> Step {
    let key = any_key(dice);
    let word = |name: &str| Command::new(name).arg(key.clone());
    let mut before = vec![word("DEL")];
    if dice.percent(60) {
        before.push(word("SET").arg(value(dice)).arg("PX").number(dice.within(5..=25)));
    } else {
        before.push(word("ZADD").args(["1", "a", "2", "b"]));
        before.push(word("PEXPIRE").number(dice.within(5..=25)));
    }
    let mut after = Vec::new();
    if dice.percent(25) {
        before.push(word("WATCH"));
        after = vec![Command::new("MULTI"), Command::new("PING"), Command::new("EXEC")];
    }
    let first_look = match dice.below(14) {
        0 => word("GET"),
        1 => word("TYPE"),
        2 => word("ZRANGE").args(["0", "-1"]),
        3 => word("SET").arg("new").arg("XX"),
        4 => word("SET").arg("new").arg("NX"),
        5 => word("ZADD").args(["XX", "1", "c"]),
        6 => word("INCR"),
        7 => word("RENAME").arg("m:1"),
        8 => word("PERSIST"),
        9 => word("SET").args(["new", "KEEPTTL"]),
        10 => word("APPEND").arg("x"),
        11 => word("COPY").arg("m:2"),
        12 => word("DEL"),
        _ => word("TTL"),
    };
    after.extend([first_look, word("EXISTS"), Command::new("DBSIZE")]);
    Step::Wait { before, pause_ms: 50, after }
}
