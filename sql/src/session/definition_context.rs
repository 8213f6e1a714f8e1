//! The part of its session that a change of definitions needs.

use std::cell::RefCell;

use quipu_rows::RowTransaction;

use crate::ddl;
use crate::error::{Result, SqlError};
use crate::execute::context::Locker;
use crate::execute::view::View;
use crate::session::Session;
use crate::session::evaluator::Values;

/// What a statement has to say beside its result.
pub(super) type Notices = RefCell<Vec<SqlError>>;

impl Session {
    /// Does something with what a statement that changes definitions needs of its session.
    pub(super) fn with_definitions<R>(
        &self,
        transaction: &RowTransaction<'_>,
        notices: &Notices,
        locker: &dyn Locker,
        work: &dyn Fn(&ddl::Context<'_>) -> Result<R>,
    ) -> Result<R> {
        let evaluator = Values { session: self, view: View::Transaction(transaction) };
        work(&ddl::Context {
            catalogues: &self.shared.catalogues,
            search_path: &self.creation_path(),
            temporary_schema: &self.identity.temporary_schema,
            evaluator: &evaluator,
            locker,
            notice: &|notice| notices.borrow_mut().push(notice),
        })
    }

    /// The schemas of the search path that there are.
    pub(super) fn creation_path(&self) -> Vec<String> {
        let path = self.identity.search_path();
        let snapshot = self.shared.database.snapshot();
        let Ok(catalogue) = self.shared.catalogues.of_snapshot(&snapshot) else { return path };
        path.into_iter().filter(|name| catalogue.has_schema(name)).collect()
    }
}
