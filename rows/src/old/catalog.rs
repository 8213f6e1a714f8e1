//! The catalogue: where schemas are kept, and which indexes a table has.
//!
//! A schema stands as JSON in its table's metadata, for every program that shows the table:
//!
//! ```json
//! {
//!   "columns": [{"name": "city", "type": "text"}, {"name": "people", "type": "int"}],
//!   "key": ["city"],
//!   "value": ["people"]
//! }
//! ```
//!
//! `key` and `value` name the columns of a row's two halves, in the order in which they are stored. A secondary index
//! has an empty value and one more member, `"index_of"`: the name of its table. The index `name` of the table `T` is
//! the table `T.name`. The engine reads none of this.
//!
//! An metadata is fixed when its table is created, so a schema is too. Finding a table's indexes takes a look at the
//! metadata of every table of the database.

use quipu::{Db, Error, ErrorKind, Result, Table};
use serde_json::{Value as Json, json};

use crate::old::column::{Column, ColumnType};
use crate::old::index::Index;
use crate::old::schema::Schema;

impl Schema {
    /// The metadata that [`Schema::of`] reads: for [`TableOptions::metadata`](quipu::TableOptions::metadata).
    pub fn to_metadata(&self) -> Vec<u8> {
        let names =
            |places: &[usize]| places.iter().map(|&place| self.columns[place].name.as_str()).collect::<Vec<_>>();
        let columns: Vec<Json> = (self.columns.iter())
            .map(|column| json!({"name": column.name, "type": column.column_type.to_string()}))
            .collect();
        let mut metadata = json!({"columns": columns, "key": names(&self.key), "value": names(&self.value)});
        if let Some(table) = &self.index_of {
            metadata["index_of"] = json!(table);
        }
        metadata.to_string().into_bytes()
    }

    /// The schema in a table's metadata; none if the metadata is anything else.
    pub fn of(table: &Table) -> Option<Schema> {
        Schema::from_metadata(table.metadata())
    }

    fn from_metadata(metadata: &[u8]) -> Option<Schema> {
        let json: Json = serde_json::from_slice(metadata).ok()?;
        let columns = (json.get("columns")?.as_array()?.iter())
            .map(|column| {
                let name = column.get("name")?.as_str()?.to_owned();
                Some(Column { name, column_type: ColumnType::parse(column.get("type")?.as_str()?)? })
            })
            .collect::<Option<Vec<_>>>()?;
        let places = |member: &str| -> Option<Vec<usize>> {
            let place = |name: &Json| columns.iter().position(|column| Some(column.name.as_str()) == name.as_str());
            json.get(member)?.as_array()?.iter().map(place).collect()
        };
        let (key, value) = (places("key")?, places("value")?);
        let index_of = json.get("index_of").and_then(Json::as_str).map(str::to_owned);
        Some(Schema { columns, key, value, index_of })
    }
}

/// The name of the table that holds an index.
pub(crate) fn index_table(table: &str, index: &str) -> String {
    format!("{table}.{index}")
}

/// The indexes of the table of that name and schema.
pub(crate) fn indexes(db: &Db, name: &str, schema: &Schema) -> Result<Vec<Index>> {
    let mut indexes = Vec::new();
    for table in db.tables() {
        let Some(index) = Schema::of(&table).filter(|index| index.index_of.as_deref() == Some(name)) else { continue };
        let places = index.key_columns().map(|column| schema.place(&column.name)).collect::<Option<_>>();
        let places = places.ok_or_else(|| {
            let index = table.name();
            Error::new(ErrorKind::Corrupt, format!("index {index} has a column that table {name} has not"))
        })?;
        indexes.push(Index { table, places });
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::old::schema::tests::schema;

    #[test]
    fn annotations_come_back() {
        let schema = schema();
        assert_eq!(Schema::from_metadata(&schema.to_metadata()), Some(schema.clone()));
        let index = schema.index("towns", &["people".to_owned(), "city".to_owned()]).unwrap();
        assert_eq!(index.key_names(), "people,city,year");
        assert_eq!(Schema::from_metadata(&index.to_metadata()), Some(index));
    }

    #[test]
    fn other_annotations_are_no_schema() {
        let odd = [
            "",
            "a note",
            "{}",
            "[]",
            r#"{"columns": [], "key": ["x"], "value": []}"#,
            r#"{"columns": [{"name": "x", "type": "blob"}], "key": ["x"], "value": []}"#,
        ];
        for metadata in odd {
            assert_eq!(Schema::from_metadata(metadata.as_bytes()), None, "{metadata}");
        }
    }
}
