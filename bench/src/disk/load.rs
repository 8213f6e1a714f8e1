//! Loading a table in random order, and letting the store come to rest.

use serde_json::{Value, json};

use super::Job;
use crate::clock::{Deadline, Stopwatch};
use crate::machine::{Resident, Written, disk_bytes};
use crate::store::{Result, StoreKind};

/// Rows of a transaction: as a program that loads many rows and cares for memory would choose.
const TRANSACTION_ROWS: u64 = 1000;
/// So many transactions between two looks at the memory.
const LOOK_EVERY: u64 = 64;

/// Loads the table, settles and closes it, and tells what that took.
pub(crate) fn load(job: &Job, kind: &StoreKind) -> Result<Value> {
    let rows = job.all_rows();
    let (before, written_before) = (Resident::now(), Written::now());
    let store = job.open(kind)?;
    let watch = Stopwatch::start();
    let mut peak = before;
    for first in (0..rows.count()).step_by(TRANSACTION_ROWS as usize) {
        let part = rows.part(first, TRANSACTION_ROWS.min(rows.count() - first));
        store.insert_bulk(part, &Deadline::never())?;
        if (first / TRANSACTION_ROWS).is_multiple_of(LOOK_EVERY) {
            peak = peak.max(Resident::now());
        }
    }
    let loaded = watch.stop();
    let loaded_bytes = disk_bytes(&job.dir)?;
    let watch = Stopwatch::start();
    store.settle()?;
    let settled = watch.stop();
    peak = peak.max(Resident::now());
    let watch = Stopwatch::start();
    drop(store);
    let closed = watch.stop();
    let written = Written::now();
    Ok(json!({
        "load_s": loaded.wall_s,
        "load_cpu_s": loaded.cpu_s,
        "settle_s": settled.wall_s,
        "close_s": closed.wall_s,
        "to_disk": written.to_disk - written_before.to_disk,
        "by_calls": written.by_calls - written_before.by_calls,
        "loaded_bytes": loaded_bytes,
        "bytes": disk_bytes(&job.dir)?,
        "own": peak.own_bytes.saturating_sub(before.own_bytes),
    }))
}
