//! Position queries over the cluster: count, rank, page, quantile.
//!
//! The coordinator assigns each partition and class to exactly one replica of one epoch: to the first replica of the
//! partition's order that is up, which has all classes. If only the third is up, it is asked for the classes that it
//! has, and the others are reported as not seen. A node answers for exactly what it was assigned, or refuses; a refused
//! assignment goes to the next replica. So nothing is counted twice, whichever nodes are believed to be alive.
//!
//! Nodes are layers of one stack: counts add up. To find the key at an offset, each node cuts the range into parts by
//! its own keys and tells how many of each partition's rows lie before each cut; that bounds the rank of every cut, and
//! the range narrows to the two cuts around the offset, until a page holds what is left. Then pages are merged.
//!
//! The promise: each partition is counted exactly as of one moment of one replica, during the request. A write that
//! `ack` of `from` other replicas have acknowledged may be missing there. With `ack = k`, k replicas of each partition
//! are asked and must agree about entities with `from >= k`; if they do not, the query fails, and they are compared
//! soon. The rounds of a page see different moments, so keys that are added or removed meanwhile shift it.

use std::collections::BTreeMap;

use quipu::Result;

use super::context::Context;
use super::hints::Hints;
use super::operation::{Asker, Operation, Progress, Wish};
use super::waiting::{Reply, Timer, Waiter};
use crate::api::{Answer, Offset, Range, Sources};
use crate::ids::{NodeId, Partition};
use crate::peers::Health;
use crate::protocol::{Message, Span};
use crate::tables::Tables;

/// A partition, the least class wanted of it.
type Assigned = (Partition, u8);

/// A key that cuts the range, its partition, and its rank in it.
type OwnedCut = (Vec<u8>, Partition, u64);

/// The page that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) offset: Offset,
    pub(super) limit: usize,
    pub(super) with_values: bool,
}

/// What a query is about at the moment.
#[derive(Clone, Debug)]
enum Stage {
    /// Counting the whole range.
    Count,
    /// Narrowing to the offset: where it surely lies.
    Narrow { low: Vec<u8>, high: Vec<u8> },
    /// Reading keys from here on, after skipping some.
    Page { start: Vec<u8>, skip: u64 },
}

/// A query under way.
#[derive(Debug)]
pub(super) struct Query {
    number: u64,
    client: u64,
    range: Range,
    /// None: only a count is wanted.
    page: Option<Page>,
    /// Replicas of each partition that have to agree on a count.
    ack: u8,
    stage: Stage,
    /// How many replicas of each partition have been passed over: they were down or refused.
    passed: BTreeMap<Partition, u8>,
    /// What is under way, by the number of the message.
    under_way: BTreeMap<u64, (NodeId, Vec<Assigned>)>,
    /// Not assigned yet.
    open: Vec<Assigned>,
    /// The sum of counts of this stage.
    rows: u64,
    /// Of each replica's turn (with `ack` above 1), what was counted.
    rows_by_turn: Vec<u64>,
    /// The cuts of this stage, and the rows by partition.
    cuts: Vec<OwnedCut>,
    counts: BTreeMap<Partition, u64>,
    found: Vec<(Vec<u8>, Vec<u8>)>,
    resume: Option<Vec<u8>>,
    collected: Vec<(Vec<u8>, Vec<u8>)>,
    total: u64,
    /// The offset wanted.
    skip: u64,
    sources: Sources,
    until_ms: u64,
}

impl Query {
    pub(super) fn begin<T: Tables>(
        cx: &mut Context<'_, T>,
        client: u64,
        range: Range,
        page: Option<Page>,
        ack: u8,
    ) -> Result<(Query, Progress)> {
        let mut query = Query {
            number: cx.calls.number(),
            client,
            range,
            page,
            ack,
            stage: Stage::Count,
            passed: BTreeMap::new(),
            under_way: BTreeMap::new(),
            open: cx.routing.partitions().map(|partition| (partition, ack)).collect(),
            rows: 0,
            rows_by_turn: Vec::new(),
            cuts: Vec::new(),
            counts: BTreeMap::new(),
            found: Vec::new(),
            resume: None,
            collected: Vec::new(),
            total: 0,
            skip: 0,
            sources: Sources::default(),
            until_ms: cx.now.ticks_ms + cx.limits.request_timeout_ms,
        };
        cx.timers.set(query.until_ms, Timer::Query(query.number));
        let progress = query.go_on(cx)?;
        Ok((query, progress))
    }

