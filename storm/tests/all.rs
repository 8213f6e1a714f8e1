//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod arrows;
mod coverage;
mod scripts;
mod smoke;
