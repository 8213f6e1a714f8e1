//! Checks whether rows, indexes and constraints agree: the part of `quipu check` for a database with rows.
//!
//! It checks one snapshot: every row is valid for its table and satisfies its constraints, and every index has exactly
//! the entries of the rows. Counts are compared by tally, contents by a walk over the rows and one over each index. So
//! an index is checked in both directions: it has as many entries as there are rows, and each entry is that of a row.
//!
//! Cost: a scan of each table, and for each index a scan with a look-up for each entry, many together. Memory: some
//! hundred entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu::{Db, Progress, ReadableTable, Result, Snapshot, TableView};

use crate::catalogue::engine_tables::Trees;
use crate::catalogue::shared::Shared;
use crate::catalogue::store;
use crate::change::indexes::index_entry;
use crate::database::Database;
use crate::definition::document::Unvalidated;
use crate::definition::index::{IndexDefinition, RowKey};
use crate::definition::row::encode_key;
use crate::definition::table::TableDefinition;
use crate::encoding::layout::sum_of_value;
use crate::read::row::RowView;
use crate::schema::constraint::Constraint;
use crate::value::{Value, Values};
use crate::write::complete;
use crate::write::references;
use crate::write::unique_later;
use crate::write::violations::{broken_in_column, list};

/// Problems of one kind and table that are told one by one; the others are counted.
const TOLD_MAX: usize = 20;
/// Entries whose rows are looked up together.
const LOOKED_UP_TOGETHER: usize = 256;

/// What was looked at, and what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCheck {
    /// Tables of rows.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Entries of their indexes.
    pub entries: u64,
    /// What is wrong, each with the table and the row; at most some of each kind.
    pub problems: Vec<String>,
    /// What is there and nothing is wrong with: what a change of a schema has left that a crash cut short.
    pub notes: Vec<String>,
}

/// A part of a table that does not agree with its rows, with the first problem that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) table: String,
    pub(crate) part: WrongPart,
    pub(crate) problem: String,
}

/// What a row or an entry can be at odds with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongPart {
    /// The index of this name.
    Index(String),
    /// A constraint, marked as those are that are not validated yet.
    Constraint(Unvalidated),
}

/// Looks whether rows, indexes and constraints agree, at one moment. Others may write meanwhile.
///
/// # Errors
/// Those of reading the catalogue. What is wrong with tables is in the answer.
pub fn check(db: &Db, progress: &mut dyn FnMut(Progress)) -> Result<RowCheck> {
    Ok(check_parts(&Database::open(db)?, progress)?.0)
}

/// [`check`], with the parts of tables that are wrong.
pub(crate) fn check_parts(database: &Database, progress: &mut dyn FnMut(Progress)) -> Result<(RowCheck, Vec<Wrong>)> {
    let shared = database.shared();
    let snapshot = database.db().snapshot();
    let mut checker = Checker { shared, snapshot: &snapshot, found: RowCheck::default(), wrong: Vec::new(), progress };
    let Some(catalogue) = shared.catalogue() else { return Ok((checker.found, checker.wrong)) };
    let catalogue = snapshot.table(catalogue)?;
    let mut named: BTreeMap<u32, String> = BTreeMap::new();
    for (name, entry) in store::entries(&catalogue)? {
        checker.found.tables += 1;
        let definition = match shared.known.definition(&snapshot, shared.catalogue().expect("it was read"), entry) {
            Ok(definition) => definition,
            Err(error) => {
                checker.problem(format!("table {name}: {error}"));
                continue;
            }
        };
        if definition.name() != name {
            checker.problem(format!("table {name}: its definition is of table {}", definition.name()));
        }
        for tree in definition.document.trees() {
            if let Some(other) = named.insert(tree, name.clone()) {
                checker.problem(format!("tables {name} and {other} lie in the same tree, {}", store::tree_name(tree)));
            }
        }
        if let Err(error) = checker.check_table(&definition) {
            checker.problem(format!("table {name}: {error}"));
        }
    }
    for name in snapshot.tables() {
        let is_stray = |tree| !named.contains_key(&tree) && !shared.left.has_tree(tree);
        if store::tree_number(&name).is_some_and(is_stray) && !shared.changes.go_on() {
            let what = "a change of a schema that did not end has left it, and the next opening for writing removes it";
            checker.found.notes.push(format!("the tree {name} belongs to no table: {what}"));
        }
    }
    Ok((checker.found, checker.wrong))
}

