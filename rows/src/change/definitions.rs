//! Definitions within a transaction: read, changed, checked, written.

use std::cell::Cell;
use std::sync::Arc;

use quipu::isolation::Patch;
use quipu::{Error, ErrorKind, Result, TableTransaction, Transaction};

use crate::catalogue::engine_tables;
use crate::catalogue::shared::{Shared, read_only};
use crate::catalogue::store::{self, NamedTable, Root};
use crate::definition::document::{Document, TableNumber, TreeNumber};
use crate::definition::foreign::ForeignKeyDefinition;
use crate::definition::table::{TableDefinition, tree_options};
use crate::schema::constraint::ForeignKey;
use crate::schema::invalid;
use crate::schema::table::TableSchema;
use crate::transaction::own_changes::CreateTable;
use crate::transaction::{RowTransaction, missing};
use crate::write::references::{prefix_access, referred_places, unique_access};

/// The definitions as a transaction sees and changes them.
pub(crate) struct Definitions<'c> {
    pub(crate) transaction: &'c RowTransaction<'c>,
    pub(crate) catalogue: TableTransaction<'c>,
    /// How many more tables there are than before.
    more_tables: Cell<i64>,
    has_changed: Cell<bool>,
}

/// A definition that may change.
pub(crate) struct Draft {
    pub(crate) number: TableNumber,
    version: u64,
    /// The name that it had.
    name: String,
    pub(crate) document: Document,
}

impl Shared {
    /// Changes definitions in one transaction of the single writer.
    ///
    /// # Errors
    /// Those of `work`; then nothing has changed.
    pub(crate) fn change<T>(self: &Arc<Self>, work: impl FnOnce(&Definitions<'_>) -> Result<T>) -> Result<T> {
        self.write(None, |transaction| {
            let definitions = Definitions::within(transaction)?;
            let result = work(&definitions)?;
            definitions.put_root()?;
            Ok(result)
        })
    }
}

/// Notes trees that the definition of a table is not to name any more, so that their space becomes free: there is room
/// to write that on a full disk too.
pub(crate) fn leave_trees(
    definitions: &Definitions<'_>,
    table: TableNumber,
    trees: impl IntoIterator<Item = TreeNumber>,
) {
    definitions.catalogue.write_to_free();
    definitions.transaction.own.leave_trees(table, trees);
}

impl<'c> Definitions<'c> {
    /// The definitions that a transaction sees.
    pub(crate) fn within(transaction: &'c RowTransaction<'_>) -> Result<Definitions<'c>> {
        let catalogue = transaction.shared.catalogue().ok_or_else(read_only)?;
        let (more_tables, has_changed) = Default::default();
        Ok(Definitions { transaction, catalogue: transaction.relying_tree(catalogue)?, more_tables, has_changed })
    }