    /// The next replica of a partition that may be asked, after those that were passed over; and the classes from where
    /// on it has them.
    fn assign<T>(&mut self, cx: &Context<'_, T>, (partition, from): Assigned) -> Option<(NodeId, u8)> {
        let turn_of = self.rows_by_turn.len() as u8;
        let depth = cx.largest_class().max(cx.routing.topology().replicas);
        let order = cx.routing.read_set(partition, depth);
        let passed = self.passed.entry(partition).or_default();
        while let Some(node) = order.get(usize::from(*passed) + usize::from(turn_of)) {
            let least = *passed + turn_of + 1;
            if cx.health(*node) == Health::Up {
                return Some((*node, from.max(least)));
            }
            *passed += 1;
        }
        None
    }

    /// Sends what is open, and goes on when all answers are there.
    fn go_on<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress> {
        loop {
            while !self.open.is_empty() {
                self.send_open(cx)?;
            }
            if !self.under_way.is_empty() {
                return Ok(Progress::default());
            }
            if let Some(progress) = self.end_stage(cx) {
                return Ok(progress);
            }
        }
    }

    /// Assigns what is open, and asks for it. What this node refuses itself is open again afterwards.
    fn send_open<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        let mut by_node: BTreeMap<NodeId, Vec<Assigned>> = BTreeMap::new();
        for (partition, from) in std::mem::take(&mut self.open) {
            let Some((node, least)) = self.assign(cx, (partition, from)) else {
                self.sources.unseen.push(partition);
                continue;
            };
            // Of what is wanted, classes below are kept by those that were passed over.
            let has_below = (from..least).any(|class| *cx.classes >> (class - 1) & 1 == 1);
            if has_below && self.rows_by_turn.is_empty() {
                self.sources.unseen.push(partition);
            }
            by_node.entry(node).or_default().push((partition, least));
        }
        for (node, assigned) in by_node {
            self.send_to(cx, node, assigned)?;
        }
        Ok(())
    }

    fn send_to<T: Tables>(&mut self, cx: &mut Context<'_, T>, node: NodeId, assigned: Vec<Assigned>) -> Result<()> {
        let (start, end) = match &self.stage {
            Stage::Count => (&self.range.start, &self.range.end),
            Stage::Narrow { high, .. } => (&self.range.start, high),
            Stage::Page { start, .. } => (start, &self.range.end),
        };
        let span = Span { start, end };
        let message = match &self.stage {
            Stage::Count => Message::Count { span, assigned: assigned.clone() },
            Stage::Narrow { low, .. } => {
                Message::Cuts { span, low, cuts: cx.limits.cuts as u16, assigned: assigned.clone() }
            }
            Stage::Page { skip, .. } => {
                let (wanted, with_values) = self.page.map_or((0, false), |page| (page.limit, page.with_values));
                let rows = (*skip as usize).saturating_add(wanted).min(cx.limits.page_rows_max);
                let rows = rows.min(usize::from(u16::MAX)) as u16;
                Message::Page { span, rows: rows.max(1), with_values, assigned: assigned.clone() }
            }
        };
        if node != cx.own {
            let request = cx.ask(node, Waiter::Query(self.number), &message);
            self.under_way.insert(request, (node, assigned));
            return Ok(());
        }
        cx.replica.expire(cx.tables, cx.due_ms(), cx.limits.housekeeping_rows)?;
        let at = (cx.routing.epoch(), cx.now.wall_ms);
        if let Some(part) = cx.replica.part(cx.tables, cx.routing, at, &message)? {
            self.take_part(cx, node, &assigned, &part.message(cx.replica.newest()));
        }
        Ok(())
    }

    /// Adds the answer of a node. What it refused is open again, for the next replica.
    fn take_part<T>(&mut self, cx: &Context<'_, T>, node: NodeId, assigned: &[Assigned], message: &Message<'_>) {
        let (time, refused) = match message {
            Message::Counted { rows, time, refused } => {
                self.rows += if cx.mutations.counts_twice() { rows * 2 } else { *rows };
                (*time, refused)
            }
            Message::Cutting { time, rows, cuts, refused } => {
                for ((partition, _), rows) in assigned.iter().zip(rows) {
                    *self.counts.entry(*partition).or_default() += rows;
                }
                for cut in cuts {
                    if let Some((partition, _)) = assigned.get(usize::from(cut.assigned)) {
                        self.cuts.push((cut.key.to_vec(), *partition, cut.rank));
                    }
                }
                (*time, refused)
            }
            Message::Rows { time, resume, rows, refused } => {
                self.found.extend(rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
                if !resume.is_empty() {
                    let resume = resume.to_vec();
                    self.resume = Some(self.resume.take().map_or(resume.clone(), |other| other.min(resume)));
                }
                (*time, refused)
            }
            _ => {
                self.pass_over(assigned);
                return;
            }
        };
        match self.sources.nodes.iter_mut().find(|(other, _)| *other == node) {
            Some((_, newest)) => *newest = (*newest).max(time),
            None => self.sources.nodes.push((node, time)),
        }
        let refused: Vec<Assigned> =
            refused.iter().filter_map(|place| assigned.get(usize::from(*place)).copied()).collect();
        self.pass_over(&refused);
    }

    fn pass_over(&mut self, assigned: &[Assigned]) {
        for (partition, from) in assigned {
            *self.passed.entry(*partition).or_default() += 1;
            self.open.push((*partition, *from));
        }
    }

    /// All answers of a stage are there. Returns the outcome, or none if there is another stage.
    fn end_stage<T>(&mut self, cx: &Context<'_, T>) -> Option<Progress> {
        if cx.now.ticks_ms >= self.until_ms {
            return Some(over(Answer::NotEnoughReplicas));
        }
        let page_rows = cx.limits.page_rows_max as u64;
        let progress = match self.stage.clone() {
            Stage::Count => self.end_count(page_rows),
            Stage::Narrow { low, high } => {
                self.end_narrow(low, high, page_rows);
                None
            }
            Stage::Page { skip, .. } => self.end_page(skip),
        };
        if progress.is_none() {
            self.open = cx.routing.partitions().map(|partition| (partition, self.ack)).collect();
            self.passed.clear();
        }
        progress
    }

    fn end_count(&mut self, page_rows: u64) -> Option<Progress> {
        self.rows_by_turn.push(std::mem::take(&mut self.rows));
        if self.rows_by_turn.len() < usize::from(self.ack) {
            return None;
        }
        self.total = self.rows_by_turn[0];
        if self.rows_by_turn.iter().any(|rows| *rows != self.total) {
            // They are compared for the next time; this one cannot be answered as it was asked.
            return Some(Progress { wish: Some(Wish::Compare), ..over(Answer::NotEnoughReplicas) });
        }
        let Some(Page { offset, limit, .. }) = self.page else {
            return Some(over(Answer::Count { rows: self.total, sources: self.take_sources() }));
        };
        self.skip = match offset {
            Offset::Keys(keys) => keys,
            Offset::Quantile(millionths) => {
                let last = self.total.saturating_sub(1);
                ((u128::from(last) * u128::from(millionths.min(1_000_000)) + 500_000) / 1_000_000) as u64
            }
        };
        self.rows_by_turn.clear();
        if self.skip >= self.total || limit == 0 {
            return Some(self.page_answer());
        }
        let Range { start, end } = self.range.clone();
        self.stage = next_stage(start, end, self.skip, self.total, page_rows);
        None
    }

    fn end_narrow(&mut self, low: Vec<u8>, high: Vec<u8>, page_rows: u64) {
        let (cuts, counts) = (std::mem::take(&mut self.cuts), std::mem::take(&mut self.counts));
        let below: u64 = cuts.iter().filter(|(key, ..)| *key == low).map(|(.., rank)| rank).sum();
        let rows = counts.values().sum::<u64>().saturating_sub(below);
        let (new_low, new_high) = narrow(&cuts, &counts, self.skip);
        let new_low = new_low.filter(|new| *new > low);
        let skip = self.skip.saturating_sub(below);
        self.stage = if new_low.is_some() || new_high.is_some() {
            let (new_low, new_high) = (new_low.unwrap_or(low.clone()), new_high.unwrap_or(high));
            match next_stage(low, new_high.clone(), skip, rows, page_rows) {
                Stage::Narrow { .. } => Stage::Narrow { low: new_low, high: new_high },
                page => page,
            }
        } else {
            Stage::Page { start: low, skip }
        };
    }

    fn end_page(&mut self, skip: u64) -> Option<Progress> {
        let limit = self.page.map_or(0, |page| page.limit);
        self.found.sort_unstable();
        self.found.dedup_by(|a, b| a.0 == b.0);
        if let Some(resume) = &self.resume {
            self.found.retain(|(key, _)| key < resume);
        }
        let skipped = (self.found.len() as u64).min(skip);
        let found = std::mem::take(&mut self.found).into_iter().skip(skipped as usize);
        let room = limit - self.collected.len();
        self.collected.extend(found.take(room));
        match self.resume.take() {
            Some(resume) if self.collected.len() < limit => {
                self.stage = Stage::Page { start: resume, skip: skip - skipped };
                None
            }
            _ => Some(self.page_answer()),
        }
    }

    fn page_answer(&mut self) -> Progress {
        over(Answer::Page {
            rows: std::mem::take(&mut self.collected),
            total: self.total,
            sources: self.take_sources(),
        })
    }

    /// Where was looked. What one stage has not seen is named even if a later one has: the total lacks it.
    fn take_sources(&mut self) -> Sources {
        let mut sources = std::mem::take(&mut self.sources);
        sources.unseen.sort_unstable();
        sources.unseen.dedup();
        sources
    }
}

