//! The parser's dialect: PostgreSQL's, as the parser knows it, with one mend of an operator's reach, and expressions
//! that the parser does not know.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::{self, BinaryOperator, CastKind, DataType, Expr, ObjectName, ValueWithSpan};
use sqlparser::dialect::{Dialect as ParserDialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::functions::identifiers::folded_text;
use crate::functions::quote_literal;

/// How deep the parser goes.
const DEPTH_MAX: usize = 100;
/// Expressions that the parser may read for each token. It reads some parts twice, and what is nested in these four
/// times.
const READS_A_TOKEN: usize = 16;
/// Tokens that a statement is taken to have at least.
const TOKENS_MIN: usize = 1_000;

thread_local! {
    /// Expressions that the parsers of a thread may still read.
    static READS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Words that need an AS before them to name a column of a SELECT.
const NO_BARE_LABELS: &[Keyword] = &[
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::CREATE,
    Keyword::DAY,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FILTER,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::HOUR,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::NOTNULL,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::OVER,
    Keyword::OVERLAPS,
    Keyword::PRECISION,
    Keyword::RETURNING,
    Keyword::SECOND,
    Keyword::TO,
    Keyword::UNION,
    Keyword::VARYING,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];

/// PostgreSQL's dialect.
#[derive(Debug)]
pub(crate) struct Dialect;

/// What PostgreSQL's own dialect answers.
macro_rules! as_postgresql {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            PostgreSqlDialect {}.$name()
        })*
    };
}

impl ParserDialect for Dialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    /// `TRIM(BOTH FROM x)`, `SUBSTRING(x SIMILAR pattern ESCAPE e)`, literals of types whose names are no keywords, and
    /// sub-selects that begin with a query in parentheses.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if !spend(1) {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let word = match &parser.peek_token_ref().token {
            Token::Word(word) => word,
            Token::LParen => return whole_query(parser),
            _ => return None,
        };
        match word.keyword {
            Keyword::TRIM => trim_of_blanks(parser),
            Keyword::GROUPING => grouping_sets(parser),
            Keyword::POSITION => position(parser, self.prec_value(Precedence::Between)),
            Keyword::SUBSTRING => similar_part(parser, self.prec_value(Precedence::Like)),
            Keyword::NoKeyword | Keyword::NAME => typed_literal(parser),
            _ => None,
        }
    }

    /// The parser reads an expression of any precedence after `IS DISTINCT FROM`, and so takes AND and OR for a part of
    /// its right side.
    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        // The parser reads a COLLATE after a value alone, not after a cast.
        if parser.parse_keyword(Keyword::COLLATE) {
            let collated = |collation| Expr::Collate { expr: Box::new(expr.clone()), collation };
            return Some(parser.parse_object_name(false).map(collated));
        }
        if let Some(symmetric) = between_symmetric(parser, expr, self.prec_value(Precedence::Between)) {
            return Some(symmetric);
        }
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        let is_same =
            !is_distinct && parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct && !is_same {
            return None;
        }
        let left = Box::new(expr.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    /// Words that are no names of columns without an AS before them, as PostgreSQL's grammar has them.
    fn is_column_alias(&self, keyword: &Keyword, _parser: &mut Parser) -> bool {
        !NO_BARE_LABELS.contains(keyword)
    }

    /// A name after FROM may follow a query of WITH: it stands for SEARCH and CYCLE, and others are refused.
    fn supports_from_first_insert(&self) -> bool {
        true
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(character)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(character)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        PostgreSqlDialect {}.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    as_postgresql! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

/// A parser of these tokens. It takes a time that is linear in their number, whatever they are.
pub(crate) fn parser_of(tokens: impl Into<Vec<TokenWithSpan>>) -> Parser<'static> {
    let tokens = tokens.into();
    READS_LEFT.set(READS_LEFT.get().max(reads_of(tokens.len())));
    Parser::new(&Dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens)
}

fn reads_of(tokens: usize) -> usize {
    tokens.max(TOKENS_MIN) * READS_A_TOKEN
}

/// A text begins to be read: what a text before it has left is not its own.
pub(crate) fn begin_text() {
    READS_LEFT.set(0);
}

/// Counts expressions that are read, or what takes as long. False if there were too many.
fn spend(reads: usize) -> bool {
    let left = READS_LEFT.get().checked_sub(reads);
    READS_LEFT.set(left.unwrap_or(0));
    left.is_some()
}

/// `POSITION(x IN y)`, which the parser would read a second time as a call.
fn position(parser: &mut Parser, precedence: u8) -> Option<Result<Expr, ParserError>> {
    if parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    let mut read = || {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let expr = Box::new(parser.parse_subexpr(precedence)?);
        parser.expect_keyword(Keyword::IN)?;
        let within = Box::new(parser.parse_expr()?);
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Position { expr, r#in: within })
    };
    Some(read())
}

/// `x BETWEEN SYMMETRIC a AND b` as `x BETWEEN a AND b OR x BETWEEN b AND a`, and ASYMMETRIC, which says nothing.
fn between_symmetric(parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let is_negated = is_keyword(parser, 0, "not");
    let first = usize::from(is_negated);
    let is_symmetric = is_keyword(parser, first + 1, "symmetric");
    let is_either = is_symmetric || is_keyword(parser, first + 1, "asymmetric");
    if !is_keyword(parser, first, "between") || !is_either {
        return None;
    }
    let mut read = || {
        (0..first + 2).for_each(|_| parser.advance_token());
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword(Keyword::AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    };
    let (low, high) = match read() {
        Ok(ends) => ends,
        Err(error) => return Some(Err(error)),
    };
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(expr.clone()),
        negated: is_negated,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let (left, right) = (Box::new(between(&low, &high)), Box::new(between(&high, &low)));
    let op = if is_negated { BinaryOperator::And } else { BinaryOperator::Or };
    Some(Ok(match is_symmetric {
        true => Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })),
        false => *left,
    }))
}

