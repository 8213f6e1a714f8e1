//! Frames of windows: `RANGE BETWEEN '1 day'::interval PRECEDING AND '1' FOLLOWING`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// How many tokens the distance of a bound may have to be looked at.
const DISTANCE_TOKENS_MAX: usize = 64;

/// The same tokens with parentheses around distances that begin with a text: the parser takes such a text for an
/// interval, and reads nothing after it.
pub(super) fn bounds_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |at: &usize| {
        matches!(tokens[*at].token, Token::SingleQuotedString(_)) && *at > 0 && {
            let before = at.checked_sub(2).map_or(Keyword::NoKeyword, |before| keyword(&tokens[before]));
            match keyword(&tokens[at - 1]) {
                Keyword::RANGE | Keyword::ROWS | Keyword::GROUPS => true,
                Keyword::BETWEEN => matches!(before, Keyword::RANGE | Keyword::ROWS | Keyword::GROUPS),
                Keyword::AND => matches!(before, Keyword::PRECEDING | Keyword::FOLLOWING | Keyword::ROW),
                _ => false,
            }
        }
    };
    let distances: Vec<(usize, usize)> =
        (0..tokens.len()).filter(begins).filter_map(|at| Some((at, end_of_distance(&tokens, at)?))).collect();
    if distances.is_empty() {
        return tokens;
    }
    let mut known = Vec::with_capacity(tokens.len() + 2 * distances.len());
    let mut distances = distances.into_iter().peekable();
    let mut end = None;
    for (at, token) in tokens.into_iter().enumerate() {
        if end == Some(at) {
            known.push(TokenWithSpan { token: Token::RParen, ..token.clone() });
        }
        if let Some((_, last)) = distances.next_if(|(begin, _)| *begin == at) {
            known.push(TokenWithSpan { token: Token::LParen, ..token.clone() });
            end = Some(last);
        }
        known.push(token);
    }
    known
}

/// Where the distance that begins at a token ends: before PRECEDING or FOLLOWING. None if it is no distance.
fn end_of_distance(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(at).take(DISTANCE_TOKENS_MAX) {
        match (&token.token, keyword(token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) => depth = depth.checked_sub(1)?,
            (_, Keyword::PRECEDING | Keyword::FOLLOWING) if depth == 0 => return Some(place),
            (_, Keyword::AND) | (Token::SemiColon, _) if depth == 0 => return None,
            _ => {}
        }
    }
    None
}
