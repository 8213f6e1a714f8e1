//! Measures what the machine itself can do with a record of 40 bytes: the bound that no store's commit can beat.
//! (A counted insert of a 4-byte key and an 8-byte value is a log frame of about that size.)

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::clock::{Deadline, Spent, Stopwatch};
use crate::store::Result;

/// Size of a record.
const RECORD_BYTES: usize = 40;
/// Size of the file. Records wrap around at its end.
const FILE_BYTES: usize = 16 << 20;

/// A way to hand over a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yardstick {
    /// A store into a mapped file: the operating system has it at once.
    Mapped,
    /// A `pwrite`.
    Write,
    /// A store into a mapped file and an `fdatasync`.
    MappedSync,
    /// A `pwrite` and an `fdatasync`, from as many threads as asked.
    WriteSync,
}

impl Yardstick {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Yardstick::Mapped => "(bare mapped store)",
            Yardstick::Write => "(bare pwrite)",
            Yardstick::MappedSync => "(bare mapped + fdatasync)",
            Yardstick::WriteSync => "(bare pwrite + fdatasync)",
        }
    }

    /// Hands over `count` records (mapped ones from one thread), or as many as fit in the time. Returns how many, and
    /// the time.
    pub(crate) fn measure(self, dir: &Path, count: u64, threads: usize, deadline: &Deadline) -> Result<(u64, Spent)> {
        let file = preallocated(&dir.join("yardstick"))?;
        if matches!(self, Yardstick::Mapped | Yardstick::MappedSync) {
            return Ok(mapped_stores(&file, count, self == Yardstick::MappedSync, deadline)?);
        }
        let next = AtomicU64::new(0);
        let write = || -> io::Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let over = if self == Yardstick::WriteSync { deadline.passed() } else { deadline.passed_at(number) };
                if number >= count || over {
                    next.fetch_sub(1, Ordering::Relaxed);
                    return Ok(());
                }
                file.write_all_at(&record(number), offset_of(number) as u64)?;
                if self == Yardstick::WriteSync {
                    file.sync_data()?;
                }
            }
        };
        let watch = Stopwatch::start();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok((next.into_inner(), watch.stop()))
    }
}

fn record(number: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

fn offset_of(number: u64) -> usize {
    (number as usize % (FILE_BYTES / RECORD_BYTES)) * RECORD_BYTES
}

/// A file all blocks of which are written, so that a sync has no metadata to write.
fn preallocated(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for chunk in 0..FILE_BYTES / zeros.len() {
        file.write_all_at(&zeros, (chunk * zeros.len()) as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn mapped_stores(file: &File, count: u64, sync: bool, deadline: &Deadline) -> io::Result<(u64, Spent)> {
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping at an address of the system's choice overlaps nothing that Rust knows of.
    let start = unsafe { mmap(ptr::null_mut(), FILE_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)? };
    let watch = Stopwatch::start();
    let (mut done, mut synced) = (0, Ok(()));
    while done < count && !(if sync { deadline.passed() } else { deadline.passed_at(done) }) {
        let place = start.cast::<u8>().wrapping_add(offset_of(done)).cast::<[u8; RECORD_BYTES]>();
        // SAFETY: `offset_of` leaves room for a record before `FILE_BYTES`, the mapping's length; the file is that long
        // and no process cuts it; no reference to the mapping exists. An array of bytes needs no alignment.
        unsafe { place.write_volatile(record(done)) };
        done += 1;
        if sync {
            synced = file.sync_data();
            if synced.is_err() {
                break;
            }
        }
    }
    let spent = watch.stop();
    // SAFETY: exactly the mapping made above; no pointer into it is used afterwards.
    unsafe { munmap(start, FILE_BYTES)? };
    synced.map(|()| (done, spent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_yardstick_hands_over_all_records() {
        let dir = tempfile::tempdir().unwrap();
        use Yardstick::{Mapped, MappedSync, Write, WriteSync};
        for (yardstick, threads) in [(Mapped, 1), (MappedSync, 1), (Write, 1), (WriteSync, 3)] {
            let (done, spent) = yardstick.measure(dir.path(), 5, threads, &Deadline::never()).unwrap();
            assert_eq!(done, 5, "{}", yardstick.name());
            assert!(spent.wall_s > 0.0);
        }
    }
}
