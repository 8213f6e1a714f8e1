//! Runs the pages for users: each command and statement in them, by a shell, our own clients and `quipu sql`, and
//! compares each answer. In an answer `...` stands for any text of the line, and a line of `...` for any lines.
//!
//! | language of a block | what runs it |
//! |---|---|
//! | `console`: commands after `$`, with answers | this test, which compares the answers |
//! | `sh`: commands, a line each | this test; each must succeed |
//! | `sql` | this test, over the database that the page names first |
//! | `rust` | `rows/tests/documents.rs` if it has a `main`, else the doc tests of `rows/src/lib.rs` |
//! | `text`, after Rust | the same: it is what the block before it prints |
//! | `pycon` | `python/tests/test_tour.py` |
//! | `layers` | `tests/arrows.rs` of the crate |
//!
//! Whatever else there is stands in `NOT_RUN`, with a reason.
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

mod blocks;
mod reader;

use blocks::{Block, blocks_of};
use reader::{Reader, all_flights, root, some_flights};

/// What is not run: of a page, the commands and the blocks that begin so, and why. The list gets shorter.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run --release --no-default-features -- demo   #", "it is run at the head of the page"),
    ("README.md", "cargo install --locked --path cli", "it builds the program that runs here"),
    ("README.md", "cargo test --workspace", "this is one of these tests"),
    ("README.md", "import polars, quipu", "Polars is no package that tests need"),
    ("docs/backup.md", " the database             the copy", "a picture"),
    ("docs/cluster.md", "quipu cluster replace", "it takes long; `cli/tests/cluster.rs` asks for the same"),
    ("docs/cluster.md", "quipu cluster abort", "no change is under way"),
    ("docs/getting-started-python.md", "python3 -m venv venv", "it downloads packages; `.ci/steps` builds the package"),
    ("docs/getting-started-python.md", "pip install maturin", "the same"),
    ("docs/getting-started-python.md", "maturin build", "the same"),
    ("docs/getting-started-python.md", "pip install wheels", "the same"),
    ("docs/getting-started-server.md", "cargo install --locked --path cli", "it builds the program that runs here"),
    ("docs/import-export.md", "cargo build --release -p quipu-cli", "it builds the program, for three minutes"),
    ("docs/postgres.md", "ACL SETUSER reader", "rules of users; `server/tests/postgres/passwords.rs` tries such"),
    ("docs/python.md", "import dask.dataframe", "Dask is no package that tests need"),
    ("docs/python.md", "with quipu.connect(\"rediss://reader", "a server of another machine"),
    ("docs/python.md", "if os.fork() == 0:", "it would go on with the tests in the child"),
    ("docs/rows.md", " rows.catalogue     names", "a picture"),
    ("docs/sql.md", "quipu sql --connect 'postgres://ann@db.example", "a server of another machine"),
];

/// Pages that have answers about all flights; others load some, which is quicker.
const WHOLE: [&str; 1] = ["docs/tutorial.md"];

/// Files that a page takes for granted: a reader has them.
const PREPARED: &[(&str, &[(&str, &str)])] = &[
    ("docs/sql.md", &[("schema.sql", "CREATE TABLE towns (id int PRIMARY KEY, name text);\n")]),
    ("docs/operations.md", &[("towns.csv", "id,name\n1,Cusco\n")]),
];

/// What has been done before, where a page begins in the midst of things.
const BEFORE: &[(&str, &str)] = &[
    ("docs/http.md", "quipu serve --http-port 8080 --data shop"),
    ("docs/operations.md", "quipu import towns.csv --data air --key id && quipu backup air backup/monday"),
];

/// The pages for users, with their names.
fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).expect("the pages");
    let names = docs.map(|file| format!("docs/{}", file.expect("a page").file_name().to_string_lossy()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    names.push("README.md".to_owned());
    names.sort();
    let page = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).expect("the page");
        (name, text)
    };
    names.into_iter().map(page).collect()
}

/// Whether a command, or a block, of a page is in the list of those that are not run.
fn is_listed(page: &str, text: &str) -> bool {
    NOT_RUN.iter().any(|(listed, begins, _)| *listed == page && text.starts_with(begins))
}

