//! The questions, each answered by the counts of the trees and by scanning.

use std::time::Duration;

use quipu::Snapshot;
use quipu_rows::{Database, EntriesIn, Ordered, RowView, Span, TableIn, Value};

use super::flights::NAME;
use crate::clock::timed;
use crate::failure::{Failure, Result};
use crate::grid::thousands;

/// How often each way is timed; the median counts.
const COUNTED_RUNS: usize = 101;
const SCANNED_RUNS: usize = 3;

/// A question and what came out.
pub(super) struct TimedAnswer {
    pub(super) question: String,
    pub(super) text: String,
    pub(super) counted: Duration,
    pub(super) scanned: Duration,
}

impl TimedAnswer {
    /// How many times faster counting was.
    pub(super) fn factor(&self) -> f64 {
        self.scanned.as_secs_f64() / self.counted.as_secs_f64().max(1e-9)
    }
}

/// Asks all of them at one snapshot.
pub(super) fn ask(database: &Database) -> Result<Vec<TimedAnswer>> {
    let snapshot = database.snapshot();
    let flights = snapshot.table(NAME)?;
    let (origin, dest, delay) = (flights.entries("origin")?, flights.entries("dest")?, flights.entries("delay")?);
    let rows = flights.len()?;
    Ok(vec![
        jfk_in_july(&origin)?,
        nth_of_the_year(&flights, (rows * 200_000).div_ceil(crate::flights::ROWS))?,
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
) -> Result<TimedAnswer> {
    let (text, counted) = median(COUNTED_RUNS, counted)?;
    let (scanned_text, scanned) = median(SCANNED_RUNS, scanned)?;
    if text != scanned_text {
        return Err(Failure::new(format!(
            "{question} Counting says {text}, scanning says {scanned_text}: a count is wrong"
        )));
    }
    Ok(TimedAnswer { question, text, counted, scanned })
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

fn jfk_in_july(origin: &EntriesIn<'_, Snapshot>) -> Result<TimedAnswer> {
    let july = Span::eq(("JFK", 7));
    both(
        "How many flights left JFK in July?".to_owned(),
        || Ok(thousands(origin.count(&july)?)),
        || Ok(thousands(scan_count(origin, &july)?)),
    )
}

fn nth_of_the_year(flights: &TableIn<'_, Snapshot>, number: u64) -> Result<TimedAnswer> {
    both(
        format!("Which was the {}th flight of the year?", thousands(number)),
        || flights.nth(.., number - 1)?.map_or_else(|| Ok(none()), |row| show_flight(&row.view()?)),
        || scan_to(flights, &Span::all(), number - 1, show_flight),
    )
}

fn rank_of_a_flight(flights: &TableIn<'_, Snapshot>, offset: u64) -> Result<TimedAnswer> {
    let row = flights.nth(.., offset)?.ok_or_else(|| Failure::new("there are no flights"))?;
    let key = row.key_values()?;
    let number = |before: u64| format!("number {}", thousands(before + 1));
    both(
        format!("What number in the year is {}?", show_flight(&row.view()?)?),
        || Ok(number(flights.rank(key.as_slice())?)),
        || Ok(number(scan_count(flights, &Span::lt(key.as_slice()))?)),
    )
}

fn median_delay(delay: &EntriesIn<'_, Snapshot>) -> Result<TimedAnswer> {
    // Missing delays sort first and are left out.
    let known = Span::gt(("B6", Value::Null)).and_le("B6");
    let minutes = |row: &RowView<'_>| match row.get("dep_delay")? {
        Value::Int(minutes) => Ok(format!("{minutes} minutes")),
        _ => Ok(none()),
    };
    both(
        "What was the median delay of JetBlue at departure?".to_owned(),
        || delay.quantile(&known, 0.5)?.map_or_else(|| Ok(none()), |row| minutes(&row.view()?)),
        || {
            let count = scan_count(delay, &known)?;
            let middle = (0.5 * count.saturating_sub(1) as f64 + 0.5).floor() as u64;
            scan_to(delay, &known, middle, minutes)
        },
    )
}

fn page_to_los_angeles(dest: &EntriesIn<'_, Snapshot>) -> Result<TimedAnswer> {
    const PAGE_ROWS: usize = 3;
    let los_angeles = Span::eq("LAX");
    let pages = dest.count(&los_angeles)?.div_ceil(PAGE_ROWS as u64);
    let number = pages.clamp(1, 4_711);
    let offset = (number - 1) * PAGE_ROWS as u64;
    let flight = |row: &RowView<'_>| -> quipu::Result<String> {
        match (row.get("carrier")?, row.get("flight")?) {
            (Value::Text(carrier), Value::Int(flight)) => Ok(format!("{carrier} {flight}")),
            _ => Ok(none()),
        }
    };
    let show = |flights: &[String], total: u64| {
        format!("{} (of {} pages)", flights.join(", "), thousands(total.div_ceil(PAGE_ROWS as u64)))
    };
    both(
        format!("What is on page {} of the flights to Los Angeles?", thousands(number)),
        || {
            let page = dest.page(&los_angeles, offset, PAGE_ROWS)?;
            let flights: quipu::Result<Vec<String>> = page.rows.iter().map(|row| flight(&row.view()?)).collect();
            Ok(show(&flights?, page.total))
        },
        || {
            let (mut flights, mut total) = (Vec::new(), 0);
            dest.for_each(&los_angeles, |row| {
                if total >= offset && flights.len() < PAGE_ROWS {
                    flights.push(flight(&row)?);
                }
                total += 1;
                Ok(true)
            })?;
            Ok(show(&flights, total))
        },
    )
}

fn miles_of_the_summer(flights: &TableIn<'_, Snapshot>) -> Result<TimedAnswer> {
    let summer = Span::ge((2013, 6)).and_lt((2013, 9));
    let miles = |sum: &Value<'_>| match sum {
        Value::Int(miles) => thousands(*miles),
        _ => none(),
    };
    both(
        "How many miles were flown from June to August?".to_owned(),
        || Ok(miles(&flights.sum(&summer)?)),
        || {
            let mut sum: i128 = 0;
            let place = flights.schema().place("distance").unwrap_or_default();
            flights.for_each(&summer, |row| {
                if let Value::Int(miles) = row.value(place)? {
                    sum += miles;
                }
                Ok(true)
            })?;
            Ok(miles(&Value::Int(sum)))
        },
    )
}

