//! The texts of JSON values in a file: each line one, or the elements of one array.
//!
//! Costs: of lines each byte is copied once; elements of an array are looked through for where they end.

use std::io::BufRead;

use crate::failure::{Failure, Result};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A value as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonText<'t> {
    pub(crate) text: &'t str,
    /// The line that it begins on, from 1.
    pub(crate) line: u64,
}

/// Reads values.
pub(crate) struct Texts<R> {
    reader: R,
    bytes: Vec<u8>,
    /// The line at hand.
    line: u64,
    shape: Shape,
}

/// How values stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing was read.
    Unknown,
    Lines,
    /// In an array, of which the next element may be the first.
    Array {
        is_first: bool,
    },
    /// The array has ended.
    Ended,
}

fn at_line(line: u64, what: &str) -> Failure {
    Failure::new(format!("line {line}: {what}"))
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot read it: {error}"))
}

impl<R: BufRead> Texts<R> {
    pub(crate) fn new(reader: R) -> Texts<R> {
        Texts { reader, bytes: Vec::new(), line: 1, shape: Shape::Unknown }
    }

    /// The next value; none if there are no more.
    pub(crate) fn next_text(&mut self) -> Result<Option<JsonText<'_>>> {
        if self.shape == Shape::Unknown {
            if self.reader.fill_buf().map_err(unreadable)?.starts_with(BYTE_ORDER_MARK) {
                self.reader.consume(BYTE_ORDER_MARK.len());
            }
            self.shape = match self.skip_blanks()? {
                Some(b'[') => {
                    self.reader.consume(1);
                    Shape::Array { is_first: true }
                }
                _ => Shape::Lines,
            };
        }
        self.bytes.clear();
        let line = match self.shape {
            Shape::Array { is_first } => match self.take_element(is_first)? {
                Some(line) => line,
                None => return Ok(None),
            },
            Shape::Ended => return Ok(None),
            _ => match self.take_line()? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        let text = std::str::from_utf8(&self.bytes).map_err(|_| at_line(line, "it is not UTF-8"))?;
        Ok(Some(JsonText { text: text.trim_end(), line }))
    }

    /// Takes the next line that is not empty. Returns its number.
    fn take_line(&mut self) -> Result<Option<u64>> {
        loop {
            if self.reader.read_until(b'\n', &mut self.bytes).map_err(unreadable)? == 0 {
                return Ok(None);
            }
            let line = self.line;
            self.line += 1;
            if !self.bytes.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
            self.bytes.clear();
        }
    }

    /// The next byte that is not blank, which stays; none at the end.
    fn skip_blanks(&mut self) -> Result<Option<u8>> {
        loop {
            let buffer = self.reader.fill_buf().map_err(unreadable)?;
            let Some(&byte) = buffer.first() else { return Ok(None) };
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.line += u64::from(byte == b'\n');
            self.reader.consume(1);
        }
    }

    /// Takes the next element of the array. Returns the line that it begins on; none after the last.
    fn take_element(&mut self, is_first: bool) -> Result<Option<u64>> {
        let mut next = self.skip_blanks()?;
        if next == Some(b']') {
            self.reader.consume(1);
            self.shape = Shape::Ended;
            return match self.skip_blanks()? {
                None => Ok(None),
                Some(_) => Err(at_line(self.line, "something follows the end of the array")),
            };
        }
        if !is_first {
            if next != Some(b',') {
                return Err(at_line(self.line, "a comma or the end of the array is missing"));
            }
            self.reader.consume(1);
            next = self.skip_blanks()?;
        }
        self.shape = Shape::Array { is_first: false };
        let begins = self.line;
        match next {
            None => Err(at_line(begins, "the array has no end")),
            Some(b']' | b',') => Err(at_line(begins, "an element of the array is missing")),
            Some(_) => {
                self.take_value(begins)?;
                Ok(Some(begins))
            }
        }
    }

