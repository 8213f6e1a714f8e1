//! Values as clients write and read them: the formats of `quipu_sql::types`.

use quipu_sql::functions::Environment;
use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::types::{binary, text};
use quipu_sql::{Datum, Result, SqlType};

/// Writes a value that is not NULL as text.
pub(super) fn write_text(
    datum: &Datum,
    sql_type: SqlType,
    environment: &dyn Environment,
    out: &mut String,
) -> Result<()> {
    text::write(datum, sql_type, environment, out)
}

/// Writes a value that is not NULL in its binary form.
pub(super) fn write_binary(
    datum: &Datum,
    sql_type: SqlType,
    encoding: TextEncoding,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    binary::write(datum, sql_type, encoding, bytes)
}

/// Reads a value from text.
pub(super) fn read_text(text: &str, sql_type: SqlType, environment: &dyn Environment) -> Result<Datum> {
    text::parse(text, sql_type, environment)
}

/// Reads a value from its binary form.
pub(super) fn read_binary(bytes: &[u8], sql_type: SqlType, encoding: TextEncoding) -> Result<Datum> {
    binary::read(bytes, sql_type, encoding)
}
