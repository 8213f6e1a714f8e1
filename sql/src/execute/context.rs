//! State that all parts of a running statement share.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::execute::kept_answers::{Asked, Found, Seen, WithRows};
use crate::execute::value_set::ValueSet;
use crate::execute::view::View;
use crate::functions::Environment;
use crate::limits::Limits;
use crate::locks::mode::LockMode;
use crate::plan::expression::SetNumber;
use crate::plan::query::LockWait;
use crate::row_files::RowFile;
use crate::types::datum::Datum;
use crate::types::range::Range;

/// Rows of which a look at the clock and at the canceller is due after so many.
const STEPS_A_LOOK: u32 = 256;

/// What an expression or a source of rows is computed with.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// The tables.
    pub view: View<'c>,
    /// The session.
    pub environment: &'c dyn Environment,
    /// The parameters of the statement.
    pub parameters: &'c [Datum],
    /// What the row around a sub-select gives to it.
    pub arguments: &'c [Datum],
    /// What the statement keeps while it runs.
    pub state: &'c Running,
    /// What takes locks for the transaction.
    pub locker: &'c dyn Locker,
}

/// What takes locks of rows and tables for a transaction.
pub trait Locker {
    /// Locks the row of a table with this primary key, whether or not there is one. Returns whether it could; false
    /// only where rows that others have locked are left out.
    ///
    /// # Errors
    /// Those of waiting: a deadlock, a timeout, a lock that may not be waited for. And that it has waited, so that the
    /// statement has to begin again with what is there now.
    fn lock(&self, table: &str, key: &[Datum], wait: LockWait, is_shared: bool) -> Result<bool>;

    /// Locks a table.
    ///
    /// # Errors
    /// Those of [`Locker::lock`].
    fn lock_table(&self, table: &str, mode: LockMode) -> Result<()>;

    /// Whether no other transaction has a lock, and none can take one before this statement is done.
    fn is_alone(&self) -> bool;
}

/// Takes no locks: for what reads a snapshot.
pub struct NoLocks;

impl Locker for NoLocks {
    fn lock(&self, _table: &str, _key: &[Datum], _wait: LockWait, _is_shared: bool) -> Result<bool> {
        Ok(true)
    }

    fn lock_table(&self, _table: &str, _mode: LockMode) -> Result<()> {
        Ok(())
    }

    fn is_alone(&self) -> bool {
        true
    }
}

/// What a statement keeps while it runs.
#[derive(Default)]
pub struct Running {
    /// What sub-selects have found, by their numbers.
    pub(crate) found: RefCell<HashMap<usize, Found>>,
    /// The rows of queries of WITH, by their numbers; those of the last round of a recursive one have another.
    pub(crate) with: RefCell<HashMap<usize, WithRows>>,
    /// What is known of scans that sub-selects ask again, by the numbers of their look-ups.
    pub(crate) asked: RefCell<HashMap<usize, Asked>>,
    /// Sets of values that are the same for all rows, by their numbers.
    sets: RefCell<HashMap<usize, KnownSet>>,
    /// The rows of tables of the catalogue that were asked for before.
    catalogue: RefCell<HashMap<Arc<str>, CatalogueRows>>,
    /// Values that are computed once while an expression is evaluated, by their places.
    once: RefCell<Vec<Datum>>,
    /// Whether the row that an INSERT gives is one that ON CONFLICT DO UPDATE has changed.
    pub(crate) has_replaced: Cell<bool>,
    /// Bytes that kept rows take, about.
    kept_bytes: Cell<usize>,
    /// Those of them that are kept until the statement ends, though a sub-select has kept them.
    lasting_bytes: Cell<usize>,
    limits: Limits,
    steps: Cell<u32>,
}

/// The rows of a table of the catalogue, which are made when they are asked for.
#[derive(Clone)]
enum CatalogueRows {
    /// They were asked for once.
    AskedOnce,
    /// They take more memory than there is, or may be others a moment later.
    MadeAnew,
    Kept(Arc<Vec<Vec<Datum>>>),
}

/// Tables of the catalogue whose rows follow from definitions alone, so that they are the same during a statement.
const OF_DEFINITIONS: [&str; 12] = [
    "pg_attrdef",
    "pg_attribute",
    "pg_class",
    "pg_constraint",
    "pg_description",
    "pg_enum",
    "pg_index",
    "pg_namespace",
    "pg_operator",
    "pg_proc",
    "pg_range",
    "pg_type",
];

