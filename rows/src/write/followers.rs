//! Rows that refer to one, and would go or change with it: for those who lock rows before a statement writes.

use quipu::{ReadableTable, Result};

use crate::catalogue::engine_tables::Trees;
use crate::definition::index::RowKey;
use crate::encoding::values::IntoValues;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::constraint::Action;
use crate::transaction::RowTransaction;
use crate::value::Value;
use crate::write::references::{Access, referred_places, referring_access, referring_range};

/// A foreign key of a table, and the rows that refer by it to one row. Made by [`Followers::of`].
#[derive(Clone, Debug, PartialEq)]
pub struct Followers {
    /// The table whose rows refer to the row.
    pub table: String,
    /// The columns by which they refer to it.
    pub columns: Vec<usize>,
    /// The columns that they refer to.
    pub references: Vec<String>,
    /// The values there.
    pub values: Vec<Value<'static>>,
    /// What becomes of them.
    pub action: Action,
    /// The primary keys of those that go or change; none if they keep the row from doing so.
    pub keys: Vec<Vec<Value<'static>>>,
}

impl Followers {
    /// The rows that would go or change with the row of this primary key of a table, by each foreign key that refers
    /// to it: if it goes, or if columns at these places change. The transaction does not rely on what it finds.
    /// O(rows).
    ///
    /// # Errors
    /// Those of reading.
    pub fn of<'v>(
        table: &TableIn<'_, RowTransaction<'_>>,
        key: impl IntoValues<'v>,
        changed: Option<&[usize]>,
    ) -> Result<Vec<Followers>> {
        let (definition, transaction) = (&table.definition, table.trees);
        let mut all = Vec::new();
        if definition.document.referenced_by.is_empty() {
            return Ok(all);
        }
        let key = table.key_of(&key.into_values())?;
        let Some(old) = transaction.tree(&definition.rows)?.get(&key)? else { return Ok(all) };
        let old = RowView::new(definition, &key, &old)?;
        for &child in &definition.document.referenced_by {
            let child = transaction.definition_of(child)?;
            for foreign_key in child.foreign_keys.iter().filter(|key| key.table == definition.number) {
                let places = referred_places(foreign_key, definition)?;
                if changed.is_some_and(|changed| !places.iter().any(|place| changed.contains(place))) {
                    continue;
                }
                let values: Result<Vec<Value<'static>>> =
                    places.iter().map(|&place| Ok(old.value(place)?.into_owned())).collect();
                let values = values?;
                if values.iter().any(Value::is_null) {
                    continue;
                }
                let declared = &foreign_key.declared;
                let action = if changed.is_some() { declared.on_update } else { declared.on_delete };
                let mut keys = Vec::new();
                if !action.restricts() {
                    let (tree, range) = referring_range(&child, foreign_key, &values)?;
                    let access = referring_access(&child, foreign_key)?;
                    let mut found: Result<Vec<RowKey>> = Ok(Vec::new());
                    transaction.tree(tree)?.for_each(range.bounds(), |entry, value| {
                        let row = match &access {
                            Access::Primary => Ok(RowKey::from_slice(entry)),
                            Access::Index(index) => index.row_key(entry, value),
                        };
                        match (&mut found, row) {
                            (Ok(rows), Ok(row)) => rows.push(row),
                            (Ok(_), Err(error)) => found = Err(error),
                            (Err(_), _) => {}
                        }
                        found.is_ok()
                    })?;
                    for row in found? {
                        let Some(value) = transaction.tree(&child.rows)?.get(&row)? else { continue };
                        let values = RowView::new(&child, &row, &value)?.key_values()?;
                        keys.push(values.into_iter().map(Value::into_owned).collect());
                    }
                }
                all.push(Followers {
                    table: child.name().to_owned(),
                    columns: foreign_key.columns.to_vec(),
                    references: declared.references.clone(),
                    values,
                    action,
                    keys,
                });
            }
        }
        Ok(all)
    }
}
