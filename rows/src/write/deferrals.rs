//! The calls by which constraints are looked at later than at the end of one statement.
//!
//! Not here: which constraints wait, and for what (`transaction/deferred_constraints`).

use quipu::{Error, ErrorKind, Result};

use crate::transaction::deferred_constraints::Waiting;
use crate::transaction::{RowTransaction, as_one};
use crate::write::references;

impl RowTransaction<'_> {
    /// Runs statements that are one for constraints: whether rows refer to what is there, and whether no two have the
    /// same values of an index that is [unique later](crate::IndexSchema::unique_later), is looked at when `work` is
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
        let result = as_one(self, || {
            let result = work();
            let waiting = self.postponed.together.take().unwrap_or_default();
            match result {
                Ok(result) => references::check_waiting(self, &waiting).map(|()| result),
                Err(error) => {
                    refused = Some(error);
                    Err(Error::new(ErrorKind::Invalid, "a statement has failed"))
                }
            }
        });
        result.map_err(|error| refused.unwrap_or_else(|| error.into()))
    }

    /// Says when constraints that can be deferred are looked at in this transaction: those of these names, or all.
    /// (SQL has `SET CONSTRAINTS`.) Those that are not deferred any more are looked at now.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if a row refers to one that is not there; then nothing has changed.
    pub fn defer_constraints(&self, names: Option<&[String]>, deferred: bool) -> Result<()> {
        let before = self.postponed.defer(names, deferred);
        let result = if deferred { Ok(()) } else { references::check_deferred(self) };
        if result.is_err() {
            self.postponed.defer_as(before);
        }
        result
    }
}
