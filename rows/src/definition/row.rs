//! The bytes of a row, as the definition of its table has them.

use crate::definition::table::TableDefinition;
use crate::encoding::key;
use crate::encoding::layout::sum_of_value;
use crate::value::Value;

/// The value of a row in which columns of fixed size are overwritten and the others are not looked at. None if it takes
/// more than that: another layout, another size, a check, or an error.
pub(crate) fn overwritten<'v>(
    definition: &TableDefinition,
    value: &[u8],
    changes: impl Iterator<Item = (usize, Value<'v>)>,
) -> Option<Vec<u8>> {
    let layout = definition.current_shape().layout.as_ref()?;
    if !definition.checks.is_empty() || !layout.is_of(value) {
        return None;
    }
    let mut value = value.to_vec();
    for (place, new) in changes {
        let column = &definition.columns[place].declared;
        if column.not_null && new.is_null() {
            return None;
        }
        let new = if new.is_null() { new } else { column.data_type.accept(new).ok()? };
        let stored = definition.stored.iter().position(|&stored| stored == place)?;
        if !layout.overwrite(stored, &new, &mut value) {
            return None;
        }
    }
    Some(value)
}

/// Appends the key of a row.
pub(crate) fn encode_key(definition: &TableDefinition, row: &[Value<'_>], bytes: &mut Vec<u8>) {
    let primary = &definition.primary;
    key::encode(&primary.key.columns, primary.places.iter().map(|&place| &row[place]), bytes);
}

/// Appends the value of a row, in the layout of new rows.
pub(crate) fn encode_value(definition: &TableDefinition, row: &[Value<'_>], bytes: &mut Vec<u8>) {
    let sum = definition.sum.map_or(0, |place| sum_of_value(&row[place]));
    if let Some(layout) = &definition.current_shape().layout {
        layout.encode(sum, definition.stored.iter().map(|&place| &row[place]), bytes);
    }
}
