//! The first pass of an import: which columns a file has, and of what types.

use quipu_rows::{Column, DataType, text_of};

use crate::failure::{Failure, Result};
use crate::progress;
use crate::table_files::column_types::Evidence;
use crate::table_files::files::Source;
use crate::table_files::records::{At, CsvNotation, Field, Format, Records};

/// How many records are read between two steps of a progress bar.
const STEP_RECORDS: u64 = 4096;

/// The columns of a file.
pub(crate) struct Found {
    pub(crate) columns: Vec<Column>,
    /// What a person would like to know of their types.
    pub(crate) notes: Vec<String>,
}

/// The columns of `source`: of `declared` type where one is given, else of that which the file says, or of the
/// narrowest that all their fields fit.
///
/// Of a file that says its types no more is read than these. A CSV file all of whose columns are declared is not read
/// past its first line.
pub(crate) fn columns(
    source: &Source,
    format: Format,
    csv: CsvNotation<'_>,
    declared: &[(String, DataType)],
) -> Result<Found> {
    let input = source.open()?;
    let consumed_bytes = std::rc::Rc::clone(&input.consumed_bytes);
    let bar = progress::bar(input.total_bytes, "types");
    let mut records = Records::open(input, format, csv)?;
    if let Some(columns) = records.typed_columns() {
        bar.finish_and_clear();
        check_names(records.columns(), declared)?;
        let of_type = |column: Column| match declared_type(declared, &column.name) {
            Some(data_type) => Column { data_type, ..column },
            None => column,
        };
        return Ok(Found { columns: columns.into_iter().map(of_type).collect(), notes: Vec::new() });
    }
    let mut evidence: Vec<Evidence> = Vec::new();
    let all_declared =
        format == Format::Csv && records.columns().iter().all(|name| declared.iter().any(|(known, _)| known == name));
    let mut read = 0;
    while !all_declared && records.advance()? {
        evidence.resize(records.columns().len(), Evidence::default());
        for (place, evidence) in evidence.iter_mut().enumerate() {
            match records.field(place) {
                // In a column of text the mark is a text, and nothing else would be one for it.
                Field::Absent | Field::Missing | Field::Empty | Field::Mark(_) | Field::Text("") => {}
                Field::Text(text) => evidence.see_text(text, || At::list(&[records.at()])),
                Field::Json(json) => evidence.see_json(json),
                Field::Value(value) => evidence.see_text(&text_of(&value), || At::list(&[records.at()])),
            }
        }
        read += 1;
        if read % STEP_RECORDS == 0 {
            bar.set_position(consumed_bytes.get());
        }
    }
    bar.finish_and_clear();
    evidence.resize(records.columns().len(), Evidence::default());
    let names = records.columns();
    check_names(names, declared)?;
    let column = |(name, evidence): (&String, &Evidence)| {
        Column::new(name.clone(), declared_type(declared, name).unwrap_or_else(|| evidence.data_type()))
    };
    let columns = names.iter().zip(&evidence).map(column).collect();
    let is_found = |name: &str| declared_type(declared, name).is_none();
    let notes = names.iter().zip(&evidence).filter(|(name, _)| is_found(name));
    let notes = notes.filter_map(|(name, evidence)| evidence.note(name));
    let notes = records.notes().iter().cloned().chain(notes).collect();
    Ok(Found { columns, notes })
}

/// The type that is declared of a column.
fn declared_type(declared: &[(String, DataType)], name: &str) -> Option<DataType> {
    declared.iter().find(|(known, _)| known == name).map(|(_, data_type)| *data_type)
}

/// Fails if a type is declared of a column that the file does not have.
fn check_names(names: &[String], declared: &[(String, DataType)]) -> Result<()> {
    match declared.iter().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Failure::new(format!("there is no column {name:?}; the columns are {}", names.join(", "))))
        }
    }
}
