//! Clauses that lock the rows of a query: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE, FOR KEY SHARE.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;
use crate::known_words::{is_in_part, without};

/// The same tokens with the locks that the parser knows, and with a clause for each table of FOR UPDATE OF a, b: it
/// takes one name in each.
pub(super) fn locks_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = without_key(tokens);
    let is = |at: usize, wanted: &[Keyword]| tokens.get(at).is_some_and(|token| wanted.contains(&keyword(token)));
    let is_token = |at: usize, wanted: &Token| tokens.get(at).is_some_and(|token| token.token == *wanted);
    let (mut known, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while at < tokens.len() {
        let is_clause =
            is(at, &[Keyword::FOR]) && is(at + 1, &[Keyword::UPDATE, Keyword::SHARE]) && is(at + 2, &[Keyword::OF]);
        if !is_clause {
            known.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let (names_at, mut names, mut end) = (at + 3, Vec::new(), at + 3);
        loop {
            let begin = end;
            end += 1;
            while is_token(end, &Token::Period) {
                end += 2;
            }
            names.push(begin..end);
            if !is_token(end, &Token::Comma) {
                break;
            }
            end += 1;
        }
        if names.len() < 2 || end > tokens.len() {
            known.extend_from_slice(&tokens[at..names_at]);
            at = names_at;
            continue;
        }
        let rest = if is(end, &[Keyword::NOWAIT]) {
            end + 1
        } else if is(end, &[Keyword::SKIP]) {
            (end + 2).min(tokens.len())
        } else {
            end
        };
        for name in names {
            for part in [at..names_at, name, end..rest] {
                known.extend_from_slice(&tokens[part]);
            }
        }
        at = rest;
    }
    known
}

/// The same tokens with FOR UPDATE for FOR NO KEY UPDATE, and FOR SHARE for FOR KEY SHARE, which are stronger locks.
fn without_key(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_update = |part: &[TokenWithSpan]| {
        part.iter().map(keyword).eq([Keyword::FOR, Keyword::NO, Keyword::KEY, Keyword::UPDATE])
    };
    let is_share = |part: &[TokenWithSpan]| part.iter().map(keyword).eq([Keyword::FOR, Keyword::KEY, Keyword::SHARE]);
    without(tokens, |at, tokens| match keyword(&tokens[at]) {
        Keyword::NO => is_in_part(tokens, at, (1, 4), is_update),
        Keyword::KEY => is_in_part(tokens, at, (2, 4), is_update) || is_in_part(tokens, at, (1, 3), is_share),
        _ => false,
    })
}
