//! The reasons for which commands are refused, in the words of Redis where it has some.

use std::borrow::Cow;

use quipu::{Error, ErrorKind};

use crate::entities::Failure;
use crate::resp::word::{SHOWN_BYTES_MAX, shown};

/// Why a command is not answered as asked.
#[derive(Debug)]
pub enum Refusal {
    /// An error reply, with its code.
    Text(Cow<'static, str>),
    /// An error reply that repeats bytes of the client's.
    Bytes(Vec<u8>),
    /// The engine could not do it.
    Engine(Error),
    /// A run of commands is to be done one by one.
    OneByOne,
    /// The answer is long: it is to be put together from a snapshot, where no other client waits for it.
    Long,
    /// Pages of runs are missing, or memory is short: the command was taken back, and is to be tried again.
    Lacks,
}

/// An error reply that is always the same.
pub const fn text(text: &'static str) -> Refusal {
    Refusal::Text(Cow::Borrowed(text))
}

/// Words that do not fit together.
pub const SYNTAX: Refusal = text("ERR syntax error");
/// The key holds another kind.
pub const WRONG_TYPE: Refusal = text("WRONGTYPE Operation against a key holding the wrong kind of value");
/// No integer of 64 bits.
pub const NOT_INTEGER: Refusal = text("ERR value is not an integer or out of range");
/// No number.
pub const NOT_FLOAT: Refusal = text("ERR value is not a valid float");
/// No bound of a range of keys or members.
pub const NOT_BOUND: Refusal = text("ERR min or max not valid string range item");
/// A number that is too small or too large for what it is.
pub const OUT_OF_RANGE: Refusal = text("ERR index out of range");
/// There is no such key.
pub const NO_KEY: Refusal = text("ERR no such key");
/// What is there may not be durable, and never will be.
pub const LOG_FAILED: Refusal = text(
    "MISCONF Errors writing to the log: what was written last may not be on disk, so the data are not read either. \
     Start the server anew.",
);
/// A key is to be copied or moved onto itself.
pub const SAME_OBJECT: Refusal = text("ERR source and destination objects are the same");

/// Words too few or too many for the command of this name.
pub fn wrong_arity(name: &str) -> Refusal {
    Refusal::new(format!("ERR wrong number of arguments for '{name}' command"))
}

impl Refusal {
    /// An error reply put together.
    pub fn new(text: impl Into<String>) -> Refusal {
        Refusal::Text(Cow::Owned(text.into()))
    }

    /// An error reply that repeats a word of the client's between two texts.
    pub fn quoting(before: &str, word: &[u8], after: &str) -> Refusal {
        Refusal::Bytes([before.as_bytes(), shown(word, SHOWN_BYTES_MAX), after.as_bytes()].concat())
    }

    /// The error reply, byte for byte.
    pub fn reply_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Refusal::Bytes(bytes) => Cow::Borrowed(bytes),
            other => Cow::Owned(other.reply_text().into_owned().into_bytes()),
        }
    }

    /// The error reply as text.
    pub fn reply_text(&self) -> Cow<'_, str> {
        match self {
            Refusal::Text(text) => Cow::Borrowed(text),
            Refusal::Bytes(bytes) => String::from_utf8_lossy(bytes),
            Refusal::OneByOne | Refusal::Long | Refusal::Lacks => {
                Cow::Borrowed("ERR the answer is too long for this context; ask for a part of it")
            }
            Refusal::Engine(error) => match error.kind() {
                // The disk, not memory.
                ErrorKind::Full if error.is_full_disk() => Cow::Owned(format!(
                    "MISCONF The disk is full: {error}. Reads go on, and so do DEL, FLUSHALL and what else frees \
                     space; writes are taken again when there is some."
                )),
                ErrorKind::Full => {
                    Cow::Owned(format!("OOM command not allowed when used memory > 'maxmemory'. ({error})"))
                }
                ErrorKind::Poisoned => Cow::Owned(format!(
                    "MISCONF Errors writing to the log: {error}. Commands that may modify the data set are disabled."
                )),
                ErrorKind::ReadOnly => Cow::Borrowed("READONLY You can't write against a read only replica."),
                _ => Cow::Owned(format!("ERR {error}")),
            },
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Engine(error)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Long => Refusal::Long,
            Failure::Engine(error) => Refusal::Engine(error),
            Failure::NotEnoughReplicas => text("NOREPLICAS Not Enough Replicas: if it is a write, it may show or not"),
            Failure::Full => text(
                "MISCONF The disk is full: replicas have no space for it, and none has it. Reads go on, and so do DEL \
                 and what else frees space; writes are taken again when there is some.",
            ),
            Failure::Overloaded => text("TRYAGAIN too many requests are under way"),
            Failure::Contended => text("TRYAGAIN others write the same key all the time"),
            Failure::Unavailable(why) => Refusal::new(format!("TRYAGAIN {why}")),
            Failure::Invalid(why) | Failure::TooLarge(why) => Refusal::new(format!("ERR {why}")),
        }
    }
}
