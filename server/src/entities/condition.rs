//! The tag of an entity, and the conditions that reads and writes make with it.
//!
//! A tag names the bytes of an entity, and is strong: the same tag means the same bytes. Of an entity of a node alone
//! it is the version of the write, where that came over HTTP, and a hash of the bytes where it came over RESP; of an
//! entity of a cluster it is its version there. What is no string exists, and has no tag.
//!
//! A [`Condition`] is what `NX` and `XX` say, and the headers `If-Match` and `If-None-Match`. Over the keyspace it is
//! checked while the data are held for the write; over a cluster the replicas check it ([`Condition::of_versions`]).

use quipu_cluster::api;
use quipu_cluster::ids::{NodeId, Version};
use xxhash_rust::xxh3::xxh3_128;

use super::Failure;
use crate::keyspace::value::{Body, Entry};

/// Names the bytes of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The version that a node alone gave a write.
    Version(u64),
    /// A hash of bytes that have no version.
    Content(u128),
    /// The version that a cluster gave a write.
    Replicated(Version),
}

impl Tag {
    /// Of what stands at a key; `None` of a collection. Bytes that have no version are hashed, at some 10 GB/s; long
    /// strings have a hash already.
    pub fn of(entry: &Entry<'_>) -> Option<Tag> {
        match (entry.header.version, entry.body) {
            (_, Body::Collection(_)) => None,
            (Some(version), _) => Some(Tag::Version(version)),
            (None, Body::Bytes(bytes)) => Some(Tag::Content(xxh3_128(bytes))),
            (None, Body::Pieces(outline)) => Some(Tag::Content(xxh3_128(&outline.bytes()))),
        }
    }

    /// As it is given to clients, quotes included.
    pub fn text(self) -> String {
        match self {
            Tag::Version(version) => {
                // `format!` would take twice as long, and this is in every answer over HTTP.
                let mut text = String::with_capacity(22);
                text.push('"');
                text.push_str(&version.to_string());
                text.push('"');
                text
            }
            Tag::Content(hash) => format!("\"h{hash:032x}\""),
            Tag::Replicated(version) => format!("\"{}-{}\"", version.time, version.node.0),
        }
    }

    /// The version that a tag of a cluster stands for.
    fn version_of(text: &str) -> Option<Version> {
        let (time, node) = text.strip_prefix('"')?.strip_suffix('"')?.split_once('-')?;
        Some(Version { time: time.parse().ok()?, node: NodeId(node.parse().ok()?) })
    }
}

/// Tags that a condition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// Whatever is there.
    Any,
    /// These, with their quotes: those that are strong, and those that are weak (`W/`), without that mark.
    Listed {
        /// The strong ones.
        strong: Vec<String>,
        /// The weak ones.
        weak: Vec<String>,
    },
}

impl Tags {
    /// The versions of a cluster that the tags stand for.
    fn versions(&self, with_weak: bool) -> Vec<Version> {
        let Tags::Listed { strong, weak } = self else { return Vec::new() };
        let weak = weak.iter().filter(|_| with_weak);
        let mut found: Vec<Version> = strong.iter().chain(weak).filter_map(|tag| Tag::version_of(tag)).collect();
        if found.is_empty() {
            // Tags that no version has: an empty list would mean any.
            found.push(Version::ZERO);
        }
        found
    }
}

/// What an entity must be for a request to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// It must have one of these tags.
    pub is: Option<Tags>,
    /// It must have none of these.
    pub is_not: Option<Tags>,
}

/// How a condition came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// The entity has none of the tags that it must have.
    Changed,
    /// The entity has one of the tags that it must not have.
    Unchanged,
}

