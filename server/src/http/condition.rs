//! Entity tags, and the conditions that requests make with them.
//!
//! The tag of an entity that was written over HTTP is its version; of one that another face wrote, a hash of its bytes.
//! Each is strong: the same tag means the same bytes. A key that holds something else than bytes exists, and has no
//! tag.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use xxhash_rust::xxh3::xxh3_128;

use super::version::Version;
use crate::keyspace::value::{Body, Entry};

/// Names the bytes of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Version(Version),
    Content(u128),
}

impl Tag {
    /// Of what stands at a key; `None` of a collection. Bytes that have no version are hashed, at some 10 GB/s; long
    /// strings have a hash already.
    pub(super) fn of(entry: &Entry<'_>) -> Option<Tag> {
        match (entry.header.version, entry.body) {
            (_, Body::Collection(_)) => None,
            (Some(version), _) => Some(Tag::Version(Version(version))),
            (None, Body::Bytes(bytes)) => Some(Tag::Content(xxh3_128(bytes))),
            (None, Body::Pieces(outline)) => Some(Tag::Content(xxh3_128(&outline.bytes()))),
        }
    }

    /// As a header has it, quotes included.
    pub(super) fn header(self) -> HeaderValue {
        HeaderValue::try_from(self.text()).unwrap_or(HeaderValue::from_static("\"\""))
    }

    fn text(self) -> String {
        match self {
            Tag::Version(version) => {
                // `format!` would take twice as long, and this is in every answer.
                let mut text = String::with_capacity(22);
                text.push('"');
                text.push_str(&version.0.to_string());
                text.push('"');
                text
            }
            Tag::Content(hash) => format!("\"h{hash:032x}\""),
        }
    }
}

/// A header of conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: whatever is there.
    Any,
    /// Tags with their quotes, those after `W/` apart.
    Some { strong: Vec<String>, weak: Vec<String> },
}

/// What a request asks of the entity before it is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// How conditions came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    /// `If-Match` failed.
    Changed,
    /// `If-None-Match` failed.
    Unchanged,
}

impl Conditions {
    /// From the headers of a request.
    ///
    /// # Errors
    /// What is wrong, for the body of a `400`.
    pub(super) fn parse(headers: &HeaderMap) -> Result<Conditions, String> {
        Ok(Conditions { if_match: parse(headers, &IF_MATCH)?, if_none_match: parse(headers, &IF_NONE_MATCH)? })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// Looks at what stands at the key.
    pub(super) fn check(&self, entry: Option<&Entry<'_>>) -> Verdict {
        if self.is_empty() {
            return Verdict::Holds;
        }
        let text = entry.and_then(Tag::of).map(Tag::text);
        self.check_text(text.as_deref(), entry.is_some())
    }

    /// The same for an entity of which only the tag is known; `None` if there is no entity.
    pub(super) fn check_tag(&self, tag: Option<&str>) -> Verdict {
        self.check_text(tag, tag.is_some())
    }

    /// The tags that the entity must have, and those that it must not have: `None` where there is no such condition,
    /// `Some(None)` for `*`.
    #[expect(clippy::type_complexity, reason = "a condition that may be missing, of tags that may be any")]
    pub(super) fn tags(&self) -> (Option<Option<Vec<&str>>>, Option<Option<Vec<&str>>>) {
        let of = |tags| tags_of(tags, false);
        (self.if_match.as_ref().map(of), self.if_none_match.as_ref().map(|tags| tags_of(tags, true)))
    }

    fn check_text(&self, text: Option<&str>, is_there: bool) -> Verdict {
        let has = |tags: &[String]| text.is_some_and(|text| tags.iter().any(|tag| tag == text));
        let matches = |tags: &Tags, with_weak: bool| match tags {
            Tags::Any => is_there,
            Tags::Some { strong, weak } => has(strong) || with_weak && has(weak),
        };
        // RFC 9110: `If-Match` comes first and compares strongly, `If-None-Match` weakly.
        if self.if_match.as_ref().is_some_and(|tags| !matches(tags, false)) {
            Verdict::Changed
        } else if self.if_none_match.as_ref().is_some_and(|tags| matches(tags, true)) {
            Verdict::Unchanged
        } else {
            Verdict::Holds
        }
    }
}

fn tags_of(tags: &Tags, with_weak: bool) -> Option<Vec<&str>> {
    match tags {
        Tags::Any => None,
        Tags::Some { strong, weak } => {
            let weak = weak.iter().filter(|_| with_weak);
            Some(strong.iter().chain(weak).map(String::as_str).collect())
        }
    }
}

fn parse(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, String> {
    let wrong = || format!("`{name}` is `*`, or tags in quotes with commas between");
    let (mut strong, mut weak, mut is_any, mut is_there) = (Vec::new(), Vec::new(), false, false);
    for value in headers.get_all(name) {
        is_there = true;
        let mut rest = value.to_str().map_err(|_| wrong())?.trim();
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('*') {
                is_any = true;
                rest = behind;
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
        (true, false, false) => Ok(Some(Tags::Some { strong, weak })),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::value::{CollectionId, Header, Kind};

    fn verdict(lines: &[(&'static str, &str)], entry: Option<&Entry<'_>>) -> Result<Verdict, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Conditions::parse(&headers).map(|conditions| conditions.check(entry))
    }

    #[test]
    fn conditions_are_those_of_http() {
        let entry = Entry { header: Header { version: Some(7), ..Header::new(Kind::String) }, body: Body::Bytes(b"x") };
        let (there, none) = (Some(&entry), None);
        for (line, entry, expected) in [
            (("if-match", "\"7\""), there, Verdict::Holds),
            (("if-match", "\"6\" , \"7\""), there, Verdict::Holds),
            (("if-match", "\"6,7\""), there, Verdict::Changed),
            (("if-match", "W/\"7\""), there, Verdict::Changed),
            (("if-match", "*"), there, Verdict::Holds),
            (("if-match", "*"), none, Verdict::Changed),
            (("if-match", "\"7\""), none, Verdict::Changed),
            (("if-none-match", "\"7\""), there, Verdict::Unchanged),
            (("if-none-match", "W/\"7\""), there, Verdict::Unchanged),
            (("if-none-match", "\"8\""), there, Verdict::Holds),
            (("if-none-match", "*"), there, Verdict::Unchanged),
            (("if-none-match", "*"), none, Verdict::Holds),
            (("accept", "*"), none, Verdict::Holds),
        ] {
            assert_eq!(verdict(&[line], entry), Ok(expected), "{line:?} {entry:?}");
        }
        let two = [("if-match", "\"6\""), ("if-match", "\"7\"")];
        assert_eq!(verdict(&two, there), Ok(Verdict::Holds));
        for text in ["7", "", "\"7", "\"7\" \"8\"", "*, \"7\"", "w/\"7\""] {
            assert!(verdict(&[("if-match", text)], there).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_without_a_version_are_hashed_and_collections_have_no_tag() {
        let entry = Entry { header: Header::new(Kind::String), body: Body::Bytes(b"x") };
        let text = Tag::of(&entry).unwrap().text();
        assert!(text.starts_with("\"h") && text.len() == 35, "{text}");
        let set = Entry { header: Header::new(Kind::Set), body: Body::Collection(CollectionId(7)) };
        assert_eq!(Tag::of(&set), None);
        assert_eq!(verdict(&[("if-match", "*")], Some(&set)), Ok(Verdict::Holds));
        assert_eq!(verdict(&[("if-match", &text)], Some(&set)), Ok(Verdict::Changed));
    }
}
