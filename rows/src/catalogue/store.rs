//! The records of the catalogue.
//!
//! | key | value |
//! |---|---|
//! | `(0)` | `{"format": 1, "next_table": 4, "next_tree": 9, "tables": 2}` |
//! | `(1, name)` | `(number, version)`: which table has the name, and which version its definition has |
//! | `(2, number)` | the definition: a [`Document`] as JSON |

use quipu::isolation::Patch;
use quipu::tuple::{self, Element};
use quipu::{Error, ErrorKind, ReadableTable, Result, Transaction, WritableTable};
use serde::{Deserialize, Serialize};

use crate::definition::document::{Document, FORMAT, TableNumber, TreeNumber};

/// The tree of the catalogue, and that of the numbers of identity columns.
pub(crate) const CATALOGUE: &str = "rows.catalogue";
pub(crate) const NUMBERS: &str = "rows.numbers";
/// What names of trees of rows begin with; a number follows.
const PREFIX: &str = "rows.";

const ROOT: Element<'static> = Element::Int(0);
const NAMES: Element<'static> = Element::Int(1);
const DOCUMENTS: Element<'static> = Element::Int(2);

/// What numbers are free, and how many tables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Root {
    pub(crate) format: u32,
    pub(crate) next_table: TableNumber,
    pub(crate) next_tree: TreeNumber,
    pub(crate) tables: u64,
}