/// Whether a word that is not quoted comes after so many tokens.
fn is_keyword(parser: &Parser, at: usize, wanted: &str) -> bool {
    matches!(&parser.peek_nth_token_ref(at).token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// `TRIM(FROM x)` and `TRIM(LEADING FROM x)`, which trim blanks: the parser takes them with what is trimmed alone.
fn trim_of_blanks(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let keyword = |at: usize| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let has_side = matches!(keyword(2), Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING);
    if parser.peek_nth_token_ref(1).token != Token::LParen || keyword(2 + usize::from(has_side)) != Keyword::FROM {
        return None;
    }
    let mut read = || {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let trim_where = if has_side { Some(parser.parse_trim_where()?) } else { None };
        parser.expect_keyword(Keyword::FROM)?;
        let expr = Box::new(parser.parse_expr()?);
        let more = match parser.consume_token(&Token::Comma) {
            true => Some(parser.parse_comma_separated(Parser::parse_expr)?),
            false => None,
        };
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Trim { trim_where, trim_what: None, expr, trim_characters: more })
    };
    Some(read())
}

/// GROUPING SETS within others.
fn grouping_sets(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    if !is_keyword(parser, 1, "sets") || parser.peek_nth_token_ref(2).token != Token::LParen {
        return None;
    }
    let mut read = || {
        (0..3).for_each(|_| parser.advance_token());
        let sets = parser.parse_comma_separated(|parser| {
            if parser.consume_tokens(&[Token::LParen, Token::RParen]) {
                return Ok(Vec::new());
            }
            Ok(match parser.parse_expr()? {
                Expr::Tuple(parts) => parts,
                part => vec![part],
            })
        })?;
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::GroupingSets(sets))
    };
    Some(read())
}

/// `((SELECT 1) UNION SELECT 2)`: a query that begins with another one in parentheses. What follows that one decides,
/// so that nothing is read twice.
fn whole_query(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let open = (1..).take_while(|&at| parser.peek_nth_token_ref(at).token == Token::LParen).count();
    let is_query = |keyword: Keyword| matches!(keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH);
    if open == 0 || !is_query(keyword(parser.peek_nth_token_ref(open + 1))) {
        return None;
    }
    let inner = parser.index() + 1;
    let tokens = (inner..).map(|at| parser.token_at(at)).take_while(|token| token.token != Token::EOF);
    let close = inner + closing(tokens)?;
    let goes_on = matches!(
        keyword(parser.token_at(close + 1)),
        Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::FETCH
    );
    let read = |parser: &mut Parser| {
        parser.expect_token(&Token::LParen)?;
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Subquery(query))
    };
    goes_on.then(|| read(parser))
}

