//! Sampled stacks with their weights.
//!
//! Sampling must not sample itself: while a thread is in here, [`record`] does nothing for it.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use inferno::flamegraph::{Options, from_lines};

/// Frames of a stack that are kept, from the innermost.
const FRAMES_MAX: usize = 96;
/// Different stacks that are kept; further ones are left out.
const STACKS_MAX: usize = 20_000;
/// Frames that take the sample, which are left out.
const OWN: [&str; 2] = ["quipu_server::profile::stacks::", "quipu_server::profile::allocations::"];

type Stacks = HashMap<Box<[usize]>, u64>;

static STACKS: Mutex<Option<Stacks>> = Mutex::new(None);

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn stacks() -> MutexGuard<'static, Option<Stacks>> {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` unless this thread is in such a call already, or ends.
fn once_inside(work: impl FnOnce()) {
    let entered = IS_INSIDE.try_with(|inside| !inside.replace(true)).unwrap_or(false);
    if entered {
        work();
        let _ = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}

/// Forgets all.
pub(super) fn clear() {
    once_inside(|| *stacks() = Some(Stacks::new()));
}

/// Keeps the stack of this thread.
#[cold]
#[inline(never)]
pub(super) fn record(weight: u64) {
    once_inside(|| {
        let mut frames = [0; FRAMES_MAX];
        let mut count = 0;
        backtrace::trace(|frame| {
            frames[count] = frame.ip() as usize;
            // The end of a thread's stack may be a frame without an address.
            count += usize::from(frames[count] > 0);
            count < FRAMES_MAX
        });
        let mut stacks = stacks();
        let Some(stacks) = stacks.as_mut() else { return };
        if let Some(sum) = stacks.get_mut(&frames[..count]) {
            *sum += weight;
        } else if stacks.len() < STACKS_MAX {
            stacks.insert(frames[..count].into(), weight);
        }
    });
}

/// Draws them as a flame graph, and forgets them; `None` if there are none.
pub(super) fn draw(title: &str, unit: &str) -> Result<Option<Vec<u8>>, String> {
    let taken = stacks().take().unwrap_or_default();
    if taken.is_empty() {
        return Ok(None);
    }
    let mut names = HashMap::new();
    let lines: Vec<String> = taken.iter().map(|(frames, weight)| folded(frames, *weight, &mut names)).collect();
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    let mut graph = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut graph).map_err(|error| error.to_string())?;
    Ok(Some(graph))
}

/// A stack as a line: names from the outermost to the innermost, and the weight.
fn folded(frames: &[usize], weight: u64, names: &mut HashMap<usize, Vec<String>>) -> String {
    let mut line = Vec::new();
    for (place, &address) in frames.iter().enumerate().rev() {
        // But for the innermost one, a frame's address is where its call returns to: after the call.
        let address = address - usize::from(place > 0);
        line.extend(names.entry(address).or_insert_with(|| names_at(address)).iter().rev().cloned());
    }
    let own = line.iter().position(|name| OWN.iter().any(|own| name.contains(own))).unwrap_or(line.len());
    line.truncate(own);
    format!("{} {weight}", line.join(";"))
}

/// The functions at an address, the innermost of those that were inlined into each other first.
fn names_at(address: usize) -> Vec<String> {
    let mut names = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        // `;` parts names in a line.
        names.extend(symbol.name().map(|name| format!("{name:#}").replace(';', ",")));
    });
    if names.is_empty() {
        names.push("?".to_owned());
    }
    names
}
