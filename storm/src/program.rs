//! The program: what its command line asks for.

use std::io;

use crate::modes::kill;
use crate::options::{Options, Program};
use crate::processes::{child, parent};

/// Storms. Whether nothing was found.
///
/// # Errors
/// If a child cannot be started, or a file not be written.
pub fn run(options: &Options, program: &Program) -> io::Result<bool> {
    if options.child {
        child::serve(options);
        return Ok(true);
    }
    if let Some(seed) = options.kill_writer {
        kill::write(seed, &options.found);
        return Ok(true);
    }
    parent::run(options, program)
}
