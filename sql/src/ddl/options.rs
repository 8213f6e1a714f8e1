//! WITH of tables and indexes: `sum`, the column whose sums over ranges are kept, and `compressed`. What PostgreSQL has
//! there besides has no effect (`foreign`).

use quipu_rows::TableSchema;
use sqlparser::ast::{BinaryOperator, CreateTableOptions, Expr, SqlOption, Value};

use crate::dialect::folded;
use crate::error::{Result, SqlError, SqlState};

/// The options of a table or an index that have an effect.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    /// The column whose sums are kept.
    pub(super) sum: Option<String>,
    /// Whether rows are compressed on disk.
    pub(super) is_compressed: bool,
}

impl Options {
    /// Those of a table.
    ///
    /// # Errors
    /// [`INVALID_PARAMETER_VALUE`](SqlState::INVALID_PARAMETER_VALUE) for a value that one cannot have.
    pub(super) fn of_table(options: &CreateTableOptions) -> Result<Options> {
        let mut own = Options::default();
        if let CreateTableOptions::With(options) = options {
            for option in options {
                match option {
                    SqlOption::KeyValue { key, value } => own.set(&key.value, Some(value), true)?,
                    SqlOption::Ident(key) => own.set(&key.value, None, true)?,
                    _ => {}
                }
            }
        }
        Ok(own)
    }

    /// Those of an index.
    ///
    /// # Errors
    /// Those of [`Options::of_table`].
    pub(super) fn of_index(options: &[Expr]) -> Result<Options> {
        let mut own = Options::default();
        for option in options {
            match option {
                Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                    own.set(&left.to_string(), Some(right), false)?;
                }
                other => own.set(&other.to_string(), None, false)?,
            }
        }
        Ok(own)
    }

    fn set(&mut self, name: &str, value: Option<&Expr>, is_of_table: bool) -> Result<()> {
        let refused = |hint: &str| {
            let written = value.map_or_else(String::new, Expr::to_string);
            let what = format!("invalid value for option \"{}\": {written}", name.to_lowercase());
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what).with_hint(hint.to_owned()))
        };
        match &*name.to_ascii_lowercase() {
            "sum" => match value {
                Some(Expr::Identifier(column)) => self.sum = Some(folded(column)),
                Some(Expr::Value(value)) if let Value::SingleQuotedString(column) = &value.value => {
                    self.sum = Some(column.clone());
                }
                _ => return refused("Name a column: WITH (sum = amount)."),
            },
            "compressed" if is_of_table => {
                self.is_compressed = match value.map(|value| value.to_string().to_ascii_lowercase()).as_deref() {
                    None | Some("true" | "'true'" | "on" | "'on'" | "1") => true,
                    Some("false" | "'false'" | "off" | "'off'" | "0") => false,
                    Some(_) => return refused("It is true or false."),
                };
            }
            "compressed" => {
                let what = "unrecognized parameter \"compressed\"";
                return Err(
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what).with_hint("It is an option of a table.")
                );
            }
            _ => {}
        }
        Ok(())
    }
}

/// Refuses a column whose sums cannot be kept.
///
/// # Errors
/// [`UNDEFINED_COLUMN`](SqlState::UNDEFINED_COLUMN), and [`WRONG_OBJECT_TYPE`](SqlState::WRONG_OBJECT_TYPE).
pub(super) fn check_sum(schema: &TableSchema, table: &str, sum: Option<&str>) -> Result<()> {
    let Some(name) = sum else { return Ok(()) };
    let Some(place) = schema.place(name) else {
        let what = format!("column \"{name}\" of relation \"{table}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, what));
    };
    if schema.columns[place].data_type.is_summable() {
        return Ok(());
    }
    let what = format!("sums of column \"{name}\" cannot be kept");
    let hint = "Sums are kept of smallint, integer, bigint, and numeric of at most 18 digits.";
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, what).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Ident;

    use super::*;

    #[test]
    fn options_are_read_in_all_their_forms() {
        let option = |key: &str, value: Expr| SqlOption::KeyValue { key: Ident::new(key), value };
        let column = |name: &str| Expr::Identifier(Ident::new(name));
        let of = |options: Vec<SqlOption>| Options::of_table(&CreateTableOptions::With(options));
        let read = of(vec![option("SUM", column("Amount")), SqlOption::Ident(Ident::new("compressed"))]).unwrap();
        assert_eq!(read, Options { sum: Some("amount".to_owned()), is_compressed: true });
        let text = Expr::Value(Value::SingleQuotedString("Amount".to_owned()).into());
        assert_eq!(of(vec![option("sum", text)]).unwrap().sum.as_deref(), Some("Amount"));
        let number = || Expr::Value(Value::Number("5".to_owned(), false).into());
        assert_eq!(of(vec![option("sum", number())]).unwrap_err().state(), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(of(vec![option("compressed", number())]).unwrap_err().state(), SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(of(vec![option("fillfactor", number())]).unwrap(), Options::default());
    }
}
