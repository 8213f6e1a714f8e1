use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::db::Db;
use crate::io::sim::{DiskCall, SimDisk};
use crate::maintenance::merge_choice::FAN_IN;
use crate::options::{Options, TableOptions};
use crate::read::readable::ReadableTable;
use crate::run::made_up::IS_WRITTEN;
use crate::state::table_handle::Table;
use crate::state::versions::failed_half_way;
use crate::write::writable::WritableTable;

/// Flushes during a merge, and checks how many runs there are meanwhile.
#[test]
fn small_runs_do_not_wait_for_the_end_of_a_large_merge() {
    for background in [true, false] {
        let disk = SimDisk::new();
        let options =
            Options { disk: Arc::new(disk), memtable_bytes: 64 << 20, background, ..Options::without_files() };
        let db = Db::open("/db", options.clone()).unwrap();
        let table = db.ensure_table("t").unwrap();
        let rows = 12_000u32;
        for half in 0..2 {
            (half..rows).step_by(2).for_each(|key| table.put(key.to_be_bytes(), [7; 1000]).unwrap());
            table.flush().unwrap();
        }
        let runs = || table.shared.versions.read().table(table.id()).unwrap().runs.len();
        let (mut flushes, mut most) = (0, 0);
        let mut report = |_| {
            for _ in 0..3 {
                let keys = (0..rows).skip(flushes).step_by(1000);
                keys.for_each(|key| table.put(key.to_be_bytes(), [8]).unwrap());
                table.flush().unwrap();
                flushes += 1;
            }
            most = most.max(runs());
        };
        Merger::of(&table.shared).merge_table(table.id(), &mut report).unwrap();
        assert!(flushes > 30);
        // The two being merged, fewer of each tier above than become one, and three that have just come.
        let expected = if background { 5..=2 + 2 * FAN_IN + 3 } else { 30..=flushes + 2 };
        assert!(expected.contains(&most), "{most} runs while {flushes} came");
        for key in 0..rows {
            let is_new = key as usize % 1000 < flushes;
            assert_eq!(table.get(key.to_be_bytes()).unwrap().unwrap().len(), if is_new { 1 } else { 1000 }, "{key}");
        }
        assert_eq!(table.count(..).unwrap(), u64::from(rows));
        drop(table);
        db.close().unwrap();
        let report = crate::files::check("/db", &options, &mut |_| ()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }
}

/// Memory no longer matches the manifest then, so what a merge would write of the two would not fit.
#[test]
fn a_merge_writes_no_manifest_once_the_database_has_failed() {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk.clone()), background: false, ..Options::without_files() };
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    for half in 0..2 {
        put(&table, half * 1000..half * 1000 + 1500);
        table.flush().unwrap();
    }
    let manifest = || disk.read_file("/db/MANIFEST");
    let before = manifest();
    drop(table.shared.health.fail(failed_half_way()));
    assert_eq!(table.compact().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(manifest(), before);
}

#[test]
fn what_was_excised_is_merged_away_once_it_is_a_quarter_and_files_that_went_are_removed() {
    let disk = SimDisk::new();
    let options = Options {
        disk: Arc::new(disk.clone()),
        memtable_bytes: 64 << 20,
        run_file_bytes: 100_000,
        background: false,
        ..Options::without_files()
    };
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    put(&table, 0..20_000);
    table.flush().unwrap();
    table.rewrite(RunLayout::Tree, &mut |_| ()).unwrap();
    let due = |is_at_rest| while Merger::of(&table.shared).merge_if_due(is_at_rest) {};
    let files = || disk.file_names().iter().filter(|name| name.to_string_lossy().contains("/run-")).count();
    let excised = || db.stats().tables[0].excised;
    let remove = |keys: Range<u32>| {
        table.remove_range(&keys.start.to_be_bytes()..&keys.end.to_be_bytes()).unwrap();
    };
    let before = files();
    assert!(before > 8);
    // Less than a quarter of what is left, all of it in files that have other rows too.
    remove(100..1000);
    remove(19_000..19_900);
    due(false);
    assert_eq!((excised(), files()), (1800, before));
    // The files between go at once, and from the disk with the next manifest.
    remove(5000..15_000);
    assert_eq!(files(), before);
    RemovalManifest::of(&table.shared).name(table.id()).unwrap();
    assert!(files() <= before * 2 / 3, "{} of {before} files", files());
    due(false);
    assert_eq!((excised(), table.len().unwrap()), (0, 8200));
    remove(0..20_000);
    due(false);
    assert_eq!((files(), db.stats().tables[0].runs, table.len().unwrap()), (0, 0, 0));
}

