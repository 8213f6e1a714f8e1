//! Texts and numbers that several tables of the catalogue have: names in quotes, definitions of indexes.

use std::sync::Arc;

use crate::bind::Binder;
use crate::catalogue::index_order::Order;
use crate::catalogue::lookup::Lookup;
use crate::catalogue::system::expressions;
use crate::catalogue::system::quotes::join_quoted;
use crate::catalogue::system::source::{Element, Index, Source};
use crate::catalogue::{Table, column_type};
use crate::functions::postgres::known;
use crate::functions::strings::{quote_identifier, quote_literal};
use crate::types::datum::{Array, Datum};
use crate::types::{BaseType, SqlType};

/// The way in which tables lie, as clients of PostgreSQL know it.
pub(super) const HEAP: u32 = 2;
/// The way in which indexes lie.
pub(super) const BTREE: u32 = 403;

/// An array of texts.
pub(super) fn array_of_texts<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Datum {
    Datum::Array(Arc::new(Array::new(BaseType::Text, texts.into_iter().map(Datum::text).collect())))
}

/// The number of the collation of a type: of names that of `C`, of other texts the default one.
pub(super) fn collation_of(sql_type: SqlType) -> u32 {
    match sql_type.base {
        BaseType::Name => 950,
        base if base.is_text() && base != BaseType::SingleChar => 100,
        _ => 0,
    }
}

/// The number of the class of operators by which an index sorts a type.
pub(super) fn operator_class_of(base: BaseType) -> u32 {
    let base = if matches!(base, BaseType::Varchar | BaseType::CaselessText) { BaseType::Text } else { base };
    let number = SqlType::from(base).oid().to_string();
    let class = known().classes.iter().find(|fields| fields[3] == number && fields[4] == "t");
    class.and_then(|fields| fields[0].parse().ok()).unwrap_or(0)
}

/// The number of a class of operators of this name.
pub(super) fn operator_class_named(name: &str) -> Option<u32> {
    known().classes.iter().find(|fields| fields[1] == name)?[0].parse().ok()
}

/// A default as PostgreSQL shows it: a text has its type.
pub(super) fn default_text(source: &Source<'_>, default: &str, sql_type: SqlType) -> String {
    let inner = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match inner {
        Some(inner) if !inner.replace("''", "").contains('\'') => {
            format!("{default}::{}", source.type_text(sql_type.bare()))
        }
        _ if default.eq_ignore_ascii_case("current_timestamp") => "CURRENT_TIMESTAMP".to_owned(),
        _ => expressions::written(source, default, false),
    }
}

/// The default of a column as PostgreSQL shows it; none of an identity column.
pub(super) fn default_of(source: &Source<'_>, table: &Table, place: usize) -> Option<String> {
    if table.columns.get(place)?.generates.is_some() {
        return None;
    }
    if let Some((schema, name)) = source.sequence_of_default(table, place) {
        let is_found = source.is_found_bare(&schema, &name);
        let (schema, name) = (quote_identifier(&schema), quote_identifier(&name));
        let name = if is_found { name } else { format!("{schema}.{name}") };
        return Some(format!("nextval('{}'::regclass)", name.replace('\'', "''")));
    }
    let (column, sql_type) = (table.declared.columns.get(place)?, table.columns[place].sql_type);
    if let Some(generated) = &column.generated {
        return Some(expressions::written(source, generated, false));
    }
    column_type::default_of(column, sql_type).map(|default| default_text(source, &default, sql_type))
}

/// The name that an expression has as the column of an index: that of its function.
pub(super) fn name_of_expression(text: &str) -> String {
    match text.trim_start_matches('(').split_once('(') {
        Some((name, _)) if name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') => name.to_owned(),
        _ => "expr".to_owned(),
    }
}

/// An expression as the element of an index: in parentheses, unless it is the call of a function.
fn in_parentheses(text: &str) -> String {
    let is_call = text.ends_with(')') && name_of_expression(text) != "expr" && !text.starts_with('(');
    if is_call || (text.starts_with('(') && text.ends_with(')')) { text.to_owned() } else { format!("({text})") }
}

/// The element of an index at a place, from 0 on.
pub(super) fn element_text(source: &Source<'_>, index: &Index<'_>, at: usize) -> Option<String> {
    if let Some(element) = index.elements.get(at) {
        return Some(match element.place {
            Some(_) => quote_identifier(&element.text),
            None => in_parentheses(&expressions::written(source, &element.text, true)),
        });
    }
    let place = *index.includes.get(at - index.elements.len())?;
    index.table.declared.columns.get(place).map(|column| quote_identifier(&column.name))
}

/// What follows an element of an index: its collation, its class of operators, and its direction.
fn order_text(element: &Element) -> String {
    let Order { collation, class, nulls_first } = &element.order;
    let mut text = String::new();
    if let Some(collation) = collation {
        text.push_str(&format!(" COLLATE \"{collation}\""));
    }
    if let Some(class) = class {
        text.push_str(&format!(" {class}"));
    }
    text.push_str(if element.is_descending { " DESC" } else { "" });
    match nulls_first {
        Some(true) => text.push_str(" NULLS FIRST"),
        Some(false) => text.push_str(" NULLS LAST"),
        None => {}
    }
    text
}

/// The number of a collation of this name.
pub(super) fn collation_named(name: &str) -> u32 {
    match name {
        "C" => 950,
        "POSIX" => 951,
        _ => 100,
    }
}

/// The statement that makes an index: `pg_get_indexdef`.
pub(super) fn index_definition(source: &Source<'_>, index: &Index<'_>, is_pretty: bool) -> String {
    let elements: Vec<String> = (0..index.elements.len())
        .filter_map(|at| Some(format!("{}{}", element_text(source, index, at)?, order_text(&index.elements[at]))))
        .collect();
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let (name, schema, table) =
        (quote_identifier(&index.name), quote_identifier(&index.table.schema), quote_identifier(&index.table.name));
    // Pretty, a table that is found without its schema is named so.
    let schema = if is_pretty && schema == "public" { String::new() } else { format!("{schema}.") };
    let mut text = format!("CREATE {unique}INDEX {name} ON {schema}{table} USING btree ({})", elements.join(", "));
    if !index.includes.is_empty() {
        let columns = index.includes.iter().filter_map(|&place| index.table.declared.columns.get(place));
        text.push_str(&format!(" INCLUDE ({})", join_quoted(columns.map(|column| &*column.name))));
    }
    if index.nulls_equal {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if let Some(sum) = index.sum {
        let is_plain = quote_identifier(sum) == sum;
        text.push_str(&format!(" WITH (sum={})", if is_plain { sum.to_owned() } else { quote_literal(sum) }));
    }
    if let Some(predicate) = &index.predicate {
        text.push_str(&format!(" WHERE {}", expressions::written(source, predicate, is_pretty)));
    }
    text
}

impl Source<'_> {
    /// The type of an expression over the columns of a table; text if it cannot be bound.
    pub fn type_of_expression(&self, table: &Table, text: &str) -> SqlType {
        let lookup =
            Lookup::new(self.view, Arc::clone(&self.catalogue), &self.shared.shapes, vec![table.schema.clone()]);
        let mut binder = Binder::new(&lookup, self.environment, text, &[]);
        for (column, declared) in table.columns.iter().zip(&table.declared.columns) {
            binder.add_column(&table.name, &declared.name, column.sql_type);
        }
        let written = crate::statement::parse_expression(text).ok();
        written.and_then(|written| binder.type_of(&written).ok()).unwrap_or(SqlType::TEXT)
    }
}
