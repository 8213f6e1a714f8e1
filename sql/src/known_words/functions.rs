//! Functions in FROM: `ROWS FROM (f(a), g(b) AS (c int))` becomes `"?rows from"(f(a), "?defined"(g(b), 'c int'))`, and
//! `f(a) AS (c int)` becomes `f(a) AS f(c int)`. In a select list, `(f(a)).*` becomes `"?row"(f(a))`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::{closing, keyword, written};

/// The name of the call around the functions of ROWS FROM.
pub(crate) const ROWS_FROM: &str = "?rows from";
/// The name of the call around a function of ROWS FROM, and the columns that its rows have.
pub(crate) const DEFINED: &str = "?defined";
/// The name of the call around a row in whose place its fields stand.
pub(crate) const ROW: &str = "?row";

/// The same tokens with calls that the parser knows. Looks at each token a fixed number of times.
pub(super) fn functions_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_as = |at: usize| keyword(&tokens[at]) == Keyword::AS && tokens[at - 1].token == Token::RParen;
    let is_rows_from = |at: usize| keyword(&tokens[at]) == Keyword::FROM && keyword(&tokens[at - 1]) == Keyword::ROWS;
    let is_star = |at: usize| tokens[at].token == Token::Mul && tokens[at - 1].token == Token::Period;
    if !(1..tokens.len()).any(|at| is_as(at) || is_rows_from(at) || is_star(at)) {
        return tokens;
    }
    let mut known: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    // Of each parenthesis that is open: where it stands, and whether it is that of ROWS FROM.
    let mut open: Vec<(usize, bool)> = Vec::new();
    // Where the parenthesis that was closed last stands.
    let mut closed = 0;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let like = |token_of: Token| TokenWithSpan { token: token_of, ..token.clone() };
        let is = |place: usize, wanted: &Token| tokens.get(place).is_some_and(|token| token.token == *wanted);
        if keyword(token) == Keyword::ROWS
            && tokens.get(at + 1).is_some_and(|next| keyword(next) == Keyword::FROM)
            && is(at + 2, &Token::LParen)
            && known.last().is_some_and(begins_table)
        {
            known.extend([like(Token::make_word(ROWS_FROM, Some('"'))), like(Token::LParen)]);
            open.push((known.len() - 1, true));
            at += 3;
            continue;
        }
        match token.token {
            Token::LParen => open.push((known.len(), false)),
            Token::RParen => closed = open.pop().map_or(0, |(place, _)| place),
            Token::Word(_) if keyword(token) == Keyword::AS && is(at + 1, &Token::LParen) => {
                let is_call = closed > 0 && known.last().is_some_and(|last| last.token == Token::RParen);
                let length = closing(&tokens[at + 1..]).filter(|_| is_call && defines(&tokens[at + 2..]));
                if let (Some(length), Token::Word(name)) = (length, &known[closed.saturating_sub(1)].token) {
                    let columns = &tokens[at + 2..at + 1 + length];
                    if open.last().is_some_and(|(_, is_rows_from)| *is_rows_from) {
                        let text = columns.iter().map(|token| written(&token.token)).collect::<Vec<_>>().join(" ");
                        let end = [Token::Comma, Token::SingleQuotedString(text), Token::RParen];
                        known.extend(end.into_iter().map(like));
                        let begin = [Token::make_word(DEFINED, Some('"')), Token::LParen];
                        let begin: Vec<_> = begin.into_iter().map(like).collect();
                        known.splice(closed - 1..closed - 1, begin);
                    } else if closed > 1 && begins_table(&known[closed - 2]) {
                        let name = like(Token::Word(name.clone()));
                        known.extend([token.clone(), name]);
                        known.extend_from_slice(&tokens[at + 1..=at + 1 + length]);
                    } else {
                        known.push(token.clone());
                        at += 1;
                        continue;
                    }
                    at += length + 2;
                    continue;
                }
            }
            Token::Period if is(at + 1, &Token::Mul) => {
                let is_row = known.last().is_some_and(|last| last.token == Token::RParen)
                    && closed > 0
                    && begins_value(&known[closed - 1]);
                if is_row {
                    known.insert(closed, like(Token::make_word(ROW, Some('"'))));
                    at += 2;
                    continue;
                }
            }
            _ => {}
        }
        known.push(token.clone());
        at += 1;
    }
    known
}

/// Whether a table of FROM follows a token.
fn begins_table(before: &TokenWithSpan) -> bool {
    matches!(before.token, Token::Comma | Token::LParen)
        || matches!(keyword(before), Keyword::FROM | Keyword::JOIN | Keyword::LATERAL | Keyword::USING)
}

/// Whether a value of a select list follows a token.
fn begins_value(before: &TokenWithSpan) -> bool {
    before.token == Token::Comma || matches!(keyword(before), Keyword::SELECT | Keyword::RETURNING)
}

/// Whether what follows a parenthesis defines columns, and is no query.
fn defines(tokens: &[TokenWithSpan]) -> bool {
    let is_query = |token: &TokenWithSpan| {
        matches!(
            keyword(token),
            Keyword::SELECT
                | Keyword::WITH
                | Keyword::VALUES
                | Keyword::TABLE
                | Keyword::INSERT
                | Keyword::UPDATE
                | Keyword::DELETE
                | Keyword::MERGE
        )
    };
    match tokens {
        [first, second, ..] => {
            matches!((&first.token, &second.token), (Token::Word(_), Token::Word(_))) && !is_query(first)
        }
        _ => false,
    }
}
