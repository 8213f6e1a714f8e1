//! A struct and its attributes made into the model. All that is wrong is told together, each where it stands.

use std::collections::HashMap;

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type};

use crate::attributes::{ColumnAttributes, IndexName, Sorted, TableAttributes};
use crate::model::{Column, Field, ForeignKey, Identity, Index, IndexColumn, KeyField, Record};

/// The fields of the longest primary key: as many as a tuple of values may have.
const KEY_FIELDS_MAX: usize = 8;

/// The struct, as the macro understands it.
pub(crate) fn record(input: &DeriveInput) -> Result<Record> {
    let fields = named_fields(input)?;
    let mut wrong = Wrong(None);
    let table = wrong.take(TableAttributes::read(&input.attrs)).unwrap_or_default();
    let mut record = Record {
        ident: input.ident.clone(),
        table: table.name.as_ref().map_or_else(|| snake_case(&input.ident), |name| name.value()),
        fields: Vec::new(),
        key: Vec::new(),
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        sum: None,
        comment: table.comment.clone(),
        is_in_memory: table.in_memory.is_some(),
        is_compressed: table.compressed.is_some(),
    };
    let mut attributes = Vec::new();
    for field in fields {
        let own = wrong.take(ColumnAttributes::read(&field.attrs)).unwrap_or_default();
        let ident = field.ident.clone().unwrap_or_else(|| Ident::new("_", field.span()));
        let column = column(&ident, &own, &mut wrong);
        record.fields.push(Field { ident, rust_type: field.ty.clone(), column });
        attributes.push(own);
    }
    let mut names = Names { of_columns: HashMap::new(), of_constraints: HashMap::new() };
    for (field, own) in record.fields.iter().zip(&attributes) {
        if let Some(column) = &field.column {
            let span = own.rename.as_ref().map_or_else(|| field.ident.span(), Spanned::span);
            names.add_column(&column.name, span, &mut wrong);
        }
    }
    if names.of_columns.is_empty() && wrong.0.is_none() {
        wrong.add(input.ident.span(), "the struct has no field that is a column");
    }
    for (place, own) in attributes.iter().enumerate() {
        add_constraints_of(&mut record, place, own, &mut names, &mut wrong);
    }
    add_table(&mut record, &table, &mut names, &mut wrong);
    add_key(&mut record, &table, &attributes, &mut wrong);
    for (place, own) in attributes.iter().enumerate() {
        check_identity(&record, place, own, &mut wrong);
    }
    match wrong.0 {
        None => Ok(record),
        Some(error) => Err(error),
    }
}

/// What is wrong so far.
struct Wrong(Option<Error>);

impl Wrong {
    fn add(&mut self, span: Span, what: impl std::fmt::Display) {
        self.add_error(Error::new(span, what));
    }

    fn add_error(&mut self, error: Error) {
        match &mut self.0 {
            None => self.0 = Some(error),
            Some(errors) => errors.combine(error),
        }
    }

    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add_error(error)).ok()
    }
}

/// Names that may be there once.
struct Names {
    of_columns: HashMap<String, Span>,
    of_constraints: HashMap<String, Span>,
}

impl Names {
    fn add_column(&mut self, name: &str, span: Span, wrong: &mut Wrong) {
        if let Some(message) = bad_name("a column", name) {
            wrong.add(span, message);
        }
        if self.of_columns.insert(name.to_owned(), span).is_some() {
            wrong.add(span, format!("two columns have the name `{name}`"));
        }
    }

    fn add_constraint(&mut self, name: &str, span: Span, wrong: &mut Wrong) {
        if let Some(message) = bad_name("an index or a constraint", name) {
            wrong.add(span, message);
        }
        if self.of_constraints.insert(name.to_owned(), span).is_some() {
            wrong.add(span, format!("two indexes or constraints have the name `{name}`; give one another"));
        }
    }
}

/// What `quipu-rows` would say of a name.
fn bad_name(what: &str, name: &str) -> Option<String> {
    if name.is_empty() || name.len() > 128 {
        return Some(format!("the name of {what} has 1 to 128 bytes, not {}", name.len()));
    }
    name.chars().any(char::is_control).then(|| format!("the name {name:?} of {what} has a control character"))
}

fn named_fields(input: &DeriveInput) -> Result<impl Iterator<Item = &syn::Field>> {
    let kind = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => {
                if let Some(parameter) = input.generics.params.first() {
                    let what = "a record has no parameters: its fields own their values, and each has one type";
                    return Err(Error::new(parameter.span(), what));
                }
                return Ok(fields.named.iter());
            }
            Fields::Unnamed(_) => "a struct whose fields have no names",
            Fields::Unit => "a struct without fields",
        },
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    let what = format!("`{}` is {kind}: a record is a struct with named fields, which are its columns", input.ident);
    Err(Error::new(input.ident.span(), what))
}

