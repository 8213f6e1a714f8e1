//! All tests of the crate.
