//! Texts that match a pattern: `%` stands for any characters, `_` for one, a backslash takes their meaning away.

/// Whether the whole text matches. Takes at most as many steps as both have characters, multiplied.
pub(crate) fn matches(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // Where to go on if what follows the last `%` does not match: one character of the text further.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let is_match = match pattern.next() {
            Some('%') => {
                retry = Some((text.clone(), pattern.clone()));
                continue;
            }
            None if text.next().is_none() => return true,
            None => false,
            Some('_') => text.next().is_some(),
            Some('\\') => match pattern.next() {
                Some(literal) => text.next() == Some(literal),
                None => text.next() == Some('\\'),
            },
            Some(literal) => text.next() == Some(literal),
        };
        if is_match {
            continue;
        }
        let Some((retry_text, retry_pattern)) = &mut retry else { return false };
        if retry_text.next().is_none() {
            return false;
        }
        text = retry_text.clone();
        pattern = retry_pattern.clone();
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::matches;

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
            let expected = reference(&characters(&text), &characters(&pattern));
            assert_eq!(matches(&text, &pattern), expected, "{text:?} LIKE {pattern:?}");
            matched += usize::from(expected);
        }
        assert!(matched > 1_000);
    }

    #[test]
    fn many_wildcards_end_soon() {
        assert!(!matches(&"a".repeat(3_000), &"%a".repeat(500).replace("%a", "%a_%b")));
    }
}
