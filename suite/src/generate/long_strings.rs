//! Long strings, which lie in pieces, on keys of their own: set, changed in place, given other names, copied, taken and
//! read. Bytes are compared, not lengths; with hardly any memory the pieces lie in runs, and each command lacks pages.

use crate::command::Command;
use crate::dice::Dice;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &[
    "SET", "GETSET", "APPEND", "SETRANGE", "RENAME", "RENAMENX", "COPY", "GETDEL", "GETRANGE", "STRLEN", "GET", "DEL",
];

/// Keys that hold long strings, or nothing.
const KEYS: [&str; 8] = ["l:1", "l:2", "l:3", "l:4", "l:5", "l:6", "l:7", "l:8"];

/// Whether a command is about a key of these.
pub(super) fn is_about_one(command: &Command) -> bool {
    command.words.iter().any(|word| KEYS.iter().any(|key| key.as_bytes() == word))
}

/// More than is stored as a whole. Every part tells where it comes from.
fn value(dice: &mut Dice) -> Vec<u8> {
    let length = match dice.below(8) {
        0 => 100,
        1 => 200_000 + dice.below(100_000),
        _ => 66_000 + dice.below(40_000),
    };
    let name = dice.below(1_000_000);
    let mut value = Vec::with_capacity(length + 24);
    for number in 0.. {
        if value.len() >= length {
            break;
        }
        value.extend_from_slice(format!("{name}:{number};").as_bytes());
    }
    if dice.percent(30) {
        // A piece of zeros is not stored.
        let start = dice.below(value.len());
        let end = value.len().min(start + 20_000);
        value[start..end].fill(0);
    }
    value
}

/// Some command, and then what it has made.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (20, "SET"),
        (4, "GETSET"),
        (4, "APPEND"),
        (8, "SETRANGE"),
        (24, "RENAME"),
        (6, "RENAMENX"),
        (12, "COPY"),
        (4, "GETDEL"),
        (8, "GETRANGE"),
        (2, "STRLEN"),
        (6, "GET"),
        (2, "DEL"),
    ]);
    let (key, other) = (dice.pick(&KEYS), dice.pick(&KEYS));
    let command = Command::new(name).arg(key);
    let (command, result) = match name {
        "SET" | "GETSET" => (command.arg(value(dice)), key),
        // Short, or it would grow without end.
        "APPEND" => (command.arg("and more"), key),
        "SETRANGE" => {
            let offset = dice.below(150_000).to_string();
            let part = value(dice);
            let length = 1 + dice.below(20_000.min(part.len() - 1));
            (command.arg(offset).arg(&part[..length]), key)
        }
        "RENAME" | "RENAMENX" => (command.arg(other), other),
        "COPY" => (command.arg(other).when(dice.percent(80), "REPLACE"), other),
        "GETRANGE" => {
            let start = dice.below(120_000);
            (command.arg(start.to_string()).arg((start + dice.below(30_000)).to_string()), key)
        }
        _ => (command, key),
    };
    let mut unit = vec![command];
    if dice.percent(50) {
        unit.push(Command::new("GET").arg(result));
    }
    unit
}
