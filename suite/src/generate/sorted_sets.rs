//! Commands on sorted sets.

use super::words::{lex_bound, lex_key, lex_member, member, position, score, score_bound, sorted_set_key};
use crate::command::Command;
use crate::dice::Dice;
use crate::step::Step;

/// The commands of this group.
pub(super) const NAMES: &[&str] = &[
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZINCRBY",
    "ZSCORE",
    "ZMSCORE",
    "ZRANK",
    "ZREVRANK",
    "ZRANGE",
    "ZRANGESTORE",
    "ZREVRANGE",
    "ZRANGEBYSCORE",
    "ZREVRANGEBYSCORE",
    "ZRANGEBYLEX",
    "ZREVRANGEBYLEX",
    "ZLEXCOUNT",
    "ZREM",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYLEX",
    "ZPOPMIN",
    "ZPOPMAX",
    "ZMPOP",
    "ZRANDMEMBER",
    "ZUNION",
    "ZINTER",
    "ZDIFF",
    "ZUNIONSTORE",
    "ZINTERSTORE",
    "ZDIFFSTORE",
    "ZINTERCARD",
    "ZSCAN",
];

/// Some command.
pub(super) fn unit(dice: &mut Dice) -> Vec<Command> {
    let name = dice.weighted(&[
        (60, "ZADD"),
        (6, "ZCARD"),
        (15, "ZCOUNT"),
        (20, "ZINCRBY"),
        (8, "ZSCORE"),
        (8, "ZMSCORE"),
        (15, "ZRANK"),
        (15, "ZREVRANK"),
        (40, "ZRANGE"),
        (20, "ZRANGESTORE"),
        (15, "ZREVRANGE"),
        (20, "ZRANGEBYSCORE"),
        (20, "ZREVRANGEBYSCORE"),
        (12, "ZRANGEBYLEX"),
        (12, "ZREVRANGEBYLEX"),
        (12, "ZLEXCOUNT"),
        (15, "ZREM"),
        (6, "ZREMRANGEBYRANK"),
        (6, "ZREMRANGEBYSCORE"),
        (5, "ZREMRANGEBYLEX"),
        (8, "ZPOPMIN"),
        (8, "ZPOPMAX"),
        (10, "ZMPOP"),
        (5, "ZRANDMEMBER"),
        (12, "ZUNION"),
        (12, "ZINTER"),
        (12, "ZDIFF"),
        (12, "ZUNIONSTORE"),
        (12, "ZINTERSTORE"),
        (12, "ZDIFFSTORE"),
        (10, "ZINTERCARD"),
        (4, "ZSCAN"),
    ]);
    let command = Command::new(name);
    vec![match name {
        "ZADD" if dice.percent(25) => lex_add(dice),
        "ZADD" => add(dice),
        "ZRANGE" => {
            let by_lex = dice.percent(20);
            let command = command.arg(if by_lex { lex_key(dice) } else { sorted_set_key(dice) });
            range(dice, command, by_lex, true)
        }
        "ZRANGESTORE" => {
            let by_lex = dice.percent(20);
            let command = command.arg(sorted_set_key(dice));
            let command = command.arg(if by_lex { lex_key(dice) } else { sorted_set_key(dice) });
            range(dice, command, by_lex, false)
        }
        "ZREVRANGE" => {
            let command = command.arg(sorted_set_key(dice)).arg(position(dice)).arg(position(dice));
            command.when(dice.percent(40), "withscores")
        }
        "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => {
            let command = command.arg(sorted_set_key(dice)).arg(score_bound(dice)).arg(score_bound(dice));
            let command = command.when(dice.percent(40), "WITHSCORES");
            limit(dice, command, 40)
        }
        "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => {
            let command = command.arg(lex_key(dice)).arg(lex_bound(dice)).arg(lex_bound(dice));
            limit(dice, command, 40)
        }
        "ZLEXCOUNT" | "ZREMRANGEBYLEX" => command.arg(lex_key(dice)).arg(lex_bound(dice)).arg(lex_bound(dice)),
        "ZCOUNT" | "ZREMRANGEBYSCORE" => {
            command.arg(sorted_set_key(dice)).arg(score_bound(dice)).arg(score_bound(dice))
        }
        "ZREMRANGEBYRANK" => command.arg(sorted_set_key(dice)).arg(position(dice)).arg(position(dice)),
        "ZINCRBY" => command.arg(sorted_set_key(dice)).arg(score(dice)).arg(member(dice)),
        "ZSCORE" | "ZRANK" | "ZREVRANK" => command.arg(sorted_set_key(dice)).arg(member(dice)),
        "ZREM" | "ZMSCORE" if dice.percent(15) => {
            let count = 1 + dice.below(3);
            command.arg(lex_key(dice)).args((0..count).map(|_| lex_member(dice)))
        }
        "ZREM" | "ZMSCORE" => {
            let count = 1 + dice.below(4);
            command.arg(sorted_set_key(dice)).args((0..count).map(|_| member(dice)))
        }
        "ZPOPMIN" | "ZPOPMAX" => {
            let command = command.arg(sorted_set_key(dice));
            if dice.percent(60) { command.arg(small_count(dice)) } else { command }
        }
        "ZMPOP" => {
            let command = keys(dice, command);
            let command = command.arg(dice.weighted(&[(8, "MIN"), (8, "max"), (1, "MID")]));
            if dice.percent(60) { command.arg("COUNT").arg(small_count(dice)) } else { command }
        }
        "ZRANDMEMBER" => {
            let command = command.arg(sorted_set_key(dice));
            if dice.percent(70) {
                command.number(dice.within(-5..=5)).when(dice.percent(40), "WITHSCORES")
            } else {
                command
            }
        }
        "ZUNION" | "ZINTER" => {
            let command = weighted_keys(dice, command);
            command.when(dice.percent(50), "WITHSCORES")
        }
        "ZDIFF" => {
            let command = keys(dice, command);
            command.when(dice.percent(50), "WITHSCORES")
        }
        "ZUNIONSTORE" | "ZINTERSTORE" => {
            let command = command.arg(sorted_set_key(dice));
            weighted_keys(dice, command)
        }
        "ZDIFFSTORE" => {
            let command = command.arg(sorted_set_key(dice));
            keys(dice, command)
        }
        "ZINTERCARD" => {
            let command = keys(dice, command);
            if dice.percent(50) { command.arg("LIMIT").arg(small_count(dice)) } else { command }
        }
        "ZSCAN" => command.arg(sorted_set_key(dice)).arg(dice.weighted(&[(4, "0"), (1, "abc")])),
        _ => command.arg(sorted_set_key(dice)),
    }]
}

