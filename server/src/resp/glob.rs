//! Patterns as `KEYS`, `SCAN` and `PSUBSCRIBE` take them: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a byte that stands
//! for itself.
//!
//! The same answers as Redis' `stringmatchlen`, its oddities included: an unclosed class ends with the pattern; a range
//! compares bytes as signed, as C does on x86-64, and its ends may come in either order; an escaped byte of a class
//! keeps its case; `**` does not match the empty text (but `*` does, as the commands of Redis treat it apart).
//!
//! Cost: at most pattern times text. If what follows a star fits nowhere, no earlier star can help, so only the last
//! star is ever tried anew; that also makes recursion needless.

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if pattern == b"*" {
        return true;
    }
    let (mut place, mut at) = (0, 0);
    // Where the pattern goes on after the last star, and the first byte that the star has not eaten.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        if pattern.get(place) == Some(&b'*') {
            place = behind_stars(pattern, place);
            if place == pattern.len() {
                return true;
            }
            star = Some((place, at));
            continue;
        }
        if let Some(next) = behind_match(pattern, place, text[at], ignore_case) {
            (place, at) = (next, at + 1);
        } else if let Some((behind, eaten)) = &mut star {
            *eaten += 1;
            (place, at) = (*behind, *eaten);
        } else {
            return false;
        }
    }
    if !text.is_empty() {
        place = behind_stars(pattern, place);
    }
    place == pattern.len()
}

/// The bytes that every match starts with, when case counts. The prefix alone is a match if the pattern has nothing
/// else.
pub fn literal_prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut place = 0;
    while let Some(&byte) = pattern.get(place) {
        match (byte, pattern.get(place + 1)) {
            (b'*' | b'?' | b'[', _) => break,
            (b'\\', Some(&escaped)) => {
                prefix.push(escaped);
                place += 2;
            }
            _ => {
                prefix.push(byte);
                place += 1;
            }
        }
    }
    prefix
}

fn behind_stars(pattern: &[u8], mut place: usize) -> usize {
    while pattern.get(place) == Some(&b'*') {
        place += 1;
    }
    place
}

/// The place after the element of the pattern at `place` if that matches `byte`. The element is no star.
#[inline]
fn behind_match(pattern: &[u8], place: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let (literal, next) = match *pattern.get(place)? {
        b'?' => return Some(place + 1),
        b'[' => {
            let (is_match, next) = class(pattern, place + 1, byte, ignore_case);
            return is_match.then_some(next);
        }
        b'\\' if place + 1 < pattern.len() => (pattern[place + 1], place + 2),
        literal => (literal, place + 1),
    };
    (literal == byte || ignore_case && literal.eq_ignore_ascii_case(&byte)).then_some(next)
}

