//! Changes of definitions that a caller makes within its transaction.
//!
//! Not here: what goes with a transaction that is rolled back (`transaction/own_changes`).

use std::collections::BTreeMap;

use quipu::Result;

use crate::catalogue::store;
use crate::change::definitions::Definitions;
use crate::change::existing_rows::WithRows;
use crate::change::numbers::numbered_column;
use crate::change::retype::Convert;
use crate::read::row::RowView;
use crate::read::table::TableIn;
use crate::schema::column::{Column, Identity};
use crate::schema::constraint::{Check, ForeignKey};
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::transaction::as_seen::definition_as_seen;
use crate::transaction::{RowTransaction, as_one};
use crate::value::Value;
use crate::value::data_type::DataType;

/// Definitions in a transaction: made by [`RowTransaction::definitions`].
///
/// Each change does all of what it says, or, if it fails, nothing, and the transaction may go on. The transaction sees
/// it at once, others after the commit. It is undone with the transaction, or by rolling back to a savepoint. Tables
/// that were asked for before must be asked for again to be written to.
///
/// A change conflicts with those of the same table in other transactions, and transactions that write to the table
/// conflict with it. What looks at all rows, or writes them anew, conflicts with each commit that writes to the table
/// meanwhile; [`Database`](crate::Database) does the same beside writers.
///
/// ```
/// use quipu::{Db, Options};
/// use quipu_rows::{Column, DataType, Database, IndexSchema, Ordered, Span, TableSchema, Value};
///
/// # fn main() -> quipu::Result<()> {
/// # let database = Database::open(&Db::open("/towns", Options::without_files())?)?;
/// let transaction = database.begin();
/// let towns = TableSchema::new("towns").key(["name"]).column(Column::new("name", DataType::TEXT));
/// transaction.definitions().create_table(&towns)?;
/// transaction.table("towns")?.insert("Cusco")?;
/// let country = Column::new("country", DataType::TEXT).not_null().default("'PE'");
/// transaction.definitions().add_column("towns", country)?;
/// transaction.definitions().create_index("towns", IndexSchema::new("by_country", ["country"]))?;
/// assert_eq!(transaction.table("towns")?.index("by_country")?.count(Span::eq("PE"))?, 1);
/// assert!(database.open_table("towns")?.is_none());
/// transaction.commit()?;
/// assert_eq!(database.table("towns")?.len()?, 1);
/// # Ok(())
/// # }
/// ```
pub struct DefinitionsIn<'t> {
    transaction: &'t RowTransaction<'t>,
}

impl RowTransaction<'_> {
    /// The definitions of tables in this transaction, to change them.
    pub fn definitions(&self) -> DefinitionsIn<'_> {
        DefinitionsIn { transaction: self }
    }
}

