//! Source of the rows of the catalogue: the objects of a database at one moment, with their numbers.

use std::sync::Arc;

use quipu_rows::{Deferral, IndexSchema};

use crate::bind::Binder;
use crate::bind::names::Written;
use crate::bind::schemas;
use crate::bind::updatable::updatable_columns;
use crate::catalogue::computed::in_sql;
use crate::catalogue::index_order::Order;
use crate::catalogue::labels::with_labels;
use crate::catalogue::lookup::{Lookup, named_view};
use crate::catalogue::system::definition::Tables;
use crate::catalogue::{Catalogue, ObjectNumber, Relation, Sequence, Table, View as ViewObject, oids, sequences};
use crate::error::Result;
use crate::execute::view::{View, in_table};
use crate::functions::Environment;
use crate::functions::strings::quote_identifier;
use crate::identity::Identity;
use crate::session::shared::Shared;
use crate::types::SqlType;
use crate::types::user::UserType;

/// The role that owns all objects.
pub(super) const OWNER: u32 = 10;

/// The objects of a database at one moment.
pub(crate) struct Source<'s> {
    /// What all sessions share.
    pub shared: &'s Shared,
    /// The tables.
    pub view: View<'s>,
    /// The session.
    pub identity: &'s Identity,
    /// What functions ask of the session.
    pub environment: &'s dyn Environment,
    /// The catalogue of the view.
    pub catalogue: Arc<Catalogue>,
    /// The tables of the catalogue itself.
    pub(super) system: &'static Tables,
}

/// What an index sorts by first, second and so on.
pub(crate) struct Element {
    /// The place of the column in the table; none of an expression.
    pub place: Option<usize>,
    /// The name of the column, or the expression.
    pub text: String,
    /// Whether greater values come first.
    pub is_descending: bool,
    /// What was declared of its order besides.
    pub order: Order,
}

/// An index, or a primary key, of a table.
pub(crate) struct Index<'t> {
    /// The number in the catalogue.
    pub oid: u32,
    /// The name.
    pub name: String,
    /// The table.
    pub table: &'t Arc<Table>,
    /// What it sorts by.
    pub elements: Vec<Element>,
    /// The places of the columns that it has besides.
    pub includes: Vec<usize>,
    /// Whether no two rows have the same values.
    pub is_unique: bool,
    /// Whether it is the primary key.
    pub is_primary: bool,
    /// Whether its values may be looked at when the transaction ends.
    pub deferral: Deferral,
    /// Whether it was declared as a constraint.
    pub is_constraint: bool,
    /// Whether one NULL is the same as another where no two rows have the same values.
    pub nulls_equal: bool,
    /// The condition of its rows.
    pub predicate: Option<String>,
    /// The column whose sums it keeps.
    pub sum: Option<&'t str>,
    /// Whether it can be read.
    pub is_ready: bool,
    /// Its name in rows; none of the primary key.
    pub rows_name: Option<&'t str>,
}

fn elements(table: &Table, written: &[String], orders: &[String]) -> Vec<Element> {
    let element = |(at, written): (usize, &String)| {
        let written = written.trim();
        let (text, is_descending) = match written.rsplit_once(char::is_whitespace) {
            Some((text, way)) if way.eq_ignore_ascii_case("desc") => (text.trim_end(), true),
            Some((text, way)) if way.eq_ignore_ascii_case("asc") => (text.trim_end(), false),
            _ => (written, false),
        };
        let bare = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => text.to_owned(),
        };
        let place = table.declared.columns.iter().position(|column| column.name == bare);
        let order = orders.get(at).map(String::as_str).unwrap_or_default();
        Element {
            place,
            text: if place.is_some() { bare } else { in_sql(text) },
            is_descending,
            order: Order::of(order),
        }
    };
    written.iter().enumerate().map(element).collect()
}

