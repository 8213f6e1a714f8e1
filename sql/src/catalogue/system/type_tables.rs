//! Types: `pg_type`, `pg_am`, `pg_collation`; extensions, of which there is one.

use crate::catalogue::oids;
use crate::catalogue::system::definition::{Rows, Written, int, oid};
use crate::catalogue::system::source::Source;
use crate::catalogue::system::texts;
use crate::error::Result;
use crate::functions::postgres::known;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "pg_type",
        number: 1247,
        columns: "oid oid, typname name, typnamespace oid=11, typowner oid=10, typlen int2, typbyval bool=false, \
                  typtype char=b, typcategory char=U, typispreferred bool=false, typisdefined bool=true, \
                  typdelim char, typrelid oid=0, typsubscript regproc=0, typelem oid=0, typarray oid=0, \
                  typinput regproc=0, typoutput regproc=0, typreceive regproc=0, typsend regproc=0, \
                  typmodin regproc=0, typmodout regproc=0, typanalyze regproc=0, typalign char=i, typstorage char=p, \
                  typnotnull bool=false, typbasetype oid=0, typtypmod int4=-1, typndims int4=0, typcollation oid=0, \
                  typdefaultbin text, typdefault text, typacl text[]",
        rows: types,
    },
    Written {
        name: "pg_enum",
        number: 3501,
        columns: "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
        rows: labels,
    },
    Written {
        name: "pg_am",
        number: 2601,
        columns: "oid oid, amname name, amhandler regproc=0, amtype char",
        rows: access_methods,
    },
    Written {
        name: "pg_collation",
        number: 3456,
        columns: "oid oid, collname name, collnamespace oid=11, collowner oid=10, collprovider char, \
                  collisdeterministic bool=true, collencoding int4=-1, collcollate text, collctype text, \
                  colliculocale text, collversion text",
        rows: collations,
    },
];

fn category(base: BaseType) -> &'static str {
    match base {
        BaseType::Bool => "B",
        base if base.is_number() || base.is_oid() => "N",
        BaseType::SingleChar => "Z",
        BaseType::Unknown => "X",
        base if base.is_text() => "S",
        BaseType::Date | BaseType::Time | BaseType::TimeTz | BaseType::Timestamp | BaseType::TimestampTz => "D",
        BaseType::Interval => "T",
        BaseType::Inet | BaseType::Cidr => "I",
        base if base.is_pseudo() => "P",
        _ => "U",
    }
}

/// The columns of the functions of a type.
const FUNCTIONS: [&str; 8] =
    ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze", "typsubscript"];

