//! The latch: the lock over the published version.
//!
//! Invariants:
//! 1. Who registers a snapshot does so under the latch, so a writer that holds it sees every reader of the version.
//! 2. No reader sees pages that a panic has left half changed: what guards the change takes the version back when it unwinds.
//!
//! Not here: what a version is (`snapshot`), who may change it (`writer`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::snapshot::Versions;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The published version under its lock.
pub(crate) struct Latch(RwLock<Arc<Versions>>);

impl Latch {
    pub(crate) fn new(versions: Versions) -> Latch {
        Latch(RwLock::new(Arc::new(versions)))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Arc<Versions>> {
        self.0.read()
    }

    /// Takes the latch to change pages in place, or to publish.
    #[inline]
    pub(crate) fn write(&self) -> Latched<'_> {
        Latched { versions: self.0.write(), is_changing: true }
    }
}

/// The latch, taken by the writer.
pub(crate) struct Latched<'s> {
    versions: RwLockWriteGuard<'s, Arc<Versions>>,
    is_changing: bool,
}

impl Latched<'_> {
    /// Says whether pages are being changed, so that a panic from here on leaves them half changed. True at first.
    #[inline]
    pub(crate) fn set_changing(&mut self, is_changing: bool) {
        self.is_changing = is_changing;
    }

    #[inline]
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Takes the published version back: a change of its pages has failed half way.
    #[cold]
    pub(crate) fn tear(&mut self) {
        *self.versions = Arc::new(self.versions.torn());
    }
}

impl Deref for Latched<'_> {
    type Target = Arc<Versions>;
    #[inline]
    fn deref(&self) -> &Arc<Versions> {
        &self.versions
    }
}

impl DerefMut for Latched<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Arc<Versions> {
        &mut self.versions
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        if self.is_changing && std::thread::panicking() {
            self.tear();
        }
    }
}
