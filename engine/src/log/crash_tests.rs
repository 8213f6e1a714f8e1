//! The log against its model, over crashes, kills and failing steps. `SEED=n` repeats one run of a random test.

use super::{Log, LogOptions, Lsn, Recovered, Room, recover};
use crate::error::{Error, ErrorKind, Result};
use crate::io::Disk;
use crate::io::sim::{CrashMode, SimDisk};
pub(super) use quipu_testing::seeds::with_seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const DATABASE_ID: u64 = 0x5175_6970_7521;
const FIRST_SEQUENCE: u64 = 1;

pub(super) fn dir() -> &'static Path {
    Path::new("db")
}

pub(super) fn options(segment_bytes: usize) -> LogOptions {
    // Those of several pages come after shorter ones.
    LogOptions { first_segment_bytes: 4096, ..LogOptions::of(segment_bytes, DATABASE_ID) }
}

pub(super) fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(dir()).unwrap();
    disk
}

/// What the log must hold, as its user knows it.
#[derive(Clone, Default)]
struct Model {
    /// Payload and end of each record; the first has number [`FIRST_SEQUENCE`].
    records: Vec<(Vec<u8>, Lsn)>,
    /// So many of them a sync has returned for.
    synced: usize,
    /// So many of them a checkpoint covers.
    covered: usize,
}

impl Model {
    fn end_of(&self, count: usize) -> Lsn {
        match count {
            0 => Lsn(0),
            _ => self.records[count - 1].1,
        }
    }

    /// Some payload that record `count` would have, the length up to `max_length`.
    fn payload(count: usize, length: usize) -> Vec<u8> {
        (0..length).map(|index| (index as u8).wrapping_mul(31) ^ count as u8).collect()
    }

    fn append(&mut self, log: &Log, length: usize) -> Result<()> {
        let payload = Model::payload(self.records.len(), length);
        let (front, back) = payload.split_at(length / 3);
        let sequence = FIRST_SEQUENCE + self.records.len() as u64;
        let end = log.append(sequence, &[front, &[], back], Room::Common)?;
        assert_eq!(log.end_lsn(), end);
        self.records.push((payload, end));
        Ok(())
    }

    fn sync(&mut self, log: &Log, count: usize) -> Result<()> {
        log.sync(self.end_of(count))?;
        assert!(log.durable_lsn() >= self.end_of(count));
        self.synced = self.synced.max(count);
        Ok(())
    }

    /// A checkpoint of the first `count` records, and the release of what it covers.
    fn checkpoint(&mut self, log: &Log, count: usize) -> Result<()> {
        self.sync(log, count)?;
        self.covered = self.covered.max(count);
        log.release_before(self.end_of(self.covered))
    }

    /// Recovers, and compares: all that was synced is there, the rest is a prefix.
    fn recover(&self, disk: &SimDisk) -> Result<Recovered> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut count = self.covered;
        let mut done_before = 0;
        let from_sequence = FIRST_SEQUENCE + count as u64;
        let recovered = recover(
            &disk,
            dir(),
            DATABASE_ID,
            self.end_of(self.covered),
            from_sequence,
            &mut |done, total| {
                assert!(done_before <= done && done <= total);
                done_before = done;
            },
            &mut |sequence, payload| {
                assert_eq!(sequence, FIRST_SEQUENCE + count as u64);
                assert!(count < self.records.len(), "a record that was never appended");
                assert!(
                    self.records[count].0 == payload,
                    "record {count} of {} bytes differs: {} bytes",
                    self.records[count].0.len(),
                    payload.len()
                );
                count += 1;
                Ok(())
            },
        )?
        .undamaged()?;
        assert!(count >= self.synced, "{} of {} synced records are lost", self.synced - count, self.synced);
        // After the last record there are frames of openings at most, of 24 bytes.
        let openings = recovered.end_lsn.0.checked_sub(self.end_of(count).0);
        assert!(openings.is_some_and(|bytes| bytes % 24 == 0), "{openings:?}");
        assert_eq!(recovered.next_sequence, FIRST_SEQUENCE + count as u64);
        assert_eq!(recovered.record_count, (count - self.covered) as u64);
        Ok(recovered)
    }

    /// Recovers and goes on after what was found.
    fn reopen(&mut self, disk: &SimDisk, segment_bytes: usize) -> Result<Log> {
        let recovered = self.recover(disk)?;
        let log = Log::resume(Arc::new(disk.clone()), dir(), options(segment_bytes), &recovered)?;
        let count = (recovered.next_sequence - FIRST_SEQUENCE) as usize;
        self.records.truncate(count);
        self.synced = count;
        let opening = log.end_lsn().0 - recovered.end_lsn.0;
        assert!(opening == 0 || opening == 24, "a fresh segment, or the frame of an opening: {opening}");
        assert_eq!(log.durable_lsn(), log.end_lsn());
        Ok(log)
    }
}

