//! The definitions of a database as SQL knows them: schemas, tables and indexes, views, sequences, comments; all as a
//! transaction or a snapshot sees it, in a value that does not change.
//!
//! | file | what it is |
//! |---|---|
//! | `oids` | numbers of objects, as clients of PostgreSQL know them |
//! | `names_in_rows` | names of tables in SQL and in rows |
//! | `column_type` | the types of columns |
//! | `row_types` | the types of the rows of tables |
//! | `labels` | conditions of rows with the labels of enums |
//! | `objects` | what SQL knows beside tables |
//! | `store` | how it is kept: records of a tree, which transactions change like rows |
//! | `table` | a table as SQL sees it |
//! | `readers` | what reads tables and views by a query |
//! | `roles` | the users of the server, as statements name them |
//! | `generated` | columns that are computed from others |
//! | `computed` | expressions of checks and indexes in SQL's words |
//! | `writer` | the session that writes, for checks that depend on it |
//! | `index_order` | collations and classes of operators of indexes |
//! | `shape`, `lookup` | tables as statements need to know them, and what names mean |
//! | `system` | tables and functions of `pg_catalog` and `information_schema` |
//! | `known` | catalogues that were made, kept while they may be asked for again |
//! | `sequences` | numbers of sequences |
//!
//! An object that belongs to a table or a column which is no longer there, as other faces may have dropped it, is not
//! there either.

pub mod column_type;
pub mod computed;
pub mod generated;
pub mod index_order;
pub mod known;
pub mod labels;
pub mod lookup;
pub mod names_in_rows;
pub mod objects;
pub mod oids;
pub mod readers;
pub mod roles;
pub mod row_types;
pub mod sequences;
pub mod shape;
pub mod store;
pub mod system;
pub mod table;
pub mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use quipu_rows::{RowSnapshot, RowTransaction};

pub use known::Catalogues;
pub use objects::{Commented, Materialized, ObjectNumber, Owner, Schema, Sequence, Type, TypeKind, View};
pub use store::Store;
pub use table::Table;

use crate::catalogue::column_type::UserTypes;
use crate::catalogue::names_in_rows::PUBLIC;
use crate::catalogue::store::Contents;
use crate::error::Result;
use crate::types::SqlType;

/// Which catalogue it is: another one after each change of a definition, or of what SQL knows beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    rows: u64,
    sql: u64,
}

/// Something that has a name beside tables: `FROM` finds the first two.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// A view, with its number.
    View(ObjectNumber, Arc<View>),
    /// An index: its table, and its place in the schema of that.
    Index(Arc<Table>, usize),
    /// The index of the primary key of a table.
    PrimaryKey(Arc<Table>),
    /// A sequence, with its number.
    Sequence(ObjectNumber, Arc<Sequence>),
}

impl Relation {
    /// The number that clients know it by.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid(),
            Relation::PrimaryKey(table) => oids::primary_key(table.number),
            Relation::Index(table, place) => table.indexes.get(*place).map_or(0, |(number, _)| oids::index(*number)),
            Relation::View(number, _) | Relation::Sequence(number, _) => oids::object(*number),
        }
    }
}

/// What SQL knows of a database at one moment.
#[derive(Debug)]
pub struct Catalogue {
    version: Version,
    contents: Contents,
    tables: BTreeMap<u32, Arc<Table>>,
    /// By schema and name.
    relations: BTreeMap<(String, String), Relation>,
    /// The numbers of tables by those of their constraints, once one was asked for.
    constraints: OnceLock<HashMap<u32, u32>>,
}

impl Catalogue {
    /// The catalogue that a snapshot sees; tables that are the same in one `before` are shared with it.
    ///
    /// # Errors
    /// Those of reading.
    fn of_snapshot(store: &Store, snapshot: &RowSnapshot, before: &[Arc<Catalogue>]) -> Result<Catalogue> {
        let contents = match store.tree() {
            Some(tree) => match snapshot.engine().table(tree) {
                Ok(tree) => Store::read(&tree)?,
                // The snapshot is older.
                Err(error) if error.kind() == quipu::ErrorKind::Missing => Contents::default(),
                Err(error) => return Err(error.into()),
            },
            None => Contents::default(),
        };
        let version = Version::of_snapshot(store, snapshot)?;
        let (mut tables, before) = (Vec::new(), tables_beside(&contents, before));
        for name in snapshot.tables()? {
            tables.push(Table::shared(&name, &contents, &snapshot.table(&name)?, before));
        }
        Ok(Catalogue::new(version, contents, tables))
    }

