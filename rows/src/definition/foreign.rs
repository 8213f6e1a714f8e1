//! Parsed foreign keys, as far as the definition of their own table determines them.

use quipu::Result;

use crate::definition::document::TableNumber;
use crate::definition::table::ColumnDefinition;
use crate::expression::parse::no_column;
use crate::schema::constraint::{Action, ForeignKey};
use crate::schema::{check_name, invalid};
use crate::value::text::counted;

/// A foreign key of a table.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKeyDefinition {
    pub(crate) declared: ForeignKey,
    /// The places of its columns.
    pub(crate) columns: Vec<usize>,
    /// The table that it refers to.
    pub(crate) table: TableNumber,
}

impl ForeignKeyDefinition {
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid): what does not go together.
    pub(crate) fn new(
        declared: &ForeignKey,
        table: TableNumber,
        columns: &[ColumnDefinition],
    ) -> Result<ForeignKeyDefinition> {
        check_name("a foreign key", &declared.name)?;
        let mut places = Vec::new();
        for name in &declared.columns {
            let place = columns.iter().position(|column| column.declared.name == *name);
            let place =
                place.ok_or_else(|| invalid(no_column(name, columns.iter().map(|column| &*column.declared.name))))?;
            if places.contains(&place) {
                return Err(invalid(format!("column {name} is named twice")));
            }
            places.push(place);
        }
        if places.is_empty() || places.len() != declared.references.len() {
            let (own, others) = (counted(places.len(), "column"), declared.references.len());
            return Err(invalid(format!("{own} cannot refer to {others}")));
        }
        let sets_null = [declared.on_delete, declared.on_update].contains(&Action::SetNull);
        if let Some(place) = places.iter().find(|&&place| sets_null && columns[place].declared.not_null) {
            return Err(invalid(format!(
                "column {} is NOT NULL, so it cannot be set NULL",
                columns[*place].declared.name
            )));
        }
        Ok(ForeignKeyDefinition { declared: declared.clone(), columns: places, table })
    }
}
