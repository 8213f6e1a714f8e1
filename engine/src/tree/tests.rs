//! Goal: the tree equals a `BTreeMap` in everything it can be asked, at page sizes at which splits and merges happen
//! within the first ten operations. Method: random operations; after each group the checker, and all questions compared
//! with the model; versions protected on the way must not change. Replay: SEED=... cargo test -p quipu tree::tests

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::tally::SumField;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The seed of a random test: from SEED, else this one.
pub(crate) fn seed(default: u64) -> u64 {
    quipu_testing::seeds::seed_or(default)
}

/// How keys of a test look.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Numbers,
    LongPrefix,
    Mixed,
    Huge,
}

fn key(rng: &mut StdRng, keys: Keys) -> Vec<u8> {
    let number: u32 = rng.random_range(0..600);
    match keys {
        Keys::Numbers => number.to_be_bytes().to_vec(),
        Keys::LongPrefix => format!("customer/eu-west/{number:05}").into_bytes(),
        Keys::Mixed => {
            let len = rng.random_range(0..6);
            (0..len).map(|_| [0, 1, b'a', b'b', 255][rng.random_range(0..5)]).collect()
        }
        Keys::Huge => {
            let mut key = vec![b'x'; if number.is_multiple_of(3) { 300 } else { 10 }];
            key.extend_from_slice(&(number % 100).to_be_bytes());
            key
        }
    }
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = match rng.random_range(0..20) {
        0 => 0,
        1 => rng.random_range(100..700),
        _ => rng.random_range(1..20),
    };
    (0..len).map(|_| rng.random()).collect()
}

fn model_tally(measures: &Measures, rows: impl Iterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Tally {
    rows.fold(Tally::ZERO, |sum, (key, value)| sum + measures.of_row(key.as_ref(), value.as_ref()))
}

fn compare(view: &View<'_>, model: &Model, rng: &mut StdRng, keys: Keys) {
    assert_eq!(view.entries(), model.len() as u64);
    assert_eq!(view.total(), model_tally(view.measures(), model.iter()));
    let mut walk = Walk::first(*view);
    for (key, value) in model {
        assert!(walk.valid());
        assert_eq!(*walk.key(), **key);
        assert_eq!(walk.value(), Some(&**value));
        walk.next();
    }
    assert!(!walk.valid());
    let mut walk = Walk::last(*view);
    for (key, value) in model.iter().rev() {
        assert!(walk.valid());
        assert_eq!(*walk.key(), **key);
        assert_eq!(walk.value(), Some(&**value));
        walk.prev();
    }
    assert!(!walk.valid());
    let asked: Vec<Vec<u8>> = (0..40).map(|_| key(rng, keys)).collect();
    for key in &asked {
        assert_eq!(view.get(key).and_then(|found| found.value()), model.get(key).map(|value| &**value));
        let below = model_tally(view.measures(), model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&**key))));
        let through = model_tally(view.measures(), model.range::<[u8], _>((Bound::Unbounded, Bound::Included(&**key))));
        assert_eq!(view.tally_before(key, Side::Below), below);
        assert_eq!(view.tally_before(key, Side::Through), through);
        assert_eq!(view.rows_before(key, Side::Below), below.rows);
        let walk = Walk::seek(*view, key, Side::Through);
        let next = model.range::<[u8], _>((Bound::Excluded(&**key), Bound::Unbounded)).next();
        assert_eq!(walk.valid().then(|| walk.key().to_vec()), next.map(|(key, _)| key.clone()));
    }
    let mut got = vec![None; asked.len()];
    get_many(view, &asked, |number, found| got[number] = found.and_then(|found| found.value()).map(<[u8]>::to_vec));
    assert_eq!(got, asked.iter().map(|key| model.get(key).cloned()).collect::<Vec<_>>());
    let cuts: Vec<_> = asked.iter().map(|key| (key, [Side::Below, Side::Through][rng.random_range(0..2)])).collect();
    rows_before_many(view, &cuts, |number, rows| {
        assert_eq!(rows, view.rows_before(cuts[number].0, cuts[number].1));
    });
    for pair in cuts.windows(2) {
        let mut ends = [(&**pair[0].0, pair[0].1), (&**pair[1].0, pair[1].1)];
        ends.sort_by_key(|&(key, side)| (key, side == Side::Through));
        let rows = view.rows_before(ends[1].0, ends[1].1) - view.rows_before(ends[0].0, ends[0].1);
        assert_eq!(view.rows_between(ends[0], ends[1]), rows, "{ends:?}");
    }
    if !model.is_empty() {
        let offsets: Vec<u64> = (0..40).map(|_| rng.random_range(0..model.len() as u64)).collect();
        let sorted: Vec<&Vec<u8>> = model.keys().collect();
        for &offset in &offsets {
            assert_eq!(*view.nth(offset).key(), **sorted[offset as usize]);
        }
        nth_many(view, &offsets, |number, leaf, position| {
            assert_eq!(*leaf.key(position), **sorted[offsets[number] as usize]);
        });
        for _ in 0..10 {
            let (a, b) = (rng.random_range(0..sorted.len()), rng.random_range(0..sorted.len()));
            let (low, high) = (sorted[a.min(b)], sorted[a.max(b)]);
            match view.pivot(Some(low), Some(high)) {
                Some((pivot, _)) => assert!(*pivot > **low && *pivot < **high),
                None => assert!(a.max(b) - a.min(b) <= 1),
            }
        }
    }
}

