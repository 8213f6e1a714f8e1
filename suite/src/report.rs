//! Reports of a difference, and of a run without one.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::pair::Difference;
use crate::step::Step;

/// A difference with its history.
pub fn difference(difference: &Difference, history: &[Step], found_in: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "DIFFERENCE: {} ({})", difference.command, difference.why);
    let _ = writeln!(text, "reference: {}", difference.reference);
    let _ = writeln!(text, "subject:   {}", difference.subject);
    let _ = writeln!(text, "\nhistory, on empty servers ({} of {found_in} steps):", history.len());
    for step in history {
        let _ = write!(text, "{step}");
    }
    text
}

/// How often each command was compared, and how many of the replies were errors.
pub fn commands(replies: &BTreeMap<String, (u64, u64)>, known: &[&str]) -> String {
    let mut text = String::from("command              compared    errors\n");
    let (mut unknown, mut unknown_errors) = (0, 0);
    for (name, (count, errors)) in replies {
        if known.contains(&name.as_str()) {
            let _ = writeln!(text, "{name:<18} {count:>10} {:>8.1}%", 100.0 * *errors as f64 / *count as f64);
        } else {
            unknown += count;
            unknown_errors += errors;
        }
    }
    let _ = writeln!(text, "{:<18} {unknown:>10} {unknown_errors:>8}", "(others)");
    text
}
