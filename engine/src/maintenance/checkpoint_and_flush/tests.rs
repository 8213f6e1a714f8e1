//! Stories of defects that were found in the writing of runs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use crate::db::Db;
use crate::io::sim::SimDisk;
use crate::io::{Disk, File, Lock, OpenMode};
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::options::{Options, TableOptions};
use crate::read::readable::ReadableTable;
use crate::state::shared::Shared;
use crate::write::writable::WritableTable;

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
            let (name, _) = shared.files.begin_run(0);
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
    let db = Db::open("/db", Options { disk: disk.clone(), ..Options::without_files() }).unwrap();
    let table = db.ensure_table("t").unwrap();
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
    let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
    let db = Db::open("/db", options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    (0..100u32).for_each(|key| table.put(key.to_be_bytes(), b"flushed").unwrap());
    table.flush().unwrap();
    (100..200u32).for_each(|key| table.put(key.to_be_bytes(), b"after").unwrap());
    // What a rewrite asks for that found no runs before it had its turn.
    Flusher::of(&db.shared).write_anew(table.id(), &mut |_| ()).unwrap();
    drop(table);
    db.close().unwrap();
    let db = Db::open("/db", Options { disk: Arc::new(disk.kill()), ..options }).unwrap();
    assert_eq!(db.ensure_table("t").unwrap().count(..).unwrap(), 200);
}

/// What is done to a table, and to its model.
type Change<'c> = &'c dyn Fn() -> crate::Result<()>;
type Then = fn(&mut BTreeMap<u8, &[u8]>);

/// At each call of the disk that a first flush makes, it may fail once, or all that follow may fail, too.
#[test]
fn after_a_flush_that_failed_the_log_fits_the_manifest_that_is_found() {
    for (fails_for_good, is_blind) in [(false, false), (false, true), (true, false), (true, true)] {
        for step in 0..200 {
            let disk = SimDisk::new();
            let options = Options { disk: Arc::new(disk.clone()), background: false, ..Options::without_files() };
            let db = Db::open("/db", options.clone()).unwrap();
            let table =
                db.create_table("t", TableOptions { blind_writes: is_blind, ..TableOptions::default() }).unwrap();
            let mut rows = BTreeMap::new();
            for key in 0..20u8 {
                table.put([key], b"first").unwrap();
                rows.insert(key, &b"first"[..]);
            }
            db.sync().unwrap();
            let first = disk.steps() + step;
            (first..first + if fails_for_good { 100 } else { 1 }).for_each(|at| disk.fail_at(at, io::ErrorKind::Other));
            let is_past = table.flush().is_ok();
            // What was to be flushed is written as before, if it may.
            let _ = table.thaw();
            // What is refused for a failure of the disk may be there or not; nothing is written after it.
            let mut before = rows.clone();
            let changes: [(Change<'_>, Then); 4] = [
                (&|| table.remove([3]).map(drop), |rows| rows.retain(|key, _| *key != 3)),
                (&|| table.put([4], b"second"), |rows| rows.extend([(4, &b"second"[..])])),
                (&|| table.put([30], b"second"), |rows| rows.extend([(30, &b"second"[..])])),
                (&|| table.remove_range([5].as_slice()..[9].as_slice()).map(drop), |rows| {
                    rows.retain(|key, _| !(5..9).contains(key));
                }),
            ];
            for (change, then) in &changes[..if is_blind { 3 } else { 4 }] {
                before = rows.clone();
                then(&mut rows);
                if change().is_err() {
                    break;
                }
                before = rows.clone();
            }
            let is_synced = db.sync().is_ok();
            drop((table, db));
            let disks = if is_synced { vec![disk.kill(), disk.crash(7)] } else { vec![disk.kill()] };
            for disk in disks {
                let options = Options { disk: Arc::new(disk), ..options.clone() };
                let db = Db::open("/db", options).unwrap_or_else(|error| panic!("step {step}: {error}"));
                let table = db.ensure_table("t").unwrap();
                let found: Vec<_> = table.range(..).map(|row| row.unwrap()).collect();
                let found: BTreeMap<_, _> = found.iter().map(|row| (row.key[0], &*row.value)).collect();
                assert!(found == rows || found == before, "step {step}: {found:?}, not {rows:?} nor {before:?}");
            }
            if is_past {
                break;
            }
            assert!(step < 199, "the flush has more calls than were tried");
        }
    }
}

/// A latched write makes its changes first, since it has reserved the files of the log that their record will need. A
/// checkpoint that found the disk full removed these files meanwhile: the record failed, and the database with it.
#[test]
fn files_that_a_writer_has_reserved_are_not_given_up_for_a_checkpoint() {
    let disk = SimDisk::new();
    let options = |disk: &SimDisk| Options {
        disk: Arc::new(disk.clone()),
        log_segment_bytes: 16 << 10,
        ..Options::without_files()
    };
    let db = Db::open("/db", options(&disk)).unwrap();
    let table = db.ensure_table("t").unwrap();
    table.put("first", [1; 10]).unwrap();
    let mut latched = db.latched().write().unwrap();
    latched.put(&table, b"long", &[7; 20_000]).unwrap();
    disk.set_capacity(0);
    // This thread has the writer's turn; another one would wait for it.
    assert_eq!(Flusher::of(&db.shared).give_up_spares().unwrap_err().kind(), crate::error::ErrorKind::Invalid);
    let _ = latched.commit().unwrap();
    let db = Db::open("/db", options(&disk.kill())).unwrap();
    assert_eq!(db.open_table("t").unwrap().unwrap().len().unwrap(), 2);
}