/// Compares what two versions of a tree share with what is the same in their models.
fn compare_versions(old: (&View<'_>, &Model), new: (&View<'_>, &Model), places: &[Vec<u8>]) {
    for key in places {
        if old.0.shares_leaf_of(new.0, key) {
            assert_eq!(old.1.get(key), new.1.get(key), "{key:?} is in a shared leaf");
        }
        let (mut a, mut b) = (Walk::seek(*old.0, key, Side::Below), Walk::seek(*new.0, key, Side::Below));
        let (mut a_rows, mut b_rows) = (old.1.range(key.clone()..), new.1.range(key.clone()..));
        // Of what is skipped, both models have the same; what is not skipped is a row.
        while a.valid() && b.valid() {
            let (a_row, b_row) = (a_rows.clone().next(), b_rows.clone().next());
            assert_eq!(a_row.map(|row| &**row.0), Some(a.key().as_slice()));
            assert_eq!(b_row.map(|row| &**row.0), Some(b.key().as_slice()));
            if !a.skip_shared(&mut b) {
                a.next();
                b.next();
                a_rows.next();
                b_rows.next();
                continue;
            }
            let end = a.valid().then(|| a.key());
            while a_rows.clone().next().is_some_and(|(key, _)| end.as_ref().is_none_or(|end| **key < **end)) {
                assert_eq!(a_rows.next(), b_rows.next());
            }
        }
    }
}

