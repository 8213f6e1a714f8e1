//! The text of statements as trees.

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::alteration::{self, Alteration};
use crate::dialect::Dialect;
use crate::error::{Result, SqlError, SqlState};
use crate::upkeep;

/// The longest text of statements, in bytes.
const TEXT_MAX: usize = 64 << 20;
/// How deep the parser goes.
const DEPTH_MAX: usize = 100;

/// The name of the column in whose place the columns of another table stand: its type is the name of that, with what
/// INCLUDING and EXCLUDING say.
pub(crate) const LIKE: &str = "?like";

/// The option of a materialized view that is created without rows.
pub(crate) const NO_DATA: &str = "?no data";

/// What the name of a column begins with that stands for what a frame leaves out, in the window of the frame.
pub(crate) const EXCLUDE: &str = "?exclude ";

/// A statement and its text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The tree.
    pub tree: ast::Statement,
    /// Its text.
    pub text: String,
    /// Whether it is an INSERT that says OVERRIDING SYSTEM VALUE.
    pub is_overriding: bool,
    /// What it says of its transaction: DEFERRABLE, or NOT DEFERRABLE.
    pub is_deferrable: Option<bool>,
    /// The snapshot that it reads, of AS OF SNAPSHOT.
    pub snapshot: Option<String>,
    /// The condition of the rows that a COPY takes.
    pub copy_condition: Option<Arc<ast::Expr>>,
    /// What it is, if the parser knows no tree of it.
    pub alteration: Option<Arc<Alteration>>,
}

impl Statement {
    /// A statement that is a tree.
    pub fn of_tree(tree: ast::Statement) -> Statement {
        Statement {
            text: tree.to_string(),
            tree,
            is_overriding: false,
            is_deferrable: None,
            snapshot: None,
            copy_condition: None,
            alteration: None,
        }
    }
}

/// The place of a line and a column in a text, in characters from 1 on; none if it is not known.
pub fn position_of(text: &str, line: u64, column: u64) -> Option<usize> {
    if line == 0 {
        return None;
    }
    let lines_before = text.split_inclusive('\n').take(line as usize - 1);
    let before: usize = lines_before.map(|line| line.chars().count()).sum();
    Some(before + column as usize)
}

/// The statements of a text, which are separated by semicolons.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) with its place.
pub fn parse(text: &str) -> Result<Vec<Statement>> {
    if text.len() > TEXT_MAX {
        let what = format!("a statement of {} bytes is too long", text.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            .with_hint("Use parameters for large values, and COPY for many rows."));
    }
    let tokens = tokens(text)?;
    let mut statements = Vec::new();
    for (part, end) in split(&tokens) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
        let own = &text[byte_of(text, &first.span.start)..byte_of(text, &last.span.end)];
        if let Some((what, hint)) = upkeep::not_there(part) {
            return Err(SqlError::unsupported(what, hint));
        }
        if let Some(alteration) = Alteration::parse(part).map_err(|error| refused(error, text, end))? {
            statements.push(Statement { alteration: Some(Arc::new(alteration)), ..nothing(own) });
            continue;
        }
        let (part, snapshot) = without_snapshot(part.to_vec());
        let (part, is_deferrable) = without_deferrable(part);
        let (part, copy_condition) = without_copy_condition(part).map_err(|error| refused(error, text, end))?;
        let (part, is_overriding) = as_known(part);
        let mut parser = Parser::new(&Dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(part);
        let tree = parser.parse_statement().map_err(|error| refused(error, text, end))?;
        if let Some(token) = Some(parser.peek_token()).filter(|token| token.token != Token::EOF) {
            return Err(near(&token, text));
        }
        let statement = Statement { is_overriding, is_deferrable, snapshot, copy_condition, ..nothing(own) };
        statements.push(Statement { tree, ..statement });
    }
    Ok(statements)
}

/// A statement without a tree.
fn nothing(text: &str) -> Statement {
    let tree = ast::Statement::Analyze(ast::Analyze {
        table_name: None,
        partitions: None,
        for_columns: false,
        columns: Vec::new(),
        cache_metadata: false,
        noscan: false,
        compute_statistics: false,
        has_table_keyword: false,
    });
    Statement {
        tree,
        text: text.to_owned(),
        is_overriding: false,
        is_deferrable: None,
        snapshot: None,
        copy_condition: None,
        alteration: None,
    }
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&Dialect, text).tokenize_with_location().map_err(|error| {
        let position = position_of(text, error.location.line, error.location.column);
        SqlError::new(SqlState::SYNTAX_ERROR, error.message.to_lowercase()).at(position)
    })?;
    if let Some(token) = tokens.iter().find(|token| token.token.to_string().contains('\0')) {
        let position = position_of(text, token.span.start.line, token.span.start.column);
        let what = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, what).at(position));
    }
    let tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    with_whole_literals(tokens.collect(), text)
}

