//! Files that a person names: scripts, and what `\copy` and `\o` read and write.
#![expect(
    clippy::disallowed_methods,
    reason = "files of the user, not of the database; those go through the engine's Disk"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::table_files::compression::{self, Compression, Output};
use crate::table_files::files::BUFFER_BYTES;

/// Opens a file that a person named, to read it.
pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Failure::new(format!("cannot open {}: {error}", path.display())))
}

/// Opens the data of a COPY, decompressed if gzip or zstd has compressed it.
pub(super) fn open_data(path: &Path) -> Result<Box<dyn Read>> {
    let name = path.to_string_lossy();
    if let Some(program) = compression::other_program(&name) {
        return Err(Failure::new(format!(
            "{name} is compressed with {program}, which is not read: decompress it first"
        )));
    }
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, open(path)?);
    let start = reader.fill_buf().map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    let compression = Compression::of_content(start);
    Ok(Compression::decoded(compression, reader))
}

/// Creates the file that a COPY writes, or makes it empty; it is compressed as its name says.
pub(super) fn create_data(path: &Path) -> Result<Output> {
    let name = path.to_string_lossy();
    if let Some(program) = compression::other_program(&name) {
        return Err(Failure::new(format!(
            "{name}: data is compressed with gzip or zstd; write it without, and run {program} on it"
        )));
    }
    let file = File::create(path).map_err(|error| Failure::new(format!("cannot create {name}: {error}")))?;
    Ok(Output::new(Box::new(file), Compression::of_name(&name)))
}
