//! The block of a DO, read: BEGIN, statements, IF, RAISE, and EXCEPTION with what is done after an error.
//!
//! Not here: variables, loops and cursors, which are refused; what a block does (`session/do_block`).

use std::sync::Arc;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, SqlState};
use crate::tokens::{Bytes, near, tokens};

/// Statements that are run one after the other, and what is done if one of them fails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// What is done.
    pub(crate) steps: Vec<Step>,
    /// What is done after an error, which undoes the steps.
    pub(crate) handlers: Vec<Handler>,
}

/// One thing that a block does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// NULL.
    Nothing,
    /// A statement, as its text.
    Statement(Arc<str>),
    /// A query whose rows are not looked at: PERFORM.
    Perform(Arc<str>),
    /// The statements of a text that an expression gives.
    Execute(Arc<str>),
    /// RAISE.
    Raise {
        /// How grave it is.
        level: Level,
        /// What is said; each `%` stands for one of the values.
        text: Arc<str>,
        /// Expressions.
        values: Vec<Arc<str>>,
    },
    /// The steps of the first condition that is true, or the others.
    If {
        /// Conditions with their steps.
        branches: Vec<(Arc<str>, Vec<Step>)>,
        /// What is done if none is true.
        otherwise: Vec<Step>,
    },
    /// A block within.
    Block(Block),
    /// The end of all blocks.
    Return,
}

/// How grave it is what RAISE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Clients are not told.
    Unseen,
    /// A notice.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Exception,
}

/// What is done after some errors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handler {
    conditions: Vec<Condition>,
    /// What is done.
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// OTHERS: all but that the statement was cancelled.
    Others,
    /// An SQLSTATE, or the class of all that begin as it does if it ends with `000`.
    State(Arc<str>),
}

impl Handler {
    /// Whether it is for an error.
    pub(crate) fn takes(&self, state: SqlState) -> bool {
        self.conditions.iter().any(|condition| match condition {
            Condition::Others => state != SqlState::QUERY_CANCELED,
            Condition::State(wanted) => {
                let is_class = wanted.ends_with("000") && state.code().starts_with(&wanted[..2]);
                is_class || state.code() == &**wanted
            }
        })
    }
}

/// Names of errors, as EXCEPTION has them.
const CONDITIONS: &[(&str, &str)] = &[
    ("cardinality_violation", "21000"),
    ("check_violation", "23514"),
    ("datatype_mismatch", "42804"),
    ("deadlock_detected", "40P01"),
    ("dependent_objects_still_exist", "2BP01"),
    ("division_by_zero", "22012"),
    ("duplicate_alias", "42712"),
    ("duplicate_column", "42701"),
    ("duplicate_cursor", "42P03"),
    ("duplicate_database", "42P04"),
    ("duplicate_function", "42723"),
    ("duplicate_object", "42710"),
    ("duplicate_prepared_statement", "42P05"),
    ("duplicate_schema", "42P06"),
    ("duplicate_table", "42P07"),
    ("feature_not_supported", "0A000"),
    ("foreign_key_violation", "23503"),
    ("insufficient_privilege", "42501"),
    ("integrity_constraint_violation", "23000"),
    ("invalid_parameter_value", "22023"),
    ("invalid_schema_name", "3F000"),
    ("invalid_table_definition", "42P16"),
    ("invalid_text_representation", "22P02"),
    ("lock_not_available", "55P03"),
    ("not_null_violation", "23502"),
    ("numeric_value_out_of_range", "22003"),
    ("object_in_use", "55006"),
    ("object_not_in_prerequisite_state", "55000"),
    ("raise_exception", "P0001"),
    ("serialization_failure", "40001"),
    ("string_data_right_truncation", "22001"),
    ("syntax_error", "42601"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("undefined_column", "42703"),
    ("undefined_function", "42883"),
    ("undefined_object", "42704"),
    ("undefined_table", "42P01"),
    ("unique_violation", "23505"),
    ("wrong_object_type", "42809"),
];

/// Statements that are not there in a block, by their first words.
const NOT_THERE: &[&str] = &[
    "assert",
    "call",
    "case",
    "close",
    "commit",
    "continue",
    "copy",
    "declare",
    "exit",
    "fetch",
    "for",
    "foreach",
    "get",
    "loop",
    "move",
    "open",
    "rollback",
    "savepoint",
    "start",
    "while",
];

impl Block {
    /// Reads a block.
    ///
    /// # Errors
    /// [`SYNTAX_ERROR`](SqlState::SYNTAX_ERROR), and [`FEATURE_NOT_SUPPORTED`](SqlState::FEATURE_NOT_SUPPORTED) for
    /// variables, loops and cursors.
    pub(crate) fn parse(text: &str) -> Result<Block> {
        let tokens = tokens(text)?;
        let mut reader = Reader { text, tokens: &tokens, at: 0, bytes: Bytes::in_text(text), depth: 0 };
        let block = reader.block()?;
        reader.take(&Token::SemiColon);
        if reader.at < tokens.len() {
            return Err(reader.unexpected());
        }
        Ok(block)
    }
}

/// How deep blocks and IF may be within each other.
const DEPTH_MAX: usize = 50;

struct Reader<'t> {
    text: &'t str,
    tokens: &'t [TokenWithSpan],
    at: usize,
    bytes: Bytes<'t>,
    depth: usize,
}

