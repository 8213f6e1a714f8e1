//! LOCK TABLE, and indexes that are built while others write.
//!
//! An index of a table with many rows is built a step at a time, outside of a transaction. Its beginning, each catch-up
//! and its end change what open transactions rely on if they have written to the table. So each of these steps takes
//! the table's lock alone: it waits until those transactions are over, and new ones wait for it.

use std::collections::HashSet;
use std::time::Duration;

use quipu::{Error, ErrorKind};
use quipu_rows::{BuildOptions, IndexBuild, IndexSchema, Ordered};
use sqlparser::ast;
use sqlparser::ast::LockTableMode;

use crate::bind::object_name;
use crate::catalogue::Relation;
use crate::ddl;
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::NoLocks;
use crate::execute::view::View;
use crate::limits::Limits;
use crate::locks::mode::LockMode;
use crate::plan::query::LockWait;
use crate::session::Session;
use crate::session::answer::{Progress, Sink};
use crate::session::table_lock::{Patience, TableLock};

/// Rows from which the index of a table is built outside of a transaction.
const BUILT_ROWS_MIN: u64 = 50_000;
/// How often the definition of a table may change while it is waited for.
const ATTEMPTS_MAX: usize = 1_000;

/// How a build has the lock of its table while others write, and in its turns.
const SHARED: LockMode = LockMode::ShareUpdateExclusive;
const ALONE: LockMode = LockMode::ShareRowExclusive;
/// How long a build that has failed waits for the lock, to be taken back.
const GIVING_UP_WAIT: Duration = Duration::from_secs(5);

