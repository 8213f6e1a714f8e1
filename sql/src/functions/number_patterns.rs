//! Patterns of numbers, read: `FM9,999.00`.
//!
//! Not here: numbers by patterns (`number_formats`).

use crate::error::{Result, SqlError, SqlState};

/// What a key of a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    /// `9`: a digit
    Nine,
    /// `0`: a digit; zeros before the number are shown from here on
    Zero,
    /// `.`, `D`
    Point,
    /// `,`, `G`
    Comma,
    /// `L`
    Currency,
    /// `S`: the sign before or after the number
    Sign,
    /// `SG`: the sign, here
    SignHere,
    /// `MI`: a minus or a blank
    Minus,
    /// `PL`: a plus or a blank
    Plus,
    /// `PR`: angle brackets around negative numbers
    Brackets,
    /// `TH`, `th`
    Ordinal,
    /// `RN`, `rn`
    Roman,
    /// `EEEE`
    Exponent,
    /// `V`: the digits from here on are those that the number is moved by
    Shift,
    /// `FM`: nothing is filled
    Tight,
    /// `B`, which only an exponent does not stand beside
    Blank,
    /// `C`, `SP`, which say nothing
    Nothing,
}

/// The keys, in capitals and in small letters; longer ones come first.
const KEYS: [(&str, Key); 20] = [
    ("EEEE", Key::Exponent),
    ("FM", Key::Tight),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Brackets),
    ("RN", Key::Roman),
    ("SG", Key::SignHere),
    ("SP", Key::Nothing),
    ("TH", Key::Ordinal),
    ("9", Key::Nine),
    ("0", Key::Zero),
    (".", Key::Point),
    ("D", Key::Point),
    (",", Key::Comma),
    ("G", Key::Comma),
    ("L", Key::Currency),
    ("S", Key::Sign),
    ("V", Key::Shift),
    ("B", Key::Blank),
    ("C", Key::Nothing),
];

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Key {
        key: Key,
        is_upper: bool,
    },
    /// What is written as it is.
    Text(char),
}

/// Where the sign of `S` stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SignPlace {
    Before,
    After,
}

/// A pattern, read.
#[derive(Default)]
pub(super) struct Pattern {
    pub(super) parts: Vec<Part>,
    /// How many digits stand before the point, and after it.
    pub(super) before: usize,
    pub(super) after: usize,
    /// By how many digits the number is moved.
    pub(super) shift: usize,
    /// The place of the first `0` before the point, and the count of digits up to the last `0` of all.
    pub(super) zero_start: Option<usize>,
    pub(super) zero_end: usize,
    pub(super) sign: Option<SignPlace>,
    /// How many digits before the point stand before `S`.
    pub(super) before_sign: usize,
    pub(super) has_point: bool,
    pub(super) has_shift: bool,
    pub(super) has_blank: bool,
    pub(super) has_minus: bool,
    pub(super) has_plus: bool,
    pub(super) has_brackets: bool,
    pub(super) is_tight: bool,
    pub(super) is_roman: bool,
    pub(super) is_scientific: bool,
}

const POINT_AND_SHIFT: &str = "cannot use \"V\" and decimal point together";

fn refuse(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// The key that a text begins with, its length, and whether it is in capitals.
fn key_of(text: &str) -> Option<(Key, usize, bool)> {
    KEYS.iter().find_map(|(name, key)| {
        let is_upper = text.starts_with(name);
        let is_key = is_upper || text.get(..name.len()).is_some_and(|begin| begin == name.to_ascii_lowercase());
        is_key.then_some((*key, name.len(), is_upper))
    })
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// 42601 of one that makes no sense.
    pub(super) fn parse(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((key, length, is_upper)) = key_of(rest) {
                pattern.add(key)?;
                pattern.parts.push(Part::Key { key, is_upper });
                rest = &rest[length..];
            } else if first == '"' {
                rest = pattern.quoted(&rest[1..]);
            } else {
                // Outside of quotes a backslash is for a quote alone.
                let shown = if rest.starts_with("\\\"") { '"' } else { first };
                pattern.parts.push(Part::Text(shown));
                rest = &rest[first.len_utf8() + usize::from(shown != first)..];
            }
        }
        Ok(pattern)
    }

    /// Adds a text up to a quote. Returns what follows it.
    fn quoted<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => self.parts.push(Part::Text(chars.next().unwrap_or('\\'))),
                c => self.parts.push(Part::Text(c)),
            }
        }
        chars.as_str()
    }

    fn add(&mut self, key: Key) -> Result<()> {
        if self.is_scientific {
            let twice = key == Key::Exponent;
            let what = if twice { "cannot use \"EEEE\" twice" } else { "\"EEEE\" must be the last pattern used" };
            return Err(refuse(what));
        }
        match key {
            Key::Nine | Key::Zero => return self.add_digit(key),
            Key::Point if self.has_point => return Err(refuse("multiple decimal points")),
            Key::Point if self.has_shift => return Err(refuse(POINT_AND_SHIFT)),
            Key::Shift if self.has_point => return Err(refuse(POINT_AND_SHIFT)),
            Key::Point => self.has_point = true,
            Key::Shift => self.has_shift = true,
            Key::Sign | Key::SignHere | Key::Minus | Key::Plus | Key::Brackets => return self.add_sign(key),
            Key::Exponent => {
                let has_sign = self.sign.is_some() || self.has_minus || self.has_plus || self.has_brackets;
                if has_sign || self.has_blank || self.is_tight || self.is_roman || self.has_shift {
                    return Err(refuse("\"EEEE\" is incompatible with other formats")
                        .with_detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.is_scientific = true;
            }
            Key::Tight => self.is_tight = true,
            Key::Roman => self.is_roman = true,
            Key::Blank => self.has_blank |= self.before == 0 && self.after == 0 && self.zero_start.is_none(),
            Key::Comma | Key::Currency | Key::Ordinal | Key::Nothing => {}
        }
        Ok(())
    }

    fn add_digit(&mut self, key: Key) -> Result<()> {
        if self.has_brackets {
            let digit = if key == Key::Nine { '9' } else { '0' };
            return Err(refuse(&format!("\"{digit}\" must be ahead of \"PR\"")));
        }
        if key == Key::Nine && self.has_shift {
            self.shift += 1;
            return Ok(());
        }
        if key == Key::Zero && !self.has_point {
            self.zero_start.get_or_insert(self.before);
        }
        match self.has_point {
            true => self.after += 1,
            false => self.before += 1,
        }
        if key == Key::Zero {
            self.zero_end = self.before + self.after;
        }
        Ok(())
    }

    fn add_sign(&mut self, key: Key) -> Result<()> {
        let has_here = self.has_plus || self.has_minus;
        match key {
            Key::Sign => {
                if self.sign.is_some() {
                    return Err(refuse("cannot use \"S\" twice"));
                }
                if has_here || self.has_brackets {
                    return Err(refuse("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.sign = Some(if self.has_point { SignPlace::After } else { SignPlace::Before });
                self.before_sign = self.before;
            }
            Key::Brackets => {
                if self.sign.is_some() || has_here {
                    return Err(refuse("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.has_brackets = true;
            }
            key => {
                if self.sign.is_some() {
                    let name = KEYS.iter().find(|(_, known)| *known == key).map_or("", |(name, _)| name);
                    return Err(refuse(&format!("cannot use \"S\" and \"{name}\" together")));
                }
                self.has_minus |= key != Key::Plus;
                self.has_plus |= key != Key::Minus;
            }
        }
        Ok(())
    }
}
