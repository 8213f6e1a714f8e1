//! CREATE INDEX, ALTER INDEX.

use quipu_rows::IndexSchema;
use sqlparser::ast::{AlterIndexOperation, CreateIndex, Expr, IndexColumn, IndexType, ObjectName};

use crate::catalogue::computed::INDEX_EXPRESSION;
use crate::catalogue::index_order::Order;
use crate::catalogue::{Relation, Table};
use crate::ddl::expression::Known;
use crate::ddl::options::{Options, check_sum};
use crate::ddl::{Ddl, Tag, column_types, expression, names, relation_exists};
use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::postgres::known;
use crate::locks::mode::LockMode;
use crate::types::user::NoTypes;
use crate::types::{BaseType, SqlType};

pub(super) fn create(ddl: &Ddl<'_>, create: &CreateIndex) -> Result<Tag> {
    if let Some((table, index)) = read(ddl, create)? {
        let name = index.name.clone();
        ddl.definitions().create_index(&table, index).map_err(|error| SqlError::of_build(error, &name))?;
    }
    Ok("CREATE INDEX")
}

/// The name in rows of the table of a new index, and its definition. None if it is there and need not be made.
pub(super) fn read(ddl: &Ddl<'_>, create: &CreateIndex) -> Result<Option<(String, IndexSchema)>> {
    let table = ddl.table_or_materialized(&names::qualified(&create.table_name)?)?;
    ddl.lock(&table, LockMode::ShareRowExclusive)?;
    check_method(ddl, create)?;
    let declared = &table.declared;
    let type_of = |name: &str| declared.place(name).map(|place| table.columns[place].sql_type.without_domain());
    let known = Known { columns: &type_of, types: ddl };
    let (mut columns, mut words, mut orders) = (Vec::new(), Vec::new(), Vec::new());
    for column in &create.columns {
        let is_descending = column.column.options.asc == Some(false);
        let (written, collation) = without_collation(&column.column.expr);
        // NULLs stand first in ascending order here: that is told apart where rows are read, not where they lie.
        let text = expression::text_or_words(written, known, INDEX_EXPRESSION)?;
        columns.push(if is_descending { format!("{text} desc") } else { text });
        words.push(word_of(written));
        orders.push(order_of(&table, column, written, collation)?.to_string());
    }
    if orders.iter().all(String::is_empty) {
        orders.clear();
    }
    let catalogue = ddl.catalogue()?;
    let is_taken = |name: &str| catalogue.relation(Some(&table.schema), name, &[]).is_some();
    let name = match &create.name {
        Some(name) => names::qualified(name)?.name,
        None => names::choose(&table.name, &words.join("_"), "idx", is_taken),
    };
    ddl.take_name(&table.schema, &name)?;
    if is_taken(&name) {
        if create.if_not_exists {
            ddl.notice(format!("relation \"{name}\" already exists, skipping"));
            return Ok(None);
        }
        return Err(relation_exists(&name));
    }
    let mut index = IndexSchema::new(name, columns).include(create.include.iter().map(folded));
    index.unique = create.unique;
    index.nulls_equal = create.nulls_distinct == Some(false);
    index.sql_order = orders;
    index.sum = Options::of_index(&create.with)?.sum;
    check_sum(declared, &table.name, index.sum.as_deref())?;
    let condition = |part: &Expr| expression::text_or_words(part, known, "index predicate");
    index.predicate = create.predicate.as_ref().map(condition).transpose()?;
    Ok(Some((table.rows_name.to_string(), index)))
}

/// Refuses ways of indexing that are not there. A hash, which finds equal values alone, becomes a tree.
fn check_method(ddl: &Ddl<'_>, create: &CreateIndex) -> Result<()> {
    let refused = |what: &str| Err(SqlError::unsupported(what, "Use the method btree, which all indexes have here."));
    match &create.using {
        None | Some(IndexType::BTree) => Ok(()),
        Some(IndexType::Hash) if create.unique => refused("access method \"hash\" does not support unique indexes"),
        Some(IndexType::Hash) if create.columns.len() > 1 => {
            refused("access method \"hash\" does not support multicolumn indexes")
        }
        Some(IndexType::Hash) => {
            ddl.notice("substituting access method \"btree\" for \"hash\"".to_owned());
            Ok(())
        }
        Some(IndexType::GIN | IndexType::GiST | IndexType::SPGiST | IndexType::BRIN) => {
            refused("only indexes of the method btree are supported")
        }
        Some(other) => {
            let what = format!("access method \"{}\" does not exist", other.to_string().to_lowercase());
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what))
        }
    }
}

