//! The model of a table: an ordered map that counts, and of which a copy costs nothing (a treap whose nodes are
//! shared).

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use quipu::Bounds;

use crate::library::value::{Value, mix};

type Link = Option<Arc<Node>>;

#[derive(Clone)]
struct Node {
    key: Arc<[u8]>,
    value: Value,
    priority: u64,
    size: usize,
    left: Link,
    right: Link,
}

/// Rows in order of their keys.
#[derive(Clone, Default)]
pub struct Rows(Link);

fn size(link: &Link) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

fn with(node: &Node, left: Link, right: Link) -> Link {
    let size = size(&left) + size(&right) + 1;
    Some(Arc::new(Node { key: node.key.clone(), left, right, size, ..*node }))
}

fn merge(left: Link, right: Link) -> Link {
    let (Some(a), Some(b)) = (&left, &right) else { return left.or(right) };
    if a.priority >= b.priority {
        with(a, a.left.clone(), merge(a.right.clone(), right.clone()))
    } else {
        with(b, merge(left.clone(), b.left.clone()), b.right.clone())
    }
}

/// What comes before the cut, and the rest; `after`: the key itself comes before.
fn split(link: &Link, key: &[u8], after: bool) -> (Link, Link) {
    let Some(node) = link else { return (None, None) };
    if *node.key < *key || after && *node.key == *key {
        let (middle, right) = split(&node.right, key, after);
        (with(node, node.left.clone(), middle), right)
    } else {
        let (left, middle) = split(&node.left, key, after);
        (left, with(node, middle, node.right.clone()))
    }
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        size(&self.0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value at a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        let mut link = &self.0;
        while let Some(node) = link {
            link = match key.cmp(&node.key) {
                std::cmp::Ordering::Equal => return Some(node.value),
                std::cmp::Ordering::Less => &node.left,
                std::cmp::Ordering::Greater => &node.right,
            };
        }
        None
    }

    /// Puts a row; what was there.
    pub fn put(&mut self, key: &[u8], value: Value) -> Option<Value> {
        let old = self.get(key);
        let (left, rest) = split(&self.0, key, false);
        let (_, right) = split(&rest, key, true);
        let hash = key.iter().fold(key.len() as u64, |hash, &byte| mix(hash ^ u64::from(byte)));
        let node = Node { key: key.into(), value, priority: hash, size: 1, left: None, right: None };
        self.0 = merge(merge(left, Some(Arc::new(node))), right);
        old
    }

    /// Removes a row; what was there.
    pub fn remove(&mut self, key: &[u8]) -> Option<Value> {
        let old = self.get(key)?;
        let (left, rest) = split(&self.0, key, false);
        let (_, right) = split(&rest, key, true);
        self.0 = merge(left, right);
        Some(old)
    }

    /// Removes a range; how many rows it had.
    pub fn remove_range(&mut self, bounds: &Bounds<'_>) -> usize {
        let (from, to) = self.span(bounds);
        if from == to {
            return 0;
        }
        let low = self.nth(from).map(|row| row.0.to_vec()).unwrap_or_default();
        let high = self.nth(to - 1).map(|row| row.0.to_vec()).unwrap_or_default();
        let (left, rest) = split(&self.0, &low, false);
        let (_, right) = split(&rest, &high, true);
        self.0 = merge(left, right);
        to - from
    }

    /// How many rows come before a key, or before what follows it.
    pub fn before(&self, key: &[u8], after: bool) -> usize {
        let mut link = &self.0;
        let mut count = 0;
        while let Some(node) = link {
            if *node.key < *key || after && *node.key == *key {
                count += size(&node.left) + 1;
                link = &node.right;
            } else {
                link = &node.left;
            }
        }
        count
    }

    /// A range as positions: from the first on, to the second without it.
    pub fn span(&self, bounds: &Bounds<'_>) -> (usize, usize) {
        let from = match bounds.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.before(key, false),
            Bound::Excluded(key) => self.before(key, true),
        };
        let to = match bounds.end_bound() {
            Bound::Unbounded => self.len(),
            Bound::Included(key) => self.before(key, true),
            Bound::Excluded(key) => self.before(key, false),
        };
        (from, to.max(from))
    }

    /// The row at a position.
    pub fn nth(&self, mut position: usize) -> Option<(&[u8], Value)> {
        let mut link = &self.0;
        while let Some(node) = link {
            let left = size(&node.left);
            match position.cmp(&left) {
                std::cmp::Ordering::Equal => return Some((&node.key, node.value)),
                std::cmp::Ordering::Less => link = &node.left,
                std::cmp::Ordering::Greater => {
                    position -= left + 1;
                    link = &node.right;
                }
            }
        }
        None
    }

    /// The rows of some positions.
    pub fn slice(&self, from: usize, to: usize) -> Iter<'_> {
        let mut path = Vec::new();
        let (mut link, mut skip) = (&self.0, from);
        while let Some(node) = link {
            let left = size(&node.left);
            if skip <= left {
                path.push(&**node);
                link = &node.left;
                if skip == left {
                    break;
                }
            } else {
                skip -= left + 1;
                link = &node.right;
            }
        }
        Iter { path, left: to.min(self.len()).saturating_sub(from) }
    }

    /// All rows.
    pub fn iter(&self) -> Iter<'_> {
        self.slice(0, self.len())
    }

    /// Whether both have the same rows.
    pub fn same(&self, other: &Rows) -> bool {
        let shared = match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        shared || self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Rows in order.
pub struct Iter<'r> {
    path: Vec<&'r Node>,
    left: usize,
}

impl<'r> Iterator for Iter<'r> {
    type Item = (&'r [u8], Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let node = self.path.pop()?;
        let mut link = &node.right;
        while let Some(next) = link {
            self.path.push(next);
            link = &next.left;
        }
        Some((&node.key, node.value))
    }
}

#[test]
fn it_is_a_sorted_vector() {
    let mut dice = quipu_suite::dice::Dice::new(3);
    let (mut rows, mut map) = (Rows::default(), std::collections::BTreeMap::new());
    for fill in 0..3000 {
        let key = dice.below(200).to_string().into_bytes();
        let value = Value { len: 1, fill };
        match dice.below(10) {
            0..=5 => assert_eq!(rows.put(&key, value), map.insert(key, value)),
            6..=8 => assert_eq!(rows.remove(&key), map.remove(&key)),
            _ => {
                let high = dice.below(200).to_string().into_bytes();
                let bounds = Bounds::new(Bound::Excluded(&key), Bound::Included(&high));
                let gone: Vec<_> = map.keys().filter(|key| bounds.contains(key)).cloned().collect();
                assert_eq!(rows.remove_range(&bounds), gone.len());
                map.retain(|key, _| !gone.contains(key));
            }
        }
        assert!(rows.iter().eq(map.iter().map(|(key, value)| (&key[..], *value))));
        let at = dice.below(200);
        assert!(rows.slice(at, at + 5).eq(map.iter().skip(at).take(5).map(|(key, value)| (&key[..], *value))));
        assert_eq!(rows.nth(at), map.iter().nth(at).map(|(key, value)| (&key[..], *value)));
    }
}
