//! Results of reads: keys and values that own their bytes, without the heap when short.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// The most bytes stored without the heap.
const INLINE_BYTES: usize = 32;

macro_rules! octets {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(SmallVec<[u8; INLINE_BYTES]>);

        impl Deref for $name {
            type Target = [u8];
            #[inline]
            fn deref(&self) -> &[u8] {
                &self.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                &self.0
            }
        }

        impl From<&[u8]> for $name {
            #[inline]
            fn from(bytes: &[u8]) -> Self {
                $name(SmallVec::from_slice(bytes))
            }
        }

        impl From<$name> for Vec<u8> {
            fn from(octets: $name) -> Vec<u8> {
                octets.0.into_vec()
            }
        }

        impl PartialEq<[u8]> for $name {
            fn eq(&self, other: &[u8]) -> bool {
                **self == *other
            }
        }

        impl<const N: usize> PartialEq<&[u8; N]> for $name {
            fn eq(&self, other: &&[u8; N]) -> bool {
                **self == other[..]
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.escape_ascii())
            }
        }
    };
}

octets! {
    /// A key: its bytes, by `Deref`.
    Key
}

octets! {
    /// A value: its bytes, by `Deref`.
    Value
}

/// A live row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
}

impl Entry {
    #[inline]
    pub(crate) fn new(key: &[u8], value: &[u8]) -> Self {
        Entry { key: key.into(), value: value.into() }
    }
}

/// Rows at an offset of a range, and the total of the range, all from one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// The rows, in key order.
    pub entries: Vec<Entry>,
    /// The offset of the first of them in the range.
    pub offset: u64,
    /// The number of rows in the whole range.
    pub total: u64,
}