    /// The catalogue that a transaction sees, with its own changes; tables that are the same in one `before` are shared
    /// with it.
    ///
    /// # Errors
    /// Those of reading.
    fn of_transaction(store: &Store, transaction: &RowTransaction<'_>, before: &[Arc<Catalogue>]) -> Result<Catalogue> {
        let contents = match store.tree() {
            Some(tree) => Store::read(&transaction.engine().table(tree)?)?,
            None => Contents::default(),
        };
        let version = Version::of_transaction(store, transaction)?;
        let (mut tables, before) = (Vec::new(), tables_beside(&contents, before));
        let definitions = transaction.definitions();
        for name in definitions.tables()?.keys() {
            tables.push(Table::shared(name, &contents, &definitions.declared(name)?, before));
        }
        Ok(Catalogue::new(version, contents, tables))
    }

    fn new(version: Version, mut contents: Contents, tables: Vec<Arc<Table>>) -> Catalogue {
        let tables: BTreeMap<u32, Arc<Table>> = tables.into_iter().map(|table| (table.number, table)).collect();
        contents.sequences.retain(|_, sequence| {
            sequence.owner.is_none_or(|owner| {
                let table = tables.get(&owner.table);
                table.is_some_and(|table| table.columns.iter().any(|column| column.number == owner.column))
            })
        });
        let mut relations = BTreeMap::new();
        for (&number, view) in &contents.views {
            let view = Arc::clone(view);
            relations.insert((view.schema.clone(), view.name.clone()), Relation::View(number, view));
        }
        for (&number, sequence) in &contents.sequences {
            let sequence = Arc::clone(sequence);
            relations.insert((sequence.schema.clone(), sequence.name.clone()), Relation::Sequence(number, sequence));
        }
        for table in tables.values() {
            for (place, index) in table.declared.indexes.iter().enumerate() {
                let relation = Relation::Index(Arc::clone(table), place);
                relations.insert((table.schema.clone(), index.name.clone()), relation);
            }
            if let Some(name) = table.primary_key_name() {
                relations.insert((table.schema.clone(), name), Relation::PrimaryKey(Arc::clone(table)));
            }
        }
        for table in tables.values() {
            relations.insert((table.schema.clone(), table.name.clone()), Relation::Table(Arc::clone(table)));
        }
        Catalogue { version, contents, tables, relations, constraints: OnceLock::new() }
    }

    /// Which catalogue it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The names of all schemas that hold tables, `public` among them; without those of PostgreSQL's own catalogue.
    pub fn schemas(&self) -> BTreeSet<&str> {
        self.contents.schemas.values().map(|schema| &*schema.name).chain([PUBLIC]).collect()
    }

    /// Whether there is a schema of this name.
    pub fn has_schema(&self, name: &str) -> bool {
        name == PUBLIC || self.contents.schemas.values().any(|schema| schema.name == name)
    }

    /// The number of a schema in SQL's catalogue; none of those that are always there.
    pub fn schema_number(&self, name: &str) -> Option<ObjectNumber> {
        self.contents.schemas.iter().find(|(_, schema)| schema.name == name).map(|(&number, _)| number)
    }

    /// The number of a schema, as clients of PostgreSQL know it.
    pub fn schema_oid(&self, name: &str) -> Option<u32> {
        match name {
            PUBLIC => Some(oids::PUBLIC),
            "pg_catalog" => Some(oids::PG_CATALOG),
            "information_schema" => Some(oids::INFORMATION_SCHEMA),
            name => self.schema_number(name).map(oids::object),
        }
    }

    /// The relation of a name: in a schema, or in the first one of the path that has it.
    pub fn relation(&self, schema: Option<&str>, name: &str, search_path: &[String]) -> Option<&Relation> {
        let look = |schema: &str| self.relations.get(&(schema.to_owned(), name.to_owned()));
        match schema {
            // As each session calls its own.
            Some("pg_temp") => {
                search_path.iter().find(|schema| names_in_rows::is_temporary(schema)).and_then(|own| look(own))
            }
            Some(schema) => look(schema),
            None => search_path.iter().find_map(|schema| look(schema)),
        }
    }

    /// All relations, by schema and name.
    pub fn relations(&self) -> &BTreeMap<(String, String), Relation> {
        &self.relations
    }

    /// The table that has a constraint; `all` tells the numbers of all constraints and their tables.
    pub(crate) fn table_of_constraint(&self, oid: u32, all: impl FnOnce() -> HashMap<u32, u32>) -> Option<&Arc<Table>> {
        let table = self.constraints.get_or_init(all).get(&oid)?;
        self.tables.get(table)
    }

    /// All tables, by number.
    pub fn tables(&self) -> &BTreeMap<u32, Arc<Table>> {
        &self.tables
    }

