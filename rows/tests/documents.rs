//! Rust of the pages: each block with a `main` is run in an empty directory, and prints what the page says.
//!
//! A compiler reads no pages, so `documents/` has a copy of each block. It is compared with the page; with
//! UPDATE_DOCS=1 it is written. Blocks without a `main` are doc tests (`documents` in `src/lib.rs`);
//! `cli/tests/documents.rs` looks for blocks that are neither.
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

use std::path::Path;
use std::process::Command;

/// Set in the process in which a block runs.
const RUNS: &str = "QUIPU_RUNS_A_DOCUMENT";

/// A module with the block, and the test that runs it: of a page, its n-th block of Rust, in a file of `documents/`.
macro_rules! block {
    ($name:ident, $page:literal, $number:literal, $file:literal) => {
        mod $name {
            include!($file);

            #[test]
            fn runs() {
                super::run(stringify!($name), $page, $number, $file, main);
            }
        }
    };
}

block!(readme, "README.md", 0, "documents/readme.rs");
block!(typed_rows, "docs/getting-started-library.md", 0, "documents/typed_rows.rs");
block!(orders, "docs/getting-started-library.md", 1, "documents/orders.rs");
block!(keys_and_values, "docs/getting-started-library.md", 2, "documents/keys_and_values.rs");

/// The n-th block of Rust of a page, and what the page says it prints: the block of `text` that comes before the next.
fn block_of(page: &str, number: usize) -> (String, Option<String>) {
    let after = page.split("\n```rust\n").nth(number + 1).expect("a block of Rust");
    let (code, after) = after.split_once("\n```").expect("the end of a block");
    let printed = after.split_once("\n```text\n").and_then(|(_, text)| text.split("```").next());
    (format!("{code}\n"), printed.map(str::to_owned))
}

fn run(name: &str, page_name: &str, number: usize, file: &str, main: impl FnOnce() -> quipu::Result<()>) {
    if std::env::var_os(RUNS).is_some() {
        main().expect("the block runs");
        return;
    }
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(page) = std::fs::read_to_string(crate_root.join("..").join(page_name)) else {
        return; // The sources are packed.
    };
    let (code, printed) = block_of(&page, number);
    let copy = crate_root.join("tests").join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&copy, &code).expect("the copy is written");
    }
    let is_same = std::fs::read_to_string(&copy).expect("the copy") == code;
    assert!(is_same, "{page_name} has other code: UPDATE_DOCS=1 cargo test -p quipu-rows --test all documents");

    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", &format!("documents::{name}::runs"), "--nocapture"]).env(RUNS, "1");
    let output = child.current_dir(&directory).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page_name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    if let Some(printed) = printed {
        assert!(said.contains(&printed), "{page_name} has\n{printed}\nand it prints\n{said}");
    }
}
