//! The fenced blocks of a page, the commands in them, and whether an answer is the one that a page has.

/// A fenced block.
pub(crate) struct Block {
    pub(crate) language: String,
    /// The line of the page on which its text begins.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A command, with the answer that the page has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) command: String,
    pub(crate) answer: Vec<String>,
}

/// All blocks of a page.
pub(crate) fn blocks_of(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), blocks.last_mut().filter(|_| is_open)) {
            (Some(_), Some(_)) => is_open = false,
            (Some(language), None) => {
                blocks.push(Block { language: language.to_owned(), line: number + 2, text: String::new() });
                is_open = true;
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

impl Block {
    /// The commands of a `console`, each after `$`, with their answers; those of `sh`, a line each, which have none.
    pub(crate) fn commands(&self) -> Vec<Asked> {
        let mut found: Vec<Asked> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let begins = if self.language == "sh" { Some(line) } else { line.strip_prefix("$ ") };
            let asked = found.last_mut();
            match (begins, asked) {
                (_, Some(asked)) if goes_on => {
                    asked.command.push('\n');
                    asked.command.push_str(line);
                }
                (Some(command), _) => found.push(Asked { command: command.to_owned(), answer: Vec::new() }),
                (None, Some(asked)) => asked.answer.push(line.to_owned()),
                (None, None) => panic!("line {}: a command comes first", self.line),
            }
            goes_on = line.ends_with('\\');
        }
        found
    }

    /// The statements of a block of SQL, without comments.
    pub(crate) fn statements(&self) -> Vec<String> {
        let lines = self.text.lines().map(|line| line.split("--").next().unwrap_or_default().trim_end());
        let text = lines.collect::<Vec<_>>().join("\n");
        text.split_inclusive(";\n").map(|statement| statement.trim().to_owned()).collect()
    }
}

/// Whether a line is as it is expected. `...` stands for any text.
fn fits(line: &str, expected: &str) -> bool {
    let mut parts = expected.trim_end().split("...");
    let Some(mut rest) = line.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || is_open
}

/// Whether all lines are as they are expected. A line of `...` stands for any lines.
pub(crate) fn all_fit(lines: &[&str], expected: &[String]) -> bool {
    match (expected, lines) {
        ([], _) => lines.is_empty(),
        ([any, rest @ ..], _) if any == "..." => (0..=lines.len()).any(|skipped| all_fit(&lines[skipped..], rest)),
        ([first, rest @ ..], [line, lines @ ..]) => fits(line, first) && all_fit(lines, rest),
        _ => false,
    }
}

/// Units of times and sizes.
const UNITS: [&str; 7] = ["ns", "µs", "ms", "s", "B", "KiB", "MiB"];

/// The words of a text without figures and their units: what stays from run to run. Of a table, that is the head. Where
/// a line ends does not count, as that follows from the figures.
fn steady_words(text: &str) -> Vec<&str> {
    let mut is_table = false;
    let mut words = Vec::new();
    for line in text.lines() {
        is_table = line.starts_with('─') || is_table && !line.is_empty();
        if !is_table {
            words.extend(line.split_whitespace());
        }
    }
    words.retain(|word| {
        let is_unit = UNITS.contains(&word.trim_end_matches(['.', ',', ':']));
        !(is_unit || word.contains(|char: char| char.is_ascii_digit()))
    });
    words
}

/// Whether a text has the steady words of all that a page has, in the same order. A line of `...` stands for any lines.
pub(crate) fn steady_words_fit(text: &str, expected: &str) -> bool {
    let words = steady_words(text);
    let parts: Vec<&str> = expected.split("...\n").collect();
    let mut rest = &words[..];
    for (number, part) in parts.iter().enumerate() {
        let part_words = steady_words(part);
        let found = (0..=rest.len()).filter(|at| rest[*at..].starts_with(&part_words));
        // The first part is at the beginning, and the last one at the end, where it is not empty.
        let is_last = number + 1 == parts.len() && !part_words.is_empty();
        let mut found =
            found.filter(|at| (number > 0 || *at == 0) && (!is_last || at + part_words.len() == rest.len()));
        let Some(at) = found.next() else { return false };
        rest = &rest[at + part_words.len()..];
    }
    rest.is_empty() || expected.ends_with("...\n")
}

#[test]
fn commands_have_their_answers() {
    let page = "```sh\none \\\n  more\n# two\n```\ntext\n```console\n$ ask\nyes\n\n$ ask \\\n  again\n```\n";
    let asked = |command: &str, answer: &[&str]| Asked {
        command: command.to_owned(),
        answer: answer.iter().map(|&line| line.to_owned()).collect(),
    };
    let commands: Vec<Asked> = blocks_of(page).iter().flat_map(Block::commands).collect();
    let expected =
        [asked("one \\\n  more", &[]), asked("# two", &[]), asked("ask", &["yes", ""]), asked("ask \\\n  again", &[])];
    assert_eq!(commands, expected);
}

#[test]
fn an_answer_with_gaps_fits() {
    let fits_all = |lines: &str, expected: &str| {
        let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        all_fit(&lines.lines().collect::<Vec<_>>(), &expected)
    };
    assert!(fits_all("a 1 b\nc\nd", "a ... b\n...\nd"));
    assert!(!fits_all("a 1 b\nc\nd", "a ... b\nd"));
    assert!(!fits_all("a 1 c", "a ... b"));
    assert_eq!(steady_words("10 rows in 2.1 s, or 17x\n\nhead\n──  ──\na b  c"), ["rows", "in", "or", "head"]);
    assert!(steady_words_fit("a 1\nb\nc\nd\ne", "a 2\n...\nc\n...\n"));
    assert!(!steady_words_fit("a\nb\nc", "a\n...\nd\n...\n"));
    assert!(!steady_words_fit("a\nb\nc", "a\n...\nb\n"));
}