fn create(disk: &SimDisk, segment_bytes: usize) -> Result<Log> {
    Log::create(Arc::new(disk.clone()), dir(), options(segment_bytes), FIRST_SEQUENCE)
}

fn random_length(random: &mut StdRng, segment_bytes: usize) -> usize {
    match random.random_range(0..10) {
        0 => 0,
        1..=6 => random.random_range(1..100),
        7 => random.random_range(100..segment_bytes),
        // Around the sizes at which a record fills a segment exactly.
        8 => segment_bytes - 200 + random.random_range(0..100),
        _ => random.random_range(segment_bytes..5 * segment_bytes),
    }
}

/// One random step of work.
fn random_step(random: &mut StdRng, log: &Log, model: &mut Model, segment_bytes: usize) -> Result<()> {
    match random.random_range(0..20) {
        0..=13 => model.append(log, random_length(random, segment_bytes)),
        14..=16 => {
            let count = random.random_range(model.covered..=model.records.len());
            model.sync(log, count)
        }
        17 => log.prepare_spare().map(|_| ()),
        18 => {
            let count = random.random_range(model.covered..=model.records.len());
            model.checkpoint(log, count)
        }
        _ => model.sync(log, model.records.len()),
    }
}

#[test]
fn holds_its_model_over_chains_of_crashes() {
    with_seeds(150, |seed| {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut disk = new_disk();
        let mut segment_bytes = 4096;
        let mut model = Model::default();
        let mut log = create(&disk, segment_bytes).unwrap();
        for _ in 0..random.random_range(1..12) {
            for _ in 0..random.random_range(0..60) {
                random_step(random, &log, &mut model, segment_bytes).unwrap();
                let stats = log.segments();
                assert!(stats.segment_count >= 1);
            }
            drop(log);
            disk = match random.random_range(0..5) {
                0 => disk.crash_with(CrashMode::LoseAll, 0),
                1 => disk.crash_with(CrashMode::KeepAll, 0),
                2 | 3 => disk.crash(random.random()),
                _ => {
                    model.synced = model.records.len();
                    disk.kill()
                }
            };
            segment_bytes = 4096 * random.random_range(1..4);
            log = model.reopen(&disk, segment_bytes).unwrap();
        }
    });
}

#[test]
fn keeps_every_appended_record_when_killed() {
    with_seeds(20, |seed| {
        let random = &mut StdRng::seed_from_u64(seed);
        let disk = new_disk();
        let mut model = Model::default();
        let log = create(&disk, 4096).unwrap();
        for _ in 0..50 {
            let length = random_length(random, 4096);
            model.append(&log, length).unwrap();
            let recovered = model.recover(&disk.kill()).unwrap();
            assert_eq!(recovered.end_lsn, log.end_lsn());
        }
    });
}

/// The work that is cut or made to fail at each of its steps.
fn script(random: &mut StdRng, disk: &SimDisk, model: &mut Model, is_new: bool) -> Result<()> {
    let log = if is_new { create(disk, 4096)? } else { model.reopen(disk, 4096)? };
    for _ in 0..40 {
        random_step(random, &log, model, 4096)?;
    }
    Ok(())
}

#[test]
fn loses_nothing_synced_wherever_the_power_goes() {
    with_seeds(3, |seed| {
        let disk = new_disk();
        let mut model = Model::default();
        script(&mut StdRng::seed_from_u64(seed), &disk, &mut model, true).unwrap();
        for step in 0..disk.steps() {
            let disk = new_disk();
            disk.cut_at(step);
            let mut model = Model::default();
            let cut = script(&mut StdRng::seed_from_u64(seed), &disk, &mut model, true);
            // A store cannot fail, so the script may end well if the power went at its last step.
            assert!(cut.is_err() || disk.power_is_off());
            let modes = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random];
            for (lot, mode) in modes.into_iter().enumerate() {
                let found = disk.crash_with(mode, seed ^ lot as u64);
                crash_again(&found, &mut model.clone(), seed ^ step << 3 ^ lot as u64);
            }
        }
    });
}

