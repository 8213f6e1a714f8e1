//! A definition as the catalogue keeps it: `docs/internals/format-catalogue.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::table::{TableSchema, key_name};
use crate::value::data_type::DataType;

/// The format of documents that this program writes, and the only one that it reads.
pub(crate) const FORMAT: u32 = 1;

/// The number of a table, which none before or after it has.
pub(crate) type TableNumber = u32;
/// The number of a column of one table, which none before or after it has there.
pub(crate) type ColumnNumber = u32;
/// The number of a tree of the engine that belongs to rows.
pub(crate) type TreeNumber = u32;

/// The definition of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) format: u32,
    /// What was declared, with the present names.
    pub(crate) schema: TableSchema,
    /// The tree of the rows.
    pub(crate) tree: TreeNumber,
    /// The numbers of the schema's columns, in their order.
    pub(crate) columns: Vec<ColumnNumber>,
    /// The number of the next column.
    pub(crate) next_column: ColumnNumber,
    /// What rows have in a column that is younger than they are, as text; of a column that is not here, NULL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) missing: BTreeMap<ColumnNumber, String>,
    /// The layouts that rows have: the columns of the value, in their order. The last one is that of new rows.
    pub(crate) layouts: Vec<Vec<StoredColumn>>,
    /// The trees of the schema's indexes, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) indexes: Vec<IndexTree>,
    /// The tables that the schema's foreign keys refer to, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) foreign_tables: Vec<TableNumber>,
    /// The tables whose foreign keys refer to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) referenced_by: Vec<TableNumber>,
    /// Constraints that new rows keep and of which it is not known yet whether all others do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unvalidated: Vec<Unvalidated>,
    /// The version of the collation that keys were made with, if there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collation: Option<String>,
}

/// A constraint of which it is not known yet whether all rows keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unvalidated {
    /// The check of this name.
    Check(String),
    /// The column of this name, which is NOT NULL.
    NotNull(String),
    /// The foreign key of this name.
    ForeignKey(String),
    /// The index of this name, made for a constraint that is being added.
    Index(String),
}

impl Unvalidated {
    /// Follows a column that gets another name.
    pub(crate) fn rename_column(&mut self, name: &str, new_name: &str) {
        if let Unvalidated::NotNull(column) = self
            && column == name
        {
            new_name.clone_into(column);
        }
    }
}

/// A column of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredColumn {
    pub(crate) column: ColumnNumber,
    #[serde(rename = "type")]
    pub(crate) data_type: DataType,
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub(crate) nullable: bool,
}

/// Where an index lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexTree {
    pub(crate) tree: TreeNumber,
    /// The tree of rows that were written since its build began. An index that has one is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<TreeNumber>,
    /// The number by which the index is known, if it has moved to another tree since it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<TreeNumber>,
}

impl IndexTree {
    /// That of an index that has no tree yet.
    pub(crate) const NONE: IndexTree = IndexTree { tree: 0, missed: None, number: None };

    /// An index that begins in this tree.
    pub(crate) fn new(tree: TreeNumber, missed: Option<TreeNumber>) -> IndexTree {
        IndexTree { tree, missed, number: None }
    }

    /// The number by which the index is known.
    pub(crate) fn number(self) -> TreeNumber {
        self.number.unwrap_or(self.tree)
    }

    /// The same index in another tree.
    pub(crate) fn moved_to(self, tree: TreeNumber) -> IndexTree {
        let number = if self.tree == 0 { None } else { Some(self.number()) };
        IndexTree { tree, number, ..self }
    }
}

impl Document {
    /// The columns of the value of new rows.
    pub(crate) fn stored_columns(&self) -> Vec<StoredColumn> {
        let is_key = |name: &str| self.schema.key.iter().any(|key| key_name(key) == name);
        let columns = self.schema.columns.iter().zip(&self.columns);
        columns
            .filter(|(column, _)| !is_key(&column.name) || column.data_type.has_sort_key())
            .map(|(column, &number)| StoredColumn {
                column: number,
                data_type: column.data_type,
                nullable: !column.not_null,
            })
            .collect()
    }

    /// Gives new rows another layout if the columns have changed.
    pub(crate) fn update_layout(&mut self) {
        let stored = self.stored_columns();
        if self.layouts.last() != Some(&stored) {
            self.layouts.push(stored);
        }
    }

    /// All trees that the table lies in.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeNumber> {
        let of_indexes = self.indexes.iter().flat_map(|index| [Some(index.tree), index.missed]).flatten();
        std::iter::once(self.tree).chain(of_indexes)
    }
}
