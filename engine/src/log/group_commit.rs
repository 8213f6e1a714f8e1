//! Group commit: one of the waiting threads syncs everything appended so far, for all of them.
//!
//! Not here: which commits wait for it (`state/logged`).

use std::sync::Arc;

use super::format::Lsn;
use super::segment::Segment;
use super::writer::Log;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::Ordering;
use crate::waits::{self, Wait};

impl Log {
    /// Returns when everything below `upto` is on stable storage. One of the callers syncs everything appended so far,
    /// for all that wait; it costs one `fdatasync` for each segment with new bytes.
    ///
    /// # Errors
    ///
    /// The disk's error for the caller that met it, `Poisoned` for all others and ever after; `Invalid` for a position
    /// that was not appended yet.
    pub fn sync(&self, upto: Lsn) -> Result<()> {
        if upto > self.end_lsn() {
            return Err(Error::new(ErrorKind::Invalid, format!("position {upto} is past the end of the log")));
        }
        let mut leader = self.leader.lock();
        loop {
            self.check_poison()?;
            if upto <= self.durable_lsn() {
                return Ok(());
            }
            if !*leader {
                break;
            }
            leader = waits::shown(Wait::Disk, || self.leader_done.wait(leader));
        }
        *leader = true;
        drop(leader);
        let synced = waits::shown(Wait::Disk, || self.sync_live());
        let mut leader = self.leader.lock();
        *leader = false;
        let result = match synced {
            Ok(lsn) => {
                self.durable.store(lsn.0, Ordering::Release);
                Ok(())
            }
            Err(error) => Err(self.poison(error)),
        };
        drop(leader);
        self.leader_done.notify_all();
        result
    }

    /// Syncs all segments with bytes that are not durable. Returns the position up to which they are now.
    fn sync_live(&self) -> Result<Lsn> {
        let durable = self.durable_lsn();
        let end = self.end_lsn();
        let mut unsynced: Vec<Arc<Segment>> = Vec::new();
        for segment in self.live.lock().segments.iter().rev() {
            if segment.base_lsn < end {
                unsynced.push(segment.clone());
            }
            if segment.base_lsn <= durable {
                break;
            }
        }
        for segment in unsynced.iter().rev() {
            segment.sync()?;
        }
        Ok(end)
    }
}
