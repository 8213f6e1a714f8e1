//! The flights that are in the program, for the two demonstrations.

use crate::table_files::files::Input;

/// The flights that left New York in 2013: nycflights13, CC0, from the US Bureau of Transportation Statistics. It is a
/// static, so that the program has the five megabytes once.
static FLIGHTS: &[u8] = include_bytes!("../../data/flights.csv.zst");

/// How many there are.
pub(crate) const ROWS: u64 = 336_776;

/// The flights as CSV.
pub(crate) fn input() -> Input {
    Input::from_bytes(FLIGHTS)
}

/// Takes about `rows` of them, spread over the year, if every so many is taken.
pub(crate) fn stride(rows: u64) -> u64 {
    (ROWS / rows.min(ROWS)).max(1)
}
