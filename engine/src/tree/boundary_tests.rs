//! Goal: no row and no order of writes makes a page that is planned too small, an empty page, or a wrong answer, at the
//! very sizes at which pages are full.
//! Method: rows are chosen by looking at the pages: what fills one to the byte, a byte less or more, what lets an entry
//! from beside just fit, keys whose shared prefix ends when they move. After each step the checker and the whole model.
//! All sizes of two neighbouring leaves are tried one by one.
//! Replay: SEED=... cargo test -p quipu boundary

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::boundary_subject_tests::{Model, Row, Shape, Subject, key_lengths};
use super::tests::{ALL, seed};
use super::*;
use crate::io::sim::SimDisk;
use crate::page::{HEADER_BYTES, PAGE_BYTES_MIN};
use crate::run::{RunFile, RunOptions, RunWriter};

/// Random steps over one tree, which has so many rows at most: of each kind of operation that moves entries.
fn run(seed: u64, page_bytes: usize, measures: Measures, bottom: bool, (steps, rows_max): (usize, usize)) {
    let shares_prefixes = seed.is_multiple_of(2);
    println!(
        "SEED={seed} pages of {page_bytes} bytes, {measures:?}, bottom: {bottom}, shared prefixes: {shares_prefixes}"
    );
    let mut rng = StdRng::seed_from_u64(seed);
    let mut subject = Subject::new(page_bytes, measures, bottom);
    subject.shares_prefixes = shares_prefixes;
    subject.key_lengths = key_lengths(page_bytes, &mut rng);
    for step in 0..steps {
        let grows = (step * 6 / steps).is_multiple_of(2);
        let kind = rng.random_range(0..40);

        let pick = |rng: &mut StdRng, model: &Model| {
            model.keys().nth(rng.random_range(0..model.len().max(1))).cloned().unwrap_or_default()
        };
        match kind {
            0 => {
                let (a, b) = (pick(&mut rng, &subject.model), pick(&mut rng, &subject.model));
                subject.remove_range((&a).min(&b), (&a).max(&b));
            }
            1 => {
                let writes = (0..rng.random_range(1..12)).map(|_| {
                    let (key, value) = subject.choose(&mut rng);
                    (key, rng.random_bool(0.7).then_some(value))
                });
                let writes = writes.collect();
                subject.merge(&writes);
            }
            2 => subject.take_snapshot(),
            3 | 4 => subject.forget_snapshots(),
            5 if bottom && rng.random_range(0..4) == 0 => {
                let in_order = !measures.only_rows() || rng.random();
                subject.build_anew(in_order);
            }
            6 if bottom && rng.random_range(0..4) == 0 => through_a_run(&subject),
            7.. if subject.model.len() < rows_max && kind < if grows { 35 } else { 15 } => {
                let (key, value) = subject.choose(&mut rng);
                subject.write(&key, Some(&value));
            }
            _ => {
                let key = pick(&mut rng, &subject.model);
                let lonely = if rng.random_range(0..4) > 0 { subject.lonely_key() } else { None };
                let key = lonely.unwrap_or(key);
                subject.write(&key, None);
            }
        }
        println!("step {step}, an operation of kind {kind}");
        assert_eq!(subject.faults(), [""; 0]);
    }
    subject.finish();
}

/// Writes the rows to a run, whose leaves are planned without the tree, and reads them back.
fn through_a_run(subject: &Subject) {
    let (disk, path) = (SimDisk::new(), Path::new("/db/run"));
    disk.write_file("/db/other", []);
    let options =
        RunOptions { page_bytes: subject.arena.page_bytes(), measures: subject.measures, ..RunOptions::default() };
    let mut writer = RunWriter::create(&disk, path, options).unwrap();
    let rows = || subject.model.iter().filter_map(|(key, value)| Some((&**key, value.as_deref()?)));
    rows().for_each(|(key, value)| writer.push(key, value).unwrap());
    writer.finish().unwrap();
    let run = RunFile::open(&disk, path).unwrap();
    assert_eq!(run.check(&mut |_| ()).faults, [""; 0]);
    let mut expected = rows();
    let compare = &mut |key: &[u8], value: &[u8]| {
        assert_eq!(expected.next(), Some((key, value)));
        Ok(())
    };
    run.scan(&mut |_| (), compare).unwrap();
}

/// How many of so many runs, or steps, miri has time for.
const fn few(many: usize) -> usize {
    if cfg!(miri) { many.div_ceil(40) } else { many }
}

