//! Promises of the simulated disk alone: crashes, faults, the full disk, damage.

use super::sim::{CrashMode, SimDisk};
use super::{Disk, File, OpenMode};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

const SECTOR: usize = 512;

/// A disk with the directory `db`.
fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("db")).unwrap();
    disk
}

fn create(disk: &SimDisk, path: &str) -> Box<dyn File> {
    disk.open(Path::new(path), OpenMode::CreateNew).unwrap()
}

/// A durable file, opened to write.
fn durable(disk: &SimDisk, path: &str, bytes: &[u8]) -> Box<dyn File> {
    disk.write_file(path, bytes);
    disk.open(Path::new(path), OpenMode::ReadWrite).unwrap()
}

/// What `path` is found to be after crashes from many seeds.
fn outcomes(disk: &SimDisk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| disk.crash(seed).read_file(path)).collect()
}

#[test]
fn synced_bytes_and_synced_names_survive_every_crash() {
    let disk = disk();
    let file = create(&disk, "db/a");
    file.set_len(2_000).unwrap();
    file.map(2_000).unwrap().write(1_000, b"mapped");
    file.write_all_at(b"written", 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("db")).unwrap();
    let expected = disk.read_file("db/a");
    assert_eq!(outcomes(&disk, "db/a"), BTreeSet::from([expected.clone()]));
    for mode in [CrashMode::LoseAll, CrashMode::KeepAll] {
        assert_eq!(disk.crash_with(mode, 1).read_file("db/a"), expected);
    }
}

#[test]
fn bytes_and_names_become_durable_apart() {
    let disk = disk();
    let file = create(&disk, "db/a");
    file.write_all_at(b"bytes", 0).unwrap();
    let name_only = disk.kill();
    name_only.sync_dir(Path::new("db")).unwrap();
    let lost = name_only.crash_with(CrashMode::LoseAll, 0);
    assert_eq!(lost.read_file("db/a").unwrap(), b"");
    file.sync().unwrap();
    let lost = disk.crash_with(CrashMode::LoseAll, 0);
    assert_eq!(lost.read_file("db/a"), None);
    assert_eq!(outcomes(&disk, "db/a"), BTreeSet::from([None, Some(b"bytes".to_vec())]));
}

#[test]
fn unsynced_sectors_arrive_each_for_itself_and_whole() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[0; 4 * SECTOR]);
    file.write_all_at(&[1; 3 * SECTOR], 0).unwrap();
    let found = outcomes(&disk, "db/a");
    for bytes in found.iter().flatten() {
        assert_eq!(bytes.len(), 4 * SECTOR);
        assert!(bytes[3 * SECTOR..].iter().all(|&byte| byte == 0));
        for sector in bytes.chunks(SECTOR) {
            assert!(sector.iter().all(|&byte| byte == sector[0]));
        }
    }
    assert_eq!(found.len(), 8, "each selection of three sectors");
}

#[test]
fn of_several_stores_to_a_sector_any_selection_arrives_in_order() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[0; SECTOR]);
    let mut mapping = file.map(SECTOR).unwrap();
    mapping.write(0, &[1, 1, 0, 0]);
    mapping.write(1, &[2, 2]);
    mapping.write(2, &[3, 3]);
    let found: BTreeSet<[u8; 4]> =
        outcomes(&disk, "db/a").iter().flatten().map(|bytes| bytes[..4].try_into().unwrap()).collect();
    let expected = BTreeSet::from([
        [0, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 2, 2, 0],
        [1, 2, 2, 0],
        [0, 0, 3, 3],
        [1, 1, 3, 3],
        [0, 2, 3, 3],
        [1, 2, 3, 3],
    ]);
    assert_eq!(found, expected);
}

#[test]
fn an_unsynced_length_is_one_the_file_had_or_grew_through() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[9; 100]);
    file.set_len(40).unwrap();
    file.write_all_at(&[7; 1_000], 100).unwrap();
    let found = outcomes(&disk, "db/a");
    let lens: BTreeSet<usize> = found.iter().flatten().map(Vec::len).collect();
    assert_eq!(lens, BTreeSet::from([40, 100, 512, 1_024, 1_100]));
    for bytes in found.iter().flatten() {
        // The cut bytes are either still there or zeros, never both.
        let tail = bytes.get(40..100).unwrap_or_default();
        assert!(tail.iter().all(|&byte| byte == tail[0]) && (tail.is_empty() || tail[0] != 7));
        let grown = bytes.get(100..).unwrap_or_default();
        assert!(grown.iter().all(|&byte| byte == 0 || byte == 7));
    }
}

#[test]
fn an_unsynced_rename_leaves_the_old_or_the_new_file() {
    let disk = disk();
    durable(&disk, "db/current", b"old");
    let file = create(&disk, "db/next");
    file.write_all_at(b"new", 0).unwrap();
    file.sync().unwrap();
    disk.rename(Path::new("db/next"), Path::new("db/current")).unwrap();
    assert_eq!(outcomes(&disk, "db/current"), BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]));
    for seed in 0..50 {
        let found = disk.crash(seed);
        let has_new = found.read_file("db/current").unwrap() == b"new";
        assert!(!has_new || found.read_file("db/next").is_none());
    }
    disk.sync_dir(Path::new("db")).unwrap();
    assert_eq!(outcomes(&disk, "db/current"), BTreeSet::from([Some(b"new".to_vec())]));
}

