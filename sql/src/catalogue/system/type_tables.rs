//! Types: `pg_type`, `pg_am`, `pg_collation`; extensions, of which there is one.

use crate::catalogue::system::definition::{Rows, Written, int, oid};
use crate::catalogue::system::source::Source;
use crate::catalogue::system::texts;
use crate::catalogue::{oids, row_types};
use crate::error::Result;
use crate::functions::postgres::known;
use crate::types::datum::Datum;
use crate::types::{BaseType, RangeKind, SqlType};

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
        name: "pg_range",
        number: 3541,
        columns: "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid=0, rngsubopc oid, \
                  rngcanonical regproc=0, rngsubdiff regproc=0",
        rows: ranges,
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
        BaseType::Bit | BaseType::VarBit => "V",
        BaseType::Money => "N",
        BaseType::Unknown => "X",
        base if base.is_text() => "S",
        BaseType::Date | BaseType::Time | BaseType::TimeTz | BaseType::Timestamp | BaseType::TimestampTz => "D",
        BaseType::Interval => "T",
        BaseType::Inet | BaseType::Cidr => "I",
        BaseType::Range(_) | BaseType::Multirange(_) => "R",
        base if base.is_pseudo() => "P",
        _ => "U",
    }
}

/// What a type is, as `typtype` has it.
fn kind(base: BaseType) -> &'static str {
    match base {
        BaseType::Range(_) => "r",
        BaseType::Multirange(_) => "m",
        base if base.is_pseudo() || base == BaseType::Unknown => "p",
        _ => "b",
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
    for table in source.tables() {
        let numbers = row_types::numbers_of_table(table.number);
        add_row_type(source, rows, numbers, table.oid(), (&table.schema, &table.name));
    }
    for (number, view) in source.views() {
        let numbers = row_types::numbers_of_view(number);
        add_row_type(source, rows, numbers, oids::object(number), (&view.schema, &view.name));
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
                | BaseType::VarBit
        );
        let is_anyarray = base == BaseType::AnyElement;
        let mut row = vec![
            ("oid", oid(sql_type.oid())),
            ("typname", Datum::text(base.catalogue_name())),
            ("typlen", int(sql_type.size())),
            ("typbyval", Datum::Bool(matches!(sql_type.size(), 1..=8))),
            ("typtype", Datum::text(kind(base))),
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
    if let Some(composite) = user.composite() {
        row.push(("typrelid", oid(composite.relation)));
        add_row_functions(&mut row);
    }
    match user.domain() {
        None if user.composite().is_some() => {}
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
                row.push(("typdefault", Datum::text(texts::default_text(source, default, domain.base))));
            }
        }
    }
    rows.add(&row);
    add_array(rows, (user.number, user.array), &user.definition().name, schema);
}

/// Adds the type of arrays of a type that is not always there.
fn add_array(rows: &mut Rows<'_>, (element, number): (u32, u32), name: &str, schema: Datum) {
    let mut row = vec![
        ("oid", oid(number)),
        ("typname", Datum::text(format!("_{name}"))),
        ("typnamespace", schema),
        ("typlen", int(-1)),
        ("typcategory", Datum::text("A")),
        ("typdelim", Datum::text(",")),
        ("typelem", oid(element)),
    ];
    add_known(&mut row, 0, SqlType::array_of(BaseType::Text));
    rows.add(&row);
}

/// What all types of rows have.
fn add_row_functions(row: &mut Vec<(&'static str, Datum)>) {
    let function = |name: &str| oid(known().number_of(name).unwrap_or(0));
    row.extend([("typtype", Datum::text("c")), ("typcategory", Datum::text("C"))]);
    row.extend([("typinput", function("record_in")), ("typoutput", function("record_out"))]);
    row.extend([("typreceive", function("record_recv")), ("typsend", function("record_send"))]);
    row.extend([("typalign", Datum::text("d")), ("typstorage", Datum::text("x"))]);
}

/// Adds the types of the rows of a table or a view, and of arrays of these.
fn add_row_type(source: &Source<'_>, rows: &mut Rows<'_>, numbers: (u32, u32), relation: u32, place: (&str, &str)) {
    let (schema, name) = (oid(source.schema(place.0)), place.1);
    let mut row = vec![
        ("oid", oid(numbers.0)),
        ("typname", Datum::text(name)),
        ("typnamespace", schema.clone()),
        ("typlen", int(-1)),
        ("typdelim", Datum::text(",")),
        ("typarray", oid(numbers.1)),
        ("typrelid", oid(relation)),
    ];
    add_row_functions(&mut row);
    rows.add(&row);
    add_array(rows, numbers, name, schema);
}

/// The types of ranges, with the functions that PostgreSQL has for them.
fn ranges(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let function = |name: &str| oid(known().number_of(name).unwrap_or(0));
    for kind in RangeKind::ALL {
        let element = SqlType::from(kind.element()).oid();
        let class = known().classes.iter().find(|class| class[3].parse() == Ok(element));
        let (canonical, difference) = match kind {
            RangeKind::Int4 => ("int4range_canonical", "int4range_subdiff"),
            RangeKind::Int8 => ("int8range_canonical", "int8range_subdiff"),
            RangeKind::Numeric => ("-", "numrange_subdiff"),
            RangeKind::Date => ("daterange_canonical", "daterange_subdiff"),
            RangeKind::Timestamp => ("-", "tsrange_subdiff"),
            RangeKind::TimestampTz => ("-", "tstzrange_subdiff"),
        };
        rows.add(&[
            ("rngtypid", oid(SqlType::from(BaseType::Range(kind)).oid())),
            ("rngsubtype", oid(element)),
            ("rngmultitypid", oid(SqlType::from(BaseType::Multirange(kind)).oid())),
            ("rngsubopc", oid(class.and_then(|class| class[0].parse().ok()).unwrap_or(0))),
            ("rngcanonical", function(canonical)),
            ("rngsubdiff", function(difference)),
        ]);
    }
    Ok(())
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

/// Collations: their numbers, their names, and `d` of the default one, `c` of those of the system.
pub(super) const COLLATIONS: [(u32, &str, &str); 3] = [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];

fn collations(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, provider) in COLLATIONS {
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
