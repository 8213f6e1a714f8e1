//! `MULTI`, `EXEC` and `WATCH`: commands that are queued and run as one, if nothing that is watched has changed.
//!
//! `EXEC` runs its queue in one hold of the data. So no client sees a part of it, it is one record in the log, and it
//! costs the same whatever other clients have queued. A range of keys is watched by what it holds: `EXEC` asks for its
//! tally again, in O(log n). Until then no write costs anything for it.
//!
//! Invariant: once `EXEC` is answered, whatever the answer, the transaction is over (`execution/batch.rs` ends it):
//! none of its commands is ever done later.
//!
//! An `EXEC` needs of the data what its commands need. So one that only reads, or is empty, goes on where nothing can
//! be written, as on a full disk.
//!
//! Differences from Redis: commands that open the data themselves (such as `SAVE` and `Q.SNAPSHOT`) and commands that
//! Quipu does not have yet are refused when they would be queued, and then `EXEC` is refused, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quipu::{ReadableTable, Tally};

use super::admission::{admit_queued, check_inside};
use super::{Call, CommandResult, Handler, Refusal, is_word, positions, refusal};
use crate::facts::key_places::keys;
use crate::facts::{Flags, Spec};
use crate::keyspace::Data;
use crate::state::session::{Queue, Session, Watch, WatchedRange};
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("multi", multi),
    Handler::new("exec", exec),
    Handler::new("discard", discard),
    Handler::new("watch", watch),
    Handler::new("unwatch", unwatch),
    Handler::new("q.watch", watch_range),
];

