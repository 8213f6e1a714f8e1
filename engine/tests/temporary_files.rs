//! Goal: temporary files take space only while they are open, whatever happens, and the database never takes one for
//! its own. Method: a disk in memory that counts its bytes and its files, and cuts the power at any step.

use std::sync::Arc;

use quipu::io::sim::{CrashMode, SimDisk};
use quipu::{Db, ErrorKind, Options};

fn open(disk: &SimDisk) -> Db {
    let options = Options { disk: Arc::new(disk.clone()), ..Options::without_files() };
    Db::open("/db", options).unwrap()
}

#[test]
fn bytes_can_be_read_while_the_file_is_open_and_are_gone_afterwards() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let (names, used) = (disk.file_names(), disk.used_bytes());
    let files = [db.temporary_file().unwrap(), db.temporary_file().unwrap()];
    for (number, file) in files.iter().enumerate() {
        file.write_all_at(&[number as u8; 10_000], 5_000).unwrap();
    }
    assert_eq!(disk.file_names(), names, "they have no names");
    let mut read = [9; 3];
    files[1].read_exact_at(&mut read, 14_997).unwrap();
    assert_eq!(read, [1, 1, 1]);
    assert!(disk.used_bytes() >= used + 20_000);
    drop(files);
    assert_eq!(disk.used_bytes(), used);
}

#[test]
fn a_crash_between_the_creation_and_the_loss_of_the_name_leaves_nothing_for_long() {
    let disk = SimDisk::new();
    let db = open(&disk);
    let before = disk.steps();
    drop(db.temporary_file().unwrap());
    let steps = disk.steps() - before;
    drop(db);
    for step in 0..=steps {
        for mode in [CrashMode::KeepAll, CrashMode::LoseAll] {
            let disk = SimDisk::new();
            let db = open(&disk);
            let names = disk.file_names();
            disk.cut_at(disk.steps() + step);
            let made = db.temporary_file();
            assert_eq!(made.is_ok(), step == steps);
            drop((made, db));
            let left = disk.crash_with(mode, 0);
            let db = open(&left);
            // A name that is still taken is passed over.
            for _ in 0..5 {
                db.temporary_file().unwrap();
            }
            db.checkpoint().unwrap();
            assert_eq!(left.file_names(), names, "step {step}, {mode:?}");
        }
    }
}

#[test]
fn a_database_that_is_read_only_makes_none() {
    let disk = SimDisk::new();
    drop(open(&disk));
    let options = Options { disk: Arc::new(disk.clone()), read_only: true, ..Options::without_files() };
    let db = Db::open("/db", options).unwrap();
    assert_eq!(db.temporary_file().unwrap_err().kind(), ErrorKind::ReadOnly);
}
