//! The columns of a row that are not in its key, as one value of the engine: each is found by its offset.
//!
//! ```text
//!  2 bytes  number of the layout, and whether ends take 4 bytes
//!  8        the summed column, if there is one
//!           one bit for each column that may be NULL
//!           columns of fixed size, one after the other; a NULL takes its place and is zero
//!  2 or 4   where each column of variable size ends, but for the last
//!           columns of variable size
//! ```
//!
//! Invariants:
//! 1. A layout never changes: a table whose columns change gets another, and its rows tell which one they have.
//! 2. The summed column is at the same place in all layouts of a table, since the engine finds it there.
//! 3. Reading never panics, whatever the bytes; what is out of bounds is corrupt.
//!
//! Cost: reading a column is O(1); writing a row is one pass.
//!
//! Not here: which layouts a table has (`definition`), and the columns that a row's layout lacks (`read`).

use quipu::{Error, ErrorKind, Result};
use uuid::Uuid;

use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;
use crate::value::time::{Date, Timestamp};

const HEADER_BYTES: usize = 2;
/// Set in the header if ends take four bytes.
const WIDE: u16 = 1 << 15;
/// Layouts that a table can have in its life.
pub(crate) const LAYOUTS_MAX: u16 = WIDE;
/// Where the engine finds the summed column.
pub(crate) const SUM_AT: usize = HEADER_BYTES;
const SUM_BYTES: usize = 8;

/// A column of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredColumn {
    pub(crate) data_type: DataType,
    pub(crate) is_nullable: bool,
    /// Whether it is the summed column, which stands in front of the others.
    pub(crate) is_summed: bool,
}

/// Where a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotPlace {
    /// In front, as the number that is added up.
    Summed,
    /// At this byte.
    Fixed(usize),
    /// Among the columns of variable size, from 0.
    Variable(usize),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    data_type: DataType,
    place: SlotPlace,
    /// The number of its bit among the NULLs.
    null_bit: Option<usize>,
}

/// Where the columns of a row stand in its value.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    number: u16,
    has_sum: bool,
    slots: Vec<Slot>,
    nulls_at: usize,
    /// Where ends begin, after all columns of fixed size.
    ends_at: usize,
    variables: usize,
}

/// The bytes of a column of fixed size; none if its size varies.
fn fixed_bytes(data_type: DataType) -> Option<usize> {
    Some(match data_type {
        DataType::Bool | DataType::I8 | DataType::U8 => 1,
        DataType::I16 | DataType::U16 => 2,
        DataType::I32 | DataType::U32 | DataType::F32 | DataType::Date => 4,
        DataType::I64 | DataType::U64 | DataType::F64 | DataType::Timestamp => 8,
        DataType::Decimal { precision: ..=18, .. } => 8,
        DataType::Decimal { .. } | DataType::Uuid => 16,
        DataType::Numeric | DataType::Text(_) | DataType::Bytes | DataType::KeyedBytes | DataType::Json => return None,
    })
}

impl Layout {
    /// The layout of that number with these columns, in their order. A number to add up may be in front though none of
    /// them is summed: then it is that of a column of the key.
    pub(crate) fn new(number: u16, has_sum: bool, columns: &[StoredColumn]) -> Layout {
        let nulls_at = HEADER_BYTES + if has_sum { SUM_BYTES } else { 0 };
        let nullable = columns.iter().filter(|column| column.is_nullable).count();
        let (mut fixed_at, mut null_bits, mut variables) = (nulls_at + nullable.div_ceil(8), 0.., 0);
        let mut slots = Vec::with_capacity(columns.len());
        for &StoredColumn { data_type, is_nullable, is_summed } in columns {
            let place = match fixed_bytes(data_type) {
                _ if is_summed => SlotPlace::Summed,
                Some(bytes) => {
                    fixed_at += bytes;
                    SlotPlace::Fixed(fixed_at - bytes)
                }
                None => {
                    variables += 1;
                    SlotPlace::Variable(variables - 1)
                }
            };
            slots.push(Slot { data_type, place, null_bit: if is_nullable { null_bits.next() } else { None } });
        }
        Layout { number, has_sum, slots, nulls_at, ends_at: fixed_at, variables }
    }

    /// The type of the column at this place.
    #[inline]
    pub(crate) fn data_type(&self, place: usize) -> DataType {
        self.slots[place].data_type
    }

    /// The number of the layout that a value has.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the value has no header.
    #[inline]
    pub(crate) fn number_of(value: &[u8]) -> Result<u16> {
        match value.first_chunk::<HEADER_BYTES>() {
            Some(header) => Ok(u16::from_le_bytes(*header) & !WIDE),
            None => Err(too_short(value)),
        }
    }

