//! Facts about the machine, for readers of its figures.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::place::Place;

/// CPU, memory, system and load in one line, as far as `/proc` tells.
pub(crate) fn describe(place: &Place) -> String {
    let proc = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("?", |(_, value)| value.trim()).to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_kib: f64 = field(&proc("meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    // Each session of processes is a group with a share of the cores, however many threads it has.
    let groups = match proc("sys/kernel/sched_autogroup_enabled").trim() {
        "1" => ", autogroups",
        _ => "",
    };
    format!(
        "{cores} cores of {}, {:.0} GiB, {}, Linux {}, load {}{groups}",
        field(&proc("cpuinfo"), "model name"),
        memory_kib / (1 << 20) as f64,
        place.file_system(),
        proc("sys/kernel/osrelease").trim(),
        proc("loadavg").split(' ').next().unwrap_or("?"),
    )
}

/// Ticks that all cores spent in all states, and ticks that the hypervisor gave to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Since the machine started.
    pub(crate) fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpu = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = cpu.split_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
        Ticks { all: ticks.iter().take(8).sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The share that the hypervisor took since `earlier`, in percent.
    pub(crate) fn stolen_percent_since(&self, earlier: &Ticks) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        100.0 * self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64
    }
}

/// Memory of this process that is in RAM, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resident {
    /// Its own.
    pub(crate) own_bytes: u64,
    /// Pages of mapped files, which the operating system may drop.
    pub(crate) file_bytes: u64,
}

impl Resident {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap_or(0_u64)
        };
        Resident { own_bytes: kib("RssAnon") << 10, file_bytes: (kib("RssFile") + kib("RssShmem")) << 10 }
    }

    /// The larger of both, each by itself.
    pub(crate) fn max(self, other: Resident) -> Self {
        Resident { own_bytes: self.own_bytes.max(other.own_bytes), file_bytes: self.file_bytes.max(other.file_bytes) }
    }
}

/// Bytes that this process has written, as the system counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Given to calls that write.
    pub(crate) by_calls: u64,
    /// On their way to the disk: a page of a file is counted when it becomes different from what is on the disk, by a
    /// call or by a store into a mapping, and again once it was written back; direct writes are counted as they are
    /// made.
    pub(crate) to_disk: u64,
}

impl Written {
    /// Since the process started.
    pub(crate) fn now() -> Self {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(':').trim().parse().unwrap_or(0)
        };
        Written { by_calls: field("wchar"), to_disk: field("write_bytes") }
    }
}

/// Bytes that the files of a directory take on its disk, holes not counted.
pub(crate) fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
