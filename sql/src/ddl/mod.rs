//! Statements that change what there is: CREATE, ALTER, DROP, TRUNCATE, COMMENT.
//!
//! Each runs in the transaction of its session, through [`DefinitionsIn`] and [`Store`], does all of what it says or
//! nothing, and is undone with the transaction.
//!
//! | file | what it is |
//! |---|---|
//! | `names` | names as statements write them, and names for what is given none |
//! | `column_types` | types as statements write them |
//! | `expression` | conditions and constants as rows have them |
//! | `column` | columns of CREATE TABLE and ADD COLUMN |
//! | `constraint` | PRIMARY KEY, UNIQUE, CHECK, FOREIGN KEY |
//! | `generated` | columns that are computed from others |
//! | `create_table`, `alter_table`, `alterations`, `indexes`, `remove`, `sequence`, `others` | the statements |
//! | `options` | WITH of tables and indexes |
//! | `materialized` | materialized views |
//! | `renames` | views that follow a column to its new name |
//! | `types`, `domain`, `composite` | those of types; the attributes of composite types |
//!
//! Not here: the rows of materialized views and CREATE TABLE AS, whose rows come from a query; what the query of a view
//! reads, which the session finds out.

mod alter_table;
mod alterations;
mod column;
pub mod column_types;
mod composite;
mod constraint;
mod create_table;
mod domain;
pub mod expression;
mod generated;
mod indexes;
mod materialized;
pub mod names;
mod options;
mod others;
mod remove;
mod renames;
mod sequence;
mod types;

use std::sync::Arc;

use quipu_rows::{DefinitionsIn, IndexSchema, RowTransaction, RowView, Value};
use sqlparser::ast::{CreateIndex, CreateView, Expr, ObjectName, ObjectType, Query, Statement};

use crate::alteration::{Alteration, Refresh};
use crate::catalogue::names_in_rows::is_temporary as is_temporary_schema;
use crate::catalogue::{Catalogue, Catalogues, Relation, Schema, Store, Table, View};
use crate::error::{Result, SqlError, SqlState};
use crate::execute::context::Locker;
use crate::locks::NAMES;
use crate::locks::mode::LockMode;
use crate::plan::query::LockWait;
use crate::types::SqlType;
use crate::types::datum::Datum;
use crate::types::user::TypeNames;

pub use materialized::{Filling, has_data};

/// The tag of a statement, as CommandComplete has it: `CREATE TABLE`.
pub type Tag = &'static str;

/// What a statement needs of its session.
pub struct Context<'c> {
    /// What SQL knows of the database.
    pub catalogues: &'c Catalogues,
    /// The schemas in which names are looked for; new objects go into the first one.
    pub search_path: &'c [String],
    /// The schema of the session's temporary tables, which may not be there yet.
    pub temporary_schema: &'c str,
    /// What computes values: of defaults, and of columns that get another type.
    pub evaluator: &'c dyn Evaluator,
    /// What locks tables.
    pub locker: &'c dyn Locker,
    /// What takes notices for the client.
    pub notice: &'c dyn Fn(SqlError),
}