/// A sample, checked against what it is drawn from.
pub(super) fn sample(dice: &mut Dice) -> Step {
    Step::Sample { key: sorted_set_key(dice), count: dice.within(-20..=20), with_scores: dice.percent(50) }
}

fn add(dice: &mut Dice) -> Command {
    let mut command = Command::new("ZADD").arg(sorted_set_key(dice));
    if dice.percent(30) {
        command = command.arg(dice.pick(&["NX", "XX", "nx", "xx"]));
    }
    if dice.percent(25) {
        command = command.arg(dice.pick(&["GT", "LT", "gt"]));
    }
    command = command.when(dice.percent(30), "CH");
    if dice.percent(10) {
        return command.arg("INCR").arg(score(dice)).arg(member(dice)).when(dice.percent(5), "1");
    }
    // Now and then more than the 128 entries at which the encoding changes.
    let count = dice.weighted(&[(30, 1), (20, 3), (10, 8), (1, 140)]);
    (0..count).fold(command, |command, _| command.arg(score(dice)).arg(member(dice)))
}

fn lex_add(dice: &mut Dice) -> Command {
    let count = dice.weighted(&[(10, 1), (10, 5), (1, 140)]);
    let command = Command::new("ZADD").arg(lex_key(dice)).when(dice.percent(20), "NX").when(dice.percent(20), "CH");
    (0..count).fold(command, |command, _| command.arg("0").arg(lex_member(dice)))
}

fn range(dice: &mut Dice, command: Command, by_lex: bool, scores_allowed: bool) -> Command {
    let by_score = !by_lex && dice.percent(40);
    let reverse = dice.percent(35);
    let mut command = command;
    for _ in 0..2 {
        command = if by_lex {
            command.arg(lex_bound(dice))
        } else if by_score {
            command.arg(score_bound(dice))
        } else {
            command.arg(position(dice))
        };
    }
    command = command.when(by_lex, "BYLEX").when(by_score, "byscore").when(reverse, "REV");
    command = limit(dice, command, if by_lex || by_score { 40 } else { 3 });
    command.when(dice.percent(if !scores_allowed || by_lex { 3 } else { 50 }), "WITHSCORES")
}

fn limit(dice: &mut Dice, command: Command, percent: usize) -> Command {
    if !dice.percent(percent) {
        return command;
    }
    let number = |dice: &mut Dice| match dice.below(20) {
        0 => dice.pick(&["abc", "", "9223372036854775807", "-9223372036854775808", "1.5"]).to_string(),
        _ => dice.within(-2..=8).to_string(),
    };
    command.arg("LIMIT").arg(number(dice)).arg(number(dice))
}

fn small_count(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => dice.pick(&["-1", "abc", "", "1.5", "9223372036854775808"]).to_string(),
        1 => "0".to_string(),
        _ => dice.within(1..=6).to_string(),
    }
}

/// The number of keys, and keys.
fn keys(dice: &mut Dice, command: Command) -> Command {
    let count = 1 + dice.below(3);
    some_keys(dice, command, count)
}

fn some_keys(dice: &mut Dice, command: Command, count: usize) -> Command {
    let claimed = match dice.below(20) {
        0 => dice.pick(&["0", "-1", "abc", "5", "9223372036854775807"]).to_string(),
        _ => count.to_string(),
    };
    command.arg(claimed).args((0..count).map(|_| sorted_set_key(dice)))
}

/// The number of keys, keys, weights and an aggregate.
fn weighted_keys(dice: &mut Dice, command: Command) -> Command {
    let count = 1 + dice.below(3);
    let mut command = some_keys(dice, command, count);
    if dice.percent(35) {
        command = command.arg("WEIGHTS");
        let count = if dice.percent(5) { count + 1 } else { count };
        for _ in 0..count {
            let weight =
                dice.weighted(&[(8, "1"), (8, "2"), (4, "0"), (4, "-1"), (4, "0.5"), (1, "inf"), (1, "x"), (1, "nan")]);
            command = command.arg(weight);
        }
    }
    if dice.percent(35) {
        let how = dice.weighted(&[(6, "SUM"), (6, "min"), (6, "MAX"), (1, "AVG")]);
        command = command.arg("AGGREGATE").arg(how);
    }
    command
}
