//! Encodings of texts that clients send and are sent (`client_encoding`). Everything within is UTF-8.
//!
//! Names and numbers are PostgreSQL's; the tables are those of crate `encoding_rs`. Its tables are the web's, in which
//! the bytes 0x80 to 0x9f of ISO 8859-1 and 8859-9 are letters of Windows: these two are put right here. Other
//! encodings with a mark of Windows, such as EUC_CN, take the few letters more that the web's tables have.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::{DecoderResult, Encoding};

use crate::error::{Result, SqlError, SqlState};

/// An encoding of texts.
#[derive(Clone, Copy)]
pub struct TextEncoding {
    name: &'static str,
    number: u8,
    table: Table,
}

/// How bytes and letters correspond.
#[derive(Clone, Copy)]
enum Table {
    /// As here: nothing is changed.
    Utf8,
    /// By a table.
    Web(&'static Encoding),
    /// By a table, but 0x80 to 0x9f are the control characters of these numbers.
    WebWithControls(&'static Encoding),
}

const fn utf8(name: &'static str, number: u8) -> TextEncoding {
    TextEncoding { name, number, table: Table::Utf8 }
}

const fn web(name: &'static str, number: u8, encoding: &'static Encoding) -> TextEncoding {
    TextEncoding { name, number, table: Table::Web(encoding) }
}

const fn with_controls(name: &'static str, number: u8, encoding: &'static Encoding) -> TextEncoding {
    TextEncoding { name, number, table: Table::WebWithControls(encoding) }
}

const ENCODINGS: [TextEncoding; 37] = [
    utf8("UTF8", 6),
    // Bytes without a meaning: what is sent is not looked at, and what comes must be UTF-8 all the same.
    utf8("SQL_ASCII", 0),
    web("EUC_JP", 1, encoding_rs::EUC_JP),
    web("EUC_CN", 2, encoding_rs::GBK),
    web("EUC_KR", 3, encoding_rs::EUC_KR),
    with_controls("LATIN1", 8, encoding_rs::WINDOWS_1252),
    web("LATIN2", 9, encoding_rs::ISO_8859_2),
    web("LATIN3", 10, encoding_rs::ISO_8859_3),
    web("LATIN4", 11, encoding_rs::ISO_8859_4),
    with_controls("LATIN5", 12, encoding_rs::WINDOWS_1254),
    web("LATIN6", 13, encoding_rs::ISO_8859_10),
    web("LATIN7", 14, encoding_rs::ISO_8859_13),
    web("LATIN8", 15, encoding_rs::ISO_8859_14),
    web("LATIN9", 16, encoding_rs::ISO_8859_15),
    web("LATIN10", 17, encoding_rs::ISO_8859_16),
    web("WIN1256", 18, encoding_rs::WINDOWS_1256),
    web("WIN1258", 19, encoding_rs::WINDOWS_1258),
    web("WIN866", 20, encoding_rs::IBM866),
    web("WIN874", 21, encoding_rs::WINDOWS_874),
    web("KOI8R", 22, encoding_rs::KOI8_R),
    web("WIN1251", 23, encoding_rs::WINDOWS_1251),
    web("WIN1252", 24, encoding_rs::WINDOWS_1252),
    web("ISO_8859_5", 25, encoding_rs::ISO_8859_5),
    web("ISO_8859_6", 26, encoding_rs::ISO_8859_6),
    web("ISO_8859_7", 27, encoding_rs::ISO_8859_7),
    web("ISO_8859_8", 28, encoding_rs::ISO_8859_8),
    web("WIN1250", 29, encoding_rs::WINDOWS_1250),
    web("WIN1253", 30, encoding_rs::WINDOWS_1253),
    web("WIN1254", 31, encoding_rs::WINDOWS_1254),
    web("WIN1255", 32, encoding_rs::WINDOWS_1255),
    web("WIN1257", 33, encoding_rs::WINDOWS_1257),
    web("KOI8U", 34, encoding_rs::KOI8_U),
    web("SJIS", 35, encoding_rs::SHIFT_JIS),
    web("BIG5", 36, encoding_rs::BIG5),
    web("GBK", 37, encoding_rs::GBK),
    web("UHC", 38, encoding_rs::EUC_KR),
    web("GB18030", 39, encoding_rs::GB18030),
];

/// Other names, in small letters and digits alone, and those they stand for.
const ALIASES: [(&str, &str); 39] = [
    ("unicode", "UTF8"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("koi8", "KOI8R"),
    ("win", "WIN1251"),
    ("alt", "WIN866"),
    ("abc", "WIN1258"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("vscii", "WIN1258"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("win932", "SJIS"),
    ("win936", "GBK"),
    ("win949", "UHC"),
    ("win950", "BIG5"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
    ("windows932", "SJIS"),
    ("windows936", "GBK"),
    ("windows949", "UHC"),
    ("windows950", "BIG5"),
    ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"),
    ("windows1252", "WIN1252"),
    ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"),
    ("windows1255", "WIN1255"),
    ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"),
    ("windows1258", "WIN1258"),
];

/// A name as names are compared: without case and without what is neither a letter nor a digit.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

impl TextEncoding {
    /// UTF-8.
    pub const UTF8: TextEncoding = ENCODINGS[0];

    /// The encoding of a name, as PostgreSQL spells it or understands it.
    pub fn of_name(name: &str) -> Option<TextEncoding> {
        let wanted = bare(name);
        let wanted = match ALIASES.iter().find(|(alias, _)| *alias == wanted) {
            Some((_, name)) => bare(name),
            None => wanted,
        };
        ENCODINGS.into_iter().find(|encoding| bare(encoding.name) == wanted)
    }

    /// The encoding of a number of PostgreSQL's.
    pub fn of_number(number: i64) -> Option<TextEncoding> {
        ENCODINGS.into_iter().find(|encoding| i64::from(encoding.number) == number)
    }

    /// The names of all encodings, the most common first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ENCODINGS.iter().map(|encoding| encoding.name)
    }

    /// The name, as PostgreSQL spells it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The number that PostgreSQL gives it.
    pub fn number(self) -> u8 {
        self.number
    }

    /// Whether texts go out, and come in, as they are.
    pub fn is_utf8(self) -> bool {
        matches!(self.table, Table::Utf8)
    }

    /// The text that bytes are.
    ///
    /// # Errors
    /// [`CHARACTER_NOT_IN_REPERTOIRE`](SqlState::CHARACTER_NOT_IN_REPERTOIRE) with the bytes that are no letter of the
    /// encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        match self.table {
            Table::Utf8 => std::str::from_utf8(bytes)
                .map(Cow::Borrowed)
                .map_err(|error| self.invalid(&bytes[error.valid_up_to()..])),
            Table::WebWithControls(web) if bytes.iter().any(|byte| is_control(*byte)) => {
                let mut text = String::with_capacity(bytes.len() * 2);
                for part in bytes.chunk_by(|before, byte| is_control(*before) == is_control(*byte)) {
                    match part.first() {
                        Some(first) if is_control(*first) => text.extend(part.iter().copied().map(char::from)),
                        _ => text.push_str(&self.decode_by(web, part)?),
                    }
                }
                Ok(Cow::Owned(text))
            }
            Table::Web(web) | Table::WebWithControls(web) => self.decode_by(web, bytes),
        }
    }

    fn decode_by<'b>(self, web: &'static Encoding, bytes: &'b [u8]) -> Result<Cow<'b, str>> {
        if let Some(text) = web.decode_without_bom_handling_and_without_replacement(bytes) {
            return Ok(text);
        }
        // Once more, for the place of the first bytes that are no letter.
        let mut decoder = web.new_decoder_without_bom_handling();
        let longest = decoder.max_utf8_buffer_length_without_replacement(bytes.len()).unwrap_or(0);
        let mut dropped = vec![0; longest];
        match decoder.decode_to_utf8_without_replacement(bytes, &mut dropped, true) {
            (DecoderResult::Malformed(length, after), read, _) => {
                let start = read.saturating_sub(usize::from(length + after));
                Err(self.invalid(&bytes[start..]))
            }
            _ => Err(self.invalid(bytes)),
        }
    }

    /// The bytes of a text.
    ///
    /// # Errors
    /// [`UNTRANSLATABLE_CHARACTER`](SqlState::UNTRANSLATABLE_CHARACTER) with the first letter that the encoding lacks.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>> {
        let lacked = match self.table {
            Table::Utf8 => return Ok(Cow::Borrowed(text.as_bytes())),
            Table::Web(web) => match web.encode(text) {
                (bytes, _, false) => return Ok(bytes),
                _ => text.chars().find(|letter| self.encode_letter(*letter).is_none()),
            },
            Table::WebWithControls(_) if text.is_ascii() => return Ok(Cow::Borrowed(text.as_bytes())),
            Table::WebWithControls(_) => {
                let mut bytes = Vec::with_capacity(text.len());
                let lacked = text.chars().find(|letter| match self.encode_letter(*letter) {
                    Some(letter) => {
                        bytes.extend(letter);
                        false
                    }
                    None => true,
                });
                if lacked.is_none() {
                    return Ok(Cow::Owned(bytes));
                }
                lacked
            }
        };
        let letter = lacked.unwrap_or(char::REPLACEMENT_CHARACTER).to_string();
        let message = format!(
            "character with byte sequence{} in encoding \"UTF8\" has no equivalent in encoding \"{}\"",
            Hex(letter.as_bytes()),
            self.name
        );
        Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, message))
    }

