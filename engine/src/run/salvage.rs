//! Reads what is left of a damaged run.
//!
//! Every page that is what its parent promised is read; the others are skipped, and reported with the separators around
//! them. What excisions have erased is neither read nor reported.
//!
//! Cost: that of a scan. Not here: what becomes of the entries (`repair`).

use super::file::RunFile;
use super::scan::{Gap, VisitEntry, Visitor};
use super::weight::weight_of;
use crate::error::{Error, Result};
use crate::page::Record;

/// Entries of a run that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// None of their keys is below this one; `None`: the start.
    pub(crate) low: Option<Vec<u8>>,
    /// All of their keys are below this one; `None`: the end.
    pub(crate) high: Option<Vec<u8>>,
    /// How many there were.
    pub(crate) entries: u64,
    /// The error found there.
    pub(crate) error: String,
}

impl RunFile {
    /// Visits all entries that can be read, in key order, and reports the others to `lose`.
    ///
    /// # Errors
    /// Those of `visit`.
    pub(crate) fn salvage(
        &self,
        progress: &mut dyn FnMut(u64),
        visit: &mut VisitEntry<'_>,
        lose: &mut dyn FnMut(Lost),
    ) -> Result<()> {
        let mut salvage = Salvage { run: self, progress, visit, lose, last: None, gap: None, has_failed: false };
        self.walk(&mut salvage)
    }
}

struct Salvage<'v> {
    run: &'v RunFile,
    progress: &'v mut dyn FnMut(u64),
    visit: &'v mut VisitEntry<'v>,
    lose: &'v mut dyn FnMut(Lost),
    last: Option<Vec<u8>>,
    /// The entries that the next fault loses.
    gap: Option<Lost>,
    /// `visit` has failed, which ends the walk.
    has_failed: bool,
}

impl Visitor for Salvage<'_> {
    fn row(&mut self, record: &Record<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        if self.run.is_excised(key) {
            return Ok(());
        }
        // Pages that are what their parents promise have ascending keys; if a defect of a writer made others, the first
        // one counts.
        if self.last.as_deref().is_some_and(|last| key <= last) {
            let error = "a key that is not above the one before".to_owned();
            (self.lose)(Lost { low: Some(key.to_vec()), high: Some(after(key)), entries: 1, error });
            return Ok(());
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        let value = (!record.is_tombstone()).then_some(value);
        let weight = weight_of(record, &self.run.info().measures, || key);
        let result = (self.visit)(key, value, weight);
        self.has_failed = result.is_err();
        result
    }

    fn leaf_end(&mut self, place: &super::place::UnitPlace) -> Result<()> {
        (self.progress)(place.end());
        Ok(())
    }

    fn page(&mut self, _: &super::place::UnitPlace, _: &[u8], _: Option<usize>) -> Result<()> {
        Ok(())
    }

    fn lose(&mut self, gap: Gap<'_>) {
        let lost = match gap {
            Gap::Subtree { place, low, high } => Lost {
                low: low.map(<[u8]>::to_vec),
                high: high.map(<[u8]>::to_vec),
                entries: self.run.entries_left(place),
                error: String::new(),
            },
            Gap::Value(key) => Lost {
                low: Some(key.to_vec()),
                high: Some(after(key)),
                entries: u64::from(!self.run.is_excised(key)),
                error: String::new(),
            },
        };
        self.gap = Some(lost).filter(|lost| lost.entries > 0);
    }

    fn fault(&mut self, error: Error) -> Result<()> {
        if self.has_failed {
            return Err(error);
        }
        // A fault without a gap loses nothing: the keys stand in the wrong place, and are visited all the same.
        if let Some(lost) = self.gap.take() {
            (self.lose)(Lost { error: error.to_string(), ..lost });
        }
        Ok(())
    }
}

/// The first key above `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
