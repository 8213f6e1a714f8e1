//! The derive macro of `quipu-rows`. It is used as `quipu_rows::Record`, which says what it is for.
//!
//! | file | what it is |
//! |---|---|
//! | `model` | a struct as the macro understands it |
//! | `attributes` | what stands in `#[table(...)]` and `#[column(...)]` |
//! | `read` | a struct and its attributes made into the model, and all that is wrong with them |
//! | `write` | the implementation of the trait, from the model |

#![forbid(unsafe_code)]

mod attributes;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod write;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `quipu_rows::Record` for a struct with named fields, whose fields become the columns of a table.
///
/// `#[table(...)]` before the struct has:
///
/// | attribute | meaning |
/// |---|---|
/// | `name = "flights"` | the table's name; without it, that of the struct in snake case |
/// | `primary_key(carrier, number desc)` | the fields of the primary key, in the order in which rows are sorted |
/// | `index(name = "late", columns(carrier, delay desc))` | an index; of fields, and of expressions in quotes |
/// | `index(..., unique, include(day), predicate = "delay > 0", sum = delay)` | what else an index may have |
/// | `check(name = "possible", condition = "delay > -1000")` | a condition that every row keeps |
/// | `foreign_key(name = "route", columns(from, to), references(Route))` | fields that are the key of a row elsewhere |
/// | `sum = delay` | a field whose sum over any range of the primary key is kept |
/// | `comment = "..."`, `in_memory`, `compressed` | as in `TableSchema` |
///
/// `#[column(...)]` before a field has:
///
/// | attribute | meaning |
/// |---|---|
/// | `primary_key` | the field alone is the primary key |
/// | `type = "decimal(10,2)"` | the type of the column: needed for decimals, and for `text(unicode)` |
/// | `rename = "..."` | the name of the column, if it is not that of the field |
/// | `unique`, `index`, `unique = "name"`, `index = "name"` | an index of this column, with the column's name or another |
/// | `default = "'open'"`, `default = 0` | what rows have that others insert without the column: an expression |
/// | `check = "people >= 0"` | a check of the name `<column>_check` |
/// | `identity`, `identity = by_default` | numbers that the table gives out, always or if a row brings none |
/// | `references(Carrier, on_delete = cascade)` | a foreign key of the name `<column>_fkey` |
/// | `skip` | no column; when a row is read the field has its default |
///
/// What a foreign key `references` is a struct with this derive, or the name of a table in quotes; then, if it is not
/// the primary key there, columns of a unique index; then `on_delete` and `on_update`: `restrict`, `cascade` or
/// `set_null`.
#[proc_macro_derive(Record, attributes(table, column))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match read::record(&input) {
        Ok(record) => write::implementation(&record).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
