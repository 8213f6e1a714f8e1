//! Clauses after the target of a COPY: its options, in parentheses or in the words of old, and its condition.

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::copy::written::{OptionValue, WrittenOption};
use crate::dialect::{folded, folded_word, parser_of};
use crate::known_words::create::outside;

/// What a COPY says after its target.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyClauses {
    /// Its options.
    pub(crate) options: Vec<WrittenOption>,
    /// The condition of the rows that it takes.
    pub(crate) condition: Option<Arc<ast::Expr>>,
}

/// The tokens of a COPY up to its target, and what follows that. Other statements come back as they are.
///
/// # Errors
/// Those of reading the options and the condition.
pub(crate) fn without_copy_clauses(
    mut tokens: Vec<TokenWithSpan>,
) -> Result<(Vec<TokenWithSpan>, CopyClauses), ParserError> {
    let mut clauses = CopyClauses::default();
    if !is_word(tokens.first(), "copy") {
        return Ok((tokens, clauses));
    }
    if is_word(tokens.get(1), "binary")
        && matches!(tokens.get(2).map(|token| &token.token), Some(Token::Word(_)))
        && !["to", "from"].iter().any(|word| is_word(tokens.get(2), word))
    {
        tokens.remove(1);
        clauses.options.push(option("format", OptionValue::Text("binary".to_owned())));
    }
    let Some((end, is_from)) = end_of_target(&tokens) else { return Ok((tokens, clauses)) };
    let mut parser = parser_of(tokens.split_off(end));
    if parser.parse_keyword(Keyword::USING) || is_word(Some(&parser.peek_token()), "delimiters") {
        expect_word(&mut parser, "delimiters")?;
        clauses.options.push(option("delimiter", OptionValue::Text(parser.parse_literal_string()?)));
    }
    let _ = parser.parse_keyword(Keyword::WITH);
    if parser.consume_token(&Token::LParen) {
        let options = parser.parse_comma_separated(written_option)?;
        clauses.options.extend(options);
        parser.expect_token(&Token::RParen)?;
    } else {
        while let Some(option) = option_of_old(&mut parser)? {
            clauses.options.push(option);
        }
    }
    if is_from && parser.parse_keyword(Keyword::WHERE) {
        clauses.condition = Some(Arc::new(parser.parse_expr()?));
    }
    match parser.peek_token() {
        token if token.token == Token::EOF => Ok((tokens, clauses)),
        token => parser.expected("end of statement", token),
    }
}

fn option(name: &str, value: OptionValue) -> WrittenOption {
    WrittenOption { name: name.to_owned(), value }
}

fn is_word(token: Option<&TokenWithSpan>, wanted: &str) -> bool {
    token.is_some_and(|token| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    })
}

/// Takes a word that is not one of the parser's.
fn takes_word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_it = is_word(Some(&parser.peek_token()), wanted);
    if is_it {
        parser.advance_token();
    }
    is_it
}

fn expect_word(parser: &mut Parser<'_>, wanted: &str) -> Result<(), ParserError> {
    if takes_word(parser, wanted) { Ok(()) } else { parser.expected(wanted, parser.peek_token()) }
}

/// Where the target of a COPY ends, and whether rows come from it.
fn end_of_target(tokens: &[TokenWithSpan]) -> Option<(usize, bool)> {
    let is_text = |at: usize| {
        matches!(
            tokens.get(at).map(|token| &token.token),
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_))
        )
    };
    outside(tokens).into_iter().find_map(|at| {
        let is_from = is_word(tokens.get(at), "from");
        if !is_from && !is_word(tokens.get(at), "to") {
            return None;
        }
        let next = tokens.get(at + 1);
        let is_program = is_word(next, "program") && is_text(at + 2);
        let is_target = is_program || is_text(at + 1) || is_word(next, "stdin") || is_word(next, "stdout");
        is_target.then_some((at + if is_program { 3 } else { 2 }, is_from))
    })
}

/// An option in parentheses.
fn written_option(parser: &mut Parser<'_>) -> Result<WrittenOption, ParserError> {
    let name = folded(&parser.parse_identifier()?);
    let value = if parser.consume_token(&Token::Mul) {
        OptionValue::All
    } else if parser.consume_token(&Token::LParen) {
        let names = parser.parse_comma_separated(|parser| parser.parse_identifier().map(|name| folded(&name)))?;
        parser.expect_token(&Token::RParen)?;
        OptionValue::List(names)
    } else {
        let token = parser.peek_token();
        match token.token {
            Token::Comma | Token::RParen => OptionValue::None,
            Token::Word(word) => {
                parser.advance_token();
                OptionValue::Text(folded_word(&word))
            }
            Token::Number(number, _) => {
                parser.advance_token();
                OptionValue::Text(number)
            }
            Token::Minus | Token::Plus => {
                parser.advance_token();
                OptionValue::Text(format!("{}{}", token.token, parser.parse_number_value()?))
            }
            _ => OptionValue::Text(parser.parse_literal_string()?),
        }
    };
    Ok(WrittenOption { name, value })
}

/// An option in the words of PostgreSQL before 9.0, which clients still send; none if there is no more.
fn option_of_old(parser: &mut Parser<'_>) -> Result<Option<WrittenOption>, ParserError> {
    let text = |parser: &mut Parser<'_>| {
        let _ = parser.parse_keyword(Keyword::AS);
        parser.parse_literal_string().map(OptionValue::Text)
    };
    let columns = |parser: &mut Parser<'_>| {
        let names = parser.parse_comma_separated(|parser| parser.parse_identifier().map(|name| folded(&name)));
        names.map(OptionValue::List)
    };
    for format in ["binary", "csv"] {
        if takes_word(parser, format) {
            return Ok(Some(option("format", OptionValue::Text(format.to_owned()))));
        }
    }
    for name in ["header", "freeze"] {
        if takes_word(parser, name) {
            return Ok(Some(option(name, OptionValue::None)));
        }
    }
    for name in ["delimiter", "null", "quote", "escape", "encoding"] {
        if takes_word(parser, name) {
            return Ok(Some(option(name, text(parser)?)));
        }
    }
    if !takes_word(parser, "force") {
        return Ok(None);
    }
    if takes_word(parser, "quote") {
        let is_all = parser.consume_token(&Token::Mul);
        return Ok(Some(option("force_quote", if is_all { OptionValue::All } else { columns(parser)? })));
    }
    let name = if takes_word(parser, "not") { "force_not_null" } else { "force_null" };
    expect_word(parser, "null")?;
    Ok(Some(option(name, columns(parser)?)))
}
