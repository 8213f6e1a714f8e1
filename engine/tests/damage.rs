//! Goal: damage at rest is never a wrong answer: opening fails and names the file, or the state is one that the
//! database promised. Method: a small database with a checkpoint and a log after it; every bit flipped, every file cut
//! at every length, files removed, versions raised. What may be lost without a word is only what nothing later claims
//! to have been durable: see `docs/internals/format-log.md`, "Reading". Replay: the failing case is named in the panic;
//! the database is always the same.

use crate::crash_support::{DIR, Image, TableImage, options, verify};
use quipu::files::check;
use quipu::io::sim::SimDisk;
use quipu::{Db, ErrorKind, Measures, Options, SumField, Table, TableOptions, WritableTable};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The database: its disk at rest, the states after each commit, and where in the log each commit ends.
struct Specimen {
    disk: SimDisk,
    images: Vec<Image>,
    /// Of each commit after the checkpoint: its number, the segment that holds its end, the offset there.
    ends: Vec<(usize, PathBuf, u64)>,
    checkpoint_sequence: usize,
    /// Where the checkpoint lies in the log: the segment, the offset there.
    checkpoint_at: (PathBuf, u64),
}

impl Specimen {
    fn last(&self) -> usize {
        self.images.len() - 1
    }

    /// The log segment that is written last.
    fn last_segment(&self) -> &Path {
        &self.ends.last().expect("commits").1
    }

    /// How far a file is used.
    fn used_bytes(&self, path: &Path) -> u64 {
        let len = self.disk.read_file(path).expect("a file").len() as u64;
        if !is_log(path) {
            return len;
        }
        used_bytes(&self.disk, path)
    }
}

