//! Declarations of secondary indexes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::schema::constraint::Deferral;
use crate::schema::is_false;

/// A secondary index of a table: the rows in another order, with counts, ranks and positions of its own.
///
/// ```
/// use quipu_rows::IndexSchema;
///
/// let by_airport = IndexSchema::new("airport", ["origin", "day desc"]).include(["carrier"]);
/// let by_email = IndexSchema::new("email", ["lower(email)"]).unique();
/// let open = IndexSchema::new("open", ["since"]).predicate("state = 'open'").sum("amount");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSchema {
    /// The name, which no other index or constraint of the table has.
    pub name: String,
    /// What rows are sorted by: columns, or expressions of columns, each followed by `desc` if greater values come
    /// first.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values. Rows of which one of the values is NULL are not compared, unless
    /// NULLs are equal.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unique: bool,
    /// Whether one NULL is the same as another where no two rows may have the same values.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nulls_equal: bool,
    /// Further columns that each entry has, so that a question about these need not look at the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Which rows it has: those for which this condition is true. None: all.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
    /// A column whose sum over any range of the index is kept: integers, or decimals of at most 18 digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// Whether no two rows may have the same values when a statement, or the transaction, is done, which they may have
    /// on the way. Such an index is not `unique`.
    #[serde(default, skip_serializing_if = "Deferral::is_never")]
    pub deferral: Deferral,
    /// Whether SQL has declared it as a constraint: `UNIQUE (a, b)` of a table. Rows do not look at it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub constraint: bool,
    /// Whether SQL has declared it as the primary key, which can be deferred. Rows do not look at it: the key of the
    /// table is a hidden one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub primary: bool,
    /// What SQL has declared of how each of its columns is compared, where it says something: names of classes of
    /// operators, and of collations. Rows do not look at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sql_order: Vec<String>,
}

impl IndexSchema {
    /// An index of this name by these columns.
    pub fn new<S: Into<String>>(name: impl Into<String>, columns: impl IntoIterator<Item = S>) -> IndexSchema {
        let columns = columns.into_iter().map(Into::into).collect();
        IndexSchema { name: name.into(), columns, ..IndexSchema::default() }
    }

    /// The same index, unique.
    pub fn unique(self) -> IndexSchema {
        IndexSchema { unique: true, ..self }
    }

    /// The same index, of whose values no two are the same when a statement, or the transaction, is done.
    ///
    /// ```
    /// # use quipu::{Db, Options};
    /// # use quipu_rows::{Column, DataType, Database, Deferral, IndexSchema, TableSchema};
    /// # fn main() -> quipu::Result<()> {
    /// # let database = Database::open(&Db::open("/places", Options::without_files())?)?;
    /// let places = TableSchema::new("places")
    ///     .column(Column::new("name", DataType::TEXT))
    ///     .column(Column::new("place", DataType::I32))
    ///     .key(["name"])
    ///     .index(IndexSchema::new("place", ["place"]).unique_later(Deferral::Deferred));
    /// let places = database.create_table(&places)?;
    /// places.insert(("Ana", 1))?;
    /// places.insert(("Ben", 2))?;
    /// database.write(|transaction| {
    ///     let places = transaction.table("places")?;
    ///     places.update("Ana", &[("place", 2.into())])?;
    ///     places.update("Ben", &[("place", 1.into())])
    /// })?;
    /// places.insert(("Cid", 2)).unwrap_err();
    /// # Ok(())
    /// # }
    /// ```
    pub fn unique_later(self, deferral: Deferral) -> IndexSchema {
        IndexSchema { unique: false, deferral, ..self }
    }

    /// The same index, with further columns.
    pub fn include<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> IndexSchema {
        IndexSchema { include: columns.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same index, of the rows for which a condition is true.
    pub fn predicate(self, condition: impl Into<String>) -> IndexSchema {
        IndexSchema { predicate: Some(condition.into()), ..self }
    }

    /// The same index, with the sums of a column.
    pub fn sum(self, column: impl Into<String>) -> IndexSchema {
        IndexSchema { sum: Some(column.into()), ..self }
    }
}

/// As `quipu shell` shows it: `unique email (lower(email)) include (name)`.
impl fmt::Display for IndexSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unique = match self.deferral {
            Deferral::Never if self.unique => "unique ",
            Deferral::Never => "",
            Deferral::OnDemand => "deferrable unique ",
            Deferral::Deferred => "deferred unique ",
        };
        write!(f, "{unique}{} ({})", self.name, self.columns.join(", "))?;
        if !self.include.is_empty() {
            write!(f, " include ({})", self.include.join(", "))?;
        }
        if let Some(sum) = &self.sum {
            write!(f, " sum {sum}")?;
        }
        match &self.predicate {
            Some(predicate) => write!(f, " where {predicate}"),
            None => Ok(()),
        }
    }
}
