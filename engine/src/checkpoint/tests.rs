//! Stories of defects that were found in the writing of runs.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use crate::db::{Db, Shared};
use crate::io::sim::SimDisk;
use crate::io::{Disk, File, Lock, OpenMode};
use crate::options::Options;
use crate::read::Read;
use crate::table::Write;

/// A disk on which a merge begins a file each time that a directory is listed.
#[derive(Debug, Default)]
struct MergesMeanwhile {
    disk: SimDisk,
    database: Mutex<Weak<Shared>>,
    begun: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Disk for MergesMeanwhile {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if let Some(shared) = self.database.lock().unwrap().upgrade() {
            let (name, _) = shared.checkpoints.begin_run(0);
            self.disk.write_file(dir.join(&name), *b"a run that is being merged");
            self.begun.lock().unwrap().push(name);
        }
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        self.disk.open(path, mode)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

#[test]
fn a_run_that_a_merge_begins_while_a_flush_lists_the_directory_is_not_removed() {
    let disk = Arc::new(MergesMeanwhile::default());
    let db = Db::open("/db", Options { disk: disk.clone(), ..Options::in_memory() }).unwrap();
    let table = db.table("t").unwrap();
    table.put(b"key", b"value").unwrap();
    *disk.database.lock().unwrap() = Arc::downgrade(&db.shared);
    table.flush().unwrap();
    db.checkpoint().unwrap();
    let begun = disk.begun.lock().unwrap().clone();
    assert!(!begun.is_empty());
    for name in begun {
        assert!(disk.disk.read_file(Path::new("/db").join(&name)).is_some(), "{name} is gone");
    }
    assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_rewrite_that_waits_for_the_first_flush_of_its_table_writes_what_came_after() {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk.clone()), ..Options::in_memory() };
    let db = Db::open("/db", options.clone()).unwrap();
    let table = db.table("t").unwrap();
    (0..100u32).for_each(|key| table.put(key.to_be_bytes(), b"flushed").unwrap());
    table.flush().unwrap();
    (100..200u32).for_each(|key| table.put(key.to_be_bytes(), b"after").unwrap());
    // What a rewrite asks for that found no runs before it had its turn.
    db.shared.write_anew(table.id(), &mut |_| ()).unwrap();
    drop(table);
    db.close().unwrap();
    let db = Db::open("/db", Options { disk: Arc::new(disk.kill()), ..options }).unwrap();
    assert_eq!(db.table("t").unwrap().count(..).unwrap(), 200);
}
