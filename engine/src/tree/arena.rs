//! The memory of pages: one reservation of address space per database, handed out page by page.
//!
//! Invariants:
//! 1. A page id stands for the same address as long as the arena lives: growth moves nothing.
//! 2. An id is either free or owned by exactly one tree (its current version or its retired pages).
//! 3. There is address space for one and a half times the limit, and the slack. A restart may need more than the limit:
//!    rows that were accepted once are accepted again, though pages may be filled otherwise than before. So may a
//!    commit, whose need is only estimated when it is admitted: it may copy and split each page in use.
//!
//! Cost: an id becomes an address by one shift and one addition. Allocation takes a lock, once in some seventy inserts.
//! With huge pages a dependent read that misses takes about 240 ns instead of 360; their first touch is slow (2 to 4 ms
//! per 2 MiB), so [`Arena::prefault`] does it ahead of need, on another thread. Not here: what is in a page (`page/`),
//! and when it may be freed (`state/reclaim`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

use crate::error::{Error, ErrorKind, Result};
use crate::io::process::Process;
use crate::page::{Blob, PageMut, PageRef};

/// Names a page of an arena.
pub(crate) type PageId = u32;

/// No page.
pub(crate) const NO_PAGE: PageId = u32::MAX;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The most pages by which the limit may be exceeded between a check of it and the allocations that follow.
const SLACK_PAGES: usize = 4096;

/// The most pages that one step of a write takes after a call of [`Arena::check_space`]: it splits at most one page of
/// each level.
const STEP_PAGES: usize = 128;

/// Pages of one size in one reservation.
pub(crate) struct Arena {
    base: *mut u8,
    page_shift: u32,
    pages_max: usize,
    limit_pages: AtomicUsize,
    used_pages: AtomicUsize,
    touched_pages: AtomicUsize,
    blob_bytes: AtomicU64,
    free: Mutex<Free>,
    process: Process,
    reservation: Reservation,
}

struct Free {
    pages: Vec<PageId>,
    next: usize,
    prefaulter: Option<Thread>,
}

