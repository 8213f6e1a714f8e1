//! Makes indexes and constraints agree with the rows again after a loss: what `quipu check --repair` does to a database
//! with rows.
//!
//! A repair of the engine ([`quipu::files::repair`]) saves the rows and the entries that can be read, each tree by
//! itself. So an index may have entries of rows that are lost, or lack those of rows that are there. A row may refer to
//! a lost one, and an older version of a row, or a deleted row, may be back. Only the rows count: indexes are built
//! again from them. A constraint that rows break is lifted and reported; no row is removed and no value is changed.
//!
//! Names that the catalogue has lost are put back, as definitions have them too, and so are its numbers.
//!
//! Not here: a lost definition. Nothing else says what the bytes of rows mean.

use std::collections::BTreeSet;

use quipu::{Db, Error, ErrorKind, Progress, Result};

use crate::catalogue::store::{self, CATALOGUE, NamedTable, Root};
use crate::change::indexes::BuildOptions;
use crate::check::{Wrong, WrongPart, check_parts};
use crate::database::Database;
use crate::definition::document::Unvalidated;
use crate::schema::constraint::{Deferral, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::schema::table::key_name;
use crate::value::Value;
use crate::value::data_type::DataType;

/// How often everything is looked at again after something was put right: an index that is whole again may show that
/// rows refer to nothing, and a constraint that is lifted may have hidden nothing else.
const ROUNDS_MAX: usize = 8;

/// What a repair of rows did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowRepair {
    /// What the catalogue had lost and has again: names of tables, and the numbers that are free.
    pub catalogue: Vec<String>,
    /// Indexes that were built again from the rows, as `table.index`.
    pub rebuilt: Vec<String>,
    /// Constraints that rows break, each with its table, what it said and a row that breaks it. They are not there any
    /// more, and can be added again once the rows keep them. A unique index is still there, and not unique.
    pub lifted: Vec<String>,
    /// What is still wrong.
    pub problems: Vec<String>,
}

/// Makes indexes and constraints agree with the rows that there are, as far as [`check`](crate::check()) finds that
/// they do not. Where it finds nothing, nothing is done.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) if a part of the catalogue is lost, and those of the disk.
pub fn repair(db: &Db, progress: &mut dyn FnMut(Progress)) -> Result<RowRepair> {
    let mut repair = RowRepair::default();
    let database = match Database::open(db) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            repair.catalogue = mend_catalogue(db, error)?;
            Database::open(db)?
        }
        database => database?,
    };
    // What cannot be put right: indexes of rows that cannot be read, for instance.
    let mut given_up: Vec<Wrong> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let (found, wrong) = check_parts(&database, progress)?;
        repair.problems = found.problems;
        // Only whole indexes tell whether a row refers to something.
        let (indexes, constraints): (Vec<Wrong>, Vec<Wrong>) =
            wrong.into_iter().partition(|wrong| matches!(wrong.part, WrongPart::Index(_)));
        let is_given_up = |wrong: &Wrong| given_up.iter().any(|up| up.table == wrong.table && up.part == wrong.part);
        let indexes: Vec<Wrong> = indexes.into_iter().filter(|wrong| !is_given_up(wrong)).collect();
        let now = if indexes.is_empty() && given_up.is_empty() { constraints } else { indexes };
        if now.is_empty() {
            break;
        }
        for wrong in now {
            match &wrong.part {
                WrongPart::Index(name) => {
                    if !repair.rebuild(&database, &wrong, name, progress)? {
                        given_up.push(wrong);
                    }
                }
                WrongPart::Constraint(mark) => match repair.lift(&database, &wrong, mark) {
                    Err(error) if error.kind() == ErrorKind::Invalid => given_up.push(wrong),
                    lifted => lifted?,
                },
            }
        }
    }
    Ok(repair)
}

