//! Position queries over the cluster: count, rank, page, quantile.
//!
//! The coordinator gives each partition and class to exactly one replica of one epoch. Of a partition that is the first
//! replica of its order that is up: it has all classes. If only the third is up, it is asked for the classes that it
//! has, and the others are named as not seen. A node answers for exactly what it was assigned or refuses; what it
//! refuses goes to the next. So nothing is counted twice, whatever anybody believes of who is alive.
//!
//! Nodes are layers of one stack: counts add up. To find the key at an offset, each node cuts the range into parts by
//! its own keys and tells how many of each partition's rows lie before each cut; that bounds the rank of every cut, and
//! the range narrows to the two cuts around the offset, until a page holds what is left. Then pages are merged.
//!
//! What is promised: each partition is counted exactly as of one moment of one replica, within the request; what was
//! acknowledged by `ack` of `from` others may not be there yet. With `ack = k`, k replicas of each partition are asked
//! and must say the same of entities with `from >= k`; where they do not, the query fails, and they are compared soon.
//! The rounds of a page are of different moments: keys that come or go meanwhile shift it.

use std::collections::BTreeMap;

use quipu::Result;

use super::sessions::Purpose;
use super::{Node, Reply, Timer, Turn, Waiter};
use crate::api::{Answer, Offset, Range, Sources};
use crate::ids::{NodeId, Partition};
use crate::peers::Health;
use crate::protocol::{Cut, Frame, Header, Message, Span};
use crate::tables::Tables;

/// A partition, the least class wanted of it.
type Assigned = (Partition, u8);

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

#[derive(Debug)]
struct Query {
    client: u64,
    range: Range,
    /// None: only a count is wanted.
    page: Option<(Offset, usize, bool)>,
    /// Replicas of each partition that have to agree on a count.
    ack: u8,
    stage: Stage,
    /// How many replicas of each partition have been passed over: they were down or refused.
    passed: BTreeMap<Partition, u8>,
    /// What is under way, by the number of the message.
    under_way: BTreeMap<u64, (NodeId, Vec<Assigned>)>,
    /// Assigned to nobody yet.
    open: Vec<Assigned>,
    /// The sum of counts of this stage.
    rows: u64,
    /// Of each replica's turn (with `ack` above 1), what was counted.
    rows_by_turn: Vec<u64>,
    /// Cuts: key, partition, rank in it; and rows by partition.
    cuts: Vec<(Vec<u8>, Partition, u64)>,
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

/// Position queries under way.
#[derive(Debug, Default)]
pub(super) struct Positions {
    queries: BTreeMap<u64, Query>,
}

impl Positions {
    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }
}

