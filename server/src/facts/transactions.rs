//! Facts of the commands about transactions and snapshots.

use super::spec::{Flags, Group, Spec};

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("multi", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Begins a transaction: commands are queued until EXEC.", "1.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("exec", 1, Flags::RUNS_QUEUE.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Runs the queued commands as one, unless a watched key or range has changed.", "1.2.0")
        .costs("that of the commands, O(log n) a watched range", "that of the commands"),
    Spec::new("discard", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Drops the queued commands, and watches nothing any more.", "2.0.0")
        .costs("O(1)", "O(n) queued commands"),
    Spec::new("watch", -2, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .keys(1, -1, 1)
        .about("key [key ...]", "Makes the next EXEC fail if one of the keys changes before it.", "2.2.0")
        .costs("O(1) a key", "O(1) a key"),
    Spec::new("unwatch", 1, Flags::FAST, Group::Transactions)
        .about("", "Stops watching all keys and ranges.", "2.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("q.watch", -3, Flags::READ.and(Flags::EXACT).and(Flags::NO_QUEUE), Group::Transactions)
        .about(
            "min max [COUNT]",
            "Makes the next EXEC fail if keys or values of a range change before it; with COUNT, only if their number \
             changes.",
            "0.1.0",
        )
        .costs("O(log n)", ""),
    Spec::new("q.snapshot", -1, Flags::ALONE.and(Flags::FAST).and(Flags::NO_MULTI), Group::Ordered)
        .about(
            "[SECONDS n]",
            "Takes a snapshot for reads with Q.AT, kept for 60 seconds unless told otherwise, and answers its number.",
            "0.1.0",
        )
        .costs("O(1)", ""),
    Spec::new("q.at", -3, Flags::ALONE.and(Flags::NO_MULTI), Group::Ordered)
        .about("id command [word ...]", "Runs a command that only reads, at a snapshot.", "0.1.0")
        .costs("that of the command", ""),
    Spec::new("q.release", 2, Flags::ALONE.and(Flags::FAST).and(Flags::NO_MULTI), Group::Ordered)
        .about("id", "Ends a snapshot; 1 if there was one.", "0.1.0")
        .costs("O(1)", ""),
];
