//! A filter over some leaves: says "surely absent" for most absent keys, never for a present one.
//!
//! A binary fuse filter of 8 bits (Graf and Lemire, "Binary Fuse Filters", 2022), built by the library `xorf`. It is
//! read by the code here, so that the meaning of old files does not depend on a library's version. A filter that lacks
//! one of its own keys is not written.
//!
//! ```text
//! | seed u64 | segment_bytes u32 | segments u32 | fingerprints u8[(segments + 2) * segment_bytes] | zeros to 8 |
//! ```
//!
//! Invariants (checked by [`FilterRef::new`]):
//! 1. `segment_bytes` is a power of two, and there is at least one segment; so the three places of any hash lie among
//!    the fingerprints.
//! 2. No bytes are left over, and the zeros are zeros.
//!
//! Cost: some 10.5 bits for each key. It fails to recognise 0.4 % of absent keys (one in 2^8). A look-up reads three
//! places, in three consecutive segments: 5 ns if the filter is in the processor's cache. Building takes some 30 ns and
//! 25 bytes of memory for each key. Not here: which keys a filter has (`filter_builder`), where it stands (`node`,
//! `file`).

use smallvec::SmallVec;
use xorf::BinaryFuse8;
use xxhash_rust::xxh3::xxh3_64;

use super::descent::GROUP;
use super::format::{u32_at, u64_at};
use crate::page::{PageRef, UNIT_ALIGNMENT_BYTES};

const SEED_AT: usize = 0;
const SEGMENT_BYTES_AT: usize = 8;
const SEGMENTS_AT: usize = 12;
const FINGERPRINTS_AT: usize = 16;
/// The number of places of a key, each in a segment of its own.
const PLACES: usize = 3;

/// The hash of a key in filters.
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The places of a hash's fingerprints, and their combined value if a key of the filter has this hash.
pub(crate) struct Places {
    at: [usize; PLACES],
    fingerprint: u8,
}

/// A filter whose bytes have been checked.
#[derive(Clone, Copy)]
pub(crate) struct FilterRef<'a> {
    bytes: &'a [u8],
}

impl<'a> FilterRef<'a> {
    /// The filter in `bytes`, or what is wrong with them.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<FilterRef<'a>, String> {
        if bytes.len() < FINGERPRINTS_AT {
            return Err(format!("a filter of {} bytes", bytes.len()));
        }
        let filter = FilterRef { bytes };
        let (segment_bytes, segments) = (filter.segment_bytes(), u32_at(bytes, SEGMENTS_AT));
        if !segment_bytes.is_power_of_two() || segments == 0 {
            return Err(format!("a filter of {segments} segments of {segment_bytes} bytes"));
        }
        let used = FINGERPRINTS_AT as u64 + (u64::from(segments) + PLACES as u64 - 1) * u64::from(segment_bytes);
        let is_whole = used.next_multiple_of(UNIT_ALIGNMENT_BYTES as u64) == bytes.len() as u64;
        if !is_whole || bytes[used as usize..].iter().any(|&byte| byte != 0) {
            return Err(format!("a filter ends at {used} of {}", bytes.len()));
        }
        Ok(filter)
    }

    /// A filter that has been checked before.
    pub(crate) fn unchecked(bytes: &'a [u8]) -> FilterRef<'a> {
        FilterRef { bytes }
    }

    fn segment_bytes(&self) -> u32 {
        u32_at(self.bytes, SEGMENT_BYTES_AT)
    }

    /// False if no key of the filter has this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.has(&self.places(hash))
    }

    /// The places of a hash's fingerprints.
    #[inline]
    pub(crate) fn places(&self, hash: u64) -> Places {
        let segment_bytes = self.segment_bytes();
        let mixed = mix(hash.wrapping_add(u64_at(self.bytes, SEED_AT)));
        let range = u64::from(segment_bytes) * u64::from(u32_at(self.bytes, SEGMENTS_AT));
        let first = ((u128::from(mixed) * u128::from(range)) >> 64) as usize;
        let (segment_bytes, mask) = (segment_bytes as usize, segment_bytes as usize - 1);
        let second = (first + segment_bytes) ^ ((mixed >> 18) as usize & mask);
        let third = (first + 2 * segment_bytes) ^ (mixed as usize & mask);
        Places { at: [first, second, third], fingerprint: (mixed ^ (mixed >> 32)) as u8 }
    }

    /// Fetches what [`FilterRef::has`] reads into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, places: &Places) {
        let fingerprints = self.bytes.as_ptr().wrapping_add(FINGERPRINTS_AT);
        places.at.iter().for_each(|&at| PageRef::prefetch_at(fingerprints.wrapping_add(at), 1));
    }

    /// Whether the fingerprint at these places is that of a key of the filter.
    #[inline]
    pub(crate) fn has(&self, places: &Places) -> bool {
        let fingerprints = &self.bytes[FINGERPRINTS_AT..];
        places.at.iter().fold(0, |found, &at| found ^ fingerprints[at]) == places.fingerprint
    }

    /// The parts of the filter: their bytes and their meaning. For pages of documentation.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> Vec<(usize, String)> {
        let (segment_bytes, segments) = (self.segment_bytes() as usize, u32_at(self.bytes, SEGMENTS_AT) as usize);
        let fingerprints = (segments + PLACES - 1) * segment_bytes;
        vec![
            (8, "seed".to_owned()),
            (4, format!("segments of {segment_bytes} bytes")),
            (4, format!("{segments} segments, and two")),
            (fingerprints, "fingerprints".to_owned()),
            (self.bytes.len() - FINGERPRINTS_AT - fingerprints, "zeros".to_owned()),
        ]
    }
}

/// [`FilterRef::may_have`] of many filters and hashes, interleaved. The heads of the filters are being fetched.
pub(crate) fn may_have_each(asked: &[(FilterRef<'_>, u64)]) -> SmallVec<[bool; GROUP]> {
    let places: SmallVec<[Places; GROUP]> = asked
        .iter()
        .map(|(filter, hash)| {
            let places = filter.places(*hash);
            filter.prefetch(&places);
            places
        })
        .collect();
    asked.iter().zip(&places).map(|((filter, _), places)| filter.has(places)).collect()
}

/// The finalizer of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Appends a filter of keys with these hashes to `out`, whose length is a multiple of 8. Appends nothing if none can be
/// built, which happens only with keys crafted to have the same hash.
pub(crate) fn build(hashes: &mut Vec<u64>, out: &mut Vec<u8>) {
    let start = out.len();
    if append(hashes, out) {
        return;
    }
    out.truncate(start);
    // The library tolerates few duplicate hashes, if any.
    hashes.sort_unstable();
    hashes.dedup();
    if !append(hashes, out) {
        out.truncate(start);
    }
}

/// Builds and appends a filter. Returns whether it has all `hashes`.
fn append(hashes: &[u64], out: &mut Vec<u8>) -> bool {
    let Ok(built) = BinaryFuse8::try_from(hashes) else { return false };
    let start = out.len();
    let segment_bytes = built.descriptor.segment_length;
    out.extend_from_slice(&built.descriptor.seed.to_le_bytes());
    out.extend_from_slice(&segment_bytes.to_le_bytes());
    out.extend_from_slice(&(built.descriptor.segment_count_length / segment_bytes).to_le_bytes());
    out.extend_from_slice(&built.fingerprints);
    out.resize(out.len().next_multiple_of(UNIT_ALIGNMENT_BYTES), 0);
    FilterRef::new(&out[start..]).is_ok_and(|filter| hashes.iter().all(|&hash| filter.may_have(hash)))
}
