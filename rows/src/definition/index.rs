//! Parsed definitions of secondary indexes, and the entry that a row has in one.
//!
//! ```text
//! not unique    key   indexed columns, then those of the primary key that are not among them
//!               value [sum] included columns; empty without them
//! unique        key   indexed columns; if one is NULL, and NULLs are not equal, then the rest of the primary key
//!               value the rest of the primary key, included columns
//! ```
//!
//! Invariants:
//! 1. Every row for which the predicate is true has one entry, no other row has any.
//! 2. An entry tells the key of its row.
//! 3. Two rows that differ in no column that an index reads have the same value there, and keys that differ only in the
//!    primary key.

use quipu::{Error, ErrorKind, Result, tuple};
use smallvec::SmallVec;

use crate::definition::document::{IndexTree, TreeNumber};
use crate::definition::shape::{ColumnPlace, RowShape};
use crate::definition::table::{ColumnDefinition, Primary};
use crate::encoding::key::KeyColumn;
use crate::encoding::key_shape::KeyShape;
use crate::encoding::layout::{Layout, StoredColumn, sum_of_value};
use crate::expression::evaluate::{Columns, Failed};
use crate::expression::{ColumnName, Expression, parse};
use crate::schema::index::IndexSchema;
use crate::schema::{check_name, invalid};
use crate::value::Value;
use crate::value::data_type::DataType;

/// The bytes of a row's key, gathered from an entry.
pub(crate) type RowKey = SmallVec<[u8; 64]>;

/// Where an element of the row's key stands in an entry.
#[derive(Clone, Copy, Debug)]
enum RowKeyPart {
    /// It is this element of the entry's key.
    Indexed { element: usize },
    /// It is this element, in the other direction.
    Turned { element: usize, column: KeyColumn },
    /// It is this one of the elements of the rest.
    Rest(usize),
}

/// A secondary index of a table.
#[derive(Debug)]
pub(crate) struct IndexDefinition {
    pub(crate) declared: IndexSchema,
    /// The number by which it is known.
    pub(crate) number: TreeNumber,
    /// The tree.
    pub(crate) tree: quipu::Table,
    /// The tree of what a build has missed, while it is built.
    pub(crate) missed: Option<quipu::Table>,
    /// The key, and in an index that is not unique the rest of the primary key as well.
    pub(crate) key: KeyShape,
    /// What rows are sorted by.
    pub(crate) expressions: Vec<Expression>,
    pub(crate) predicate: Option<Expression>,
    /// Elements of the primary key that are not among the indexed columns.
    rest: Vec<usize>,
    row_key_parts: Vec<RowKeyPart>,
    pub(crate) shape: RowShape,
    /// The places of included columns.
    included: Vec<usize>,
    pub(crate) sum: Option<usize>,
    /// The places of all columns that an entry depends on, beside the primary key.
    pub(crate) reads: Vec<usize>,
}

/// The error of a declaration of this index.
fn wrong(name: &str, what: impl std::fmt::Display) -> Error {
    invalid(format!("index {name}: {what}"))
}