fn not_there(what: &str) -> SqlError {
    let hint = "A block has statements, IF, PERFORM, EXECUTE, RAISE and EXCEPTION: write the rest in the client.";
    SqlError::unsupported(format!("{} is not supported in DO", what.to_uppercase()), hint)
}

impl Reader<'_> {
    /// The word at a place, in small letters; empty if there is none.
    fn word(&self, at: usize) -> String {
        match self.tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            _ => String::new(),
        }
    }

    fn is(&self, wanted: &str) -> bool {
        self.word(self.at) == wanted
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let is_it = self.is(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let is_it = self.tokens.get(self.at).is_some_and(|token| token.token == *wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect_word(&mut self, wanted: &str) -> Result<()> {
        if self.take_word(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_end(&mut self) -> Result<()> {
        if self.take(&Token::SemiColon) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> SqlError {
        match self.tokens.get(self.at) {
            Some(token) => near(token, self.text).at(None),
            None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
        }
    }

    /// The text of tokens.
    fn slice(&mut self, from: usize, below: usize) -> Result<Arc<str>> {
        let (Some(first), Some(last)) =
            (self.tokens.get(from), below.checked_sub(1).and_then(|at| self.tokens.get(at)))
        else {
            return Err(self.unexpected());
        };
        if from >= below {
            return Err(self.unexpected());
        }
        let begin = self.bytes.of(first.span.start);
        Ok(self.text[begin..self.bytes.of(last.span.end)].into())
    }

    /// Takes what stands before the first of some tokens, outside of parentheses and CASE.
    fn slice_until(&mut self, is_end: impl Fn(&TokenWithSpan) -> bool) -> Result<Arc<str>> {
        let (from, mut depth) = (self.at, 0_i64);
        while let Some(token) = self.tokens.get(self.at) {
            if depth <= 0 && is_end(token) {
                return self.slice(from, self.at);
            }
            match (&token.token, &*self.word(self.at)) {
                (Token::LParen | Token::LBracket, _) | (_, "case") => depth += 1,
                (Token::RParen | Token::RBracket, _) | (_, "end") => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        Err(self.unexpected())
    }

    fn block(&mut self) -> Result<Block> {
        if self.is("declare") || self.tokens.get(self.at).is_some_and(|token| token.token == Token::ShiftLeft) {
            return Err(not_there("DECLARE"));
        }
        self.expect_word("begin")?;
        let steps = self.steps(&["exception", "end"])?;
        let mut handlers = Vec::new();
        if self.take_word("exception") {
            while self.take_word("when") {
                let mut conditions = vec![self.condition()?];
                while self.take_word("or") {
                    conditions.push(self.condition()?);
                }
                self.expect_word("then")?;
                handlers.push(Handler { conditions, steps: self.steps(&["when", "end"])? });
            }
        }
        self.expect_word("end")?;
        Ok(Block { steps, handlers })
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.take_word("others") {
            return Ok(Condition::Others);
        }
        if self.take_word("sqlstate") {
            let Some(Token::SingleQuotedString(state)) = self.tokens.get(self.at).map(|token| &token.token) else {
                return Err(self.unexpected());
            };
            if state.len() != 5 || !state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code"));
            }
            self.at += 1;
            return Ok(Condition::State(state.as_str().into()));
        }
        let name = self.word(self.at);
        let known = CONDITIONS.iter().find(|(known, _)| *known == name);
        let (_, state) = known.ok_or_else(|| {
            let what = format!("unrecognized exception condition \"{name}\"");
            SqlError::new(SqlState::UNDEFINED_OBJECT, what).with_hint("Write SQLSTATE and the code.")
        })?;
        self.at += 1;
        Ok(Condition::State((*state).into()))
    }

    /// Steps until one of some words.
    fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the block is nested too deeply"));
        }
        let mut steps = Vec::new();
        while !ends.contains(&&*self.word(self.at)) {
            if self.at >= self.tokens.len() {
                return Err(self.unexpected());
            }
            steps.push(self.step()?);
        }
        self.depth -= 1;
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step> {
        let first = self.word(self.at);
        let second = self.tokens.get(self.at + 1).map(|token| &token.token);
        if NOT_THERE.contains(&&*first) {
            return Err(not_there(&first));
        }
        if matches!(second, Some(Token::Assignment | Token::Eq)) {
            return Err(not_there("a variable"));
        }
        let is_end = |token: &TokenWithSpan| token.token == Token::SemiColon;
        let step = match &*first {
            "null" => {
                self.at += 1;
                Step::Nothing
            }
            "return" => {
                self.at += 1;
                Step::Return
            }
            "begin" => Step::Block(self.block()?),
            "if" => self.branches()?,
            "raise" => self.raise()?,
            "perform" => {
                self.at += 1;
                Step::Perform(format!("SELECT {}", self.slice_until(is_end)?).into())
            }
            "execute" => {
                self.at += 1;
                let is_clause = |token: &TokenWithSpan| {
                    is_end(token)
                        || matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && ["into", "using"].contains(&&*word.value.to_ascii_lowercase()))
                };
                let text = self.slice_until(is_clause)?;
                if !self.word(self.at).is_empty() {
                    return Err(not_there(&format!("EXECUTE {}", self.word(self.at))));
                }
                Step::Execute(text)
            }
            "select" | "with" | "values" | "table" => {
                let text = self.slice_until(is_end)?;
                let is_query = first != "with" || !changes(&text);
                if is_query {
                    let what = "query has no destination for result data";
                    let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, what).with_hint(hint));
                }
                Step::Statement(text)
            }
            _ => Step::Statement(self.slice_until(is_end)?),
        };
        self.expect_end()?;
        Ok(step)
    }

    fn branches(&mut self) -> Result<Step> {
        let is_then = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("then"));
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        while ["if", "elsif", "elseif"].contains(&&*self.word(self.at)) {
            self.at += 1;
            let condition = self.slice_until(is_then)?;
            self.at += 1;
            branches.push((condition, self.steps(&["elsif", "elseif", "else", "end"])?));
        }
        if self.take_word("else") {
            otherwise = self.steps(&["end"])?;
        }
        self.expect_word("end")?;
        self.expect_word("if")?;
        Ok(Step::If { branches, otherwise })
    }

    fn raise(&mut self) -> Result<Step> {
        self.at += 1;
        let level = match &*self.word(self.at) {
            "debug" | "log" => Some(Level::Unseen),
            "notice" | "info" => Some(Level::Notice),
            "warning" => Some(Level::Warning),
            "exception" => Some(Level::Exception),
            _ => None,
        };
        self.at += usize::from(level.is_some());
        let Some(Token::SingleQuotedString(text)) = self.tokens.get(self.at).map(|token| &token.token) else {
            return Err(not_there("RAISE without a text"));
        };
        self.at += 1;
        let mut values = Vec::new();
        while self.take(&Token::Comma) {
            values.push(self.slice_until(|token| matches!(token.token, Token::Comma | Token::SemiColon))?);
        }
        if self.is("using") {
            return Err(not_there("RAISE ... USING"));
        }
        let wanted = text.replace("%%", "").matches('%').count();
        if wanted != values.len() {
            let many = if wanted > values.len() { "few" } else { "many" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("too {many} parameters specified for RAISE")));
        }
        Ok(Step::Raise { level: level.unwrap_or(Level::Exception), text: text.as_str().into(), values })
    }
}

