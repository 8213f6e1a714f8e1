//! Tables, indexes, sequences and views, and their columns: `pg_class`, `pg_attribute`, `pg_index` and their like.

use std::sync::Arc;

use quipu_rows::{Deferral, Identity};

use crate::bind::names::CheckOption;
use crate::catalogue::names_in_rows::is_temporary;
use crate::catalogue::readers::Reader;
use crate::catalogue::system::definition::{Rows, Written, int, numbers, oid, text_or_null};
use crate::catalogue::system::expressions;
use crate::catalogue::system::source::{Index, OWNER, Source, number_of, visible};
use crate::catalogue::system::{operators, routines, texts};
use crate::catalogue::{Commented, ObjectNumber, Relation, Sequence, Table, oids, roles, row_types};
use crate::error::Result;
use crate::functions::postgres::known;
use crate::types::datum::Datum;
use crate::types::user::{Composite, UserType};
use crate::types::{BaseType, SqlType};

/// The number of `pg_class`, as `pg_depend` and `pg_description` name the kind of an object.
pub(super) const PG_CLASS: u32 = 1259;
/// The number of `pg_type`.
const PG_TYPE: u32 = 1247;
/// The number of `pg_attrdef`.
pub(super) const PG_ATTRDEF: u32 = 2604;
/// The number of `pg_constraint`.
pub(super) const PG_CONSTRAINT: u32 = 2606;
/// The number of `pg_rewrite`.
const PG_REWRITE: u32 = 2618;
/// The number of `pg_namespace`.
pub(super) const PG_NAMESPACE: u32 = 2615;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "pg_namespace",
        number: PG_NAMESPACE,
        columns: "oid oid, nspname name, nspowner oid=10, nspacl text[]",
        rows: namespaces,
    },
    Written {
        name: "pg_class",
        number: PG_CLASS,
        columns: "oid oid, relname name, relnamespace oid, reltype oid=0, reloftype oid=0, relowner oid=10, \
                  relam oid=0, relfilenode oid=0, reltablespace oid=0, relpages int4=0, reltuples float4=0, \
                  relallvisible int4=0, reltoastrelid oid=0, relhasindex bool=false, relisshared bool=false, \
                  relpersistence char=p, relkind char=r, relnatts int2=0, relchecks int2=0, relhasrules bool=false, \
                  relhastriggers bool=false, relhassubclass bool=false, relrowsecurity bool=false, \
                  relforcerowsecurity bool=false, relispopulated bool=true, relreplident char=d, \
                  relispartition bool=false, relrewrite oid=0, relfrozenxid xid=0, relminmxid xid=0, relacl text[], \
                  reloptions text[], relpartbound text",
        rows: classes,
    },
    Written {
        name: "pg_attribute",
        number: 1249,
        columns: "attrelid oid, attname name, atttypid oid, attstattarget int4=-1, attlen int2=-1, attnum int2, \
                  attndims int4=0, attcacheoff int4=-1, atttypmod int4=-1, attbyval bool=false, attalign char=i, \
                  attstorage char=p, attcompression char=, attnotnull bool=false, atthasdef bool=false, \
                  atthasmissing bool=false, attidentity char=, attgenerated char=, attisdropped bool=false, \
                  attislocal bool=true, attinhcount int4=0, attcollation oid=0, attacl text[], attoptions text[], \
                  attfdwoptions text[], attmissingval text",
        rows: attributes,
    },
    Written {
        name: "pg_attrdef",
        number: PG_ATTRDEF,
        columns: "oid oid, adrelid oid, adnum int2, adbin text",
        rows: defaults,
    },
    Written {
        name: "pg_index",
        number: 2610,
        columns: "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, \
                  indnullsnotdistinct bool=false, indisprimary bool, indisexclusion bool=false, \
                  indimmediate bool=true, indisclustered bool=false, indisvalid bool=true, indcheckxmin bool=false, \
                  indisready bool=true, indislive bool=true, indisreplident bool=false, indkey int2vector, \
                  indcollation oidvector, indclass oidvector, indoption int2vector, indexprs text, indpred text",
        rows: indexes,
    },
    Written {
        name: "pg_sequence",
        number: 2224,
        columns: "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, \
                  seqcache int8, seqcycle bool",
        rows: sequences,
    },
    Written {
        name: "pg_depend",
        number: 2608,
        columns: "classid oid, objid oid, objsubid int4=0, refclassid oid, refobjid oid, refobjsubid int4=0, \
                  deptype char",
        rows: dependencies,
    },
    Written {
        name: "pg_rewrite",
        number: PG_REWRITE,
        columns: "oid oid, rulename name=_RETURN, ev_class oid, ev_type char=1, ev_enabled char=O, \
                  is_instead bool=true, ev_qual text=<>, ev_action text=<>",
        rows: rules,
    },
    Written {
        name: "pg_description",
        number: 2609,
        columns: "objoid oid, classoid oid, objsubid int4=0, description text",
        rows: descriptions,
    },
];

