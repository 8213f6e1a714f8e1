//! Keys of ON CONFLICT that are more than columns: `ON CONFLICT (lower(a)) WHERE b DO ...` becomes
//! `ON CONFLICT ("?expression lower(a)", "?where b") DO ...`, since the parser takes names alone.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::{closing, keyword, written};

/// What the name begins with that stands for an expression.
pub(crate) const CONFLICT_EXPRESSION: &str = "?expression ";
/// What the name begins with that stands for the condition of the rows of an index.
pub(crate) const CONFLICT_WHERE: &str = "?where ";

/// The same tokens with names for what each ON CONFLICT says of its key. Looks at each token a fixed number of times.
pub(super) fn conflicts_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let (mut known, mut kept, mut at) = (Vec::new(), 0, 0);
    while at < tokens.len() {
        let is_target = keyword(&tokens[at]) == Keyword::ON
            && tokens.get(at + 1).is_some_and(|token| keyword(token) == Keyword::CONFLICT)
            && tokens.get(at + 2).is_some_and(|token| token.token == Token::LParen);
        let open = at + 2;
        at += 1;
        if !is_target {
            continue;
        }
        let Some(close) = closing(&tokens[open..]).map(|length| open + length) else { break };
        let condition = match tokens.get(close + 1) {
            Some(token) if keyword(token) == Keyword::WHERE => {
                let begin = close + 2;
                match (begin..tokens.len()).find(|&end| keyword(&tokens[end]) == Keyword::DO) {
                    Some(end) => Some(begin..end),
                    None => return tokens,
                }
            }
            _ => None,
        };
        at = condition.as_ref().map_or(close, |condition| condition.end);
        let mut names = Vec::new();
        for value in values(&tokens, open + 1..close) {
            match &tokens[value.clone()] {
                [name @ TokenWithSpan { token: Token::Word(_), .. }] => names.push(name.clone()),
                [] => return tokens,
                part => names.push(named(CONFLICT_EXPRESSION, part)),
            }
        }
        match condition {
            Some(condition) if !condition.is_empty() => names.push(named(CONFLICT_WHERE, &tokens[condition])),
            Some(_) => return tokens,
            None => {}
        }
        known.extend_from_slice(&tokens[kept..=open]);
        for (number, name) in names.into_iter().enumerate() {
            if number > 0 {
                known.push(TokenWithSpan { token: Token::Comma, ..name.clone() });
            }
            known.push(name);
        }
        known.push(tokens[close].clone());
        kept = at.max(close + 1);
    }
    if kept == 0 {
        return tokens;
    }
    known.extend_from_slice(&tokens[kept..]);
    known
}

/// The parts of a list, as places of tokens.
fn values(tokens: &[TokenWithSpan], list: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), list.start, 0_i64);
    for at in list.clone() {
        match tokens[at].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(begin..at);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(begin..list.end);
    parts
}

fn named(what: &str, part: &[TokenWithSpan]) -> TokenWithSpan {
    let text: Vec<String> = part.iter().map(|token| written(&token.token)).collect();
    TokenWithSpan { token: Token::make_word(&format!("{what}{}", text.join(" ")), Some('"')), ..part[0].clone() }
}
