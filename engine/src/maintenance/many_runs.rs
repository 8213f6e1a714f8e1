//! Tables of many runs: they are slow to read, so writers are slowed until runs are merged.
//!
//! Not here: the waiting itself, and writers that wait for memory (`memory`).

use std::time::Duration;

use crate::state::latch::Latch;
use crate::state::memtable_limit::MemtableLimit;

/// A table with more runs is slow to read: writers are delayed, the longest at twice as many. Merges that keep up leave
/// at most half as many.
pub(super) const RUNS_MAX: usize = 24;
/// The longest delay of a writer for merges.
const SLOWED_MAX: Duration = Duration::from_millis(10);

/// Checks the number of runs after one was added, and slows writers if there are many. Only if `background` threads
/// merge them: else a writer would wait in vain.
pub(crate) fn note_runs(versions: &Latch, memory: &MemtableLimit, background: bool) {
    if slowed_by_runs(versions, background).is_some() {
        memory.set_short(true);
    }
}

/// How long a writer must wait because a thread has many runs to merge.
pub(super) fn slowed_by_runs(versions: &Latch, background: bool) -> Option<Duration> {
    let versions = versions.read();
    let most = versions.tables.iter().flatten().map(|table| table.runs.len()).max()?;
    slowed_by(most).filter(|_| background)
}

/// How long a writer is slowed by a table with this many runs.
fn slowed_by(runs: usize) -> Option<Duration> {
    let part = runs.checked_sub(RUNS_MAX).filter(|&more| more > 0)? as f64 / RUNS_MAX as f64;
    Some(SLOWED_MAX.mul_f64(part.min(1.0).powi(2)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::db::Db;
    use crate::io::sim::SimDisk;
    use crate::options::Options;
    use crate::read::readable::ReadableTable;
    use crate::write::writable::WritableTable;

    #[test]
    fn more_runs_slow_writers_more() {
        assert_eq!((slowed_by(0), slowed_by(RUNS_MAX)), (None, None));
        let delays: Vec<Duration> = (RUNS_MAX + 1..3 * RUNS_MAX).filter_map(slowed_by).collect();
        assert!(delays.len() == 2 * RUNS_MAX - 1 && delays.is_sorted() && delays[0] < Duration::from_micros(20));
        assert_eq!(delays.last(), Some(&SLOWED_MAX));
    }

    #[test]
    fn writers_are_slowed_until_runs_are_merged_if_anyone_merges_them() {
        for background in [true, false] {
            let options = Options { disk: Arc::new(SimDisk::new()), background, ..Options::without_files() };
            let db = Db::open("/db", Options { memtable_bytes: 1 << 20, ..options }).unwrap();
            let table = db.ensure_table("t").unwrap();
            let shared = &table.shared;
            let slowed = || slowed_by_runs(&shared.versions, background);
            let merging = shared.merging.lock();
            for key in 0..RUNS_MAX as u32 + 3 {
                table.put(key.to_be_bytes(), b"value").unwrap();
                table.flush().unwrap();
            }
            assert_eq!(slowed(), slowed_by(RUNS_MAX + 3).filter(|_| background));
            assert_eq!(shared.memory.is_short(), background);
            table.put(b"slowed", b"value").unwrap();
            drop(merging);
            table.compact().unwrap();
            assert_eq!(slowed(), None);
            table.put(b"not slowed", b"value").unwrap();
            assert!(!shared.memory.is_short());
            assert_eq!(table.len().unwrap(), RUNS_MAX as u64 + 5);
        }
    }
}
