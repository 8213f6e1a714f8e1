//! What a table wants of the inner pages of its runs.
//!
//! Not here: bringing them into memory (`preload`, `run`).

/// When inner pages and filters of a table's runs are brought into memory. They are a hundredth or two of what is on disk, and each question for a row needs some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexPages {
    /// When a question needs them; they are evicted like others.
    #[default]
    AsNeeded,
    /// When the database opens and when a run is written, as far as half of [`Options::cache_bytes`](crate::Options) has room for those of a run; they are evicted like others.
    Preloaded,
    /// As preloaded; then they stay as long as the run does, as far as half of [`Options::cache_bytes`](crate::Options) has room for those of all such tables.
    Resident,
}

impl IndexPages {
    /// As two bits.
    pub(crate) fn to_bits(self) -> u64 {
        match self {
            IndexPages::AsNeeded => 0,
            IndexPages::Preloaded => 1,
            IndexPages::Resident => 2,
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Option<IndexPages> {
        [IndexPages::AsNeeded, IndexPages::Preloaded, IndexPages::Resident].into_iter().find(|it| it.to_bits() == bits)
    }
}
