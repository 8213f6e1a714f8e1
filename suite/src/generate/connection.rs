//! Commands about the connection and the server, and calls that no server knows.

use super::words::{any_key, value};
use crate::command::Command;
use crate::dice::Dice;
use crate::step::Step;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &["PING", "ECHO", "SELECT", "HELLO", "CLIENT", "RESET", "COMMAND", "TIME", "WAIT"];

/// Some command, or some that belong together. `protocol` is what the connection is to speak afterwards.
pub(super) fn unit(dice: &mut Dice, protocol: u8) -> Vec<Command> {
    let simple = |text: &str| vec![Command::new(text)];
    match dice.below(40) {
        0..=3 => simple(dice.pick(&["PING", "ping hello", "PING a b"])),
        4..=6 => vec![Command::new("ECHO").arg(value(dice))],
        7..=8 => {
            let hello = dice.pick(&["HELLO", "HELLO 2", "HELLO 3", "hello 3 setname x", "HELLO 2 SETNAME y"]);
            vec![Command::new(hello), Command::new("HELLO").number(protocol)]
        }
        9..=10 => simple(dice.pick(&[
            "HELLO 4",
            "HELLO 1",
            "HELLO x",
            "HELLO 3 FOO",
            "HELLO 3 SETNAME",
            "HELLO 3 AUTH a",
            "HELLO 3 AUTH stranger wrong",
            "HELLO 9223372036854775807",
        ])),
        11..=14 => match dice.below(6) {
            0 => vec![Command::new("CLIENT SETNAME").arg("with space")],
            1 => vec![Command::new("CLIENT SETNAME").arg("")],
            2 => vec![Command::new("CLIENT SETNAME").arg("line\r\nfeed")],
            _ => vec![Command::new("CLIENT SETNAME").arg(dice.pick(&["alice", "bob"]))],
        },
        15..=18 => simple("CLIENT GETNAME"),
        19 => simple(dice.pick(&[
            "CLIENT FOO",
            "CLIENT",
            "CLIENT ID",
            "CLIENT ID x",
            "CLIENT SETNAME",
            "client getname a",
        ])),
        20 => simple(dice.pick(&["CLIENT REPLY", "CLIENT REPLY ON", "CLIENT REPLY foo"])),
        21..=22 => simple("PING"), // INFO is refused inside MULTI here, and its text is the server's own
        23 => vec![Command::new("RESET"), Command::new("HELLO").number(protocol)],
        24 => simple(dice.pick(&["COMMAND COUNT", "COMMAND FOO", "COMMAND GETKEYS", "COMMAND COUNT x"])),
        25..=27 => {
            let call = dice.pick(&[
                "SET k v",
                "MSET a 1 b 2 c 3",
                "ZUNIONSTORE d 2 a b",
                "ZUNION 3 a b c WEIGHTS 1 2 3",
                "ZMPOP 2 a b MIN",
                "ZINTERCARD 2 a b LIMIT 1",
                "BITOP AND d a b",
                "PING",
                "GET",
                "NOSUCH a",
                "ZRANGESTORE d s 0 -1",
                "COPY a b",
                "OBJECT ENCODING x",
                "LCS a b",
                "DEL a b c",
                "ZUNIONSTORE d 5 a b",
                "RENAME a b",
            ]);
            vec![Command::new("COMMAND GETKEYS").args(call.split(' '))]
        }
        28 => simple("TIME"),
        29 => simple(dice.pick(&["WAIT 0 0", "WAIT", "WAIT x 0", "WAIT 0 -1", "wait 0 x"])),
        30..=31 => simple(dice.pick(&["SELECT 0", "SELECT 16", "SELECT x", "SELECT", "SELECT -1"])),
        32..=35 => {
            let name = dice.pick(&["FOO", "", "GETT", "Nosuch", "\u{e9}", "a\r\nb", "SET ", "-ERR", "*1"]);
            let command = Command { words: vec![name.as_bytes().to_vec()] };
            let count = dice.weighted(&[(3, 0), (3, 1), (3, 3), (1, 30)]);
            vec![(0..count).fold(command, |command, _| command.arg(value(dice)))]
        }
        36..=37 => {
            simple(dice.pick(&["OBJECT", "OBJECT FOO", "OBJECT ENCODING", "OBJECT ENCODING a b", "object refcount"]))
        }
        _ => vec![Command::new("ECHO").arg(any_key(dice))],
    }
}

/// CLIENT REPLY: commands of which some are not answered.
pub(super) fn hushed(dice: &mut Dice) -> Step {
    let quiet = |dice: &mut Dice| match dice.below(5) {
        0 => Command::new("SET").arg(any_key(dice)).arg(value(dice)),
        1 => Command::new("GET").arg(any_key(dice)),
        2 => Command::new("NOSUCHCOMMAND"),
        3 => Command::new("ZADD").arg(any_key(dice)).args(["1", "hushed"]),
        _ => Command::new("PING"),
    };
    if dice.percent(50) {
        let mut commands = vec![Command::new("CLIENT REPLY OFF")];
        for _ in 0..dice.below(5) {
            commands.push(quiet(dice));
        }
        commands.extend([Command::new("CLIENT REPLY ON"), Command::new("PING")]);
        let count = commands.len();
        Step::Hushed { commands, answered: vec![count - 2, count - 1] }
    } else {
        let commands = vec![Command::new("client reply skip"), quiet(dice), quiet(dice), Command::new("PING")];
        Step::Hushed { commands, answered: vec![2, 3] }
    }
}