    /// Appends a row: the summed number, and for each column its value, which its type has accepted.
    pub(crate) fn encode<'l, 'v: 'l>(
        &self,
        sum: i64,
        values: impl Iterator<Item = &'l Value<'v>> + Clone,
        row: &mut Vec<u8>,
    ) {
        let start = row.len();
        let variable_bytes: usize = match self.variables {
            0 | 1 => 0,
            _ => values.clone().map(|value| variable(value).map_or(0, <[u8]>::len)).sum(),
        };
        let is_wide = variable_bytes > usize::from(u16::MAX);
        row.extend_from_slice(&(self.number | if is_wide { WIDE } else { 0 }).to_le_bytes());
        if self.has_sum {
            row.extend_from_slice(&sum.to_le_bytes());
        }
        row.resize(start + self.ends_at, 0);
        let mut end_at = row.len();
        let end_bytes = if is_wide { 4 } else { 2 };
        row.resize(end_at + self.variables.saturating_sub(1) * end_bytes, 0);
        let variables_at = row.len();
        let mut left = self.variables;
        for (slot, value) in self.slots.iter().zip(values) {
            if let (Some(bit), Value::Null) = (slot.null_bit, value) {
                row[start + self.nulls_at + bit / 8] |= 1 << (bit % 8);
            }
            match slot.place {
                SlotPlace::Summed => {}
                SlotPlace::Fixed(at) => write_fixed(slot.data_type, value, &mut row[start + at..]),
                SlotPlace::Variable(_) => {
                    row.extend_from_slice(variable(value).unwrap_or_default());
                    left -= 1;
                    if left > 0 {
                        let end = ((row.len() - variables_at) as u32).to_le_bytes();
                        row[end_at..end_at + end_bytes].copy_from_slice(&end[..end_bytes]);
                        end_at += end_bytes;
                    }
                }
            }
        }
    }

    /// Whether a value has this layout.
    #[inline]
    pub(crate) fn is_of(&self, value: &[u8]) -> bool {
        Layout::number_of(value).is_ok_and(|number| number == self.number)
    }

    /// Overwrites the column at this place with a value that its type has accepted. Returns whether it could: a column
    /// of variable size, the summed one, and one that a broken row does not have, are left as they are.
    pub(crate) fn overwrite(&self, place: usize, value: &Value<'_>, row: &mut [u8]) -> bool {
        let slot = &self.slots[place];
        let (SlotPlace::Fixed(at), Some(bytes)) = (slot.place, fixed_bytes(slot.data_type)) else { return false };
        if row.len() < self.ends_at {
            return false;
        }
        match slot.null_bit {
            Some(bit) => {
                let byte = &mut row[self.nulls_at + bit / 8];
                *byte = *byte & !(1 << (bit % 8)) | u8::from(value.is_null()) << (bit % 8);
            }
            None if value.is_null() => return false,
            None => {}
        }
        row[at..at + bytes].fill(0);
        write_fixed(slot.data_type, value, &mut row[at..]);
        true
    }

    /// Whether the column at this place is NULL.
    #[inline]
    fn is_null(&self, slot: &Slot, row: &[u8]) -> Result<bool> {
        let Some(bit) = slot.null_bit else { return Ok(false) };
        let byte = row.get(self.nulls_at + bit / 8).ok_or_else(|| too_short(row))?;
        Ok(byte & 1 << (bit % 8) != 0)
    }

    /// The bytes of a column, those of a NULL included.
    #[inline]
    fn bytes<'r>(&self, slot: &Slot, row: &'r [u8]) -> Result<&'r [u8]> {
        match slot.place {
            SlotPlace::Summed => row.get(SUM_AT..SUM_AT + SUM_BYTES).ok_or_else(|| too_short(row)),
            SlotPlace::Fixed(at) => {
                let bytes = fixed_bytes(slot.data_type).unwrap_or_default();
                row.get(at..at + bytes).ok_or_else(|| too_short(row))
            }
            SlotPlace::Variable(number) => self.variable_bytes(number, row).ok_or_else(|| too_short(row)),
        }
    }

    #[inline]
    fn variable_bytes<'r>(&self, number: usize, row: &'r [u8]) -> Option<&'r [u8]> {
        let is_wide = row.get(1)? & (WIDE >> 8) as u8 != 0;
        let end_bytes = if is_wide { 4 } else { 2 };
        let end = |number: usize| -> Option<usize> {
            let at = self.ends_at + number * end_bytes;
            let mut end = [0; 4];
            end[..end_bytes].copy_from_slice(row.get(at..at + end_bytes)?);
            Some(u32::from_le_bytes(end) as usize)
        };
        let all = row.get(self.ends_at + (self.variables - 1) * end_bytes..)?;
        let start = if number == 0 { 0 } else { end(number - 1)? };
        let end = if number + 1 == self.variables { all.len() } else { end(number)? };
        all.get(start..end)
    }

    /// The value of the column at this place.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are no row of this layout.
    #[inline]
    pub(crate) fn read<'r>(&self, place: usize, row: &'r [u8]) -> Result<Value<'r>> {
        let slot = &self.slots[place];
        if self.is_null(slot, row)? {
            return Ok(Value::Null);
        }
        let bytes = self.bytes(slot, row)?;
        let value = match slot.place {
            SlotPlace::Summed => value_of_sum(slot.data_type, Layout::read_sum(row)?),
            _ => read_value(slot.data_type, bytes),
        };
        value.ok_or_else(|| corrupt(slot.data_type, bytes))
    }

    /// The bytes of the column at this place, for comparison; none if it is NULL.
    ///
    /// # Errors
    /// Those of [`Layout::read`].
    #[inline]
    pub(crate) fn read_bytes<'r>(&self, place: usize, row: &'r [u8]) -> Result<Option<&'r [u8]>> {
        let slot = &self.slots[place];
        if self.is_null(slot, row)? { Ok(None) } else { self.bytes(slot, row).map(Some) }
    }

    /// The summed number.
    ///
    /// # Errors
    /// Those of [`Layout::read`].
    pub(crate) fn read_sum(row: &[u8]) -> Result<i64> {
        let bytes = row.get(SUM_AT..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| i64::from_le_bytes(*bytes)).ok_or_else(|| too_short(row))
    }
}