impl Operation for Query {
    fn number(&self) -> u64 {
        self.number
    }

    fn asker(&self) -> Asker {
        Asker::Client(self.client)
    }

    fn bytes(&self) -> usize {
        0
    }

    fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        _: NodeId,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<Progress> {
        if let Some((node, assigned)) = self.under_way.remove(&request) {
            match reply {
                Reply::Message(_, message) => self.take_part(cx, node, &assigned, message),
                Reply::Lost => self.pass_over(&assigned),
            }
        }
        self.go_on(cx)
    }

    fn on_timer<T: Tables>(&mut self, _: &mut Context<'_, T>) -> Result<Progress> {
        Ok(over(Answer::NotEnoughReplicas))
    }

    /// What replicas refuse because of the epoch goes to the next ones.
    fn on_epoch<T: Tables>(&mut self, _: &mut Context<'_, T>) -> Result<Progress> {
        Ok(Progress::default())
    }

    fn end<T: Tables>(self, cx: &mut Context<'_, T>, _: &mut Hints) -> Result<()> {
        self.under_way.keys().for_each(|request| cx.forget(*request));
        Ok(())
    }
}

/// The outcome of a query.
fn over(answer: Answer) -> Progress {
    Progress { answer: Some(answer), is_over: true, wish: None }
}

