//! Checks constraints later: foreign keys and unique values, at the end of a group of statements or of the transaction.
//!
//! An entry is checked by the keys that rows have then. It stays after a check that passed, since ROLLBACK TO can bring
//! the fault back; the time when constraints are checked comes back with it.
//! `write::references` and `write::unique_later` do the looking.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use quipu::{Result, Savepoint};
use smallvec::SmallVec;

use crate::catalogue::savepoints::SavepointStates;
use crate::definition::document::{TableNumber, TreeNumber};
use crate::definition::index::RowKey;
use crate::definition::table::TableDefinition;
use crate::schema::constraint::Deferral;
use crate::transaction::RowTransaction;
use crate::value::Value;

/// A row whose columns of foreign keys have changed, and which columns.
pub(crate) struct Moved {
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) changed: SmallVec<[usize; 4]>,
}

/// A row that went or changed though rows that refer to it may restrict that.
#[derive(Clone)]
pub(crate) struct Restricted {
    /// Its table, and the row as it was.
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) row: Vec<Value<'static>>,
    /// The foreign key, by its number in the table of the rows that refer to it.
    pub(crate) child: Arc<TableDefinition>,
    pub(crate) foreign_key: usize,
    /// Whether that is told when the statement is done, and never when the transaction ends.
    pub(crate) is_at_once: bool,
}

/// What is to be looked at.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) moved: BTreeMap<(TableNumber, RowKey), Moved>,
    pub(crate) restricted: Vec<Restricted>,
    pub(crate) repeated: BTreeSet<Repeated>,
}

/// Values that several rows had: the beginning of their entries' keys, with the numbers of the table and of the index.
pub(crate) type Repeated = (TableNumber, TreeNumber, Vec<u8>);

impl Waiting {
    pub(crate) fn note(&mut self, definition: &Arc<TableDefinition>, key: &[u8], changed: &[usize]) {
        let place = (definition.number, RowKey::from_slice(key));
        let moved = self.moved.entry(place);
        let moved = moved.or_insert_with(|| Moved { definition: Arc::clone(definition), changed: SmallVec::new() });
        moved.definition = Arc::clone(definition);
        for place in changed {
            if !moved.changed.contains(place) {
                moved.changed.push(*place);
            }
        }
    }

    /// A row has another key: what was to be looked at there is looked at here, too.
    fn follow(&mut self, definition: &Arc<TableDefinition>, key: &[u8], new_key: &[u8]) {
        if self.moved.is_empty() {
            return;
        }
        if let Some(moved) = self.moved.get(&(definition.number, RowKey::from_slice(key))) {
            let changed = moved.changed.clone();
            self.note(definition, new_key, &changed);
        }
    }

    pub(crate) fn extend(&mut self, other: Waiting) {
        for ((_, key), Moved { definition, changed }) in other.moved {
            self.note(&definition, &key, &changed);
        }
        self.restricted.extend(other.restricted);
        self.repeated.extend(other.repeated);
    }
}

type CheckFn = fn(&RowTransaction<'_>) -> Result<()>;

/// What waits in a transaction.
#[derive(Default)]
pub(crate) struct Postponed {
    /// For the end of statements that are one; none unless some are under way.
    pub(crate) together: RefCell<Option<Waiting>>,
    /// For the end of the transaction.
    pub(crate) deferred: RefCell<Waiting>,
    /// What looks at the foreign keys among the latter, and at all that waits there.
    pub(crate) check: Cell<Option<CheckFn>>,
    /// What looks at the values among the latter that no two rows may have.
    pub(crate) check_unique: Cell<Option<CheckFn>>,
    /// What the transaction says of constraints that can be deferred.
    said: RefCell<Deferring>,
    /// The same at each savepoint.
    marks: RefCell<SavepointStates<Deferring>>,
}

/// When constraints that can be deferred are looked at, as far as a transaction says so.
#[derive(Clone, Default)]
pub(crate) struct Deferring {
    all: Option<bool>,
    named: HashMap<String, bool>,
}

impl Postponed {
    /// Whether a constraint of this name is looked at when the transaction ends.
    pub(crate) fn defers(&self, name: &str, deferral: Deferral) -> bool {
        if deferral == Deferral::Never {
            return false;
        }
        let said = self.said.borrow();
        let named = said.named.get(name).copied();
        named.or(said.all).unwrap_or(deferral == Deferral::Deferred)
    }

    /// Says when constraints of these names, or all, are looked at. Returns what was said before.
    pub(crate) fn defer(&self, names: Option<&[String]>, deferred: bool) -> Deferring {
        let mut said = self.said.borrow_mut();
        let before = said.clone();
        match names {
            None => *said = Deferring { all: Some(deferred), named: HashMap::new() },
            Some(names) => said.named.extend(names.iter().map(|name| (name.clone(), deferred))),
        }
        before
    }

    /// Comes back to what was said before.
    pub(crate) fn defer_as(&self, before: Deferring) {
        self.said.replace(before);
    }

    /// Marks a point to roll back to.
    pub(crate) fn mark(&self, savepoint: Savepoint) {
        self.marks.borrow_mut().mark(savepoint, self.said.borrow().clone());
    }

    /// Comes back to what was said at the savepoint, which stays.
    pub(crate) fn roll_back_to(&self, savepoint: Savepoint) {
        if let Some(said) = self.marks.borrow_mut().back_to(savepoint) {
            self.said.replace(said.clone());
        }
    }

    /// Forgets the savepoint and those after it.
    pub(crate) fn release(&self, savepoint: Savepoint) {
        self.marks.borrow_mut().release(savepoint);
    }

    /// Leaves a check for later: for the end of the transaction, or for the end of statements that run as one. Returns
    /// false if it is to be made now.
    pub(crate) fn note(&self, deferred: bool, waiting: impl FnOnce(&mut Waiting)) -> bool {
        if deferred {
            waiting(&mut self.deferred.borrow_mut());
            return true;
        }
        match &mut *self.together.borrow_mut() {
            Some(together) => {
                waiting(together);
                true
            }
            None => false,
        }
    }

    /// The transaction ends: nothing is deferred any more.
    pub(crate) fn end(&self) {
        self.defer(None, false);
    }

    /// A row of a table has another key.
    pub(crate) fn follow(&self, definition: &Arc<TableDefinition>, key: &[u8], new_key: &[u8]) {
        if key != new_key {
            self.deferred.borrow_mut().follow(definition, key, new_key);
            if let Some(together) = &mut *self.together.borrow_mut() {
                together.follow(definition, key, new_key);
            }
        }
    }
}