#[test]
fn a_link_is_one_more_name_of_the_same_bytes() {
    let disk = disk();
    disk.create_dir_all(Path::new("copy")).unwrap();
    let file = durable(&disk, "db/a", b"old");
    disk.set_capacity(3);
    disk.link(Path::new("db/a"), Path::new("copy/b")).unwrap();
    assert_eq!(disk.link(Path::new("db/a"), Path::new("copy/b")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.link(Path::new("db/none"), Path::new("copy/c")).unwrap_err().kind(), ErrorKind::NotFound);
    // The name is durable with its directory, the bytes with the file, and a crash takes or leaves them once.
    assert_eq!(outcomes(&disk, "copy/b"), BTreeSet::from([None, Some(b"old".to_vec())]));
    disk.sync_dir(Path::new("copy")).unwrap();
    file.write_all_at(b"new", 0).unwrap();
    for seed in 0..50 {
        let found = disk.crash(seed);
        assert_eq!(found.read_file("db/a"), found.read_file("copy/b"));
    }
    // It stays until both names are gone.
    drop(file);
    disk.remove(Path::new("db/a")).unwrap();
    disk.sync_dir(Path::new("db")).unwrap();
    assert_eq!(disk.read_file("copy/b").unwrap(), b"new");
    assert_eq!(create(&disk, "db/c").write_all_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.remove(Path::new("copy/b")).unwrap();
    disk.sync_dir(Path::new("copy")).unwrap();
    disk.open(Path::new("db/c"), OpenMode::ReadWrite).unwrap().write_all_at(b"x", 0).unwrap();
}

#[test]
fn an_unsynced_removal_may_be_undone_and_operations_survive_as_a_prefix() {
    let disk = disk();
    durable(&disk, "db/a", b"a");
    disk.remove(Path::new("db/a")).unwrap();
    create(&disk, "db/b");
    create(&disk, "db/c");
    let found: BTreeSet<Vec<String>> = (0..100).map(|seed| disk.crash(seed).list(Path::new("db")).unwrap()).collect();
    let expected: [&[&str]; 4] = [&["a"], &[], &["b"], &["b", "c"]];
    let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn a_failed_sync_is_not_repaired_by_a_good_one() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[0; 2 * SECTOR]);
    file.write_all_at(&[1; 2 * SECTOR], 0).unwrap();
    disk.fail_at(disk.steps(), ErrorKind::Other);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Other);
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, "db/a").len(), 4);
    let lost = disk.crash_with(CrashMode::LoseAll, 0);
    assert_eq!(lost.read_file("db/a").unwrap(), [0; 2 * SECTOR]);
    assert_eq!(disk.read_file("db/a").unwrap(), [1; 2 * SECTOR]);

    // Written again and synced, the first sector and one byte of the second are safe; the rest is still in doubt.
    file.write_all_at(&[2; SECTOR + 1], 0).unwrap();
    file.sync().unwrap();
    let found = outcomes(&disk, "db/a");
    assert_eq!(found.len(), 2);
    for bytes in found.iter().flatten() {
        assert_eq!(bytes[..=SECTOR], [2; SECTOR + 1]);
    }
}

#[test]
fn a_step_that_fails_is_the_only_one() {
    let disk = disk();
    let file = create(&disk, "db/a");
    disk.fail_at(1, ErrorKind::StorageFull);
    let error = file.write_all_at(b"abcd", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.read_file("db/a").unwrap(), b"ab", "half of it");
    file.write_all_at(b"abcd", 0).unwrap();
    disk.fail_at(3, ErrorKind::Other);
    disk.rename(Path::new("db/a"), Path::new("db/b")).unwrap_err();
    assert_eq!(disk.file_names(), [Path::new("db/a")]);
    disk.fail_at(4, ErrorKind::Other);
    disk.open(Path::new("db/b"), OpenMode::CreateNew).unwrap_err();
    disk.fail_at(5, ErrorKind::Other);
    disk.sync_dir(Path::new("db")).unwrap_err();
    let lost = disk.crash_with(CrashMode::LoseAll, 0);
    assert!(lost.file_names().is_empty());
    disk.sync_dir(Path::new("db")).unwrap();
    assert_eq!(disk.steps(), 7);
}

