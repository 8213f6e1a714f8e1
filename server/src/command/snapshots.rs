//! Snapshots: reads of one moment over many commands.
//!
//! `Q.SNAPSHOT` costs a microsecond whatever the size. While one lives, pages that change are kept twice: so each has a time limit, and there is a number of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quipu::Snapshot;

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, find, is_word, refusal};
use crate::clock;
use crate::keyspace::Data;
use crate::resp::number::parse_u64;

const FLAGS: Flags = Flags::ALONE.and(Flags::NO_MULTI).and(Flags::FAST);

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("q.snapshot", -1, FLAGS, Group::Ordered, take)
        .about(
            "[SECONDS n]",
            "Keeps this moment for reads with Q.AT, for 60 seconds or those given; its number.",
            "0.1.0",
        )
        .costs("O(1)", ""),
    Spec::new("q.at", -3, Flags::ALONE.and(Flags::NO_MULTI), Group::Ordered, read_at)
        .about("id command [word ...]", "Runs a command that only reads, at a snapshot.", "0.1.0")
        .costs("that of the command", ""),
    Spec::new("q.release", 2, FLAGS, Group::Ordered, release)
        .about("id", "Ends a snapshot; 1 if there was one.", "0.1.0")
        .costs("O(1)", ""),
];

/// Snapshots at a time.
const SNAPSHOTS_MAX: usize = 1024;
const SECONDS_USUAL: u64 = 60;
const SECONDS_MAX: u64 = 24 * 3600;

struct Held {
    snapshot: Snapshot,
    now_ms: u64,
    ends_ms: u64,
}

/// The snapshots that clients have taken.
#[derive(Default)]
pub struct Snapshots {
    held: Mutex<(u64, HashMap<u64, Arc<Held>>)>,
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<Held>>)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends those whose time is over.
    pub fn end_due(&self, now_ms: u64) {
        self.lock().1.retain(|_, held| held.ends_ms > now_ms);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().1.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn take(call: &mut Call<'_, '_>) -> Answer {
    let seconds = match call.args {
        [_] => SECONDS_USUAL,
        [_, word, number] if is_word(word, "seconds") => parse_u64(number).ok_or(refusal::NOT_INTEGER)?,
        _ => return Err(refusal::SYNTAX),
    };
    if seconds == 0 || seconds > SECONDS_MAX {
        return Err(Refusal::new(format!("ERR a snapshot lives for 1 to {SECONDS_MAX} seconds")));
    }
    let now_ms = clock::now_ms();
    let snapshot = call.server.keyspace.live_snapshot(now_ms)?;
    let mut held = call.server.snapshots.lock();
    held.1.retain(|_, held| held.ends_ms > now_ms);
    if held.1.len() >= SNAPSHOTS_MAX {
        return Err(Refusal::new(format!("ERR there are {SNAPSHOTS_MAX} snapshots already; Q.RELEASE some")));
    }
    held.0 += 1;
    let id = held.0;
    held.1.insert(id, Arc::new(Held { snapshot, now_ms, ends_ms: now_ms + seconds * 1000 }));
    call.reply.integer(id as i64);
    Ok(())
}

fn read_at(call: &mut Call<'_, '_>) -> Answer {
    let id = parse_u64(call.args[1]).ok_or(refusal::NOT_INTEGER)?;
    let args = &call.args[2..];
    let spec = call.server.admit(call.session, find(args[0]), args)?;
    if !spec.flags.has(Flags::READ) || spec.flags.has(Flags::NO_SNAPSHOT) || spec.flags.has(Flags::ALONE) {
        return Err(Refusal::new(format!("ERR '{}' does not only read: it cannot run at a snapshot", spec.name)));
    }
    let now_ms = clock::now_ms();
    let held = call.server.snapshots.lock().1.get(&id).filter(|held| held.ends_ms > now_ms).cloned();
    let held = held
        .ok_or_else(|| Refusal::new(format!("ERR there is no snapshot {id}: its time is over, or it was released")))?;
    let mut data = Data::at(&call.server.keyspace, &held.snapshot, held.now_ms);
    (spec.run)(&mut Call { args, data: &mut data, session: call.session, reply: call.reply, server: call.server, spec })
}

fn release(call: &mut Call<'_, '_>) -> Answer {
    let id = parse_u64(call.args[1]).ok_or(refusal::NOT_INTEGER)?;
    let ended = call.server.snapshots.lock().1.remove(&id).is_some();
    call.reply.integer(i64::from(ended));
    Ok(())
}