/// What rows are sorted by, and the part of the key that says it.
fn indexed_columns(
    declared: &IndexSchema,
    columns: &[ColumnDefinition],
    names: &[ColumnName<'_>],
    table: &str,
) -> Result<(Vec<Expression>, KeyShape)> {
    let name = &*declared.name;
    let (mut expressions, mut key) = (Vec::new(), KeyShape::of(format!("index {table}.{name}")));
    for text in &declared.columns {
        let list = parse::ordered_list(text, names).map_err(|what| wrong(name, what))?;
        for (node, is_descending) in list {
            let expression = Expression::check(node, names).map_err(|what| wrong(name, what))?;
            if expression.columns().is_empty() {
                return Err(wrong(name, format!("{text:?} is not a column, nor an expression of columns")));
            }
            let data_type = expression.data_type();
            let data_type = data_type.ok_or_else(|| wrong(name, format!("{text:?} is always NULL")))?;
            if expressions.contains(&expression) {
                return Err(wrong(name, format!("{text:?} stands there twice")));
            }
            key.columns.push(KeyColumn { data_type, is_descending });
            key.names.push(expression.text(&|place| columns[place].declared.name.clone()));
            // An expression may be NULL where its column is not.
            key.nullable.push(expression.as_column().is_none_or(|place| columns[place].is_nullable));
            expressions.push(expression);
        }
    }
    if expressions.is_empty() {
        return Err(wrong(name, "it has no columns"));
    }
    Ok((expressions, key))
}

/// The elements of the primary key that are not among the indexed columns, and where an entry has each element.
fn row_key_parts(primary: &Primary, expressions: &[Expression], key: &KeyShape) -> (Vec<usize>, Vec<RowKeyPart>) {
    let (mut rest, mut parts) = (Vec::new(), Vec::new());
    for (element, (&place, &column)) in primary.places.iter().zip(&primary.key.columns).enumerate() {
        let indexed = expressions.iter().position(|expression| expression.as_column() == Some(place));
        parts.push(match indexed {
            Some(indexed) if key.columns[indexed] == column => RowKeyPart::Indexed { element: indexed },
            Some(indexed) if !column.data_type.has_sort_key() => {
                RowKeyPart::Turned { element: indexed, column: key.columns[indexed] }
            }
            _ => {
                rest.push(element);
                RowKeyPart::Rest(rest.len() - 1)
            }
        });
    }
    (rest, parts)
}

/// The places of the included columns.
fn included_columns(declared: &IndexSchema, names: &[ColumnName<'_>]) -> Result<Vec<usize>> {
    let name = &*declared.name;
    let mut included = Vec::new();
    for column in &declared.include {
        let place = names.iter().position(|known| known.name == *column);
        let place = place.ok_or_else(|| wrong(name, parse::no_column(column, names.iter().map(|known| known.name))))?;
        if included.contains(&place) {
            return Err(wrong(name, format!("column {column} is included twice")));
        }
        included.push(place);
    }
    Ok(included)
}

/// What entries are made of.
struct Parts<'p> {
    is_unique: bool,
    expressions: &'p [Expression],
    /// The elements of the primary key that are not indexed.
    rest: &'p [usize],
    included: &'p [usize],
    sum: Option<usize>,
}

impl Parts<'_> {
    /// Whether values hold the rest of the row's key.
    fn have_row_key(&self) -> bool {
        self.is_unique && !self.rest.is_empty()
    }

    /// The layout of values; none if they are empty.
    fn layout(&self, columns: &[ColumnDefinition]) -> Option<Layout> {
        let mut stored = Vec::new();
        if self.have_row_key() {
            stored.push(StoredColumn { data_type: DataType::Bytes, is_nullable: false, is_summed: false });
        }
        stored.extend(self.included.iter().map(|&place| StoredColumn {
            data_type: columns[place].declared.data_type,
            // Whatever is declared: that may change, and the entries stay.
            is_nullable: true,
            is_summed: self.sum == Some(place),
        }));
        let is_empty = stored.is_empty() && self.sum.is_none();
        (!is_empty).then(|| Layout::new(0, self.sum.is_some(), &stored))
    }

    /// Where a column of the table stands in an entry.
    fn place_of(&self, place: usize, primary: &Primary, columns: &[ColumnDefinition]) -> ColumnPlace {
        let is_lossy = columns[place].declared.data_type.has_sort_key();
        if let Some(at) = self.included.iter().position(|&included| included == place) {
            return ColumnPlace::Stored(usize::from(self.have_row_key()) + at);
        }
        if let Some(at) = self.expressions.iter().position(|expression| expression.as_column() == Some(place))
            && !is_lossy
        {
            return ColumnPlace::Key(at);
        }
        let in_rest = self.rest.iter().position(|&element| primary.places[element] == place);
        match in_rest {
            Some(at) if self.is_unique && !is_lossy => ColumnPlace::RowKey(at),
            Some(at) if !is_lossy => ColumnPlace::Key(self.expressions.len() + at),
            _ => ColumnPlace::Absent,
        }
    }
}

