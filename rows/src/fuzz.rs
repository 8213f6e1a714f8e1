//! Decoders of untrusted bytes, for the fuzz targets and `tests/fuzz_smoke.rs`. Unstable.
//!
//! Bytes from a file have passed the checks of the engine, but another program may have written them: no bytes may make
//! a decoder panic, and a decoded value survives encoding and decoding.

use std::sync::OnceLock;

use quipu::{Db, Options, Table, TableOptions, tuple};

use crate::catalogue::store::{document_bytes, document_of};
use crate::change::definitions::is_collated;
use crate::change::indexes::index_entry;
use crate::definition::document::{Document, FORMAT, IndexTree};
use crate::definition::row::{encode_key, encode_value};
use crate::definition::table::TableDefinition;
use crate::encoding::key::KeyColumn;
use crate::encoding::layout::{Layout, StoredColumn};
use crate::read::row::RowView;
use crate::schema::column::Column;
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::value::collation;
use crate::value::data_type::{DataType, TYPES};
use crate::value::{Value, Values};
use crate::write::complete;

/// The type that a fuzzer's byte stands for.
fn type_of(byte: u8) -> DataType {
    TYPES[usize::from(byte) % TYPES.len()]
}

/// The number of columns, a byte for each, and what follows them.
fn columns_and_rest(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&count, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(count % 16))
}

/// A row: the columns of a layout, and then the bytes of a row of it.
///
/// # Panics
/// If what decodes does not come back.
pub fn row(bytes: &[u8]) {
    let Some((columns, value)) = columns_and_rest(bytes) else { return };
    let mut has_sum = false;
    let stored: Vec<StoredColumn> = columns
        .iter()
        .map(|byte| {
            let (data_type, is_nullable) = (type_of(byte % 64), byte & 64 != 0);
            let is_summed = byte & 128 != 0 && data_type.is_summable() && !has_sum;
            has_sum |= is_summed;
            StoredColumn { data_type, is_nullable, is_summed }
        })
        .collect();
    let layout = Layout::new(3, has_sum, &stored);
    let _ = Layout::number_of(value);
    let read = |value: &[u8]| -> Option<Vec<Value<'static>>> {
        (0..stored.len())
            .map(|place| {
                let is_null = layout.read_bytes(place, value).ok()?.is_none();
                let read = layout.read(place, value).ok()?.into_owned();
                assert_eq!(is_null, read.is_null(), "bytes and value are NULL together");
                Some(read)
            })
            .collect()
    };
    let Some(values) = read(value) else { return };
    // JSON, numbers and sort keys are not parsed when they are read.
    let is_parsed =
        |column: &StoredColumn| matches!(column.data_type, DataType::Json | DataType::Numeric | DataType::KeyedBytes);
    for (column, value) in stored.iter().zip(&values).filter(|(column, value)| !value.is_null() && !is_parsed(column)) {
        let accepted = column.data_type.accept(value.clone());
        assert_eq!(accepted.as_ref(), Ok(value), "{} reads what it does not hold", column.data_type);
    }
    let sum = if has_sum { Layout::read_sum(value).unwrap_or_default() } else { 0 };
    let mut encoded = Vec::new();
    layout.encode(sum, values.iter(), &mut encoded);
    assert_eq!(read(&encoded), Some(values), "what decodes comes back");
}

/// The key of a row, and the row: the columns of a key, how long the key is, the key, and the rest as the value of a
/// row and of an entry of an index.
///
/// # Panics
/// If what decodes does not come back.
pub fn row_key(bytes: &[u8]) {
    let Some((columns, rest)) = columns_and_rest(bytes) else { return };
    let columns: Vec<KeyColumn> = columns
        .iter()
        .map(|byte| KeyColumn { data_type: type_of(byte & 127), is_descending: byte & 128 != 0 })
        .collect();
    for (column, part) in columns.iter().zip(tuple::parts(rest)) {
        let Ok(value) = column.decode(part) else { continue };
        let mut encoded = Vec::new();
        column.encode(&value, &mut encoded);
        assert_eq!(encoded, part.bytes(), "{value} of {}", column.data_type);
    }
    let Some((&key_bytes, rest)) = rest.split_first() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(key_bytes)) else { return };
    let definition = known();
    for index in &definition.indexes {
        let _ = index.row_key(key, value);
    }
    examine_row(definition, key, value);
}