    /// The bytes of a text; question marks stand for letters that the encoding lacks.
    pub fn encode_lossy(self, text: &str) -> Cow<'_, [u8]> {
        self.encode(text).unwrap_or_else(|_| {
            let letters = text.chars().map(|letter| self.encode_letter(letter).unwrap_or_else(|| vec![b'?']));
            Cow::Owned(letters.flatten().collect())
        })
    }

    /// The bytes of a letter; none if the encoding lacks it.
    fn encode_letter(self, letter: char) -> Option<Vec<u8>> {
        let mut buffer = [0; 4];
        let text = &*letter.encode_utf8(&mut buffer);
        let by = |web: &'static Encoding| match web.encode(text) {
            (bytes, _, false) => Some(bytes.into_owned()),
            _ => None,
        };
        match self.table {
            Table::Utf8 => Some(text.as_bytes().to_vec()),
            Table::Web(web) => by(web),
            Table::WebWithControls(web) => match u8::try_from(letter) {
                Ok(byte) if is_control(byte) => Some(vec![byte]),
                _ => by(web).filter(|bytes| !bytes.iter().any(|byte| is_control(*byte))),
            },
        }
    }

    #[cold]
    fn invalid(self, rest: &[u8]) -> SqlError {
        // As many bytes as the letter that begins there would have, as far as they are there.
        let shown = match (self.is_utf8(), rest.first()) {
            (true, Some(0xc0..=0xdf)) => 2,
            (true, Some(0xe0..=0xef)) => 3,
            (true, Some(0xf0..=0xff)) => 4,
            (true, _) => 1,
            (false, _) => 2,
        };
        let shown = Hex(&rest[..rest.len().min(shown)]);
        let name = if self.is_utf8() { "UTF8" } else { self.name };
        let message = format!("invalid byte sequence for encoding \"{name}\":{shown}");
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    }
}