fn namespaces(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let own = source.catalogue.schemas();
    for name in ["pg_catalog", "information_schema"].into_iter().chain(own) {
        rows.add(&[("oid", oid(source.schema(name))), ("nspname", Datum::text(name))]);
    }
    Ok(())
}

/// Whether what is in a schema is temporary, as `pg_class` tells it.
fn persistence(schema: &str) -> Datum {
    Datum::text(if is_temporary(schema) { "t" } else { "p" })
}

/// What a table or an index says in WITH: the column whose sums it keeps, and whether its rows are compressed.
fn options_text((sum, is_compressed): (Option<&str>, bool)) -> Datum {
    let compressed = is_compressed.then(|| "compressed=true".to_owned());
    let options: Vec<String> = compressed.into_iter().chain(sum.map(|column| format!("sum={column}"))).collect();
    if options.is_empty() { Datum::Null } else { texts::array_of_texts(options) }
}

fn classes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for definition in source.system.all() {
        let is_view = definition.schema() == "information_schema";
        rows.add(&[
            ("oid", oid(definition.number)),
            ("relname", Datum::text(definition.bare_name())),
            ("relnamespace", oid(source.schema(definition.schema()))),
            ("relam", oid(if is_view { 0 } else { texts::HEAP })),
            ("relkind", Datum::text(if is_view { "v" } else { "r" })),
            ("relnatts", int(definition.columns.len())),
        ]);
    }
    for table in source.tables() {
        let count = source.count(table, None)?;
        let options = (table.declared.sum.as_deref(), table.declared.compressed);
        rows.add(&[
            ("oid", oid(table.oid())),
            ("relname", Datum::text(&table.name)),
            ("relnamespace", oid(source.schema(&table.schema))),
            ("reltype", oid(row_types::numbers_of_table(table.number).0)),
            ("relam", oid(texts::HEAP)),
            ("relfilenode", oid(table.oid())),
            ("reltuples", Datum::Float((count as f32).into())),
            ("relhasindex", Datum::Bool(table.has_primary_key() || !table.indexes.is_empty())),
            ("relkind", Datum::text(if table.materialized.is_some() { "m" } else { "r" })),
            ("relispopulated", Datum::Bool(table.materialized.as_ref().is_none_or(|known| known.is_populated))),
            ("relhasrules", Datum::Bool(table.materialized.is_some())),
            ("relpersistence", persistence(&table.schema)),
            ("relnatts", int(visible(table).count())),
            ("relchecks", int(table.declared.checks.len())),
            // Foreign keys are triggers there: psql looks for what refers to a table only if it has some.
            ("relhastriggers", Datum::Bool(!table.refers_to.is_empty() || !table.referred_by.is_empty())),
            ("reloptions", options_text(options)),
        ]);
    }
    for index in source.indexes() {
        let count = if index.is_ready { source.count(index.table, index.rows_name)? } else { 0 };
        rows.add(&[
            ("oid", oid(index.oid)),
            ("relname", Datum::text(&index.name)),
            ("relnamespace", oid(source.schema(&index.table.schema))),
            ("relam", oid(texts::BTREE)),
            ("relfilenode", oid(index.oid)),
            ("reltuples", Datum::Float((count as f32).into())),
            ("relkind", Datum::text("i")),
            ("relpersistence", persistence(&index.table.schema)),
            ("relreplident", Datum::text("n")),
            ("relnatts", int(index.elements.len() + index.includes.len())),
            ("reloptions", options_text((index.sum, false))),
        ]);
    }
    for (&number, sequence) in source.catalogue.sequences() {
        rows.add(&[
            ("oid", oid(oids::object(number))),
            ("relname", Datum::text(&sequence.name)),
            ("relnamespace", oid(source.schema(&sequence.schema))),
            ("relkind", Datum::text("S")),
            ("relpersistence", persistence(&sequence.schema)),
            ("reltuples", Datum::Float(1.0)),
            ("relreplident", Datum::text("n")),
            ("relnatts", int(3)),
        ]);
    }
    for (number, view) in source.views() {
        rows.add(&[
            ("oid", oid(oids::object(number))),
            ("relname", Datum::text(&view.name)),
            ("relnamespace", oid(source.schema(&view.schema))),
            ("reltype", oid(row_types::numbers_of_view(number).0)),
            ("relkind", Datum::text("v")),
            ("relpersistence", persistence(&view.schema)),
            ("relhasrules", Datum::Bool(true)),
            ("relreplident", Datum::text("n")),
            ("relnatts", int(source.columns_of_view(view).len())),
            ("reloptions", view.check.map_or(Datum::Null, options_of_view)),
        ]);
    }
    for (user, composite) in composites(source) {
        rows.add(&[
            ("oid", oid(composite.relation)),
            ("relname", Datum::text(&user.definition().name)),
            ("relnamespace", oid(source.schema(&user.schema))),
            ("reltype", oid(user.number)),
            ("relkind", Datum::text("c")),
            ("relreplident", Datum::text("n")),
            ("relnatts", int(composite.types.len())),
        ]);
    }
    Ok(())
}