/// Reads a row in all ways, and encodes it again.
fn examine_row(definition: &TableDefinition, key: &[u8], value: &[u8]) {
    let Ok(view) = RowView::new(definition, key, value) else { return };
    let _ = (view.values(), view.key_values(), format!("{view:?}"));
    let row: Option<Values<'_>> = (0..definition.columns.len()).map(|place| view.value(place).ok()).collect();
    let Some(row) = row else { return };
    let _ = complete::check(definition, &row, None);
    let (mut own_key, mut own_value) = (Vec::new(), Vec::new());
    encode_key(definition, &row, &mut own_key);
    encode_value(definition, &row, &mut own_value);
    for index in &definition.indexes {
        let (mut index_key, mut index_value) = (Vec::new(), Vec::new());
        let is_there = index_entry(definition, index, &view, &mut index_key, &mut index_value);
        // Of a row that has the key of another, the entry leads wherever its key says.
        if let Ok(true) = is_there
            && own_key == key
        {
            let row_key = index.row_key(&index_key, &index_value).expect("an entry that was made");
            assert_eq!(row_key[..], *key, "an entry leads to its row");
        }
    }
    let again = RowView::new(definition, &own_key, &own_value).expect("a row that was made");
    for (place, value) in row.iter().enumerate() {
        assert_eq!(again.value(place).ok().as_ref(), Some(value), "column {place} comes back");
    }
}

/// A schema, or a definition as the catalogue keeps it, as JSON: what is read is written so that it comes back, and is
/// made ready or refused.
///
/// # Panics
/// If what decodes does not come back.
pub fn schema(bytes: &[u8]) {
    if let Ok(document) = document_of(bytes) {
        let again = document_of(&document_bytes(&document));
        assert_eq!(again.as_ref(), Ok(&document), "a definition comes back");
        examine(document);
    }
    let Some(schema) = std::str::from_utf8(bytes).ok().and_then(|text| TableSchema::from_json(text).ok()) else {
        return;
    };
    let again = TableSchema::from_json(&schema.to_json()).expect("a schema that was written");
    assert_eq!(again, schema, "a schema comes back");
    examine(document_with(schema.completed()));
}

/// The definition of a new table.
fn document_with(schema: TableSchema) -> Document {
    let mut document = Document {
        format: FORMAT,
        tree: 1,
        columns: (1..).take(schema.columns.len()).collect(),
        next_column: schema.columns.len() as u32 + 1,
        missing: Default::default(),
        layouts: Vec::new(),
        indexes: vec![IndexTree::new(1, None); schema.indexes.len()],
        foreign_tables: vec![1; schema.foreign_keys.len()],
        referenced_by: Vec::new(),
        unvalidated: Vec::new(),
        collation: None,
        schema,
    };
    document.collation = is_collated(&document).then(|| collation::VERSION.to_owned());
    document.update_layout();
    document
}

fn made_ready(document: Document) -> quipu::Result<TableDefinition> {
    TableDefinition::new(1, 1, document, &mut |_| Ok(tree().clone()))
}

/// Makes a definition ready, and writes and reads the row of its defaults.
fn examine(document: Document) {
    let Ok(definition) = made_ready(document) else { return };
    let row: Values<'_> = definition.columns.iter().map(|column| column.default.clone()).collect();
    let _ = complete::check(&definition, &row, None);
    let is_whole =
        row.iter().zip(&definition.columns).all(|(value, column)| !value.is_null() || !column.declared.not_null);
    if is_whole && definition.stored.len() == definition.document.layouts.last().map_or(0, Vec::len) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        encode_key(&definition, &row, &mut key);
        encode_value(&definition, &row, &mut value);
        examine_row(&definition, &key, &value);
    }
}

/// The tree that stands for all trees of a definition.
fn tree() -> &'static Table {
    static TREE: OnceLock<Table> = OnceLock::new();
    TREE.get_or_init(|| {
        let db = Db::open("/fuzz", Options::without_files()).expect("a database in memory");
        db.create_table("tree", TableOptions::default()).expect("a table in memory")
    })
}

