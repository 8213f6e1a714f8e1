//! The types of columns, and their names.

use std::cmp::Ordering;
use std::fmt;

use crate::value::collation;
use crate::value::decimal::DIGITS_MAX;

/// The type of a column. A column of any type may hold NULL, unless it is declared NOT NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// `true` or `false`.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A number of single precision.
    F32,
    /// A number of double precision.
    F64,
    /// An exact decimal number.
    Decimal {
        /// All its digits: 1 to 38.
        precision: u8,
        /// Those after the point: at most all.
        scale: u8,
    },
    /// A decimal number of any size, `NaN` or infinite, with as many digits after the point as it was given; those that
    /// differ in zeros at the end are equal.
    Numeric,
    /// UTF-8, in an order.
    Text(Collation),
    /// Any bytes, in their order.
    Bytes,
    /// Bytes that sort by the part that [`keyed_bytes`](crate::keyed_bytes) tells.
    KeyedBytes,
    /// A day of the Gregorian calendar.
    Date,
    /// A moment in UTC, to the microsecond.
    Timestamp,
    /// A UUID, in the order of its bytes.
    Uuid,
    /// JSON, kept as its text, and sorted as that.
    Json,
}

/// The order of texts, and which of them are equal, in keys and in comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// The order of bytes of UTF-8, which is that of code points.
    #[default]
    Binary,
    /// The root order of the Unicode collation algorithm at its first level: `Straße`, `STRASSE` and `strasse` are
    /// equal, and so are `Zoë` and `zoe`.
    Unicode,
}

impl Collation {
    /// The order of two texts in keys of such a column.
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        match self {
            Collation::Binary => a.cmp(b),
            Collation::Unicode => collation::compare(a, b),
        }
    }
}

/// Binary text.
impl Default for DataType {
    fn default() -> Self {
        DataType::TEXT
    }
}

/// Names of types that have no parameters.
const NAMES: [(DataType, &str); 20] = [
    (DataType::Bool, "bool"),
    (DataType::I8, "i8"),
    (DataType::I16, "i16"),
    (DataType::I32, "i32"),
    (DataType::I64, "i64"),
    (DataType::U8, "u8"),
    (DataType::U16, "u16"),
    (DataType::U32, "u32"),
    (DataType::U64, "u64"),
    (DataType::F32, "f32"),
    (DataType::F64, "f64"),
    (DataType::Numeric, "numeric"),
    (DataType::TEXT, "text"),
    (DataType::Text(Collation::Unicode), "text(unicode)"),
    (DataType::Bytes, "bytes"),
    (DataType::KeyedBytes, "bytes(keyed)"),
    (DataType::Date, "date"),
    (DataType::Timestamp, "timestamp"),
    (DataType::Uuid, "uuid"),
    (DataType::Json, "json"),
];

/// Types of all kinds, for tests and fuzz targets.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) const TYPES: [DataType; 23] = [
    DataType::Bool,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::F32,
    DataType::F64,
    DataType::Decimal { precision: 4, scale: 2 },
    DataType::Decimal { precision: 18, scale: 0 },
    DataType::Decimal { precision: 38, scale: 10 },
    DataType::TEXT,
    DataType::Text(Collation::Unicode),
    DataType::Bytes,
    DataType::Date,
    DataType::Timestamp,
    DataType::Uuid,
    DataType::Json,
    DataType::Numeric,
    DataType::KeyedBytes,
];

impl DataType {
    /// Text in the order of its bytes.
    pub const TEXT: DataType = DataType::Text(Collation::Binary);

    /// The type of that name: `i64`, `decimal(10,2)`, `text(unicode)`; a decimal without a scale has no digits after
    /// the point.
    ///
    /// ```
    /// use quipu_rows::DataType;
    ///
    /// assert_eq!(DataType::parse("decimal(10,2)"), Some(DataType::Decimal { precision: 10, scale: 2 }));
    /// assert_eq!(DataType::parse("decimal(2,3)"), None);
    /// ```
    pub fn parse(name: &str) -> Option<DataType> {
        if let Some((data_type, _)) = NAMES.iter().find(|(_, known)| *known == name) {
            return Some(*data_type);
        }
        let parameters = name.strip_prefix("decimal(")?.strip_suffix(')')?;
        let (precision, scale) = match parameters.split_once(',') {
            Some((precision, scale)) => (precision.trim().parse().ok()?, scale.trim().parse().ok()?),
            None => (parameters.trim().parse().ok()?, 0),
        };
        DataType::Decimal { precision, scale }.check().is_ok().then_some(DataType::Decimal { precision, scale })
    }

    /// The names that [`parse`](DataType::parse) knows, separated by commas.
    pub fn names() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        format!("{}, decimal(PRECISION,SCALE)", names.join(", "))
    }

    /// What is wrong with its parameters.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            DataType::Decimal { precision, scale } if !(1..=DIGITS_MAX).contains(&precision) || scale > precision => {
                let digits = format!("1 to {DIGITS_MAX} digits, of which some or all follow the point");
                Err(format!("{self} is not a type: a decimal has {digits}"))
            }
            _ => Ok(()),
        }
    }

    /// The least and the greatest integer; none if this is no type of integers.
    pub fn int_range(self) -> Option<(i128, i128)> {
        Some(match self {
            DataType::I8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::I16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::I64 => (i64::MIN.into(), i64::MAX.into()),
            DataType::U8 => (0, u8::MAX.into()),
            DataType::U16 => (0, u16::MAX.into()),
            DataType::U32 => (0, u32::MAX.into()),
            DataType::U64 => (0, u64::MAX.into()),
            _ => return None,
        })
    }

    /// Whether a range of rows can have the sum of its values: integers, and decimals of at most 18 digits, whose units
    /// fit 64 bits.
    pub fn is_summable(self) -> bool {
        self.int_range().is_some() || matches!(self, DataType::Decimal { precision: ..=18, .. })
    }

    /// Whether keys hold a sort key that the value cannot be told from, so that a row must keep the value beside them.
    pub fn has_sort_key(self) -> bool {
        self.is_collated() || matches!(self, DataType::Numeric | DataType::KeyedBytes)
    }

    /// Whether keys hold the sort key of a collation, which another version of it may make otherwise.
    pub(crate) fn is_collated(self) -> bool {
        self == DataType::Text(Collation::Unicode)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let DataType::Decimal { precision, scale } = self {
            return write!(f, "decimal({precision},{scale})");
        }
        f.write_str(NAMES.iter().find(|(known, _)| known == self).map_or("?", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let decimals = [(1, 0), (38, 38), (18, 2)].map(|(precision, scale)| DataType::Decimal { precision, scale });
        for data_type in NAMES.iter().map(|(data_type, _)| *data_type).chain(decimals) {
            assert_eq!(DataType::parse(&data_type.to_string()), Some(data_type));
        }
        assert_eq!(DataType::parse("decimal(7)"), Some(DataType::Decimal { precision: 7, scale: 0 }));
        for name in
            ["", "int", "decimal", "decimal()", "decimal(0)", "decimal(39,2)", "decimal(2,3)", "text(latin)", "I64"]
        {
            assert_eq!(DataType::parse(name), None, "{name:?}");
        }
    }
}
