//! All tests of the crate, in one program.

mod arrows;
mod logic;
mod sessions;
