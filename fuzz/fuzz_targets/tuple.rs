//! Decoding never panics, what decodes encodes to the same bytes, and tuples sort as their bytes do.
#![no_main]

#[path = "../../engine/tests/crash_support/tuples.rs"]
mod tuples;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tuples::examine(bytes));