fn options_of_view(check: CheckOption) -> Datum {
    texts::array_of_texts([format!("check_option={}", check.name())])
}

/// The composite types that users have made.
fn composites<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (UserType, &'static Composite)> + 's {
    let users = source.catalogue.user_types().values().filter_map(|base| base.user_type());
    users.filter_map(|user| Some((user, user.composite()?)))
}

/// Where values of a type go that are too long, as `pg_type` says of it.
fn storage_of(sql_type: SqlType) -> &'static str {
    match sql_type.without_domain().base {
        _ if sql_type.size() >= 0 => "p",
        BaseType::Numeric | BaseType::Inet | BaseType::Cidr if !sql_type.is_array => "m",
        _ => "x",
    }
}

/// What all rows of `pg_attribute` say of a type.
fn attribute(relation: u32, name: &str, number: i64, sql_type: SqlType) -> Vec<(&'static str, Datum)> {
    let is_text = sql_type.base.is_text();
    vec![
        ("attrelid", oid(relation)),
        ("attname", Datum::text(name)),
        ("atttypid", oid(sql_type.oid())),
        ("attlen", int(sql_type.size())),
        ("attnum", int(number)),
        ("attndims", int(u8::from(sql_type.is_array))),
        ("atttypmod", int(sql_type.declared_modifier())),
        ("attbyval", Datum::Bool(matches!(sql_type.size(), 1..=8))),
        ("attstorage", Datum::text(storage_of(sql_type))),
        ("attcollation", oid(if is_text { texts::collation_of(sql_type) } else { 0 })),
    ]
}

fn attributes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for definition in source.system.all() {
        for (place, (name, sql_type)) in definition.columns.iter().enumerate() {
            rows.add(&attribute(definition.number, name, int_of(place) + 1, *sql_type));
        }
    }
    for table in source.tables() {
        for (place, column) in visible(table) {
            let mut row = attribute(table.oid(), &column.name, number_of(table, place), table.columns[place].sql_type);
            row.push(("attnotnull", Datum::Bool(column.not_null || is_of_key(table, place))));
            if let Some(name) = &column.sql_collation {
                row.push(("attcollation", oid(texts::collation_named(name))));
            }
            row.push(("atthasdef", Datum::Bool(texts::default_of(source, table, place).is_some())));
            let identity = match table.identity_of(place).filter(|_| source.serial_sequence(table, place).is_none()) {
                Some(Identity::Always) => "a",
                Some(Identity::ByDefault) => "d",
                None => "",
            };
            row.push(("attidentity", Datum::text(identity)));
            row.push(("attgenerated", Datum::text(if column.generated.is_some() { "s" } else { "" })));
            rows.add(&row);
        }
    }
    for index in source.indexes() {
        add_attributes_of_index(source, &index, rows);
    }
    for &number in source.catalogue.sequences().keys() {
        let columns = [("last_value", SqlType::INT8), ("log_cnt", SqlType::INT8), ("is_called", SqlType::BOOL)];
        for (place, (name, sql_type)) in columns.into_iter().enumerate() {
            let mut row = attribute(oids::object(number), name, int_of(place) + 1, sql_type);
            row.push(("attnotnull", Datum::Bool(true)));
            rows.add(&row);
        }
    }
    for (_, composite) in composites(source) {
        for (place, (name, sql_type)) in composite.names.iter().zip(&composite.types).enumerate() {
            rows.add(&attribute(composite.relation, name, int_of(place) + 1, *sql_type));
        }
    }
    for (number, view) in source.views() {
        for (place, (name, sql_type)) in source.columns_of_view(view).into_iter().enumerate() {
            rows.add(&attribute(oids::object(number), &name, int_of(place) + 1, sql_type));
        }
    }
    Ok(())
}

