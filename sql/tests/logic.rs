//! Goal: statements answer as PostgreSQL 15 does. Method: files of statements and answers, in `tests/logic`; the
//! answers are those that PostgreSQL gave. Each file is run as simple queries and as prepared statements, over a
//! database of its own.

use std::path::Path;

use quipu_sql::{SqlDatabase, SqlError};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use crate::sessions::{Client, database};

/// A client as the runner asks it.
struct Asked {
    client: Client,
    is_prepared: bool,
}

fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => text,
    }
}

impl DB for Asked {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let answer = self.client.send(sql, self.is_prepared).recv().expect("an answer")?;
        Ok(match answer.columns {
            Some(columns) => DBOutput::Rows {
                types: vec![DefaultColumnType::Text; columns],
                rows: answer.rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect(),
            },
            None => {
                let count = answer.tag.rsplit(' ').next().and_then(|count| count.parse().ok());
                DBOutput::StatementComplete(count.unwrap_or(0))
            }
        })
    }

    fn engine_name(&self) -> &str {
        "quipu"
    }

    fn error_sql_state(error: &SqlError) -> Option<String> {
        Some(error.state().code().to_owned())
    }
}

fn run_file(path: &Path, database: &SqlDatabase, is_prepared: bool) {
    let connect = || Asked { client: Client::new(database, "anna"), is_prepared };
    let mut runner = Runner::new(|| async { Ok(connect()) });
    let records = sqllogictest::parse_file(path).expect("a file of statements");
    // All that differs is told, not the first of it alone.
    let failed: Vec<String> =
        records.into_iter().filter_map(|record| runner.run(record).err()).map(|error| error.to_string()).collect();
    let how = if is_prepared { "prepared" } else { "simple" };
    assert!(failed.is_empty(), "{} ({how}): {}", path.display(), failed.join("\n"));
}

#[test]
fn statements_answer_as_those_of_postgresql() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let mut files = 0;
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        for is_prepared in [false, true] {
            run_file(&path, &database(), is_prepared);
        }
        files += 1;
    }
    assert!(files >= 3, "{files} files");
}
