//! Shared by the tests of all crates. A crate depends on it for its tests alone, so it depends on nothing.
//!
//! - [`fence`] reads the source of a crate: layers, circles, large types, `unsafe`.
//! - [`seeds`] says which seeds a random test plays.

#![forbid(unsafe_code)]

pub mod fence;
pub mod seeds;