/// Opens what a crash left, works on, and crashes at some step of that too.
fn crash_again(disk: &SimDisk, model: &mut Model, seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    if model.records.is_empty() && model.recover(disk).is_err() {
        // The power went before `create` returned, so nothing relied on the log.
        create(disk, 4096).unwrap();
        return;
    }
    disk.cut_at(random.random_range(0..150));
    let _ = script(random, disk, model, false);
    for _ in 0..2 {
        let found = disk.crash(random.random());
        model.clone().reopen(&found, 4096).unwrap();
    }
}

fn assert_poisoned(log: &Log) {
    assert!(log.is_poisoned());
    let errors: [Result<()>; 4] = [
        log.append(u64::MAX, &[b"late"], Room::Common).map(|_| ()),
        log.sync(Lsn(0)),
        log.sync(log.end_lsn()),
        log.prepare_spare().map(|_| ()),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Poisoned);
    }
    let error = log.poison_error().unwrap();
    assert!(error.to_string().contains("reopen"), "{error}");
}

#[test]
fn stops_for_good_at_any_failed_step_but_lack_of_space() {
    with_seeds(2, |seed| {
        let disk = new_disk();
        let mut model = Model::default();
        script(&mut StdRng::seed_from_u64(seed), &disk, &mut model, true).unwrap();
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            for step in 0..disk.steps() {
                fail_once(seed, step, kind);
            }
        }
    });
}

fn fail_once(seed: u64, step: u64, kind: io::ErrorKind) {
    let random = &mut StdRng::seed_from_u64(seed);
    let disk = new_disk();
    disk.fail_at(step, kind);
    let mut model = Model::default();
    let Ok(log) = create(&disk, 4096) else {
        create(&disk, 4096).expect("a creation that failed can be tried again");
        return;
    };
    for _ in 0..40 {
        let before = model.records.len();
        let Err(error) = random_step(random, &log, &mut model, 4096) else {
            continue;
        };
        assert_eq!(model.records.len(), before);
        if log.is_poisoned() {
            // A failed sync for lack of space is no refusal, and still tells the cause.
            let is_cause = error.kind() != ErrorKind::Poisoned || error.to_string().contains("injected fault");
            assert!(is_cause && error.kind() != ErrorKind::Full, "the first error tells the cause: {error}");
            assert_poisoned(&log);
            break;
        }
        // Lack of space, or a file that could not be renamed or removed in a release: the log goes on.
        model.append(&log, 9000).unwrap();
    }
    drop(log);
    for found in [disk.kill(), disk.crash(seed), disk.crash(seed + 1)] {
        let mut model = model.clone();
        let log = model.reopen(&found, 4096).unwrap();
        // Also what a failed sync had left in doubt is safe now, as `reopen` counts all of it as synced.
        model.append(&log, 100).unwrap();
        for mode in [CrashMode::LoseAll, CrashMode::Random] {
            model.recover(&found.crash_with(mode, seed)).unwrap();
        }
    }
}

#[test]
fn a_full_disk_refuses_a_record_and_takes_it_later() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    model.append(&log, 3000).unwrap();
    disk.set_capacity(4096 + 3 * 4096);
    let error = model.append(&log, 20_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(!log.is_poisoned());
    let unfinished = |path: &PathBuf| path.ends_with("log-new.quipu");
    assert!(!disk.file_names().iter().any(unfinished));
    // What needs no segment goes on, and so does what the segments made before the failure have room for.
    model.append(&log, 10).unwrap();
    model.append(&log, 4000).unwrap();
    assert_eq!(model.append(&log, 20_000).unwrap_err().kind(), ErrorKind::Full);
    disk.set_capacity(u64::MAX);
    model.append(&log, 20_000).unwrap();
    model.sync(&log, model.records.len()).unwrap();
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    let recovered = model.recover(&found).unwrap();
    assert_eq!(recovered.next_sequence, FIRST_SEQUENCE + 4);
}

