//! Types, operators and functions: `pg_type`, `pg_am`, `pg_opclass`, `pg_collation`, `pg_proc` and their like.

use std::collections::BTreeSet;

use crate::catalogue::oids::PG_CATALOG;
use crate::catalogue::system::definition::{Rows, Written, int, numbers, oid};
use crate::catalogue::system::source::Source;
use crate::catalogue::system::texts;
use crate::error::Result;
use crate::functions::{Function, functions};
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// The first number of a function.
const FIRST_FUNCTION: u32 = 14_000;

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
        name: "pg_am",
        number: 2601,
        columns: "oid oid, amname name, amhandler regproc=0, amtype char",
        rows: access_methods,
    },
    Written {
        name: "pg_opclass",
        number: 2616,
        columns: "oid oid, opcmethod oid=403, opcname name, opcnamespace oid=11, opcowner oid=10, opcfamily oid=0, \
                  opcintype oid, opcdefault bool=true, opckeytype oid=0",
        rows: operator_classes,
    },
    Written {
        name: "pg_collation",
        number: 3456,
        columns: "oid oid, collname name, collnamespace oid=11, collowner oid=10, collprovider char, \
                  collisdeterministic bool=true, collencoding int4=-1, collcollate text, collctype text, \
                  colliculocale text, collversion text",
        rows: collations,
    },
    Written {
        name: "pg_proc",
        number: 1255,
        columns: "oid oid, proname name, pronamespace oid=11, proowner oid=10, prolang oid=12, procost float4=1, \
                  prorows float4=0, provariadic oid=0, prosupport regproc=0, prokind char=f, prosecdef bool=false, \
                  proleakproof bool=false, proisstrict bool=true, proretset bool=false, provolatile char=i, \
                  proparallel char=s, pronargs int2, pronargdefaults int2=0, prorettype oid, proargtypes oidvector, \
                  proallargtypes oid[], proargmodes char[], proargnames text[], proargdefaults text, \
                  protrftypes oid[], prosrc text, probin text, prosqlbody text, proconfig text[], proacl text[]",
        rows: routines,
    },
    Written {
        name: "pg_language",
        number: 2612,
        columns: "oid oid, lanname name, lanowner oid=10, lanispl bool=false, lanpltrusted bool=true, \
                  lanplcallfoid oid=0, laninline oid=0, lanvalidator oid=0, lanacl text[]",
        rows: |_, rows| {
            rows.add(&[("oid", oid(12)), ("lanname", Datum::text("internal"))]);
            Ok(())
        },
    },
];

fn category(base: BaseType) -> &'static str {
    match base {
        BaseType::Bool => "B",
        base if base.is_number() || base.is_oid() => "N",
        BaseType::SingleChar => "Z",
        BaseType::Unknown => "X",
        base if base.is_text() => "S",
        BaseType::Date | BaseType::Time | BaseType::Timestamp | BaseType::TimestampTz => "D",
        BaseType::Interval => "T",
        base if base.is_pseudo() => "P",
        _ => "U",
    }
}

/// The number of the function that reads a type: such numbers have no rows in `pg_proc`, but names.
fn reader(number: u32) -> Datum {
    oid(READERS + number)
}

/// Added to the number of a type for the function that reads it.
const READERS: u32 = 1 << 24;

/// The number of the function of this name that reads a type.
pub(super) fn reader_named(name: &str) -> Option<u32> {
    let types = BaseType::all().flat_map(|base| [SqlType::from(base), SqlType::array_of(base)]);
    let numbers = types.map(|sql_type| READERS + sql_type.oid());
    numbers.into_iter().find(|number| name_of_reader(*number).is_some_and(|known| known == name))
}

