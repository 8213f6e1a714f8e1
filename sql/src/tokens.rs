//! The tokens of a text, and their places in it.

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::dialect::Dialect;
use crate::error::{Result, SqlError, SqlState};
use crate::types::refusal::zero_in_text;

/// The place of a line and a column in a text, in characters from 1 on; none if it is not known.
pub fn position_of(text: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 {
        return None;
    }
    let lines_before = text.split_inclusive('\n').take(line as usize - 1);
    let before: usize = lines_before.map(|line| line.chars().count()).sum();
    Some(before + column as usize)
}

/// The tokens of a text, without blanks and comments.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) with its place.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&Dialect, text).tokenize_with_location().map_err(|error| {
        let position = position_of(text, error.location.line, error.location.column);
        SqlError::new(SqlState::SYNTAX_ERROR, error.message.to_lowercase()).at(position)
    })?;
    if let Some(token) = tokens.iter().find(|token| token.token.to_string().contains('\0')) {
        let position = position_of(text, token.span.start.line, token.span.start.column);
        return Err(zero_in_text().at(position));
    }
    let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    with_whole_literals(tokens.collect(), text)
}

/// The same tokens with one literal for those that follow each other on lines of their own, as SQL has it.
fn with_whole_literals(tokens: Vec<TokenWithSpan>, text: &str) -> Result<Vec<TokenWithSpan>> {
    let is_literal = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    if !tokens.windows(2).any(|part| part.iter().all(is_literal)) {
        return Ok(tokens);
    }
    let mut whole: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match (&token.token, whole.last_mut()) {
            (
                Token::SingleQuotedString(more),
                Some(TokenWithSpan { token: Token::SingleQuotedString(literal), span }),
            ) => {
                if token.span.start.line == span.end.line {
                    return Err(near(&token, text));
                }
                literal.push_str(more);
                span.end = token.span.end;
            }
            _ => whole.push(token),
        }
    }
    Ok(whole)
}

/// Finds the bytes at places of a text, each at or after the one before.
pub(crate) struct Bytes<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    column: u64,
}

impl<'t> Bytes<'t> {
    /// From the beginning of a text on.
    pub(crate) fn in_text(text: &'t str) -> Bytes<'t> {
        Bytes { text, at: 0, line: 1, column: 1 }
    }

    /// The byte at a place.
    pub(crate) fn of(&mut self, place: Location) -> usize {
        for character in self.text[self.at..].chars() {
            if (self.line, self.column) >= (place.line, place.column) {
                break;
            }
            self.at += character.len_utf8();
            (self.line, self.column) =
                if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at
    }
}

/// The refusal of a token.
pub(crate) fn near(token: &TokenWithSpan, text: &str) -> SqlError {
    let position = position_of(text, token.span.start.line, token.span.start.column);
    let what = match &token.token {
        Token::EOF => "syntax error at end of input".to_owned(),
        token => format!("syntax error at or near \"{token}\""),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, what).at(position)
}
