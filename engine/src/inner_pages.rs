//! [`InnerPages`]: when the inner pages of a table's runs are read into memory.
//!
//! Not here: reading them (`preload_tables`, `cache`).

/// When inner pages and filters of a table's runs are read into memory. They are one or two percent of what is on disk,
/// and each question for a row needs some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InnerPages {
    /// When a question needs them; they are evicted like others.
    #[default]
    AsNeeded,
    /// When the database opens and when a run is written, as far as half of [`Options::cache_bytes`](crate::Options)
    /// has room for those of a run; they are evicted like others.
    Preloaded,
    /// Like `Preloaded`, and then they stay as long as the run does, as far as half of
    /// [`Options::cache_bytes`](crate::Options) has room for those of all such tables.
    Pinned,
}

impl InnerPages {
    /// Encodes this in two bits.
    pub(crate) fn to_bits(self) -> u64 {
        match self {
            InnerPages::AsNeeded => 0,
            InnerPages::Preloaded => 1,
            InnerPages::Pinned => 2,
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Option<InnerPages> {
        [InnerPages::AsNeeded, InnerPages::Preloaded, InnerPages::Pinned].into_iter().find(|it| it.to_bits() == bits)
    }
}
