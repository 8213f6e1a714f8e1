//! Goal: `docs/commands.md` says what the table of commands says.
//! Method: the page is made and compared; with UPDATE_DOCS=1 it is written.

use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the documentation is written")]
fn the_page_of_commands_is_of_this_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let page = quipu_server::facts::reference::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/commands.md is stale: UPDATE_DOCS=1 cargo test -p quipu-server --test all reference"
    );
}
