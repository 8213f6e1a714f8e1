//! Failures that the storm has found, shrunk: each must end well.
//! Replay: quipu storm --script FILE

use std::path::Path;

use quipu_storm::library::script::{Journal, Script};
use quipu_storm::modes::all::run_steps;
use quipu_storm::modes::sequential::Source;

#[test]
fn what_was_found_and_mended_stays_so() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "storm"));
    paths.sort();
    let mut failures = Vec::new();
    for path in paths {
        let script = Script::parse(&std::fs::read_to_string(&path).unwrap());
        let replayed = std::panic::catch_unwind(|| {
            let run = run_steps(&script.mode, &Source::Script(&script), &mut Journal::create(None).unwrap());
            run.expect("a mode of steps").1
        });
        match replayed {
            Ok(Ok(())) => {}
            Ok(Err(text)) => failures.push(format!("{}: {text}", path.display())),
            Err(_) => failures.push(format!("{}: a panic", path.display())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
