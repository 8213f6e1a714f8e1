//! `information_schema`: what the standard says of tables, columns and constraints.

use crate::catalogue::names_in_rows::is_temporary;
use crate::catalogue::system::constraints::{self, Constraint};
use crate::catalogue::system::definition::{Rows, Written, int, text_or_null, yes_or_no};
use crate::catalogue::system::relations::is_of_key;
use crate::catalogue::system::source::{Source, number_of, visible};
use crate::catalogue::system::{expressions, texts};
use crate::catalogue::{Table, oids};
use crate::error::Result;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};
use quipu_rows::{Deferral, Identity};
use std::sync::Arc;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "information_schema.schemata",
        number: 13_101,
        columns: "catalog_name name, schema_name name, schema_owner name, default_character_set_catalog name, \
                  default_character_set_schema name, default_character_set_name name, sql_path text",
        rows: |source, rows| {
            for name in ["pg_catalog", "information_schema"].into_iter().chain(source.catalogue.schemas()) {
                rows.add(&[
                    ("catalog_name", database(source)),
                    ("schema_name", Datum::text(name)),
                    ("schema_owner", Datum::text(&source.identity.user)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "information_schema.tables",
        number: 13_102,
        columns: "table_catalog name, table_schema name, table_name name, table_type text, \
                  self_referencing_column_name name, reference_generation text, user_defined_type_catalog name, \
                  user_defined_type_schema name, user_defined_type_name name, is_insertable_into text=YES, \
                  is_typed text=NO, commit_action text",
        rows: tables,
    },
    Written {
        name: "information_schema.columns",
        number: 13_103,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4, \
                  column_default text, is_nullable text, data_type text, character_maximum_length int4, \
                  character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, \
                  numeric_scale int4, datetime_precision int4, interval_type text, interval_precision int4, \
                  character_set_catalog name, character_set_schema name, character_set_name name, \
                  collation_catalog name, collation_schema name, collation_name name, domain_catalog name, \
                  domain_schema name, domain_name name, udt_catalog name, udt_schema name=pg_catalog, udt_name name, \
                  scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, \
                  dtd_identifier name, is_self_referencing text=NO, is_identity text=NO, identity_generation text, \
                  identity_start text, identity_increment text, identity_maximum text, identity_minimum text, \
                  identity_cycle text, is_generated text=NEVER, generation_expression text, is_updatable text=YES",
        rows: columns,
    },
    Written {
        name: "information_schema.views",
        number: 13_104,
        columns: "table_catalog name, table_schema name, table_name name, view_definition text, \
                  check_option text=NONE, is_updatable text=NO, is_insertable_into text=NO, \
                  is_trigger_updatable text=NO, is_trigger_deletable text=NO, is_trigger_insertable_into text=NO",
        rows: |source, rows| {
            for (_, view) in source.views() {
                let columns = source.updatable_columns(view);
                let is_written = columns.is_some_and(|columns| columns.contains(&true));
                let check = view.check.map_or_else(|| "NONE".to_owned(), |check| check.name().to_uppercase());
                rows.add(&[
                    ("table_catalog", database(source)),
                    ("table_schema", Datum::text(&view.schema)),
                    ("table_name", Datum::text(&view.name)),
                    ("view_definition", Datum::text(source.text_of_view(&view.query, &view.search_path))),
                    ("check_option", Datum::text(check)),
                    ("is_updatable", yes_or_no(is_written)),
                    ("is_insertable_into", yes_or_no(is_written)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "information_schema.sequences",
        number: 13_105,
        columns: "sequence_catalog name, sequence_schema name, sequence_name name, data_type text, \
                  numeric_precision int4=64, numeric_precision_radix int4=2, numeric_scale int4=0, start_value text, \
                  minimum_value text, maximum_value text, increment text, cycle_option text",
        rows: sequences,
    },
    Written {
        name: "information_schema.table_constraints",
        number: 13_106,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
                  table_schema name, table_name name, constraint_type text, is_deferrable text, \
                  initially_deferred text, enforced text=YES, nulls_distinct text",
        rows: table_constraints,
    },
    Written {
        name: "information_schema.key_column_usage",
        number: 13_107,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
                  table_schema name, table_name name, column_name name, ordinal_position int4, \
                  position_in_unique_constraint int4",
        rows: key_columns,
    },
    Written {
        name: "information_schema.referential_constraints",
        number: 13_108,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
                  unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, \
                  match_option text=NONE, update_rule text, delete_rule text",
        rows: references,
    },
    Written {
        name: "information_schema.constraint_column_usage",
        number: 13_109,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, \
                  constraint_catalog name, constraint_schema name, constraint_name name",
        rows: constraint_columns,
    },
    Written {
        name: "information_schema.domains",
        number: 13_118,
        columns: "domain_catalog name, domain_schema name, domain_name name, data_type text, \
                  character_maximum_length int4, character_octet_length int4, numeric_precision int4, \
                  numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, domain_default text, \
                  udt_catalog name, udt_schema name, udt_name name, dtd_identifier name=1",
        rows: domains,
    },
    Written {
        name: "information_schema.domain_constraints",
        number: 13_119,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, domain_catalog name, \
                  domain_schema name, domain_name name, is_deferrable text=NO, initially_deferred text=NO",
        rows: |source, rows| {
            for (_, user, name, _) in constraints::of_domains(source) {
                rows.add(&[
                    ("constraint_catalog", database(source)),
                    ("constraint_schema", Datum::text(&user.schema)),
                    ("constraint_name", Datum::text(name)),
                    ("domain_catalog", database(source)),
                    ("domain_schema", Datum::text(&user.schema)),
                    ("domain_name", Datum::text(&user.name)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "information_schema.check_constraints",
        number: 13_110,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, check_clause text",
        rows: checks,
    },
    Written {
        name: "information_schema.character_sets",
        number: 13_111,
        columns: "character_set_catalog name, character_set_schema name, character_set_name name, \
                  character_repertoire name, form_of_use name, default_collate_catalog name, \
                  default_collate_schema name, default_collate_name name",
        rows: |source, rows| {
            rows.add(&[
                ("character_set_name", Datum::text("UTF8")),
                ("character_repertoire", Datum::text("UCS")),
                ("form_of_use", Datum::text("UTF8")),
                ("default_collate_catalog", database(source)),
                ("default_collate_schema", Datum::text("pg_catalog")),
                ("default_collate_name", Datum::text("C")),
            ]);
            Ok(())
        },
    },
    Written {
        name: "information_schema.routines",
        number: 13_112,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog name, \
                  routine_schema name, routine_name name, routine_type text, data_type text, \
                  routine_definition text, external_language text",
        rows: |_, _| Ok(()),
    },
    Written {
        name: "information_schema.triggers",
        number: 13_113,
        columns: "trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation text, \
                  event_object_catalog name, event_object_schema name, event_object_table name, action_order int4, \
                  action_condition text, action_statement text, action_orientation text, action_timing text",
        rows: |_, _| Ok(()),
    },
    Written {
        name: "information_schema.information_schema_catalog_name",
        number: 13_170,
        columns: "catalog_name name",
        rows: |source, rows| {
            rows.add(&[("catalog_name", database(source))]);
            Ok(())
        },
    },
    Written {
        name: "information_schema.constraint_table_usage",
        number: 13_124,
        columns: "table_catalog name, table_schema name, table_name name, constraint_catalog name, \
                  constraint_schema name, constraint_name name",
        rows: |source, rows| {
            for (table, constraint) in all(source).filter(|(_, constraint)| constraint.kind != "c") {
                let mut row = names(source, table, &constraint);
                row.extend(names_of_table(source, constraint.refers_to.as_ref().unwrap_or(table)));
                rows.add(&row);
            }
            Ok(())
        },
    },
];

pub(super) fn database(source: &Source<'_>) -> Datum {
    Datum::text(&source.identity.database)
}

fn tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut add = |schema: &str, name: &str, kind: &str, is_written: bool| {
        rows.add(&[
            ("table_catalog", database(source)),
            ("table_schema", Datum::text(schema)),
            ("table_name", Datum::text(name)),
            ("table_type", Datum::text(kind)),
            ("is_insertable_into", yes_or_no(is_written)),
        ]);
    };
    let own = &*source.identity.temporary_schema;
    let is_shown = |schema: &str| schema == own || !is_temporary(schema);
    for table in source.base_tables().filter(|table| is_shown(&table.schema)) {
        add(&table.schema, &table.name, if table.schema == own { "LOCAL TEMPORARY" } else { "BASE TABLE" }, true);
    }
    for (_, view) in source.views().filter(|(_, view)| is_shown(&view.schema)) {
        let is_written = source.updatable_columns(view).is_some_and(|columns| columns.contains(&true));
        add(&view.schema, &view.name, if view.schema == own { "LOCAL TEMPORARY" } else { "VIEW" }, is_written);
    }
    for definition in source.system.all() {
        let is_table = definition.schema() == "pg_catalog";
        let kind = if is_table { "BASE TABLE" } else { "VIEW" };
        add(definition.schema(), definition.bare_name(), kind, is_table);
    }
    Ok(())
}

/// What the standard says of a type: precision, radix, scale, and precision of the seconds.
fn digits(sql_type: SqlType) -> [Option<i64>; 4] {
    match sql_type.base {
        _ if sql_type.is_array => [None; 4],
        BaseType::Int2 => [Some(16), Some(2), Some(0), None],
        BaseType::Int4 => [Some(32), Some(2), Some(0), None],
        BaseType::Int8 => [Some(64), Some(2), Some(0), None],
        BaseType::Float4 => [Some(24), Some(2), None, None],
        BaseType::Float8 => [Some(53), Some(2), None, None],
        BaseType::Numeric => match sql_type.precision_and_scale() {
            // A negative scale is shown as its bits.
            Some((precision, scale)) => [Some(precision.into()), Some(10), Some((scale & 0x7ff).into()), None],
            None => [None, Some(10), None, None],
        },
        BaseType::Date => [None, None, None, Some(0)],
        BaseType::Time | BaseType::TimeTz | BaseType::Timestamp | BaseType::TimestampTz | BaseType::Interval => {
            [None, None, None, Some(sql_type.second_digits().unwrap_or(6).into())]
        }
        _ => [None; 4],
    }
}

/// What all columns, of tables and of views, say.
pub(super) fn column(
    source: &Source<'_>,
    (schema, relation): (&str, &str),
    (name, number): (&str, i64),
    sql_type: SqlType,
) -> Vec<(&'static str, Datum)> {
    // Of a domain, the type that it is made of, which may be another one.
    let domain = sql_type.base.user_type().filter(|user| user.domain().is_some());
    let sql_type = domain.and_then(|user| user.domain()).map_or(sql_type, |domain| domain.base);
    let base = sql_type.base;
    let user = base.user_type();
    let type_name = match user {
        _ if sql_type.is_array => "ARRAY".to_owned(),
        Some(_) => "USER-DEFINED".to_owned(),
        None => sql_type.bare().to_string(),
    };
    let or_null = |text: Option<&String>| text.map_or(Datum::Null, Datum::text);
    let catalogue_name =
        if sql_type.is_array { super::type_tables::name_of_array(base) } else { base.catalogue_name().to_owned() };
    let is_string = base.is_text() && !sql_type.is_array && base != BaseType::Name;
    let [precision, radix, scale, seconds] = digits(sql_type).map(|number| number.map_or(Datum::Null, Datum::Int));
    vec![
        ("domain_catalog", domain.map_or(Datum::Null, |_| database(source))),
        ("domain_schema", or_null(domain.map(|user| &user.definition().schema))),
        ("domain_name", or_null(domain.map(|user| &user.definition().name))),
        ("udt_schema", user.map_or_else(|| Datum::text("pg_catalog"), |user| Datum::text(&user.schema))),
        ("table_catalog", database(source)),
        ("table_schema", Datum::text(schema)),
        ("table_name", Datum::text(relation)),
        ("column_name", Datum::text(name)),
        ("ordinal_position", int(number)),
        ("is_nullable", yes_or_no(true)),
        ("data_type", Datum::text(type_name)),
        ("character_maximum_length", sql_type.length().map_or(Datum::Null, int)),
        ("character_octet_length", if is_string { int(1 << 30) } else { Datum::Null }),
        ("numeric_precision", precision),
        ("numeric_precision_radix", radix),
        ("numeric_scale", scale),
        ("datetime_precision", seconds),
        ("interval_type", or_null(sql_type.field_names().map(str::to_uppercase).as_ref())),
        ("udt_catalog", database(source)),
        ("udt_name", Datum::text(catalogue_name)),
        ("dtd_identifier", Datum::text(number.to_string())),
    ]
}

fn columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.base_tables() {
        for (place, declared) in visible(table) {
            let name = (declared.name.as_str(), number_of(table, place));
            let sql_type = table.columns[place].sql_type;
            let mut row = column(source, (&table.schema, &table.name), name, sql_type);
            let domain = sql_type.base.user_type().and_then(|user| user.domain());
            let is_not_null = declared.not_null || is_of_key(table, place) || domain.is_some_and(|of| of.is_not_null);
            row.push(("is_nullable", yes_or_no(!is_not_null)));
            if let Some(name) = &declared.sql_collation {
                row.push(("collation_catalog", database(source)));
                row.push(("collation_schema", Datum::text("pg_catalog")));
                row.push(("collation_name", Datum::text(name)));
            }
            let expression = text_or_null(texts::default_of(source, table, place));
            if declared.generated.is_some() {
                row.extend([("is_generated", Datum::text("ALWAYS")), ("generation_expression", expression)]);
            } else {
                row.push(("column_default", expression));
            }
            add_identity(source, table, place, &mut row);
            rows.add(&row);
        }
    }
    for (_, view) in source.views() {
        let written = source.updatable_columns(view).unwrap_or_default();
        for (at, (name, sql_type)) in source.columns_of_view(view).into_iter().enumerate() {
            let mut row = column(source, (&view.schema, &view.name), (&name, at as i64 + 1), sql_type);
            row.push(("is_updatable", yes_or_no(written.get(at) == Some(&true))));
            rows.add(&row);
        }
    }
    for definition in source.system.all() {
        for (place, (name, sql_type)) in (1..).zip(&definition.columns) {
            let relation = (definition.schema(), definition.bare_name());
            rows.add(&column(source, relation, (name, place), *sql_type));
        }
    }
    Ok(())
}

fn add_identity(source: &Source<'_>, table: &Table, place: usize, row: &mut Vec<(&'static str, Datum)>) {
    let is_serial = source.serial_sequence(table, place).is_some();
    let Some(identity) = table.identity_of(place).filter(|_| !is_serial) else { return };
    let generation = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
    row.push(("is_identity", yes_or_no(true)));
    row.push(("identity_generation", Datum::text(generation)));
    if let Some((_, sequence)) = source.catalogue.sequence_of(table.number, table.columns[place].number) {
        row.push(("identity_start", Datum::text(sequence.start.to_string())));
        row.push(("identity_increment", Datum::text(sequence.increment.to_string())));
        row.push(("identity_maximum", Datum::text(sequence.max.to_string())));
        row.push(("identity_minimum", Datum::text(sequence.min.to_string())));
        row.push(("identity_cycle", yes_or_no(sequence.cycles)));
    }
}

fn sequences(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for sequence in source.catalogue.sequences().values().filter(|sequence| !sequence.is_of_identity()) {
        rows.add(&[
            ("sequence_catalog", database(source)),
            ("sequence_schema", Datum::text(&sequence.schema)),
            ("sequence_name", Datum::text(&sequence.name)),
            ("data_type", Datum::text(&sequence.data_type)),
            ("numeric_precision", digits(sequence.sql_type())[0].map_or(Datum::Null, Datum::Int)),
            ("start_value", Datum::text(sequence.start.to_string())),
            ("minimum_value", Datum::text(sequence.min.to_string())),
            ("maximum_value", Datum::text(sequence.max.to_string())),
            ("increment", Datum::text(sequence.increment.to_string())),
            ("cycle_option", yes_or_no(sequence.cycles)),
        ]);
    }
    Ok(())
}

/// All constraints of all tables.
fn all<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (&'s Arc<Table>, Constraint)> {
    source.tables().flat_map(move |table| {
        constraints::of_table(source, table).into_iter().map(move |constraint| (table, constraint))
    })
}

/// The names of a constraint and its table.
fn names(source: &Source<'_>, table: &Table, constraint: &Constraint) -> Vec<(&'static str, Datum)> {
    vec![
        ("constraint_catalog", database(source)),
        ("constraint_schema", Datum::text(&table.schema)),
        ("constraint_name", Datum::text(&constraint.name)),
    ]
}

fn names_of_table(source: &Source<'_>, table: &Table) -> [(&'static str, Datum); 3] {
    [
        ("table_catalog", database(source)),
        ("table_schema", Datum::text(&table.schema)),
        ("table_name", Datum::text(&table.name)),
    ]
}

fn table_constraints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (table, constraint) in all(source) {
        let kind = match constraint.kind {
            "p" => "PRIMARY KEY",
            "u" => "UNIQUE",
            "f" => "FOREIGN KEY",
            _ => "CHECK",
        };
        let mut row = names(source, table, &constraint);
        row.extend(names_of_table(source, table));
        row.push(("constraint_type", Datum::text(kind)));
        row.push(("is_deferrable", yes_or_no(constraint.deferral != Deferral::Never)));
        row.push(("initially_deferred", yes_or_no(constraint.deferral == Deferral::Deferred)));
        row.push(("nulls_distinct", if kind == "UNIQUE" { yes_or_no(true) } else { Datum::Null }));
        rows.add(&row);
    }
    Ok(())
}

fn key_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (table, constraint) in all(source).filter(|(_, constraint)| constraint.kind != "c") {
        for (at, &place) in (1..).zip(&constraint.places) {
            let mut row = names(source, table, &constraint);
            row.extend(names_of_table(source, table));
            row.push(("column_name", Datum::text(&table.declared.columns[place].name)));
            row.push(("ordinal_position", Datum::Int(at)));
            if constraint.kind == "f" {
                row.push(("position_in_unique_constraint", Datum::Int(at)));
            }
            rows.add(&row);
        }
    }
    Ok(())
}

fn references(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (table, constraint) in all(source) {
        let Some(other) = &constraint.refers_to else { continue };
        let unique = constraints::of_table(source, other);
        let unique = unique.iter().find(|unique| unique.index == constraint.index && unique.kind != "f");
        let mut row = names(source, table, &constraint);
        row.push(("unique_constraint_catalog", database(source)));
        row.push(("unique_constraint_schema", Datum::text(&other.schema)));
        row.push(("unique_constraint_name", text_or_null(unique.map(|unique| &unique.name))));
        row.push(("delete_rule", Datum::text(constraints::words(constraint.actions.0))));
        row.push(("update_rule", Datum::text(constraints::words(constraint.actions.1))));
        rows.add(&row);
    }
    Ok(())
}

fn constraint_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (table, constraint) in all(source) {
        // Of a foreign key, the columns that it refers to.
        let (used, places) = match &constraint.refers_to {
            Some(other) => (other, &constraint.references),
            None => (table, &constraint.places),
        };
        for &place in places {
            let mut row = names(source, table, &constraint);
            row.extend(names_of_table(source, used));
            row.push(("column_name", Datum::text(&used.declared.columns[place].name)));
            rows.add(&row);
        }
    }
    Ok(())
}

/// Domains, whose rows have a part of what columns of them say.
fn domains(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    const SHARED: [&str; 10] = [
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "udt_catalog",
        "udt_schema",
        "udt_name",
    ];
    for user in source.catalogue.user_types().values().filter_map(|base| base.user_type()) {
        let Some(domain) = user.domain() else { continue };
        let mut row = column(source, ("", ""), ("", 1), domain.base);
        row.retain(|(name, _)| SHARED.contains(name));
        row.extend([
            ("domain_catalog", database(source)),
            ("domain_schema", Datum::text(&user.schema)),
            ("domain_name", Datum::text(&user.name)),
            ("domain_default", text_or_null(domain.default.as_deref())),
        ]);
        rows.add(&row);
    }
    Ok(())
}

fn checks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (_, user, name, text) in constraints::of_domains(source) {
        rows.add(&[
            ("constraint_catalog", database(source)),
            ("constraint_schema", Datum::text(&user.schema)),
            ("constraint_name", Datum::text(name)),
            ("check_clause", Datum::text(format!("({})", expressions::written(source, text, false)))),
        ]);
    }
    for (table, constraint) in all(source) {
        if let Some(condition) = &constraint.condition {
            let mut row = names(source, table, &constraint);
            row.push(("check_clause", Datum::text(format!("({})", expressions::written(source, condition, false)))));
            rows.add(&row);
        }
    }
    for table in source.tables() {
        for (place, column) in visible(table).filter(|(place, column)| column.not_null || is_of_key(table, *place)) {
            let (schema, number) = (oids::table(table.number), number_of(table, place));
            rows.add(&[
                ("constraint_catalog", database(source)),
                ("constraint_schema", Datum::text(&table.schema)),
                (
                    "constraint_name",
                    Datum::text(format!("{}_{schema}_{number}_not_null", source.schema(&table.schema))),
                ),
                ("check_clause", Datum::text(format!("{} IS NOT NULL", column.name))),
            ]);
        }
    }
    Ok(())
}
