//! Databases, snapshots and transactions as Python has them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quipu::{Db, Durability, Error, Options, Result, Savepoint};
use quipu_rows::{BuildOptions, Column, IndexBuild, IndexSchema, Isolation, RowCheck, TableSchema};

use crate::error::{detached, invalid, raised};
use crate::reader::Reader;
use crate::result::{SqlResult, SqlSession};
use crate::signals::check_signals;
use crate::source::{Moment, Opened, Running, Source};

fn durability(name: Option<&str>) -> Result<Option<Durability>> {
    Ok(match name {
        None => None,
        Some("sync") => Some(Durability::Sync),
        Some("os") => Some(Durability::Os),
        Some("none") => Some(Durability::None),
        Some(name) => return Err(invalid(format!("durability is 'sync', 'os' or 'none', not {name:?}"))),
    })
}

/// A table of a source, if there is one.
fn table(py: Python<'_>, source: Source, name: String) -> PyResult<Reader> {
    let reader = Reader::new(source, name, None);
    detached(py, || reader.schema_now())?;
    Ok(reader)
}

/// Turns of the writer in which the building of an index catches up with others, before the one that it ends with.
const CATCH_UP_TURNS_MAX: usize = 1_000;

/// Builds an index, of which a signal leaves nothing.
fn build(mut index: IndexBuild) -> Result<()> {
    index.fill(&mut |_| check_signals())?;
    for _ in 0..CATCH_UP_TURNS_MAX {
        if !index.catch_up()? {
            break;
        }
        check_signals()?;
    }
    index.complete()
}

/// What a check unwinds with when a signal has come.
struct Interrupted(Error);

/// What is wrong with rows, indexes and constraints. A signal ends the look at them by unwinding, since the report of
/// its progress has no answer; it only reads a snapshot, so nothing is left half done.
fn check(db: &Db) -> Result<RowCheck> {
    let look = || {
        quipu_rows::check(db, &mut |_| {
            if let Err(error) = check_signals() {
                resume_unwind(Box::new(Interrupted(error)));
            }
        })
    };
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|unwound| match unwound.downcast::<Interrupted>() {
        Ok(interrupted) => Err(interrupted.0),
        Err(panic) => resume_unwind(panic),
    })
}

/// An open database.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct Database {
    opened: Arc<Opened>,
}

