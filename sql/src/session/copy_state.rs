//! A COPY that takes data: how they are read, and where the rows go.

use std::sync::Arc;

use quipu_rows::Load;

use crate::bind::names::{ShapeColumn, TableShape};
use crate::copy::{CopyFormat, Decoder};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::violations::{self, OfColumn};
use crate::functions::Environment;
use crate::session::portal::Prepared;
use crate::session::table_lock::TableLock;
use crate::types::datum::Datum;
use crate::types::text_encoding::TextEncoding;
use crate::types::{SqlType, binary, text};

/// A COPY that takes data.
pub(crate) struct CopyState {
    pub(super) decoder: Decoder,
    pub(super) types: Vec<SqlType>,
    pub(super) format: CopyFormat,
    pub(super) encoding: TextEncoding,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) target: Target,
    pub(super) rows: u64,
}

/// Where the rows go.
pub(super) enum Target {
    /// Into an empty table, which no other session writes meanwhile.
    Load { load: Box<Load>, shape: Arc<TableShape>, places: Vec<usize>, _lock: TableLock },
    /// Into the transaction, by an INSERT with a parameter for each column. Each row has its line.
    Insert { insert: Arc<Prepared>, batch: Vec<(Vec<Datum>, String)> },
}

impl CopyState {
    /// Takes data, or their end.
    pub(super) fn take(&mut self, data: Option<&[u8]>) -> Result<()> {
        let CopyState { decoder, types, format, encoding, environment, target, rows } = self;
        let mut each = |row: &crate::copy::Row<'_>| {
            let mut values = Vec::with_capacity(types.len());
            for (place, (field, sql_type)) in row.fields.iter().zip(&*types).enumerate() {
                let value = match field {
                    None => Ok(Datum::Null),
                    Some(bytes) if *format == CopyFormat::Binary => binary::read(bytes, *sql_type, *encoding),
                    Some(bytes) => {
                        TextEncoding::UTF8.decode(bytes).and_then(|text| text::parse(&text, *sql_type, &**environment))
                    }
                };
                values.push(value.map_err(|error| error.in_context(row.column_context(place)))?);
            }
            match target {
                Target::Load { load, shape, places, .. } => {
                    *rows += 1;
                    refuse_null_numbers(shape, places, &values).map_err(|error| in_line(error, &row.context()))?;
                    let values: Option<Vec<_>> = values.iter().map(Datum::to_value).collect();
                    let values = values
                        .ok_or_else(|| SqlError::new(SqlState::DATATYPE_MISMATCH, "no column can hold such a value"))?;
                    let pushed = load.push_at(places, &values);
                    pushed.map_err(|error| in_line(of_row(error, shape, &**environment), &row.context()))?;
                }
                Target::Insert { batch, .. } => batch.push((values, row.context())),
            }
            Ok(())
        };
        match data {
            Some(data) => decoder.feed(data, &mut each),
            None => decoder.finish(&mut each),
        }
    }
}

/// Fails if a value of an identity column is NULL: the table would give it a number.
fn refuse_null_numbers(shape: &TableShape, places: &[usize], values: &[Datum]) -> Result<()> {
    let mut columns = places.iter().map(|&place| &shape.columns[place]).zip(values);
    match columns.find(|(column, value)| column.identity.is_some() && value.is_null()) {
        Some((column, _)) => Err(SqlError::null_in(&shape.name, &column.name)),
        None => Ok(()),
    }
}

/// The failure of a row that is loaded into a table.
pub(super) fn of_row(error: quipu::Error, shape: &TableShape, environment: &dyn Environment) -> SqlError {
    let columns = shape.columns.iter().map(|column| {
        let ShapeColumn { name, sql_type, is_hidden, .. } = column;
        OfColumn { name, sql_type: *sql_type, is_hidden: *is_hidden }
    });
    violations::explain(error, &shape.table, &columns.collect::<Vec<_>>(), environment)
}

/// The failure of a row, with its line. Foreign keys are looked at where PostgreSQL has left the lines.
pub(super) fn in_line(error: SqlError, line: &str) -> SqlError {
    match error.state() {
        SqlState::FOREIGN_KEY_VIOLATION => error,
        _ => error.in_context(line),
    }
}
