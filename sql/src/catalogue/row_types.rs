//! The types that the rows of tables have, which are named as the tables are.

use std::sync::Arc;

use crate::catalogue::{Table, names_in_rows, oids};
use crate::functions::strings::quote_identifier;
use crate::types::user::{Composite, Definition, Kind, UserType};

/// The numbers of the type of a table's rows, and of arrays of these.
pub fn numbers_of_table(table: u32) -> (u32, u32) {
    (oids::named(table, "row", ""), oids::named(table, "rows", ""))
}

/// The numbers of the type of a view's rows, and of arrays of these.
pub fn numbers_of_view(view: u32) -> (u32, u32) {
    (oids::named(view, "row of a view", ""), oids::named(view, "rows of a view", ""))
}

/// The type of the rows of a table, without its hidden columns.
pub fn of_table(table: &Table) -> UserType {
    let (number, array) = numbers_of_table(table.number);
    let columns = table.columns.iter().zip(&table.declared.columns).filter(|(_, declared)| !declared.hidden);
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for (column, declared) in columns {
        names.push(Arc::from(&*declared.name));
        types.push(column.sql_type);
    }
    let name = quote_identifier(&table.name);
    UserType::new(Definition {
        number,
        array,
        schema: table.schema.clone(),
        name: table.name.clone(),
        shown: match table.schema == names_in_rows::PUBLIC {
            true => name,
            false => format!("{}.{name}", quote_identifier(&table.schema)),
        },
        kind: Kind::Composite(Composite { relation: table.oid(), is_of_table: true, names: names.into(), types }),
    })
}
