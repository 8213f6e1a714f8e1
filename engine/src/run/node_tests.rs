//! Goal: a node gives back what was put in, in both forms, finds the child of any key, and its checker refuses every
//! changed byte that matters. Method: random separators and items at several shapes against vectors; all single-byte
//! changes. Replay: SEED=... cargo test -p quipu run::node

use super::node::{CHECKSUM_BITS, FilterPart, NodeRef};
use super::node_builder::{NodeBuilder, Separator};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

/// What a node is made of.
struct Random {
    separators: Vec<Vec<u8>>,
    items: Vec<Vec<u64>>,
    level: usize,
    filters: Vec<FilterPart>,
    bytes: Vec<u8>,
}

fn random_node(rng: &mut StdRng) -> Random {
    let columns = rng.random_range(1..6);
    let count = rng.random_range(1..60);
    let shape = rng.random_range(0..4);
    let mut separators = BTreeSet::new();
    while separators.len() < count - 1 {
        let number: u32 = rng.random();
        separators.insert(match shape {
            0 => number.to_be_bytes().to_vec(),
            1 => format!("customer/{number:010}").into_bytes(),
            2 => vec![[0, 1, b'a', 255][rng.random_range(0..4)]; rng.random_range(0..30)],
            _ => [vec![b'x'; rng.random_range(0..2000)], number.to_be_bytes().to_vec()].concat(),
        });
    }
    let separators: Vec<Vec<u8>> = separators.into_iter().collect();
    let mut widths: Vec<u32> = (0..columns).map(|_| rng.random_range(0..65)).collect();
    widths[columns - 1] = CHECKSUM_BITS;
    let level = rng.random_range(1..3);
    let mut builder = NodeBuilder::new(level, columns);
    let mut items = Vec::new();
    let mut filters: Vec<FilterPart> = Vec::new();
    for child in 0..count {
        let row: Vec<u64> =
            widths.iter().map(|&width| if width == 0 { 7 } else { rng.random::<u64>() >> (64 - width) }).collect();
        // Each may be lengthened by what lies below the next one.
        let whole = |before: usize| [&separators[before][..], &[0; 9]].concat();
        let next_is_above = |before: usize| separators.get(before + 1).is_none_or(|next| *next > whole(before));
        match child.checked_sub(1) {
            None => builder.push(None, &row),
            Some(before) => {
                let key = if next_is_above(before) { whole(before) } else { separators[before].clone() };
                builder.push(Some(Separator::new(&key, separators[before].len())), &row);
            }
        }
        items.push(row);
        if level == 1 && rng.random_ratio(1, 8) {
            let (first, start) = filters.last().map_or((0, 0), |last| (last.children.end, last.bytes.end));
            let (end, checksum) = (start + 8 * rng.random_range(0..9), rng.random());
            assert!(builder.push_filter(end as usize, checksum));
            filters.push(FilterPart { children: first..child + 1, bytes: start..end, checksum });
        }
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    Random { separators, items, level, filters, bytes }
}

#[test]
fn equals_vectors() {
    let seed = quipu_testing::seeds::seed_or(1);
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..400 {
        let Random { separators, items, level, filters, bytes } = random_node(&mut rng);
        let columns = items[0].len();
        let node = NodeRef::new(&bytes, columns).unwrap();
        assert_eq!((node.count(), node.level()), (items.len(), level));
        assert_eq!((0..node.filters()).map(|number| node.filter(number)).collect::<Vec<_>>(), filters);
        assert_eq!(node.filter_bytes(), filters.last().map_or(0, |filter| filter.bytes.end));
        for child in 0..items.len() {
            let expected = filters.iter().find(|filter| filter.children.contains(&child));
            assert_eq!(node.filter_of(child).as_ref(), expected);
        }
        for (child, row) in items.iter().enumerate() {
            let found: Vec<u64> = (0..columns).map(|column| node.item(column, child)).collect();
            assert_eq!(found, *row);
        }
        // Those of the page may be longer, and part the same keys: all but those between the two.
        let stored: Vec<Vec<u8>> = (1..items.len()).map(|child| node.separator(child).to_vec()).collect();
        for (separator, stored) in separators.iter().zip(&stored) {
            assert!(stored.starts_with(separator) && stored[separator.len()..].iter().all(|&byte| byte == 0));
        }
        let separators = stored;
        let mut asked: Vec<Vec<u8>> = separators.clone();
        asked.extend(separators.iter().map(|key| [&key[..], &[0]].concat()));
        asked.extend(separators.iter().filter(|key| !key.is_empty()).map(|key| key[..key.len() - 1].to_vec()));
        asked.extend([vec![], vec![255; 40]]);
        for key in asked {
            assert_eq!(node.child_of(&key), separators.iter().filter(|separator| **separator <= key).count());
        }
    }
}

#[test]
fn fits_what_it_says_fits() {
    let mut rng = StdRng::seed_from_u64(2);
    for page_bytes in [256, 1024, 8192] {
        let mut builder = NodeBuilder::new(1, 4);
        let mut offset = 0u64;
        for number in 0u32..3000 {
            offset += rng.random_range(1..1000);
            let items = [offset, u64::from(number) * 100, 8192, u64::from(rng.random::<u32>())];
            let separator = format!("order/{number:06}");
            let separator = Separator::new(separator.as_bytes(), separator.len());
            if builder.count() > 1 && !builder.fits(separator, &items, page_bytes) {
                let mut bytes = Vec::new();
                builder.finish(&mut bytes);
                assert!(bytes.len() <= page_bytes, "{} of {page_bytes}", bytes.len());
                NodeRef::new(&bytes, 4).unwrap();
            }
            builder.push((builder.count() > 0).then_some(separator), &items);
        }
    }
}

#[test]
fn a_changed_byte_is_refused_or_harmless() {
    let mut rng = StdRng::seed_from_u64(3);
    for _ in 0..30 {
        let Random { items, mut bytes, .. } = random_node(&mut rng);
        for at in 0..bytes.len().min(600) {
            let before = bytes[at];
            bytes[at] ^= 1 << rng.random_range(0..8);
            // Whatever is accepted can be read: checksums find the rest.
            if let Ok(node) = NodeRef::new(&bytes, items[0].len()) {
                for child in 0..node.count() {
                    (0..items[0].len()).for_each(|column| _ = node.item(column, child));
                    let filter = node.filter_of(child);
                    assert!(filter.is_none_or(|filter| filter.bytes.end <= node.filter_bytes()));
                    assert!(child == 0 || node.child_of(&node.separator(child)) == child);
                }
            }
            bytes[at] = before;
        }
        for cut in 0..bytes.len().min(200) {
            assert!(NodeRef::new(&bytes[..bytes.len() - 1 - cut], items[0].len()).is_err());
        }
    }
}
