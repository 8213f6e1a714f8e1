//! For each thread, the session that is writing rows. A CHECK that depends on the time or the user asks it; without a
//! session it gets the time, in UTC.

use std::cell::RefCell;
use std::sync::Arc;

use crate::catalogue::generated::Alone;
use crate::clock;
use crate::functions::Environment;

thread_local! {
    static WRITER: RefCell<Option<Arc<dyn Environment>>> = const { RefCell::new(None) };
}

/// A session that writes, until it is dropped.
pub struct Writing(Option<Arc<dyn Environment>>);

/// Has checks of this thread ask a session.
pub fn writing(session: Arc<dyn Environment>) -> Writing {
    Writing(WRITER.replace(Some(session)))
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITER.set(self.0.take());
    }
}

/// Asks the session that writes.
pub(super) fn with<R>(ask: impl FnOnce(&dyn Environment) -> R) -> R {
    match WRITER.with_borrow(Clone::clone) {
        Some(session) => ask(&*session),
        None => ask(&Alone { now: clock::now() }),
    }
}