/// Whether this test runs blocks of the language.
fn is_run_here(block: &Block) -> bool {
    matches!(block.language.as_str(), "console" | "sh" | "sql")
}

/// Runs a page, and says how many commands and statements it has.
fn run(name: &str, page: &str) -> usize {
    let of_page = |listed: &&str| *listed == name;
    let prepared = PREPARED.iter().find(|(page, _)| of_page(page)).map_or(&[][..], |(_, files)| files);
    let flights = if WHOLE.contains(&name) { all_flights() } else { some_flights() };
    let mut reader = Reader::new(name, page, &flights, prepared);
    if let Some((_, before)) = BEFORE.iter().find(|(page, _)| of_page(page)) {
        let before = Block { language: "sh".to_owned(), line: 0, text: format!("{before}\n") };
        reader.try_block(&before, |_| false);
    }
    for block in blocks_of(page).iter().filter(|block| is_run_here(block)) {
        reader.try_block(block, |command| is_listed(name, command));
    }
    reader.done
}

/// `PAGE=docs/sql.md` runs that page alone.
#[test]
fn pages_run() {
    let only = std::env::var("PAGE").ok();
    let pages = pages().into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let done: usize = std::thread::scope(|scope| {
        let runs: Vec<_> = pages.map(|(name, page)| scope.spawn(move || run(&name, &page))).collect();
        runs.into_iter().map(|run| run.join().expect("the page runs")).sum()
    });
    assert!(done > 50 || only.is_some(), "the commands are not found: {done}");
}

#[test]
fn every_block_is_run_or_has_a_reason() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("a file of tests");
    let (rust, doc_tests) = (read("rows/tests/documents.rs"), read("rows/src/lib.rs"));
    let python = read("python/tests/test_tour.py");
    let mut lost = Vec::new();
    for (name, page) in pages() {
        let blocks = blocks_of(&page);
        let mut rust_blocks = 0;
        for (at, block) in blocks.iter().enumerate() {
            let is_known = match block.language.as_str() {
                _ if is_run_here(block) || is_listed(&name, &block.text) => true,
                "rust" if block.text.contains("fn main()") => rust.contains(&format!("\"{name}\", {rust_blocks},")),
                "rust" => doc_tests.contains(&format!("include_str!(\"../../{name}\")")),
                "text" => at > 0 && blocks[at - 1].language == "rust",
                "pycon" => python.contains(&format!("\"{}\"", name.trim_start_matches("docs/"))),
                "layers" => true,
                _ => false,
            };
            rust_blocks += usize::from(block.language == "rust");
            if !is_known {
                lost.push(format!("{name}:{}: {}", block.line, block.text.lines().next().unwrap_or_default()));
            }
        }
        let is_indented = |(_, pair): &(usize, Vec<&str>)| pair[0].is_empty() && pair[1].starts_with("    ");
        let unfenced = page.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
        let lines: Vec<&str> = unfenced.lines().collect();
        let pairs = lines.windows(2).map(<[&str]>::to_vec).enumerate();
        lost.extend(pairs.filter(is_indented).map(|(_, pair)| format!("{name}: {} (put it in a fence)", pair[1])));
    }
    assert!(lost.is_empty(), "no test runs these, and no reason is given: {lost:#?}");
}

#[test]
fn what_is_not_run_is_there() {
    let pages = pages();
    let is_there = |listed: &str, begins: &str| {
        let blocks = pages.iter().filter(|(name, _)| name == listed).flat_map(|(_, page)| blocks_of(page));
        let mut texts = blocks.flat_map(|block| match is_run_here(&block) {
            true => block.commands().into_iter().map(|asked| asked.command).collect(),
            false => vec![block.text],
        });
        texts.any(|text| text.starts_with(begins))
    };
    let stale: Vec<_> = NOT_RUN.iter().filter(|(page, begins, _)| !is_there(page, begins)).collect();
    assert!(stale.is_empty(), "these are gone: take them from the list: {stale:#?}");
}
