//! Long values that a reader passes once: those of a leaf are read and held in one piece.
//!
//! They stand side by side in the file. Each on its own would be noted, sorted, allocated, copied and found again;
//! together they take one read and one allocation.
//!
//! Invariants:
//! 1. Bytes here are unchecked. The reader checks each value it takes.
//! 2. A piece that could not be read is recorded without bytes: it is not requested again in this form, and each value
//!    in it is looked up on its own.
//!
//! Cost for each value: one look into a hash map, and a step for each piece of its leaf: one, or two or three if a scan
//! came back for more.

use std::cell::OnceCell;
use std::ops::Range;

use elsa::FrozenMap;
use foldhash::fast::FixedState;

use super::page_key::PageKey;

/// Values of one leaf.
struct Piece {
    /// Their range in the file.
    extent: Range<u64>,
    /// Empty if they could not be read.
    bytes: Vec<u8>,
    /// The next piece of that leaf.
    next: OnceCell<Box<Piece>>,
}

/// The values that one reader passes, by the places of their leaves.
#[derive(Default)]
pub(super) struct Passing {
    pieces: FrozenMap<PageKey, Box<Piece>, FixedState>,
}

impl Passing {
    fn of_leaf(&self, leaf: &PageKey) -> impl Iterator<Item = &Piece> {
        std::iter::successors(self.pieces.get(leaf), |piece| piece.next.get().map(|next| &**next))
    }

    /// The bytes at `extent` of the file, if they were read with others of that leaf.
    #[inline]
    pub(crate) fn get(&self, leaf: &PageKey, extent: &Range<u64>) -> Option<&[u8]> {
        let piece = self.of_leaf(leaf).find(|piece| piece.has(extent))?;
        let at = (extent.start - piece.extent.start) as usize;
        piece.bytes.get(at..at + (extent.end - extent.start) as usize)
    }

    /// Whether reading the bytes at `extent` was tried.
    pub(crate) fn has(&self, leaf: &PageKey, extent: &Range<u64>) -> bool {
        self.of_leaf(leaf).any(|piece| piece.has(extent))
    }

    /// Adds the bytes at `extent`, or none if they cannot be read.
    pub(crate) fn insert(&self, leaf: PageKey, extent: Range<u64>, bytes: Vec<u8>) {
        let piece = Box::new(Piece { extent, bytes, next: OnceCell::new() });
        match self.of_leaf(&leaf).last() {
            Some(last) => {
                let is_first = last.next.set(piece).is_ok();
                debug_assert!(is_first, "the last has none after it");
            }
            None => {
                self.pieces.insert(leaf, piece);
            }
        }
    }
}

impl Piece {
    fn has(&self, extent: &Range<u64>) -> bool {
        self.extent.start <= extent.start && extent.end <= self.extent.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_the_piece_that_has_all_of_them() {
        let passing = Passing::default();
        let (leaf, other) = (PageKey::new(1, 4096), PageKey::new(2, 4096));
        assert_eq!(passing.get(&leaf, &(16..24)), None);
        passing.insert(leaf, 16..32, (16..32).collect());
        passing.insert(leaf, 32..48, (32..48).collect());
        passing.insert(leaf, 48..64, Vec::new());
        assert_eq!(passing.get(&leaf, &(16..20)), Some(&[16, 17, 18, 19][..]));
        assert_eq!(passing.get(&leaf, &(32..34)), Some(&[32, 33][..]));
        assert_eq!(passing.get(&leaf, &(30..34)), None, "it is cut");
        assert_eq!((passing.has(&leaf, &(30..34)), passing.has(&leaf, &(46..50))), (false, false));
        assert_eq!((passing.has(&leaf, &(50..52)), passing.get(&leaf, &(50..52))), (true, None), "it cannot be read");
        assert_eq!(passing.get(&leaf, &(8..20)), None);
        assert_eq!(passing.get(&other, &(16..20)), None);
    }
}
