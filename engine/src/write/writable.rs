//! [`WritableTable`]: writing rows, the same over tables and in transactions.

use crate::bounds::Bounds;
use crate::error::{Error, ErrorKind, Result};
use crate::read::entry::Entry;
use crate::read::readable::ReadableTable;

/// Writing rows. Over a [`Table`](crate::Table) each call is a commit of its own; in a transaction the writes are
/// private until it commits.
pub trait WritableTable: ReadableTable {
    /// Puts a row with a new key.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the key is live; nothing is changed then.
    fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Puts a row, whether or not the key exists. In a transaction over rows on disk, keys are looked up together, when
    /// it commits or before it counts; those of a [`blind`](crate::TableOptions::blind_writes) table only before.
    fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Replaces the value of a live key.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`] if the key is dead; nothing is changed then.
    fn replace(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Removes a row. Returns whether there was one. For a [`blind`](crate::TableOptions::blind_writes) table, outside
    /// of transactions, returns whether there may have been one, since it does not look.
    fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool>;

    /// Removes the row of `key` if there is one, and does not say whether. In a transaction over rows on disk it costs
    /// less than [`remove`](WritableTable::remove): keys are looked up together when the transaction commits. But an
    /// optimistic transaction looks the key up at once, and conflicts with commits that put or remove it meanwhile.
    fn delete(&self, key: impl AsRef<[u8]>) -> Result<()>;

    /// Removes all rows of a range. Returns how many there were.
    fn remove_range<'b>(&self, bounds: impl Into<Bounds<'b>>) -> Result<u64>;

    /// Removes the first row. Returns it, or `None` if the table is empty.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::WritableTable;
    /// let jobs = db.ensure_table("jobs")?;
    /// jobs.put("1 clean", "")?;
    /// jobs.put("2 paint", "")?;
    /// assert_eq!(jobs.pop_first()?.map(|job| job.key.to_vec()), Some(b"1 clean".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    fn pop_first(&self) -> Result<Option<Entry>>;

    /// Removes the last row. Returns it, or `None` if the table is empty.
    fn pop_last(&self) -> Result<Option<Entry>>;

    /// Gives a key the value that `change` makes of its present one. `None` stands for no row, before and after.
    ///
    /// ```
    /// # fn main() -> quipu::Result<()> {
    /// # let db = quipu::Db::open("/db", quipu::Options::without_files())?;
    /// use quipu::{ReadableTable, WritableTable};
    /// let letters = db.ensure_table("letters")?;
    /// for letter in ["a", "b", "a"] {
    ///     letters.update(letter, |seen| Some([seen.unwrap_or_default(), b"|"].concat()))?;
    /// }
    /// assert_eq!(letters.get("a")?.as_deref(), Some(&b"||"[..]));
    /// # Ok(())
    /// # }
    /// ```
    fn update(&self, key: impl AsRef<[u8]>, change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()>;

    /// Removes the rows of a range for which `keep` is false: it is given each key and value, in order. Returns how
    /// many rows were removed.
    fn retain<'b>(&self, bounds: impl Into<Bounds<'b>>, keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64>;
}

/// The error of an insert that found a live key.
#[cold]
pub(crate) fn exists() -> Error {
    Error::new(ErrorKind::Exists, "the key exists; use `put` to overwrite it or `replace` to insist that it exists")
}

/// The error of a replace that found no live key.
#[cold]
pub(crate) fn missing() -> Error {
    Error::new(ErrorKind::Missing, "there is no row with this key; use `insert` or `put`")
}
