//! Memory for units that come from files and go again: frames of a few sizes, cut from chunks that lie in huge pages.
//!
//! A read that depends on another takes two thirds of the time if its page of memory is a huge one (240 to 360 ns on
//! the machine where this was measured), and memory of `malloc` is in small ones. A frame that comes back is given out
//! again as it is, so nothing is zeroed.
//!
//! Invariants:
//! 1. A frame has one owner at most, and lies in its chunk after the chunk's head.
//! 2. Bytes of a frame are initialized: they come from the system as zeros.
//! 3. A chunk is in its class's list exactly if it has a free frame. One without an owner goes back to the system if
//!    another one of its class has room.
//!
//! Costs: taking and giving a frame is a lock and a few steps. Of each size that is in use, up to a chunk of memory is
//! spare. Not here: how many units there may be (`cache/page_cache`).

use std::num::NonZeroU8;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a chunk: those of a huge page, at a multiple of which it begins.
const CHUNK_BYTES: usize = 2 << 20;
/// Bytes of a frame of each class.
const CLASS_BYTES: [usize; 8] = [1024, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384];
/// Bytes between frames: the same lines of frames in a row fall into different sets of the processor's cache.
const GAP_BYTES: usize = 64;
/// Bytes before the first frame of a chunk.
const HEAD_BYTES: usize = 64;

/// What stands at the start of a chunk.
struct Head {
    class: usize,
    /// Frames that have an owner.
    taken: usize,
    /// Frames from this number on were never taken.
    fresh: usize,
    /// Frames that were given back, each with the address of the next in its first bytes.
    given: Option<NonNull<u8>>,
}

const _: () = assert!(size_of::<Head>() <= HEAD_BYTES);

impl Head {
    fn is_full(&self) -> bool {
        self.given.is_none() && self.fresh == frames_of(self.class)
    }
}

/// Chunks of one class that have a free frame.
struct Class(Vec<NonNull<Head>>);

// SAFETY: the chunks belong to the class, whose lock is held by the code that looks at one.
unsafe impl Send for Class {}

static CLASSES: [Mutex<Class>; CLASS_BYTES.len()] = [const { Mutex::new(Class(Vec::new())) }; CLASS_BYTES.len()];

/// Frames of a chunk of a class.
const fn frames_of(class: usize) -> usize {
    (CHUNK_BYTES - HEAD_BYTES) / (CLASS_BYTES[class] + GAP_BYTES)
}

/// Which frames a frame is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameClass(NonZeroU8);

impl FrameClass {
    fn of(number: usize) -> FrameClass {
        FrameClass(NonZeroU8::new(number as u8 + 1).expect("not zero"))
    }

