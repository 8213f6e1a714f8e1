//! The end of the demo: a writer in another process is killed without warning, and what it was told is committed must
//! be there.
//!
//! Each transaction of the writer moves two flights from one table to another, indexes included, and adds one numbered
//! row to a journal; once it is on stable storage, the writer prints the number. After the kill, the journal must have
//! every number printed, the two tables together must hold the rows they held before, and every tally must equal what a
//! scan adds up.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use quipu::{Db, Durability, Error, ErrorKind, ReadableTable, Table, Tally};
use quipu_rows::{Database, Ordered, Value};
use rand::RngExt;

use super::flights::{JOURNAL, MOVED, NAME};
use crate::clock::{self, timed};
use crate::database;
use crate::failure::{Failure, Result};
use crate::grid::thousands;

/// Flights moved by one transaction.
const MOVES: u64 = 2;

/// The writer that the demo kills.
#[derive(Debug, clap::Args)]
pub(crate) struct WriterArgs {
    dir: PathBuf,
}

/// What the crash left.
pub(super) struct Crash {
    /// Transactions that the writer was told are committed, as far as it could say so.
    pub(super) acknowledged: u64,
    /// Transactions found after it.
    pub(super) found: u64,
    /// Tables whose tally was compared with a scan.
    pub(super) tables: usize,
}

