//! Definitions of tables of the catalogue: their columns as a text, and what makes their rows.
//!
//! The columns are those of PostgreSQL 15 that clients name: `relpages int4=0` is one whose value is 0 unless a row
//! says otherwise; without a value it is NULL then.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalogue::system::source::Source;
use crate::error::Result;
use crate::types::datum::{Array, Datum};
use crate::types::{BaseType, SqlType};

/// What makes the rows of a table.
pub(super) type Body = fn(&Source<'_>, &mut Rows<'_>) -> Result<()>;

/// A table of the catalogue, as it is written down.
pub(super) struct Written {
    /// Its schema, unless that is `pg_catalog`, and its name.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// Its columns.
    pub columns: &'static str,
    /// What makes its rows.
    pub rows: Body,
}

/// A table of the catalogue.
pub(super) struct Definition {
    /// Its schema, unless that is `pg_catalog`, and its name.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// Its columns.
    pub columns: Vec<(Arc<str>, SqlType)>,
    /// Their values where a row says nothing of them.
    defaults: Vec<Datum>,
    /// What makes its rows.
    pub rows: Body,
}

impl Definition {
    fn of(written: &Written) -> Definition {
        let mut columns = Vec::new();
        let mut defaults = Vec::new();
        for part in written.columns.split(',') {
            let (column, default) = part.trim().split_once('=').map_or((part.trim(), None), |(c, d)| (c, Some(d)));
            let (name, type_name) = column.split_once(' ').expect("a column has a name and a type");
            let sql_type = type_of(type_name);
            columns.push((name.into(), sql_type));
            defaults.push(default.map_or(Datum::Null, |text| default_of(text, sql_type)));
        }
        Definition { name: written.name, number: written.number, columns, defaults, rows: written.rows }
    }

    /// The schema that it is in.
    pub fn schema(&self) -> &'static str {
        if self.name.starts_with("information_schema.") { "information_schema" } else { "pg_catalog" }
    }

    /// Its name without the schema.
    pub fn bare_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

fn type_of(name: &str) -> SqlType {
    if let Some(vector) = SqlType::vector_named(name) {
        return vector;
    }
    let (name, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
    let base = BaseType::all().find(|base| base.catalogue_name() == name);
    SqlType { is_array, ..base.unwrap_or_else(|| panic!("no type is called {name}")).into() }
}

fn default_of(text: &str, sql_type: SqlType) -> Datum {
    match sql_type.base {
        _ if sql_type.is_array => Datum::Array(Arc::new(Array::new(sql_type.base, Vec::new()))),
        BaseType::Bool => Datum::Bool(text == "true"),
        base if base.is_text() => Datum::text(text),
        BaseType::Float4 | BaseType::Float8 => Datum::Float(text.parse().expect("a number")),
        _ => Datum::Int(text.parse().expect("a number")),
    }
}

/// Rows of a table that are being made.
pub(super) struct Rows<'d> {
    definition: &'d Definition,
    made: Vec<Vec<Datum>>,
}

impl Rows<'_> {
    /// Adds a row of these values; of the columns that are not named, those that the table says.
    pub fn add(&mut self, values: &[(&str, Datum)]) {
        let mut row = self.definition.defaults.clone();
        for (name, value) in values {
            let place = self.definition.columns.iter().position(|(known, _)| &**known == *name);
            debug_assert!(place.is_some(), "{} has no column {name}", self.definition.name);
            if let Some(place) = place {
                row[place] = value.clone();
            }
        }
        self.made.push(row);
    }
}

/// All tables of the catalogue.
pub(super) struct Tables {
    all: Vec<Definition>,
    /// Their places in `all`.
    by_name: HashMap<&'static str, usize>,
}

impl Tables {
    /// The tables that are written down in these parts.
    pub fn of(parts: &[&[Written]]) -> Tables {
        let all: Vec<Definition> = parts.iter().copied().flatten().map(Definition::of).collect();
        let by_name = all.iter().enumerate().map(|(place, definition)| (definition.name, place)).collect();
        Tables { all, by_name }
    }

    /// All of them, in the order in which they are written down.
    pub fn all(&self) -> &[Definition] {
        &self.all
    }

    /// The table of this name, which has its schema before it unless that is `pg_catalog`.
    pub fn named(&self, name: &str) -> Option<&Definition> {
        Some(&self.all[*self.by_name.get(name)?])
    }
}

/// The rows of a table.
///
/// # Errors
/// Those of reading.
pub(super) fn rows_of(definition: &Definition, source: &Source<'_>) -> Result<Vec<Vec<Datum>>> {
    let mut rows = Rows { definition, made: Vec::new() };
    (definition.rows)(source, &mut rows)?;
    Ok(rows.made)
}

/// A number of an object.
pub(super) fn oid(number: u32) -> Datum {
    Datum::Int(number.into())
}

/// An integer.
pub(super) fn int(value: impl TryInto<i64>) -> Datum {
    Datum::Int(value.try_into().unwrap_or(i64::MAX))
}

/// A text; NULL if there is none.
pub(super) fn text_or_null(text: Option<impl AsRef<str>>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// An array of small integers: numbers of columns.
pub(super) fn numbers(values: impl IntoIterator<Item = i64>, element: BaseType) -> Datum {
    Datum::Array(Arc::new(Array::new(element, values.into_iter().map(Datum::Int).collect())))
}

/// `YES` or `NO`, as `information_schema` has truth values.
pub(super) fn yes_or_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}