/// How a type is read, written and stored in PostgreSQL; as another one of the same form if it is not there.
fn add_known(row: &mut Vec<(&'static str, Datum)>, number: u32, otherwise: SqlType) {
    let types = &known().types;
    let Some(known) = types.get(&number).or_else(|| types.get(&otherwise.oid())) else { return };
    row.extend(FUNCTIONS.iter().zip(known.functions).map(|(column, number)| (*column, oid(number))));
    row.push(("typalign", Datum::text(known.alignment)));
    row.push(("typstorage", Datum::text(known.storage)));
}

fn types(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for base in source.catalogue.user_types().values() {
        add_user_type(source, *base, rows);
    }
    for base in BaseType::all() {
        // A pseudo-type of ours that PostgreSQL does not have twice.
        let sql_type = SqlType::from(base);
        let array = SqlType::array_of(base);
        let is_preferred = matches!(
            base,
            BaseType::Bool
                | BaseType::Float8
                | BaseType::Oid
                | BaseType::Text
                | BaseType::TimestampTz
                | BaseType::Interval
                | BaseType::Inet
        );
        let is_anyarray = base == BaseType::AnyElement;
        let mut row = vec![
            ("oid", oid(sql_type.oid())),
            ("typname", Datum::text(base.catalogue_name())),
            ("typlen", int(sql_type.size())),
            ("typbyval", Datum::Bool(matches!(sql_type.size(), 1..=8))),
            ("typtype", Datum::text(if base.is_pseudo() || base == BaseType::Unknown { "p" } else { "b" })),
            ("typcategory", Datum::text(category(base))),
            ("typispreferred", Datum::Bool(is_preferred)),
            ("typdelim", Datum::text(",")),
            ("typelem", oid(if base == BaseType::Name { SqlType::from(BaseType::SingleChar).oid() } else { 0 })),
            ("typarray", oid(if is_anyarray { 0 } else { array.oid() })),
            ("typcollation", oid(texts::collation_of(sql_type))),
        ];
        add_known(&mut row, sql_type.oid(), SqlType::TEXT);
        rows.add(&row);
        if array.oid() == 0 {
            continue;
        }
        let mut row = vec![
            ("oid", oid(array.oid())),
            ("typname", Datum::text(if is_anyarray { "anyarray".to_owned() } else { name_of_array(base) })),
            ("typlen", int(-1)),
            ("typtype", Datum::text(if base.is_pseudo() { "p" } else { "b" })),
            ("typcategory", Datum::text(if base.is_pseudo() { "P" } else { "A" })),
            ("typdelim", Datum::text(",")),
            ("typelem", oid(if is_anyarray { 0 } else { sql_type.oid() })),
            ("typcollation", oid(texts::collation_of(sql_type))),
        ];
        add_known(&mut row, array.oid(), SqlType::array_of(BaseType::Text));
        rows.add(&row);
    }
    for (vector, of_vectors) in [(SqlType::INT2_VECTOR, 1006), (SqlType::OID_VECTOR, 1013)] {
        let mut row = vec![
            ("oid", oid(vector.oid())),
            ("typname", Datum::text(vector.to_string())),
            ("typlen", int(-1)),
            ("typcategory", Datum::text("A")),
            ("typdelim", Datum::text(",")),
            ("typelem", oid(vector.element().oid())),
            ("typarray", oid(of_vectors)),
        ];
        add_known(&mut row, vector.oid(), SqlType::TEXT);
        rows.add(&row);
    }
    Ok(())
}

/// Adds a type that a user has made, and the type of its arrays.
fn add_user_type(source: &Source<'_>, base: BaseType, rows: &mut Rows<'_>) {
    let Some(user) = base.user_type() else { return };
    let (sql_type, schema) = (SqlType::from(base), oid(source.schema(&user.schema)));
    let function = |name: &str| oid(known().number_of(name).unwrap_or(0));
    let like = sql_type.without_domain();
    let mut row = vec![
        ("oid", oid(user.number)),
        ("typname", Datum::text(&user.name)),
        ("typnamespace", schema.clone()),
        ("typlen", int(sql_type.size())),
        ("typbyval", Datum::Bool(matches!(sql_type.size(), 1..=8))),
        ("typdelim", Datum::text(",")),
        ("typarray", oid(user.array)),
    ];
    match user.domain() {
        None => {
            row.extend([("typtype", Datum::text("e")), ("typcategory", Datum::text("E"))]);
            row.extend([("typinput", function("enum_in")), ("typoutput", function("enum_out"))]);
            row.extend([("typreceive", function("enum_recv")), ("typsend", function("enum_send"))]);
        }
        Some(domain) => {
            add_known(&mut row, like.oid(), SqlType::TEXT);
            row.extend([("typtype", Datum::text("d")), ("typcategory", Datum::text(category(like.base)))]);
            row.extend([("typinput", function("domain_in")), ("typreceive", function("domain_recv"))]);
            row.extend([("typbasetype", oid(domain.base.oid())), ("typtypmod", int(domain.base.declared_modifier()))]);
            row.push(("typnotnull", Datum::Bool(domain.is_not_null)));
            row.push(("typcollation", oid(texts::collation_of(like))));
            if let Some(default) = &domain.default {
                row.push(("typdefault", Datum::text(texts::default_text(default, domain.base))));
            }
        }
    }
    rows.add(&row);
    let mut row = vec![
        ("oid", oid(user.array)),
        ("typname", Datum::text(name_of_array(base))),
        ("typnamespace", schema),
        ("typlen", int(-1)),
        ("typcategory", Datum::text("A")),
        ("typdelim", Datum::text(",")),
        ("typelem", oid(user.number)),
    ];
    add_known(&mut row, 0, SqlType::array_of(BaseType::Text));
    rows.add(&row);
}

/// The labels of all enums.
fn labels(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for user in source.catalogue.user_types().values().filter_map(|base| base.user_type()) {
        for label in user.labels() {
            rows.add(&[
                ("oid", oid(oids::named(user.number, "label", &label.order.to_string()))),
                ("enumtypid", oid(user.number)),
                ("enumsortorder", Datum::Float((label.order as f32).into())),
                ("enumlabel", Datum::text(&label.text)),
            ]);
        }
    }
    Ok(())
}

/// The name of a type's arrays in the catalogue.
pub(super) fn name_of_array(base: BaseType) -> String {
    format!("_{}", base.catalogue_name())
}

fn access_methods(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, kind) in [(texts::HEAP, "heap", "t"), (texts::BTREE, "btree", "i")] {
        rows.add(&[("oid", oid(number)), ("amname", Datum::text(name)), ("amtype", Datum::text(kind))]);
    }
    Ok(())
}

fn collations(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, provider) in [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")] {
        let locale = if provider == "d" { Datum::Null } else { Datum::text(name) };
        rows.add(&[
            ("oid", oid(number)),
            ("collname", Datum::text(name)),
            ("collprovider", Datum::text(provider)),
            ("collcollate", locale.clone()),
            ("collctype", locale),
        ]);
    }
    Ok(())
}