    /// All views, by number.
    pub fn views(&self) -> &BTreeMap<ObjectNumber, Arc<View>> {
        &self.contents.views
    }

    /// All sequences, by number.
    pub fn sequences(&self) -> &BTreeMap<ObjectNumber, Arc<Sequence>> {
        &self.contents.sequences
    }

    /// All types that users have made, by number.
    pub fn types(&self) -> &BTreeMap<ObjectNumber, Arc<Type>> {
        &self.contents.types
    }

    /// The same, as values need to know them.
    pub fn user_types(&self) -> &UserTypes {
        &self.contents.user_types
    }

    /// The type that a user has made of a name, with its number: in a schema, or in the first one of the path that has
    /// it.
    pub fn user_type(
        &self,
        schema: Option<&str>,
        name: &str,
        search_path: &[String],
    ) -> Option<(ObjectNumber, &Arc<Type>)> {
        let look = |schema: &str| {
            let found = self.contents.types.iter().find(|(_, known)| known.schema == schema && known.name == name);
            found.map(|(number, known)| (*number, known))
        };
        match schema {
            Some("pg_temp") => {
                search_path.iter().find(|schema| names_in_rows::is_temporary(schema)).and_then(|own| look(own))
            }
            Some(schema) => look(schema),
            None => search_path.iter().find_map(|schema| look(schema)),
        }
    }

    /// The type of a name, or of its arrays, which users have made.
    pub fn type_named(&self, schema: Option<&str>, name: &str, search_path: &[String]) -> Option<SqlType> {
        let named = |name: &str| match self.user_type(schema, name, search_path) {
            Some((number, _)) => self.contents.user_types.get(&number).copied(),
            None => match self.relation(schema, name, search_path) {
                Some(Relation::Table(table)) => Some(row_types::of_table(table).base_type()),
                _ => None,
            },
        };
        named(name).map(SqlType::from).or_else(|| named(name.strip_prefix('_')?).map(SqlType::array_of))
    }

    /// The type of a number, as clients of PostgreSQL know it.
    pub fn type_of_oid(&self, oid: u32) -> Option<SqlType> {
        let by_number = || {
            let mut known = self.contents.user_types.values().map(|base| SqlType::from(*base));
            let found = known.find(|known| known.oid() == oid || SqlType::array_of(known.base).oid() == oid)?;
            Some(SqlType { is_array: found.oid() != oid, ..found })
        };
        let of_rows = || {
            let table = self.tables().values().find(|table| {
                let (row, array) = row_types::numbers_of_table(table.number);
                oid == row || oid == array
            })?;
            let row = SqlType::from(row_types::of_table(table).base_type());
            Some(SqlType { is_array: row.oid() != oid, ..row })
        };
        SqlType::of_oid(oid).or_else(by_number).or_else(of_rows)
    }

    /// The sequence that belongs to a column, with its number.
    pub fn sequence_of(&self, table: u32, column: u32) -> Option<(ObjectNumber, &Arc<Sequence>)> {
        let owner = Owner { table, column };
        let mut sequences = self.contents.sequences.iter();
        sequences.find(|(_, sequence)| sequence.owner == Some(owner)).map(|(&number, sequence)| (number, sequence))
    }

    /// A comment, but for those on tables, which their declarations have.
    pub fn comment(&self, on: &Commented) -> Option<&str> {
        self.contents.comments.get(on).map(|comment| &**comment)
    }

    /// The name of a table in rows.
    pub fn rows_name(&self, schema: &str, name: &str) -> String {
        names_in_rows::in_rows(schema, name, |name| self.has_schema(name))
    }
}

/// The tables of a catalogue that had the same contents beside them.
fn tables_beside<'b>(contents: &Contents, before: &'b [Arc<Catalogue>]) -> Option<&'b BTreeMap<u32, Arc<Table>>> {
    before.iter().find(|before| before.contents.digest == contents.digest).map(|before| &before.tables)
}

impl Version {
    pub(crate) fn of_snapshot(store: &Store, snapshot: &RowSnapshot) -> Result<Version> {
        let sql = match store.tree() {
            Some(tree) => match snapshot.engine().changed_at(tree) {
                Err(error) if error.kind() == quipu::ErrorKind::Missing => 0,
                changed => changed?,
            },
            None => 0,
        };
        Ok(Version { rows: snapshot.catalogue_version()?, sql })
    }

    pub(crate) fn of_transaction(store: &Store, transaction: &RowTransaction<'_>) -> Result<Version> {
        let sql = store.tree().map_or(Ok(0), |tree| transaction.engine().changed_at(tree))?;
        Ok(Version { rows: transaction.catalogue_version()?, sql })
    }
}