/// The rows of a range, counted one by one.
fn scan_count(rows: &impl Ordered, span: &Span<'_>) -> quipu::Result<u64> {
    let mut count = 0;
    rows.for_each(span, |_| {
        count += 1;
        Ok(true)
    })?;
    Ok(count)
}

/// What `show` makes of the row at an offset, found by passing over those before it.
fn scan_to(
    rows: &impl Ordered,
    span: &Span<'_>,
    offset: u64,
    show: impl Fn(&RowView<'_>) -> quipu::Result<String>,
) -> quipu::Result<String> {
    let (mut passed, mut found) = (0, None);
    rows.for_each(span, |row| {
        if passed == offset {
            found = Some(show(&row)?);
        }
        passed += 1;
        Ok(found.is_none())
    })?;
    Ok(found.unwrap_or_else(none))
}

fn none() -> String {
    "none".to_owned()
}

/// `UA 1545 of 4 July, 12:05`.
fn show_flight(row: &RowView<'_>) -> quipu::Result<String> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "June", "July", "Aug", "Sep", "Oct", "Nov", "Dec"];
    Ok(match row.key_values()?.as_slice() {
        [_, Value::Int(month), Value::Int(day), Value::Int(time), Value::Text(carrier), Value::Int(flight)] => {
            let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"?");
            format!("{carrier} {flight} of {day} {month}, {}:{:02}", time / 100, time % 100)
        }
        _ => none(),
    })
}