/// A table whose runs have files of 2 MiB, on `disk`; nothing is flushed or merged by itself.
fn of_small_files(disk: &SimDisk) -> (Options, Db, Table) {
    let options = Options {
        disk: Arc::new(disk.clone()),
        memtable_bytes: 64 << 20,
        run_file_bytes: 2 << 20,
        background: false,
        ..Options::without_files()
    };
    let db = Db::open("/db", options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    (options, db, table)
}

/// The file that stands for a run of which nothing is left was removed, since the manifest did not name it: the next
/// manifest did, and the database did not open any more.
#[test]
fn a_run_that_is_emptied_while_the_manifest_of_its_merge_is_written_keeps_its_file() {
    let disk = SimDisk::new();
    let (options, db, table) = of_small_files(&disk);
    for half in 0..2 {
        (half..12_000u32).step_by(2).for_each(|key| table.put(key.to_be_bytes(), [7; 1000]).unwrap());
        table.flush().unwrap();
    }
    table.put(u32::MAX.to_be_bytes(), b"in memory").unwrap();
    // All files but the first are emptied before the manifest is written, and that one after it. The last file is the
    // smallest.
    let mut has_removed = false;
    let to_empty = Arc::new(Mutex::new(None));
    let mut report = |_| {
        if !std::mem::replace(&mut has_removed, true) {
            table.remove_range(&1_000u32.to_be_bytes()..&u32::MAX.to_be_bytes()).unwrap();
            let (emptied, is_renamed) = (to_empty.clone(), AtomicBool::new(false));
            *emptied.lock() = Some(table.clone());
            disk.watch(move |call| match call {
                DiskCall::Rename => is_renamed.store(true, Ordering::Relaxed),
                DiskCall::SyncDir if is_renamed.load(Ordering::Relaxed) => {
                    let table: Option<Table> = emptied.lock().take();
                    if let Some(table) = table {
                        table.remove_range(..&u32::MAX.to_be_bytes()).unwrap();
                    }
                }
                _ => {}
            });
        }
    };
    Merger::of(&table.shared).merge_table(table.id(), &mut report).unwrap();
    assert!(has_removed && to_empty.lock().is_none());
    let files = || -> Vec<String> {
        let versions = Arc::clone(&table.shared.versions.read());
        let runs = &versions.table(table.id()).unwrap().runs;
        runs.iter().flat_map(|run| run.files()).map(|file| file.name()).collect()
    };
    let are_there = || files().iter().all(|name| disk.read_file(Path::new("/db").join(name)).is_some());
    assert!(files().len() == 1 && are_there(), "{:?}", files());
    let other = db.ensure_table("other").unwrap();
    other.put(b"key", b"value").unwrap();
    other.flush().unwrap();
    assert!(are_there(), "another job removes what this one has left");
    db.backup("/copy").unwrap();
    RemovalManifest::of(&table.shared).name(table.id()).unwrap();
    assert_eq!(table.len().unwrap(), 1);
    drop((table, other));
    db.close().unwrap();
    for dir in ["/db", "/copy"] {
        let report = crate::files::check(dir, &options, &mut |_| ()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
        assert_eq!(Db::open(dir, options.clone()).unwrap().ensure_table("t").unwrap().len().unwrap(), 1);
    }
}

/// A merge keeps files that no other run overlaps. All rows were removed while it went on, and with them such a file:
/// the merge had it stand for its result, of which nothing was left, and the database did not open any more.
#[test]
fn a_file_that_a_merge_keeps_stays_though_all_its_rows_are_removed_meanwhile() {
    let disk = SimDisk::new();
    let (options, db, table) = of_small_files(&disk);
    // The last one is kept, and is the smallest.
    for rows in [0..12_000u32, 4_000..8_000, 20_000..20_400] {
        rows.for_each(|key| table.put(key.to_be_bytes(), [7; 1000]).unwrap());
        table.flush().unwrap();
    }
    table.put(u32::MAX.to_be_bytes(), b"in memory").unwrap();
    let mut has_removed = false;
    let mut report = |_| {
        if !std::mem::replace(&mut has_removed, true) {
            table.remove_range(..&u32::MAX.to_be_bytes()).unwrap();
            assert!(RemovalManifest::of(&table.shared).name(table.id()).unwrap());
        }
    };
    Merger::of(&table.shared).merge_table(table.id(), &mut report).unwrap();
    assert!(has_removed);
    let other = db.ensure_table("other").unwrap();
    other.put(b"key", b"value").unwrap();
    other.flush().unwrap();
    let runs = table.shared.versions.read().table(table.id()).unwrap().runs.clone();
    let files: Vec<String> = runs.iter().flat_map(|run| run.files()).map(|file| file.name()).collect();
    let found: Vec<_> = disk.file_names().into_iter().filter(|path| path.to_string_lossy().contains("/run-")).collect();
    assert!(files.iter().all(|name| found.contains(&Path::new("/db").join(name))), "{files:?}, {found:?}");
    assert_eq!(found.len(), files.len() + 1, "the files that the merge has kept are removed after it: {found:?}");
    drop((runs, table, other));
    db.close().unwrap();
    assert_eq!(crate::files::check("/db", &options, &mut |_| ()).unwrap().faults, Vec::<String>::new());
    assert_eq!(Db::open("/db", options).unwrap().ensure_table("t").unwrap().len().unwrap(), 1);
}

/// The indexes of a table's runs, newest first.
fn indexes(table: &Table) -> Vec<RunLayout> {
    let versions = table.shared.versions.read();
    let runs = &versions.table(table.id()).unwrap().runs;
    runs.iter().map(|run| run.info().layout).collect()
}

fn put(table: &Table, keys: Range<u32>) {
    keys.for_each(|key| table.put(key.to_be_bytes(), [7; 40]).unwrap());
}

#[test]
fn runs_have_the_index_that_the_table_is_declared_to_have_until_a_rewrite_changes_it() {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk), memtable_bytes: 1 << 20, ..Options::without_files() };
    let open = || Db::open("/db", options.clone()).unwrap();
    let db = open();
    let flat = TableOptions { layout: RunLayout::Flat, ..TableOptions::default() };
    let table = db.create_table("t", flat.clone()).unwrap();
    put(&table, 0..3000);
    table.flush().unwrap();
    put(&table, 2000..5000);
    db.checkpoint().unwrap();
    assert_eq!(indexes(&table), [RunLayout::Flat; 2]);
    drop(table);
    db.close().unwrap();
    let db = open();
    let table = db.ensure_table("t").unwrap();
    assert_eq!(*table.options(), flat);
    put(&table, 0..10);
    table.flush().unwrap();
    table.compact().unwrap();
    assert_eq!(indexes(&table), [RunLayout::Flat]);
    let mut reports = Vec::new();
    table.rewrite(RunLayout::Tree, &mut |progress| reports.push(progress)).unwrap();
    assert_eq!(indexes(&table), [RunLayout::Tree]);
    assert_eq!(db.ensure_table("t").unwrap().options().layout, RunLayout::Tree);
    put(&table, 4000..6000);
    table.flush().unwrap();
    assert_eq!((indexes(&table), table.len().unwrap()), (vec![RunLayout::Tree; 2], 6000));
    drop(table);
    db.close().unwrap();
    assert_eq!(open().ensure_table("t").unwrap().options().layout, RunLayout::Tree);
}

