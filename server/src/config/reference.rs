//! The reference of parameters: the page `docs/configuration.md`, and an example of the file.

use std::fmt::Write;

use super::parameters::{self, Parameter, When};
use super::served::{GROUPS, Served};
use crate::facts::reference::wrap;

const HEAD: &str = "# Configuration

This page is made from the table of parameters; `UPDATE_DOCS=1 cargo test -p quipu-server --test all reference` writes it \
anew.

A parameter has the same name in four places; a later place overrides an earlier one:

1. the defaults;
2. the file of `--config FILE`, which is TOML: `port = 6379`, `durability = \"os\"`. \
[quipu.toml](quipu.toml) has all parameters with their defaults, as comments. A table `[users]` has names of users and \
their rules, as `ACL SETUSER` takes them: `reader = \"on >secret ~public:* +@read\"`;
3. the environment, in capitals with a prefix: `QUIPU_HTTP_PORT=8000`;
4. the command line: `quipu serve --http-port 8000`.

`CONFIG GET PATTERN` tells the values of a running server. `CONFIG SET` changes those that are marked \"any time\" below, \
and `CONFIG REWRITE` writes what was changed into the file. Every other parameter of Redis 7.0 is accepted and \
remembered, so that programs that set it go on, and does nothing; the log names those that were given at the start.

Bytes may have a unit: `1kb` is 1024 bytes, `1k` is 1000.
";

/// What is told of the default, where the help does not say it; `None`: nothing.
pub fn default_of(served: &Served) -> Option<String> {
    let parameter = parameters::named(served.name)?;
    let is_told = served.help.contains("[default: ");
    Some(parameter.kind.show(parameter.default)).filter(|default| !is_told && !default.is_empty())
}

/// Whether a value of this parameter may begin with a minus sign.
pub fn may_be_negative(served: &Served) -> bool {
    parameters::named(served.name).is_some_and(|parameter| parameter.kind.may_be_negative())
}

/// The page.
pub fn markdown() -> String {
    let mut page = String::new();
    for paragraph in HEAD.split_inclusive('\n') {
        let is_item = paragraph.starts_with(|first: char| first.is_ascii_digit());
        wrap(&mut page, paragraph.trim_end(), if is_item { "   " } else { "" });
    }
    for group in GROUPS {
        let _ =
            write!(page, "\n## {}\n\n| parameter | value | default | when | |\n|---|---|---|---|---|\n", group.title);
        for served in group.parameters {
            let Some(parameter) = parameters::named(served.name) else { continue };
            let (help, default) = match served.help.split_once(" [default: ") {
                Some((help, default)) => (help, default.trim_end_matches(']').to_owned()),
                None => (served.help, parameter.kind.show(parameter.default)),
            };
            let when = match parameter.when {
                When::Any => "any time",
                When::Start | When::Protected => "start",
            };
            let kind = parameter.kind.describe();
            let _ = writeln!(page, "| `{}` | {kind} | {default} | {when} | {help} |", served.name);
        }
    }
    page
}

/// A file for `--config` in which all parameters stand as comments, with their defaults.
pub fn example() -> String {
    let mut file = String::from("# Parameters of `quipu serve --config quipu.toml`, each with its default.\n");
    file.push_str("# docs/configuration.md says more. Take the sign `#` away before what you change.\n");
    for group in GROUPS {
        let _ = write!(file, "\n# --- {}\n", group.title);
        for served in group.parameters {
            let Some(parameter) = parameters::named(served.name) else { continue };
            file.push('\n');
            wrap(&mut file, &format!("# {}", served.help), "# ");
            let _ = writeln!(file, "# {} = {}", served.name, value(parameter));
        }
    }
    file.push_str("\n# --- Users: a name, and rules as `ACL SETUSER` takes them\n\n# [users]\n");
    file.push_str("# reader = \"on >secret ~public:* +@read\"\n");
    file
}

/// The default as TOML.
fn value(parameter: &Parameter) -> String {
    let shown = parameter.kind.show(parameter.default);
    match shown.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("{shown:?}"),
    }
}
