//! SEARCH and CYCLE of a query of WITH RECURSIVE: what they say becomes the name after `) FROM`, which the parser takes
//! there.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::{keyword, written};
use crate::foreign::SEARCH;

/// The same tokens with names for the clauses. Looks at each token a fixed number of times.
pub(super) fn search_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |at: usize| {
        let is_word = is_word(&tokens[at], "SEARCH") || is_word(&tokens[at], "CYCLE");
        is_word && tokens[at - 1].token == Token::RParen
    };
    if !(1..tokens.len()).any(begins) {
        return tokens;
    }
    let (mut known, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while let Some(token) = tokens.get(at) {
        let end = if at > 0 && begins(at) { end_of(&tokens, at) } else { None };
        let Some(end) = end else {
            known.push(token.clone());
            at += 1;
            continue;
        };
        let text = tokens[at..end].iter().map(|token| written(&token.token)).collect::<Vec<_>>().join(" ");
        let name = [Token::make_keyword("FROM"), Token::make_word(&format!("{SEARCH}{text}"), Some('"'))];
        known.extend(name.map(|name| TokenWithSpan { token: name, ..token.clone() }));
        at = end;
    }
    known
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The end of the clauses that begin at a place.
fn end_of(tokens: &[TokenWithSpan], begin: usize) -> Option<usize> {
    let mut at = begin;
    if is_word(&tokens[at], "SEARCH") {
        if !is_word(tokens.get(at + 1)?, "DEPTH") && !is_word(tokens.get(at + 1)?, "BREADTH") {
            return None;
        }
        at = after_name(tokens, at, Keyword::SET)?;
    }
    if tokens.get(at).is_some_and(|token| is_word(token, "CYCLE")) {
        at = after_name(tokens, at, Keyword::SET)?;
        at = after_name(tokens, at, Keyword::USING)?;
    }
    Some(at)
}

/// The end of the name after the next word of this kind, before which no parenthesis is.
fn after_name(tokens: &[TokenWithSpan], begin: usize, word: Keyword) -> Option<usize> {
    let is_end = |token: &TokenWithSpan| keyword(token) == word;
    let is_paren = |token: &TokenWithSpan| matches!(token.token, Token::LParen | Token::RParen);
    let length = tokens[begin..].iter().position(|token| is_end(token) || is_paren(token))?;
    let end = begin + length + 2;
    (is_end(&tokens[begin + length]) && end <= tokens.len()).then_some(end)
}