    pub(crate) fn shared(&self) -> &'c Arc<Shared> {
        &self.transaction.shared
    }

    /// The transaction of the engine.
    pub(crate) fn engine(&self) -> &'c Transaction {
        self.transaction.engine()
    }

    /// Writes which numbers are free, and how many tables there are, if something has changed.
    pub(crate) fn put_root(&self) -> Result<()> {
        if !self.has_changed.replace(false) {
            return Ok(());
        }
        self.transaction.forget_definitions();
        let free = self.shared().free.root();
        let more = self.more_tables.replace(0);
        // Transactions that create tables beside each other do not conflict over it.
        let raise = Patch::new(move |bytes| {
            let before = store::root_of(bytes)?;
            Ok(store::root_bytes(&Root {
                next_table: before.next_table.max(free.next_table),
                next_tree: before.next_tree.max(free.next_tree),
                tables: before.tables.saturating_add_signed(more),
                ..free
            }))
        });
        if !store::patch_root(self.engine(), self.shared().catalogue().ok_or_else(read_only)?, &raise)? {
            store::put_root(&self.catalogue, &Root { tables: store::count_names(&self.catalogue)?, ..free })?;
        }
        Ok(())
    }

    fn note(&self, table: TableNumber) {
        self.has_changed.set(true);
        self.transaction.own.note_table(table);
    }

    /// Fails if the name is taken.
    pub(crate) fn refuse_taken(&self, name: &str) -> Result<()> {
        match store::entry(&self.catalogue, name)? {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::Exists, format!("there is a table {name} already"))),
        }
    }

    /// The definition of the table of this name.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none.
    pub(crate) fn draft(&self, name: &str) -> Result<Draft> {
        let entry = store::entry(&self.catalogue, name)?.ok_or_else(|| missing(name))?;
        let document = store::document(&self.catalogue, entry.number)?;
        Ok(Draft { number: entry.number, version: entry.version, name: name.to_owned(), document })
    }

    /// The definition of the table of this number.
    pub(crate) fn draft_of(&self, number: TableNumber) -> Result<Draft> {
        let document = store::document(&self.catalogue, number)?;
        self.draft(&document.schema.table)
    }

    /// The definition of the table of this number; none if it was dropped.
    pub(crate) fn draft_if_there(&self, number: TableNumber) -> Result<Option<Draft>> {
        let document = store::document_if_there(&self.catalogue, number)?;
        document.map(|document| self.draft(&document.schema.table)).transpose()
    }

    /// A new definition.
    pub(crate) fn new_draft(&self, number: TableNumber, document: Document) -> Draft {
        Draft { number, version: 0, name: document.schema.table.clone(), document }
    }

    /// What a definition comes to.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if its parts do not go together.
    pub(crate) fn ready(&self, draft: &Draft) -> Result<TableDefinition> {
        let mut open_tree = |tree| engine_tables::open(self.transaction, &store::tree_name(tree));
        TableDefinition::new(draft.number, draft.version + 1, draft.document.clone(), &mut open_tree)
    }

    /// Checks a definition and writes it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if its parts do not go together.
    pub(crate) fn put(&self, draft: &mut Draft) -> Result<Arc<TableDefinition>> {
        draft.document.update_layout();
        let ready = self.ready(draft)?;
        self.note(draft.number);
        if draft.version == 0 {
            self.more_tables.set(self.more_tables.get() + 1);
        }
        draft.version += 1;
        let name = &draft.document.schema.table;
        if *name != draft.name {
            store::remove_entry(&self.catalogue, &draft.name)?;
            draft.name.clone_from(name);
        }
        store::put_document(&self.catalogue, draft.number, &draft.document)?;
        store::put_entry(&self.catalogue, name, NamedTable { number: draft.number, version: draft.version })?;
        Ok(Arc::new(ready))
    }

    /// Changes the definition of one table.
    pub(crate) fn change_table<T>(&self, table: &str, work: impl FnOnce(&mut Draft) -> Result<T>) -> Result<T> {
        let mut draft = self.draft(table)?;
        let result = work(&mut draft)?;
        self.put(&mut draft)?;
        Ok(result)
    }

    /// Creates a tree for a table of this schema, in this way.
    pub(crate) fn create_tree(
        &self,
        create: CreateTable,
        schema: &TableSchema,
        has_sum: bool,
        comment: String,
    ) -> Result<TreeNumber> {
        self.transaction.own.create_tree(self.engine(), create, tree_options(schema, has_sum, comment))
    }

    /// Removes a definition.
    pub(crate) fn remove(&self, draft: &Draft) -> Result<()> {
        self.note(draft.number);
        self.more_tables.set(self.more_tables.get() - 1);
        leave_trees(self, draft.number, draft.document.trees());
        store::remove_entry(&self.catalogue, &draft.name)?;
        store::remove_document(&self.catalogue, draft.number)
    }

    /// Has the tables that a table refers to know it, and those that it no longer refers to forget it.
    pub(crate) fn link(&self, number: TableNumber, before: &[TableNumber], after: &[TableNumber]) -> Result<()> {
        let mut parents: Vec<TableNumber> =
            before.iter().chain(after).copied().filter(|&parent| parent != number).collect();
        parents.sort_unstable();
        parents.dedup();
        for parent in parents {
            let mut draft = self.draft_of(parent)?;
            let referenced_by = &mut draft.document.referenced_by;
            referenced_by.retain(|&child| child != number);
            if after.contains(&parent) {
                referenced_by.push(number);
            }
            self.put(&mut draft)?;
        }
        Ok(())
    }

    /// Checks that a foreign key of a table has an index to find its rows by, and a unique key to refer to.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid): what is missing.
    pub(crate) fn check_foreign_key(&self, child: &TableDefinition, foreign_key: &ForeignKeyDefinition) -> Result<()> {
        let own;
        let parent = if foreign_key.table == child.number {
            child
        } else {
            own = self.ready(&self.draft_of(foreign_key.table)?)?;
            &own
        };
        self.check_foreign_key_to(child, foreign_key, parent)
    }

    /// [`Definitions::check_foreign_key`], with the table that it refers to.
    pub(crate) fn check_foreign_key_to(
        &self,
        child: &TableDefinition,
        foreign_key: &ForeignKeyDefinition,
        parent: &TableDefinition,
    ) -> Result<()> {
        let context = |error: Error| error.context(format_args!("foreign key {}", foreign_key.declared.name));
        let places = referred_places(foreign_key, parent).map_err(context)?;
        if unique_access(parent, &places).is_none() {
            let (columns, parent) = (foreign_key.declared.references.join(", "), parent.name());
            let what =
                format!("({columns}) is neither the primary key of table {parent} nor a unique index of all rows");
            return Err(context(invalid(what)));
        }
        if prefix_access(child, &foreign_key.columns).is_none() {
            let columns = foreign_key.declared.columns.join(", ");
            let what = format!("no index of table {} begins with ({columns}); create one first", child.name());
            return Err(context(invalid(what)));
        }
        for (&own, &other) in foreign_key.columns.iter().zip(&places) {
            let (own, other) = (&child.columns[own].declared, &parent.columns[other].declared);
            let are_ints = own.data_type.int_range().is_some() && other.data_type.int_range().is_some();
            if own.data_type != other.data_type && !are_ints {
                let what =
                    format!("column {} is {}, and {} is {}", own.name, own.data_type, other.name, other.data_type);
                return Err(context(invalid(what)));
            }
        }
        Ok(())
    }

    /// The tables that foreign keys refer to, and what they refer to there where they leave it out.
    pub(crate) fn complete_foreign_keys(
        &self,
        own: (TableNumber, &str, &[String]),
        foreign_keys: &mut [ForeignKey],
    ) -> Result<Vec<TableNumber>> {
        let (number, name, key) = own;
        let mut tables = Vec::new();
        for foreign_key in foreign_keys {
            let (table, key) = if foreign_key.table == name {
                (number, key.to_vec())
            } else {
                let parent = self
                    .draft(&foreign_key.table)
                    .map_err(|error| error.context(format_args!("foreign key {}", foreign_key.name)))?;
                (parent.number, parent.document.schema.key)
            };
            if foreign_key.references.is_empty() {
                foreign_key.references =
                    key.iter().map(|text| crate::schema::table::key_name(text).to_owned()).collect();
            }
            tables.push(table);
        }
        Ok(tables)
    }
}

/// Whether a column's values are sort keys of a collation where they stand in keys.
pub(crate) fn is_collated(document: &Document) -> bool {
    document.schema.columns.iter().any(|column| column.data_type.is_collated())
}

/// The error of something that is not there.
#[cold]
pub(crate) fn not_there(table: &str, what: &str, name: &str) -> Error {
    Error::new(ErrorKind::Missing, format!("table {table} has no {what} {name:?}"))
}
