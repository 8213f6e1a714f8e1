//! The declarations of the model as schemas of rows, and those of a database in the same form.

use crate::{IndexSchema, TableSchema};

use super::draw;
use super::model::{Check, Column, ForeignKey, Index, Model, Sorted, Table, Which};

pub fn declared(column: &Column) -> crate::Column {
    let mut declared = crate::Column::new(&column.name, column.data_type);
    declared.not_null = column.not_null;
    declared.default = (!column.default.is_null()).then(|| draw::literal(&column.default));
    declared
}

pub fn check_text(table: &Table, check: &Check) -> String {
    format!("{} >= {}", table.column(check.column).name, check.bound)
}

pub fn index_schema(table: &Table, index: &Index) -> IndexSchema {
    let name = |id: u32| &table.column(id).name;
    let columns = index.sorted.iter().map(|(sorted, is_descending)| {
        let text = match sorted {
            Sorted::Column(id) => name(*id).clone(),
            Sorted::Lower(id) => format!("lower({})", name(*id)),
            Sorted::Rest(id) => format!("{} % 3", name(*id)),
        };
        if *is_descending { format!("{text} desc") } else { text }
    });
    let mut schema = IndexSchema::new(&index.name, columns).include(index.include.iter().map(|id| name(*id).clone()));
    schema.unique = index.unique;
    schema.predicate = index.which.map(|which| match which {
        Which::NotNull(id) => format!("{} IS NOT NULL", name(id)),
        Which::Greater(id, bound) => format!("{} > {bound}", name(id)),
    });
    schema.sum = index.sum.map(|id| name(id).clone());
    schema
}

pub fn schema_of(table: &Table, model: &Model) -> TableSchema {
    let mut schema = TableSchema::new(&table.name);
    for column in &table.columns {
        schema = schema.column(declared(column));
    }
    let key = table.key.iter().map(|(id, is_descending)| {
        let name = &table.column(*id).name;
        if *is_descending { format!("{name} desc") } else { name.clone() }
    });
    schema = schema.key(key);
    schema.sum = table.sum.map(|id| table.column(id).name.clone());
    for index in &table.indexes {
        schema = schema.index(index_schema(table, index));
    }
    for check in &table.checks {
        schema = schema.check(&check.name, check_text(table, check));
    }
    for foreign_key in &table.foreign_keys {
        let parent = &model.tables[&foreign_key.parent];
        let own = foreign_key.columns.iter().map(|id| table.column(*id).name.clone());
        let declared = crate::ForeignKey::new(&foreign_key.name, own, &parent.name)
            .references(foreign_key.references.iter().map(|id| parent.column(*id).name.clone()))
            .on_delete(foreign_key.on_delete)
            .on_update(foreign_key.on_update);
        schema = schema.foreign_key(declared);
    }
    schema
}

/// The index that a foreign key gets if there is none.
pub fn add_foreign_index(table: &mut Table, foreign_key: &ForeignKey) {
    let column = foreign_key.columns[0];
    let begins = |sorted: &[(Sorted, bool)]| sorted[0].0 == Sorted::Column(column);
    let has_index =
        table.key[0].0 == column || table.indexes.iter().any(|index| index.which.is_none() && begins(&index.sorted));
    if !has_index {
        table.indexes.push(Index {
            name: format!("{}_index", foreign_key.name),
            sorted: vec![(Sorted::Column(column), false)],
            unique: false,
            include: Vec::new(),
            which: None,
            sum: None,
        });
    }
}

pub fn without_foreign_index(mut schema: TableSchema) -> TableSchema {
    schema.indexes.retain(|index| !index.name.ends_with("_index"));
    schema
}

/// What a schema declares, a line for each part. Texts of expressions are left out: their form may change.
pub fn shape(schema: &TableSchema) -> Vec<String> {
    let mut shape = vec![format!("table {}, key {:?}, sum {:?}", schema.table, schema.key, schema.sum)];
    for column in &schema.columns {
        let (name, data_type, not_null) = (&column.name, column.data_type, column.not_null);
        shape.push(format!("column {name} {data_type}, NOT NULL {not_null}, default {}", column.default.is_some()));
    }
    for index in &schema.indexes {
        let (name, columns, unique, include) = (&index.name, index.columns.len(), index.unique, &index.include);
        let (is_partial, sum) = (index.predicate.is_some(), &index.sum);
        shape.push(format!("index {name} of {columns}, {unique}, {include:?}, {is_partial}, {sum:?}"));
    }
    shape.extend(schema.checks.iter().map(|check| format!("check {}", check.name)));
    for key in &schema.foreign_keys {
        let (name, columns, table, references) = (&key.name, &key.columns, &key.table, &key.references);
        let (on_delete, on_update) = (key.on_delete, key.on_update);
        shape.push(format!("{name}: {columns:?} to {table} {references:?}, {on_delete:?}, {on_update:?}"));
    }
    shape
}
