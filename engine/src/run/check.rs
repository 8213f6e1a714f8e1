//! Checking a whole run: every page, every filter, every count, every key and value, with a report instead of a stop at the first fault.
//!
//! Costs: a scan, plus the filters, a look-up in one for every row, and the declared measures of it.
//! Not here: reading what is left (`salvage`).

use std::path::Path;
use std::sync::Arc;

use super::columns::Inner;
use super::file::{Place, RunFile};
use super::filter::{FilterRef, hash_of};
use super::format::{FOOTER_BYTES, Footer, HEADER_BYTES, Header, Index, Pointer, Sums, VERSION};
use super::packed::{PackedUnit, plain_bytes_max};
use super::scan::Visitor;
use super::{PageCache, Part, ReadPages, Run, RunLayer};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::io::sim::SimDisk;
use crate::page::{PAGE_BYTES_MAX, Record, UnitBuffer, check_unit, checked_page};
use crate::stack::{Layer, LayerWalk};
use crate::tally::{Measures, Tally};
use crate::tree::Side;

/// Faults beyond so many are counted and not described.
const FAULTS_MAX: usize = 100;

/// What a check of a run has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunReport {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Pages that are sound.
    pub(crate) pages: u64,
    /// Filters that are sound.
    pub(crate) filters: u64,
    /// Entries that are sound.
    pub(crate) entries: u64,
    /// Those of them whose values lie out of line.
    pub(crate) long_values: u64,
    /// What is wrong, in the order of the file; empty if nothing is.
    pub(crate) faults: Vec<String>,
}

impl RunFile {
    /// Checks everything; `progress` hears how many bytes of the file are done. What is wrong stands in the report, also what the
    /// disk refuses.
    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64)) -> RunReport {
        let info = self.info();
        let mut checker = Checker {
            run: self,
            measures: info.measures,
            is_bottom: info.is_bottom,
            progress,
            filters: Vec::new(),
            filter: 0,
            leaf: Sums::default(),
            saved_bytes: 0,
            report: RunReport { bytes: info.bytes, ..RunReport::default() },
            untold_faults: 0,
        };
        if let Err(error) = self.walk(&mut checker) {
            checker.tell(error.to_string());
        }
        if checker.report.faults.is_empty() && checker.report.entries != info.total.entries as u64 {
            checker.tell(format!("{} entries, {} in the footer", checker.report.entries, info.total.entries));
        }
        if checker.report.faults.is_empty() && checker.saved_bytes != info.saved_bytes {
            checker.tell(format!("packing saves {} bytes, {} in the footer", checker.saved_bytes, info.saved_bytes));
        }
        if checker.untold_faults > 0 {
            checker.report.faults.push(format!("and {} faults more", checker.untold_faults));
        }
        checker.report
    }
}

struct Checker<'p> {
    run: &'p RunFile,
    measures: Measures,
    progress: &'p mut dyn FnMut(u64),
    is_bottom: bool,
    /// Of the lowest node on the way: how many entries of the run are before the end of each filter, and the filter if it is there and sound.
    filters: Vec<(i64, Option<UnitBuffer>)>,
    /// The number of the one over the leaf.
    filter: usize,
    /// The sums of the leaf's entries so far.
    leaf: Sums,
    /// How many bytes packing has saved so far.
    saved_bytes: u64,
    report: RunReport,
    untold_faults: u64,
}

impl Checker<'_> {
    fn tell(&mut self, fault: String) {
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(fault);
        } else {
            self.untold_faults += 1;
        }
    }

    /// Reads the filters over children of an inner page.
    fn load_filters(&mut self, place: &Place, page: &Inner<'_>) {
        self.filters.clear();
        for part in page.filters() {
            let until = if part.children.end == page.count() { place.until } else { page.before(part.children.end) };
            let pointer = self.run.filter_at(place, page, &part);
            let filter = (!part.bytes.is_empty()).then(|| self.run.load_filter(&pointer));
            let filter = filter.and_then(|loaded| loaded.map_err(|error| self.tell(error.to_string())).ok());
            self.report.filters += u64::from(filter.is_some());
            self.filters.push((until.entries, filter));
        }
    }

    /// The filter over the leaf, if it is there and sound.
    fn filter(&self) -> Option<FilterRef<'_>> {
        let (_, filter) = self.filters.get(self.filter)?;
        filter.as_ref().map(|filter| FilterRef::unchecked(filter.as_slice()))
    }
}

