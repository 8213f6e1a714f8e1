//! The mark of this node's store, which is raised every few seconds while the store is written to and told to the
//! peers, and theirs, which are noted: so that a store that was put back from a copy is noticed (`register`).
//!
//! A mark is told only when it is on stable storage: no power loss takes it back. The disk is waited for by a thread of
//! its own.

use std::sync::Arc;

use quipu::Result;
use quipu_cluster::ids::NodeId;
use quipu_cluster::protocol::{Frame, Header, Message};
use quipu_cluster::topology::StoreId;

use crate::cluster::inbox::{Event, Inbox};
use crate::cluster::register::Register;

/// How often it is raised at most.
const EVERY_MS: u64 = 5_000;

/// What is known of marks.
#[derive(Default)]
pub(super) struct Marking {
    /// Those of peers that have come and are not noted yet.
    pub(super) heard: Vec<(NodeId, StoreId, u64)>,
    is_under_way: bool,
    at_ms: u64,
    /// The commits that need no other mark: up to the last one, and those that note marks.
    sequence: u64,
}

impl Marking {
    /// Notes what was heard, and raises this store's mark if it is time to, once the node runs.
    pub(super) fn see_to(&mut self, register: &Arc<Register>, inbox: &Arc<Inbox>, now_ms: u64, runs: bool) {
        for (node, store, mark) in std::mem::take(&mut self.heard) {
            match register.note_mark(node, store, mark) {
                Ok(is_noted) => self.sequence += u64::from(is_noted),
                // It is told again, and the node says itself that its disk fails.
                Err(_) => return,
            }
        }
        // Not at the start, while all greet: who has greeted with the last one would be refused, and greet again.
        if !runs || self.is_under_way || now_ms < self.at_ms.max(EVERY_MS) {
            return;
        }
        self.at_ms = now_ms + EVERY_MS;
        let sequence = register.store().db().stats().sequence;
        if sequence <= self.sequence {
            return;
        }
        // With its own commit.
        self.sequence = sequence + 1;
        let (register, inbox) = (register.clone(), inbox.clone());
        let work = move || inbox.post(Event::Marked(register.raise_mark()));
        self.is_under_way = std::thread::Builder::new().name("mark".to_owned()).spawn(work).is_ok();
    }

    /// The frame that tells peers of a mark that is on stable storage; none if the disk has failed.
    pub(super) fn frame_of(&mut self, register: &Register, marked: Result<(StoreId, u64)>) -> Option<Vec<u8>> {
        self.is_under_way = false;
        // If the disk has failed the node says so; it is tried again.
        let (store, mark) = marked.ok()?;
        let mut frame = Vec::new();
        let header = Header { epoch: register.routing().epoch(), request: 0 };
        Frame::encode(header, &Message::Mark { store: store.0, mark }, &mut frame);
        Some(frame)
    }
}
