#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_rows::fuzz::row_key(bytes));
