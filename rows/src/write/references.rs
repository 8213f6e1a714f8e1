//! Rows that refer to each other.
//!
//! A row that refers to another looks whether it is there; a row that goes or changes looks who refers to it. Both are
//! reads of the transaction, so one of two transactions that do both at once is refused. What becomes of the rows that
//! refer to it is in `consequences`.

use std::sync::Arc;

use quipu::{Error, ErrorKind, ReadableTable, Result};

use crate::catalogue::engine_tables::Trees;
use crate::definition::foreign::ForeignKeyDefinition;
use crate::definition::index::{IndexDefinition, begins_with};
use crate::definition::row::encode_key;
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::encoding::key_shape::KeyShape;
use crate::read::row::RowView;
use crate::schema::constraint::{Action, Constraint};
use crate::transaction::RowTransaction;
use crate::transaction::deferred_constraints::{Moved, Restricted, Waiting};
use crate::value::{Value, Values};
use crate::write::consequences::{Consequences, Referring};
use crate::write::unique_later;
use crate::write::violations::{broken, list};

/// A way to find rows by the values of some columns.
pub(crate) enum Access<'d> {
    /// By the primary key, or its beginning.
    Primary,
    /// By an index, or its beginning.
    Index(&'d IndexDefinition),
}

impl Access<'_> {
    fn key<'s>(&'s self, definition: &'s TableDefinition) -> &'s KeyShape {
        match self {
            Access::Primary => &definition.primary.key,
            Access::Index(index) => &index.key,
        }
    }

    /// The columns that it begins with.
    fn columns(&self, definition: &TableDefinition) -> Vec<Option<usize>> {
        match self {
            Access::Primary => definition.primary.places.iter().map(|&place| Some(place)).collect(),
            Access::Index(index) => index.expressions.iter().map(|expression| expression.as_column()).collect(),
        }
    }
}

/// The way to the one row that has values of these columns: the primary key or a unique index of all rows.
pub(crate) fn unique_access<'d>(definition: &'d TableDefinition, places: &[usize]) -> Option<Access<'d>> {
    let is_whole = |columns: &[Option<usize>]| columns.len() == places.len() && begins_with(columns, places);
    if is_whole(&Access::Primary.columns(definition)) {
        return Some(Access::Primary);
    }
    let indexes = definition.indexes.iter().filter(|index| index.is_ready() && index.declared.unique);
    let mut indexes = indexes.filter(|index| index.predicate.is_none()).map(|index| Access::Index(index));
    indexes.find(|access| is_whole(&access.columns(definition)))
}

/// The way to all rows that have values of these columns: a key or an index of all rows that begins with them.
pub(crate) fn prefix_access<'d>(definition: &'d TableDefinition, places: &[usize]) -> Option<Access<'d>> {
    prefix_accesses(definition, places).next()
}

/// All of them, the primary key first.
pub(crate) fn prefix_accesses<'d>(
    definition: &'d TableDefinition,
    places: &[usize],
) -> impl Iterator<Item = Access<'d>> {
    let indexes = definition.indexes.iter().filter(|index| index.is_ready() && index.predicate.is_none());
    let all = std::iter::once(Access::Primary).chain(indexes.map(|index| Access::Index(index)));
    all.filter(move |access| begins_with(&access.columns(definition), places))
}

/// The beginning of the key of rows with these values of these columns.
fn key_with(
    definition: &TableDefinition,
    access: &Access<'_>,
    places: &[usize],
    values: &[Value<'_>],
) -> Result<Vec<u8>> {
    let mut ordered = Vec::with_capacity(values.len());
    for column in access.columns(definition).iter().take(values.len()) {
        let at = places.iter().position(|place| Some(*place) == *column).unwrap_or_default();
        ordered.push(values[at].borrowed());
    }
    let mut key = Vec::new();
    access.key(definition).encode(&ordered, &mut key)?;
    Ok(key)
}

/// The values of a foreign key's columns; none if one of them is NULL.
fn referring<'v>(foreign_key: &ForeignKeyDefinition, row: &[Value<'v>]) -> Option<Vec<Value<'v>>> {
    let values: Vec<Value<'v>> = foreign_key.columns.iter().map(|&place| row[place].clone()).collect();
    (!values.iter().any(Value::is_null)).then_some(values)
}

