//! `\d` and its like: questions to the catalogue, which a database of this process and a server answer alike.

use super::backend::{Backend, Ended, ask, quoted};

/// Schemas of the system, which lists leave out.
const OWN_SCHEMAS: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";

/// The question for a list of relations of these kinds.
pub(super) fn relations(kinds: &str, pattern: Option<&str>) -> String {
    let kinds: Vec<String> = kinds.chars().map(|kind| quoted(&kind.to_string())).collect();
    let has_tables = if kinds.iter().any(|kind| kind == "'i'") { ", t.relname AS \"Table\"" } else { "" };
    let join = match has_tables {
        "" => "",
        _ => " LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid",
    };
    format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", CASE c.relkind WHEN 'r' THEN 'table' \
         WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' \
         WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' END AS \"Type\", pg_get_userbyid(c.relowner) AS \"Owner\"\
         {has_tables} FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace{join} \
         WHERE c.relkind IN ({}) AND {} ORDER BY 1, 2",
        kinds.join(", "),
        condition(pattern, "n.nspname", "c.relname")
    )
}

/// The question for the databases.
pub(super) const DATABASES: &str = "SELECT d.datname AS \"Name\", pg_get_userbyid(d.datdba) AS \"Owner\", \
     pg_encoding_to_char(d.encoding) AS \"Encoding\", d.datcollate AS \"Collate\", d.datctype AS \"Ctype\" \
     FROM pg_database d ORDER BY 1";

/// The question for the users.
pub(super) const ROLES: &str = "SELECT r.rolname AS \"Role name\", CASE WHEN r.rolsuper THEN 'Superuser' ELSE '' END \
     || CASE WHEN r.rolcanlogin THEN '' ELSE ' Cannot login' END AS \"Attributes\" FROM pg_roles r \
     WHERE r.rolname !~ '^pg_' ORDER BY 1";

/// The question for the schemas.
pub(super) const SCHEMAS: &str = "SELECT n.nspname AS \"Name\", pg_get_userbyid(n.nspowner) AS \"Owner\" \
     FROM pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1";

/// What a pattern of psql asks of a schema and a name: `*` is any text, `?` any character, a point ends the schema;
/// letters are small unless they stand in quotes.
fn condition(pattern: Option<&str>, schema: &str, name: &str) -> String {
    let Some(pattern) = pattern else { return OWN_SCHEMAS.to_owned() };
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for character in pattern.chars() {
        let Some(part) = parts.last_mut() else { continue };
        match character {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            '*' if !is_quoted => part.push_str(".*"),
            '?' if !is_quoted => part.push('.'),
            other if other.is_alphanumeric() || other == '_' => match is_quoted {
                true => part.push(other),
                false => part.push(other.to_ascii_lowercase()),
            },
            other => part.extend(['\\', other]),
        }
    }
    let matches = |column: &str, part: &str| format!("{column} ~ {}", quoted(&format!("^({part})$")));
    match parts.as_slice() {
        [own] => format!("{} AND pg_table_is_visible(c.oid)", matches(name, own)),
        [.., of, own] => format!("{} AND {}", matches(schema, of), matches(name, own)),
        [] => OWN_SCHEMAS.to_owned(),
    }
}

/// A relation that is described.
pub(super) struct Relation {
    oid: String,
    /// Its schema and name, as a heading has them.
    name: String,
    kind: String,
}

/// The relations that fit a pattern.
pub(super) fn find(backend: &mut dyn Backend, pattern: &str) -> Result<Vec<Relation>, Ended> {
    let text = format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE {} ORDER BY 2, 3",
        condition(Some(pattern), "n.nspname", "c.relname")
    );
    let relation = |row: Vec<String>| match <[String; 4]>::try_from(row) {
        Ok([oid, schema, name, kind]) => Some(Relation { oid, name: format!("{schema}.{name}"), kind }),
        Err(_) => None,
    };
    Ok(ask(backend, &text)?.into_iter().filter_map(relation).collect())
}

impl Relation {
    /// What it is, over its columns.
    pub(super) fn heading(&self) -> String {
        let kind = match self.kind.as_str() {
            "r" => "Table",
            "p" => "Partitioned table",
            "v" => "View",
            "m" => "Materialized view",
            "i" | "I" => "Index",
            "S" => "Sequence",
            _ => "Relation",
        };
        format!("{kind} \"{}\"", self.name)
    }

