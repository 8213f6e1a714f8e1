//! The mark of this node's store, which is raised every few seconds while the store is written to and told to the
//! peers, and theirs, which are noted: so that a store that was put back from a copy is noticed (`register`).
//!
//! A mark is told only when it is on stable storage: no power loss takes it back. The disk is waited for by a thread of
//! its own.

use quipu::Result;
use quipu_cluster::ids::NodeId;
use quipu_cluster::protocol::{Frame, Header, Message};
use quipu_cluster::topology::StoreId;

use super::Driver;
use crate::cluster::inbox::Event;
use crate::cluster::register::WENT_BACK_TEXT;
use crate::system::log::Level;

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

impl Driver {
    /// Notes what was heard, and raises this store's mark if it is time to.
    pub(super) fn see_to_mark(&mut self) {
        for (node, store, mark) in std::mem::take(&mut self.marking.heard) {
            match self.register.note_mark(node, store, mark) {
                Ok(is_noted) => self.marking.sequence += u64::from(is_noted),
                // It is told again, and the node says itself that its disk fails.
                Err(_) => return,
            }
        }
        let now_ms = self.now().ticks_ms;
        // Not at the start, while all greet: who has greeted with the last one would be refused, and greet again.
        let at_ms = self.marking.at_ms.max(EVERY_MS);
        if self.node.is_none() || self.marking.is_under_way || now_ms < at_ms {
            return;
        }
        self.marking.at_ms = now_ms + EVERY_MS;
        let sequence = self.register.store().db().stats().sequence;
        if sequence <= self.marking.sequence {
            return;
        }
        // With its own commit.
        self.marking.sequence = sequence + 1;
        let (register, inbox) = (self.register.clone(), self.inbox.clone());
        let work = move || inbox.post(Event::Marked(register.raise_mark()));
        self.marking.is_under_way = std::thread::Builder::new().name("mark".to_owned()).spawn(work).is_ok();
    }

    /// Tells all peers of a mark that is on stable storage.
    pub(super) fn tell_mark(&mut self, marked: Result<(StoreId, u64)>) {
        self.marking.is_under_way = false;
        // If the disk has failed the node says so; it is tried again.
        let Ok((store, mark)) = marked else { return };
        let mut frame = Vec::new();
        let header = Header { epoch: self.register.routing().epoch(), request: 0 };
        Frame::encode(header, &Message::Mark { store: store.0, mark }, &mut frame);
        for link in self.links.values_mut() {
            link.push(&frame);
            // Whether it goes out is seen at the next turn.
            let _ = link.flush();
        }
    }

    /// A peer knows a higher mark of this store: it serves no more.
    pub(super) fn go_back(&mut self) {
        if let Err(error) = self.register.has_gone_back() {
            self.host.note(Level::Warning, format_args!("that this node went back cannot be noted: {error}"));
        }
        let peers: Vec<NodeId> = self.links.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.cut(peer));
        self.forget(WENT_BACK_TEXT);
        self.agreement = None;
        self.host.note(Level::Warning, format_args!("{WENT_BACK_TEXT}"));
    }
}
