//! A struct as the macro understands it.

use proc_macro2::TokenStream;
use syn::{Ident, LitStr, Path, Type};

/// A struct, and the table that its values are rows of.
pub(crate) struct Record {
    pub(crate) ident: Ident,
    /// The name of the table.
    pub(crate) table: String,
    /// All fields, in their order.
    pub(crate) fields: Vec<Field>,
    /// The primary key: at least one.
    pub(crate) key: Vec<KeyField>,
    pub(crate) indexes: Vec<Index>,
    /// Names and conditions.
    pub(crate) checks: Vec<(String, LitStr)>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    /// The place of the field whose sums are kept.
    pub(crate) sum: Option<usize>,
    pub(crate) comment: Option<LitStr>,
    pub(crate) is_in_memory: bool,
    pub(crate) is_compressed: bool,
}

/// A field. Where another part names one, it does by its place among the fields.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) rust_type: Type,
    /// The column; none of a field that is not in the table.
    pub(crate) column: Option<Column>,
}

/// The column of a field.
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type, if the struct says it.
    pub(crate) declared_type: Option<ColumnType>,
    /// The text of an expression.
    pub(crate) default: Option<String>,
    pub(crate) identity: Option<Identity>,
}

/// A type that an attribute names.
#[derive(Clone)]
pub(crate) struct ColumnType {
    /// The name, for messages.
    pub(crate) name: String,
    /// The variant of `DataType`.
    pub(crate) variant: TokenStream,
    /// Whether a key does not keep the value as it was given.
    pub(crate) has_sort_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Always,
    ByDefault,
}

/// A field of the primary key.
pub(crate) struct KeyField {
    pub(crate) field: usize,
    pub(crate) is_descending: bool,
}

/// A secondary index.
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) columns: Vec<IndexColumn>,
    pub(crate) is_unique: bool,
    /// Places of fields.
    pub(crate) include: Vec<usize>,
    pub(crate) predicate: Option<LitStr>,
    /// The place of a field.
    pub(crate) sum: Option<usize>,
}

/// What an index sorts by.
pub(crate) enum IndexColumn {
    Field(KeyField),
    /// An expression, perhaps with a direction.
    Expression(LitStr),
}

/// A foreign key.
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    /// Places of fields.
    pub(crate) columns: Vec<usize>,
    pub(crate) references: References,
}

/// What a foreign key refers to.
#[derive(Clone)]
pub(crate) struct References {
    pub(crate) table: Target,
    /// Columns there; none: the primary key.
    pub(crate) columns: Vec<String>,
    /// The variant of `Action`.
    pub(crate) on_delete: Option<Ident>,
    pub(crate) on_update: Option<Ident>,
}

/// A table, by its struct or by its name.
#[derive(Clone)]
pub(crate) enum Target {
    Record(Path),
    Name(LitStr),
}