/// The places, in the table that is referred to, of a foreign key's columns.
pub(crate) fn referred_places(foreign_key: &ForeignKeyDefinition, parent: &TableDefinition) -> Result<Vec<usize>> {
    foreign_key.declared.references.iter().map(|name| parent.place(name)).collect()
}

/// The tree in which a referred row must have an entry, and its key there; none if the row refers to nothing.
pub(crate) fn referred_key<'p>(
    foreign_key: &ForeignKeyDefinition,
    parent: &'p TableDefinition,
    row: &[Value<'_>],
) -> Result<Option<(&'p quipu::Table, Vec<u8>)>> {
    let Some(values) = referring(foreign_key, row) else { return Ok(None) };
    referred_by(foreign_key, parent, &values).map(Some)
}

/// The tree in which the row that these values of a foreign key refer to has an entry, and its key there.
fn referred_by<'p>(
    foreign_key: &ForeignKeyDefinition,
    parent: &'p TableDefinition,
    values: &[Value<'_>],
) -> Result<(&'p quipu::Table, Vec<u8>)> {
    let places = referred_places(foreign_key, parent)?;
    let access = unique_access(parent, &places).ok_or_else(|| no_access(parent, &foreign_key.declared.references))?;
    let key = key_with(parent, &access, &places, values)?;
    let tree = match access {
        Access::Primary => &parent.rows,
        Access::Index(index) => &index.tree,
    };
    Ok((tree, key))
}

/// Whether a foreign key is looked at when the transaction ends.
fn defers(transaction: &RowTransaction<'_>, foreign_key: &ForeignKeyDefinition) -> bool {
    transaction.postponed.defers(&foreign_key.declared.name, foreign_key.declared.deferral)
}

/// The tree and the range of the rows of a table that refer to these values.
pub(crate) fn referring_range<'c>(
    child: &'c TableDefinition,
    foreign_key: &ForeignKeyDefinition,
    values: &[Value<'_>],
) -> Result<(&'c quipu::Table, KeyRange)> {
    let access = referring_access(child, foreign_key)?;
    let range = KeyRange::beginning_with(key_with(child, &access, &foreign_key.columns, values)?);
    let tree = match access {
        Access::Primary => &child.rows,
        Access::Index(index) => &index.tree,
    };
    Ok((tree, range))
}

pub(crate) fn referring_access<'c>(
    child: &'c TableDefinition,
    foreign_key: &ForeignKeyDefinition,
) -> Result<Access<'c>> {
    prefix_access(child, &foreign_key.columns).ok_or_else(|| no_access(child, &foreign_key.declared.columns))
}

