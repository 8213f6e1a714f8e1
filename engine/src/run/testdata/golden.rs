//! Golden bytes: annotated hex, the same text in a file of test data and in the page that describes the format.
//! UPDATE_GOLDEN=1 rewrites both. A change of the format shows as a change of these files, and what an older version
//! wrote stays there to be read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Bytes in one line.
const LINE_BYTES: usize = 16;

/// Text under construction.
pub(crate) struct Annotated<'b> {
    bytes: &'b [u8],
    at: usize,
    text: String,
}

impl<'b> Annotated<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Annotated { bytes, at: 0, text: String::new() }
    }

    #[allow(dead_code, reason = "asked by the golden test of runs, not by that of manifests")]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next `len` bytes are what `note` says.
    pub(crate) fn field(&mut self, len: usize, note: &str) {
        let mut note = note;
        for line in self.bytes[self.at..self.at + len].chunks(LINE_BYTES) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let hex = hex.join(" ");
            let comment = if note.is_empty() { String::new() } else { format!("# {note}") };
            let text = format!("{hex:<47}   {comment}");
            writeln!(self.text, "{}", text.trim_end()).expect("a string takes it");
            note = "";
        }
        self.at += len;
    }

    /// A heading of what follows.
    pub(crate) fn heading(&mut self, what: &str) {
        writeln!(self.text, "# {:04x} {what}", self.at).expect("a string takes it");
    }

    /// The text, with every byte described.
    pub(crate) fn finish(self) -> String {
        assert_eq!(self.at, self.bytes.len(), "bytes that nothing describes");
        self.text
    }
}

/// The bytes of such a text.
pub(crate) fn parse(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        .collect()
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[expect(clippy::disallowed_methods, reason = "test data of the source tree, not of a database")]
fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8(bytes).expect("text")).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "test data of the source tree, not of a database")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the source tree can be written");
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Holds `text` against the file at `path` (from the crate's directory) and returns what stands there.
pub(crate) fn compare_with_file(text: &str, path: &str) -> String {
    let path = in_crate(path);
    if is_update() {
        write(&path, text);
    }
    let found = read(&path);
    assert_eq!(found, text, "{}: UPDATE_GOLDEN=1 rewrites it", path.display());
    found
}

/// Holds `text` against the `number`-th hex block of a page.
pub(crate) fn compare_with_page(text: &str, path: &str, number: usize) {
    const START: &str = "```hex\n";
    let path = in_crate(path);
    let page = read(&path);
    let start = page.match_indices(START).nth(number).expect("a hex block").0 + START.len();
    let end = start + page[start..].find("```").expect("its end");
    if is_update() {
        write(&path, &format!("{}{text}{}", &page[..start], &page[end..]));
    } else {
        assert_eq!(&page[start..end], text, "{}: UPDATE_GOLDEN=1 rewrites it", path.display());
    }
}