/// The column of a field; none if it is skipped.
fn column(ident: &Ident, own: &ColumnAttributes, wrong: &mut Wrong) -> Option<Column> {
    if let Some(skip) = own.skip {
        if own.spans.len() > 1 {
            wrong.add(skip, format!("field `{ident}` is skipped: it is not a column, and has no other attribute"));
        }
        return None;
    }
    let name = own.rename.as_ref().map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let identity = own.identity.map(|(identity, _)| identity);
    Some(Column { name, declared_type: own.declared_type.clone(), default: own.default.clone(), identity })
}

/// Indexes and constraints that stand before a field.
fn add_constraints_of(record: &mut Record, place: usize, own: &ColumnAttributes, names: &mut Names, wrong: &mut Wrong) {
    let Some(column) = record.fields[place].column.as_ref().map(|column| column.name.clone()) else { return };
    let mut add_index = |asked: &IndexName, is_unique: bool| {
        let name = asked.name.as_ref().map_or_else(|| column.clone(), |name| name.value());
        names.add_constraint(&name, asked.span, wrong);
        let columns = vec![IndexColumn::Field(KeyField { field: place, is_descending: false })];
        record.indexes.push(Index { name, columns, is_unique, include: Vec::new(), predicate: None, sum: None });
    };
    match (&own.unique, &own.index) {
        (Some(_), Some(index)) if index.name.is_none() => {
            wrong.add(index.span, "a unique index is an index already: `unique` alone is enough");
        }
        (unique, index) => {
            if let Some(unique) = unique {
                add_index(unique, true);
            }
            if let Some(index) = index {
                add_index(index, false);
            }
        }
    }
    if let Some(condition) = &own.check {
        let name = format!("{column}_check");
        names.add_constraint(&name, condition.span(), wrong);
        record.checks.push((name, condition.clone()));
    }
    if let Some((references, span)) = &own.references {
        let name = format!("{column}_fkey");
        names.add_constraint(&name, *span, wrong);
        record.foreign_keys.push(ForeignKey { name, columns: vec![place], references: references.clone() });
    }
}

/// What stands before the struct, but for the primary key.
fn add_table(record: &mut Record, table: &TableAttributes, names: &mut Names, wrong: &mut Wrong) {
    let span = table.name.as_ref().map_or_else(|| record.ident.span(), Spanned::span);
    if let Some(message) = bad_name("a table", &record.table) {
        wrong.add(span, message);
    }
    for index in &table.indexes {
        names.add_constraint(&index.name.value(), index.name.span(), wrong);
        let columns = index.columns.iter().map(|sorted| match sorted {
            Sorted::Expression(text) => Ok(IndexColumn::Expression(text.clone())),
            Sorted::Field { field, is_descending } => {
                let field = record.place(field)?;
                Ok(IndexColumn::Field(KeyField { field, is_descending: *is_descending }))
            }
        });
        let index = Index {
            name: index.name.value(),
            columns: columns.filter_map(|column| wrong.take(column)).collect(),
            is_unique: index.is_unique,
            include: record.places(&index.include, wrong),
            predicate: index.predicate.clone(),
            sum: index.sum.as_ref().and_then(|field| wrong.take(record.place(field))),
        };
        record.indexes.push(index);
    }
    for (name, condition) in &table.checks {
        names.add_constraint(&name.value(), name.span(), wrong);
        record.checks.push((name.value(), condition.clone()));
    }
    for foreign_key in &table.foreign_keys {
        names.add_constraint(&foreign_key.name.value(), foreign_key.name.span(), wrong);
        let columns = record.places(&foreign_key.columns, wrong);
        let there = foreign_key.references.columns.len();
        if there > 0 && there != foreign_key.columns.len() {
            let own = foreign_key.columns.len();
            let what = format!("a foreign key has as many fields as it refers to columns, not {own} and {there}");
            wrong.add(foreign_key.name.span(), what);
        }
        let references = foreign_key.references.clone();
        record.foreign_keys.push(ForeignKey { name: foreign_key.name.value(), columns, references });
    }
    record.sum = table.sum.as_ref().and_then(|field| wrong.take(record.place(field)));
}

