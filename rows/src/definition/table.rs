//! Parsed definitions of tables.

use std::sync::Arc;

use quipu::{Error, ErrorKind, Measures, Result, SumField, TableOptions};

use crate::definition::document::{ColumnNumber, Document, FORMAT, TableNumber, Unvalidated};
use crate::definition::foreign::ForeignKeyDefinition;
use crate::definition::generated::GeneratedColumn;
use crate::definition::index::{IndexDefinition, summed};
use crate::definition::shape::{ColumnPlace, RowShape};
use crate::encoding::key::KeyColumn;
use crate::encoding::key_shape::KeyShape;
use crate::encoding::layout::{LAYOUTS_MAX, Layout, SUM_AT, StoredColumn};
use crate::expression::{ColumnName, Expression, parse};
use crate::schema::column::Column;
use crate::schema::constraint::Check;
use crate::schema::table::{TableSchema, is_descending, key_name};
use crate::schema::{check_name, invalid};
use crate::value::Value;
use crate::value::collation;

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_000;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    pub(crate) number: ColumnNumber,
    pub(crate) declared: Column,
    /// Whether there may be rows that have NULL in it.
    pub(crate) is_nullable: bool,
    /// The value of its default; NULL if there is none.
    pub(crate) default: Value<'static>,
}

impl ColumnDefinition {
    pub(crate) fn as_name(&self) -> ColumnName<'_> {
        ColumnName { name: &self.declared.name, data_type: self.declared.data_type }
    }
}

/// The primary key of a table.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    pub(crate) key: KeyShape,
    /// The places of its columns.
    pub(crate) places: Vec<usize>,
}

/// A check of a table.
#[derive(Clone, Debug)]
pub(crate) struct CheckDefinition {
    pub(crate) declared: Check,
    pub(crate) condition: Expression,
    /// The places of the columns that it reads.
    pub(crate) reads: Vec<usize>,
}

/// A table, ready for rows.
#[derive(Debug)]
pub(crate) struct TableDefinition {
    pub(crate) number: TableNumber,
    /// Grows with each change of the definition.
    pub(crate) version: u64,
    pub(crate) document: Document,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) primary: Primary,
    /// The tree of the rows.
    pub(crate) rows: quipu::Table,
    /// How rows stand in their bytes, by the number of their layout.
    pub(crate) shapes: Vec<RowShape>,
    /// The places of the columns of new rows' values.
    pub(crate) stored: Vec<usize>,
    pub(crate) sum: Option<usize>,
    /// The places of the identity columns.
    pub(crate) numbered: Vec<usize>,
    /// The columns that are computed from others.
    pub(crate) generated: Vec<GeneratedColumn>,
    pub(crate) indexes: Vec<Arc<IndexDefinition>>,
    pub(crate) checks: Vec<CheckDefinition>,
    pub(crate) foreign_keys: Vec<ForeignKeyDefinition>,
}

impl TableDefinition {
    /// Makes a document ready, and checks it.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid): what does not go together; [`Version`](ErrorKind::Version) if the document, or
    /// the collation of its keys, is that of another version; those of `open_tree`.
    pub(crate) fn new(
        number: TableNumber,
        version: u64,
        document: Document,
        open_tree: &mut dyn FnMut(u32) -> Result<quipu::Table>,
    ) -> Result<TableDefinition> {
        let name = document.schema.table.clone();
        let context = |error: Error| error.context(format_args!("table {name}"));
        TableDefinition::ready(number, version, document, open_tree).map_err(context)
    }

