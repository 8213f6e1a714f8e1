//! Prints what a statement answers: its rows in the chosen format (`row_formats`), its tag, notices, data of COPY.

use std::io::{Read, Write};

use super::backend::{Answers, Column, Report};
use super::pages::Pages;
use super::reports;
use super::row_formats::{Format, Frame, Table};
use super::source::CopySource;
use crate::failure::{Failure, Result};
use crate::interrupts::Stop;
use crate::shell::lines::Typed;
use crate::table_files::compression::Output;

/// How many bytes of a COPY are sent together.
const COPY_BYTES: usize = 64 << 10;

/// What a person is told who is to type the data of a COPY.
const COPY_HELP: &str = "Enter the data, a line a row; a line of \\. or Ctrl-D ends it, Ctrl-C gives it up.";

/// Takes what a statement answers.
pub(super) struct Printer<'s> {
    pub(super) pages: Pages,
    pub(super) format: Format,
    pub(super) is_interactive: bool,
    /// Where the data of COPY FROM STDIN comes from, and that of COPY TO STDOUT goes.
    pub(super) copy_source: CopySource<'s>,
    pub(super) copy_target: Option<Output>,
    /// Stops the statement when the person has seen enough; none within a transaction, which that would end.
    pub(super) stop: Option<Stop>,
    /// What stands around the rows.
    pub(super) frame: Frame,
    table: Option<Table>,
    has_copied: bool,
    has_begun_copy: bool,
    has_copy_ended: bool,
}

impl<'s> Printer<'s> {
    /// Prints to `pages`.
    pub(super) fn new(pages: Pages, format: Format, copy_source: CopySource<'s>) -> Printer<'s> {
        Printer {
            pages,
            format,
            is_interactive: false,
            copy_source,
            copy_target: None,
            stop: None,
            frame: Frame::default(),
            table: None,
            has_copied: false,
            has_begun_copy: false,
            has_copy_ended: false,
        }
    }

    /// Prints what is left, also of a statement that failed.
    pub(super) fn end(self) -> Result<()> {
        if let Some(target) = self.copy_target {
            target.finish()?;
        }
        Ok(self.pages.end()?)
    }

    /// Reads lines up to the end of the data.
    fn copy_lines(&mut self) -> Result<Vec<u8>> {
        let CopySource::Lines(source) = &mut self.copy_source else { return Ok(Vec::new()) };
        let mut data = Vec::new();
        while data.len() < COPY_BYTES && !self.has_copy_ended {
            match source.line(">> ")? {
                Typed::Line(line) if line == "\\." => self.has_copy_ended = true,
                Typed::Line(line) => {
                    data.extend_from_slice(line.as_bytes());
                    data.push(b'\n');
                }
                Typed::End => self.has_copy_ended = true,
                Typed::Interrupt => return Err(Failure::new("canceled by user")),
            }
        }
        Ok(data)
    }
}

impl Answers for Printer<'_> {
    fn columns(&mut self, columns: Vec<Column>) -> Result<()> {
        self.table = Some(Table::new(self.format, std::mem::take(&mut self.frame), columns));
        Ok(())
    }

    fn row(&mut self, values: &[Option<&str>]) -> Result<()> {
        if self.pages.has_left() {
            if let Some(stop) = self.stop.take() {
                stop();
            }
            return Ok(());
        }
        if let Some(table) = &mut self.table {
            table.row(&mut self.pages, values)?;
        }
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.has_copied = true;
        match &mut self.copy_target {
            Some(target) => target.write_all(data)?,
            None => self.pages.write_all(data)?,
        }
        Ok(())
    }

    fn copy_in(&mut self) -> Result<Option<Vec<u8>>> {
        let data = match &mut self.copy_source {
            CopySource::Lines(_) => {
                if self.is_interactive && !std::mem::replace(&mut self.has_begun_copy, true) {
                    eprintln!("{COPY_HELP}");
                }
                self.copy_lines()?
            }
            CopySource::File(reader) => {
                let mut data = Vec::with_capacity(COPY_BYTES);
                let read = reader.by_ref().take(COPY_BYTES as u64).read_to_end(&mut data);
                read.map_err(|error| Failure::new(format!("cannot read the data: {error}")))?;
                data
            }
        };
        Ok((!data.is_empty()).then_some(data))
    }

    fn notice(&mut self, report: &Report) -> Result<()> {
        self.pages.flush()?;
        eprint!("{}", reports::show(report, "", None));
        Ok(())
    }

    fn done(&mut self, tag: &str) -> Result<()> {
        let is_change = ["INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|word| tag.starts_with(word));
        let has_rows = match self.table.take() {
            Some(mut table) => {
                table.end(&mut self.pages)?;
                true
            }
            None => false,
        };
        let is_for_people = matches!(self.format, Format::Aligned | Format::Expanded);
        let is_copied_here = std::mem::take(&mut self.has_copied) && self.copy_target.is_none();
        if is_for_people && !tag.is_empty() && (!has_rows || is_change) && !is_copied_here {
            writeln!(self.pages, "{tag}")?;
        }
        Ok(())
    }
}
