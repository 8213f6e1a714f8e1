//! A server while it runs: what it used of the machine. Stopped when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::store::Result;

/// A running server.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in a file of `dir`.
    pub(crate) fn start(mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join("output");
        let output = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let program = command.get_program().to_owned();
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Process { child, log })
    }

    /// An error with the last of its output, if it has ended.
    pub(crate) fn expect_running(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let output = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        Err(format!("the server ended with {status}:\n{last}").into())
    }

    /// CPU time since its start, of all its threads and of the processes that it has started, in user and kernel mode,
    /// in seconds; as exact as the system's ticks of 10 ms.
    pub(crate) fn cpu_s(&self) -> f64 {
        ticks(self.child.id()) as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Its memory that is in RAM, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0_u64) << 10
    }

    fn proc(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }
}

/// Ticks that a process, its children that have ended, and those that live have used.
fn ticks(process: u32) -> u64 {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let stat = read("stat");
    // The program's name stands in parentheses and may contain anything; the rest are numbers.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let own: u64 = fields.split(' ').skip(11).take(4).filter_map(|text| text.parse::<u64>().ok()).sum();
    let children = read(&format!("task/{process}/children"));
    own + children.split_whitespace().filter_map(|child| child.parse().ok()).map(ticks).sum::<u64>()
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its files go with it, so nothing is lost by not asking it to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec sleep 60"]);
        let mut process = Process::start(command, dir.path()).unwrap();
        while process.cpu_s() < 0.01 {
            process.expect_running().unwrap();
        }
        assert!(process.resident_bytes() > 10_000);

        let mut command = Command::new("sh");
        command.args(["-c", "echo out of luck; exit 3"]);
        let mut process = Process::start(command, dir.path()).unwrap();
        let error = loop {
            if let Err(error) = process.expect_running() {
                break error.to_string();
            }
        };
        assert!(error.contains("out of luck") && error.contains('3'), "{error}");
    }
}
