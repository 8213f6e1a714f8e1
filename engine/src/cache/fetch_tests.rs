//! Goal: pieces that come together are what they are alone, damage and bad places are told of those that have them, and
//! reads are few. Method: random choices of the pieces of a run with nodes, filters, leaves and long values, fetched
//! together and one by one, over a disk with an unreadable stretch or an inverted bit anywhere; reads counted by the
//! simulated disk. Replay: SEED=... cargo test -p quipu run::fetch_tests

use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::fetch::Wanted;
use super::*;
use crate::error::ErrorKind;
use crate::io::sim::SimDisk;
use crate::probe::tests::{Model, PATH, new_disk, write};
use crate::probe::{Limits, RunLayer};
use crate::run::loaded::Loaded;
use crate::run::place::UnitPlace;
use crate::run::{Part, Run, RunFile, RunOptions, RunWriter};
use crate::stack::{Cut, Layer, LayerWalk};
use crate::tree::Side;

fn new_run(count: u32, value_len: impl Fn(u32) -> usize) -> (SimDisk, Arc<RunFile>) {
    let disk = new_disk();
    let model: Model = (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; value_len(n)])).collect();
    write(&disk, &model, RunOptions { page_bytes: 256, ..RunOptions::default() }).unwrap();
    let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
    (disk, Arc::new(run))
}

/// All pieces of a run, in the order of the file, and where each begins and ends.
fn pieces(run: &RunFile) -> Vec<(Wanted, u64, u64)> {
    let mut found = Vec::new();
    collect(run, &run.root().unwrap(), &mut found);
    found
}

fn collect(run: &RunFile, place: &UnitPlace, found: &mut Vec<(Wanted, u64, u64)>) {
    let unit = run.load(place).unwrap();
    if place.level > 0 {
        let page = run.inner(&unit);
        for position in 0..page.count() {
            collect(run, &run.child(place, &page, position), found);
        }
        for part in page.filters() {
            let pointer = run.filter_at(place, &page, &part);
            found.push((Wanted::Filter(pointer), pointer.offset, pointer.end().unwrap()));
        }
    } else {
        let leaf = unit.leaf();
        for record in (0..leaf.count()).map(|position| leaf.leaf_record(position)).filter(|row| row.value_is_out()) {
            let reference = run.reference(place, record.value).unwrap();
            found.push((Wanted::Value(reference), reference.offset, reference.end().unwrap()));
        }
    }
    found.push((Wanted::Page(*place), place.pointer.offset, place.end()));
}

/// The bytes of what is fetched until something is wrong, and what is.
fn fetch(run: &RunFile, wanted: &[Wanted]) -> (Vec<Vec<u8>>, Result<(), ErrorKind>) {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let result = run.fetch(wanted, |number, loaded: Loaded| {
        assert_eq!(number, found.len());
        found.push(loaded.as_slice().to_vec());
    });
    (found, result.map_err(|error| error.kind()))
}

fn fetch_one_by_one(run: &RunFile, wanted: &[Wanted]) -> (Vec<Vec<u8>>, Result<(), ErrorKind>) {
    let mut found = Vec::new();
    for piece in wanted {
        match fetch(run, &[*piece]) {
            (mut bytes, Ok(())) => found.append(&mut bytes),
            (_, failed) => return (found, failed),
        }
    }
    (found, Ok(()))
}

#[test]
fn pieces_that_come_together_are_what_they_are_alone() {
    let first = seed_or(1);
    let (mut together, mut failed) = (0, 0);
    for seed in first..first + 600 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (disk, run) = new_run(120, |n| if n % 7 == 3 { [60, 300, 30_000][n as usize % 3] } else { 9 });
        let pieces = pieces(&run);
        let share = [0.02, 0.3, 0.9, 1.0][rng.random_range(0..4)];
        let wanted: Vec<Wanted> = pieces.iter().filter(|_| rng.random_bool(share)).map(|piece| piece.0).collect();
        let (_, start, end) = pieces[rng.random_range(0..pieces.len())];
        match seed % 3 {
            0 => disk.make_unreadable(PATH, start..end),
            1 => disk.flip_bit(PATH, rng.random_range(start * 8..end * 8)),
            _ => {}
        }
        let reads_before = disk.reads();
        let found = fetch(&run, &wanted);
        let reads = disk.reads() - reads_before;
        assert!(found == fetch_one_by_one(&run, &wanted), "SEED={seed}");
        // Pieces of a span that cannot be read cost a read each, and the one that failed.
        assert!(reads as usize <= wanted.len() + wanted.len() / 2, "SEED={seed}: {reads} for {}", wanted.len());
        together += u32::from(2 * (reads as usize) < wanted.len());
        failed += u32::from(found.1.is_err());
    }
    println!("{together} cases with few reads, {failed} with errors");
    assert!(together > 100 && failed > 100);
}