/// The same tokens with one literal for those that follow each other on lines of their own, as SQL has it.
fn with_whole_literals(mut tokens: Vec<TokenWithSpan>, text: &str) -> Result<Vec<TokenWithSpan>> {
    let is_literal = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    let mut at = 1;
    while at < tokens.len() {
        if !is_literal(&tokens[at]) || !is_literal(&tokens[at - 1]) {
            at += 1;
            continue;
        }
        if tokens[at].span.start.line == tokens[at - 1].span.end.line {
            return Err(near(&tokens[at], text));
        }
        let next = tokens.remove(at);
        let Token::SingleQuotedString(more) = next.token else { continue };
        tokens[at - 1].span.end = next.span.end;
        if let Token::SingleQuotedString(whole) = &mut tokens[at - 1].token {
            whole.push_str(&more);
        }
    }
    Ok(tokens)
}

/// The tokens of each statement, and the semicolon after them.
fn split(tokens: &[TokenWithSpan]) -> impl Iterator<Item = (&[TokenWithSpan], Option<&TokenWithSpan>)> {
    let mut end = 0;
    tokens.split(|token| token.token == Token::SemiColon).filter_map(move |part| {
        end += part.len() + 1;
        (!part.is_empty()).then(|| (part, tokens.get(end - 1)))
    })
}

fn byte_of(text: &str, location: &sqlparser::tokenizer::Location) -> usize {
    let characters = position_of(text, location.line, location.column).map_or(0, |position| position - 1);
    text.char_indices().nth(characters).map_or(text.len(), |(byte, _)| byte)
}

fn near(token: &TokenWithSpan, text: &str) -> SqlError {
    let position = position_of(text, token.span.start.line, token.span.start.column);
    let what = match &token.token {
        Token::EOF => "syntax error at end of input".to_owned(),
        token => format!("syntax error at or near \"{token}\""),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, what).at(position)
}

/// The parser's refusal, with its place; `end` is the semicolon after the statement.
fn refused(error: ParserError, text: &str, end: Option<&TokenWithSpan>) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply");
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    // "Expected: ..., found: FORM at Line: 1, Column: 10"
    let (what, place) = message.rsplit_once(" at Line: ").unwrap_or((&message, ""));
    let place = place.split_once(", Column: ");
    let place = place.and_then(|(line, column)| Some((line.trim().parse().ok()?, column.trim().parse().ok()?)));
    let position = place.and_then(|(line, column)| position_of(text, line, column));
    let error = match what.rsplit_once("found: ") {
        Some((_, "EOF")) => match end {
            Some(semicolon) => near(semicolon, text),
            None => {
                SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input").at(Some(text.chars().count() + 1))
            }
        },
        Some((_, found)) => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{found}\"")),
        None => return SqlError::new(SqlState::SYNTAX_ERROR, what.to_owned()).at(position),
    };
    error.with_detail(what.to_owned()).at(position)
}

/// The one query of a text, such as that of a view.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if it is not a query.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    match parse(text)?.pop().map(|statement| statement.tree) {
        Some(ast::Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("not a query: {text}"))),
    }
}

/// The one expression of a text, such as that of a default.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if it is not an expression.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    let mut parser = Parser::new(&Dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens(text)?);
    let expr = parser.parse_expr().map_err(|error| refused(error, text, None))?;
    match parser.peek_token() {
        token if token.token == Token::EOF => Ok(expr),
        token => Err(near(&token, text)),
    }
}

/// The tokens of a statement without AS OF SNAPSHOT, which may end it or follow the tables of a FROM, and the name in
/// that clause.
fn without_snapshot(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<String>) {
    let is_word = |token: &TokenWithSpan, wanted: &str| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let is_clause = |part: &[TokenWithSpan]| {
        is_word(&part[0], "AS")
            && is_word(&part[1], "OF")
            && is_word(&part[2], "SNAPSHOT")
            && matches!(part[3].token, Token::SingleQuotedString(_))
    };
    let Some(at) = tokens.windows(4).position(is_clause) else { return (tokens, None) };
    let name = match tokens.drain(at..at + 4).next_back().map(|token| token.token) {
        Some(Token::SingleQuotedString(name)) => Some(name),
        _ => None,
    };
    (tokens, name)
}

