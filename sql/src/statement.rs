//! The text of statements as trees.

use std::sync::Arc;

use sqlparser::ast;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::alteration::{Alteration, text_of_do};
use crate::block::Block;
use crate::depth::too_deep;
use crate::dialect::{begin_text, parser_of};
use crate::error::{Result, SqlError, SqlState};
use crate::foreign;
use crate::known_words::{CopyClauses, as_known, without_copy_clauses, without_deferrable, without_snapshot};
use crate::tokens::{Bytes, near, position_of, tokens};
use crate::upkeep;

/// The longest text of statements, in bytes.
const TEXT_MAX: usize = 64 << 20;

/// A statement and its text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The tree.
    pub tree: ast::Statement,
    /// Its text.
    pub text: String,
    /// What it says of its transaction: DEFERRABLE, or NOT DEFERRABLE.
    pub is_deferrable: Option<bool>,
    /// The snapshot that it reads, of AS OF SNAPSHOT.
    pub snapshot: Option<String>,
    /// What a COPY says after its target.
    pub(crate) copy: Arc<CopyClauses>,
    /// Whether it is the query of a cursor, whose rows have the keys of its tables beside its columns.
    pub is_of_cursor: bool,
    /// What it is, if the parser knows no tree of it.
    pub alteration: Option<Arc<Alteration>>,
}

impl Statement {
    /// A statement that is a tree.
    pub fn of_tree(tree: ast::Statement) -> Statement {
        Statement {
            text: tree.to_string(),
            tree,
            is_deferrable: None,
            snapshot: None,
            copy: Arc::default(),
            is_of_cursor: false,
            alteration: None,
        }
    }
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
    let (mut statements, mut bytes) = (Vec::new(), Bytes::in_text(text));
    for (part, end) in split(&tokens) {
        begin_text();
        let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
        let own = &text[bytes.of(first.span.start)..bytes.of(last.span.end)];
        if let Some(token) = too_deep(part) {
            let position = position_of(text, token.span.start.line, token.span.start.column);
            return Err(nested_too_deeply().at(position));
        }
        if let Some((what, hint)) = upkeep::not_there(part) {
            return Err(SqlError::unsupported(what, hint));
        }
        if let Some(body) = text_of_do(part) {
            let alteration = Alteration::of_block(Block::parse(body?)?);
            statements.push(Statement { alteration: Some(Arc::new(alteration)), ..nothing(own) });
            continue;
        }
        if let Some(alteration) = Alteration::parse(part).map_err(|error| refused(error, text, end))? {
            statements.push(Statement { alteration: Some(Arc::new(alteration)), ..nothing(own) });
            continue;
        }
        if let Some((token, hint)) = foreign::swallowed(part) {
            let error = near(token, text);
            return Err(if hint.is_empty() { error } else { error.with_hint(hint) });
        }
        let (part, snapshot) = without_snapshot(part.to_vec());
        let (part, is_deferrable) = without_deferrable(part);
        let (part, copy) = without_copy_clauses(part).map_err(|error| refused(error, text, end))?;
        let part = as_known(part);
        let mut parser = parser_of(part);
        let tree = parser.parse_statement().map_err(|error| refused(error, text, end))?;
        if let Some(token) = Some(parser.peek_token()).filter(|token| token.token != Token::EOF) {
            return Err(near(&token, text));
        }
        foreign::definition(&tree)?;
        let statement = Statement { is_deferrable, snapshot, copy: Arc::new(copy), ..nothing(own) };
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
        is_deferrable: None,
        snapshot: None,
        copy: Arc::default(),
        is_of_cursor: false,
        alteration: None,
    }
}

/// The tokens of each statement, and the semicolon after them.
fn split(tokens: &[TokenWithSpan]) -> impl Iterator<Item = (&[TokenWithSpan], Option<&TokenWithSpan>)> {
    let mut end = 0;
    tokens.split(|token| token.token == Token::SemiColon).filter_map(move |part| {
        end += part.len() + 1;
        (!part.is_empty()).then(|| (part, tokens.get(end - 1)))
    })
}

fn nested_too_deeply() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
        .with_detail("Expressions and queries may be nested about a hundred levels deep.")
}

/// The parser's refusal, with its place; `end` is the semicolon after the statement.
fn refused(error: ParserError, text: &str, end: Option<&TokenWithSpan>) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return nested_too_deeply();
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

