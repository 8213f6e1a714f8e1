//! `MEMORY`: what takes how much.
//!
//! Differences from Redis: memory belongs to pages that hold many rows, so `USAGE` is what the rows of a key come to, not what an allocator gave for them.

use quipu::Read;

use super::info::FIGURES;
use super::table::{Flags, Group, RunOne, Spec};
use super::{Answer, Call, help, info, is_word, refusal};
use crate::keyspace::is_keys_table;
use crate::process;

/// Bytes that a row takes in a page beside its key and value, and what pages have free on average, in percent of it all.
const ROW_BYTES: u64 = 12;
const FREE_PERCENT: u64 = 25;
/// Elements of a collection that are looked at, if nobody says how many.
const SAMPLES: i64 = 5;

const fn sub(name: &'static str, arity: i32, flags: Flags, run: RunOne) -> Spec {
    Spec::new(name, arity, flags, Group::Server, run)
}

/// The family's lines.
pub const COMMANDS: &[Spec] = &[Spec::new("memory", -2, Flags(0), Group::Server, help::run)
    .about("subcommand", "What takes how much memory.", "4.0.0")
    .costs("see its subcommands", "see its subcommands")
    .subcommands(&[
        sub("memory|doctor", 2, FIGURES, doctor)
            .about("", "How memory is used, in words.", "4.0.0")
            .costs("O(1)", "O(1)"),
        sub("memory|help", 2, Flags(0), help::run).about("", "Lists the subcommands.", "4.0.0").costs("O(1)", "O(1)"),
        sub("memory|malloc-stats", 2, FIGURES, doctor)
            .about("", "The same as MEMORY DOCTOR.", "4.0.0")
            .costs("O(1)", "depends"),
        sub("memory|purge", 2, Flags(0), purge)
            .about("", "Does nothing: pages that are free are used again.", "4.0.0")
            .costs("O(1)", "depends"),
        sub("memory|stats", 2, FIGURES, stats).about("", "What takes how much memory.", "4.0.0").costs("O(1)", "O(1)"),
        sub("memory|usage", -3, Flags::READ, usage)
            .keys(2, 2, 1)
            .about("key [SAMPLES count]", "Bytes of memory that a key takes, about.", "4.0.0")
            .costs("O(log n)", "O(n) samples"),
    ])];

fn doctor(call: &mut Call<'_, '_>) -> Answer {
    let stats = call.data.stats();
    let text = format!(
        "Rows take {} of memory: {} in pages, {} in long values. The process has {}. Snapshots that keep old pages: {}.",
        info::human(stats.memory_bytes()),
        info::human(stats.page_bytes),
        info::human(stats.long_bytes),
        info::human(process::resident_bytes()),
        stats.snapshots
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn purge(call: &mut Call<'_, '_>) -> Answer {
    call.reply.ok();
    Ok(())
}

fn stats(call: &mut Call<'_, '_>) -> Answer {
    let stats = call.data.stats();
    let used = stats.memory_bytes();
    let peak = call.server.statistics.memory_peak_bytes.load(std::sync::atomic::Ordering::Relaxed).max(used);
    let keys: i64 =
        (stats.tables.iter()).filter(|table| is_keys_table(&table.name)).map(|table| table.tally.rows).sum();
    let resident = process::resident_bytes();
    let reply = &mut *call.reply;
    let integers = [
        ("peak.allocated", peak as i64),
        ("total.allocated", used as i64),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
        ("overhead.total", 0),
        ("keys.count", keys),
        ("keys.bytes-per-key", used as i64 / keys.max(1)),
        ("dataset.bytes", used as i64),
        ("allocator.allocated", used as i64),
        ("allocator.active", stats.page_bytes as i64),
        ("allocator.resident", resident as i64),
        ("allocator-rss.bytes", resident as i64 - used as i64),
        ("fragmentation.bytes", resident as i64 - used as i64),
    ];
    let doubles = [
        ("dataset.percentage", 100.0),
        ("peak.percentage", 100.0 * used as f64 / peak.max(1) as f64),
        ("fragmentation", resident as f64 / used.max(1) as f64),
    ];
    reply.map(integers.len() + doubles.len());
    for (name, number) in integers {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    }
    for (name, number) in doubles {
        reply.bulk(name.as_bytes());
        reply.double(number);
    }
    Ok(())
}

fn usage(call: &mut Call<'_, '_>) -> Answer {
    let mut samples = SAMPLES;
    let mut place = 3;
    while place < call.args.len() {
        if !is_word(call.args[place], "samples") || place + 1 == call.args.len() {
            return Err(refusal::SYNTAX);
        }
        samples = call.integer(place + 1)?;
        if samples < 0 {
            return Err(refusal::SYNTAX);
        }
        place += 2;
    }
    let (database, key) = (call.database(), call.args[2]);
    let Some(entry) = call.data.entry(database, key)? else {
        call.reply.null();
        return Ok(());
    };
    let mut bytes = (key.len() + entry.body.len()) as u64 + ROW_BYTES;
    if let (Some(id), Some(tables)) = (entry.collection(), call.data.tables(database)) {
        let elements = call.data.view(&tables.elements)?;
        let prefix = id.bytes();
        let rows = elements.count(quipu::Bounds::prefix(&prefix))?;
        let looked_at = if samples == 0 { rows } else { rows.min(samples as u64) };
        call.expect_rows(looked_at)?;
        let (mut seen, mut sum) = (0u64, 0u64);
        elements.prefix(prefix).take(looked_at as usize).try_for_each(|row| {
            let row = row?;
            seen += 1;
            sum += (row.key.len() + row.value.len()) as u64 + ROW_BYTES;
            Ok::<(), quipu::Error>(())
        })?;
        bytes += sum * rows / seen.max(1);
    }
    call.reply.integer((bytes * 100 / (100 - FREE_PERCENT)) as i64);
    Ok(())
}
