//! Goal: a run equals the `BTreeMap` it was written from in everything it can be asked, at page sizes at which a few
//! dozen rows make several levels. Method: random rows; the checker; all questions compared with the model. Replay:
//! SEED=... cargo test -p quipu run::tests

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use quipu_testing::seeds::seed_or;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::cache::{PageCache, ReadPages};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind};
use crate::io::sim::SimDisk;
use crate::options::RunLayout;
use crate::run::format::PACKED_VALUE_BYTES_MAX;
use crate::run::{Part, Run, RunFile, RunInfo, RunOptions, RunWriter};
use crate::stack::{Layer, LayerWalk};
use crate::tally::Measures;
use crate::tally::SumField;
use crate::tally::Tally;
use crate::tree::Side;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const PATH: &str = "/db/run";

pub(crate) fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    crate::io::Disk::create_dir_all(&disk, Path::new("/db")).unwrap();
    disk
}

/// Writes `model` to [`PATH`].
pub(crate) fn write(disk: &SimDisk, model: &Model, options: RunOptions) -> crate::Result<RunInfo> {
    let mut writer = RunWriter::create(disk, Path::new(PATH), options)?;
    for (key, value) in model {
        writer.push(key, value)?;
    }
    writer.finish()
}

pub(crate) fn bytes_of(model: &Model, options: RunOptions) -> Vec<u8> {
    let disk = new_disk();
    write(&disk, model, options).unwrap();
    disk.read_file(PATH).unwrap()
}

pub(super) const ALL_MEASURES: Measures =
    Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };

/// How the keys and values of a test look.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Numbers,
    LongPrefix,
    Mixed,
    LongKeys,
    LongValues,
}

fn row(rng: &mut StdRng, rows: Rows) -> (Vec<u8>, Vec<u8>) {
    let number: u32 = rng.random_range(0..100_000);
    let key = match rows {
        Rows::Numbers | Rows::LongValues => number.to_be_bytes().to_vec(),
        Rows::LongPrefix => format!("customer/eu-west/{number:05}").into_bytes(),
        Rows::Mixed => {
            let len = rng.random_range(0..6);
            (0..len).map(|_| [0, 1, b'a', b'b', 255][rng.random_range(0..5)]).collect()
        }
        Rows::LongKeys => {
            let mut key = vec![b'x'; [5, 24, 25, 26, 300][rng.random_range(0..5)]];
            key.extend_from_slice(&number.to_be_bytes());
            key
        }
    };
    let len = match (rng.random_range(0..20), rows) {
        (0, _) => 0,
        (1, _) => rng.random_range(100..700),
        (2, Rows::LongValues) => rng.random_range(2000..40_000),
        (_, Rows::LongValues) => rng.random_range(20..60),
        _ => rng.random_range(1..20),
    };
    // Half of them are nothing but one byte over and over, so that most leaves and many long values can be packed.
    let value = if rng.random() { vec![rng.random(); len] } else { (0..len).map(|_| rng.random()).collect() };
    (key, value)
}

fn model_tally<'m>(measures: &Measures, rows: impl Iterator<Item = (&'m Vec<u8>, &'m Vec<u8>)>) -> Tally {
    rows.fold(Tally::ZERO, |sum, (key, value)| sum + measures.of_row(key, value))
}

fn compare(run: RunFile, model: &Model, rng: &mut StdRng, rows: Rows) {
    let whole = Arc::new(Run::of_parts(&[Part::first(&run)], true));
    let cache = PageCache::new(64 << 10);
    let measures = run.info().measures;
    let report = run.check(&mut |_| ());
    assert_eq!(report.faults, [""; 0]);
    assert_eq!(report.entries, model.len() as u64);
    assert_eq!(run.info().total.entries, model.len() as i64);
    assert_eq!(run.info().total.tally, model_tally(&measures, model.iter()));
    let mut scanned = Vec::new();
    let mut last_progress = 0;
    run.scan(
        &mut |bytes| {
            assert!(bytes > last_progress && bytes < run.info().bytes);
            last_progress = bytes;
        },
        &mut |key, value| {
            scanned.push((key.to_vec(), value.to_vec()));
            Ok(())
        },
    )
    .unwrap();
    assert!(scanned.iter().map(|(key, value)| (key, value)).eq(model.iter()));
    let mut asked: Vec<Vec<u8>> = (0..30).map(|_| row(rng, rows).0).collect();
    asked.extend((0..30.min(scanned.len())).map(|_| {
        let mut key = scanned[rng.random_range(0..scanned.len())].0.clone();
        match rng.random_range(0..4) {
            0 => key.push(0),
            1 => drop(key.pop()),
            _ => {}
        }
        key
    }));
    asked.push(Vec::new());
    asked.push(vec![255; 400]);
    for key in &asked {
        let pages = ReadPages::new(&cache);
        let layer = RunLayer::new(&whole, &pages);
        let found = pages.answer(|| layer.get(key)).unwrap();
        assert_eq!(found, model.get(key).map(|value| Some(&**value)), "{key:?}");
        let below = (Bound::Unbounded, Bound::Excluded(&**key));
        let through = (Bound::Unbounded, Bound::Included(&**key));
        let below = model_tally(&measures, model.range::<[u8], _>(below));
        let through = model_tally(&measures, model.range::<[u8], _>(through));
        assert_eq!(pages.answer(|| layer.tally_before(key, Side::Below)).unwrap(), below);
        assert_eq!(pages.answer(|| layer.tally_before(key, Side::Through)).unwrap(), through);
    }
    let pages = ReadPages::new(&cache);
    let layer = RunLayer::new(&whole, &pages);
    for _ in 0..30.min(scanned.len()) {
        let offset = rng.random_range(0..scanned.len());
        let walk = pages.answer(|| layer.nth(offset as u64)).unwrap();
        let value = pages.answer(|| walk.value()).unwrap();
        assert_eq!((&*walk.key(), value), (&*scanned[offset].0, Some(&*scanned[offset].1)));
    }
    for offset in [scanned.len() as u64, u64::MAX] {
        assert!(!pages.answer(|| layer.nth(offset)).unwrap().valid());
    }
}

