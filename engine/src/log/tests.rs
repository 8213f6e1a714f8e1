//! Plain cases: refusals, damage by hand, shared syncs, the bytes of the format page. Crashes are in `crash_tests.rs`.

use super::crash_tests::{DATABASE_ID, dir, new_disk, options, with_seeds};
use super::format::{self, Frame, HEADER_BYTES, Header, Kind, Name};
use super::segment::{Reserve, Segment};
use super::writer::is_next_due;
use super::{Log, LogOptions, Lsn, Recovered, Room, decode_segment, recover};
use crate::error::{ErrorKind, Result};
use crate::io::sim::SimDisk;
use crate::io::{Disk, File, Lock, Mapping, OpenMode, RealDisk};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn create(disk: &SimDisk, options: LogOptions) -> Result<Log> {
    Log::create(Arc::new(disk.clone()), dir(), options, 1)
}

/// What recovery finds from the start, with the number of each record that was visited.
fn read(disk: &SimDisk, is_lenient: bool) -> (Result<Recovered>, Vec<u64>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut visited = Vec::new();
    let recovered = recover(&disk, dir(), DATABASE_ID, Lsn(0), 1, &mut |_, _| {}, &mut |sequence, _| {
        visited.push(sequence);
        Ok(())
    });
    let recovered = if is_lenient { recovered } else { recovered.and_then(Recovered::undamaged) };
    (recovered, visited)
}

/// A log of `count` records of 1000 bytes in segments of 4 KiB, every one synced.
fn synced_log(count: u64) -> SimDisk {
    let disk = new_disk();
    let log = create(&disk, options(4096)).unwrap();
    for sequence in 1..=count {
        let end = log.append(sequence, &[&[7; 1000]], Room::Common).unwrap();
        log.sync(end).unwrap();
    }
    drop(log);
    disk.kill()
}

/// The header of segment `id`, entered from segment `previous_id` after `count` records of a synced log.
fn begun_segment(id: u64, previous_id: u64, count: u64) -> [u8; HEADER_BYTES] {
    let header = Header {
        segment_bytes: 4096,
        segment_id: id,
        database_id: DATABASE_ID,
        base_lsn: Lsn(1024 * count),
        first_sequence: count + 1,
        previous_id,
        previous_end: HEADER_BYTES as u64 + 1024 * count,
        durable_lsn: Lsn(1024 * count),
    };
    header.encode()
}

fn resume(disk: &SimDisk) -> Log {
    let (recovered, _) = read(disk, false);
    Log::resume(Arc::new(disk.clone()), dir(), options(4096), &recovered.unwrap()).unwrap()
}

fn segment_path(id: u64) -> PathBuf {
    dir().join(format::segment_name(id))
}

#[test]
fn names_are_read_as_they_are_written() {
    for id in [1, 42, 9_999_999_999, 10_000_000_000, u64::MAX] {
        let segment = format::parse_name(&format::segment_name(id));
        assert_eq!(segment, Some(Name::Segment(id)));
        assert_eq!(format::parse_name(&format::spare_name(id)), Some(Name::Spare(id)));
    }
    assert_eq!(format::parse_name(format::UNFINISHED_NAME), Some(Name::Unfinished));
    for other in [
        "log-1.quipu",
        "log-00000000001.quipu",
        "log-+000000001.quipu",
        "log-.quipu",
        "log-spare-.quipu",
        "log-0000000001",
        "manifest.quipu",
        "",
    ] {
        assert_eq!(format::parse_name(other), None, "{other}");
    }
}

