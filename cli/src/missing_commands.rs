//! Commands that this program was built without.

use crate::failure::{Failure, Result};

/// Not in this program: says how to build one that has it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// Says how to build a program that has the command, which is called as its feature is.
#[cfg(not(all(feature = "bench", feature = "storm")))]
pub(crate) fn refuse(command: &str) -> Result<()> {
    let how = format!("`cargo run --release -p quipu-cli --features {command} -- {command}` builds and runs it");
    Err(Failure::new(format!("this program was built without the command {command}; {how}")))
}

/// The commands that need the server or SQL.
#[cfg(not(feature = "server"))]
pub(crate) mod of_the_server {
    macro_rules! missing {
        ($($command:ident),*) => {$(
            pub(crate) mod $command {
                use crate::failure::{Failure, Result};

                pub(crate) use crate::missing_commands::Args;

                pub(crate) fn run(_: &Args) -> Result<()> {
                    let command = stringify!($command);
                    let how = format!("`cargo run --release -- {command}` builds and runs one with both");
                    let what = format!("this program was built without the server and SQL, so without {command}; {how}");
                    Err(Failure::new(what))
                }
            }
        )*};
    }

    missing!(check, cluster, restore, serve, sql);
}