/// Fails if the row refers to a row that is not there, or leaves that for later. `changed` is `None` for a new row.
pub(crate) fn check_referred(
    transaction: &RowTransaction<'_>,
    definition: &Arc<TableDefinition>,
    row: &[Value<'_>],
    changed: Option<&[usize]>,
) -> Result<()> {
    for foreign_key in &definition.foreign_keys {
        if changed.is_some_and(|changed| !foreign_key.columns.iter().any(|place| changed.contains(place))) {
            continue;
        }
        check_reference(transaction, definition, foreign_key, row)?;
    }
    Ok(())
}

/// Fails if the row refers by a foreign key to a row that is not there, or leaves that for later.
pub(crate) fn check_reference(
    transaction: &RowTransaction<'_>,
    definition: &Arc<TableDefinition>,
    foreign_key: &ForeignKeyDefinition,
    row: &[Value<'_>],
) -> Result<()> {
    let parent = transaction.definition_of(foreign_key.table)?;
    let Some((tree, key)) = referred_key(foreign_key, &parent, row)? else { return Ok(()) };
    if transaction.relying_tree(tree)?.contains(key)? {
        return Ok(());
    }
    let deferred = defers(transaction, foreign_key);
    let mut key = Vec::new();
    encode_key(definition, row, &mut key);
    if postpone(transaction, deferred, |waiting| waiting.note(definition, &key, &foreign_key.columns)) {
        return Ok(());
    }
    Err(without_row(definition, foreign_key, &parent, row))
}

/// The error of a row that refers to one that is not there.
#[cold]
pub(crate) fn without_row(
    definition: &TableDefinition,
    foreign_key: &ForeignKeyDefinition,
    parent: &TableDefinition,
    row: &[Value<'_>],
) -> Error {
    let (name, parent) = (&foreign_key.declared.name, parent.name());
    let values = list(foreign_key.columns.iter().map(|&place| &row[place]));
    let what = format!("foreign key {name}: there is no row {values} in table {parent}");
    let values = foreign_key.columns.iter().map(|&place| row[place].clone().into_owned());
    let key = foreign_key.declared.columns.iter().cloned().zip(values).collect();
    broken(definition, row, Constraint::ForeignKey, what).named(name).of_sides(key, parent, false).into_error()
}

#[cold]
fn no_access(definition: &TableDefinition, columns: &[String]) -> Error {
    let (table, columns) = (definition.name(), columns.join(", "));
    Error::new(ErrorKind::Corrupt, format!("table {table} has no index by {columns}, which a foreign key needs"))
}

/// Finds out which rows refer to one that goes, or whose referred values change, and adds what becomes of them.
///
/// # Errors
/// Those of reading.
pub(crate) fn add_referring(
    transaction: &RowTransaction<'_>,
    definition: &Arc<TableDefinition>,
    old: &[Value<'_>],
    new: Option<(&[Value<'_>], &[usize])>,
    consequences: &mut Consequences,
) -> Result<()> {
    let mut work = Vec::new();
    for &child in &definition.document.referenced_by {
        let child = transaction.definition_of(child)?;
        for (number, foreign_key) in child.foreign_keys.iter().enumerate() {
            if foreign_key.table != definition.number {
                continue;
            }
            let places = referred_places(foreign_key, definition)?;
            if new.is_some_and(|(_, changed)| !places.iter().any(|place| changed.contains(place))) {
                continue;
            }
            let values: Vec<Value<'_>> = places.iter().map(|&place| old[place].borrowed()).collect();
            if values.iter().any(Value::is_null) {
                continue;
            }
            let (tree, range) = referring_range(&child, foreign_key, &values)?;
            if transaction.relying_tree(tree)?.count(range.bounds())? == 0 {
                continue;
            }
            let columns = &foreign_key.columns;
            let action = if new.is_some() { foreign_key.declared.on_update } else { foreign_key.declared.on_delete };
            let changes = match (action, new) {
                (Action::Restrict | Action::RestrictAtOnce, _) => {
                    let row = old.iter().map(|value| value.clone().into_owned()).collect();
                    let definition = Arc::clone(definition);
                    let is_at_once = action == Action::RestrictAtOnce;
                    let child = Arc::clone(&child);
                    let restricted = Restricted { definition, row, child, foreign_key: number, is_at_once };
                    match !is_at_once && defers(transaction, foreign_key) {
                        true => drop(postpone(transaction, true, |waiting| waiting.restricted.push(restricted))),
                        false => consequences.restrict(restricted),
                    }
                    continue;
                }
                (Action::Cascade, None) => None,
                (Action::Cascade, Some((new, _))) => {
                    let new = places.iter().map(|&place| new[place].clone().into_owned());
                    Some(columns.iter().copied().zip(new).collect())
                }
                (Action::SetNull, _) => Some(columns.iter().map(|&place| (place, Value::Null)).collect()),
            };
            let index = match referring_access(&child, foreign_key)? {
                Access::Primary => None,
                Access::Index(used) => child.indexes.iter().position(|index| std::ptr::eq(&**index, used)),
            };
            work.push(Referring::new(Arc::clone(&child), range, index, changes));
        }
    }
    consequences.follow(work);
    Ok(())
}

/// Fails if rows refer to one that went or changed and restrict that, unless another row has its values now.
pub(crate) fn check_restricted(transaction: &RowTransaction<'_>, restricted: &Restricted) -> Result<()> {
    let Restricted { definition, row, child, foreign_key, is_at_once } = restricted;
    let foreign_key = &child.foreign_keys[*foreign_key];
    if !is_at_once && defers(transaction, foreign_key) {
        let restricted = restricted.clone();
        postpone(transaction, true, |waiting| waiting.restricted.push(restricted));
        return Ok(());
    }
    let places = referred_places(foreign_key, definition)?;
    let values: Vec<Value<'_>> = places.iter().map(|&place| row[place].borrowed()).collect();
    let (tree, range) = referring_range(child, foreign_key, &values)?;
    let rows = transaction.relying_tree(tree)?.count(range.bounds())?;
    if rows == 0 {
        return Ok(());
    }
    let (tree, key) = referred_by(foreign_key, definition, &values)?;
    if transaction.relying_tree(tree)?.contains(key)? {
        return Ok(());
    }
    let (name, child) = (&foreign_key.declared.name, child.name());
    let rows = if rows == 1 { "1 row refers".to_owned() } else { format!("{rows} rows refer") };
    let what = format!("foreign key {name} of table {child}: {rows} to {}", list(&values));
    let columns = places.iter().map(|&place| definition.columns[place].declared.name.clone());
    let key = columns.zip(values.into_iter().map(Value::into_owned)).collect();
    Err(broken(definition, row, Constraint::ForeignKey, what).named(name).of_sides(key, child, true).into_error())
}

/// Leaves a check for later: for the end of the transaction, or for the end of statements that run as one. Returns
/// false if it is to be made now.
pub(crate) fn postpone(transaction: &RowTransaction<'_>, deferred: bool, waiting: impl FnOnce(&mut Waiting)) -> bool {
    if deferred {
        transaction.postponed.check.set(Some(check_at_the_end));
    }
    transaction.postponed.note(deferred, waiting)
}

fn check_at_the_end(transaction: &RowTransaction<'_>) -> Result<()> {
    transaction.postponed.end();
    check_deferred(transaction)
}

/// Looks at what was left for the end of the transaction, but for what is still deferred. All of it stays.
pub(crate) fn check_deferred(transaction: &RowTransaction<'_>) -> Result<()> {
    let waiting = transaction.postponed.deferred.take();
    let result = check_waiting(transaction, &waiting);
    // What is still deferred was left once more: it is a part of what there was.
    transaction.postponed.deferred.replace(waiting);
    result
}

/// Looks whether rows refer to what is not there.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) if one does.
pub(crate) fn check_waiting(transaction: &RowTransaction<'_>, waiting: &Waiting) -> Result<()> {
    for restricted in &waiting.restricted {
        if let Some(restricted) = restricted.as_of_now(transaction)? {
            check_restricted(transaction, &restricted)?;
        }
    }
    for ((_, key), Moved { definition, changed }) in &waiting.moved {
        let Some(current) = current(transaction, definition)? else { continue };
        let changed = (current.version == definition.version).then_some(&changed[..]);
        let Some(value) = transaction.tree(&current.rows)?.get(key)? else { continue };
        let view = RowView::new(&current, key, &value)?;
        let row: Values<'_> = (0..current.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
        check_referred(transaction, &current, &row, changed)?;
    }
    waiting.repeated.iter().try_for_each(|repeated| unique_later::check(transaction, repeated))
}

impl Restricted {
    /// The same over the present definitions; none if there is no such foreign key any more.
    fn as_of_now(&self, transaction: &RowTransaction<'_>) -> Result<Option<Restricted>> {
        let Restricted { definition, row, child, foreign_key, is_at_once } = self;
        let (Some(parent), Some(now)) = (current(transaction, definition)?, current(transaction, child)?) else {
            return Ok(None);
        };
        let name = &child.foreign_keys[*foreign_key].declared.name;
        let found = now.foreign_keys.iter().position(|key| key.declared.name == *name);
        // The row was one of the old definition.
        let definition = if parent.version == definition.version { parent } else { Arc::clone(definition) };
        let is_at_once = *is_at_once;
        Ok(found.map(|foreign_key| Restricted { definition, row: row.clone(), child: now, foreign_key, is_at_once }))
    }
}

/// The present definition of a table; none if it was dropped.
fn current(transaction: &RowTransaction<'_>, definition: &TableDefinition) -> Result<Option<Arc<TableDefinition>>> {
    match transaction.definition_of_handle(definition.number) {
        Ok(current) => Ok(Some(current)),
        Err(error) if error.kind() == ErrorKind::Missing => Ok(None),
        Err(error) => Err(error),
    }
}