    fn number(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// Bytes of a frame.
#[cfg(test)]
fn bytes_of(class: FrameClass) -> usize {
    CLASS_BYTES[class.number()]
}

/// A frame of `bytes` or up to a third more; none if there is no such class, or the system has no memory. What is in it
/// is left from others. It is the caller's until given back.
pub(super) fn take(bytes: usize) -> Option<(NonNull<u8>, FrameClass)> {
    let class = CLASS_BYTES.iter().position(|&class_bytes| bytes <= class_bytes)?;
    if bytes < CLASS_BYTES[class] / 4 * 3 || cfg!(miri) {
        return None;
    }
    let mut chunks = CLASSES[class].lock().unwrap_or_else(PoisonError::into_inner);
    if chunks.0.is_empty() {
        let chunk = new_chunk(class)?;
        chunks.0.push(chunk);
    }
    let chunk = chunks.0[chunks.0.len() - 1];
    // SAFETY: a chunk of the list lives, and its head is behind the lock that is held.
    let head = unsafe { &mut *chunk.as_ptr() };
    let start = match head.given {
        Some(frame) => {
            // SAFETY: a frame that was given back has the next one in its first bytes, and no owner.
            head.given = unsafe { frame.cast::<Option<NonNull<u8>>>().read_unaligned() };
            frame
        }
        None => {
            let offset = HEAD_BYTES + head.fresh * (CLASS_BYTES[class] + GAP_BYTES);
            head.fresh += 1;
            // SAFETY: a chunk in the list has a free frame, so this one lies in it.
            unsafe { chunk.cast::<u8>().add(offset) }
        }
    };
    head.taken += 1;
    if head.is_full() {
        chunks.0.pop();
    }
    Some((start, FrameClass::of(class)))
}

/// Gives a frame back.
///
/// # Safety
/// The frame was taken, of this class, and is not used any more.
pub(super) unsafe fn give(frame: NonNull<u8>, class: FrameClass) {
    let mut chunks = CLASSES[class.number()].lock().unwrap_or_else(PoisonError::into_inner);
    let start = frame.as_ptr().map_addr(|at| at & !(CHUNK_BYTES - 1));
    let chunk = NonNull::new(start.cast::<Head>()).expect("chunks do not begin at 0");
    // SAFETY: the chunk of a frame that has an owner lives, and its head is behind the lock that is held.
    let head = unsafe { &mut *chunk.as_ptr() };
    debug_assert_eq!(head.class, class.number());
    if head.is_full() {
        chunks.0.push(chunk);
    }
    // SAFETY: the frame has no owner any more, and has room for an address.
    unsafe { frame.cast::<Option<NonNull<u8>>>().write_unaligned(head.given) };
    head.given = Some(frame);
    head.taken -= 1;
    if head.taken == 0 && chunks.0.len() > 1 {
        let place = chunks.0.iter().position(|other| *other == chunk).expect("it has a free frame");
        chunks.0.swap_remove(place);
        // SAFETY: no frame of it has an owner, and it is in no list any more.
        let _ = unsafe { munmap(chunk.as_ptr().cast(), CHUNK_BYTES) };
    }
}

/// A chunk without an owner of any frame.
fn new_chunk(class: usize) -> Option<NonNull<Head>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let mapping =
        unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * CHUNK_BYTES, protection, MapFlags::PRIVATE) }.ok()?;
    let mapping = mapping.cast::<u8>();
    let before = mapping.align_offset(CHUNK_BYTES);
    let chunk = mapping.wrapping_add(before);
    for (start, len) in [(mapping, before), (chunk.wrapping_add(CHUNK_BYTES), CHUNK_BYTES - before)] {
        if len > 0 {
            // SAFETY: a part of the mapping just made, to which no pointer is known.
            let _ = unsafe { munmap(start.cast(), len) };
        }
    }
    // A gain, not a need: a kernel without huge pages refuses, and that is fine.
    // SAFETY: the range is what is left of the mapping.
    let _ = unsafe { madvise(chunk.cast(), CHUNK_BYTES, Advice::LinuxHugepage) };
    let chunk = NonNull::new(chunk.cast::<Head>())?;
    // SAFETY: the start of the chunk, to which no other pointer is known, is aligned and has room for the head.
    unsafe { chunk.write(Head { class, taken: 0, fresh: 0, given: None }) };
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame, signed all over.
    struct Signed(NonNull<u8>, FrameClass, u8);

    impl Signed {
        fn new(bytes: usize, sign: u8) -> Option<Signed> {
            let (start, class) = take(bytes)?;
            assert!(bytes_of(class) >= bytes && start.as_ptr().align_offset(64) == 0);
            // SAFETY: the frame has so many bytes, and no other owner.
            unsafe { start.write_bytes(sign, bytes_of(class)) };
            Some(Signed(start, class, sign))
        }

        fn end(self) {
            let Signed(start, class, sign) = self;
            // SAFETY: as above, and its bytes are initialized.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes_of(class)) };
            assert!(bytes.iter().all(|&byte| byte == sign));
            // SAFETY: taken in `new`.
            unsafe { give(start, class) };
        }
    }

    #[test]
    fn no_two_owners_share_a_byte_whatever_comes_and_goes() {
        fn work(thread: u64) {
            let mut held: Vec<Signed> = Vec::new();
            let mut lot = thread + 1;
            for turn in 0..6000u64 {
                lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // It grows for a while, then shrinks: chunks fill, and go back.
                if (turn / 1500).is_multiple_of(2) || held.is_empty() {
                    held.extend(Signed::new((lot >> 33) as usize % 17_000, lot as u8));
                } else {
                    held.swap_remove((lot >> 40) as usize % held.len()).end();
                }
            }
            held.into_iter().for_each(Signed::end);
        }
        std::thread::scope(|scope| (0..3).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    }

    #[test]
    fn a_frame_is_little_longer_than_asked() {
        let class_bytes = |bytes| {
            let (start, class) = take(bytes)?;
            // SAFETY: just taken.
            unsafe { give(start, class) };
            Some(bytes_of(class))
        };
        for bytes in 0..20_000 {
            let taken = class_bytes(bytes);
            assert!(taken.is_none_or(|taken| taken >= bytes && taken - bytes <= taken / 4), "{bytes}: {taken:?}");
        }
        assert_eq!((class_bytes(4096), class_bytes(3900)), (Some(4096), Some(4096)));
        assert_eq!((class_bytes(16_385), class_bytes(100)), (None, None));
    }
}