#[test]
fn impossible_segment_sizes_are_refused() {
    for segment_bytes in [0, 100, 4097, (1 << 30) + 4096] {
        let error = create(&new_disk(), options(segment_bytes)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_log_with_records_is_not_created_anew() {
    let disk = new_disk();
    drop(create(&disk, options(4096)).unwrap());
    // Nothing was appended: a creation of the whole database that was cut short may be repeated.
    let log = create(&disk, options(8192)).unwrap();
    // The file of the first attempt may be kept for a later segment.
    assert_eq!((log.segments().segment_count, disk.file_names().len()), (1, 1 + log.segments().spare_count));
    log.append(1, &[b"a"], Room::Common).unwrap();
    drop(log);
    assert_eq!(create(&disk, options(4096)).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn a_position_that_was_not_appended_cannot_be_synced() {
    let disk = new_disk();
    let log = create(&disk, options(4096)).unwrap();
    assert_eq!(log.sync(Lsn(8)).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!log.is_poisoned());
}

#[test]
fn another_database_and_a_newer_version_are_refused() {
    let disk = synced_log(3);
    let bytes = disk.read_file(segment_path(1)).unwrap();
    let error = Log::create(Arc::new(disk.clone()), dir(), LogOptions { database_id: 1, ..options(4096) }, 1);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Exists);

    let mut other = Header::decode(&bytes).unwrap();
    other.database_id ^= 1;
    let mut foreign = bytes.clone();
    foreign[..HEADER_BYTES].copy_from_slice(&other.encode());
    disk.write_file(segment_path(1), foreign);
    let error = read(&disk, false).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("belongs to database"), "{error}");
    assert!(std::error::Error::source(&error).is_some_and(|source| source.is::<super::OtherDatabase>()));

    let mut newer = bytes;
    newer[8] = 2;
    let checksum = crc32c::crc32c(&newer[..HEADER_BYTES - 4]);
    newer[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    disk.write_file(segment_path(1), newer);
    for is_lenient in [false, true] {
        let error = read(&disk, is_lenient).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version);
    }
}

#[test]
fn a_missing_segment_is_damage() {
    for id in 1..=3 {
        let disk = synced_log(12);
        disk.remove(&segment_path(id)).unwrap();
        let error = read(&disk, false).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "segment {id}: {error}");
    }
    let disk = synced_log(12);
    for path in disk.file_names() {
        disk.remove(&path).unwrap();
    }
    assert_eq!(read(&disk, false).0.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_lenient_reading_stops_at_damage_and_tells_it() {
    let disk = synced_log(12);
    // In the payload of the second record.
    disk.flip_bit(segment_path(1), 8 * (128 + 1024 + 500));
    let (strict, visited) = read(&disk, false);
    let error = strict.unwrap_err();
    assert_eq!(visited, [1]);
    assert!(error.to_string().contains("at byte 1152"), "{error}");
    let (lenient, visited) = read(&disk, true);
    let recovered = lenient.unwrap();
    assert_eq!(visited, [1]);
    assert_eq!((recovered.next_sequence, recovered.end_lsn), (2, Lsn(1024)));
    let damage = recovered.damage.as_ref().unwrap();
    assert_eq!(damage.kind(), ErrorKind::Corrupt);
    let resumed = Log::resume(Arc::new(disk.clone()), dir(), options(4096), &recovered);
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A database that is opened for each write, by a job or a notebook, does not take a file of log each time.
#[test]
fn a_log_that_is_opened_often_goes_on_in_its_last_segment() {
    let disk = synced_log(1);
    for sequence in 2..30 {
        let log = resume(&disk);
        let end = log.append(sequence, &[&[8; 40]], Room::Common).unwrap();
        log.sync(end).unwrap();
        assert_eq!(log.segments().segment_count, 1);
        drop(log);
        let (recovered, sequences) = read(&disk.crash(sequence), false);
        assert_eq!((sequences.len() as u64, recovered.unwrap().damage.is_none()), (sequence, true));
    }
    assert_eq!(disk.file_names().len(), 1);
}

/// A crash leaves whole records after a hole, which recovery cuts off. The log grows up to them again, exactly: they
/// verify, and have the number that comes next, and are not its records.
#[test]
fn records_after_a_cut_do_not_come_back_when_the_log_has_grown_up_to_them() {
    for is_synced in [true, false] {
        let disk = new_disk();
        let log = create(&disk, options(4096)).unwrap();
        let end = log.append(1, &[&[1; 1000]], Room::Common).unwrap();
        log.sync(end).unwrap();
        for number in [2, 3] {
            log.append(number, &[&[9; 1000]], Room::Common).unwrap();
        }
        drop(log);
        let disk = disk.kill();
        let mut bytes = disk.read_file(segment_path(1)).unwrap();
        bytes[128 + 1024 + 512] ^= 1;
        disk.write_file(segment_path(1), bytes);
        let log = resume(&disk);
        // The opening's frame and this one take what the lost record took.
        let end = log.append(2, &[&[5; 1000 - 24]], Room::Common).unwrap();
        assert_eq!(end, Lsn(2048));
        if is_synced {
            log.sync(end).unwrap();
        }
        drop(log);
        let (recovered, sequences) = read(&disk, false);
        assert_eq!((sequences, recovered.unwrap().end_lsn), (vec![1, 2], Lsn(2048)));
        // Also where a checkpoint says that reading starts.
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let mut found = Vec::new();
        let recovered = recover(&disk, dir(), DATABASE_ID, end, 3, &mut |_, _| {}, &mut |sequence, _| {
            found.push(sequence);
            Ok(())
        });
        assert!(recovered.unwrap().damage.is_none() && found.is_empty());
    }
}

/// The newest segment is lost, but the checkpoint lies in it: the room that the segment before it has for that position
/// must not be taken for the position itself.
#[test]
fn a_checkpoint_in_a_lost_segment_is_damage() {
    let disk = synced_log(2);
    // A segment that was begun and lost its records: so the log goes on in one more.
    disk.write_file(segment_path(2), begun_segment(2, 1, 2).to_vec());
    let log = resume(&disk);
    let from = log.append(3, &[&[1; 500]], Room::Common).unwrap();
    log.sync(from).unwrap();
    drop(log);
    disk.remove(&segment_path(3)).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let found = recover(&disk, dir(), DATABASE_ID, from, 4, &mut |_, _| {}, &mut |_, _| Ok(()));
    assert_eq!(found.and_then(Recovered::undamaged).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Frames and headers that verify but do not follow on one another were not written by this program in this order.
#[test]
fn what_verifies_but_does_not_follow_is_damage() {
    let seed = format::frame_seed(DATABASE_ID, 1);
    let fields = |kind, sequence| Frame { kind, length: 8, sequence, opening: 0, durable_lsn: Lsn(0) };
    for frame in [fields(Kind::Full, 3), fields(Kind::Full, 1), fields(Kind::Last, 2)] {
        let disk = new_disk();
        let log = create(&disk, options(4096)).unwrap();
        log.append(1, &[&[1; 8]], Room::Common).unwrap();
        let mut bytes = disk.read_file(segment_path(1)).unwrap();
        let at = HEADER_BYTES + 32;
        bytes[at..at + 24].copy_from_slice(&frame.encode());
        let checksum = crc32c::crc32c_append(seed, &bytes[at + 4..at + frame.bytes()]);
        bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        disk.write_file(segment_path(1), bytes);
        let (recovered, visited) = read(&disk, false);
        assert_eq!(recovered.unwrap_err().kind(), ErrorKind::Corrupt, "{frame:?}");
        assert_eq!(visited, [1]);
    }
    let changes: [fn(&mut Header); 2] = [|header| header.first_sequence += 1, |header| header.base_lsn.0 += 8];
    for change in changes {
        let disk = synced_log(5);
        let mut bytes = disk.read_file(segment_path(2)).unwrap();
        let mut header = Header::decode(&bytes).unwrap();
        change(&mut header);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        disk.write_file(segment_path(2), bytes);
        assert_eq!(read(&disk, false).0.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

/// The frames of the last segment are gone, but its header tells of what was durable in the one before.
#[test]
fn a_header_alone_tells_of_damage_before_it() {
    let disk = synced_log(4);
    let mut bytes = disk.read_file(segment_path(2)).unwrap();
    bytes[HEADER_BYTES..].fill(0);
    disk.write_file(segment_path(2), bytes);
    let (recovered, visited) = read(&disk, false);
    assert!(recovered.is_ok());
    assert_eq!(visited, [1, 2, 3]);
    let mut bytes = disk.read_file(segment_path(1)).unwrap();
    bytes[HEADER_BYTES + 1024..].fill(0);
    disk.write_file(segment_path(1), bytes);
    assert_eq!(read(&disk, false).0.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn any_bytes_decode_without_panic() {
    with_seeds(300, |seed| {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = synced_log(6).read_file(segment_path(1)).unwrap();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        // A frame of random fields with a checksum that holds.
        let seed = format::frame_seed(DATABASE_ID, 1);
        let at = HEADER_BYTES + 8 * random.random_range(0..400);
        let frame = Frame {
            kind: [Kind::First, Kind::Middle, Kind::Last, Kind::Full][random.random_range(0..4)],
            length: random.random_range(0..600),
            sequence: random.random::<u64>() >> 8,
            opening: random.random_range(0..3),
            durable_lsn: Lsn(random.random::<u64>() >> random.random_range(0..64)),
        };
        bytes[at..at + 24].copy_from_slice(&frame.encode());
        let checksum = crc32c::crc32c_append(seed, &bytes[at + 4..at + frame.bytes()]);
        bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes.truncate(random.random_range(0..bytes.len() * 2));
        let disk = new_disk();
        disk.write_file(segment_path(1), bytes.clone());
        let _ = read(&disk, true);
        if let Some(summary) = decode_segment(&bytes) {
            assert!(summary.end_offset <= bytes.len());
        }
    });
    assert_eq!(decode_segment(b""), None);
    let summary = decode_segment(&synced_log(3).read_file(segment_path(1)).unwrap()).unwrap();
    assert_eq!((summary.frame_count, summary.payload_bytes), (3, 3000));
    assert_eq!((summary.end_offset, summary.later_claim), (128 + 3 * 1024, None));
}

/// A real disk that counts syncs.
#[derive(Debug)]
struct CountingDisk {
    disk: RealDisk,
    syncs: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CountingFile {
    file: Box<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn File>> {
        Ok(Box::new(CountingFile { file: self.disk.open(path, mode)?, syncs: self.syncs.clone() }))
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

impl File for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.file.map(len)
    }
}

#[test]
fn concurrent_commits_share_syncs() {
    const THREADS: u64 = 8;
    const COMMITS: u64 = 200;
    let temporary = tempfile::tempdir().unwrap();
    let syncs = Arc::new(AtomicU64::new(0));
    let disk: Arc<dyn Disk> = Arc::new(CountingDisk { disk: RealDisk, syncs: syncs.clone() });
    let log = Log::create(disk.clone(), temporary.path(), options(64 << 10), 1).unwrap();
    let next_sequence = Mutex::new(1);
    syncs.store(0, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, next_sequence) = (&log, &next_sequence);
            scope.spawn(move || {
                for _ in 0..COMMITS {
                    let mut turn = next_sequence.lock().unwrap();
                    let payload = (*turn * 1000 + thread).to_le_bytes();
                    let end = log.append(*turn, &[&payload, &[1; 50]], Room::Common).unwrap();
                    *turn += 1;
                    drop(turn);
                    log.sync(end).unwrap();
                    assert!(log.durable_lsn() >= end);
                }
            });
        }
        // Segments made ahead, as a background thread would.
        scope.spawn(|| {
            while *next_sequence.lock().unwrap() <= THREADS * COMMITS {
                log.prepare_spare().unwrap();
                std::thread::yield_now();
            }
        });
    });
    let count = syncs.load(Ordering::Relaxed);
    assert!(count < THREADS * COMMITS, "{count} syncs");
    assert_eq!(log.durable_lsn(), log.end_lsn());
    let end = log.end_lsn();
    drop(log);
    let mut visited = 0;
    let recovered =
        recover(&disk, temporary.path(), DATABASE_ID, Lsn(0), 1, &mut |_, _| {}, &mut |sequence, payload| {
            visited += 1;
            assert_eq!(sequence, visited);
            assert_eq!(payload.len(), 58);
            Ok(())
        })
        .and_then(Recovered::undamaged)
        .unwrap();
    assert_eq!((recovered.end_lsn, visited), (end, THREADS * COMMITS));
}

/// The example of `docs/internals/format-log.md` is what this code writes.
#[test]
fn the_example_of_the_format_page_is_true() {
    let page = include_str!("../../../docs/internals/format-log.md");
    let (_, example) = page.split_once("```hex\n").expect("a hex block");
    let (example, _) = example.split_once("```").expect("its end");
    let written: Vec<u8> = example
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect();
    let disk = new_disk();
    let log = create(&disk, options(4096)).unwrap();
    let end = log.append(1, &[b"knot"], Room::Common).unwrap();
    log.sync(end).unwrap();
    log.append(2, &[b"a quipu ", b"is cords"], Room::Common).unwrap();
    let bytes = disk.read_file(segment_path(1)).unwrap();
    let hex = |bytes: &[u8]| -> Vec<String> {
        bytes.chunks(8).map(|line| line.iter().map(|byte| format!("{byte:02x} ")).collect()).collect()
    };
    assert_eq!(hex(&written), hex(&bytes[..written.len()]));
    assert_eq!(written.len(), 128 + 32 + 40);
}

/// A file of the log that something else had cut gave its length to the next one, whose header no opening took.
#[test]
fn a_file_that_was_cut_gives_no_impossible_length_to_the_next() {
    let disk = new_disk();
    let mut reserve = Reserve::new(Arc::new(disk), dir(), (4096, 64 << 10), 5000, 1);
    assert!(reserve.prepare(0).is_ok());
    assert_eq!(reserve.take().map(|blank| blank.bytes), Some(8192));
}

/// The background thread looks while a record enters a segment: the difference of the two was below zero, and its
/// thread ended.
#[test]
fn the_next_segment_is_due_after_a_quarter_of_a_small_log_and_at_once_in_others() {
    let path = segment_path(2);
    let file = new_disk().open(&path, OpenMode::CreateNew).unwrap();
    let segment = Segment { id: 2, base_lsn: Lsn(4000), segment_bytes: 4096, path, file };
    let is_due = |is_small| [1000, 4000, 4040, 5020, 5024, 8000].map(|end| is_next_due(&segment, is_small, Lsn(end)));
    assert_eq!(is_due(true), [false, false, false, false, true, true]);
    assert_eq!(is_due(false), [false, false, true, true, true, true]);
}