impl DefinitionsIn<'_> {
    fn change<T>(&self, work: impl FnOnce(&Definitions<'_>) -> Result<T>) -> Result<T> {
        self.transaction.refuse_broken()?;
        as_one(self.transaction, || {
            let definitions = Definitions::within(self.transaction)?;
            let result = work(&definitions)?;
            definitions.put_root()?;
            Ok(result)
        })
    }

    /// Has [`RowTransaction::catalogue_version`] be another number: something has changed that layers above keep beside
    /// definitions, in this transaction.
    pub fn note_change(&self) {
        self.transaction.own.note();
    }

    /// The names of all tables, and their numbers.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn tables(&self) -> Result<BTreeMap<String, u32>> {
        let Some(catalogue) = self.transaction.shared.catalogue() else { return Ok(BTreeMap::new()) };
        let entries = store::entries(&self.transaction.engine().table(catalogue)?)?;
        Ok(entries.into_iter().map(|(name, entry)| (name, entry.number)).collect())
    }

    /// The name of the table of this number; none if there is none.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn name_of(&self, number: u32) -> Result<Option<String>> {
        let Some(catalogue) = self.transaction.shared.catalogue() else { return Ok(None) };
        let document = store::document_if_there(&self.transaction.engine().table(catalogue)?, number)?;
        Ok(document.map(|document| document.schema.table))
    }

    /// The table of this name, to see what it declares: the transaction does not rely on that.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if no table has the name; those of reading the catalogue.
    pub fn declared(&self, name: &str) -> Result<TableIn<'_, RowTransaction<'_>>> {
        TableIn::new(self.transaction, definition_as_seen(self.transaction, name)?)
    }

    /// Creates a table: see [`Database::create_table`](crate::Database::create_table).
    ///
    /// # Errors
    /// [`Exists`](quipu::ErrorKind::Exists) if there is one of its name; [`Invalid`](quipu::ErrorKind::Invalid): what
    /// does not go together; those of the engine.
    pub fn create_table(&self, schema: &TableSchema) -> Result<()> {
        self.change(|definitions| definitions.create_table(schema))
    }

    /// Drops a table. Returns whether there was one: see [`Database::drop_table`](crate::Database::drop_table).
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if foreign keys of other tables refer to it; those of the engine.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.change(|definitions| definitions.drop_table(name))
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing), [`Exists`](quipu::ErrorKind::Exists), and those of the engine.
    pub fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        self.change(|definitions| definitions.rename_table(name, new_name))
    }

    /// Removes all rows of tables at once, whatever their number; the numbers that identity columns give out begin
    /// again if `restarts_numbers`.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of a name, [`Invalid`](quipu::ErrorKind::Invalid) if
    /// foreign keys of tables that are not among them refer to one; those of the engine.
    pub fn truncate(&self, tables: &[&str], restarts_numbers: bool) -> Result<()> {
        self.change(|definitions| definitions.truncate(tables, restarts_numbers))
    }

    /// Gives a table another comment.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is no such table; those of the engine. The changes below have
    /// the same errors.
    pub fn set_comment(&self, table: &str, comment: &str) -> Result<()> {
        self.change(|definitions| {
            definitions.change_table(table, |draft| {
                comment.clone_into(&mut draft.document.schema.comment);
                Ok(())
            })
        })
    }

    /// Adds a column after the others: see [`Database::add_column`](crate::Database::add_column).
    ///
    /// # Errors
    /// Those of [`Database::add_column`](crate::Database::add_column).
    pub fn add_column(&self, table: &str, column: Column) -> Result<()> {
        self.change(|definitions| definitions.add_column(table, column))
    }

    /// Adds a column after the others. Rows that there are have this value in it. No row is touched.
    ///
    /// # Errors
    /// Those of [`Database::add_column`](crate::Database::add_column).
    pub fn add_column_with(&self, table: &str, column: Column, value: &Value<'_>) -> Result<()> {
        self.change(|definitions| definitions.add_column_with(table, column, Some(value)))
    }

    /// Adds a column after the others, with a value of its own for each row that there is; rows are written anew. If
    /// it is an identity column, they are numbered, and `fill` is not asked.
    ///
    /// # Errors
    /// Those of [`Database::add_column`](crate::Database::add_column), and of `fill`.
    pub fn add_column_filled(
        &self,
        table: &str,
        column: Column,
        fill: &mut dyn FnMut(&RowView<'_>) -> Result<Value<'static>>,
    ) -> Result<()> {
        self.change(|definitions| WithRows(definitions).add_column_filled(table, column, fill))
    }

    /// Drops a column: see [`Database::drop_column`](crate::Database::drop_column).
    ///
    /// # Errors
    /// Those of [`Database::drop_column`](crate::Database::drop_column).
    pub fn drop_column(&self, table: &str, column: &str) -> Result<()> {
        self.change(|definitions| definitions.drop_column(table, column))
    }

    /// Gives a column another name: see [`Database::rename_column`](crate::Database::rename_column).
    ///
    /// # Errors
    /// Those of [`Database::rename_column`](crate::Database::rename_column).
    pub fn rename_column(&self, table: &str, column: &str, new_name: &str) -> Result<()> {
        self.change(|definitions| definitions.rename_column(table, column, new_name))
    }

    /// Gives a column another default, an expression without columns, or none.
    ///
    /// # Errors
    /// Those of [`Database::set_default`](crate::Database::set_default).
    pub fn set_default(&self, table: &str, column: &str, default: Option<&str>) -> Result<()> {
        self.change(|definitions| definitions.set_default(table, column, default.map(str::to_owned)))
    }

    /// Gives a column a default that statements of SQL evaluate, in the place of any other.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is no such column.
    pub fn set_sql_default(&self, table: &str, column: &str, default: Option<&str>) -> Result<()> {
        self.change(|definitions| WithRows(definitions).set_sql_default(table, column, default.map(str::to_owned)))
    }

    /// Says a generated column's expression in other words, which must come to the same, or makes it a column like
    /// others. Rows that there are keep their values.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if there is no such column.
    pub fn set_generated(&self, table: &str, column: &str, expression: Option<&str>) -> Result<()> {
        self.change(|definitions| WithRows(definitions).set_generated(table, column, expression.map(str::to_owned)))
    }

    /// Gives a column another type, and what SQL says of it. Without `convert` its values are those of the new type as
    /// they are: the same type, or wider integers, which touches no row, unless an index includes the column. With it,
    /// rows are written anew, each with what `convert` makes of the row and its value.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if constraints, indexes or the default do not go together with the type,
    /// or it takes a `convert`; those of `convert`.
    pub fn alter_column_type(
        &self,
        table: &str,
        column: &str,
        (data_type, sql_type): (DataType, Option<String>),
        convert: Option<Convert<'_>>,
    ) -> Result<()> {
        self.change(|definitions| {
            WithRows(definitions).alter_column_type(table, column, (data_type, sql_type), convert)
        })
    }

    /// Makes a column NOT NULL.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that has NULL there.
    pub fn set_not_null(&self, table: &str, column: &str) -> Result<()> {
        self.change(|definitions| WithRows(definitions).set_not_null(table, column))
    }

    /// Lets a column be NULL.
    ///
    /// # Errors
    /// Those of [`Database::drop_not_null`](crate::Database::drop_not_null).
    pub fn drop_not_null(&self, table: &str, column: &str) -> Result<()> {
        self.change(|definitions| definitions.drop_not_null(table, column))
    }

    /// Has the table give numbers to a column, from after those that rows have, or give it none any more.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if it is of no integer type, or a row has NULL there.
    pub fn set_identity(&self, table: &str, column: &str, identity: Option<Identity>) -> Result<()> {
        self.change(|definitions| {
            if identity.is_some() {
                WithRows(definitions).set_not_null(table, column)?;
            }
            WithRows(definitions).set_identity(table, column, identity)
        })
    }

    /// Sets the number that the next row is given in an identity column: see
    /// [`Database::set_next_number`](crate::Database::set_next_number).
    ///
    /// # Errors
    /// Those of [`Database::set_next_number`](crate::Database::set_next_number).
    pub fn set_next_number(&self, table: &str, column: &str, number: i128) -> Result<()> {
        self.change(|definitions| definitions.set_next_number(table, column, number))
    }

    /// Takes the number that the next row would be given in an identity column; none if all have been given out. Once
    /// the transaction is committed no row is given it; if it ends without a commit, the number is given out again.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is no such table, [`Invalid`](quipu::ErrorKind::Invalid) if the
    /// column has no numbers of the table; those of reading.
    pub fn take_number(&self, table: &str, column: &str) -> Result<Option<i128>> {
        let transaction = self.transaction;
        let definition = transaction.definition(table)?;
        let (place, numbered) = numbered_column(&definition, column)?;
        let range = definition.columns[place].declared.data_type.int_range();
        transaction.numbers.take(numbered, range.map_or(i128::MAX, |(_, last)| last))
    }

    /// The number after those that rows of an identity column have which the transaction sees or has written; none if
    /// all have been given out. Another transaction may have it by now.
    ///
    /// # Errors
    /// Those of [`DefinitionsIn::take_number`].
    pub fn next_number(&self, table: &str, column: &str) -> Result<Option<i128>> {
        let transaction = self.transaction;
        let definition = transaction.definition(table)?;
        let (place, numbered) = numbered_column(&definition, column)?;
        let next = transaction.numbers.next(numbered)?;
        let data_type = definition.columns[place].declared.data_type;
        Ok(data_type.accept(Value::Int(next)).is_ok().then_some(next))
    }

    /// Whether the transaction has created an identity column or has set its next number, which no other transaction
    /// sees before its commit.
    ///
    /// # Errors
    /// Those of [`DefinitionsIn::take_number`].
    pub fn has_set_number(&self, table: &str, column: &str) -> Result<bool> {
        let definition = self.transaction.definition(table)?;
        let (_, numbered) = numbered_column(&definition, column)?;
        Ok(self.transaction.numbers.has_set(numbered))
    }

    /// Gives a table a primary key of these columns, each with `desc` after it if greater values come first, and this
    /// name as a constraint. Rows are written anew. Of no columns, the table gets the hidden key.
    ///
    /// # Errors
    /// [`Exists`](quipu::ErrorKind::Exists) if two rows have one key, [`Invalid`](quipu::ErrorKind::Invalid) if a row
    /// has NULL there, or foreign keys need the key that the table has.
    pub fn set_primary_key(&self, table: &str, key: &[String], name: Option<String>) -> Result<()> {
        self.change(|definitions| WithRows(definitions).set_primary_key(table, key, name))
    }

    /// Adds a check.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that breaks it.
    pub fn add_check(&self, table: &str, check: Check) -> Result<()> {
        self.change(|definitions| WithRows(definitions).add_check(table, check))
    }

    /// Makes a check or a foreign key valid that rows of before it might break. Returns whether there is one of this
    /// name.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that breaks it.
    pub fn validate_constraint(&self, table: &str, name: &str) -> Result<bool> {
        self.change(|definitions| WithRows(definitions).validate_constraint(table, name))
    }

    /// Adds a foreign key, and an index for it if there is none.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) with the first row that refers to nothing.
    pub fn add_foreign_key(&self, table: &str, foreign_key: ForeignKey) -> Result<()> {
        self.change(|definitions| WithRows(definitions).add_foreign_key(table, foreign_key))
    }

    /// Drops a check or a foreign key.
    ///
    /// # Errors
    /// [`Missing`](quipu::ErrorKind::Missing) if there is none of that name.
    pub fn drop_constraint(&self, table: &str, name: &str) -> Result<()> {
        self.change(|definitions| definitions.drop_constraint(table, name))
    }

    /// Creates an index of the rows that the transaction sees. Its entries are written in the transaction, so a table
    /// of many rows is better indexed beside writers: [`Database::create_index`](crate::Database::create_index).
    ///
    /// # Errors
    /// Those of [`Database::create_index`](crate::Database::create_index).
    pub fn create_index(&self, table: &str, index: IndexSchema) -> Result<()> {
        self.change(|definitions| WithRows(definitions).create_index(table, index))
    }

    /// Creates an index for each foreign key of a table that goes by this one alone, which may be dropped then; or,
    /// without one, by the primary key alone.
    ///
    /// # Errors
    /// [`Exists`](quipu::ErrorKind::Exists) if an index has the name that the new one would have.
    pub fn relieve_index(&self, table: &str, index: Option<&str>) -> Result<()> {
        self.change(|definitions| WithRows(definitions).relieve_index(table, index))
    }

    /// Drops an index.
    ///
    /// # Errors
    /// Those of [`Database::drop_index`](crate::Database::drop_index).
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.change(|definitions| definitions.drop_index(table, index))
    }

    /// Gives an index, a check, a foreign key or the primary key another name.
    ///
    /// # Errors
    /// Those of [`Database::rename_constraint`](crate::Database::rename_constraint).
    pub fn rename_constraint(&self, table: &str, name: &str, new_name: &str) -> Result<()> {
        self.change(|definitions| {
            let is_key = |name: &str, schema: &TableSchema| schema.key_name.as_deref() == Some(name);
            if is_key(name, &definitions.draft(table)?.document.schema) {
                return definitions.change_table(table, |draft| {
                    draft.document.schema.key_name = Some(new_name.to_owned());
                    Ok(())
                });
            }
            definitions.rename_constraint(table, name, new_name)
        })
    }
}