impl Node {
    pub(super) fn begin_count<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        client: u64,
        range: Range,
        ack: u8,
    ) -> Result<()> {
        self.begin_query(turn, client, range, None, ack)
    }

    pub(super) fn begin_page<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        client: u64,
        range: Range,
        offset: Offset,
        limit: usize,
        with_values: bool,
    ) -> Result<()> {
        let limit = limit.min(self.limits.page_rows_max);
        self.begin_query(turn, client, range, Some((offset, limit, with_values)), 1)
    }

    fn begin_query<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        client: u64,
        range: Range,
        page: Option<(Offset, usize, bool)>,
        ack: u8,
    ) -> Result<()> {
        if ack == 0 || ack > self.routing.topology().replicas {
            let text = format!("`ack` is {ack}, and can be 1 to {}", self.routing.topology().replicas);
            self.answer(turn, client, Answer::Invalid(text));
            return Ok(());
        }
        let number = self.number();
        let until_ms = turn.now.ticks_ms + self.limits.request_timeout_ms;
        let query = Query {
            client,
            range,
            page,
            ack,
            stage: Stage::Count,
            passed: BTreeMap::new(),
            under_way: BTreeMap::new(),
            open: self.routing.partitions().map(|partition| (partition, ack)).collect(),
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
            until_ms,
        };
        self.set_timer(until_ms, Timer::Position(number));
        self.step_query(turn, number, query)
    }

    /// The next replica of a partition that may be asked, after those that were passed over; and the classes from where
    /// on it has them.
    fn assign(&self, query: &mut Query, (partition, from): Assigned) -> Option<(NodeId, u8)> {
        let turn_of = query.rows_by_turn.len() as u8;
        let depth = self.largest_class().max(self.routing.topology().replicas);
        let order = self.routing.read_set(partition, depth);
        let passed = query.passed.entry(partition).or_default();
        while let Some(node) = order.get(usize::from(*passed) + usize::from(turn_of)) {
            let least = *passed + turn_of + 1;
            if self.health(*node) == Health::Up {
                return Some((*node, from.max(least)));
            }
            *passed += 1;
        }
        None
    }

    /// Sends what is open, and goes on when all answers are there.
    fn step_query<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64, mut query: Query) -> Result<()> {
        loop {
            let mut by_node: BTreeMap<NodeId, Vec<Assigned>> = BTreeMap::new();
            for (partition, from) in std::mem::take(&mut query.open) {
                match self.assign(&mut query, (partition, from)) {
                    Some((node, least)) => {
                        // Classes below are kept by those that were passed over.
                        if self.has_class_below(1, least) && query.rows_by_turn.is_empty() {
                            query.sources.unseen.push(partition);
                        }
                        by_node.entry(node).or_default().push((partition, least));
                    }
                    None => query.sources.unseen.push(partition),
                }
            }
            for (node, assigned) in by_node {
                self.send_query(turn, number, &mut query, node, assigned)?;
            }
            if !query.under_way.is_empty() || !query.open.is_empty() {
                if query.open.is_empty() {
                    self.positions.queries.insert(number, query);
                    return Ok(());
                }
                continue;
            }
            if self.end_stage(turn, &mut query)? {
                return Ok(());
            }
        }
    }

    fn has_class_below(&self, from: u8, least: u8) -> bool {
        (from..least).any(|class| self.classes >> (class - 1) & 1 == 1)
    }

    fn send_query<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        query: &mut Query,
        node: NodeId,
        assigned: Vec<Assigned>,
    ) -> Result<()> {
        let (start, end) = match &query.stage {
            Stage::Count => (query.range.start.clone(), query.range.end.clone()),
            Stage::Narrow { high, .. } => (query.range.start.clone(), high.clone()),
            Stage::Page { start, .. } => (start.clone(), query.range.end.clone()),
        };
        let span = Span { start: &start, end: &end };
        let limit = self.limits.page_rows_max;
        let message = match &query.stage {
            Stage::Count => Message::Count { span, assigned: assigned.clone() },
            Stage::Narrow { low, .. } => {
                Message::Cuts { span, low, cuts: self.limits.cuts as u16, assigned: assigned.clone() }
            }
            Stage::Page { skip, .. } => {
                let (_, wanted, with_values) = query.page.unwrap_or((Offset::Keys(0), 0, false));
                let rows = (*skip as usize).saturating_add(wanted).min(limit).min(usize::from(u16::MAX)) as u16;
                Message::Page { span, rows: rows.max(1), with_values, assigned: assigned.clone() }
            }
        };
        if node == self.own {
            let mut bytes = Vec::new();
            Frame::encode(Header { epoch: self.routing.epoch(), request: 0 }, &message, &mut bytes);
            return self.answer_own(turn, query, &bytes, &assigned);
        }
        let request = self.ask(turn, node, Waiter::Position(number), &message);
        query.under_way.insert(request, (node, assigned));
        Ok(())
    }

    /// This node's own part, without a message.
    fn answer_own<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        query: &mut Query,
        question: &[u8],
        assigned: &[Assigned],
    ) -> Result<()> {
        let Ok(Frame { message, .. }) = Frame::decode(question) else { return Ok(()) };
        let (epoch, wall_ms) = (self.routing.epoch(), turn.now.wall_ms);
        self.replica.expire(turn.tables, self.due_ms(turn.now), self.limits.housekeeping_rows)?;
        let time = self.replica.newest();
        match &message {
            Message::Count { span, assigned: all } => {
                let (rows, refused) = self.replica.count(turn.tables, &self.routing, epoch, *span, all)?;
                let message = Message::Counted { rows, time, refused };
                self.take_part(query, self.own, assigned, &message);
            }
            Message::Cuts { span, low, cuts, assigned: all } => {
                let (rows, keys, refused) =
                    self.replica.cut_keys(turn.tables, &self.routing, epoch, *span, (low, *cuts, all))?;
                let cuts = keys.iter().map(|(key, assigned, rank)| Cut { key, assigned: *assigned, rank: *rank });
                let message = Message::Cutting { time, rows, cuts: cuts.collect(), refused };
                self.take_part(query, self.own, assigned, &message);
            }
            Message::Page { span, rows, with_values, assigned: all } => {
                let wanted = (usize::from(*rows), *with_values, &all[..]);
                let page = self.replica.page(turn.tables, &self.routing, (epoch, wall_ms), *span, wanted)?;
                let rows = page.rows.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                let message = Message::Rows { time, resume: &page.resume, rows, refused: page.refused };
                self.take_part(query, self.own, assigned, &message);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the answer of a node. What it refused is open again, for the next replica.
    fn take_part(&self, query: &mut Query, node: NodeId, assigned: &[Assigned], message: &Message<'_>) {
        let (time, refused) = match message {
            Message::Counted { rows, time, refused } => {
                query.rows += rows;
                if self.mutations.counts_twice() {
                    query.rows += rows;
                }
                (*time, refused)
            }
            Message::Cutting { time, rows, cuts, refused } => {
                for ((partition, _), rows) in assigned.iter().zip(rows) {
                    *query.counts.entry(*partition).or_default() += rows;
                }
                for cut in cuts {
                    if let Some((partition, _)) = assigned.get(usize::from(cut.assigned)) {
                        query.cuts.push((cut.key.to_vec(), *partition, cut.rank));
                    }
                }
                (*time, refused)
            }
            Message::Rows { time, resume, rows, refused } => {
                query.found.extend(rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
                if !resume.is_empty() {
                    let resume = resume.to_vec();
                    query.resume = Some(query.resume.take().map_or(resume.clone(), |other| other.min(resume)));
                }
                (*time, refused)
            }
            _ => {
                self.pass_over(query, assigned);
                return;
            }
        };
        match query.sources.nodes.iter_mut().find(|(other, _)| *other == node) {
            Some((_, newest)) => *newest = (*newest).max(time),
            None => query.sources.nodes.push((node, time)),
        }
        let refused: Vec<Assigned> =
            refused.iter().filter_map(|place| assigned.get(usize::from(*place)).copied()).collect();
        self.pass_over(query, &refused);
    }

    fn pass_over(&self, query: &mut Query, assigned: &[Assigned]) {
        for (partition, from) in assigned {
            *query.passed.entry(*partition).or_default() += 1;
            query.open.push((*partition, *from));
        }
    }

    pub(super) fn position_reply<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        number: u64,
        request: u64,
        reply: Reply<'_, '_>,
    ) -> Result<()> {
        let Some(mut query) = self.positions.queries.remove(&number) else { return Ok(()) };
        if let Some((node, assigned)) = query.under_way.remove(&request) {
            match reply {
                Reply::Message(_, message) => self.take_part(&mut query, node, &assigned, message),
                Reply::Lost => self.pass_over(&mut query, &assigned),
            }
        }
        self.step_query(turn, number, query)
    }

    pub(super) fn position_timer<T: Tables>(&mut self, turn: &mut Turn<'_, T>, number: u64) -> Result<()> {
        if let Some(query) = self.positions.queries.remove(&number) {
            query.under_way.keys().for_each(|request| self.forget(*request));
            self.answer(turn, query.client, Answer::NotEnoughReplicas);
        }
        Ok(())
    }

    /// All answers of a stage are there. Returns whether the query is answered.
    fn end_stage<T: Tables>(&mut self, turn: &mut Turn<'_, T>, query: &mut Query) -> Result<bool> {
        let is_late = turn.now.ticks_ms >= query.until_ms;
        match query.stage.clone() {
            _ if is_late => {
                self.answer(turn, query.client, Answer::NotEnoughReplicas);
                return Ok(true);
            }
            Stage::Count => {
                query.rows_by_turn.push(std::mem::take(&mut query.rows));
                if query.rows_by_turn.len() < usize::from(query.ack) {
                    self.open_all(query);
                    return Ok(false);
                }
                query.total = query.rows_by_turn[0];
                if query.rows_by_turn.iter().any(|rows| *rows != query.total) {
                    // They are compared for the next time; this one cannot be answered as it was asked.
                    self.compare_for_count(turn)?;
                    self.answer(turn, query.client, Answer::NotEnoughReplicas);
                    return Ok(true);
                }
                let Some((offset, limit, _)) = query.page else {
                    let answer = Answer::Count { rows: query.total, sources: std::mem::take(&mut query.sources) };
                    self.answer(turn, query.client, answer);
                    return Ok(true);
                };
                let skip = match offset {
                    Offset::Keys(keys) => keys,
                    Offset::Quantile(millionths) => {
                        let last = query.total.saturating_sub(1);
                        ((u128::from(last) * u128::from(millionths.min(1_000_000)) + 500_000) / 1_000_000) as u64
                    }
                };
                query.rows_by_turn.clear();
                if skip >= query.total || limit == 0 {
                    self.answer_page(turn, query);
                    return Ok(true);
                }
                query.skip = skip;
                let Range { start, end } = query.range.clone();
                query.stage = self.narrower(start, end, skip, query.total);
            }
            Stage::Narrow { low, high } => {
                let (cuts, counts) = (std::mem::take(&mut query.cuts), std::mem::take(&mut query.counts));
                let below: u64 = cuts.iter().filter(|(key, ..)| *key == low).map(|(.., rank)| rank).sum();
                let rows = counts.values().sum::<u64>().saturating_sub(below);
                let (new_low, new_high) = narrow(&cuts, &counts, query.skip);
                let new_low = new_low.filter(|new| *new > low);
                let skip = query.skip.saturating_sub(below);
                query.stage = if new_low.is_some() || new_high.is_some() {
                    let (new_low, new_high) = (new_low.unwrap_or(low.clone()), new_high.unwrap_or(high));
                    match self.narrower(low.clone(), new_high.clone(), skip, rows) {
                        Stage::Narrow { .. } => Stage::Narrow { low: new_low, high: new_high },
                        page => page,
                    }
                } else {
                    Stage::Page { start: low, skip }
                };
            }
            Stage::Page { skip, .. } => {
                let (_, limit, _) = query.page.unwrap_or((Offset::Keys(0), 0, false));
                query.found.sort_unstable();
                query.found.dedup_by(|a, b| a.0 == b.0);
                if let Some(resume) = &query.resume {
                    query.found.retain(|(key, _)| key < resume);
                }
                let skipped = (query.found.len() as u64).min(skip);
                let found = std::mem::take(&mut query.found).into_iter().skip(skipped as usize);
                let room = limit - query.collected.len();
                query.collected.extend(found.take(room));
                match query.resume.take() {
                    Some(resume) if query.collected.len() < limit => {
                        query.stage = Stage::Page { start: resume, skip: skip - skipped };
                    }
                    _ => {
                        self.answer_page(turn, query);
                        return Ok(true);
                    }
                }
            }
        }
        self.open_all(query);
        Ok(false)
    }

    /// The next stage, for a range of about `rows` keys whose key number `skip` is wanted.
    fn narrower(&self, low: Vec<u8>, high: Vec<u8>, skip: u64, rows: u64) -> Stage {
        let page = self.limits.page_rows_max as u64;
        if skip < page || rows <= page { Stage::Page { start: low, skip } } else { Stage::Narrow { low, high } }
    }

    fn open_all(&self, query: &mut Query) {
        query.open = self.routing.partitions().map(|partition| (partition, query.ack)).collect();
        query.passed.clear();
        query.sources.unseen.clear();
    }

    fn answer_page<T>(&mut self, turn: &mut Turn<'_, T>, query: &mut Query) {
        let answer = Answer::Page {
            rows: std::mem::take(&mut query.collected),
            total: query.total,
            sources: std::mem::take(&mut query.sources),
        };
        self.answer(turn, query.client, answer);
    }

    /// Replicas disagree about a count: they are compared soon, not at the next regular time.
    fn compare_for_count<T: Tables>(&mut self, turn: &mut Turn<'_, T>) -> Result<()> {
        if self.sessions.count(|purpose| purpose == Purpose::Repair) == 0 {
            self.repair_all(turn)?;
        }
        Ok(())
    }
}

/// The cuts around the key that has `skip` keys of the range before it.
fn narrow(
    cuts: &[(Vec<u8>, Partition, u64)],
    counts: &BTreeMap<Partition, u64>,
    skip: u64,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut sorted: Vec<&(Vec<u8>, Partition, u64)> = cuts.iter().collect();
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
