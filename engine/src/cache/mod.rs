//! The page cache of a database, what a reader holds of it, and loading what it lacks.
//!
//! Not here: pages that stay with their file (`run/kept_pages`, `run/pinned_pages`); which pages a question needs
//! (`probe`).

mod fetch;
mod long_values;
mod page_cache;
mod page_faults;
mod page_key;
mod preload_run;
mod seen_pages;
mod striped_counter;

#[cfg(test)]
mod fetch_tests;
#[cfg(test)]
mod kept_pages_tests;
#[cfg(test)]
mod preload_run_tests;

pub(crate) use fetch::Passed;
pub use page_cache::Missing;
pub(crate) use page_cache::{PageCache, ReadCost, ReadPages};
pub use page_faults::PageFaults;
pub(crate) use page_faults::PageSet;
pub use preload_run::Preloaded;
