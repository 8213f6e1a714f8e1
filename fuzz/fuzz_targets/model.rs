//! A database under arbitrary work, kills and power cuts, against its history.
#![no_main]

#[path = "../../engine/tests/crash_support/mod.rs"]
mod crash_support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| crash_support::live(&mut crash_support::Lots::new(bytes), 10));
