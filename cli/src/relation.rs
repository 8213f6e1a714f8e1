//! Everything with a name in a database: a table of rows, an index of one, or a table whose keys and values are
//! strings.

use quipu::Table;
use quipu_rows::Database;
use quipu_rows::trees::is_tree_of_rows;

use crate::failure::{Failure, Result};

/// Something that can be asked.
pub(crate) enum Relation {
    /// A table of rows.
    Rows(String),
    /// An index of one: its rows in another order.
    Index { table: String, index: String },
    /// A table of the engine without columns.
    Strings(Table),
}

impl Relation {
    /// What has this name: `flights`, or `flights.airport` for an index.
    pub(crate) fn find(database: &Database, name: &str) -> Result<Relation> {
        if database.open_table(name)?.is_some() {
            return Ok(Relation::Rows(name.to_owned()));
        }
        for (point, _) in name.match_indices('.') {
            let (table, index) = (&name[..point], &name[point + 1..]);
            if let Some(rows) = database.open_table(table)?
                && rows.schema()?.indexes.iter().any(|declared| declared.name == index)
            {
                return Ok(Relation::Index { table: table.to_owned(), index: index.to_owned() });
            }
        }
        if !is_tree_of_rows(name)
            && let Some(table) = database.db().open_table(name)?
        {
            return Ok(Relation::Strings(table));
        }
        Err(match names(database)?.as_slice() {
            [] => Failure::new(format!("there is no table {name:?}, and no other")),
            names => Failure::new(format!("there is no table {name:?}; there are {}", names.join(", "))),
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        match self {
            Relation::Rows(name) => name.clone(),
            Relation::Index { table, index } => format!("{table}.{index}"),
            Relation::Strings(table) => table.name().to_owned(),
        }
    }
}

/// The names of all there is, sorted.
pub(crate) fn names(database: &Database) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in database.tables()? {
        let schema = database.table(&name)?.schema()?;
        names.extend(schema.indexes.iter().map(|index| format!("{name}.{}", index.name)));
        names.push(name);
    }
    names.extend(strings(database).iter().map(|table| table.name().to_owned()));
    names.sort();
    Ok(names)
}

/// The tables without columns.
pub(crate) fn strings(database: &Database) -> Vec<Table> {
    let mut tables = database.db().tables();
    tables.retain(|table| !is_tree_of_rows(table.name()));
    tables
}
