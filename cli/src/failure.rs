//! Failures of commands: the reason, and what the process tells its caller.

use std::fmt;
use std::io;

/// The result of every step of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong; the text is for standard error.
    Error(String),
    /// The command line asks for what cannot be.
    Usage(String),
    /// The reader of the output has gone (`quipu export ... | head`): nothing to say.
    OutputClosed,
    /// Ctrl-C has stopped the command.
    Stopped,
}

impl Failure {
    /// An error that says `message`.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure::Error(message.into())
    }

    /// The same failure with `context` in front.
    pub(crate) fn context(self, context: impl fmt::Display) -> Failure {
        match self {
            Failure::Error(message) => Failure::Error(format!("{context}: {message}")),
            other => other,
        }
    }

    /// What the process returns: 1 for an error, 2 for wrong usage.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Error(_) | Failure::Stopped => 1,
            Failure::Usage(_) => 2,
            Failure::OutputClosed => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(message) | Failure::Usage(message) => f.write_str(message),
            Failure::OutputClosed => f.write_str("the reader of the output has gone"),
            Failure::Stopped => f.write_str("stopped by Ctrl-C"),
        }
    }
}

impl From<quipu::Error> for Failure {
    fn from(error: quipu::Error) -> Failure {
        Failure::Error(error.to_string())
    }
}

/// The error of a write to standard output or to the file that stands for it.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Error(format!("cannot write the output: {error}")),
        }
    }
}