struct Checker<'c> {
    shared: &'c Shared,
    snapshot: &'c Snapshot,
    found: RowCheck,
    wrong: Vec<Wrong>,
    progress: &'c mut dyn FnMut(Progress),
}

/// Problems of one table, of which some are told.
#[derive(Default)]
struct Problems {
    told: Vec<String>,
    count: usize,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(problem());
        }
    }
}

impl Checker<'_> {
    fn problem(&mut self, problem: String) {
        self.found.problems.push(problem);
    }

    /// Notes that a part of a table is wrong.
    fn note(&mut self, definition: &TableDefinition, part: WrongPart, problem: String) {
        let is_same = |wrong: &Wrong| wrong.table == definition.name() && wrong.part == part;
        if !self.wrong.iter().any(is_same) {
            self.wrong.push(Wrong { table: definition.name().to_owned(), part, problem });
        }
    }

    /// Adds the problems of a table or an index.
    fn take(&mut self, owner: &str, problems: Problems) {
        let untold = problems.count - problems.told.len();
        self.found.problems.extend(problems.told);
        if untold > 0 {
            self.problem(format!("{owner}: {untold} more of these"));
        }
    }

    fn check_table(&mut self, definition: &Arc<TableDefinition>) -> Result<()> {
        let owner = &definition.primary.key.owner;
        let rows = self.snapshot.table(&definition.rows)?;
        let (total, mut done) = (rows.len()?, 0);
        // How many entries each index must have, and the sum over them.
        let mut expected = vec![(0u64, 0i64); definition.indexes.len()];
        let (mut problems, mut failed, mut sum) = (Problems::default(), None, 0i64);
        let mut broken: Vec<(Unvalidated, String)> = Vec::new();
        let progress = &mut *self.progress;
        rows.for_each(.., |key, value| {
            done += 1;
            if done % 10_000 == 0 || done == total {
                progress(Progress { stage: "checking rows", done, total });
            }
            match row_of(definition, key, value) {
                Ok(row) => {
                    sum = sum.wrapping_add(definition.sum.map_or(0, |place| sum_of_value(&row[place])));
                    let checked = self.shared.check_row(self.snapshot, definition, &row, &mut |mark, problem| {
                        if !broken.iter().any(|(known, _)| *known == mark) {
                            broken.push((mark, problem.clone()));
                        }
                        problems.add(|| problem);
                    });
                    if let Err(error) = checked {
                        problems.add(|| format!("{owner}, row {}: {error}", definition.primary.key.show(key)));
                    }
                    if let Err(error) = add_expected(definition, key, value, &row, &mut expected) {
                        failed = Some(error);
                    }
                }
                Err(what) => problems.add(|| format!("{owner}, row {}: {what}", definition.primary.key.show(key))),
            }
            failed.is_none()
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.found.rows += done;
        self.take(owner, problems);
        for (mark, problem) in broken {
            self.note(definition, WrongPart::Constraint(mark), problem);
        }
        if done != total {
            self.problem(format!("{owner}: {done} rows are there, {total} are counted"));
        }
        if definition.sum.is_some() {
            self.check_sum(owner, &rows, sum)?;
        }
        for (index, expected) in definition.indexes.iter().zip(expected).filter(|(index, _)| index.is_ready()) {
            let before = self.found.problems.len();
            if let Err(error) = self.check_index(definition, index, &rows, expected) {
                self.problem(format!("{}: {error}", index.key.owner));
            }
            if let Some(problem) = self.found.problems.get(before).cloned() {
                self.note(definition, WrongPart::Index(index.declared.name.clone()), problem);
            }
            if !index.declared.deferral.is_never() {
                self.check_unique(index)?;
            }
        }
        Ok(())
    }

    /// Looks whether a tree keeps the sum of its rows.
    fn check_sum(&mut self, owner: &str, tree: &TableView<'_>, sum: i64) -> Result<()> {
        let kept = tree.tally(..)?.sum;
        if kept != sum {
            self.problem(format!("{owner}: the sum of its rows is {sum}, {kept} is kept"));
        }
        Ok(())
    }

    /// Looks whether no two rows have the same values of an index that is unique when a transaction is done.
    fn check_unique(&mut self, index: &IndexDefinition) -> Result<()> {
        let entries = self.snapshot.tree(&index.tree)?;
        let (mut last, mut problems): (Vec<u8>, _) = (Vec::new(), Problems::default());
        let mut walk = entries.range(..);
        while let Some((key, _)) = walk.lend_next()? {
            let values = unique_later::values_in(index, key);
            if !last.is_empty() && last == values && !unique_later::has_null(index, key)? {
                problems
                    .add(|| format!("{}: several rows have the values of {}", index.key.owner, index.key.show(key)));
            }
            last.clear();
            last.extend_from_slice(values);
        }
        self.take(&index.key.owner, problems);
        Ok(())
    }

    fn check_index(
        &mut self,
        definition: &TableDefinition,
        index: &IndexDefinition,
        rows: &TableView<'_>,
        (expected, sum): (u64, i64),
    ) -> Result<()> {
        let owner = &index.key.owner;
        let entries = self.snapshot.tree(&index.tree)?;
        let counted = entries.len()?;
        if counted != expected {
            self.problem(format!("{owner}: {counted} entries are counted, the rows have {expected}"));
        }
        if index.sum.is_some() {
            self.check_sum(owner, &entries, sum)?;
        }
        let (mut problems, mut done) = (Problems::default(), 0);
        let shown_entry = |key: &[u8]| format!("{owner}, entry {}", index.key.show(key));
        let shown_row = |key: &[u8]| definition.primary.key.show(key);
        let mut walk = entries.range(..);
        let (mut own_key, mut own_value) = (Vec::new(), Vec::new());
        loop {
            let mut found: Vec<(RowKey, Vec<u8>, Vec<u8>)> = Vec::new();
            while found.len() < LOOKED_UP_TOGETHER
                && let Some((key, value)) = walk.lend_next()?
            {
                done += 1;
                match index.row_key(key, value) {
                    Ok(row_key) => found.push((row_key, key.to_vec(), value.to_vec())),
                    Err(error) => problems.add(|| format!("{}: {error}", shown_entry(key))),
                }
            }
            if found.is_empty() {
                break;
            }
            (self.progress)(Progress { stage: "checking entries", done, total: counted });
            let keys: Vec<&RowKey> = found.iter().map(|(row_key, _, _)| row_key).collect();
            let values = rows.get_many(&keys)?;
            for ((row_key, key, value), row) in found.iter().zip(values) {
                let Some(row) = row else {
                    problems.add(|| format!("{}: its row {} is not there", shown_entry(key), shown_row(row_key)));
                    continue;
                };
                let Ok(view) = RowView::new(definition, row_key, &row) else { continue };
                let own = index_entry(definition, index, &view, &mut own_key, &mut own_value);
                if matches!(own, Ok(true)) && own_key == *key && own_value == *value {
                    continue;
                }
                problems.add(|| {
                    let what = wrong_entry(
                        index,
                        (key, value),
                        own.map(|is_there| is_there.then_some((&own_key, &own_value))),
                        &shown_row(row_key),
                    );
                    format!("{}: {what}", shown_entry(key))
                });
            }
        }
        self.found.entries += done;
        self.take(owner, problems);
        if done != counted {
            self.problem(format!("{owner}: {done} entries are there, {counted} are counted"));
        }
        Ok(())
    }
}

/// What is wrong with an entry, beside the one that its row should have.
#[cold]
fn wrong_entry(
    index: &IndexDefinition,
    (key, value): (&[u8], &[u8]),
    own: Result<Option<(&Vec<u8>, &Vec<u8>)>>,
    row: &str,
) -> String {
    match own {
        Ok(Some((own_key, own_value))) if own_key == key => {
            format!("it holds {}, its row {row} says {}", shown(value), shown(own_value))
        }
        Ok(Some((own_key, _))) => format!("the row {row} has the entry {}", index.key.show(own_key)),
        Ok(None) => format!("the row {row} has none"),
        Err(error) => error.to_string(),
    }
}

/// The first bytes of a value, in hexadecimal.
fn shown(key: &[u8]) -> String {
    let digits: String = key.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    if key.len() > 40 { format!("{digits}...") } else { digits }
}

/// The values of a row, each looked at.
///
/// # Errors
/// What is wrong with its bytes.
fn row_of<'r>(definition: &'r TableDefinition, key: &'r [u8], value: &'r [u8]) -> Result<Values<'r>, String> {
    let view = RowView::new(definition, key, value).map_err(|error| error.to_string())?;
    let mut row = Values::new();
    for (place, column) in definition.columns.iter().enumerate() {
        let value = view.value(place).map_err(|error| format!("column {}: {error}", column.declared.name))?;
        row.push(value);
    }
    let mut own_key = Vec::new();
    encode_key(definition, &row, &mut own_key);
    if own_key != key {
        return Err(format!("its values {} have another key, {}", list(&row), definition.primary.key.show(&own_key)));
    }
    Ok(row)
}