/// The name of the function that reads a type.
pub(super) fn name_of_reader(number: u32) -> Option<String> {
    let sql_type = SqlType::of_oid(number.checked_sub(READERS)?)?;
    Some(match sql_type.base {
        _ if sql_type.is_vector() => format!("{sql_type}in"),
        _ if sql_type.is_array => "array_in".to_owned(),
        base @ (BaseType::Date
        | BaseType::Time
        | BaseType::Timestamp
        | BaseType::TimestampTz
        | BaseType::Interval
        | BaseType::Uuid
        | BaseType::Json
        | BaseType::Jsonb
        | BaseType::Numeric
        | BaseType::Record) => format!("{}_in", base.catalogue_name()),
        base => format!("{}in", base.catalogue_name()),
    })
}

fn types(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
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
        );
        let is_anyarray = base == BaseType::AnyElement;
        rows.add(&[
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
            ("typinput", reader(sql_type.oid())),
            ("typstorage", Datum::text(if sql_type.size() < 0 { "x" } else { "p" })),
            ("typcollation", oid(texts::collation_of(sql_type))),
        ]);
        if array.oid() == 0 {
            continue;
        }
        rows.add(&[
            ("oid", oid(array.oid())),
            ("typname", Datum::text(if is_anyarray { "anyarray".to_owned() } else { name_of_array(base) })),
            ("typlen", int(-1)),
            ("typtype", Datum::text(if base.is_pseudo() { "p" } else { "b" })),
            ("typcategory", Datum::text(if base.is_pseudo() { "P" } else { "A" })),
            ("typdelim", Datum::text(",")),
            ("typelem", oid(if is_anyarray { 0 } else { sql_type.oid() })),
            // One function reads all arrays: the first of them that has its name.
            ("typinput", oid(reader_named("array_in").unwrap_or_default())),
            ("typstorage", Datum::text("x")),
            ("typcollation", oid(texts::collation_of(sql_type))),
        ]);
    }
    for (vector, of_vectors) in [(SqlType::INT2_VECTOR, 1006), (SqlType::OID_VECTOR, 1013)] {
        rows.add(&[
            ("oid", oid(vector.oid())),
            ("typname", Datum::text(vector.to_string())),
            ("typlen", int(-1)),
            ("typcategory", Datum::text("A")),
            ("typdelim", Datum::text(",")),
            ("typelem", oid(vector.element().oid())),
            ("typarray", oid(of_vectors)),
            ("typinput", reader(vector.oid())),
        ]);
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

fn operator_classes(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for base in BaseType::all().filter(|base| !base.is_pseudo() && *base != BaseType::Unknown) {
        let number = texts::operator_class_of(base);
        if seen.insert(number) {
            let name = format!("{}_ops", base.catalogue_name());
            let sql_type = SqlType::from(base);
            rows.add(&[("oid", oid(number)), ("opcname", Datum::text(name)), ("opcintype", oid(sql_type.oid()))]);
        }
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

/// The functions that have names, with their numbers.
pub(super) fn numbered() -> impl Iterator<Item = (u32, &'static Function)> {
    let named = functions().iter().filter(|known| known.name.starts_with(|first: char| first.is_ascii_lowercase()));
    named.enumerate().map(|(place, function)| (FIRST_FUNCTION + place as u32, function))
}

fn routines(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, function) in numbered() {
        let arguments = function.arguments.iter().map(|argument| i64::from(argument.oid()));
        let volatility = match function.volatility {
            crate::functions::Volatility::Immutable => "i",
            crate::functions::Volatility::Stable => "s",
            crate::functions::Volatility::Volatile => "v",
        };
        rows.add(&[
            ("oid", oid(number)),
            ("proname", Datum::text(function.name)),
            ("pronamespace", oid(PG_CATALOG)),
            ("proisstrict", Datum::Bool(function.is_strict)),
            ("provolatile", Datum::text(volatility)),
            ("pronargs", int(function.arguments.len())),
            ("prorettype", oid(function.returns.oid())),
            ("proargtypes", numbers(arguments, BaseType::Oid)),
            ("prosrc", Datum::text(function.name)),
        ]);
    }
    Ok(())
}
