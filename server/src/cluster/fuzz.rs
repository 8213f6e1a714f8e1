//! Decoders of bytes from nodes that are not yet authenticated, and of messages of the log: for the fuzz target
//! `greeting`, and for a test that runs the same over mutations. It is not a stable interface.

use super::greeting::examine_greeting;
use quipu_agreement::fuzz::examine_message;

/// Decodes bytes as a greeting, as a verdict and as a message of the log. Nothing may panic, and what decodes must come
/// back from its own bytes.
pub fn examine(bytes: &[u8]) {
    examine_greeting(bytes);
    examine_message(bytes);
}

#[cfg(test)]
mod tests {
    use crate::cluster::greeting::sample_greetings;
    use quipu_agreement::fuzz::sample_messages;

    /// Every prefix of a valid message, and each with one byte changed. With WRITE_SEEDS=1 the valid ones become the
    /// corpus of the fuzz target.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the corpus is no file of a database")]
    fn damaged_greetings_and_messages_are_none() {
        let samples: Vec<(String, Vec<u8>)> = sample_greetings().into_iter().chain(sample_messages()).collect();
        assert!(samples.len() > 8);
        for (name, bytes) in samples {
            if std::env::var_os("WRITE_SEEDS").is_some() {
                let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/greeting");
                std::fs::create_dir_all(dir).unwrap();
                std::fs::write(format!("{dir}/{name}"), &bytes).unwrap();
            }
            super::examine(&bytes);
            for length in 0..bytes.len() {
                super::examine(&bytes[..length]);
                for value in [0, 1, 0x7F, 0x80, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[length] = value;
                    super::examine(&changed);
                }
            }
        }
    }
}