/// Puts back what of the catalogue definitions tell. Returns what that was.
///
/// # Errors
/// `lost`, if that is not all that is lost; those of a commit.
fn mend_catalogue(db: &Db, lost: Error) -> Result<Vec<String>> {
    let Some(catalogue) = db.open_table(CATALOGUE)? else { return Err(lost) };
    let Ok((documents, names)) =
        store::documents(&catalogue).and_then(|found| Ok((found, store::entries(&catalogue)?)))
    else {
        return Err(lost);
    };
    let is_defined = |(_, entry): &(String, NamedTable)| documents.iter().any(|(number, _)| *number == entry.number);
    let trees = db.tables().into_iter().filter_map(|table| store::tree_number(table.name())).collect::<BTreeSet<_>>();
    let named = documents.iter().flat_map(|(_, document)| document.trees()).collect::<BTreeSet<_>>();
    // A tree without a definition may be what a crash has left, or rows whose definition is lost.
    if !names.iter().all(is_defined) || trees != named {
        return Err(lost);
    }
    let mut mended = Vec::new();
    // No version of a definition is above the number of commits.
    let version = db.snapshot().sequence() + 1;
    db.write(|transaction| {
        let catalogue = transaction.table(&catalogue)?;
        for (number, document) in &documents {
            let name = &document.schema.table;
            if names.iter().any(|(_, entry)| entry.number == *number) {
                continue;
            }
            if store::entry(&catalogue, name)?.is_some() {
                return Err(lost);
            }
            store::put_entry(&catalogue, name, NamedTable { number: *number, version })?;
            mended.push(format!("the name of table {name}"));
        }
        let tables = documents.len() as u64;
        if store::root(&catalogue)?.is_none_or(|root| root.tables != tables) {
            let next_table = documents.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
            let next_tree = trees.last().map_or(1, |tree| tree + 1);
            store::put_root(&catalogue, &Root { next_table, next_tree, tables, ..Root::NEW })?;
            mended.push("the numbers of tables and trees".to_owned());
        }
        Ok(())
    })?;
    Ok(mended)
}

impl RowRepair {
    /// Builds an index again. Returns whether that went well.
    fn rebuild(
        &mut self,
        database: &Database,
        wrong: &Wrong,
        name: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<bool> {
        match database.rebuild_index(&wrong.table, name, progress) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Exists => {
                self.make_not_unique(database, wrong, name, progress)?;
                self.lifted.push(format!("unique of the index {}.{name}: {error}", wrong.table));
            }
            // A row that cannot be read is told among the problems, as is what is wrong with the index.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid) => return Ok(false),
            Err(error) => return Err(error),
        }
        let index = format!("{}.{name}", wrong.table);
        if !self.rebuilt.contains(&index) {
            self.rebuilt.push(index);
        }
        Ok(true)
    }

    /// Puts an index that is not unique in the place of one that is; foreign keys that rely on it go.
    fn make_not_unique(
        &mut self,
        database: &Database,
        wrong: &Wrong,
        name: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let table = &wrong.table;
        let schema = database.table(table)?.schema()?;
        let Some(declared) = schema.indexes.iter().find(|index| index.name == name) else { return Ok(()) };
        let mut other = declared.clone();
        other.unique = false;
        other.name = "not unique".to_owned();
        let other_name = other.name.clone();
        database.create_index(table, other, progress)?;
        if let Err(error) = database.drop_index(table, name) {
            if error.kind() != ErrorKind::Invalid {
                return Err(error);
            }
            for (child, foreign_key) in relying_on(database, table, declared)? {
                database.drop_constraint(&child, &foreign_key.name)?;
                self.lifted.push(lifted(&child, &foreign_key, &format!("it relies on the index {table}.{name}")));
            }
            database.drop_index(table, name)?;
        }
        database.rename_constraint(table, &other_name, name)
    }