#[test]
fn after_the_cut_nothing_works_and_the_cut_step_is_in_doubt() {
    let disk = disk();
    let file = durable(&disk, "db/a", b"old");
    let mut mapping = file.map(3).unwrap();
    disk.cut_at(1);
    mapping.write(0, b"O");
    assert!(!disk.power_is_off());
    file.write_all_at(b"D", 2).unwrap_err();
    assert!(disk.power_is_off());
    mapping.write(1, b"XX");
    assert!(file.len().is_err() && file.sync().is_err());
    assert!(file.read_exact_at(&mut [0], 0).is_err());
    assert!(disk.list(Path::new("db")).is_err());
    assert!(disk.open(Path::new("db/a"), OpenMode::Read).is_err());
    assert!(disk.lock(Path::new("db/lock")).is_err());
    assert_eq!(disk.steps(), 1);
    let found = outcomes(&disk, "db/a");
    let expected = ["old", "Old", "olD", "OlD"].map(|text| Some(text.as_bytes().to_vec()));
    assert_eq!(found, BTreeSet::from(expected));
    let found = disk.crash(3);
    assert!(!found.power_is_off() && found.steps() == 0);
}

#[test]
fn a_rename_at_the_cut_may_have_happened() {
    let disk = disk();
    durable(&disk, "db/a", b"1");
    disk.cut_at(0);
    disk.rename(Path::new("db/a"), Path::new("db/b")).unwrap_err();
    let found: BTreeSet<_> = (0..50).map(|seed| disk.crash(seed).file_names()).collect();
    assert_eq!(found.len(), 2);
}

#[test]
fn a_killed_process_loses_nothing_and_the_rest_can_still_crash() {
    let disk = disk();
    let lock = disk.lock(Path::new("db/lock")).unwrap();
    let file = durable(&disk, "db/a", b"old");
    file.write_all_at(b"new", 0).unwrap();
    let killed = disk.kill();
    assert_eq!(killed.read_file("db/a").unwrap(), b"new");
    killed.lock(Path::new("db/lock")).unwrap();
    disk.lock(Path::new("db/lock")).unwrap_err();
    file.write_all_at(b"dead", 0).unwrap();
    drop((lock, file));
    assert_eq!(killed.read_file("db/a").unwrap(), b"new");
    let crashed = killed.crash_with(CrashMode::LoseAll, 0);
    assert_eq!(crashed.read_file("db/a").unwrap(), b"old");
    crashed.lock(Path::new("db/lock")).unwrap();
}

#[test]
fn a_full_disk_takes_what_fits_and_frees_what_is_removed() {
    let disk = disk();
    disk.set_capacity(10);
    let file = create(&disk, "db/a");
    let error = file.write_all_at(b"0123456789ab", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.read_file("db/a").unwrap(), b"0123456789");
    file.write_all_at(b"overwritten"[..10].into(), 0).unwrap();
    let error = file.set_len(11).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let other = create(&disk, "db/b");
    other.write_all_at(b"x", 0).unwrap_err();
    other.write_all_at(b"x", 100).unwrap_err();
    assert_eq!(other.len().unwrap(), 0);
    disk.remove(Path::new("db/a")).unwrap();
    other.write_all_at(b"x", 0).unwrap_err();
    drop(file);
    other.write_all_at(b"x", 0).unwrap();
    disk.set_capacity(u64::MAX);
    other.set_len(1_000).unwrap();
}

#[test]
fn damage_is_done_where_it_is_asked_for() {
    let disk = disk();
    disk.write_file("db/sub/a", b"\0\0");
    disk.flip_bit("db/sub/a", 9);
    assert_eq!(disk.read_file("db/sub/a").unwrap(), [0, 2]);
    assert_eq!(outcomes(&disk, "db/sub/a"), BTreeSet::from([Some(vec![0, 2])]));
    disk.write_file("db/sub/a", b"other");
    disk.write_file("db/b", b"");
    assert_eq!(disk.file_names(), [Path::new("db/b"), Path::new("db/sub/a")]);
    assert_eq!(disk.steps(), 0);
    assert_eq!(disk.read_file("db/none"), None);
}

#[test]
fn the_seed_decides() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[0; 64 * SECTOR]);
    for index in 0..200_u64 {
        file.write_all_at(&[index as u8 + 1; 100], index * 150).unwrap();
    }
    for seed in 0..20 {
        let (first, second) = (disk.crash(seed), disk.crash(seed));
        assert_eq!(first.read_file("db/a"), second.read_file("db/a"));
    }
    assert!(outcomes(&disk, "db/a").len() > 300);
}

#[test]
fn files_that_nobody_can_reach_are_forgotten() {
    let disk = disk();
    for _ in 0..3 {
        let file = create(&disk, "db/a");
        disk.remove(Path::new("db/a")).unwrap();
        disk.sync_dir(Path::new("db")).unwrap();
        file.write_all_at(b"still open", 0).unwrap();
    }
    assert!(format!("{disk:?}").contains("files: 0"), "{disk:?}");
}

#[test]
#[should_panic(expected = "SIGBUS")]
fn a_store_past_the_end_of_a_cut_file_is_a_bug() {
    let disk = disk();
    let file = durable(&disk, "db/a", &[0; 100]);
    let mut mapping = file.map(100).unwrap();
    file.set_len(50).unwrap();
    mapping.write(60, b"x");
}

#[test]
fn renames_between_directories_are_refused() {
    let disk = disk();
    disk.write_file("db/a", b"");
    disk.create_dir_all(Path::new("other")).unwrap();
    let error = disk.rename(Path::new("db/a"), Path::new("other/a"));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}
