//! Promises of every disk, tested on both.

use super::sim::SimDisk;
use super::{AlignedBuffer, Disk, OpenMode, RealDisk, SECTOR_BYTES};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Runs `test` with an empty directory on each disk.
fn on_both(test: impl Fn(&dyn Disk, &Path)) {
    let sim = SimDisk::new();
    sim.create_dir_all(Path::new("/top/dir")).unwrap();
    test(&sim, Path::new("/top/dir"));
    let dir = tempfile::tempdir().unwrap();
    test(&RealDisk, dir.path());
}

fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

fn get(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn modes_of_opening() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = disk.open(&path, mode).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        put(disk, &path, b"abc");
        for mode in [OpenMode::CreateNew, OpenMode::CreateDirect] {
            let error = disk.open(&path, mode).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        let read_only = disk.open(&path, OpenMode::Read).unwrap();
        read_only.write_all_at(b"x", 0).unwrap_err();
        read_only.set_len(0).unwrap_err();
        let refused = read_only.map(3).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        let writable = disk.open(&path, OpenMode::ReadWrite).unwrap();
        writable.write_all_at(b"x", 1).unwrap();
        assert_eq!(get(disk, &path), b"axc");
        let orphan = disk.open(&dir.join("no/a"), OpenMode::CreateNew);
        assert_eq!(orphan.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn writes_past_the_end_leave_zeros_and_reads_past_it_fail() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("a"), OpenMode::CreateNew).unwrap();
        file.write_all_at(b"", 100).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        file.write_all_at(b"abc", 5).unwrap();
        assert_eq!(get(disk, &dir.join("a")), b"\0\0\0\0\0abc");
        file.set_len(6).unwrap();
        file.set_len(8).unwrap();
        assert_eq!(get(disk, &dir.join("a")), b"\0\0\0\0\0a\0\0");
        for (len, offset) in [(1, 8), (2, 7), (1, 1 << 30)] {
            let error = file.read_exact_at(&mut vec![0; len], offset).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
        file.read_exact_at(&mut [], 8).unwrap();
        file.sync().unwrap();
        disk.sync_dir(dir).unwrap();
    });
}

#[test]
fn renames_replace_and_removed_files_stay_readable() {
    on_both(|disk, dir| {
        let (old, new) = (dir.join("b"), dir.join("a"));
        put(disk, &old, b"old");
        put(disk, &new, b"new");
        let handle = disk.open(&old, OpenMode::ReadWrite).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["a", "b"]);
        disk.rename(&new, &old).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["b"]);
        assert_eq!(get(disk, &old), b"new");
        disk.remove(&old).unwrap();
        disk.sync_dir(dir).unwrap();
        assert!(disk.list(dir).unwrap().is_empty());
        let mut bytes = [0; 3];
        handle.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        handle.sync().unwrap();
        for error in [disk.remove(&old), disk.rename(&old, &new)] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
        }
    });
}

#[test]
fn directories_are_made_once_and_are_no_files() {
    on_both(|disk, dir| {
        let deep = dir.join("x/y");
        let error = disk.list(&deep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        disk.create_dir_all(&deep).unwrap();
        disk.create_dir_all(&deep).unwrap();
        disk.sync_dir(&dir.join("x")).unwrap();
        put(disk, &deep.join("a"), b"1");
        assert_eq!(disk.list(&deep).unwrap(), ["a"]);
        assert!(disk.list(dir).unwrap().is_empty());
    });
}

#[test]
fn a_lock_excludes_until_it_is_dropped() {
    on_both(|disk, dir| {
        let path = dir.join("lock");
        let lock = disk.lock(&path).unwrap();
        let error = disk.lock(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        disk.lock(&dir.join("other")).unwrap();
        drop(lock);
        disk.lock(&path).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["lock", "other"]);
    });
}

#[test]
fn direct_writes_must_be_aligned_and_reads_need_not() {
    on_both(|disk, dir| {
        let path = dir.join("run");
        let file = disk.open(&path, OpenMode::CreateDirect).unwrap();
        let mut buffer = AlignedBuffer::new(2 * SECTOR_BYTES);
        buffer.resize(2 * SECTOR_BYTES);
        buffer.fill(7);
        let sector = SECTOR_BYTES as u64;
        for (bytes, offset) in [(&buffer[..], 1), (&buffer[..9], 0), (&buffer[8..4104], 0)] {
            let error = file.write_all_at(bytes, offset).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(file.len().unwrap(), 0);
        file.write_all_at(&buffer, sector).unwrap();
        file.sync().unwrap();
        let mut bytes = [1; 3];
        file.read_exact_at(&mut bytes, sector - 2).unwrap();
        assert_eq!(bytes, [0, 0, 7]);
        file.set_len(sector + 1).unwrap();
        assert_eq!(get(disk, &path).len(), SECTOR_BYTES + 1);
    });
}

#[test]
fn stores_through_a_mapping_are_seen_and_outlive_the_handle() {
    on_both(|disk, dir| {
        let path = dir.join("log");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        for len in [0, 1] {
            let error = file.map(len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        file.set_len(10_000).unwrap();
        let mut mapping = file.map(9_000).unwrap();
        mapping.write(0, b"first");
        mapping.write(8_996, b"last");
        mapping.write(9_000, b"");
        file.sync().unwrap();
        drop(file);
        mapping.write(1, b"IRS");
        drop(mapping);
        let bytes = get(disk, &path);
        assert_eq!(&bytes[..6], b"fIRSt\0");
        assert_eq!(&bytes[8_996..9_001], b"last\0");
    });
}

#[test]
fn a_store_outside_of_a_mapping_panics_and_changes_nothing() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("log"), OpenMode::CreateNew).unwrap();
        file.set_len(8_192).unwrap();
        let mut mapping = file.map(4_096).unwrap();
        for (offset, bytes) in [(4_096, &b"x"[..]), (4_095, b"xy"), (usize::MAX, b"x")] {
            let store = std::panic::AssertUnwindSafe(|| mapping.write(offset, bytes));
            std::panic::catch_unwind(store).unwrap_err();
        }
        mapping.write(4_095, b"z");
        let bytes = get(disk, &dir.join("log"));
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 1);
    });
}

#[test]
fn threads_share_a_file_each_with_a_mapping_of_its_own() {
    on_both(|disk, dir| {
        let path: PathBuf = dir.join("log");
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.set_len(4_000).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (file, mut mapping) = (&file, file.map(4_000).unwrap());
                scope.spawn(move || {
                    for index in 0..500_usize {
                        let offset = usize::from(thread) * 1_000 + index * 2;
                        mapping.write(offset, &[thread + 1]);
                        file.write_all_at(&[thread + 1], offset as u64 + 1).unwrap();
                    }
                    file.sync().unwrap();
                });
            }
        });
        let bytes = get(disk, &path);
        for (thread, bytes) in bytes.chunks(1_000).enumerate() {
            assert!(bytes.iter().all(|&byte| usize::from(byte) == thread + 1));
        }
    });
}
