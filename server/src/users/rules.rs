//! The rules of a user, as `ACL SETUSER` takes them and `ACL LIST` shows them: `on >secret ~app:* +@read (+set
//! ~log:*)`.

use std::fmt;

use indexmap::IndexSet;

use super::permissions::{Denied, Permissions};
use crate::facts::Spec;

/// The digest of a password; the password itself is not kept.
pub type Digest = [u8; 32];

/// What a user has and may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether it may authenticate.
    pub is_on: bool,
    /// Whether any password is right.
    pub needs_no_password: bool,
    /// Digests of its passwords.
    pub passwords: IndexSet<Digest>,
    /// Whether payloads of `RESTORE` are to be looked at closely; `None`: not set. Remembered only.
    pub sanitizes: Option<bool>,
    /// What it may do.
    pub permissions: Permissions,
    /// Or each of these.
    pub selectors: Vec<Permissions>,
}

impl Rules {
    /// Of a user that may do nothing.
    pub fn none() -> Rules {
        Rules {
            is_on: false,
            needs_no_password: false,
            passwords: IndexSet::new(),
            sanitizes: None,
            permissions: Permissions::none(),
            selectors: Vec::new(),
        }
    }

    /// Of a user that may do everything, without a password.
    pub fn all() -> Rules {
        Rules { is_on: true, needs_no_password: true, permissions: Permissions::all(), ..Rules::none() }
    }

    /// Whether nothing is forbidden.
    pub fn may_do_everything(&self) -> bool {
        self.permissions.is_everything()
    }

    /// Whether this is one of its passwords. Takes as long whichever it is.
    pub fn has_password(&self, password: &[u8]) -> bool {
        let given = digest(password);
        let differs = |known: &Digest| known.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        self.passwords.iter().fold(false, |found, known| found | (differs(known) == 0))
    }

    /// Whether a command with these words is allowed.
    pub fn may(&self, spec: &'static Spec, args: &[&[u8]]) -> Result<(), Denied> {
        let mut denied = match self.permissions.may(spec, args) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        for selector in &self.selectors {
            match selector.may(spec, args) {
                Ok(()) => return Ok(()),
                // Who came further tells more.
                Err(further) if further.place() > denied.place() => denied = further,
                Err(_) => {}
            }
        }
        Err(denied)
    }

    /// Applies rules one after the other.
    ///
    /// # Errors
    /// Why one is malformed, in Redis's words.
    pub fn apply_all(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            // A selector may have been sent as one word or as several.
            if word.first() == Some(&b'(') {
                let mut selector = word.to_vec();
                while selector.last() != Some(&b')') {
                    let Some(next) = words.next() else {
                        return Err(format!(
                            "Unmatched parenthesis in acl selector starting at '{}'.",
                            String::from_utf8_lossy(word)
                        ));
                    };
                    selector.push(b' ');
                    selector.extend_from_slice(next);
                }
                self.selectors.push(self.selector(&selector)?);
                continue;
            }
            self.apply(word).map_err(|why| modifier(word, &why))?;
        }
        Ok(())
    }

    fn selector(&self, text: &[u8]) -> Result<Permissions, String> {
        let mut permissions = Permissions::none();
        for word in text[1..text.len() - 1].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            match permissions.apply(word) {
                Ok(true) => {}
                Ok(false) => return Err(modifier(text, "Syntax error")),
                Err(why) => return Err(modifier(text, &why)),
            }
        }
        Ok(permissions)
    }

    fn apply(&mut self, word: &[u8]) -> Result<(), String> {
        const BAD_DIGEST: &str =
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
        const NO_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
        let remove = |digest: Digest, passwords: &mut IndexSet<Digest>| match passwords.swap_remove(&digest) {
            true => Ok(()),
            false => Err(NO_PASSWORD.to_owned()),
        };
        match String::from_utf8_lossy(word).to_ascii_lowercase().as_str() {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => (self.needs_no_password, self.passwords) = (true, IndexSet::new()),
            "resetpass" => (self.needs_no_password, self.passwords) = (false, IndexSet::new()),
            "sanitize-payload" => self.sanitizes = Some(true),
            "skip-sanitize-payload" => self.sanitizes = Some(false),
            "clearselectors" => self.selectors.clear(),
            "reset" => *self = Rules { sanitizes: Some(true), ..Rules::none() },
            _ => match word.first() {
                Some(b'>') => self.add_password(digest(&word[1..])),
                Some(b'#') => self.add_password(parse_digest(&word[1..]).ok_or(BAD_DIGEST)?),
                Some(b'<') => remove(digest(&word[1..]), &mut self.passwords)?,
                Some(b'!') => remove(parse_digest(&word[1..]).ok_or(BAD_DIGEST)?, &mut self.passwords)?,
                _ => {
                    if !self.permissions.apply(word)? {
                        return Err("Syntax error".to_owned());
                    }
                }
            },
        }
        Ok(())
    }

    fn add_password(&mut self, digest: Digest) {
        self.needs_no_password = false;
        self.passwords.insert(digest);
    }

    /// The flags that `ACL GETUSER` shows.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags.extend(
            self.sanitizes.map(|sanitizes| if sanitizes { "sanitize-payload" } else { "skip-sanitize-payload" }),
        );
        flags
    }
}

