//! Lines that a person types: edited, completed by Tab, kept as history.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::failure::{Failure, Result};

/// Where the last word of what stands before the cursor begins, and what it may become.
pub(crate) type Candidates = Box<dyn Fn(&str) -> (usize, Vec<String>)>;

/// Completes the word at the cursor.
struct Completion(Candidates);

impl Helper for Completion {}

impl Highlighter for Completion {}

impl Hinter for Completion {
    type Hint = String;
}

impl Validator for Completion {}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((self.0)(&line[..position]))
    }
}

/// What stands before the last word of a line, and that word: empty after a blank.
pub(crate) fn split_last_word(line: &str) -> (&str, &str) {
    line.split_at(line.rfind(char::is_whitespace).map_or(0, |blank| {
        let width = line[blank..].chars().next().map_or(1, char::len_utf8);
        blank + width
    }))
}

/// What a person does at a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
}

/// The terminal.
pub(crate) struct Lines {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// With the history of earlier times, if there is a file for it.
    pub(crate) fn open(candidates: Candidates, history: Option<PathBuf>) -> Result<Lines> {
        let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true).build();
        let mut editor = Editor::with_config(config).map_err(terminal)?;
        editor.set_helper(Some(Completion(candidates)));
        if let Some(history) = &history {
            // The first time there is none.
            let _ = editor.load_history(history);
        }
        Ok(Lines { editor, history })
    }

    /// The next line; `None` at the end of input.
    pub(crate) fn read(&mut self, prompt: &str) -> Result<Option<String>> {
        loop {
            match self.read_typed(prompt)? {
                Typed::Line(line) => return Ok(Some(line)),
                Typed::Interrupt => println!("(`quit` or Ctrl-D ends the shell)"),
                Typed::End => return Ok(None),
            }
        }
    }

    /// What the person does next.
    pub(crate) fn read_typed(&mut self, prompt: &str) -> Result<Typed> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(terminal(error)),
        }
    }

    /// Notes a line for the history.
    pub(crate) fn keep(&mut self, line: &str) {
        let _ = self.editor.add_history_entry(line);
    }

    /// Writes the history.
    pub(crate) fn save(&mut self) {
        if let Some(history) = &self.history
            && let Err(error) = self.editor.save_history(history)
        {
            eprintln!("quipu: cannot keep the history in {}: {error}", history.display());
        }
    }
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_stands_after_the_last_blank() {
        assert_eq!(split_last_word(""), ("", ""));
        assert_eq!(split_last_word("get"), ("", "get"));
        assert_eq!(split_last_word("get k"), ("get ", "k"));
        assert_eq!(split_last_word("get "), ("get ", ""));
        assert_eq!(split_last_word("get\u{3000}k"), ("get\u{3000}", "k"));
    }
}