/// The tokens of a COPY FROM without its WHERE, and the condition there.
fn without_copy_condition(
    mut tokens: Vec<TokenWithSpan>,
) -> std::result::Result<(Vec<TokenWithSpan>, Option<Arc<ast::Expr>>), ParserError> {
    let is_word = |at: usize, wanted: &str| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    if !is_word(0, "COPY") {
        return Ok((tokens, None));
    }
    let outside = outside(&tokens);
    let from = outside.iter().copied().find(|&at| is_word(at, "STDIN"));
    let found = from.and_then(|from| outside.iter().copied().find(|&at| at > from && is_word(at, "WHERE")));
    let Some(at) = found else { return Ok((tokens, None)) };
    let condition = tokens.split_off(at).split_off(1);
    let mut parser = Parser::new(&Dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(condition);
    let condition = parser.parse_expr()?;
    match parser.peek_token().token {
        Token::EOF => Ok((tokens, Some(Arc::new(condition)))),
        _ => parser.expected("end of statement", parser.peek_token()),
    }
}

/// The tokens of a statement that begins a transaction, or says how one is, without DEFERRABLE or NOT DEFERRABLE, and
/// which of both it was.
fn without_deferrable(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<bool>) {
    let is_word = |token: Option<&TokenWithSpan>, wanted: &str| match token.map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let is_of_transactions = ["BEGIN", "START"].iter().any(|first| is_word(tokens.first(), first))
        || is_word(tokens.first(), "SET")
            && (is_word(tokens.get(1), "TRANSACTION") || is_word(tokens.get(1), "SESSION"));
    let mut is_deferrable = None;
    while let Some(at) = tokens.iter().position(|token| is_of_transactions && is_word(Some(token), "DEFERRABLE")) {
        let is_not = at > 0 && is_word(tokens.get(at - 1), "NOT");
        is_deferrable = Some(!is_not);
        let mut begin = at - usize::from(is_not);
        let mut end = at + 1;
        // Modes may stand between commas.
        let is_comma = |place: usize| tokens.get(place).is_some_and(|token| token.token == Token::Comma);
        if is_comma(end) {
            end += 1;
        } else if begin > 0 && is_comma(begin - 1) {
            begin -= 1;
        }
        tokens.drain(begin..end);
    }
    (tokens, is_deferrable)
}

/// The tokens of a statement without what the parser does not know, and whether that was OVERRIDING SYSTEM VALUE.
fn as_known(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let mut words: Vec<String> = tokens.iter().map(word).collect();
    // A MOVE is a FETCH whose rows go nowhere.
    let is_move = words.first().is_some_and(|word| word == "MOVE");
    if is_move {
        tokens[0].token = Token::make_keyword("FETCH");
        words[0] = "FETCH".to_owned();
    }
    // What roles are made with is not looked at: see `catalogue::roles`.
    let is_of_role = words.get(1).is_some_and(|word| ["ROLE", "USER", "GROUP"].contains(&&**word)) && words.len() > 2;
    if is_of_role && ["CREATE", "ALTER"].contains(&&*words[0]) {
        tokens.truncate(3);
        tokens[1].token = Token::make_keyword("ROLE");
        if words[0] == "ALTER" {
            let (at, name) = (tokens[1].clone(), tokens[2].clone());
            let rename = ["RENAME", "TO"].map(|word| TokenWithSpan { token: Token::make_keyword(word), ..at.clone() });
            tokens.extend(rename.into_iter().chain([name]));
        }
        return (tokens, false);
    }
    if ["GRANT", "REVOKE"].contains(&&*words[0]) && !words.iter().any(|word| word == "ON") {
        // Of roles: the parser wants to be told so.
        let end = words.iter().position(|word| word == "TO" || word == "FROM").unwrap_or(words.len());
        for at in (0..end).rev().filter(|&at| at == 0 || tokens[at].token == Token::Comma).collect::<Vec<_>>() {
            let role = TokenWithSpan { token: Token::make_keyword("ROLE"), ..tokens[at].clone() };
            tokens.insert(at + 1, role);
        }
        return (tokens, false);
    }
    if words[0] == "ABORT" {
        tokens[0].token = Token::make_keyword("ROLLBACK");
    }
    if words[0] == "RESET" && words.get(1).is_some_and(|word| word == "SESSION") && tokens.len() == 3 {
        tokens.truncate(2);
        tokens[1].token = Token::make_word("session_authorization", None);
    }
    let words = words;
    let find = |wanted: &[&str]| words.windows(wanted.len()).position(|part| part == wanted);
    let mut is_overriding = false;
    if words.first().is_some_and(|word| word == "MERGE") {
        tokens = merge_as_known(&tokens, &words);
    } else if words.first().is_some_and(|word| word == "FETCH") {
        // The parser takes no number with a sign.
        if let Some(at) = tokens.iter().position(|token| token.token == Token::Minus)
            && let Some(Token::Number(digits, is_long)) = tokens.get(at + 1).map(|token| token.token.clone())
        {
            tokens[at].token = Token::Number(format!("-{digits}"), is_long);
            tokens.remove(at + 1);
        }
        let last = tokens.len() - 1;
        let keyword = |word: &str| TokenWithSpan { token: Token::make_keyword(word), ..tokens[last].clone() };
        let (from, next) = (keyword("FROM"), keyword("NEXT"));
        if !["FROM", "IN"].contains(&words.get(words.len().saturating_sub(2)).map_or("", String::as_str)) {
            tokens.insert(last, from);
        }
        if tokens.len() == 3 {
            tokens.insert(1, next);
        }
        if tokens.len() == 4 && ["FORWARD", "BACKWARD"].contains(&words[1].as_str()) {
            let one = Token::Number("1".to_owned(), false);
            tokens.insert(2, TokenWithSpan { token: one, ..tokens[1].clone() });
        }
        if is_move {
            let last = tokens[tokens.len() - 1].clone();
            let into = [Token::make_keyword("INTO"), Token::make_word("?", Some('"'))];
            tokens.extend(into.into_iter().map(|token| TokenWithSpan { token, ..last.clone() }));
        }
    } else if words.len() > 3 && words[0] == "SET" && words[1] == "CONSTRAINTS" {
        // As a parameter: SET CONSTRAINTS = names, when.
        let (equal, comma) = (Token::Eq, Token::Comma);
        let at = |token: Token| TokenWithSpan { token, ..tokens[1].clone() };
        let (equal, comma) = (at(equal), at(comma));
        tokens.insert(tokens.len() - 1, comma);
        tokens.insert(2, equal);
    } else if words.first().is_some_and(|word| word == "INSERT" || word == "WITH") {
        for kind in ["SYSTEM", "USER"] {
            if let Some(at) = find(&["OVERRIDING", kind, "VALUE"]) {
                tokens.drain(at..at + 3);
                is_overriding = kind == "SYSTEM";
                break;
            }
        }
    } else if words.first().is_some_and(|word| word == "VACUUM") {
        // There is nothing to do, whatever is named.
        tokens.truncate(1);
    } else if words.first().is_some_and(|word| word == "COPY") && words.iter().any(|word| word == "STDOUT") {
        say_truth(&mut tokens, &words);
    } else if words.first().is_some_and(|word| word == "COPY") && words.iter().any(|word| word == "STDIN") {
        // The parser expects data in the text, after a semicolon.
        let end = TokenWithSpan { token: Token::SemiColon, ..tokens[tokens.len() - 1].clone() };
        tokens.push(end);
        say_truth(&mut tokens, &words);
    } else if let Some(at) = find(&["FOR", "NO", "KEY", "UPDATE"]) {
        // A stronger lock than is asked for.
        tokens.drain(at + 1..at + 3);
    } else if let Some(at) = find(&["FOR", "KEY", "SHARE"]) {
        tokens.remove(at + 1);
    }
    while let Some(at) = tokens.iter().rposition(|token| word(token) == "EXCLUDE") {
        match exclude_as_known(&tokens, at, &word) {
            Some(known) => tokens = known,
            None => break,
        }
    }
    let tokens = with_bare_rows(order_as_known(locks_as_known(tokens)));
    (with_whole_queries(without_inheritance(create_as_known(tokens))), is_overriding)
}

/// The same tokens with `t.*` for `(t).*`, and `t.c.*` for `(t.c).*`, which mean the same here.
fn with_bare_rows(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let begins = |token: &Token| match token {
        Token::Comma | Token::LParen => true,
        Token::Word(word) => word.quote_style.is_none() && matches!(word.keyword, Keyword::SELECT | Keyword::RETURNING),
        _ => false,
    };
    let is_row = |part: &[TokenWithSpan]| {
        begins(&part[0].token)
            && part[1].token == Token::LParen
            && matches!(part[2].token, Token::Word(_))
            && part[3].token == Token::RParen
            && part[4].token == Token::Period
            && part[5].token == Token::Mul
    };
    while let Some(at) = tokens.windows(6).position(is_row) {
        tokens.remove(at + 3);
        tokens.remove(at + 1);
    }
    let is_column = |part: &[TokenWithSpan]| {
        begins(&part[0].token)
            && part[1].token == Token::LParen
            && matches!(part[2].token, Token::Word(_))
            && part[3].token == Token::Period
            && matches!(part[4].token, Token::Word(_))
            && part[5].token == Token::RParen
            && part[6].token == Token::Period
            && part[7].token == Token::Mul
    };
    while let Some(at) = tokens.windows(8).position(is_column) {
        tokens.remove(at + 5);
        tokens.remove(at + 1);
    }
    tokens
}

/// The same tokens with ASC and DESC for the operators of ORDER BY ... USING.
fn order_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_using = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::USING);
    while let Some(at) =
        tokens.windows(2).position(|part| is_using(&part[0].token) && matches!(part[1].token, Token::Lt | Token::Gt))
    {
        let word = if tokens[at + 1].token == Token::Lt { "ASC" } else { "DESC" };
        tokens[at].token = Token::make_keyword(word);
        tokens.remove(at + 1);
    }
    tokens
}