    fn ready(
        number: TableNumber,
        version: u64,
        document: Document,
        open_tree: &mut dyn FnMut(u32) -> Result<quipu::Table>,
    ) -> Result<TableDefinition> {
        check_whole(&document)?;
        let schema = &document.schema;
        check_name("a table", &schema.table)?;
        let columns = columns(&document)?;
        let primary = primary(schema, &columns)?;
        let sum = schema.sum.as_deref().map(|column| summed(column, &columns)).transpose();
        let sum = sum.map_err(|what| invalid(format!("sum: {what}")))?;
        let shapes = shapes(&document, &columns, &primary, sum)?;
        let stored: Vec<usize> = document
            .layouts
            .last()
            .into_iter()
            .flatten()
            .filter_map(|stored| columns.iter().position(|column| column.number == stored.column))
            .collect();
        refuse_same_names(schema)?;
        let mut indexes = Vec::new();
        for (index, &place) in schema.indexes.iter().zip(&document.indexes) {
            let index = IndexDefinition::new(index, place, &primary, &columns, &schema.table, open_tree)?;
            indexes.push(Arc::new(index));
        }
        let checks = schema.checks.iter().map(|check| CheckDefinition::new(check, &columns)).collect::<Result<_>>()?;
        let mut foreign_keys = Vec::new();
        for (foreign_key, &table) in schema.foreign_keys.iter().zip(&document.foreign_tables) {
            let ready = ForeignKeyDefinition::new(foreign_key, table, &columns);
            foreign_keys.push(ready.map_err(|error| error.context(format_args!("foreign key {}", foreign_key.name)))?);
        }
        let is_collated = primary.key.columns.iter().any(|column| column.data_type.is_collated())
            || indexes.iter().any(|index| index.is_collated());
        if is_collated {
            check_collation(document.collation.as_deref())?;
        }
        let rows = open_tree(document.tree)?;
        let numbered = (0..columns.len()).filter(|&place| columns[place].declared.identity.is_some()).collect();
        Ok(TableDefinition {
            number,
            version,
            columns,
            primary,
            rows,
            shapes,
            stored,
            sum,
            numbered,
            generated: GeneratedColumn::all(&document.schema),
            indexes,
            checks,
            foreign_keys,
            document,
        })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.document.schema.table
    }

    /// The place of the column of that name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid), with the names that there are.
    pub(crate) fn place(&self, name: &str) -> Result<usize> {
        let place = self.columns.iter().position(|column| column.declared.name == name);
        place.ok_or_else(|| {
            let names = self.columns.iter().map(|column| &*column.declared.name);
            invalid(format!("table {}: {}", self.name(), parse::no_column(name, names)))
        })
    }

    /// The places of the columns of these names.
    ///
    /// # Errors
    /// Those of [`TableDefinition::place`].
    pub(crate) fn places(&self, names: &[&str]) -> Result<Vec<usize>> {
        names.iter().map(|name| self.place(name)).collect()
    }

    /// The index of that name, ready to be read.
    ///
    /// # Errors
    /// [`Missing`](ErrorKind::Missing) if there is none, or it is still being built.
    pub(crate) fn index(&self, name: &str) -> Result<&Arc<IndexDefinition>> {
        let index = self.indexes.iter().find(|index| index.declared.name == name);
        match index {
            Some(index) if index.is_ready() => Ok(index),
            Some(_) => {
                Err(Error::new(ErrorKind::Missing, format!("index {}.{name} is still being built", self.name())))
            }
            None => {
                let names: Vec<&str> = self.indexes.iter().map(|index| &*index.declared.name).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let what = format!("table {} has no index {name:?}; there are {names}", self.name());
                Err(Error::new(ErrorKind::Missing, what))
            }
        }
    }

    /// How rows of new layout stand in their bytes.
    pub(crate) fn current_shape(&self) -> &RowShape {
        &self.shapes[self.shapes.len() - 1]
    }

    /// How a row stands in its bytes; none if its layout is younger than this definition.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if the value has no layout.
    #[inline]
    pub(crate) fn shape_of(&self, value: &[u8]) -> Result<Option<&RowShape>> {
        Ok(self.shapes.get(usize::from(Layout::number_of(value)?)))
    }
}

/// Fails if a document is of another format, or lacks a part.
fn check_whole(document: &Document) -> Result<()> {
    if document.format != FORMAT {
        let what = format!("its definition is of format {}, this program knows {FORMAT}", document.format);
        return Err(Error::new(ErrorKind::Version, what));
    }
    let schema = &document.schema;
    if schema.columns.len() != document.columns.len()
        || schema.indexes.len() != document.indexes.len()
        || schema.foreign_keys.len() != document.foreign_tables.len()
        || document.layouts.is_empty()
    {
        return Err(invalid("parts of its definition are missing".to_owned()));
    }
    Ok(())
}

