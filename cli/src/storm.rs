//! `quipu storm`: tries to break a database, if this program was built with the feature `storm`.

#[cfg(feature = "storm")]
mod built_in {
    use crate::failure::{Failure, Result};

    pub(crate) use quipu_storm::{EXAMPLES, Options as Args};

    pub(crate) fn run(args: &Args) -> Result<()> {
        // A run is done by this program, started again.
        let found = quipu_storm::Program::current(&["storm"]).and_then(|program| quipu_storm::run(args, &program));
        match found {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new("the storm has found something, see above")),
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }
}

#[cfg(not(feature = "storm"))]
mod missing {
    use crate::failure::Result;
    use crate::missing_commands;

    pub(crate) use crate::missing_commands::Args;

    pub(crate) const EXAMPLES: &str = "\
This program was built without it:
  cargo run --release -p quipu-cli --features storm -- storm";

    pub(crate) fn run(_: &Args) -> Result<()> {
        missing_commands::refuse("storm")
    }
}

#[cfg(feature = "storm")]
pub(crate) use built_in::{Args, EXAMPLES, run};
#[cfg(not(feature = "storm"))]
pub(crate) use missing::{Args, EXAMPLES, run};
