//! Facts of the commands about the client's connection.

use super::spec::{Flags, Group, Spec};

const ADMIN: Flags = Flags::ADMIN;
const ANY_TIME: Flags = Flags::FAST.and(Flags::NO_AUTH).and(Flags::NO_QUEUE);
const FAST: Flags = Flags::FAST;
const PLAIN: Flags = Flags::NONE;

/// The lines.
pub(super) const SPECS: &[Spec] = &[
    Spec::new("ping", -1, FAST, Group::Connection)
        .about("[message]", "Answers PONG, or the message.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("echo", 2, FAST, Group::Connection)
        .about("message", "Answers the message.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("quit", -1, ANY_TIME, Group::Connection)
        .about("", "Closes the connection.", "1.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("q.ack", -1, FAST.and(Flags::ALONE).and(Flags::NO_MULTI), Group::Connection)
        .about(
            "[ack from]",
            "In a cluster: sets how many of how many replicas of each key the client waits for, or answers that.",
            "0.1.0",
        )
        .costs("O(1)", ""),
    Spec::new("reset", 1, ANY_TIME, Group::Connection)
        .about("", "Resets the connection to its initial state.", "6.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("auth", -2, Flags::FAST.and(Flags::NO_AUTH).and(Flags::SECRET), Group::Connection)
        .about("[username] password", "Logs the connection in as a user.", "1.0.0")
        .costs("O(n) passwords of the user", "O(n) passwords of the user"),
    Spec::new("hello", -1, Flags::FAST.and(Flags::NO_AUTH).and(Flags::SECRET), Group::Connection)
        .about(
            "[protover [AUTH username password] [SETNAME clientname]]",
            "Chooses the version of the protocol, and answers facts about the server.",
            "6.0.0",
        )
        .costs("O(1)", "O(1)"),
    Spec::new("client", -2, PLAIN, Group::Connection)
        .about("subcommand", "Tells about connections, and changes them.", "2.4.0")
        .costs("see its subcommands", "see its subcommands")
        .subcommands(&[
            Spec::new("client|caching", 3, PLAIN, Group::Connection)
                .about("YES | NO", "Refused: keys are not tracked.", "6.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|getname", 2, PLAIN, Group::Connection)
                .about("", "The connection's name.", "2.6.9")
                .costs("O(1)", "O(1)"),
            Spec::new("client|getredir", 2, PLAIN, Group::Connection)
                .about("", "Always -1: keys are not tracked.", "6.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|help", 2, PLAIN, Group::Connection)
                .about("", "Lists the subcommands.", "5.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|id", 2, PLAIN, Group::Connection)
                .about("", "The connection's number.", "5.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|info", 2, PLAIN, Group::Connection)
                .about("", "The connection's line of CLIENT LIST.", "6.2.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|kill", -3, ADMIN, Group::Connection)
                .about(
                    "ip:port | [ID client-id] [TYPE NORMAL | MASTER | REPLICA | PUBSUB] [USER username] [ADDR ip:port] \
                 [LADDR ip:port] [SKIPME YES | NO]",
                    "Closes connections.",
                    "2.4.0",
                )
                .costs("O(n) connections", "O(n) connections"),
            Spec::new("client|list", -2, ADMIN, Group::Connection)
                .about(
                    "[TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id [client-id ...]]",
                    "A line for each connection.",
                    "2.4.0",
                )
                .costs("O(n) connections", "O(n) connections"),
            Spec::new("client|no-evict", 3, ADMIN, Group::Connection)
                .about("ON | OFF", "Whether the connection is closed last when clients hold too much memory.", "7.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|no-touch", 3, PLAIN, Group::Connection)
                .about("ON | OFF", "Has no effect: reading changes nothing.", "7.2.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|pause", -3, ADMIN, Group::Connection)
                .about("timeout [WRITE | ALL]", "Makes commands wait for so many milliseconds.", "3.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|reply", 3, PLAIN, Group::Connection)
                .about("ON | OFF | SKIP", "Which answers the client wants.", "3.2.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|setinfo", 4, PLAIN, Group::Connection)
                .about("LIB-NAME libname | LIB-VER libver", "Names the library that the client uses.", "7.2.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|setname", 3, PLAIN, Group::Connection)
                .about("connection-name", "Names the connection.", "2.6.9")
                .costs("O(1)", "O(1)"),
            Spec::new("client|tracking", -3, PLAIN, Group::Connection)
                .about("ON | OFF", "Notifies a client of keys that change: only OFF is accepted.", "6.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|trackinginfo", 2, PLAIN, Group::Connection)
                .about("", "Whether keys are tracked: they are not.", "6.2.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|unblock", -3, ADMIN, Group::Connection)
                .about("client-id [TIMEOUT | ERROR]", "Ends the waiting of a client in a command.", "5.0.0")
                .costs("O(1)", "O(1)"),
            Spec::new("client|unpause", 2, ADMIN, Group::Connection)
                .about("", "Ends CLIENT PAUSE.", "6.2.0")
                .costs("O(1)", "O(1)"),
        ]),
];