/// What computes values for rows that there are.
pub trait Evaluator {
    /// The value of an expression, of a row of a table or without one, as a column of this type holds it.
    ///
    /// # Errors
    /// Those of the expression.
    fn evaluate(
        &self,
        expression: &Expr,
        sql_type: SqlType,
        row: Option<(&Table, &RowView<'_>)>,
    ) -> Result<Value<'static>>;

    /// Fails if something is no condition of values of this type, which it calls VALUE.
    ///
    /// # Errors
    /// Those of its names and types.
    fn bind_condition(&self, condition: &Expr, sql_type: SqlType) -> Result<()>;

    /// A value of one type as a column of another holds it, as an assignment would have it.
    ///
    /// # Errors
    /// Those of the cast.
    fn convert(&self, value: &Value<'_>, from: SqlType, to: SqlType) -> Result<Value<'static>>;

    /// The names and types of the columns of a query.
    ///
    /// # Errors
    /// Those of a query that cannot be bound.
    fn columns(&self, query: &Query, path: &[String]) -> Result<Vec<(String, SqlType)>>;

    /// How a query runs, as a text. Two that run alike have the same one, whatever names they use.
    ///
    /// # Errors
    /// Those of a query that cannot be bound.
    fn plan(&self, query: &str, path: &[String]) -> Result<String>;

    /// The text of a query with the columns that each `*` stands for in place of it.
    ///
    /// # Errors
    /// Those of a query that cannot be bound.
    fn without_stars(&self, query: &Query, path: &[String]) -> Result<String>;

    /// The tables and views that a query reads, within views too, by schema and name. `path` has the schemas in which
    /// names without one are looked for.
    ///
    /// # Errors
    /// Those of a query that cannot be bound.
    fn reads(&self, query: &Query, path: &[String]) -> Result<Vec<(String, String)>>;

    /// Fails if nothing is written through a view that has a CHECK OPTION.
    ///
    /// # Errors
    /// Those of a query that cannot be bound, and of a view through which nothing is written.
    fn refuse_check(&self, view: &View) -> Result<()>;

    /// Whether an expression has another value each time: `nextval`, `random`, `gen_random_uuid`.
    fn is_volatile(&self, expression: &Expr) -> bool;
}

/// Whether this module runs a statement.
pub fn is_ddl(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(create) => create.query.is_none(),
        Statement::CreateView(create) => !create.materialized,
        Statement::CreateIndex(_)
        | Statement::CreateSequence { .. }
        | Statement::CreateSchema { .. }
        | Statement::AlterTable(_)
        | Statement::AlterIndex { .. }
        | Statement::Comment { .. }
        | Statement::Truncate(_)
        | Statement::Drop { .. } => true,
        _ => false,
    }
}

/// Whether a statement makes something that goes with the session.
pub fn makes_temporary(statement: &Statement) -> bool {
    let (says_so, name) = match statement {
        Statement::CreateTable(create) => (create.temporary, &create.name),
        Statement::CreateView(create) => (create.temporary, &create.name),
        Statement::CreateSequence { temporary, name, .. } => (*temporary, name),
        _ => return false,
    };
    says_so || names::qualified(name).is_ok_and(|name| name.schema.as_deref() == Some("pg_temp"))
}

/// Runs a statement. It does all of what it says or, if it fails, nothing.
///
/// # Errors
/// PostgreSQL's, and [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) with a hint for what this database
/// does not have.
pub fn run(statement: &Statement, transaction: &RowTransaction<'_>, context: &Context<'_>) -> Result<Tag> {
    all_or_nothing(transaction, context, |ddl| dispatch(ddl, statement))
}

/// The name in rows of the table of a new index, and its definition. None if it is there and need not be made.
///
/// # Errors
/// Those of [`run`].
pub fn new_index(
    create: &CreateIndex,
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
) -> Result<Option<(String, IndexSchema)>> {
    indexes::read(&Ddl { transaction, context }, create)
}

/// Runs a statement that the parser does not know. It does all of what it says or, if it fails, nothing.
///
/// # Errors
/// Those of [`run`].
pub fn alter(alteration: &Alteration, transaction: &RowTransaction<'_>, context: &Context<'_>) -> Result<Tag> {
    all_or_nothing(transaction, context, |ddl| alterations::run(ddl, alteration))
}

/// Creates a materialized view without its rows. None if it is there and need not be made.
///
/// # Errors
/// Those of [`run`].
pub fn create_materialized(
    create: &CreateView,
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
) -> Result<Option<Filling>> {
    all_or_nothing(transaction, context, |ddl| materialized::create(ddl, create))
}

/// Takes the rows of a materialized view away, so that it can be filled anew.
///
/// # Errors
/// Those of [`run`].
pub fn refresh_materialized(
    name: &ObjectName,
    refresh: Refresh,
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
) -> Result<Filling> {
    all_or_nothing(transaction, context, |ddl| materialized::refresh(ddl, &names::qualified(name)?, refresh))
}

fn all_or_nothing<R>(
    transaction: &RowTransaction<'_>,
    context: &Context<'_>,
    work: impl FnOnce(&Ddl<'_>) -> Result<R>,
) -> Result<R> {
    transaction.all_or_none(|| work(&Ddl { transaction, context }))
}

fn dispatch(ddl: &Ddl<'_>, statement: &Statement) -> Result<Tag> {
    match statement {
        Statement::CreateTable(create) => create_table::create(ddl, create),
        Statement::AlterTable(alter) => alter_table::alter(ddl, alter).map_err(SqlError::of_rows_there),
        Statement::CreateIndex(create) => indexes::create(ddl, create),
        Statement::AlterIndex { name, operation } => indexes::alter(ddl, name, operation),
        Statement::CreateView(create) => others::create_view(ddl, create),
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            others::create_schema(ddl, schema_name, *if_not_exists)
        }
        Statement::Comment { object_type, object_name, comment, .. } => {
            others::comment(ddl, object_type, object_name, comment.as_deref())
        }
        Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } => {
            let declared = sequence::Declared { data_type: data_type.as_ref(), options: sequence_options, owned_by };
            let name = ddl.new_name(&names::qualified(name)?, *temporary)?;
            sequence::create(ddl, name, declared, *if_not_exists)
        }
        Statement::Truncate(truncate) => remove::truncate(ddl, truncate),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            let how = remove::How { if_exists: *if_exists, cascade: *cascade };
            match object_type {
                ObjectType::Table => remove::drop_tables(ddl, names, how),
                ObjectType::View => remove::drop_views(ddl, names, how),
                ObjectType::MaterializedView => remove::drop_materialized(ddl, names, how),
                ObjectType::Index => remove::drop_indexes(ddl, names, how),
                ObjectType::Sequence => remove::drop_sequences(ddl, names, how),
                ObjectType::Schema => remove::drop_schemas(ddl, names, how),
                other => Err(SqlError::unsupported(format!("DROP {other} is not supported"), "There are none.")),
            }
        }
        other => Err(SqlError::unsupported(format!("not supported: {other}"), "It changes no table.")),
    }
}

