//! Columns: a name and a type.
//!
//! A column has one type for all its rows, because the order of keys depends on it: the engine sorts every int before
//! every float. How values of a type become bytes is the engine's tuple encoding; how they are written as text is in
//! `notation`. A new type of column is a variant here, its name, and its arms in `notation`.

use std::fmt;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, which no other column of the table has.
    pub name: String,
    /// The type of all its values.
    pub column_type: ColumnType,
}

/// The type of a column. A value of any type may be missing: it is [`Null`](quipu::tuple::Element::Null), which sorts
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// A number of double precision.
    Float,
    /// UTF-8, which sorts by code points.
    Text,
    /// Any JSON, kept as its compact text and sorted as that: for values that are nested or of several types.
    Json,
}

/// The names of the types, as they stand in `--types` and in a table's schema.
const TYPE_NAMES: [(ColumnType, &str); 5] = [
    (ColumnType::Bool, "bool"),
    (ColumnType::Int, "int"),
    (ColumnType::Float, "float"),
    (ColumnType::Text, "text"),
    (ColumnType::Json, "json"),
];

impl ColumnType {
    /// The type of that name.
    pub fn parse(name: &str) -> Option<ColumnType> {
        TYPE_NAMES.iter().find(|(_, known)| *known == name).map(|(column_type, _)| *column_type)
    }

    /// The names that [`parse`](ColumnType::parse) knows, separated by commas.
    pub fn names() -> String {
        TYPE_NAMES.map(|(_, name)| name).join(", ")
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TYPE_NAMES.iter().find(|(column_type, _)| column_type == self).map_or("?", |(_, name)| name);
        f.write_str(name)
    }
}