fn int_of(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

/// Whether a column belongs to the primary key, so that it is never NULL.
pub(super) fn is_of_key(table: &Table, place: usize) -> bool {
    let name = &table.declared.columns[place].name;
    table.declared.key.iter().any(|key| key.split_whitespace().next().is_some_and(|key| key.trim_matches('"') == name))
}

fn add_attributes_of_index(source: &Source<'_>, index: &Index<'_>, rows: &mut Rows<'_>) {
    let own = index.elements.iter().map(|element| (element.place, element.text.as_str()));
    let includes = index.includes.iter().map(|&place| (Some(place), ""));
    for (at, (place, text)) in own.chain(includes).enumerate() {
        let (name, sql_type) = match place {
            Some(place) => (index.table.declared.columns[place].name.clone(), index.table.columns[place].sql_type),
            None => (texts::name_of_expression(text), source.type_of_expression(index.table, text)),
        };
        rows.add(&attribute(index.oid, &name, int_of(at) + 1, sql_type));
    }
}

fn defaults(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables() {
        for (place, column) in visible(table) {
            let Some(default) = texts::default_of(source, table, place) else { continue };
            rows.add(&[
                ("oid", oid(oids::named(table.number, "default", &column.name))),
                ("adrelid", oid(table.oid())),
                ("adnum", int(number_of(table, place))),
                ("adbin", Datum::text(default)),
            ]);
        }
    }
    Ok(())
}

fn indexes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for index in source.indexes() {
        let table = index.table;
        let places = index.elements.iter().map(|element| element.place);
        let all = places.chain(index.includes.iter().map(|&place| Some(place)));
        let keys: Vec<i64> = all.map(|place| place.map_or(0, |place| number_of(table, place))).collect();
        let types: Vec<SqlType> = index
            .elements
            .iter()
            .map(|element| match element.place {
                Some(place) => table.columns[place].sql_type,
                None => source.type_of_expression(table, &element.text),
            })
            .collect();
        let expressions: Vec<&str> =
            index.elements.iter().filter(|element| element.place.is_none()).map(|element| &*element.text).collect();
        let elements = || index.elements.iter().zip(&types);
        let collations = elements().map(|(element, sql_type)| match &element.order.collation {
            Some(name) => texts::collation_named(name).into(),
            None => collation_of(table, element.place, *sql_type),
        });
        let classes = elements().map(|(element, sql_type)| {
            let declared = element.order.class.as_deref().and_then(texts::operator_class_named);
            i64::from(declared.unwrap_or_else(|| texts::operator_class_of(sql_type.base)))
        });
        // Bit 1: greater values first; bit 2: NULL first.
        let options = index.elements.iter().map(|element| {
            let nulls_first = element.order.nulls_first.unwrap_or(element.is_descending);
            i64::from(element.is_descending) + 2 * i64::from(nulls_first)
        });
        let predicate = index.predicate.as_deref().map(|predicate| expressions::written(source, predicate, false));
        rows.add(&[
            ("indexrelid", oid(index.oid)),
            ("indrelid", oid(table.oid())),
            ("indnatts", int(keys.len())),
            ("indnkeyatts", int(index.elements.len())),
            ("indisunique", Datum::Bool(index.is_unique)),
            ("indnullsnotdistinct", Datum::Bool(index.nulls_equal)),
            ("indisprimary", Datum::Bool(index.is_primary)),
            ("indimmediate", Datum::Bool(index.deferral == Deferral::Never)),
            ("indisvalid", Datum::Bool(index.is_ready)),
            ("indkey", numbers(keys, BaseType::Int2)),
            ("indcollation", numbers(collations, BaseType::Oid)),
            ("indclass", numbers(classes, BaseType::Oid)),
            ("indoption", numbers(options, BaseType::Int2)),
            ("indexprs", text_or_null((!expressions.is_empty()).then(|| expressions.join(", ")))),
            ("indpred", text_or_null(predicate.as_deref())),
        ]);
    }
    Ok(())
}