/// All indexes of a table, the primary key first.
pub(super) fn indexes_of(table: &Arc<Table>) -> Vec<Index<'_>> {
    let mut indexes = Vec::new();
    if let Some(name) = table.primary_key_name() {
        indexes.push(Index {
            oid: oids::primary_key(table.number),
            name,
            table,
            elements: elements(table, &table.declared.key, &[]),
            includes: Vec::new(),
            is_unique: true,
            is_primary: true,
            deferral: Deferral::Never,
            is_constraint: true,
            nulls_equal: false,
            predicate: None,
            sum: None,
            is_ready: true,
            rows_name: None,
        });
    }
    for (declared, &(number, is_ready)) in table.declared.indexes.iter().zip(&table.indexes) {
        if is_of_foreign_key(table, declared) {
            continue;
        }
        let place = |name: &String| table.declared.columns.iter().position(|column| column.name == *name);
        indexes.push(Index {
            oid: oids::index(number),
            name: declared.name.clone(),
            table,
            elements: elements(table, &declared.columns, &declared.sql_order),
            includes: declared.include.iter().filter_map(place).collect(),
            is_unique: declared.unique || declared.deferral != Deferral::Never,
            is_primary: declared.primary,
            deferral: declared.deferral,
            is_constraint: declared.constraint,
            nulls_equal: declared.nulls_equal,
            predicate: declared.predicate.as_deref().map(|predicate| with_labels(predicate, table)),
            sum: declared.sum.as_deref(),
            is_ready,
            rows_name: Some(&declared.name),
        });
    }
    indexes
}

/// Whether an index is the one that rows have made for a foreign key which had none. In PostgreSQL there is no such
/// index, and a client that compares the catalogue with what it has declared would drop it.
pub(crate) fn is_of_foreign_key(table: &Table, index: &IndexSchema) -> bool {
    let is_plain =
        !index.unique && index.deferral == Deferral::Never && index.include.is_empty() && index.predicate.is_none();
    let Some(key) = index.name.strip_suffix("_index").filter(|_| is_plain) else { return false };
    let Some(key) = table.declared.foreign_keys.iter().find(|own| own.name == key) else { return false };
    let columns = elements(table, &index.columns, &[]);
    let is_column = |element: &Element| element.place.is_some() && !element.is_descending;
    columns.iter().all(is_column) && columns.iter().map(|element| &element.text).eq(&key.columns)
}

/// The columns of a table that are not hidden, with their places.
pub(super) fn visible(table: &Table) -> impl Iterator<Item = (usize, &quipu_rows::Column)> {
    table.declared.columns.iter().enumerate().filter(|(_, column)| !column.hidden)
}

/// The number of a column of a table.
pub(super) fn number_of(table: &Table, place: usize) -> i64 {
    table.columns.get(place).map_or(0, |column| column.number.into())
}

