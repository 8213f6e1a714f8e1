//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod cascades;
mod crash;
mod derive;
mod formats;
mod fuzz_smoke;
mod handles;
mod isolation;
mod loads;
mod model;
mod numbers;
mod numbers_model;
mod repair;
#[path = "../../suite/src/seeds.rs"]
mod seeds;
mod statements;
mod table_model;
