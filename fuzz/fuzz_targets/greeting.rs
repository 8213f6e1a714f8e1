//! What a stranger greets with, and what the log of a peer says, never panics, and comes back from its own bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_server::cluster::fuzz::examine(bytes));
