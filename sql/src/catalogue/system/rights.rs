//! Rights in `information_schema`, those of the user who asks, and functions that ask for one.

use std::sync::Arc;

use crate::catalogue::lookup;
use crate::catalogue::oids;
use crate::catalogue::system::ask::number;
use crate::catalogue::system::definition::{Rows, Written};
use crate::catalogue::system::information::database;
use crate::catalogue::system::names::class_number;
use crate::catalogue::system::relations::role_name;
use crate::catalogue::system::source::{Source, visible};
use crate::error::Result;
use crate::identity::rights::{Right, Rights};
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
            let rights = &source.identity.rights;
            let sequences = source.catalogue.sequences().values();
            for sequence in sequences.filter(|it| lookup::may(&**rights, Right::Update, &it.schema, &it.name)) {
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

/// What the user may do with a relation, as `information_schema` names it.
fn privileges_on(source: &Source<'_>, schema: &str, name: &str) -> Vec<&'static str> {
    let rights = &source.identity.rights;
    let held = Right::ALL.into_iter().filter(|right| lookup::may(&**rights, *right, schema, name)).map(Right::name);
    held.chain(["REFERENCES", "TRIGGER"].into_iter().filter(|_| rights.has_all())).collect()
}

/// Whether a user, the first argument, may do one of the things that the last one names with the relation that is the
/// second. Without a user it is the session's own.
pub(super) fn has_one(source: &Source<'_>, arguments: &[Datum]) -> Result<bool> {
    let (Some(rights), [_, object, written]) = (rights_of(source, arguments)?, arguments) else { return Ok(false) };
    let number = match object {
        Datum::Text(name) => class_number(source, name)?,
        _ => number(arguments, 1),
    };
    let table = source.table(number).map(|table| (&*table.schema, &*table.name));
    let view = || source.views().find(|(at, _)| oids::object(*at) == number).map(|(_, it)| (&*it.schema, &*it.name));
    let sequences = source.catalogue.sequences();
    let sequence = || sequences.iter().find(|(at, _)| oids::object(**at) == number);
    let sequence = || sequence().map(|(_, it)| (&*it.schema, &*it.name));
    let relation = table.or_else(view).or_else(sequence);
    let may =
        |word: &str| match (Right::ALL.into_iter().find(|right| right.name().eq_ignore_ascii_case(word)), relation) {
            _ if rights.has_all() => true,
            (Some(right), Some((schema, name))) => lookup::may(&*rights, right, schema, name),
            (None, Some((schema, name))) if word.eq_ignore_ascii_case("usage") => {
                lookup::may(&*rights, Right::Update, schema, name)
            }
            // Tables of the catalogue are read by all.
            (right, None) => right == Some(Right::Select),
            (None, Some(_)) => false,
        };
    Ok(written.as_text().unwrap_or_default().split(',').any(|word| may(word.trim())))
}

/// Whether a user, the first argument, may do everything. Without one it is the session's own.
pub(super) fn has_all(source: &Source<'_>, arguments: &[Datum]) -> Result<bool> {
    Ok(rights_of(source, arguments)?.is_some_and(|rights| rights.has_all()))
}

fn rights_of(source: &Source<'_>, arguments: &[Datum]) -> Result<Option<Arc<dyn Rights>>> {
    let name = match arguments.first() {
        Some(Datum::Text(name)) => name.to_string(),
        Some(Datum::Int(_)) => role_name(source, number(arguments, 0)).unwrap_or_default(),
        _ => return Ok(Some(Arc::clone(&source.identity.rights))),
    };
    let users = source.shared.users(source.identity);
    users.check(&name)?;
    let of_any = || users.takes_any.then(|| Arc::clone(&source.identity.rights));
    Ok(users.rights(&name).cloned().or_else(of_any))
}

fn relations(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (schema, name, _) in of_all(source) {
        for privilege in privileges_on(source, schema, name) {
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
        let mut privileges = privileges_on(source, schema, name);
        privileges.retain(|privilege| ["INSERT", "SELECT", "UPDATE", "REFERENCES"].contains(privilege));
        for column in columns {
            for privilege in &privileges {
                let mut row = of_user(source);
                row.extend([
                    ("table_catalog", database(source)),
                    ("table_schema", Datum::text(schema)),
                    ("table_name", Datum::text(name)),
                    ("column_name", Datum::text(&column)),
                    ("privilege_type", Datum::text(*privilege)),
                ]);
                rows.add(&row);
            }
        }
    }
    Ok(())
}
