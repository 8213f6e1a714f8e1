//! Words that the parser takes for the beginning of a clause, where they are names of columns and tables.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// The same tokens with quotes around TOP, VALUES, EXISTS, TRIM and INTERVAL that are names.
pub(super) fn names_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 1..tokens.len() {
        if is_name(&tokens[at - 1], &tokens[at], tokens.get(at + 1))
            && let Token::Word(word) = &tokens[at].token
        {
            tokens[at].token = Token::make_word(&word.value.to_ascii_lowercase(), Some('"'));
        }
    }
    tokens
}

/// Whether a word between two others is a name: what it begins otherwise does not follow.
fn is_name(before: &TokenWithSpan, word: &TokenWithSpan, after: Option<&TokenWithSpan>) -> bool {
    let is_before = |words: &[Keyword]| words.contains(&keyword(before));
    let follows = |wanted: fn(&Token) -> bool| after.is_some_and(|after| wanted(&after.token));
    match keyword(word) {
        Keyword::TOP => !follows(|next| matches!(next, Token::Number(..) | Token::LParen)),
        Keyword::VALUES => !is_before(&[Keyword::DEFAULT, Keyword::FOR]) && !follows(|next| *next == Token::LParen),
        Keyword::EXISTS => !is_before(&[Keyword::IF, Keyword::NOT]) && !follows(|next| *next == Token::LParen),
        Keyword::TRIM => !follows(|next| *next == Token::LParen),
        // Where a value may begin. As the type of a column it follows a name, as that of a cast AS or two colons.
        Keyword::INTERVAL => {
            let is_operator = |token: &Token| {
                use Token::{Div, Eq, Gt, GtEq, Lt, LtEq, Minus, Mul, Neq, Plus};
                matches!(token, Div | Eq | Gt | GtEq | Lt | LtEq | Minus | Mul | Neq | Plus)
            };
            let begins_value = is_operator(&before.token)
                || before.token == Token::Comma
                || before.token == Token::LParen && follows(is_operator)
                || is_before(BEFORE_VALUES);
            let is_literal = |next: &Token| {
                matches!(next, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::LParen)
            };
            begins_value && !follows(is_literal)
        }
        _ => false,
    }
}

/// Words after which a value begins.
const BEFORE_VALUES: &[Keyword] = &[
    Keyword::SELECT,
    Keyword::DISTINCT,
    Keyword::WHERE,
    Keyword::AND,
    Keyword::OR,
    Keyword::NOT,
    Keyword::BY,
    Keyword::ON,
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::BETWEEN,
    Keyword::HAVING,
    Keyword::RETURNING,
];
