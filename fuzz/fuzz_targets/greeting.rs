//! Greetings of strangers and log messages of peers never cause a panic, and encoding restores their bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_server::cluster::fuzz::examine(bytes));