/// A statement that runs.
pub(crate) struct Ddl<'d> {
    pub(crate) transaction: &'d RowTransaction<'d>,
    pub(crate) context: &'d Context<'d>,
}

impl<'d> Ddl<'d> {
    /// What there is now, with what the statement has done so far.
    pub(crate) fn catalogue(&self) -> Result<Arc<Catalogue>> {
        self.context.catalogues.of_transaction(self.transaction)
    }

    pub(crate) fn definitions(&self) -> DefinitionsIn<'d> {
        self.transaction.definitions()
    }

    pub(crate) fn store(&self) -> &'d Store {
        self.context.catalogues.store()
    }

    /// Tells the client something that is no failure.
    pub(crate) fn notice(&self, what: String) {
        let state = match &*what {
            what if !what.ends_with("already exists, skipping") => SqlState::SUCCESSFUL,
            what if what.starts_with("schema") => SqlState::DUPLICATE_SCHEMA,
            what if what.starts_with("column") => SqlState::DUPLICATE_COLUMN,
            what if what.starts_with("enum label") => SqlState::DUPLICATE_OBJECT,
            _ => SqlState::DUPLICATE_TABLE,
        };
        (self.context.notice)(SqlError::new(state, what));
    }

    /// The relation of a name.
    pub(crate) fn relation(&self, name: &names::Name) -> Result<Option<Relation>> {
        let catalogue = self.catalogue()?;
        Ok(catalogue.relation(name.schema.as_deref(), &name.name, self.context.search_path).cloned())
    }

    /// The table of a name.
    ///
    /// # Errors
    /// [`UNDEFINED_TABLE`](SqlState::UNDEFINED_TABLE), [`WRONG_OBJECT_TYPE`](SqlState::WRONG_OBJECT_TYPE).
    pub(crate) fn table(&self, name: &names::Name) -> Result<Arc<Table>> {
        match self.relation(name)? {
            Some(Relation::Table(table)) if table.materialized.is_none() => Ok(table),
            Some(_) => Err(not_a_table(name)),
            None => Err(no_relation(name)),
        }
    }

    /// The table of a name, or that of the rows of a materialized view.
    ///
    /// # Errors
    /// Those of [`Ddl::table`].
    pub(crate) fn table_or_materialized(&self, name: &names::Name) -> Result<Arc<Table>> {
        match self.relation(name)? {
            Some(Relation::Table(table)) => Ok(table),
            Some(_) => Err(not_a_table(name)),
            None => Err(no_relation(name)),
        }
    }

    /// Waits until no other open transaction has done with a table what this mode keeps out.
    ///
    /// # Errors
    /// Those of [`Locker::lock_table`]: after a wait the statement begins again.
    pub(crate) fn lock(&self, table: &Table, mode: LockMode) -> Result<()> {
        self.context.locker.lock_table(&table.rows_name, mode)
    }

    /// Waits until no other open transaction has made a relation or a type of this name, or has dropped the schema, and
    /// keeps others from that.
    ///
    /// # Errors
    /// Those of [`Locker::lock`]: after a wait the statement begins again, and finds what there is.
    pub(crate) fn take_name(&self, schema: &str, name: &str) -> Result<()> {
        // No other session makes something in its temporary schema.
        if is_temporary_schema(schema) {
            return Ok(());
        }
        self.take_schema(schema, true)?;
        let key = [Datum::text(schema), Datum::text(name)];
        self.context.locker.lock(NAMES, &key, LockWait::Wait, false).map(drop)
    }

    /// Waits until no other open transaction makes or drops a schema of this name, or, unless `is_shared`, something in
    /// it, and keeps others from that.
    ///
    /// # Errors
    /// Those of [`Locker::lock`]: after a wait the statement begins again, and finds what there is.
    pub(crate) fn take_schema(&self, schema: &str, is_shared: bool) -> Result<()> {
        self.context.locker.lock(NAMES, &[Datum::text(schema)], LockWait::Wait, is_shared).map(drop)
    }

    /// A table by its number, as it is now.
    pub(crate) fn table_of(&self, number: u32) -> Result<Arc<Table>> {
        let catalogue = self.catalogue()?;
        let table = catalogue.tables().get(&number).cloned();
        table.ok_or_else(|| SqlError::new(SqlState::UNDEFINED_TABLE, "the table is no longer there"))
    }

    /// The schema and the name of a new object.
    ///
    /// # Errors
    /// [`INVALID_SCHEMA_NAME`](SqlState::INVALID_SCHEMA_NAME).
    pub(crate) fn new_name(&self, name: &names::Name, is_temporary: bool) -> Result<(String, String)> {
        let catalogue = self.catalogue()?;
        let temporary = self.context.temporary_schema;
        let schema = match &name.schema {
            Some(schema) if schema == "pg_temp" || schema == temporary => self.temporary_schema()?,
            Some(_) if is_temporary => {
                let what = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
            }
            None if is_temporary => self.temporary_schema()?,
            Some(schema) if is_temporary_schema(schema) => {
                let what = "cannot create relations in temporary schemas of other sessions";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, what));
            }
            Some(schema) if catalogue.has_schema(schema) => schema.clone(),
            Some(schema) if schema.starts_with("pg_") || schema == "information_schema" => {
                let what = format!("permission denied to create \"{schema}.{}\"", name.name);
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
                    .with_detail("System catalog modifications are currently disallowed."));
            }
            Some(schema) => return Err(no_schema(schema)),
            None => {
                let path = self.context.search_path.iter().filter(|schema| !is_temporary_schema(schema));
                let found = path.into_iter().find(|schema| catalogue.has_schema(schema));
                found.cloned().ok_or_else(|| {
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
                })?
            }
        };
        self.take_name(&schema, &name.name)?;
        Ok((schema, name.name.clone()))
    }

    /// The schema of the session's temporary tables, which is made if it is not there.
    fn temporary_schema(&self) -> Result<String> {
        let name = self.context.temporary_schema.to_owned();
        if !self.catalogue()?.has_schema(&name) {
            self.store().add_schema(self.transaction, &Schema { name: name.clone() })?;
        }
        Ok(name)
    }
}

impl TypeNames for Ddl<'_> {
    fn type_named(&self, schema: Option<&str>, name: &str) -> Option<SqlType> {
        let catalogue = self.catalogue().ok()?;
        catalogue.type_named(schema, name, self.context.search_path)
    }
}

/// The error of a relation that is not there.
#[cold]
pub(crate) fn no_relation(name: &names::Name) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The error of a relation that is something else than a table.
#[cold]
pub(crate) fn not_a_table(name: &names::Name) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", name.name))
}

/// The error of a relation that is there already.
#[cold]
pub(crate) fn relation_exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// The error of a schema that is not there.
#[cold]
pub(crate) fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// The error of a column that is not there.
#[cold]
pub(crate) fn no_column(column: &str, table: &str) -> SqlError {
    let what = format!("column \"{column}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, what).in_table(table).in_column(column)
}

#[cfg(test)]
mod tests;
