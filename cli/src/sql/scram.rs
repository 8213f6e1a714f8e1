//! SCRAM-SHA-256 as a client speaks it (RFC 5802, RFC 7677), without I/O.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// The name of the mechanism.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
/// More rounds than these are refused: a server could keep its client busy for hours.
const ROUNDS_MAX: u32 = 10_000_000;
/// No channel is bound.
const CHANNEL: &str = "n,,";

/// An exchange, from its first step on.
pub(super) struct Exchange {
    nonce: String,
    password: String,
    /// What the server must prove.
    server_signature: Option<Vec<u8>>,
}

impl Exchange {
    /// With a nonce that was never used before.
    pub(super) fn new(password: &str) -> Exchange {
        let nonce: [u8; 18] = rand::random();
        Exchange { nonce: STANDARD.encode(nonce), password: password.to_owned(), server_signature: None }
    }

    /// What the client says first.
    pub(super) fn first(&self) -> String {
        format!("{CHANNEL}{}", self.first_bare())
    }

    fn first_bare(&self) -> String {
        // The name is that of the startup.
        format!("n=,r={}", self.nonce)
    }

    /// What the client says to the server's first words: its proof. None if they are malformed.
    pub(super) fn prove(&mut self, server_first: &str) -> Option<String> {
        let mut attributes = server_first.split(',');
        let nonce = attributes.next()?.strip_prefix("r=")?;
        let salt = STANDARD.decode(attributes.next()?.strip_prefix("s=")?).ok()?;
        let rounds: NonZeroU32 = attributes.next()?.strip_prefix("i=")?.parse().ok()?;
        if !nonce.starts_with(&self.nonce) || rounds.get() > ROUNDS_MAX {
            return None;
        }
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, self.password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(CHANNEL));
        let message = format!("{},{server_first},{without_proof}", self.first_bare());
        let signature = sign(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
        self.server_signature = Some(sign(&sign(&salted, b"Server Key"), message.as_bytes()));
        Some(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server knows the password, too.
    pub(super) fn is_proved(&self, server_final: &str) -> bool {
        let signature = server_final.strip_prefix("v=").and_then(|text| STANDARD.decode(text).ok());
        signature.is_some() && signature == self.server_signature
    }
}

fn sign(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds and keys of RFC 7677's example; the name is not said here, so the proof is another.
    #[test]
    fn a_server_must_prove_itself() {
        let mut exchange = Exchange::new("pencil");
        exchange.nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let said = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = exchange.prove(said).expect("a proof");
        assert!(proof.starts_with("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="));
        assert!(!exchange.is_proved("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let signature = exchange.server_signature.clone().expect("a signature");
        assert!(exchange.is_proved(&format!("v={}", STANDARD.encode(signature))));
        for said in ["", "r=x,s=AA==,i=1", "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=0", "e=other-error"] {
            assert!(exchange.prove(said).is_none(), "{said}");
        }
    }
}