/// A table of all types whose rows have two layouts.
fn known() -> &'static TableDefinition {
    static KNOWN: OnceLock<TableDefinition> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut schema = TableSchema::new("all").key(["c3", "c14 desc", "c15"]).sum("c4");
        for (number, data_type) in TYPES.iter().enumerate() {
            schema = schema.column(Column::new(format!("c{number}"), *data_type));
        }
        let schema = schema
            .index(IndexSchema::new("plain", ["c14", "c4 desc"]).include(["c20"]).sum("c4"))
            .index(IndexSchema::new("unique", ["c17", "c3 % 5"]).unique().predicate("c0 or c9 > 0.5"))
            .index(IndexSchema::new("texts", ["lower(c14)", "c15 desc", "c13"]).include(["c10"]))
            .check("some", "c4 > 0 or c14 like '%a_' or year(c17) between 1990 and 2030");
        let mut document = document_with(schema.completed());
        document.schema.columns.push(Column::new("younger", DataType::Decimal { precision: 5, scale: 1 }));
        document.columns.push(document.next_column);
        document.missing.insert(document.next_column, "1.5".into());
        document.next_column += 1;
        document.update_layout();
        made_ready(document).expect("a definition that goes together")
    })
}

/// A row, one of four.
fn values_of_seed(definition: &TableDefinition, number: usize) -> Values<'static> {
    let texts = ["", "a", "Straße", "ab\0c"];
    definition
        .columns
        .iter()
        .map(|column| {
            let text = match column.declared.data_type {
                DataType::Bool => "true",
                DataType::Text(_) => texts[number],
                DataType::Bytes => "\\x00ff",
                DataType::KeyedBytes => ["\\x00", "\\x01ff", "\\x0100", "\\x020001ff"][number],
                DataType::Date => "2013-07-04",
                DataType::Timestamp => "2013-07-04 12:00:00",
                DataType::Uuid => "67e55044-10b1-426f-9247-bb680e5fe0c8",
                DataType::Json => r#"{"a": [1, null]}"#,
                _ => ["0", "1", "2", "3"][number],
            };
            let is_null = number == 3 && !column.declared.not_null;
            let read = column.declared.data_type.parse_text(text);
            if is_null { Value::Null } else { read.map_or(Value::Null, Value::into_owned) }
        })
        .collect()
}

/// Inputs for the targets: valid ones, of each by its name.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    let definition = known();
    for number in 0..4usize {
        let values = values_of_seed(definition, number);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        encode_key(definition, &values, &mut key);
        encode_value(definition, &values, &mut value);
        let mut row_key = vec![3, 3, 14 | 128, 15, key.len() as u8];
        row_key.extend_from_slice(&key);
        row_key.extend_from_slice(&value);
        seeds.push(("row_key", row_key));
        let mut key_alone = vec![3, 3, 14 | 128, 15];
        key_alone.extend_from_slice(&key);
        seeds.push(("row_key", key_alone));
        for columns in [vec![14 | 64, 3, 16, 4 | 128, 20 | 64], (0..15).collect(), vec![17, 18, 19, 20, 15 | 64]] {
            let stored = columns.iter().map(|byte: &u8| StoredColumn {
                data_type: type_of(byte % 64),
                is_nullable: byte & 64 != 0,
                is_summed: byte & 128 != 0,
            });
            let stored: Vec<StoredColumn> = stored.collect();
            let layout = Layout::new(3, stored.iter().any(|column| column.is_summed), &stored);
            let mut bytes = vec![columns.len() as u8];
            bytes.extend_from_slice(&columns);
            let values: Vec<&Value<'_>> = columns.iter().map(|byte| &values[usize::from(byte % 64)]).collect();
            if values.iter().zip(&stored).all(|(value, column)| !value.is_null() || column.is_nullable) {
                layout.encode(number as i64, values.into_iter(), &mut bytes);
                seeds.push(("row", bytes));
            }
        }
    }
    let schema = &definition.document.schema;
    let with_constraints = TableSchema::new("flights")
        .column(Column::new("id", DataType::I32).identity(crate::Identity::Always))
        .column(Column::new("carrier", DataType::TEXT).not_null().default("lower('AA')"))
        .column(Column::new("day", DataType::Date).default("DATE '2013-01-01'"))
        .key(["id desc"])
        .index(IndexSchema::new("carrier", ["carrier", "year(day) desc"]).unique().predicate("carrier in ('a', 'b')"))
        .check("short", "length(carrier) * 2 < 10 and not carrier is null")
        .foreign_key(crate::ForeignKey::new("of", ["carrier"], "carriers").on_delete(crate::Action::Cascade));
    for schema in [schema, &with_constraints] {
        seeds.push(("schema", schema.to_json().into_bytes()));
        seeds.push(("schema", document_bytes(&document_with(schema.completed()))));
    }
    seeds.push(("schema", document_bytes(&definition.document)));
    seeds
}
