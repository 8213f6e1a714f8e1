//! Files in which the shells keep the history of their lines, in the user's own directories.
//!
//! Not here: which lines are kept (`shell/lines`).

use std::path::PathBuf;

/// The file that the shell keeps its history in, its directory created: under `XDG_STATE_HOME`, `LOCALAPPDATA` or the
/// home directory's `.local/state`. None if there is no such place.
pub(crate) fn history_file() -> Option<PathBuf> {
    state_file("history")
}

/// Where a file of this name is kept for the user, if the system has a place for that.
pub(crate) fn state_file(name: &str) -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = directory("XDG_STATE_HOME")
        .or_else(|| directory("LOCALAPPDATA"))
        .or_else(|| directory("HOME").map(|home| home.join(".local").join("state")))?
        .join("quipu");
    std::fs::create_dir_all(&state).ok()?;
    Some(state.join(name))
}
