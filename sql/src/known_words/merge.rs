//! MERGE in words that the parser knows.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::dialect::{Dialect, keyword};
use crate::known_words::create::outside;

/// What the first name of an INSERT's columns begins with that stands for OVERRIDING ... VALUE; SYSTEM or USER follows.
pub(crate) const OVERRIDING: &str = "?overriding ";

/// The same tokens for a MERGE that begins at one of them: DO NOTHING is a change of rows of which FALSE is true, ONLY
/// says nothing, tables that are joined after USING stand in parentheses, and OVERRIDING is a column.
pub(super) fn merge_as_known(mut tokens: Vec<TokenWithSpan>, begin: usize) -> Vec<TokenWithSpan> {
    let rest = with_whole_source(tokens.split_off(begin));
    tokens.reserve(rest.len());
    let (mut is_matched, mut at) = (true, 0);
    while at < rest.len() {
        let next = rest.get(at + 1);
        let is_next = |wanted: &str| next.is_some_and(|token| is_word(token, wanted));
        let replaced = match keyword(&rest[at]) {
            Keyword::WHEN => {
                is_matched = !is_next("NOT");
                None
            }
            Keyword::DO if is_next("NOTHING") && is_matched => Some("UPDATE SET nothing = NULL WHERE FALSE"),
            Keyword::DO if is_next("NOTHING") => Some("INSERT VALUES (NULL) WHERE FALSE"),
            Keyword::DEFAULT if is_next("VALUES") => Some("VALUES (DEFAULT)"),
            _ => None,
        };
        if let Some(replaced) = replaced.and_then(|text| Tokenizer::new(&Dialect, text).tokenize().ok()) {
            let replaced = replaced.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
            tokens.extend(replaced.map(|token| TokenWithSpan { token, ..rest[at].clone() }));
            at += 2;
        } else if let Some(whose) = overriding(&rest[at..]) {
            add_column(&mut tokens, begin, &rest[at], &format!("{OVERRIDING}{whose}"));
            at += 3;
        } else {
            tokens.push(rest[at].clone());
            at += 1;
        }
    }
    tokens
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The same tokens, in which OVERRIDING of each INSERT is a column.
pub(super) fn overriding_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !(0..tokens.len()).any(|at| overriding(&tokens[at..]).is_some()) {
        return tokens;
    }
    let mut known = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        match overriding(&tokens[at..]) {
            Some(whose) => {
                add_column(&mut known, 0, &tokens[at], &format!("{OVERRIDING}{whose}"));
                at += 3;
            }
            None => {
                known.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    known
}

/// Whose value OVERRIDING ... VALUE means, if tokens begin with it.
fn overriding(tokens: &[TokenWithSpan]) -> Option<&'static str> {
    let [first, whose, value, ..] = tokens else { return None };
    if !is_word(first, "OVERRIDING") || !is_word(value, "VALUE") {
        return None;
    }
    ["SYSTEM", "USER"].into_iter().find(|wanted| is_word(whose, wanted))
}

/// Adds the name of a column before those of an INSERT whose columns, if it has some, end with the tokens so far.
fn add_column(tokens: &mut Vec<TokenWithSpan>, begin: usize, place: &TokenWithSpan, name: &str) {
    let at = |token: Token| TokenWithSpan { token, ..place.clone() };
    let name = at(Token::make_word(name, Some('"')));
    let open = match tokens.last().map(|token| &token.token) {
        Some(Token::RParen) => tokens[begin..].iter().rposition(|token| token.token == Token::LParen),
        _ => None,
    };
    match open {
        Some(open) => drop(tokens.splice(begin + open + 1..begin + open + 1, [name, at(Token::Comma)])),
        None => tokens.extend([at(Token::LParen), name, at(Token::RParen)]),
    }
}

/// The tokens of a MERGE without ONLY before its tables, and with parentheses around tables that are joined.
fn with_whole_source(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let (mut before, mut at) = (Keyword::NoKeyword, 0);
    tokens.retain(|token| {
        let is_only = keyword(token) == Keyword::ONLY
            && (matches!(before, Keyword::INTO | Keyword::USING) || at == 1 && before == Keyword::MERGE);
        (before, at) = (keyword(token), at + 1);
        !is_only
    });
    let places = outside(&tokens);
    let find = |wanted: Keyword| places.iter().position(|&place| keyword(&tokens[place]) == wanted);
    let Some(using) = find(Keyword::USING) else { return tokens };
    let is_when = |&place: &usize| {
        let is_next = |wanted: &str| tokens.get(place + 1).is_some_and(|token| is_word(token, wanted));
        keyword(&tokens[place]) == Keyword::WHEN && (is_next("MATCHED") || is_next("NOT"))
    };
    let source = places[using..].iter().take_while(|place| !is_when(place));
    let source: Vec<usize> = source.copied().collect();
    let Some(on) = source.iter().rposition(|&place| keyword(&tokens[place]) == Keyword::ON) else { return tokens };
    if source[..on].iter().any(|&place| keyword(&tokens[place]) == Keyword::JOIN) {
        let (first, last) = (source[0], source[on]);
        let parenthesis = |token: Token| TokenWithSpan { token, ..tokens[first].clone() };
        let (open, close) = (parenthesis(Token::LParen), parenthesis(Token::RParen));
        tokens.insert(last, close);
        tokens.insert(first + 1, open);
    }
    tokens
}
