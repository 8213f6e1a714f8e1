//! Rows to bytes.

use crate::copy::CopyFormat;
use crate::copy::options::{CopyOptions, Header};
use crate::copy::{binary, csv, text};
use crate::error::Result;

/// Writes rows in a format of COPY.
///
/// ```
/// use quipu_sql::CopyFormat;
/// use quipu_sql::copy::{CopyOptions, Encoder};
///
/// let encoder = Encoder::new(CopyOptions::new(CopyFormat::Csv), vec!["a".into(), "b".into()]);
/// let mut out = Vec::new();
/// encoder.row([Some(&b"1,5"[..]), None], &mut out)?;
/// assert_eq!(out, b"\"1,5\",\n");
/// # Ok::<(), quipu_sql::SqlError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    options: CopyOptions,
    columns: Vec<String>,
}

impl Encoder {
    /// With these options, for columns of these names.
    pub fn new(options: CopyOptions, columns: Vec<String>) -> Encoder {
        Encoder { options, columns }
    }

    /// Writes what comes before the first row; nothing for most.
    pub fn begin(&self, out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Binary => binary::write_header(out),
            _ if self.options.header == Header::No => {}
            format => {
                for (place, name) in self.columns.iter().enumerate() {
                    self.delimit(place, out);
                    match format {
                        CopyFormat::Csv => csv::write(name.as_bytes(), &self.options, false, self.is_alone(), out),
                        _ => text::write(name.as_bytes(), &self.options, out),
                    }
                }
                out.push(b'\n');
            }
        }
    }

    /// Writes a row: the bytes of each value as the format has them, or none for NULL.
    ///
    /// # Errors
    /// A value of more than 2 GiB in the binary format.
    pub fn row<'v>(&self, values: impl IntoIterator<Item = Option<&'v [u8]>>, out: &mut Vec<u8>) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            binary::write_count(self.columns.len(), out);
            return values.into_iter().try_for_each(|value| binary::write(value, out));
        }
        for (place, value) in values.into_iter().enumerate() {
            self.delimit(place, out);
            match (value, self.options.format) {
                (None, _) => out.extend_from_slice(&self.options.null),
                (Some(value), CopyFormat::Csv) => {
                    let is_forced = self.options.force_quote.has(place);
                    csv::write(value, &self.options, is_forced, self.is_alone(), out);
                }
                (Some(value), _) => text::write(value, &self.options, out),
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// Writes what comes after the last row; nothing for most.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            binary::write_end(out);
        }
    }

    fn delimit(&self, place: usize, out: &mut Vec<u8>) {
        if place > 0 {
            out.push(self.options.delimiter);
        }
    }

    fn is_alone(&self) -> bool {
        self.columns.len() == 1
    }
}
