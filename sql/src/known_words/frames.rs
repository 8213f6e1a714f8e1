//! Frames of windows: `RANGE BETWEEN '1 day'::interval PRECEDING AND '1' FOLLOWING`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// What the name of a column begins with that stands for what a frame leaves out, in the window of the frame.
pub(crate) const EXCLUDE: &str = "?exclude ";

/// How many tokens the distance of a bound may have to be looked at.
const DISTANCE_TOKENS_MAX: usize = 64;

/// The same tokens with frames as the parser knows them.
pub(super) fn frames_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    bounds_as_known(exclude_as_known(tokens))
}

/// What is known of the window in whose parentheses a token stands.
#[derive(Clone, Copy, Default)]
struct Window {
    /// Where its frame begins.
    frame: Option<usize>,
    /// Whether it has an order or a partition.
    has_list: bool,
}

/// The same tokens without EXCLUDE, which becomes the last value of the order, or of the partition, of its window.
fn exclude_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // The windows that enclose a token, and where marks are put, each with the place of the EXCLUDE and its length.
    let (mut around, mut marks) = (vec![Window::default()], Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match (&token.token, keyword(token)) {
            (Token::LParen, _) => around.push(Window::default()),
            (Token::RParen, _) => {
                around.pop();
            }
            (_, Keyword::ROWS | Keyword::RANGE | Keyword::GROUPS) => {
                if let Some(window) = around.last_mut() {
                    window.frame = Some(at);
                }
            }
            (_, Keyword::ORDER | Keyword::PARTITION) => {
                if let Some(window) = around.last_mut() {
                    window.has_list = true;
                }
            }
            (_, Keyword::EXCLUDE) => {
                if let (Some(length), Some(Window { frame: Some(frame), has_list })) =
                    (length_of_exclude(&tokens[at..]), around.last())
                {
                    marks.push((*frame, *has_list, at..at + length));
                }
            }
            _ => {}
        }
    }
    if marks.is_empty() {
        return tokens;
    }
    let mut known = Vec::with_capacity(tokens.len() + 3 * marks.len());
    let needless: Vec<_> = marks.iter().map(|(_, _, exclude)| exclude.clone()).collect();
    let mut needless = needless.into_iter().peekable();
    marks.sort_by_key(|(frame, ..)| *frame);
    let mut marks = marks.into_iter().peekable();
    for (at, token) in tokens.iter().enumerate() {
        while let Some((_, has_list, exclude)) = marks.next_if(|(frame, ..)| *frame == at) {
            let begin = match has_list {
                true => vec![Token::Comma],
                false => vec![Token::make_keyword("PARTITION"), Token::make_keyword("BY")],
            };
            let what = tokens[exclude.start + 1].token.to_string().to_ascii_uppercase();
            let value = Token::make_word(&format!("{EXCLUDE}{what}"), Some('"'));
            known.extend(begin.into_iter().chain([value]).map(|mark| TokenWithSpan { token: mark, ..token.clone() }));
        }
        needless.next_if(|exclude| exclude.end <= at);
        if !needless.peek().is_some_and(|exclude| exclude.contains(&at)) {
            known.push(token.clone());
        }
    }
    known
}

/// How many tokens an EXCLUDE has; none if it is not one that ends a frame.
fn length_of_exclude(tokens: &[TokenWithSpan]) -> Option<usize> {
    let length = match keyword(tokens.get(1)?) {
        Keyword::CURRENT | Keyword::NO => 3,
        Keyword::GROUP | Keyword::TIES => 2,
        _ => return None,
    };
    (tokens.get(length)?.token == Token::RParen).then_some(length)
}

/// The same tokens with parentheses around distances that begin with a text: the parser takes such a text for an
/// interval, and reads nothing after it.
fn bounds_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
