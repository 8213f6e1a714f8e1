//! FETCH FIRST at the end of a query.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::{closing, keyword};
use crate::known_words::without;

/// FETCH FIRST (expression) ROWS ONLY as LIMIT, which takes an expression; FETCH FIRST (expression) ROWS WITH TIES as
/// LIMIT (expression) FETCH ROWS WITH TIES.
pub(super) fn fetch_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = with_offset_first(tokens);
    let is =
        |token: Option<&TokenWithSpan>, wanted: &[Keyword]| token.is_some_and(|token| wanted.contains(&keyword(token)));
    let mut needless = Vec::new();
    for at in 1..tokens.len() {
        let is_fetch = is(tokens.get(at), &[Keyword::FETCH])
            && is(tokens.get(at + 1), &[Keyword::FIRST, Keyword::NEXT])
            && tokens.get(at + 2).is_some_and(|token| token.token == Token::LParen);
        if !is_fetch {
            continue;
        }
        let Some(end) = closing(&tokens[at + 2..]).map(|length| at + 2 + length) else { continue };
        if !is(tokens.get(end + 1), &[Keyword::ROW, Keyword::ROWS]) {
            continue;
        }
        if is(tokens.get(end + 2), &[Keyword::ONLY]) {
            tokens[at].token = Token::make_keyword("LIMIT");
            needless.extend([at + 1, end + 1, end + 2]);
        } else if is(tokens.get(end + 2), &[Keyword::WITH]) {
            tokens[at].token = Token::make_keyword("LIMIT");
            tokens[at + 1].token = Token::make_keyword("FETCH");
            tokens[at + 1..=end].rotate_left(1);
        }
    }
    // Those of a FETCH in the parentheses of another come after the first of that one.
    needless.sort_unstable();
    without(tokens, |at, _| needless.binary_search(&at).is_ok())
}

/// The same tokens with OFFSET before a FETCH that it follows.
fn with_offset_first(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is =
        |token: Option<&TokenWithSpan>, wanted: &[Keyword]| token.is_some_and(|token| wanted.contains(&keyword(token)));
    let mut at = 1;
    while at + 3 < tokens.len() {
        let fetch = at;
        at += 1;
        if !is(tokens.get(fetch), &[Keyword::FETCH]) || !is(tokens.get(fetch + 1), &[Keyword::FIRST, Keyword::NEXT]) {
            continue;
        }
        let rows = match tokens[fetch + 2].token {
            Token::LParen => closing(&tokens[fetch + 2..]).map_or(tokens.len(), |length| fetch + 3 + length),
            _ if is(tokens.get(fetch + 2), &[Keyword::ROW, Keyword::ROWS]) => fetch + 2,
            _ => fetch + 3,
        };
        let offset = match is(tokens.get(rows + 1), &[Keyword::ONLY]) {
            true => rows + 2,
            false => rows + 3,
        };
        if !is(tokens.get(rows), &[Keyword::ROW, Keyword::ROWS]) || !is(tokens.get(offset), &[Keyword::OFFSET]) {
            continue;
        }
        let mut depth = 0_i64;
        let ends = |token: &TokenWithSpan| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            let follows = [Keyword::FOR, Keyword::UNION, Keyword::INTERSECT, Keyword::EXCEPT, Keyword::RETURNING];
            depth < 0 || depth == 0 && (token.token == Token::Comma || follows.contains(&keyword(token)))
        };
        let length = tokens[offset..].iter().position(ends).unwrap_or(tokens.len() - offset);
        tokens[fetch..offset + length].rotate_left(offset - fetch);
        at = offset + length;
    }
    tokens
}
