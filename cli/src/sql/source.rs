//! The sources of lines: a person, a script, the command line.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::completion::{Names, candidates};
use super::files;
use crate::failure::{Failure, Result};
use crate::shell::lines::{Lines, Typed};

/// Gives lines.
pub(super) trait Source {
    /// The next line without its end.
    fn line(&mut self, prompt: &str) -> Result<Typed>;
    /// The name of a script, for errors.
    fn name(&self) -> Option<&str>;
    /// The number of the line that was read last.
    fn number(&self) -> u64 {
        1
    }
    /// Notes a statement or a command for the history.
    fn keep(&mut self, _text: &str) {}
}

/// A person.
pub(super) struct Person {
    lines: Lines,
    /// What is left of lines that were pasted, or recalled, together.
    together: VecDeque<String>,
}

impl Person {
    /// At the terminal; `names` are what Tab completes.
    pub(super) fn new(names: Rc<RefCell<Names>>, history: Option<std::path::PathBuf>) -> Result<Person> {
        let lines = Lines::open(Box::new(move |line| candidates(line, &names.borrow())), history)?;
        Ok(Person { lines, together: VecDeque::new() })
    }

    /// Writes the history.
    pub(super) fn save(&mut self) {
        self.lines.save();
    }
}

impl Source for Person {
    fn line(&mut self, prompt: &str) -> Result<Typed> {
        if let Some(line) = self.together.pop_front() {
            return Ok(Typed::Line(line));
        }
        match self.lines.read_typed(prompt)? {
            Typed::Line(text) if text.contains('\n') => {
                self.together = text.lines().map(str::to_owned).collect();
                Ok(Typed::Line(self.together.pop_front().unwrap_or_default()))
            }
            typed => Ok(typed),
        }
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn keep(&mut self, text: &str) {
        self.lines.keep(text);
    }
}

/// A script.
pub(super) struct Script {
    name: String,
    reader: Box<dyn BufRead>,
    number: u64,
}

impl Script {
    /// In this file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Script> {
        if path.as_os_str() == "-" {
            return Ok(Script::of_stdin());
        }
        let reader = Box::new(BufReader::new(files::open(path)?));
        Ok(Script { name: path.display().to_string(), reader, number: 0 })
    }

    /// On standard input.
    pub(super) fn of_stdin() -> Script {
        Script { name: "<stdin>".to_owned(), reader: Box::new(BufReader::new(std::io::stdin())), number: 0 }
    }
}

impl Source for Script {
    fn line(&mut self, _prompt: &str) -> Result<Typed> {
        let mut bytes = Vec::new();
        let name = &self.name;
        let read = self.reader.read_until(b'\n', &mut bytes);
        if read.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))? == 0 {
            return Ok(Typed::End);
        }
        self.number += 1;
        let ends = usize::from(bytes.ends_with(b"\n")) + usize::from(bytes.ends_with(b"\r\n"));
        bytes.truncate(bytes.len() - ends);
        let number = self.number;
        let line =
            String::from_utf8(bytes).map_err(|_| Failure::new(format!("{name}:{number}: the text is not UTF-8")))?;
        // A byte order mark begins some files.
        Ok(Typed::Line(if number == 1 { line.trim_start_matches('\u{feff}').to_owned() } else { line }))
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn number(&self) -> u64 {
        self.number
    }
}

/// Statements of the command line; data of a COPY comes from standard input.
pub(super) struct Words {
    words: std::vec::IntoIter<String>,
    stdin: Option<Script>,
}

impl Words {
    /// These.
    pub(super) fn new(words: Vec<String>) -> Words {
        Words { words: words.into_iter(), stdin: None }
    }

    /// The next statements.
    pub(super) fn next(&mut self) -> Option<String> {
        self.words.next()
    }
}

impl Source for Words {
    fn line(&mut self, prompt: &str) -> Result<Typed> {
        self.stdin.get_or_insert_with(Script::of_stdin).line(prompt)
    }

    fn name(&self) -> Option<&str> {
        None
    }
}

/// What a COPY FROM STDIN reads.
pub(super) enum CopySource<'s> {
    /// Lines of the source of the statement, up to one with a backslash and a point.
    Lines(&'s mut dyn Source),
    /// A file to its end.
    File(Box<dyn Read>),
}
