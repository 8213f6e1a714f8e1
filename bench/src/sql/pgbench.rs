//! Runs of `pgbench`.

use std::process::Command;

use super::server::{Installed, Running};
use crate::store::Result;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Seconds(u64),
    /// Transactions of each connection: however slow the machine is, some are made.
    Transactions(u64),
}

/// One run: what is sent, by how many, how long.
pub(crate) struct Run<'r> {
    /// A script of pgbench; its own if there is none.
    pub(crate) script: Option<&'r str>,
    /// Values of the script's variables.
    pub(crate) variables: &'r [(&'static str, u64)],
    pub(crate) connections: usize,
    pub(crate) length: Length,
}

/// What pgbench and the server's clock say of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) transactions: u64,
    pub(crate) per_second: f64,
    /// Mean time of a transaction, in nanoseconds.
    pub(crate) latency_nanos: f64,
    /// CPU time of the server for each transaction, in nanoseconds.
    pub(crate) cpu_nanos: f64,
}

impl Run<'_> {
    /// Runs it with prepared statements.
    ///
    /// # Errors
    /// A transaction that fails.
    pub(crate) fn against(&self, server: &Running, installed: &Installed) -> Result<Told> {
        let mut command = Command::new(installed.client("pgbench")?);
        server.address(&mut command);
        let threads = self.connections.min(2);
        command.args(["-n", "-M", "prepared", "-c", &self.connections.to_string(), "-j", &threads.to_string()]);
        match self.length {
            Length::Seconds(seconds) => command.args(["-T", &seconds.to_string()]),
            Length::Transactions(transactions) => command.args(["-t", &transactions.to_string()]),
        };
        for (name, value) in self.variables {
            command.args(["-D", &format!("{name}={value}")]);
        }
        let script = tempfile::NamedTempFile::new()?;
        if let Some(text) = self.script {
            std::io::Write::write_all(&mut script.as_file(), text.as_bytes())?;
            command.arg("-f").arg(script.path());
        }
        let before_s = server.cpu_s();
        let output = command.output()?;
        server.settle();
        let cpu_s = server.cpu_s() - before_s;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let name = server.brand.name();
        if !output.status.success() {
            return Err(format!("{name}: pgbench: {}", errors.trim()).into());
        }
        let number = |head: &str| -> Result<f64> {
            let line = said.lines().find_map(|line| line.strip_prefix(head));
            let word = line.and_then(|rest| rest.split([' ', '/']).find(|word| !word.is_empty()));
            let number = word.and_then(|word| word.parse().ok());
            number.ok_or_else(|| format!("{name}: pgbench does not say `{head}`: {said}").into())
        };
        let failed = number("number of failed transactions:")?;
        if failed > 0.0 {
            return Err(format!("{name}: {failed} transactions failed").into());
        }
        let transactions = number("number of transactions actually processed:")?;
        Ok(Told {
            transactions: transactions as u64,
            per_second: number("tps =")?,
            latency_nanos: number("latency average =")? * 1e6,
            cpu_nanos: cpu_s * 1e9 / transactions.max(1.0),
        })
    }
}
