//! Checking a whole run: every page, every count, every key and value, with a report instead of a stop at the first fault.
//!
//! Costs: a scan, plus the declared measures of every row.
//! Not here: repair.

use std::path::Path;

use super::file::{Place, Run};
use super::scan::Visitor;
use crate::error::{Error, Result};
use crate::io::sim::SimDisk;
use crate::page::{PageRef, Record, check_unit};
use crate::tally::{Measures, Tally};

/// Faults beyond so many are counted and not described.
const FAULTS_MAX: usize = 100;

/// What a check of a run has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunReport {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Pages that are sound.
    pub(crate) pages: u64,
    /// Rows that are sound.
    pub(crate) rows: u64,
    /// Those of them whose values lie out of line.
    pub(crate) long_values: u64,
    /// What is wrong, in the order of the file; empty if nothing is.
    pub(crate) faults: Vec<String>,
}

impl Run {
    /// Checks everything; `progress` hears how many bytes of the file are done. What is wrong stands in the report, also what the
    /// disk refuses.
    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64)) -> RunReport {
        let info = self.info();
        let mut checker = Checker {
            measures: info.measures,
            progress,
            leaf: Tally::ZERO,
            report: RunReport { bytes: info.bytes, ..RunReport::default() },
            untold_faults: 0,
        };
        if let Err(error) = self.walk(&mut checker) {
            checker.tell(error.to_string());
        }
        if checker.report.faults.is_empty() && checker.report.rows != info.rows {
            checker.tell(format!("{} rows, {} in the footer", checker.report.rows, info.rows));
        }
        if checker.untold_faults > 0 {
            checker.report.faults.push(format!("and {} faults more", checker.untold_faults));
        }
        checker.report
    }
}

struct Checker<'p> {
    measures: Measures,
    progress: &'p mut dyn FnMut(u64),
    /// The tally of the leaf's rows so far.
    leaf: Tally,
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
}

impl Visitor for Checker<'_> {
    fn page(&mut self, place: &Place, page: &PageRef<'_>, unit: &[u8]) -> Result<()> {
        // The checker of pages in memory is less strict about pages in files, and written apart from theirs: what passes the one
        // must pass the other.
        if let Err(fault) = check_unit(unit, place.pointer.page_bytes as usize) {
            self.tell(format!("the page at {}: {fault}", place.pointer.offset));
        }
        self.report.pages += 1;
        self.leaf = Tally::ZERO;
        debug_assert_eq!(page.level(), place.level);
        Ok(())
    }

    fn row(&mut self, record: &Record<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let tally = self.measures.of_row(key, value);
        if !record.weights.is_empty() && record.explicit_weight(&self.measures) != tally {
            self.tell(format!("the weight of key {} is not that of its row", key.escape_ascii()));
        }
        self.leaf += tally;
        self.report.rows += 1;
        self.report.long_values += u64::from(record.value_is_out());
        Ok(())
    }

    fn leaf_end(&mut self, place: &Place) -> Result<()> {
        let (found, counted) = (self.leaf, place.until - place.before);
        // If a value could not be read, that has been said, and the tally cannot be right.
        if found.rows == counted.rows && found != counted {
            let offset = place.pointer.offset;
            self.tell(format!("the leaf at {offset} has the tally {found:?}, counted {counted:?}"));
        }
        (self.progress)(place.pointer.offset + u64::from(place.pointer.length));
        Ok(())
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        self.tell(error.to_string());
        Ok(())
    }
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
    let run = Run::open(&disk, path)?;
    let report = run.check(&mut |_| ());
    let is_sound = report.faults.is_empty();
    let mut before = Tally::ZERO;
    let measures = run.info().measures;
    let scanned = run.scan(&mut |_| (), &mut |key, value| {
        // Of an unsound run the answers may be errors, which must not be panics.
        let found = (run.get(key), run.nth(before.rows as u64), run.tally_before(key, false));
        if is_sound {
            assert_eq!(found.0?.as_deref(), Some(value));
            assert_eq!(found.1?, Some((key.to_vec(), value.to_vec())));
            assert_eq!(found.2?, before);
        }
        before += measures.of_row(key, value);
        Ok(())
    });
    assert!(scanned.is_ok() || !is_sound, "{scanned:?}");
    assert!(before == run.info().total || !is_sound);
    Ok(report)
}
