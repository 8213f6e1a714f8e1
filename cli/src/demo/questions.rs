//! The questions, each answered by the counts of the trees and by scanning.

use std::ops::Range;
use std::time::Duration;

use quipu::tuple::{self, Element};
use quipu::{Bounds, Db, ReadableTable, TableView};

use super::flights::{self, DISTANCE, Tables};
use crate::clock::timed;
use crate::failure::{Failure, Result};
use crate::grid::thousands;

/// How often each way is timed; the median counts.
const COUNTED_RUNS: usize = 101;
const SCANNED_RUNS: usize = 3;

/// A question and what came out.
pub(super) struct Answer {
    pub(super) question: String,
    pub(super) text: String,
    pub(super) counted: Duration,
    pub(super) scanned: Duration,
}

impl Answer {
    /// How many times faster counting was.
    pub(super) fn factor(&self) -> f64 {
        self.scanned.as_secs_f64() / self.counted.as_secs_f64().max(1e-9)
    }
}

/// Asks all of them at one snapshot.
pub(super) fn ask(db: &Db, tables: &Tables) -> Result<Vec<Answer>> {
    let snapshot = db.snapshot();
    let flights = snapshot.table(&tables.flights.table)?;
    let origin = snapshot.table(&tables.origin.table)?;
    let dest = snapshot.table(&tables.dest.table)?;
    let delay = snapshot.table(&tables.delay.table)?;
    let rows = flights.len()?;
    Ok(vec![
        jfk_in_july(&origin)?,
        nth_of_the_year(&flights, (rows * 200_000).div_ceil(flights::ROWS))?,
        rank_of_a_flight(&flights, rows * 2 / 3)?,
        median_delay(&delay)?,
        page_to_los_angeles(&dest)?,
        miles_of_the_summer(&flights)?,
    ])
}

/// Times both ways and compares what they say.
fn both(
    question: String,
    counted: impl Fn() -> quipu::Result<String>,
    scanned: impl Fn() -> quipu::Result<String>,
) -> Result<Answer> {
    let (text, counted) = median(COUNTED_RUNS, counted)?;
    let (scanned_text, scanned) = median(SCANNED_RUNS, scanned)?;
    if text != scanned_text {
        return Err(Failure::new(format!(
            "{question} Counting says {text}, scanning says {scanned_text}: a count is wrong"
        )));
    }
    Ok(Answer { question, text, counted, scanned })
}

/// What `work` says, and the median time of so many runs.
fn median(runs: usize, work: impl Fn() -> quipu::Result<String>) -> Result<(String, Duration)> {
    let mut times = Vec::with_capacity(runs);
    let mut text = String::new();
    for _ in 0..runs {
        let (result, time) = timed(&work);
        text = result?;
        times.push(time);
    }
    times.sort();
    Ok((text, times[runs / 2]))
}

fn jfk_in_july(origin: &TableView<'_>) -> Result<Answer> {
    let july = tuple::range(&[Element::from("JFK"), Element::from(7)]);
    both(
        "How many flights left JFK in July?".to_owned(),
        || Ok(thousands(origin.count(bounds(&july))?)),
        || Ok(thousands(scan_count(origin, bounds(&july))?)),
    )
}

fn nth_of_the_year(flights: &TableView<'_>, number: u64) -> Result<Answer> {
    both(
        format!("Which was the {}th flight of the year?", thousands(number)),
        || Ok(flights.nth(.., number - 1)?.map_or_else(none, |entry| show_flight(&entry.key))),
        || Ok(scan_to(flights, Bounds::from(..), number - 1)?.map_or_else(none, |key| show_flight(&key))),
    )
}

fn rank_of_a_flight(flights: &TableView<'_>, offset: u64) -> Result<Answer> {
    let key = flights.nth(.., offset)?.ok_or_else(|| Failure::new("there are no flights"))?.key;
    let number = |before: u64| format!("number {}", thousands(before + 1));
    both(
        format!("What number in the year is {}?", show_flight(&key)),
        || Ok(number(flights.rank(&key)?)),
        || Ok(number(scan_count(flights, Bounds::from(..&key))?)),
    )
}

