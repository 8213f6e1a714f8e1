//! A handle by which threads reach the worker that serves a client.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::Waker;

use super::long::Job;
use super::stream::Stream;
use crate::execution::long::Step;
use crate::state::attempt::Attempt;

/// What others send to a worker.
pub(super) enum Message {
    /// A client to serve.
    Client(Box<Stream>, String, String),
    /// A step of a long command has been done, and has brought these bytes.
    Answered { job: Box<Job>, bytes: Vec<u8>, step: Step },
    /// What the command of a parked connection lacked is there, or will never be.
    Loaded { slot: usize, id: u64, attempt: Box<Attempt> },
    /// Something was put into the mailbox of the client of this number, or it is to go.
    Mail { slot: usize, id: u64 },
}

/// How others reach a worker.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) sender: Sender<Message>,
    pub(super) waker: Arc<Waker>,
}

impl Handle {
    pub(super) fn wake(&self) {
        // If it cannot be woken, its loop has ended.
        let _ = self.waker.wake();
    }

    pub(super) fn send(&self, message: Message) {
        // As above.
        let _ = self.sender.send(message);
        self.wake();
    }
}