fn multi(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.queue.is_some() {
        return Err(refusal::text("ERR MULTI calls can not be nested"));
    }
    call.session.queue = Some(Queue::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.queue.is_none() {
        return Err(refusal::text("ERR DISCARD without MULTI"));
    }
    call.session.leave_transaction();
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(queue) = call.session.queue.take() else { return Err(refusal::text("ERR EXEC without MULTI")) };
    let watch = std::mem::take(&mut call.session.watch);
    let (standing, protocol) = (call.session.standing(), call.reply.protocol);
    let answer = exec_queue(call, &queue, &watch);
    if call.data.has_faults() {
        // It is taken back, and tried again.
        call.session.stand_as(standing);
        call.reply.protocol = protocol;
    }
    // The turn ends the transaction when it answers: an attempt that is taken back is not answered.
    (call.session.queue, call.session.watch) = (Some(queue), watch);
    answer
}

fn exec_queue(call: &mut Call<'_, '_>, queue: &Queue, watch: &Watch) -> CommandResult {
    if queue.failed {
        return Err(refusal::text("EXECABORT Transaction discarded because of previous errors."));
    }
    if !still_holds(call.data, watch)? {
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(queue.commands.len());
    let mut outcomes = Vec::with_capacity(queue.commands.len());
    for (number, (spec, words)) in queue.commands.iter().enumerate() {
        let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        outcomes.push(run_inside(call, number, spec, &args));
        if call.data.has_faults() {
            expect_keys(call, &queue.commands);
            return Ok(());
        }
    }
    for ((spec, words), (took, refused)) in queue.commands.iter().zip(outcomes) {
        let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        call.server.slow_log.note(&call.server.config.parameters, call.session, spec, &args, took);
        call.server.statistics.note_commands(spec, 1, took);
        if let Some(refused) = refused {
            call.server.statistics.note_failure(spec);
            call.server.statistics.note_error(&refused);
        }
    }
    Ok(())
}

/// Has the ways to the keys of all commands loaded for the next attempt.
fn expect_keys(call: &mut Call<'_, '_>, commands: &[(&'static Spec, Vec<Vec<u8>>)]) {
    let Some(tables) = call.data.tables(call.session.database) else { return };
    let faults = &mut call.session.attempt_at(1).faults;
    for (spec, words) in commands {
        let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        keys(spec, &args).unwrap_or_default().iter().for_each(|key| tables.keys.expect_key(args[key.place], faults));
    }
}

/// Runs a command that was queued, in the same hold; if it is refused, that is its answer. Returns how long it took,
/// and why it was refused.
fn run_inside(
    call: &mut Call<'_, '_>,
    number: usize,
    spec: &'static Spec,
    args: &[&[u8]],
) -> (Duration, Option<String>) {
    let (mark, handlers) = (call.reply.bytes.len(), call.handlers);
    if call.session.told <= number {
        call.server.tell_monitors(call.session, spec, args);
        call.session.told = number + 1;
    }
    let started = clock::moment();
    let result = check_inside(spec).and_then(|()| {
        if spec.flags.has(Flags::EXACT) {
            call.data.make_exact()?;
        }
        admit_queued(call.session, spec, args)?;
        call.session.can_wait = false;
        (handlers.of(spec).run)(&mut Call {
            args,
            data: call.data,
            session: call.session,
            reply: call.reply,
            server: call.server,
            spec,
            handlers,
        })
    });
    let refused = result.err().map(|refusal| {
        call.reply.bytes.truncate(mark);
        call.reply.error(refusal.reply_bytes());
        refusal.reply_text().into_owned()
    });
    (clock::since(started), refused)
}

/// Whether nothing that is watched has changed.
fn still_holds(data: &mut Data<'_>, watch: &Watch) -> Result<bool, Refusal> {
    if watch.touched.as_ref().is_some_and(|touched| touched.load(Ordering::Acquire)) {
        return Ok(false);
    }
    if !watch.ranges.is_empty() {
        data.make_exact()?;
    }
    for range in &watch.ranges {
        if held(data, range.database, &range.min, &range.max, range.only_count)? != range.held {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a range of keys holds: all its measures, or only its rows.
fn held(data: &Data<'_>, database: usize, min: &[u8], max: &[u8], only_count: bool) -> Result<Tally, Refusal> {
    let (Some(bounds), Some(tables)) = (positions::range(min, max)?, data.tables(database)) else {
        return Ok(Tally::ZERO);
    };
    let view = data.view(&tables.keys)?;
    Ok(if only_count { Tally { rows: view.count(&bounds)? as i64, ..Tally::ZERO } } else { view.tally(&bounds)? })
}

fn watch(call: &mut Call<'_, '_>) -> CommandResult {
    refuse_inside(call.session, "WATCH")?;
    let touched = call.session.watch.touched.get_or_insert_with(|| Arc::new(AtomicBool::new(false))).clone();
    for key in &call.args[1..] {
        call.data.watch(call.session.database, key, &touched);
    }
    call.reply.ok();
    Ok(())
}

fn refuse_inside(session: &Session, name: &str) -> CommandResult {
    if session.queue.is_some() {
        return Err(Refusal::new(format!("ERR {name} inside MULTI is not allowed")));
    }
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.watch = Watch::default();
    call.reply.ok();
    Ok(())
}

fn watch_range(call: &mut Call<'_, '_>) -> CommandResult {
    refuse_inside(call.session, "Q.WATCH")?;
    let only_count = match call.args.get(3) {
        None => false,
        Some(word) if is_word(word, "count") && call.args.len() == 4 => true,
        Some(_) => return Err(refusal::SYNTAX),
    };
    let (database, min, max) = (call.session.database, call.args[1], call.args[2]);
    let held = held(call.data, database, min, max, only_count)?;
    if call.session.watch.ranges.len() >= RANGES_MAX {
        return Err(Refusal::new(format!("ERR a client can watch {RANGES_MAX} ranges at most; UNWATCH some")));
    }
    let range = WatchedRange { database, min: min.to_vec(), max: max.to_vec(), only_count, held };
    call.session.watch.ranges.push(range);
    call.reply.ok();
    Ok(())
}

/// Ranges that one client may watch: each is asked again at `EXEC`.
const RANGES_MAX: usize = 10_000;
