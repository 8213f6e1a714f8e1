//! Scores as they stand in keys: bytes that sort as the numbers do, few for the numbers that are common.
//! Scores as clients see them: `resp/number`.
//! `docs/internals/format-keyspace.md` has the picture.
//!
//! Invariants:
//! 1. `a < b` exactly if `encode(a) < encode(b)`; equal numbers have equal bytes, -0.0 those of 0.0.
//! 2. No encoding is the beginning of another, so that whatever follows one does not disturb the order.
//! 3. `decode` accepts exactly what `encode` writes.
//!
//! Costs: 1 byte for 0, 2 for integers up to 7, 3 up to 1023, 4 up to 131,071, 5 up to 16,777,215, either way of
//! it; 9 for most fractions.

use std::ops::Deref;

/// Bytes of the longest encoding.
pub const SCORE_BYTES_MAX: usize = 9;

/// Zero stands in the middle; magnitudes count up and down from it.
const MIDDLE: u64 = 1 << 63;
const INFINITE: u64 = f64::INFINITY.to_bits();
/// Groups of seven bits, each in a byte whose lowest bit says that more follows.
const GROUPS: u32 = 8;

/// The bytes of a score.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; SCORE_BYTES_MAX],
    len: u8,
}

impl Deref for Encoded {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The bytes of a score, which is a number.
#[inline]
pub fn encode(score: f64) -> Encoded {
    debug_assert!(!score.is_nan(), "commands refuse what is not a number");
    let magnitude = score.to_bits() & !MIDDLE;
    let mut rest = if score.is_sign_negative() { MIDDLE - magnitude } else { MIDDLE + magnitude };
    let mut bytes = [0; SCORE_BYTES_MAX];
    for group in 0..GROUPS as u8 {
        let seven = (rest >> 57) as u8;
        rest <<= 7;
        bytes[usize::from(group)] = seven << 1 | u8::from(rest != 0);
        if rest == 0 {
            return Encoded { bytes, len: group + 1 };
        }
    }
    bytes[SCORE_BYTES_MAX - 1] = (rest >> 56) as u8;
    Encoded { bytes, len: SCORE_BYTES_MAX as u8 }
}

/// The score at the start of `bytes`, and how many bytes it takes; `None` if none stands there.
#[inline]
pub fn decode(bytes: &[u8]) -> Option<(f64, usize)> {
    let (mut whole, mut len, mut goes_on) = (0u64, 0, true);
    for group in 0..GROUPS {
        let byte = *bytes.get(len)?;
        whole |= u64::from(byte >> 1) << (57 - 7 * group);
        len += 1;
        goes_on = byte & 1 != 0;
        if !goes_on {
            // Empty groups at the end are left out.
            if byte == 0 {
                return None;
            }
            break;
        }
    }
    if goes_on {
        let last = *bytes.get(len)?;
        if last == 0 {
            return None;
        }
        whole |= u64::from(last);
        len += 1;
    }
    let bits = if whole >= MIDDLE { whole - MIDDLE } else { (MIDDLE - whole) | MIDDLE };
    (bits & !MIDDLE <= INFINITE).then(|| (f64::from_bits(bits), len))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::{SCORE_BYTES_MAX, decode, encode};

    fn samples(rng: &mut StdRng, count: usize) -> Vec<f64> {
        let mut scores = vec![0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN];
        scores.extend([f64::MIN_POSITIVE, 5e-324, -5e-324, 0.5, 1.5, 1e9, -1e9, (1u64 << 53) as f64]);
        while scores.len() < count {
            let score = match rng.random_range(0..5) {
                0 => f64::from_bits(rng.random()),
                1 => f64::from(rng.random_range(-1000..1000)),
                2 => rng.random_range(-1e6..1e6),
                3 => rng.random_range(i64::MIN..i64::MAX) as f64,
                // A neighbour of one that is there.
                _ => {
                    let near = scores[rng.random_range(0..scores.len())];
                    if rng.random() { near.next_up() } else { near.next_down() }
                }
            };
            if !score.is_nan() {
                scores.push(score);
            }
        }
        scores
    }

    #[test]
    fn bytes_sort_as_numbers_and_come_back() {
        let seed = 0x5c0e;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut scores = samples(&mut rng, 20_000);
        for &score in &scores {
            let bytes = encode(score);
            assert_eq!(decode(&bytes), Some((score, bytes.len())), "{score:e}");
            let followed = [&*bytes, b"\xff\x00member"].concat();
            assert_eq!(decode(&followed), Some((score, bytes.len())), "{score:e}");
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None, "{score:e} cut to {cut}");
            }
        }
        scores.sort_by(f64::total_cmp);
        for pair in scores.windows(2) {
            let (a, b) = (encode(pair[0]), encode(pair[1]));
            assert_eq!(Some(a.cmp(&b)), pair[0].partial_cmp(&pair[1]), "{pair:?}");
            assert!(*a == *b || !b.starts_with(&a) && !a.starts_with(&b), "{pair:?}");
        }
    }

    #[test]
    fn every_order_of_any_two_is_kept() {
        let mut rng = StdRng::seed_from_u64(77);
        let scores = samples(&mut rng, 400);
        for &a in &scores {
            for &b in &scores {
                assert_eq!(Some(encode(a).cmp(&encode(b))), a.partial_cmp(&b), "{a:e} {b:e}");
            }
        }
    }

    #[test]
    fn common_numbers_are_short() {
        for (score, bytes) in [(0.0, 1), (-0.0, 1), (1.0, 2), (-1.0, 2), (7.0, 2), (9.0, 3), (1000.0, 3), (-1000.0, 3)]
        {
            assert_eq!(encode(score).len(), bytes, "{score}");
        }
        for power in 0..30 {
            assert!(encode(f64::from((1 << power) - 1)).len() <= 6);
        }
        assert_eq!(encode(0.1).len(), SCORE_BYTES_MAX);
    }

    #[test]
    fn only_what_is_written_is_read() {
        let mut rng = StdRng::seed_from_u64(4);
        for _ in 0..200_000 {
            let len = rng.random_range(0..=SCORE_BYTES_MAX);
            let bytes: Vec<u8> = (0..len).map(|_| rng.random::<u8>() & if rng.random() { 1 } else { 0xFF }).collect();
            if let Some((score, len)) = decode(&bytes) {
                assert_eq!(*encode(score), bytes[..len], "{bytes:x?}");
            }
        }
    }
}