/// A record that would take many short files gets one that is long enough, and the files that are kept stay short.
#[test]
fn a_long_record_gets_a_file_of_its_length() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 64 << 10).unwrap();
    model.append(&log, 30_000).unwrap();
    let stats = log.segments();
    assert_eq!((stats.segment_count, stats.spare_count, stats.spare_bytes), (2, 2, 2 * 4096));
    assert_eq!(stats.segment_bytes, 4096 + (28 << 10));
    model.sync(&log, 1).unwrap();
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// A record whose length is not known from the start asks for room in steps.
#[test]
fn a_record_that_grows_step_by_step_gets_few_files() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 64 << 10).unwrap();
    let mut held = 0;
    for bytes in (0..=120_000).step_by(2_000) {
        if bytes > held {
            held = log.reserve(bytes, Room::Common).unwrap();
        }
    }
    let spare_count = log.segments().spare_count;
    assert!(spare_count <= 22, "{spare_count}");
    model.append(&log, 120_000).unwrap();
    model.sync(&log, 1).unwrap();
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// What may never come takes no space that is needed.
#[test]
fn files_for_an_expected_record_leave_the_last_space_of_a_disk() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 64 << 10).unwrap();
    model.append(&log, 1_000).unwrap();
    log.prepare_spare().unwrap();
    let free_bytes = 40 << 10;
    disk.set_capacity(disk.used_bytes() + free_bytes);
    log.expect_record(1 << 20);
    // One short file may have been made where a long one had no space.
    let before = disk.used_bytes();
    let _ = log.prepare_spare();
    assert!(disk.used_bytes() - before <= 2 * 4096, "{} bytes", disk.used_bytes() - before);
    model.sync(&log, 1).unwrap();
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// Files are made while a transaction grows. Its record then makes none.
#[test]
fn an_expected_record_finds_its_files_made() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 64 << 10).unwrap();
    log.expect_record(20_000);
    log.expect_record(30_000);
    assert!(log.prepare_spare().unwrap() && !log.prepare_spare().unwrap());
    let files = disk.file_names();
    model.append(&log, 30_000).unwrap();
    assert_eq!(disk.file_names(), files);
    // It may not come: no more is made than two of the longest files hold, beside those that are kept.
    log.expect_record(1 << 30);
    assert!(log.prepare_spare().unwrap());
    let spare_bytes = log.segments().spare_bytes;
    assert!((128 << 10..=(5 * 64) << 10).contains(&spare_bytes), "{spare_bytes}");
    model.sync(&log, 1).unwrap();
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// The log has grown to long files, and the disk has no space for another: the next ones are short.
#[test]
fn where_a_long_file_has_no_space_a_short_one_is_made() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 64 << 10).unwrap();
    for _ in 0..100 {
        model.append(&log, 4000).unwrap();
    }
    assert_eq!(log.prepare_step_bytes(), (64 << 10) / 16);
    disk.set_capacity(disk.used_bytes() + (20 << 10));
    let before = model.records.len();
    while model.append(&log, 4000).is_ok() {}
    // The two long files that were kept, and four of the five short ones.
    assert!(model.records.len() > before + 30 && log.segments().spare_bytes <= 2 * 4096);
    model.checkpoint(&log, model.records.len()).unwrap();
    for _ in 0..10 {
        model.append(&log, 4000).unwrap();
    }
    model.sync(&log, model.records.len()).unwrap();
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// After a failed sync and a reopening, bytes that the system holds in memory only must not pass for durable ones.
#[test]
fn what_a_failed_sync_left_in_doubt_is_written_again() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    for _ in 0..30 {
        model.append(&log, 300).unwrap();
    }
    disk.fail_at(disk.steps(), io::ErrorKind::Other);
    assert_eq!(log.sync(log.end_lsn()).unwrap_err().kind(), ErrorKind::Io);
    assert_poisoned(&log);
    drop(log);
    model.synced = 30;
    let disk = disk.kill();
    drop(model.reopen(&disk, 4096).unwrap());
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