#[test]
fn rows_that_fill_pages_to_the_byte_find_their_place() {
    let seed = seed(1);
    // A few leaves beside each other.
    for number in 0..few(24) {
        run(seed + number as u64, PAGE_BYTES_MIN, Measures::ROWS, true, (few(600), 40));
        run(seed + number as u64, PAGE_BYTES_MIN, ALL, false, (few(600), 40));
    }
}

#[test]
fn rows_that_fill_pages_of_several_levels_find_their_place() {
    let seed = seed(1);
    for number in 0..few(6) {
        run(seed + number as u64, PAGE_BYTES_MIN, Measures::ROWS, true, (few(1000), 300));
        run(seed + number as u64, PAGE_BYTES_MIN, ALL, false, (few(1000), 200));
    }
}

#[test]
fn rows_that_fill_pages_of_the_default_size_find_their_place() {
    let seed = seed(1);
    run(seed, 4096, Measures::ROWS, true, (few(1000), 280));
    run(seed, 4096, ALL, false, (few(1000), 280));
    run(seed, 1024, ALL, true, (few(1000), 90));
}

/// Bytes for entries in the smallest page.
const ROOM: usize = PAGE_BYTES_MIN - HEADER_BYTES;
/// The smallest entry, with a key of one byte: arrays, flags, two lengths.
const ENTRY_MIN: usize = 9;
/// The largest with such a key, and the largest whose key is within the page.
const SHORT_MAX: usize = ENTRY_MIN + PAGE_BYTES_MIN / 10;
const ENTRY_MAX: usize = SHORT_MAX + PAGE_BYTES_MIN / 10 - 4;

/// A row whose key begins with `first` and whose entry takes `entry_bytes`. Keys share nothing, so pages have no prefix
/// and keep having none.
fn row_of(first: u8, entry_bytes: usize) -> Row {
    let mut key = vec![first];
    if entry_bytes > SHORT_MAX {
        // Four bytes of a key stand outside of its record.
        key.resize(4 + entry_bytes - SHORT_MAX, 0);
    }
    (key, vec![entry_bytes as u8; entry_bytes.min(SHORT_MAX) - ENTRY_MIN])
}

/// Sizes of entries that take `bytes` together, the first (or last) of them `edge`.
fn sizes(bytes: usize, edge: usize, edge_is_last: bool) -> Vec<usize> {
    let rest = bytes - edge;
    let count = rest.div_ceil(SHORT_MAX);
    let mut sizes: Vec<usize> = (0..count).map(|number| rest / count + usize::from(number < rest % count)).collect();
    sizes.insert(if edge_is_last { count } else { 0 }, edge);
    sizes
}

/// The rows of two leaves of so many free bytes, whose entries beside each other have `edge` bytes. Keys begin with odd
/// numbers: 1, 3 and so on in the left leaf, 101, 103 and so on in the right.
fn two_leaves(left_free: usize, right_free: usize, edge: usize) -> [Vec<Row>; 2] {
    let leaf = |first: u8, sizes: Vec<usize>| {
        let rows = sizes.into_iter().enumerate();
        rows.map(|(number, bytes)| row_of(first + 2 * number as u8, bytes)).collect()
    };
    [leaf(1, sizes(ROOM - left_free, edge, true)), leaf(101, sizes(ROOM - right_free, edge, false))]
}

