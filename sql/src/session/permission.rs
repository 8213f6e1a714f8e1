//! Statements that neither read nor write rows, for users that have not all rights: some are allowed to each, some need
//! a right to a table, the others need all. Those that read or write rows are refused where their tables are bound
//! (`catalogue/lookup`).

use sqlparser::ast::{self, ObjectType, Statement as Tree};

use crate::alteration::Change;
use crate::bind::names::{Named, Names};
use crate::bind::object_name;
use crate::catalogue::lookup::Lookup;
use crate::catalogue::names_in_rows::is_temporary;
use crate::ddl;
use crate::error::Result;
use crate::identity::rights::{Right, require_all};
use crate::session::Session;
use crate::session::definitions::first_words;
use crate::session::prepare::with_view;
use crate::statement::Statement;

/// Refuses a statement that the user may not run: definitions of what is not temporary, and what is about all.
///
/// # Errors
/// [`INSUFFICIENT_PRIVILEGE`](crate::SqlState::INSUFFICIENT_PRIVILEGE); those of reading the catalogue.
pub(super) fn require(session: &Session, statement: &Statement) -> Result<()> {
    let rights = &*session.identity.rights;
    if rights.has_all() {
        return Ok(());
    }
    if let Some(alteration) = &statement.alteration {
        return match alteration.changes[..] {
            [Change::Do(_)] => Ok(()),
            _ => require_all(rights, &first_words(&statement.text)),
        };
    }
    match &statement.tree {
        Tree::StartTransaction { .. }
        | Tree::Commit { .. }
        | Tree::Rollback { .. }
        | Tree::Savepoint { .. }
        | Tree::ReleaseSavepoint { .. }
        | Tree::Set(_)
        | Tree::Reset(_)
        | Tree::ShowVariable { .. }
        | Tree::Discard { .. }
        | Tree::Prepare { .. }
        | Tree::Execute { .. }
        | Tree::Deallocate { .. }
        | Tree::Declare { .. }
        | Tree::Fetch { .. }
        | Tree::Close { .. }
        | Tree::Explain { .. }
        | Tree::Copy { .. }
        | Tree::Vacuum(_)
        | Tree::Analyze(_)
        | Tree::LISTEN { .. }
        | Tree::UNLISTEN { .. }
        | Tree::NOTIFY { .. } => Ok(()),
        Tree::Lock(lock) => lock.tables.iter().try_for_each(|table| require_on(session, &table.name, Right::Update)),
        Tree::Truncate(truncate) => {
            truncate.table_names.iter().try_for_each(|table| require_on(session, &table.name, Right::Truncate))
        }
        Tree::CreateTable(_) if ddl::makes_temporary(&statement.tree) => Ok(()),
        Tree::Drop { object_type: ObjectType::Table, names, .. } if all_temporary(session, names)? => Ok(()),
        other => require_all(rights, &first_words(&other.to_string())),
    }
}

fn require_on(session: &Session, name: &ast::ObjectName, right: Right) -> Result<()> {
    with_lookup(session, |lookup| {
        let (schema, table) = object_name(name)?;
        let relation = lookup.relation(schema.as_deref(), &table)?;
        relation.map_or(Ok(()), |relation| lookup.require(right, &relation))
    })
}

/// Whether tables are all those of the session alone, or are not there.
fn all_temporary(session: &Session, names: &[ast::ObjectName]) -> Result<bool> {
    with_lookup(session, |lookup| {
        for name in names {
            let (schema, table) = object_name(name)?;
            match lookup.relation(schema.as_deref(), &table)? {
                Some(Named::Table(shape)) if !is_temporary(&shape.schema) => return Ok(false),
                Some(Named::View(_)) => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    })
}

/// Does something with names as statements of the session see them.
fn with_lookup<R>(session: &Session, work: impl FnOnce(&Lookup<'_>) -> Result<R>) -> Result<R> {
    with_view(session, |view| {
        let catalogue = session.shared.catalogue_of(view)?;
        let lookup = Lookup::new(view, catalogue, &session.shared.shapes, session.identity.search_path());
        work(&lookup.with_rights(&*session.identity.rights))
    })
}