/// Whether `byte` is in the class that opened before `place`, and the place after the class.
fn class(pattern: &[u8], mut place: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    let is_negated = pattern.get(place) == Some(&b'^');
    place += usize::from(is_negated);
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte } as i8;
    let mut is_match = false;
    loop {
        match &pattern[place..] {
            [] => break,
            [b'\\', escaped, ..] => {
                is_match |= *escaped == byte;
                place += 2;
            }
            [b']', ..] => {
                place += 1;
                break;
            }
            [one, b'-', other, ..] => {
                let (start, end) = if *one as i8 > *other as i8 { (other, one) } else { (one, other) };
                is_match |= (fold(*start)..=fold(*end)).contains(&fold(byte));
                place += 3;
            }
            [literal, ..] => {
                is_match |= fold(*literal) == fold(byte);
                place += 1;
            }
        }
    }
    (is_match != is_negated, place)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::{literal_prefix, matches};

    /// What Redis 7.0 answers.
    #[test]
    fn as_redis() {
        let is: &[(&[u8], &[u8])] = &[
            (b"", b""),
            (b"*", b""),
            (b"*", b"a"),
            (b"a*", b"a"),
            (b"a**", b"a"),
            (b"a*b", b"ab"),
            (b"?*", b"a"),
            (b"*?", b"a"),
            (b"*?*", b"a"),
            (b"*a*b*c", b"xaxbxc"),
            (b"*aab", b"aaaaab"),
            (b"h?llo", b"hello"),
            (b"?", b"\xff"),
            (b"h[^e]llo", b"hallo"),
            (b"h[a-b]llo", b"hbllo"),
            (b"\\*", b"*"),
            (b"\\\\", b"\\"),
            (b"\\", b"\\"),
            (b"a\\", b"a\\"),
            (b"*\\", b"x\\"),
            (b"\\[a]", b"[a]"),
            (b"a]", b"a]"),
            (b"[a*]", b"*"),
            (b"[?]", b"?"),
            (b"[!a]", b"!"),
            (b"[\\]]", b"]"),
            (b"[\\", b"\\"),
            (b"[a\\-z]", b"-"),
            (b"[\\a-z]", b"-"),
            (b"[a-\\z]", b"z"),
            (b"[a-\\]]", b"\\]"),
            (b"[a-c-e]", b"-"),
            (b"[a-c-e]", b"e"),
            (b"[--a]", b"."),
            (b"[z-a]", b"m"),
            (b"[a^]", b"^"),
            (b"[^-a]", b"b"),
            // An unclosed class ends with the pattern.
            (b"a[b", b"ab"),
            (b"a[^", b"ab"),
            (b"[^", b"a"),
            (b"*[^", b"x"),
            (b"[a-", b"-"),
            (b"[a-]", b"a"),
            (b"[^]", b"a"),
            (b"[^]]", b"a]"),
            // Bytes from 128 on come before the others.
            (b"[a-\xff]", b"A"),
            (b"[\x80-\xff]", b"\x90"),
            (b"[\xff]", b"\xff"),
            (b"[a\0b]", b"\0"),
            (b"a\0*", b"a\0b"),
        ];
        for (pattern, text) in is {
            assert!(matches(pattern, text, false), "{:?} {:?}", pattern.escape_ascii(), text.escape_ascii());
        }
        let is_not: &[(&[u8], &[u8])] = &[
            (b"", b"a"),
            (b"**", b""),
            (b"*?", b""),
            (b"[^a]", b""),
            (b"?*?", b"a"),
            (b"a?", b"a"),
            (b"*a*b*c", b"xaxbxcd"),
            (b"a*a*a*b", b"aaaaaaaaaaaaaaaaaaaaaac"),
            (b"h[^e]llo", b"hello"),
            (b"h[a-b]llo", b"hcllo"),
            (b"\\*", b"a"),
            (b"{a,b}", b"a"),
            (b"[!a]", b"b"),
            (b"[]", b"a"),
            (b"[]a]", b"a"),
            (b"[]a]", b"]a]"),
            (b"[^]]", b"a"),
            (b"[^^]", b"^"),
            (b"[^-a]", b"-"),
            (b"[\\a-z]", b"m"),
            (b"[a-\\z]", b"m"),
            (b"[a-\\]]", b"]"),
            (b"[a\\-z]", b"b"),
            (b"[a-c-e]", b"d"),
            (b"a[", b"a"),
            (b"a[", b"ab"),
            (b"*[", b"x"),
            (b"a[b", b"ac"),
            (b"[a-", b"b"),
            (b"[a-]", b"-"),
            (b"[a-\xff]", b"b"),
            (b"[a-\xff]", b"\x90"),
            (b"[\x01-\xff]", b"a"),
        ];
        for (pattern, text) in is_not {
            assert!(!matches(pattern, text, false), "{:?} {:?}", pattern.escape_ascii(), text.escape_ascii());
        }
    }

    #[test]
    fn case() {
        assert!(matches(b"HeL?O*", b"hElloWorld", true));
        assert!(!matches(b"HeL?O*", b"hElloWorld", false));
        assert!(matches(b"[A-C]", b"b", true) && matches(b"[a-c]", b"B", true) && matches(b"[X]", b"x", true));
        assert!(matches(b"\\A", b"a", true), "escaped outside of a class");
        assert!(!matches(b"[\\A]", b"a", true), "escaped in a class");
    }

    #[test]
    fn no_exponential_time() {
        let pattern = b"*a".repeat(200);
        let text = [&b"a".repeat(5000)[..], b"b"].concat();
        assert!(!matches(&pattern, &text, false));
    }

    #[test]
    fn prefixes() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"", b""),
            (b"*", b""),
            (b"user:*", b"user:"),
            (b"user:1", b"user:1"),
            (b"a?b", b"a"),
            (b"a[b]", b"a"),
            (b"a\\*b*", b"a*b"),
            (b"a\\", b"a\\"),
            (b"\\a\\?\\[*", b"a?["),
            (b"a\xff\0*", b"a\xff\0"),
        ];
        for (pattern, prefix) in cases {
            assert_eq!(literal_prefix(pattern), *prefix, "{:?}", pattern.escape_ascii());
        }
    }

    /// Every match starts with the prefix, and no bytes panic.
    #[test]
    fn random_patterns() {
        let random = &mut StdRng::seed_from_u64(7);
        let mut matched = 0;
        for _ in 0..200_000 {
            let mut draw = |from: &[u8], most: usize| -> Vec<u8> {
                (0..random.random_range(0..=most)).map(|_| from[random.random_range(0..from.len())]).collect()
            };
            let (pattern, text) = (draw(b"ab*?[]^-\\\xff", 8), draw(b"ab]-\\\xff", 5));
            if matches(&pattern, &text, false) {
                matched += 1;
                assert!(text.starts_with(&literal_prefix(&pattern)) || pattern == b"*", "{pattern:?} {text:?}");
            }
            matches(&pattern, &text, true);
        }
        assert!(matched > 5_000, "{matched}");
    }
}