/// Fails if two indexes or constraints have one name.
fn refuse_same_names(schema: &TableSchema) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    let declared = schema.indexes.iter().map(|index| &*index.name);
    let declared = declared.chain(schema.checks.iter().map(|check| &*check.name));
    for name in declared.chain(schema.foreign_keys.iter().map(|foreign_key| &*foreign_key.name)) {
        if names.contains(&name) {
            return Err(invalid(format!("two indexes or constraints have the name {name}")));
        }
        names.push(name);
    }
    Ok(())
}

/// Fails if keys were made with another collation than that of this program.
fn check_collation(found: Option<&str>) -> Result<()> {
    if found == Some(collation::VERSION) {
        return Ok(());
    }
    let what = format!(
        "its keys are sorted by the collation {}, this program has {}: export it with the program that wrote it",
        found.unwrap_or("of no version"),
        collation::VERSION
    );
    Err(Error::new(ErrorKind::Version, what))
}

/// The declared columns, each with its default.
fn columns(document: &Document) -> Result<Vec<ColumnDefinition>> {
    let declared = &document.schema.columns;
    if declared.is_empty() || declared.len() > COLUMNS_MAX {
        return Err(invalid(format!("a table has 1 to {COLUMNS_MAX} columns, not {}", declared.len())));
    }
    let mut columns: Vec<ColumnDefinition> = Vec::new();
    for (column, &number) in declared.iter().zip(&document.columns) {
        let name = &column.name;
        check_name("a column", name)?;
        if columns.iter().any(|other| other.declared.name == *name || other.number == number) {
            return Err(invalid(format!("two columns have the name {name}")));
        }
        let wrong = |what: String| invalid(format!("column {name}: {what}"));
        column.data_type.check().map_err(wrong)?;
        if column.identity.is_some() {
            if column.data_type.int_range().is_none() {
                return Err(wrong(format!("numbers of a table are integers, not {}", column.data_type)));
            }
            if column.default.is_some() {
                return Err(wrong("a column whose numbers the table gives out has no default".to_owned()));
            }
        }
        let has_other = column.identity.is_some() || column.default.is_some() || column.sql_default.is_some();
        if column.generated.is_some() && has_other {
            return Err(wrong("a generated column has no default and no numbers of the table".to_owned()));
        }
        let default = match &column.default {
            None => Value::Null,
            Some(text) => default_value(column, text).map_err(wrong)?,
        };
        let is_nullable = !column.not_null || document.unvalidated.contains(&Unvalidated::NotNull(name.clone()));
        columns.push(ColumnDefinition { number, declared: column.clone(), is_nullable, default });
    }
    Ok(columns)
}

/// The value of a column's default.
///
/// # Errors
/// What is wrong with it.
fn default_value(column: &Column, text: &str) -> Result<Value<'static>, String> {
    use crate::expression::evaluate::Failed;
    let expression = Expression::parse(text, &[])?;
    let no_row: Vec<Value<'_>> = Vec::new();
    let value = expression.evaluate(&no_row).map_err(|failed| match failed {
        Failed::NoValue(what) => format!("default {text}: {what}"),
        Failed::Read(error) => error.to_string(),
    })?;
    // A literal of a type without one of its own.
    let value = match (&value, column.data_type) {
        (Value::Text(text), data_type) if !matches!(data_type, crate::DataType::Text(_)) => {
            data_type.parse_text(text).map(Value::into_owned)
        }
        (Value::Decimal(decimal), crate::DataType::F32 | crate::DataType::F64) => {
            column.data_type.accept(Value::Float(decimal.to_f64()))
        }
        (Value::Numeric(number), crate::DataType::F32 | crate::DataType::F64) => {
            column.data_type.parse_text(number).map(Value::into_owned)
        }
        _ => column.data_type.accept(value.into_owned()),
    };
    match value {
        Ok(Value::Null) if column.not_null => Err("its default is NULL, and it is NOT NULL".to_owned()),
        other => other,
    }
}

