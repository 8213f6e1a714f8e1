//! The bytes of one simulated file: what is durable, what a reader sees, and the changes in between.
//!
//! Invariants:
//! 1. `current` is the result of all changes ever made.
//! 2. `durable` with all of `pending` applied in order is `current`.
//! 3. A write that a failed sync covered is doubtful, and stays so until its bytes are written again and synced: a good
//!    sync makes durable the length it gave the file, not the bytes.
//!
//! Cost: a write copies its bytes twice, a sync copies what was written since the last one, a crash without pending
//! changes copies nothing.
//!
//! Not here: names, steps, faults.

use super::sim::CrashMode;
use std::sync::Arc;

/// The unit that a disk writes whole or not at all, in bytes.
const TEAR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Content {
    durable: Arc<Vec<u8>>,
    current: Arc<Vec<u8>>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
struct Pending {
    change: Change,
    is_doubtful: bool,
}

#[derive(Clone)]
enum Change {
    Write(Write),
    SetLen(usize),
}

#[derive(Clone)]
struct Write {
    offset: usize,
    bytes: Box<[u8]>,
}

impl Write {
    fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

impl Content {
    /// Bytes that are all durable.
    pub(super) fn all_durable(bytes: Vec<u8>) -> Self {
        Self::all_durable_shared(Arc::new(bytes))
    }

    fn all_durable_shared(bytes: Arc<Vec<u8>>) -> Self {
        Self { durable: Arc::clone(&bytes), current: bytes, pending: Vec::new() }
    }

    /// What a reader sees.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        overwrite(Arc::make_mut(&mut self.current), offset, bytes);
        let bytes = bytes.into();
        self.push(Change::Write(Write { offset, bytes }));
    }

    pub(super) fn set_len(&mut self, len: usize) {
        Arc::make_mut(&mut self.current).resize(len, 0);
        self.push(Change::SetLen(len));
    }

    fn push(&mut self, change: Change) {
        self.pending.push(Pending { change, is_doubtful: false });
    }

    /// Makes all pending changes durable except doubtful writes.
    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        let mut doubtful = Vec::new();
        for pending in self.pending.drain(..) {
            match pending.change {
                Change::SetLen(len) => {
                    cut_out(&mut doubtful, len, usize::MAX);
                    durable.resize(len, 0);
                }
                Change::Write(write) if pending.is_doubtful => {
                    grow(durable, write.end());
                    doubtful.push(write);
                }
                Change::Write(write) => {
                    cut_out(&mut doubtful, write.offset, write.end());
                    overwrite(durable, write.offset, &write.bytes);
                }
            }
        }
        self.pending
            .extend(doubtful.into_iter().map(|write| Pending { change: Change::Write(write), is_doubtful: true }));
    }

    /// A failed sync: no later one will make the pending writes durable.
    pub(super) fn fail_sync(&mut self) {
        for pending in &mut self.pending {
            pending.is_doubtful = true;
        }
    }

    /// Inverts one bit, on the disk and in what a reader sees. Panics if the file is shorter.
    pub(super) fn flip_bit(&mut self, bit_index: u64) {
        let index = usize::try_from(bit_index / 8).expect("a bit of the file");
        let mask = 1 << (bit_index % 8);
        Arc::make_mut(&mut self.current)[index] ^= mask;
        if let Some(byte) = Arc::make_mut(&mut self.durable).get_mut(index) {
            *byte ^= mask;
        }
    }

    /// The file as found after the power was lost.
    pub(super) fn crash(&self, mode: CrashMode, rng: &mut SplitMix64) -> Self {
        match mode {
            _ if self.pending.is_empty() => Self::all_durable_shared(Arc::clone(&self.durable)),
            CrashMode::LoseAll => Self::all_durable_shared(Arc::clone(&self.durable)),
            CrashMode::KeepAll => Self::all_durable_shared(Arc::clone(&self.current)),
            CrashMode::Random => Self::all_durable(self.crash_at_random(rng)),
        }
    }

    /// The length is that after some prefix of the changes (journals keep metadata in order), perhaps with part of the
    /// next write's growth. The writes arrived either in order up to that point, or in each sector as drawn for it.
    fn crash_at_random(&self, rng: &mut SplitMix64) -> Vec<u8> {
        let mut bytes = Vec::clone(&self.durable);
        let seen = rng.below(self.pending.len() + 1);
        let mut lots = match rng.below(4) {
            0 => None,
            leaning => Some(Lots::draw(&self.pending, leaning - 1, rng)),
        };
        for (index, pending) in self.pending.iter().enumerate() {
            let write = match &pending.change {
                Change::SetLen(len) => {
                    if index < seen {
                        bytes.resize(*len, 0);
                    }
                    continue;
                }
                Change::Write(write) => write,
            };
            if index < seen {
                grow(&mut bytes, write.end());
            } else if index == seen && write.end() > bytes.len() {
                let growth_sectors = (write.end() - bytes.len()).div_ceil(TEAR_BYTES);
                let torn_len = bytes.len() / TEAR_BYTES + rng.below(growth_sectors + 1);
                grow(&mut bytes, (torn_len * TEAR_BYTES).min(write.end()));
            }
            let mut start = write.offset;
            while start < write.end() {
                let sector = start / TEAR_BYTES;
                let end = write.end().min((sector + 1) * TEAR_BYTES);
                let arrived = match &mut lots {
                    None => index < seen || (index == seen && rng.below(2) == 0),
                    Some(lots) => lots.next_arrives(sector, rng),
                };
                let end_kept = end.min(bytes.len());
                if arrived && start < end_kept {
                    let source = start - write.offset..end_kept - write.offset;
                    bytes[start..end_kept].copy_from_slice(&write.bytes[source]);
                }
                start = end;
            }
        }
        bytes
    }
}