/// Writes the entries of an index, but for the last ones. Has the lock of the table alone then, if it is `shared`
/// meanwhile.
fn fill(
    build: &mut IndexBuild,
    shared: Option<&TableLock>,
    patience: &Patience,
    of_build: impl Fn(Error) -> SqlError,
) -> Result<()> {
    let mut stopped = None;
    let filled = build.fill(&mut |_| {
        patience.limits.check().map_err(|error| {
            stopped = Some(error);
            Error::new(ErrorKind::Invalid, "the statement was stopped")
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    filled.map_err(&of_build)?;
    loop {
        patience.limits.check()?;
        if let Some(lock) = shared {
            lock.raise(ALONE, patience)?;
        }
        if !build.catch_up().map_err(&of_build)? {
            return Ok(());
        }
        if let Some(lock) = shared {
            lock.reduce(SHARED);
        }
    }
}

/// The mode of LOCK TABLE.
fn mode_of(mode: Option<&LockTableMode>) -> LockMode {
    match mode {
        Some(LockTableMode::AccessShare) => LockMode::AccessShare,
        Some(LockTableMode::RowShare) => LockMode::RowShare,
        Some(LockTableMode::RowExclusive) => LockMode::RowExclusive,
        Some(LockTableMode::ShareUpdateExclusive) => LockMode::ShareUpdateExclusive,
        Some(LockTableMode::Share) => LockMode::Share,
        Some(LockTableMode::ShareRowExclusive) => LockMode::ShareRowExclusive,
        Some(LockTableMode::Exclusive) => LockMode::Exclusive,
        Some(LockTableMode::AccessExclusive) | None => LockMode::AccessExclusive,
    }
}

pub(super) fn patience(session: &Session) -> Patience {
    Patience { limits: session.limits(), timeout: session.identity.settings.lock_timeout() }
}

// --- LOCK TABLE ------------------------------------------------------------------------------------------------------

/// LOCK TABLE: no other transaction does what the mode keeps out, until this one ends.
///
/// # Errors
/// [`NO_ACTIVE_SQL_TRANSACTION`](SqlState::NO_ACTIVE_SQL_TRANSACTION),
/// [`LOCK_NOT_AVAILABLE`](SqlState::LOCK_NOT_AVAILABLE), those of names and of waiting.
pub(super) fn lock_tables(session: &mut Session, lock: &ast::Lock) -> Result<()> {
    session.open_block("LOCK TABLE")?;
    session.begin_statement()?;
    let wait = if lock.nowait { LockWait::NoWait } else { LockWait::Wait };
    let limits = session.limits();
    for target in &lock.tables {
        loop {
            let tables = tables_named(session, &target.name)?;
            let Some(open) = &session.open else { return Ok(()) };
            let locker = session.locker_of(open, &limits);
            let take = |table: &String| locker.take_table(table, mode_of(lock.lock_mode.as_ref()), wait);
            match tables.iter().try_for_each(take) {
                Ok(()) => break,
                Err(error) if error.state() == SqlState::BEGIN_AGAIN => session.catch_up()?,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The names in rows of a table, or of those that a view reads.
fn tables_named(session: &Session, name: &ast::ObjectName) -> Result<Vec<String>> {
    let Some(open) = &session.open else { return Ok(Vec::new()) };
    let catalogue = session.shared.catalogue_of(View::Transaction(&open.transaction))?;
    let (schema, bare) = object_name(name)?;
    let path = session.identity.search_path();
    let mut names = Vec::new();
    match catalogue.relation(schema.as_deref(), &bare, &path) {
        Some(Relation::Table(table)) => names.push(table.rows_name.to_string()),
        Some(Relation::View(_, view)) => {
            let (mut reads, mut seen) = (view.reads.clone(), HashSet::new());
            while let Some((schema, name)) = reads.pop() {
                // Views may have been replaced so that they read each other.
                if !seen.insert((schema.clone(), name.clone())) {
                    continue;
                }
                match catalogue.relation(Some(&schema), &name, &[]) {
                    Some(Relation::Table(table)) => names.push(table.rows_name.to_string()),
                    Some(Relation::View(_, view)) => reads.extend(view.reads.iter().cloned()),
                    _ => {}
                }
            }
        }
        Some(_) => {
            let what = format!("\"{bare}\" is not a table or view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        None => {
            let what = format!("relation \"{bare}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, what));
        }
    }
    Ok(names)
}

// --- indexes ---------------------------------------------------------------------------------------------------------

/// Whether an index is built outside of a transaction: CONCURRENTLY, or of many rows.
///
/// # Errors
/// [`ACTIVE_SQL_TRANSACTION`](SqlState::ACTIVE_SQL_TRANSACTION) for CONCURRENTLY within a transaction.
pub(super) fn is_built_outside(session: &Session, create: &ast::CreateIndex, is_alone: bool) -> Result<bool> {
    let is_within = session.open.is_some();
    if create.concurrently && is_within {
        let what = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
    }
    Ok(!is_within && (create.concurrently || is_alone && has_many_rows(session, &create.table_name)?))
}

fn has_many_rows(session: &Session, name: &ast::ObjectName) -> Result<bool> {
    let snapshot = session.shared.database.snapshot();
    let catalogue = session.shared.catalogue_of(View::Snapshot(&snapshot))?;
    let (schema, bare) = object_name(name)?;
    match catalogue.relation(schema.as_deref(), &bare, &session.identity.search_path()) {
        Some(Relation::Table(table)) => Ok(snapshot.table(&table.rows_name)?.count(..)? >= BUILT_ROWS_MIN),
        _ => Ok(false),
    }
}

/// CREATE INDEX outside of a transaction. With CONCURRENTLY others write meanwhile but for moments; if it fails,
/// nothing of the index is left.
///
/// # Errors
/// Those of a definition, of rows that have the same values, and of waiting.
pub(super) fn index_outside(
    session: &mut Session,
    create: &ast::CreateIndex,
    sink: &mut dyn Sink,
) -> Result<Option<Progress>> {
    session.refuse_read_only("CREATE INDEX")?;
    let patience = patience(session);
    for _ in 0..ATTEMPTS_MAX {
        let Some((table, _)) = new_index(session, create, sink)? else {
            return Ok(Some(Progress::Done("CREATE INDEX".to_owned())));
        };
        let Some(lock) = TableLock::take(&session.shared, session.owner, &table, SHARED, LockWait::Wait, &patience)?
        else {
            continue;
        };
        lock.raise(ALONE, &patience)?;
        // It may have become another table while it was waited for.
        match new_index(session, create, sink)? {
            Some((found, index)) if found == table => {
                build_index(session, &table, index, &lock, create.concurrently, &patience)?;
                return Ok(Some(Progress::Done("CREATE INDEX".to_owned())));
            }
            Some(_) => {}
            None => return Ok(Some(Progress::Done("CREATE INDEX".to_owned()))),
        }
    }
    Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "the table has become another one again and again"))
}

/// Builds an index of a table whose lock it has alone, and shares it meanwhile if the build `is_concurrent`.
fn build_index(
    session: &Session,
    table: &str,
    index: IndexSchema,
    lock: &TableLock,
    is_concurrent: bool,
    patience: &Patience,
) -> Result<()> {
    let name = index.name.clone();
    let of_build = |error| SqlError::of_build(error, &name);
    let begun = session.shared.database.begin_index(table, index, &BuildOptions::default());
    let mut build = begun.map_err(of_build)?;
    let shared = is_concurrent.then_some(lock);
    if let Some(lock) = shared {
        lock.reduce(SHARED);
    }
    match fill(&mut build, shared, patience, of_build) {
        Ok(()) => build.complete().map_err(of_build)?,
        Err(error) => {
            if let Some(lock) = shared {
                // It is taken back in a turn like its others, unless that is too long to wait for.
                let patience = Patience { limits: Limits::default(), timeout: Some(GIVING_UP_WAIT) };
                let _ = lock.raise(ALONE, &patience);
            }
            drop(build);
            return Err(error);
        }
    }
    Ok(())
}

/// The table and the definition of a new index; none, and a notice, if it is there already and need not be made.
fn new_index(
    session: &Session,
    create: &ast::CreateIndex,
    sink: &mut dyn Sink,
) -> Result<Option<(String, IndexSchema)>> {
    let transaction = session.shared.database.begin();
    let notices = std::cell::RefCell::default();
    let read = |context: &ddl::Context<'_>| ddl::new_index(create, &transaction, context);
    let declared = session.with_definitions(&transaction, &notices, &NoLocks, &read)?;
    notices.into_inner().iter().for_each(|notice| sink.notice(notice));
    Ok(declared)
}
