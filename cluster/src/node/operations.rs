//! All operations of a node. An answer, a timer or an epoch is passed to the operation that it is for.
//!
//! Operations know each other only here and by their parameters: when a session of rows has ended, this file goes on
//! with the operation that needed it.

use quipu::Result;

use super::comparison::{Ended, Purpose, Sessions};
use super::context::Context;
use super::hints::Hints;
use super::housekeeping::Housekeeping;
use super::movement::Movement;
use super::repair::Repair;
use super::requests::Requests;
use super::waiting::{Reply, Timer, Waiter};
use crate::ids::{Epoch, NodeId};
use crate::limits::Limits;
use crate::tables::Tables;

/// See the module.
#[derive(Debug)]
pub(super) struct Operations {
    pub(super) requests: Requests,
    pub(super) hints: Hints,
    pub(super) housekeeping: Housekeeping,
    sessions: Sessions,
    repair: Repair,
    movement: Movement,
}

impl Operations {
    pub(super) fn new(limits: &Limits) -> Operations {
        Operations {
            requests: Requests::default(),
            hints: Hints::default(),
            housekeeping: Housekeeping::default(),
            sessions: Sessions::new(limits),
            repair: Repair::default(),
            movement: Movement::default(),
        }
    }

    /// Comparisons and rounds that are still to be done, or under way.
    pub(super) fn repairs_left(&self) -> usize {
        self.repair.left() + self.sessions.count(|purpose| purpose != Purpose::Copy)
    }

    /// Partitions that are still to be copied.
    pub(super) fn copies_left(&self) -> usize {
        self.movement.copies_left()
    }

    /// Begins what the store says, after a start.
    pub(super) fn open<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        self.hints.open(cx)?;
        self.movement.enter_epoch(cx)
    }

    /// Another epoch has begun.
    pub(super) fn on_epoch<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        if !cx.mutations.copies_span_epochs() {
            self.sessions.end_copies(cx);
        }
        self.movement.enter_epoch(cx)?;
        self.requests.on_epoch(cx, &mut self.hints)
    }

    /// Says in the log that this node knows the epoch, once it has copied what it must.
    pub(super) fn announce<T>(&self, cx: &mut Context<'_, T>) {
        self.movement.announce(cx);
    }

    /// A member that knows this epoch has said which `from` are in use.
    pub(super) fn on_classes<T>(&mut self, cx: &mut Context<'_, T>, from: NodeId, epoch: Epoch) {
        self.movement.told(cx, from, epoch);
    }

    /// A peer has answered a question, or will not.
    pub(super) fn on_reply<T: Tables>(
        &mut self,
        cx: &mut Context<'_, T>,
        waiter: Waiter,
        (from, request, reply): (NodeId, u64, Reply<'_, '_>),
    ) -> Result<()> {
        match waiter {
            Waiter::Write(_) | Waiter::Read(_) | Waiter::Query(_) | Waiter::Conditional(_) => {
                self.requests.on_reply(cx, &mut self.hints, waiter, (from, request, reply))
            }
            Waiter::Hint => self.hints.on_reply(cx, from, request, reply),
            Waiter::Session(number) => {
                let ended = self.sessions.on_reply(cx, number, reply)?;
                self.after(cx, ended)
            }
            Waiter::Round(number) => {
                let is_done = self.repair.on_reply(cx, number, reply);
                self.repair.on_part(cx, &mut self.sessions, &mut self.housekeeping, number, (from, is_done))
            }
        }
    }

    /// A timer of an operation has come.
    pub(super) fn on_timer<T: Tables>(&mut self, cx: &mut Context<'_, T>, timer: Timer) -> Result<()> {
        match timer {
            Timer::Write(_) | Timer::Read(_) | Timer::Query(_) | Timer::Conditional(_) => {
                self.requests.on_timer(cx, &mut self.hints, timer)
            }
            Timer::Session(number) => {
                let ended = self.sessions.on_timer(cx, number)?;
                self.after(cx, ended)
            }
            Timer::Round(number) => self.repair.on_timer(cx, &mut self.sessions, &mut self.housekeeping, number),
            Timer::Hints => self.hints.hand_over(cx),
            Timer::Repair => self.repair_all(cx),
            Timer::Movement => self.movement.move_on(cx, &mut self.sessions),
            Timer::Housekeeping => self.housekeeping.remove_some(cx),
            Timer::Announce => {
                self.announce(cx);
                cx.set_timer(200, Timer::Announce);
                Ok(())
            }
            Timer::Peers | Timer::Membership => Ok(()),
        }
    }

    /// Compares all partitions.
    pub(super) fn repair_all<T: Tables>(&mut self, cx: &mut Context<'_, T>) -> Result<()> {
        self.repair.begin_all(cx, &mut self.sessions, &mut self.housekeeping)
    }

    /// Whether all partitions should be compared: replicas were found to differ since this was last asked, and no
    /// comparison is under way.
    pub(super) fn take_repair_wish(&mut self) -> bool {
        self.requests.take_compare_wish() && self.sessions.count(|purpose| purpose == Purpose::Repair) == 0
    }

    /// Goes on with what a session was for, if it has ended.
    fn after<T: Tables>(&mut self, cx: &mut Context<'_, T>, ended: Option<Ended>) -> Result<()> {
        let Some(Ended { peer, partition, purpose, is_done }) = ended else { return Ok(()) };
        let (repair, sessions, housekeeping) = (&mut self.repair, &mut self.sessions, &mut self.housekeeping);
        match purpose {
            Purpose::Repair => repair.begin_next(cx, sessions, housekeeping),
            Purpose::Round(number) => repair.on_part(cx, sessions, housekeeping, number, (peer, is_done)),
            Purpose::Copy => self.movement.copied(cx, partition, peer, is_done),
        }
    }
}