/// The number of the collation of a column, or of an expression.
fn collation_of(table: &Table, place: Option<usize>, sql_type: SqlType) -> i64 {
    let declared = place.and_then(|place| table.declared.columns[place].sql_collation.as_deref());
    declared.map_or_else(|| texts::collation_of(sql_type), texts::collation_named).into()
}

fn sequences(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (&number, sequence) in source.catalogue.sequences() {
        rows.add(&[
            ("seqrelid", oid(oids::object(number))),
            ("seqtypid", oid(sequence.sql_type().oid())),
            ("seqstart", Datum::Int(sequence.start)),
            ("seqincrement", Datum::Int(sequence.increment)),
            ("seqmax", Datum::Int(sequence.max)),
            ("seqmin", Datum::Int(sequence.min)),
            ("seqcache", Datum::Int(sequence.cache)),
            ("seqcycle", Datum::Bool(sequence.cycles)),
        ]);
    }
    Ok(())
}

fn dependencies(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (&number, sequence) in source.catalogue.sequences() {
        add_dependency_of_sequence(source, number, sequence, rows);
    }
    for table in source.tables() {
        for (place, column) in visible(table) {
            if texts::default_of(source, table, place).is_none() {
                continue;
            }
            let default = oids::named(table.number, "default", &column.name);
            if let Some((schema, name)) = source.sequence_of_default(table, place)
                && let Some(Relation::Sequence(sequence, _)) = source.catalogue.relation(Some(&schema), &name, &[])
            {
                rows.add(&[
                    ("classid", oid(PG_ATTRDEF)),
                    ("objid", oid(default)),
                    ("refclassid", oid(PG_CLASS)),
                    ("refobjid", oid(oids::object(*sequence))),
                    ("deptype", Datum::text("n")),
                ]);
            }
            rows.add(&[
                ("classid", oid(PG_ATTRDEF)),
                ("objid", oid(default)),
                ("refclassid", oid(PG_CLASS)),
                ("refobjid", oid(table.oid())),
                ("refobjsubid", int(number_of(table, place))),
                ("deptype", Datum::text("a")),
            ]);
        }
    }
    add_dependencies_of_readers(source, rows);
    for index in source.indexes() {
        let constraint = oids::named(index.table.number, "constraint", &index.name);
        let (class, object, kind) =
            if index.is_constraint { (PG_CONSTRAINT, constraint, "i") } else { (PG_CLASS, index.table.oid(), "a") };
        rows.add(&[
            ("classid", oid(PG_CLASS)),
            ("objid", oid(index.oid)),
            ("refclassid", oid(class)),
            ("refobjid", oid(object)),
            ("deptype", Datum::text(kind)),
        ]);
    }
    Ok(())
}

/// Objects that read others by a query, as PostgreSQL has them: a rule for each.
fn readers(source: &Source<'_>) -> Vec<(u32, Reader)> {
    let views = source.catalogue.views().iter();
    let views = views.map(|(&number, view)| (oids::object(number), Reader::View(number, Arc::clone(view))));
    let tables = source.catalogue.tables().values().filter(|table| table.materialized.is_some());
    views.chain(tables.map(|table| (table.oid(), Reader::Materialized(Arc::clone(table))))).collect()
}

fn rule_of(reader: u32) -> u32 {
    oids::named(reader, "rule", "_RETURN")
}

fn rules(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (reader, _) in readers(source) {
        rows.add(&[("oid", oid(rule_of(reader))), ("ev_class", oid(reader))]);
    }
    Ok(())
}