/// A parser of a text that is a part of a statement.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if it has no tokens.
pub(crate) fn parser_of_text(text: &str) -> Result<sqlparser::parser::Parser<'static>> {
    Ok(parser_of(tokens(text)?))
}

/// The one expression of a text, such as that of a default.
///
/// # Errors
/// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR) if it is not an expression.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    let mut parser = parser_of(tokens(text)?);
    let expr = parser.parse_expr().map_err(|error| refused(error, text, None))?;
    match parser.peek_token() {
        token if token.token == Token::EOF => Ok(expr),
        token => Err(near(&token, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a statement is does not square: what stands beside the parser's words is told apart in one pass.
    #[test]
    fn long_statements_are_read_in_one_pass() {
        let count = 50_000;
        let rows = vec!["(t).*"; count].join(", ");
        let tree = parse(&format!("SELECT {rows} FROM t")).unwrap().remove(0).tree;
        assert_eq!(tree.to_string().matches("t.*").count(), count);
        let orders = vec!["a USING <"; count].join(", ");
        let tree = parse(&format!("SELECT a FROM t ORDER BY {orders}")).unwrap().remove(0).tree;
        assert_eq!(tree.to_string().matches("a ASC").count(), count);
        let sets = vec!["SET a[1] = 2"; count].join(" ");
        assert!(parse(&format!("UPDATE t {sets}")).is_err());
        assert!(parse(&format!("UPDATE t SET {}", vec!["a[1] = 2"; count].join(", "))).is_err());
        let conflicts = vec!["ON CONFLICT (a) WHERE b"; count].join(" ");
        assert!(parse(&format!("INSERT INTO t VALUES (1) {conflicts}")).is_err());
        let columns = vec!["a int GENERATED ALWAYS AS IDENTITY (START 5 INCREMENT 1)"; count].join(", ");
        let tree = parse(&format!("CREATE TABLE t ({columns})")).unwrap().remove(0).tree;
        assert_eq!(tree.to_string().matches("START 5").count(), count);
        assert!(parse(&format!("CREATE TABLE t ({})", vec!["IDENTITY ("; count].join(" "))).is_err());
        let literal = parse(&format!("SELECT {}", vec!["'ab'"; count].join("\n"))).unwrap().remove(0).tree;
        assert_eq!(literal.to_string().len(), "SELECT ''".len() + 2 * count);
    }

    #[test]
    fn many_statements_and_clauses_are_read_in_one_pass() {
        let count = 50_000;
        let statements = parse(&vec!["SELECT 'ä';\n"; count].concat()).unwrap();
        assert!(statements.len() == count && statements.iter().all(|statement| statement.text == "SELECT 'ä'"));
        let refused = |text: &str, part: &str| assert!(parse(&[text, &vec![part; count].join(" ")].concat()).is_err());
        refused("SELECT sum(a) OVER (ORDER BY a ", "ROWS 1 PRECEDING EXCLUDE TIES)");
        refused("SELECT 1 FROM t ", "FOR UPDATE OF a, b 1");
        refused("SELECT 1 ", "FETCH FIRST (1) ROWS ONLY 1");
        refused("SET TRANSACTION READ ", "NOT DEFERRABLE,");
        assert!(parse(&format!("GRANT {} TO a", vec!["a"; count].join(", "))).is_ok());
        let windows = vec!["sum(a) OVER (ROWS 1 PRECEDING EXCLUDE TIES)"; 1000].join(", ");
        let tree = parse(&format!("SELECT {windows}")).unwrap().remove(0).tree;
        assert_eq!(tree.to_string().matches("?exclude TIES").count(), 1000);
    }

    /// A query in parentheses within others is read once, however deep it lies.
    #[test]
    fn nested_queries_are_read_once() {
        let nested = |count: usize| {
            let value = (0..count).fold("1".to_owned(), |value, _| format!("((SELECT {value}) + 1)"));
            parse(&format!("SELECT {value}"))
        };
        let deepest = move || (1..100).take_while(|&count| nested(count).is_ok()).count();
        let thread = std::thread::Builder::new().stack_size(crate::STACK_BYTES).spawn(deepest);
        let deepest = thread.expect("a thread").join().expect("a count");
        assert!((20..100).contains(&deepest), "{deepest}");
    }
}