#[test]
fn gaps_and_spans_are_bounded() {
    let (disk, run) = new_run(60, |n| if n % 2 == 0 { 300_000 } else { 17_000 });
    let pieces = pieces(&run);
    let reads_of = |wanted: &[Wanted]| {
        let before = disk.reads();
        assert_eq!(fetch(&run, wanted).1, Ok(()));
        disk.reads() - before
    };
    let all: Vec<Wanted> = pieces.iter().map(|piece| piece.0).collect();
    let bytes = run.info().bytes;
    let reads = reads_of(&all);
    assert!((bytes >> 20..=(bytes >> 19) + 1).contains(&reads), "{reads} reads of {bytes} bytes");
    // Leaves have 17,000 bytes of values between them, or more.
    let leaves: Vec<Wanted> =
        all.iter().filter(|piece| matches!(piece, Wanted::Page(place) if place.level == 0)).copied().collect();
    assert!(leaves.len() > 2);
    assert_eq!(reads_of(&leaves), leaves.len() as u64);
    assert_eq!(reads_of(&[]), 0);
}

#[test]
fn a_charged_range_takes_few_reads() {
    let (disk, run) = new_run(3000, |n| n as usize % 40);
    let cache = PageCache::new(0);
    let pages = ReadPages::new(&cache);
    let whole = Arc::new(Run::of_parts(&[Part::first(&run)], true));
    let layer = RunLayer::new(&whole, &pages);
    let before = disk.reads();
    pages.answer(|| layer.charge(Cut::Start, Cut::End, Limits::default(), false)).unwrap();
    let (reads, cost) = (disk.reads() - before, pages.cost());
    println!("{reads} reads, {cost:?}, {} bytes", run.info().bytes);
    assert!(cost.pages_read > 300);
    // One for each round: the whole run is shorter than a span, and its gaps than a gap.
    assert!(reads <= cost.rounds + 4, "{reads} reads in {} rounds", cost.rounds);
}

#[test]
fn a_bad_value_is_an_error_for_who_reaches_it() {
    const VALUES: u32 = 200;
    for (bad, is_unreadable) in [(0, true), (0, false), (77, true), (77, false), (199, true), (199, false)] {
        let (disk, run) = new_run(VALUES, |n| 100 + n as usize);
        let values = pieces(&run).into_iter().filter(|(wanted, ..)| matches!(wanted, Wanted::Value(_)));
        let (_, start, end) = values.clone().nth(bad).unwrap();
        assert_eq!(values.count(), VALUES as usize);
        if is_unreadable {
            disk.make_unreadable(PATH, start..end);
        } else {
            disk.flip_bit(PATH, 8 * start + 5);
        }
        let cache = PageCache::new(1 << 20);
        let pages = ReadPages::new(&cache);
        let whole = Arc::new(Run::of_parts(&[Part::first(&run)], true));
        let layer = RunLayer::new(&whole, &pages);
        pages.answer(|| layer.charge(Cut::Start, Cut::End, Limits::default(), false)).unwrap();
        assert_eq!(pages.cost().rounds as usize, 1 + whole.root().unwrap().level + 1);
        let mut walk = layer.seek(None).unwrap();
        for n in 0..bad {
            // If the bad one cannot be read, those that were to come with it are read when they are reached.
            let value = pages.answer(|| walk.value().map(|value| value.map(<[u8]>::to_vec))).unwrap();
            assert_eq!(value, Some(vec![n as u8; 100 + n]));
            walk.next().unwrap();
        }
        let error = pages.answer(|| walk.value().map(|_| ())).unwrap_err();
        assert_eq!(error.kind(), if is_unreadable { ErrorKind::Io } else { ErrorKind::Corrupt });
        // Those after it can be read.
        for n in bad + 1..VALUES as usize {
            walk.next().unwrap();
            let value = pages.answer(|| walk.value().map(|value| value.map(<[u8]>::to_vec))).unwrap();
            assert_eq!(value, Some(vec![n as u8; 100 + n]));
        }
    }
}

/// A merge left a file as it was, after another one that now has other rows: so it is at another place of its run, in
/// the bytes and in the sums.
#[test]
fn a_file_that_two_versions_have_at_different_places_is_read_through_one_reader() {
    let disk = new_disk();
    let file = |name: &str, keys: std::ops::Range<u32>| {
        let path = Path::new("/db").join(name);
        let mut writer =
            RunWriter::create(&disk, &path, RunOptions { page_bytes: 256, ..RunOptions::default() }).unwrap();
        keys.clone().for_each(|key| writer.push(&key.to_be_bytes(), &[7; 40]).unwrap());
        writer.finish().unwrap();
        let low = crate::page::KeyBuffer::from_slice(&keys.start.to_be_bytes());
        Part { low, file: Arc::new(RunFile::open(&disk, &path).unwrap()) }
    };
    let kept = file("kept", 1000..2000);
    let then = Arc::new(Run::of_parts(&[file("then", 0..300), kept.clone()], true));
    let now = Arc::new(Run::of_parts(&[file("now", 0..100), kept], true));
    for cache_bytes in [0, 16 << 20] {
        let cache = PageCache::new(cache_bytes);
        let pages = ReadPages::new(&cache);
        let (then, now) = (RunLayer::new(&then, &pages), RunLayer::new(&now, &pages));
        let rank = |layer: &RunLayer<'_>, key: u32| layer.rows_before(&key.to_be_bytes(), Side::Below);
        // Asked together, so that both lack pages of the file, and not the same ones.
        let ranks = pages.answer(|| {
            let ranks = (rank(&then, 1100), rank(&now, 1900));
            Ok((ranks.0?, ranks.1?))
        });
        assert_eq!(ranks.unwrap(), (400, 1000));
    }
}
