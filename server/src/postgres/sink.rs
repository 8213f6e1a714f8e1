//! Takes the rows of a result and sends them in the client's encoding: as many as the client takes, so that no result
//! is held as a whole.

use std::io;

use quipu_sql::functions::Environment;
use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::types::{binary, text};
use quipu_sql::{CopyFormat, Datum, Result, ResultColumn, Sink, SqlError, SqlState};

use super::answers::{Answers, Formats, Severity};
use super::buffers::Outgoing;
use crate::state::clients::Client;

/// Where the rows of one statement go.
pub(super) struct RowSink<'c> {
    pub(super) out: &'c mut Outgoing,
    pub(super) client: &'c Client,
    pub(super) columns: &'c [ResultColumn],
    pub(super) formats: &'c Formats,
    pub(super) environment: &'c dyn Environment,
    /// Whether the columns are told before the first row, as for a simple query.
    pub(super) tells_columns: bool,
    /// Whether COPY has begun to send data.
    pub(super) has_copied: bool,
    /// A value as text.
    pub(super) text: String,
    /// Why nothing can be sent any more.
    pub(super) broken: Option<io::Error>,
}

impl RowSink<'_> {
    /// Tells the columns, unless that is done.
    pub(super) fn tell_columns(&mut self) {
        if std::mem::take(&mut self.tells_columns) {
            self.out.answers.row_description(self.columns, self.formats);
        }
    }

    fn check(&mut self, sent: io::Result<()>) -> Result<()> {
        sent.map_err(|error| {
            let failure = SqlError::new(SqlState::CONNECTION_FAILURE, format!("could not send to the client: {error}"));
            self.broken = Some(error);
            failure
        })
    }

    /// Puts the values of a row after its count.
    fn put(&mut self, values: &[Datum]) -> Result<()> {
        for (number, (value, column)) in values.iter().zip(self.columns).enumerate() {
            let Answers { bytes, encoding } = &mut self.out.answers;
            if value.is_null() {
                bytes.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            }
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 4]);
            if self.formats.is_binary(number) {
                binary::write(value, column.sql_type, *encoding, bytes)?;
            } else {
                self.text.clear();
                text::write(value, column.sql_type, self.environment, &mut self.text)?;
                bytes.extend_from_slice(&encoding.encode(&self.text)?);
            }
            let length = i32::try_from(bytes.len() - start - 4).map_err(|_| too_long())?;
            bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row of more than 2 GiB cannot be sent")
}

impl Sink for RowSink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.tell_columns();
        if values.len() != self.columns.len() {
            let text = format!("a row of {} values for {} columns", values.len(), self.columns.len());
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, text));
        }
        let start = self.out.answers.begin(b'D');
        let count = u16::try_from(values.len()).unwrap_or(u16::MAX);
        self.out.answers.bytes.extend_from_slice(&count.to_be_bytes());
        if let Err(error) = self.put(values) {
            self.out.answers.bytes.truncate(start);
            return Err(error);
        }
        if !self.out.answers.end(start) {
            return Err(too_long());
        }
        let sent = self.out.flush_if_full();
        self.check(sent)
    }

    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<()> {
        self.has_copied = true;
        self.out.answers.copy_out(format, columns);
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.out.answers.copy_data(data);
        let sent = self.out.flush_if_full();
        self.check(sent)
    }

    fn notice(&mut self, notice: &SqlError) {
        self.out.answers.error(if notice.state().is_warning() { Severity::Warning } else { Severity::Notice }, notice);
    }

    fn setting_changed(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("client_encoding") {
            self.out.answers.encoding = TextEncoding::of_name(value).unwrap_or(TextEncoding::UTF8);
        }
        self.out.answers.parameter_status(name, value);
        if name.eq_ignore_ascii_case("application_name") {
            set_name(self.client, value);
        }
    }
}

/// What the client calls itself, as `CLIENT LIST` shows it: without what would break its line.
pub(super) fn set_name(client: &Client, name: &str) {
    let name = name.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b'_' });
    client.names().name = name.take(64).collect();
}
