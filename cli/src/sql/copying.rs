//! `\copy`: COPY with a file of this machine.

use std::path::PathBuf;

use crate::failure::{Failure, Result};

/// Which way the data goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Out of a file, or out of standard input if none is named.
    From(Option<PathBuf>),
    /// Into a file, or into standard output if none is named.
    To(Option<PathBuf>),
}

/// A command of `\copy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copying {
    /// The statement that does it.
    pub(super) statement: String,
    pub(super) way: Way,
}

impl Copying {
    /// Reads what follows `\copy`.
    pub(super) fn parse(text: &str) -> Result<Copying> {
        let usage =
            || Failure::new("\\copy TABLE [(COLUMNS)] from FILE [OPTIONS], or \\copy TABLE|(QUERY) to FILE [OPTIONS]");
        let (what, is_from, rest) = cut_at_way(text).ok_or_else(usage)?;
        let (file, options) = first_word(rest);
        let path = match file.to_lowercase().as_str() {
            "" => return Err(usage()),
            "stdin" | "pstdin" if is_from => None,
            "stdout" | "pstdout" if !is_from => None,
            "program" => return Err(Failure::new("\\copy has no program; use a pipe: quipu sql -c 'COPY ...'")),
            _ => Some(PathBuf::from(unquoted(file))),
        };
        let (word, way) = match is_from {
            true => ("FROM STDIN", Way::From(path)),
            false => ("TO STDOUT", Way::To(path)),
        };
        let options = options.trim().trim_end_matches(';');
        Ok(Copying { statement: format!("COPY {what} {word} {options}").trim_end().to_owned(), way })
    }
}

/// What stands before the word `from` or `to` outside of quotes and parentheses, which word that is, and what follows.
fn cut_at_way(text: &str) -> Option<(&str, bool, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_begin = text[..at].ends_with(|before: char| before.is_whitespace() || matches!(before, ')' | '"'));
        if depth > 0 || quote.is_some() || !is_begin {
            continue;
        }
        for (word, is_from) in [("from", true), ("to", false)] {
            let (Some(own), rest) = (text[at..].get(..word.len()), text[at..].get(word.len()..)) else { continue };
            let rest = rest.unwrap_or_default();
            if own.eq_ignore_ascii_case(word) && rest.starts_with(|after: char| after.is_whitespace() || after == '\'')
            {
                return Some((text[..at].trim(), is_from, rest.trim_start()));
            }
        }
    }
    None
}

/// The first word of a text, which may stand in single quotes, and the rest.
fn first_word(text: &str) -> (&str, &str) {
    if let Some(end) = text.strip_prefix('\'').and_then(|inner| inner.find('\'')) {
        return text.split_at(end + 2);
    }
    text.split_at(text.find(|end: char| end.is_whitespace() || end == ';').unwrap_or(text.len()))
}

fn unquoted(word: &str) -> &str {
    word.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_read() {
        for (text, statement, way) in [
            ("t from a.csv csv header", "COPY t FROM STDIN csv header", Way::From(Some("a.csv".into()))),
            ("t (a, b) FROM 'a b.csv'", "COPY t (a, b) FROM STDIN", Way::From(Some("a b.csv".into()))),
            ("t to stdout;", "COPY t TO STDOUT", Way::To(None)),
            ("\"from\" from stdin", "COPY \"from\" FROM STDIN", Way::From(None)),
            (
                "(select ' to ' from t) to 'x' with (format csv)",
                "COPY (select ' to ' from t) TO STDOUT with (format csv)",
                Way::To(Some("x".into())),
            ),
        ] {
            let copying = Copying::parse(text).expect("a copy");
            assert_eq!((copying.statement.as_str(), &copying.way), (statement, &way), "{text}");
        }
        for text in ["", "t", "t from", "t from program 'x'"] {
            assert!(Copying::parse(text).is_err(), "{text}");
        }
    }
}
