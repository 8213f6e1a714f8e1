//! All tests of the crate, in one program.

mod arrows;
mod catalogue;
mod crashes;
mod fuzz_smoke;
mod isolation;
mod logic;
mod sessions;