/// `SUBSTRING(x SIMILAR pattern ESCAPE e)`, as a call with three arguments, which is what PostgreSQL makes of it.
fn similar_part(parser: &mut Parser, precedence: u8) -> Option<Result<Expr, ParserError>> {
    if !has_similar(parser) {
        return None;
    }
    let mut read = || {
        let name = parser.parse_identifier()?;
        parser.expect_token(&Token::LParen)?;
        let value = parser.parse_subexpr(precedence)?;
        parser.expect_keyword(Keyword::SIMILAR)?;
        let pattern = parser.parse_subexpr(precedence)?;
        parser.expect_keyword(Keyword::ESCAPE)?;
        let escape = parser.parse_expr()?;
        parser.expect_token(&Token::RParen)?;
        Ok((name, [value, pattern, escape]))
    };
    let (name, values) = match read() {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let argument = |value| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value));
    let list = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: values.into_iter().map(argument).collect(),
        clauses: Vec::new(),
    };
    Some(Ok(Expr::Function(ast::Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })))
}

/// Whether the call that begins with the next token has the word SIMILAR, not within other parentheses.
fn has_similar(parser: &Parser) -> bool {
    let mut depth = 0_i64;
    for at in parser.index() + 1.. {
        let token = parser.token_at(at);
        if at.is_multiple_of(READS_A_TOKEN) && !spend(1) {
            return false;
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return false,
            _ if depth == 1 && keyword(token) == Keyword::SIMILAR => return true,
            _ => {}
        }
        if depth <= 0 {
            return false;
        }
    }
    false
}

/// `name 'text'` for a type of any name, as a cast.
fn typed_literal(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let is_literal = |at: usize| matches!(parser.peek_nth_token_ref(at).token, Token::SingleQuotedString(_));
    let is_qualified = parser.peek_nth_token_ref(1).token == Token::Period
        && matches!(parser.peek_nth_token_ref(2).token, Token::Word(_));
    if !(is_literal(1) || is_qualified && is_literal(3)) {
        return None;
    }
    let mut read = || {
        let name = parser.parse_object_name(false)?;
        let value: ValueWithSpan = parser.parse_value()?;
        Ok(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::Value(value)),
            data_type: DataType::Custom(name, Vec::new()),
            array: false,
            format: None,
        })
    };
    Some(read())
}

/// A token as text that is read as the same token: the tokenizer takes quotes and escapes from what is within quotes.
pub(crate) fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
            quote_literal(text)
        }
        Token::Word(word) if word.quote_style.is_some() => quoted(&word.value),
        token => token.to_string(),
    }
}

/// A name in quotes, whether it needs them or not.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name as it is meant: with small letters, of those of ASCII, unless it is quoted. Names have all their letters,
/// however many.
pub fn folded(ident: &ast::Ident) -> String {
    meant(&ident.value, ident.quote_style)
}

/// [`folded`], of a word.
pub(crate) fn folded_word(word: &Word) -> String {
    meant(&word.value, word.quote_style)
}

fn meant(name: &str, quote: Option<char>) -> String {
    if quote.is_some() { name.to_owned() } else { folded_text(name) }
}

/// The keyword that a token is.
pub(crate) fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// How many tokens after the first, which opens a parenthesis, the one that closes it stands.
pub(crate) fn closing<'t>(tokens: impl IntoIterator<Item = &'t TokenWithSpan>) -> Option<usize> {
    let mut depth = 0_i64;
    tokens.into_iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::{READS_LEFT, TOKENS_MIN, reads_of};
    use crate::statement::parse;

    #[test]
    fn a_text_may_not_read_what_a_longer_one_before_it_has_left() {
        parse(&format!("SELECT 1{}", ", 1".repeat(50_000))).expect("a long list");
        parse("SELECT 1").expect("a short one");
        assert!(READS_LEFT.get() < reads_of(TOKENS_MIN), "{}", READS_LEFT.get());
    }
}
