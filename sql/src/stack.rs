//! The stack of a thread that runs statements, and how much of it is left.

use std::cell::Cell;
use std::hint::black_box;

/// Bytes of stack that a thread needs which runs statements: they are read, planned and computed by recursion. A
/// statement whose plan takes more than half of it is refused. What is not used of a stack takes no memory.
pub const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// The highest address of this thread's stack that was seen: stacks grow downwards.
    static HIGHEST: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread has used more than half of the stack that a thread for statements has, since it was asked at the
/// least depth.
///
/// What is computed of a tree takes less of a stack than planning it has. So half of it stays for that.
#[inline(never)]
pub(crate) fn is_stack_short() -> bool {
    // A variable: the reference to a constant would be one to the program's data.
    let on_stack = 0_u8;
    let here = std::ptr::from_ref(black_box(&on_stack)).addr();
    let highest = HIGHEST.get().max(here);
    HIGHEST.set(highest);
    highest - here > STACK_BYTES / 2
}
