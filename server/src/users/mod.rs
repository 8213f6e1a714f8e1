//! Users: their passwords, and which commands and keys they may use.
//!
//! A session holds its user, which `ACL SETUSER` changes in place, so that a change applies from the next command on. A
//! flag says which users may do everything, so for them nothing else is checked.
//!
//! Invariants:
//! 1. There is always a user `default`, which new connections have.
//! 2. A user's flag is set exactly if its rules allow everything.
//!
//! Differences from Redis: users are kept with the data (`ACL SAVE`) or in the configuration file; there is no file of
//! users alone. Rules about channels are kept but have no effect, as there are no channels.

pub mod permissions;
pub mod refusals;
pub mod rules;
pub mod verifier;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::facts::Spec;
pub use permissions::{Denied, Permissions};
pub use refusals::Refusals;
use rules::Rules;

/// The user whom new connections are.
pub const DEFAULT: &str = "default";

/// A user.
#[derive(Debug)]
pub struct User {
    /// The name.
    pub name: Box<str>,
    /// Whether every command with every key is allowed.
    may_do_everything: AtomicBool,
    /// How often the rules were set.
    version: AtomicU64,
    rules: RwLock<Rules>,
}

impl User {
    fn new(name: &str, rules: Rules) -> User {
        User {
            name: name.into(),
            may_do_everything: AtomicBool::new(rules.may_do_everything()),
            version: AtomicU64::new(0),
            rules: RwLock::new(rules),
        }
    }

    /// Its rules.
    pub fn rules(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_rules(&self, rules: Rules) {
        let mut held = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.may_do_everything.store(rules.may_do_everything(), Ordering::Release);
        *held = rules;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// A number that is another one once the rules were set again.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether every command with every key is allowed.
    #[inline]
    pub fn may_do_everything(&self) -> bool {
        self.may_do_everything.load(Ordering::Acquire)
    }

    /// Whether a command with these words is allowed.
    pub fn may(&self, spec: &'static Spec, args: &[&[u8]]) -> Result<(), Denied> {
        if self.may_do_everything() { Ok(()) } else { self.rules().may(spec, args) }
    }
}

/// All users.
#[derive(Debug)]
pub struct Users {
    users: Mutex<BTreeMap<Box<str>, Arc<User>>>,
    default: Arc<User>,
    /// What was refused.
    pub refusals: Refusals,
}

impl Default for Users {
    fn default() -> Self {
        let default = Arc::new(User::new(DEFAULT, Rules::all()));
        Users {
            users: Mutex::new(BTreeMap::from([(Box::from(DEFAULT), default.clone())])),
            default,
            refusals: Refusals::default(),
        }
    }
}

impl Users {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<User>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user whom new connections are.
    pub fn default_user(&self) -> Arc<User> {
        self.default.clone()
    }

    /// Whether new connections need not authenticate.
    pub fn needs_no_password(&self) -> bool {
        let rules = self.default.rules();
        rules.is_on && rules.needs_no_password
    }

    /// The user of that name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.lock().get(std::str::from_utf8(name).ok()?).cloned()
    }

    /// All users, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.lock().values().cloned().collect()
    }

    /// The user with this name and password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.get(name)?;
        let is_it = {
            let rules = user.rules();
            rules.is_on && (rules.needs_no_password || rules.has_password(password))
        };
        is_it.then_some(user)
    }

    /// Makes a user, or changes one.
    ///
    /// # Errors
    /// A rule is malformed: why. Nothing has changed then.
    pub fn set(&self, name: &str, words: &[&[u8]]) -> Result<(), String> {
        let mut users = self.lock();
        let mut rules = users.get(name).map_or_else(Rules::none, |user| user.rules().clone());
        rules.apply_all(words)?;
        match users.get(name) {
            Some(user) => user.set_rules(rules),
            None => {
                users.insert(name.into(), Arc::new(User::new(name, rules)));
            }
        }
        Ok(())
    }

    /// Replaces all users by these; the default one becomes again what it is at first if it is not among them. Returns
    /// those who are no more.
    ///
    /// # Errors
    /// A rule is malformed: why. Nothing has changed then.
    pub fn replace(&self, list: &[(String, String)]) -> Result<Vec<Arc<User>>, String> {
        let mut parsed = BTreeMap::from([(DEFAULT.to_owned(), Rules::all())]);
        for (name, text) in list {
            let mut rules = Rules::none();
            rules.apply_all(&rules::words(text)).map_err(|error| format!("user `{name}`: {error}"))?;
            parsed.insert(name.clone(), rules);
        }
        let mut users = self.lock();
        let gone: Vec<_> = users.values().filter(|user| !parsed.contains_key(&*user.name)).cloned().collect();
        gone.iter().for_each(|user| drop(users.remove(&user.name)));
        for (name, rules) in parsed {
            match users.get(name.as_str()) {
                Some(user) => user.set_rules(rules),
                None => {
                    users.insert(name.as_str().into(), Arc::new(User::new(&name, rules)));
                }
            }
        }
        Ok(gone)
    }

    /// All users with their rules, as [`Users::replace`] takes them.
    pub fn list(&self) -> Vec<(String, String)> {
        self.all().iter().map(|user| (user.name.to_string(), user.rules().to_string())).collect()
    }

    /// The same with what `ACL LIST` does not show: verifiers of passwords.
    pub fn list_to_keep(&self) -> Vec<(String, String)> {
        self.all().iter().map(|user| (user.name.to_string(), user.rules().to_keep())).collect()
    }

    /// Removes a user. `None` if there is none, or if it is the default one.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        let name = std::str::from_utf8(name).ok().filter(|name| *name != DEFAULT)?;
        self.lock().remove(name)
    }

    /// Gives the default user this password and no other; none at all if it is empty.
    pub fn require_password(&self, password: &str) {
        let mut rules = self.default.rules().clone();
        rules.forget_passwords();
        rules.needs_no_password = password.is_empty();
        if !password.is_empty() {
            rules.add_password(password.as_bytes());
        }
        self.default.set_rules(rules);
    }
}
