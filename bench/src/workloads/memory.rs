//! Memory per byte of key and value, after random inserts, for small, middling and larger values.
//!
//! Each figure comes from a child process of its own: its resident memory after the inserts, less that before the store
//! was opened. What the store says of itself stands beside.

use serde_json::{Value, json};

use crate::clock::{Deadline, median};
use crate::machine::Resident;
use crate::report::{Cell, Table};
use crate::rows::Rows;
use crate::store::{Durability, Result, StoreKind};
use crate::{Bench, Workload};

pub(crate) const WORKLOAD: Workload = Workload {
    name: "memory",
    about: "resident bytes per byte of key and value after random inserts",
    run,
    child: Some(child),
};

/// Lengths of keys and values.
const SHAPES: [(usize, usize); 3] = [(8, 8), (16, 16), (16, 100)];

fn run(bench: &Bench<'_>, show: &mut dyn FnMut(Table)) -> Result<()> {
    for count in bench.options.row_counts(&[1_000_000], 1_000) {
        show(one_size(bench, count)?);
    }
    Ok(())
}

fn one_size(bench: &Bench<'_>, count: u64) -> Result<Table> {
    let columns =
        ["key + value", "store", "own memory", "mapped file", "resident per byte", "it says", "says per byte"];
    let title = format!("Memory of {} rows after random inserts", Cell::Count(count));
    let mut table = Table::new(title, &columns).with_bars("resident per byte", 1);
    for (key_bytes, value_bytes) in SHAPES {
        let rows = Rows::new(bench.options.seed, count, key_bytes, value_bytes);
        for kind in bench.stores.iter().filter(|kind| kind.fits(&rows)) {
            bench.progress(format_args!("{count} rows of {key_bytes} + {value_bytes} bytes, {}", kind.name));
            table.push(line(bench, kind, &rows)?);
        }
    }
    table.note(
        "Resident: own memory and pages of mapped files, which the system may drop. Files that are read and written are in \
         its page cache, which is not counted.",
    );
    Ok(table)
}

fn line(bench: &Bench<'_>, kind: &StoreKind, rows: &Rows) -> Result<Vec<Cell>> {
    let arguments: Vec<String> = [WORKLOAD.name.to_owned(), kind.name.to_owned()]
        .into_iter()
        .chain(
            [bench.options.seed, rows.count(), rows.key_bytes() as u64, rows.value_bytes() as u64]
                .map(|n| n.to_string()),
        )
        .collect();
    let mut told = Vec::new();
    for _ in 0..bench.options.repeat.max(1) {
        let text = bench.program.child(&[], &arguments)?;
        let line = text.lines().find(|line| line.starts_with('{')).ok_or("the child told nothing")?;
        told.push(serde_json::from_str::<Value>(line)?);
    }
    let median_of = |name: &str| {
        let figures: Vec<f64> = told.iter().filter_map(|told| told[name].as_f64()).collect();
        if figures.is_empty() { None } else { Some(median(figures)) }
    };
    let data_bytes = (rows.count() as usize * (rows.key_bytes() + rows.value_bytes())) as f64;
    let (own, file) = (median_of("own").unwrap_or(0.0), median_of("file").unwrap_or(0.0));
    let says = median_of("says");
    Ok(vec![
        Cell::text(format!("{} + {}", rows.key_bytes(), rows.value_bytes())),
        Cell::text(kind.name),
        Cell::Bytes(own),
        Cell::Bytes(file),
        Cell::Times((own + file) / data_bytes),
        says.map_or(Cell::Missing, Cell::Bytes),
        says.map_or(Cell::Missing, |says| Cell::Times(says / data_bytes)),
    ])
}

/// Loads one store and tells what memory it took.
fn child(bench: &Bench<'_>, arguments: &[String]) -> Result<()> {
    let [name, numbers @ ..] = arguments else { return Err("which store?".into()) };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [seed, count, key_bytes, value_bytes] = numbers[..] else { return Err("which rows?".into()) };
    let kind = bench.stores.iter().find(|kind| kind.name == name).ok_or("no such store")?;
    let rows = Rows::new(seed, count, key_bytes as usize, value_bytes as usize);
    let dir = bench.place.fresh()?;
    let before = Resident::now();
    let store = (kind.open)(dir.path(), Durability::None.into())?;
    // In transactions of 1000, as a program that cares for memory would.
    for first in (0..count).step_by(1000) {
        store.insert_bulk(rows.part(first, (count - first).min(1000)), &Deadline::never())?;
    }
    let after = Resident::now();
    let told = json!({
        "own": after.own_bytes.saturating_sub(before.own_bytes),
        "file": after.file_bytes.saturating_sub(before.file_bytes),
        "says": store.memory_bytes(),
    });
    println!("{told}");
    Ok(())
}
