//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod arrows;
mod backup;
mod blind;
mod bounds;
mod concurrency;
mod crash;
mod crash_support;
mod damage;
mod faults;
#[cfg(target_os = "linux")]
mod forked;
mod found;
mod full_disk;
mod fuzz_smoke;
mod histogram;
mod ingest;
mod inner_pages;
mod isolation;
mod latched;
mod law;
mod limits;
mod model;
mod model_map;
mod owned;
mod pieces;
mod positions;
mod removed_ranges;
mod removed_rows;
mod repair;
mod restart;
mod serializable;
mod temporary_files;
#[path = "crash_support/tuples.rs"]
mod tuples;
