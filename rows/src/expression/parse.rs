//! The tree of an expression's text, by recursive descent.
//!
//! ```text
//! or          and {OR and}
//! and         not {AND not}
//! not         [NOT] comparison
//! comparison  sum [= <> != < <= > >= sum | IS [NOT] NULL | [NOT] (IN (sum, ...) | BETWEEN sum AND sum | LIKE sum)]
//! sum         product {(+ | -) product}
//! product     sign {(* | / | %) sign}
//! sign        [-] primary
//! primary     literal | column | function(or, ...) | (or)
//! ```
//!
//! Recursion ends at a depth that no text can exceed.

use crate::expression::computed::{Computed, WORD, WORD_WHEN_WRITTEN};
use crate::expression::name::{ColumnName, is_keyword};
use crate::expression::node::{Arithmetic, Comparison, DEPTH_MAX, FUNCTIONS, Node};
use crate::value::Value;
use crate::value::data_type::DataType;
use crate::value::decimal::Decimal;

/// The longest text of an expression, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word as it stands, or a name in double quotes.
    Word {
        text: String,
        is_quoted: bool,
    },
    Number(String),
    Text(String),
    Sign(&'static str),
}

const SIGNS: [&str; 16] = ["<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", "."];

/// The tokens of a text, each with the byte at which it begins.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("an expression of {} bytes is longer than {TEXT_BYTES_MAX}", text.len()));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let taken = |taken: fn(char) -> bool| rest.find(|c| !taken(c)).unwrap_or(rest.len());
        let (size, token) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first == '\'' || first == '"' {
            let (content, size) = in_quotes(rest, first)
                .ok_or_else(|| format!("a quote is opened at byte {at} and never closed: {text:?}"))?;
            let token = match first {
                '"' => Token::Word { text: content, is_quoted: true },
                _ => Token::Text(content),
            };
            (size, token)
        } else if first.is_ascii_digit() || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let size = number_size(rest);
            (size, Token::Number(rest[..size].to_owned()))
        } else if first.is_alphabetic() || first == '_' {
            let size = taken(|c| c.is_alphanumeric() || c == '_');
            (size, Token::Word { text: rest[..size].to_owned(), is_quoted: false })
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign =
                sign.ok_or_else(|| format!("{first:?} at byte {at} is not a part of an expression: {text:?}"))?;
            (sign.len(), Token::Sign(sign))
        };
        tokens.push((at, token));
        at += size;
    }
    Ok(tokens)
}

/// What stands in quotes at the front, a doubled quote being one, and the bytes that it takes.
fn in_quotes(text: &str, quote: char) -> Option<(String, usize)> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            content.push(character);
        } else if characters.peek().is_some_and(|(_, next)| *next == quote) {
            content.push(quote);
            characters.next();
        } else {
            return Some((content, at + 1));
        }
    }
    None
}

/// The bytes of the number at the front: digits, a point, an exponent.
fn number_size(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent_end = digits(end + 1 + sign);
        if exponent_end > end + 1 + sign {
            end = exponent_end;
        }
    }
    end
}

struct Parser<'p> {
    text: &'p str,
    columns: &'p [ColumnName<'p>],
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

