//! Goal: statements answer as PostgreSQL 15 does. Method: files of statements and answers, in `tests/logic`; the answers
//! are those that PostgreSQL gave. Each file is run as simple queries and as prepared statements, over a database of its
//! own.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use quipu_sql::{Progress, Session, SqlDatabase, SqlError};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use crate::sessions::{Rows, database};

/// A session as the runner asks it.
struct Asked {
    /// The runner shares it between threads, as far as the compiler knows.
    session: Mutex<Session>,
    is_prepared: bool,
}

impl Asked {
    fn ask(session: &mut Session, is_prepared: bool, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let statements = session.parse(sql)?;
        let is_alone = statements.len() == 1;
        let mut output = DBOutput::StatementComplete(0);
        for statement in statements {
            let prepared = match is_prepared && is_alone {
                true => session.prepare(&statement.text, &[])?,
                false => session.prepare_parsed(statement, &[])?,
            };
            let types = prepared.columns.iter().flatten().map(|column| column.sql_type).collect();
            let mut rows = Rows::of(types, session);
            let mut portal = session.bind(&prepared, Vec::new())?;
            let progress = session.execute(&mut portal, None, is_alone, &mut rows)?;
            output = match (&prepared.columns, progress) {
                (Some(columns), _) => DBOutput::Rows {
                    types: vec![DefaultColumnType::Text; columns.len()],
                    rows: rows.rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect(),
                },
                (None, Progress::Done(tag)) => {
                    let count = tag.rsplit(' ').next().and_then(|count| count.parse().ok());
                    DBOutput::StatementComplete(count.unwrap_or(0))
                }
                (None, _) => DBOutput::StatementComplete(0),
            };
        }
        Ok(output)
    }
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
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner);
        let result = Asked::ask(session, self.is_prepared, sql);
        let synced = session.sync();
        let output = result?;
        synced?;
        Ok(output)
    }

    fn engine_name(&self) -> &str {
        "quipu"
    }

    fn error_sql_state(error: &SqlError) -> Option<String> {
        Some(error.state().code().to_owned())
    }
}

fn run_file(path: &Path, database: &SqlDatabase, is_prepared: bool) {
    let connect = || Asked { session: Mutex::new(database.session("anna", "quipu")), is_prepared };
    let mut runner = Runner::new(|| async { Ok(connect()) });
    if let Err(error) = runner.run_file(path) {
        panic!("{} ({}): {}", path.display(), if is_prepared { "prepared" } else { "simple" }, error.display(false));
    }
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
