//! VARIADIC in calls: `concat(VARIADIC a)` becomes `concat("?variadic"(a))`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// The name of the call around an array whose elements are arguments.
pub(crate) const VARIADIC: &str = "?variadic";

/// The same tokens with a call for each VARIADIC. Looks at each token once.
pub(super) fn variadic_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_variadic = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("VARIADIC"),
        _ => false,
    };
    let is_of_definition = tokens
        .iter()
        .take(4)
        .any(|token| matches!(keyword(token), Keyword::FUNCTION | Keyword::PROCEDURE | Keyword::AGGREGATE));
    if is_of_definition || !tokens.iter().any(is_variadic) {
        return tokens;
    }
    // Of each parenthesis that is open, whether a call in it is.
    let (mut known, mut open) = (Vec::<TokenWithSpan>::with_capacity(tokens.len() + 2), Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        let like = |token_of: Token| TokenWithSpan { token: token_of, ..token.clone() };
        let begins = at > 0 && matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        match &token.token {
            _ if begins && is_variadic(token) && open.last() == Some(&false) => {
                known.extend([like(Token::make_word(VARIADIC, Some('"'))), like(Token::LParen)]);
                open.pop();
                open.push(true);
                continue;
            }
            Token::LParen => open.push(false),
            Token::RParen => known.extend((open.pop() == Some(true)).then(|| like(Token::RParen))),
            _ if keyword(token) == Keyword::ORDER && open.last() == Some(&true) => {
                known.push(like(Token::RParen));
                open.pop();
                open.push(false);
            }
            _ => {}
        }
        known.push(token.clone());
    }
    known
}
