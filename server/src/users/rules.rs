//! The rules of a user, as `ACL SETUSER` takes them and `ACL LIST` shows them: `on >secret ~app:* +@read (+set
//! ~log:*)`.

use std::fmt;

use indexmap::{IndexMap, IndexSet};

use super::permissions::{Denied, Permissions};
use super::verifier::{self, Verifier};
use crate::facts::Spec;

/// Passwords of a user that have a verifier: to make one takes thousands of digests, and the server waits.
const VERIFIERS_MAX: usize = 8;

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
    /// For SCRAM, verifiers of those of them that were given as text; never shown. All that are made here have one
    /// salt, so that a client may use any of the passwords.
    verifiers: IndexMap<Digest, Verifier>,
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
            verifiers: IndexMap::new(),
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
        const NO_DIGEST: &str = "A verifier follows the digest of its password";
        match String::from_utf8_lossy(word).to_ascii_lowercase().as_str() {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" | "resetpass" => {
                self.needs_no_password = word.len() == "nopass".len();
                self.forget_passwords();
            }
            "sanitize-payload" => self.sanitizes = Some(true),
            "skip-sanitize-payload" => self.sanitizes = Some(false),
            "clearselectors" => self.selectors.clear(),
            "reset" => *self = Rules { sanitizes: Some(true), ..Rules::none() },
            _ => match word.first() {
                Some(b'>') => self.add_password(&word[1..]),
                Some(b'#') => self.add_digest(parse_digest(&word[1..]).ok_or(BAD_DIGEST)?),
                Some(b'<') => self.remove_digest(&digest(&word[1..])).ok_or(NO_PASSWORD)?,
                Some(b'!') => {
                    self.remove_digest(&parse_digest(&word[1..]).ok_or(BAD_DIGEST)?).ok_or(NO_PASSWORD)?;
                }
                _ if word.starts_with(verifier::MECHANISM.as_bytes()) => {
                    let verifier = Verifier::parse(word).ok_or("Syntax error")?;
                    self.verifiers.insert(*self.passwords.last().ok_or(NO_DIGEST)?, verifier);
                }
                _ => {
                    if !self.permissions.apply(word)? {
                        return Err("Syntax error".to_owned());
                    }
                }
            },
        }
        Ok(())
    }

    fn add_digest(&mut self, digest: Digest) {
        self.needs_no_password = false;
        self.passwords.insert(digest);
    }

    /// Adds a password, of which the digest is kept, and the verifier if it is one of the first ones.
    pub fn add_password(&mut self, password: &[u8]) {
        let digest = digest(password);
        self.add_digest(digest);
        if !self.verifiers.contains_key(&digest) && self.verifiers.len() < VERIFIERS_MAX {
            let verifier = match self.verifiers.first() {
                Some((_, first)) => Verifier::like(first, password),
                None => Verifier::new(password),
            };
            self.verifiers.insert(digest, verifier);
        }
    }

    /// Forgets all passwords.
    pub fn forget_passwords(&mut self) {
        self.passwords.clear();
        self.verifiers.clear();
    }

    fn remove_digest(&mut self, digest: &Digest) -> Option<()> {
        self.verifiers.swap_remove(digest);
        self.passwords.swap_remove(digest).then_some(())
    }

    /// What SCRAM needs of its passwords, of those that were given as text.
    pub fn verifiers(&self) -> impl Iterator<Item = &Verifier> {
        self.verifiers.values()
    }

    /// The rules as they can be given again, with what `ACL LIST` does not show.
    pub fn to_keep(&self) -> String {
        let mut text = format!("{} ", self.flags().join(" "));
        for password in &self.passwords {
            text.push_str(&format!("#{} ", hex(password)));
            if let Some(verifier) = self.verifiers.get(password) {
                text.push_str(&format!("{verifier} "));
            }
        }
        text + &self.permission_text()
    }

    fn permission_text(&self) -> String {
        let mut text = self.permissions.to_string();
        self.selectors.iter().for_each(|selector| text.push_str(&format!(" ({selector})")));
        text
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
        f.write_str(&self.permission_text())
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
    fn verifiers_are_kept_and_not_shown() {
        let mut rules = Rules::none();
        rules.apply_all(&words("on >one >two >one ~* &* +@all")).expect("rules");
        let verifiers: Vec<_> = rules.verifiers().cloned().collect();
        let [one, two] = &verifiers[..] else { panic!("two passwords") };
        assert!(one.salt == two.salt && one.stored_key != two.stored_key);
        assert!(!rules.to_string().contains("SCRAM"), "{rules}");
        let kept = rules.to_keep();
        let mut again = Rules::none();
        again.apply_all(&words(&kept)).expect("rules");
        assert_eq!(again, rules);
        again.apply_all(&words("<one")).expect("removed");
        assert_eq!(again.verifiers().collect::<Vec<_>>(), [two]);
        again.apply_all(&words("nopass")).expect("changed");
        assert_eq!((again.verifiers().count(), again.needs_no_password), (0, true));
        assert!(of("SCRAM-SHA-256$").is_err() && of(&format!("on {one}")).is_err());
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
