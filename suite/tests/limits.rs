//! Goal: the figures of `docs/limits.md` are those of the code. Method: each row of its tables names the constants that
//! it tells, whose values are read from the sources, or the parameters, whose defaults are read from
//! `docs/configuration.md`, which is made from the code. Rows without either are listed.

use std::collections::BTreeSet;

use crate::house::root;

/// Rows that tell a constant, a field of defaults or a parameter: the row, the file, and the name there.
const TOLD: &[(&str, &str, &str)] = &[
    ("a key, in the library", "engine/src/options.rs", "key_bytes_max"),
    ("a value, in the library", "engine/src/options.rs", "value_bytes_max"),
    ("the name of a table", "engine/src/write/create_table.rs", "NAME_BYTES_MAX"),
    ("metadata of a table", "engine/src/write/create_table.rs", "METADATA_BYTES_MAX"),
    ("tables in the life of a database", "engine/src/write/create_table.rs", "TABLES_MAX"),
    ("keys and values of one transaction", "engine/src/options.rs", "transaction_bytes_max"),
    ("what one optimistic transaction reads of a table", "engine/src/read/observation.rs", "OBSERVATIONS_MAX"),
    ("columns of a table", "rows/src/definition/table.rs", "COLUMNS_MAX"),
    ("changes of columns in the life of a table", "rows/src/encoding/layout.rs", "WIDE"),
    ("names of tables, columns, indexes and constraints", "rows/src/schema/mod.rs", "NAME_BYTES_MAX"),
    ("digits of a `decimal`", "rows/src/value/decimal.rs", "DIGITS_MAX"),
    ("digits of a `numeric`", "rows/src/value/number.rs", "WHOLE_DIGITS_MAX"),
    ("digits of a `numeric`", "rows/src/value/number.rs", "FRACTION_DIGITS_MAX"),
    ("digits of a `numeric`", "sql/src/numeric/mod.rs", "WHOLE_DIGITS_MAX"),
    ("digits of a `numeric`", "sql/src/numeric/mod.rs", "SCALE_MAX"),
    ("the text of a condition or an expression of rows", "rows/src/expression/parse.rs", "TEXT_BYTES_MAX"),
    ("the text of a condition or an expression of rows", "rows/src/expression/node.rs", "DEPTH_MAX"),
    ("rows of other tables that one load refers to", "rows/src/change/load.rs", "REFERRED_MAX"),
    ("rows not yet on disk", "engine/src/options.rs", "memtable_bytes"),
    ("rows not yet on disk", "docs/configuration.md", "memtable-bytes"),
    ("cached pages of rows on disk", "engine/src/options.rs", "cache_bytes"),
    ("cached pages of rows on disk", "docs/configuration.md", "cache-bytes"),
    ("all pages and long values in memory", "engine/src/options.rs", "memory_bytes"),
    ("the log since the last checkpoint", "engine/src/options.rs", "checkpoint_log_bytes"),
    ("the text of statements that are sent together", "sql/src/statement.rs", "TEXT_MAX"),
    (
        "operators in a row, such as `1 + 1 + 1`; queries in a row of UNION, INTERSECT and EXCEPT",
        "sql/src/depth.rs",
        "OPERATORS_MAX",
    ),
    (
        "operators in a row, such as `1 + 1 + 1`; queries in a row of UNION, INTERSECT and EXCEPT",
        "sql/src/depth.rs",
        "QUERIES_MAX",
    ),
    ("conditions in a row of AND or OR", "sql/src/depth.rs", "CONDITIONS_MAX"),
    ("conditions in a row of AND or OR", "sql/src/depth.rs", "WRITTEN_CONDITIONS_MAX"),
    ("nesting in the text", "sql/src/dialect.rs", "DEPTH_MAX"),
    ("nesting of queries and expressions", "sql/src/bind/mod.rs", "DEPTH_MAX"),
    ("parameters of a statement", "sql/src/bind/parameters.rs", "PARAMETERS_MAX"),
    ("memory of a statement for sorts, groups, joins and aggregates", "sql/src/limits.rs", "memory"),
    ("grouping sets of a query", "sql/src/bind/groups.rs", "SETS_MAX"),
    ("elements of arrays that one SET sets", "sql/src/known_words/elements.rs", "ELEMENTS_MAX"),
    ("names that are made of others, as of constraints", "sql/src/ddl/names.rs", "MADE_BYTES_MAX"),
    ("values of the type `name`", "sql/src/types/text.rs", "NAME_BYTES_MAX"),
    ("labels of an enum", "sql/src/ddl/types.rs", "LABEL_BYTES_MAX"),
    ("attributes of a composite type", "sql/src/ddl/composite.rs", "ATTRIBUTES_MAX"),
    ("elements of an array", "sql/src/functions/subscripts.rs", "ELEMENTS_MAX"),
    ("dimensions of an array", "sql/src/types/datum.rs", "DIMENSIONS_MAX"),
    ("characters of `char(n)` and `varchar(n)`", "sql/src/bind/types.rs", "LENGTH_MAX"),
    ("bits of `bit(n)` and `bit varying(n)`", "sql/src/types/bits.rs", "LENGTH_MAX"),
    ("a text that a function makes", "sql/src/types/text.rs", "BYTES_MAX"),
    ("levels of a `jsonb` value", "sql/src/types/json.rs", "DEPTH_MAX"),
    ("zeros for which exponents in a `jsonb` value stand", "sql/src/types/json.rs", "ZEROS_MAX"),
    ("a `jsonpath`", "sql/src/functions/json_path_text.rs", "LENGTH_MAX"),
    ("a `jsonpath`", "sql/src/functions/json_path_text.rs", "DEPTH_MAX"),
    ("items that a step of a `jsonpath` finds", "sql/src/functions/json_paths.rs", "ITEMS_MAX"),
    ("a row of COPY", "sql/src/session/copy.rs", "ROW_BYTES_MAX"),
    ("parts of `quipu_split`, rows of `quipu_sample`", "sql/src/catalogue/system/positions.rs", "COUNT_MAX"),
    ("snapshots with a name, exported or kept", "sql/src/session/snapshots.rs", "SNAPSHOTS_MAX"),
    ("how long a snapshot with a name is kept", "sql/src/session/snapshots.rs", "KEPT_MAX"),
    ("the name of a channel", "sql/src/notifications.rs", "CHANNEL_BYTES_END"),
    ("the payload of a notification", "sql/src/notifications.rs", "PAYLOAD_BYTES_END"),
    (
        "notifications of one transaction, and those that wait for connections which take none",
        "sql/src/notifications.rs",
        "WAITING_BYTES_MAX",
    ),
    ("clients of Redis and PostgreSQL together", "docs/configuration.md", "maxclients"),
    ("memory of all clients together", "docs/configuration.md", "maxmemory-clients"),
    ("memory of all clients together", "server/src/state/clients.rs", "HELD_BYTES_MAX"),
    ("passwords of a user that SCRAM-SHA-256 can prove", "server/src/users/rules.rs", "VERIFIERS_MAX"),
    ("sessions, each with a thread", "docs/configuration.md", "pg-connections-max"),
    ("connections that have no session yet", "server/src/postgres/mod.rs", "SPARE_CONNECTIONS"),
    ("a message", "docs/configuration.md", "pg-message-bytes-max"),
    ("the first message of a connection", "server/src/postgres/messages.rs", "STARTUP_BYTES_MAX"),
    ("a password", "server/src/postgres/login.rs", "PASSWORD_BYTES_MAX"),
    ("a login", "server/src/postgres/login.rs", "LOGIN_MAX"),
    ("rows that are not sent yet", "server/src/postgres/buffers.rs", "FULL_BYTES"),
    ("a client of PostgreSQL that takes nothing of what waits for it", "server/src/postgres/stream.rs", "QUIET_MAX"),
    ("a key, of the server", "server/src/keyspace/tables.rs", "KEY_BYTES_MAX"),
    ("a string", "docs/configuration.md", "proto-max-bulk-len"),
    ("a string", "server/src/command/string_ranges.rs", "STRING_BYTES_MAX"),
    (
        "words of a command before the client has proved who it is",
        "server/src/resp/parse.rs",
        "UNAUTHENTICATED_ARGUMENTS_MAX",
    ),
    (
        "words of a command before the client has proved who it is",
        "server/src/resp/parse.rs",
        "UNAUTHENTICATED_BULK_BYTES_MAX",
    ),
    ("a command without lengths, typed as a line", "server/src/resp/parse.rs", "inline_bytes_max"),
    ("commands that have come, or are queued by MULTI, and wait", "docs/configuration.md", "client-query-buffer-limit"),
    ("answers that are not sent yet", "server/src/net/connection.rs", "BACKLOG_BYTES_MAX"),
    ("an answer that is put together step by step", "server/src/net/long.rs", "BACKLOG_BYTES"),
    ("a client that takes nothing of such an answer", "server/src/net/worker.rs", "STALL_S"),
    ("what a MONITOR has not taken", "server/src/state/clients.rs", "MAILBOX_BYTES_MAX"),
    ("databases (`SELECT`)", "server/src/keyspace/tables.rs", "DATABASES"),
    ("ranges that a client watches (`Q.WATCH`)", "server/src/command/transactions.rs", "RANGES_MAX"),
    ("keys of `Q.SAMPLE`, `Q.SPLIT` and `Q.QUANTILE`", "server/src/command/positions.rs", "ANSWERS_MAX"),
    ("members of `ZRANDMEMBER` that may come twice", "server/src/command/sorted_sets.rs", "DRAWN_MAX"),
    ("snapshots (`Q.SNAPSHOT`) of all clients", "server/src/state/snapshots.rs", "SNAPSHOTS_MAX"),
    ("how long a snapshot (`Q.SNAPSHOT`) is kept", "server/src/command/snapshots.rs", "SECONDS_USUAL"),
    ("how long a snapshot (`Q.SNAPSHOT`) is kept", "server/src/command/snapshots.rs", "SECONDS_MAX"),
    ("cursors of `SCAN` that are remembered, of all clients", "server/src/keyspace/scan.rs", "PLACES_MAX"),
    ("cursors of `SCAN` that are remembered, of all clients", "server/src/keyspace/scan.rs", "BYTES_MAX"),
    ("readings of `ZSCAN` that are remembered, of all clients", "server/src/keyspace/set_scan.rs", "WINDOWS_MAX"),
    ("readings of `ZSCAN` that are remembered, of all clients", "server/src/keyspace/set_scan.rs", "WINDOW_BYTES_MAX"),
    ("readings of `ZSCAN` that are remembered, of all clients", "server/src/keyspace/set_scan.rs", "IDLE_MS_MAX"),
    ("a key over HTTP", "server/src/keyspace/tables.rs", "KEY_BYTES_MAX"),
    ("a value over HTTP", "server/src/http/limits.rs", "value_bytes_max"),
    ("the head of a request", "server/src/http/mod.rs", "CONNECTION_BUFFER_BYTES"),
    ("writes at once", "server/src/http/limits.rs", "requests_max"),
    ("ranges, and long values, being sent at once", "server/src/http/limits.rs", "streams_max"),
    ("ranges, and long values, being sent at once", "server/src/http/entity.rs", "LONG_VALUE_BYTES"),
    ("bytes of long bodies at once", "server/src/http/limits.rs", "flight_bytes_max"),
    ("bytes of long bodies at once", "server/src/http/body.rs", "SMALL_BODY_BYTES"),
    ("connections at once", "server/src/http/limits.rs", "connections_max"),
    (
        "connections at `--peer-port` whose nodes have not proved their identity",
        "server/src/http/limits.rs",
        "peer_connections_max",
    ),
    ("a client that neither finishes a request nor takes any of an answer", "server/src/http/limits.rs", "quiet_max"),
    ("replicas of an entity (`--replicas`, `from`)", "cluster/src/placement.rs", "FROM_MAX"),
    ("nodes that vote on who is a member", "agreement/src/lib.rs", "VOTERS_MAX"),
    ("how long replicas are waited for", "docs/configuration.md", "cluster-request-timeout-ms"),
    ("how long replicas are waited for", "cluster/src/limits.rs", "bytes_a_ms"),
    ("clocks of nodes", "cluster/src/limits.rs", "ahead_ms_max"),
    ("tombstones", "docs/configuration.md", "cluster-grace-s"),
    ("writes that are kept for a node that missed them", "docs/configuration.md", "cluster-hint-bytes"),
    ("how long such a write is kept", "docs/configuration.md", "cluster-hint-age-s"),
    ("the name of a zone", "server/src/http/members.rs", "ZONE_BYTES_MAX"),
];

