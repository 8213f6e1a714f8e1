//! Answers questions of peers to the replica of a node.

use quipu::Result;

use super::context::Context;
use super::housekeeping::Housekeeping;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{Header, Message, Refusal};
use crate::record::{Record, State};
use crate::replica::{Origin, Verdict, found_record};
use crate::tables::Tables;

/// A question, and who has asked it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'q, 'm> {
    pub(super) from: NodeId,
    pub(super) header: Header,
    pub(super) message: &'q Message<'m>,
}

impl Question<'_, '_> {
    /// Answers it, if it is one to the replica.
    pub(super) fn answer<T: Tables>(&self, cx: &mut Context<'_, T>, housekeeping: &mut Housekeeping) -> Result<()> {
        match self.message {
            Message::Write { .. } | Message::Read { .. } => self.answer_entity(cx),
            Message::Compare { .. } | Message::Hashes { .. } | Message::Give { .. } => self.answer_comparison(cx),
            Message::Floor { .. } | Message::Horizon { .. } => self.answer_line(cx, housekeeping),
            Message::Count { .. } | Message::Cuts { .. } | Message::Page { .. } => self.answer_position(cx),
            _ => Ok(()),
        }
    }

    fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    fn send<T>(&self, cx: &mut Context<'_, T>, answer: &Message<'_>) {
        cx.send(self.from, self.header.request, answer);
    }

    fn refuse<T>(&self, cx: &mut Context<'_, T>, refusal: Refusal) {
        cx.metrics.note_refused(refusal);
        self.send(cx, &Message::Refused { refusal });
    }

    fn confirm<T>(&self, cx: &mut Context<'_, T>, done: std::result::Result<(), Refusal>) {
        match done {
            Ok(()) => self.send(cx, &Message::Stored),
            Err(refusal) => self.refuse(cx, refusal),
        }
    }

    fn answer_entity<T: Tables>(&self, cx: &mut Context<'_, T>) -> Result<()> {
        match self.message {
            Message::Write { partition, from, is_known, key, record } => {
                cx.clock.meet(cx.now, record.version);
                let epoch = self.epoch();
                let origin = if *is_known { Origin::Known(epoch) } else { Origin::Coordinator(epoch) };
                let row = (*partition, *from, *key);
                match cx.replica.store(cx.now, cx.tables, cx.routing, row, *record, origin)? {
                    Verdict::Stored => self.send(cx, &Message::Stored),
                    Verdict::Older(version) => self.send(cx, &Message::Older { version }),
                    Verdict::Refused(refusal) => self.refuse(cx, refusal),
                }
            }
            Message::Read { partition, from, is_whole, key } => {
                let wall_ms = cx.now.wall_ms;
                let read = if cx.mutations.answers_while_copying() {
                    Ok(cx.replica.newest_row(cx.tables, *partition, key, wall_ms)?)
                } else {
                    cx.replica.read(cx.tables, cx.routing, (*partition, *from, key), (self.epoch(), wall_ms))?
                };
                match read {
                    Err(refusal) => self.refuse(cx, refusal),
                    Ok(found) => match found_record(&found) {
                        Some((from, Record { version, state: State::Live { deadline_ms, value } }))
                            if !is_whole && value.len() > cx.limits.long_value_bytes =>
                        {
                            let bytes = value.len() as u64;
                            self.send(cx, &Message::Long { from, version, deadline_ms, bytes });
                        }
                        found => self.send(cx, &Message::Value { found }),
                    },
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn answer_comparison<T: Tables>(&self, cx: &mut Context<'_, T>) -> Result<()> {
        match self.message {
            Message::Compare { partition, is_copy, summaries } => {
                let at = (self.epoch(), *is_copy);
                match cx.replica.compare(cx.tables, cx.routing, *partition, at, summaries)? {
                    Err(refusal) => self.refuse(cx, refusal),
                    Ok(bits) => {
                        let floor = cx.replica.state(*partition).floor;
                        self.send(cx, &Message::Differ { floor, bits: &bits });
                    }
                }
            }
            Message::Hashes { partition, is_copy, wants_rows, span, hashes } => {
                let (place, at) = ((*partition, *span), (self.epoch(), *is_copy));
                let given = (&hashes[..], *wants_rows);
                match cx.replica.difference(cx.now, cx.tables, cx.routing, place, at, given)? {
                    Err(refusal) => self.refuse(cx, refusal),
                    Ok(difference) => self.send(cx, &difference.message()),
                }
            }
            Message::Give { partition, horizon, rows } => {
                let place = (*partition, self.epoch(), *horizon);
                let taken = cx.replica.take_rows(cx.now, cx.tables, cx.routing, place, rows)?;
                self.confirm(cx, taken);
            }
            _ => {}
        }
        Ok(())
    }

    fn answer_line<T: Tables>(&self, cx: &mut Context<'_, T>, housekeeping: &mut Housekeeping) -> Result<()> {
        match self.message {
            Message::Floor { partition, time } => {
                let at = (*partition, self.epoch());
                let raised = cx.replica.raise_floor(cx.now, cx.tables, cx.routing, at, *time)?;
                self.confirm(cx, raised);
            }
            Message::Horizon { partition, time, from_max } => {
                let (at, line) = ((*partition, self.epoch()), (*time, *from_max));
                let raised = cx.replica.raise_horizon(cx.now, cx.tables, cx.routing, at, line)?;
                if raised.is_ok() {
                    housekeeping.bury(*partition);
                }
                self.confirm(cx, raised);
            }
            _ => {}
        }
        Ok(())
    }

    fn answer_position<T: Tables>(&self, cx: &mut Context<'_, T>) -> Result<()> {
        if !matches!(self.message, Message::Page { .. }) {
            // What is counted is counted by all clocks alike, as far as they are right.
            cx.replica.expire(cx.tables, cx.due_ms(), cx.limits.housekeeping_rows)?;
        }
        let at = (self.epoch(), cx.now.wall_ms);
        if let Some(part) = cx.replica.part(cx.tables, cx.routing, at, self.message)? {
            self.send(cx, &part.message(cx.replica.newest()));
        }
        Ok(())
    }
}
