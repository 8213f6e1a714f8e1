//! Creates tables: a commit of the catalog, of its own or before that of the single writer's transaction.

use std::sync::Arc;

use crate::catalog::declaration::{Declaration, TableId};
use crate::catalog::record;
use crate::error::{Error, ErrorKind, Result};
use crate::log::{Lsn, Room};
use crate::options::TableOptions;
use crate::state::shared::Shared;
use crate::state::table_handle::Table;
use crate::state::versions::{Runs, TableVersion};
use crate::state::writer::{TableTrees, Turn};
use crate::tree::Tree;

/// The longest table name, and the longest metadata and comment, in bytes.
const NAME_BYTES_MAX: usize = 256;
const METADATA_BYTES_MAX: usize = 1 << 20;
pub(crate) const TABLES_MAX: usize = 1 << 20;

/// Fails if this can be no name of a table.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("a table name has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len()),
        ));
    }
    Ok(())
}

/// Fails if no table can be declared so.
pub(crate) fn check_declaration(name: &str, options: &TableOptions) -> Result<()> {
    check_name(name)?;
    for (what, bytes) in [("metadata", options.metadata.len()), ("a comment", options.comment.len())] {
        if bytes > METADATA_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{what} of {bytes} bytes is over the limit of {METADATA_BYTES_MAX}"),
            ));
        }
    }
    Ok(())
}

/// The id of a table after so many.
pub(crate) fn check_table_id(tables: usize) -> Result<TableId> {
    if tables >= TABLES_MAX {
        return Err(Error::new(ErrorKind::Invalid, format!("a database can have {TABLES_MAX} tables in its life")));
    }
    Ok(tables as TableId)
}

#[cold]
pub(crate) fn table_exists(name: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("a table {name:?} exists; open it or choose another name"))
}

impl Shared {
    /// Creates a table, in a commit of its own in this room of the log.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is one of that name, and those of a commit.
    pub(crate) fn create_table(self: &Arc<Self>, name: &str, options: TableOptions, room: Room) -> Result<Table> {
        check_declaration(name, &options)?;
        let mut turn = self.writer()?;
        if turn.tables.iter().flatten().any(|trees| trees.declaration.name == name) {
            return Err(table_exists(name));
        }
        let id = check_table_id(turn.tables.len())?;
        let declaration = Arc::new(Declaration { id, name: name.to_owned(), options });
        let lsn = self.create_in_turn(&mut turn, &declaration, room)?;
        drop(turn);
        self.wait(lsn, self.durability.get())?;
        Ok(Table { shared: self.clone(), declaration })
    }

    /// Creates a table whose id and name are free, in a writer's turn. Returns where the log ends then.
    ///
    /// # Errors
    /// Those of the log: nothing has happened.
    pub(crate) fn create_in_turn(
        &self,
        turn: &mut Turn<'_>,
        declaration: &Arc<Declaration>,
        room: Room,
    ) -> Result<Lsn> {
        turn.record.clear();
        record::put_create_table(&mut turn.record, declaration.id, &declaration.name, &declaration.options);
        let tree = Tree::new(self.arena.clone(), declaration.options.measures, true);
        self.commit_catalog_in_turn(turn, room, |writer, published, _| {
            let trees = TableTrees::new(declaration.clone(), tree, writer.sequence);
            published.tables.push(Some(TableVersion {
                declaration: declaration.clone(),
                layers: trees.layers.iter().map(Tree::version).collect(),
                unresolved: None,
                runs: Runs::default(),
                sequence: writer.sequence,
            }));
            writer.tables.push(Some(trees));
        })
    }
}
