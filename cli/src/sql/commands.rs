//! The list of the shell's own commands, for help and completion.

/// Every command: its name, its arguments, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 25] = [
    ("\\?", "", "this list"),
    ("\\q", "", "ends the shell; so does Ctrl-D"),
    ("\\d", "[NAME]", "tables, views and sequences; or a table with its columns, indexes and constraints"),
    ("\\d+", "[NAME]", "the same, with the text of a view"),
    ("\\dt", "[PATTERN]", "tables"),
    ("\\di", "[PATTERN]", "indexes"),
    ("\\dv", "[PATTERN]", "views"),
    ("\\dm", "[PATTERN]", "materialized views"),
    ("\\ds", "[PATTERN]", "sequences"),
    ("\\dn", "", "schemas"),
    ("\\du", "", "users"),
    ("\\l", "", "databases"),
    ("\\x", "[on|off]", "a value a line"),
    ("\\timing", "[on|off]", "shows how long statements take"),
    ("\\g", "", "runs the statement that stands before it, or the last one again"),
    ("\\gx", "", "the same, a value a line"),
    ("\\i", "FILE", "runs the statements of a file"),
    (
        "\\copy",
        "TABLE|(QUERY) from|to FILE",
        "COPY with a file of this machine, compressed if it ends in .gz or .zst; options follow",
    ),
    ("\\e", "[FILE]", "writes the statement in EDITOR"),
    ("\\p", "", "shows the statement so far"),
    ("\\r", "", "forgets the statement so far"),
    ("\\echo", "TEXT", "prints a text"),
    ("\\conninfo", "", "what the shell speaks to"),
    ("\\!", "COMMAND", "runs a command of the system"),
    ("\\quit", "", "as \\q"),
];