impl<'s> Source<'s> {
    /// All tables, in the order of their numbers.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.catalogue.tables().values()
    }

    /// All tables but those of the rows of materialized views.
    pub fn base_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables().filter(|table| table.materialized.is_none())
    }

    /// All indexes of all tables.
    pub fn indexes(&self) -> impl Iterator<Item = Index<'_>> {
        self.tables().flat_map(indexes_of)
    }

    /// The table of this number in the catalogue.
    pub fn table(&self, oid: u32) -> Option<&Arc<Table>> {
        let Some((oids::Kind::Table, number)) = oids::read(oid) else { return None };
        self.catalogue.tables().get(&number)
    }

    /// The number of a schema.
    pub fn schema(&self, name: &str) -> u32 {
        self.catalogue.schema_oid(name).unwrap_or(oids::PUBLIC)
    }

    /// The sequence of a column that was declared by `serial`.
    pub fn serial_sequence(&self, table: &Table, place: usize) -> Option<&Arc<Sequence>> {
        let found = self.catalogue.sequence_of(table.number, table.columns.get(place)?.number);
        found.map(|(_, sequence)| sequence).filter(|sequence| sequence.is_serial)
    }

    /// Whether the session finds a relation by its name alone.
    pub fn is_found_bare(&self, schema: &str, name: &str) -> bool {
        let has = |schema: &&String| self.catalogue.relations().contains_key(&((*schema).clone(), name.to_owned()));
        self.search_path().iter().find(has).is_some_and(|first| first == schema)
    }

    /// The schema and the name of the sequence whose numbers are a column's default.
    pub fn sequence_of_default(&self, table: &Table, place: usize) -> Option<(String, String)> {
        if let Some(serial) = self.serial_sequence(table, place) {
            return Some((serial.schema.clone(), serial.name.clone()));
        }
        let (schema, name) = sequences::of_default(table.declared.columns.get(place)?.sql_default.as_ref()?)?;
        Some((schema?, name))
    }

    /// How many rows a table, or one of its indexes, has.
    ///
    /// # Errors
    /// Those of reading.
    pub fn count(&self, table: &Table, index: Option<&str>) -> Result<u64> {
        use quipu_rows::Ordered;
        let read = self.view.table(&table.rows_name)?;
        let all = ..;
        Ok(in_table!(read, read => match index {
            None => read.count(all)?,
            Some(index) => read.entries(index)?.count(all)?,
        }))
    }

    /// The schemas in which names without one are looked for.
    pub fn search_path(&self) -> Vec<String> {
        self.identity.search_path()
    }

    /// The names and types of the columns of a view; none if its query cannot be bound any more.
    pub fn columns_of_view(&self, view: &ViewObject) -> Vec<(String, SqlType)> {
        self.bind_view(view).unwrap_or_default()
    }

    /// Which columns of a view can be written; none if nothing is written through it, and no row removed.
    pub fn updatable_columns(&self, view: &ViewObject) -> Option<Vec<bool>> {
        let (lookup, named) = (self.lookup_of_view(view), named_view(view));
        updatable_columns(&mut Binder::new(&lookup, self.environment, &view.query, &[]), &named).ok()?.ok()
    }

    fn lookup_of_view(&self, view: &ViewObject) -> Lookup<'s> {
        let path = if view.search_path.is_empty() { self.search_path() } else { view.search_path.clone() };
        Lookup::new(self.view, Arc::clone(&self.catalogue), &self.shared.shapes, path).of_definition()
    }

    /// A type as messages and `format_type` write it: with its schema if its name alone would mean another one, or
    /// none.
    pub fn type_text(&self, sql_type: SqlType) -> String {
        let Some(user) = sql_type.base.user_type() else { return sql_type.to_string() };
        let schema = if self.is_type_found(&user) { String::new() } else { quote_identifier(&user.schema) + "." };
        format!("{schema}{}{}", quote_identifier(&user.name), if sql_type.is_array { "[]" } else { "" })
    }

    /// Whether the search path finds a type without its schema.
    pub fn is_type_found(&self, user: &UserType) -> bool {
        let found = self.catalogue.user_type(None, &user.name, &self.search_path());
        let row = user.composite().filter(|composite| composite.is_of_table);
        match row {
            None => found.is_some_and(|(number, _)| oids::object(number) == user.number),
            Some(row) => matches!(
                self.catalogue.relation(None, &user.name, &self.search_path()),
                Some(Relation::Table(table)) if table.oid() == row.relation
            ),
        }
    }

    /// The query of a view, as `pg_get_viewdef` has it: names that the search path does not find have their schemas. It
    /// is as it was written if it cannot be bound any more.
    pub fn text_of_view(&self, query: &str, path: &[String]) -> String {
        let path = if path.is_empty() { self.search_path() } else { path.to_vec() };
        let lookup = Lookup::new(self.view, Arc::clone(&self.catalogue), &self.shared.shapes, path).of_definition();
        let mut binder = Binder::new(&lookup, self.environment, query, &[]);
        schemas::note(&mut binder);
        let bound = crate::statement::parse_query(query).and_then(|tree| binder.query(&tree));
        let text = match bound {
            Ok(_) => schemas::text_with(&binder, |written| self.is_found(written)),
            Err(_) => query.to_owned(),
        };
        format!(" {text};")
    }

    /// Whether the search path finds what is meant by a name without its schema.
    fn is_found(&self, written: &Written) -> bool {
        let (catalogue, path) = (&self.catalogue, self.search_path());
        let number = |schema, name, path: &[String]| catalogue.user_type(schema, name, path).map(|(number, _)| number);
        match written {
            Written::Type(schema, name) if number(Some(schema), name, &[]).is_some() => {
                number(None, name, &path) == number(Some(schema), name, &[])
            }
            // A row of a table is a type of its name.
            Written::Relation(schema, name) | Written::Type(schema, name) => self.is_found_bare(schema, name),
        }
    }

    fn bind_view(&self, view: &ViewObject) -> Result<Vec<(String, SqlType)>> {
        let lookup = self.lookup_of_view(view);
        let query = crate::statement::parse_query(&view.query)?;
        let bound = Binder::new(&lookup, self.environment, &view.query, &[]).query(&query)?;
        let named = |(place, column): (usize, crate::plan::query::OutputColumn)| {
            let name = view.columns.get(place).cloned().unwrap_or_else(|| column.name.clone());
            (name, column.sql_type)
        };
        Ok(bound.columns.into_iter().enumerate().map(named).collect())
    }

    /// All views, with their numbers.
    pub fn views(&self) -> impl Iterator<Item = (ObjectNumber, &Arc<ViewObject>)> {
        self.catalogue.views().iter().map(|(&number, view)| (number, view))
    }
}