// SAFETY: the pointer names memory that belongs to the arena; who may touch which page is the contract of `page` and
// `page_mut`.
unsafe impl Send for Arena {}
// SAFETY: as above; the arena's own state is behind a lock or atomic.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves address space for `limit_bytes` of pages of `page_bytes` (a power of two). Memory is used only as pages
    /// are.
    pub(crate) fn new(page_bytes: usize, limit_bytes: u64) -> Result<Arena> {
        assert!(page_bytes.is_power_of_two());
        let page_shift = page_bytes.trailing_zeros();
        let wanted_pages = usize::try_from(limit_bytes >> page_shift).unwrap_or(usize::MAX).max(16);
        let pages_max = wanted_pages.saturating_add(wanted_pages / 2).saturating_add(SLACK_PAGES);
        let pages_max = pages_max.min(NO_PAGE as usize).min(usize::MAX >> 1 >> page_shift);
        let reservation = Reservation::new(pages_max << page_shift)?;
        let pages_max = (reservation.usable_bytes() >> page_shift).min(NO_PAGE as usize);
        let limit_pages = wanted_pages.min(pages_max.saturating_sub(SLACK_PAGES));
        Ok(Arena {
            base: reservation.start(),
            page_shift,
            pages_max,
            limit_pages: AtomicUsize::new(limit_pages),
            used_pages: AtomicUsize::new(0),
            touched_pages: AtomicUsize::new(0),
            blob_bytes: AtomicU64::new(0),
            free: Mutex::new(Free { pages: Vec::new(), next: 0, prefaulter: None }),
            process: Process::current(),
            reservation,
        })
    }

    /// The process that made it.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    #[inline(always)]
    pub(crate) fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }

    /// Bytes of pages in use.
    pub(crate) fn page_bytes_used(&self) -> u64 {
        (self.used_pages.load(Ordering::Relaxed) as u64) << self.page_shift
    }

    /// Bytes of pages in use, and of long keys and values.
    pub(crate) fn bytes_used(&self) -> u64 {
        self.page_bytes_used() + self.blob_bytes_used()
    }

    /// Bytes of long keys and values that lie outside of pages.
    pub(crate) fn blob_bytes_used(&self) -> u64 {
        self.blob_bytes.load(Ordering::Relaxed)
    }

    /// Copies `bytes`, born in `epoch`, into a blob.
    pub(crate) fn new_blob(&self, bytes: &[u8], epoch: u64) -> Result<Blob> {
        let blob = Blob::new(bytes, epoch)?;
        self.blob_bytes.fetch_add(Blob::size_of(bytes.len()), Ordering::Relaxed);
        Ok(blob)
    }

    /// Frees the memory of a blob.
    ///
    /// # Safety
    /// [`Arena::new_blob`] made it, and nothing names it any more.
    pub(crate) unsafe fn release_blob(&self, blob: Blob) {
        // SAFETY: promised by the caller.
        unsafe {
            self.blob_bytes.fetch_sub(Blob::size_of(blob.bytes().len()), Ordering::Relaxed);
            blob.release();
        }
    }

    /// The address of a page, to prefetch.
    #[inline(always)]
    pub(crate) fn address(&self, id: PageId) -> *mut u8 {
        self.base.wrapping_add((id as usize) << self.page_shift)
    }

    /// A page to read.
    ///
    /// # Safety
    /// The page is in use and initialised, and is neither changed nor freed while `'a` lasts.
    #[inline(always)]
    pub(crate) unsafe fn page<'a>(&self, id: PageId) -> PageRef<'a> {
        debug_assert!((id as usize) < self.pages_max);
        // SAFETY: the address lies in the reservation; the rest is promised by the caller.
        unsafe { PageRef::new(self.address(id)) }
    }

    /// A page to write.
    ///
    /// # Safety
    /// The page is in use, and no other code reads or writes it while `'a` lasts.
    #[inline(always)]
    pub(crate) unsafe fn page_mut<'a>(&self, id: PageId) -> PageMut<'a> {
        debug_assert!((id as usize) < self.pages_max);
        // SAFETY: as above.
        unsafe { PageMut::new(self.address(id), self.page_bytes()) }
    }

    /// Adds to a number in a page: the cost of counting rows for a write, on each level.
    ///
    /// # Safety
    /// As for [`Arena::page_mut`], and an aligned `i64` stands at `offset`.
    #[inline(always)]
    pub(crate) unsafe fn add_at(&self, id: PageId, offset: usize, amount: i64) {
        // SAFETY: promised by the caller.
        unsafe {
            let at = self.address(id).add(offset).cast::<i64>();
            at.write(at.read().wrapping_add(amount));
        }
    }

    /// Fails if the memory limit is reached. A write calls this before it changes anything; then `allocate` cannot
    /// fail.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<()> {
        let blob_pages = (self.blob_bytes_used() >> self.page_shift) as usize;
        if self.used_pages.load(Ordering::Relaxed) + blob_pages < self.limit_pages.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(self.full())
    }

    /// Fails if there is no space for one more step of a write for which room was reserved, or of a recovery.
    #[inline]
    pub(crate) fn check_space(&self) -> Result<()> {
        let blob_pages = (self.blob_bytes_used() >> self.page_shift) as usize;
        if self.used_pages.load(Ordering::Relaxed) + blob_pages + STEP_PAGES <= self.pages_max {
            return Ok(());
        }
        Err(self.out_of_space())
    }

    #[cold]
    fn out_of_space(&self) -> Error {
        let limit_mebibytes = (self.limit_pages.load(Ordering::Relaxed) << self.page_shift) >> 20;
        Error::new(
            ErrorKind::Full,
            format!(
                "the rows take more memory than there is for a `memory_bytes` of {limit_mebibytes} MiB; \
                 open the database with a larger `memory_bytes`"
            ),
        )
    }

    /// Whether half of the limit is in use.
    pub(crate) fn is_half_full(&self) -> bool {
        2 * self.bytes_used() >= (self.limit_pages.load(Ordering::Relaxed) as u64) << self.page_shift
    }

    /// Like `check_room`, for `pages` more.
    pub(crate) fn check_room_for(&self, pages: u64) -> Result<()> {
        let used = self.used_pages.load(Ordering::Relaxed) as u64 + (self.blob_bytes_used() >> self.page_shift);
        // The slack covers the most that small commits take, so that removals still work at the limit.
        let free = self.limit_pages.load(Ordering::Relaxed) as u64 + SLACK_PAGES as u64 / 4;
        if used + pages < free { Ok(()) } else { Err(self.full()) }
    }

    /// Like `check_room_for`, for a removal: it may exceed the limit by what copies for snapshots and readers need, but
    /// never by more than there is.
    pub(crate) fn check_room_to_remove(&self, pages: u64) -> Result<()> {
        let used = self.used_pages.load(Ordering::Relaxed) as u64 + (self.blob_bytes_used() >> self.page_shift);
        if used + pages + SLACK_PAGES as u64 / 8 <= self.pages_max as u64 {
            return Ok(());
        }
        let advice =
            "no room to copy the pages that readers see; remove fewer rows in one commit, or a whole range of a table";
        Err(self.full().context(advice))
    }

    #[cold]
    fn full(&self) -> Error {
        Error::new(
            ErrorKind::Full,
            format!(
                "the data in memory has reached the limit of {} MiB; remove rows, end long snapshots, or reopen with a larger `memory_bytes`",
                (self.limit_pages.load(Ordering::Relaxed) << self.page_shift) >> 20
            ),
        )
    }

    /// A page of undefined content. Call [`Arena::check_room`] first.
    pub(crate) fn allocate(&self) -> PageId {
        self.used_pages.fetch_add(1, Ordering::Relaxed);
        let mut free = self.free.lock().expect("no holder of this lock panics");
        if let Some(id) = free.pages.pop() {
            return id;
        }
        assert!(free.next < self.pages_max, "the space over the memory limit was overdrawn");
        let id = free.next as PageId;
        free.next += 1;
        if free.next + (HUGE_PAGE_BYTES >> self.page_shift) > self.touched_pages.load(Ordering::Relaxed)
            && let Some(prefaulter) = &free.prefaulter
        {
            prefaulter.unpark();
        }
        id
    }

    /// Overwrites freed pages, so that a reader that still sees one shows it. For tests that choose interleavings,
    /// where one thread runs at a time.
    #[cfg(feature = "shuttle")]
    fn spoil(&self, ids: &[PageId]) {
        for id in ids {
            // SAFETY: the page lies in the reservation, has no owner, and no other thread runs.
            unsafe { std::ptr::write_bytes(self.address(*id), 0xEE, self.page_bytes()) };
        }
    }

    #[cfg(not(feature = "shuttle"))]
    #[inline(always)]
    fn spoil(&self, _: &[PageId]) {}

    /// Frees a page.
    pub(crate) fn free(&self, id: PageId) {
        self.spoil(&[id]);
        self.used_pages.fetch_sub(1, Ordering::Relaxed);
        self.free.lock().expect("no holder of this lock panics").pages.push(id);
    }

    /// Frees many pages under one lock.
    pub(crate) fn free_all(&self, ids: &[PageId]) {
        self.spoil(ids);
        self.used_pages.fetch_sub(ids.len(), Ordering::Relaxed);
        self.free.lock().expect("no holder of this lock panics").pages.extend_from_slice(ids);
    }

    /// Sets the thread to wake when [`Arena::prefault`] has something to do.
    pub(crate) fn set_prefaulter(&self, thread: Option<Thread>) {
        self.free.lock().expect("no holder of this lock panics").prefaulter = thread;
    }

    /// Touches memory ahead of what is in use: an eighth of it, between 4 and 64 MiB. Returns whether it did anything.
    pub(crate) fn prefault(&self) -> bool {
        let next = self.free.lock().expect("no holder of this lock panics").next;
        let next_bytes = next << self.page_shift;
        let ahead_bytes = (next_bytes / 4).clamp(2 * HUGE_PAGE_BYTES, 32 * HUGE_PAGE_BYTES);
        let wanted_bytes =
            (next_bytes + ahead_bytes).next_multiple_of(HUGE_PAGE_BYTES).min(self.pages_max << self.page_shift);
        let touched_bytes = self.touched_pages.load(Ordering::Relaxed) << self.page_shift;
        if wanted_bytes <= touched_bytes {
            return false;
        }
        let step_bytes = (wanted_bytes - touched_bytes).min(HUGE_PAGE_BYTES);
        self.reservation.populate(touched_bytes, step_bytes);
        self.touched_pages.store((touched_bytes + step_bytes) >> self.page_shift, Ordering::Relaxed);
        true
    }
}

