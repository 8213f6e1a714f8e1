//! The columns of a key, and how values are looked for in them.

use quipu::{Error, ErrorKind, Result, tuple};

use crate::encoding::key::KeyColumn;
use crate::value::Value;
use crate::value::text::counted;

/// The columns of a key, with names for messages.
#[derive(Clone, Debug)]
pub(crate) struct KeyShape {
    /// Whose key it is: `table flights`, `index flights.airport`.
    pub(crate) owner: String,
    pub(crate) columns: Vec<KeyColumn>,
    pub(crate) names: Vec<String>,
    /// Whether there may be NULL in the column; in columns past the end of this there is none.
    pub(crate) nullable: Vec<bool>,
}

impl KeyShape {
    /// That of no columns yet.
    pub(crate) fn of(owner: String) -> KeyShape {
        KeyShape { owner, columns: Vec::new(), names: Vec::new(), nullable: Vec::new() }
    }

    /// Appends the key of values that may be of a type beside the column's: in the midst of a range, an integer may be
    /// one that the column could not hold.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there are more values than columns, or one is of another type.
    pub(crate) fn encode(&self, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
        if values.len() > self.columns.len() {
            return Err(self.too_many(values.len()));
        }
        for (place, value) in values.iter().enumerate() {
            let column = self.columns[place];
            match (column.data_type.int_range(), value) {
                (Some(_), Value::Int(_)) | (_, Value::Null) => column.encode(value, key),
                _ => {
                    let accepted = column.data_type.accept(value.borrowed());
                    column.encode(&accepted.map_err(|what| self.mismatch(place, what))?, key);
                }
            }
        }
        Ok(())
    }

    /// The values of a key as far as its bytes tell them, and whether they are all of its bytes. Of a text that sorts
    /// without case and accents a key does not tell the value, and what cuts ranges may be a part of a key.
    pub(crate) fn decode<'k>(&self, key: &'k [u8]) -> (Vec<Value<'k>>, bool) {
        let mut values = Vec::new();
        let mut size = 0;
        for (part, column) in tuple::parts(key).zip(&self.columns) {
            let Ok(value) = column.decode(part) else { break };
            values.push(value);
            size += part.bytes().len();
        }
        (values, size == key.len())
    }

    /// A key as messages call it: by its values, `(2013, 7, JFK)`, or by what its bytes tell.
    pub(crate) fn show(&self, key: &[u8]) -> String {
        let (values, is_whole) = self.decode(key);
        let mut shown: Vec<String> = values.iter().map(Value::to_string).collect();
        if !is_whole && shown.len() < self.columns.len() {
            let size: usize = tuple::parts(key).take(shown.len()).map(|part| part.bytes().len()).sum();
            let rest = &key[size.min(key.len())..];
            let digits: String = rest.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
            shown.push(format!("bytes {digits}{}", if rest.len() > 40 { "..." } else { "" }));
        }
        format!("({})", shown.join(", "))
    }

    #[cold]
    pub(crate) fn too_many(&self, given: usize) -> Error {
        let (given, names) = (counted(given, "value"), self.names.join(", "));
        let columns = counted(self.columns.len(), "column");
        Error::new(ErrorKind::Invalid, format!("{given} for the key of {}, which has {columns}: {names}", self.owner))
    }

    #[cold]
    pub(crate) fn mismatch(&self, place: usize, what: String) -> Error {
        Error::new(ErrorKind::Invalid, format!("{}, column {}: {what}", self.owner, self.names[place]))
    }
}
