//! Transactions: commands queued and run as one, if nothing that is watched has changed.
//!
//! `EXEC` runs its queue in one hold of the data: nobody sees a part of it, it is one record in the log, and other clients' transactions cost it nothing, whatever they have
//! queued. A range of keys is watched by what it held: its tally is asked again at `EXEC`, in O(log n), and no write of anybody is looked at before.
//!
//! Differences from Redis: commands that open the data themselves (`INFO`, `SAVE`, `Q.SNAPSHOT` and their like) are refused inside MULTI.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu::{Read, Tally};

use super::table::{Flags, Group, Spec};
use super::{Answer, Call, Refusal, is_word, positions, refusal};
use crate::execute::run_inside;
use crate::keyspace::Data;
use crate::session::{Queue, Session, Watch, WatchedRange};

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    Spec::new("multi", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions, multi)
        .about("", "Begins a transaction: commands are queued until EXEC.", "1.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("exec", 1, Flags::EXCLUSIVE.and(Flags::NO_QUEUE), Group::Transactions, exec)
        .about("", "Runs the queued commands as one, unless something watched has changed.", "1.2.0")
        .costs("that of the commands, O(log n) a watched range", "that of the commands"),
    Spec::new("discard", 1, Flags::FAST.and(Flags::NO_QUEUE), Group::Transactions, discard)
        .about("", "Forgets the queued commands and what is watched.", "2.0.0")
        .costs("O(1)", "O(n) queued commands"),
    Spec::new("watch", -2, Flags::EXCLUSIVE.and(Flags::FAST).and(Flags::NO_QUEUE), Group::Transactions, watch)
        .keys(1, -1, 1)
        .about("key [key ...]", "Lets the next EXEC fail if one of the keys changes before.", "2.2.0")
        .costs("O(1) a key", "O(1) a key"),
    Spec::new("unwatch", 1, Flags::FAST, Group::Transactions, unwatch)
        .about("", "Watches nothing any more.", "2.2.0")
        .costs("O(1)", "O(1)"),
    Spec::new("q.watch", -3, Flags::READ.and(Flags::EXACT).and(Flags::NO_QUEUE), Group::Transactions, watch_range)
        .about(
            "min max [COUNT]",
            "Lets the next EXEC fail if keys or values of a range change before; with COUNT, only if their number does.",
            "0.1.0",
        )
        .costs("O(log n)", ""),
];

fn multi(call: &mut Call<'_, '_>) -> Answer {
    if call.session.queue.is_some() {
        return Err(refusal::text("ERR MULTI calls can not be nested"));
    }
    call.session.queue = Some(Queue::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> Answer {
    if call.session.queue.is_none() {
        return Err(refusal::text("ERR DISCARD without MULTI"));
    }
    call.session.leave_transaction();
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_, '_>) -> Answer {
    let Some(queue) = call.session.queue.take() else { return Err(refusal::text("ERR EXEC without MULTI")) };
    let watch = std::mem::take(&mut call.session.watch);
    if queue.failed {
        return Err(refusal::text("EXECABORT Transaction discarded because of previous errors."));
    }
    if !still_holds(call.data, &watch)? {
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(queue.commands.len());
    for (spec, words) in queue.commands {
        let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        run_inside(call, spec, &args);
    }
    Ok(())
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

fn watch(call: &mut Call<'_, '_>) -> Answer {
    refuse_inside(call.session, "WATCH")?;
    let touched = call.session.watch.touched.get_or_insert_with(|| Arc::new(AtomicBool::new(false))).clone();
    for key in &call.args[1..] {
        call.data.watch(call.session.database, key, &touched);
    }
    call.reply.ok();
    Ok(())
}

fn refuse_inside(session: &Session, name: &str) -> Answer {
    if session.queue.is_some() {
        return Err(Refusal::new(format!("ERR {name} inside MULTI is not allowed")));
    }
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> Answer {
    call.session.watch = Watch::default();
    call.reply.ok();
    Ok(())
}

fn watch_range(call: &mut Call<'_, '_>) -> Answer {
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
