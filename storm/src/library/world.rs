//! A database and the model of it, side by side; what is held open over it; and the verbs applied to both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quipu::io::sim::SimDisk;
use quipu::io::{Disk, RealDisk};
use quipu::{Db, Durability, Error, ErrorKind, OwnedRows, ReadableTable, Savepoint, Snapshot, Table, Transaction};

use crate::library::answer::{Answer, shown};
use crate::library::model::{State, same_options};
use crate::library::questions::QUESTIONS;
use crate::library::rows::Rows;
use crate::library::setup::{Setup, durability};
use crate::library::word::{Step, Word, Words};
use crate::library::writes::WRITINGS;
use crate::report::Counters;

/// Why a step is not as it should be.
#[derive(Debug)]
pub enum Trouble {
    /// An answer is wrong.
    Wrong(String),
    /// The database refused.
    Refused(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Refused(error)
    }
}

/// What came of a step.
pub type Outcome<T = ()> = std::result::Result<T, Trouble>;

/// An answer that is wrong.
pub fn wrong<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Trouble::Wrong(text.into()))
}

/// Where the files of a run are.
pub struct Place {
    /// What the database is given.
    pub disk: Arc<dyn Disk>,
    /// The simulated disk below, if it is one.
    pub sim: Option<SimDisk>,
    /// The directory.
    pub dir: PathBuf,
    /// Removes it in the end, if it is a real one.
    pub temporary: Option<tempfile::TempDir>,
}

impl Place {
    /// A simulated disk.
    pub fn simulated() -> Place {
        let sim = SimDisk::new();
        Place { disk: Arc::new(sim.clone()), sim: Some(sim), dir: "db".into(), temporary: None }
    }

    /// A directory of the file system.
    pub fn real() -> std::io::Result<Place> {
        let temporary = tempfile::tempdir()?;
        Ok(Place { disk: Arc::new(RealDisk), sim: None, dir: temporary.path().join("db"), temporary: Some(temporary) })
    }
}

/// The last commits that the database has promised to keep.
#[derive(Clone, Default)]
pub struct Promise {
    /// Through a power loss.
    pub synced: Arc<AtomicU64>,
    /// Through the end of the process.
    pub handed_over: Arc<AtomicU64>,
}

/// A snapshot, and what it should show.
pub struct HeldSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) state: State,
    pub(crate) tables: BTreeMap<String, Table>,
}

/// What an optimistic transaction did.
pub(crate) enum Done {
    Asked(Step, Answer),
    Wrote(Step, Answer),
    Savepoint,
    RolledBack(usize),
    Released(usize),
}

/// An optimistic transaction, what it sees, and what it has been told: if it commits, all of that must be as true at
/// the commit.
pub struct HeldTransaction {
    pub(crate) transaction: Transaction,
    pub(crate) view: State,
    pub(crate) base: State,
    pub(crate) begun_at: u64,
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) savepoints: Vec<(Savepoint, State)>,
    pub(crate) done: Vec<Done>,
}

/// A database, its model, and what is open.
pub struct World {
    /// What was drawn.
    pub setup: Setup,
    /// Where it is.
    pub place: Place,
    /// The database, unless it is closed.
    pub db: Option<Db>,
    /// Its tables.
    pub tables: BTreeMap<String, Table>,
    /// What they should hold.
    pub state: State,
    /// What they held after each commit, and after the one that is being made.
    pub history: BTreeMap<u64, State>,
    /// The last commit that was noted.
    pub sequence: u64,
    /// What must survive.
    pub promise: Promise,
    pub(crate) snapshots: BTreeMap<u64, HeldSnapshot>,
    pub(crate) transactions: BTreeMap<u64, HeldTransaction>,
    pub(crate) ranges: BTreeMap<u64, (OwnedRows, Rows, usize, usize)>,
    /// Numbers given so far, to tables and directories.
    pub(crate) numbers: u64,
    /// What was done.
    pub counters: Counters,
}

impl World {
    /// An empty database.
    pub fn open(setup: Setup, place: Place) -> Outcome<World> {
        let mut world = World {
            setup,
            place,
            db: None,
            tables: BTreeMap::new(),
            state: State::default(),
            history: BTreeMap::from([(0, State::default())]),
            sequence: 0,
            promise: Promise::default(),
            snapshots: BTreeMap::new(),
            transactions: BTreeMap::new(),
            ranges: BTreeMap::new(),
            numbers: 0,
            counters: Counters::default(),
        };
        world.reopen()?;
        Ok(world)
    }