fn run(seed: u64, page_bytes: usize, keys: Keys, measures: Measures, steps: usize) {
    println!("SEED={seed} {page_bytes} {keys:?} {measures:?}");
    let mut rng = StdRng::seed_from_u64(seed);
    let arena = Arc::new(Arena::new(page_bytes, 64 << 20).unwrap());
    let mut tree = Tree::new(arena.clone(), measures, true);
    let mut model = Model::new();
    let mut snapshots: Vec<(u64, Version, Model)> = Vec::new();
    let mut epoch = 1;
    for step in 0..steps {
        // Phases: growing, mixed, shrinking, so that both splits and merges get their turn.
        let remove_weight = match step * 3 / steps {
            0 => 2,
            1 => 5,
            _ => 9,
        };
        let (key, value) = (key(&mut rng, keys), value(&mut rng));
        tree.set_epochs(epoch, snapshots.iter().map(|snapshot| snapshot.0).max().unwrap_or(0));
        if rng.random_range(0..10) < remove_weight && rng.random_bool(0.7) {
            let written = tree.remove(&key).unwrap().0;
            assert_eq!(written == Written::Removed, model.remove(&key).is_some());
        } else {
            let when = [When::Always, When::Absent, When::Present][rng.random_range(0..3)];
            let written = tree.put(&key, &value, when).unwrap().0;
            let expected = match (model.contains_key(&key), when) {
                (true, When::Absent) | (false, When::Present) => Written::Nothing,
                (true, _) => Written::Replaced,
                (false, _) => Written::Inserted,
            };
            assert_eq!(written, expected);
            if written != Written::Nothing {
                model.insert(key, value);
            }
        }
        if rng.random_range(0..200) == 0 {
            let (a, b) = (self::key(&mut rng, keys), self::key(&mut rng, keys));
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            let (change, removed) = tree.remove_range(Some(&low), Some(&high)).unwrap();
            let gone: Vec<Vec<u8>> = model.range(low..high).map(|(key, _)| key.clone()).collect();
            assert_eq!(removed, gone.len() as u64);
            assert_eq!(change.rows, -(gone.len() as i64));
            gone.iter().for_each(|key| {
                model.remove(key);
            });
        }
        if rng.random_range(0..40) == 0 {
            let faults = tree.check();
            assert!(faults.is_empty(), "step {step}: {faults:?}");
            compare(&tree.view(), &model, &mut rng, keys);
        }
        if rng.random_range(0..60) == 0 {
            snapshots.push((epoch, tree.version(), model.clone()));
            epoch += 1;
        }
        if snapshots.len() > 3 || !snapshots.is_empty() && rng.random_range(0..100) == 0 {
            let (_, version, old) = snapshots.swap_remove(rng.random_range(0..snapshots.len()));
            compare(&version.view(&arena), &old, &mut rng, keys);
            let places: Vec<Vec<u8>> = (0..20).map(|_| self::key(&mut rng, keys)).collect();
            compare_versions((&version.view(&arena), &old), (&tree.view(), &model), &places);
            let mut live: Vec<u64> = snapshots.iter().map(|snapshot| snapshot.0).collect();
            live.sort_unstable();
            tree.reclaim(&live);
        }
    }
    assert!(tree.check().is_empty());
    compare(&tree.view(), &model, &mut rng, keys);
    let mut loader = Loader::new(Tree::new(arena.clone(), measures, true));
    for (key, value) in &model {
        loader.push(key, value).unwrap();
    }
    let loaded = loader.finish().unwrap();
    assert_eq!(loaded.check(), Vec::<String>::new());
    compare(&loaded.view(), &model, &mut rng, keys);
    drop(loaded);
    tree.set_epochs(epoch, 0);
    snapshots.clear();
    tree.reclaim(&[]);
    drop(tree);
    assert_eq!(arena.page_bytes_used(), 0, "every page was given back");
    assert_eq!(arena.blob_bytes_used(), 0, "every blob was given back");
}

pub(super) const ALL: Measures =
    Measures { bytes: true, hash: true, sum: Some(SumField::LittleEndian { at: 1 }), ..Measures::ROWS };

#[test]
fn equals_the_model() {
    let seed = seed(1);
    let steps = if cfg!(miri) { 150 } else { 4000 };
    for (number, keys) in [Keys::Numbers, Keys::LongPrefix, Keys::Mixed, Keys::Huge].into_iter().enumerate() {
        run(seed + number as u64, 256, keys, Measures::ROWS, steps);
        run(seed + number as u64, 512, keys, ALL, steps);
    }
}

