//! The headers `If-Match` and `If-None-Match` of requests, and `ETag` of answers. Their meaning: [`Condition`],
//! [`Tag`].

use hyper::header::{ETAG, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::{HeaderMap, Response};

use super::answer::AnswerBody;
use crate::entities::{Condition, Tag, Tags};

/// The condition that the headers of a request make.
///
/// # Errors
/// What is wrong, for the body of a `400`.
pub(super) fn parse(headers: &HeaderMap) -> Result<Condition, String> {
    if headers.keys().all(|name| *name != IF_MATCH && *name != IF_NONE_MATCH) {
        return Ok(Condition::NONE);
    }
    Ok(Condition { is: tags(headers, &IF_MATCH)?, is_not: tags(headers, &IF_NONE_MATCH)? })
}

/// Says the tag of the entity in an answer.
pub(super) fn tagged(mut response: Response<AnswerBody>, tag: Tag) -> Response<AnswerBody> {
    // A tag has no byte that a header may not have.
    if let Ok(text) = HeaderValue::try_from(tag.text()) {
        response.headers_mut().insert(ETAG, text);
    }
    response
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, String> {
    let wrong = || format!("`{name}` is `*`, or tags in quotes with commas between");
    let (mut strong, mut weak, mut is_any, mut is_there) = (Vec::new(), Vec::new(), false, false);
    for value in headers.get_all(name) {
        is_there = true;
        let mut rest = value.to_str().map_err(|_| wrong())?.trim();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('*') {
                is_any = true;
                rest = after;
            } else {
                let (tags, quoted) = match rest.strip_prefix("W/") {
                    Some(quoted) => (&mut weak, quoted),
                    None => (&mut strong, rest),
                };
                let inside = quoted.strip_prefix('"').ok_or_else(wrong)?;
                let end = inside.find('"').ok_or_else(wrong)?;
                tags.push(quoted[..end + 2].to_owned());
                rest = &inside[end + 1..];
            }
            rest = rest.trim_start();
            if !rest.is_empty() {
                rest = rest.strip_prefix(',').ok_or_else(wrong)?.trim_start();
            }
        }
    }
    match (is_there, is_any, strong.is_empty() && weak.is_empty()) {
        (false, ..) => Ok(None),
        (true, true, true) => Ok(Some(Tags::Any)),
        (true, false, false) => Ok(Some(Tags::Listed { strong, weak })),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_conditions() {
        let parse = |lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_str(value).unwrap());
            }
            parse(&headers)
        };
        let listed = |strong: &[&str], weak: &[&str]| {
            let owned = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
            Some(Tags::Listed { strong: owned(strong), weak: owned(weak) })
        };
        assert_eq!(parse(&[("accept", "*")]), Ok(Condition::NONE));
        assert_eq!(parse(&[("if-match", "*")]), Ok(Condition::PRESENT));
        assert_eq!(parse(&[("if-none-match", "*")]), Ok(Condition::ABSENT));
        let six_and_seven = listed(&["\"6\"", "\"7\""], &[]);
        for lines in [&[("if-match", "\"6\" , \"7\"")][..], &[("if-match", "\"6\""), ("if-match", "\"7\"")]] {
            assert_eq!(parse(lines), Ok(Condition { is: six_and_seven.clone(), is_not: None }), "{lines:?}");
        }
        let comma = parse(&[("if-match", "\"6,7\"")]);
        assert_eq!(comma, Ok(Condition { is: listed(&["\"6,7\""], &[]), is_not: None }));
        let both = parse(&[("if-match", "\"7\""), ("if-none-match", "W/\"8\"")]);
        assert_eq!(both, Ok(Condition { is: listed(&["\"7\""], &[]), is_not: listed(&[], &["\"8\""]) }));
        for text in ["7", "", "\"7", "\"7\" \"8\"", "*, \"7\"", "w/\"7\""] {
            assert!(parse(&[("if-match", text)]).is_err(), "{text}");
        }
    }
}