#[pymethods]
impl Database {
    #[staticmethod]
    #[pyo3(signature = (path, read_only, create, durability, memtable_bytes, cache_bytes))]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        read_only: bool,
        create: bool,
        durability: Option<&str>,
        memtable_bytes: Option<u64>,
        cache_bytes: Option<u64>,
    ) -> PyResult<Database> {
        let durability = self::durability(durability).map_err(|error| raised(py, &error))?;
        let opened = detached(py, || {
            let defaults = if path.is_none() { Options::without_files() } else { Options::default() };
            let options = Options {
                read_only,
                create,
                durability: durability.unwrap_or(defaults.durability),
                memtable_bytes: memtable_bytes.unwrap_or(defaults.memtable_bytes),
                cache_bytes: cache_bytes.unwrap_or(defaults.cache_bytes),
                ..defaults
            };
            let db = Db::open(path.unwrap_or_else(|| PathBuf::from("/memory")), options)?;
            quipu_rows::Database::open(&db).map(|database| Opened::new(database, read_only))
        })?;
        Ok(Database { opened })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.opened.close())
    }

    fn is_open(&self) -> bool {
        self.opened.is_open()
    }

    /// How many commits there were: the same number means the same rows.
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || Ok(self.opened.database()?.snapshot().engine().sequence()))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.opened.database()?.tables())
    }

    fn table(&self, py: Python<'_>, name: String) -> PyResult<Reader> {
        table(py, Source::Live(Arc::clone(&self.opened)), name)
    }

    /// Creates the table of a schema in JSON.
    fn create_table(&self, py: Python<'_>, schema: &str) -> PyResult<()> {
        detached(py, || {
            let schema = TableSchema::from_json(schema)?;
            self.opened.database_to_change()?.create_table(&schema).map(drop)
        })
    }

    /// Creates the table of a schema in JSON, or looks whether the one that is there fits it.
    fn ensure_table(&self, py: Python<'_>, schema: &str) -> PyResult<()> {
        detached(py, || {
            let schema = TableSchema::from_json(schema)?;
            schema.ensure_in(&self.opened.database_to_change()?).map(drop)
        })
    }

    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        detached(py, || self.opened.database_to_change()?.drop_table(name))
    }

    fn rename_table(&self, py: Python<'_>, name: &str, new_name: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.rename_table(name, new_name))
    }

    /// Adds the column of a schema in JSON of a table that has nothing else.
    fn add_column(&self, py: Python<'_>, table: &str, schema: &str) -> PyResult<()> {
        detached(py, || {
            let columns: Vec<Column> = TableSchema::from_json(schema)?.columns;
            let database = self.opened.database_to_change()?;
            columns.into_iter().try_for_each(|column| database.add_column(table, column))
        })
    }

    fn drop_column(&self, py: Python<'_>, table: &str, column: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.drop_column(table, column))
    }

    fn rename_column(&self, py: Python<'_>, table: &str, column: &str, new_name: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.rename_column(table, column, new_name))
    }

    /// The default as a literal of the column's type.
    fn set_default(&self, py: Python<'_>, table: &str, column: &str, default: Option<&str>) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.set_default(table, column, default))
    }

    fn set_not_null(&self, py: Python<'_>, table: &str, column: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.set_not_null(table, column, &mut |_| ()))
    }

    fn drop_not_null(&self, py: Python<'_>, table: &str, column: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.drop_not_null(table, column))
    }

    /// Adds the checks and foreign keys of a schema in JSON of a table that has nothing else.
    fn add_constraints(&self, py: Python<'_>, table: &str, schema: &str) -> PyResult<()> {
        detached(py, || {
            let TableSchema { checks, foreign_keys, .. } = TableSchema::from_json(schema)?;
            let database = self.opened.database_to_change()?;
            checks.into_iter().try_for_each(|check| database.add_check(table, check, &mut |_| ()))?;
            foreign_keys.into_iter().try_for_each(|key| database.add_foreign_key(table, key, &mut |_| ()))
        })
    }

    fn drop_constraint(&self, py: Python<'_>, table: &str, name: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.drop_constraint(table, name))
    }

    fn rename_constraint(&self, py: Python<'_>, table: &str, name: &str, new_name: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.rename_constraint(table, name, new_name))
    }

    /// Creates the indexes of a schema in JSON of a table that has nothing else.
    fn create_index(&self, py: Python<'_>, table: &str, schema: &str) -> PyResult<()> {
        detached(py, || {
            let indexes: Vec<IndexSchema> = TableSchema::from_json(schema)?.indexes;
            let database = self.opened.database_to_change()?;
            let options = BuildOptions::default();
            indexes.into_iter().try_for_each(|index| build(database.begin_index(table, index, &options)?))
        })
    }

    fn drop_index(&self, py: Python<'_>, table: &str, index: &str) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.drop_index(table, index))
    }

    fn rebuild_index(&self, py: Python<'_>, table: &str, index: &str) -> PyResult<()> {
        detached(py, || {
            build(self.opened.database_to_change()?.begin_rebuild(table, index, &BuildOptions::default())?)
        })
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Ok(Snapshot { moment: detached(py, || Moment::new(&self.opened))? })
    }

    /// Begins an optimistic transaction.
    fn transaction(&self, py: Python<'_>, isolation: &str, durability: Option<&str>) -> PyResult<Transaction> {
        let running = detached(py, || {
            let isolation = match isolation {
                "serializable" => Isolation::Serializable,
                "snapshot" => Isolation::Snapshot,
                "read committed" => Isolation::ReadCommitted,
                name => {
                    let known = "'serializable', 'snapshot' or 'read committed'";
                    return Err(invalid(format!("isolation is {known}, not {name:?}")));
                }
            };
            Running::optimistic(&self.opened, isolation, self::durability(durability)?)
        })?;
        Ok(Transaction { running })
    }

    /// Begins the transaction of the single writer, after those of others.
    fn writer(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<Transaction> {
        Ok(Transaction { running: detached(py, || Running::writer(&self.opened, self::durability(durability)?))? })
    }

    /// Runs the statements of a text in a session of their own.
    fn sql(&self, py: Python<'_>, text: &str, parameters: Vec<Bound<'_, PyAny>>) -> PyResult<SqlResult> {
        SqlResult::of_statement(py, &self.opened, text, &parameters)
    }

    /// Begins a session of SQL, which runs `begin` first.
    fn sql_session(&self, py: Python<'_>, begin: &str) -> PyResult<SqlSession> {
        SqlSession::begin(py, &self.opened, begin)
    }

    /// Copies the database to a directory, as it is after one commit, whose number is returned.
    fn backup(&self, py: Python<'_>, to: PathBuf) -> PyResult<u64> {
        detached(py, || Ok(self.opened.database_to_change()?.db().backup(to)?.sequence))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.opened.database_to_change()?.db().checkpoint().map(drop))
    }

    /// What the database holds: by the names of tables and indexes, and as a whole.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, names) = detached(py, || {
            let database = self.opened.database()?;
            Ok((database.db().stats(), database.tree_names()?))
        })?;
        let tables = PyDict::new(py);
        for table in &stats.tables {
            // Others are of the catalogue.
            let Some(name) = names.get(&table.name) else { continue };
            let figures = PyDict::new(py);
            figures.set_item("rows", table.tally.rows)?;
            figures.set_item("runs", table.runs)?;
            figures.set_item("run_bytes", table.run_bytes)?;
            tables.set_item(name, figures)?;
        }
        let all = PyDict::new(py);
        all.set_item("tables", tables)?;
        for (name, figure) in [
            ("memory_bytes", stats.memory_bytes()),
            ("memory_bytes_max", stats.memory_bytes_max),
            ("cache_bytes", stats.cache_bytes),
            ("cache_bytes_max", stats.cache_bytes_max),
            ("log_bytes", stats.log_bytes),
            ("log_tail_bytes", stats.log_tail_bytes),
            ("sequence", stats.sequence),
            ("checkpoint_sequence", stats.checkpoint_sequence),
        ] {
            all.set_item(name, figure)?;
        }
        let failures = stats.failures.iter().map(ToString::to_string).chain(stats.checkpoint_failure);
        all.set_item("failures", failures.collect::<Vec<_>>())?;
        Ok(all)
    }

    /// What is wrong with rows, indexes and constraints.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || Ok(check(self.opened.database()?.db())?.problems))
    }
}

