//! A table as SQL sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu_rows::{Column, Identity, IndexSchema, TableIn, TableSchema, Trees};

use crate::catalogue::objects::{Materialized, Owner};
use crate::catalogue::store::Contents;
use crate::catalogue::{column_type, names_in_rows, oids};
use crate::types::SqlType;

/// A table as SQL sees it, as it was declared at one moment.
#[derive(Clone, Debug)]
pub struct Table {
    /// The number of the table, for ever.
    pub number: u32,
    /// The version of its definition.
    pub version: u64,
    /// The schema that it is in.
    pub schema: String,
    /// The name.
    pub name: String,
    /// Its name in rows.
    pub rows_name: String,
    /// What is declared of it.
    pub declared: TableSchema,
    /// What SQL knows of its columns, in the order of the declaration, hidden ones among them.
    pub columns: Vec<TableColumn>,
    /// The numbers of its indexes, in the order of the declaration, and whether each can be read.
    pub indexes: Vec<(u32, bool)>,
    /// The tables that its foreign keys refer to, in the order of the declaration.
    pub refers_to: Vec<u32>,
    /// The tables whose foreign keys refer to it.
    pub referred_by: Vec<u32>,
    /// What it is if it has the rows of a materialized view.
    pub materialized: Option<Arc<Materialized>>,
}

/// What SQL knows of a column beside its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Its number in the table, for ever: `attnum`.
    pub number: u32,
    /// Its type.
    pub sql_type: SqlType,
    /// Of an identity column whose numbers are those of a sequence, and not the table's: whether it always has these.
    pub generates: Option<bool>,
}

impl Table {
    /// A table of a catalogue: that of one before, if nothing of it has changed, or a new one. What SQL knows beside
    /// the tables must be the same in both.
    pub(crate) fn shared<T: Trees>(
        rows_name: &str,
        contents: &Contents,
        table: &TableIn<'_, T>,
        before: Option<&BTreeMap<u32, Arc<Table>>>,
    ) -> Arc<Table> {
        let known = before.and_then(|before| before.get(&table.number()));
        match known.filter(|known| known.is_still(rows_name, table)) {
            Some(known) => {
                debug_assert_eq!(format!("{known:?}"), format!("{:?}", Table::of(rows_name, contents, table)));
                Arc::clone(known)
            }
            None => Arc::new(Table::of(rows_name, contents, table)),
        }
    }

    /// Whether a table is declared, and related to others, as it was.
    fn is_still<T: Trees>(&self, rows_name: &str, table: &TableIn<'_, T>) -> bool {
        let related = table.related();
        let is_index = |(index, known): (&IndexSchema, &(u32, bool))| {
            *known == (related.index(&index.name).unwrap_or_default(), related.is_ready(&index.name))
        };
        self.version == table.version()
            && self.rows_name == rows_name
            && self.declared == *table.schema()
            && self.refers_to == related.refers_to()
            && self.referred_by == related.referred_by()
            && self.declared.indexes.iter().zip(&self.indexes).all(is_index)
    }

    fn of<T: Trees>(rows_name: &str, contents: &Contents, table: &TableIn<'_, T>) -> Table {
        let is_schema = |name: &str| contents.schemas.values().any(|schema| schema.name == name);
        let (schema, name) = names_in_rows::in_sql(rows_name, is_schema);
        let declared = table.schema().clone();
        let related = table.related();
        let generates = |number: u32, column: &Column| {
            let owner = Some(Owner { table: table.number(), column: number });
            column.sql_default.as_ref().filter(|text| text.starts_with("nextval("))?;
            contents.sequences.values().find(|sequence| sequence.owner == owner)?.generates
        };
        let column = |(place, column): (usize, &Column)| {
            let number = table.column_number(place).unwrap_or_default();
            let sql_type = column_type::of_column(column, &contents.user_types);
            TableColumn { number, sql_type, generates: generates(number, column) }
        };
        let index =
            |index: &IndexSchema| (related.index(&index.name).unwrap_or_default(), related.is_ready(&index.name));
        Table {
            number: table.number(),
            version: table.version(),
            schema: schema.to_owned(),
            name: name.to_owned(),
            rows_name: rows_name.to_owned(),
            columns: declared.columns.iter().enumerate().map(column).collect(),
            indexes: declared.indexes.iter().map(index).collect(),
            refers_to: related.refers_to().to_vec(),
            referred_by: related.referred_by().to_vec(),
            materialized: contents.materialized.get(&table.number()).cloned(),
            declared,
        }
    }

    /// Its number, as clients of PostgreSQL know it.
    pub fn oid(&self) -> u32 {
        oids::table(self.number)
    }

    /// What kind of identity column a column is, be its numbers those of the table or of a sequence.
    pub fn identity_of(&self, place: usize) -> Option<Identity> {
        let always = |is_always| if is_always { Identity::Always } else { Identity::ByDefault };
        let known = self.columns.get(place).and_then(|column| column.generates).map(always);
        known.or_else(|| self.declared.columns.get(place)?.identity)
    }

    /// What it is, in messages.
    pub fn kind(&self) -> &'static str {
        if self.materialized.is_some() { "materialized view" } else { "table" }
    }

    /// Whether it has a primary key that was declared, and no hidden one.
    pub fn has_primary_key(&self) -> bool {
        !self.declared.columns.iter().any(|column| column.hidden)
    }

    /// The name of the primary key as a constraint; none if there is none.
    pub fn primary_key_name(&self) -> Option<String> {
        let made = || format!("{}_pkey", self.name);
        self.has_primary_key().then(|| self.declared.key_name.clone().unwrap_or_else(made))
    }

    /// The index that a primary key is which can be deferred; none if there is no such key.
    pub fn primary_index(&self) -> Option<&IndexSchema> {
        self.declared.indexes.iter().find(|index| index.primary)
    }

    /// The place of a column that is not hidden.
    pub fn place(&self, column: &str) -> Option<usize> {
        self.declared.columns.iter().position(|declared| declared.name == column && !declared.hidden)
    }

    /// Whether an index or a constraint has this name.
    pub fn has_constraint(&self, name: &str) -> bool {
        self.declared.indexes.iter().any(|index| index.name == name)
            || self.declared.checks.iter().any(|check| check.name == name)
            || self.declared.foreign_keys.iter().any(|foreign_key| foreign_key.name == name)
            || self.primary_key_name().as_deref() == Some(name)
    }
}