/// The sizes that are tried: all, or with miri a few.
fn all(range: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = usize> {
    range.step_by(if cfg!(miri) { 13 } else { 1 })
}

#[test]
fn two_leaves_of_any_fill_take_one_more_row_at_any_place() {
    let mut tried = 0;
    for edge in all(ENTRY_MIN..=ENTRY_MAX) {
        for right_free in all(0..=ENTRY_MAX + 2) {
            for (left_free, first) in [(0, 0), (0, 50), (1, 50), (0, 100), (0, 200)] {
                let leaves = two_leaves(left_free, right_free, edge);
                for leaves in [leaves.clone(), mirrored(leaves)] {
                    let mut subject = Subject::of_leaves(PAGE_BYTES_MIN, &leaves);
                    let (key, value) = row_of(first, [ENTRY_MIN, SHORT_MAX][tried % 2]);
                    println!(
                        "{tried}: an entry of {edge} bytes beside {right_free} free ones, and the new row {first}"
                    );
                    subject.write(&key, Some(&value));
                    assert_eq!(subject.faults(), [""; 0]);
                    tried += 1;
                }
            }
        }
    }
}

/// The same leaves the other way round.
fn mirrored(leaves: [Vec<Row>; 2]) -> [Vec<Row>; 2] {
    let mut mirrored = leaves.map(|rows| {
        let turned = rows.into_iter().rev().map(|(mut key, value)| {
            key[0] = 201 - key[0];
            (key, value)
        });
        turned.collect()
    });
    mirrored.reverse();
    mirrored
}

#[test]
fn a_row_replaced_by_one_of_any_size_finds_its_place() {
    for edge in all(ENTRY_MIN..=ENTRY_MAX) {
        for right_free in all(0..=ENTRY_MAX + 2) {
            let leaves = two_leaves(0, right_free, edge);
            for (leaf, place) in [(0, 0), (0, 2), (1, 1)] {
                let mut subject = Subject::of_leaves(PAGE_BYTES_MIN, &leaves);
                println!("an entry of {edge} bytes beside {right_free} free ones, and {place} of leaf {leaf} replaced");
                subject.write(&leaves[leaf][place].0, Some(&[b'v'; PAGE_BYTES_MIN / 10]));
                assert_eq!(subject.faults(), [""; 0]);
            }
        }
    }
}

#[test]
fn a_leaf_that_empties_beside_a_full_one_goes() {
    let keys: [fn(u8) -> Vec<u8>; 4] = [
        |number| vec![number],
        // Within the page, beyond what heads hold.
        |number| [&[b'p'; 12][..], &[number]].concat(),
        // As long as a prefix can be, which takes nothing from records whose keys end within their heads.
        |number| [&[b'p'; 2][..], &[number]].concat(),
        // Out of line: a prefix takes nothing from their records.
        |number| [&[b'p'; 40][..], &[number]].concat(),
    ];
    for (style, key) in keys.into_iter().enumerate() {
        for free in all(0..=40) {
            for is_left in [false, true] {
                // The full leaf was made without a prefix, as one is whose other rows have gone.
                let full = Subject::rows_that_leave(PAGE_BYTES_MIN, free, |number| key(2 * number + 2));
                let other: Vec<u8> = if is_left { vec![0] } else { vec![255] };
                let single = vec![(other.clone(), b"value".to_vec())];
                let leaves = if is_left { [single, full] } else { [full, single] };
                let mut subject = Subject::of_leaves(PAGE_BYTES_MIN, &leaves);
                subject.write(&other, None);
                let faults = subject.faults();
                assert!(faults.is_empty(), "style {style}, {free} bytes free, left: {is_left}: {faults:?}");
                subject.finish();
            }
        }
    }
}

/// Leaves of one row each, whose keys are `start` and a number from `from` on, padded to `key_bytes` by what is the
/// same in all.
fn single_rows(start: u8, from: u8, count: u8, key_bytes: usize) -> Vec<Shape> {
    let row = |number| {
        let mut key = vec![start; key_bytes - 1];
        key.push(number);
        Shape::Leaf(vec![(key, b"value".to_vec())])
    };
    (from..from + count).map(row).collect()
}

#[test]
fn an_only_child_that_empties_goes_with_its_parents() {
    // Inner pages of as many short separators as fit, of such as share a prefix, and of such as are out of line.
    for (key_bytes, count, differing_max) in [(2, 10, 11), (4, 10, 11), (24, 10, 5), (50, 7, 8)] {
        for free in 0..2 {
            let full = |start: u8| Shape::Inner(single_rows(start, 10, count - free, key_bytes));
            let lonely = |start: u8| Shape::Inner(single_rows(start, 1, 1, key_bytes));
            for lonely_at in 0..3 {
                // Under a parent that has these three only, or is full of other pages with an only child.
                for children in [2, 3, differing_max - 1, differing_max] {
                    let mut middle: Vec<Shape> = [b'b', b'c', b'd'].map(full).to_vec();
                    middle[lonely_at] = lonely(b'b' + lonely_at as u8);
                    middle.extend((0..8).map(|other| lonely(b'e' + other)));
                    middle.truncate(children.max(lonely_at + 1));
                    for is_first in [false, true] {
                        let side = Shape::Inner(vec![full(if is_first { b'y' } else { b'a' })]);
                        let middle = Shape::Inner(middle.clone());
                        let branches = if is_first { vec![middle, side] } else { vec![side, middle] };
                        let mut subject = Subject::of_shape(PAGE_BYTES_MIN, &Shape::Inner(branches));
                        println!("{key_bytes} {free} {lonely_at} {children} {is_first}");
                        let mut key = vec![b'b' + lonely_at as u8; key_bytes - 1];
                        key.push(1);
                        subject.write(&key, None);
                        assert_eq!(subject.faults(), [""; 0]);
                        // And so on, until there is nothing.
                        for key in subject.model.keys().cloned().collect::<Vec<_>>() {
                            subject.write(&key, None);
                            assert_eq!(subject.faults(), [""; 0]);
                        }
                        subject.finish();
                    }
                }
            }
        }
    }
}