/// Rows whose figures stand in no constant: they follow from a format or from how something works, or are a default of
/// no limit.
const WITHOUT_A_CONSTANT: &[&str] = &[
    "temporary files of a session",
    "pages in memory",
    "the sum of a number over a range",
    "columns of a key",
    "the sum of a column",
    "dates and timestamps in Python",
    "a full disk",
    "processes that have a database open to write",
    "processes that read",
    "writers at a time",
    "labels of an enum, each added beside the one before, between two others",
    "digits of `numeric(p, s)`",
    "a client that sends nothing",
    "a client that sends nothing between two statements",
    "a client that is gone without a word",
    "a command, while it runs",
    "an answer, whole",
    "the target of a request, percent signs included",
    "what can be replicated",
];

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A count, a number of bytes, or milliseconds.
fn unit(word: &str) -> u64 {
    match word {
        "KiB" | "kb" => 1 << 10,
        "MiB" | "mb" => 1 << 20,
        "GiB" | "gb" => 1 << 30,
        "s" | "second" | "seconds" => 1_000,
        "minute" | "minutes" => 60_000,
        "hours" => 3_600_000,
        "day" => 86_400_000,
        "million" => 1_000_000,
        _ => 1,
    }
}

/// The figures that a cell tells: `64 KiB`, `65,535`, `2^20`, `a minute`.
fn figures(cell: &str) -> BTreeSet<u64> {
    let words: Vec<&str> =
        cell.split_whitespace().map(|word| word.trim_matches([',', ';', '(', ')', '`', ':'])).collect();
    let figure = |at: usize| {
        let word = words[at].replace(',', "");
        let times = words.get(at + 1).map_or(1, |next| unit(next));
        match word.split_once('^') {
            Some((base, power)) => base.parse::<u64>().ok()?.checked_pow(power.parse().ok()?),
            None if matches!(&*word, "a" | "an") && times > 1 => Some(times),
            None => word.parse::<u64>().ok().map(|number| number * times),
        }
    };
    (0..words.len()).filter_map(figure).collect()
}

