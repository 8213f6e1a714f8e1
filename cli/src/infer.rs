//! The first pass of an import: which columns a file has, and of what types.

use quipu_rows::{Column, DataType};

use crate::evidence::Evidence;
use crate::failure::{Failure, Result};
use crate::files::Source;
use crate::progress;
use crate::records::{Field, Format, Records};

/// How many records are read between two steps of a progress bar.
const STEP_RECORDS: u64 = 4096;

/// The columns of `source`: of `declared` type where one is given, else of the narrowest that all their fields fit.
///
/// A CSV file all of whose columns are declared is not read past its first line.
pub(crate) fn columns(
    source: &Source,
    format: Format,
    missing: &str,
    declared: &[(String, DataType)],
) -> Result<Vec<Column>> {
    let input = source.open()?;
    let consumed_bytes = std::rc::Rc::clone(&input.consumed_bytes);
    let bar = progress::bar(input.total_bytes, "types");
    let mut records = Records::open(input, format, missing)?;
    let mut evidence: Vec<Evidence> = Vec::new();
    let all_declared =
        format == Format::Csv && records.columns().iter().all(|name| declared.iter().any(|(known, _)| known == name));
    let mut read = 0;
    while !all_declared && records.advance()? {
        evidence.resize(records.columns().len(), Evidence::default());
        for (place, evidence) in evidence.iter_mut().enumerate() {
            match records.field(place) {
                Field::Missing | Field::Empty => {}
                Field::Text(text) => evidence.see_text(text),
                Field::Json(json) => evidence.see_json(json),
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
    if let Some((name, _)) = declared.iter().find(|(name, _)| !names.contains(name)) {
        return Err(Failure::new(format!("there is no column {name:?}; the columns are {}", names.join(", "))));
    }
    let column = |(name, evidence): (&String, &Evidence)| {
        let known = declared.iter().find(|(known, _)| known == name).map(|(_, data_type)| *data_type);
        Column::new(name.clone(), known.unwrap_or_else(|| evidence.data_type()))
    };
    Ok(names.iter().zip(&evidence).map(column).collect())
}
