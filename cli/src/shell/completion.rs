//! Completion by Tab: commands; tables after `use`, `drop` and `rebuild`, commands after `help`.

use super::command::NAMES;
use super::lines::split_last_word;

/// Where the last word of `line` begins, and what it may become.
pub(super) fn candidates(line: &str, table_names: &[String]) -> (usize, Vec<String>) {
    let (before, word) = split_last_word(line);
    let start = before.len();
    let names: Vec<&str> = match before.trim() {
        "" | "help" | "explain" => NAMES.to_vec(),
        "use" | "drop" | "rebuild" => table_names.iter().map(String::as_str).collect(),
        "json" | "timing" => vec!["on", "off"],
        "rollback" => vec!["to"],
        scan if scan.starts_with("scan") || scan.starts_with("explain scan") => vec!["limit", "reverse"],
        _ => Vec::new(),
    };
    let fitting = names.into_iter().filter(|name| name.starts_with(word));
    (start, fitting.map(|name| format!("{name} ")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_their_place() {
        let tables = ["flights".to_owned(), "flights.airport".to_owned(), "planes".to_owned()];
        let complete = |line| {
            let (start, found) = candidates(line, &tables);
            (start, found.concat())
        };
        assert_eq!(complete("qu"), (0, "quantile quit ".to_owned()));
        assert_eq!(complete("  use fl"), (6, "flights flights.airport ".to_owned()));
        assert_eq!(complete("drop "), (5, "flights flights.airport planes ".to_owned()));
        assert_eq!(complete("help sca"), (5, "scan ".to_owned()));
        assert_eq!(complete("scan JFK lim"), (9, "limit ".to_owned()));
        assert_eq!(complete("count fl"), (6, String::new()));
    }
}
