//! Texts that begin with a prefix once they are raised, lowered or compared by ILIKE: which these are.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use quipu_rows::generated::like::small_letter;

/// How many texts there may be: each is a range of a key.
const TEXTS_MAX: usize = 64;

/// What changes the case of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterCase {
    /// `upper`
    Upper,
    /// `lower`
    Lower,
    /// ILIKE, to which each letter has one small letter.
    Alike,
}

/// Letters, and what each becomes, by the first letter of that.
type Origins = HashMap<char, Vec<(char, String)>>;

static UPPER: LazyLock<Origins> = LazyLock::new(|| LetterCase::Upper.origins());
static LOWER: LazyLock<Origins> = LazyLock::new(|| LetterCase::Lower.origins());
static ALIKE: LazyLock<Origins> = LazyLock::new(|| LetterCase::Alike.origins());

impl LetterCase {
    /// That of a function's name.
    pub fn of_function(name: &str) -> Option<LetterCase> {
        match name {
            "upper" => Some(LetterCase::Upper),
            "lower" => Some(LetterCase::Lower),
            _ => None,
        }
    }

    /// The text with all its letters in this case.
    pub fn of_text(self, text: &str) -> String {
        match self {
            LetterCase::Upper => text.to_uppercase(),
            LetterCase::Lower => text.to_lowercase(),
            LetterCase::Alike => text.chars().map(small_letter).collect(),
        }
    }

    fn of_letter(self, letter: char) -> String {
        match self {
            LetterCase::Upper => letter.to_uppercase().collect(),
            LetterCase::Lower => letter.to_lowercase().collect(),
            LetterCase::Alike => small_letter(letter).into(),
        }
    }

    /// All letters that become others, or more than one.
    fn origins(self) -> Origins {
        let mut origins = Origins::new();
        for letter in '\0'..=char::MAX {
            let becomes = self.of_letter(letter);
            let Some(first) = becomes.chars().next().filter(|_| !becomes.chars().eq([letter])) else { continue };
            origins.entry(first).or_default().push((letter, becomes));
        }
        // At the end of a word, `lower` writes a sigma another way.
        if self == LetterCase::Lower {
            origins.entry('ς').or_default().push(('Σ', "ς".to_owned()));
        }
        origins
    }

    /// The texts with which every text begins that becomes one which begins with `prefix`; and whether only such texts
    /// begin with them. None of them begins with another one.
    ///
    /// Of a long prefix as many letters are taken as give not too many texts.
    pub fn beginnings(self, prefix: &str) -> (Vec<Arc<str>>, bool) {
        let origins = match self {
            LetterCase::Upper => &*UPPER,
            LetterCase::Lower => &*LOWER,
            LetterCase::Alike => &*ALIKE,
        };
        // Each with what is left of the prefix after it.
        let mut texts = vec![(String::new(), prefix)];
        let mut is_all = !(self == LetterCase::Lower && prefix.contains(['σ', 'ς']));
        while texts.iter().any(|(_, rest)| !rest.is_empty()) {
            let longer: Vec<(String, &str)> =
                texts.iter().flat_map(|(text, rest)| self.one_letter_more(text, rest, origins)).collect();
            if longer.len() > TEXTS_MAX {
                is_all = false;
                break;
            }
            texts = longer;
        }
        let mut texts: Vec<Arc<str>> = texts.into_iter().map(|(text, _)| text.into()).collect();
        texts.sort();
        (texts, is_all)
    }

    /// A text with each letter that it can go on with; itself if nothing of the prefix is left.
    fn one_letter_more<'p>(self, text: &str, rest: &'p str, origins: &Origins) -> Vec<(String, &'p str)> {
        let Some(first) = rest.chars().next() else { return vec![(text.to_owned(), rest)] };
        let with = |letter: char, rest: &'p str| (format!("{text}{letter}"), rest);
        let mut longer = Vec::new();
        if self.of_letter(first).chars().eq([first]) {
            longer.push(with(first, &rest[first.len_utf8()..]));
        }
        for (letter, becomes) in origins.get(&first).into_iter().flatten() {
            if let Some(rest) = rest.strip_prefix(&**becomes) {
                longer.push(with(*letter, rest));
            } else if becomes.starts_with(rest) {
                longer.push(with(*letter, ""));
            }
        }
        longer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginnings(case: LetterCase, prefix: &str) -> (Vec<String>, bool) {
        let (texts, is_all) = case.beginnings(prefix);
        (texts.iter().map(ToString::to_string).collect(), is_all)
    }

    #[test]
    fn texts_of_a_prefix() {
        let upper = |prefix| beginnings(LetterCase::Upper, prefix);
        assert_eq!(upper("Q07"), (vec!["Q07".to_owned(), "q07".to_owned()], true));
        assert_eq!(upper("Qa"), (vec![], true), "no text becomes one with a small letter");
        // `ﬅ` and `ﬆ` become `ST`, whose first letter is the second of the prefix.
        let long =
            ["SS", "Ss", "Sß", "Sſ", "Sﬅ", "Sﬆ", "sS", "ss", "sß", "sſ", "sﬅ", "sﬆ", "ß", "ſS", "ſs", "ſß", "ſſ"];
        assert_eq!(upper("SS").0, [&long[..], &["ſﬅ", "ſﬆ"]].concat());
        let kelvin = ["K1", "k1", "\u{212a}1"].map(ToOwned::to_owned).to_vec();
        assert_eq!(beginnings(LetterCase::Lower, "k1"), (kelvin, true));
        assert!(!beginnings(LetterCase::Lower, "ας").1, "a sigma depends on what follows");
        let sigmas = ["ΑΣ", "Ασ", "αΣ", "ασ"].map(ToOwned::to_owned).to_vec();
        assert_eq!(beginnings(LetterCase::Alike, "ασ"), (sigmas, true), "a sigma of ILIKE does not");
        let (texts, is_all) = upper("INTERNATIONAL");
        assert!(texts.len() <= TEXTS_MAX && texts.len() > 16 && !is_all);
    }

    /// Every text begins with one of them or does not fit.
    #[test]
    fn no_text_is_left_out_and_none_is_too_many() {
        let letters = ["s", "S", "ß", "ſ", "ﬃ", "f", "i", "İ", "ı", "K", "Σ", "σ", "ς", "ŉ", "ʼ", "7", "ΐ", "é", "É"];
        let mut texts = vec![String::new()];
        for _ in 0..3 {
            let longer: Vec<String> =
                texts.iter().flat_map(|text| letters.iter().map(move |letter| format!("{text}{letter}"))).collect();
            texts.extend(longer);
        }
        texts.sort();
        texts.dedup();
        for case in [LetterCase::Upper, LetterCase::Lower, LetterCase::Alike] {
            for prefix in ["S", "SS", "FFI", "FF", "ʼN", "I", "i", "i\u{307}", "k7", "σ", "ας", "Ϊ\u{301}", "é", "É7"]
            {
                let (beginnings, is_all) = case.beginnings(prefix);
                for (at, one) in beginnings.iter().enumerate() {
                    assert!(!beginnings.iter().skip(at + 1).any(|other| other.starts_with(&**one)), "{prefix}");
                }
                for text in &texts {
                    let fits = case.of_text(text).starts_with(prefix);
                    let begins = beginnings.iter().any(|beginning| text.starts_with(&**beginning));
                    assert!(begins || !fits, "{case:?} {prefix}: {text} is left out");
                    assert!(fits || !begins || !is_all, "{case:?} {prefix}: {text} is too many");
                }
            }
        }
    }
}
