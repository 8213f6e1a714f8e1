//! Commands on the bits of strings.

use super::words::string_key;
use crate::command::Command;
use crate::dice::Dice;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &["SETBIT", "GETBIT", "BITCOUNT", "BITPOS", "BITOP", "BITFIELD", "BITFIELD_RO"];

/// Some command.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (5, "SETBIT"),
        (3, "GETBIT"),
        (4, "BITCOUNT"),
        (4, "BITPOS"),
        (4, "BITOP"),
        (6, "BITFIELD"),
        (2, "BITFIELD_RO"),
    ]);
    let command = Command::new(name);
    vec![match name {
        "SETBIT" => {
            let bit = dice.weighted(&[(10, "0"), (15, "1"), (1, "2"), (1, "x")]);
            command.arg(string_key(dice)).arg(bit_offset(dice)).arg(bit)
        }
        "GETBIT" => command.arg(string_key(dice)).arg(bit_offset(dice)),
        "BITCOUNT" => {
            let command = command.arg(string_key(dice));
            range(dice, command)
        }
        "BITPOS" => {
            let bit = dice.weighted(&[(10, "0"), (10, "1"), (1, "2"), (1, "")]);
            let command = command.arg(string_key(dice)).arg(bit);
            range(dice, command)
        }
        "BITOP" => {
            let operation = dice.weighted(&[(4, "AND"), (4, "or"), (4, "XOR"), (4, "NOT"), (1, "NAND")]);
            let count = if operation == "NOT" && dice.percent(80) { 1 } else { 1 + dice.below(3) };
            let command = command.arg(operation).arg(string_key(dice));
            command.args((0..count).map(|_| string_key(dice)))
        }
        "BITFIELD" => {
            let rounds = 1 + dice.below(4);
            let command = command.arg(string_key(dice));
            (0..rounds).fold(command, |command, _| field(dice, command))
        }
        _ => {
            let command = command.arg(string_key(dice)).arg("GET").arg(field_type(dice)).arg(field_offset(dice));
            if dice.percent(10) { field(dice, command) } else { command }
        }
    }]
}

/// Offsets are small, or past what any server allows: what lies between fills memory.
fn bit_offset(dice: &mut Dice) -> String {
    match dice.below(20) {
        0 => dice.pick(&["-1", "4294967296", "9223372036854775807", "abc", "", "1.0"]).to_string(),
        1..=2 => dice.within(0..=20_000).to_string(),
        _ => dice.within(0..=100).to_string(),
    }
}

fn range(dice: &mut Dice, command: Command) -> Command {
    let bound = |dice: &mut Dice| match dice.below(20) {
        0 => dice.pick(&["abc", "9223372036854775807", "-9223372036854775808", ""]).to_string(),
        1..=3 => dice.within(-400..=400).to_string(),
        _ => dice.within(-6..=10).to_string(),
    };
    match dice.below(6) {
        0 => command,
        1 => command.arg(bound(dice)),
        2..=3 => command.arg(bound(dice)).arg(bound(dice)),
        _ => {
            let unit = dice.weighted(&[(5, "BYTE"), (8, "bit"), (1, "NIBBLE")]);
            command.arg(bound(dice)).arg(bound(dice)).arg(unit)
        }
    }
}

fn field_type(dice: &mut Dice) -> String {
    match dice.below(40) {
        0 => dice.pick(&["u64", "i65", "u0", "i0", "x8", "u", "8", "u63x", ""]).to_string(),
        1..=2 => dice.pick(&["i64", "u63", "i63", "i1", "u1"]).to_string(),
        _ => format!("{}{}", dice.pick(&["i", "u"]), 1 + dice.below(33)),
    }
}

fn field_offset(dice: &mut Dice) -> String {
    match dice.below(40) {
        0 => dice.pick(&["-1", "9999999999999", "#-1", "#", "abc", "##1"]).to_string(),
        1..=13 => format!("#{}", dice.below(12)),
        _ => dice.below(200).to_string(),
    }
}

fn field(dice: &mut Dice, command: Command) -> Command {
    let number = |dice: &mut Dice| match dice.below(30) {
        0 => dice.pick(&["9223372036854775807", "-9223372036854775808", "9223372036854775808", "x", "1.5"]).to_string(),
        1..=3 => dice.within(-1_000_000..=1_000_000).to_string(),
        _ => dice.within(-300..=300).to_string(),
    };
    match dice.below(50) {
        0..=14 => command.arg("GET").arg(field_type(dice)).arg(field_offset(dice)),
        15..=26 => command.arg("set").arg(field_type(dice)).arg(field_offset(dice)).arg(number(dice)),
        27..=40 => command.arg("INCRBY").arg(field_type(dice)).arg(field_offset(dice)).arg(number(dice)),
        41..=48 => command.arg("OVERFLOW").arg(dice.weighted(&[(6, "WRAP"), (6, "sat"), (6, "FAIL"), (1, "MAX")])),
        _ => command.arg(dice.pick(&["OVERFLOW", "GET", "MUL", ""])),
    }
}
