//! Panics of a run, which are failures that are told like others.

use std::sync::{Mutex, PoisonError};

static LAST: Mutex<String> = Mutex::new(String::new());

/// Notes the first panic from now on, and the first after each that was told.
pub fn note() {
    std::panic::set_hook(Box::new(|info| {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_empty() {
            *last = info.to_string().replace('\n', " ");
        }
    }));
}

/// Where and why the last panic was, which is told once.
pub fn last() -> String {
    std::mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner))
}
