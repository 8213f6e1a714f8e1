//! Rights in `information_schema`. Each user may do everything, so all rights are those of the user who asks.

use crate::catalogue::system::definition::{Rows, Written};
use crate::catalogue::system::information::database;
use crate::catalogue::system::source::{Source, visible};
use crate::error::Result;
use crate::types::datum::Datum;

const OF_RELATIONS: &str = "grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
    privilege_type text, is_grantable text=YES, with_hierarchy text=NO";
const OF_COLUMNS: &str = "grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
    column_name name, privilege_type text, is_grantable text=YES";

pub(super) const TABLES: &[Written] = &[
    Written { name: "information_schema.table_privileges", number: 13_172, columns: OF_RELATIONS, rows: relations },
    Written { name: "information_schema.role_table_grants", number: 13_173, columns: OF_RELATIONS, rows: relations },
    Written { name: "information_schema.column_privileges", number: 13_174, columns: OF_COLUMNS, rows: columns },
    Written { name: "information_schema.role_column_grants", number: 13_175, columns: OF_COLUMNS, rows: columns },
    Written {
        name: "information_schema.enabled_roles",
        number: 13_171,
        columns: "role_name name",
        rows: |source, rows| {
            rows.add(&[("role_name", Datum::text(&source.identity.user))]);
            Ok(())
        },
    },
    Written {
        name: "information_schema.applicable_roles",
        number: 13_176,
        columns: "grantee name, role_name name, is_grantable text",
        rows: |_, _| Ok(()),
    },
    Written {
        name: "information_schema.usage_privileges",
        number: 13_177,
        columns: "grantor name, grantee name, object_catalog name, object_schema name, object_name name, \
                  object_type text=SEQUENCE, privilege_type text=USAGE, is_grantable text=YES",
        rows: |source, rows| {
            for sequence in source.catalogue.sequences().values() {
                let mut row = of_user(source);
                row.push(("object_catalog", database(source)));
                row.push(("object_schema", Datum::text(&sequence.schema)));
                row.push(("object_name", Datum::text(&sequence.name)));
                rows.add(&row);
            }
            Ok(())
        },
    },
];

fn of_user(source: &Source<'_>) -> Vec<(&'static str, Datum)> {
    let user = Datum::text(&source.identity.user);
    vec![("grantor", user.clone()), ("grantee", user)]
}

/// Tables and views: their schemas, names and columns.
fn of_all<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (&'s str, &'s str, Vec<String>)> {
    let tables = source.base_tables().map(|table| {
        let columns = visible(table).map(|(_, column)| column.name.clone());
        (&*table.schema, &*table.name, columns.collect())
    });
    let views = source.views().map(|(_, view)| {
        let columns = source.columns_of_view(view).into_iter().map(|(name, _)| name);
        (&*view.schema, &*view.name, columns.collect())
    });
    tables.chain(views)
}

fn relations(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (schema, name, _) in of_all(source) {
        for privilege in ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"] {
            let mut row = of_user(source);
            row.extend([
                ("table_catalog", database(source)),
                ("table_schema", Datum::text(schema)),
                ("table_name", Datum::text(name)),
                ("privilege_type", Datum::text(privilege)),
            ]);
            if privilege == "SELECT" {
                row.push(("with_hierarchy", Datum::text("YES")));
            }
            rows.add(&row);
        }
    }
    Ok(())
}

fn columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (schema, name, columns) in of_all(source) {
        for column in columns {
            for privilege in ["INSERT", "SELECT", "UPDATE", "REFERENCES"] {
                let mut row = of_user(source);
                row.extend([
                    ("table_catalog", database(source)),
                    ("table_schema", Datum::text(schema)),
                    ("table_name", Datum::text(name)),
                    ("column_name", Datum::text(&column)),
                    ("privilege_type", Datum::text(privilege)),
                ]);
                rows.add(&row);
            }
        }
    }
    Ok(())
}
