//! Reads paths of SQL/JSON, from their text to a tree: `strict $.a[*] ? (@.b > 1)`.
//!
//! Not here: what a path finds (`json_paths`).

use crate::error::{Result, SqlError, SqlState};
use crate::functions::patterns;
use crate::numeric::Numeric;
use crate::types::json::{self, Json};

/// How deep expressions of a path are nested.
const DEPTH_MAX: usize = 64;
/// How many operators and steps a path has. Each is one level deeper when the path is run.
const LENGTH_MAX: usize = 1_000;

/// An expression of a path.
#[derive(Debug)]
pub(super) enum Expr {
    Root,
    Current,
    Last,
    Variable(String),
    Literal(Json),
    Step(Box<Expr>, Step),
    Sign(bool, Box<Expr>),
    Arithmetic(char, Box<[Expr; 2]>),
    Compare(&'static str, Box<[Expr; 2]>),
    And(Box<[Expr; 2]>),
    Or(Box<[Expr; 2]>),
    Not(Box<Expr>),
    Exists(Box<Expr>),
    IsUnknown(Box<Expr>),
    LikeRegex(Box<Expr>, String, String),
    StartsWith(Box<[Expr; 2]>),
}

/// A step of a path: from an item to those within it.
#[derive(Debug)]
pub(super) enum Step {
    Member(String),
    AnyMember,
    AnyElement,
    /// Elements by their places, or from one place to another.
    Elements(Vec<(Expr, Option<Expr>)>),
    /// All that is within, from one depth to another.
    Within(usize, usize),
    Filter(Box<Expr>),
    Method(&'static str),
}

const METHODS: [&str; 8] = ["type", "size", "double", "ceiling", "floor", "abs", "keyvalue", "datetime"];
const COMPARISONS: [&str; 7] = ["==", "!=", "<>", "<=", ">=", "<", ">"];

/// A path that was read.
pub(super) struct Path {
    pub(super) is_lax: bool,
    pub(super) expr: Expr,
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
    length: usize,
}

impl<'t> Reader<'t> {
    fn wrong(&self) -> SqlError {
        let what = match self.rest.chars().next() {
            None => "syntax error at end of jsonpath input".to_owned(),
            Some(next) => format!("syntax error at or near \"{next}\" of jsonpath input"),
        };
        SqlError::new(SqlState::SYNTAX_ERROR, what)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { Err(self.wrong()) }
    }

    fn next_word(&mut self) -> &'t str {
        self.blanks();
        let end = self.rest.find(|next: char| !(next.is_alphanumeric() || next == '_' || next == '$'));
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let is_next = self.next_word() == wanted;
        if is_next {
            self.rest = &self.rest[wanted.len()..];
        }
        is_next
    }

