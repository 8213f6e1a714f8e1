//! Types in `information_schema`: those of users, elements of arrays, collations.

use crate::catalogue::system::definition::{Rows, Written, int};
use crate::catalogue::system::information::{column, database};
use crate::catalogue::system::source::{Source, number_of, visible};
use crate::catalogue::system::type_tables::COLLATIONS;
use crate::error::Result;
use crate::types::SqlType;
use crate::types::datum::Datum;
use crate::types::user::Composite;

pub(super) const TABLES: &[Written] = &[
    Written {
        name: "information_schema.element_types",
        number: 13_120,
        columns: "object_catalog name, object_schema name, object_name name, object_type text=TABLE, \
                  collection_type_identifier name, data_type text, character_maximum_length int4, \
                  character_octet_length int4, character_set_catalog name, character_set_schema name, \
                  character_set_name name, collation_catalog name, collation_schema name, collation_name name, \
                  numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
                  interval_type text, interval_precision int4, domain_default text, udt_catalog name, \
                  udt_schema name, udt_name name, scope_catalog name, scope_schema name, scope_name name, \
                  maximum_cardinality int4, dtd_identifier name",
        rows: elements,
    },
    Written {
        name: "information_schema.user_defined_types",
        number: 13_121,
        columns: "user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name name, \
                  user_defined_type_category text=STRUCTURED, is_instantiable text=YES, is_final text, \
                  ordering_form text, ordering_category text, ordering_routine_catalog name, \
                  ordering_routine_schema name, ordering_routine_name name, reference_type text, data_type text, \
                  character_maximum_length int4, character_octet_length int4, character_set_catalog name, \
                  character_set_schema name, character_set_name name, collation_catalog name, \
                  collation_schema name, collation_name name, numeric_precision int4, \
                  numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type text, \
                  interval_precision int4, source_dtd_identifier name, ref_dtd_identifier name",
        rows: |source, rows| {
            for (schema, name, _) in composites(source) {
                rows.add(&[
                    ("user_defined_type_catalog", database(source)),
                    ("user_defined_type_schema", Datum::text(schema)),
                    ("user_defined_type_name", Datum::text(name)),
                ]);
            }
            Ok(())
        },
    },
    Written {
        name: "information_schema.attributes",
        number: 13_122,
        columns: "udt_catalog name, udt_schema name, udt_name name, attribute_name name, ordinal_position int4, \
                  attribute_default text, is_nullable text=YES, data_type text, character_maximum_length int4, \
                  character_octet_length int4, character_set_catalog name, character_set_schema name, \
                  character_set_name name, collation_catalog name, collation_schema name, collation_name name, \
                  numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
                  interval_type text, interval_precision int4, attribute_udt_catalog name, \
                  attribute_udt_schema name, attribute_udt_name name, scope_catalog name, scope_schema name, \
                  scope_name name, maximum_cardinality int4, dtd_identifier name, \
                  is_derived_reference_attribute text=NO",
        rows: attributes,
    },
    Written {
        name: "information_schema.collations",
        number: 13_123,
        columns: "collation_catalog name, collation_schema name=pg_catalog, collation_name name, \
                  pad_attribute text=NO PAD",
        rows: |source, rows| {
            for (_, name, _) in COLLATIONS {
                rows.add(&[("collation_catalog", database(source)), ("collation_name", Datum::text(name))]);
            }
            Ok(())
        },
    },
];

/// Types of rows that users have made: their schemas and names.
fn composites<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (&'s str, &'s str, &'s Composite)> {
    let users = source.catalogue.user_types().values().filter_map(|base| base.user_type());
    users.filter_map(|user| {
        let (definition, composite) = (user.definition(), user.composite()?);
        (!composite.is_of_table).then_some((&*definition.schema, &*definition.name, composite))
    })
}

/// What is said of the elements of arrays, of what [`column`] says of them.
const OF_ELEMENTS: [&str; 4] = ["data_type", "udt_catalog", "udt_schema", "udt_name"];

fn elements(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut add = |kind: &str, (schema, name): (&str, &str), number: i64, sql_type: SqlType| {
        if !sql_type.is_array {
            return;
        }
        let mut row = column(source, (schema, name), ("", number), sql_type.element());
        row.retain(|(name, _)| OF_ELEMENTS.contains(name));
        row.extend([
            ("object_catalog", database(source)),
            ("object_schema", Datum::text(schema)),
            ("object_name", Datum::text(name)),
            ("object_type", Datum::text(kind)),
            ("collection_type_identifier", Datum::text(number.to_string())),
            ("dtd_identifier", Datum::text(format!("a{number}"))),
        ]);
        rows.add(&row);
    };
    for table in source.base_tables() {
        for (place, _) in visible(table) {
            let number = number_of(table, place);
            add("TABLE", (&table.schema, &table.name), number, table.columns[place].sql_type);
        }
    }
    for (_, view) in source.views() {
        for ((_, sql_type), number) in source.columns_of_view(view).into_iter().zip(1..) {
            add("TABLE", (&view.schema, &view.name), number, sql_type);
        }
    }
    for (schema, name, composite) in composites(source) {
        for (sql_type, number) in composite.types.iter().zip(1..) {
            add("USER-DEFINED TYPE", (schema, name), number, *sql_type);
        }
    }
    Ok(())
}

fn attributes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    /// What is said of the types of attributes.
    const SHARED: [&str; 9] = [
        "data_type",
        "character_maximum_length",
        "character_octet_length",
        "numeric_precision",
        "numeric_precision_radix",
        "numeric_scale",
        "datetime_precision",
        "interval_type",
        "dtd_identifier",
    ];
    for (schema, name, composite) in composites(source) {
        for ((attribute, sql_type), number) in composite.names.iter().zip(&composite.types).zip(1..) {
            let of_type = column(source, (schema, name), (attribute, number), *sql_type);
            let mut row: Vec<_> = of_type.iter().filter(|(name, _)| SHARED.contains(name)).cloned().collect();
            let own = [
                ("udt_catalog", "attribute_udt_catalog"),
                ("udt_schema", "attribute_udt_schema"),
                ("udt_name", "attribute_udt_name"),
            ];
            for (name, of_attribute) in own {
                let value = of_type.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
                row.push((of_attribute, value.unwrap_or(Datum::Null)));
            }
            row.extend([
                ("udt_catalog", database(source)),
                ("udt_schema", Datum::text(schema)),
                ("udt_name", Datum::text(name)),
                ("attribute_name", Datum::text(attribute)),
                ("ordinal_position", int(number)),
            ]);
            rows.add(&row);
        }
    }
    Ok(())
}
