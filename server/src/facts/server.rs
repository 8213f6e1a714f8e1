//! Facts of the commands about the server: its configuration, figures, upkeep and users.

use super::spec::{Flags, Group, Spec};

const ADMIN: Flags = Flags::ADMIN;
const ALONE_ADMIN: Flags = Flags::ADMIN.and(Flags::ALONE);
const FAST: Flags = Flags::FAST;
/// Asks the engine for its figures: outside a transaction while nothing is held.
const FIGURES: Flags = Flags::ALONE.and(Flags::INSIDE_TOO);
const PLAIN: Flags = Flags::NONE;
const SECRET_ADMIN: Flags = Flags::ADMIN.and(Flags::SECRET);
const SECRET_ALONE_ADMIN: Flags = Flags::ADMIN.and(Flags::ALONE).and(Flags::SECRET);

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("config", -2, PLAIN, Group::Server)
        .about("subcommand", "Tells and changes the configuration.", "2.0.0")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("config|get", -3, ADMIN, Group::Server)
                .about("parameter [parameter ...]", "Parameters that match patterns, with their values.", "2.0.0")
                .costs("O(n) parameters a pattern", "O(n) parameters a pattern"),
            Spec::new("config|set", -4, ADMIN, Group::Server)
                .about("parameter value [parameter value ...]", "Changes parameters: all of them or none.", "2.0.0")
                .costs("O(n) parameters given", "O(n) parameters given"),
            Spec::new("config|resetstat", 2, ADMIN, Group::Server)
                .about("", "Resets the counters of INFO.", "2.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("config|rewrite", 2, ADMIN, Group::Server)
                .about("", "Writes what was changed into the configuration file.", "2.8.0")
                .costs("O(n) bytes of the file", "O(n) bytes of the file"),
            Spec::new("config|help", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "Lists the \
            subcommands.",
                    "5.0.0",
                )
                .costs("O(1)", "O(1)"),
        ]),
    Spec::new("info", -1, FIGURES, Group::Server)
        .about("[section [section ...]]", "Facts and counters of the server.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("command", -1, PLAIN, Group::Server)
        .about("", "Everything that is known of all commands.", "2.8.13")
        .costs("O(n) commands", "O(n) commands")
        .subcommands(&[
            Spec::new("command|count", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "How many commands there \
                are.",
                    "2.8.13",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("command|docs", -2, PLAIN, Group::Server)
                .about("[command-name [command-name ...]]", "Purpose, arguments and costs of commands.", "7.0.0")
                .costs("O(n) commands", "O(n) commands"),
            Spec::new("command|getkeys", -4, PLAIN, Group::Server)
                .about("command [arg [arg ...]]", "The keys among the words of a command.", "2.8.13")
                .costs("O(n) words", "O(n) words"),
            Spec::new("command|getkeysandflags", -4, PLAIN, Group::Server)
                .about(
                    "command [arg [arg ...]]",
                    "The keys among the words of a command, and what it does to each.",
                    "7.0.0",
                )
                .costs("O(n) words", "O(n) words"),
            Spec::new("command|help", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "Lists the \
                subcommands.",
                    "5.0.0",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("command|info", -2, PLAIN, Group::Server)
                .about("[command-name [command-name ...]]", "Flags, keys and categories of commands.", "2.8.13")
                .costs("O(n) commands", "O(n) commands"),
            Spec::new("command|list", -2, PLAIN, Group::Server)
                .about(
                    "[FILTERBY MODULE module-name | ACLCAT category | PATTERN pattern]",
                    "The names of commands.",
                    "7.0.0",
                )
                .costs("O(n) commands", "O(n) commands"),
        ]),
    Spec::new("module", -2, PLAIN, Group::Server)
        .about("", "What modules are loaded: none, ever.", "4.0.0")
        .costs("O(1)", "depends on the subcommand")
        .subcommands(&[
            Spec::new("module|help", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "Lists the \
                subcommands.",
                    "5.0.0",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("module|list", 2, ADMIN, Group::Server)
                .about("", "An empty list: there are no modules.", "4.0.0")
                .costs("O(1)", "O(n) modules"),
        ]),
    Spec::new("time", 1, FAST, Group::Server)
        .about("", "The server's time: seconds and microseconds.", "2.6.0")
        .costs("O(1)", "O(1)"),
    Spec::new("lastsave", 1, FAST, Group::Server)
        .about("", "The time at which the last requested checkpoint ended.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("save", 1, Flags::ADMIN.and(Flags::ALONE).and(Flags::NO_MULTI), Group::Server)
        .about("", "Makes a checkpoint, and answers when it is complete.", "1.0.0")
        .costs("O(n) rows of tables that have changed; no other client waits", "O(n), and all clients wait"),
    Spec::new("bgsave", -1, ADMIN, Group::Server)
        .about("[SCHEDULE]", "Starts a checkpoint.", "1.0.0")
        .costs("O(1)", "O(n) pages of memory"),
    Spec::new("bgrewriteaof", 1, ADMIN, Group::Server)
        .about("", "Starts a checkpoint; the log before it is no longer needed.", "1.0.0")
        .costs("O(1)", "O(n) pages of memory"),
    Spec::new("q.backup", 2, Flags::ADMIN.and(Flags::ALONE).and(Flags::NO_MULTI), Group::Server)
        .about(
            "directory",
            "Copies the database, as of one commit, into an empty directory of the server's machine, and answers when \
             the copy is complete and durable.",
            "0.1.0",
        )
        .costs("that of a checkpoint, and a link or a copy of each file; no other client waits", ""),
    Spec::new("shutdown", -1, Flags::ADMIN.and(Flags::NO_MULTI), Group::Server)
        .about(
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
            "Ends the server, with a checkpoint if not told otherwise.",
            "1.0.0",
        )
        .costs("that of a checkpoint", "O(n)"),
    Spec::new("role", 1, FAST, Group::Server)
        .about("", "Always that of a master without replicas.", "2.8.12")
        .costs("O(1)", "O(1)"),
    Spec::new("replicaof", 3, ADMIN, Group::Server)
        .about("NO ONE | host port", "Only NO ONE is accepted.", "5.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("slaveof", 3, ADMIN, Group::Server)
        .about("NO ONE | host port", "The same as REPLICAOF.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("sync", 1, ADMIN, Group::Server)
        .about("", "Refused: there is no replication of this kind.", "1.0.0")
        .costs("O(1)", ""),
    Spec::new("psync", -3, ADMIN, Group::Server)
        .about("replicationid offset", "Refused: there is no replication of this kind.", "2.8.0")
        .costs("O(1)", ""),
    Spec::new("replconf", -1, ADMIN, Group::Server)
        .about("", "Refused: there is no replication of this kind.", "3.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("failover", -1, ADMIN, Group::Server)
        .about(
            "",
            "Refused: there are no \
        replicas.",
            "6.2.0",
        )
        .costs("O(1)", "O(1)"),
    Spec::new("wait", 3, PLAIN, Group::Generic)
        .about("numreplicas timeout", "How many replicas have what was written: 0 of a node alone.", "3.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("waitaof", 4, Flags::ALONE, Group::Generic)
        .about("numlocal numreplicas timeout", "Answers when what was written is on stable storage here.", "7.2.0")
        .costs("one fsync", "O(1)"),
    Spec::new("debug", -2, ALONE_ADMIN, Group::Server)
        .about("subcommand", "For tests.", "1.0.0")
        .costs("O(1)", "depends")
        .subcommands(&[
            Spec::new("debug|help", 2, PLAIN, Group::Server)
                .about("", "Lists the subcommands.", "5.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("debug|sleep", 3, Flags::ADMIN.and(Flags::ALONE).and(Flags::INSIDE_TOO), Group::Server)
                .about("seconds", "Keeps a thread that serves connections busy for a while.", "2.8.0")
                .costs("O(1)", "O(1)"),
            Spec::new("debug|object", -3, Flags::READ.and(Flags::ADMIN), Group::Server)
                .about("key", "How the value of a key is stored.", "1.0.0")
                .costs("O(log n)", "O(n)"),
            Spec::new("debug|set-active-expire", 3, ADMIN, Group::Server)
                .about("0 | 1", "Has no effect: what has expired is gone either way.", "2.8.0")
                .costs("O(1)", "O(1)"),
            Spec::new("debug|reload", -2, ALONE_ADMIN, Group::Server)
                .about("[NOSAVE | NOFLUSH | MERGE]", "Makes a checkpoint; what is stored is what is read.", "2.8.0")
                .costs("that of SAVE", "O(n)"),
            Spec::new("debug|loadaof", 2, ADMIN, Group::Server)
                .about("", "Does nothing: the log is read at every start.", "2.8.0")
                .costs("O(1)", "O(n)"),
            Spec::new("debug|jmap", 2, ADMIN, Group::Server).about("", "Does nothing.", "2.8.0").costs("O(1)", "O(1)"),
            Spec::new("debug|quicklist-packed-threshold", 3, ADMIN, Group::Server)
                .about("size", "Does nothing.", "7.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("debug|change-repl-id", 2, ADMIN, Group::Server)
                .about(
                    "",
                    "Does \
                nothing.",
                    "4.0.0",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("debug|dict-resizing", 3, ADMIN, Group::Server)
                .about(
                    "0 | 1",
                    "Does \
                nothing.",
                    "7.0.0",
                )
                .costs("O(1)", "O(1)"),
        ]),
    Spec::new("memory", -2, PLAIN, Group::Server)
        .about("subcommand", "The memory that each part takes.", "4.0.0")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("memory|doctor", 2, FIGURES, Group::Server)
                .about("", "How memory is used, in words.", "4.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("memory|help", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "Lists the \
            subcommands.",
                    "4.0.0",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("memory|malloc-stats", 2, FIGURES, Group::Server)
                .about("", "The same as MEMORY DOCTOR.", "4.0.0")
                .costs("O(1)", "depends"),
            Spec::new("memory|purge", 2, PLAIN, Group::Server)
                .about("", "Does nothing: pages that are free are used again.", "4.0.0")
                .costs("O(1)", "depends"),
            Spec::new("memory|stats", 2, FIGURES, Group::Server)
                .about("", "The memory that each part takes.", "4.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("memory|usage", -3, Flags::READ, Group::Server)
                .keys(2, 2, 1)
                .about("key [SAMPLES count]", "The bytes of memory that a key takes, approximately.", "4.0.0")
                .costs("O(log n)", "O(n) samples"),
        ]),
    Spec::new("slowlog", -2, PLAIN, Group::Server)
        .about("subcommand", "Commands that took long.", "2.2.12")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("slowlog|get", -2, ADMIN, Group::Server)
                .about("[count]", "The latest slow commands, the newest first.", "2.2.12")
                .costs("O(n) entries", "O(n) entries"),
            Spec::new("slowlog|len", 2, ADMIN, Group::Server)
                .about(
                    "",
                    "How many are \
                kept.",
                    "2.2.12",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("slowlog|reset", 2, ADMIN, Group::Server)
                .about("", "Forgets them.", "2.2.12")
                .costs("O(n) entries", "O(n) entries"),
            Spec::new("slowlog|help", 2, PLAIN, Group::Server)
                .about("", "Lists the subcommands.", "6.2.0")
                .costs("O(1)", "O(1)"),
        ]),
    Spec::new("latency", -2, PLAIN, Group::Server)
        .about("subcommand", "How long commands take.", "2.8.13")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("latency|doctor", 2, ADMIN, Group::Server)
                .about("", "A report of slow events, in words.", "2.8.13")
                .costs("O(1)", "O(1)"),
            Spec::new("latency|graph", 3, ADMIN, Group::Server)
                .about("event", "A drawing of slow events.", "2.8.13")
                .costs("O(1)", "O(1)"),
            Spec::new("latency|help", 2, PLAIN, Group::Server)
                .about("", "Lists the subcommands.", "2.8.13")
                .costs("O(1)", "O(1)"),
            Spec::new("latency|histogram", -2, ADMIN, Group::Server)
                .about("[command [command ...]]", "How many calls of commands took how long.", "7.0.0")
                .costs("O(n) commands", "O(n) commands"),
            Spec::new("latency|history", 3, ADMIN, Group::Server)
                .about("event", "The times at which an event was slow.", "2.8.13")
                .costs("O(1)", "O(1)"),
            Spec::new("latency|latest", 2, ADMIN, Group::Server)
                .about("", "The latest time at which each event was slow.", "2.8.13")
                .costs("O(1)", "O(1)"),
            Spec::new("latency|reset", -2, ADMIN, Group::Server)
                .about("[event [event ...]]", "Removes the recorded slow events.", "2.8.13")
                .costs("O(1)", "O(1)"),
        ]),
    Spec::new("monitor", 1, Flags::ADMIN.and(Flags::NO_MULTI), Group::Server)
        .about("", "Shows every command that the server receives from now on.", "1.0.0")
        .costs("O(1), and every command costs more", "O(1), and every command costs more"),
    Spec::new("acl", -2, PLAIN, Group::Server)
        .about("subcommand", "Tells and changes who may do what.", "6.0.0")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("acl|cat", -2, PLAIN, Group::Server)
                .about("[category]", "The categories of commands, or the commands of one.", "6.0.0")
                .costs("O(n) commands", "O(1)"),
            Spec::new("acl|deluser", -3, SECRET_ADMIN, Group::Server)
                .about("username [username ...]", "Removes users and closes their connections.", "6.0.0")
                .costs("O(n) connections", "O(1)"),
            Spec::new("acl|dryrun", -4, SECRET_ADMIN, Group::Server)
                .about("username command [arg ...]", "Whether a user may run a command, without running it.", "7.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("acl|genpass", -2, PLAIN, Group::Server)
                .about("[bits]", "A random password.", "6.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("acl|getuser", 3, SECRET_ADMIN, Group::Server)
                .about("username", "The rules of a user, part by part.", "6.0.0")
                .costs("O(n) rules", "O(n) rules"),
            Spec::new("acl|help", 2, PLAIN, Group::Server)
                .about(
                    "",
                    "Lists the \
            subcommands.",
                    "6.0.0",
                )
                .costs("O(1)", "O(1)"),
            Spec::new("acl|list", 2, SECRET_ADMIN, Group::Server)
                .about("", "All users with their rules, a line each.", "6.0.0")
                .costs("O(n) users", "O(n) users"),
            Spec::new("acl|load", 2, SECRET_ALONE_ADMIN, Group::Server)
                .about("", "Restores the users that ACL SAVE stored.", "6.0.0")
                .costs("O(n) users", "O(n) users"),
            Spec::new("acl|log", -2, SECRET_ADMIN, Group::Server)
                .about("[count | RESET]", "The latest refusals of commands and logins.", "6.0.0")
                .costs("O(n) entries", "O(n) entries"),
            Spec::new("acl|save", 2, SECRET_ALONE_ADMIN, Group::Server)
                .about("", "Stores all users with the data.", "6.0.0")
                .costs("O(n) users", "O(n) users"),
            Spec::new("acl|setuser", -3, SECRET_ADMIN, Group::Server)
                .about("username [rule [rule ...]]", "Creates or changes a user.", "6.0.0")
                .costs("O(n) rules", "O(n) rules"),
            Spec::new("acl|users", 2, SECRET_ADMIN, Group::Server)
                .about("", "The names of all users.", "6.0.0")
                .costs("O(n) users", "O(n) users"),
            Spec::new("acl|whoami", 2, PLAIN, Group::Server)
                .about("", "The name of the connection's user.", "6.0.0")
                .costs("O(1)", "O(1)"),
        ]),
];
