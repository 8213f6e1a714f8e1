//! This program, started again as a child: for figures that need a process of their own (its memory, its instructions).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::store::Result;

/// The workload name under which a child does its part.
pub(crate) const CHILD: &str = "child";

/// How to start this program so that it reaches [`crate::run`].
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    leading: Vec<OsString>,
}

impl Program {
    /// The running program; `leading` are the arguments that stand before the workload's name.
    pub fn current(leading: &[&str]) -> Result<Self> {
        Ok(Program::at(std::env::current_exe()?, leading))
    }

    /// The program at `path`.
    pub fn at(path: impl Into<PathBuf>, leading: &[&str]) -> Self {
        Program { path: path.into(), leading: leading.iter().map(OsString::from).collect() }
    }

    /// A command line that runs this as a child.
    fn command_line(&self, arguments: &[String]) -> Vec<OsString> {
        let mut line = vec![self.path.clone().into_os_string()];
        line.extend(self.leading.iter().cloned());
        line.push(CHILD.into());
        line.extend(arguments.iter().map(OsString::from));
        line
    }

    /// Runs a child under `tool` (empty: by itself) and returns what it printed to both its outputs.
    pub(crate) fn child(&self, tool: &[&str], arguments: &[String]) -> Result<String> {
        let mut line: Vec<OsString> = tool.iter().map(OsString::from).collect();
        line.extend(self.command_line(arguments));
        let output = Command::new(&line[0]).args(&line[1..]).output();
        let output = output.map_err(|error| format!("cannot start {}: {error}", line[0].display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("child `{}` failed: {}", arguments.join(" "), text.trim()).into());
        }
        Ok(text)
    }
}
