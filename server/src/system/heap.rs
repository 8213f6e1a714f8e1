//! Memory of the heap that is free, which goes back to the system.
//!
//! The C library keeps what was freed in small parts, as the pieces of long strings are, for the next allocation: a
//! server that held 500 MB of strings for a minute would have them for good.

/// So much must have become free that it is given back.
const FREED_BYTES_MIN: u64 = 64 << 20;

/// Notes how much of the heap long values take, and gives back what they have left.
#[derive(Debug, Default)]
pub struct Heap {
    /// The most that they took since memory was given back.
    most: u64,
    last: u64,
}

impl Heap {
    /// Notes how many bytes long values take now. Gives memory back once much has become free and no more does.
    pub fn note(&mut self, bytes: u64) {
        if self.is_due(bytes) {
            give_back();
        }
    }

    fn is_due(&mut self, bytes: u64) -> bool {
        let falls = bytes < self.last;
        self.most = self.most.max(bytes);
        self.last = bytes;
        let is_due = !falls && self.most - bytes >= FREED_BYTES_MIN;
        if is_due {
            self.most = bytes;
        }
        is_due
    }
}

/// Gives free memory of the heap back to the system, where the C library can.
fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number, and may be called from any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_much_was_freed_and_no_more_is() {
        const MB: u64 = 1 << 20;
        let mut heap = Heap::default();
        let due = [0, 500, 400, 300, 10, 10, 10, 60, 10, 10, 90, 20, 21].map(|size| heap.is_due(size * MB));
        let [.., last] = due;
        assert_eq!(due.iter().position(|due| *due), Some(5));
        assert_eq!((due.iter().filter(|due| **due).count(), last), (2, true));
    }
}
