//! This node's own entities, in order of their keys: a merge of the row ranges of all partitions and classes, which
//! have the keys in order each.
//!
//! Costs: some rows of each range in memory, whatever their number.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use quipu::{ReadableTable, Result, Snapshot};
use quipu_cluster::engine::EngineStore;
use quipu_cluster::ids::{Partition, Version};
use quipu_cluster::record::{Record, class_start, parse_row_key, row_key};
use quipu_cluster::routing::Routing;
use quipu_cluster::tables::Table;

/// Rows read of one row range at a time, and their bytes at most (or one row).
const STEP_ROWS: usize = 16;
const STEP_BYTES: usize = 16 << 10;

/// An entity of a row range.
struct Entity {
    key: Vec<u8>,
    version: Version,
    value: Vec<u8>,
}

/// What is left of a row range.
struct Source {
    start: Vec<u8>,
    end: Vec<u8>,
    ready: VecDeque<Entity>,
    is_at_end: bool,
}

/// Entities with `start <= key < end`, ascending.
pub struct LocalRange {
    snapshot: Snapshot,
    table: quipu::Table,
    now_ms: u64,
    sources: Vec<Source>,
    /// The first key of each source that has one.
    first: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    is_begun: bool,
}

impl LocalRange {
    pub(super) fn new(
        store: &EngineStore,
        routing: &Routing,
        classes: u32,
        (start, end): (Vec<u8>, Option<Vec<u8>>),
        now_ms: u64,
    ) -> LocalRange {
        let from_max = routing.from_max();
        let source = |(partition, from): (Partition, u8)| Source {
            start: row_key(partition, from, &start),
            end: match &end {
                Some(end) => row_key(partition, from, end),
                None => class_start(partition, from + 1),
            },
            ready: VecDeque::new(),
            is_at_end: false,
        };
        let classes = move || (1..=from_max).filter(move |from| classes >> (from - 1) & 1 == 1);
        let ranges = routing.partitions().flat_map(|partition| classes().map(move |from| (partition, from)));
        let sources: Vec<Source> = ranges.map(source).filter(|source| source.start < source.end).collect();
        LocalRange {
            snapshot: store.db().snapshot(),
            table: store.table(Table::Entities).clone(),
            now_ms,
            sources,
            first: BinaryHeap::new(),
            is_begun: false,
        }
    }

    fn fill(&mut self, number: usize) -> Result<()> {
        let source = &mut self.sources[number];
        while source.ready.is_empty() && !source.is_at_end {
            let (mut seen, mut bytes, mut last) = (0, 0, None);
            let view = self.snapshot.table(&self.table)?;
            view.for_each(&source.start[..]..&source.end[..], |row, value| {
                seen += 1;
                bytes += row.len() + value.len();
                let entity = parse_row_key(row).zip(Record::decode(value));
                if let Some(((_, _, key), record)) = entity
                    && let Some(value) = record.value_at(self.now_ms)
                {
                    source.ready.push_back(Entity {
                        key: key.to_vec(),
                        version: record.version,
                        value: value.to_vec(),
                    });
                }
                let is_full = seen >= STEP_ROWS || bytes >= STEP_BYTES;
                if is_full {
                    last = Some([row, &[0]].concat());
                }
                !is_full
            })?;
            match last {
                Some(last) => source.start = last,
                None => source.is_at_end = true,
            }
        }
        if let Some(entity) = source.ready.front() {
            self.first.push(Reverse((entity.key.clone(), number)));
        }
        Ok(())
    }

    /// The next entity. A key with rows of several classes, while it goes from one to another, is its newest.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn next_entity(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if !self.is_begun {
            self.is_begun = true;
            (0..self.sources.len()).try_for_each(|number| self.fill(number))?;
        }
        let mut newest: Option<Entity> = None;
        while let Some(Reverse((key, number))) = self.first.peek() {
            if newest.as_ref().is_some_and(|newest| newest.key != *key) {
                break;
            }
            let number = *number;
            self.first.pop();
            let entity = self.sources[number].ready.pop_front();
            self.fill(number)?;
            if let Some(entity) = entity
                && newest.as_ref().is_none_or(|newest| newest.version < entity.version)
            {
                newest = Some(entity);
            }
        }
        Ok(newest.map(|entity| (entity.key, entity.value)))
    }

    /// How many rows the ranges have: those included that have expired and are not removed yet.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn count(&self) -> Result<u64> {
        let view = self.snapshot.table(&self.table)?;
        self.sources.iter().map(|source| view.count(&source.start[..]..&source.end[..])).sum()
    }

    /// Goes on at the key with `offset` keys before it. O(log² n) in each row range.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn skip(&mut self, offset: u64) -> Result<()> {
        let view = self.snapshot.table(&self.table)?;
        let mut left = offset;
        // The part of each range that may hold the key at the offset: what is before it is skipped for good.
        let mut parts: Vec<(u64, u64)> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            parts.push((0, view.count(&source.start[..]..&source.end[..])?));
        }
        while left > 0 {
            let Some(widest) = (0..parts.len()).max_by_key(|number| parts[*number].1 - parts[*number].0) else { break };
            let (low, high) = parts[widest];
            if low == high {
                break;
            }
            let middle = low + (high - low) / 2;
            let source = &self.sources[widest];
            let Some(row) = view.nth(&source.start[..]..&source.end[..], middle)? else { break };
            let Some((_, _, pivot)) = parse_row_key(&row.key) else { break };
            // How many keys of each part are below the pivot.
            let mut ranks = Vec::with_capacity(parts.len());
            for (source, (low, high)) in self.sources.iter().zip(&parts) {
                let Some((partition, from, _)) = parse_row_key(&source.start) else { continue };
                let at = row_key(partition, from, pivot).clamp(source.start.clone(), source.end.clone());
                ranks.push(view.count(&source.start[..]..&at[..])?.clamp(*low, *high));
            }
            let below: u64 = ranks.iter().zip(&parts).map(|(rank, (low, _))| rank - low).sum();
            if below <= left {
                left -= below;
                for (part, rank) in parts.iter_mut().zip(&ranks) {
                    part.0 = *rank;
                }
                if left > 0 {
                    // The pivot itself is skipped as well, so that the parts shrink.
                    parts[widest].0 = middle + 1;
                    left -= 1;
                }
            } else {
                for (part, rank) in parts.iter_mut().zip(&ranks) {
                    part.1 = *rank;
                }
            }
        }
        if left > 0 {
            self.sources.clear();
            return Ok(());
        }
        for (source, (low, _)) in self.sources.iter_mut().zip(&parts) {
            match view.nth(&source.start[..]..&source.end[..], *low)? {
                Some(row) => source.start = row.key.to_vec(),
                None => source.is_at_end = true,
            }
        }
        Ok(())
    }
}
