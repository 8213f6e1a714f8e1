//! Figures of this process from the operating system, zero where it has none; and requests to it.

use std::thread::{Builder, JoinHandle};

use crate::system::scheduling::schedule_as_batch;

/// Ticks of the CPU clock a second, which Linux has fixed for programs.
const TICKS_PER_S: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Bytes of memory that the process has.
pub fn resident_bytes() -> u64 {
    let pages = read("/proc/self/statm").split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// Bytes of memory that the system has.
pub fn system_memory_bytes() -> u64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Seconds of CPU time, for itself and in the system.
pub fn cpu_seconds() -> (f64, f64) {
    let text = read("/proc/self/stat");
    // The name of the program, in brackets, may have spaces.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks =
        |place: usize| rest.split_whitespace().nth(place).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) / TICKS_PER_S, ticks(12) / TICKS_PER_S)
}

/// Starts a thread without which clients would wait in vain: if it panics, the process ends, so that its supervisor
/// over it starts it again. What was acknowledged is in the log. It is scheduled as [`schedule_as_batch`] says.
///
/// # Errors
/// Those of the system, if there can be no thread.
pub fn spawn_vital(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    spawn_vital_with(Builder::new().name(name), run)
}

/// The same, with a stack of a size of its own.
///
/// # Errors
/// As above.
pub fn spawn_vital_with(builder: Builder, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    builder.spawn(move || {
        schedule_as_batch();
        let _vital = VitalThread;
        run();
    })
}

struct VitalThread;

impl Drop for VitalThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("quipu: a thread that serves clients has panicked: the process ends");
            std::process::abort();
        }
    }
}

/// The system's name and version.
pub fn system_name() -> String {
    let release = read("/proc/sys/kernel/osrelease");
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}