/// The value of an expression such as `(1 << 23) - 1`, and what follows it: sums before shifts, as in Rust.
fn value(text: &str) -> Option<(u64, &str)> {
    fn factor(text: &str) -> Option<(u64, &str)> {
        let text = text.trim_start();
        if let Some(rest) = text.strip_prefix("Duration::from_secs(") {
            let (seconds, rest) = value(rest)?;
            return Some((seconds * 1_000, rest.trim_start().strip_prefix(')')?));
        }
        if let Some(rest) = text.strip_prefix('(') {
            let (inner, rest) = value(rest)?;
            return Some((inner, rest.trim_start().strip_prefix(')')?));
        }
        let end = text.find(|char: char| !char.is_ascii_digit() && char != '_').unwrap_or(text.len());
        Some((text[..end].replace('_', "").parse().ok()?, &text[end..]))
    }
    let (mut shifted, mut rest) = (None, text);
    loop {
        let (mut sum, mut sign) = (0_u64, '+');
        loop {
            let (mut product, mut after) = factor(rest)?;
            while let Some(next) = after.trim_start().strip_prefix('*') {
                let (by, following) = factor(next)?;
                (product, after) = (product * by, following);
            }
            sum = if sign == '+' { sum + product } else { sum - product };
            rest = after.trim_start();
            sign = rest.chars().next().filter(|char| matches!(char, '+' | '-')).unwrap_or(' ');
            if sign == ' ' {
                break;
            }
            rest = &rest[1..];
        }
        let total = shifted.map_or(sum, |left: u64| left << sum);
        match rest.strip_prefix("<<") {
            Some(next) => (shifted, rest) = (Some(total), next),
            None => return Some((total, rest)),
        }
    }
}

