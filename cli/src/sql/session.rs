//! The shell: it reads pieces of text from a source, runs them, and shows what they answer.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use super::backend::{Backend, Ended, Report, Transaction};
use super::completion::Names;
use super::copying::{Copying, Way};
use super::files;
use super::meta;
use super::pages::Pages;
use super::printer::Printer;
use super::reports;
use super::row_formats::{Format, Frame};
use super::source::{CopySource, Source, Words};
use super::splitter::{Piece, Splitter};
use crate::clock::{self, timed};
use crate::failure::{Failure, Result};
use crate::interrupts::Interrupts;
use crate::shell::lines::Typed;

/// SQLSTATE of a statement that was stopped.
const QUERY_CANCELED: &str = "57014";

/// Words that begin statements after which names may be others.
const DEFINING: [&str; 5] = ["CREATE", "ALTER", "DROP", "SELECT INTO", "ROLLBACK"];

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    /// The source is to be left.
    Quit,
    /// An error, or Ctrl-C, ends all.
    Stop,
}

/// What the shell has between statements.
pub(super) struct Shell {
    pub(super) backend: Box<dyn Backend>,
    pub(super) interrupts: Interrupts,
    pub(super) format: Format,
    pub(super) timing: bool,
    /// The key that ends a refusal of all commands of the shell.
    pub(super) restricted_by: Option<String>,
    /// Whether a person reads what it prints.
    pub(super) is_interactive: bool,
    /// Whether an error ends all.
    pub(super) stops_on_error: bool,
    /// How many statements and commands failed.
    pub(super) failures: u64,
    /// The last statement.
    pub(super) last: String,
    /// How many scripts are under way within each other.
    pub(super) depth: usize,
    /// What Tab completes.
    pub(super) names: Rc<RefCell<Names>>,
    pub(super) are_names_old: bool,
}

impl Shell {
    /// Runs all that a source gives.
    pub(super) fn run(&mut self, source: &mut dyn Source) -> Result<Flow> {
        let mut splitter = Splitter::default();
        loop {
            self.refresh_names();
            match source.line(&self.prompt(splitter.mark()))? {
                Typed::Line(line) if splitter.pending().is_empty() && self.is_typed(source) => {
                    splitter.push(as_command(&line), source.number());
                }
                Typed::Line(line) => splitter.push(&line, source.number()),
                Typed::Interrupt => {
                    splitter.take();
                    continue;
                }
                Typed::End => break,
            }
            match self.run_pieces(&mut splitter, source)? {
                Flow::GoOn => {}
                other => return Ok(other),
            }
        }
        self.run_rest(&mut splitter, source)
    }