    fn string(&mut self) -> Result<String> {
        self.blanks();
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, next)| {
            let ends = *next == '"' && !is_escaped;
            is_escaped = *next == '\\' && !is_escaped;
            ends
        });
        let Some((end, _)) = end.filter(|_| self.rest.starts_with('"')) else { return Err(self.wrong()) };
        let (quoted, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        match json::parse(quoted)? {
            Json::String(text) => Ok(text),
            _ => Err(self.wrong()),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "a jsonpath is nested too deeply"));
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Counts an operator or a step.
    fn longer(&mut self) -> Result<()> {
        self.length += 1;
        if self.length > LENGTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "a jsonpath is too long"));
        }
        Ok(())
    }

    fn or(&mut self) -> Result<Expr> {
        let mut left = self.and()?;
        while self.take("||") {
            self.longer()?;
            left = Expr::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let mut left = self.predicate()?;
        while self.take("&&") {
            self.longer()?;
            left = Expr::And(Box::new([left, self.predicate()?]));
        }
        Ok(left)
    }

    fn predicate(&mut self) -> Result<Expr> {
        self.blanks();
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.expect("!")?;
            return Ok(Expr::Not(Box::new(self.deeper(Self::predicate)?)));
        }
        let left = self.sum()?;
        if let Some(word) = COMPARISONS.iter().find(|word| self.take(word)) {
            let word = if *word == "<>" { "!=" } else { word };
            return Ok(Expr::Compare(word, Box::new([left, self.sum()?])));
        }
        if self.take_word("like_regex") {
            let pattern = self.string()?;
            let flags = if self.take_word("flag") { self.string()? } else { String::new() };
            patterns::is_like_regex("", &pattern, &flags)?;
            return Ok(Expr::LikeRegex(Box::new(left), pattern, flags));
        }
        if self.take_word("starts") {
            if !self.take_word("with") {
                return Err(self.wrong());
            }
            return Ok(Expr::StartsWith(Box::new([left, self.sum()?])));
        }
        if self.take_word("is") {
            return if self.take_word("unknown") { Ok(Expr::IsUnknown(Box::new(left))) } else { Err(self.wrong()) };
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let sign = if self.take("+") {
                '+'
            } else if self.take("-") {
                '-'
            } else {
                return Ok(left);
            };
            self.longer()?;
            left = Expr::Arithmetic(sign, Box::new([left, self.product()?]));
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.signed()?;
        loop {
            let sign = match self.rest.trim_start().chars().next() {
                Some(sign @ ('*' | '/' | '%')) => sign,
                _ => return Ok(left),
            };
            self.blanks();
            self.rest = &self.rest[1..];
            self.longer()?;
            left = Expr::Arithmetic(sign, Box::new([left, self.signed()?]));
        }
    }

    fn signed(&mut self) -> Result<Expr> {
        if self.take("-") {
            return Ok(Expr::Sign(true, Box::new(self.deeper(Self::signed)?)));
        }
        if self.take("+") {
            return Ok(Expr::Sign(false, Box::new(self.deeper(Self::signed)?)));
        }
        self.steps()
    }

    fn steps(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        loop {
            let step = if self.take("[") {
                self.elements()?
            } else if self.take("?") {
                self.expect("(")?;
                let filter = self.deeper(Self::or)?;
                self.expect(")")?;
                Step::Filter(Box::new(filter))
            } else if self.take(".") {
                self.member()?
            } else {
                return Ok(expr);
            };
            self.longer()?;
            expr = Expr::Step(Box::new(expr), step);
        }
    }

    fn elements(&mut self) -> Result<Step> {
        if self.take("*") {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        let mut places = Vec::new();
        loop {
            let from = self.deeper(Self::sum)?;
            let to = if self.take_word("to") { Some(self.deeper(Self::sum)?) } else { None };
            places.push((from, to));
            if !self.take(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(Step::Elements(places))
    }

    fn member(&mut self) -> Result<Step> {
        if self.take("**") {
            if !self.take("{") {
                return Ok(Step::Within(0, usize::MAX));
            }
            let from = self.depth_of_within()?;
            let to = if self.take_word("to") { self.depth_of_within()? } else { from };
            self.expect("}")?;
            return Ok(Step::Within(from, to));
        }
        if self.take("*") {
            return Ok(Step::AnyMember);
        }
        self.blanks();
        if self.rest.starts_with('"') {
            return self.string().map(Step::Member);
        }
        let word = self.next_word();
        if word.is_empty() {
            return Err(self.wrong());
        }
        self.rest = &self.rest[word.len()..];
        match METHODS.iter().find(|known| **known == word) {
            Some(method) if self.take("(") => {
                self.expect(")")?;
                Ok(Step::Method(method))
            }
            _ => Ok(Step::Member(word.to_owned())),
        }
    }

    fn depth_of_within(&mut self) -> Result<usize> {
        if self.take_word("last") {
            return Ok(usize::MAX);
        }
        let word = self.next_word();
        self.rest = &self.rest[word.len()..];
        word.parse().map_err(|_| self.wrong())
    }

    fn primary(&mut self) -> Result<Expr> {
        self.blanks();
        if self.take("(") {
            let expr = self.deeper(Self::or)?;
            self.expect(")")?;
            return Ok(expr);
        }
        if self.take("@") {
            return Ok(Expr::Current);
        }
        if self.rest.starts_with('"') {
            return self.string().map(|text| Expr::Literal(Json::String(text)));
        }
        if let Some(rest) = self.rest.strip_prefix('$') {
            self.rest = rest;
            if rest.starts_with('"') {
                return self.string().map(Expr::Variable);
            }
            let end = rest.find(|next: char| !(next.is_alphanumeric() || next == '_')).unwrap_or(rest.len());
            self.rest = &rest[end..];
            return Ok(if end == 0 { Expr::Root } else { Expr::Variable(rest[..end].to_owned()) });
        }
        if self.rest.starts_with(|next: char| next.is_ascii_digit() || next == '.') {
            return self.number();
        }
        let word = self.next_word();
        self.rest = &self.rest[word.len()..];
        match word {
            "true" => Ok(Expr::Literal(Json::Bool(true))),
            "false" => Ok(Expr::Literal(Json::Bool(false))),
            "null" => Ok(Expr::Literal(Json::Null)),
            "last" => Ok(Expr::Last),
            "exists" => {
                self.expect("(")?;
                let expr = self.deeper(Self::or)?;
                self.expect(")")?;
                Ok(Expr::Exists(Box::new(expr)))
            }
            _ => Err(self.wrong()),
        }
    }

    fn number(&mut self) -> Result<Expr> {
        let mut end = 0;
        let bytes = self.rest.as_bytes();
        while let Some(byte) = bytes.get(end) {
            let is_sign = matches!(byte, b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || is_sign) {
                break;
            }
            end += 1;
        }
        let number = Numeric::parse(&self.rest[..end]).map_err(|_| self.wrong())?;
        self.rest = &self.rest[end..];
        Ok(Expr::Literal(Json::Number(number.to_string())))
    }
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// 42601 of a text that is no path.
    pub(super) fn parse(text: &str) -> Result<Path> {
        let mut reader = Reader { rest: text, depth: 0, length: 0 };
        let is_strict = reader.take_word("strict");
        if !is_strict {
            let _ = reader.take_word("lax");
        }
        let expr = reader.or()?;
        reader.blanks();
        if !reader.rest.is_empty() {
            return Err(reader.wrong());
        }
        Ok(Path { is_lax: !is_strict, expr })
    }
}
