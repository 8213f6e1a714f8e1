//! Columns of other types, other primary keys, and numbers for columns that had none: what may write rows anew.

use std::sync::Arc;

use quipu::Result;

use crate::catalogue::numbers::FIRST;
use crate::change::definitions::{Draft, is_collated};
use crate::change::existing_rows::{WithRows, all_values};
use crate::change::take_back::refuse_needed;
use crate::definition::document::Document;
use crate::definition::table::TableDefinition;
use crate::read::row::RowView;
use crate::schema::column::{Column, Identity};
use crate::schema::invalid;
use crate::schema::table::{ROWID, key_name};
use crate::value::data_type::DataType;
use crate::value::{Value, Values, collation};

/// Makes a value of a row one of another type.
pub(crate) type Convert<'c> = &'c dyn Fn(&RowView<'_>, &Value<'_>) -> Result<Value<'static>>;

impl WithRows<'_> {
    /// Gives a column another type. Without `convert`, its values are those of the new type as they are.
    pub(crate) fn alter_column_type(
        &self,
        table: &str,
        column: &str,
        (data_type, sql_type): (DataType, Option<String>),
        convert: Option<Convert<'_>>,
    ) -> Result<()> {
        let mut draft = self.draft(table)?;
        let old = Arc::new(self.ready(&draft)?);
        let place = old.place(column)?;
        let declared = &mut draft.document.schema.columns[place];
        declared.sql_type = sql_type;
        let before = std::mem::replace(&mut declared.data_type, data_type);
        if convert.is_none() && before == data_type {
            return self.put(&mut draft).map(drop);
        }
        if convert.is_none() && !holds_all(data_type, before) {
            return Err(invalid(format!(
                "column {column} of table {table}: {before} does not become {data_type} as it is"
            )));
        }
        if convert.is_none() && can_stay(&old, place) {
            self.put(&mut draft)?;
        } else {
            refuse_half_way(&draft)?;
            self.rewrite(&mut draft, &old, &mut |row| {
                let mut values = all_values(&old, row)?;
                if let Some(convert) = convert {
                    values[place] = convert(row, &values[place])?;
                }
                Ok(values)
            })?;
        }
        let ready = self.ready(&draft)?;
        for foreign_key in &ready.foreign_keys {
            self.check_foreign_key(&ready, foreign_key)?;
        }
        refuse_needed(self, &draft)
    }

    /// Adds a column, with a value of its own for each row that there is: those rows are written anew. An identity
    /// column numbers them.
    pub(crate) fn add_column_filled(
        &self,
        table: &str,
        mut column: Column,
        fill: &mut dyn FnMut(&RowView<'_>) -> Result<Value<'static>>,
    ) -> Result<()> {
        let mut draft = self.draft(table)?;
        refuse_half_way(&draft)?;
        let old = Arc::new(self.ready(&draft)?);
        let is_numbered = column.identity.is_some();
        column.not_null |= is_numbered;
        let (name, number) = (column.name.clone(), draft.document.next_column);
        draft.document.next_column += 1;
        draft.document.schema.columns.push(column);
        draft.document.columns.push(number);
        if is_collated(&draft.document) {
            draft.document.collation.get_or_insert_with(|| collation::VERSION.to_owned());
        }
        let mut rows = 0;
        let ready = self.rewrite(&mut draft, &old, &mut |row| {
            let mut values = all_values(&old, row)?;
            values.push(if is_numbered { Value::Int(FIRST + rows) } else { fill(row)? });
            rows += 1;
            Ok(values)
        })?;
        if is_numbered {
            self.begin_numbers(&ready)?;
            self.set_next_number(table, &name, FIRST + rows)?;
        }
        Ok(())
    }

    /// Gives a table another primary key, in the place of the one that it has; of no columns, the hidden one.
    pub(crate) fn set_primary_key(&self, table: &str, key: &[String], name: Option<String>) -> Result<()> {
        let mut draft = self.draft(table)?;
        refuse_half_way(&draft)?;
        let old = Arc::new(self.ready(&draft)?);
        let document = &mut draft.document;
        document.schema.key_name = name;
        if let Some(place) = hidden_key(document) {
            if key.is_empty() {
                return Err(invalid(format!("table {table} has no primary key")));
            }
            document.schema.columns.remove(place);
            let number = document.columns.remove(place);
            self.end_numbers(draft.number, Some(number))?;
        }
        if key.is_empty() {
            add_hidden_key(document);
        } else {
            document.schema.key = key.to_vec();
        }
        let names: Vec<String> = document.schema.key.iter().map(|key| key_name(key).to_owned()).collect();
        for column in document.schema.columns.iter_mut().filter(|column| names.contains(&column.name)) {
            column.not_null = true;
        }
        self.look_at(draft.number, &draft.document)?;
        refuse_needed(self, &draft).map_err(|error| error.context(format_args!("the primary key of table {table}")))?;
        let from: Vec<Option<usize>> = draft.document.columns.iter().map(|number| place_of(&old, *number)).collect();
        let mut rows = 0;
        let ready = self.rewrite(&mut draft, &old, &mut |row| {
            let old = all_values(&old, row)?;
            let number = Value::Int(FIRST + rows);
            rows += 1;
            Ok(from
                .iter()
                .map(|place| place.map_or(number.clone(), |place| old[place].clone()))
                .collect::<Values<'_>>())
        })?;
        if key.is_empty() {
            self.begin_numbers(&ready)?;
            self.set_next_number(table, ROWID, FIRST + rows)?;
        }
        Ok(())
    }

    /// Has a table give numbers to a column, or give it none any more. The next one is after those that rows have.
    pub(crate) fn set_identity(&self, table: &str, column: &str, identity: Option<Identity>) -> Result<()> {
        let mut draft = self.draft(table)?;
        let place = self.ready(&draft)?.place(column)?;
        let number = draft.document.columns[place];
        let declared = &mut draft.document.schema.columns[place];
        let before = std::mem::replace(&mut declared.identity, identity);
        if identity.is_some() {
            (declared.default, declared.sql_default) = (None, None);
            declared.not_null = true;
        }
        let ready = self.put(&mut draft)?;
        match (before, identity) {
            (None, Some(_)) => {
                let mut next = FIRST;
                self.each_row(&ready, |row| {
                    if let Value::Int(found) = row.value(place)? {
                        next = next.max(found.saturating_add(1));
                    }
                    Ok(())
                })?;
                self.set_number((draft.number, number), next)
            }
            (Some(_), None) => self.end_numbers(draft.number, Some(number)),
            _ => Ok(()),
        }
    }

    /// Says a generated column's expression in other words, or has it computed no more. Rows that there are keep their
    /// values.
    pub(crate) fn set_generated(&self, table: &str, column: &str, expression: Option<String>) -> Result<()> {
        self.change_table(table, |draft| {
            let place = self.ready(draft)?.place(column)?;
            draft.document.schema.columns[place].generated = expression;
            Ok(())
        })
    }

    /// Changes what SQL has declared of a column beyond its type: a default that is no constant.
    pub(crate) fn set_sql_default(&self, table: &str, column: &str, default: Option<String>) -> Result<()> {
        self.change_table(table, |draft| {
            let place = self.ready(draft)?.place(column)?;
            let declared = &mut draft.document.schema.columns[place];
            (declared.default, declared.sql_default) = (None, default);
            Ok(())
        })
    }
}

/// Whether all values of a type are those of another as they are.
fn holds_all(data_type: DataType, before: DataType) -> bool {
    match (data_type.int_range(), before.int_range()) {
        (Some((least, most)), Some((least_before, most_before))) => least <= least_before && most >= most_before,
        _ => data_type == before,
    }
}

/// Whether rows and entries need not be written anew when an integer column gets a wider type: keys hold integers of
/// any width, and a layout says what its rows hold; but entries that include the column, or add it up, have one layout.
fn can_stay(definition: &TableDefinition, place: usize) -> bool {
    let name = &definition.columns[place].declared.name;
    let is_stored =
        |index: &crate::schema::index::IndexSchema| index.include.contains(name) || index.sum.as_ref() == Some(name);
    definition.sum != Some(place) && !definition.indexes.iter().any(|index| is_stored(&index.declared))
}

/// The place of the hidden key of a table that was declared without one.
fn hidden_key(document: &Document) -> Option<usize> {
    let [key] = &document.schema.key[..] else { return None };
    document.schema.columns.iter().position(|column| column.hidden && column.name == key_name(key))
}

/// Gives a table the hidden key.
fn add_hidden_key(document: &mut Document) {
    let rowid = Column::new(ROWID, DataType::I64).identity(Identity::Always);
    document.schema.columns.push(Column { hidden: true, ..rowid });
    document.columns.push(document.next_column);
    document.next_column += 1;
    document.schema.key = vec![ROWID.to_owned()];
}

fn place_of(definition: &TableDefinition, number: u32) -> Option<usize> {
    definition.columns.iter().position(|column| column.number == number)
}

/// Fails while an index of the table is being built, whose build would not find its rows again.
fn refuse_half_way(draft: &Draft) -> Result<()> {
    match draft.document.indexes.iter().any(|index| index.missed.is_some()) {
        true => Err(invalid(format!("an index of table {} is still being built", draft.document.schema.table))),
        false => Ok(()),
    }
}