    /// Runs what the command line says.
    pub(super) fn run_words(&mut self, words: Vec<String>) -> Result<Flow> {
        let mut source = Words::new(words);
        while let Some(text) = source.next() {
            let mut splitter = Splitter::default();
            splitter.push(&text, 1);
            match self.run_pieces(&mut splitter, &mut source)? {
                Flow::GoOn => {}
                other => return Ok(other),
            }
            match self.run_rest(&mut splitter, &mut source)? {
                Flow::GoOn => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::GoOn)
    }

    /// Runs the pieces that are complete.
    fn run_pieces(&mut self, splitter: &mut Splitter, source: &mut dyn Source) -> Result<Flow> {
        while let Some(piece) = splitter.next() {
            let flow = match piece {
                Piece::Statement(text, line) => {
                    source.keep(&format!("{text};"));
                    self.statement(&text, line, self.format, source)?
                }
                Piece::Command(text) => {
                    source.keep(format!("{} {text}", splitter.pending()).trim_start());
                    match meta::run(self, &text, splitter, source) {
                        Ok(flow) => flow,
                        Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                        Err(failure) => {
                            match source.name() {
                                Some(name) => eprintln!("{name}:{}: {failure}", source.number()),
                                None => eprintln!("{failure}"),
                            }
                            self.failed()
                        }
                    }
                }
            };
            if flow != Flow::GoOn {
                return Ok(flow);
            }
        }
        Ok(Flow::GoOn)
    }

    /// Runs the last statement of a source, if it has no semicolon.
    fn run_rest(&mut self, splitter: &mut Splitter, source: &mut dyn Source) -> Result<Flow> {
        match splitter.take() {
            (text, _) if is_blank(&text) || self.is_typed(source) => Ok(Flow::GoOn),
            (text, line) => self.statement(&text, line, self.format, source),
        }
    }

    /// Whether a person types: then Ctrl-D leaves a statement that has no end.
    fn is_typed(&self, source: &dyn Source) -> bool {
        self.is_interactive && source.name().is_none()
    }

    /// Runs a statement that begins on this line of its source.
    pub(super) fn statement(&mut self, text: &str, line: u64, format: Format, source: &mut dyn Source) -> Result<Flow> {
        if text.is_empty() {
            return Ok(Flow::GoOn);
        }
        text.clone_into(&mut self.last);
        let script = source.name().map(str::to_owned);
        let mut printer = self.printer(format, CopySource::Lines(source));
        printer.is_interactive = self.is_interactive && script.is_none();
        self.run_printed(text, printer, script.as_deref().map(|name| (name, line)))
    }

    /// Runs a COPY with a file of this machine.
    pub(super) fn copy(&mut self, copying: &Copying, source: &mut dyn Source) -> Result<Flow> {
        let (script, line) = (source.name().map(str::to_owned), source.number());
        let mut target = None;
        let lines = match &copying.way {
            Way::From(Some(path)) => CopySource::File(files::open_data(path)?),
            Way::To(Some(path)) => {
                target = Some(files::create_data(path)?);
                CopySource::Lines(source)
            }
            Way::From(None) | Way::To(None) => CopySource::Lines(source),
        };
        let mut printer = self.printer(self.format, lines);
        printer.copy_target = target;
        printer.is_interactive = self.is_interactive && script.is_none();
        self.run_printed(&copying.statement, printer, script.as_deref().map(|name| (name, line)))
    }

    /// Runs a question of the shell itself, and prints its answer.
    pub(super) fn question(&mut self, text: &str, frame: Frame) -> Result<()> {
        let mut nothing = Words::new(Vec::new());
        let mut printer = self.printer(self.format, CopySource::Lines(&mut nothing));
        printer.frame = frame;
        let stop = self.backend.stop();
        let (result, _) = self.interrupts.clone().while_running(stop, || self.backend.run(text, &mut printer));
        printer.end()?;
        match result {
            Ok(()) => Ok(()),
            Err(Ended::Refused(report)) => Err(Failure::new(report.message)),
            Err(Ended::Lost(failure)) => Err(failure),
        }
    }

    fn printer<'s>(&self, format: Format, copy_source: CopySource<'s>) -> Printer<'s> {
        let mut printer = Printer::new(Pages::new(self.is_interactive, &self.interrupts), format, copy_source);
        printer.stop = (self.backend.transaction() == Transaction::No).then(|| self.backend.stop());
        printer
    }

    fn run_printed(&mut self, text: &str, mut printer: Printer<'_>, script: Option<(&str, u64)>) -> Result<Flow> {
        let stop = self.backend.stop();
        let interrupts = self.interrupts.clone();
        let run = || timed(|| self.backend.run(text, &mut printer));
        let ((result, duration), was_stopped) = interrupts.while_running(stop, run);
        let has_left = printer.pages.has_left();
        printer.end()?;
        let beginning = text.trim_start().to_uppercase();
        self.are_names_old |= DEFINING.iter().any(|word| beginning.starts_with(word));
        let flow = match result {
            Ok(()) => Flow::GoOn,
            // It was stopped since the person has seen enough.
            Err(Ended::Refused(report)) if has_left && report.code == QUERY_CANCELED => Flow::GoOn,
            Err(Ended::Refused(report)) => {
                self.refused(&report, text, script);
                // Ctrl-C ends a script as a whole.
                if was_stopped && (script.is_some() || !self.is_interactive) { Flow::Stop } else { self.stopped() }
            }
            Err(Ended::Lost(failure)) => return Err(failure),
        };
        if self.timing {
            self.say(&format!("Time: {}", clock::show(duration)))?;
        }
        Ok(flow)
    }

    fn refused(&mut self, report: &Report, text: &str, script: Option<(&str, u64)>) {
        eprint!("{}", reports::show(report, text, script));
        self.failures += 1;
    }

    /// Counts a failure.
    fn failed(&mut self) -> Flow {
        self.failures += 1;
        self.stopped()
    }

    fn stopped(&self) -> Flow {
        if self.stops_on_error { Flow::Stop } else { Flow::GoOn }
    }

    /// Prints something for people, which is not a row.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        match self.format {
            Format::Aligned | Format::Expanded => self.print(text),
            Format::Csv | Format::Json => Ok(()),
        }
    }

    /// Prints a text.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        let mut pages = Pages::new(self.is_interactive, &self.interrupts);
        writeln!(pages, "{text}")?;
        Ok(pages.end()?)
    }

    /// The prompt: the database, whether a transaction is open, and what the statement so far stands in.
    fn prompt(&self, mark: char) -> String {
        let transaction = match self.backend.transaction() {
            Transaction::No => "",
            Transaction::Open => "*",
            Transaction::Failed => "!",
        };
        format!("{}{mark}{transaction}> ", self.backend.database())
    }

    /// Asks for the names that Tab completes, if they may be others than before.
    fn refresh_names(&mut self) {
        if !self.is_interactive || !self.are_names_old || self.backend.transaction() != Transaction::No {
            return;
        }
        self.are_names_old = false;
        // Completion is no reason to complain.
        if let Ok(names) = Names::read(&mut *self.backend) {
            *self.names.borrow_mut() = names;
        }
    }
}

/// Whether a text has nothing but comments.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("--"))
}

/// A line that a person has typed where a statement may begin: a word that leaves other shells, or asks them for help,
/// is the command of this one.
fn as_command(line: &str) -> &str {
    match line.trim().trim_end_matches(';').trim_end().to_lowercase().as_str() {
        "exit" | "quit" => "\\q",
        "help" => "\\?",
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::as_command;

    #[test]
    fn words_of_other_shells_are_commands() {
        for (line, command) in [
            ("exit", "\\q"),
            ("  QUIT; ", "\\q"),
            ("help", "\\?"),
            ("help me", "help me"),
            ("exit, quit", "exit, quit"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(as_command(line), command, "{line}");
        }
    }
}
