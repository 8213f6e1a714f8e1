//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod arrows;
mod cascades;
mod crash;
mod cursors;
mod definitions;
mod derive;
mod documents;
mod formats;
mod full_disk;
mod fuzz_smoke;
mod generated;
mod handles;
mod isolation;
mod loads;
mod model;
mod numbers;
mod numbers_model;
mod repair;
mod statements;
mod unique_later;