    fn lift(&mut self, database: &Database, wrong: &Wrong, mark: &Unvalidated) -> Result<()> {
        let table = &wrong.table;
        let schema = database.table(table)?.schema()?;
        let what = match mark {
            Unvalidated::NotNull(column) => {
                database.drop_not_null(table, column)?;
                format!("NOT NULL of column {column} of table {table}: {}", wrong.problem)
            }
            Unvalidated::Check(name) => {
                let condition = schema.checks.iter().find(|check| check.name == *name);
                let condition = condition.map(|check| check.condition.clone()).unwrap_or_default();
                database.drop_constraint(table, name)?;
                format!("check {name} `{condition}` of table {table}: {}", wrong.problem)
            }
            Unvalidated::ForeignKey(name) => {
                let Some(declared) = schema.foreign_keys.iter().find(|declared| declared.name == *name) else {
                    return Ok(());
                };
                database.drop_constraint(table, name)?;
                lifted(table, declared, &wrong.problem)
            }
            Unvalidated::Index(_) => return Ok(()),
        };
        self.lifted.push(what);
        Ok(())
    }
}

/// What is said of a foreign key that is lifted.
fn lifted(table: &str, declared: &ForeignKey, why: &str) -> String {
    let ForeignKey { name, columns, table: parent, references, on_delete, on_update, deferral, .. } = declared;
    let (columns, references) = (columns.join(", "), references.join(", "));
    let when = match deferral {
        Deferral::Never => "",
        Deferral::OnDemand => ", deferrable",
        Deferral::Deferred => ", deferred",
    };
    format!(
        "foreign key {name} of table {table}, ({columns}) to {parent} ({references}), on delete {on_delete}, on update \
         {on_update}{when}: {why}"
    )
}

/// The foreign keys that refer to the columns of a unique index, each with its table.
fn relying_on(database: &Database, parent: &str, index: &IndexSchema) -> Result<Vec<(String, ForeignKey)>> {
    let texts = index.columns.iter().flat_map(|text| text.split(','));
    let columns: BTreeSet<String> = texts.map(|text| key_name(text).trim_matches('"').replace("\"\"", "\"")).collect();
    let mut found = Vec::new();
    for table in database.tables()? {
        let declared = database.table(&table)?.schema()?.foreign_keys.into_iter();
        let relies = declared.filter(|declared| {
            declared.table == parent && declared.references.iter().cloned().collect::<BTreeSet<_>>() == columns
        });
        found.extend(relies.map(|declared| (table.clone(), declared)));
    }
    Ok(found)
}

impl Database {
    /// Builds an index again from the rows: for one of which [`check`](crate::check()) says that its entries are not
    /// those of the rows. Readers and writers go on; they use the old entries until the new ones are ready.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none of that name; [`Exists`](ErrorKind::Exists) if it is unique and
    /// two rows have the same values, which are named; those of [`Database::add_column`]. Then the old entries stay.
    pub fn rebuild_index(&self, table: &str, index: &str, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.shared().rebuild_index(table, index, &BuildOptions::default(), progress)
    }

    /// The values that a key has in a tree of a table or an index, with their types, as far as its bytes tell them: the
    /// end of a range may be a part of a key. `None` for other trees. It makes the lost keys readable that
    /// [`quipu::files::repair`] reports.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn key_of_tree(&self, tree: &str, key: &[u8]) -> Result<Option<Vec<(Value<'static>, DataType)>>> {
        let Some(number) = store::tree_number(tree) else { return Ok(None) };
        for name in self.tables()? {
            let Some(definition) = self.shared().definition(self.db(), &name)? else { continue };
            let place = definition.document.indexes.iter().position(|index| index.tree == number);
            let shape = match place {
                Some(place) => &definition.indexes[place].key,
                None if definition.document.tree == number => &definition.primary.key,
                None => continue,
            };
            let (values, _) = shape.decode(key);
            let types = shape.columns.iter().map(|column| column.data_type);
            return Ok(Some(values.into_iter().map(Value::into_owned).zip(types).collect()));
        }
        Ok(None)
    }
}