/// The next stage, for a range of about `rows` keys whose key number `skip` is wanted. A page has `page_rows` at most.
fn next_stage(low: Vec<u8>, high: Vec<u8>, skip: u64, rows: u64, page_rows: u64) -> Stage {
    if skip < page_rows || rows <= page_rows { Stage::Page { start: low, skip } } else { Stage::Narrow { low, high } }
}

/// The cuts around the key that has `skip` keys of the range before it.
fn narrow(cuts: &[OwnedCut], counts: &BTreeMap<Partition, u64>, skip: u64) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut sorted: Vec<&OwnedCut> = cuts.iter().collect();
    sorted.sort_unstable();
    // Between two cuts of a partition its rank is not known: at most that of the upper, at least that of the lower.
    let mut most = counts.clone();
    let mut upper: u64 = counts.values().sum();
    let mut low = None;
    for (key, partition, rank) in sorted.iter().rev() {
        let before = most.insert(*partition, *rank).unwrap_or(*rank);
        upper -= before.saturating_sub(*rank);
        if upper <= skip {
            low = Some(key.clone());
            break;
        }
    }
    let mut least: BTreeMap<Partition, u64> = BTreeMap::new();
    let mut lower = 0;
    let mut high = None;
    for (key, partition, rank) in &sorted {
        let before = least.insert(*partition, *rank).unwrap_or(0);
        lower += rank.saturating_sub(before);
        if lower > skip {
            high = Some(key.clone());
            break;
        }
    }
    (low, high)
}