impl Root {
    pub(crate) const NEW: Root = Root { format: FORMAT, next_table: 1, next_tree: 1, tables: 0 };
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedTable {
    pub(crate) number: TableNumber,
    pub(crate) version: u64,
}

/// The name of a tree.
pub(crate) fn tree_name(tree: TreeNumber) -> String {
    format!("{PREFIX}{tree}")
}

/// The number of a tree of this name; none if it is not one of a table or an index.
pub(crate) fn tree_number(name: &str) -> Option<TreeNumber> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Whether a tree of this name has the rows of a table or the entries of an index. Those of the catalogue do not.
pub fn is_tree_of_table(name: &str) -> bool {
    tree_number(name).is_some()
}

/// Whether a tree of this name belongs to rows.
pub fn is_tree_of_rows(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn name_key(name: &str) -> Vec<u8> {
    tuple::encode(&[NAMES, Element::from(name)])
}

fn document_key(number: TableNumber) -> Vec<u8> {
    tuple::encode(&[DOCUMENTS, Element::from(i64::from(number))])
}

#[cold]
fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the catalogue of rows is damaged: {what}; run `quipu check`"))
}

/// The root; none in a new catalogue.
pub(crate) fn root(catalogue: &impl ReadableTable) -> Result<Option<Root>> {
    catalogue.get(tuple::encode(&[ROOT]))?.map(|value| root_of(&value)).transpose()
}

/// The root in a record.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt), and [`Version`](ErrorKind::Version) if it is that of a newer program.
pub(crate) fn root_of(value: &[u8]) -> Result<Root> {
    let root: Root = serde_json::from_slice(value).map_err(corrupt)?;
    if root.format != FORMAT {
        let what = format!("the catalogue of rows is of format {}, this program knows {FORMAT}", root.format);
        return Err(Error::new(ErrorKind::Version, what));
    }
    Ok(root)
}

/// The root as a record.
pub(crate) fn root_bytes(root: &Root) -> Vec<u8> {
    serde_json::to_vec(root).expect("numbers are JSON")
}

pub(crate) fn put_root(catalogue: &impl WritableTable, root: &Root) -> Result<()> {
    catalogue.put(tuple::encode(&[ROOT]), root_bytes(root))
}

/// Changes the root in a transaction. Returns whether there is one.
pub(crate) fn patch_root(transaction: &Transaction, catalogue: &quipu::Table, patch: &Patch) -> Result<bool> {
    transaction.table(catalogue)?.patch(tuple::encode(&[ROOT]), patch)
}

fn entry_of(value: &[u8]) -> Option<NamedTable> {
    match tuple::decode(value).ok()?[..] {
        [Element::Int(number), Element::Int(version)] => {
            Some(NamedTable { number: number.try_into().ok()?, version: version.try_into().ok()? })
        }
        _ => None,
    }
}

/// Where a name leads; none if no table has it.
pub(crate) fn entry(catalogue: &impl ReadableTable, name: &str) -> Result<Option<NamedTable>> {
    let Some(value) = catalogue.get(name_key(name))? else { return Ok(None) };
    entry_of(&value).map(Some).ok_or_else(|| corrupt(format_args!("the entry of {name}")))
}

pub(crate) fn put_entry(catalogue: &impl WritableTable, name: &str, entry: NamedTable) -> Result<()> {
    let value = [Element::from(i64::from(entry.number)), Element::from(entry.version as i64)];
    catalogue.put(name_key(name), tuple::encode(&value))
}

pub(crate) fn remove_entry(catalogue: &impl WritableTable, name: &str) -> Result<()> {
    catalogue.remove(name_key(name)).map(drop)
}

/// All names and where they lead, in the order of names.
pub(crate) fn entries(catalogue: &impl ReadableTable) -> Result<Vec<(String, NamedTable)>> {
    let mut entries = Vec::new();
    for row in catalogue.range(tuple::range(&[NAMES])) {
        let row = row?;
        let name = match tuple::element_at(&row.key, 1) {
            Some(Element::Text(name)) => name.into_owned(),
            _ => return Err(corrupt("a key is not a name")),
        };
        let entry = entry_of(&row.value).ok_or_else(|| corrupt(format_args!("the entry of {name}")))?;
        entries.push((name, entry));
    }
    Ok(entries)
}

/// All names, in their order; none if there is no catalogue.
pub(crate) fn names(catalogue: Option<&impl ReadableTable>) -> Result<Vec<String>> {
    let Some(catalogue) = catalogue else { return Ok(Vec::new()) };
    Ok(entries(catalogue)?.into_iter().map(|(name, _)| name).collect())
}

/// The number of names.
pub(crate) fn count_names(catalogue: &impl ReadableTable) -> Result<u64> {
    catalogue.count(tuple::range(&[NAMES]))
}

/// All definitions, by the numbers of their tables.
pub(crate) fn documents(catalogue: &impl ReadableTable) -> Result<Vec<(TableNumber, Document)>> {
    let mut documents = Vec::new();
    for row in catalogue.range(tuple::range(&[DOCUMENTS])) {
        let number = match tuple::element_at(&row?.key, 1) {
            Some(Element::Int(number)) => TableNumber::try_from(number).ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| corrupt("a key is not a number of a table"))?;
        documents.push((number, document(catalogue, number)?));
    }
    Ok(documents)
}

/// The number of definitions.
pub(crate) fn count_documents(catalogue: &impl ReadableTable) -> Result<u64> {
    catalogue.count(tuple::range(&[DOCUMENTS]))
}

/// The definition of a table.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) if there is none.
pub(crate) fn document(catalogue: &impl ReadableTable, number: TableNumber) -> Result<Document> {
    let document = document_if_there(catalogue, number)?;
    document.ok_or_else(|| corrupt(format_args!("there is no definition of table {number}")))
}

/// The definition of a table; none if the table was dropped.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) if it makes no sense.
pub(crate) fn document_if_there(catalogue: &impl ReadableTable, number: TableNumber) -> Result<Option<Document>> {
    let Some(value) = catalogue.get(document_key(number))? else { return Ok(None) };
    let document = document_of(&value);
    document.map(Some).map_err(|what| corrupt(format_args!("the definition of table {number}: {what}")))
}

/// The document in a record.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn document_of(value: &[u8]) -> Result<Document, String> {
    serde_json::from_slice(value).map_err(|error| error.to_string())
}

/// A document as a record.
pub(crate) fn document_bytes(document: &Document) -> Vec<u8> {
    serde_json::to_vec(document).expect("a definition has no part that JSON cannot hold")
}

pub(crate) fn put_document(catalogue: &impl WritableTable, number: TableNumber, document: &Document) -> Result<()> {
    catalogue.put(document_key(number), document_bytes(document))
}

pub(crate) fn remove_document(catalogue: &impl WritableTable, number: TableNumber) -> Result<()> {
    catalogue.remove(document_key(number)).map(drop)
}
