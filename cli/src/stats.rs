//! `quipu stats`: what a database holds.

use std::io::Write;
use std::path::PathBuf;

use quipu::{CheckpointInfo, Stats};
use serde_json::{Value as Json, json};

use crate::database;
use crate::failure::Result;
use crate::grid::{Grid, bytes, thousands};

const EXAMPLES: &str = "\
Examples:
  quipu stats air
  quipu stats air --json | jq '.tables[] | select(.rows > 1000)'";

/// Shows what a database holds: tables, memory, log and checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory of the database
    dir: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let stats = database::open(&args.dir, true)?.stats();
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", json(&stats))?;
    } else {
        grid(&stats).print(&mut out)?;
        out.write_all(text(&stats).as_bytes())?;
    }
    Ok(())
}

/// The tables.
pub(crate) fn grid(stats: &Stats) -> Grid {
    let mut grid = Grid::new([("table", false), ("rows", true), ("bytes", true), ("sum", true), ("hash", false)]);
    for table in &stats.tables {
        // A measure that the table does not declare is zero.
        let declared = |measure: i64| if measure == 0 { String::new() } else { thousands(measure) };
        grid.push(vec![
            table.name.clone(),
            thousands(table.tally.rows),
            declared(table.tally.bytes),
            declared(table.tally.sum),
            if table.tally.hash == 0 { String::new() } else { format!("{:016x}", table.tally.hash) },
        ]);
    }
    grid
}

/// All other figures, a line each.
pub(crate) fn text(stats: &Stats) -> String {
    let mut lines = vec![
        format!(
            "memory      {} (pages {}, long values {}) of {} at most",
            bytes(stats.memory_bytes()),
            bytes(stats.page_bytes),
            bytes(stats.long_bytes),
            bytes(stats.memory_bytes_max)
        ),
        format!("commits     {}", thousands(stats.sequence)),
        match stats.checkpoint {
            0 => "checkpoint  none yet".to_owned(),
            number => format!("checkpoint  number {number}, commits to {}", thousands(stats.checkpoint_sequence)),
        },
        format!("snapshots   {}", stats.snapshots),
    ];
    // A database open for reading has no log of its own to tell of.
    if stats.log_segments > 0 {
        let (size, files) = (bytes(stats.log_bytes), stats.log_segments);
        let tail = bytes(stats.log_tail_bytes);
        lines.push(format!("log         {size} in {files} files; a restart reads {tail} of it"));
    }
    if let Some(failure) = &stats.checkpoint_failure {
        lines.push(format!("the last checkpoint failed: {failure}"));
    }
    lines.join("\n") + "\n"
}

/// The figures for programs.
pub(crate) fn json(stats: &Stats) -> Json {
    let tables: Vec<Json> = (stats.tables.iter())
        .map(|table| {
            json!({
                "table": table.name, "rows": table.tally.rows, "bytes": table.tally.bytes,
                "hash": format!("{:016x}", table.tally.hash), "sum": table.tally.sum, "layers": table.layers,
                "sequence": table.sequence,
            })
        })
        .collect();
    json!({
        "tables": tables, "page_bytes": stats.page_bytes, "long_bytes": stats.long_bytes,
        "memory_bytes_max": stats.memory_bytes_max, "sequence": stats.sequence, "checkpoint": stats.checkpoint,
        "checkpoint_sequence": stats.checkpoint_sequence, "checkpoint_failure": stats.checkpoint_failure,
        "log_segments": stats.log_segments, "log_bytes": stats.log_bytes, "log_tail_bytes": stats.log_tail_bytes,
        "snapshots": stats.snapshots,
    })
}

/// What a checkpoint did, in a line.
pub(crate) fn checkpoint_text(info: &CheckpointInfo) -> String {
    format!(
        "checkpoint {}: {} rows of {} tables, {}",
        info.number,
        thousands(info.rows_written),
        info.tables_written,
        bytes(info.bytes_written)
    )
}

/// What a checkpoint did, for programs.
pub(crate) fn checkpoint_json(info: &CheckpointInfo) -> Json {
    json!({
        "number": info.number, "sequence": info.sequence, "tables_written": info.tables_written,
        "rows_written": info.rows_written, "bytes_written": info.bytes_written,
    })
}
