#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu::fuzz::packed_leaf(bytes));
