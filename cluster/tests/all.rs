//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod arrows;
mod clocks;
mod full_disk;
mod long_values;
mod protocol;
mod quiet_cluster;
mod simulation;