/// All tables at one moment.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct Snapshot {
    moment: Arc<Moment>,
}

#[pymethods]
impl Snapshot {
    fn table(&self, py: Python<'_>, name: String) -> PyResult<Reader> {
        table(py, Source::Moment(Arc::clone(&self.moment)), name)
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.moment.snapshot()?.tables())
    }

    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || Ok(self.moment.snapshot()?.engine().sequence()))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.moment.close());
    }
}

/// A point of a transaction to roll back to.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct SavedPoint {
    savepoint: Savepoint,
}

/// A transaction.
#[pyclass(frozen, module = "quipu._quipu")]
pub(crate) struct Transaction {
    running: Arc<Running>,
}

#[pymethods]
impl Transaction {
    fn table(&self, py: Python<'_>, name: String) -> PyResult<Reader> {
        table(py, Source::Running(Arc::clone(&self.running)), name)
    }

    /// Marks a point to roll back to.
    fn savepoint(&self, py: Python<'_>) -> PyResult<SavedPoint> {
        Ok(SavedPoint { savepoint: detached(py, || self.running.run(|transaction| Ok(transaction.savepoint())))? })
    }

    /// Undoes every write since a point.
    fn rollback_to(&self, py: Python<'_>, point: &SavedPoint) -> PyResult<()> {
        let savepoint = point.savepoint;
        detached(py, || self.running.run(move |transaction| transaction.rollback_to(savepoint)))
    }

    /// Forgets a point and keeps the writes since.
    fn release(&self, py: Python<'_>, point: &SavedPoint) -> PyResult<()> {
        let savepoint = point.savepoint;
        detached(py, || self.running.run(move |transaction| transaction.release(savepoint)))
    }

    fn is_over(&self, py: Python<'_>) -> bool {
        py.detach(|| self.running.is_over())
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.running.commit())
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.running.rollback())
    }
}