/// The same tokens with a clause for each table of FOR UPDATE OF a, b: the parser takes one name in each.
fn locks_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |token: Option<&TokenWithSpan>| match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is = |token: Option<&TokenWithSpan>, wanted: &Token| token.is_some_and(|token| token.token == *wanted);
    let mut from = 0;
    while let Some(at) = (from..tokens.len()).find(|&at| {
        keyword(tokens.get(at)) == Keyword::FOR
            && matches!(keyword(tokens.get(at + 1)), Keyword::UPDATE | Keyword::SHARE)
            && keyword(tokens.get(at + 2)) == Keyword::OF
    }) {
        let (names_at, mut names, mut end) = (at + 3, Vec::new(), at + 3);
        loop {
            let begin = end;
            end += 1;
            while is(tokens.get(end), &Token::Period) {
                end += 2;
            }
            names.push(begin..end);
            if !is(tokens.get(end), &Token::Comma) {
                break;
            }
            end += 1;
        }
        from = names_at;
        if names.len() < 2 || end > tokens.len() {
            continue;
        }
        let rest = match keyword(tokens.get(end)) {
            Keyword::NOWAIT => end + 1,
            Keyword::SKIP => (end + 2).min(tokens.len()),
            _ => end,
        };
        let mut clauses = Vec::new();
        for name in names {
            for part in [at..names_at, name, end..rest] {
                clauses.extend_from_slice(&tokens[part]);
            }
        }
        from = at + clauses.len();
        tokens.splice(at..rest, clauses);
    }
    tokens
}

