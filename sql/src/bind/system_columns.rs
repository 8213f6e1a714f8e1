//! System columns of a table: `tableoid`, `ctid`, `xmin`, `xmax`.
//!
//! | column | what it is here |
//! |---|---|
//! | `tableoid` | the number of the table |
//! | `ctid` | the primary key, if this is one integer, or the hidden number of a row without one: see `types/tid.rs` |
//! | `xmin` | a digest of the row's values: another one if one of them is |
//! | `xmax` | 0, but of a row that ON CONFLICT DO UPDATE has changed, in RETURNING |

use std::sync::Arc;

use crate::bind::names::TableShape;
use crate::error::{Result, SqlError};
use crate::functions::resolve_function;
use crate::plan::expression::{Callee, Expr};
use crate::types::cast::CastContext;
use crate::types::datum::Datum;
use crate::types::{BaseType, SqlType};

/// Whether PostgreSQL's tables have a system column of this name.
pub fn is_system_column(name: &str) -> bool {
    ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"].contains(&name)
}

/// What the system columns of a table in a FROM are made of.
#[derive(Clone, Debug)]
pub(super) struct SystemColumns {
    name: Arc<str>,
    /// The number of the table.
    number: u32,
    /// The slot of its primary key and the type of that, if it is one integer.
    key: Option<(usize, SqlType)>,
    /// The place of a column that is never NULL.
    known: usize,
    /// The slot of its first column.
    base: usize,
    /// The types of its columns.
    types: Arc<[SqlType]>,
}

impl SystemColumns {
    /// Those of a table whose slots begin at one; none of a view.
    pub(super) fn of(shape: &TableShape, base: usize) -> Option<SystemColumns> {
        let places: Vec<usize> = shape.primary.columns.iter().filter_map(|column| column.place).collect();
        let first = *places.first().filter(|_| shape.face.is_none())?;
        let sql_type = shape.types[first].bare();
        let is_integer =
            matches!(sql_type.base, BaseType::Int2 | BaseType::Int4 | BaseType::Int8) && !sql_type.is_array;
        Some(SystemColumns {
            name: Arc::clone(&shape.name),
            number: shape.number,
            key: (places.len() == 1 && is_integer).then_some((base + first, sql_type)),
            known: first,
            base,
            types: Arc::clone(&shape.types),
        })
    }

    /// The column of a name; none if no system column is called so.
    ///
    /// # Errors
    /// [`FEATURE_NOT_SUPPORTED`](crate::error::SqlState::FEATURE_NOT_SUPPORTED) of a `ctid` of another key.
    pub(super) fn column(&self, name: &str) -> Result<Option<(Expr, SqlType)>> {
        let (expr, base) = match name {
            "tableoid" => (Expr::Constant(Datum::Int(self.number.into())), BaseType::Oid),
            "xmax" => (Expr::HasReplaced, BaseType::Xid),
            "xmin" => {
                let places: Vec<usize> = std::iter::once(self.known).chain(0..self.types.len()).collect();
                let types: Vec<SqlType> = places.iter().map(|&place| self.types[place].bare()).collect();
                let call = Callee(resolve_function("quipu_digest", &types)?);
                let arguments = places.into_iter().map(|place| Expr::Slot(self.base + place)).collect();
                (Expr::Call { call, arguments }, BaseType::Xid)
            }
            "ctid" => {
                let Some((slot, from)) = self.key else {
                    let what = format!("table \"{}\" has no ctid: its primary key is not one integer", self.name);
                    return Err(SqlError::unsupported(what, "Name rows by the columns of the primary key."));
                };
                let (value, to) = (Box::new(Expr::Slot(slot)), BaseType::Tid.into());
                (Expr::Cast { value, from, to, context: CastContext::Implicit }, BaseType::Tid)
            }
            _ => return Ok(None),
        };
        Ok(Some((expr, base.into())))
    }
}
