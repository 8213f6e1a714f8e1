//! `quipu stats`: what a database holds.

use std::io::Write;

use quipu::stats::{CheckpointInfo, Stats};
use quipu_rows::Database;
use quipu_rows::trees::is_tree_of_rows;
use serde_json::{Value as Json, json};

use crate::database;
use crate::failure::Result;
use crate::grid::{Grid, bytes, counted, thousands};
use crate::histogram::{self, Drawing};
use crate::key::words_of_options;
use crate::query::{Queryable, Rows, Strings};
use crate::relation::{self, Relation};

const EXAMPLES: &str = "\
Examples:
  quipu stats air
  quipu stats air --json | jq '.tables[] | select(.rows > 1000)'
  quipu stats air --histogram --table flights --from 2013,7 --to 2013,9 --buckets 31

A histogram has buckets with about equal counts of rows, and draws where their bytes are. It opens few pages of a table on disk: counts \
that it does not know exactly have the most that they can be off.";

/// Shows what a database holds: tables, memory, log and checkpoint; or where the rows of a table lie.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    database: database::Named,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Draw where rows and bytes lie
    #[arg(long)]
    histogram: bool,
    /// Only this table
    #[arg(long, value_name = "NAME", requires = "histogram")]
    table: Option<String>,
    /// Only rows from this key on
    #[arg(long, value_name = "KEY", requires = "table")]
    from: Option<String>,
    /// Only rows before this key
    #[arg(long, value_name = "KEY", requires = "table")]
    to: Option<String>,
    /// About how many lines a histogram is to have
    #[arg(long, value_name = "N", default_value_t = 20, requires = "histogram", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    buckets: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let database = Database::open(&database::open(args.database.dir(), true)?)?;
    let mut out = std::io::stdout();
    if args.histogram {
        return draw(args, &database, &mut out);
    }
    let stats = of(&database)?;
    if args.json {
        writeln!(out, "{}", json(&stats))?;
    } else {
        grid(&stats).print(&mut out)?;
        out.write_all(text(&stats).as_bytes())?;
    }
    Ok(())
}

/// What a database holds: trees of rows with the names of their tables and indexes, those of the catalogue last.
pub(crate) fn of(database: &Database) -> Result<Stats> {
    let mut stats = database.db().stats();
    let names = database.tree_names()?;
    for table in &mut stats.tables {
        let Some(name) = names.get(&table.name) else { continue };
        table.name.clone_from(name);
        table.comment = match database.open_table(name)? {
            Some(table) => table.schema()?.comment,
            None => String::new(),
        };
    }
    stats.tables.sort_by(|one, other| {
        (is_tree_of_rows(&one.name), &one.name).cmp(&(is_tree_of_rows(&other.name), &other.name))
    });
    Ok(stats)
}

/// Draws one table or all.
fn draw(args: &Args, database: &Database, out: &mut dyn Write) -> Result<()> {
    let names = match &args.table {
        Some(name) => vec![name.clone()],
        None => relation::names(database)?,
    };
    let snapshot = database.snapshot();
    let mut drawings = Vec::with_capacity(names.len());
    for name in names {
        drawings.push(match Relation::find(database, &name)? {
            Relation::Rows(table) => {
                let table = snapshot.table(&table)?;
                drawing(args, name, &Rows::of_table(&table, table.schema()))?
            }
            Relation::Index { table, index } => {
                let table = snapshot.table(&table)?;
                let index = table.index(&index)?;
                drawing(args, name, &Rows::of_index(&index, table.schema(), index.schema()))?
            }
            Relation::Strings(table) => {
                let view = snapshot.engine().table(&table)?;
                drawing(args, name, &Strings { of: &view, measures: table.options().measures })?
            }
        });
    }
    if args.json {
        let drawings: Vec<Json> = drawings.iter().map(Drawing::json).collect();
        writeln!(out, "{}", json!({ "histograms": drawings }))?;
        return Ok(());
    }
    let columns = histogram::columns();
    for (number, drawing) in drawings.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        drawing.print(out, columns)?;
    }
    Ok(())
}

fn drawing<A: Queryable>(args: &Args, name: String, source: &A) -> Result<Drawing> {
    let range = source.range(&words_of_options(args.from.as_deref(), args.to.as_deref(), None)?)?;
    Drawing::new(name, source, &range, args.buckets)
}

