//! Opens a run in memory, checks it and asks it everything. For fuzz targets and tests.

use std::path::Path;
use std::sync::Arc;

use super::RunLayer;
use super::check::RunReport;
use crate::cache::{PageCache, ReadPages};
use crate::compression::{Compression, Packer};
use crate::error::Result;
use crate::io::sim::SimDisk;
use crate::options::RunLayout;
use crate::page::{PAGE_BYTES_MAX, UNIT_ALIGNMENT_BYTES, UnitBuffer, checked_page};
use crate::run::file::RunFile;
use crate::run::format::{FOOTER_BYTES, Footer, HEADER_BYTES, Header, Pointer, Sums, VERSION};
use crate::run::packed::{self, PackedUnit, plain_bytes_max};
use crate::run::scan::VisitEntry;
use crate::run::weight::weight_of;
use crate::run::{Part, Run};
use crate::stack::{Layer, LayerWalk};
use crate::tally::{Measures, Tally};
use crate::tree::Side;

/// A unit in its packed form; `None` if packing does not pay.
pub(crate) fn packed_unit(plain: &[u8]) -> Option<Vec<u8>> {
    let mut packer = Packer::new(Compression::Lz4)?;
    let block = packer.pack(plain, packed::HEADER_BYTES + UNIT_ALIGNMENT_BYTES)?;
    let mut unit = [&packed::header(plain.len(), block.len()), block].concat();
    unit.resize(unit.len().next_multiple_of(UNIT_ALIGNMENT_BYTES), 0);
    Some(unit)
}

/// Checks a run of one leaf, stored as `unit`, whose length is a multiple of eight. For fuzzing.
///
/// # Panics
/// Those of [`check_bytes`].
pub(crate) fn check_leaf_bytes(unit: &[u8]) {
    // As many entries as the leaf has, if it is one: otherwise nothing after the check of that count would be reached.
    let page_bytes = PAGE_BYTES_MAX;
    let mut plain = UnitBuffer::new(0);
    if let Ok(Some(packed)) = PackedUnit::new(unit, page_bytes) {
        plain = UnitBuffer::new(packed.plain_bytes());
        assert!(packed.plain_bytes() <= plain_bytes_max(page_bytes));
        let _ = packed.unpack(plain.as_mut_slice());
    }
    let entries = checked_page(plain.as_slice(), true).map_or(1, |page| page.count() as i64);
    let header = Header { version: VERSION, table_id: 1, run_id: 1 };
    let (offset, length) = (HEADER_BYTES as u64, unit.len() as u32);
    let footer = Footer {
        page_bytes,
        file_bytes: (HEADER_BYTES + unit.len() + FOOTER_BYTES) as u64,
        root: Pointer { offset, length, checksum: crc32c::crc32c(unit) },
        levels: 1,
        measures: Measures::ROWS,
        total: Sums::of_rows(Tally { rows: entries, ..Tally::ZERO }),
        is_bottom: true,
        layout: RunLayout::Tree,
        compression: Compression::Lz4,
        saved_bytes: (plain.as_slice().len() as u64).saturating_sub(u64::from(length)),
    };
    let file = [&header.encode()[..], unit, &footer.encode()].concat();
    let report = check_bytes(&file);
    assert!(report.is_ok(), "{report:?}");
}

/// Opens and checks a whole run in memory, and if it is sound asks it everything. For fuzzing.
///
/// # Errors
/// Those of opening a file with these bytes.
///
/// # Panics
/// If a run that the checker has passed gives a wrong answer.
pub(crate) fn check_bytes(bytes: &[u8]) -> Result<RunReport> {
    let disk = SimDisk::new();
    let path = Path::new("/run");
    disk.write_file(path, bytes);
    let run = RunFile::open(&disk, path)?;
    let report = run.check(&mut |_| ());
    let is_sound = report.faults.is_empty();
    // A cache of a few pages, so that pages go and come back, and filters are used.
    let (whole, cache) = (Arc::new(Run::of_parts(&[Part::first(&run)], run.info().is_bottom)), PageCache::new(4096));
    let mut before = Sums::default();
    let scanned = run.scan_entries(&mut |_| (), &mut |key, value, weight| {
        let pages = ReadPages::new(&cache);
        let layer = RunLayer::new(&whole, &pages);
        // The answers of an unsound run may be errors, but must not panic.
        let found = pages.answer(|| Ok(layer.get(key)?.map(|value| value.map(<[u8]>::to_vec))));
        let tally = pages.answer(|| layer.tally_before(key, Side::Below));
        let at = pages.answer(|| layer.seek(Some((key, Side::Below))).map(|walk| walk.key()));
        if is_sound {
            assert_eq!(found?, Some(value.map(<[u8]>::to_vec)));
            assert_eq!(tally?, before.tally);
            assert_eq!(*at?, *key);
        }
        before.add(value.is_none(), weight);
        Ok(())
    });
    assert!(scanned.is_ok() || !is_sound, "{scanned:?}");
    assert!(before == run.info().total || !is_sound);
    Ok(report)
}

impl RunFile {
    /// Like [`RunFile::scan`], for any run: visits all entries.
    pub(crate) fn scan_entries(&self, progress: &mut dyn FnMut(u64), visit: &mut VisitEntry<'_>) -> Result<()> {
        let measures = self.info().measures;
        self.scan_records(progress, &mut |entry, key, value| {
            let value = (!entry.is_tombstone()).then_some(value);
            visit(key, value, weight_of(entry, &measures, || key))
        })
    }
}
