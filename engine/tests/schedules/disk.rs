//! A simulated disk at whose calls another thread may be next, and of which a copy is taken at some, as a crash would
//! leave it.

use std::fmt;
use std::io::Result;
use std::path::Path;
use std::sync::{Arc, Mutex};

use quipu::io::sim::SimDisk;
use quipu::io::{Disk, File, Lock, Mapping, OpenMode};
use shuttle::thread;

/// Is called before each call of the disk that changes something.
pub(crate) type AtStep = Arc<Mutex<dyn FnMut(&SimDisk) + Send>>;

#[derive(Clone)]
pub(crate) struct ScheduledDisk {
    pub(crate) disk: SimDisk,
    at_step: AtStep,
}

impl ScheduledDisk {
    pub(crate) fn new(disk: SimDisk, at_step: AtStep) -> ScheduledDisk {
        ScheduledDisk { disk, at_step }
    }

    fn read(&self) -> &SimDisk {
        thread::yield_now();
        &self.disk
    }

    fn step(&self) -> &SimDisk {
        thread::yield_now();
        self.at_step.lock().unwrap()(&self.disk);
        &self.disk
    }
}

impl fmt::Debug for ScheduledDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Disk for ScheduledDisk {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.step().create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let names = self.read().list(dir);
        thread::yield_now();
        names
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.step().open(path, mode)?;
        Ok(Box::new(ScheduledFile { disk: self.clone(), file }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.step().remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step().rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.step().link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.step().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

#[derive(Debug)]
struct ScheduledFile {
    disk: ScheduledDisk,
    file: Box<dyn File>,
}

impl File for ScheduledFile {
    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.disk.read();
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.step();
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.disk.step();
        self.file.set_len(len)
    }

    fn sync(&self) -> Result<()> {
        self.disk.step();
        let synced = self.file.sync();
        thread::yield_now();
        synced
    }

    fn map(&self, len: usize) -> Result<Box<dyn Mapping>> {
        Ok(Box::new(ScheduledMapping { disk: self.disk.clone(), mapping: self.file.map(len)? }))
    }
}

#[derive(Debug)]
struct ScheduledMapping {
    disk: ScheduledDisk,
    mapping: Box<dyn Mapping>,
}

impl Mapping for ScheduledMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.disk.step();
        self.mapping.write(offset, bytes);
    }
}
