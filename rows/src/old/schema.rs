//! The schema of a table: the names and types of its columns, which of them make the key and which the value.
//!
//! Columns are named in the interface and numbered inside: a *place* is the number of a column in [`Schema::columns`],
//! from 0. How rows of a schema become bytes is in `encoding`, how a schema is kept in `catalog`.

use quipu::{Error, ErrorKind, Result};

use crate::old::column::Column;

/// The columns of a table, or of a secondary index, which is a table as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// All columns, in the order in which rows are shown.
    pub columns: Vec<Column>,
    /// The places of the key's columns, in the order in which they sort.
    pub key: Vec<usize>,
    /// The places of the value's columns, in the order in which they are stored.
    pub value: Vec<usize>,
    /// The table whose secondary index this is; none for a table of rows.
    pub index_of: Option<String>,
}

impl Schema {
    /// The schema of a table whose key is made of the columns that `key` names, in that order, and whose value of all
    /// others.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if a name is no column, or stands twice.
    pub fn new(columns: Vec<Column>, key: &[String]) -> Result<Schema> {
        let mut schema = Schema { columns, key: Vec::new(), value: Vec::new(), index_of: None };
        schema.key = schema.places(key)?;
        schema.value = (0..schema.columns.len()).filter(|place| !schema.key.contains(place)).collect();
        Ok(schema)
    }

    /// The places of the columns of those names, each at most once.
    pub(crate) fn places(&self, names: &[String]) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        for name in names {
            let place = self.place(name).ok_or_else(|| {
                let columns = self.all_names();
                Error::new(ErrorKind::Invalid, format!("there is no column {name:?}; the columns are {columns}"))
            })?;
            if places.contains(&place) {
                return Err(Error::new(ErrorKind::Invalid, format!("column {name:?} is named twice")));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// Where the column `name` stands in `columns`.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The columns of the key.
    pub fn key_columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.key.iter().map(|&place| &self.columns[place])
    }

    /// The columns of the value.
    pub fn value_columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.value.iter().map(|&place| &self.columns[place])
    }

    /// The names of all columns, comma-separated.
    pub fn all_names(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The names of the key's columns, comma-separated.
    pub fn key_names(&self) -> String {
        self.key_columns().map(|column| column.name.as_str()).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::old::column::ColumnType;

    pub(crate) fn schema() -> Schema {
        let columns = [("city", ColumnType::Text), ("year", ColumnType::Int), ("people", ColumnType::Int)]
            .map(|(name, column_type)| Column { name: name.to_owned(), column_type });
        Schema::new(columns.to_vec(), &["year".to_owned(), "city".to_owned()]).unwrap()
    }

    #[test]
    fn unknown_columns_are_named_with_the_known_ones() {
        let error = schema().index("towns", &["mayor".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), r#"there is no column "mayor"; the columns are city, year, people"#);
    }
}
