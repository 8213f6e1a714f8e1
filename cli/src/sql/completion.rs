//! Completion by Tab: keywords, tables, columns, functions, commands of the shell.

use super::backend::{Backend, Ended, ask};
use super::commands::COMMANDS;

/// The most names of a kind that are kept.
const NAMES_MAX: usize = 20_000;

const KEYWORDS: [&str; 124] = [
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTEA",
    "CASCADE",
    "CASE",
    "CAST",
    "CHECK",
    "CLOSE",
    "COLUMN",
    "COMMENT",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DECLARE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DO",
    "DOUBLE PRECISION",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FETCH",
    "FILTER",
    "FIRST",
    "FOR",
    "FOREIGN KEY",
    "FROM",
    "FULL",
    "GROUP BY",
    "HAVING",
    "IF EXISTS",
    "IF NOT EXISTS",
    "ILIKE",
    "IN",
    "INDEX",
    "INNER",
    "INSERT INTO",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "JSONB",
    "KEY",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NOTHING",
    "NOWAIT",
    "NULL",
    "NULLS",
    "NUMERIC",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OUTER",
    "OVER",
    "PARTITION BY",
    "PREPARE",
    "PRIMARY KEY",
    "RECURSIVE",
    "REFERENCES",
    "RELEASE",
    "RENAME",
    "RESET",
    "RETURNING",
    "RIGHT",
    "ROLLBACK",
    "SAVEPOINT",
    "SCHEMA",
    "SELECT",
    "SEQUENCE",
    "SET",
    "SHOW",
    "SKIP LOCKED",
    "TABLE",
    "TABLESAMPLE",
    "TEXT",
    "THEN",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "UUID",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Words after which a table stands.
const BEFORE_TABLES: [&str; 7] = ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "COPY", "TRUNCATE"];

/// The names that the catalogue has.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Tables, views and sequences.
    relations: Vec<String>,
    /// Columns, each with its table.
    columns: Vec<(String, String)>,
    functions: Vec<String>,
}

impl Names {
    /// Asks the catalogue.
    pub(super) fn read(backend: &mut dyn Backend) -> Result<Names, Ended> {
        let own = "n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";
        let relations = format!(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND {own} ORDER BY 1 LIMIT {NAMES_MAX}"
        );
        let columns = format!(
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind IN ('r', 'p', 'v', 'm') AND {own} \
             AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2 LIMIT {NAMES_MAX}"
        );
        let functions = format!("SELECT DISTINCT proname FROM pg_proc ORDER BY 1 LIMIT {NAMES_MAX}");
        let mut pairs = |text: &str| -> Result<Vec<(String, String)>, Ended> {
            let pair = |row: Vec<String>| {
                let mut row = row.into_iter();
                (row.next().unwrap_or_default(), row.next().unwrap_or_default())
            };
            Ok(ask(backend, text)?.into_iter().map(pair).collect())
        };
        Ok(Names {
            relations: pairs(&relations)?.into_iter().map(|(name, _)| name).collect(),
            columns: pairs(&columns)?,
            functions: pairs(&functions)?.into_iter().map(|(name, _)| name).collect(),
        })
    }
}

/// Where the last word of `line` begins, and what it may become.
pub(super) fn candidates(line: &str, names: &Names) -> (usize, Vec<String>) {
    let word_begin = |character: char| !(character.is_alphanumeric() || matches!(character, '_' | '"' | '\\' | '$'));
    let start = line.rfind(word_begin).map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
    let (before, word) = line.split_at(start);
    let fits = |name: &str| name.to_lowercase().starts_with(&word.to_lowercase());
    let named = |name: &str| fits(name).then(|| as_written(name));
    let mut found: Vec<String> = if word.starts_with('\\') {
        COMMANDS.iter().filter(|(name, ..)| name.starts_with(word)).map(|(name, ..)| format!("{name} ")).collect()
    } else if let Some(qualified) = before.strip_suffix('.') {
        let table = qualified.rsplit(word_begin).next().unwrap_or_default().trim_matches('"');
        // An alias may stand for any table.
        let is_table = names.relations.iter().any(|name| name == table);
        let columns = names.columns.iter().filter(|(of, _)| !is_table || of == table);
        columns.filter_map(|(_, name)| named(name)).collect()
    } else {
        let last = before.split_whitespace().next_back().unwrap_or_default().to_uppercase();
        let relations = names.relations.iter().filter_map(|name| named(name));
        if last.starts_with('\\') || BEFORE_TABLES.contains(&last.as_str()) {
            relations.map(|name| name + " ").collect()
        } else if word.is_empty() {
            Vec::new()
        } else {
            let is_lower = word.starts_with(char::is_lowercase);
            let keyword = |name: &&str| if is_lower { name.to_lowercase() } else { (*name).to_owned() } + " ";
            let columns = names.columns.iter().filter_map(|(_, name)| named(name));
            let functions = names.functions.iter().filter(|name| fits(name)).map(|name| format!("{name}("));
            let keywords = KEYWORDS.iter().filter(|name| fits(name)).map(keyword);
            keywords.chain(columns).chain(relations).chain(functions).collect()
        }
    };
    found.sort_unstable();
    found.dedup();
    (start, found)
}

/// A name in quotes if it needs them.
fn as_written(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_their_place() {
        let names = Names {
            relations: vec!["planes".to_owned(), "Pilots".to_owned()],
            columns: vec![("planes".to_owned(), "seats".to_owned()), ("Pilots".to_owned(), "salary".to_owned())],
            functions: vec!["sum".to_owned(), "setval".to_owned()],
        };
        let complete = |line| {
            let (start, found) = candidates(line, &names);
            (start, found.join("|"))
        };
        assert_eq!(complete("sel"), (0, "select ".to_owned()));
        assert_eq!(complete("SEL"), (0, "SELECT ".to_owned()));
        assert_eq!(complete("SELECT * FROM p"), (14, "\"Pilots\" |planes ".to_owned()));
        assert_eq!(complete("SELECT se"), (7, "seats|select |sequence |set |setval(".to_owned()));
        assert_eq!(complete("SELECT planes."), (14, "seats".to_owned()));
        assert_eq!(complete("SELECT p.s"), (9, "salary|seats".to_owned()));
        assert_eq!(complete("SELECT count(se"), (13, "seats|select |sequence |set |setval(".to_owned()));
        assert_eq!(complete("\\ti"), (0, "\\timing ".to_owned()));
        assert_eq!(complete("\\d pl"), (3, "planes ".to_owned()));
        assert_eq!(complete(""), (0, String::new()));
    }
}
