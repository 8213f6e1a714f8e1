//! Answers position queries for a replica: counts, cuts and pages of the partitions that it was assigned.
//!
//! Keys of different partitions interleave, so a range of keys is one range of rows in each partition and class. A
//! count is two descents for each of them.

use quipu::Result;

use super::Replica;
use super::compare::live_value;
use super::rows::entity_key;
use crate::ids::{Epoch, Partition};
use crate::placement::FROM_MAX;
use crate::protocol::{Cut, Message, Span};
use crate::record::{class_start, row_key};
use crate::routing::Routing;
use crate::tables::{Table, Tables};

/// A page of keys, owned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPage {
    /// Keys with their values, in order.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Up to where (exclusively) all keys are here; empty: to the end of the range.
    pub resume: Vec<u8>,
    /// Partitions that were not looked at, by their places in the question.
    pub refused: Vec<u16>,
}

/// Cuts of a range, owned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cuts {
    /// Rows of each partition in the range.
    pub rows: Vec<u64>,
    /// Keys, each with its partition's place in the question and its rank.
    pub cuts: Vec<(Vec<u8>, u16, u64)>,
    /// Partitions that were not looked at, by their places in the question.
    pub refused: Vec<u16>,
}

/// The answer to a position query, owned.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// To [`Message::Count`].
    Count {
        /// Keys.
        rows: u64,
        /// Partitions that were not looked at.
        refused: Vec<u16>,
    },
    /// To [`Message::Cuts`].
    Cuts(Cuts),
    /// To [`Message::Page`].
    Page(KeyPage),
}

impl Part {
    /// As a message of a node that has met this timestamp.
    pub fn message(&self, time: u64) -> Message<'_> {
        match self {
            Part::Count { rows, refused } => Message::Counted { rows: *rows, time, refused: refused.clone() },
            Part::Cuts(Cuts { rows, cuts, refused }) => {
                let cuts = cuts.iter().map(|(key, assigned, rank)| Cut { key, assigned: *assigned, rank: *rank });
                Message::Cutting { time, rows: rows.clone(), cuts: cuts.collect(), refused: refused.clone() }
            }
            Part::Page(KeyPage { rows, resume, refused }) => {
                let rows = rows.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                Message::Rows { time, resume, rows, refused: refused.clone() }
            }
        }
    }
}

