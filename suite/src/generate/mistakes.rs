//! Mistakes: what a careless client makes of a command.

use super::words::is_lex_key;
use crate::command::Command;
use crate::dice::Dice;

/// Words that are wrong nearly everywhere. No small positive number is among them: in the place of a time to live it
/// would make a key expire during the test; nor a number that would make a string of many megabytes as an offset.
const WEIRD: [&[u8]; 18] = [
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-1",
    b"0",
    b"1.5",
    b"abc",
    b"",
    b"nan",
    b"inf",
    b"+1",
    b" 1",
    b"0x10",
    b"1e3",
    b"99999999999999999999",
    b"\x00",
    b"WITHSCORES",
    b"LIMIT",
];

/// Commands in which numbers must stay where they are, since some are times to live.
const TIMED: [&str; 9] = ["SET", "SETEX", "PSETEX", "GETEX", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "RESTORE"];

/// The command with a mistake in it.
pub(super) fn with_mistake(dice: &mut Dice, command: &Command) -> Command {
    let mut words = command.words.clone();
    if matches!(command.name().as_str(), "ZRANK" | "ZREVRANK") {
        // A fourth word is WITHSCORE since 7.2, which the reference is not.
        words.pop();
        return Command { words };
    }
    let timed = TIMED.contains(&command.name().as_str());
    let lex = words.iter().any(|word| is_lex_key(word));
    let last = words.len() - 1;
    // A value this long must not become a key, which may have 65,000 bytes here.
    let is_long = words.iter().any(|word| word.len() > 65_000);
    match if is_long { 3 } else { dice.below(10) } {
        0..=2 if last > 0 => {
            words.remove(if timed { last } else { 1 + dice.below(last) });
        }
        3..=4 => words.push(dice.pick(&WEIRD).to_vec()),
        5..=7 if last > 1 && !lex => {
            let place = 2 + dice.below(last - 1);
            words[place] = dice.pick(&WEIRD).to_vec();
        }
        8 if last > 1 && !lex && !timed => words.swap(1 + dice.below(last), 1 + dice.below(last)),
        _ => words.truncate(1 + dice.below(last + 1)),
    }
    Command { words }
}

/// The command with its name in mixed case.
pub(super) fn with_mixed_case(dice: &mut Dice, command: &Command) -> Command {
    let mut words = command.words.clone();
    for byte in &mut words[0] {
        if dice.percent(50) {
            *byte ^= if byte.is_ascii_alphabetic() { 0x20 } else { 0 };
        }
    }
    Command { words }
}
