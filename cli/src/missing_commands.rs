//! Commands that this program was built without.

use crate::failure::{Failure, Result};

/// Any words: what they would mean is not built in.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// Says how to build a program that has the command, which is called as its feature is.
pub(crate) fn refuse(command: &str) -> Result<()> {
    let how = format!("`cargo run --release -p quipu-cli --features {command} -- {command}` builds and runs it");
    Err(Failure::new(format!("this program was built without the command {command}; {how}")))
}
