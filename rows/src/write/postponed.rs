//! Foreign keys that are looked at later than at the end of one statement: see `transaction::postponed`.

use std::sync::Arc;

use quipu::{Error, ErrorKind, ReadableTable, Result};

use crate::catalogue::trees::Trees;
use crate::definition::table::TableDefinition;
use crate::read::row::RowView;
use crate::transaction::RowTransaction;
use crate::transaction::postponed::{Moved, Restricted, Waiting};
use crate::value::Values;
use crate::write::references;

impl RowTransaction<'_> {
    /// Runs statements that are one for foreign keys: whether rows refer to what is there is looked at when `work` is
    /// done. So a row may come before the one that it refers to, and keys may move around. Each `work` within another
    /// one is part of that.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, ForeignKey, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/people", Options::without_files())?)?;
    /// let people = TableSchema::new("people")
    ///     .column(Column::new("name", DataType::TEXT))
    ///     .column(Column::new("boss", DataType::TEXT))
    ///     .key(["name"])
    ///     .foreign_key(ForeignKey::new("of_boss", ["boss"], "people"));
    /// let people = database.create_table(&people)?;
    /// people.insert(("Ben", "Ana")).unwrap_err();
    /// database.write(|transaction| {
    ///     transaction.together(|| {
    ///         let people = transaction.table("people")?;
    ///         people.insert(("Ben", "Ana"))?;
    ///         people.insert(("Ana", None::<&str>))
    ///     })
    /// })?;
    /// assert_eq!(people.count(..)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`, and [`Invalid`](ErrorKind::Invalid) if a row refers to one that is not there; then nothing of
    /// it is done.
    pub fn together<T, E: From<Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.postponed.together.borrow().is_some() {
            return work();
        }
        self.postponed.together.replace(Some(Waiting::default()));
        let mut refused = None;
        let result = self.as_one(|| {
            let result = work();
            let waiting = self.postponed.together.take().unwrap_or_default();
            match result {
                Ok(result) => waiting.check(self).map(|()| result),
                Err(error) => {
                    refused = Some(error);
                    Err(Error::new(ErrorKind::Invalid, "a statement has failed"))
                }
            }
        });
        result.map_err(|error| refused.unwrap_or_else(|| error.into()))
    }

    /// Says when foreign keys that can be deferred are looked at in this transaction: those of these names, or all.
    /// (SQL has `SET CONSTRAINTS`.) Those that are not deferred any more are looked at now.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if a row refers to one that is not there; then nothing has changed.
    pub fn defer_constraints(&self, names: Option<&[String]>, deferred: bool) -> Result<()> {
        let before = (self.postponed.all.get(), self.postponed.named.borrow().clone());
        match names {
            None => {
                self.postponed.all.set(Some(deferred));
                self.postponed.named.borrow_mut().clear();
            }
            Some(names) => {
                self.postponed.named.borrow_mut().extend(names.iter().map(|name| (name.clone(), deferred)));
            }
        }
        let result = if deferred { Ok(()) } else { check_deferred(self) };
        if result.is_err() {
            self.postponed.all.set(before.0);
            self.postponed.named.replace(before.1);
        }
        result
    }

    /// Leaves what a statement would look at for later. `deferred` says until when.
    pub(crate) fn postpone(&self, deferred: bool, waiting: impl FnOnce(&mut Waiting)) -> bool {
        if deferred {
            self.postponed.check.set(Some(check_at_the_end));
            waiting(&mut self.postponed.deferred.borrow_mut());
            return true;
        }
        match &mut *self.postponed.together.borrow_mut() {
            Some(together) => {
                waiting(together);
                true
            }
            None => false,
        }
    }
}

fn check_at_the_end(transaction: &RowTransaction<'_>) -> Result<()> {
    transaction.defer_constraints(None, false)
}

/// Looks at what was left for the end of the transaction. What is still deferred, and what is refused, stays.
fn check_deferred(transaction: &RowTransaction<'_>) -> Result<()> {
    let waiting = transaction.postponed.deferred.take();
    let result = waiting.check(transaction);
    if result.is_err() {
        transaction.postponed.deferred.borrow_mut().extend(waiting);
    }
    result
}

impl Waiting {
    /// Looks whether rows refer to what is not there.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if one does.
    pub(crate) fn check(&self, transaction: &RowTransaction<'_>) -> Result<()> {
        for restricted in &self.restricted {
            if let Some(restricted) = restricted.as_of_now(transaction)? {
                references::check_restricted(transaction, &restricted)?;
            }
        }
        for ((_, key), Moved { definition, changed }) in &self.moved {
            let Some(current) = current(transaction, definition)? else { continue };
            let changed = (current.version == definition.version).then_some(&changed[..]);
            let Some(value) = transaction.tree(&current.rows)?.get(key)? else { continue };
            let view = RowView::new(&current, key, &value)?;
            let row: Values<'_> = (0..current.columns.len()).map(|place| view.value(place)).collect::<Result<_>>()?;
            references::check_referred(transaction, &current, &row, changed)?;
        }
        Ok(())
    }
}

impl Restricted {
    /// The same over the definitions of now; none if there is no such foreign key any more.
    fn as_of_now(&self, transaction: &RowTransaction<'_>) -> Result<Option<Restricted>> {
        let Restricted { definition, row, child, foreign_key } = self;
        let (Some(parent), Some(now)) = (current(transaction, definition)?, current(transaction, child)?) else {
            return Ok(None);
        };
        let name = &child.foreign_keys[*foreign_key].declared.name;
        let found = now.foreign_keys.iter().position(|key| key.declared.name == *name);
        // The row was one of the old definition.
        let definition = if parent.version == definition.version { parent } else { Arc::clone(definition) };
        Ok(found.map(|foreign_key| Restricted { definition, row: row.clone(), child: now, foreign_key }))
    }
}

/// The definition of now of a table; none if it was dropped.
fn current(transaction: &RowTransaction<'_>, definition: &TableDefinition) -> Result<Option<Arc<TableDefinition>>> {
    match transaction.definition_of_handle(definition.number) {
        Ok(current) => Ok(Some(current)),
        Err(error) if error.kind() == ErrorKind::Missing => Ok(None),
        Err(error) => Err(error),
    }
}
