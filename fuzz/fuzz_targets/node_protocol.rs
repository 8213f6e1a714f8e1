//! Decoding what peers send never panics, what decodes encodes to the same bytes, and a node takes any frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quipu_cluster::fuzz::examine(bytes);
    quipu_cluster::fuzz::give_to_node(bytes);
});