#[cfg(not(miri))]
use mapped::Reservation;

#[cfg(not(miri))]
mod mapped {
    use super::{HUGE_PAGE_BYTES, SLACK_PAGES};
    use crate::error::{Error, ErrorKind, Result};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Address space without memory behind it until it is touched.
    pub(super) struct Reservation {
        mapping: *mut u8,
        len: usize,
    }

    impl Reservation {
        pub(super) fn new(wanted_bytes: usize) -> Result<Self> {
            let mut len = wanted_bytes.saturating_add(HUGE_PAGE_BYTES).next_multiple_of(4096);
            loop {
                // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
                let mapping = unsafe {
                    mmap_anonymous(
                        std::ptr::null_mut(),
                        len,
                        ProtFlags::READ | ProtFlags::WRITE,
                        MapFlags::PRIVATE | MapFlags::NORESERVE,
                    )
                };
                match mapping {
                    Ok(mapping) => {
                        let reservation = Reservation { mapping: mapping.cast(), len };
                        // Huge pages are a gain, not a need: a kernel without them refuses, and that is fine.
                        // SAFETY: the range is the mapping just made.
                        let _ = unsafe {
                            madvise(reservation.start().cast(), reservation.usable_bytes(), Advice::LinuxHugepage)
                        };
                        return Ok(reservation);
                    }
                    // Limits on address space (ulimit -v, overcommit): take what there is.
                    Err(_) if len / 2 > SLACK_PAGES * 8192 => len /= 2,
                    Err(error) => {
                        return Err(Error::new(
                            ErrorKind::Full,
                            format!(
                                "cannot reserve {len} bytes of address space: {error}; lower `memory_bytes` or raise `ulimit -v`"
                            ),
                        ));
                    }
                }
            }
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.mapping.wrapping_add(self.mapping.align_offset(HUGE_PAGE_BYTES))
        }

