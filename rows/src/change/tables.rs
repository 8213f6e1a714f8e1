//! Tables created, dropped, renamed and emptied.

use std::collections::BTreeMap;

use quipu::{ErrorKind, Result, Transaction};

use crate::catalogue::numbers::FIRST;
use crate::catalogue::shared::read_only;
use crate::change::definitions::{Definitions, is_collated, leave_trees};
use crate::definition::document::{Document, FORMAT, IndexTree};
use crate::definition::table::TableDefinition;
use crate::expression::quoted;
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::schema::{check_name, invalid};
use crate::transaction::own_changes::CreateTable;
use crate::value::collation;
use crate::write::references::prefix_access;

impl Definitions<'_> {
    /// Creates a table.
    pub(crate) fn create_table(&self, declared: &TableSchema) -> Result<()> {
        let number = self.shared().free.take_table();
        let mut document = new_document(declared.completed());
        let name = document.schema.table.clone();
        check_name("a table", &name)?;
        self.refuse_taken(&name)?;
        // A look at all of it before a tree is created, with whatever tree there is.
        let own = (number, &*name, &document.schema.key.clone()[..]);
        document.foreign_tables = self.complete_foreign_keys(own, &mut document.schema.foreign_keys)?;
        let looked_at = self.look_at(number, &document)?;
        for foreign_key in &looked_at.foreign_keys {
            if prefix_access(&looked_at, &foreign_key.columns).is_none() {
                let index = format!("{}_index", foreign_key.declared.name);
                let columns = foreign_key.declared.columns.iter().map(|column| quoted(column));
                document.schema.indexes.push(IndexSchema::new(index, columns));
                document.indexes.push(IndexTree::NONE);
            }
        }
        let looked_at = self.look_at(number, &document)?;
        for foreign_key in &looked_at.foreign_keys {
            self.check_foreign_key(&looked_at, foreign_key)?;
        }
        self.create_trees(Transaction::create_table, &mut document)?;
        let tables = document.foreign_tables.clone();
        if tables.contains(&number) {
            document.referenced_by.push(number);
        }
        let ready = self.put(&mut self.new_draft(number, document))?;
        self.begin_numbers(&ready)?;
        self.link(number, &[], &tables)
    }

    /// Creates the trees of a table and of its indexes in this way, in the place of those that the document has.
    pub(crate) fn create_trees(&self, create: CreateTable, document: &mut Document) -> Result<()> {
        let (schema, name) = (&document.schema, &document.schema.table);
        document.tree = self.create_tree(create, schema, schema.sum.is_some(), format!("rows of table {name}"))?;
        for (index, place) in schema.indexes.iter().zip(&mut document.indexes) {
            let comment = format!("index {} of table {name}", index.name);
            *place = place.moved_to(self.create_tree(create, schema, index.sum.is_some(), comment)?);
        }
        Ok(())
    }

    /// What a document comes to, whatever its trees are.
    pub(crate) fn look_at(&self, number: u32, document: &Document) -> Result<TableDefinition> {
        let any = self.shared().catalogue().cloned();
        let mut open_tree = |_| any.clone().ok_or_else(read_only);
        TableDefinition::new(number, 1, document.clone(), &mut open_tree)
    }

    /// Drops a table. Returns whether there was one.
    pub(crate) fn drop_table(&self, name: &str) -> Result<bool> {
        let draft = match self.draft(name) {
            Err(error) if error.kind() == ErrorKind::Missing => return Ok(false),
            draft => draft?,
        };
        let others = draft.document.referenced_by.iter().filter(|&&child| child != draft.number);
        let mut names = Vec::new();
        for &child in others {
            names.push(self.draft_of(child)?.document.schema.table);
        }
        if !names.is_empty() {
            let names = names.join(", ");
            return Err(invalid(format!("table {name} cannot be dropped: foreign keys of {names} refer to it")));
        }
        self.remove(&draft)?;
        self.end_numbers(draft.number, None)?;
        self.link(draft.number, &draft.document.foreign_tables, &[])?;
        Ok(true)
    }

    /// Gives a table another name.
    pub(crate) fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        check_name("a table", new_name)?;
        let mut draft = self.draft(name)?;
        if name == new_name {
            return Ok(());
        }
        self.refuse_taken(new_name)?;
        draft.document.schema.table = new_name.to_owned();
        let rename = |document: &mut Document| {
            for foreign_key in &mut document.schema.foreign_keys {
                if foreign_key.table == name {
                    foreign_key.table = new_name.to_owned();
                }
            }
        };
        rename(&mut draft.document);
        self.put(&mut draft)?;
        for &child in draft.document.referenced_by.iter().filter(|&&child| child != draft.number) {
            let mut child = self.draft_of(child)?;
            rename(&mut child.document);
            self.put(&mut child)?;
        }
        Ok(())
    }

    /// Removes all rows of tables. Foreign keys of other tables must not refer to them.
    pub(crate) fn truncate(&self, names: &[&str], restarts_numbers: bool) -> Result<()> {
        let mut numbers = Vec::new();
        for name in names {
            numbers.push(self.draft(name)?.number);
        }
        for (place, &number) in numbers.iter().enumerate().filter(|(place, number)| !numbers[..*place].contains(number))
        {
            let (name, mut draft) = (names[place], self.draft_of(number)?);
            if draft.document.indexes.iter().any(|index| index.missed.is_some()) {
                return Err(invalid(format!("an index of table {name} is still being built")));
            }
            if let Some(&child) = draft.document.referenced_by.iter().find(|child| !numbers.contains(child)) {
                let child = self.draft_of(child)?.document.schema.table;
                return Err(invalid(format!("table {name} cannot be emptied: foreign keys of {child} refer to it")));
            }
            leave_trees(self, number, draft.document.trees().collect::<Vec<_>>());
            self.create_trees(Transaction::create_table_to_free, &mut draft.document)?;
            let ready = self.put(&mut draft)?;
            if restarts_numbers {
                self.numbers()?.write_to_free();
                for &place in &ready.numbered {
                    self.set_number((number, ready.columns[place].number), FIRST)?;
                }
            }
        }
        Ok(())
    }
}

/// The document of a new table, which has no trees yet and refers to none.
fn new_document(schema: TableSchema) -> Document {
    let mut document = Document {
        format: FORMAT,
        tree: 0,
        columns: (1..).take(schema.columns.len()).collect(),
        next_column: schema.columns.len() as u32 + 1,
        missing: BTreeMap::new(),
        layouts: Vec::new(),
        indexes: vec![IndexTree::NONE; schema.indexes.len()],
        foreign_tables: Vec::new(),
        referenced_by: Vec::new(),
        collation: None,
        unvalidated: Vec::new(),
        schema,
    };
    document.collation = is_collated(&document).then(|| collation::VERSION.to_owned());
    document.update_layout();
    document
}
