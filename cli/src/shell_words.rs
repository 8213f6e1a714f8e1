//! The words of a shell line, and of the keys on the command line.
//!
//! Words stand between blanks; a word is one or more items between commas. Quotes keep blanks, commas, stars and
//! equals signs together: `"New York",7`; two quotes within them are one: `"the ""Big"" Apple"`. A backslash escapes,
//! in quotes or not: `\"`, `\\`, `\n`, `\r`, `\t`, `\0`, and any byte as `\xHH`. A `#` that begins a word begins a
//! comment. [`escape`] writes bytes such that they read back.

use crate::failure::{Failure, Result};

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// At least one.
    pub(crate) items: Vec<Item>,
}

/// What stands between two commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// The bytes, quotes and escapes taken off, without the star.
    pub(crate) bytes: Vec<u8>,
    /// Whether any of it was in quotes.
    pub(crate) quoted: bool,
    /// Whether it ends with a star that is neither quoted nor escaped: any continuation.
    pub(crate) star: bool,
    /// Where in the bytes the first equals sign stands that is neither quoted nor escaped.
    pub(crate) equals: Option<usize>,
    /// Whether any of what stands after that sign was in quotes.
    pub(crate) value_quoted: bool,
}

impl Word {
    /// The word as plain text, if it is one item and not quoted.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self.items.as_slice() {
            [Item { bytes, quoted: false, star: false, .. }] => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Whether the word is `text`, not quoted.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.plain() == Some(text)
    }

    /// The bytes of the whole word, commas and stars included.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(&item.bytes);
            if item.star {
                bytes.push(b'*');
            }
        }
        bytes
    }

    /// The whole word as text.
    pub(crate) fn text(&self) -> Result<String> {
        String::from_utf8(self.bytes()).map_err(|_| Failure::new("a word is not UTF-8"))
    }
}