        pub(super) fn usable_bytes(&self) -> usize {
            self.len - self.mapping.align_offset(HUGE_PAGE_BYTES)
        }

        pub(super) fn populate(&self, offset: usize, len: usize) {
            let len = len.min(self.usable_bytes().saturating_sub(offset));
            // SAFETY: the range lies in the mapping; populating changes no content.
            let _ = unsafe { madvise(self.start().add(offset).cast(), len, Advice::LinuxPopulateWrite) };
        }
    }

    impl Drop for Reservation {
        fn drop(&mut self) {
            // SAFETY: the mapping made in `new`; the arena, and with it every page reference, is gone.
            let _ = unsafe { munmap(self.mapping.cast(), self.len) };
        }
    }
}

#[cfg(miri)]
use allocated::Reservation;

/// Miri has no mmap: an allocation stands in, of at most so much as makes a test slow.
#[cfg(miri)]
mod allocated {
    use crate::error::Result;
    use std::alloc::{Layout, alloc, dealloc};

    const BYTES_MAX: usize = 32 << 20;

    pub(super) struct Reservation {
        start: *mut u8,
        layout: Layout,
    }

    impl Reservation {
        pub(super) fn new(wanted_bytes: usize) -> Result<Self> {
            let layout = Layout::from_size_align(wanted_bytes.min(BYTES_MAX), 4096).expect("a layout");
            // SAFETY: the layout has a size.
            Ok(Reservation { start: unsafe { alloc(layout) }, layout })
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.start
        }

        pub(super) fn usable_bytes(&self) -> usize {
            self.layout.size()
        }

        pub(super) fn populate(&self, _offset: usize, _len: usize) {}
    }

    impl Drop for Reservation {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.start, self.layout) }
        }
    }
}