/// An element of an index without COLLATE, and the collation. A column in parentheses is the column.
fn without_collation(written: &Expr) -> (&Expr, Option<&ObjectName>) {
    match written {
        Expr::Nested(inner) => match without_collation(inner) {
            (column @ Expr::Identifier(_), None) => (column, None),
            (_, None) => (written, None),
            collated => collated,
        },
        Expr::Collate { expr, collation } => (expr, Some(collation)),
        _ => (written, None),
    }
}

/// What an element of an index is called in the name that is made for the index.
fn word_of(written: &Expr) -> String {
    match written {
        Expr::Identifier(ident) => folded(ident),
        Expr::Nested(inner) => word_of(inner),
        Expr::Cast { expr, data_type, .. } => match &**expr {
            Expr::Identifier(ident) => folded(ident),
            _ => column_types::of(data_type, &NoTypes).map_or("expr", |of| of.base.catalogue_name()).to_owned(),
        },
        Expr::Function(call) => names::qualified(&call.name).map_or_else(|_| "expr".to_owned(), |name| name.name),
        Expr::Substring { shorthand, .. } => if *shorthand { "substr" } else { "substring" }.to_owned(),
        Expr::Trim { .. } => "btrim".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        _ => "expr".to_owned(),
    }
}

/// What is declared of the order of an element, where it is not what its type, its column or its direction say.
fn order_of(table: &Table, column: &IndexColumn, written: &Expr, collation: Option<&ObjectName>) -> Result<Order> {
    let place = match written {
        Expr::Identifier(ident) => table.place(&folded(ident)),
        _ => None,
    };
    let type_of = |name: &str| table.place(name).map(|place| table.columns[place].sql_type.without_domain());
    let sql_type = match place {
        Some(place) => table.columns[place].sql_type.without_domain(),
        None => expression::type_in_words(written, &type_of)?,
    };
    let own = place.and_then(|place| table.declared.columns[place].sql_collation.clone());
    let collation = collation.map(|name| names::collation(name, sql_type)).transpose()?;
    let class = column.operator_class.as_ref().map(|name| class_of(name, sql_type)).transpose()?;
    let is_descending = column.column.options.asc == Some(false);
    Ok(Order {
        collation: collation.filter(|name| *name != own).map(|name| name.unwrap_or_else(|| "default".to_owned())),
        class: class.flatten(),
        nulls_first: column.column.options.nulls_first.filter(|first| *first != is_descending),
    })
}

/// The name of a class of operators for values of a type; none if it is the one that they have anyway.
fn class_of(name: &ObjectName, sql_type: SqlType) -> Result<Option<String>> {
    let name = names::qualified(name)?.name;
    let Some(fields) = known().classes.iter().find(|fields| fields[1] == name) else {
        let what = format!("operator class \"{name}\" does not exist for access method \"btree\"");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, what));
    };
    let is_text = |sql_type: SqlType| sql_type.base.is_text() && sql_type.base != BaseType::SingleChar;
    let own: Option<u32> = fields[3].parse().ok();
    let of_class = own.and_then(SqlType::of_oid);
    let is_same = own == Some(sql_type.oid())
        || of_class.is_some_and(|of| is_text(of) && is_text(sql_type) && sql_type.base != BaseType::CaselessText)
        || matches!(sql_type.base, BaseType::Enum(_)) && name == "enum_ops"
        || sql_type.is_array && name == "array_ops"
        || sql_type.base == BaseType::Cidr && name == "inet_ops";
    if !is_same {
        let what = format!("operator class \"{name}\" does not accept data type {}", sql_type.bare());
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what));
    }
    Ok((fields[4] != "t").then_some(name))
}

pub(super) fn alter(ddl: &Ddl<'_>, name: &ObjectName, operation: &AlterIndexOperation) -> Result<Tag> {
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let (name, new_name) = (names::qualified(name)?, names::qualified(index_name)?.name);
    let (table, old) = match ddl.relation(&name)? {
        Some(Relation::Index(table, place)) => {
            let old = table.declared.indexes[place].name.clone();
            (table, old)
        }
        Some(Relation::PrimaryKey(table)) => (table, name.name.clone()),
        _ => {
            let what = format!("relation \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, what));
        }
    };
    ddl.take_name(&table.schema, &new_name)?;
    if ddl.catalogue()?.relation(Some(&table.schema), &new_name, &[]).is_some() {
        return Err(relation_exists(&new_name));
    }
    ddl.lock(&table, LockMode::AccessExclusive)?;
    ddl.definitions().rename_constraint(&table.rows_name, &old, &new_name)?;
    Ok("ALTER INDEX")
}