/// The tree of the text of one expression.
///
/// # Errors
/// What is wrong with the text, and where.
pub(crate) fn expression(text: &str, columns: &[ColumnName<'_>]) -> Result<Node, String> {
    let mut parser = Parser { text, columns, tokens: tokens(text)?, next: 0, depth: 0 };
    let node = parser.or()?;
    parser.end()?;
    Ok(node)
}

/// The trees of expressions between commas, each with whether `DESC` stands after it; `ASC` may.
///
/// # Errors
/// What is wrong with the text, and where.
pub(crate) fn ordered_list(text: &str, columns: &[ColumnName<'_>]) -> Result<Vec<(Node, bool)>, String> {
    let mut parser = Parser { text, columns, tokens: tokens(text)?, next: 0, depth: 0 };
    let mut list = Vec::new();
    loop {
        let node = parser.or()?;
        let is_descending = parser.takes_word("desc");
        let _ = !is_descending && parser.takes_word("asc");
        list.push((node, is_descending));
        if !parser.takes(",") {
            parser.end()?;
            return Ok(list);
        }
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn wrong(&self, expected: &str) -> String {
        let found = match self.tokens.get(self.next) {
            None => "at the end".to_owned(),
            Some((at, _)) => format!("at byte {at}"),
        };
        format!("{expected} is missing {found} of {:?}", self.text)
    }

    fn end(&self) -> Result<(), String> {
        match self.tokens.get(self.next) {
            None => Ok(()),
            Some((at, _)) => Err(format!("what stands from byte {at} on is too much: {:?}", self.text)),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.next += usize::from(is_there);
        is_there
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        match self.tokens.get(self.next + ahead) {
            Some((_, Token::Word { text, is_quoted: false })) => text.eq_ignore_ascii_case(word),
            _ => false,
        }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(0, word);
        self.next += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(self.wrong(&format!("{sign:?}"))) }
    }

    /// The node, unless it is too deep.
    fn checked(&self, node: Node) -> Result<Node, String> {
        match node.depth() > DEPTH_MAX {
            true => Err(format!("the expression has more than {DEPTH_MAX} parts within each other")),
            false => Ok(node),
        }
    }

    /// Goes a level deeper, of which there is a limit.
    fn deeper<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression has more than {DEPTH_MAX} parts within each other"));
        }
        let result = part(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> Result<Node, String> {
        self.deeper(|parser| {
            let mut parts = vec![parser.and()?];
            while parser.takes_word("or") {
                parts.push(parser.and()?);
            }
            Ok(one_or(parts, Node::Or))
        })
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut parts = vec![self.not()?];
        while self.takes_word("and") {
            parts.push(self.not()?);
        }
        Ok(one_or(parts, Node::And))
    }

    fn not(&mut self) -> Result<Node, String> {
        if !self.takes_word("not") {
            return self.comparison();
        }
        let part = self.deeper(Parser::not)?;
        self.checked(Node::Not(Box::new(part)))
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let first = self.sum()?;
        let comparisons = [
            ("=", Comparison::Equal),
            ("<>", Comparison::Unequal),
            ("!=", Comparison::Unequal),
            ("<", Comparison::Less),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            (">=", Comparison::GreaterOrEqual),
        ];
        for (sign, comparison) in comparisons {
            if self.takes(sign) {
                let sides = Box::new([first, self.sum()?]);
                return self.checked(Node::Compare { comparison, is_collated: false, sides });
            }
        }
        if self.takes_word("is") {
            let is_negated = self.takes_word("not");
            if !self.takes_word("null") {
                return Err(self.wrong("NULL"));
            }
            return self.checked(Node::IsNull { is_negated, part: Box::new(first) });
        }
        let is_negated = self.is_word(0, "not") && ["in", "between", "like"].iter().any(|word| self.is_word(1, word));
        self.next += usize::from(is_negated);
        let node = if self.takes_word("in") {
            self.expect("(")?;
            let mut parts = vec![first, self.sum()?];
            while self.takes(",") {
                parts.push(self.sum()?);
            }
            self.expect(")")?;
            Node::In { is_negated, is_collated: false, parts }
        } else if self.takes_word("between") {
            let low = self.sum()?;
            if !self.takes_word("and") {
                return Err(self.wrong("AND"));
            }
            let high = self.sum()?;
            Node::Between { is_negated, is_collated: false, parts: Box::new([first, low, high]) }
        } else if self.takes_word("like") {
            Node::Like { is_negated, sides: Box::new([first, self.sum()?]) }
        } else {
            return Ok(first);
        };
        self.checked(node)
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut node = self.product()?;
        loop {
            let operator = match self.peek() {
                Some(Token::Sign("+")) => Arithmetic::Add,
                Some(Token::Sign("-")) => Arithmetic::Subtract,
                _ => return Ok(node),
            };
            self.next += 1;
            let sides = Box::new([node, self.product()?]);
            node = self.checked(Node::Arithmetic { operator, sides })?;
        }
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.sign()?;
        loop {
            let operator = match self.peek() {
                Some(Token::Sign("*")) => Arithmetic::Multiply,
                Some(Token::Sign("/")) => Arithmetic::Divide,
                Some(Token::Sign("%")) => Arithmetic::Remainder,
                _ => return Ok(node),
            };
            self.next += 1;
            let sides = Box::new([node, self.sign()?]);
            node = self.checked(Node::Arithmetic { operator, sides })?;
        }
    }

    fn sign(&mut self) -> Result<Node, String> {
        if !self.takes("-") {
            return self.primary();
        }
        // A number of the other sign, so that the least integer can be written.
        if let Some(Token::Number(number)) = self.peek() {
            let negative = number_of(&format!("-{number}"));
            self.next += 1;
            return negative.map(Node::Literal);
        }
        let part = self.deeper(Parser::sign)?;
        self.checked(Node::Negate(Box::new(part)))
    }

    fn primary(&mut self) -> Result<Node, String> {
        let Some(token) = self.peek().cloned() else { return Err(self.wrong("a value")) };
        let is_quoted = matches!(token, Token::Word { is_quoted: true, .. });
        match token {
            Token::Number(number) => {
                self.next += 1;
                number_of(&number).map(Node::Literal)
            }
            Token::Text(text) => {
                self.next += 1;
                Ok(Node::Literal(Value::from(text)))
            }
            Token::Sign("(") => {
                self.next += 1;
                let node = self.or()?;
                self.expect(")")?;
                Ok(node)
            }
            Token::Word { text, .. } => {
                let word = text.to_ascii_lowercase();
                match word.as_str() {
                    "null" | "true" | "false" if !is_quoted => {
                        self.next += 1;
                        Ok(Node::Literal(match word.as_str() {
                            "null" => Value::Null,
                            word => Value::Bool(word == "true"),
                        }))
                    }
                    _ => self.named(&text, &word, is_quoted),
                }
            }
            Token::Sign(_) => Err(self.wrong("a value")),
        }
    }

    /// A literal with its type before it, a call, or a column.
    fn named(&mut self, text: &str, word: &str, is_quoted: bool) -> Result<Node, String> {
        let literal = match self.tokens.get(self.next + 1) {
            Some((_, Token::Text(literal))) if !is_quoted => Some(literal.clone()),
            _ => None,
        };
        if let Some(literal) = literal {
            let data_type = match word {
                "date" => DataType::Date,
                "timestamp" => DataType::Timestamp,
                "uuid" => DataType::Uuid,
                "bytes" => DataType::Bytes,
                "json" => DataType::Json,
                "float" => DataType::F64,
                "numeric" => DataType::Numeric,
                _ => return Err(self.wrong("an operator")),
            };
            self.next += 2;
            return Ok(Node::Literal(data_type.parse_text(&literal)?.into_owned()));
        }
        let is_call = matches!(self.tokens.get(self.next + 1), Some((_, Token::Sign("("))));
        if is_call && !is_quoted {
            if word == WORD || word == WORD_WHEN_WRITTEN {
                return self.computed(word == WORD_WHEN_WRITTEN);
            }
            let function = FUNCTIONS.iter().find(|(_, name)| *name == word).map(|(function, _)| *function);
            let function = function.ok_or_else(|| {
                let names: Vec<&str> = FUNCTIONS.iter().map(|(_, name)| *name).collect();
                format!("there is no function {text:?}; there are {}", names.join(", "))
            })?;
            self.next += 2;
            let mut arguments = vec![self.or()?];
            while self.takes(",") {
                arguments.push(self.or()?);
            }
            self.expect(")")?;
            return self.checked(Node::Call { function, arguments });
        }
        if is_keyword(text) && !is_quoted {
            return Err(self.wrong("a value"));
        }
        self.next += 1;
        let place = self.columns.iter().position(|column| column.name == text);
        place.map(Node::Column).ok_or_else(|| no_column(text, self.columns.iter().map(|column| column.name)))
    }
}

impl Parser<'_> {
    /// A type and an expression of SQL as texts, and its arguments.
    fn computed(&mut self, is_when_written: bool) -> Result<Node, String> {
        self.next += 2;
        let word = self.literal()?;
        let data_type = DataType::parse(&word).ok_or_else(|| format!("there is no type {word:?}"))?;
        self.expect(",")?;
        let text = self.literal()?;
        let mut arguments = Vec::new();
        while self.takes(",") {
            arguments.push(self.or()?);
        }
        self.expect(")")?;
        self.checked(Node::Computed { computed: Computed::new(data_type, &text, is_when_written), arguments })
    }

    fn literal(&mut self) -> Result<String, String> {
        match self.peek().cloned() {
            Some(Token::Text(text)) => {
                self.next += 1;
                Ok(text)
            }
            _ => Err(self.wrong("a text")),
        }
    }
}

/// What to say of a column that is not there.
pub(crate) fn no_column<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names = names.collect::<Vec<_>>().join(", ");
    match names.is_empty() {
        true => format!("{name:?} stands for a column, and this expression may have none; texts stand in 'quotes'"),
        false => format!("there is no column {name:?}; the columns are {names}"),
    }
}

fn one_or(mut parts: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    if parts.len() == 1 { parts.remove(0) } else { many(parts) }
}

/// The value of a number: an integer, a decimal if it has a point, a float if it has an exponent.
fn number_of(text: &str) -> Result<Value<'static>, String> {
    let value = if text.contains(['e', 'E']) {
        text.parse().ok().filter(|float: &f64| float.is_finite()).map(Value::Float)
    } else if text.contains('.') {
        Decimal::parse(text).map(Value::Decimal)
    } else {
        text.parse().ok().map(Value::Int)
    };
    value.ok_or_else(|| format!("{text} has more digits than a number can have"))
}