    /// Opens the files as they are; they must hold the model's state.
    pub fn reopen(&mut self) -> Outcome {
        let options = self.setup.options(self.place.disk.clone());
        let db = Db::open(&self.place.dir, options)?;
        self.tables = db.tables().into_iter().map(|table| (table.name().to_owned(), table)).collect();
        self.db = Some(db);
        Ok(())
    }

    /// Lets go of everything.
    pub fn close(&mut self) {
        self.ranges.clear();
        self.transactions.clear();
        self.snapshots.clear();
        self.tables.clear();
        self.db = None;
    }

    /// The database.
    pub fn db(&self) -> Outcome<&Db> {
        match &self.db {
            Some(db) => Ok(db),
            None => wrong("the database is closed"),
        }
    }

    /// Says what the next commit makes of the tables.
    pub fn expect(&mut self, state: &State) -> Outcome {
        let sequence = self.db()?.latched().read().sequence();
        self.history.insert(sequence + 1, state.clone());
        Ok(())
    }

    /// The tables are now like this.
    pub fn note_commit(&mut self, state: State, durability: Durability) -> Outcome {
        let sequence = self.db()?.latched().read().sequence();
        self.state = state;
        self.history.split_off(&(sequence + 1));
        self.history.insert(sequence, self.state.clone());
        if sequence <= self.sequence {
            // Nothing was written, so nothing was made durable either.
            return Ok(());
        }
        self.counters.commits += sequence - self.sequence;
        self.sequence = sequence;
        match durability {
            Durability::Sync => self.synced(sequence),
            Durability::Os => drop(self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst)),
            Durability::None => {}
        }
        Ok(())
    }

    /// Everything up to this commit is on stable storage.
    pub fn synced(&self, sequence: u64) {
        self.promise.handed_over.fetch_max(sequence, Ordering::SeqCst);
        self.promise.synced.fetch_max(sequence, Ordering::SeqCst);
    }

    /// How commits that do not say are made.
    pub fn durability(&self) -> Durability {
        durability(self.setup.get("durability"))
    }

    pub(crate) fn ask(&mut self, step: &Step) -> Outcome {
        self.counters.questions += 1;
        let words = Words(&step.words);
        let (place, number, name, arguments) = (words.name(0), words.number(1), words.name(2), words.from(3));
        let question = QUESTIONS.iter().find(|question| question.name == step.verb).expect("found before");
        let told = |answer: &Answer| Trouble::Wrong(format!("{step}: answered {}", shown(answer)));
        match place {
            "snapshot" => {
                let Some(held) = self.snapshots.get(&number) else { return Ok(()) };
                let (Some(model), Some(table)) = (held.state.tables.get(name), held.tables.get(name)) else {
                    return Ok(());
                };
                let answer = (question.ask.view)(&held.snapshot.table(table)?, arguments)?;
                if (question.judge)(model, arguments, &answer) { Ok(()) } else { Err(told(&answer)) }
            }
            "tx" => {
                let Some(held) = self.transactions.get_mut(&number) else { return Ok(()) };
                let (Some(model), Some(table)) = (held.view.tables.get(name), held.tables.get(name)) else {
                    return Ok(());
                };
                let answer = (question.ask.transaction)(&held.transaction.table(table)?, arguments)?;
                if !(question.judge)(model, arguments, &answer) {
                    return Err(told(&answer));
                }
                held.done.push(Done::Asked(step.clone(), answer));
                Ok(())
            }
            _ => {
                let (Some(model), Some(table)) = (self.state.tables.get(name), self.tables.get(name)) else {
                    return Ok(());
                };
                let answer = match place {
                    "owned" => (question.ask.owned)(&self.db()?.snapshot().into_table(table)?, arguments)?,
                    "look" => self
                        .db()?
                        .latched()
                        .read_with(|latched| (question.ask.view)(&*latched.table(table)?, arguments))?,
                    "explain" => table.with_cost(|version| (question.ask.explained)(version, arguments))?.0,
                    _ => (question.ask.table)(table, arguments)?,
                };
                if (question.judge)(model, arguments, &answer) { Ok(()) } else { Err(told(&answer)) }
            }
        }
    }

    pub(crate) fn write(&mut self, step: &Step) -> Outcome {
        let words = Words(&step.words);
        let (name, arguments) = (words.name(2), words.from(3));
        let writing = WRITINGS.iter().find(|writing| writing.name == step.verb).expect("found before");
        let Some(table) = self.tables.get(name).cloned() else { return Ok(()) };
        let mut next = self.state.clone();
        let Some(model) = next.tables.get_mut(name) else { return Ok(()) };
        let expected = (writing.model)(model, arguments);
        let is_blind = model.options.blind_writes;
        self.expect(&next)?;
        let answer = (writing.table)(&table, arguments)?;
        // A blind removal does not ask.
        let may_differ = is_blind && step.verb == "remove" && answer == Answer::Flag(true);
        if answer != expected && !may_differ {
            return wrong(format!("{step}: answered {answer:?}, expected {expected:?}"));
        }
        self.note_commit(next, self.durability())
    }

    pub(crate) fn write_in_transaction(&mut self, step: &Step) -> Outcome {
        let words = Words(&step.words);
        let (number, name, arguments) = (words.number(1), words.name(2), words.from(3));
        let writing = WRITINGS.iter().find(|writing| writing.name == step.verb).expect("found before");
        let Some(held) = self.transactions.get_mut(&number) else { return Ok(()) };
        let Some(table) = held.tables.get(name) else { return Ok(()) };
        let mut next = held.view.clone();
        let Some(model) = next.tables.get_mut(name) else { return Ok(()) };
        let expected = (writing.model)(model, arguments);
        let answer = (writing.transaction)(&held.transaction.table(table)?, arguments)?;
        if answer != expected {
            return wrong(format!("{step}: answered {answer:?}, expected {expected:?}"));
        }
        held.view = next;
        held.done.push(Done::Wrote(step.clone(), answer));
        Ok(())
    }

    /// The whole database against the model.
    pub fn verify(&self) -> Outcome {
        verify(self.db()?, &self.state)
    }

    /// Whether an error may be: memory that was drawn small may be full.
    pub fn may_refuse(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Full && self.setup.is_tight()
    }
}

