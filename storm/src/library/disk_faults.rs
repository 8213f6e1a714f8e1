//! Faults of a simulated disk, as steps of a script.

use std::io::ErrorKind;

use quipu::io::sim::SimDisk;

use crate::library::word::{Step, Words};

/// Has the disk fail as a step says: `fault N K` fails the call after the next N, as on a full disk if K is 1, and
/// `space N` leaves room for N - 1 bytes more, or for any number if N is 0.
pub fn disturb(sim: &SimDisk, step: &Step) {
    let words = Words(&step.words);
    let number = words.number(0);
    if step.verb == "fault" {
        let kind = if words.number(1) == 1 { ErrorKind::StorageFull } else { ErrorKind::Other };
        sim.fail_at(sim.steps() + number, kind);
    } else {
        let used: usize = sim.file_names().iter().filter_map(|path| sim.read_file(path)).map(|file| file.len()).sum();
        sim.set_capacity(if number == 0 { u64::MAX } else { used as u64 + number - 1 });
    }
}