#[cold]
fn too_short(row: &[u8]) -> Error {
    let what = format!("a row of {} bytes ends before its columns do: run `quipu check`", row.len());
    Error::new(ErrorKind::Corrupt, what)
}

#[cold]
fn corrupt(data_type: DataType, bytes: &[u8]) -> Error {
    let bytes: String = bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    Error::new(ErrorKind::Corrupt, format!("the bytes {bytes} of a row are not of type {data_type}: run `quipu check`"))
}

/// The bytes of a value whose size varies.
#[inline]
fn variable<'v>(value: &'v Value<'_>) -> Option<&'v [u8]> {
    match value {
        Value::Numeric(text) | Value::Text(text) | Value::Json(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// Writes a value of fixed size to the front of `out`, which is zero.
#[inline]
fn write_fixed(data_type: DataType, value: &Value<'_>, out: &mut [u8]) {
    let size = fixed_bytes(data_type).unwrap_or_default();
    let mut write = |bytes: &[u8]| out[..size].copy_from_slice(&bytes[..size]);
    match (data_type, value) {
        (_, Value::Null) => {}
        (_, Value::Bool(value)) => write(&[u8::from(*value)]),
        // The low bytes of an integer are those of a shorter one.
        (_, Value::Int(int)) => write(&int.to_le_bytes()),
        (DataType::F32, Value::Float(float)) => write(&(*float as f32).to_le_bytes()),
        (_, Value::Float(float)) => write(&float.to_le_bytes()),
        (_, Value::Decimal(decimal)) => write(&decimal.units().to_le_bytes()),
        (_, Value::Date(date)) => write(&date.days().to_le_bytes()),
        (_, Value::Timestamp(moment)) => write(&moment.microseconds().to_le_bytes()),
        (_, Value::Uuid(uuid)) => write(uuid.as_bytes()),
        (_, Value::Numeric(_) | Value::Text(_) | Value::Bytes(_) | Value::Json(_)) => {}
    }
}

/// The value of a column that is kept as the number to add up.
fn value_of_sum(data_type: DataType, sum: i64) -> Option<Value<'static>> {
    let int = match data_type {
        DataType::Decimal { scale, precision } => {
            return Decimal::new(sum.into(), scale).filter(|decimal| decimal.fits(precision)).map(Value::Decimal);
        }
        DataType::U64 => i128::from(sum as u64),
        _ => sum.into(),
    };
    let (min, max) = data_type.int_range()?;
    (min..=max).contains(&int).then_some(Value::Int(int))
}

/// The number that the engine adds up for a value; 0 for NULL.
pub(crate) fn sum_of_value(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(int) => *int as i64,
        Value::Decimal(decimal) => decimal.units() as i64,
        _ => 0,
    }
}

/// The value that bytes of this type's size are.
#[inline]
fn read_value(data_type: DataType, bytes: &[u8]) -> Option<Value<'_>> {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(*bytes.first_chunk()?)
        };
    }
    Some(match data_type {
        DataType::Bool => match bytes {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return None,
        },
        DataType::I8 => number!(i8).into(),
        DataType::I16 => number!(i16).into(),
        DataType::I32 => number!(i32).into(),
        DataType::I64 => number!(i64).into(),
        DataType::U8 => number!(u8).into(),
        DataType::U16 => number!(u16).into(),
        DataType::U32 => number!(u32).into(),
        DataType::U64 => number!(u64).into(),
        DataType::F32 => number!(f32).into(),
        DataType::F64 => number!(f64).into(),
        DataType::Decimal { precision, scale } => {
            let units = if bytes.len() == 8 { number!(i64).into() } else { number!(i128) };
            Value::Decimal(Decimal::new(units, scale).filter(|decimal| decimal.fits(precision))?)
        }
        DataType::Date => Value::Date(Date::from_days(number!(i32))?),
        DataType::Timestamp => Value::Timestamp(Timestamp::from_microseconds(number!(i64))?),
        DataType::Uuid => Value::Uuid(Uuid::from_bytes(*bytes.first_chunk()?)),
        DataType::Text(_) => Value::Text(std::str::from_utf8(bytes).ok()?.into()),
        DataType::Numeric => Value::Numeric(std::str::from_utf8(bytes).ok()?.into()),
        DataType::Json => Value::Json(std::str::from_utf8(bytes).ok()?.into()),
        DataType::Bytes | DataType::KeyedBytes => Value::Bytes(bytes.into()),
    })
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::value::sample::{TYPES, random_value};

    #[test]
    fn random_rows_of_random_layouts_come_back() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        for round in 0..2_000 {
            let columns: Vec<StoredColumn> = (0..random.random_range(0..20))
                .map(|_| StoredColumn {
                    data_type: TYPES[random.random_range(0..TYPES.len())],
                    is_nullable: random.random(),
                    is_summed: false,
                })
                .collect();
            let (number, has_sum) = (random.random_range(0..LAYOUTS_MAX), random.random());
            let mut columns = columns;
            let summed = columns.iter().position(|column| has_sum && column.data_type.is_summable());
            if let Some(place) = summed {
                columns[place].is_summed = true;
            }
            let layout = Layout::new(number, has_sum, &columns);
            let mut values: Vec<Value<'_>> = Vec::new();
            for column in &columns {
                let value = loop {
                    let value = random_value(column.data_type, random);
                    if column.is_nullable || !value.is_null() {
                        break value;
                    }
                };
                values.push(match (value, round % 10) {
                    (Value::Bytes(_), 0) => Value::from(vec![7; random.random_range(0..80_000)]),
                    (value, _) => value,
                });
            }
            let mut row = b"before".to_vec();
            let sum = summed.map_or_else(|| random.random(), |place| sum_of_value(&values[place]));
            layout.encode(sum, values.iter(), &mut row);
            let row = &row[6..];
            assert_eq!(Layout::number_of(row).unwrap(), number);
            assert!(!has_sum || Layout::read_sum(row).unwrap() == sum);
            for (place, value) in values.iter().enumerate() {
                let found = layout.read(place, row).unwrap();
                assert_eq!(found, *value);
                assert_eq!(layout.read_bytes(place, row).unwrap().is_none(), value.is_null());
            }
            // A column that is overwritten is as if the row had been written with it.
            for place in 0..values.len() {
                let (mut changed, mut overwritten) = (values.clone(), row.to_vec());
                changed[place] = random_value(columns[place].data_type, random);
                let is_fixed = matches!(layout.slots[place].place, SlotPlace::Fixed(_));
                let can = is_fixed && (columns[place].is_nullable || !changed[place].is_null());
                assert_eq!(layout.overwrite(place, &changed[place], &mut overwritten), can);
                let mut expected = Vec::new();
                layout.encode(sum, if can { &changed } else { &values }.iter(), &mut expected);
                assert_eq!(overwritten, expected);
            }
            // Bytes that are cut or changed are read as something or refused.
            for _ in 0..10 {
                let mut bad = row[..random.random_range(0..=row.len())].to_vec();
                if let Some(last) = bad.len().checked_sub(1) {
                    bad[random.random_range(0..=last)] ^= 1 << random.random_range(0..8);
                }
                for place in 0..values.len() {
                    let _ = (layout.read(place, &bad), layout.read_bytes(place, &bad));
                }
            }
        }
    }

    #[test]
    fn negative_zero_and_odd_nans_stay_in_values() {
        let layout =
            Layout::new(0, false, &[StoredColumn { data_type: DataType::F64, is_nullable: false, is_summed: false }]);
        let odd = f64::from_bits(f64::NAN.to_bits() | 7);
        for float in [-0.0, odd] {
            let mut row = Vec::new();
            layout.encode(0, [Value::Float(float)].iter(), &mut row);
            assert!(matches!(layout.read(0, &row), Ok(Value::Float(found)) if found.to_bits() == float.to_bits()));
        }
    }
}
