//! Steps as data: a verb and its words, one step a line. What is missing in a line counts as nothing, so a step that
//! was shortened is still one.

use std::fmt;
use std::ops::Bound;

use quipu::Bounds;

use crate::library::value::Value;

/// A key, or an end of a range.
pub type Key = Vec<u8>;

/// One word of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// `42`
    Number(u64),
    /// `'k%00(300*a)`: letters and digits as they are, other bytes in hexadecimal, long runs by their length.
    Key(Key),
    /// `~100.7`: so many bytes of this filling.
    Value(Value),
    /// `..`, `['k`, `('k`: an end of a range: none, with the key, without it.
    Bound(Bound<Key>),
    /// Anything else: a table, a place to ask, an option.
    Name(String),
}

/// A verb and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub verb: String,
    /// To what.
    pub words: Vec<Word>,
}

impl Step {
    /// A step.
    pub fn new(verb: &str, words: Vec<Word>) -> Step {
        Step { verb: verb.to_owned(), words }
    }

    /// From its line; `None` if there is nothing but space or a comment.
    pub fn parse(line: &str) -> Option<Step> {
        let mut words = line.split_whitespace();
        let verb = words.next().filter(|verb| !verb.starts_with('#'))?.to_owned();
        Some(Step { verb, words: words.map(Word::parse).collect() })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

impl Word {
    /// A name.
    pub fn name(name: &str) -> Word {
        Word::Name(name.to_owned())
    }

    fn parse(text: &str) -> Word {
        if let Ok(number) = text.parse() {
            return Word::Number(number);
        }
        match (text.as_bytes()[0], &text[1..]) {
            (b'\'', key) => Word::Key(key_of(key)),
            (b'~', rest) => {
                let (len, fill) = rest.split_once('.').unwrap_or((rest, "0"));
                Word::Value(Value { len: len.parse().unwrap_or(0), fill: fill.parse().unwrap_or(0) })
            }
            (b'[', rest) if rest.starts_with('\'') => Word::Bound(Bound::Included(key_of(&rest[1..]))),
            (b'(', rest) if rest.starts_with('\'') => Word::Bound(Bound::Excluded(key_of(&rest[1..]))),
            _ if text == ".." => Word::Bound(Bound::Unbounded),
            _ => Word::Name(text.to_owned()),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Number(number) => write!(f, "{number}"),
            Word::Key(key) => write!(f, "'{}", text_of(key)),
            Word::Value(value) => write!(f, "~{}.{}", value.len, value.fill),
            Word::Bound(Bound::Unbounded) => f.write_str(".."),
            Word::Bound(Bound::Included(key)) => write!(f, "['{}", text_of(key)),
            Word::Bound(Bound::Excluded(key)) => write!(f, "('{}", text_of(key)),
            Word::Name(name) => f.write_str(name),
        }
    }
}

fn text_of(key: &[u8]) -> String {
    let mut text = String::new();
    for run in key.chunk_by(|a, b| a == b) {
        let byte = match run[0] {
            byte if byte.is_ascii_alphanumeric() => (byte as char).to_string(),
            byte => format!("%{byte:02x}"),
        };
        if run.len() > 4 {
            text.push_str(&format!("({}*{byte})", run.len()));
        } else {
            run.iter().for_each(|_| text.push_str(&byte));
        }
    }
    text
}

fn key_of(text: &str) -> Key {
    let mut key = Key::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut count = 1;
        let run = rest.strip_prefix('(').and_then(|run| run.split_once('*')?.1.split_once(')'));
        let (byte, after) = match (first, run) {
            ('(', Some((byte, after))) => {
                count = rest[1..].split('*').next().and_then(|count| count.parse().ok()).unwrap_or(1);
                (byte, after)
            }
            ('%', _) if rest.is_char_boundary(3) => rest.split_at(3),
            _ => rest.split_at(first.len_utf8()),
        };
        let byte = match byte.strip_prefix('%') {
            Some(hex) => u8::from_str_radix(hex, 16).unwrap_or(b'?'),
            None => byte.bytes().next().unwrap_or(b'?'),
        };
        key.resize(key.len() + count, byte);
        rest = after;
    }
    key
}

/// The words of a step, by place.
#[derive(Clone, Copy)]
pub struct Words<'w>(pub &'w [Word]);

impl<'w> Words<'w> {
    /// A number; 0 if there is none.
    pub fn number(self, at: usize) -> u64 {
        match self.0.get(at) {
            Some(Word::Number(number)) => *number,
            _ => 0,
        }
    }

    /// A key; the empty one if there is none.
    pub fn key(self, at: usize) -> &'w [u8] {
        match self.0.get(at) {
            Some(Word::Key(key)) => key,
            _ => &[],
        }
    }

    /// A value; the empty one if there is none.
    pub fn value(self, at: usize) -> Value {
        match self.0.get(at) {
            Some(Word::Value(value)) => *value,
            _ => Value::default(),
        }
    }

    /// A name; empty if there is none.
    pub fn name(self, at: usize) -> &'w str {
        match self.0.get(at) {
            Some(Word::Name(name)) => name,
            _ => "",
        }
    }

    /// A range, of two words.
    pub fn bounds(self, at: usize) -> Bounds<'w> {
        let end = |at: usize| match self.0.get(at) {
            Some(Word::Bound(bound)) => bound.as_ref().map(Vec::as_slice),
            _ => Bound::Unbounded,
        };
        Bounds::new(end(at), end(at + 1))
    }

    /// All keys from a place on.
    pub fn keys(self, from: usize) -> Vec<&'w [u8]> {
        let keys = self.0.iter().skip(from);
        keys.filter_map(|word| if let Word::Key(key) = word { Some(key.as_slice()) } else { None }).collect()
    }

    /// All numbers from a place on.
    pub fn numbers(self, from: usize) -> Vec<u64> {
        let numbers = self.0.iter().skip(from);
        numbers.filter_map(|word| if let Word::Number(number) = word { Some(*number) } else { None }).collect()
    }

    /// The words from a place on.
    pub fn from(self, at: usize) -> Words<'w> {
        Words(self.0.get(at..).unwrap_or_default())
    }
}

#[test]
fn a_line_comes_back_as_it_was() {
    let mut words: Vec<Word> = vec![Word::Number(3), Word::name("t0"), Word::Value(Value { len: 9, fill: 4 })];
    for key in [&b""[..], b"k01", b"\0\0\0k", &[b'a'; 300], b"a(b*c)%d", b"\xff\xff\xff\xff\xff\xff"] {
        words.push(Word::Key(key.to_vec()));
        words.push(Word::Bound(Bound::Included(key.to_vec())));
        words.push(Word::Bound(Bound::Excluded(key.to_vec())));
    }
    words.push(Word::Bound(Bound::Unbounded));
    let step = Step::new("verb", words);
    assert_eq!(Step::parse(&step.to_string()), Some(step));
}
