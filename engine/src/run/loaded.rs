//! A unit of a run in memory that has been checked.

use super::columns::Top;
use crate::page::{PageRef, Unit, UnitBuffer};

/// A unit in memory that has been checked.
pub(crate) enum Loaded {
    Leaf(Unit),
    Node(UnitBuffer),
    /// A filter over leaves.
    Filter(UnitBuffer),
    /// A value out of line, or several.
    Value(Vec<u8>),
    /// The level above the parts of a run, which is no unit of a file.
    Top(Box<Top>),
}

impl Loaded {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Loaded::Leaf(unit) => unit.as_slice(),
            Loaded::Node(buffer) | Loaded::Filter(buffer) => buffer.as_slice(),
            Loaded::Value(value) => value,
            Loaded::Top(_) => &[],
        }
    }

    /// Its bytes. A frame that it lies in may be a third longer; most are filled.
    pub(crate) fn bytes(&self) -> usize {
        self.as_slice().len()
    }

    /// The bytes of a value out of line, or of several.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Loaded::Value(bytes) => bytes,
            _ => unreachable!("{NO_PAGE_THERE}"),
        }
    }

    /// The leaf in it.
    pub(crate) fn leaf(&self) -> PageRef<'_> {
        match self {
            Loaded::Leaf(unit) => unit.page(),
            _ => unreachable!("{NO_PAGE_THERE}"),
        }
    }
}

pub(super) const NO_PAGE_THERE: &str = "what a place leads to is checked when it is loaded";
