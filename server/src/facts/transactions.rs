//! Facts of the commands about transactions and snapshots.

use super::spec::{Flags, Group, Spec};

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("multi", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Begins a transaction: commands are queued until EXEC.", "1.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("exec", 1, Flags::RUNS_QUEUE.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Runs the queued commands as one, unless something watched has changed.", "1.2.0")
        .costs("that of the commands, O(log n) a watched range", "that of the commands"),
    Spec::new("discard", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .about("", "Forgets the queued commands and what is watched.", "2.0.0")
        .costs("O(1)", "O(n) queued commands"),
    Spec::new("watch", -2, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions)
        .keys(1, -1, 1)
        .about("key [key ...]", "Lets the next EXEC fail if one of the keys changes before.", "2.2.0")
        .costs("O(1) a key", "O(1) a key"),
    Spec::new("unwatch", 1, Flags::FAST, Group::Transactions)
        .about("", "Watches nothing any more.", "2.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("q.watch", -3, Flags::READ.and(Flags::EXACT).and(Flags::NO_QUEUE), Group::Transactions)
        .about(
            "min max [COUNT]",
            "Lets the next EXEC fail if keys or values of a range change before; with COUNT, only if their number \
             does.",
            "0.1.0",
        )
        .costs("O(log n)", ""),
    Spec::new("q.snapshot", -1, Flags::ALONE.and(Flags::FAST).and(Flags::NO_MULTI), Group::Ordered)
        .about(
            "[SECONDS n]",
            "Keeps this moment for reads with Q.AT, for 60 seconds or those given; its number.",
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
