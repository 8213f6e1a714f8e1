//! The query of a request: named parameters, percent-decoded.
//!
//! Names and values are bytes; `+` is a plus. What is malformed, repeated or unknown is an error that says so: a
//! misspelt `ack` would otherwise change what a write promises, unnoticed.

use std::borrow::Cow;

/// The values of `names`, each if it was given.
///
/// # Errors
/// What is wrong, for the body of a `400`.
pub(super) fn parse<'q, const N: usize>(
    query: Option<&'q str>,
    names: [&str; N],
) -> Result<[Option<Cow<'q, [u8]>>; N], String> {
    let mut values = [const { None }; N];
    for pair in query.unwrap_or_default().as_bytes().split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let (name, value) = name_and_value(pair);
        let name = decode(name)?;
        let Some(place) = names.iter().position(|known| known.as_bytes() == &*name) else {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(format!("unknown parameter `{name}`; there are {}", names.join(", ")));
        };
        if values[place].is_some() {
            return Err(format!("`{}` is given more than once", names[place]));
        }
        values[place] = Some(decode(value)?);
    }
    Ok(values)
}

/// The value of a parameter, whatever else there is.
pub(super) fn find<'q>(query: Option<&'q str>, name: &str) -> Option<Cow<'q, [u8]>> {
    let pairs = query.unwrap_or_default().as_bytes().split(|byte| *byte == b'&').map(name_and_value);
    let mut values = pairs.filter(|(known, _)| decode(known).is_ok_and(|known| *known == *name.as_bytes()));
    values.next().and_then(|(_, value)| decode(value).ok())
}

fn name_and_value(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(place) => (&pair[..place], &pair[place + 1..]),
        None => (pair, b""),
    }
}

/// The bytes that a percent-encoded text stands for.
fn decode(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(first) = bytes.iter().position(|&byte| byte == b'%') else { return Ok(Cow::Borrowed(bytes)) };
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'%' {
            decoded.push(byte);
            rest = behind;
            continue;
        }
        let digit = |place: usize| behind.get(place).and_then(|&digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("a percent sign that no two hexadecimal digits follow; send the sign itself as %25".to_owned());
        };
        decoded.push((high * 16 + low) as u8);
        rest = &behind[2..];
    }
    Ok(Cow::Owned(decoded))
}

/// A number of decimal digits.
pub(super) fn number(name: &str, text: &[u8]) -> Result<u64, String> {
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = text.iter().try_fold(0, add).filter(|_| !text.is_empty());
    number.ok_or_else(|| format!("`{name}` is not a number: {}", String::from_utf8_lossy(text)))
}

/// Seconds, with up to three decimals, in milliseconds.
pub(super) fn milliseconds(name: &str, text: &[u8]) -> Result<u64, String> {
    let wrong = || {
        let text = String::from_utf8_lossy(text);
        format!("`{name}` is a number of seconds from 0.001 to {SECONDS_MAX}, with up to three decimals, not {text}")
    };
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b"0"[..]),
    };
    if decimals.is_empty() || decimals.len() > 3 {
        return Err(wrong());
    }
    let seconds = number(name, whole).map_err(|_| wrong())?;
    let decimals_ms = number(name, decimals).map_err(|_| wrong())? * 10_u64.pow(3 - decimals.len() as u32);
    if seconds > SECONDS_MAX || seconds * 1000 + decimals_ms == 0 {
        return Err(wrong());
    }
    Ok(seconds * 1000 + decimals_ms)
}

/// Some 3000 years.
const SECONDS_MAX: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(query: &str) -> Result<Option<Vec<u8>>, String> {
        let [id, _] = parse(Some(query), ["id", "ack"])?;
        Ok(id.map(Cow::into_owned))
    }

    #[test]
    fn values_are_decoded() {
        for (query, id) in [
            ("id=a+b", "a+b".as_bytes()),
            ("ack=1&id=%00%fF%2B", b"\x00\xff+"),
            ("&&id=a=b&", b"a=b"),
            ("%69d=x", b"x"),
            ("id=", b""),
            ("id", b""),
            ("id=%E2%82%AC", "€".as_bytes()),
        ] {
            assert_eq!(id_of(query), Ok(Some(id.to_vec())), "{query}");
        }
        assert_eq!(parse(None, ["id"]), Ok([None]));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for query in ["id=%", "id=%4", "id=%zz", "id=%+1", "%=1", "id=a&id=a", "id=a&%69d=b", "id=a&akc=2"] {
            assert!(id_of(query).is_err(), "{query}");
        }
    }

    #[test]
    fn numbers_and_seconds() {
        assert_eq!(number("ack", b"12"), Ok(12));
        for text in ["", "-1", "+1", "1.0", " 1", "99999999999999999999", "x"] {
            assert!(number("ack", text.as_bytes()).is_err(), "{text}");
        }
        for (text, ms) in
            [("1", 1000), ("0.001", 1), ("1.5", 1500), ("2.25", 2250), ("100000000000", 100_000_000_000_000)]
        {
            assert_eq!(milliseconds("ttl", text.as_bytes()), Ok(ms), "{text}");
        }
        for text in ["", "0", "0.000", "1.", ".5", "1.2345", "-1", "1e3", "100000000001", "1.2.3"] {
            assert!(milliseconds("ttl", text.as_bytes()).is_err(), "{text}");
        }
    }
}
