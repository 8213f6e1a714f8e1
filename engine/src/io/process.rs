//! The process that a database was opened in.
//!
//! A process that `fork` makes has a copy of the memory, without the threads, and shares the files. If it wrote, both
//! would write the same bytes of the log; a lock that another thread held at that moment is held in it for ever. So
//! what was opened before is not used in it: each use asks first, before it takes a lock.
//!
//! Cost: a load and a comparison, under a nanosecond, since Linux can empty a page of memory in each process that is
//! forked. Elsewhere the number of the process is asked for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// What each process finds as 0 at first, also one that was forked; `None` where the system has no such memory.
static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The last number that this process or one that it was forked from has put into its mark.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A process, as what was opened in it remembers it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    mark: Option<&'static AtomicU64>,
    /// What the mark holds in this process. All processes that this one is forked from have smaller numbers, so it is
    /// not one of theirs, whatever numbers the system gives to processes again.
    number: u64,
    id: u32,
}

impl Process {
    /// The process that this runs in.
    pub fn current() -> Process {
        let mark = *MARK.get_or_init(wiped_on_fork);
        let number = mark.map_or(0, |mark| match mark.load(Ordering::Relaxed) {
            0 => {
                let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                let taken = mark.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                taken.map_or_else(|other| other, |_| next)
            }
            number => number,
        });
        Process { mark, number, id: std::process::id() }
    }

    /// Whether this runs in it, and not in one that was forked from it.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        match self.mark {
            Some(mark) => mark.load(Ordering::Relaxed) == self.number,
            None => std::process::id() == self.id,
        }
    }

    /// Fails in another process.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    #[inline(always)]
    pub fn check(&self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(self.is_another()) }
    }

    /// The error of a use in another process.
    #[cold]
    pub(crate) fn is_another(&self) -> Error {
        let (then, now) = (self.id, std::process::id());
        let what = format!("the database was opened in process {then}, from which this one, {now}, was forked");
        Error::new(ErrorKind::Invalid, format!("{what}; open it again in this process, once the other has closed it"))
    }
}

/// A number in a page that is empty in each process that is forked.
#[cfg(all(target_os = "linux", not(miri)))]
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    const BYTES: usize = 4096;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let page =
        unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the page was mapped above, and only this function knows it.
    unsafe { madvise(page, BYTES, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the page is zero, aligned, and never unmapped; it is used as this number alone.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn wiped_on_fork() -> Option<&'static AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_no_process_with_another_mark() {
        let (first, second) = (Process::current(), Process::current());
        assert!(first.is_current() && second.is_current() && first.number == second.number);
        let forked_from = Process { number: first.number.wrapping_sub(1), id: first.id.wrapping_add(1), ..first };
        assert!(!forked_from.is_current());
        assert_eq!(forked_from.check().unwrap_err().kind(), ErrorKind::Invalid);
        #[cfg(all(target_os = "linux", not(miri)))]
        assert!(first.mark.is_some(), "each commit would ask the system");
    }
}
