//! Decoders of untrusted bytes, for the fuzz targets and `tests/fuzz_smoke.rs`. Unstable.
//!
//! Checksums keep random bytes from the code after them, so each decoder gets the bytes unchanged and with corrected
//! checksums.

use std::path::Path;
use std::sync::Arc;

use crate::cache::PageCache;
use crate::catalog::declaration::Declaration;
use crate::catalog::manifest::Manifest;
use crate::compression::Compression;
use crate::error::Result;
use crate::files::open::replay;
use crate::io::Disk;
use crate::io::sim::SimDisk;
use crate::log::{self, Lsn};
use crate::options::TableOptions;
use crate::run::{RunOptions, RunWriter};
use crate::state::writer::TableTrees;
use crate::tally::{Measures, SumField, Tally};
use crate::tree::{Arena, Tree, When};

/// A log segment: frames, and recovery of a log that consists of it.
pub fn log_segment(bytes: &[u8]) {
    decode_segment(bytes);
    let mut repaired = bytes.to_vec();
    put_checksum(&mut repaired, 0, 124);
    if let (Some(database), Some(segment)) = (u64_at(bytes, 24), u64_at(bytes, 16)) {
        let seed = crc32c::crc32c_append(crc32c::crc32c(&database.to_le_bytes()), &segment.to_le_bytes());
        let mut at = 128;
        while let Some(word) = u32_at(&repaired, at + 4) {
            let end = at + 24 + (word as usize & ((1 << 30) - 1)).next_multiple_of(8);
            let Some(frame) = repaired.get(at + 4..end) else { break };
            let checksum = crc32c::crc32c_append(seed, frame);
            repaired[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
            at = end;
        }
    }
    decode_segment(&repaired);
}

fn decode_segment(bytes: &[u8]) {
    let _ = log::decode_segment(bytes);
    let (Some(id), Some(database), Some(base), Some(sequence)) =
        (u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32), u64_at(bytes, 40))
    else {
        return;
    };
    let disk = SimDisk::new();
    disk.write_file(format!("db/log-{id:010}.quipu"), bytes);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut expected = sequence;
    let recovered =
        log::recover(&disk, Path::new("db"), database, Lsn(base), sequence, &mut |_, _| (), &mut |number, _| {
            assert_eq!(number, expected, "sequence numbers ascend by one");
            expected = expected.wrapping_add(1);
            Ok(())
        });
    if let Ok(recovered) = recovered {
        assert_eq!(recovered.next_sequence, expected);
        assert!(recovered.end_lsn >= Lsn(base) && recovered.durable_lsn <= recovered.end_lsn);
    }
}

/// The payload of a log record: decoding, and replay over two small tables, after which all counts hold.
///
/// # Errors
/// If the bytes are no record.
pub fn log_record(bytes: &[u8]) -> Result<()> {
    let arena = Arc::new(Arena::new(256, 1 << 20)?);
    let all = Measures { bytes: true, hash: true, sum: Some(SumField::BigEndian { at: 0 }), ..Measures::ROWS };
    let mut tables = Vec::new();
    for (id, measures) in [(0, Measures::ROWS), (1, all)] {
        let options = TableOptions { measures, ..TableOptions::default() };
        let declaration = Arc::new(Declaration { id, name: format!("table {id}"), options });
        let mut tree = Tree::new(arena.clone(), measures, true);
        for row in 0..40u8 {
            tree.put(&[b'a', row], &[row; 12], When::Always)?;
        }
        tables.push(Some(TableTrees::new(declaration, tree, 0)));
    }
    let decoded = crate::catalog::record::decode(bytes, &mut |_| Ok(()));
    // Changes are decoded one by one, so those before the fault are applied; recovery discards all of them then.
    let cache = PageCache::new(0);
    let _ = crate::catalog::record::decode(bytes, &mut |change| replay(&mut tables, (&arena, &cache), (1, 0), change));
    for trees in tables.iter().flatten() {
        let faults: Vec<String> = trees.layers.iter().flat_map(|tree| tree.check()).collect();
        assert_eq!(faults, [""; 0]);
    }
    decoded
}

/// A whole run file.
pub fn run_file(bytes: &[u8]) {
    let _ = crate::probe::check_bytes(bytes);
    let mut repaired = bytes.to_vec();
    put_checksum(&mut repaired, 0, 28);
    let footer_bytes = if u32_at(bytes, 8) == Some(1) { 128 } else { 192 };
    if let Some(footer) = bytes.len().checked_sub(footer_bytes) {
        repaired[footer + 16..footer + 24].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        // The root's checksum lies in the footer; those of filters over leaves and of other pages in their parents.
        if let (Some(offset), Some(length)) = (u64_at(&repaired, footer + 24), u32_at(&repaired, footer + 32))
            && let Some(end) = offset.checked_add(u64::from(length))
            && let Some((before, root)) =
                repaired.get_mut(..end as usize).and_then(|bytes| bytes.split_at_mut_checked(offset as usize))
        {
            put_filter_checksums(before, root);
            let checksum = crc32c::crc32c(root);
            repaired[footer + 36..footer + 40].copy_from_slice(&checksum.to_le_bytes());
        }
        put_checksum(&mut repaired, footer, footer_bytes - 4);
    }
    let _ = crate::probe::check_bytes(&repaired);
}

