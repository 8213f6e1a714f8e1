//! The part of a password that a server keeps, by which clients prove with SCRAM-SHA-256 (RFC 5802, RFC 7677) that they
//! know the password. Neither what is kept nor what is sent tells the password itself.
//!
//! Format, which is that of PostgreSQL: `SCRAM-SHA-256$4096:<salt>$<stored key>:<server key>`, in base64.
//!
//! Costs: to make one takes 4096 rounds of HMAC, about a millisecond.
//!
//! Not here: the exchange (`postgres/scram`). Passwords are taken byte by byte: SASLprep, which maps letters that look
//! alike to one, is left to clients.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Rounds that a new verifier takes: those of PostgreSQL, and the least that RFC 7677 allows.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");
/// Bytes of a new salt.
pub const SALT_BYTES: usize = 16;

/// A key.
pub type Key = [u8; 32];

/// What is kept of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    /// Rounds.
    pub iterations: NonZeroU32,
    /// What makes the keys of equal passwords differ.
    pub salt: Vec<u8>,
    /// The digest of the key that a client proves to have.
    pub stored_key: Key,
    /// The key by which the server proves to be one that keeps this.
    pub server_key: Key,
}

impl Verifier {
    /// Of a password, with a salt of its own.
    pub fn new(password: &[u8]) -> Verifier {
        Verifier::with(password, rand::random::<[u8; SALT_BYTES]>().to_vec(), ITERATIONS)
    }

    /// Of another password with the salt of `known`.
    pub fn like(known: &Verifier, password: &[u8]) -> Verifier {
        Verifier::with(password, known.salt.clone(), known.iterations)
    }

    fn with(password: &[u8], salt: Vec<u8>, iterations: NonZeroU32) -> Verifier {
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
        let client_key = sign(&salted, b"Client Key");
        Verifier { iterations, salt, stored_key: hash(&client_key), server_key: sign(&salted, b"Server Key") }
    }

    /// From its text.
    pub fn parse(text: &[u8]) -> Option<Verifier> {
        let text = std::str::from_utf8(text).ok()?.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (parameters, keys) = text.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (salt, stored_key) = (STANDARD.encode(&self.salt), STANDARD.encode(self.stored_key));
        write!(f, "{MECHANISM}${}:{salt}${stored_key}:{}", self.iterations, STANDARD.encode(self.server_key))
    }
}

/// HMAC-SHA-256.
pub fn sign(key: &[u8], data: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    tag.as_ref().try_into().unwrap_or([0; 32])
}

/// SHA-256.
pub fn hash(data: &[u8]) -> Key {
    digest::digest(&digest::SHA256, data).as_ref().try_into().unwrap_or([0; 32])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 keeps for the password `pencil` with this salt, by RFC 7677's example.
    #[test]
    fn keys_are_those_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::with(b"pencil", salt, ITERATIONS);
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(verifier.to_string(), text);
        assert_eq!(Verifier::parse(text.as_bytes()), Some(verifier));
        for malformed in ["", "SCRAM-SHA-256", "SCRAM-SHA-256$0:YQ==$YQ==:YQ==", &text[..text.len() - 1], &text[1..]] {
            assert_eq!(Verifier::parse(malformed.as_bytes()), None, "{malformed}");
        }
    }
}
