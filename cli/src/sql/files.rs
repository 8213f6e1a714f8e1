//! Files that a person names: scripts, and what `\copy` and `\o` read and write.
#![expect(
    clippy::disallowed_methods,
    reason = "files of the user, not of the database; those go through the engine's Disk"
)]

use std::fs::File;
use std::path::Path;

use crate::failure::{Failure, Result};

/// Opens a file that a person named, to read it.
pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Failure::new(format!("cannot open {}: {error}", path.display())))
}

/// Creates a file that a person named, or makes it empty.
pub(super) fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| Failure::new(format!("cannot create {}: {error}", path.display())))
}
