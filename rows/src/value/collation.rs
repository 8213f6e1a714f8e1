//! The order of texts that ignores case and accents: the root collation of Unicode at its first level.
//!
//! The sort key of a text is bytes that compare as the texts do. Keys of rows hold them; the text itself stands in the
//! value, since it cannot be told from its sort key. Sort keys are those of one version of the collation's data: a new
//! one may order otherwise, so the catalogue says which version a table's keys have, and a table of another version is
//! refused. A test compares sort keys with recorded ones; when it fails after an update of the library, [`VERSION`]
//! must change.

use std::cmp::Ordering;
use std::sync::LazyLock;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::{Collator, CollatorBorrowed};

/// The version of the collation's data whose sort keys this program makes.
pub(crate) const VERSION: &str = "icu4x-2.4 cldr-49";

static COLLATOR: LazyLock<CollatorBorrowed<'static>> = LazyLock::new(|| {
    let mut options = CollatorOptions::default();
    options.strength = Some(Strength::Primary);
    Collator::try_new(Default::default(), options).expect("the root collation is compiled into the program")
});

/// Appends the sort key of a text.
pub(crate) fn append_sort_key(text: &str, key: &mut Vec<u8>) {
    let written = COLLATOR.write_sort_key_to(text, key);
    written.expect("a vector takes all bytes");
}

/// The sort key of a text.
pub(crate) fn sort_key(text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() * 2);
    append_sort_key(text, &mut key);
    key
}

/// The order of two texts: that of their sort keys.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    COLLATOR.compare(a, b)
}
