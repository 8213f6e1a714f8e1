//! Elements of arrays that are set: `SET a[2] = v` becomes `SET a = "?element"(t.a[2], v)`, which is the array with the
//! value in it. Several of one column become one call in the other.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// The name of the call that is an array with another element, or with another part.
pub(crate) const ELEMENT: &str = "?element";

/// One assignment of a SET, as places of tokens.
struct Assignment {
    /// The column, its subscripts among it.
    target: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

/// The most elements that one SET sets: each is a call within the one before, or another column.
const ELEMENTS_MAX: usize = 64;

/// The same tokens with calls for the elements that each SET sets. Looks at each token once.
pub(super) fn elements_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let changes = tokens.first().map(keyword).is_some_and(|first| {
        matches!(first, Keyword::UPDATE | Keyword::INSERT | Keyword::MERGE | Keyword::WITH)
            || matches!(first, Keyword::EXPLAIN | Keyword::PREPARE | Keyword::COPY)
    });
    if !changes {
        return tokens;
    }
    let (mut known, mut kept, mut at, mut into) = (Vec::new(), 0, 0, None);
    while at < tokens.len() {
        let word = keyword(&tokens[at]);
        at += 1;
        if word == Keyword::INTO {
            into = Some(at);
        }
        if word != Keyword::SET {
            continue;
        }
        let begin = at;
        let (assignments, end) = assignments(&tokens, begin);
        at = end;
        let elements = assignments.iter().filter(|assignment| subscripts_in(&tokens, assignment).is_some()).count();
        if !(1..=ELEMENTS_MAX).contains(&elements) {
            continue;
        }
        if let Some(table) = table_of(&tokens, begin - 1, into) {
            known.extend_from_slice(&tokens[kept..begin]);
            known.extend(rewritten(&tokens, &assignments, &table));
            kept = assignments[assignments.len() - 1].value.end;
        }
    }
    if kept == 0 {
        return tokens;
    }
    known.extend_from_slice(&tokens[kept..]);
    known
}

/// Where the subscripts of a target begin, if it has some.
fn subscripts_in(tokens: &[TokenWithSpan], assignment: &Assignment) -> Option<usize> {
    let target = assignment.target.clone();
    if tokens[target.start].token == Token::LParen {
        return None;
    }
    target.into_iter().find(|&at| tokens[at].token == Token::LBracket)
}

/// The assignments from a place on, and the place of what ends the SET.
fn assignments(tokens: &[TokenWithSpan], begin: usize) -> (Vec<Assignment>, usize) {
    let (mut found, mut depth, mut cases) = (Vec::new(), 0_i64, 0_i64);
    let (mut start, mut equal) = (begin, None);
    let mut add = |start: usize, equal: Option<usize>, end: usize| {
        if let Some(equal) = equal.filter(|&equal| start < equal && equal + 1 < end) {
            found.push(Assignment { target: start..equal, value: equal + 1..end });
        }
    };
    let mut at = begin;
    while let Some(token) = tokens.get(at) {
        match (&token.token, keyword(token)) {
            (Token::LParen | Token::LBracket | Token::LBrace, _) => depth += 1,
            (Token::RParen | Token::RBracket | Token::RBrace, _) => depth -= 1,
            (_, Keyword::CASE) => cases += 1,
            (_, Keyword::END) => cases -= 1,
            _ => {}
        }
        let is_outside = depth == 0 && cases == 0;
        let is_distinct = at > 0 && keyword(&tokens[at - 1]) == Keyword::DISTINCT;
        match (&token.token, keyword(token)) {
            _ if depth < 0 => break,
            (Token::Comma, _) if is_outside => {
                add(start, equal, at);
                (start, equal) = (at + 1, None);
            }
            (Token::Eq, _) if is_outside && equal.is_none() => equal = Some(at),
            (_, Keyword::WHERE | Keyword::RETURNING | Keyword::WHEN) if is_outside => break,
            (_, Keyword::FROM) if is_outside && !is_distinct => break,
            _ => {}
        }
        at += 1;
    }
    add(start, equal, at);
    (found, at)
}

/// The name of the table whose columns a SET sets: its alias, or the last part of its name. `into` is the place after
/// the last INTO.
fn table_of(tokens: &[TokenWithSpan], set: usize, into: Option<usize>) -> Option<TokenWithSpan> {
    let before = set.checked_sub(1)?;
    if keyword(&tokens[before]) != Keyword::UPDATE {
        return matches!(tokens[before].token, Token::Word(_)).then(|| tokens[before].clone());
    }
    // Of INSERT and MERGE.
    let mut at = into?;
    if keyword(tokens.get(at)?) == Keyword::ONLY {
        at += 1;
    }
    while tokens.get(at + 1)?.token == Token::Period {
        at += 2;
    }
    if keyword(tokens.get(at + 1)?) == Keyword::AS {
        at += 2;
    } else if tokens.get(at + 2).is_some_and(|next| keyword(next) == Keyword::USING) {
        // The alias of a MERGE, which may be any word.
        at += 1;
    }
    tokens.get(at).cloned()
}

/// The assignments with calls for those of elements.
fn rewritten(tokens: &[TokenWithSpan], assignments: &[Assignment], table: &TokenWithSpan) -> Vec<TokenWithSpan> {
    let like = |token: Token| TokenWithSpan { token, ..table.clone() };
    // The columns with their values, in their order.
    let mut columns: Vec<(&[TokenWithSpan], Vec<TokenWithSpan>, bool)> = Vec::new();
    for assignment in assignments {
        let value = &tokens[assignment.value.clone()];
        let Some(at) = subscripts_in(tokens, assignment) else {
            columns.push((&tokens[assignment.target.clone()], value.to_vec(), false));
            continue;
        };
        let column = &tokens[assignment.target.start..at];
        let is_same = |known: &(&[TokenWithSpan], _, bool)| {
            known.2 && known.0.iter().map(|token| &token.token).eq(column.iter().map(|token| &token.token))
        };
        let place = columns.iter().position(is_same);
        let array = match place {
            Some(place) => {
                let before = std::mem::take(&mut columns[place].1);
                [vec![like(Token::LParen)], before, vec![like(Token::RParen)]].concat()
            }
            // The last part of the name, of the table that is changed.
            None => vec![table.clone(), like(Token::Period), column[column.len() - 1].clone()],
        };
        let mut call = vec![like(Token::make_word(ELEMENT, Some('"'))), like(Token::LParen)];
        call.extend(array);
        call.extend_from_slice(&tokens[at..assignment.target.end]);
        call.push(like(Token::Comma));
        call.extend_from_slice(value);
        call.push(like(Token::RParen));
        match place {
            Some(place) => columns[place].1 = call,
            None => columns.push((column, call, true)),
        }
    }
    let mut known = Vec::new();
    for (place, (column, value, _)) in columns.into_iter().enumerate() {
        if place > 0 {
            known.push(like(Token::Comma));
        }
        known.extend_from_slice(column);
        known.push(like(Token::Eq));
        known.extend(value);
    }
    known
}
