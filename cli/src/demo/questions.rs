//! The questions, each answered by the counts of the trees and by scanning.

use std::ops::Range;
use std::time::Duration;

use quipu::tuple::{self, Element};
use quipu::{Db, Entry, Read, TableView};

use super::flights::{self, Tables};
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
    let snapshot = db.read();
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
        return Err(Failure::new(format!("{question} Counting says {text}, scanning says {scanned_text}: a count is wrong")));
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

fn jfk_in_july(origin: &TableView) -> Result<Answer> {
    let july = || tuple::range(&[Element::from("JFK"), Element::from(7)]);
    both(
        "How many flights left JFK in July?".to_owned(),
        || Ok(thousands(origin.count(july())?)),
        || Ok(thousands(scan_count(origin, july())?)),
    )
}

fn nth_of_the_year(flights: &TableView, number: u64) -> Result<Answer> {
    both(
        format!("Which was the {}th flight of the year?", thousands(number)),
        || Ok(show_flight(flights.nth(.., number - 1)?.as_ref())),
        || {
            let mut rows = flights.range(..);
            for _ in 1..number {
                rows.next().transpose()?;
            }
            Ok(show_flight(rows.next().transpose()?.as_ref()))
        },
    )
}

fn rank_of_a_flight(flights: &TableView, offset: u64) -> Result<Answer> {
    let entry = flights.nth(.., offset)?.ok_or_else(|| Failure::new("there are no flights"))?;
    let number = |before: u64| format!("number {}", thousands(before + 1));
    both(
        format!("What number in the year is {}?", show_flight(Some(&entry))),
        || Ok(number(flights.rank(&*entry.key)?)),
        || Ok(number(scan_count(flights, Vec::new()..entry.key.to_vec())?)),
    )
}

fn median_delay(delay: &TableView) -> Result<Answer> {
    // Missing delays sort first and are left out.
    let known =
        || tuple::range(&[Element::from("B6"), Element::Null]).end..tuple::range(&[Element::from("B6")]).end;
    let minutes = |entry: Option<Entry>| match entry.as_ref().and_then(|entry| tuple::element_at(&entry.key, 1)) {
        Some(Element::Int(minutes)) => format!("{minutes} minutes"),
        _ => "none".to_owned(),
    };
    both(
        "What was the median delay of JetBlue at departure?".to_owned(),
        || Ok(minutes(delay.quantile(known(), 0.5)?)),
        || {
            let count = scan_count(delay, known())?;
            let middle = (0.5 * count.saturating_sub(1) as f64 + 0.5).floor() as u64;
            let mut rows = delay.range(known());
            for _ in 0..middle {
                rows.next().transpose()?;
            }
            Ok(minutes(rows.next().transpose()?))
        },
    )
}

fn page_to_los_angeles(dest: &TableView) -> Result<Answer> {
    const PAGE_ROWS: usize = 3;
    let los_angeles = || tuple::range(&[Element::from("LAX")]);
    let pages = dest.count(los_angeles())?.div_ceil(PAGE_ROWS as u64);
    let number = pages.clamp(1, 4_711);
    let offset = (number - 1) * PAGE_ROWS as u64;
    let show = |entries: &[Entry], total: u64| {
        let flights: Vec<String> = entries
            .iter()
            .map(|entry| match (tuple::element_at(&entry.key, 5), tuple::element_at(&entry.key, 6)) {
                (Some(Element::Text(carrier)), Some(Element::Int(flight))) => format!("{carrier} {flight}"),
                _ => "?".to_owned(),
            })
            .collect();
        format!("{} (of {} pages)", flights.join(", "), thousands(total.div_ceil(PAGE_ROWS as u64)))
    };
    both(
        format!("What is on page {} of the flights to Los Angeles?", thousands(number)),
        || {
            let page = dest.page(los_angeles(), offset, PAGE_ROWS)?;
            Ok(show(&page.entries, page.total))
        },
        || {
            let (mut entries, mut total) = (Vec::new(), 0);
            for entry in dest.range(los_angeles()) {
                let entry = entry?;
                if total >= offset && entries.len() < PAGE_ROWS {
                    entries.push(entry);
                }
                total += 1;
            }
            Ok(show(&entries, total))
        },
    )
}

fn miles_of_the_summer(flights: &TableView) -> Result<Answer> {
    let summer = || tuple::encode(&[2013.into(), 6.into()])..tuple::encode(&[2013.into(), 9.into()]);
    // Where the distance stands in the value: it is the column that the table adds up.
    let distance = 9;
    both(
        "How many miles were flown from June to August?".to_owned(),
        || Ok(thousands(flights.tally(summer())?.sum)),
        || {
            let mut sum = 0;
            for entry in flights.range(summer()) {
                if let Some(Element::Int(miles)) = tuple::element_at(&entry?.value, distance) {
                    sum += miles;
                }
            }
            Ok(thousands(sum))
        },
    )
}

/// The rows of a range, counted one by one.
fn scan_count(view: &TableView, range: Range<Vec<u8>>) -> quipu::Result<u64> {
    let mut count = 0;
    for entry in view.range(range) {
        entry?;
        count += 1;
    }
    Ok(count)
}

/// `UA 1545 of 4 July, 12:05`.
fn show_flight(entry: Option<&Entry>) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "June", "July", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let elements = entry.and_then(|entry| tuple::decode(&entry.key).ok());
    match elements.as_deref() {
        Some(
            [_, Element::Int(month), Element::Int(day), Element::Int(time), Element::Text(carrier), Element::Int(flight)],
        ) => {
            let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"?");
            format!("{carrier} {flight} of {day} {month}, {}:{:02}", time / 100, time % 100)
        }
        _ => "none".to_owned(),
    }
}
