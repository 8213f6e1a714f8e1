//! The schema of a table: the names and types of its columns, which of them make the key and which the value.
//!
//! It stands as JSON in the table's annotation, for every program that shows the table:
//!
//! ```json
//! {"columns": [{"name": "city", "type": "text"}, {"name": "people", "type": "int"}], "key": ["city"], "value": ["people"]}
//! ```
//!
//! A key is the tuple of the key's columns in that order, a value the tuple of the value's columns. A secondary index has an empty
//! value and one more member, `"index_of"`: the name of its table. The engine reads none of this.

use quipu::Table;
use quipu::tuple::{self, Element};
use serde_json::{Value as Json, json};

use crate::column::ColumnType;
use crate::failure::{Failure, Result};

/// A column's name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) column_type: ColumnType,
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema {
    /// All columns, in the order in which rows are shown.
    pub(crate) columns: Vec<Column>,
    /// Places in `columns`.
    pub(crate) key: Vec<usize>,
    /// Places in `columns`.
    pub(crate) value: Vec<usize>,
    /// The table whose secondary index this is.
    pub(crate) index_of: Option<String>,
}

impl Schema {
    /// The schema of a table whose key is made of `key`'s columns and whose value of all others.
    ///
    /// # Errors
    ///
    /// A name that is no column, or stands twice.
    pub(crate) fn new(columns: Vec<Column>, key: &[String]) -> Result<Schema> {
        let mut schema = Schema { columns, key: Vec::new(), value: Vec::new(), index_of: None };
        schema.key = schema.places(key)?;
        schema.value = (0..schema.columns.len()).filter(|place| !schema.key.contains(place)).collect();
        Ok(schema)
    }

    /// The schema of a secondary index by `names`: their columns, and those of the key that are not among them, which make
    /// every entry unique and tell the row.
    pub(crate) fn index(&self, table: &str, names: &[String]) -> Result<Schema> {
        let mut places = self.places(names)?;
        places.extend(self.key.iter().filter(|place| !names.contains(&self.columns[**place].name)));
        Ok(Schema {
            columns: places.iter().map(|&place| self.columns[place].clone()).collect(),
            key: (0..places.len()).collect(),
            value: Vec::new(),
            index_of: Some(table.to_owned()),
        })
    }

    /// The places of the columns of those names.
    fn places(&self, names: &[String]) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        for name in names {
            let place = self.place(name).ok_or_else(|| {
                Failure::new(format!("there is no column {name:?}; the columns are {}", self.all_names()))
            })?;
            if places.contains(&place) {
                return Err(Failure::new(format!("column {name:?} is named twice")));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// Where the column `name` stands in `columns`.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The columns of the key.
    pub(crate) fn key_columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.key.iter().map(|&place| &self.columns[place])
    }

    /// The columns of the value.
    pub(crate) fn value_columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.value.iter().map(|&place| &self.columns[place])
    }

    /// The names of all columns, comma-separated.
    pub(crate) fn all_names(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The names of the key's columns, comma-separated.
    pub(crate) fn key_names(&self) -> String {
        self.key_columns().map(|column| column.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The key and the value of a row whose values stand in the order of `columns`.
    pub(crate) fn encode_row(&self, row: &[Element<'_>], key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let append = |places: &[usize], bytes: &mut Vec<u8>| {
            bytes.clear();
            for &place in places {
                tuple::encode_into(std::slice::from_ref(&row[place]), bytes);
            }
        };
        append(&self.key, key);
        append(&self.value, value);
    }

    /// The row of a key and a value, in the order of `columns`; none if they do not fit the schema.
    pub(crate) fn decode_row<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Option<Vec<Element<'a>>> {
        let mut row = vec![Element::Null; self.columns.len()];
        for (places, bytes) in [(&self.key, key), (&self.value, value)] {
            let elements = tuple::decode(bytes).ok()?;
            if elements.len() != places.len() {
                return None;
            }
            for (&place, element) in places.iter().zip(elements) {
                row[place] = element;
            }
        }
        Some(row)
    }

    /// The annotation that [`Schema::of`] reads.
    pub(crate) fn to_annotation(&self) -> Vec<u8> {
        let names =
            |places: &[usize]| places.iter().map(|&place| self.columns[place].name.as_str()).collect::<Vec<_>>();
        let columns: Vec<Json> = (self.columns.iter())
            .map(|column| json!({"name": column.name, "type": column.column_type.to_string()}))
            .collect();
        let mut annotation = json!({"columns": columns, "key": names(&self.key), "value": names(&self.value)});
        if let Some(table) = &self.index_of {
            annotation["index_of"] = json!(table);
        }
        annotation.to_string().into_bytes()
    }

    /// The schema in a table's annotation; none if there is nothing of the kind.
    pub(crate) fn of(table: &Table) -> Option<Schema> {
        Schema::from_annotation(table.annotation())
    }

    fn from_annotation(annotation: &[u8]) -> Option<Schema> {
        let json: Json = serde_json::from_slice(annotation).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let columns = [("city", ColumnType::Text), ("year", ColumnType::Int), ("people", ColumnType::Int)]
            .map(|(name, column_type)| Column { name: name.to_owned(), column_type });
        Schema::new(columns.to_vec(), &["year".to_owned(), "city".to_owned()]).unwrap()
    }

    #[test]
    fn annotations_come_back() {
        let schema = schema();
        assert_eq!(Schema::from_annotation(&schema.to_annotation()), Some(schema.clone()));
        let index = schema.index("towns", &["people".to_owned(), "city".to_owned()]).unwrap();
        assert_eq!(index.key_names(), "people,city,year");
        assert_eq!(Schema::from_annotation(&index.to_annotation()), Some(index));
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
        for annotation in odd {
            assert_eq!(Schema::from_annotation(annotation.as_bytes()), None, "{annotation}");
        }
    }

    #[test]
    fn rows_come_back_in_the_order_of_the_columns() {
        let schema = schema();
        let row = [Element::from("Cusco"), Element::Int(1532), Element::Null];
        let (mut key, mut value) = (Vec::new(), Vec::new());
        schema.encode_row(&row, &mut key, &mut value);
        assert_eq!(tuple::decode(&key).unwrap(), [Element::Int(1532), Element::from("Cusco")]);
        assert_eq!(schema.decode_row(&key, &value).unwrap(), row);
        assert_eq!(schema.decode_row(&key, b"junk"), None);
        assert_eq!(schema.decode_row(&value, &key), None);
    }

    #[test]
    fn unknown_columns_are_named_with_the_known_ones() {
        let error = schema().index("towns", &["mayor".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), r#"there is no column "mayor"; the columns are city, year, people"#);
    }
}
