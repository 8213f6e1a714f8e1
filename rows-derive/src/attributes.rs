//! The contents of `#[table(...)]` and `#[column(...)]`, with names as they were written.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, Lit, LitStr, Path, Result, Token, parenthesized};

use crate::model::{ColumnType, Identity, References, Target};

/// All attributes `#[table(...)]` of a struct.
#[derive(Default)]
pub(crate) struct TableAttributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) primary_key: Option<Vec<Sorted>>,
    pub(crate) indexes: Vec<IndexAttribute>,
    pub(crate) checks: Vec<(LitStr, LitStr)>,
    pub(crate) foreign_keys: Vec<ForeignKeyAttribute>,
    pub(crate) sum: Option<Ident>,
    pub(crate) comment: Option<LitStr>,
    pub(crate) in_memory: Option<()>,
    pub(crate) compressed: Option<()>,
}

/// A field, or an expression, in an order.
pub(crate) enum Sorted {
    Field { field: Ident, is_descending: bool },
    Expression(LitStr),
}

/// `index(...)`.
pub(crate) struct IndexAttribute {
    pub(crate) name: LitStr,
    pub(crate) columns: Vec<Sorted>,
    pub(crate) is_unique: bool,
    pub(crate) include: Vec<Ident>,
    pub(crate) predicate: Option<LitStr>,
    pub(crate) sum: Option<Ident>,
}

/// `foreign_key(...)`.
pub(crate) struct ForeignKeyAttribute {
    pub(crate) name: LitStr,
    pub(crate) columns: Vec<Ident>,
    pub(crate) references: References,
}

/// All attributes `#[column(...)]` of a field.
#[derive(Default)]
pub(crate) struct ColumnAttributes {
    /// Where each stands, for what goes together with nothing else.
    pub(crate) spans: Vec<Span>,
    pub(crate) skip: Option<Span>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) declared_type: Option<ColumnType>,
    pub(crate) primary_key: Option<Span>,
    pub(crate) unique: Option<IndexName>,
    pub(crate) index: Option<IndexName>,
    pub(crate) default: Option<String>,
    pub(crate) check: Option<LitStr>,
    pub(crate) identity: Option<(Identity, Span)>,
    pub(crate) references: Option<(References, Span)>,
}

/// `index` or `index = "name"`.
pub(crate) struct IndexName {
    pub(crate) name: Option<LitStr>,
    pub(crate) span: Span,
}

impl TableAttributes {
    /// What stands in the attributes of a struct.
    pub(crate) fn read(attributes: &[Attribute]) -> Result<TableAttributes> {
        let mut table = TableAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| table.add(&meta))?;
        }
        Ok(table)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match &*name_of(meta) {
            "name" => set(&mut self.name, meta, value(meta)?),
            "primary_key" => set(&mut self.primary_key, meta, list(meta)?),
            "index" => {
                self.indexes.push(IndexAttribute::read(meta)?);
                Ok(())
            }
            "check" => {
                self.checks.push(read_check(meta)?);
                Ok(())
            }
            "foreign_key" => {
                self.foreign_keys.push(ForeignKeyAttribute::read(meta)?);
                Ok(())
            }
            "sum" => set(&mut self.sum, meta, value(meta)?),
            "comment" => set(&mut self.comment, meta, value(meta)?),
            "in_memory" => set(&mut self.in_memory, meta, ()),
            "compressed" => set(&mut self.compressed, meta, ()),
            _ => Err(unknown(
                meta,
                "#[table]",
                "name, primary_key, index, check, foreign_key, sum, comment, in_memory and compressed",
            )),
        }
    }
}

impl IndexAttribute {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<IndexAttribute> {
        let (mut name, mut columns, mut unique, mut include) = (None, None, None, None);
        let (mut predicate, mut sum) = (None, None);
        meta.parse_nested_meta(|part| match &*name_of(&part) {
            "name" => set(&mut name, &part, value(&part)?),
            "columns" => set(&mut columns, &part, list(&part)?),
            "unique" => set(&mut unique, &part, ()),
            "include" => set(&mut include, &part, list(&part)?),
            "predicate" => set(&mut predicate, &part, value(&part)?),
            "sum" => set(&mut sum, &part, value(&part)?),
            _ => Err(unknown(&part, "an index", "name, columns, unique, include, predicate and sum")),
        })?;
        let name = name.ok_or_else(|| meta.error("an index needs a name: index(name = \"...\", columns(...))"))?;
        let columns: Vec<Sorted> = columns.unwrap_or_default();
        if columns.is_empty() {
            return Err(meta.error("an index needs columns: index(name = \"...\", columns(...))"));
        }
        let include = include.unwrap_or_default();
        Ok(IndexAttribute { name, columns, is_unique: unique.is_some(), include, predicate, sum })
    }
}

