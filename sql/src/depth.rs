//! Estimates from the tokens how deep the tree of a statement will be, and refuses what would overflow the stack of
//! those that walk it.
//!
//! The parser counts parentheses itself, more strictly. They are counted here as well, since what looks for the end of
//! each pair before that would take as long as all pairs are deep. A row of operators, such as `1 + 1 + 1`, the parser
//! reads in a loop, and makes a tree of it that is as deep as the row is long.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::keyword;

/// Parentheses and brackets in each other.
const PAIRS_MAX: usize = 200;
/// Operators in a row.
const OPERATORS_MAX: usize = 500;
/// Conditions in a row of AND or OR. Of a query they are taken as a list.
const CONDITIONS_MAX: usize = 10_000;
/// The same in statements whose expressions are written as texts again, such as those of views and checks.
const WRITTEN_CONDITIONS_MAX: usize = 500;
/// Queries in a row of UNION, INTERSECT and EXCEPT.
const QUERIES_MAX: usize = 500;

/// What stands in a row within one pair of parentheses.
#[derive(Default)]
struct Row {
    operators: usize,
    conditions: usize,
    queries: usize,
    /// Those BETWEEN whose AND is to come.
    betweens: usize,
    /// Whether it is a CASE, and not in parentheses.
    is_case: bool,
}

impl Row {
    /// An expression ends.
    fn end(&mut self) {
        (self.operators, self.conditions, self.betweens) = (0, 0, 0);
    }
}

/// The first token at which a statement is deeper than may be.
pub(crate) fn too_deep(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let is_query = tokens.first().is_some_and(|first| {
        first.token == Token::LParen
            || matches!(
                keyword(first),
                Keyword::SELECT
                    | Keyword::WITH
                    | Keyword::VALUES
                    | Keyword::INSERT
                    | Keyword::UPDATE
                    | Keyword::DELETE
                    | Keyword::MERGE
            )
    });
    let conditions_max = if is_query { CONDITIONS_MAX } else { WRITTEN_CONDITIONS_MAX };
    let (mut row, mut around, mut before) = (Row::default(), Vec::new(), Keyword::NoKeyword);
    for token in tokens {
        let word = keyword(token);
        match token.token {
            Token::LParen | Token::LBracket => {
                row.operators += usize::from(token.token == Token::LBracket);
                around.push(std::mem::take(&mut row));
            }
            Token::RParen | Token::RBracket => {
                // A CASE without its end is an error that the parser finds.
                while let Some(outer) = around.pop() {
                    if !std::mem::replace(&mut row, outer).is_case {
                        break;
                    }
                }
            }
            Token::Word(_) => match word {
                Keyword::CASE => around.push(std::mem::replace(&mut row, Row { is_case: true, ..Row::default() })),
                Keyword::END if row.is_case => row = around.pop().unwrap_or_default(),
                Keyword::AND if row.betweens > 0 => row.betweens -= 1,
                Keyword::AND | Keyword::OR => {
                    row.conditions += 1;
                    row.operators = 0;
                }
                Keyword::BETWEEN => {
                    row.operators += 1;
                    row.betweens += 1;
                }
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                    row.end();
                    row.queries += 1;
                }
                Keyword::FROM if before == Keyword::DISTINCT => {}
                word if ENDS.contains(&word) => row.end(),
                word if OPERATORS.contains(&word) => row.operators += 1,
                _ => {}
            },
            Token::Comma => row.end(),
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period => {}
            _ => row.operators += 1,
        }
        before = word;
        if around.len() > PAIRS_MAX
            || row.operators > OPERATORS_MAX
            || row.conditions > conditions_max
            || row.queries > QUERIES_MAX
        {
            return Some(token);
        }
    }
    None
}

/// Words before which an expression ends.
const ENDS: &[Keyword] = &[
    Keyword::SELECT,
    Keyword::FROM,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::WINDOW,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::JOIN,
    Keyword::ON,
    Keyword::USING,
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::SET,
    Keyword::VALUES,
    Keyword::RETURNING,
];

/// Words that are operators.
const OPERATORS: &[Keyword] = &[
    Keyword::AT,
    Keyword::COLLATE,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::OPERATOR,
    Keyword::OVERLAPS,
    Keyword::SIMILAR,
];

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Tokenizer;

    use super::too_deep;
    use crate::dialect::Dialect;

    fn is_too_deep(text: &str) -> bool {
        let tokens = Tokenizer::new(&Dialect, text).tokenize_with_location().expect("tokens");
        let tokens: Vec<_> = tokens.into_iter().filter(|token| !token.token.to_string().trim().is_empty()).collect();
        too_deep(&tokens).is_some()
    }

    #[test]
    fn a_row_of_operators_is_as_deep_as_it_is_long() {
        for (first, next) in [
            ("SELECT 1", " + 1"),
            ("SELECT a", "::int"),
            ("SELECT a", " -> 'b'"),
            ("SELECT a", "[1]"),
            ("SELECT a", " AT TIME ZONE 'utc'"),
            ("SELECT a", " IS NULL"),
            ("SELECT a", " IS DISTINCT FROM b"),
            ("SELECT a", " BETWEEN 1 AND 2"),
            ("SELECT 1", " + CASE WHEN a THEN 1 ELSE 2 END"),
            ("SELECT 1", " || (SELECT 1 FROM t WHERE a = 1)"),
            ("SELECT 1", " UNION SELECT 1"),
            ("CREATE VIEW v AS SELECT 1 WHERE a", " OR a = 1"),
        ] {
            assert!(!is_too_deep(&format!("{first}{}", next.repeat(499))), "{next}");
            assert!(is_too_deep(&format!("{first}{}", next.repeat(501))), "{next}");
        }
    }

    #[test]
    fn lists_are_not_deep() {
        for (first, next) in [
            ("SELECT 1", ", a + 1 - 2"),
            ("SELECT 1 WHERE a = 1", " OR a = 1 AND b BETWEEN 1 AND 2"),
            ("INSERT INTO t VALUES (1, -1)", ", (1, -1)"),
            ("SELECT CASE WHEN a = 1 THEN 1", " WHEN a = 2 AND b > 3 THEN -2"),
            ("SELECT 1 FROM t", " JOIN u ON t.a = u.a"),
            ("UPDATE t SET a = 1", ", b = -1"),
        ] {
            assert!(!is_too_deep(&format!("{first}{}", next.repeat(4_000))), "{next}");
        }
        assert!(is_too_deep(&format!("SELECT 1 WHERE a{}", " OR a".repeat(10_001))));
    }
}