/// Adds what a row must have in each index.
fn add_expected(
    definition: &TableDefinition,
    key: &[u8],
    value: &[u8],
    row: &[Value<'_>],
    expected: &mut [(u64, i64)],
) -> Result<()> {
    let view = RowView::new(definition, key, value)?;
    for (index, (entries, sum)) in definition.indexes.iter().zip(expected) {
        let is_in = match &index.predicate {
            None => true,
            Some(predicate) => matches!(predicate.holds(&view), Ok(Some(true))),
        };
        if is_in {
            *entries += 1;
            *sum = sum.wrapping_add(index.sum.map_or(0, |place| sum_of_value(&row[place])));
        }
    }
    Ok(())
}

impl Shared {
    /// Looks whether a row keeps the constraints of its table, and tells of each that it breaks.
    ///
    /// # Errors
    /// Those of reading what it refers to.
    fn check_row(
        &self,
        snapshot: &Snapshot,
        definition: &TableDefinition,
        row: &Values<'_>,
        is_broken: &mut dyn FnMut(Unvalidated, String),
    ) -> Result<()> {
        let unvalidated = &definition.document.unvalidated;
        for (place, column) in definition.columns.iter().enumerate() {
            if !column.is_nullable && row[place].is_null() {
                let what = "NULL in a column that is NOT NULL";
                let error = broken_in_column(definition, row, place, Constraint::NotNull, what);
                is_broken(Unvalidated::NotNull(column.declared.name.clone()), error.to_string());
            }
        }
        for check in &definition.checks {
            let mark = Unvalidated::Check(check.declared.name.clone());
            if !check.declared.not_valid
                && !check.condition.is_when_written()
                && !unvalidated.contains(&mark)
                && let Err(error) = complete::check_one(definition, row, check)
            {
                is_broken(mark, error.to_string());
            }
        }
        for foreign_key in &definition.foreign_keys {
            let mark = Unvalidated::ForeignKey(foreign_key.declared.name.clone());
            if foreign_key.declared.not_valid || unvalidated.contains(&mark) {
                continue;
            }
            let parent = self.parent_in(snapshot, definition, foreign_key.table)?;
            let parent = parent.as_deref().unwrap_or(definition);
            let Some((tree, key)) = references::referred_key(foreign_key, parent, row)? else { continue };
            if !snapshot.table(tree)?.contains(key)? {
                is_broken(mark, references::without_row(definition, foreign_key, parent, row).to_string());
            }
        }
        Ok(())
    }
}
