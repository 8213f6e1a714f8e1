//! What a node does with a message of a peer: answers go to whoever waits for them, questions to the replica.

use quipu::Result;

use super::{Node, Reply, Turn};
use crate::ids::NodeId;
use crate::protocol::{Cut, Header, Message, Refusal};
use crate::record::Record;
use crate::replica::{Origin, Verdict};
use crate::tables::Tables;
use crate::topology::Topology;

impl Node {
    pub(super) fn on_message<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        header: Header,
        message: &Message<'_>,
    ) -> Result<()> {
        self.metrics.frames_received += 1;
        if header.epoch > self.routing.epoch() {
            self.ask_topology(turn, from);
        }
        let answer = match message {
            // Answers.
            Message::Stored
            | Message::Older { .. }
            | Message::Refused { .. }
            | Message::Value { .. }
            | Message::Differ { .. }
            | Message::Entries { .. }
            | Message::Counted { .. }
            | Message::Cutting { .. }
            | Message::Rows { .. }
            | Message::Outcome { .. } => {
                self.peers.answered(from, header.request, turn.now.ticks_ms);
                if let Message::Refused { refusal: Refusal::StaleEpoch } = message {
                    self.ask_topology(turn, from);
                }
                return self.on_awaited(turn, from, header, message);
            }
            Message::Pong { applied, classes, wall_ms } | Message::Ping { applied, classes, wall_ms } => {
                self.peers.answered(from, header.request, turn.now.ticks_ms);
                self.peers.heard_clock(from, turn.now, *wall_ms);
                self.classes |= classes;
                self.hints.wake(from);
                if *applied > self.routing.topology().applied {
                    self.ask_topology(turn, from);
                }
                if let Message::Pong { .. } = message {
                    return self.on_awaited(turn, from, header, message);
                }
                let applied = self.routing.topology().applied;
                Message::Pong { applied, classes: self.classes, wall_ms: turn.now.wall_ms }
            }
            Message::AskTopology { applied } => {
                if *applied < self.routing.topology().applied {
                    let bytes = self.routing.topology().encode();
                    self.send(turn, from, 0, &Message::Topology { bytes: &bytes });
                }
                return Ok(());
            }
            Message::Topology { bytes } => {
                if let Some(topology) = Topology::decode(bytes)
                    && topology.cluster == self.routing.topology().cluster
                    && topology.applied > self.routing.topology().applied
                {
                    let routing = self.routing.follow(topology);
                    self.adopt(turn, routing)?;
                }
                return Ok(());
            }
            Message::Gossip { wall_ms, bytes } => {
                self.peers.heard_clock(from, turn.now, *wall_ms);
                let (sent, verdicts) = self.membership.received(turn.now.ticks_ms, bytes);
                for (node, is_faulty) in verdicts {
                    self.peers.judged(node, is_faulty);
                }
                self.gossip(turn, sent);
                return Ok(());
            }
            Message::Conditional { .. } => return self.on_conditional(turn, from, header.request, message),
            Message::Log { .. } | Message::Mark { .. } => return Ok(()),
            // Questions to the replica.
            _ => return self.on_question(turn, from, header, message),
        };
        self.send(turn, from, header.request, &answer);
        Ok(())
    }

    /// Gives an answer to whoever waits for it, if somebody does.
    fn on_awaited<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        header: Header,
        message: &Message<'_>,
    ) -> Result<()> {
        match self.waiters.get(&header.request).copied() {
            Some((node, waiter)) if node == from => {
                self.waiters.remove(&header.request);
                self.on_reply(turn, from, header.request, waiter, Reply::Message(header.epoch, message))
            }
            _ => Ok(()),
        }
    }

    /// Answers a question to the replica. Errors of the tables are answered too: the asker must not wait.
    fn on_question<T: Tables>(
        &mut self,
        turn: &mut Turn<'_, T>,
        from: NodeId,
        header: Header,
        message: &Message<'_>,
    ) -> Result<()> {
        let epoch = header.epoch;
        let refused = |refusal| Message::Refused { refusal };
        let done = |done: std::result::Result<(), Refusal>| done.map_or_else(refused, |()| Message::Stored);
        let (found, difference, bits, cutting, page);
        let due_ms = self.due_ms(turn.now);
        let (now, routing) = (turn.now, &self.routing);
        let replica = &mut self.replica;
        let answer = match message {
            Message::Write { partition, from, is_known, key, record } => {
                self.clock.meet(now, record.version);
                let place = (*partition, *from, *key);
                let origin = if *is_known { Origin::Known(epoch) } else { Origin::Coordinator(epoch) };
                match replica.store(now, turn.tables, routing, place, *record, origin)? {
                    Verdict::Stored => Message::Stored,
                    Verdict::Older(version) => Message::Older { version },
                    Verdict::Refused(refusal) => refused(refusal),
                }
            }
            Message::Read { partition, from, key } => {
                let read = if self.mutations.answers_while_copying() {
                    Ok(replica.newest_row(turn.tables, *partition, key, now.wall_ms)?)
                } else {
                    replica.read(turn.tables, routing, (*partition, *from, key), (epoch, now.wall_ms))?
                };
                match read {
                    Err(refusal) => refused(refusal),
                    Ok(row) => {
                        found = row;
                        let found = match &found {
                            Some((from, bytes)) => Record::decode(bytes).map(|record| (*from, record)),
                            None => None,
                        };
                        Message::Value { found }
                    }
                }
            }
            Message::Compare { partition, is_copy, summaries } => {
                match replica.compare(turn.tables, routing, *partition, (epoch, *is_copy), summaries)? {
                    Err(refusal) => refused(refusal),
                    Ok(differ) => {
                        bits = differ;
                        Message::Differ { bits: &bits }
                    }
                }
            }
            Message::Hashes { partition, is_copy, wants_rows, span, hashes } => {
                let place = (*partition, *span);
                let given = (&hashes[..], *wants_rows);
                match replica.difference(now, turn.tables, routing, place, (epoch, *is_copy), given)? {
                    Err(refusal) => refused(refusal),
                    Ok(found) => {
                        difference = found;
                        difference.message()
                    }
                }
            }
            Message::Give { partition, horizon, rows } => {
                let place = (*partition, epoch, *horizon);
                done(replica.take_rows(now, turn.tables, routing, place, rows)?)
            }
            Message::Floor { partition, time } => {
                done(replica.raise_floor(now, turn.tables, routing, (*partition, epoch), *time)?)
            }
            Message::Horizon { partition, time, from_max } => {
                let raised = replica.raise_horizon(turn.tables, routing, (*partition, epoch), (*time, *from_max))?;
                if raised.is_ok() {
                    self.housekeeping.bury(*partition);
                }
                done(raised)
            }
            Message::Count { span, assigned } => {
                replica.expire(turn.tables, due_ms, self.limits.housekeeping_rows)?;
                let (rows, refused) = replica.count(turn.tables, routing, epoch, *span, assigned)?;
                Message::Counted { rows, time: replica.newest(), refused }
            }
            Message::Cuts { span, low, cuts, assigned } => {
                replica.expire(turn.tables, due_ms, self.limits.housekeeping_rows)?;
                let (rows, keys, refused) =
                    replica.cut_keys(turn.tables, routing, epoch, *span, (low, *cuts, assigned))?;
                cutting = keys;
                Message::Cutting {
                    time: replica.newest(),
                    rows,
                    cuts: cutting
                        .iter()
                        .map(|(key, assigned, rank)| Cut { key, assigned: *assigned, rank: *rank })
                        .collect(),
                    refused,
                }
            }
            Message::Page { span, rows, with_values, assigned } => {
                let wanted = (usize::from(*rows), *with_values, &assigned[..]);
                page = replica.page(turn.tables, routing, (epoch, now.wall_ms), *span, wanted)?;
                Message::Rows {
                    time: replica.newest(),
                    resume: &page.resume,
                    rows: page.rows.iter().map(|(key, value)| (&key[..], &value[..])).collect(),
                    refused: page.refused.clone(),
                }
            }
            _ => return Ok(()),
        };
        if let Message::Refused { refusal } = answer {
            self.metrics.note_refused(refusal);
        }
        self.send(turn, from, header.request, &answer);
        Ok(())
    }
}