/// The part of the child: moves flights until it is killed, and prints the number of each transaction on stable
/// storage.
pub(crate) fn write(args: &WriterArgs) -> Result<()> {
    let database = Database::open(&database::open(&args.dir, false)?)?;
    let mut random = rand::rng();
    let mut out = std::io::stdout().lock();
    for number in 1_i64.. {
        database.write_with(Durability::Sync, |transaction| {
            let (from, to) = (transaction.table(NAME)?, transaction.table(MOVED)?);
            for _ in 0..MOVES {
                let rows = from.len()?.max(1);
                let row = from.nth(.., random.random_range(0..rows))?;
                let row = row.ok_or_else(|| Error::new(ErrorKind::Missing, "no flights are left to be moved"))?;
                from.delete(row.key_values()?)?;
                to.insert_values(&row.values()?)?;
            }
            transaction.table(JOURNAL)?.insert(number)
        })?;
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

/// Starts the writer, kills it after a random number of transactions, opens the database again, and counts everything.
pub(super) fn kill_and_reopen(dir: &Path, rows: u64, say: &dyn Fn(&str) -> Result<()>) -> Result<Crash> {
    let before = {
        let db = database::open(dir, false)?;
        let miles = Database::open(&db)?.snapshot().table(NAME)?.sum(..)?;
        db.close()?;
        miles
    };
    let kill_after = rand::rng().random_range(100..300);
    let acknowledged = kill_writer(dir, kill_after)?;
    say(&format!(
        "A writer moved flights to another table, {MOVES} a transaction, each on stable storage before it was acknowledged. \
         It was killed\n(SIGKILL) after {} acknowledgements.",
        thousands(acknowledged)
    ))?;

    let (db, time) = timed(|| database::open(dir, false));
    let db = db?;
    let found = count_transactions(&db, acknowledged)?;
    compare_flights(&db, rows, found, &before)?;
    say(&format!(
        "Opened again in {}: all {} acknowledged transactions are there, and {} not yet acknowledged; none is torn: both\n\
         tables together hold the same {} flights as before, by count, bytes, hash and sum of miles.",
        clock::show(time),
        thousands(acknowledged),
        found - acknowledged,
        thousands(rows)
    ))?;

    let names = Database::open(&db)?.tree_names()?;
    let mut tables = db.tables();
    tables.retain(|table| names.contains_key(table.name()));
    let (scanned, time) = timed(|| -> Result<u64> {
        let mut scanned = 0;
        for table in &tables {
            scanned += recount(&db, table)?;
        }
        Ok(scanned)
    });
    let scanned = scanned?;
    say(&format!(
        "Counted again by scanning {} rows of {} tables in {}: every tally holds.",
        thousands(scanned),
        tables.len(),
        clock::show(time)
    ))?;
    let crash = Crash { acknowledged, found, tables: tables.len() };
    db.close()?;
    Ok(crash)
}

/// How many transactions the journal has: all that were acknowledged, and one more at most.
fn count_transactions(db: &Db, acknowledged: u64) -> Result<u64> {
    let snapshot = Database::open(db)?.snapshot();
    let journal = snapshot.table(JOURNAL)?;
    let found = journal.len()?;
    let last = journal.last(..)?.map(|row| Ok::<_, Error>(row.value(0)?.into_owned())).transpose()?;
    if last != (found > 0).then_some(Value::Int(found.into())) {
        return lost(format!("the journal has {found} rows and ends with {last:?}"));
    }
    if found < acknowledged {
        return lost(format!("{} acknowledged transactions are lost", acknowledged - found));
    }
    if found > acknowledged + 1 {
        return lost(format!("there are {found} transactions, and the writer was never past {acknowledged}"));
    }
    Ok(found)
}

/// Whether both tables together have the same flights as before, some of which so many transactions moved, and whether
/// indexes agree with their tables.
fn compare_flights(db: &Db, rows: u64, transactions: u64, miles_before: &Value<'_>) -> Result<()> {
    let snapshot = Database::open(db)?.snapshot();
    let (flights, moved) = (snapshot.table(NAME)?, snapshot.table(MOVED)?);
    let (left, taken) = (flights.len()?, moved.len()?);
    if left + taken != rows || taken != transactions * MOVES {
        return lost(format!("{left} and {taken} flights do not make {rows}: a transaction is torn"));
    }
    let miles = match (flights.sum(..)?, moved.sum(..)?) {
        (Value::Int(left), Value::Int(taken)) => Value::Int(left + taken),
        (other, _) => other,
    };
    if miles != *miles_before {
        return lost(format!("both tables have {miles} miles, and there were {miles_before}"));
    }
    match quipu_rows::check(db, &mut |_| ())?.problems.first() {
        Some(problem) => lost(problem.clone()),
        None => Ok(()),
    }
}

fn lost<T>(what: String) -> Result<T> {
    Err(Failure::new(format!("after the crash {what}")))
}

/// Runs the writer, kills it after `kill_after` acknowledgements, and returns the last one it made.
fn kill_writer(dir: &Path, kill_after: u64) -> Result<u64> {
    let trouble = |error: std::io::Error| Failure::new(format!("the writer cannot be run: {error}"));
    let program = std::env::current_exe().map_err(trouble)?;
    let child = Command::new(program).arg("demo-writer").arg(dir).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut writer = Killed(child.map_err(trouble)?);
    let mut numbers = BufReader::new(writer.0.stdout.take().ok_or_else(|| Failure::new("the writer has no output"))?);
    let mut acknowledged = 0;
    let mut line = String::new();
    // What it wrote before it died is still in the pipe, and is read to the end.
    while numbers.read_line(&mut line).map_err(trouble)? > 0 && line.ends_with('\n') {
        acknowledged = line.trim().parse().map_err(|_| Failure::new(format!("the writer says {line:?}")))?;
        line.clear();
        if acknowledged == kill_after {
            writer.0.kill().map_err(trouble)?;
        }
    }
    if acknowledged < kill_after {
        return Err(Failure::new(format!("the writer ended by itself after {acknowledged} transactions")));
    }
    Ok(acknowledged)
}

/// A child that does not outlive this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may be dead already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds up the rows of a table one by one; an error if that is not its tally. How many there were.
fn recount(db: &Db, table: &Table) -> Result<u64> {
    let snapshot = db.snapshot();
    let view = snapshot.table(table)?;
    let measures = table.options().measures;
    let counted = view.tally(..)?;
    // The hash is compared over both tables of flights; `quipu check` adds it up row by row.
    let mut scanned = Tally { hash: counted.hash, ..Tally::ZERO };
    view.for_each(.., |key, value| {
        scanned.rows += 1;
        scanned.bytes += if measures.bytes { (key.len() + value.len()) as i64 } else { 0 };
        scanned.sum += measures.sum.map_or(0, |field| field.extract(value));
        true
    })?;
    if counted != scanned {
        let name = table.name();
        return Err(Failure::new(format!(
            "table {name} counts {counted:?}, and a scan finds {scanned:?}: a count is wrong"
        )));
    }
    Ok(scanned.rows.unsigned_abs())
}
