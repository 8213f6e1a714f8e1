//! Rows as keys and values, for stores of keys and values.
//!
//! A key is the numbers of the primary key, four bytes each, in big-endian order; a value the rest of the row, encoded
//! by `postcard`.

use serde::{Deserialize, Serialize};

use super::records::{Customer, District, History, Item, NewOrder, Order, OrderLine, Record, Stock, Table, Warehouse};
use crate::store::Result;

/// The key of these numbers.
pub(super) fn key_of<const N: usize>(numbers: [i32; N]) -> Key {
    let mut key = Key { bytes: [0; 16], len: 4 * N };
    for (place, number) in numbers.into_iter().enumerate() {
        key.bytes[4 * place..4 * place + 4].copy_from_slice(&number.to_be_bytes());
    }
    key
}

/// A short key.
#[derive(Clone, Copy)]
pub(super) struct Key {
    bytes: [u8; 16],
    len: usize,
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Number `place` of a key.
pub(super) fn number_at(key: &[u8], place: usize) -> i32 {
    let bytes = key.get(4 * place..4 * place + 4).and_then(|bytes| bytes.try_into().ok());
    i32::from_be_bytes(bytes.unwrap_or_default())
}

/// Appends what a row has beside its key.
pub(super) fn encode_value(row: &impl Serialize, value: &mut Vec<u8>) -> Result<()> {
    let taken = std::mem::take(value);
    *value = postcard::to_extend(row, taken)?;
    Ok(())
}

pub(super) fn decode_value<'v, R: Deserialize<'v>>(value: &'v [u8]) -> Result<R> {
    Ok(postcard::from_bytes(value)?)
}

/// Appends a row's key and value.
pub(super) fn encode(
    record: &Record<'_>,
    history: impl FnOnce() -> i32,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<()> {
    let numbers = match record {
        Record::Item(row) => key_of([row.id]),
        Record::Warehouse(row) => key_of([row.id]),
        Record::District(row) => key_of([row.warehouse, row.id]),
        Record::Stock(row) => key_of([row.warehouse, row.item]),
        Record::Customer(row) => key_of([row.warehouse, row.district, row.id]),
        Record::History(_) => key_of([history()]),
        Record::Order(row) => key_of([row.warehouse, row.district, row.id]),
        Record::NewOrder(row) => key_of([row.warehouse, row.district, row.order]),
        Record::OrderLine(row) => key_of([row.warehouse, row.district, row.order, row.number]),
    };
    key.extend_from_slice(&numbers);
    match record {
        Record::Item(row) => encode_value(row, value),
        Record::Warehouse(row) => encode_value(row, value),
        Record::District(row) => encode_value(row, value),
        Record::Stock(row) => encode_value(row, value),
        Record::Customer(row) => encode_value(row, value),
        Record::History(row) => encode_value(row, value),
        Record::Order(row) => encode_value(row, value),
        Record::NewOrder(_) => Ok(()),
        Record::OrderLine(row) => encode_value(row, value),
    }
}

pub(super) fn decode<'v>(table: Table, key: &[u8], value: &'v [u8]) -> Result<Record<'v>> {
    let at = |place| number_at(key, place);
    Ok(match table {
        Table::Item => Record::Item(Item { id: at(0), ..decode_value(value)? }),
        Table::Warehouse => Record::Warehouse(Warehouse { id: at(0), ..decode_value(value)? }),
        Table::District => Record::District(District { warehouse: at(0), id: at(1), ..decode_value(value)? }),
        Table::Stock => Record::Stock(Stock { warehouse: at(0), item: at(1), ..decode_value(value)? }),
        Table::Customer => {
            Record::Customer(Customer { warehouse: at(0), district: at(1), id: at(2), ..decode_value(value)? })
        }
        Table::History => Record::History(decode_value::<History<'v>>(value)?),
        Table::Order => Record::Order(Order { warehouse: at(0), district: at(1), id: at(2), ..decode_value(value)? }),
        Table::NewOrder => Record::NewOrder(NewOrder { warehouse: at(0), district: at(1), order: at(2) }),
        Table::OrderLine => Record::OrderLine(OrderLine {
            warehouse: at(0),
            district: at(1),
            order: at(2),
            number: at(3),
            ..decode_value(value)?
        }),
    })
}
