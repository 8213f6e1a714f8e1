//! The error type of the engine: a kind that says what to do next, and a message for people.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do next. Each kind calls for a different reaction.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// `insert` found a live key, or a table of that name exists, or a directory that must be empty has files: use
    /// `put` or `replace`, or another name.
    Exists,
    /// `replace` found no live key, or there is no such table or directory: use `insert`, or create it.
    Missing,
    /// Another commit changed what this transaction read: run it again.
    Conflict,
    /// A latched read or write lacks a page of a run: end it, load its [`PageFaults`](crate::latched::PageFaults), lend
    /// them to the next, and ask again.
    PageFault,
    /// The call can never succeed as it is: fix the argument (the message names the limit).
    Invalid,
    /// The database was opened read-only: open it for writing.
    ReadOnly,
    /// Another process has the directory open: stop that process, or open another directory. Or this one has closed the
    /// database while the call went on: open it again.
    Busy,
    /// The disk or the configured memory is full: free space; the database is still readable.
    Full,
    /// A file fails its checks: stop, keep the files, run `quipu check`.
    Corrupt,
    /// The files were written by a newer version: upgrade this program.
    Version,
    /// A write or fsync failed earlier, so nothing more is acknowledged: reopen the database.
    Poisoned,
    /// The operating system refused: the message has its reason.
    Io,
}

/// An error: [`kind`](Error::kind) for programs, the text for people.
pub struct Error(Box<Report>);

struct Report {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Source>,
    /// The file that it is about.
    file: Option<Box<Path>>,
}

/// What an error comes from.
type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// An error of this kind and message.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Report { kind, message: message.into(), source: None, file: None }))
    }

    /// An error that comes from `source`, which [`source`](std::error::Error::source) returns: for layers above the
    /// engine that tell programs more than a kind.
    pub fn caused_by(kind: ErrorKind, message: impl Into<Cow<'static, str>>, source: impl Into<Source>) -> Self {
        Error(Box::new(Report { kind, message: message.into(), source: Some(source.into()), file: None }))
    }

    /// The error of an I/O call: `doing` names the action, as in "cannot write".
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        let (kind, hint) = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                (ErrorKind::Full, "; free some space on the disk")
            }
            io::ErrorKind::PermissionDenied => (ErrorKind::Io, "; check the owner and mode of the directory"),
            io::ErrorKind::ReadOnlyFilesystem => (ErrorKind::Io, "; open it read-only or remount"),
            io::ErrorKind::NotFound => (ErrorKind::Missing, ""),
            _ => (ErrorKind::Io, ""),
        };
        let message = format!("{doing} {}: {source}{hint}", path.display());
        Error::caused_by(kind, message, source).about(path)
    }

    /// A damaged file: where, what, and the advice that goes with every corruption.
    pub fn corrupt(path: &Path, offset: u64, what: impl fmt::Display) -> Self {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "{} is damaged at byte {offset}: {what}; keep the files, run `quipu check` on the directory, and repair it or restore a backup",
                path.display()
            ),
        )
        .about(path)
    }

    /// The same error, about this file.
    pub(crate) fn about(mut self, file: &Path) -> Self {
        self.0.file = Some(file.into());
        self
    }

    /// Whether it is about a file of this name.
    pub(crate) fn is_about(&self, file: &str) -> bool {
        self.0.file.as_deref().and_then(Path::file_name).is_some_and(|name| name == file)
    }

    /// Whether it is of the kind [`ErrorKind::Full`] because the disk is full, and not memory.
    pub fn is_full_disk(&self) -> bool {
        self.0.kind == ErrorKind::Full && self.0.source.is_some()
    }

    /// What the caller should do next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The same error with `context` in front of its message.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message).into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
