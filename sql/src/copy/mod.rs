//! The data of COPY as bytes: PostgreSQL's text, CSV and binary formats, without I/O and without types.
//!
//! A [`Decoder`] takes bytes that are cut anywhere and gives rows of fields: the bytes of a value, or none for NULL. An
//! [`Encoder`] writes such rows. What bytes are a value of which type is for the caller to say.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | what COPY is told of a format, and what of it goes together |
//! | `written` | what a statement says of it |
//! | `decode` | bytes to rows: what is kept between two pieces, headers, limits, where an error is |
//! | `lines` | where a row of text or CSV ends |
//! | `text`, `csv` | the fields of a row, in both directions |
//! | `binary` | the binary format |
//! | `encode` | rows to bytes |
//!
//! Invariants:
//! 1. The rows are the same however the bytes are cut.
//! 2. A decoder keeps no more than one row and the piece that it was given last; a row of more than the limit is an
//!    error before it is whole.
//! 3. What an encoder writes, a decoder with the same options reads.
//!
//! Format: PostgreSQL's documentation of COPY, section "File Formats".

mod binary;
mod csv;
mod decode;
mod encode;
mod lines;
mod options;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod written;

pub use decode::{Decoder, Row};
pub use encode::Encoder;
pub use options::{Columns, CopyFormat, CopyOptions, Header};

use std::borrow::Cow;

/// A value as bytes; none for NULL.
pub type Field<'d> = Option<Cow<'d, [u8]>>;
