//! Rules for texts that users see: errors, help, facts of commands, and what programs print.

use super::{found_in, read};
use crate::house::{kept_files, root};

/// Folders whose texts reach users, or those who test and measure.
const FOR_USERS: [&str; 13] = [
    "engine/src/",
    "rows/src/",
    "rows-derive/src/",
    "sql/src/",
    "server/src/",
    "cluster/src/",
    "agreement/src/",
    "cli/src/",
    "python/src/",
    "python/quipu/",
    "bench/",
    "storm/",
    "suite/",
];

/// How often a text says that something "is no name" rather than that it is not a name.
fn negated_nouns(text: &str) -> usize {
    let words: Vec<&str> = text.split_whitespace().collect();
    let said = |three: &&[&str]| {
        matches!(three[1], "is" | "are") && three[2] == "no" && !three[0].to_lowercase().ends_with("there")
    };
    let kept = |four: &[&str]| !matches!(four.get(3), Some(&("longer" | "more")));
    (0..words.len())
        .filter(|at| words.get(*at..at + 3).is_some_and(|three| said(&three) && kept(&words[*at..])))
        .count()
}

/// What stands between quotes in a source, with the place where it begins. Of Rust, a character counts as a text too.
fn literals(source: &str, is_python: bool) -> Vec<(usize, &str)> {
    let comment = if is_python { "#" } else { "//" };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = source[at..].find(['"', '\'', '#', '/']) {
        at += next;
        let rest = &source[at..];
        let hashes = || source[..at].chars().rev().take_while(|char| *char == '#').count();
        if rest.starts_with(comment) {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        // The quotes, and whether a backslash escapes in between.
        let (open, close, escapes) = match rest.as_bytes()[0] {
            b'"' if is_python && rest.starts_with("\"\"\"") => (3, "\"\"\"".to_owned(), true),
            b'"' if !is_python && source[..at - hashes()].ends_with('r') => {
                (1, format!("\"{}", "#".repeat(hashes())), false)
            }
            b'"' => (1, "\"".to_owned(), true),
            b'\'' if is_python || is_character(rest) => (1, "'".to_owned(), true),
            _ => {
                at += 1;
                continue;
            }
        };
        let start = at + open;
        let mut end = start;
        while !source[end..].starts_with(&close) {
            let step = if escapes && source[end..].starts_with('\\') { 2 } else { 1 };
            end += source[end..].chars().take(step).map(char::len_utf8).sum::<usize>();
            assert!(end < source.len(), "the text that begins at {at} has no end");
        }
        found.push((start, &source[start..end]));
        at = end + close.len();
    }
    found
}

/// Whether a quote in Rust begins a character, not the name of a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

/// A text of a program as it is shown: in one line, without the line breaks that a backslash takes away.
fn shown(text: &str) -> String {
    text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The comments that describe arguments of the command line, each with the number of its first line.
fn help_of(source: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_in = false;
    for (number, line) in source.lines().enumerate() {
        match line.trim_start().strip_prefix("///") {
            Some(text) if is_in => found.last_mut().expect("the first line").1.push_str(text),
            Some(text) => found.push((number + 1, text.to_owned())),
            None => {}
        }
        is_in = line.trim_start().starts_with("///");
    }
    found
}

/// The texts of a file that users see, each with the number of its line; no user sees those of tests.
fn texts_of(name: &str, source: &str) -> Vec<(usize, String)> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_python = name.ends_with(".py");
    let literals = literals(source, is_python).into_iter();
    // Why a lint does not hold is a comment; `None` is a name.
    let literals = literals.filter(|(at, _)| !source[..*at].trim_end_matches('"').ends_with("reason = "));
    let line_of = |at: usize| source[..at].matches('\n').count() + 1;
    let mut texts: Vec<_> = literals.map(|(at, text)| (line_of(at), shown(&text.replace("None", "`None`")))).collect();
    if source.contains("clap::") || name.starts_with("cli/") {
        texts.extend(help_of(source));
    }
    texts
}

#[test]
fn texts_that_users_see_are_in_plain_english() {
    let root = root();
    let mut hits = Vec::new();
    let is_for_users =
        |name: &String| FOR_USERS.iter().any(|folder| name.starts_with(folder)) && !name.contains("tests");
    let names = kept_files(&root, "rs").into_iter().chain(kept_files(&root, "py"));
    for name in names.filter(is_for_users) {
        for (number, text) in texts_of(&name, &read(&root.join(&name))) {
            let negated = (0..negated_nouns(&text)).map(|_| "“is no” (write: is not a)".to_owned());
            let phrases = found_in(&text).into_iter().chain(negated);
            hits.extend(phrases.map(|phrase| format!("{name}:{number}: {phrase}")));
        }
    }
    assert!(hits.is_empty(), "say it plainly: {hits:#?}");
}

#[test]
fn texts_are_found_over_lines_and_beside_comments() {
    let source = r##"// "no text"
        let (a, b): (&'a str, _) = ("one \
            text", '"'); // "neither"
        let c = r#"raw "text" \"#; "\"quoted\"""##;
    let texts: Vec<_> =
        texts_of("engine/src/a.rs", source).into_iter().map(|(line, text)| format!("{line} {text}")).collect();
    assert_eq!(texts, ["2 one text", "3 \"", "4 raw \"text\" \\", "4 \\\"quoted\\\""]);
    let source = "def f():\n    \"\"\"Does\n    this.\"\"\"  # 'no text'\n    return 'a' + \"b\"\n";
    let texts: Vec<_> = texts_of("python/quipu/a.py", source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Does this.", "a", "b"]);
    let source = "    /// One text\n    /// of two lines\n    a: u8,\n    /// Another\n";
    assert_eq!(help_of(source), [(1, " One text of two lines".to_owned()), (4, " Another".to_owned())]);
}