/// Whether a statement that begins with WITH changes rows: its last part is not a query.
fn changes(text: &str) -> bool {
    let Ok(tokens) = tokens(text) else { return true };
    let mut depth = 0_i64;
    tokens.iter().any(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let is_change = |word: &str| ["insert", "update", "delete", "merge"].contains(&word);
        depth == 0 && matches!(&token.token, Token::Word(word) if is_change(&word.value.to_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_apart() {
        let block = Block::parse(
            "BEGIN CREATE TYPE mood AS ENUM ('a;b', 'c'); IF NOT EXISTS (SELECT CASE WHEN true THEN 1 END) THEN NULL; \
             ELSIF (1 = 2) THEN PERFORM f(1, 2); ELSE RETURN; END IF; EXCEPTION WHEN duplicate_object OR SQLSTATE \
             '42P07' THEN null; WHEN others THEN RAISE NOTICE '% of %%', 1 + 1; END",
        );
        let block = block.expect("a block");
        assert_eq!(block.steps[0], Step::Statement("CREATE TYPE mood AS ENUM ('a;b', 'c')".into()));
        let Step::If { branches, otherwise } = &block.steps[1] else { panic!("{:?}", block.steps[1]) };
        assert_eq!(&*branches[0].0, "NOT EXISTS (SELECT CASE WHEN true THEN 1 END)");
        assert_eq!(branches[1].1, [Step::Perform("SELECT f(1, 2)".into())]);
        assert_eq!(otherwise, &[Step::Return]);
        let taken = |state: SqlState| block.handlers.iter().position(|handler| handler.takes(state));
        assert_eq!(taken(SqlState::DUPLICATE_OBJECT), Some(0));
        assert_eq!(taken(SqlState::DUPLICATE_TABLE), Some(0));
        assert_eq!(taken(SqlState::UNIQUE_VIOLATION), Some(1));
        assert_eq!(taken(SqlState::QUERY_CANCELED), None);
    }

    #[test]
    fn what_a_block_cannot_be_is_refused() {
        let state = |text: &str| Block::parse(text).expect_err(text).state();
        for text in ["", "BEGIN", "BEGIN END x", "BEGIN SELECT 1; END", "BEGIN IF 1 THEN END", "BEGIN a b END", "END"] {
            assert_eq!(state(text), SqlState::SYNTAX_ERROR, "{text}");
        }
        for text in ["DECLARE x int; BEGIN END", "BEGIN x := 1; END", "BEGIN FOR i IN 1..2 LOOP END LOOP; END"] {
            assert_eq!(state(text), SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
        let deep = format!("{}{}", "BEGIN ".repeat(60), "END; ".repeat(60));
        assert_eq!(state(&deep), SqlState::STATEMENT_TOO_COMPLEX);
        assert_eq!(state("BEGIN EXCEPTION WHEN no_such THEN NULL; END"), SqlState::UNDEFINED_OBJECT);
    }
}