impl Visitor for Checker<'_> {
    fn inner(&mut self, place: &Place, page: &Inner<'_>) -> Result<()> {
        if place.level == 1 {
            self.load_filters(place, page);
        }
        Ok(())
    }

    fn page(&mut self, place: &Place, unit: &[u8], page_bytes: Option<usize>) -> Result<()> {
        // The checker of pages in memory is less strict about pages in files, and written apart from theirs: what passes the one
        // must pass the other.
        if let Some(Err(fault)) = page_bytes.map(|page_bytes| check_unit(unit, page_bytes)) {
            self.tell(format!("the page at {}: {fault}", place.pointer.offset));
        }
        self.report.pages += 1;
        self.saved_bytes += unit.len() as u64 - u64::from(place.pointer.length);
        self.leaf = Sums::default();
        self.filter = self.filters.partition_point(|(until, _)| *until <= place.before.entries);
        Ok(())
    }

    fn row(&mut self, record: &Record<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        if self.filter().is_some_and(|filter| !filter.may_have(hash_of(key))) {
            self.tell(format!("the filter over key {} says that it is not there", key.escape_ascii()));
        }
        let weight = if self.is_bottom {
            let tally = self.measures.of_row(key, value);
            if !record.weights.is_empty() && record.explicit_weight(&self.measures) != tally {
                self.tell(format!("the weight of key {} is not that of its row", key.escape_ascii()));
            }
            tally
        } else {
            // What lies below is not known here.
            record.explicit_weight(&self.measures)
        };
        self.leaf.add(record.is_tombstone(), weight);
        self.report.entries += 1;
        self.report.long_values += u64::from(record.value_is_out());
        Ok(())
    }

    fn saved(&mut self, bytes: u64) {
        self.saved_bytes += bytes;
    }

    fn leaf_end(&mut self, place: &Place) -> Result<()> {
        let (found, counted) = (self.leaf, place.sums());
        // If a value could not be read, that has been said, and the sums cannot be right.
        if found.entries == counted.entries && found.tally != counted.tally {
            let (offset, found, counted) = (place.pointer.offset, found.tally, counted.tally);
            self.tell(format!("the leaf at {offset} has the tally {found:?}, counted {counted:?}"));
        }
        (self.progress)(place.end());
        Ok(())
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        self.tell(error.to_string());
        Ok(())
    }
}

/// Checks a run of one leaf, stored as `unit`, whose length is a multiple of eight. For fuzzing.
///
/// # Panics
/// As [`check_bytes`].
pub(crate) fn check_leaf_bytes(unit: &[u8]) {
    // As many entries as the leaf has, if it is one: else nothing behind that count would be reached.
    let page_bytes = PAGE_BYTES_MAX;
    let mut plain = UnitBuffer::new(0);
    if let Ok(Some(packed)) = PackedUnit::new(unit, page_bytes) {
        plain = UnitBuffer::new(packed.plain_bytes());
        assert!(packed.plain_bytes() <= plain_bytes_max(page_bytes));
        let _ = packed.unpack(plain.as_mut_slice());
    }
    let entries = checked_page(plain.as_slice(), None, true).map_or(1, |page| page.count() as i64);
    let header = Header { version: VERSION, table_id: 1, run_id: 1 };
    let (offset, length) = (HEADER_BYTES as u64, unit.len() as u32);
    let footer = Footer {
        page_bytes,
        file_bytes: (HEADER_BYTES + unit.len() + FOOTER_BYTES) as u64,
        root: Pointer { offset, length, checksum: crc32c::crc32c(unit), page_bytes: 0 },
        levels: 1,
        measures: Measures::ROWS,
        total: Sums::of_rows(Tally { rows: entries, ..Tally::ZERO }),
        is_bottom: true,
        index: Index::Tree,
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
/// As opening a file with these bytes.
///
/// # Panics
/// If what the checker has passed is answered wrongly.
pub(crate) fn check_bytes(bytes: &[u8]) -> Result<RunReport> {
    let disk = SimDisk::new();
    let path = Path::new("/run");
    disk.write_file(path, bytes);
    let run = RunFile::open(&disk, path)?;
    let report = run.check(&mut |_| ());
    let is_sound = report.faults.is_empty();
    // A cache of a few pages, so that pages go and come back, and filters are asked.
    let (whole, cache) = (Arc::new(Run::of_parts(&[Part::first(&run)], run.info().is_bottom)), PageCache::new(4096));
    let mut before = Sums::default();
    let scanned = run.scan_entries(&mut |_| (), &mut |key, value, weight| {
        let pages = ReadPages::new(&cache);
        let layer = RunLayer::new(&whole, &pages);
        // Of an unsound run the answers may be errors, which must not be panics.
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
