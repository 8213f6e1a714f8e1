//! Checks a whole run: every page, filter, count, key and value; reports all faults it finds.
//!
//! Cost: a scan, the filters, and for every row a look-up in one and its declared measures; for each excision two
//! descents. Not here: reading what is left (`salvage`).

use std::sync::Arc;

use super::layer::RunLayer;
use crate::cache::{PageCache, ReadPages};
use crate::error::{Error, Result};
use crate::page::{Record, UnitBuffer, check_unit};
use crate::run::columns::Inner;
use crate::run::excision::{Excision, Prefix};
use crate::run::file::RunFile;
use crate::run::filter::{FilterRef, hash_of};
use crate::run::format::Sums;
use crate::run::parts::Run;
use crate::run::place::UnitPlace;
use crate::run::scan::Visitor;
use crate::tally::Measures;

/// Faults beyond this number are counted but not described.
const FAULTS_MAX: usize = 100;
/// Bytes of pages on the way to the ends of excisions.
const CACHE_BYTES: u64 = 1 << 20;

/// The result of the check of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunReport {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Number of sound pages.
    pub(crate) pages: u64,
    /// Number of sound filters.
    pub(crate) filters: u64,
    /// Number of sound entries.
    pub(crate) entries: u64,
    /// Those of them whose values lie out of line.
    pub(crate) long_values: u64,
    /// The faults, in the order of the file; empty if there are none.
    pub(crate) faults: Vec<String>,
}

impl RunFile {
    /// Checks everything; `progress` gets how many bytes of the file are done. Errors of the disk are faults in the
    /// report, too.
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

impl RunFile {
    /// Checks that the excisions of the file have the sums that its pages say. Returns the faults.
    pub(crate) fn check_excisions(&self) -> Vec<String> {
        let Some(excisions) = self.excisions() else { return Vec::new() };
        let plain = Arc::new(Run::of_file(self.in_place(0, Sums::default(), 0).with_excisions(None)));
        let (file, cache) = (&plain.files()[0], PageCache::new(CACHE_BYTES));
        let mut faults = Vec::new();
        for Excision { start, end, before, through } in excisions.as_slice() {
            let pages = ReadPages::new(&cache);
            let layer = RunLayer::new(&plain, &pages);
            let found = pages.answer(|| {
                let before = if start.is_empty() { Ok(Prefix::default()) } else { layer.prefix_in_file(file, start) };
                let through = end.as_ref().map_or_else(|| Ok(file.whole()), |end| layer.prefix_in_file(file, end));
                Ok((before?, through?))
            });
            match found {
                Ok(found) if found == (*before, *through) => {}
                Ok(found) => faults.push(format!(
                    "the excision from key {} has the sums {before:?} and {through:?}, the file {found:?}",
                    start.escape_ascii()
                )),
                Err(error) => faults.push(error.to_string()),
            }
        }
        faults
    }
}

struct Checker<'p> {
    run: &'p RunFile,
    measures: Measures,
    progress: &'p mut dyn FnMut(u64),
    is_bottom: bool,
    /// For the lowest node on the path: how many entries of the run are before the end of each filter, and the filter
    /// if it is there and sound.
    filters: Vec<(i64, Option<UnitBuffer>)>,
    /// The index of the filter over the leaf.
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

    /// Reads the filters over the children of an inner page.
    fn load_filters(&mut self, place: &UnitPlace, page: &Inner<'_>) {
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
    fn inner(&mut self, place: &UnitPlace, page: &Inner<'_>) -> Result<()> {
        if place.level == 1 {
            self.load_filters(place, page);
        }
        Ok(())
    }

    fn page(&mut self, place: &UnitPlace, unit: &[u8], page_bytes: Option<usize>) -> Result<()> {
        // The checker of pages in memory is less strict about pages in files, and separate from theirs: what passes one
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
            // What lies below is unknown here.
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

    fn leaf_end(&mut self, place: &UnitPlace) -> Result<()> {
        let (found, counted) = (self.leaf, place.sums());
        // A value that could not be read has been reported; then the sums cannot be right.
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
