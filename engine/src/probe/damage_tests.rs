//! Goal: whatever happens to the bytes of a run, it is noticed, and no row is told that was not written. Forged bytes,
//! whose checksums are right, may be refused or make another sound run, and never a panic. Method: every bit of a small
//! run inverted; every truncation; every byte changed and the checksums made right again; a crash at every step of
//! writing.

use std::ops::Range;
use std::path::Path;

use super::tests::{ALL_MEASURES, Model, PATH, bytes_of, new_disk, write};
use super::*;
use crate::compression::Compression;
use crate::error::ErrorKind;
use crate::io::sim::{CrashMode, SimDisk};
use crate::run::format::{FOOTER_BYTES, VERSION};
use crate::run::place::UnitPlace;
use crate::run::{RunFile, RunOptions};

/// Several leaves under one root, with a long key, a long value and an empty one.
fn small_model() -> Model {
    let mut model: Model =
        (0..24u32).map(|n| (format!("row {n:03}").into_bytes(), vec![n as u8; n as usize])).collect();
    model.insert(b"row 007 has a key that is too long for its page".to_vec(), b"seven".to_vec());
    model.insert(b"row 009+".to_vec(), vec![9; 333]);
    model
}

fn small_options() -> RunOptions {
    RunOptions { page_bytes: 256, measures: ALL_MEASURES, table_id: 1, run_id: 2, ..RunOptions::default() }
}

/// The bytes of the small run as they are, and packed.
fn small_runs() -> [Vec<u8>; 2] {
    [Compression::None, Compression::Lz4].map(|compression| {
        let bytes = bytes_of(&small_model(), RunOptions { compression, ..small_options() });
        assert!((1500..6000).contains(&bytes.len()), "{} bytes", bytes.len());
        bytes
    })
}

/// Who notices damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noticed {
    Nobody,
    /// The checker; a scan, which needs no filter, gives all rows.
    Checker,
    /// Both, or it is refused at opening.
    All,
}

/// Whether the bytes are refused at opening, or else by the checker and by a scan, after rows that were written.
fn is_noticed(bytes: Vec<u8>, model: &Model) -> bool {
    noticed(bytes, model) == Noticed::All
}

fn noticed(bytes: Vec<u8>, model: &Model) -> Noticed {
    let disk = SimDisk::new();
    disk.write_file(PATH, bytes);
    let run = match RunFile::open(&disk, Path::new(PATH)) {
        Ok(run) => run,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            return Noticed::All;
        }
    };
    let mut rows = model.iter();
    let scanned = run.scan(&mut |_| (), &mut |key, value| {
        assert_eq!(rows.next(), Some((&key.to_vec(), &value.to_vec())));
        Ok(())
    });
    let report = run.check(&mut |_| ());
    match scanned {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_ne!(report.faults, [""; 0], "{error}");
            Noticed::All
        }
        Ok(()) => {
            assert_eq!(rows.next(), None);
            if report.faults.is_empty() { Noticed::Nobody } else { Noticed::Checker }
        }
    }
}

#[test]
fn every_inverted_bit_is_noticed() {
    small_runs().into_iter().for_each(invert_every_bit);
}

fn invert_every_bit(bytes: Vec<u8>) {
    let model = small_model();
    assert_eq!(noticed(bytes.clone(), &model), Noticed::Nobody);
    let filters: Vec<Range<usize>> =
        sealed(&bytes).iter().filter(|part| part.is_filter).map(|part| part.start..part.end).collect();
    assert!(!filters.is_empty());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let is_in_filter = filters.iter().any(|filter| filter.contains(&(bit / 8)));
        let expected = if is_in_filter { Noticed::Checker } else { Noticed::All };
        assert_eq!(noticed(damaged, &model), expected, "bit {} of byte {}", bit % 8, bit / 8);
    }
}

#[test]
fn every_truncation_and_every_addition_is_noticed() {
    let model = small_model();
    for bytes in small_runs() {
        cut_and_add(&bytes, &model);
    }
}

