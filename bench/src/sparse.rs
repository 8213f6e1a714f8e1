//! The operating system's file system, with holes where a run has zeros: so a table of a hundred gigabytes of zeros
//! takes little of the disk and of its time, and all else is as it would be.
//!
//! Not here: other files than those written past the system's cache, which are the runs.

use std::io;
use std::path::Path;

use quipu::io::{Disk, File, Lock, Mapping, OpenMode, RealDisk, SECTOR_BYTES};

const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

/// A [`RealDisk`] that leaves zeros of new runs out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SparseDisk;

impl Disk for SparseDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let file = RealDisk.open(path, mode)?;
        Ok(if mode == OpenMode::CreateDirect { Box::new(SparseFile { file }) } else { file })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        RealDisk.lock(path)
    }
}

/// A new file, each sector of which is written once.
#[derive(Debug)]
struct SparseFile {
    file: Box<dyn File>,
}

impl File for SparseFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        for (at, sectors) in written(bytes) {
            self.file.write_all_at(sectors, offset + at as u64)?;
        }
        let end = offset + bytes.len() as u64;
        if self.file.len()? < end { self.file.set_len(end) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn read_soon(&self, offset: u64, len: u64) {
        self.file.read_soon(offset, len);
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.file.map(len)
    }
}

/// The stretches of `bytes`, in whole sectors, of which no sector is all zeros, and where each begins.
fn written(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let is_zero = |sector: &[u8]| *sector == ZEROS[..sector.len()];
    let sectors: Vec<(usize, bool)> = bytes
        .chunks(SECTOR_BYTES)
        .enumerate()
        .map(|(number, sector)| (number * SECTOR_BYTES, is_zero(sector)))
        .collect();
    let stretches = sectors.chunk_by(|a, b| a.1 == b.1).filter(|stretch| !stretch[0].1);
    stretches.map(|stretch| (stretch[0].0, &bytes[stretch[0].0..][..stretch.len() * SECTOR_BYTES])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let file = SparseDisk.open(&path, OpenMode::CreateDirect).unwrap();
        let mut buffer = quipu::io::AlignedBuffer::new(16 * SECTOR_BYTES);
        let content: Vec<u8> =
            (0..16 * SECTOR_BYTES).map(|at| u8::from(matches!(at / SECTOR_BYTES, 0 | 5 | 6))).collect();
        assert_eq!(buffer.extend_from_slice(&content), content.len());
        let stretches: Vec<(usize, usize)> = written(&buffer)
            .into_iter()
            .map(|(at, sectors)| (at / SECTOR_BYTES, sectors.len() / SECTOR_BYTES))
            .collect();
        assert_eq!(stretches, [(0, 1), (5, 2)]);
        file.write_all_at(&buffer, 0).unwrap();
        file.sync().unwrap();
        let mut read = vec![1; content.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == content);
        assert_eq!(file.len().unwrap(), content.len() as u64);
    }
}