fn read_check(meta: &ParseNestedMeta<'_>) -> Result<(LitStr, LitStr)> {
    let (mut name, mut condition) = (None, None);
    meta.parse_nested_meta(|part| match &*name_of(&part) {
        "name" => set(&mut name, &part, value(&part)?),
        "condition" => set(&mut condition, &part, value(&part)?),
        _ => Err(unknown(&part, "a check", "name and condition")),
    })?;
    let needs = || meta.error("a check needs both: check(name = \"...\", condition = \"...\")");
    Ok((name.ok_or_else(needs)?, condition.ok_or_else(needs)?))
}

impl ForeignKeyAttribute {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<ForeignKeyAttribute> {
        let (mut name, mut columns, mut references) = (None, None, None);
        meta.parse_nested_meta(|part| match &*name_of(&part) {
            "name" => set(&mut name, &part, value(&part)?),
            "columns" => set(&mut columns, &part, list(&part)?),
            "references" => set(&mut references, &part, References::read(&part)?),
            _ => Err(unknown(&part, "a foreign key", "name, columns and references")),
        })?;
        let needs =
            || meta.error("a foreign key needs all of: foreign_key(name = \"...\", columns(...), references(...))");
        let (name, columns) = (name.ok_or_else(needs)?, columns.ok_or_else(needs)?);
        Ok(ForeignKeyAttribute { name, columns, references: references.ok_or_else(needs)? })
    }
}

impl References {
    /// `references(Carrier, code, on_delete = cascade)`.
    fn read(meta: &ParseNestedMeta<'_>) -> Result<References> {
        let content;
        parenthesized!(content in meta.input);
        let table =
            if content.peek(LitStr) { Target::Name(content.parse()?) } else { Target::Record(content.parse()?) };
        let mut references = References { table, columns: Vec::new(), on_delete: None, on_update: None };
        while !content.is_empty() {
            content.parse::<Token![,]>()?;
            if content.is_empty() {
                break;
            }
            if content.peek(LitStr) {
                references.columns.push(content.parse::<LitStr>()?.value());
                continue;
            }
            let word = content.call(Ident::parse_any)?;
            if !content.peek(Token![=]) {
                references.columns.push(word.unraw().to_string());
                continue;
            }
            content.parse::<Token![=]>()?;
            let action = read_action(&content)?;
            let place = match &*word.to_string() {
                "on_delete" => &mut references.on_delete,
                "on_update" => &mut references.on_update,
                _ => return Err(Error::new(word.span(), "expected a column, on_delete = ... or on_update = ...")),
            };
            if place.replace(action).is_some() {
                return Err(Error::new(word.span(), format!("`{word}` is said twice")));
            }
        }
        Ok(references)
    }
}

fn read_action(input: ParseStream<'_>) -> Result<Ident> {
    let word = input.call(Ident::parse_any)?;
    let variant = match &*word.to_string() {
        "restrict" => "Restrict",
        "cascade" => "Cascade",
        "set_null" => "SetNull",
        other => {
            let what = format!("`{other}` is not an action; there are restrict, cascade and set_null");
            return Err(Error::new(word.span(), what));
        }
    };
    Ok(Ident::new(variant, word.span()))
}

impl ColumnAttributes {
    /// What stands in the attributes of a field.
    pub(crate) fn read(attributes: &[Attribute]) -> Result<ColumnAttributes> {
        let mut column = ColumnAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("column")) {
            attribute.parse_nested_meta(|meta| column.add(&meta))?;
        }
        Ok(column)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let span = span_of(meta);
        self.spans.push(span);
        match &*name_of(meta) {
            "skip" => set(&mut self.skip, meta, span),
            "rename" => set(&mut self.rename, meta, value(meta)?),
            "type" => set(&mut self.declared_type, meta, ColumnType::read(meta.value()?)?),
            "primary_key" => set(&mut self.primary_key, meta, span),
            "unique" => set(&mut self.unique, meta, IndexName { name: optional_value(meta)?, span }),
            "index" => set(&mut self.index, meta, IndexName { name: optional_value(meta)?, span }),
            "default" => set(&mut self.default, meta, read_default(meta.value()?)?),
            "check" => set(&mut self.check, meta, value(meta)?),
            "identity" => {
                let identity = match optional_value::<Ident>(meta)? {
                    None => Identity::Always,
                    Some(word) if word == "always" => Identity::Always,
                    Some(word) if word == "by_default" => Identity::ByDefault,
                    Some(word) => {
                        return Err(Error::new(word.span(), "expected `identity = always` or `identity = by_default`"));
                    }
                };
                set(&mut self.identity, meta, (identity, span))
            }
            "references" => set(&mut self.references, meta, (References::read(meta)?, span)),
            _ => Err(unknown(
                meta,
                "#[column]",
                "rename, type, primary_key, unique, index, default, check, identity, references and skip",
            )),
        }
    }
}