/// Which of the writes that touch a sector arrived there, for each sector of a file.
struct Lots {
    sectors: Vec<Lot>,
}

#[derive(Clone, Copy, Default)]
struct Lot {
    touches: usize,
    /// This many more arrive, and none after them.
    arriving: usize,
    /// Instead, a coin decides for each.
    is_subset: bool,
}

impl Lots {
    /// In sixteenths, for files that mostly kept, half kept and mostly lost what was pending.
    const KEPT_OF_16: [usize; 3] = [14, 5, 1];
    const LOST_OF_16: [usize; 3] = [1, 5, 14];

    fn draw(pending: &[Pending], leaning: usize, rng: &mut SplitMix64) -> Self {
        let mut sectors: Vec<Lot> = Vec::new();
        for pending in pending {
            let Change::Write(write) = &pending.change else {
                continue;
            };
            let end_sector = write.end().div_ceil(TEAR_BYTES);
            if sectors.len() < end_sector {
                sectors.resize(end_sector, Lot::default());
            }
            for lot in &mut sectors[write.offset / TEAR_BYTES..end_sector] {
                lot.touches += 1;
            }
        }
        let (kept, lost) = (Self::KEPT_OF_16[leaning], Self::LOST_OF_16[leaning]);
        for lot in sectors.iter_mut().filter(|lot| lot.touches > 0) {
            match rng.below(16) {
                roll if roll < kept => lot.arriving = lot.touches,
                roll if roll < kept + lost => {}
                roll if roll % 2 == 0 => lot.arriving = rng.below(lot.touches + 1),
                _ => lot.is_subset = true,
            }
        }
        Self { sectors }
    }

    fn next_arrives(&mut self, sector: usize, rng: &mut SplitMix64) -> bool {
        let lot = &mut self.sectors[sector];
        if lot.is_subset {
            return rng.below(2) == 0;
        }
        let arrives = lot.arriving > 0;
        lot.arriving = lot.arriving.saturating_sub(1);
        arrives
    }
}

fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
}

fn overwrite(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    grow(target, end);
    target[offset..end].copy_from_slice(bytes);
}

/// Cuts the bytes from `start` to `end` out of the writes, which leaves none, one or two pieces of each.
fn cut_out(writes: &mut Vec<Write>, start: usize, end: usize) {
    if writes.iter().all(|write| write.end() <= start || end <= write.offset) {
        return;
    }
    let mut pieces = Vec::with_capacity(writes.len() + 1);
    for write in writes.drain(..) {
        for (from, to) in [(write.offset, write.end().min(start)), (write.offset.max(end), write.end())] {
            if from < to {
                let bytes = write.bytes[from - write.offset..to - write.offset].into();
                pieces.push(Write { offset: from, bytes });
            }
        }
    }
    *writes = pieces;
}

/// Steele, Lea and Flood's generator (OOPSLA 2014): a few lines, good enough here.
pub(super) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        debug_assert!(limit > 0);
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}
