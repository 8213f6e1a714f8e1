//! All tests of the crate.

mod fuzz_smoke;
