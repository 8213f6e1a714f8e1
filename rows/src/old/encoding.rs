//! Rows as bytes, and back.
//!
//! A key is the [tuple](quipu::tuple) of the key's columns, a value the tuple of the value's columns; a missing value
//! is a null in either. So keys sort by their columns, and a value tells the types of its elements without the schema.
//! To read one column of a value, all before it are passed over.

use quipu::tuple::{self, Element};

use crate::old::schema::Schema;

impl Schema {
    /// Makes the key and the value of a row, whose elements stand in the order of the columns, in the place of what the
    /// two buffers hold. Types are not checked: elements are what `ColumnType::parse_text` and `parse_json` give.
    ///
    /// # Panics
    ///
    /// If the row has fewer elements than the schema has columns.
    pub fn encode_row(&self, row: &[Element<'_>], key: &mut Vec<u8>, value: &mut Vec<u8>) {
        encode_places(row, &self.key, key);
        encode_places(row, &self.value, value);
    }

    /// The row of a key and a value, its elements in the order of the columns; none if the bytes are no such row.
    ///
    /// Text and bytes are borrowed unless they hold zero bytes.
    pub fn decode_row<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Option<Vec<Element<'a>>> {
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
}

/// Makes the tuple of the row's elements at these places, in the place of what `bytes` holds.
pub(crate) fn encode_places(row: &[Element<'_>], places: &[usize], bytes: &mut Vec<u8>) {
    bytes.clear();
    for &place in places {
        tuple::encode_into(std::slice::from_ref(&row[place]), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::old::schema::tests::schema;

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
}
