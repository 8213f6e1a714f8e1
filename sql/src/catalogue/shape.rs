//! Tables as statements need to know them.

use std::sync::Arc;

use quipu_rows::{DataType, Deferral, Identity, Ordered, TableIn, TableSchema, Trees};

use crate::bind::names::{KeyExpression, KeyShape, ShapeColumn, TableShape};
use crate::catalogue::column_type;
use crate::catalogue::computed::is_in_rows;
use crate::catalogue::labels::with_labels;
use crate::catalogue::table::Table;
use crate::error::Result;
use crate::plan::source::KeyColumn;
use crate::statement::parse_expression;
use crate::types::SqlType;

/// The shape of a table.
///
/// # Errors
/// Those of reading the catalogue.
pub fn shape_of<T: Trees>(table: &TableIn<'_, T>, known: &Table) -> Result<TableShape> {
    let schema = table.schema();
    let columns: Vec<ShapeColumn> = schema
        .columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let sql_type = known.columns.get(place).map_or(SqlType::TEXT, |column| column.sql_type);
            ShapeColumn {
                name: column.name.as_str().into(),
                number: table.column_number(place).and_then(|number| i16::try_from(number).ok()).unwrap_or(0),
                sql_type,
                is_hidden: column.hidden,
                is_not_null: column.not_null,
                default: column_type::default_of(column, sql_type),
                identity: column.identity.map(|identity| identity == Identity::Always),
                generates: known.columns.get(place).and_then(|column| column.generates),
                is_generated: column.generated.is_some(),
            }
        })
        .collect();
    let types: Arc<[SqlType]> = columns.iter().map(|column| column.sql_type).collect();
    let primary = primary_key(schema);
    let mut indexes = Vec::new();
    for index in &schema.indexes {
        // One that is being built is not read.
        let Ok(entries) = table.entries(&index.name) else { continue };
        let own = index.columns.len();
        let mut key = Vec::new();
        let mut expressions = Vec::new();
        for (at, (_, data_type)) in entries.key_columns().into_iter().enumerate() {
            let text = index.columns.get(at).map_or("", String::as_str);
            let is_descending =
                text.rsplit_once(char::is_whitespace).is_some_and(|(_, way)| way.eq_ignore_ascii_case("desc"));
            let place = match index.columns.get(at) {
                Some(text) => schema.place(&column_name(text)),
                // Those of the primary key follow.
                None => {
                    let used: Vec<usize> = key.iter().filter_map(|column: &KeyColumn| column.place).collect();
                    primary.columns.iter().filter_map(|column| column.place).find(|place| !used.contains(place))
                }
            };
            if place.is_none() {
                let text = without_direction(text);
                if let Ok(written) = parse_expression(&with_labels(text, known)) {
                    expressions.push(KeyExpression { at, written, is_of_rows: !is_in_rows(text) });
                }
            }
            let is_descending = match index.columns.get(at) {
                Some(_) => is_descending,
                None => primary.columns.iter().any(|column| column.place == place && column.is_descending),
            };
            let is_nullable = place.is_none_or(|place| !schema.columns[place].not_null);
            key.push(KeyColumn { place, data_type, is_descending, is_nullable });
        }
        indexes.push(KeyShape {
            index: Some(index.name.as_str().into()),
            columns: key,
            own,
            is_unique: index.unique,
            is_unique_later: index.deferral != Deferral::Never,
            expressions,
            predicate: index.predicate.as_deref().map(|predicate| with_labels(predicate, known)),
            includes: index.include.iter().filter_map(|name| schema.place(&column_name(name))).collect(),
            sum: index.sum.as_deref().and_then(|name| schema.place(&column_name(name))),
        });
    }
    Ok(TableShape {
        table: schema.table.as_str().into(),
        name: known.name.as_str().into(),
        schema: known.schema.as_str().into(),
        primary_name: known.primary_key_name(),
        number: known.oid(),
        columns,
        types,
        primary,
        indexes,
        materialized: known.materialized.as_ref().map(|known| known.is_populated),
        face: None,
    })
}

fn primary_key(schema: &TableSchema) -> KeyShape {
    let columns: Vec<KeyColumn> = schema
        .key
        .iter()
        .map(|text| {
            let place = schema.place(&column_name(text));
            KeyColumn {
                place,
                data_type: place.map_or(DataType::I64, |place| schema.columns[place].data_type),
                is_descending: text
                    .rsplit_once(char::is_whitespace)
                    .is_some_and(|(_, way)| way.eq_ignore_ascii_case("desc")),
                is_nullable: false,
            }
        })
        .collect();
    KeyShape {
        index: None,
        own: columns.len(),
        columns,
        is_unique: true,
        is_unique_later: false,
        expressions: Vec::new(),
        predicate: None,
        includes: Vec::new(),
        sum: schema.sum.as_deref().and_then(|name| schema.place(&column_name(name))),
    }
}

/// The part of a key's element before its direction.
fn without_direction(text: &str) -> &str {
    let text = text.trim();
    match text.rsplit_once(char::is_whitespace) {
        Some((name, way)) if ["asc", "desc"].iter().any(|word| way.eq_ignore_ascii_case(word)) => name.trim_end(),
        _ => text,
    }
}

/// The name of a column in a key, without quotes and its direction.
pub fn column_name(text: &str) -> String {
    let name = without_direction(text);
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}