impl Condition {
    /// Whatever there is.
    pub const NONE: Condition = Condition { is: None, is_not: None };
    /// There is no such entity.
    pub const ABSENT: Condition = Condition { is: None, is_not: Some(Tags::Any) };
    /// There is one.
    pub const PRESENT: Condition = Condition { is: Some(Tags::Any), is_not: None };

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.is.is_none() && self.is_not.is_none()
    }

    /// Looks at what stands at the key.
    #[inline]
    pub fn check(&self, entry: Option<&Entry<'_>>) -> Verdict {
        if self.is_empty() { Verdict::Holds } else { self.check_tag(entry.is_some(), || entry.and_then(Tag::of)) }
    }

    /// The same of an entity of which it is known whether it is there, and its tag.
    pub fn check_tag(&self, is_there: bool, tag: impl Fn() -> Option<Tag>) -> Verdict {
        let matches = |tags: &Tags, with_weak: bool| match tags {
            Tags::Any => is_there,
            Tags::Listed { strong, weak } => {
                let text = tag().map(Tag::text);
                let has = |tags: &[String]| text.as_ref().is_some_and(|text| tags.contains(text));
                has(strong) || with_weak && has(weak)
            }
        };
        // RFC 9110: `If-Match` comes first and compares strongly, `If-None-Match` weakly.
        if self.is.as_ref().is_some_and(|tags| !matches(tags, false)) {
            Verdict::Changed
        } else if self.is_not.as_ref().is_some_and(|tags| matches(tags, true)) {
            Verdict::Unchanged
        } else {
            Verdict::Holds
        }
    }

    /// The condition as the replicas of a cluster check it.
    ///
    /// # Errors
    /// They cannot check such a condition.
    pub fn of_versions(&self) -> Result<Option<api::Condition>, Failure> {
        Ok(Some(match (&self.is, &self.is_not) {
            (None, None) => return Ok(None),
            (Some(is), None) => api::Condition::Is(is.versions(false)),
            (None, Some(is_not)) => api::Condition::IsNot(is_not.versions(true)),
            // Nothing exists and does not.
            (Some(_), Some(Tags::Any)) => api::Condition::Is(vec![Version::ZERO]),
            (Some(is @ Tags::Listed { .. }), Some(is_not)) => {
                let is_not = is_not.versions(true);
                let mut left = is.versions(false);
                left.retain(|version| !is_not.contains(version));
                left.push(Version::ZERO);
                api::Condition::Is(left)
            }
            (Some(Tags::Any), Some(_)) => {
                let text = "`If-Match: *` together with tags in `If-None-Match` is not served";
                return Err(Failure::Invalid(text.to_owned()));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::value::{CollectionId, Header, Kind};

    fn listed(strong: &[&str], weak: &[&str]) -> Option<Tags> {
        let owned = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
        Some(Tags::Listed { strong: owned(strong), weak: owned(weak) })
    }

    #[test]
    fn conditions_are_about_what_stands_at_the_key() {
        let entry = Entry { header: Header { version: Some(7), ..Header::new(Kind::String) }, body: Body::Bytes(b"x") };
        let (there, none) = (Some(&entry), None);
        let is = |tags| Condition { is: tags, is_not: None };
        let is_not = |tags| Condition { is: None, is_not: tags };
        for (condition, entry, expected) in [
            (Condition::NONE, there, Verdict::Holds),
            (Condition::NONE, none, Verdict::Holds),
            (Condition::PRESENT, there, Verdict::Holds),
            (Condition::PRESENT, none, Verdict::Changed),
            (Condition::ABSENT, there, Verdict::Unchanged),
            (Condition::ABSENT, none, Verdict::Holds),
            (is(listed(&["\"6\"", "\"7\""], &[])), there, Verdict::Holds),
            (is(listed(&["\"6\""], &["\"7\""])), there, Verdict::Changed),
            (is(listed(&["\"7\""], &[])), none, Verdict::Changed),
            (is_not(listed(&["\"7\""], &[])), there, Verdict::Unchanged),
            (is_not(listed(&[], &["\"7\""])), there, Verdict::Unchanged),
            (is_not(listed(&["\"8\""], &[])), there, Verdict::Holds),
        ] {
            assert_eq!(condition.check(entry), expected, "{condition:?} {entry:?}");
        }
    }

    #[test]
    fn bytes_without_a_version_are_hashed_and_collections_have_no_tag() {
        let entry = Entry { header: Header::new(Kind::String), body: Body::Bytes(b"x") };
        let text = Tag::of(&entry).expect("a tag").text();
        assert!(text.starts_with("\"h") && text.len() == 35, "{text}");
        let set = Entry { header: Header::new(Kind::Set), body: Body::Collection(CollectionId(7)) };
        assert_eq!(Tag::of(&set), None);
        assert_eq!(Condition::PRESENT.check(Some(&set)), Verdict::Holds);
        assert_eq!(Condition { is: listed(&[&text], &[]), is_not: None }.check(Some(&set)), Verdict::Changed);
    }

    #[test]
    fn tags_of_a_cluster_are_those_of_versions() {
        let version = Version { time: 77, node: NodeId(2) };
        assert_eq!(Tag::Replicated(version).text(), "\"77-2\"");
        assert_eq!(Tag::version_of("\"77-2\""), Some(version));
        for text in ["", "77-2", "\"77\"", "\"-2\"", "\"77-70000\"", "\"x-2\""] {
            assert_eq!(Tag::version_of(text), None, "{text}");
        }
    }

    #[test]
    fn conditions_are_those_of_replicas() {
        let version = |time| Version { time, node: NodeId(0) };
        let of = |is, is_not| Condition { is, is_not }.of_versions().ok();
        assert_eq!(of(None, None), Some(None));
        assert_eq!(Condition::PRESENT.of_versions().ok(), Some(Some(api::Condition::Is(vec![]))));
        assert_eq!(Condition::ABSENT.of_versions().ok(), Some(Some(api::Condition::IsNot(vec![]))));
        let two = of(listed(&["\"1-0\"", "\"2-0\""], &[]), None);
        assert_eq!(two, Some(Some(api::Condition::Is(vec![version(1), version(2)]))));
        // A weak tag, or one that no cluster gave, matches nothing.
        for tags in [listed(&["\"x\""], &[]), listed(&[], &["\"1-0\""])] {
            assert_eq!(of(tags, None), Some(Some(api::Condition::Is(vec![Version::ZERO]))));
        }
        let weak = of(None, listed(&[], &["\"1-0\""]));
        assert_eq!(weak, Some(Some(api::Condition::IsNot(vec![version(1)]))));
        let both = of(listed(&["\"1-0\"", "\"2-0\""], &[]), listed(&["\"1-0\""], &[]));
        assert_eq!(both, Some(Some(api::Condition::Is(vec![version(2), Version::ZERO]))));
        assert_eq!(of(Some(Tags::Any), listed(&["\"1-0\""], &[])), None);
    }
}
