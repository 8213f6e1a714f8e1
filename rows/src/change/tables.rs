//! Tables created, dropped and renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use quipu::{ErrorKind, Result};

use crate::catalogue::shared::Shared;
use crate::change::definitions::is_collated;
use crate::change::trees::NewTrees;
use crate::definition::document::{Document, FORMAT, IndexTree};
use crate::definition::table::TableDefinition;
use crate::expression::quoted;
use crate::schema::index::IndexSchema;
use crate::schema::table::TableSchema;
use crate::schema::{check_name, invalid};
use crate::value::collation;
use crate::write::references::prefix_access;

impl Shared {
    /// Creates a table.
    pub(crate) fn create_table(self: &Arc<Self>, declared: &TableSchema) -> Result<()> {
        let _changing = self.begin_change()?;
        let number = self.new_table();
        let schema = declared.completed();
        let name = schema.table.clone();
        let mut document = Document {
            format: FORMAT,
            tree: 0,
            columns: (1..).take(schema.columns.len()).collect(),
            next_column: schema.columns.len() as u32 + 1,
            missing: BTreeMap::new(),
            layouts: Vec::new(),
            indexes: vec![IndexTree { tree: 0, missed: None }; schema.indexes.len()],
            foreign_tables: Vec::new(),
            referenced_by: Vec::new(),
            collation: None,
            unvalidated: Vec::new(),
            schema,
        };
        document.collation = is_collated(&document).then(|| collation::VERSION.to_owned());
        document.update_layout();
        // A look at all of it before a tree is created, with whatever tree there is.
        self.change(|definitions| {
            definitions.refuse_taken(&name)?;
            let own = (number, &*name, &document.schema.key.clone()[..]);
            document.foreign_tables = definitions.complete_foreign_keys(own, &mut document.schema.foreign_keys)?;
            Ok(())
        })?;
        let looked_at = self.look_at(number, &document)?;
        for foreign_key in &looked_at.foreign_keys {
            if prefix_access(&looked_at, &foreign_key.columns).is_none() {
                let index = format!("{}_index", foreign_key.declared.name);
                let columns = foreign_key.declared.columns.iter().map(|column| quoted(column));
                document.schema.indexes.push(IndexSchema::new(index, columns));
                document.indexes.push(IndexTree { tree: 0, missed: None });
            }
        }
        self.look_at(number, &document)?;
        let mut trees = NewTrees::new(Arc::clone(self));
        let schema = &document.schema;
        document.tree = trees.create(schema, schema.sum.is_some(), format!("rows of table {name}"))?;
        for (index, place) in schema.indexes.iter().zip(&mut document.indexes) {
            let comment = format!("index {} of table {name}", index.name);
            place.tree = trees.create(schema, index.sum.is_some(), comment)?;
        }
        self.change(|definitions| {
            definitions.refuse_taken(&name)?;
            let tables = document.foreign_tables.clone();
            if tables.contains(&number) {
                document.referenced_by.push(number);
            }
            let mut draft = definitions.new_draft(number, document);
            let ready = definitions.put(&mut draft)?;
            definitions.begin_numbers(&ready)?;
            for foreign_key in &ready.foreign_keys {
                definitions.check_foreign_key(&ready, foreign_key)?;
            }
            definitions.link(number, &[], &tables)
        })?;
        trees.keep();
        Ok(())
    }

    /// What a document comes to, whatever its trees are.
    fn look_at(&self, number: u32, document: &Document) -> Result<TableDefinition> {
        let any = self.catalogue().cloned();
        let mut open_tree = |_| any.clone().ok_or_else(|| invalid("the database is open read-only".to_owned()));
        TableDefinition::new(number, 1, document.clone(), &mut open_tree)
    }

    /// Drops a table. Returns whether there was one.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if foreign keys of other tables refer to it.
    pub(crate) fn drop_table(&self, name: &str) -> Result<bool> {
        let _changing = self.begin_change()?;
        let dropped = self.change(|definitions| {
            let draft = match definitions.draft(name) {
                Err(error) if error.kind() == ErrorKind::Missing => return Ok(None),
                draft => draft?,
            };
            let others = draft.document.referenced_by.iter().filter(|&&child| child != draft.number);
            let mut names = Vec::new();
            for &child in others {
                names.push(definitions.draft_of(child)?.document.schema.table);
            }
            if !names.is_empty() {
                let names = names.join(", ");
                return Err(invalid(format!("table {name} cannot be dropped: foreign keys of {names} refer to it")));
            }
            definitions.remove(&draft)?;
            definitions.end_numbers(draft.number, None)?;
            definitions.link(draft.number, &draft.document.foreign_tables, &[])?;
            Ok(Some(draft))
        })?;
        let Some(draft) = dropped else { return Ok(false) };
        self.known.forget(draft.number);
        self.drop_trees(draft.document.trees().collect::<Vec<_>>())?;
        Ok(true)
    }

    /// Gives a table another name.
    pub(crate) fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        check_name("a table", new_name)?;
        let _changing = self.begin_change()?;
        self.change(|definitions| {
            let mut draft = definitions.draft(name)?;
            if name == new_name {
                return Ok(());
            }
            definitions.refuse_taken(new_name)?;
            draft.document.schema.table = new_name.to_owned();
            let rename = |document: &mut Document| {
                for foreign_key in &mut document.schema.foreign_keys {
                    if foreign_key.table == name {
                        foreign_key.table = new_name.to_owned();
                    }
                }
            };
            rename(&mut draft.document);
            definitions.put(&mut draft)?;
            for &child in draft.document.referenced_by.iter().filter(|&&child| child != draft.number) {
                let mut child = definitions.draft_of(child)?;
                rename(&mut child.document);
                definitions.put(&mut child)?;
            }
            Ok(())
        })
    }
}
