//! `a OPERATOR(pg_catalog.=) ANY (b)` becomes `a = ANY (b)`: the parser knows ANY, ALL and SOME after plain operators.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// The tokens that OPERATOR and its parentheses take at most: those of an operator are one or two.
const LENGTH_MAX: usize = 7;

/// The same tokens with plain operators before ANY, ALL and SOME. Looks at each token a fixed number of times.
pub(super) fn operators_as_known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let (mut known, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while at < tokens.len() {
        match qualified(&tokens[at..]) {
            Some((operator, length)) => {
                known.extend_from_slice(operator);
                at += length;
            }
            None => {
                known.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    known
}

/// The operator that stands here in the parentheses of OPERATOR, before ANY or its like, and how many tokens these
/// take.
fn qualified(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], usize)> {
    if keyword(tokens.first()?) != Keyword::OPERATOR || tokens.get(1)?.token != Token::LParen {
        return None;
    }
    let end = tokens.iter().take(LENGTH_MAX).position(|token| token.token == Token::RParen)?;
    let inner = match tokens.get(2..end)? {
        [schema, period, rest @ ..] if period.token == Token::Period && is_catalogue(schema) => rest,
        inner => inner,
    };
    let is_quantified = matches!(keyword(tokens.get(end + 1)?), Keyword::ANY | Keyword::ALL | Keyword::SOME);
    (is_quantified && !inner.is_empty()).then_some((inner, end + 1))
}

fn is_catalogue(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("pg_catalog"))
}
