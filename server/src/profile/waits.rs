//! Waits of the engine's threads, sampled.

use std::cell::Cell;

use quipu::waits::{self, Wait};

use super::stacks;
use crate::system::clock;

/// Nanoseconds that a thread waits from one sample to the next.
const STEP_NS: u64 = 50_000;

thread_local! {
    /// Nanoseconds since the last sample.
    static NANOSECONDS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn set_sampled(is_sampled: bool) {
    waits::watch(is_sampled.then_some(measure));
}

fn measure(what: Wait, wait: &mut dyn FnMut()) {
    let started = clock::moment();
    wait();
    let waited = clock::since(started).as_nanos() as u64;
    let sum = NANOSECONDS.get() + waited;
    NANOSECONDS.set(sum % STEP_NS);
    if sum >= STEP_NS {
        match what {
            Wait::Lock => wait_for_a_lock(sum - sum % STEP_NS),
            Wait::Disk => wait_for_the_disk(sum - sum % STEP_NS),
        }
    }
}

// Their names show in the graph: they may not be inlined, nor left by a jump into the last call, nor be alike, since
// functions with the same code become one.

#[inline(never)]
fn wait_for_a_lock(weight: u64) {
    stacks::record(weight);
    std::hint::black_box("a lock");
}

#[inline(never)]
fn wait_for_the_disk(weight: u64) {
    stacks::record(weight);
    std::hint::black_box("the disk");
}