    /// Takes a value up to the comma or bracket that follows it.
    fn take_value(&mut self, begins: u64) -> Result<()> {
        let (mut depth, mut is_in_text, mut is_escaped) = (0u32, false, false);
        loop {
            let buffer = self.reader.fill_buf().map_err(unreadable)?;
            if buffer.is_empty() {
                return Err(at_line(begins, "the array has no end"));
            }
            let mut end = None;
            for (place, &byte) in buffer.iter().enumerate() {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' if is_in_text => is_escaped = true,
                    b'"' => is_in_text = !is_in_text,
                    b'\n' => self.line += 1,
                    _ if is_in_text => {}
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 0 => depth -= 1,
                    b',' | b']' if depth == 0 => {
                        end = Some(place);
                        break;
                    }
                    _ => {}
                }
            }
            let taken = end.unwrap_or(buffer.len());
            self.bytes.extend_from_slice(&buffer[..taken]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Every value as `line: text`, and the error that ended it, read in pieces of so many bytes.
    fn read(file: &str, piece: usize) -> Vec<String> {
        let mut texts = Texts::new(BufReader::with_capacity(piece, file.as_bytes()));
        let mut found = Vec::new();
        loop {
            match texts.next_text() {
                Ok(Some(JsonText { text, line })) => found.push(format!("{line}: {text}")),
                Ok(None) => return found,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }

    #[test]
    fn elements_of_an_array_are_found_wherever_they_end() {
        let file = "\u{feff}\n [ {\"a\": \"],\\\"[{\"},\n{\n \"b\": [1, {}]}\n, 7]\n";
        let expected = ["2: {\"a\": \"],\\\"[{\"}", "3: {\n \"b\": [1, {}]}", "5: 7"];
        for piece in 3..60 {
            assert_eq!(read(file, piece), expected, "pieces of {piece}");
        }
        assert_eq!(read("[]", 9), [""; 0]);
        assert_eq!(read("{\"a\": 1}\n\n{}\n", 9), ["1: {\"a\": 1}", "3: {}"]);
    }

    #[test]
    fn an_array_that_is_wrong_says_where() {
        assert_eq!(read("[{}\n{}]", 9), ["1: {}\n{}"], "no JSON, which is for others to say");
        assert_eq!(read("[{},\n]", 9), ["1: {}", "line 2: an element of the array is missing"]);
        assert_eq!(read("[\n,{}]", 9), ["line 2: an element of the array is missing"]);
        assert_eq!(read("[{},\n{\"a\": [", 9), ["1: {}", "line 2: the array has no end"]);
        assert_eq!(read("[{}\n", 9), ["line 1: the array has no end"]);
        assert_eq!(read("[{}]\n{}", 9), ["1: {}", "line 2: something follows the end of the array"]);
    }

    #[test]
    fn random_arrays_have_the_elements_that_another_reader_finds() {
        for seed in quipu_testing::seeds::seeds(300) {
            let mut rng = StdRng::seed_from_u64(seed);
            let parts = ["{}", "[1,[]]", "\"a,]\"", "\"\\\\\"", "null", "{\"k\": [\"}\", {}]}", "-1e5"];
            let blanks = ["", " ", "\n", "\t\r\n"];
            let mut file = "[".to_owned();
            for number in 0..rng.random_range(0..9) {
                file += if number > 0 { "," } else { "" };
                file += blanks[rng.random_range(0..blanks.len())];
                file += parts[rng.random_range(0..parts.len())];
                file += blanks[rng.random_range(0..blanks.len())];
            }
            file += "]";
            let elements: Vec<serde_json::Value> = serde_json::from_str(&file).unwrap();
            let found = read(&file, rng.random_range(3..20));
            let value = |text: &String| serde_json::from_str(text.split_once(": ").unwrap().1).unwrap();
            let found: Vec<serde_json::Value> = found.iter().map(value).collect();
            assert_eq!(found, elements, "SEED={seed}: {file}");
        }
    }
}