#[test]
fn released_segments_are_used_again_and_few_are_kept() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    for round in 0..20 {
        for _ in 0..40 {
            model.append(&log, 400).unwrap();
        }
        model.checkpoint(&log, model.records.len()).unwrap();
        let stats = log.segments();
        assert_eq!(stats.segment_count, 1, "round {round}");
        assert_eq!(stats.spare_count, 3);
        assert_eq!(disk.file_names().len(), 4);
        assert_eq!(stats.segment_bytes + stats.spare_bytes, 4 * 4096);
    }
    // With a spare there is nothing to allocate: the disk may be as full as it likes. Two are kept for that.
    disk.set_capacity(4 * 4096);
    model.append(&log, 3000).unwrap();
    assert_eq!(log.segments().spare_count, 2);
    assert_eq!(model.append(&log, 5000).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(log.segments().spare_count, 2);
    model.checkpoint(&log, model.records.len()).unwrap();
    assert!(log.prepare_spare().unwrap());
    assert!(!log.prepare_spare().unwrap());
    model.recover(&disk.crash_with(CrashMode::LoseAll, 0)).unwrap();
}

/// The checkpoint ends where a segment ends, and the next one was entered after the last sync: with the segment before
/// gone, its header must not be lost.
#[test]
fn a_checkpoint_at_the_end_of_a_segment_keeps_the_next_header() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    model.append(&log, 4096 - 128 - 24).unwrap();
    model.sync(&log, 1).unwrap();
    model.append(&log, 10).unwrap();
    model.checkpoint(&log, 1).unwrap();
    assert_eq!(log.segments().segment_count, 1);
    // Renames the segment before, for good.
    log.prepare_spare().unwrap();
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    model.recover(&found).unwrap();
}

#[test]
fn a_release_syncs_what_the_checkpoint_names() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    for _ in 0..20 {
        model.append(&log, 1000).unwrap();
    }
    model.covered = 15;
    log.release_before(model.end_of(15)).unwrap();
    assert!(log.durable_lsn() >= model.end_of(15));
    let found = disk.crash_with(CrashMode::LoseAll, 0);
    drop(model.reopen(&found, 4096).unwrap());
}

#[test]
fn a_segment_that_cannot_be_made_stops_the_log() {
    for step in 0..5 {
        let disk = new_disk();
        let log = create(&disk, 4096).unwrap();
        disk.fail_at(disk.steps() + step, io::ErrorKind::Other);
        assert_eq!(log.prepare_spare().unwrap_err().kind(), ErrorKind::Io);
        assert_poisoned(&log);
    }
}

/// Every bit of a synced log, flipped: never a wrong record, never a panic, and damage only goes unnoticed after the
/// last point that a later record claims to be durable.
#[test]
fn a_flipped_bit_is_noticed() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    let lengths = [0, 1, 40, 700, 3000, 8, 333, 5000, 64, 2000, 17, 90, 500];
    // The last segment has records enough to tell of one another.
    let mut claimed = 0;
    for length in lengths.into_iter().chain([300, 10, 201, 100, 35, 60]) {
        claimed = model.synced;
        model.append(&log, length).unwrap();
        if length % 2 == 0 {
            model.sync(&log, model.records.len()).unwrap();
        }
    }
    log.prepare_spare().unwrap();
    drop(log);
    // What was durable when the last record was written; nothing tells of what became durable later.
    model.synced = claimed;
    assert_eq!(claimed, 17);
    let disk = disk.kill();
    model.recover(&disk).unwrap();
    let mut noticed = 0;
    for path in disk.file_names() {
        for bit in 0..4096 * 8 {
            disk.flip_bit(&path, bit);
            match model.recover(&disk) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    noticed += 1;
                }
            }
            disk.flip_bit(&path, bit);
        }
    }
    let used_bits = model.end_of(model.synced).0 * 8;
    assert!(noticed >= used_bits, "{noticed} of {used_bits} bits");
}

/// `visit` may fail; its error comes back as it is.
#[test]
fn an_error_of_the_visitor_ends_recovery() {
    let disk = new_disk();
    let mut model = Model::default();
    let log = create(&disk, 4096).unwrap();
    model.append(&log, 10).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let error = recover(&disk, dir(), DATABASE_ID, Lsn(0), FIRST_SEQUENCE, &mut |_, _| {}, &mut |_, _| {
        Err(Error::new(ErrorKind::Invalid, "no such table"))
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
}