fn cut_and_add(bytes: &[u8], model: &Model) {
    for len in 0..bytes.len() {
        assert!(is_noticed(bytes[..len].to_vec(), model), "cut to {len}");
    }
    let longer = [bytes, &[0]].concat();
    assert!(is_noticed(longer, model));
    let footer = &bytes[bytes.len() - FOOTER_BYTES..];
    assert!(is_noticed([bytes, footer].concat(), model), "a second footer");
}

/// A leaf that stands where another one should be: bytes of another time, or read from elsewhere.
#[test]
fn a_swapped_page_is_noticed() {
    let model: Model = (0..60u32).map(|n| (n.to_be_bytes().to_vec(), vec![1; 8])).collect();
    let options = RunOptions { page_bytes: 256, ..RunOptions::default() };
    let bytes = bytes_of(&model, options);
    let places = leaf_places(&bytes);
    let (a, b) = (places[1].pointer, places[2].pointer);
    assert_eq!(a.length, b.length);
    let (a, b, length) = (a.offset as usize, b.offset as usize, a.length as usize);
    let mut swapped = bytes.clone();
    swapped[a..a + length].copy_from_slice(&bytes[b..b + length]);
    swapped[b..b + length].copy_from_slice(&bytes[a..a + length]);
    assert!(is_noticed(swapped, &model));
}

#[test]
fn the_checker_goes_on_after_damage() {
    let model: Model = (0..200u32).map(|n| (n.to_be_bytes().to_vec(), vec![1; 8])).collect();
    let options = RunOptions { page_bytes: 256, ..RunOptions::default() };
    let mut bytes = bytes_of(&model, options);
    let places = leaf_places(&bytes);
    let mut lost = 0;
    for number in [1, 4] {
        bytes[places[number].pointer.offset as usize + 40] ^= 4;
        lost += (places[number].until.entries - places[number].before.entries) as u64;
    }
    let report = check_bytes(&bytes).unwrap();
    assert_eq!(report.faults.len(), 2, "{:?}", report.faults);
    assert_eq!(report.entries, 200 - lost);
}

/// The places of all leaves of a sound run.
fn leaf_places(bytes: &[u8]) -> Vec<UnitPlace> {
    let sealed = sealed(bytes);
    sealed.into_iter().filter_map(|sealed| sealed.place.filter(|place| place.level == 0)).collect()
}

/// Bytes under a checksum.
struct Sealed {
    start: usize,
    end: usize,
    checksum_at: usize,
    /// Of a unit.
    place: Option<UnitPlace>,
    is_filter: bool,
}

/// All bytes of a sound run that lie under a checksum which stands elsewhere, in the order of the file, so that what
/// holds the checksum comes later; then the footer.
fn sealed(bytes: &[u8]) -> Vec<Sealed> {
    let disk = SimDisk::new();
    disk.write_file(PATH, bytes);
    let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
    let footer_at = bytes.len() - FOOTER_BYTES;
    let mut found = Vec::new();
    collect_sealed(&run, &run.root().unwrap(), footer_at + 36, &mut found);
    let checksum_at = bytes.len() - 4;
    found.push(Sealed { start: footer_at, end: checksum_at, checksum_at, place: None, is_filter: false });
    found
}

fn collect_sealed(run: &RunFile, place: &UnitPlace, checksum_at: usize, found: &mut Vec<Sealed>) {
    let unit = run.load(place).unwrap();
    let (start, end) = (place.pointer.offset as usize, place.end() as usize);
    if place.level > 0 {
        let page = run.inner(&unit);
        for position in 0..page.count() {
            let at = page.checksum_at(position).expect("checksums have whole bytes");
            collect_sealed(run, &run.child(place, &page, position), start + at, found);
        }
        for (number, part) in page.filters().enumerate() {
            let pointer = run.filter_at(place, &page, &part);
            let (filter_start, end) = (pointer.offset as usize, pointer.end().unwrap() as usize);
            let checksum_at = start + page.filter_checksum_at(number);
            found.push(Sealed { start: filter_start, end, checksum_at, place: None, is_filter: true });
        }
    } else if unit.as_slice().len() == end - start {
        // In a packed leaf the checksums of its values have no place of their own.
        let page = unit.leaf();
        for position in 0..page.count() {
            let value = page.leaf_record(position).value;
            if page.leaf_record(position).value_is_out() {
                let reference = run.reference(place, value).unwrap();
                let at = value.as_ptr().addr() - unit.as_slice().as_ptr().addr() + 16;
                found.push(Sealed {
                    start: reference.offset as usize,
                    end: reference.end().unwrap() as usize,
                    checksum_at: start + at,
                    place: None,
                    is_filter: false,
                });
            }
        }
    }
    found.push(Sealed { start, end, checksum_at, place: Some(*place), is_filter: false });
}