/// The value of a constant or of a field's default in a source, or the default of a parameter in the page of all.
/// Times are in milliseconds.
fn known(file: &str, name: &str) -> Option<u64> {
    let text = read(file);
    let number = if file.ends_with(".md") {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")))?;
        let default = row.split('|').nth(3)?.trim();
        let end = default.find(|char: char| !char.is_ascii_digit()).unwrap_or(default.len());
        default[..end].parse::<u64>().ok()? * unit(&default[end..])
    } else {
        let (constant, field) = (format!("const {name}: "), format!("{name}: "));
        let written = text.lines().map(str::trim_start).find_map(|line| match line.split_once(&constant) {
            Some((_, rest)) => rest.split_once("= ").map(|(_, written)| written),
            None => {
                let at = line.find(&field).filter(|at| *at == 0 || line[..*at].ends_with(' '))?;
                Some(&line[at + field.len()..]).filter(|written| value(written).is_some())
            }
        });
        value(written?)?.0
    };
    let lower = name.to_lowercase();
    let is_in_seconds = lower.ends_with("_s") || lower.ends_with("-s") || lower.starts_with("seconds");
    Some(if is_in_seconds { number * 1_000 } else { number })
}

/// The rows of the tables of a page: their first cells, and their second ones.
fn rows(page: &str) -> Vec<(String, String)> {
    let cells = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    };
    page.lines().filter_map(cells).filter(|(of, _)| of != "of").collect()
}

