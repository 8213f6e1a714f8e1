//! Rows that refer to each other.
//!
//! A row that refers to another looks whether it is there; a row that goes or changes looks who refers to it. Both are
//! reads of the transaction, so one of two transactions that do both at once is refused.
//!
//! Rows that go with another are a list of work, not a recursion: chains of references may be long.

use std::sync::Arc;

use quipu::{Error, ErrorKind, ReadableTable, Result};

use crate::catalogue::trees::Trees;
use crate::definition::foreign::ForeignKeyDefinition;
use crate::definition::index::{IndexDefinition, RowKey, begins_with};
use crate::definition::table::TableDefinition;
use crate::encoding::key_range::KeyRange;
use crate::encoding::key_shape::KeyShape;
use crate::schema::constraint::{Action, Constraint};
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::write::broken::{broken, list};

/// Rows that are taken from a range of referring rows at once.
const TAKEN_TOGETHER: usize = 256;

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

    fn tree<'s>(&'s self, definition: &'s TableDefinition) -> &'s quipu::Table {
        match self {
            Access::Primary => &definition.rows,
            Access::Index(index) => &index.tree,
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
    if begins_with(&Access::Primary.columns(definition), places) {
        return Some(Access::Primary);
    }
    let indexes = definition.indexes.iter().filter(|index| index.is_ready() && index.predicate.is_none());
    let mut indexes = indexes.map(|index| Access::Index(index));
    indexes.find(|access| begins_with(&access.columns(definition), places))
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
    let places = referred_places(foreign_key, parent)?;
    let access = unique_access(parent, &places).ok_or_else(|| no_access(parent, &foreign_key.declared.references))?;
    let key = key_with(parent, &access, &places, &values)?;
    let tree = match access {
        Access::Primary => &parent.rows,
        Access::Index(index) => &index.tree,
    };
    Ok(Some((tree, key)))
}

/// Fails if the row refers to a row that is not there. `changed` is none of a new row.
pub(crate) fn check_referred(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    row: &[Value<'_>],
    changed: Option<&[usize]>,
) -> Result<()> {
    for foreign_key in &definition.foreign_keys {
        if changed.is_some_and(|changed| !foreign_key.columns.iter().any(|place| changed.contains(place))) {
            continue;
        }
        let parent = transaction.definition_of(foreign_key.table)?;
        let Some((tree, key)) = referred_key(foreign_key, &parent, row)? else { continue };
        if !transaction.relying_tree(tree)?.contains(key)? {
            return Err(without_row(definition, foreign_key, &parent, row));
        }
    }
    Ok(())
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
    broken(definition, row, Constraint::ForeignKey, what).named(name).into_error()
}

#[cold]
fn no_access(definition: &TableDefinition, columns: &[String]) -> Error {
    let (table, columns) = (definition.name(), columns.join(", "));
    Error::new(ErrorKind::Corrupt, format!("table {table} has no index by {columns}, which a foreign key needs"))
}

/// Work that a change of a row brings with it.
pub(crate) enum Work {
    /// A row goes.
    Delete { definition: Arc<TableDefinition>, key: RowKey },
    /// Columns of a row change.
    Update { definition: Arc<TableDefinition>, key: RowKey, changes: Vec<(usize, Value<'static>)> },
    /// All rows that refer to one that went or changed go or change.
    Referring {
        definition: Arc<TableDefinition>,
        range: KeyRange,
        /// The number of the index whose range it is; none for the primary key.
        index: Option<usize>,
        /// What becomes of them; none if they go.
        changes: Option<Vec<(usize, Value<'static>)>>,
    },
}

/// Finds out who refers to a row that goes, or whose referred values change, and adds what becomes of them to the work.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) if rows refer to it that restrict the change.
pub(crate) fn add_referring(
    transaction: &RowTransaction<'_>,
    definition: &TableDefinition,
    old: &[Value<'_>],
    new: Option<(&[Value<'_>], &[usize])>,
    work: &mut Vec<Work>,
) -> Result<()> {
    for &child in &definition.document.referenced_by {
        let child = transaction.definition_of(child)?;
        for foreign_key in child.foreign_keys.iter().filter(|foreign_key| foreign_key.table == definition.number) {
            let places = referred_places(foreign_key, definition)?;
            if new.is_some_and(|(_, changed)| !places.iter().any(|place| changed.contains(place))) {
                continue;
            }
            let values: Vec<Value<'_>> = places.iter().map(|&place| old[place].borrowed()).collect();
            if values.iter().any(Value::is_null) {
                continue;
            }
            let columns = &foreign_key.columns;
            let access =
                prefix_access(&child, columns).ok_or_else(|| no_access(&child, &foreign_key.declared.columns))?;
            let range = KeyRange::beginning_with(key_with(&child, &access, columns, &values)?);
            let rows = transaction.relying_tree(access.tree(&child))?.count(range.bounds())?;
            if rows == 0 {
                continue;
            }
            let action = if new.is_some() { foreign_key.declared.on_update } else { foreign_key.declared.on_delete };
            let changes = match (action, new) {
                (Action::Restrict, _) => {
                    let (name, child) = (&foreign_key.declared.name, child.name());
                    let rows = if rows == 1 { "1 row refers".to_owned() } else { format!("{rows} rows refer") };
                    let what = format!("foreign key {name} of table {child}: {rows} to {}", list(&values));
                    return Err(broken(definition, old, Constraint::ForeignKey, what).named(name).into_error());
                }
                (Action::Cascade, None) => None,
                (Action::Cascade, Some((new, _))) => {
                    let new = places.iter().map(|&place| new[place].clone().into_owned());
                    Some(columns.iter().copied().zip(new).collect())
                }
                (Action::SetNull, _) => Some(columns.iter().map(|&place| (place, Value::Null)).collect()),
            };
            let index = match &access {
                Access::Primary => None,
                Access::Index(used) => child.indexes.iter().position(|index| std::ptr::eq(&**index, *used)),
            };
            work.push(Work::Referring { definition: Arc::clone(&child), range, index, changes });
        }
    }
    Ok(())
}

/// Takes some of the rows of a range of referring rows off it, as work of their own.
pub(crate) fn take_referring(
    transaction: &RowTransaction<'_>,
    definition: Arc<TableDefinition>,
    range: KeyRange,
    index: Option<usize>,
    changes: Option<Vec<(usize, Value<'static>)>>,
    work: &mut Vec<Work>,
) -> Result<()> {
    let mut keys: Vec<RowKey> = Vec::new();
    let by_index = index.map(|index| &definition.indexes[index]);
    let tree = transaction.tree(by_index.map_or(&definition.rows, |index| &index.tree))?;
    let mut result = Ok(());
    tree.for_each_limited(range.bounds(), TAKEN_TOGETHER as u64, |key, value| {
        let row_key = match by_index {
            None => Ok(RowKey::from_slice(key)),
            Some(index) => index.row_key(key, value),
        };
        match row_key {
            Ok(key) => keys.push(key),
            Err(error) => result = Err(error),
        }
    })?;
    result?;
    if keys.len() == TAKEN_TOGETHER {
        // Those that are taken leave the range, so the next time there are others.
        let (definition, changes) = (Arc::clone(&definition), changes.clone());
        work.push(Work::Referring { definition, range, index, changes });
    }
    for key in keys {
        let definition = Arc::clone(&definition);
        work.push(match &changes {
            None => Work::Delete { definition, key },
            Some(changes) => Work::Update { definition, key, changes: changes.clone() },
        });
    }
    Ok(())
}