/// A default: an expression in quotes, or a literal that is one.
fn read_default(input: ParseStream<'_>) -> Result<String> {
    let minus = input.parse::<Option<Token![-]>>()?;
    let sign = if minus.is_some() { "-" } else { "" };
    match input.parse::<Lit>()? {
        Lit::Str(text) if minus.is_none() => Ok(text.value()),
        Lit::Bool(value) if minus.is_none() => Ok(value.value.to_string()),
        Lit::Int(number) if number.suffix().is_empty() => Ok(format!("{sign}{}", number.base10_digits())),
        Lit::Float(number) if number.suffix().is_empty() => Ok(format!("{sign}{}", number.base10_digits())),
        other => Err(Error::new(
            other.span(),
            "a default is a number, true or false, or an expression in quotes: \"'open'\" is a text",
        )),
    }
}

impl ColumnType {
    /// The type of that name, as `DataType::parse` knows it.
    fn read(input: ParseStream<'_>) -> Result<ColumnType> {
        let literal: LitStr = input.parse()?;
        let name = literal.value();
        let simple = |variant: &str| {
            let variant = Ident::new(variant, literal.span());
            quote!(::quipu_rows::DataType::#variant)
        };
        let variant = match &*name {
            "bool" => simple("Bool"),
            "i8" => simple("I8"),
            "i16" => simple("I16"),
            "i32" => simple("I32"),
            "i64" => simple("I64"),
            "u8" => simple("U8"),
            "u16" => simple("U16"),
            "u32" => simple("U32"),
            "u64" => simple("U64"),
            "f32" => simple("F32"),
            "f64" => simple("F64"),
            "numeric" => simple("Numeric"),
            "text" => simple("TEXT"),
            "text(unicode)" => quote!(::quipu_rows::DataType::Text(::quipu_rows::Collation::Unicode)),
            "bytes" => simple("Bytes"),
            "bytes(keyed)" => simple("KeyedBytes"),
            "date" => simple("Date"),
            "timestamp" => simple("Timestamp"),
            "uuid" => simple("Uuid"),
            "json" => simple("Json"),
            _ => decimal(&name).ok_or_else(|| {
                let names = "bool, i8 to i64, u8 to u64, f32, f64, numeric, text, text(unicode), bytes, \
                    bytes(keyed), date, timestamp, uuid, json";
                let decimal = "decimal(PRECISION,SCALE) of 1 to 38 digits, of which some or all follow the point";
                Error::new(literal.span(), format!("{name:?} is not a type of a column; there are {names}, {decimal}"))
            })?,
        };
        let has_sort_key = matches!(name.as_str(), "text(unicode)" | "numeric" | "bytes(keyed)");
        Ok(ColumnType { has_sort_key, name, variant })
    }
}

/// `decimal(10,2)`; without a scale, no digit stands behind the point.
fn decimal(name: &str) -> Option<TokenStream> {
    let parameters = name.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = parameters.split_once(',').unwrap_or((parameters, "0"));
    let (precision, scale): (u8, u8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_one = (1..=38).contains(&precision) && scale <= precision;
    is_one.then(|| quote!(::quipu_rows::DataType::Decimal { precision: #precision, scale: #scale }))
}

impl Parse for Sorted {
    fn parse(input: ParseStream<'_>) -> Result<Sorted> {
        if input.peek(LitStr) {
            return Ok(Sorted::Expression(input.parse()?));
        }
        let field = input.call(Ident::parse_any)?;
        let direction = if input.peek(Token![,]) || input.is_empty() { None } else { Some(Ident::parse_any(input)?) };
        let is_descending = match direction {
            None => false,
            Some(word) if word == "asc" => false,
            Some(word) if word == "desc" => true,
            Some(word) => return Err(Error::new(word.span(), format!("expected asc or desc after `{field}`"))),
        };
        Ok(Sorted::Field { field, is_descending })
    }
}

/// The name of an attribute.
fn name_of(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map_or_else(String::new, |name| name.unraw().to_string())
}

fn span_of(meta: &ParseNestedMeta<'_>) -> Span {
    meta.path.get_ident().map_or_else(Span::call_site, Ident::span)
}

/// `= value`.
fn value<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    meta.value()?.parse()
}

/// `= value`, or nothing.
fn optional_value<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<Option<T>> {
    if meta.input.peek(Token![=]) { value(meta).map(Some) } else { Ok(None) }
}

/// `(part, part, ...)`.
fn list<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in meta.input);
    let parts: Punctuated<T, Token![,]> = content.parse_terminated(T::parse, Token![,])?;
    Ok(parts.into_iter().collect())
}

/// Sets what may be said once.
fn set<T>(place: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(span_of(meta), format!("`{}` is said twice", name_of(meta)))),
    }
}

fn unknown(meta: &ParseNestedMeta<'_>, owner: &str, names: &str) -> Error {
    meta.error(format!("`{}` is not an attribute of {owner}; there are {names}", path_text(&meta.path)))
}

fn path_text(path: &Path) -> String {
    let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    words.join("::")
}