impl fmt::Display for Rules {
    /// As `ACL LIST` shows them, which is as they can be given again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.flags().join(" "))?;
        for password in &self.passwords {
            write!(f, "#{} ", hex(password))?;
        }
        write!(f, "{}", self.permissions)?;
        self.selectors.iter().try_for_each(|selector| write!(f, " ({selector})"))
    }
}

fn modifier(word: &[u8], why: &str) -> String {
    format!("Error in ACL SETUSER modifier '{}': {why}", String::from_utf8_lossy(word))
}

/// The words of rules that stand in one text.
pub fn words(text: &str) -> Vec<&[u8]> {
    text.split_whitespace().map(str::as_bytes).collect()
}

/// Whether rules in a text are well formed.
///
/// # Errors
/// Why not.
pub fn check(text: &str) -> Result<(), String> {
    Rules::none().apply_all(&words(text))
}

/// The digest under which a password is kept: SHA-256, as Redis has it.
pub fn digest(password: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, password);
    digest.as_ref().try_into().unwrap_or([0; 32])
}

/// Bytes in lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_digest(text: &[u8]) -> Option<Digest> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if text.len() != 64 || !text.iter().all(is_digit) {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, String> {
        let mut rules = Rules::none();
        rules.apply_all(&words(text)).map(|()| rules.to_string())
    }

    #[test]
    fn rules_are_shown_as_redis_shows_them() {
        for (given, shown) in [
            ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
            (
                "on ~k* +get +@string -set %R~r* %W~w* &ch*",
                "on ~k* %R~r* %W~w* resetchannels &ch* -@all +get +@string -set",
            ),
            ("reset", "off sanitize-payload resetchannels -@all"),
            (
                "on (+get ~x) ( +set %R~y )",
                "on resetchannels -@all (~x resetchannels -@all +get) (%R~y resetchannels -@all +set)",
            ),
        ] {
            assert_eq!(of(given).as_deref(), Ok(shown));
            assert_eq!(of(shown).as_deref(), Ok(shown), "given again");
        }
    }

    #[test]
    fn malformed_rules() {
        for (given, why) in [
            ("foo", "Error in ACL SETUSER modifier 'foo': Syntax error"),
            ("+nosuch", "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"),
            ("%X~a", "Error in ACL SETUSER modifier '%X~a': Syntax error"),
            ("(+get", "Unmatched parenthesis in acl selector starting at '(+get'."),
        ] {
            assert_eq!(of(given), Err(why.to_owned()));
        }
        assert!(of("~* ~a").is_err() && of("#zz").is_err() && of("<zz").is_err());
    }

    #[test]
    fn no_word_panics() {
        for text in [
            "%", "~", "+", "-", "&", ">", "#", "<", "!", "(", ")", "()", "+@", "-|", "+a|b|c", "% ~", "%R", "%R~",
            "%RR~a",
        ] {
            let _ = of(text);
        }
    }
}