/// Whether a database holds exactly this: rows, counts, tallies.
pub fn verify(db: &Db, state: &State) -> Outcome {
    let names: Vec<String> = db.tables().iter().map(|table| table.name().to_owned()).collect();
    if !names.iter().eq(state.tables.keys()) {
        return wrong(format!("tables {names:?}, expected {:?}", state.tables.keys()));
    }
    for table in db.tables() {
        let model = &state.tables[table.name()];
        if !same_options(table.options(), &model.options) {
            return wrong(format!("table {} is declared as {:?}", table.name(), table.options()));
        }
        let mut expected = model.rows.iter();
        let mut difference = None;
        table.for_each(.., |key, value| match expected.next() {
            Some((k, v)) if k == key && v.is(value) => true,
            other => {
                let found = Word::Key(key.to_vec());
                difference = Some(format!(
                    "table {}: the row {found} of {} bytes stands where {:?} should",
                    table.name(),
                    value.len(),
                    other.map(|(key, value)| (Word::Key(key.to_vec()).to_string(), value))
                ));
                false
            }
        })?;
        if let Some(difference) = difference {
            return wrong(difference);
        }
        if let Some((key, _)) = expected.next() {
            return wrong(format!("table {}: the row {} is missing", table.name(), Word::Key(key.to_vec())));
        }
        let (len, tally) = (table.len()?, table.tally(..)?);
        if len != model.rows.len() as u64 || tally != model.tally(&(..).into()) {
            return wrong(format!("table {}: {len} rows, {tally:?}", table.name()));
        }
        for part in 0..7 {
            let position = model.rows.len() * part / 7;
            let Some((key, value)) = model.rows.nth(position) else { continue };
            let rank = table.rank(key)?;
            if rank != position as u64 || !table.get(key)?.is_some_and(|found| value.is(&found)) {
                return wrong(format!("table {}: {} at {rank}, not {position}", table.name(), Word::Key(key.to_vec())));
            }
        }
    }
    Ok(())
}