#[test]
fn figures_are_those_of_the_code() {
    let page = read("docs/limits.md");
    let rows = rows(&page);
    let mut wrong = Vec::new();
    for (row, file, name) in TOLD {
        let Some((_, cell)) = rows.iter().find(|(of, _)| of == row) else {
            wrong.push(format!("no row of docs/limits.md is of “{row}”"));
            continue;
        };
        match known(file, name) {
            Some(value) if figures(cell).contains(&value) => {}
            Some(value) => wrong.push(format!("{row}: the page says {cell}, but {name} of {file} is {value}")),
            None => wrong.push(format!("{row}: {file} has no {name} whose value can be read")),
        }
    }
    assert!(wrong.is_empty(), "docs/limits.md is not what the code is: {wrong:#?}");
}

#[test]
fn every_row_is_compared() {
    let rows: Vec<String> = rows(&read("docs/limits.md")).into_iter().map(|(of, _)| of).collect();
    assert!(rows.len() > 80, "the rows are found: {rows:?}");
    let told: BTreeSet<&str> = TOLD.iter().map(|(row, ..)| *row).chain(WITHOUT_A_CONSTANT.iter().copied()).collect();
    let lost: Vec<&String> = rows.iter().filter(|of| !told.contains(of.as_str())).collect();
    assert!(lost.is_empty(), "name the constants of these rows in suite/tests/limits.rs: {lost:#?}");
    let gone: Vec<&&str> = told.iter().filter(|of| !rows.iter().any(|row| row == **of)).collect();
    assert!(gone.is_empty(), "docs/limits.md has no such rows: {gone:#?}");
    let once: BTreeSet<&String> = rows.iter().collect();
    assert_eq!(once.len(), rows.len(), "two rows of docs/limits.md have the same name");
}

#[test]
fn figures_and_expressions_are_read() {
    assert_eq!(figures("64 KiB (`Options::key_bytes_max`)"), [64 << 10].into());
    assert_eq!(figures("a minute if nothing is said, a day at most"), [60_000, 86_400_000].into());
    assert_eq!(figures("2^20"), [1 << 20].into());
    assert_eq!(figures("65,536, with keys of 16 MiB"), [1 << 16, 16 << 20].into());
    for (text, expected) in [("(1 << 23) - 1;", (1 << 23) - 1), ("24 * 3_600;", 86_400), ("1 << 2 + 1,", 8)] {
        assert_eq!(value(text).map(|(value, _)| value), Some(expected), "{text}");
    }
    assert_eq!(value("Duration::from_secs(24 * 3_600);").map(|(value, _)| value), Some(86_400_000));
    assert_eq!(value("usize,"), None);
}
