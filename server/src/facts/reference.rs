//! The page of all commands, from the table: `docs/commands.md`.

use std::fmt::Write;

use super::redis;
use super::spec::{Flags, Group, Spec};
use super::table::all;

const HEAD: &str = "# Commands

This page is made from the table of commands; `UPDATE_DOCS=1 cargo test -p quipu-server --test all reference` writes it \
anew.

Quipu answers as Redis 7.0 does, in RESP2 and RESP3, but for what the modules under `server/src/command/` list under \
\"Differences from Redis\".
*n* is the number of keys or of elements, *k* of those that are given or answered; a row of a count, a rank or a \
position costs one descent, whatever lies between.

A key has 65,000 bytes at most, and a longer one is refused. Nothing is evicted: over `maxmemory` writes are refused, and \
`maxmemory-policy` takes `noeviction` alone; `notify-keyspace-events` takes nothing, as there are no channels.

There are no scripts: `EVAL`, `EVALSHA`, `SCRIPT` and `FUNCTION` are refused. Some libraries hide that from their callers: \
`incr` of django-redis falls back to a GET and a SET, which loses increments of others, and the unlock of redlock-py \
does nothing, so that its locks stay until they expire. Locks and rate limits of most libraries are scripts, too (`Lock` \
of redis-py, redlock, flask-limiter, rate-limiter-flexible): do not use them here. `INCR`, and `WATCH` with `MULTI`, do \
what most of these scripts do.

The ends of a range of keys, *min* and *max*, are written as for `ZRANGEBYLEX`: `[a` is from `a` on, or up to it and with \
it; `(a` is without it; `-` is before all keys, `+` after all. Keys sort as bytes. Those that begin with `order:` are \
`'[order:' '(order;'`, since `;` is the byte after `:`; a shell needs the quotes. *min* comes first with `REV`, too, which \
lists the same keys from the last to the first, and counts OFFSET and LIMIT from there. ZRANGE with REV takes the greater \
end first, as in Redis.

There are no hashes. For `HSET user:1 name ada age 36`, write a key for each field, `MSET user:1:name ada user:1:age 36`: \
`Q.RANGE '[user:1:' '(user:1;' WITHVALUES` is HGETALL, `Q.COUNT` of these ends HLEN, `Q.DELRANGE` removes all, and each \
field may expire by itself. Or keep one string, such as JSON, where fields are read and written together; or a table, \
which SQL asks by its columns ([sql.md](sql.md)).
";

/// Columns of a line at most, but for rows of tables.
const COLUMNS: usize = 120;

/// Families in the order of the page, and what each is called there.
const FAMILIES: [(Group, &str); 9] = [
    (Group::Ordered, "Ordered keys: what Redis lacks"),
    (Group::Generic, "Keys of any kind"),
    (Group::String, "Strings"),
    (Group::Bitmap, "Bits of strings"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Transactions, "Transactions"),
    (Group::Connection, "Connections"),
    (Group::Server, "The server"),
    (Group::Absent, ""),
];

/// The page.
pub fn markdown() -> String {
    let mut page = String::new();
    HEAD.split_inclusive('\n').for_each(|paragraph| wrap(&mut page, paragraph.trim_end(), ""));
    let mut served: Vec<&str> = all().filter(|spec| spec.flags.has(Flags::REPLICATED)).map(|spec| spec.name).collect();
    served.sort_unstable();
    let served = named(&served);
    page.push('\n');
    wrap(
        &mut page,
        &format!("Of the commands about keys, a node of a cluster serves {served} ([http.md](http.md))."),
        "",
    );
    // Writing to a string does not fail.
    for (group, title) in FAMILIES.iter().filter(|(group, _)| *group != Group::Absent) {
        let mut specs: Vec<&Spec> = all().filter(|spec| spec.group == *group).collect();
        specs.sort_by_key(|spec| spec.name);
        if specs.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## {title}\n\n| command | | cost | in Redis |\n|---|---|---|---|\n");
        for spec in specs {
            if spec.subcommands.is_empty() {
                line(&mut page, spec);
            }
            spec.subcommands.iter().for_each(|sub| line(&mut page, sub));
        }
    }
    let mut absent: Vec<&str> = all().filter(|spec| spec.group == Group::Absent).map(|spec| spec.name).collect();
    absent.extend(redis::absent().iter().map(|(name, _)| *name));
    absent.sort_unstable();
    absent.dedup();
    let _ = write!(page, "\n## Not here\n\nCommands of Redis 7 that are refused:\n\n");
    wrap(&mut page, &named(&absent), "");
    page
}

/// Names of commands in a row.
fn named(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.to_uppercase())).collect();
    names.join(", ")
}

/// Puts a paragraph on lines of at most 120 columns; those after the first begin with `indent`.
pub(crate) fn wrap(page: &mut String, paragraph: &str, indent: &str) {
    let mut column = 0;
    for word in paragraph.split(' ') {
        let width = word.chars().count();
        if column > 0 {
            let fits = column + 1 + width <= COLUMNS;
            page.push(if fits { ' ' } else { '\n' });
            page.push_str(if fits { "" } else { indent });
            column = if fits { column + 1 } else { indent.len() };
        }
        page.push_str(word);
        column += width;
    }
    page.push('\n');
}

fn line(page: &mut String, spec: &Spec) {
    // A bar would end a cell.
    let escape = |text: &str| text.replace('|', "\\|");
    let words = format!("{} {}", spec.name.replace('|', " ").to_uppercase(), spec.syntax);
    let redis = if spec.redis_cost.is_empty() { "not there" } else { spec.redis_cost };
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {} |",
        escape(words.trim_end()),
        escape(spec.summary),
        escape(spec.cost),
        escape(redis)
    );
}