#[test]
fn runs_of_an_older_version_are_read_and_a_rewrite_brings_them_to_the_newest() {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk), background: false, ..Options::without_files() };
    let open = || Db::open("/db", options.clone()).unwrap();
    let versions = |table: &Table| {
        let versions = table.shared.versions.read();
        let runs = &versions.table(table.id()).unwrap().runs;
        runs.iter().map(|run| run.info().version).collect::<Vec<_>>()
    };
    let db = open();
    let table = db.ensure_table("t").unwrap();
    put(&table, 0..3000);
    IS_WRITTEN.set(true);
    table.flush().unwrap();
    IS_WRITTEN.set(false);
    put(&table, 2000..5000);
    let newest = versions(&table)[0] + 1;
    drop(table);
    db.close().unwrap();
    let db = open();
    let table = db.ensure_table("t").unwrap();
    assert_eq!((versions(&table), table.len().unwrap()), (vec![newest - 1], 5000));
    table.rewrite(RunLayout::Tree, &mut |_| ()).unwrap();
    assert_eq!((versions(&table), table.len().unwrap()), (vec![newest], 5000));
}

#[test]
fn a_rewrite_leaves_a_table_in_memory_there() {
    let disk = SimDisk::new();
    let options = Options { disk: Arc::new(disk), memtable_bytes: 1 << 20, ..Options::without_files() };
    let db = Db::open("/db", options.clone()).unwrap();
    let table = db.ensure_table("t").unwrap();
    put(&table, 0..3000);
    db.checkpoint().unwrap();
    let checkpoint = db.stats().checkpoint;
    table.rewrite(RunLayout::Flat, &mut |_| ()).unwrap();
    assert!(indexes(&table).is_empty() && db.stats().checkpoint > checkpoint);
    drop(table);
    db.close().unwrap();
    let db = Db::open("/db", options).unwrap();
    let table = db.ensure_table("t").unwrap();
    assert_eq!((table.len().unwrap(), table.options().layout), (3000, RunLayout::Flat));
    table.flush().unwrap();
    assert_eq!(indexes(&table), [RunLayout::Flat]);
}

