//! Facts of the commands about strings as wholes, parts of them, and numbers in them.

use super::spec::{Flags, Group, Spec};

const FAST_GROWTH: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READ;
const STAGED_WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::STAGES);

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("get", 2, FAST_READ, Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "The string at a key.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("set", -3, STAGED_WRITE, Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about(
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
             unix-time-milliseconds | KEEPTTL]",
            "Puts a string at a key, and replaces what it held.",
            "1.0.0",
        )
        .costs("O(log n)", "O(1)"),
    Spec::new("setnx", 3, Flags::WRITE.and(Flags::DENY_OOM).and(Flags::STAGES).and(Flags::FAST), Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about("key value", "Puts a string at a key that does not exist.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("setex", 4, STAGED_WRITE, Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about("key seconds value", "Puts a string that expires after some seconds.", "2.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("psetex", 4, STAGED_WRITE, Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about("key milliseconds value", "Puts a string that expires after some milliseconds.", "2.6.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getset", 3, Flags::WRITE.and(Flags::DENY_OOM).and(Flags::STAGES).and(Flags::FAST), Group::String)
        .keys(1, 1, 1)
        .about("key value", "Puts a string at a key, and answers the previous one.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getdel", 2, FAST_WRITE.and(Flags::FREES), Group::String)
        .keys(1, 1, 1)
        .about("key", "The string at a key, which is removed.", "6.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getex", -2, FAST_WRITE.and(Flags::FREES), Group::String)
        .keys(1, 1, 1)
        .about(
            "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
            "The string at a key, whose time to live can be changed along the way.",
            "6.2.0",
        )
        .costs("O(log n)", "O(1)"),
    Spec::new("mget", -2, FAST_READ, Group::String)
        .replicated()
        .keys(1, -1, 1)
        .about("key [key ...]", "The strings at several keys.", "1.0.0")
        .costs("O(k log n), descents interleaved", "O(k)"),
    Spec::new("mset", -3, STAGED_WRITE, Group::String)
        .replicated()
        .keys(1, -1, 2)
        .about("key value [key value ...]", "Puts strings at several keys.", "1.0.1")
        .costs("O(k log n), descents interleaved", "O(k)"),
    Spec::new("msetnx", -3, STAGED_WRITE, Group::String)
        .keys(1, -1, 2)
        .about("key value [key value ...]", "Puts strings at several keys if none of them exists.", "1.0.1")
        .costs("O(k log n)", "O(k)"),
    Spec::new("append", 3, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key value", "Appends to the string at a key, which starts empty.", "2.0.0")
        .costs("O(log n + part)", "O(1) amortized"),
    Spec::new("strlen", 2, FAST_READ, Group::String)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "How many bytes the string at a key has.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("getrange", 4, READ, Group::String)
        .keys(1, 1, 1)
        .about("key start end", "The bytes of a string from one position through another.", "2.4.0")
        .costs("O(log n + part)", "O(part)"),
    Spec::new("substr", 4, READ, Group::String)
        .keys(1, 1, 1)
        .about("key start end", "The old name of GETRANGE.", "1.0.0")
        .costs("O(log n + part)", "O(part)"),
    Spec::new("setrange", 4, Flags::WRITE.and(Flags::DENY_OOM), Group::String)
        .keys(1, 1, 1)
        .about("key offset value", "Writes over a part of a string, which grows as needed.", "2.2.0")
        .costs("O(log n + part)", "O(part)"),
    Spec::new("lcs", -3, READ, Group::String)
        .keys(1, 2, 1)
        .about(
            "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
            "The longest bytes that two strings have in common, in the same order with gaps.",
            "7.0.0",
        )
        .costs("O(a b) time and memory, of strings of a and b bytes", "O(a b)"),
    Spec::new("incr", 2, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key", "Adds one to the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("decr", 2, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key", "Subtracts one from the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("incrby", 3, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key increment", "Adds to the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("decrby", 3, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key decrement", "Subtracts from the integer at a key, which starts from 0.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("incrbyfloat", 3, FAST_GROWTH, Group::String)
        .keys(1, 1, 1)
        .about("key increment", "Adds to the decimal number at a key, which starts from 0.", "2.6.0")
        .costs("O(log n)", "O(1)"),
];