/// The words of a line.
pub(crate) fn split(line: &str) -> Result<Vec<Word>> {
    let mut words: Vec<Word> = Vec::new();
    let mut characters = line.chars().peekable();
    // The word at hand, and whether its last item ends with a bare star.
    let mut word: Option<Word> = None;
    let mut in_quotes = false;
    while let Some(character) = characters.next() {
        if !in_quotes && character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        if !in_quotes && word.is_none() && character == '#' {
            break;
        }
        let items = &mut word.get_or_insert_with(|| Word { items: vec![Item::default()] }).items;
        if !in_quotes && character == ',' {
            items.push(Item::default());
            continue;
        }
        let Some(item) = items.last_mut() else { continue };
        if std::mem::take(&mut item.star) {
            item.bytes.push(b'*');
        }
        match character {
            '"' if in_quotes && characters.next_if_eq(&'"').is_some() => item.bytes.push(b'"'),
            '"' => {
                in_quotes = !in_quotes;
                item.quoted = true;
                item.value_quoted |= item.equals.is_some();
            }
            '\\' => item.bytes.push(unescape(&mut characters)?),
            '*' if !in_quotes => item.star = true,
            '=' if !in_quotes && item.equals.is_none() => {
                item.equals = Some(item.bytes.len());
                item.bytes.push(b'=');
            }
            _ => item.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if in_quotes {
        return Err(Failure::new("a quote is opened and never closed"));
    }
    words.extend(word);
    Ok(words)
}

/// The one word of an argument of the command line.
pub(crate) fn single(argument: &str) -> Result<Word> {
    let mut words = split(argument)?;
    match (words.pop(), words.is_empty()) {
        (Some(word), true) => Ok(word),
        _ => Err(Failure::new(format!("{argument:?} is not one key: put quotes around what has blanks"))),
    }
}

/// The byte that follows a backslash.
fn unescape(characters: &mut impl Iterator<Item = char>) -> Result<u8> {
    match characters.next() {
        Some('n') => Ok(b'\n'),
        Some('r') => Ok(b'\r'),
        Some('t') => Ok(b'\t'),
        Some('0') => Ok(0),
        Some('x') => {
            let digits: String = characters.by_ref().take(2).collect();
            let byte = (digits.len() == 2).then(|| u8::from_str_radix(&digits, 16).ok()).flatten();
            byte.ok_or_else(|| Failure::new(format!("\\x{digits} is not a byte: write two hexadecimal digits")))
        }
        Some(other) if other.is_ascii() && !other.is_ascii_alphanumeric() => Ok(other as u8),
        Some(other) => {
            Err(Failure::new(format!("\\{other} is not an escape; there are \\n \\r \\t \\0 \\xHH \\\\ \\\"")))
        }
        None => Err(Failure::new("the line ends with a backslash")),
    }
}

/// Bytes as text on one line: what is UTF-8 and printable as it is, all else escaped as `\n`, `\r`, `\t`,
/// `\\` and `\xHH`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                control if control.is_control() => {
                    control.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
                }
                other => text.push(other),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Bytes as one item of a word, in quotes if they need them.
pub(crate) fn item(bytes: &[u8]) -> String {
    let text = escape(bytes);
    let needs_quotes = |character: char| character.is_whitespace() || matches!(character, ',' | '"' | '*' | '#' | '=');
    if text.is_empty() || text == "null" || text.contains("..") || text.contains(needs_quotes) {
        format!("\"{}\"", text.replace('"', "\\\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(line: &str) -> Vec<Vec<String>> {
        let show = |item: &Item| {
            let quotes = if item.quoted { "'" } else { "" };
            format!("{quotes}{}{quotes}{}", item.bytes.escape_ascii(), if item.star { "*" } else { "" })
        };
        split(line).unwrap().iter().map(|word| word.items.iter().map(show).collect()).collect()
    }

    #[test]
    fn lines_split_into_words_and_items() {
        assert_eq!(items("  count JFK,7 .. JFK,8 "), [vec!["count"], vec!["JFK", "7"], vec![".."], vec!["JFK", "8"]]);
        assert_eq!(items(r#"get "New York",7"#), [vec!["get"], vec!["'New York'", "7"]]);
        assert_eq!(items(r#""a,b*" a"b c"d,"" "#), [vec!["'a,b*'"], vec!["'ab cd'", "''"]]);
        assert_eq!(items(r"\x00\xff\n\\ \,\* x"), [vec![r"\x00\xff\n\\"], vec![",*"], vec!["x"]]);
        assert_eq!(items("JF* a*b* **"), [vec!["JF*"], vec!["a*b*"], vec!["**"]]);
        assert_eq!(
            items(r#""the ""Big"" Apple" """" """#),
            [vec![r#"'the \"Big\" Apple'"#], vec![r#"'\"'"#], vec!["''"]]
        );
        assert_eq!(items("# a comment"), Vec::<Vec<String>>::new());
        assert_eq!(items("get a#b # a comment"), [vec!["get"], vec!["a#b"]]);
        assert_eq!(items(","), [vec!["", ""]]);
    }

    #[test]
    fn wrong_lines_are_explained() {
        assert_eq!(split("get \"x").unwrap_err().to_string(), "a quote is opened and never closed");
        assert_eq!(
            split(r"get \q").unwrap_err().to_string(),
            r#"\q is not an escape; there are \n \r \t \0 \xHH \\ \""#
        );
        assert_eq!(split(r"get \x1").unwrap_err().to_string(), r"\x1 is not a byte: write two hexadecimal digits");
        assert_eq!(split(r"get \xé1").unwrap_err().to_string(), r"\xé1 is not a byte: write two hexadecimal digits");
        assert_eq!(split("get \\").unwrap_err().to_string(), "the line ends with a backslash");
    }

    #[test]
    fn bytes_are_escaped_on_one_line() {
        assert_eq!(escape(b"a\\\n\t\x00\xff \xc3\xa9\xc2\x85"), r"a\\\n\t\x00\xff é\xc2\x85");
    }

    #[test]
    fn every_item_reads_back() {
        let samples: [&[u8]; 12] = [
            b"",
            b"a",
            b"null",
            b"New York",
            b"a,b",
            b"\"",
            b"\\",
            b"\0\xff\n",
            "é\u{85}".as_bytes(),
            b"..",
            b"x*",
            b"#",
        ];
        for bytes in samples {
            let text = item(bytes);
            let word = single(&text).unwrap();
            assert_eq!(word.items.len(), 1, "{text}");
            assert_eq!(word.items[0].bytes, bytes, "{text}");
            assert!(!word.items[0].star && word.plain() != Some("null"), "{text}");
        }
    }
}