#[test]
fn equals_the_model() {
    let seed = seed_or(1);
    let kinds = [Rows::Numbers, Rows::LongPrefix, Rows::Mixed, Rows::LongKeys, Rows::LongValues];
    let sum = Some(SumField::BigEndian { at: 0 });
    let all_measures = [
        Measures::ROWS,
        Measures { bytes: true, ..Measures::ROWS },
        Measures { sum, hash: true, ..Measures::ROWS },
        ALL_MEASURES,
    ];
    for (number, rows) in kinds.into_iter().enumerate() {
        for (page_bytes, count) in [(256, 1), (256, 20), (256, 3000), (1024, 3000), (32_768, 3000)] {
            println!("SEED={seed} {rows:?} {page_bytes} {count}");
            let mut rng = StdRng::seed_from_u64(seed);
            let model: Model = (0..count).map(|_| row(&mut rng, rows)).collect();
            let measures = all_measures[(number + count) % 4];
            // One of the two is packed, the other is not.
            let (compression, other) = match (number + page_bytes / 256) % 2 {
                0 => (Compression::Lz4, Compression::None),
                _ => (Compression::None, Compression::Lz4),
            };
            let options =
                RunOptions { page_bytes, measures, table_id: 7, run_id: 1 << 40, compression, ..RunOptions::default() };
            let disk = new_disk();
            let info = write(&disk, &model, options).unwrap();
            let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
            assert_eq!(*run.info(), info);
            assert_eq!((info.table_id, info.run_id), (7, 1 << 40));
            assert!(count < 3000 || page_bytes > 256 || matches!(rows, Rows::Mixed) || info.levels > 3);
            // The same rows under a flat index, from which the tree comes back byte by byte.
            let (flat_path, tree_path) = (Path::new("/db/flat"), Path::new("/db/tree"));
            let flat_info = run.rewrite(
                &disk,
                flat_path,
                RunOptions { layout: RunLayout::Flat, compression: other, ..options },
                &mut |_| (),
            );
            assert_eq!(flat_info.unwrap().levels, info.levels.min(2));
            let flat = RunFile::open(&disk, flat_path).unwrap();
            assert_eq!((flat.info().layout, flat.info().total), (RunLayout::Flat, info.total));
            flat.rewrite(&disk, tree_path, options, &mut |_| ()).unwrap();
            assert_eq!(disk.read_file(tree_path), disk.read_file(Path::new(PATH)));
            let (packed, plain) = if compression == Compression::Lz4 { (&run, &flat) } else { (&flat, &run) };
            assert_eq!((plain.info().saved_bytes, plain.info().compression), (0, Compression::None));
            assert!(packed.info().saved_bytes > 0 || count < 3000);
            compare(run, &model, &mut rng, rows);
            compare(flat, &model, &mut rng, rows);
        }
    }
}

#[test]
fn an_empty_run_has_no_tree() {
    let disk = new_disk();
    let info = write(&disk, &Model::new(), RunOptions::default()).unwrap();
    assert_eq!((info.bytes, info.total.entries, info.levels), (32 + 192, 0, 0));
    let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
    compare(run, &Model::new(), &mut StdRng::seed_from_u64(1), Rows::Mixed);
}

/// Keys that leave no more than one row to a unit, whose separators are as long as they are.
#[test]
fn keys_larger_than_pages_make_a_tree_of_pairs() {
    let model: Model =
        (0..40u32).map(|number| ([vec![b'k'; 5000], number.to_be_bytes().to_vec()].concat(), b"v".to_vec())).collect();
    let disk = new_disk();
    let options = RunOptions { page_bytes: 256, measures: ALL_MEASURES, ..RunOptions::default() };
    let info = write(&disk, &model, options).unwrap();
    assert!((6..8).contains(&info.levels), "{} levels", info.levels);
    let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
    compare(run, &model, &mut StdRng::seed_from_u64(1), Rows::LongKeys);
}

