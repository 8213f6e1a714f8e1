//! The signal that long work is to stop.

use std::cell::RefCell;

use quipu::{Error, ErrorKind, Result};

/// What says that work is to stop; nothing does unless it is told to.
#[derive(Default)]
pub(crate) struct Stop(RefCell<Option<Box<dyn Fn() -> bool>>>);

impl Stop {
    /// Has `stop` say so.
    pub(crate) fn ask(&self, stop: impl Fn() -> bool + 'static) {
        *self.0.borrow_mut() = Some(Box::new(stop));
    }

    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the work is to stop.
    pub(crate) fn refuse(&self) -> Result<()> {
        match &*self.0.borrow() {
            Some(stop) if stop() => Err(Error::new(ErrorKind::Invalid, "the work was stopped")),
            _ => Ok(()),
        }
    }
}