/// Runs that flushes and merges leave are fetched as they are written; images of tables in memory, which are read
/// once from front to back, are not.
#[test]
fn runs_of_tables_on_disk_are_fetched_and_images_are_not() {
    for memtable_bytes in [0, 64 << 20] {
        let disk = SimDisk::new();
        let options = Options {
            disk: Arc::new(disk.clone()),
            durability: crate::Durability::Os,
            memtable_bytes,
            ..Options::default()
        };
        let db = Db::open("/db", options).unwrap();
        let table = db.ensure_table("t").unwrap();
        for half in 0..2 {
            (half..2000u32).step_by(2).for_each(|key| table.put(key.to_be_bytes(), [7; 100]).unwrap());
            if memtable_bytes > 0 {
                table.flush().unwrap();
            } else {
                db.checkpoint().unwrap();
            }
        }
        table.compact().unwrap();
        let names = disk.file_names();
        let mut runs = names.iter().filter(|name| name.to_string_lossy().contains("/run-")).peekable();
        assert!(runs.peek().is_some());
        for run in runs {
            let fetched: u64 = disk.read_soon(run).iter().map(|bytes| bytes.end - bytes.start).sum();
            let bytes = disk.read_file(run).unwrap().len() as u64;
            assert_eq!(fetched, if memtable_bytes > 0 { bytes } else { 0 }, "{}", run.display());
        }
    }
}