#[test]
fn pages_stay_well_filled() {
    type Order = (&'static str, fn(u32) -> u32, f64);
    let order: [Order; 3] = [
        ("random", |number| number.wrapping_mul(0x9E37_79B1), 0.74),
        ("ascending", |number| number, 0.93),
        ("descending", |number| u32::MAX - number, 0.93),
    ];
    for (name, key, fill_min) in order {
        let arena = Arc::new(Arena::new(4096, 64 << 20).unwrap());
        let mut tree = Tree::new(arena, Measures::ROWS, true);
        for number in 0..100_000 {
            tree.put(&key(number).to_be_bytes(), &u64::from(number).to_be_bytes(), When::Absent).unwrap();
        }
        assert!(tree.check().is_empty());
        let (pages, fill) = tree.fill();
        println!("{name}: {pages} pages, {:.1} % full", fill * 100.0);
        assert!(fill >= fill_min, "{name} inserts leave pages {:.1} % full", fill * 100.0);
    }
}

/// Two versions that differ in one row of 100,000 are compared in few steps, from any place.
#[test]
fn what_versions_share_is_skipped_by_the_largest_pages() {
    let arena = Arc::new(Arena::new(512, 64 << 20).unwrap());
    let mut tree = Tree::new(arena.clone(), Measures::ROWS, true);
    let rows = 100_000_u32;
    for number in 0..rows {
        tree.put(&number.to_be_bytes(), b"value", When::Absent).unwrap();
    }
    let version = tree.version();
    tree.set_epochs(2, 1);
    tree.put(&70_000_u32.to_be_bytes(), b"other", When::Present).unwrap();
    let (old, new) = (version.view(&arena), tree.view());
    for start in [0_u32, 1, 69_000, 70_000, 70_001] {
        let place = start.to_be_bytes();
        let (mut a, mut b) = (Walk::seek(old, &place, Side::Below), Walk::seek(new, &place, Side::Below));
        let (mut steps, mut changed) = (0, Vec::new());
        while a.valid() && b.valid() {
            steps += 1;
            if !a.skip_shared(&mut b) {
                changed.extend((a.value() != b.value()).then(|| a.key().to_vec()));
                a.next();
                b.next();
            }
        }
        assert!(!a.valid() && !b.valid());
        assert!(steps <= 40, "{steps} steps from {start}");
        let expected = if start <= 70_000 { vec![70_000_u32.to_be_bytes().to_vec()] } else { Vec::new() };
        assert_eq!(changed, expected);
    }
    assert!(old.shares_leaf_of(&new, &5_u32.to_be_bytes()));
    assert!(!old.shares_leaf_of(&new, &70_000_u32.to_be_bytes()));
}

#[test]
fn an_uncounted_tree_is_the_same_tree() {
    let arena = Arc::new(Arena::new(512, 64 << 20).unwrap());
    let mut tree = Tree::uncounted(arena);
    let mut model = Model::new();
    let mut rng = StdRng::seed_from_u64(seed(5));
    for _ in 0..3000 {
        let (key, value) = (key(&mut rng, Keys::Numbers), value(&mut rng));
        if rng.random_bool(0.3) {
            tree.remove(&key).unwrap();
            model.remove(&key);
        } else {
            tree.put(&key, &value, When::Always).unwrap();
            model.insert(key, value);
        }
    }
    assert_eq!(tree.check(), Vec::<String>::new());
    for (key, value) in &model {
        assert_eq!(tree.view().get(key).and_then(|found| found.value()), Some(&**value));
    }
}

#[test]
fn a_full_arena_refuses_writes_and_keeps_what_it_has() {
    let arena = Arc::new(Arena::new(256, 64 << 10).unwrap());
    let mut tree = Tree::new(arena, Measures::ROWS, true);
    let mut kept = 0u32;
    let error = loop {
        match tree.put(&kept.to_be_bytes(), b"some value", When::Absent) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), crate::ErrorKind::Full);
    assert!(kept > 100);
    assert!(tree.check().is_empty());
    for number in 0..kept {
        assert!(tree.view().get(&number.to_be_bytes()).is_some());
    }
    for number in 0..kept {
        assert_eq!(tree.remove(&number.to_be_bytes()).unwrap().0, Written::Removed);
    }
    tree.put(b"again", b"", When::Absent).unwrap();
}
