//! Completion by Tab: commands, then the tables behind `use` and `drop`, commands behind `help`.

use std::cell::RefCell;
use std::rc::Rc;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::command::NAMES;

/// Completes the word at the cursor.
pub(super) struct Completion {
    pub(super) table_names: Rc<RefCell<Vec<String>>>,
}

impl Helper for Completion {}

impl Highlighter for Completion {}

impl Hinter for Completion {
    type Hint = String;
}

impl Validator for Completion {}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(candidates(&line[..position], &self.table_names.borrow()))
    }
}

/// Where the last word of `line` begins, and what it may become.
fn candidates(line: &str, table_names: &[String]) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let (before, word) = line.split_at(start);
    let names: Vec<&str> = match before.trim() {
        "" | "help" => NAMES.to_vec(),
        "use" | "drop" => table_names.iter().map(String::as_str).collect(),
        "json" | "timing" => vec!["on", "off"],
        "rollback" => vec!["to"],
        scan if scan.starts_with("scan") => vec!["limit", "reverse"],
        _ => Vec::new(),
    };
    let fitting = names.into_iter().filter(|name| name.starts_with(word));
    (start, fitting.map(|name| format!("{name} ")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_their_place() {
        let tables = ["flights".to_owned(), "flights.airport".to_owned(), "planes".to_owned()];
        let complete = |line| {
            let (start, found) = candidates(line, &tables);
            (start, found.concat())
        };
        assert_eq!(complete("qu"), (0, "quantile quit ".to_owned()));
        assert_eq!(complete("  use fl"), (6, "flights flights.airport ".to_owned()));
        assert_eq!(complete("drop "), (5, "flights flights.airport planes ".to_owned()));
        assert_eq!(complete("help sca"), (5, "scan ".to_owned()));
        assert_eq!(complete("scan JFK lim"), (9, "limit ".to_owned()));
        assert_eq!(complete("count fl"), (6, String::new()));
    }
}
