//! The random numbers and texts of the specification (clauses 2.1.5, 2.1.6 and 4.3.2).

use crate::rows::Draw;

/// The distance between the constants of last names in the population and in requests must be 65 to 119, and neither 96
/// nor 112 (clause 2.1.6.1).
const LAST_NAME_LOADED: u64 = 123;
const LAST_NAME_ASKED: u64 = LAST_NAME_LOADED + 78;
const CUSTOMER: u64 = 259;
const ITEM: u64 = 7911;

/// A number from `from` to `to`.
pub(crate) fn uniform(draw: &mut Draw, from: i32, to: i32) -> i32 {
    from + draw.below((to - from + 1) as u64) as i32
}

/// Whether the one of `of` equal cases came up.
pub(crate) fn one_in(draw: &mut Draw, of: u64) -> bool {
    draw.below(of) == 0
}

/// A number from `from` to `to`, some of which are far more frequent than others: `NURand(a, from, to)`.
fn skewed(draw: &mut Draw, a: u64, constant: u64, from: i32, to: i32) -> i32 {
    let width = (to - from + 1) as u64;
    let or = draw.below(a + 1) | (from as u64 + draw.below(width));
    from + ((or + constant) % width) as i32
}

/// The number of an item, as requests draw it.
pub(crate) fn item(draw: &mut Draw, items: i32) -> i32 {
    skewed(draw, 8191, ITEM, 1, items)
}

/// The number of a customer of a district, as requests draw it.
pub(crate) fn customer(draw: &mut Draw, customers: i32) -> i32 {
    skewed(draw, 1023, CUSTOMER, 1, customers)
}

/// The number of a last name of the population, of so many that there are.
pub(crate) fn last_name_loaded(draw: &mut Draw, names: i32) -> i32 {
    skewed(draw, 255, LAST_NAME_LOADED, 0, names - 1)
}

/// The number of a last name, as requests draw it.
pub(crate) fn last_name_asked(draw: &mut Draw, names: i32) -> i32 {
    skewed(draw, 255, LAST_NAME_ASKED, 0, names - 1)
}

/// The last name of this number, below 1000: a syllable for each digit.
pub(crate) fn last_name(number: i32) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// The texts of a row, in one buffer that is filled again and again.
#[derive(Default)]
pub(crate) struct Texts {
    all: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    /// Text number `at`.
    pub(crate) fn at(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.all[start..self.ends[at]]
    }

    /// Adds this text.
    pub(crate) fn text(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    /// Adds `from` to `to` letters and digits.
    pub(crate) fn letters(&mut self, draw: &mut Draw, from: i32, to: i32) {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        for _ in 0..uniform(draw, from, to) {
            self.all.push(char::from(LETTERS[draw.below(62) as usize]));
        }
        self.ends.push(self.all.len());
    }

    /// Adds so many digits, and what follows them.
    pub(crate) fn digits(&mut self, draw: &mut Draw, count: usize, then: &str) {
        for _ in 0..count {
            self.all.push(char::from(b'0' + draw.below(10) as u8));
        }
        self.text(then);
    }

    /// Adds `from` to `to` letters, `ORIGINAL` among them in one of ten.
    pub(crate) fn data(&mut self, draw: &mut Draw, from: i32, to: i32) {
        let start = self.all.len();
        self.letters(draw, from, to);
        if one_in(draw, 10) {
            const MARK: &str = "ORIGINAL";
            let place = start + draw.below((self.all.len() - start - MARK.len() + 1) as u64) as usize;
            self.all.replace_range(place..place + MARK.len(), MARK);
        }
    }

    /// Adds the five texts of an address.
    pub(crate) fn address(&mut self, draw: &mut Draw) {
        self.letters(draw, 10, 20);
        self.letters(draw, 10, 20);
        self.letters(draw, 10, 20);
        self.letters(draw, 2, 2);
        self.digits(draw, 4, "11111");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_ranges_and_some_are_more_frequent() {
        let mut draw = Draw::new(1);
        let mut seen = vec![0_u32; 1000];
        for _ in 0..100_000 {
            seen[last_name_asked(&mut draw, 1000) as usize] += 1;
            assert!((1..=100_000).contains(&item(&mut draw, 100_000)));
            assert!((1..=30).contains(&customer(&mut draw, 30)));
        }
        seen.sort_unstable();
        assert!(seen[999] > 3 * seen[500], "{} {}", seen[999], seen[500]);
    }

    #[test]
    fn names_and_texts_have_the_form_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        let (mut draw, mut texts) = (Draw::new(2), Texts::default());
        let mut originals = 0;
        for _ in 0..1_000 {
            texts.clear();
            texts.data(&mut draw, 26, 50);
            texts.digits(&mut draw, 4, "11111");
            assert!((26..=50).contains(&texts.at(0).len()));
            assert!(texts.at(1).len() == 9 && texts.at(1).ends_with("11111"));
            originals += u32::from(texts.at(0).contains("ORIGINAL"));
        }
        assert!((60..150).contains(&originals), "{originals}");
    }
}