fn is_log(path: &Path) -> bool {
    name_of(path).starts_with("log-")
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn used_bytes(disk: &SimDisk, path: &Path) -> u64 {
    let bytes = disk.read_file(path).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    end.next_multiple_of(8) as u64
}

/// The segment that holds the end of the log: the newest that has a header.
fn newest_segment(disk: &SimDisk) -> PathBuf {
    let is_entered = |path: &&PathBuf| {
        is_log(path)
            && !name_of(path).starts_with("log-spare")
            && disk.read_file(path).unwrap().starts_with(b"QuipuLog")
    };
    disk.file_names().iter().rfind(is_entered).expect("a segment").clone()
}

fn put(db: &Db, image: &mut Image, table: &Table, key: &str, value: &[u8]) {
    table.put(key, value).unwrap();
    Rc::make_mut(&mut image.get_mut(table.name()).unwrap().rows).insert(key.into(), value.to_vec());
    assert!(db.stats().sequence > 0);
}

fn specimen() -> Specimen {
    let disk = SimDisk::new();
    let db = Db::open(DIR, options(&disk)).unwrap();
    let mut images = vec![Image::new()];
    let mut image = Image::new();
    let measures = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    let declared = [
        ("left", TableOptions::default()),
        ("right", TableOptions { measures, metadata: b"a note".to_vec(), ..TableOptions::default() }),
    ];
    let mut tables = BTreeMap::new();
    for (name, options) in declared {
        tables.insert(name, db.create_table(name, options.clone()).unwrap());
        image.insert(name.into(), TableImage { options, rows: Rc::default() });
        images.push(image.clone());
    }
    for number in 0..6 {
        put(&db, &mut image, &tables["left"], &format!("key {number}"), b"value");
        images.push(image.clone());
        put(&db, &mut image, &tables["right"], &format!("{number}"), &[number + 1; 9]);
        images.push(image.clone());
    }
    put(&db, &mut image, &tables["right"], "long", &[9; 100]);
    images.push(image.clone());
    let checkpoint_sequence = db.checkpoint().unwrap().sequence as usize;
    let path = newest_segment(&disk);
    let checkpoint_at = (path.clone(), used_bytes(&disk, &path));
    let mut ends = Vec::new();
    // The tail spans segments: a record of 7000 bytes goes over the end of the first.
    for (number, len) in [3, 30, 200, 1200, 7000, 5, 60, 17].into_iter().enumerate() {
        let table = &tables[["left", "right"][number % 2]];
        put(&db, &mut image, table, &format!("tail {number}"), &vec![number as u8 + 1; len]);
        images.push(image.clone());
        let path = newest_segment(&disk);
        let end = used_bytes(&disk, &path);
        ends.push((images.len() - 1, path, end));
    }
    drop((tables, db));
    assert_eq!(ends.iter().map(|end| &end.1).collect::<std::collections::BTreeSet<_>>().len(), 2);
    Specimen { disk: disk.kill(), images, ends, checkpoint_sequence, checkpoint_at }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// The state after this commit.
    Opened(usize),
    Refused(ErrorKind),
}

/// Opens a copy of the disk. Whatever comes is right, or an error that names the file.
fn open(specimen: &Specimen, disk: &SimDisk, path: &Path, at_least: usize, read_only: bool) -> Outcome {
    let disk = disk.kill();
    match Db::open(DIR, Options { read_only, ..options(&disk) }) {
        Ok(db) => {
            let sequence = db.stats().sequence as usize;
            verify(&db, &specimen.images[sequence]);
            if !read_only || db.damage().is_none() {
                assert!(sequence >= at_least, "commits {} to {at_least} are lost without a word", sequence + 1);
            }
            if let Some(damage) = db.damage() {
                assert!(read_only && damage.contains("log"), "{damage}");
            }
            Outcome::Opened(sequence)
        }
        Err(error) => {
            let text = error.to_string();
            let names_it = text.contains(name_of(path)) || is_log(path) && text.contains("log-");
            assert!(names_it, "{} is not named: {text}", name_of(path));
            Outcome::Refused(error.kind())
        }
    }
}

/// All ways to look at a damaged disk agree, and none panics.
fn examine(specimen: &Specimen, disk: &SimDisk, path: &Path, at_least: usize, closely: bool) -> Outcome {
    let outcome = open(specimen, disk, path, at_least, false);
    if let Outcome::Refused(kind) = outcome {
        assert_eq!(kind, ErrorKind::Corrupt);
    }
    if !closely {
        return outcome;
    }
    let report = check(DIR, &options(&disk.kill()), &mut |_| ());
    match outcome {
        Outcome::Opened(_) => assert_eq!(report.unwrap().faults, [""; 0]),
        Outcome::Refused(_) => match report {
            Ok(report) => {
                assert!(!report.faults.is_empty(), "`check` finds nothing");
                let named = report
                    .faults
                    .iter()
                    .any(|fault| fault.contains(name_of(path)) || is_log(path) && fault.contains("log-"));
                assert!(named, "{} is not named: {:?}", name_of(path), report.faults);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Missing, "{error}"),
        },
    }
    // A damaged log can be read up to the damage; everything else cannot be done without.
    match (open(specimen, disk, path, at_least, true), outcome) {
        (Outcome::Opened(sequence), Outcome::Opened(expected)) => assert_eq!(sequence, expected),
        (Outcome::Opened(sequence), Outcome::Refused(_)) => {
            assert!(is_log(path) && sequence >= specimen.checkpoint_sequence);
        }
        (Outcome::Refused(kind), Outcome::Refused(expected)) => {
            assert!(kind == expected && !is_log(path) || kind == ErrorKind::Missing, "{kind:?}");
        }
        (refused, Outcome::Opened(_)) => panic!("read-only: {refused:?}"),
    }
    outcome
}

/// Tells where a panic came from.
fn case(name: impl Fn() -> String, test: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(test)).unwrap_or_else(|panic| {
        eprintln!("the case is: {}", name());
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn every_flipped_bit_is_noticed_or_harmless() {
    let specimen = specimen();
    let last = specimen.last();
    let paths = specimen.disk.file_names();
    let [.., (_, _, start), (_, _, end)] = specimen.ends[..] else { panic!("two commits") };
    for path in &paths {
        let used = specimen.used_bytes(path);
        // A bit after the used part of the log is as good as one at its end.
        for bit in 0..(used + 16).min(specimen.disk.read_file(path).unwrap().len() as u64) * 8 {
            // The payload of 7000 bytes is much of the same.
            if is_log(path) && (3000..8000).contains(&(bit / 8)) && bit % 37 != 0 {
                continue;
            }
            let disk = specimen.disk.kill();
            disk.flip_bit(path, bit);
            let closely = bit / 8 % 8 == bit % 8;
            // Only the last record has none after it that claims it.
            let outcome = case(
                || format!("bit {} of byte {} of {}", bit % 8, bit / 8, path.display()),
                || examine(&specimen, &disk, path, last - 1, closely),
            );
            match outcome {
                Outcome::Refused(_) => {}
                Outcome::Opened(sequence) => {
                    let byte = bit / 8;
                    let is_last_record = path == specimen.last_segment() && (start..end).contains(&byte);
                    let is_unread = path == specimen.last_segment() && byte >= end
                        || *path == specimen.checkpoint_at.0 && (128..specimen.checkpoint_at.1).contains(&byte)
                        || is_log(path) && used == 0;
                    assert!(is_last_record || is_unread, "byte {byte} of {} does not matter", path.display());
                    assert_eq!(sequence < last, is_last_record, "byte {byte} of {}", path.display());
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed_or_harmless() {
    let specimen = specimen();
    for path in specimen.disk.file_names() {
        let bytes = specimen.disk.read_file(&path).unwrap();
        let used = specimen.used_bytes(&path) as usize;
        for len in (0..bytes.len()).filter(|len| *len <= used + 16 || len % 509 == 0) {
            let disk = specimen.disk.kill();
            disk.write_file(&path, &bytes[..len]);
            // With the last segment cut, the claims in its rest are gone too: what ends before the cut stays.
            let whole = specimen.ends.iter().filter(|(_, file, end)| *file != path || *end <= len as u64).count();
            let cut_last = path == specimen.last_segment();
            let at_least = if cut_last { specimen.checkpoint_sequence + whole } else { specimen.last() - 1 };
            let outcome = case(
                || format!("{} cut to {len} of {used} used bytes", path.display()),
                || examine(&specimen, &disk, &path, at_least.min(specimen.last() - 1), len % 7 == 0),
            );
            if let Outcome::Opened(_) = outcome {
                assert!(is_log(&path) || bytes.is_empty(), "{} cut to {len} bytes opens", path.display());
            }
        }
    }
}

fn without(specimen: &Specimen, gone: impl Fn(&str) -> bool) -> SimDisk {
    let disk = SimDisk::new();
    for path in specimen.disk.file_names() {
        if !gone(name_of(&path)) {
            disk.write_file(&path, specimen.disk.read_file(&path).unwrap());
        }
    }
    disk
}

#[test]
fn every_missing_file_is_noticed() {
    let specimen = specimen();
    for path in specimen.disk.file_names() {
        let name = name_of(&path).to_owned();
        let disk = without(&specimen, |other| other == name);
        let outcome = open(&specimen, &disk, &path, specimen.checkpoint_sequence, false);
        let used = specimen.used_bytes(&path) > 0;
        match outcome {
            Outcome::Refused(kind) => assert_eq!(kind, ErrorKind::Corrupt, "{name}"),
            // The lock, the spare files and the end of the log: of the latter nothing tells.
            Outcome::Opened(sequence) => {
                let cut = path == specimen.last_segment();
                assert!(name == "LOCK" || !used || name.starts_with("log-spare") || cut, "{name}");
                assert_eq!(sequence == specimen.last(), !cut, "{name}");
            }
        }
        if let Outcome::Refused(_) = outcome
            && name != "MANIFEST"
        {
            let report = check(DIR, &options(&disk), &mut |_| ()).unwrap();
            assert!(report.faults.iter().any(|fault| fault.contains(&name) || is_log(&path)), "{:?}", report.faults);
        }
    }
    // No new database is made where there was one.
    for gone in
        [&["MANIFEST"][..], &["MANIFEST", "log-"], &["MANIFEST", "run-"], &["log-"], &["run-"], &["log-", "run-"]]
    {
        let disk = without(&specimen, |name| gone.iter().any(|prefix| name.starts_with(prefix)));
        let before = disk.file_names();
        let error = Db::open(DIR, options(&disk)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "without {gone:?}: {error}");
        let mut after = disk.file_names();
        after.retain(|path| before.contains(path));
        assert_eq!(after, before, "files were removed");
    }
}

/// Two files swapped are as damaged as any.
#[test]
fn swapped_runs_are_noticed() {
    let specimen = specimen();
    let runs: Vec<PathBuf> =
        specimen.disk.file_names().into_iter().filter(|path| name_of(path).starts_with("run-")).collect();
    let disk = specimen.disk.kill();
    disk.write_file(&runs[0], specimen.disk.read_file(&runs[1]).unwrap());
    disk.write_file(&runs[1], specimen.disk.read_file(&runs[0]).unwrap());
    assert_eq!(Db::open(DIR, options(&disk)).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!check(DIR, &options(&disk.kill()), &mut |_| ()).unwrap().faults.is_empty());
}

/// A segment of another database is not damage: a file was moved.
#[test]
fn a_log_of_another_database_is_refused() {
    let (specimen, other) = (specimen(), specimen());
    let disk = specimen.disk.kill();
    let path = specimen.last_segment();
    disk.write_file(path, other.disk.read_file(path).unwrap());
    let error = Db::open(DIR, options(&disk)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(name_of(path)), "{error}");
}

/// Damage in the middle of the log: writing is refused, reading goes up to it and says so.
#[test]
fn a_log_damaged_in_the_middle_is_read_up_to_the_damage() {
    let specimen = specimen();
    for at in 0..specimen.ends.len() - 1 {
        let (number, path, end) = &specimen.ends[at];
        let disk = specimen.disk.kill();
        disk.flip_bit(path, (end - 12) * 8);
        let error = Db::open(DIR, options(&disk.kill())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("read-only"), "{error}");
        let before: Vec<_> = disk.file_names().iter().map(|path| disk.read_file(path)).collect();
        let db = Db::open(DIR, Options { read_only: true, ..options(&disk) }).unwrap();
        assert!(db.damage().is_some_and(|damage| damage.contains("damaged")), "{:?}", db.damage());
        assert_eq!(db.stats().sequence as usize, number - 1);
        verify(&db, &specimen.images[number - 1]);
        let table = &db.tables()[0];
        assert_eq!(table.put("k", "v").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(db.checkpoint().unwrap_err().kind(), ErrorKind::ReadOnly);
        drop((db.clone(), db));
        let after: Vec<_> = disk.file_names().iter().map(|path| disk.read_file(path)).collect();
        assert_eq!(before, after, "a read-only opening has changed something");
    }
}

/// The version counts only under a checksum that holds.
#[test]
fn newer_versions_are_refused_as_such() {
    let specimen = specimen();
    for path in specimen.disk.file_names() {
        let mut bytes = specimen.disk.read_file(&path).unwrap();
        let (checksum_at, checked_to) = match name_of(&path) {
            "MANIFEST" => (12, bytes.len()),
            name if name.starts_with("run-") => (28, 28),
            _ if bytes.starts_with(b"QuipuLog") && !name_of(&path).starts_with("log-spare") => (124, 124),
            _ => continue,
        };
        bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
        let mut checksum = crc32c::crc32c(&bytes[..checksum_at]);
        if checked_to > checksum_at {
            checksum = crc32c::crc32c_append(checksum, &bytes[checksum_at + 4..]);
        }
        bytes[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
        let disk = specimen.disk.kill();
        disk.write_file(&path, bytes);
        for read_only in [false, true] {
            let outcome = open(&specimen, &disk, &path, specimen.last(), read_only);
            assert_eq!(outcome, Outcome::Refused(ErrorKind::Version), "{}", path.display());
        }
        let error = check(DIR, &options(&disk.kill()), &mut |_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version, "{}", path.display());
    }
}