/// Leaves whose values are more than a window, and values larger than one.
#[test]
fn values_larger_than_the_window() {
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let model: Model = (0..200u32)
        .map(|number| {
            let len = match number % 50 {
                3 => 3 << 20,
                5 => (1 << 20) - 8,
                _ => rng.random_range(0..100_000),
            };
            (number.to_be_bytes().to_vec(), vec![number as u8; len])
        })
        .collect();
    for compression in [Compression::None, Compression::Lz4] {
        let disk = new_disk();
        let options = RunOptions { page_bytes: 4096, measures: ALL_MEASURES, compression, ..RunOptions::default() };
        let info = write(&disk, &model, options).unwrap();
        let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
        assert_eq!(info.saved_bytes > 20 << 20, compression == Compression::Lz4);
        compare(run, &model, &mut rng, Rows::LongValues);
    }
}

/// One that is longer than what is packed, and one that is as long.
#[test]
fn the_longest_values_that_are_packed() {
    let most = PACKED_VALUE_BYTES_MAX;
    let model: Model = [(b"a".to_vec(), vec![1; most]), (b"b".to_vec(), vec![2; most + 1])].into();
    let disk = new_disk();
    let options = RunOptions { compression: Compression::Lz4, ..RunOptions::default() };
    let info = write(&disk, &model, options).unwrap();
    assert!((most as u64 - (1 << 18)..most as u64).contains(&info.saved_bytes), "{}", info.saved_bytes);
    compare(RunFile::open(&disk, Path::new(PATH)).unwrap(), &model, &mut StdRng::seed_from_u64(1), Rows::Mixed);
}

#[test]
fn rows_out_of_order_are_refused() {
    let disk = new_disk();
    for (first, second) in [("b", "a"), ("b", "b"), ("", "")] {
        let path = format!("/db/{first}-{second}");
        let mut writer = RunWriter::create(&disk, Path::new(&path), RunOptions::default()).unwrap();
        writer.push(first.as_bytes(), b"").unwrap();
        let error = writer.push(second.as_bytes(), b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn page_sizes_out_of_bounds_are_refused() {
    for page_bytes in [0, 255, 32_769] {
        let options = RunOptions { page_bytes, ..RunOptions::default() };
        let error = RunWriter::create(&new_disk(), Path::new(PATH), options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn an_error_of_the_visitor_ends_the_scan() {
    let disk = new_disk();
    let model: Model = (0..100u32).map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
    let options = RunOptions { page_bytes: 256, ..RunOptions::default() };
    write(&disk, &model, options).unwrap();
    let run = RunFile::open(&disk, Path::new(PATH)).unwrap();
    let mut visited = 0;
    let stopped = run.scan(&mut |_| (), &mut |_, _| {
        visited += 1;
        if visited < 50 { Ok(()) } else { Err(Error::new(ErrorKind::Full, "no room")) }
    });
    assert_eq!((stopped.unwrap_err().kind(), visited), (ErrorKind::Full, 50));
}

/// The real disk, with its rules for direct writes, over several buffers and windows.
#[test]
fn a_run_on_the_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut rng = StdRng::seed_from_u64(seed_or(1));
    let model: Model = (0..100_000u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; rng.random_range(0..60)]))
        .collect();
    let disk = crate::io::RealDisk;
    let mut writer = RunWriter::create(&disk, &path, RunOptions::default()).unwrap();
    for (key, value) in &model {
        writer.push(key, value).unwrap();
    }
    let info = writer.finish().unwrap();
    assert_eq!(info.bytes, std::fs::metadata(&path).unwrap().len());
    let run = RunFile::open(&disk, &path).unwrap();
    compare(run, &model, &mut rng, Rows::Numbers);
}

/// A file is fetched where it will be read soon: all of it, each piece right after it was written.
#[test]
fn what_will_be_read_soon_is_fetched_piece_by_piece() {
    let model: Model = (0..3000u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 400])).collect();
    for is_read_soon in [false, true] {
        let disk = new_disk();
        let info = write(&disk, &model, RunOptions { is_read_soon, ..RunOptions::default() }).unwrap();
        let pieces = disk.read_soon(PATH);
        if !is_read_soon {
            assert_eq!(pieces, []);
            continue;
        }
        assert!(info.bytes > 1 << 20 && pieces.iter().all(|piece| piece.end - piece.start <= 256 << 10));
        let end = pieces.iter().try_fold(0, |end, piece| (piece.start == end).then_some(piece.end));
        assert_eq!(end, Some(info.bytes), "{pieces:?}");
    }
}
