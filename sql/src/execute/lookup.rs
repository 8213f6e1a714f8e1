//! Rows of a scan that a sub-select asks for again and again, by values of the row around it.
//!
//! A sub-select is run for each row around it. Where a column must equal a value of that row, and no key finds rows so,
//! each run reads the same rows. Once a statement has read as many of them as there are, it reads them once more and
//! keeps them by the values of these columns. So it does at most about twice the work that was needed, as one who rents
//! skis until the rent has reached their price, and a sub-select that is run once keeps nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::execute::context::Context;
use crate::execute::evaluate::evaluate_all;
use crate::execute::kept_answers::RowsByValue;
use crate::plan::source::{Lookup, Scan};
use crate::types::datum::Datum;

/// Part of the memory of a statement that the rows of one scan may take: one in so many.
const MEMORY_PART: usize = 4;

/// Rows of a scan that have equal values, in the scan's order.
pub(crate) struct Matches {
    kept: Arc<RowsByValue>,
    places: Arc<[usize]>,
    at: usize,
}

impl RowsByValue {
    /// Keeps the rows that `next` writes into the slots of a scan. Returns `None` if they take too much memory.
    pub(crate) fn read(
        scan: &Scan,
        lookup: &Lookup,
        frame: &mut [Datum],
        context: &Context<'_>,
        mut next: impl FnMut(&mut [Datum]) -> Result<bool>,
    ) -> Result<Option<RowsByValue>> {
        let bytes_max = context.state.limits().memory / MEMORY_PART;
        let (mut rows, mut by_key, mut bytes) = (Vec::new(), HashMap::<_, Vec<usize>>::new(), 0);
        while next(frame)? {
            context.state.step()?;
            let key = evaluate_all(&lookup.columns, frame, context)?;
            // NULL equals nothing.
            if key.iter().any(Datum::is_null) {
                continue;
            }
            let row: Vec<Datum> = scan.reads.iter().map(|&place| frame[scan.base + place].clone()).collect();
            let fits = [&row, &key].into_iter().all(|part| match context.state.try_keep(part) {
                Some(kept) => {
                    bytes += kept;
                    bytes <= bytes_max
                }
                None => false,
            });
            if !fits {
                context.state.let_go(bytes);
                return Ok(None);
            }
            by_key.entry(key).or_default().push(rows.len());
            rows.push(row);
        }
        context.state.keep_to_the_end(bytes);
        let by_key = by_key.into_iter().map(|(key, places)| (key, places.into())).collect();
        Ok(Some(RowsByValue { rows, by_key }))
    }
}

impl Matches {
    /// The rows whose columns equal these values.
    pub(crate) fn new(kept: Arc<RowsByValue>, values: &[Datum]) -> Matches {
        let places = kept.by_key.get(values).map_or_else(|| Arc::from([]), Arc::clone);
        Matches { kept, places, at: 0 }
    }

    /// Writes the next row into its slots. Returns whether there is one.
    pub(crate) fn next(&mut self, scan: &Scan, frame: &mut [Datum]) -> bool {
        let Some(&place) = self.places.get(self.at) else { return false };
        self.at += 1;
        for (&column, value) in scan.reads.iter().zip(&self.kept.rows[place]) {
            frame[scan.base + column].clone_from(value);
        }
        true
    }
}