/// The primary key, which stands before the struct or before a field.
fn add_key(record: &mut Record, table: &TableAttributes, attributes: &[ColumnAttributes], wrong: &mut Wrong) {
    let marked = attributes.iter().enumerate().filter_map(|(place, own)| Some((place, own.primary_key?)));
    let marked: Vec<(usize, Span)> = marked.collect();
    match (&table.primary_key, &*marked) {
        (Some(_), [(_, span), ..]) => {
            wrong.add(*span, "the struct's attribute says the primary key already: say it in one place");
        }
        (None, [_, (_, second), ..]) => wrong.add(
            *second,
            "a second field of the primary key: write #[table(primary_key(first, second))] before the struct, which \
             says their order",
        ),
        (None, [(place, _)]) => record.key.push(KeyField { field: *place, is_descending: false }),
        (None, []) if wrong.0.is_some() => {}
        (None, []) => wrong.add(
            record.ident.span(),
            format!(
                "`{}` has no primary key: write #[table(primary_key(...))] before the struct, or \
                 #[column(primary_key)] before a field",
                record.ident
            ),
        ),
        (Some(key), []) => {
            for sorted in key {
                match sorted {
                    Sorted::Expression(text) => wrong.add(text.span(), "a primary key is of fields, not expressions"),
                    Sorted::Field { field, is_descending } => {
                        let Some(place) = wrong.take(record.place(field)) else { continue };
                        if record.key.iter().any(|known| known.field == place) {
                            wrong.add(field.span(), format!("`{field}` is named twice in the primary key"));
                        }
                        record.key.push(KeyField { field: place, is_descending: *is_descending });
                    }
                }
            }
            if key.is_empty() {
                wrong.add(record.ident.span(), "the primary key has no fields: primary_key(first, second desc)");
            }
            if key.len() > KEY_FIELDS_MAX {
                let what = format!("the primary key of a record has at most {KEY_FIELDS_MAX} fields");
                wrong.add(record.ident.span(), what);
            }
        }
    }
    for key in &record.key {
        let field = &record.fields[key.field];
        if is_option(&field.rust_type) {
            let what = format!("field `{}` is of the primary key, which is never NULL: no Option here", field.ident);
            wrong.add(field.rust_type.span(), what);
        }
    }
}

fn check_identity(record: &Record, place: usize, own: &ColumnAttributes, wrong: &mut Wrong) {
    let (Some((_, span)), field) = (own.identity, &record.fields[place]) else { return };
    if is_option(&field.rust_type) {
        let what = format!("field `{}` has numbers of the table, which are never NULL: no Option here", field.ident);
        wrong.add(field.rust_type.span(), what);
    }
    if own.default.is_some() {
        wrong.add(span, format!("field `{}` has numbers of the table, and so no default", field.ident));
    }
}

/// Whether a type is written as an `Option`.
fn is_option(rust_type: &Type) -> bool {
    matches!(rust_type, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

impl Record {
    /// The place of a field that an attribute names, and that is a column.
    fn place(&self, name: &Ident) -> Result<usize> {
        let named = |ident: &Ident| ident.unraw() == name.unraw();
        let names = || {
            let columns = self.fields.iter().filter(|field| field.column.is_some());
            columns.map(|field| field.ident.to_string()).collect::<Vec<_>>().join(", ")
        };
        let Some(place) = self.fields.iter().position(|field| named(&field.ident)) else {
            return Err(Error::new(name.span(), format!("there is no field `{name}`; there are {}", names())));
        };
        if self.fields[place].column.is_none() {
            return Err(Error::new(name.span(), format!("field `{name}` is skipped: it is not a column")));
        }
        Ok(place)
    }

    fn places(&self, names: &[Ident], wrong: &mut Wrong) -> Vec<usize> {
        names.iter().filter_map(|name| wrong.take(self.place(name))).collect()
    }

    /// Whether the table always gives out the number of a field of the primary key.
    pub(crate) fn has_own_number_in_key(&self) -> bool {
        self.key.iter().any(|key| {
            self.fields[key.field].column.as_ref().is_some_and(|column| column.identity == Some(Identity::Always))
        })
    }
}

/// `FlightDelay` is `flight_delay`, and `HTTPRequest` is `http_request`.
fn snake_case(ident: &Ident) -> String {
    let name: Vec<char> = ident.unraw().to_string().chars().collect();
    let mut text = String::new();
    for (place, &letter) in name.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| name[before]);
        let is_next_small = name.get(place + 1).is_some_and(|next| next.is_lowercase());
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| before != '_' && (!before.is_uppercase() || is_next_small));
        if begins_word {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
