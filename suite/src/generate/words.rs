//! The words that commands are made of: few keys, so that commands meet; values, numbers and bounds from the edges of
//! their kinds.

use crate::dice::Dice;

/// Keys that mostly hold strings.
const STRING_KEYS: [&[u8]; 4] = [b"s:1", b"s:2", b"s:3", b"bin\x00\xff\r\n"];
/// Keys that mostly hold sorted sets.
const SORTED_SET_KEYS: [&[u8]; 4] = [b"z:1", b"z:2", b"z:3", b"z:bin\x00\r\n\xfe"];
/// Keys that hold either.
const MIXED_KEYS: [&[u8]; 3] = [b"m:1", b"m:2", b""];
/// Sorted sets all of whose scores are 0. Commands by name order are sent to these only, since their answers are
/// unspecified for sets of mixed scores; and no command that could mix scores is.
const LEX_KEYS: [&[u8]; 2] = [b"lex:1", b"lex:2"];

/// Whether a key is one of those whose scores are all 0.
pub(super) fn is_lex_key(key: &[u8]) -> bool {
    LEX_KEYS.contains(&key)
}

/// A key, mostly of a string.
pub(super) fn string_key(dice: &mut Dice) -> Vec<u8> {
    match dice.below(20) {
        0..=14 => dice.pick(&STRING_KEYS).to_vec(),
        15 => b"counter".to_vec(),
        16..=17 => dice.pick(&MIXED_KEYS).to_vec(),
        18 => dice.pick(&SORTED_SET_KEYS).to_vec(),
        _ => b"absent".to_vec(),
    }
}

/// A key, mostly of a sorted set.
pub(super) fn sorted_set_key(dice: &mut Dice) -> Vec<u8> {
    match dice.below(20) {
        0..=15 => dice.pick(&SORTED_SET_KEYS).to_vec(),
        16..=17 => dice.pick(&MIXED_KEYS).to_vec(),
        18 => dice.pick(&STRING_KEYS).to_vec(),
        _ => b"absent".to_vec(),
    }
}

/// A key of a sorted set whose scores are all 0; now and then one of a string or of nothing.
pub(super) fn lex_key(dice: &mut Dice) -> Vec<u8> {
    // None that may hold differing scores: what Redis makes of those depends on the set's encoding.
    dice.pick(&LEX_KEYS).to_vec()
}

/// Any key that may be written to.
pub(super) fn any_key(dice: &mut Dice) -> Vec<u8> {
    if dice.percent(50) { string_key(dice) } else { sorted_set_key(dice) }
}

/// Two keys, mostly of the same kind: else nothing would stay what it is for long.
pub(super) fn key_pair(dice: &mut Dice) -> [Vec<u8>; 2] {
    match dice.below(20) {
        0..=8 => [string_key(dice), string_key(dice)],
        9..=18 => [sorted_set_key(dice), sorted_set_key(dice)],
        _ => [any_key(dice), any_key(dice)],
    }
}

/// Any key at all, for commands that write nothing but what was there.
pub(super) fn readable_key(dice: &mut Dice) -> Vec<u8> {
    if dice.percent(10) { lex_key(dice) } else { any_key(dice) }
}

/// A value of a string.
pub(super) fn value(dice: &mut Dice) -> Vec<u8> {
    match dice.below(1000) {
        // Half of all lengths up to 300, the lengths at which encodings change, now and then a large one.
        0..=299 => dice
            .pick(&[
                "a",
                "ab",
                "hello world",
                "",
                "foobar",
                "ohmytext",
                "mynewtext",
                "\u{e9}\u{4e16}",
                "+OK\r\n",
                "$-1",
            ])
            .as_bytes()
            .to_vec(),
        300..=599 => integer(dice).into_bytes(),
        600..=699 => float(dice).into_bytes(),
        700..=799 => {
            let length = dice.below(30);
            dice.bytes(length)
        }
        800..=899 => {
            let length = usize::try_from(dice.within(40..=70)).unwrap_or(44);
            vec![b'x'; length]
        }
        900..=998 => {
            let length = dice.below(3000);
            (0..length).map(|_| b'a' + u8::try_from(dice.below(4)).unwrap_or(0)).collect()
        }
        _ => {
            let mut value = dice.bytes(16);
            value.resize(1 << 20, b'v');
            value
        }
    }
}

/// A whole number, mostly small.
pub(super) fn integer(dice: &mut Dice) -> String {
    match dice.below(20) {
        0..=11 => dice.within(-20..=100).to_string(),
        12..=14 => dice.within(-1_000_000..=1_000_000).to_string(),
        15 => dice.within(i64::MIN..=i64::MAX).to_string(),
        16 => i64::MAX.to_string(),
        17 => i64::MIN.to_string(),
        18 => (i64::MAX - dice.within(0..=20)).to_string(),
        _ => dice.pick(&["9999", "10000", "-0", "007", "+5", " 5", "5 ", "1e3", "9223372036854775808"]).to_string(),
    }
}

/// A number with a fraction, of the ordinary kind: what sums of a few of them are does not depend on their order much.
pub(super) fn float(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..=6 => format!("{}.{}", dice.within(-50..=50), dice.pick(&["5", "25", "125", "0", "1", "75"])),
        7 => dice.pick(&["1e3", "3.0e-3", "5e2", "-1.5e1", ".5", "5."]).to_string(),
        8 => dice.pick(&["0.1", "0.2", "0.3", "3.14159265358979", "10.50", "1234567.891"]).to_string(),
        _ => dice.pick(&["nan", "inf", "-inf", "abc", "", " 1.5", "1.5 ", "1e400"]).to_string(),
    }
}