fn primary(schema: &TableSchema, columns: &[ColumnDefinition]) -> Result<Primary> {
    let owner = format!("table {}", schema.table);
    let mut primary = Primary { key: KeyShape::of(owner), places: Vec::new() };
    for text in &schema.key {
        let name = key_name(text);
        let place = columns.iter().position(|column| column.declared.name == name);
        let names = || columns.iter().map(|column| &*column.declared.name);
        let place = place.ok_or_else(|| invalid(format!("key: {}", parse::no_column(name, names()))))?;
        if primary.places.contains(&place) {
            return Err(invalid(format!("key: column {name} is named twice")));
        }
        if !columns[place].declared.not_null {
            return Err(invalid(format!("key: column {name} may be NULL")));
        }
        let data_type = columns[place].declared.data_type;
        primary.places.push(place);
        primary.key.columns.push(KeyColumn { data_type, is_descending: is_descending(text) });
        primary.key.names.push(name.to_owned());
    }
    if primary.places.is_empty() {
        return Err(invalid("it has no key".to_owned()));
    }
    Ok(primary)
}

/// How rows stand in their bytes, for each layout.
fn shapes(
    document: &Document,
    columns: &[ColumnDefinition],
    primary: &Primary,
    sum: Option<usize>,
) -> Result<Vec<RowShape>> {
    if document.layouts.len() >= usize::from(LAYOUTS_MAX) {
        return Err(invalid(format!("its columns have changed {LAYOUTS_MAX} times, which is as often as they can")));
    }
    let summed = sum.map(|place| columns[place].number);
    let mut shapes = Vec::with_capacity(document.layouts.len());
    for (number, stored) in document.layouts.iter().enumerate() {
        let layout: Vec<StoredColumn> = stored
            .iter()
            .map(|stored| StoredColumn {
                data_type: stored.data_type,
                is_nullable: stored.nullable,
                is_summed: summed == Some(stored.column),
            })
            .collect();
        let mut places = Vec::with_capacity(columns.len());
        for (place, column) in columns.iter().enumerate() {
            let stored = stored.iter().position(|stored| stored.column == column.number);
            let element = primary.places.iter().position(|&key| key == place);
            places.push(match (stored, element) {
                (Some(slot), _) => ColumnPlace::Stored(slot),
                (None, Some(element)) => ColumnPlace::Key(element),
                (None, None) => ColumnPlace::Missing(missing(document, column)?),
            });
        }
        let layout = Some(Layout::new(number as u16, sum.is_some(), &layout));
        shapes.push(RowShape { key: primary.key.columns.clone(), row_key: Vec::new(), layout, places });
    }
    Ok(shapes)
}

/// What rows have in a column that is younger than they are.
fn missing(document: &Document, column: &ColumnDefinition) -> Result<Value<'static>> {
    let Some(text) = document.missing.get(&column.number) else { return Ok(Value::Null) };
    let value = column.declared.data_type.parse_text(text);
    let value = value.map_err(|what| invalid(format!("column {}, older rows: {what}", column.declared.name)))?;
    Ok(value.into_owned())
}

impl CheckDefinition {
    fn new(declared: &Check, columns: &[ColumnDefinition]) -> Result<CheckDefinition> {
        check_name("a check", &declared.name)?;
        let names: Vec<ColumnName<'_>> = columns.iter().map(ColumnDefinition::as_name).collect();
        let condition = Expression::parse_condition(&declared.condition, &names);
        let condition = condition.map_err(|what| invalid(format!("check {}: {what}", declared.name)))?;
        let reads = condition.columns();
        Ok(CheckDefinition { declared: declared.clone(), condition, reads })
    }
}

/// What is declared of the tree of a table's rows, or of an index.
pub(crate) fn tree_options(schema: &TableSchema, has_sum: bool, comment: String) -> TableOptions {
    let sum = has_sum.then_some(SumField::LittleEndian { at: SUM_AT as u32 });
    TableOptions {
        measures: Measures { sum, ..Measures::ROWS },
        in_memory: schema.in_memory,
        compression: schema.compression(),
        comment,
        ..TableOptions::default()
    }
}