/// Makes all checksums right.
fn reseal(bytes: &mut [u8], sealed: &[Sealed]) {
    for part in sealed {
        let checksum = crc32c::crc32c(&bytes[part.start..part.end]);
        bytes[part.checksum_at..][..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

#[test]
fn forged_bytes_are_never_a_panic() {
    small_runs().into_iter().for_each(forge_every_byte);
}

fn forge_every_byte(bytes: Vec<u8>) {
    let sealed = sealed(&bytes);
    let mut refused = 0;
    for at in 32..bytes.len() {
        for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff, 0x7f, 0x81] {
            let mut forged = bytes.clone();
            forged[at] ^= change;
            reseal(&mut forged, &sealed);
            // Panics if an answer contradicts the checker.
            let checked = check_bytes(&forged);
            refused += usize::from(checked.map_or(true, |report| !report.faults.is_empty()));
        }
    }
    // The rest are other rows, in order, with the tallies that are theirs.
    println!("{refused} of {} refused", 11 * (bytes.len() - 32));
    assert!(refused > 9 * (bytes.len() - 32));
}

/// A filter with the right checksum that denies keys would make rows vanish from `get`, and from nothing else.
#[test]
fn a_filter_that_denies_a_key_is_noticed() {
    let bytes = bytes_of(&small_model(), small_options());
    let sealed = sealed(&bytes);
    let filter = sealed.iter().find(|part| part.is_filter).unwrap();
    let mut forged = bytes.clone();
    forged[filter.start..filter.start + 8].copy_from_slice(&[7; 8]);
    reseal(&mut forged, &sealed);
    let faults = check_bytes(&forged).unwrap().faults;
    assert!(faults.len() > 20 && faults[0].contains("says that it is not there"), "{faults:?}");
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let bytes = bytes_of(&small_model(), small_options());
    let mut newer = bytes.clone();
    newer[8] = VERSION as u8 + 1;
    let checksum = crc32c::crc32c(&newer[..28]);
    newer[28..32].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(check_bytes(&newer).unwrap_err().kind(), ErrorKind::Version);
    let mut newer = bytes;
    let footer_at = newer.len() - FOOTER_BYTES;
    let sealed = sealed(&newer);
    newer[footer_at + 8] = VERSION as u8 + 1;
    reseal(&mut newer, &sealed);
    assert_eq!(check_bytes(&newer).unwrap_err().kind(), ErrorKind::Version);
}

#[test]
fn a_crash_while_writing_leaves_nothing_that_is_trusted() {
    // Larger than the writer's buffer, so that there are several steps.
    let model: Model = (0..30u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 100_000])).collect();
    let whole = bytes_of(&model, small_options());
    let mut finished = false;
    let mut step = 0;
    while !finished {
        let disk = new_disk();
        disk.cut_at(step);
        finished = write(&disk, &model, small_options()).is_ok();
        for seed in 0..6 {
            let mode = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random][seed as usize % 3];
            let after = disk.crash_with(mode, seed);
            let Some(bytes) = after.read_file(PATH) else {
                continue;
            };
            // All there or noticed; only what was finished is named by a manifest.
            let all_there = bytes == whole;
            assert!(all_there || is_noticed(bytes, &model), "step {step}, seed {seed}");
        }
        step += 1;
    }
    assert!(step > 5);
}

#[test]
fn a_full_disk_is_an_error() {
    let disk = new_disk();
    disk.set_capacity(5000);
    let model: Model = (0..500u32).map(|n| (n.to_be_bytes().to_vec(), vec![1; 20])).collect();
    assert_eq!(write(&disk, &model, small_options()).unwrap_err().kind(), ErrorKind::Full);
}
