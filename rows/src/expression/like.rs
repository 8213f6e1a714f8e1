//! Texts that match a pattern: `%` stands for any characters, `_` for one, a backslash takes their meaning away.

use std::str::Chars;

/// A backslash at the end of a pattern, which takes away the meaning of nothing. It counts only where text is left to
/// compare with it: before that a text does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndsWithBackslash;

/// Whether the whole text matches. Takes at most as many steps as both have characters, multiplied.
///
/// # Errors
/// [`EndsWithBackslash`]
pub fn matches(text: &str, pattern: &str) -> Result<bool, EndsWithBackslash> {
    matches_by(text, pattern, |letter| letter)
}

/// Whether the whole text matches, whatever the case of letters. Each letter is one in the other case, too, wherever in
/// a word it stands.
///
/// # Errors
/// [`EndsWithBackslash`]
pub fn matches_in_any_case(text: &str, pattern: &str) -> Result<bool, EndsWithBackslash> {
    matches_by(text, pattern, small_letter)
}

/// The small letter of a letter: one alone, of `İ` the `i`.
pub fn small_letter(letter: char) -> char {
    letter.to_lowercase().next().unwrap_or(letter)
}

/// Whether the whole text matches, where letters are equal that become the same one.
fn matches_by(text: &str, pattern: &str, becomes: impl Fn(char) -> char) -> Result<bool, EndsWithBackslash> {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // Where to go on if what follows the last `%` does not match: one character of the text further.
    let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        if text.as_str().is_empty() {
            // Further on is less text still.
            return Ok(pattern.as_str().bytes().all(|byte| byte == b'%'));
        }
        let is_match = match (pattern.next(), text.clone().next()) {
            (Some('%'), _) => {
                if !skip_wildcards(&mut text, &mut pattern) {
                    return Ok(false);
                }
                match pattern.as_str() {
                    "" => return Ok(true),
                    "\\" => return Err(EndsWithBackslash),
                    _ => retry = Some((text.clone(), pattern.clone())),
                }
                continue;
            }
            (Some('_'), _) => true,
            (Some('\\'), next) => {
                let literal = pattern.next().ok_or(EndsWithBackslash)?;
                next.is_some_and(|next| becomes(next) == becomes(literal))
            }
            (Some(literal), next) => next.is_some_and(|next| becomes(next) == becomes(literal)),
            (None, _) => false,
        };
        if is_match {
            text.next();
            continue;
        }
        let Some((retry_text, retry_pattern)) = &mut retry else { return Ok(false) };
        retry_text.next();
        text = retry_text.clone();
        pattern = retry_pattern.clone();
    }
}

/// Goes past more wildcards after a `%`. False if the text has fewer characters than there are `_`.
fn skip_wildcards(text: &mut Chars<'_>, pattern: &mut Chars<'_>) -> bool {
    while let Some(wildcard @ ('%' | '_')) = pattern.clone().next() {
        pattern.next();
        if wildcard == '_' && text.next().is_none() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::{EndsWithBackslash, matches, matches_in_any_case};

    /// The definition, by recursion.
    fn reference(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|taken| reference(&text[taken..], rest)),
            ['_', rest @ ..] => !text.is_empty() && reference(&text[1..], rest),
            ['\\', literal, rest @ ..] => text.first() == Some(literal) && reference(&text[1..], rest),
            [literal, rest @ ..] => text.first() == Some(literal) && reference(&text[1..], rest),
        }
    }

    #[test]
    fn random_patterns_match_as_they_are_defined() {
        let seed = quipu_testing::seeds::seed_or(1);
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        let mut draw = |characters: &[char]| -> String {
            (0..random.random_range(0..7)).map(|_| characters[random.random_range(0..characters.len())]).collect()
        };
        let mut matched = 0;
        for _ in 0..20_000 {
            let (text, pattern) = (draw(&['a', 'b', 'é', '%', '\\']), draw(&['a', 'b', 'é', '%', '%', '_', '\\']));
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            let is_open = pattern.chars().rev().take_while(|letter| *letter == '\\').count() % 2 == 1;
            if is_open {
                assert_ne!(matches(&text, &pattern), Ok(true), "{text:?} LIKE {pattern:?}");
                continue;
            }
            let expected = reference(&characters(&text), &characters(&pattern));
            assert_eq!(matches(&text, &pattern), Ok(expected), "{text:?} LIKE {pattern:?}");
            matched += usize::from(expected);
        }
        assert!(matched > 1_000);
    }

    #[test]
    fn many_wildcards_end_soon() {
        assert_eq!(matches(&"a".repeat(3_000), &"%a".repeat(500).replace("%a", "%a_%b")), Ok(false));
    }

    /// PostgreSQL 15 answers so.
    #[test]
    fn a_backslash_at_the_end_counts_where_text_is_left() {
        for (text, pattern) in [("ab", r"ab\"), ("a", r"a\"), ("", r"\"), ("b", r"a\"), ("abc", r"%c\"), ("", r"%\")] {
            assert_eq!(matches(text, pattern), Ok(false), "{text} LIKE {pattern}");
        }
        for (text, pattern) in [("abc", r"a\"), ("x", r"\"), ("abc", r"%\"), ("abc", r"%___\"), ("abcabc", r"%b\")] {
            assert_eq!(matches(text, pattern), Err(EndsWithBackslash), "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn a_letter_has_one_small_letter_wherever_it_stands() {
        assert_eq!(matches_in_any_case("ΑΣ", "ασ"), Ok(true));
        assert_eq!(matches_in_any_case("ΑΣΑ", "ασ%"), Ok(true));
        assert_eq!(matches_in_any_case("ΑΣ", "ας"), Ok(false));
        assert_eq!(matches_in_any_case("İX", "i_"), Ok(true));
    }
}
