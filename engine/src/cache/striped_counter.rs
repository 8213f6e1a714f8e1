//! A counter that many threads increase without contention: each adds to one of a few stripes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 16;

/// Two cache lines, which the processor fetches together.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// The counter.
#[derive(Default)]
pub(super) struct Striped([Stripe; STRIPES]);

impl Striped {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        if count > 0 {
            self.0[stripe()].0.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// The stripe of this thread.
#[inline]
fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static STRIPE: Cell<usize> = const { Cell::new(STRIPES) });
    STRIPE.with(|stripe| {
        if stripe.get() == STRIPES {
            stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_add_is_all_there() {
        let counter = Striped::default();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..1000).for_each(|count| counter.add(count)));
            }
        });
        assert_eq!(counter.sum(), 40 * 999 * 500);
    }
}
