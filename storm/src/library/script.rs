//! A run as text: its mode, its limits, its steps. What was drawn from a seed is written down as it goes, so that it
//! is there when the process is not.

use std::fmt;
use std::io::Write;
use std::path::Path;

use crate::library::setup::Setup;
use crate::library::word::Step;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The name of the mode.
    pub mode: String,
    /// The limits.
    pub setup: Setup,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

impl Script {
    /// From its text.
    pub fn parse(text: &str) -> Script {
        let mut script = Script::default();
        for line in text.lines() {
            match line.strip_prefix("mode ") {
                Some(mode) => script.mode = mode.trim().to_owned(),
                None if script.setup.parse(line) => {}
                None => script.steps.extend(Step::parse(line)),
            }
        }
        script
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "mode {}\n{}", self.mode, self.setup)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// Where the steps come from, and where they are written down before they are done.
pub struct Journal(Option<std::fs::File>);

impl Journal {
    /// Into a file.
    pub fn create(path: Option<&Path>) -> std::io::Result<Journal> {
        let open = |path: &Path| std::fs::OpenOptions::new().create(true).write(true).truncate(true).open(path);
        Ok(Journal(path.map(open).transpose()?))
    }

    /// Writes down the head of a script, or a step.
    pub fn note(&mut self, what: &dyn fmt::Display) {
        if let Some(file) = &mut self.0 {
            // A script that cannot be written is worth no less of a run.
            let _ = file.write_all(format!("{what}\n").as_bytes());
        }
    }
}
