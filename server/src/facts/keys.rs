//! Facts of the commands about keys of any kind, and about whole databases.

use super::spec::{Flags, Group, Spec};

const EXACT_READ: Flags = Flags::READ.and(Flags::EXACT);
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWTH: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const PLAIN: Flags = Flags::NONE;
const READ: Flags = Flags::READ;
const WRITE: Flags = Flags::WRITE;

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("del", -2, WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, -1, 1)
        .about("key [key ...]", "Removes keys.", "1.0.0")
        .costs("O(k log n), and one step a leaf of what they hold", "O(k)"),
    Spec::new("unlink", -2, FAST_WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, -1, 1)
        .about("key [key ...]", "Removes keys, as DEL does.", "4.0.0")
        .costs("O(k log n), and one step a leaf of what they hold", "O(k), and the rest in the background"),
    Spec::new("exists", -2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, -1, 1)
        .about("key [key ...]", "How many of the keys exist; a key that is named twice counts twice.", "1.0.0")
        .costs("O(k log n)", "O(k)"),
    Spec::new("touch", -2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, -1, 1)
        .about("key [key ...]", "How many of the keys exist, as EXISTS answers it.", "3.2.1")
        .costs("O(k log n)", "O(k)"),
    Spec::new("type", 2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "The type of the value of a key.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("rename", 3, WRITE, Group::Generic)
        .keys(1, 2, 1)
        .about("key newkey", "Gives a key another name, and removes what had that name.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("renamenx", 3, FAST_WRITE, Group::Generic)
        .keys(1, 2, 1)
        .about("key newkey", "Gives a key another name that no key has.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("copy", -3, GROWTH, Group::Generic)
        .keys(1, 2, 1)
        .about(
            "source destination [DB destination-db] [REPLACE]",
            "Copies a key to another name, or into another database.",
            "6.2.0",
        )
        .costs("O(log n), and a step for each element or piece", "O(1) for a string, O(m) for a collection"),
    Spec::new("move", 3, FAST_WRITE, Group::Generic)
        .keys(1, 1, 1)
        .about("key db", "Moves a key into another database, unless that has a key of this name.", "1.0.0")
        .costs("O(log n), and a step for each element or piece", "O(1)"),
    Spec::new("expire", -3, FAST_WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key seconds [NX | XX | GT | LT]", "Lets a key expire after some seconds.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("pexpire", -3, FAST_WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key milliseconds [NX | XX | GT | LT]", "Lets a key expire after some milliseconds.", "2.6.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("expireat", -3, FAST_WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key unix-time-seconds [NX | XX | GT | LT]", "Lets a key expire at a second since 1970.", "1.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("pexpireat", -3, FAST_WRITE.and(Flags::FREES), Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about(
            "key unix-time-milliseconds [NX | XX | GT | LT]",
            "Lets a key expire at a millisecond since 1970.",
            "2.6.0",
        )
        .costs("O(log n)", "O(1)"),
    Spec::new("ttl", 2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "The seconds until a key expires: -1 if never, -2 if there is no such key.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("pttl", 2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "The milliseconds until a key expires: -1 if never, -2 if there is no such key.", "2.6.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("expiretime", 2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "The second since 1970 at which a key expires: -1 if never, -2 if there is no such key.", "7.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("pexpiretime", 2, FAST_READ, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about(
            "key",
            "The millisecond since 1970 at which a key expires: -1 if never, -2 if there is no such key.",
            "7.0.0",
        )
        .costs("O(log n)", "O(1)"),
    Spec::new("persist", 2, FAST_WRITE, Group::Generic)
        .replicated()
        .keys(1, 1, 1)
        .about("key", "Removes a key's deadline.", "2.2.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("keys", 2, EXACT_READ, Group::Generic)
        .about("pattern", "All keys that match a pattern.", "1.0.0")
        .costs("O(log n + m) for m keys that begin as the pattern does", "O(n)"),
    Spec::new("scan", -2, EXACT_READ, Group::Generic)
        .about("cursor [MATCH pattern] [COUNT count] [TYPE type]", "Some keys, and a cursor to go on from.", "2.8.0")
        .costs("O(log n + count)", "O(count)"),
    Spec::new("randomkey", 1, EXACT_READ, Group::Generic)
        .about("", "Any key, each as likely as any other.", "1.0.0")
        .costs("O(log n)", "O(1)"),
    Spec::new("object", -2, PLAIN, Group::Generic)
        .about("", "How Redis would hold what a key has.", "2.2.3")
        .costs("depends on the subcommand", "depends on the subcommand")
        .subcommands(&[
            Spec::new("object|encoding", 3, READ, Group::Generic)
                .keys(2, 2, 1)
                .about("key", "The form in which Redis would hold a value.", "2.2.3")
                .costs("O(log n), and a step for each of 128 members at most", "O(1)"),
            Spec::new("object|freq", 3, READ, Group::Generic)
                .keys(2, 2, 1)
                .about("key", "How often a key was used: this is not recorded.", "4.0.0")
                .costs("O(log n)", "O(1)"),
            Spec::new("object|idletime", 3, READ, Group::Generic)
                .keys(2, 2, 1)
                .about("key", "For how many seconds a key was not used: this is not recorded.", "2.2.3")
                .costs("O(log n)", "O(1)"),
            Spec::new("object|refcount", 3, READ, Group::Generic)
                .keys(2, 2, 1)
                .about("key", "How many references to a value Redis would have.", "2.2.3")
                .costs("O(log n)", "O(1)"),
            Spec::new("object|help", 2, PLAIN, Group::Generic)
                .about("", "The subcommands of OBJECT.", "6.2.0")
                .costs("O(1)", "O(1)"),
        ]),
    Spec::new("dump", 2, READ, Group::Generic)
        .keys(1, 1, 1)
        .about("key", "The value of a key as bytes that RESTORE takes.", "2.6.0")
        .costs("O(log n), and the bytes of the value", "O(bytes)"),
    Spec::new("restore", -4, GROWTH, Group::Generic)
        .keys(1, 1, 1)
        .about(
            "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
            "Creates a key from the bytes that DUMP answered.",
            "2.6.0",
        )
        .costs("O(bytes), and O(log n) for each member", "O(bytes), and O(log m) for each member"),
    Spec::new("select", 2, Flags::FAST, Group::Connection)
        .about("index", "Chooses the database of the connection's commands.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("dbsize", 1, Flags::READ.and(Flags::EXACT).and(Flags::FAST), Group::Server)
        .replicated()
        .about("", "How many keys there are.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("flushdb", -1, WRITE.and(Flags::FREES), Group::Server)
        .about("[ASYNC | SYNC]", "Removes all keys of the database.", "1.0.0")
        .costs("O(pages)", "O(n)"),
    Spec::new("flushall", -1, WRITE.and(Flags::FREES), Group::Server)
        .about("[ASYNC | SYNC]", "Removes all keys of all databases.", "1.0.0")
        .costs("O(pages)", "O(n)"),
    Spec::new("swapdb", 3, FAST_WRITE, Group::Server)
        .about("index1 index2", "Swaps all keys of two databases.", "4.0.0")
        .costs("O(1), and a step for each watched key", "O(n) of the clients that watch"),
];
