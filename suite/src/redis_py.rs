//! The tests of redis-py, run by `redis-py.sh` against a server that is started for them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use crate::process::{Launch, ServerProcess};

/// Starts a server, runs the tests in each version of the protocol, and tells whether all passed.
///
/// # Errors
///
/// If the server or the script cannot be started.
pub fn run(launch: &Launch, protocols: &[u8], arguments: &[String], script: Option<&Path>) -> io::Result<bool> {
    let script = script.map_or_else(default_script, Path::to_path_buf);
    let mut passed = true;
    for protocol in protocols {
        let dir = tempfile::tempdir()?;
        let server = ServerProcess::start(launch, &dir.path().join("data"), dir.path())?;
        println!("redis-py against {} at {}, RESP{protocol}", launch.name(), server.address);
        let status =
            Program::new(&script).arg(server.address.to_string()).arg(protocol.to_string()).args(arguments).status()?;
        passed &= status.success();
    }
    Ok(passed)
}

/// The script in the source tree that this program was built from.
fn default_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("redis-py.sh")
}
