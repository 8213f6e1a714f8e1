//! Rows and other values out of JSON: `json_populate_record`, `json_to_record` and their like.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::Environment;
use crate::functions::definition::{Definitions, Rows, RowsOfTypes, array};
use crate::types::cast::{CastContext, cast};
use crate::types::datum::{Array, Datum, Row};
use crate::types::{BaseType, SqlType, json_raw, text as texts};

/// The function of rows of JSON whose columns the statement says: of a row that members may lack in, of JSON, and of
/// the names of the columns.
pub const RECORD: &str = ".json_record";
/// The same of the elements of an array.
pub const RECORDS: &str = ".json_records";
/// The function of one row, which has the value of its argument.
pub const VALUE: &str = ".value";

/// The most dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

/// Defines the functions of one value.
pub(super) fn define(definitions: &mut Definitions) {
    for signature in ["json_populate_record(anyelement,json)", "jsonb_populate_record(anyelement,jsonb)"] {
        let signature = format!("{signature} anyelement").leak();
        definitions.add(signature, populate).lenient().typed().stable();
    }
}

/// The functions of rows: their names, the types that they take, and what they do.
pub(super) fn functions_of_rows() -> [(&'static str, Vec<SqlType>, RowsOfTypes); 5] {
    let (row, element) = (SqlType::from(BaseType::Record), SqlType::from(BaseType::AnyElement));
    let (json, jsonb) = (SqlType::from(BaseType::Json), SqlType::from(BaseType::Jsonb));
    let names = SqlType::array_of(BaseType::Text);
    [
        ("json_populate_recordset", vec![element, json], records_of_type),
        ("jsonb_populate_recordset", vec![element, jsonb], records_of_type),
        (RECORD, vec![row, jsonb, names], record_of_names),
        (RECORDS, vec![row, jsonb, names], records_of_names),
        (VALUE, vec![element], |_, values, _| Ok(Box::new(std::iter::once(Ok(values.to_vec()))))),
    ]
}

fn record_of_names<'r>(environment: &'r dyn Environment, values: &'r [Datum], types: &[SqlType]) -> Result<Rows<'r>> {
    let fields = fields_of(values, types)?;
    let base = base_of(values);
    let row = match values.get(1) {
        Some(Datum::Json(json)) => members_of(json, &fields, base, environment)?,
        _ => base.map_or_else(|| vec![Datum::Null; fields.len()], own_values),
    };
    Ok(Box::new(std::iter::once(Ok(row))))
}

fn records_of_names<'r>(environment: &'r dyn Environment, values: &'r [Datum], types: &[SqlType]) -> Result<Rows<'r>> {
    let fields = fields_of(values, types)?;
    Ok(Box::new(elements_of(values)?.into_iter().map(move |element| {
        refuse_scalar(element)?;
        members_of(element, &fields, base_of(values), environment)
    })))
}

/// A name and its type.
type Field = (Arc<str>, SqlType);

/// The columns that the statement says, whose names stand in the last argument.
fn fields_of(values: &[Datum], types: &[SqlType]) -> Result<Vec<Field>> {
    let names = array(values, 2)?.map_or(&[][..], |names| &names.elements[..]);
    Ok(names.iter().zip(types).map(|(name, sql_type)| (name.as_text().unwrap_or_default().into(), *sql_type)).collect())
}

fn base_of(values: &[Datum]) -> Option<&Row> {
    match values.first() {
        Some(Datum::Record(row)) => Some(row),
        _ => None,
    }
}

fn own_values(row: &Row) -> Vec<Datum> {
    row.iter().map(|(_, value)| value.clone()).collect()
}

/// `json_populate_record`: a row of the type of the first argument, which has the values that JSON lacks.
fn populate(environment: &dyn Environment, arguments: &[Datum]) -> Result<Datum> {
    let Some(Datum::Record(typed)) = arguments.first() else { return Ok(Datum::Null) };
    let [(of_base, base), (_, json)] = &typed[..] else { return Ok(Datum::Null) };
    let base = base_of(std::slice::from_ref(base));
    match json {
        Datum::Json(json) => {
            let (fields, names) = fields_of_type(*of_base, base)?;
            let values = members_of(json, &fields, base, environment)?;
            Ok(row_of(&fields, values, names))
        }
        _ => Ok(base.map_or(Datum::Null, |row| Datum::Record(Arc::new(row.clone())))),
    }
}

fn row_of(fields: &[Field], values: Vec<Datum>, names: Option<crate::types::user::FieldNames>) -> Datum {
    let fields = fields.iter().zip(values).map(|((_, sql_type), value)| (*sql_type, value)).collect();
    Datum::Record(Arc::new(Row { fields, names }))
}

/// The fields of a type of rows, or of a row whose type does not tell them.
fn fields_of_type(
    sql_type: SqlType,
    row: Option<&Row>,
) -> Result<(Vec<Field>, Option<crate::types::user::FieldNames>)> {
    if let (Some(composite), false) = (sql_type.base.composite(), sql_type.is_array) {
        let types = composite.types.iter().map(|sql_type| sql_type.without_domain());
        let fields = composite.names.iter().cloned().zip(types).collect();
        return Ok((fields, Some(Arc::clone(&composite.names))));
    }
    if sql_type != SqlType::from(BaseType::Record) {
        let what = "first argument of a function that makes rows of JSON must be a row type";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    let Some(row) = row else {
        let what = "could not determine row type for result of a function that makes rows of JSON";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(
            "Provide a non-null record argument, or call the function in the FROM clause \
                        using a column definition list.",
        ));
    };
    let name = |at: usize| match &row.names {
        Some(names) => names.get(at).cloned().unwrap_or_default(),
        None => format!("f{}", at + 1).into(),
    };
    Ok((row.iter().enumerate().map(|(at, (sql_type, _))| (name(at), *sql_type)).collect(), row.names.clone()))
}

/// `json_populate_recordset`: rows of the type of the first argument.
fn records_of_type<'r>(environment: &'r dyn Environment, values: &'r [Datum], types: &[SqlType]) -> Result<Rows<'r>> {
    let elements = elements_of(values)?;
    let base = base_of(values);
    let (fields, names) = fields_of_type(types.first().copied().unwrap_or(SqlType::UNKNOWN), base)?;
    Ok(Box::new(elements.into_iter().map(move |element| {
        refuse_scalar(element)?;
        let values = members_of(element, &fields, base, environment)?;
        Ok(vec![row_of(&fields, values, names.clone())])
    })))
}

/// The elements of the second argument; none of NULL.
fn elements_of(values: &[Datum]) -> Result<Vec<&str>> {
    let Some(Datum::Json(whole)) = values.get(1) else { return Ok(Vec::new()) };
    json_raw::elements(whole).ok_or_else(|| {
        let kind = if json_raw::kind(whole) == "object" { "an object" } else { "a scalar" };
        let what = format!("cannot make rows of {kind}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
    })
}

fn refuse_scalar(element: &str) -> Result<()> {
    if json_raw::kind(element) == "object" {
        return Ok(());
    }
    let what = "what rows are made of must be an array of objects";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
}

/// The values of the fields of a row: those of the members of an object, and of another row for those that it lacks.
fn members_of(object: &str, fields: &[Field], base: Option<&Row>, environment: &dyn Environment) -> Result<Vec<Datum>> {
    let members = json_raw::members(object)?.ok_or_else(|| {
        let kind = if json_raw::kind(object) == "array" { "an array" } else { "a scalar" };
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot make a row of {kind}"))
    })?;
    let mut values = Vec::with_capacity(fields.len());
    for (at, (name, sql_type)) in fields.iter().enumerate() {
        // Of members of one name the last counts.
        values.push(match members.iter().rev().find(|(member, _)| **member == **name) {
            Some((_, member)) => value_of(member, *sql_type, environment)?,
            None => base.and_then(|row| row.get(at)).map_or(Datum::Null, |(_, value)| value.clone()),
        });
    }
    Ok(values)
}

/// JSON as a value of a type.
fn value_of(json: &str, to: SqlType, environment: &dyn Environment) -> Result<Datum> {
    let to = to.without_domain();
    let kind = json_raw::kind(json);
    if kind == "null" {
        return Ok(Datum::Null);
    }
    if to.is_array && kind != "string" {
        let mut found = Elements { of: to.element(), dimensions: Vec::new(), count: None, elements: Vec::new() };
        found.add(json, 1, environment)?;
        let Elements { mut dimensions, elements, .. } = found;
        if elements.is_empty() {
            dimensions.clear();
        }
        let element = to.base;
        return Ok(Datum::Array(Arc::new(Array { element, dimensions, elements })));
    }
    if let (Some(composite), false, true) = (to.base.composite(), to.is_array, kind != "string") {
        let (fields, _) = fields_of_type(to, None)?;
        let values = members_of(json, &fields, None, environment)?;
        return Ok(row_of(&fields, values, Some(Arc::clone(&composite.names))));
    }
    if matches!(to.base, BaseType::Json | BaseType::Jsonb) && !to.is_array {
        return cast(Datum::Json(json.into()), BaseType::Json.into(), to, CastContext::Explicit, environment);
    }
    let written = if kind == "string" { json_raw::string(json.trim())? } else { json.to_owned() };
    match to.is_vector() {
        true => texts::parse(&written, to, environment),
        false => cast(Datum::text(written), SqlType::UNKNOWN, to, CastContext::Assignment, environment),
    }
}

/// The elements of an array that is being read, of one dimension within another.
struct Elements {
    of: SqlType,
    /// The length of each dimension, as far as it is known.
    dimensions: Vec<usize>,
    /// How many dimensions there are, once it is known.
    count: Option<usize>,
    elements: Vec<Datum>,
}

impl Elements {
    /// Adds the elements of an array in JSON, which stands in so many dimensions.
    fn add(&mut self, json: &str, depth: usize, environment: &dyn Environment) -> Result<()> {
        let Some(parts) = json_raw::elements(json) else {
            let what = "expected JSON array";
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what));
        };
        if depth > DIMENSIONS_MAX {
            let what = format!("number of array dimensions ({depth}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        if self.count.is_none() && parts.first().is_none_or(|first| json_raw::kind(first) != "array") {
            self.count = Some(depth);
        }
        match self.dimensions.get(depth - 1) {
            None => {
                self.dimensions.resize(depth.max(self.dimensions.len()), usize::MAX);
                self.dimensions[depth - 1] = parts.len();
            }
            Some(&usize::MAX) => self.dimensions[depth - 1] = parts.len(),
            Some(length) if *length != parts.len() => {
                return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed JSON array")
                    .with_detail("Multidimensional arrays must have sub-arrays with matching dimensions."));
            }
            Some(_) => {}
        }
        for part in parts {
            if self.count.is_some_and(|count| depth >= count) {
                self.elements.push(value_of(part, self.of, environment)?);
            } else {
                self.add(part, depth + 1, environment)?;
            }
        }
        Ok(())
    }
}
