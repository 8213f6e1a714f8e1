//! `Q.SNAPSHOT`, `Q.AT` and `Q.RELEASE`: many commands that read at the same moment.
//!
//! `Q.SNAPSHOT` costs a microsecond, however many keys there are. While a snapshot lives, pages that change are kept
//! twice. So each has a time limit, and their number is limited.

use std::sync::atomic::Ordering;

use super::admission::admit;
use super::{Call, CommandResult, Handler, Refusal, find, is_word, refusal};
use crate::facts::Flags;
use crate::keyspace::Data;
use crate::resp::number::parse_u64;
use crate::state::snapshots::SNAPSHOTS_MAX;
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] =
    &[Handler::new("q.snapshot", take), Handler::new("q.at", read_at), Handler::new("q.release", release)];

const SECONDS_USUAL: u64 = 60;
const SECONDS_MAX: u64 = 24 * 3600;

fn take(call: &mut Call<'_, '_>) -> CommandResult {
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
    let id = call
        .server
        .snapshots
        .keep(snapshot, now_ms, now_ms + seconds * 1000)
        .ok_or_else(|| Refusal::new(format!("ERR there are {SNAPSHOTS_MAX} snapshots already; Q.RELEASE some")))?;
    call.reply.integer(id as i64);
    Ok(())
}

fn read_at(call: &mut Call<'_, '_>) -> CommandResult {
    let id = parse_u64(call.args[1]).ok_or(refusal::NOT_INTEGER)?;
    let args = &call.args[2..];
    let spec = admit(call.server, call.session, find(args[0]), args)?;
    if !spec.flags.has(Flags::READ) || spec.flags.has(Flags::NO_SNAPSHOT) || spec.flags.has(Flags::ALONE) {
        return Err(Refusal::new(format!("ERR '{}' does not only read: it cannot run at a snapshot", spec.name)));
    }
    let now_ms = clock::now_ms();
    let held = call.server.snapshots.get(id, now_ms);
    let held = held
        .ok_or_else(|| Refusal::new(format!("ERR there is no snapshot {id}: its time is over, or it was released")))?;
    // Whether others wait meanwhile is as with any other command.
    let at = if call.data.is_patient() { Data::patiently_at } else { Data::at };
    let mut data = at(&call.server.keyspace, &held.snapshot, held.now_ms);
    if let Some(attempt) = &call.session.attempt {
        data.lend(&attempt.faults);
    }
    let handlers = call.handlers;
    let answer = (handlers.of(spec).run)(&mut Call {
        args,
        data: &mut data,
        session: call.session,
        reply: call.reply,
        server: call.server,
        spec,
        handlers,
    });
    if data.has_faults() {
        // The pages are loaded as for any other command, and it is tried again.
        data.take_back(&mut call.session.attempt_at(1).faults)?;
        call.server.statistics.page_faults.fetch_add(1, Ordering::Relaxed);
        return Err(Refusal::Lacks);
    }
    answer
}

fn release(call: &mut Call<'_, '_>) -> CommandResult {
    let id = parse_u64(call.args[1]).ok_or(refusal::NOT_INTEGER)?;
    let ended = call.server.snapshots.release(id);
    call.reply.integer(i64::from(ended));
    Ok(())
}