/// What views read.
fn add_dependencies_of_readers(source: &Source<'_>, rows: &mut Rows<'_>) {
    let mut add = |rule: u32, relation: u32, kind: &str| {
        rows.add(&[
            ("classid", oid(PG_REWRITE)),
            ("objid", oid(rule)),
            ("refclassid", oid(PG_CLASS)),
            ("refobjid", oid(relation)),
            ("deptype", Datum::text(kind)),
        ]);
    };
    for (own, reader) in readers(source) {
        add(rule_of(own), own, "i");
        for (schema, name) in reader.read() {
            if let Some(relation) = source.catalogue.relation(Some(schema), name, &[]) {
                add(rule_of(own), relation.oid(), "n");
            }
        }
    }
}

fn add_dependency_of_sequence(source: &Source<'_>, number: ObjectNumber, sequence: &Sequence, rows: &mut Rows<'_>) {
    let Some(owner) = sequence.owner else { return };
    let Some(table) = source.catalogue.tables().get(&owner.table) else { return };
    rows.add(&[
        ("classid", oid(PG_CLASS)),
        ("objid", oid(oids::object(number))),
        ("refclassid", oid(PG_CLASS)),
        ("refobjid", oid(table.oid())),
        ("refobjsubid", int(owner.column)),
        ("deptype", Datum::text(if sequence.is_of_identity() { "i" } else { "a" })),
    ]);
}

fn descriptions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut add = |class: u32, object: u32, column: i64, text: &str| {
        rows.add(&[
            ("objoid", oid(object)),
            ("classoid", oid(class)),
            ("objsubid", int(column)),
            ("description", Datum::text(text)),
        ]);
    };
    let comment = |on: Commented| source.catalogue.comment(&on);
    for table in source.tables() {
        if !table.declared.comment.is_empty() {
            add(PG_CLASS, table.oid(), 0, &table.declared.comment);
        }
        for (place, _) in visible(table) {
            let number = table.columns[place].number;
            if let Some(text) = comment(Commented::Column(table.number, number)) {
                add(PG_CLASS, table.oid(), number.into(), text);
            }
        }
        for &(index, _) in &table.indexes {
            if let Some(text) = comment(Commented::Index(index)) {
                add(PG_CLASS, oids::index(index), 0, text);
            }
        }
        for constraint in super::constraints::of_table(source, table) {
            if let Some(text) = comment(Commented::Constraint(table.number, constraint.name.clone())) {
                add(PG_CONSTRAINT, constraint.oid, 0, text);
            }
        }
    }
    for &number in source.catalogue.types().keys() {
        if let Some(text) = comment(Commented::Object(number)) {
            add(PG_TYPE, oids::object(number), 0, text);
        }
    }
    for (number, text) in routines::all().iter().filter_map(|routine| Some((routine.number, routine.description()?))) {
        add(routines::PG_PROC, number, 0, text);
    }
    for (number, sql_type) in &known().types {
        if !sql_type.description.is_empty() {
            add(PG_TYPE, *number, 0, sql_type.description);
        }
    }
    for operator in operators::operators() {
        if let Some(text) = operator.description() {
            add(operators::PG_OPERATOR, operator.number, 0, text);
        }
    }
    for (number, view) in source.views() {
        if let Some(text) = comment(Commented::Object(number)) {
            add(PG_CLASS, oids::object(number), 0, text);
        }
        for (place, (name, _)) in source.columns_of_view(view).into_iter().enumerate() {
            if let Some(text) = comment(Commented::ViewColumn(number, name)) {
                add(PG_CLASS, oids::object(number), int_of(place) + 1, text);
            }
        }
    }
    for &number in source.catalogue.sequences().keys() {
        if let Some(text) = comment(Commented::Object(number)) {
            add(PG_CLASS, oids::object(number), 0, text);
        }
    }
    for name in source.catalogue.schemas() {
        let on = source.catalogue.schema_number(name).map_or(Commented::Public, Commented::Object);
        let standard = (name == "public").then_some("standard public schema");
        if let Some(text) = comment(on).or(standard) {
            add(PG_NAMESPACE, source.schema(name), 0, text);
        }
    }
    Ok(())
}

/// The name of a role; none if there is none of the number.
pub(super) fn role_name(source: &Source<'_>, number: u32) -> Option<String> {
    if number == OWNER {
        return Some(source.identity.user.to_string());
    }
    let users = source.shared.users(source.identity);
    users.known.into_iter().map(|(name, _)| name).find(|name| roles::number(name) == number)
}
