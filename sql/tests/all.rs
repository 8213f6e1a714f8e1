//! All tests of the crate, in one program.

mod arrows;
mod binary_values;
mod catalogue;
mod copies;
mod crashes;
mod durability;
mod formats;
mod full_disk;
mod fuzz_smoke;
mod index_builds;
mod isolation;
mod join_orders;
mod logic;
mod names;
mod nesting;
mod positions;
mod random_queries;
mod rights;
mod sessions;
mod violations;
