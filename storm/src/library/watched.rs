//! A simulated disk that is looked at between its calls: what would be found there, if the power went now, or the
//! process.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::io::{Disk, File, Lock, Mapping, OpenMode};
use quipu_suite::dice::Dice;

use crate::library::world::Promise;

/// A disk as it would be found, and what must be on it.
#[derive(Debug)]
pub struct Image {
    /// The files.
    pub disk: SimDisk,
    /// The last commit that must be there.
    pub at_least: u64,
    /// What happened.
    pub what: String,
}

#[derive(Debug)]
struct Camera {
    dice: Dice,
    per_mille: usize,
    images: Vec<Image>,
}

/// The disk.
#[derive(Clone)]
pub struct Watched {
    sim: SimDisk,
    camera: Arc<Mutex<Camera>>,
    promise: Promise,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sim.fmt(f)
    }
}

/// What is held between two steps at most.
const IMAGES_MAX: usize = 6;

impl Watched {
    /// Over a simulated disk; of a thousand calls so many are looked at.
    pub fn new(sim: SimDisk, promise: Promise, seed: u64, per_mille: usize) -> Watched {
        let camera = Camera { dice: Dice::new(seed), per_mille, images: Vec::new() };
        Watched { sim, camera: Arc::new(Mutex::new(camera)), promise }
    }

    /// The images made since this was asked last.
    pub fn take_images(&self) -> Vec<Image> {
        std::mem::take(&mut self.camera.lock().unwrap_or_else(PoisonError::into_inner).images)
    }

    fn look(&self) {
        let mut camera = self.camera.lock().unwrap_or_else(PoisonError::into_inner);
        if camera.images.len() < IMAGES_MAX && camera.dice.below(1000) < camera.per_mille {
            let lot = camera.dice.seed();
            camera.images.push(image_of(&self.sim, &self.promise, lot));
        }
    }

    fn file(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(WatchedFile { file, disk: self.clone() })
    }
}

/// The disk after a crash or a kill, as the lot has it.
pub fn image_of(sim: &SimDisk, promise: &Promise, lot: u64) -> Image {
    let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random][(lot >> 8) as usize % 4];
    if lot.is_multiple_of(4) {
        let at_least = promise.handed_over.load(Ordering::SeqCst);
        return Image { disk: sim.kill(), at_least, what: "a kill".into() };
    }
    let at_least = promise.synced.load(Ordering::SeqCst);
    Image { disk: sim.crash_with(mode, lot), at_least, what: format!("a power loss ({mode:?}, {lot})") }
}

impl Disk for Watched {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.sim.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.sim.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        let file = self.sim.open(path, mode)?;
        if matches!(mode, OpenMode::CreateNew | OpenMode::CreateDirect) {
            self.look();
        }
        Ok(self.file(file))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.sim.remove(path)?;
        self.look();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.rename(from, to)?;
        self.look();
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.link(from, to)?;
        self.look();
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.sync_dir(dir)?;
        self.look();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.sim.lock(path)
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn File>,
    disk: Watched,
}

impl File for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.disk.look();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.disk.look();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        self.disk.look();
        Ok(())
    }

    fn read_soon(&self, offset: u64, len: u64) {
        self.file.read_soon(offset, len);
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        Ok(Box::new(WatchedMapping { mapping: self.file.map(len)?, disk: self.disk.clone() }))
    }
}

#[derive(Debug)]
struct WatchedMapping {
    mapping: Box<dyn Mapping>,
    disk: Watched,
}

impl Mapping for WatchedMapping {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.mapping.write(offset, bytes);
        self.disk.look();
    }

    fn release(&mut self, start: usize, end: usize) {
        self.mapping.release(start, end);
    }
}

impl Watched {
    /// What must survive.
    pub fn promise(&self) -> Promise {
        self.promise.clone()
    }
}
