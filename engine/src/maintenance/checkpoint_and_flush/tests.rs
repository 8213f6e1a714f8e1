//! Stories of defects that were found in the writing of runs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::db::Db;
use crate::io::sim::{DiskCall, SimDisk};
use crate::maintenance::checkpoint_and_flush::Flusher;
use crate::options::{Options, TableOptions};
use crate::read::readable::ReadableTable;
use crate::write::writable::WritableTable;

#[test]
fn a_run_that_a_merge_begins_while_a_flush_lists_the_directory_is_not_removed() {
    let disk = SimDisk::new();
    let db = Db::open("/db", Options { disk: Arc::new(disk.clone()), ..Options::without_files() }).unwrap();
    let table = db.ensure_table("t").unwrap();
    table.put(b"key", b"value").unwrap();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let (database, files, names) = (Arc::downgrade(&db.shared), disk.clone(), begun.clone());
    disk.watch(move |call| {
        if call == DiskCall::List
            && let Some(shared) = database.upgrade()
        {
            let (name, _) = shared.files.begin_run(0);
            files.write_file(Path::new("/db").join(&name), *b"a run that is being merged");
            names.lock().unwrap().push(name);
        }
    });
    table.flush().unwrap();
    db.checkpoint().unwrap();
    disk.stop_watching();
    let begun = Arc::into_inner(begun).unwrap().into_inner().unwrap();
    assert!(!begun.is_empty());
    for name in begun {
        assert!(disk.read_file(Path::new("/db").join(&name)).is_some(), "{name} is gone");
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