/// A position in a sequence, from either end.
pub(super) fn position(dice: &mut Dice) -> String {
    match dice.below(20) {
        0..=15 => dice.within(-12..=25).to_string(),
        16 => dice.within(-4000..=4000).to_string(),
        17 => i64::MAX.to_string(),
        18 => i64::MIN.to_string(),
        _ => dice.pick(&["abc", "1.5", "", "(1", "9223372036854775808"]).to_string(),
    }
}

/// A time to live that outlasts every test: seconds. No two of a test are likely to be the same, so that GT and LT
/// compare the same on both servers although their clocks are read at different moments.
pub(super) fn ttl_s(dice: &mut Dice) -> i64 {
    dice.within(100_000..=2_000_000_000)
}

/// As [`ttl_s`], in milliseconds.
pub(super) fn ttl_ms(dice: &mut Dice) -> i64 {
    dice.within(100_000_000..=2_000_000_000_000)
}

/// A moment in the future of every test, in seconds since 1970.
pub(super) fn future_s(dice: &mut Dice) -> i64 {
    dice.within(4_000_000_000..=8_000_000_000)
}

/// A score, as ZADD takes it.
pub(super) fn score(dice: &mut Dice) -> String {
    match dice.below(40) {
        0..=21 => dice.within(-3..=12).to_string(),
        22..=29 => format!("{}.{}", dice.within(-3..=12), dice.pick(&["5", "25", "1", "0", "75"])),
        30 => dice.pick(&["inf", "+inf", "-inf", "Infinity", "-INF"]).to_string(),
        31 => dice
            .pick(&["1e308", "-1e308", "1.7976931348623157e308", "5e-324", "1e-5", "1e21", "123456789012345678"])
            .to_string(),
        32 => dice.pick(&["-0", "0", "-0.0", "3.0", "1e3", "0.30000000000000004", "100000000000000000000"]).to_string(),
        33 => dice.pick(&["nan", "abc", "", " 1", "1 ", "1x", "(1", "1e400"]).to_string(),
        34..=36 => dice.within(-1_000_000..=1_000_000).to_string(),
        _ => dice.pick(&["0.1", "0.2", "0.7", "17.125", "9007199254740992", "9007199254740993"]).to_string(),
    }
}

/// A bound of a range of scores.
pub(super) fn score_bound(dice: &mut Dice) -> String {
    match dice.below(20) {
        0..=8 => dice.within(-3..=12).to_string(),
        9..=12 => format!("({}", dice.within(-3..=12)),
        13 => format!("{}.5", dice.within(-3..=12)),
        14..=15 => "-inf".to_string(),
        16..=17 => "+inf".to_string(),
        18 => dice.pick(&["(inf", "(-inf", "1e308", "(0.1", "-0", "inf"]).to_string(),
        _ => dice.pick(&["", "(", "((1", "[1", "abc", "nan", "(nan", "1 ", "-", "+"]).to_string(),
    }
}

/// A member of a sorted set.
pub(super) fn member(dice: &mut Dice) -> Vec<u8> {
    match dice.below(40) {
        0..=27 => dice.pick(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]).as_bytes().to_vec(),
        28..=35 => format!("member:{}", dice.below(200)).into_bytes(),
        36 => Vec::new(),
        37 => dice.pick(&[&b"\x00"[..], b"\xff\xff", b"a\x00", b"a\r\nb", b"\xff"]).to_vec(),
        38 => dice.pick(&["12", "-5", "3.5", "007"]).as_bytes().to_vec(),
        _ => vec![b'm'; usize::try_from(dice.within(60..=70)).unwrap_or(64)],
    }
}

/// A member of a sorted set of equal scores: no number, so that no mistake in a command makes a score of it.
pub(super) fn lex_member(dice: &mut Dice) -> Vec<u8> {
    match dice.below(10) {
        0..=6 => {
            dice.pick(&["a", "aa", "ab", "b", "c", "d", "da", "e", "f", "g", "h", "x", "y", "z"]).as_bytes().to_vec()
        }
        7 => dice.pick(&[&b"a\x00"[..], b"\xff", b"A", b"b\xff", b"\x01"]).to_vec(),
        _ => format!("key:{:03}", dice.below(100)).into_bytes(),
    }
}

/// A bound of a range of members.
pub(super) fn lex_bound(dice: &mut Dice) -> Vec<u8> {
    match dice.below(20) {
        0..=2 => b"-".to_vec(),
        3..=5 => b"+".to_vec(),
        6..=11 => [b"[".to_vec(), lex_member(dice)].concat(),
        12..=17 => [b"(".to_vec(), lex_member(dice)].concat(),
        18 => dice.pick(&["[", "("]).as_bytes().to_vec(),
        _ => dice.pick(&["a", "", "-a", "+a", "inf", "0", "{a"]).as_bytes().to_vec(),
    }
}

/// A pattern of KEYS and MATCH.
pub(super) fn pattern(dice: &mut Dice) -> String {
    dice.pick(&[
        "*",
        "s:*",
        "z:?",
        "[sz]:1",
        "[^s]*",
        "\\*",
        "h*llo",
        "",
        "?",
        "[a-",
        "s:[1-3]",
        "s:[3-1]",
        "*:*",
        "**1",
        "m:[",
        "a",
        "member:1*",
        "[!a]",
        "\\m*",
        "*\\",
        "key:0?5",
        "[a-c]",
        "[^a-c]",
        "*[0-9]",
        "z:*\r\n*",
    ])
    .to_string()
}