/// A small upper run with filters, like those of databases with tables larger than memory: an input for [`run_file`].
///
/// # Errors
/// None are expected.
pub fn filtered_run() -> Result<Vec<u8>> {
    let (disk, path) = (SimDisk::new(), Path::new("/db/run"));
    disk.write_file("/db/other", []);
    let options = RunOptions { page_bytes: 256, is_bottom: false, ..RunOptions::default() };
    let mut writer = RunWriter::create(&disk, path, options)?;
    for row in 0..120u8 {
        let (value, rows) = if row % 3 == 0 { (None, -1) } else { (Some([row; 3]), i64::from(row % 3 == 1)) };
        let weight = Tally { rows, ..Tally::ZERO };
        writer.push_entry(&[b'k', row], value.as_ref().map(|value| &value[..]), weight)?;
    }
    writer.finish()?;
    Ok(disk.read_file(path).unwrap_or_default())
}

/// A small packed run of one leaf, on request with a packed long value, as an input for [`run_file`]; and its leaf, as
/// one for [`packed_leaf`].
///
/// # Errors
/// None are expected.
pub fn packed_run(has_long_value: bool) -> Result<(Vec<u8>, Vec<u8>)> {
    let (disk, path) = (SimDisk::new(), Path::new("/db/run"));
    disk.write_file("/db/other", []);
    let options = RunOptions { page_bytes: 256, compression: Compression::Lz4, ..RunOptions::default() };
    let mut writer = RunWriter::create(&disk, path, options)?;
    for row in 0..9u8 {
        writer.push(&[b'k', row], &[row; 9])?;
    }
    if has_long_value {
        writer.push(b"long", &[7; 100])?;
    }
    writer.finish()?;
    let run = disk.read_file(path).unwrap_or_default();
    let footer = run.len() - 192;
    let leaf = u64_at(&run, footer + 24).map_or(0, |offset| offset as usize);
    let leaf = run[leaf..footer].to_vec();
    Ok((run, leaf))
}

/// A leaf of a packed run: the bytes as they are, as the block of a packed leaf, and as the contents of one. Each in a
/// run with correct checksums.
pub fn packed_leaf(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len() - bytes.len() % 8];
    crate::probe::check_leaf_bytes(bytes);
    let mut unit = bytes.to_vec();
    if let Some(kind) = unit.first_mut() {
        *kind = 4;
        crate::probe::check_leaf_bytes(&unit);
    }
    if let Some(packed) = crate::probe::packed_unit(bytes) {
        crate::probe::check_leaf_bytes(&packed);
    }
}

/// Corrects the checksums of a node's filters, which end where the node begins.
fn put_filter_checksums(before: &[u8], node: &mut [u8]) -> Option<()> {
    let u16_at = |bytes: &[u8], at: usize| Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let filters_at = 16 + u16_at(node, 2)?.next_multiple_of(8);
    let filters = u16_at(node, 6)?;
    let last = filters_at + 12 * filters.checked_sub(1)?;
    let all_start = before.len().checked_sub(u32_at(node, last + 4)? as usize)?;
    let mut start = all_start;
    for at in (filters_at..=last).step_by(12) {
        let end = all_start + u32_at(node, at + 4)? as usize;
        let checksum = crc32c::crc32c(before.get(start..end)?);
        node.get_mut(at + 8..at + 12)?.copy_from_slice(&checksum.to_le_bytes());
        start = end;
    }
    Some(())
}

/// A manifest. What can be decoded must encode to the same bytes, or to those of the newest version.
pub fn manifest(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    if bytes.len() >= 16 {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
        repaired[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    for bytes in [bytes, &repaired] {
        if let Ok(manifest) = Manifest::decode(bytes) {
            // An older version is encoded as the newest.
            let encoded = manifest.encode();
            let is_older = matches!(u32_at(bytes, 8), Some(1 | 2));
            assert!(encoded == bytes || is_older && Manifest::decode(&encoded).unwrap() == manifest);
        }
    }
}

/// Puts the checksum of `length` bytes from `start` after them, if there are that many.
fn put_checksum(bytes: &mut [u8], start: usize, length: usize) {
    if let Some((checked, rest)) = bytes.get_mut(start..).and_then(|bytes| bytes.split_at_mut_checked(length))
        && let Some(place) = rest.first_chunk_mut::<4>()
    {
        *place = crc32c::crc32c(checked).to_le_bytes();
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}
