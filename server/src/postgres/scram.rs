//! SCRAM-SHA-256 as the server speaks it (RFC 5802, RFC 7677): what is said in two steps, without I/O.
//!
//! An exchange over no verifiers goes as any other and fails at its end: so a user who is not there looks like one
//! whose password is wrong, and takes as long.
//!
//! Not here: channel binding (`SCRAM-SHA-256-PLUS`), which is not offered; the verifiers (`users/verifier`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::users::verifier::{Key, hash, sign};

pub use crate::users::verifier::{MECHANISM, Verifier};

/// Why an exchange has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What the client said is malformed.
    Malformed(&'static str),
    /// It does not know the password.
    Wrong,
}

/// Salt and rounds, as the client is told them.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The salt.
    pub salt: Vec<u8>,
    /// The rounds.
    pub iterations: u32,
}

/// An exchange after its first step.
#[derive(Debug)]
pub struct Exchange {
    /// How the client wrote that it binds no channel, in base64.
    channel: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Takes what the client says first; what the server says then is in [`Exchange::server_first`].
    ///
    /// # Errors
    /// [`Failure::Malformed`].
    pub fn begin(said: &[u8], parameters: &Parameters, own_nonce: &str) -> Result<Exchange, Failure> {
        let said = std::str::from_utf8(said).map_err(|_| Failure::Malformed("it is not UTF-8"))?;
        let (flag, rest) = said.split_once(',').ok_or(Failure::Malformed("no channel binding flag"))?;
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return Err(Failure::Malformed("no channel binding was offered")),
            _ => return Err(Failure::Malformed("unknown channel binding flag")),
        }
        let (identity, bare) = rest.split_once(',').ok_or(Failure::Malformed("no name of a user"))?;
        if !identity.is_empty() {
            return Err(Failure::Malformed("another identity is asked for"));
        }
        if bare.starts_with("m=") {
            return Err(Failure::Malformed("an extension is required"));
        }
        // The name in here is not looked at: it is that of the startup.
        let nonce = attribute(bare, "n=").and_then(|(_, rest)| attribute(rest, "r=")).map(|(nonce, _)| nonce);
        let nonce = nonce.filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = format!("{}{own_nonce}", nonce.ok_or(Failure::Malformed("no nonce"))?);
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&parameters.salt), parameters.iterations);
        let channel = STANDARD.encode(format!("{flag},,"));
        Ok(Exchange { channel, client_first: bare.to_owned(), server_first, nonce })
    }

    /// What the server says first.
    pub fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Takes the client's proof and returns the server's. It may be of any of the verifiers, all of which are tried.
    ///
    /// # Errors
    /// [`Failure::Wrong`] if it is of none, or malformed.
    pub fn finish<'v>(&self, said: &[u8], verifiers: impl Iterator<Item = &'v Verifier>) -> Result<String, Failure> {
        let said = std::str::from_utf8(said).map_err(|_| Failure::Malformed("it is not UTF-8"))?;
        let (without_proof, proof) = said.rsplit_once(",p=").ok_or(Failure::Malformed("no proof"))?;
        let (channel, rest) = attribute(without_proof, "c=").ok_or(Failure::Malformed("no channel binding"))?;
        let (nonce, _) = attribute(rest, "r=").ok_or(Failure::Malformed("no nonce"))?;
        if channel != self.channel {
            return Err(Failure::Malformed("the channel binding has changed"));
        }
        if nonce != self.nonce {
            return Err(Failure::Malformed("the nonce has changed"));
        }
        let proof: Key = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(Failure::Malformed("the proof is not of 32 bytes in base64"))?;
        let message = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let mut server_key = None;
        for verifier in verifiers {
            let signature = sign(&verifier.stored_key, message.as_bytes());
            let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
            if is_equal(&hash(&client_key), &verifier.stored_key) {
                server_key = Some(&verifier.server_key);
            }
        }
        let signature = sign(server_key.ok_or(Failure::Wrong)?, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

/// An attribute that stands first, and what follows its comma.
fn attribute<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str)> {
    let rest = text.strip_prefix(name)?;
    Some(rest.split_once(',').unwrap_or((rest, "")))
}

/// Whether two texts are equal. Takes as long whichever byte differs.
pub fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                          wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn begin(said: &str) -> Result<Exchange, Failure> {
        let pencil = Verifier::parse(PENCIL.as_bytes()).expect("a verifier");
        let parameters = Parameters { salt: pencil.salt, iterations: 4096 };
        Exchange::begin(said.as_bytes(), &parameters, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    }

    /// The example of RFC 7677.
    #[test]
    fn the_exchange_of_the_standard() {
        let exchange = begin(FIRST).expect("begun");
        let said = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(exchange.server_first(), said);
        let (pencil, other) = (Verifier::parse(PENCIL.as_bytes()).expect("a verifier"), Verifier::new(b"other"));
        let proved = exchange.finish(FINAL.as_bytes(), [&other, &pencil, &other].into_iter());
        assert_eq!(proved.as_deref(), Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert_eq!(exchange.finish(FINAL.as_bytes(), [&other].into_iter()), Err(Failure::Wrong));
        assert_eq!(exchange.finish(FINAL.as_bytes(), [].into_iter()), Err(Failure::Wrong));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for said in
            ["", "n", "n,", "n,,", "n,,n=a", "n,,n=a,r=", "p=tls-exporter,,n=a,r=b", "x,,n=a,r=b", "n,a=b,n=a,r=b"]
        {
            assert!(matches!(begin(said), Err(Failure::Malformed(_))), "{said}");
        }
        let pencil = Verifier::parse(PENCIL.as_bytes()).expect("a verifier");
        let exchange = begin(FIRST).expect("begun");
        // What follows the proof, or stands before it, is part of what is proved.
        for said in [
            "".to_owned(),
            FINAL.replace("biws", "eSws"),
            FINAL.replace("r=r", "r=x"),
            format!("{FINAL}AAAA"),
            format!("{FINAL},x=y"),
            FINAL.replace(",p=", ",x=y,p="),
            FINAL.replace("p=dH", "p="),
        ] {
            assert!(exchange.finish(said.as_bytes(), [&pencil].into_iter()).is_err(), "{said}");
        }
    }
}