impl IndexDefinition {
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid): what does not go together, and those of `open_tree`.
    pub(crate) fn new(
        declared: &IndexSchema,
        place: IndexTree,
        primary: &Primary,
        columns: &[ColumnDefinition],
        table: &str,
        open_tree: &mut dyn FnMut(u32) -> Result<quipu::Table>,
    ) -> Result<IndexDefinition> {
        let name = &*declared.name;
        check_name("an index", name)?;
        if declared.unique && !declared.deferral.is_never() {
            return Err(wrong(name, "it is unique at each row, or later, and not both"));
        }
        let names: Vec<ColumnName<'_>> = columns.iter().map(ColumnDefinition::as_name).collect();
        let (expressions, mut key) = indexed_columns(declared, columns, &names, table)?;
        let predicate = match &declared.predicate {
            None => None,
            Some(text) => Some(Expression::parse_condition(text, &names).map_err(|what| wrong(name, what))?),
        };
        if expressions.iter().chain(&predicate).any(Expression::is_when_written) {
            return Err(wrong(name, "its expressions depend on more than the row"));
        }
        let (rest, row_key_parts) = row_key_parts(primary, &expressions, &key);
        let rest_columns: Vec<KeyColumn> = rest.iter().map(|&element| primary.key.columns[element]).collect();
        if !declared.unique {
            key.columns.extend(&rest_columns);
            key.names.extend(rest.iter().map(|&element| primary.key.names[element].clone()));
        }
        let included = included_columns(declared, &names)?;
        let sum = declared.sum.as_deref().map(|column| summed(column, columns)).transpose();
        let sum = sum.map_err(|what| wrong(name, what))?;
        let parts =
            Parts { is_unique: declared.unique, expressions: &expressions, rest: &rest, included: &included, sum };
        let shape = RowShape {
            key: key.columns.clone(),
            row_key: if parts.have_row_key() { rest_columns } else { Vec::new() },
            layout: parts.layout(columns),
            places: (0..columns.len()).map(|place| parts.place_of(place, primary, columns)).collect(),
        };
        let mut reads: Vec<usize> = expressions.iter().chain(&predicate).flat_map(Expression::columns).collect();
        reads.extend(&included);
        reads.extend(sum);
        reads.sort_unstable();
        reads.dedup();
        Ok(IndexDefinition {
            declared: declared.clone(),
            number: place.number(),
            tree: open_tree(place.tree)?,
            missed: place.missed.map(open_tree).transpose()?,
            key,
            expressions,
            predicate,
            rest,
            row_key_parts,
            shape,
            included,
            sum,
            reads,
        })
    }

    /// Whether it has all entries, so that it may be read.
    pub(crate) fn is_ready(&self) -> bool {
        self.missed.is_none()
    }

    /// How many columns rows are sorted by.
    pub(crate) fn indexed(&self) -> usize {
        self.expressions.len()
    }

    /// Whether keys or values hold sort keys of texts.
    pub(crate) fn is_collated(&self) -> bool {
        self.key.columns.iter().any(|column| column.data_type.is_collated())
    }

    /// Makes the entry of a row, in the place of what `key` and `value` hold. Returns whether it has one; the key is
    /// that of the row.
    ///
    /// # Errors
    /// Those of evaluating an expression.
    pub(crate) fn entry(
        &self,
        row: &impl Columns,
        row_key: &[u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, Failed> {
        key.clear();
        value.clear();
        if let Some(predicate) = &self.predicate
            && predicate.holds(row)? != Some(true)
        {
            return Ok(false);
        }
        let mut has_null = false;
        for (expression, &column) in self.expressions.iter().zip(&self.key.columns) {
            let found = match expression.as_column() {
                Some(place) => row.column(place)?,
                None => accept(column.data_type, expression.evaluate(row)?)?,
            };
            has_null |= found.is_null();
            column.encode(&found, key);
        }
        if self.declared.unique {
            let mut rest = RowKey::new();
            self.add_rest(row_key, |part| rest.extend_from_slice(part));
            if has_null && !self.declared.nulls_equal {
                key.extend_from_slice(&rest);
            }
            self.encode_value(row, &rest, value)?;
        } else {
            self.add_rest(row_key, |part| key.extend_from_slice(part));
            self.encode_value(row, &[], value)?;
        }
        Ok(true)
    }

    /// Lends the elements of the row's key that are not indexed.
    fn add_rest(&self, row_key: &[u8], mut add: impl FnMut(&[u8])) {
        let mut rest = self.rest.iter().peekable();
        for (element, part) in tuple::parts(row_key).enumerate() {
            if rest.next_if(|&&wanted| wanted == element).is_some() {
                add(part.bytes());
            }
        }
    }

    fn encode_value(&self, row: &impl Columns, rest: &[u8], value: &mut Vec<u8>) -> Result<()> {
        let Some(layout) = &self.shape.layout else { return Ok(()) };
        let mut stored: SmallVec<[Value<'_>; 8]> = SmallVec::new();
        if !self.shape.row_key.is_empty() {
            stored.push(Value::from(rest));
        }
        for &place in &self.included {
            stored.push(row.column(place)?);
        }
        let sum = match self.sum {
            Some(place) => sum_of_value(&row.column(place)?),
            None => 0,
        };
        layout.encode(sum, stored.iter(), value);
        Ok(())
    }

    /// What it is over, each with the value that a row has. What has no value is left out: such a row has no entry.
    pub(crate) fn values(&self, columns: &[ColumnDefinition], row: &impl Columns) -> Vec<(String, Value<'static>)> {
        let name = |place: usize| columns[place].declared.name.clone();
        let text = |expression: &Expression| match expression.is_call() {
            true => expression.text(&name),
            false => format!("({})", expression.text(&name)),
        };
        let value = |expression: &Expression| {
            let value = expression.evaluate(row).ok()?.into_owned();
            Some((expression.as_column().map_or_else(|| text(expression), name), value))
        };
        self.expressions.iter().filter_map(value).collect()
    }

    /// The key of the row that an entry is of.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the bytes are of no entry.
    pub(crate) fn row_key(&self, key: &[u8], value: &[u8]) -> Result<RowKey> {
        let parts: SmallVec<[tuple::Part<'_>; 8]> = tuple::parts(key).collect();
        let in_value: SmallVec<[tuple::Part<'_>; 4]> = match self.declared.unique {
            true => tuple::parts(self.shape.row_key_bytes(value)?).collect(),
            false => SmallVec::new(),
        };
        let mut row_key = RowKey::new();
        for part in &self.row_key_parts {
            let found = match *part {
                RowKeyPart::Indexed { element } => {
                    parts.get(element).map(|part| row_key.extend_from_slice(part.bytes()))
                }
                RowKeyPart::Rest(at) => {
                    let found = if self.declared.unique { in_value.get(at) } else { parts.get(self.indexed() + at) };
                    found.map(|part| row_key.extend_from_slice(part.bytes()))
                }
                RowKeyPart::Turned { element, column } => match parts.get(element) {
                    None => None,
                    Some(part) => {
                        let value = column.decode(*part)?;
                        let turned = KeyColumn { is_descending: !column.is_descending, ..column };
                        let mut bytes = Vec::new();
                        turned.encode(&value, &mut bytes);
                        row_key.extend_from_slice(&bytes);
                        Some(())
                    }
                },
            };
            found.ok_or_else(|| {
                let what = format!("an entry of {} has no key of a row: run `quipu check`", self.key.owner);
                Error::new(ErrorKind::Corrupt, what)
            })?;
        }
        Ok(row_key)
    }
}

/// The value of an expression as its type holds it: integers are of 64 bits.
fn accept(data_type: DataType, value: Value<'_>) -> Result<Value<'_>, Failed> {
    match (data_type, value) {
        (DataType::Decimal { scale, .. }, Value::Decimal(decimal)) => {
            let rescaled = decimal.rescale(scale).ok_or(Failed::NoValue("a decimal has more than 38 digits"))?;
            Ok(Value::Decimal(rescaled))
        }
        (_, value) => data_type.accept(value).map_err(|_| Failed::NoValue("a number is out of the range of its type")),
    }
}

/// The place of a column that is to be added up.
///
/// # Errors
/// Why it cannot be.
pub(crate) fn summed(name: &str, columns: &[ColumnDefinition]) -> Result<usize, String> {
    let place = columns.iter().position(|column| column.declared.name == name);
    let place = place.ok_or_else(|| parse::no_column(name, columns.iter().map(|column| &*column.declared.name)))?;
    let data_type = columns[place].declared.data_type;
    if !data_type.is_summable() {
        return Err(format!(
            "column {name} is of type {data_type}; sums are of integers, or decimals of 18 digits at most"
        ));
    }
    Ok(place)
}

/// Whether an index or a key says of itself that it begins with these columns, in any order.
pub(crate) fn begins_with(expressions: &[Option<usize>], columns: &[usize]) -> bool {
    expressions.len() >= columns.len()
        && columns.iter().all(|column| expressions[..columns.len()].contains(&Some(*column)))
}
