//! The implementation of the trait, from the model.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned;

use crate::model::{Column, Field, ForeignKey, Identity, Index, IndexColumn, KeyField, Record, Target};

/// The code that the macro adds to the struct.
pub(crate) fn implementation(record: &Record) -> TokenStream {
    let ident = &record.ident;
    let table = &record.table;
    let types = record.columns().map(|(place, field, column)| column_type(place, field, column));
    let names = record.columns().map(|(_, _, column)| &column.name);
    let schema = schema(record);
    let (key_type, key) = key(record);
    let has_own_number_in_key = record.has_own_number_in_key();
    let values = record.columns().map(|(_, field, column)| match column.identity {
        Some(Identity::Always) => quote!(::quipu_rows::Value::Null),
        _ => to_value(field),
    });
    let changes = record.columns().filter(|(place, _, column)| record.is_changed(*place, column));
    let changes = changes.map(|(_, field, column)| {
        let (name, value) = (&column.name, to_value(field));
        quote!((#name, #value))
    });
    let mut place = 0usize;
    let fields = record.fields.iter().map(|field| {
        let name = &field.ident;
        let Some(column) = &field.column else {
            return quote_spanned!(span_of(field)=> #name: ::core::default::Default::default());
        };
        let (rust_type, column, at) = (&field.rust_type, &column.name, place);
        place += 1;
        quote_spanned!(span_of(field)=> #name: ::quipu_rows::derived::field::<#rust_type>(row, #at, #column)?)
    });
    let fields: Vec<TokenStream> = fields.collect();
    quote! {
        const _: () = {
            #(#types)*

            #[automatically_derived]
            impl ::quipu_rows::Record for #ident {
                type Key<'k> = #key_type where Self: 'k;

                const TABLE: &'static str = #table;
                const COLUMNS: &'static [&'static str] = &[#(#names),*];
                const HAS_OWN_NUMBER_IN_KEY: bool = #has_own_number_in_key;

                fn schema() -> ::quipu_rows::TableSchema {
                    #schema
                }

                fn key(&self) -> Self::Key<'_> {
                    #key
                }

                fn values(&self) -> ::std::vec::Vec<::quipu_rows::Value<'_>> {
                    ::std::vec![#(#values),*]
                }

                fn changes(&self) -> ::std::vec::Vec<(&'static str, ::quipu_rows::Value<'_>)> {
                    ::std::vec![#(#changes),*]
                }

                fn from_row(row: &::quipu_rows::RowView<'_>) -> ::quipu_rows::derived::Result<Self> {
                    ::core::result::Result::Ok(#ident { #(#fields),* })
                }
            }
        };
    }
}

impl Record {
    /// The fields that are columns, with their places among the fields.
    fn columns(&self) -> impl Iterator<Item = (usize, &Field, &Column)> {
        let fields = self.fields.iter().enumerate();
        fields.filter_map(|(place, field)| Some((place, field, field.column.as_ref()?)))
    }

    fn column_name(&self, place: usize) -> &str {
        self.fields[place].column.as_ref().map_or("", |column| &column.name)
    }

    /// Whether an update writes the column: what the key says is the same, unless the key does not keep it as it is.
    fn is_changed(&self, place: usize, column: &Column) -> bool {
        let has_sort_key = column.declared_type.as_ref().is_some_and(|declared| declared.has_sort_key);
        let is_key = self.key.iter().any(|key| key.field == place);
        column.identity != Some(Identity::Always) && (!is_key || has_sort_key)
    }
}

fn type_name(place: usize) -> Ident {
    format_ident!("TYPE_{place}")
}

/// The type of a column as a constant, so that one that does not go with the field's is told by the compiler.
fn column_type(place: usize, field: &Field, column: &Column) -> TokenStream {
    let (constant, rust_type) = (type_name(place), &field.rust_type);
    let rust_name = quote!(#rust_type).to_string().replace(' ', "");
    let (declared, message) = match &column.declared_type {
        Some(declared) => {
            let variant = &declared.variant;
            let message = format!("field `{}`: {rust_name} does not fit a column of {}", field.ident, declared.name);
            (quote!(::core::option::Option::Some(#variant)), message)
        }
        None => {
            let message = format!(
                "field `{}`: a decimal needs its digits, such as #[column(type = \"decimal(10,2)\")]",
                field.ident
            );
            (quote!(::core::option::Option::None), message)
        }
    };
    let identity = column.identity.map(|_| {
        let message = format!("field `{}`: numbers of a table are integers, not {rust_name}", field.ident);
        quote_spanned!(span_of(field)=> const _: () = ::quipu_rows::derived::must_be_integer(#constant, #message);)
    });
    quote_spanned! {span_of(field)=>
        const #constant: ::quipu_rows::DataType =
            ::quipu_rows::derived::column_type::<#rust_type>(#declared, #message);
        #identity
    }
}

/// The expression that is the schema.
fn schema(record: &Record) -> TokenStream {
    let table = &record.table;
    let columns = record.columns().map(|(place, field, column)| {
        let (name, data_type, rust_type) = (&column.name, type_name(place), &field.rust_type);
        let is_nullable = quote!(<#rust_type as ::quipu_rows::ColumnValue>::IS_NULLABLE);
        let default = column.default.as_ref().map(|default| quote!(.default(#default)));
        let identity = column.identity.map(|identity| match identity {
            Identity::Always => quote!(.identity(::quipu_rows::Identity::Always)),
            Identity::ByDefault => quote!(.identity(::quipu_rows::Identity::ByDefault)),
        });
        quote! {
            .column(::quipu_rows::Column {
                not_null: !#is_nullable,
                ..::quipu_rows::Column::new(#name, #data_type)#default #identity
            })
        }
    });
    let key = record.key.iter().map(|key| {
        let name = record.column_name(key.field);
        if key.is_descending { format!("{name} desc") } else { name.to_owned() }
    });
    let indexes = record.indexes.iter().map(|index| index_schema(record, index));
    let checks = record.checks.iter().map(|(name, condition)| quote!(.check(#name, #condition)));
    let foreign_keys = record.foreign_keys.iter().map(|foreign_key| foreign_key_schema(record, foreign_key));
    let sum = record.sum.map(|place| {
        let name = record.column_name(place);
        quote!(.sum(#name))
    });
    let comment = record.comment.iter();
    let (in_memory, compressed) = (record.is_in_memory, record.is_compressed);
    quote! {
        ::quipu_rows::TableSchema {
            #(comment: ::std::string::String::from(#comment),)*
            in_memory: #in_memory,
            compressed: #compressed,
            ..::quipu_rows::TableSchema::new(#table)
                #(#columns)*
                .key([#(#key),*])
                #(#indexes)*
                #(#checks)*
                #(#foreign_keys)*
                #sum
        }
    }
}

fn index_schema(record: &Record, index: &Index) -> TokenStream {
    let name = &index.name;
    let columns = index.columns.iter().map(|column| match column {
        IndexColumn::Expression(text) => quote!(::std::string::String::from(#text)),
        IndexColumn::Field(KeyField { field, is_descending }) => {
            let name = record.column_name(*field);
            quote!(::quipu_rows::derived::index_column(#name, #is_descending))
        }
    });
    let unique = index.is_unique.then(|| quote!(.unique()));
    let include = index.include.iter().map(|&place| record.column_name(place));
    let include = (!index.include.is_empty()).then(|| quote!(.include([#(#include),*])));
    let predicate = index.predicate.as_ref().map(|condition| quote!(.predicate(#condition)));
    let sum = index.sum.map(|place| {
        let name = record.column_name(place);
        quote!(.sum(#name))
    });
    quote!(.index(::quipu_rows::IndexSchema::new(#name, [#(#columns),*])#unique #include #predicate #sum))
}

fn foreign_key_schema(record: &Record, foreign_key: &ForeignKey) -> TokenStream {
    let (name, references) = (&foreign_key.name, &foreign_key.references);
    let columns = foreign_key.columns.iter().map(|&place| record.column_name(place));
    let table = match &references.table {
        Target::Name(name) => quote!(#name),
        Target::Record(path) => quote_spanned!(path.span()=> <#path as ::quipu_rows::Record>::TABLE),
    };
    let there = &references.columns;
    let there = (!there.is_empty()).then(|| quote!(.references([#(#there),*])));
    let on_delete = references.on_delete.iter();
    let on_update = references.on_update.iter();
    quote! {
        .foreign_key(
            ::quipu_rows::ForeignKey::new(#name, [#(#columns),*], #table)
                #there
                #(.on_delete(::quipu_rows::Action::#on_delete))*
                #(.on_update(::quipu_rows::Action::#on_update))*
        )
    }
}

/// The type of the key, and its value: of one field alone, or a tuple.
fn key(record: &Record) -> (TokenStream, TokenStream) {
    let fields = || record.key.iter().map(|key| &record.fields[key.field]);
    let types = fields().map(|field| {
        let rust_type = &field.rust_type;
        quote_spanned!(span_of(field)=> <#rust_type as ::quipu_rows::ColumnValue>::Borrowed<'k>)
    });
    let values = fields().map(|field| {
        let name = &field.ident;
        quote!(::quipu_rows::ColumnValue::borrow(&self.#name))
    });
    match record.key.len() {
        1 => (quote!(#(#types)*), quote!(#(#values)*)),
        _ => (quote!((#(#types),*)), quote!((#(#values),*))),
    }
}

/// Where errors about the type of a field point, also if another macro wrote the struct.
fn span_of(field: &Field) -> Span {
    field.rust_type.span().resolved_at(Span::call_site())
}

fn to_value(field: &Field) -> TokenStream {
    let name = &field.ident;
    quote!(::quipu_rows::ColumnValue::to_value(&self.#name))
}