/// What is known of a set of values that are the same for all rows.
#[derive(Clone)]
enum KnownSet {
    /// One row has asked for it.
    AskedOnce,
    /// It takes more memory than there is: its values are compared one by one.
    TooLarge,
    Made(Arc<ValueSet>),
}

impl Running {
    /// What a statement with these limits keeps.
    pub fn new(limits: Limits) -> Running {
        Running { limits, ..Running::default() }
    }

    /// Counts a step of work.
    ///
    /// # Errors
    /// Those of [`Limits::check`].
    #[inline]
    pub fn step(&self) -> Result<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_A_LOOK) { self.limits.check() } else { Ok(()) }
    }

    /// The set of values that are the same for all rows. None if it is asked for the first time, so that one row alone
    /// does not pay for it, or if the values take too much memory. `values` gives `None` where there is NULL for
    /// them.
    ///
    /// # Errors
    /// Those of `values`.
    pub(crate) fn set(
        &self,
        number: SetNumber,
        values: impl FnOnce() -> Result<Option<Vec<Datum>>>,
    ) -> Result<Option<Arc<ValueSet>>> {
        let known = self.sets.borrow().get(&number.0).cloned();
        let known = match known {
            None => KnownSet::AskedOnce,
            Some(KnownSet::AskedOnce) => {
                let values = values()?;
                match self.try_keep(values.as_deref().unwrap_or_default()) {
                    None => KnownSet::TooLarge,
                    Some(_) => KnownSet::Made(Arc::new(ValueSet::new(values))),
                }
            }
            Some(KnownSet::TooLarge) => return Ok(None),
            Some(KnownSet::Made(set)) => return Ok(Some(set)),
        };
        self.sets.borrow_mut().insert(number.0, known.clone());
        Ok(match known {
            KnownSet::Made(set) => Some(set),
            KnownSet::AskedOnce | KnownSet::TooLarge => None,
        })
    }

    /// The rows of a table of the catalogue. Those that a sub-select asks for again and again are made twice: once for
    /// one that is alone, and once to be kept.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn catalogue_rows(
        &self,
        table: &Arc<str>,
        make: impl FnOnce() -> Result<Vec<Vec<Datum>>>,
    ) -> Result<Arc<Vec<Vec<Datum>>>> {
        let known = self.catalogue.borrow().get(table).cloned();
        let is_kept = match known {
            Some(CatalogueRows::Kept(rows)) => return Ok(rows),
            Some(CatalogueRows::AskedOnce) => true,
            Some(CatalogueRows::MadeAnew) => false,
            None => {
                let of_definitions = OF_DEFINITIONS.contains(&&**table);
                let state = if of_definitions { CatalogueRows::AskedOnce } else { CatalogueRows::MadeAnew };
                self.catalogue.borrow_mut().insert(Arc::clone(table), state);
                false
            }
        };
        let rows = Arc::new(make()?);
        if is_kept {
            let kept = self.try_keep_bytes(rows.iter().map(|row| size_of_row(row)).sum(), 0);
            if let Some(bytes) = kept {
                self.keep_to_the_end(bytes);
            }
            let state = kept.map_or(CatalogueRows::MadeAnew, |_| CatalogueRows::Kept(Arc::clone(&rows)));
            self.catalogue.borrow_mut().insert(Arc::clone(table), state);
        }
        Ok(rows)
    }

    /// Forgets what sub-selects have found, and sets of values that come from them.
    pub(crate) fn forget(&self) {
        self.found.borrow_mut().clear();
        self.sets.borrow_mut().clear();
    }

    /// Keeps the value of an expression that is computed once.
    pub(crate) fn note(&self, place: usize, value: Datum) {
        let mut once = self.once.borrow_mut();
        if once.len() <= place {
            once.resize(place + 1, Datum::Null);
        }
        once[place] = value;
    }

    /// The value of [`Running::note`].
    pub(crate) fn noted(&self, place: usize) -> Datum {
        self.once.borrow().get(place).cloned().unwrap_or(Datum::Null)
    }

    /// Counts the bytes of a row that is kept until the statement ends, or until [`Running::let_go`].
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if there are too many.
    pub fn keep(&self, row: &[Datum]) -> Result<usize> {
        self.try_keep(row).ok_or_else(|| self.out_of_memory())
    }

    /// The error of a statement that needs more memory than it may take.
    #[cold]
    pub(crate) fn out_of_memory(&self) -> SqlError {
        let what = "the statement needs more memory than it may take";
        let limit = self.limits.memory >> 20;
        SqlError::new(SqlState::OUT_OF_MEMORY, what)
            .with_detail(format!("What one statement keeps may take {limit} MB."))
            .with_hint("Raise statement_memory, or read fewer rows.")
    }

    /// Counts the bytes of a row that is kept. `None`, and nothing is counted, if there are too many.
    pub(crate) fn try_keep(&self, row: &[Datum]) -> Option<usize> {
        self.try_keep_bytes(size_of_row(row), 0)
    }

    /// The same, of a part of the statement that has kept `own` bytes and can go on with a file: it may keep a
    /// sixteenth of the limit whatever the others keep, so that its files have parts of some size.
    pub(crate) fn try_keep_or_spill(&self, row: &[Datum], own: usize) -> Option<usize> {
        self.try_keep_bytes(size_of_row(row), self.share().saturating_sub(own))
    }

    /// What a part of the statement that can go on with a file may keep whatever the others keep.
    pub(crate) fn share(&self) -> usize {
        self.limits.memory / 16
    }

    /// Counts bytes that are kept, if there is room for them or they are part of a share. Returns how many.
    pub(crate) fn try_keep_bytes(&self, bytes: usize, share: usize) -> Option<usize> {
        let kept = self.kept_bytes.get() + bytes;
        if kept > self.limits.memory && bytes > share {
            return None;
        }
        self.kept_bytes.set(kept);
        Some(bytes)
    }

    /// A temporary file for rows, of which `readers` parts are to be read at once.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if no file can be made, as beside a database that is read only; those
    /// of the disk.
    pub(crate) fn row_file(&self, readers: usize) -> Result<RowFile> {
        let Some(files) = &self.limits.temporary_files else { return Err(self.out_of_memory()) };
        let chunk_bytes = (self.limits.memory / 8 / readers.max(1)).clamp(4 << 10, 64 << 10);
        RowFile::create(files, self.limits.file_bytes, chunk_bytes).map_err(|error| {
            if error.state() == SqlState::READ_ONLY_SQL_TRANSACTION { self.out_of_memory() } else { error }
        })
    }

    /// Whether a row is the first of its kind, which is noted.
    ///
    /// # Errors
    /// [`OUT_OF_MEMORY`](SqlState::OUT_OF_MEMORY) if there are too many.
    pub(crate) fn is_new(&self, row: &[Datum], seen: &mut Seen) -> Result<bool> {
        if seen.rows.contains(row) {
            return Ok(false);
        }
        self.keep(row)?;
        seen.rows.insert(row.to_vec());
        Ok(true)
    }

    /// Rows of so many bytes are not kept any more.
    pub fn let_go(&self, bytes: usize) {
        self.kept_bytes.set(self.kept_bytes.get().saturating_sub(bytes));
    }

    /// Rows of so many bytes stay until the statement ends.
    pub(crate) fn keep_to_the_end(&self, bytes: usize) {
        self.lasting_bytes.set(self.lasting_bytes.get() + bytes);
    }

    /// Rows of so many bytes, which were to stay until the statement ends, are not kept any more.
    pub(crate) fn let_go_at_last(&self, bytes: usize) {
        self.lasting_bytes.set(self.lasting_bytes.get().saturating_sub(bytes));
        self.let_go(bytes);
    }

    /// Bytes that are kept, but for those that stay until the statement ends. What a part has kept is the difference
    /// between two answers, and is to be let go when the part ends.
    pub(crate) fn passing_bytes(&self) -> usize {
        self.kept_bytes.get().saturating_sub(self.lasting_bytes.get())
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// The bytes that a row takes, about.
pub(crate) fn size_of_row(row: &[Datum]) -> usize {
    row.iter().map(size_of_datum).sum::<usize>() + size_of::<Vec<Datum>>()
}

fn size_of_datum(datum: &Datum) -> usize {
    let heap = match datum {
        Datum::Text(text) | Datum::Json(text) => text.len() + 16,
        Datum::Bytes(bytes) => bytes.len() + 16,
        Datum::Array(array) => array.elements.iter().map(size_of_datum).sum(),
        Datum::Numeric(number) => number.heap_bytes(),
        Datum::Range(range) => size_of_range(range),
        Datum::Multirange(ranges) => ranges.iter().map(size_of_range).sum(),
        Datum::Record(values) => values.iter().map(|(_, value)| size_of_datum(value)).sum(),
        _ => 0,
    };
    size_of::<Datum>() + heap
}

fn size_of_range(range: &Range<Datum>) -> usize {
    let Some((lower, upper)) = range.bounds() else { return size_of::<Range<Datum>>() };
    let values = lower.parts().into_iter().chain(upper.parts()).map(|(value, _)| size_of_datum(value));
    size_of::<Range<Datum>>() + values.sum::<usize>()
}