impl Replica {
    /// Answers a position query of `epoch`; none if the message is another. Before keys are counted or cut, expired
    /// values that are due must be gone.
    pub fn part<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        (epoch, wall_ms): (Epoch, u64),
        message: &Message<'_>,
    ) -> Result<Option<Part>> {
        Ok(Some(match message {
            Message::Count { span, assigned } => self.count(tables, routing, epoch, *span, assigned)?,
            Message::Cuts { span, low, cuts, assigned } => {
                Part::Cuts(self.cut_keys(tables, routing, epoch, *span, (low, *cuts, assigned))?)
            }
            Message::Page { span, rows, with_values, assigned } => {
                let wanted = (usize::from(*rows), *with_values, &assigned[..]);
                Part::Page(self.page(tables, routing, (epoch, wall_ms), *span, wanted)?)
            }
            _ => return Ok(None),
        }))
    }

    /// The row ranges of a range of keys, in a partition's classes from `from` on.
    fn class_ranges<'s>(
        &self,
        partition: Partition,
        from: u8,
        span: Span<'s>,
    ) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + use<'s> {
        self.classes_in_use().filter(move |class| *class >= from).map(move |class| {
            let start = row_key(partition, class, span.start);
            let end = if span.end.is_empty() {
                class_start(partition, class.saturating_add(1).min(FROM_MAX + 1))
            } else {
                row_key(partition, class, span.end)
            };
            (start, end)
        })
    }

    /// Which of the partitions this replica cannot answer for, by place.
    fn refused(&self, routing: &Routing, epoch: Epoch, assigned: &[(Partition, u8)]) -> Vec<u16> {
        let answers = |(partition, from): &(Partition, u8)| {
            // All classes from `from` on: those below may be missing.
            epoch >= routing.floor(*partition)
                && routing.least_from(*partition, self.own).is_some_and(|least| *from >= least)
                && self.state(*partition).have <= *from
                && !self.state(*partition).is_dirty
        };
        (0..).zip(assigned).filter(|(_, assigned)| !answers(assigned)).map(|(place, _)| place).collect()
    }

    /// Counts the keys of a range in these partitions.
    fn count<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        epoch: Epoch,
        span: Span<'_>,
        assigned: &[(Partition, u8)],
    ) -> Result<Part> {
        let refused = self.refused(routing, epoch, assigned);
        let mut rows = 0;
        for (place, (partition, from)) in (0..).zip(assigned) {
            if refused.binary_search(&place).is_err() {
                rows += self.count_in(tables, *partition, *from, span)?;
            }
        }
        Ok(Part::Count { rows, refused })
    }

    fn count_in<T: Tables>(&self, tables: &T, partition: Partition, from: u8, span: Span<'_>) -> Result<u64> {
        let mut rows = 0;
        for (start, end) in self.class_ranges(partition, from, span) {
            rows += tables.tally(Table::Entities, &start, &end)?.rows as u64;
        }
        Ok(rows)
    }

    /// Cuts the part of a range from `low` on in each of these partitions: rows of each range, and keys with their
    /// partition's place and rank, `low` the first.
    fn cut_keys<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        epoch: Epoch,
        span: Span<'_>,
        (low, cuts, assigned): (&[u8], u16, &[(Partition, u8)]),
    ) -> Result<Cuts> {
        let refused = self.refused(routing, epoch, assigned);
        let (mut counts, mut found) = (Vec::with_capacity(assigned.len()), Vec::new());
        for (place, (partition, from)) in (0..).zip(assigned) {
            if refused.binary_search(&place).is_ok() {
                counts.push(0);
                continue;
            }
            let low = low.max(span.start);
            let mut of_partition = vec![low.to_vec()];
            for (start, end) in self.class_ranges(*partition, *from, Span { start: low, end: span.end }) {
                let rows = tables.tally(Table::Entities, &start, &end)?.rows as u64;
                let parts = (u64::from(cuts) + 1).min(rows + 1);
                for part in 1..parts {
                    if let Some(row) = tables.nth(Table::Entities, &start, &end, rows * part / parts)? {
                        of_partition.push(entity_key(&row).to_vec());
                    }
                }
            }
            of_partition.sort_unstable();
            of_partition.dedup();
            counts.push(self.count_in(tables, *partition, *from, span)?);
            for key in of_partition {
                let rank = self.count_in(tables, *partition, *from, Span { start: span.start, end: &key })?;
                found.push((key, place, rank));
            }
        }
        Ok(Cuts { rows: counts, cuts: found, refused })
    }

    /// The first keys of a range in these partitions.
    fn page<T: Tables>(
        &self,
        tables: &T,
        routing: &Routing,
        (epoch, wall_ms): (Epoch, u64),
        span: Span<'_>,
        (rows, with_values, assigned): (usize, bool, &[(Partition, u8)]),
    ) -> Result<KeyPage> {
        let rows = rows.clamp(1, self.limits.page_rows_max);
        let refused = self.refused(routing, epoch, assigned);
        // Twice the share of each range: most answers are whole at the first attempt.
        let ranges = assigned.len() * self.classes.count_ones() as usize;
        let share = (rows * 2).div_ceil(ranges.max(1)) + 1;
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut bound: Option<Vec<u8>> = None;
        for (place, (partition, from)) in (0..).zip(assigned) {
            if refused.binary_search(&place).is_ok() {
                continue;
            }
            for (start, end) in self.class_ranges(*partition, *from, span) {
                let (mut seen, mut bytes, mut last, mut is_cut) = (0, 0, Vec::new(), false);
                tables.scan(Table::Entities, &start, &end, share, |row, value| {
                    (seen, last) = (seen + 1, entity_key(row).to_vec());
                    if let Some(value) = live_value(value, wall_ms) {
                        let value = if with_values { value } else { b"" };
                        bytes += last.len() + value.len();
                        found.push((last.clone(), value.to_vec()));
                    }
                    is_cut = bytes >= self.limits.page_bytes_max;
                    !is_cut
                })?;
                if seen == share || is_cut {
                    last.push(0);
                    bound = Some(bound.map_or(last.clone(), |bound| bound.min(last)));
                }
            }
        }
        found.sort_unstable();
        if let Some(bound) = &bound {
            found.retain(|(key, _)| key < bound);
        }
        let mut bytes = 0;
        let fits = found.iter().take(rows).take_while(|(key, value)| {
            let before = bytes;
            bytes += key.len() + value.len();
            before < self.limits.page_bytes_max
        });
        let fits = fits.count();
        let resume = match found.get(fits) {
            Some((key, _)) => key.clone(),
            None => bound.unwrap_or_default(),
        };
        found.truncate(fits);
        Ok(KeyPage { rows: found, resume, refused })
    }
}
