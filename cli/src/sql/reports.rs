//! Errors and notices as psql shows them: with the line of the text, and a caret under the place.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::backend::Report;

/// How much of a long line is shown, and how much of it before the place.
const SHOWN_MAX: usize = 100;
const SHOWN_BEFORE: usize = 60;

/// A report about `text` in lines. A script's place is given as the name of its file and the line on which the text
/// begins.
pub(super) fn show(report: &Report, text: &str, script: Option<(&str, u64)>) -> String {
    let place = report.position.and_then(|position| place_of(text, position));
    let mut shown = String::new();
    if let Some((file, begin)) = script {
        let line = begin + place.as_ref().map_or(0, |place| place.line - 1);
        let _ = write!(shown, "{file}:{line}: ");
    }
    let _ = writeln!(shown, "{}:  {}", report.severity, report.message);
    if let Some(place) = place {
        let head = format!("LINE {}: ", place.line);
        let _ = writeln!(shown, "{head}{}", place.text);
        let _ = writeln!(shown, "{}^", " ".repeat(head.len() + place.width_before));
    }
    for (name, part) in [("DETAIL", &report.detail), ("HINT", &report.hint), ("CONTEXT", &report.context)] {
        if let Some(part) = part {
            let _ = writeln!(shown, "{name}:  {part}");
        }
    }
    shown
}

/// A place in a text.
struct Place {
    /// The number of its line, from 1 on.
    line: u64,
    /// The line, or a part of it.
    text: String,
    /// How wide that is before the place.
    width_before: usize,
}

fn place_of(text: &str, position: usize) -> Option<Place> {
    let mut left = position.checked_sub(1)?;
    for (number, line) in text.split('\n').enumerate() {
        let characters: Vec<char> = line.trim_end_matches('\r').chars().map(blank_of_control).collect();
        if left > line.chars().count() {
            left -= line.chars().count() + 1;
            continue;
        }
        let begin = if characters.len() > SHOWN_MAX { left.saturating_sub(SHOWN_BEFORE) } else { 0 };
        let end = (begin + SHOWN_MAX).min(characters.len());
        let before: String = characters[begin..left.clamp(begin, end)].iter().collect();
        let rest: String = characters[left.clamp(begin, end)..end].iter().collect();
        let (head, tail) = (if begin > 0 { "..." } else { "" }, if end < characters.len() { "..." } else { "" });
        let width_before = head.len() + before.width();
        return Some(Place { line: number as u64 + 1, text: format!("{head}{before}{rest}{tail}"), width_before });
    }
    None
}

/// Tabs would move the caret, and other control characters the terminal's cursor.
fn blank_of_control(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, position: usize) -> String {
        let report = Report {
            severity: "ERROR".to_owned(),
            message: "no".to_owned(),
            position: Some(position),
            ..Report::default()
        };
        show(&report, text, Some(("a.sql", 7)))
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(shown("SELECT x", 8), "a.sql:7: ERROR:  no\nLINE 1: SELECT x\n               ^\n");
        assert_eq!(shown("SELECT\n\t漢, x", 12), "a.sql:8: ERROR:  no\nLINE 2:  漢, x\n             ^\n");
        assert_eq!(shown("SELECT", 7), "a.sql:7: ERROR:  no\nLINE 1: SELECT\n              ^\n");
        assert_eq!(shown("SELECT", 99), "a.sql:7: ERROR:  no\n");
        let long = format!("SELECT {}, y, {}", "x".repeat(200), "z".repeat(200));
        let lines = shown(&long, 210);
        let caret = lines.lines().last().and_then(|line| line.find('^')).expect("a caret");
        assert_eq!(lines.lines().nth(1).and_then(|line| line.chars().nth(caret)), Some('y'));
    }
}