fn median_delay(delay: &TableView<'_>) -> Result<Answer> {
    let jetblue = tuple::range(&[Element::from("B6")]);
    // Missing delays sort first and are left out.
    let known = tuple::range(&[Element::from("B6"), Element::Null]).end..jetblue.end;
    let minutes = |key: &[u8]| match tuple::element_at(key, 1) {
        Some(Element::Int(minutes)) => format!("{minutes} minutes"),
        _ => none(),
    };
    both(
        "What was the median delay of JetBlue at departure?".to_owned(),
        || Ok(delay.quantile(bounds(&known), 0.5)?.map_or_else(none, |entry| minutes(&entry.key))),
        || {
            let count = scan_count(delay, bounds(&known))?;
            let middle = (0.5 * count.saturating_sub(1) as f64 + 0.5).floor() as u64;
            Ok(scan_to(delay, bounds(&known), middle)?.map_or_else(none, |key| minutes(&key)))
        },
    )
}

fn page_to_los_angeles(dest: &TableView<'_>) -> Result<Answer> {
    const PAGE_ROWS: usize = 3;
    let los_angeles = tuple::range(&[Element::from("LAX")]);
    let pages = dest.count(bounds(&los_angeles))?.div_ceil(PAGE_ROWS as u64);
    let number = pages.clamp(1, 4_711);
    let offset = (number - 1) * PAGE_ROWS as u64;
    let show = |keys: &[&[u8]], total: u64| {
        let flight = |key: &&[u8]| match (tuple::element_at(key, 5), tuple::element_at(key, 6)) {
            (Some(Element::Text(carrier)), Some(Element::Int(flight))) => format!("{carrier} {flight}"),
            _ => none(),
        };
        let flights: Vec<String> = keys.iter().map(flight).collect();
        format!("{} (of {} pages)", flights.join(", "), thousands(total.div_ceil(PAGE_ROWS as u64)))
    };
    both(
        format!("What is on page {} of the flights to Los Angeles?", thousands(number)),
        || {
            let page = dest.page(bounds(&los_angeles), offset, PAGE_ROWS)?;
            Ok(show(&page.entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), page.total))
        },
        || {
            let (mut keys, mut total) = (Vec::new(), 0);
            dest.for_each(bounds(&los_angeles), |key, _| {
                if total >= offset && keys.len() < PAGE_ROWS {
                    keys.push(key.to_vec());
                }
                total += 1;
                true
            })?;
            Ok(show(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), total))
        },
    )
}

fn miles_of_the_summer(flights: &TableView<'_>) -> Result<Answer> {
    let summer = tuple::encode(&[2013.into(), 6.into()])..tuple::encode(&[2013.into(), 9.into()]);
    both(
        "How many miles were flown from June to August?".to_owned(),
        || Ok(thousands(flights.tally(bounds(&summer))?.sum)),
        || {
            let mut sum = 0;
            flights.for_each(bounds(&summer), |_, value| {
                if let Some(Element::Int(miles)) = tuple::element_at(value, DISTANCE) {
                    sum += miles;
                }
                true
            })?;
            Ok(thousands(sum))
        },
    )
}

fn bounds(range: &Range<Vec<u8>>) -> Bounds<'_> {
    Bounds::from(&range.start..&range.end)
}

/// The rows of a range, counted one by one.
fn scan_count(view: &TableView<'_>, bounds: Bounds<'_>) -> quipu::Result<u64> {
    let mut count = 0;
    view.for_each(bounds, |_, _| {
        count += 1;
        true
    })?;
    Ok(count)
}

/// The key at an offset, found by passing over those before it.
fn scan_to(view: &TableView<'_>, bounds: Bounds<'_>, offset: u64) -> quipu::Result<Option<Vec<u8>>> {
    let mut passed = 0;
    let mut found = None;
    view.for_each(bounds, |key, _| {
        if passed == offset {
            found = Some(key.to_vec());
        }
        passed += 1;
        found.is_none()
    })?;
    Ok(found)
}

fn none() -> String {
    "none".to_owned()
}

/// `UA 1545 of 4 July, 12:05`, from the key of a flight.
fn show_flight(key: &[u8]) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "June", "July", "Aug", "Sep", "Oct", "Nov", "Dec"];
    match tuple::decode(key).as_deref() {
        Ok(
            [
                _,
                Element::Int(month),
                Element::Int(day),
                Element::Int(time),
                Element::Text(carrier),
                Element::Int(flight),
            ],
        ) => {
            let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"?");
            format!("{carrier} {flight} of {day} {month}, {}:{:02}", time / 100, time % 100)
        }
        _ => none(),
    }
}