/// The same tokens without the ONLY before names of tables, and without NO INHERIT: no table has others that inherit
/// from it.
fn without_inheritance(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_needless = |part: &[TokenWithSpan]| {
        keyword(&part[1]) == Keyword::ONLY
            && matches!(keyword(&part[0]), Keyword::FROM | Keyword::JOIN | Keyword::TABLE | Keyword::UPDATE)
            && matches!(part[2].token, Token::Word(_))
    };
    while let Some(at) = tokens.windows(3).position(is_needless) {
        tokens.remove(at + 1);
    }
    // Of the CHECK of a table that is made or changed.
    if matches!(tokens.first().map(keyword), Some(Keyword::CREATE | Keyword::ALTER)) {
        let is_no_inherit = |part: &[TokenWithSpan]| {
            part[0].token == Token::RParen && keyword(&part[1]) == Keyword::NO && keyword(&part[2]) == Keyword::INHERIT
        };
        while let Some(at) = tokens.windows(3).position(is_no_inherit) {
            tokens.drain(at + 1..at + 3);
        }
    }
    tokens
}

/// The same tokens with what the parser wants of every query: TABLE t becomes SELECT * FROM t, and a SELECT without
/// columns and without FROM reads one row.
fn with_whole_queries(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |at: Option<usize>| match at.and_then(|at| tokens.get(at)).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_wanted = |at: usize| matches!(keyword(Some(at)), Keyword::TABLE | Keyword::SELECT);
    if !(0..tokens.len()).any(is_wanted) {
        return tokens;
    }
    let statement =
        tokens.iter().position(|token| token.token != Token::LParen).and_then(|at| match keyword(Some(at)) {
            Keyword::NoKeyword => None,
            keyword => Some(keyword),
        });
    let mut whole = Vec::with_capacity(tokens.len());
    let (mut depth, mut has_query) = (0_i64, false);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1);
        let before_token = before.map(|before| &tokens[before].token);
        let added = |added: &[Token]| {
            let spanned = |word: &Token| TokenWithSpan { token: word.clone(), ..token.clone() };
            added.iter().map(spanned).collect::<Vec<_>>()
        };
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins_query = match (before_token, keyword(before)) {
            (None | Some(Token::LParen), _) => true,
            (_, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => true,
            (_, Keyword::ALL | Keyword::DISTINCT) => {
                let set = keyword(before.and_then(|before| before.checked_sub(1)));
                matches!(set, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT)
            }
            (_, Keyword::AS) => matches!(statement, Some(Keyword::CREATE | Keyword::PREPARE)),
            (_, Keyword::FOR) => statement == Some(Keyword::DECLARE),
            (_, Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => statement == Some(Keyword::EXPLAIN),
            (Some(Token::RParen), _) => {
                depth == 0 && matches!(statement, Some(Keyword::WITH | Keyword::EXPLAIN | Keyword::INSERT))
            }
            // The name of the table of an INSERT, or VALUE of what it overrides.
            (Some(Token::Word(_)), _) => statement == Some(Keyword::INSERT) && depth == 0 && !has_query,
            _ => false,
        };
        has_query |= depth == 0 && matches!(keyword(Some(at)), Keyword::SELECT | Keyword::VALUES);
        match keyword(Some(at)) {
            Keyword::TABLE if begins_query => {
                whole.extend(added(&[Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")]))
            }
            Keyword::SELECT if begins_query && lacks_columns(tokens.get(at + 1).map(|next| &next.token)) => {
                let number = Token::Number("0".to_owned(), false);
                let rows = [Token::make_keyword("VALUES"), Token::LParen, number, Token::RParen];
                whole.push(token.clone());
                whole.extend(added(&[Token::make_keyword("FROM"), Token::LParen]));
                whole.extend(added(&rows));
                whole.extend(added(&[Token::RParen, Token::make_keyword("AS"), Token::make_word("?", Some('"'))]));
            }
            _ => whole.push(token.clone()),
        }
    }
    whole
}

/// Whether what follows a SELECT says that it has no columns and reads no table.
fn lacks_columns(next: Option<&Token>) -> bool {
    match next {
        None | Some(Token::RParen) => true,
        Some(Token::Word(word)) if word.quote_style.is_none() => matches!(
            word.keyword,
            Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::ORDER
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::FETCH
        ),
        _ => false,
    }
}

/// A MERGE in words that the parser knows: DO NOTHING is a change of rows of which FALSE is true.
fn merge_as_known(tokens: &[TokenWithSpan], words: &[String]) -> Vec<TokenWithSpan> {
    let (mut known, mut is_matched, mut at) = (Vec::with_capacity(tokens.len()), true, 0);
    while at < tokens.len() {
        let next = words.get(at + 1).map_or("", String::as_str);
        let replaced = match &*words[at] {
            "WHEN" => {
                is_matched = next != "NOT";
                None
            }
            "DO" if next == "NOTHING" && is_matched => Some("UPDATE SET nothing = NULL WHERE FALSE"),
            "DO" if next == "NOTHING" => Some("INSERT VALUES (NULL) WHERE FALSE"),
            "DEFAULT" if next == "VALUES" => Some("VALUES (DEFAULT)"),
            _ => None,
        };
        let replaced = replaced.and_then(|text| Tokenizer::new(&Dialect, text).tokenize().ok());
        match replaced {
            Some(replaced) => {
                let replaced = replaced.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
                known.extend(replaced.map(|token| TokenWithSpan { token, ..tokens[at].clone() }));
                at += 2;
            }
            None => {
                known.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    known
}

/// A frame without EXCLUDE, which becomes the last value of the order, or of the partition, of its window.
fn exclude_as_known(
    tokens: &[TokenWithSpan],
    at: usize,
    word: &dyn Fn(&TokenWithSpan) -> String,
) -> Option<Vec<TokenWithSpan>> {
    let what = word(tokens.get(at + 1)?);
    let length = match &*what {
        "CURRENT" | "NO" => 3,
        "GROUP" | "TIES" => 2,
        _ => return None,
    };
    if tokens.get(at + length)?.token != Token::RParen {
        return None;
    }
    let (mut depth, mut unit, mut has_list) = (0_i64, None, None);
    for place in (0..at).rev() {
        match tokens[place].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            match &*word(&tokens[place]) {
                "ROWS" | "RANGE" | "GROUPS" if unit.is_none() => unit = Some(place),
                "ORDER" | "PARTITION" => has_list = Some(()),
                _ => {}
            }
        }
    }
    let unit = unit?;
    let like = &tokens[unit];
    let begin = match has_list {
        Some(()) => vec![Token::Comma],
        None => vec![Token::make_keyword("PARTITION"), Token::make_keyword("BY")],
    };
    let value = Token::make_word(&format!("{EXCLUDE}{what}"), Some('"'));
    let marked = begin.into_iter().chain([value]).map(|token| TokenWithSpan { token, ..like.clone() });
    let mut known = tokens[..unit].to_vec();
    known.extend(marked);
    known.extend_from_slice(&tokens[unit..at]);
    known.extend_from_slice(&tokens[at + length..]);
    Some(known)
}

/// The places of the tokens that stand in no parentheses.
fn outside(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut depth = 0_i64;
    let mut places = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 => places.push(at),
            _ => {}
        }
    }
    places
}

/// CREATE TABLE and SELECT INTO, and others of what is created and dropped, in words that the parser knows.
fn create_as_known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: Option<&TokenWithSpan>, wanted: &str| {
        token.is_some_and(|token| match &token.token {
            Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
            _ => false,
        })
    };
    let as_is = |text: &str, like: &TokenWithSpan| -> Vec<TokenWithSpan> {
        let read = Tokenizer::new(&Dialect, text).tokenize().unwrap_or_default().into_iter();
        let read = read.filter(|token| !matches!(token, Token::Whitespace(_)));
        read.map(|token| TokenWithSpan { token, ..like.clone() }).collect()
    };
    if is(tokens.first(), "SELECT")
        && let Some(into) = outside(&tokens).into_iter().find(|&at| is(tokens.get(at), "INTO"))
    {
        let mut at = into + 1;
        let is_temporary = is(tokens.get(at), "TEMP") || is(tokens.get(at), "TEMPORARY");
        at += usize::from(is_temporary || is(tokens.get(at), "UNLOGGED"));
        at += usize::from(is(tokens.get(at), "TABLE"));
        let end = end_of_name(&tokens, at);
        if end <= tokens.len() {
            let create = if is_temporary { "CREATE TEMPORARY TABLE" } else { "CREATE TABLE" };
            let mut whole = as_is(create, &tokens[0]);
            whole.extend(tokens[at..end].iter().cloned());
            whole.extend(as_is("AS", &tokens[0]));
            tokens.drain(into..end);
            whole.extend(tokens);
            return whole;
        }
    }
    if is(tokens.first(), "DROP") && is(tokens.get(1), "INDEX") && is(tokens.get(2), "CONCURRENTLY") {
        tokens.remove(2);
    }
    if !is(tokens.first(), "CREATE") {
        return tokens;
    }
    if is(tokens.get(1), "UNLOGGED") {
        tokens.remove(1);
    }
    if is(tokens.get(1), "INDEX") || is(tokens.get(1), "UNIQUE") {
        // The one that there is.
        let outside = outside(&tokens);
        let default =
            outside.iter().find(|&&at| is(tokens.get(at), "TABLESPACE") && is(tokens.get(at + 1), "PG_DEFAULT"));
        if let Some(&at) = default {
            tokens.drain(at..at + 2);
        }
        return tokens;
    }
    if is(tokens.get(1), "MATERIALIZED") {
        return create_materialized(tokens, &is, &as_is);
    }
    if let Some(name) = (1..3).find(|&at| is(tokens.get(at), "SEQUENCE")).map(|at| at + 1) {
        let name = if is(tokens.get(name), "IF") { name + 3 } else { name };
        let end = end_of_name(&tokens, name);
        // The parser takes options in one order alone.
        if let Some(rest) = tokens.get(end..)
            && let Ok(Some(options)) = alteration::sequence_options(rest)
        {
            let options = as_is(&alteration::in_order(&options), &tokens[0]);
            tokens.truncate(end);
            tokens.extend(options);
        }
        return tokens;
    }
    let Some(table) = (1..4).find(|&at| is(tokens.get(at), "TABLE")) else { return tokens };
    if let Some(query) = outside(&tokens).into_iter().find(|&at| at > table && is(tokens.get(at), "AS")) {
        return create_as(tokens, query, &is, &as_is);
    }
    // LIKE other INCLUDING this becomes a column, whose type is the other one with options.
    let begins = |before: &TokenWithSpan| matches!(before.token, Token::LParen | Token::Comma);
    while let Some(at) = (1..tokens.len()).find(|&at| is(tokens.get(at), "LIKE") && begins(&tokens[at - 1])) {
        let name_end = end_of_name(&tokens, at + 1);
        let mut end = name_end;
        let mut options = Vec::new();
        while is(tokens.get(end), "INCLUDING") || is(tokens.get(end), "EXCLUDING") {
            let Some(option) = tokens.get(end + 1) else { break };
            options.push(format!("'{} {}'", tokens[end].token, option.token).to_lowercase());
            end += 2;
        }
        if end > tokens.len() {
            break;
        }
        let mut column = as_is(&format!("\"{LIKE}\""), &tokens[at]);
        for token in &tokens[at + 1..name_end] {
            column.push(match &token.token {
                Token::Word(word) if word.quote_style.is_none() => {
                    let token_of = Token::make_word(&word.value.to_lowercase(), Some('"'));
                    TokenWithSpan { token: token_of, ..token.clone() }
                }
                _ => token.clone(),
            });
        }
        options.push("'excluding nothing'".to_owned());
        column.extend(as_is(&format!("({})", options.join(", ")), &tokens[at]));
        tokens.splice(at..end, column);
    }
    tokens
}

/// The end of a name that begins at a place: its parts are separated by points.
fn end_of_name(tokens: &[TokenWithSpan], begin: usize) -> usize {
    let mut end = begin + 1;
    while matches!(tokens.get(end).map(|token| &token.token), Some(Token::Period)) {
        end += 2;
    }
    end
}

/// CREATE MATERIALIZED VIEW without what has no meaning here, how its rows lie on the disk, and with WITH NO DATA as an
/// option before its query.
fn create_materialized(
    mut tokens: Vec<TokenWithSpan>,
    is: &dyn Fn(Option<&TokenWithSpan>, &str) -> bool,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let length = tokens.len();
    let ends_with = |words: &[&str]| {
        length > words.len() && words.iter().rev().zip(tokens.iter().rev()).all(|(word, token)| is(Some(token), word))
    };
    let has_no_data = ends_with(&["WITH", "NO", "DATA"]);
    if has_no_data || ends_with(&["WITH", "DATA"]) {
        tokens.truncate(length - if has_no_data { 3 } else { 2 });
    }
    let name = if is(tokens.get(3), "IF") { 6 } else { 3 };
    let mut end = end_of_name(&tokens, name);
    if matches!(tokens.get(end).map(|token| &token.token), Some(Token::LParen)) {
        let close = tokens[end..].iter().position(|token| token.token == Token::RParen);
        end = close.map_or(end, |close| end + close + 1);
    }
    let query = outside(&tokens).into_iter().find(|&at| at >= end && is(tokens.get(at), "AS"));
    if let Some(query) = query {
        let options = if has_no_data { as_is(&format!("WITH (\"{NO_DATA}\" = TRUE)"), &tokens[0]) } else { Vec::new() };
        tokens.splice(end..query, options);
    }
    tokens
}

/// CREATE TABLE name (names) AS query WITH NO DATA, as one whose query says so.
fn create_as(
    mut tokens: Vec<TokenWithSpan>,
    query: usize,
    is: &dyn Fn(Option<&TokenWithSpan>, &str) -> bool,
    as_is: &dyn Fn(&str, &TokenWithSpan) -> Vec<TokenWithSpan>,
) -> Vec<TokenWithSpan> {
    let last = tokens.len() - 1;
    let has_no_data = is(tokens.get(last), "DATA") && is(tokens.get(last.saturating_sub(1)), "NO");
    let end = last.saturating_sub(1 + usize::from(has_no_data));
    if end <= query {
        // There is no query.
        return tokens;
    }
    if is(tokens.get(last), "DATA") && (has_no_data || is(tokens.get(last - 1), "WITH")) {
        tokens.truncate(end);
    }
    // Names of columns: words between commas, in parentheses after the name of the table.
    let open = tokens[..query].iter().position(|token| token.token == Token::LParen);
    let names = open.and_then(|open| {
        let close = tokens[open..query].iter().position(|token| token.token == Token::RParen)? + open;
        let is_list = tokens[open + 1..close].iter().enumerate().all(|(at, token)| match token.token {
            Token::Word(_) => at % 2 == 0,
            Token::Comma => at % 2 == 1,
            _ => false,
        });
        is_list.then_some((open, close))
    });
    if names.is_none() && !has_no_data {
        return tokens;
    }
    let like = tokens[query].clone();
    let list = names.map(|(open, close)| tokens[open..=close].to_vec()).unwrap_or_default();
    let mut whole = tokens[..query].to_vec();
    if let Some((open, close)) = names {
        whole.drain(open..=close);
    }
    whole.extend(as_is("AS SELECT * FROM (", &like));
    whole.extend(tokens[query + 1..].iter().cloned());
    whole.extend(as_is(") AS \"?\"", &like));
    whole.extend(list);
    if has_no_data {
        whole.extend(as_is("LIMIT 0", &like));
    }
    whole
}

/// Says TRUE and FALSE where options of COPY say ON and OFF.
fn say_truth(tokens: &mut [TokenWithSpan], words: &[String]) {
    for at in 1..words.len() {
        let is_option = ["FREEZE", "HEADER"].contains(&&*words[at - 1]);
        match (is_option, &*words[at]) {
            (true, "ON") => tokens[at].token = Token::make_keyword("TRUE"),
            (true, "OFF") => tokens[at].token = Token::make_keyword("FALSE"),
            _ => {}
        }
    }
}
