//! `MEMORY`: how much memory the server and its keys take.
//!
//! Differences from Redis: memory belongs to pages that hold many rows, so `USAGE` tells the size of a key's rows, not
//! what an allocator gave for them.

use quipu::ReadableTable;

use super::{Call, CommandResult, Handler, help, info, is_word, refusal};
use crate::keyspace::is_keys_table;
use crate::system::process;

/// Bytes that a row takes in a page beside its key and value, and what pages have free on average, in percent of it
/// all.
const ROW_BYTES: u64 = 12;
const FREE_PERCENT: u64 = 25;
/// Elements of a collection that are looked at by default.
const SAMPLES: i64 = 5;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("memory", help::run),
    Handler::new("memory|doctor", doctor),
    Handler::new("memory|help", help::run),
    Handler::new("memory|malloc-stats", doctor),
    Handler::new("memory|purge", purge),
    Handler::new("memory|stats", stats),
    Handler::new("memory|usage", usage),
];

fn doctor(call: &mut Call<'_, '_>) -> CommandResult {
    let stats = call.data.stats();
    let text = format!(
        "Rows take {} of memory: {} in pages, {} in long values. The process has {}. Snapshots that keep old pages: \
         {}.",
        info::human(stats.memory_bytes()),
        info::human(stats.page_bytes),
        info::human(stats.long_bytes),
        info::human(process::resident_bytes()),
        stats.snapshots
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn purge(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

fn stats(call: &mut Call<'_, '_>) -> CommandResult {
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

fn usage(call: &mut Call<'_, '_>) -> CommandResult {
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
    let mut bytes = (key.len() + entry.whole().len()) as u64 + ROW_BYTES;
    if let (Some(id), Some(tables)) = (call.data.id_of(database, key, &entry)?, call.data.tables(database)) {
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