/// The tables.
pub(crate) fn grid(stats: &Stats) -> Grid {
    let names = ["rows", "bytes", "sum", "runs", "on disk"].map(|name| (name, true));
    let comment = stats.tables.iter().any(|table| !table.comment.is_empty()).then_some(("comment", false));
    let mut grid = Grid::new([("table", false)].into_iter().chain(names).chain([("hash", false)]).chain(comment));
    for table in &stats.tables {
        // A measure that the table does not declare is zero.
        let declared = |measure: i64| if measure == 0 { String::new() } else { thousands(measure) };
        let of_runs = |text: String| if table.runs == 0 { String::new() } else { text };
        let mut row = vec![
            table.name.clone(),
            thousands(table.tally.rows),
            declared(table.tally.bytes),
            declared(table.tally.sum),
            of_runs(table.runs.to_string()),
            of_runs(bytes(table.run_bytes)),
            if table.tally.hash == 0 { String::new() } else { format!("{:016x}", table.tally.hash) },
        ];
        row.extend(comment.map(|_| table.comment.clone()));
        grid.push(row);
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
    if stats.tables.iter().any(|table| table.runs > 0) {
        let (now, most, pinned) = (stats.cache_bytes, stats.cache_bytes_max, stats.lent_bytes);
        let looks = stats.cache_hits + stats.cache_misses;
        let found = match looks {
            0 => String::new(),
            looks => format!("; {}, {} of them in vain", counted(looks, "look"), thousands(stats.cache_misses)),
        };
        let held = if pinned == 0 { String::new() } else { format!(", {} held by readers", bytes(pinned)) };
        let resident = match stats.pinned_bytes {
            0 => String::new(),
            resident => format!(", {} of that to stay", bytes(resident)),
        };
        lines.push(format!("cache       {} of {} at most{resident}{held}{found}", bytes(now), bytes(most)));
    }
    for table in stats.tables.iter().filter(|table| table.unresolved > 0) {
        let writes = counted(table.unresolved, "write");
        lines.push(format!(
            "unresolved  {writes} to {:?}, which is blind: its figures are without them, and `count` is with them",
            table.name
        ));
    }
    // A database open for reading has no log of its own to tell of.
    if stats.log_segments > 0 {
        let (size, files) = (bytes(stats.log_bytes), counted(stats.log_segments, "file"));
        let tail = bytes(stats.log_tail_bytes);
        lines.push(format!("log         {size} in {files}; a restart reads {tail} of it"));
    }
    if let Some(failure) = &stats.checkpoint_failure {
        lines.push(format!("the last checkpoint failed: {failure}"));
    }
    lines.extend(stats.failures.iter().map(|failure| format!("failed in the background: {failure}")));
    lines.join("\n") + "\n"
}

/// The figures for programs.
pub(crate) fn json(stats: &Stats) -> Json {
    let tables: Vec<Json> = (stats.tables.iter())
        .map(|table| {
            json!({
                "table": table.name, "rows": table.tally.rows, "bytes": table.tally.bytes,
                "hash": format!("{:016x}", table.tally.hash), "sum": table.tally.sum, "layers": table.layers,
                "runs": table.runs, "run_bytes": table.run_bytes, "unresolved": table.unresolved, "sequence": table.sequence, "comment": table.comment,
            })
        })
        .collect();
    json!({
        "tables": tables, "page_bytes": stats.page_bytes, "long_bytes": stats.long_bytes,
        "memory_bytes_max": stats.memory_bytes_max, "sequence": stats.sequence, "checkpoint": stats.checkpoint,
        "checkpoint_sequence": stats.checkpoint_sequence, "checkpoint_failure": stats.checkpoint_failure,
        "log_segments": stats.log_segments, "log_bytes": stats.log_bytes, "log_tail_bytes": stats.log_tail_bytes,
        "failures": stats.failures.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "snapshots": stats.snapshots, "cache_bytes": stats.cache_bytes, "cache_bytes_max": stats.cache_bytes_max,
        "pinned_bytes": stats.pinned_bytes, "lent_bytes": stats.lent_bytes, "cache_hits": stats.cache_hits, "cache_misses": stats.cache_misses,
    })
}

/// What a checkpoint did, in a line.
pub(crate) fn checkpoint_text(info: &CheckpointInfo) -> String {
    format!(
        "checkpoint {}: {} of {}, {}",
        info.number,
        counted(info.rows_written, "row"),
        counted(info.tables_written, "table"),
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