    /// The question for its columns.
    pub(super) fn columns(&self) -> String {
        let oid = &self.oid;
        match self.kind.as_str() {
            "S" => format!(
                "SELECT format_type(seqtypid, NULL) AS \"Type\", seqstart AS \"Start\", seqmin AS \"Minimum\", \
                 seqmax AS \"Maximum\", seqincrement AS \"Increment\", CASE WHEN seqcycle THEN 'yes' ELSE 'no' END \
                 AS \"Cycles?\", seqcache AS \"Cache\" FROM pg_sequence WHERE seqrelid = {oid}"
            ),
            "i" | "I" => format!(
                "SELECT a.attname AS \"Column\", format_type(a.atttypid, a.atttypmod) AS \"Type\", \
                 pg_get_indexdef(a.attrelid, a.attnum, true) AS \"Definition\" FROM pg_attribute a \
                 WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
            ),
            _ => format!(
                "SELECT a.attname AS \"Column\", format_type(a.atttypid, a.atttypmod) AS \"Type\", \
                 CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS \"Nullable\", CASE \
                 WHEN a.attidentity = 'a' THEN 'generated always as identity' \
                 WHEN a.attidentity = 'd' THEN 'generated by default as identity' \
                 WHEN a.attgenerated = 's' THEN 'generated always as (' \
                 || pg_get_expr(d.adbin, d.adrelid) || ') stored' \
                 ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), '') END AS \"Default\" \
                 FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                 WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
            ),
        }
    }

    /// What follows the columns: indexes, constraints, the text of a view.
    pub(super) fn footer(&self, backend: &mut dyn Backend, is_long: bool) -> Result<Vec<String>, Ended> {
        let oid = &self.oid;
        let mut lines = Vec::new();
        match self.kind.as_str() {
            "r" | "p" | "m" => {}
            "v" if is_long => {
                lines.push("View definition:".to_owned());
                let text = ask(backend, &format!("SELECT pg_get_viewdef({oid}::oid, true)"))?;
                lines.extend(text.into_iter().flatten().flat_map(|text| lines_of(&text)));
                return Ok(lines);
            }
            "i" | "I" => {
                let text = format!(
                    "SELECT CASE WHEN i.indisprimary THEN 'primary key, ' WHEN i.indisunique THEN 'unique, ' ELSE '' \
                     END \
                     || am.amname, t.relname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid \
                     JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam \
                     WHERE i.indexrelid = {oid}"
                );
                for row in ask(backend, &text)? {
                    lines.push(row.join(", for table "));
                }
                return Ok(lines);
            }
            _ => return Ok(lines),
        }
        let indexes = format!(
            "SELECT c.relname, CASE WHEN i.indisprimary THEN ' PRIMARY KEY,' WHEN k.contype = 'u' \
             THEN ' UNIQUE CONSTRAINT,' WHEN i.indisunique THEN ' UNIQUE,' ELSE '' END, \
             pg_get_indexdef(i.indexrelid, 0, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x') \
             WHERE i.indrelid = {oid} ORDER BY i.indisprimary DESC, c.relname"
        );
        let shown = |row: &[String]| {
            let definition = row[2].split_once(" USING ").map_or(row[2].as_str(), |(_, definition)| definition);
            format!("    \"{}\"{} {definition}", row[0], row[1])
        };
        push_part(&mut lines, "Indexes:", &ask(backend, &indexes)?, 3, shown);
        let own = |kind: char| {
            format!(
                "SELECT conname, pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conrelid = {oid} \
                 AND contype = '{kind}' ORDER BY 1"
            )
        };
        let shown = |row: &[String]| format!("    \"{}\" {}", row[0], row[1]);
        push_part(&mut lines, "Check constraints:", &ask(backend, &own('c'))?, 2, shown);
        push_part(&mut lines, "Foreign-key constraints:", &ask(backend, &own('f'))?, 2, shown);
        let others = format!(
            "SELECT c.relname, k.conname, pg_get_constraintdef(k.oid, true) FROM pg_constraint k \
             JOIN pg_class c ON c.oid = k.conrelid WHERE k.confrelid = {oid} AND k.contype = 'f' ORDER BY 1, 2"
        );
        let shown = |row: &[String]| format!("    TABLE \"{}\" CONSTRAINT \"{}\" {}", row[0], row[1], row[2]);
        push_part(&mut lines, "Referenced by:", &ask(backend, &others)?, 3, shown);
        Ok(lines)
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Adds a heading with a line for each row, if there are any.
fn push_part(
    lines: &mut Vec<String>,
    heading: &str,
    rows: &[Vec<String>],
    width: usize,
    shown: impl Fn(&[String]) -> String,
) {
    let mut rows = rows.iter().filter(|row| row.len() == width).peekable();
    if rows.peek().is_some() {
        lines.push(heading.to_owned());
        lines.extend(rows.map(|row| shown(row)));
    }
}
