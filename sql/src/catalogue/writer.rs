//! The session that writes rows on a thread, which checks ask that depend on more than their row, as
//! `day < current_date`. Where rows are written without a session, there are the time and UTC alone.

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