/// Reads data that come in parts, cut anywhere.
pub struct PartDecoder {
    encoding: TextEncoding,
    web: Option<encoding_rs::Decoder>,
}

impl PartDecoder {
    /// From the beginning of the data.
    pub fn new(encoding: TextEncoding) -> PartDecoder {
        let web = match encoding.table {
            Table::Web(web) => Some(web.new_decoder_without_bom_handling()),
            // Each byte is a letter.
            Table::Utf8 | Table::WebWithControls(_) => None,
        };
        PartDecoder { encoding, web }
    }

    /// Appends the text that a part is, and returns whether it was read to its end: the text of a letter that was cut
    /// comes with the next part, and after the last one there must be none.
    ///
    /// # Errors
    /// [`CHARACTER_NOT_IN_REPERTOIRE`](SqlState::CHARACTER_NOT_IN_REPERTOIRE) for bytes that are no letter; the text
    /// has what stands before them then.
    pub fn decode(&mut self, part: &[u8], is_last: bool, text: &mut String) -> Result<()> {
        let Some(decoder) = &mut self.web else {
            text.push_str(&self.encoding.decode(part)?);
            return Ok(());
        };
        text.reserve(decoder.max_utf8_buffer_length_without_replacement(part.len()).unwrap_or(0));
        match decoder.decode_to_string_without_replacement(part, text, is_last) {
            (DecoderResult::Malformed(length, after), read) => {
                let start = read.saturating_sub(usize::from(length + after));
                Err(self.encoding.invalid(&part[start..]))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for PartDecoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PartDecoder").field(&self.encoding).finish()
    }
}

impl PartialEq for TextEncoding {
    fn eq(&self, other: &TextEncoding) -> bool {
        self.number == other.number
    }
}

impl Eq for TextEncoding {}

impl fmt::Debug for TextEncoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

fn is_control(byte: u8) -> bool {
    (0x80..0xa0).contains(&byte)
}

/// Bytes as errors show them: ` 0xe9 0x20`.
struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, " 0x{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{PartDecoder, TextEncoding};
    use crate::error::SqlState;

    fn named(name: &str) -> TextEncoding {
        TextEncoding::of_name(name).unwrap_or_else(|| panic!("no encoding {name}"))
    }

    #[test]
    fn names_are_those_of_postgresql() {
        for (name, spelled) in [
            ("utf8", "UTF8"),
            ("UTF-8", "UTF8"),
            ("unicode", "UTF8"),
            ("latin-1", "LATIN1"),
            ("ISO_8859-15", "LATIN9"),
            ("iso8859_5", "ISO_8859_5"),
            ("Windows-1252", "WIN1252"),
            ("win", "WIN1251"),
            ("Shift_JIS", "SJIS"),
            ("euc_jp", "EUC_JP"),
        ] {
            assert_eq!(named(name).name(), spelled, "{name}");
        }
        assert!(TextEncoding::of_name("JOHAB").is_none());
        for name in TextEncoding::names() {
            let encoding = named(name);
            assert_eq!(TextEncoding::of_number(encoding.number().into()), Some(encoding), "{name}");
        }
    }

    #[test]
    fn every_byte_of_the_encodings_of_one_byte_comes_back() {
        for name in TextEncoding::names() {
            let encoding = named(name);
            for byte in 0..=255u8 {
                // What is no letter alone is an error.
                let bytes = [byte];
                let Ok(text) = encoding.decode(&bytes) else { continue };
                let again = encoding.encode(&text).expect("it came from there");
                // This one has another place for the euro.
                let is_euro = name == "GB18030" && text == "€";
                assert!(*again == bytes || is_euro, "{name} 0x{byte:02x}");
            }
        }
    }

    #[test]
    fn bytes_of_latin_are_the_first_letters_of_unicode() {
        let latin = named("latin1");
        let bytes: Vec<u8> = (0..=255).collect();
        let text = latin.decode(&bytes).expect("each byte is a letter");
        assert!(text.chars().map(u32::from).eq(0..256));
        assert_eq!(*latin.encode(&text).expect("all are letters of it"), *bytes);
        let latin = named("latin5");
        assert_eq!(latin.decode(b"\x80\xfd").expect("two letters"), "\u{80}\u{131}");
    }

    #[test]
    fn letters_of_other_scripts_come_back() {
        for (name, text) in [
            ("sjis", "日本語カナ"),
            ("euc_jp", "日本語"),
            ("big5", "中文"),
            ("gbk", "中文"),
            ("gb18030", "中文😀"),
            ("uhc", "한국어"),
            ("koi8r", "Привет"),
            ("win1251", "Привет"),
            ("win1252", "naïve €"),
            ("iso_8859_7", "Ελλάδα"),
        ] {
            let bytes = named(name).encode(text).expect("letters of it");
            assert_ne!(*bytes, *text.as_bytes(), "{name}");
            assert_eq!(named(name).decode(&bytes).expect("a text"), text, "{name}");
        }
    }

    #[test]
    fn parts_are_cut_anywhere() {
        for (name, text) in [("sjis", "a表日本"), ("gb18030", "中文😀b"), ("latin1", "é\u{85}ÿ"), ("euc_jp", "日本語")]
        {
            let bytes = named(name).encode(text).expect("letters of it");
            for length in 1..=bytes.len() {
                let (mut decoder, mut read) = (PartDecoder::new(named(name)), String::new());
                for part in bytes.chunks(length) {
                    decoder.decode(part, false, &mut read).expect("a part of a text");
                }
                decoder.decode(b"", true, &mut read).expect("the end");
                assert_eq!(read, text, "{name} in parts of {length}");
            }
            let (mut decoder, mut read) = (PartDecoder::new(named(name)), String::new());
            let cut = decoder.decode(&bytes[..bytes.len() - 1], true, &mut read);
            assert_eq!(cut.is_err(), matches!(name, "sjis" | "euc_jp"), "{name}: {read}");
        }
    }

    #[test]
    fn what_an_encoding_lacks_is_named() {
        let error = named("latin1").encode("ab€").expect_err("no euro sign there");
        assert_eq!(error.state(), SqlState::UNTRANSLATABLE_CHARACTER);
        let message =
            "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"";
        assert_eq!(error.message(), message);
        assert_eq!(*named("latin1").encode_lossy("é€!"), *b"\xe9?!");
        assert_eq!(*named("sjis").encode_lossy("日😀"), *b"\x93\xfa?");
    }

    #[test]
    fn bytes_that_are_no_letter_are_shown() {
        for (name, bytes, message) in [
            ("utf8", &b"caf\xe9 x"[..], "invalid byte sequence for encoding \"UTF8\": 0xe9 0x20 0x78"),
            ("utf8", &b"\xff"[..], "invalid byte sequence for encoding \"UTF8\": 0xff"),
            ("sjis", &b"ab\x85"[..], "invalid byte sequence for encoding \"SJIS\": 0x85"),
            ("euc_jp", &b"ab\xa4\x20cd"[..], "invalid byte sequence for encoding \"EUC_JP\": 0xa4 0x20"),
        ] {
            let error = named(name).decode(bytes).expect_err("no letter");
            assert_eq!((error.state(), error.message()), (SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
        }
    }
}
