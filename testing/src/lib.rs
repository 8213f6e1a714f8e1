//! Shared by the tests of all crates. A crate depends on it for its tests alone, so it depends on nothing
//! but what a feature asks for.
//!
//! - [`fence`] reads the source of a crate: layers, circles, large types, `unsafe`.
//! - [`seeds`] says which seeds a random test plays.
//! - `statements`, with the feature of that name, asks clients the statements of `sql/tests/logic`.

#![forbid(unsafe_code)]

pub mod fence;
pub mod seeds;
#[cfg(feature = "statements")]
pub mod statements;
