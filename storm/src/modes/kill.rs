//! A process of its own writes, and is killed at any moment: what it was told is safe must be there, and nothing
//! that it never wrote.
//!
//! The child writes down each step before it does it, and after it what it was promised, into files that outlive it.
//! Its steps, done again on a simulated disk,
//! tell what the database held after each commit.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::files::check;
use quipu::io::RealDisk;
use quipu::{Db, Options as Limits};
use quipu_suite::clock::{Deadline, pause};
use quipu_suite::dice::Dice;

use crate::library::script::{Journal, Script};
use crate::library::setup::Setup;
use crate::library::world::{Place, Promise, verify};
use crate::modes::sequential::{Source, Storm, told};
use crate::options::Options;
use crate::report::Counters;

/// Seconds that a child may write before it ends by itself: it is killed long before.
const CHILD_SECONDS: u64 = 30;

/// Writes down what was promised, and the number of the last commit.
pub fn note(file: &mut std::fs::File, promise: &Promise, sequence: u64) {
    let numbers = [promise.handed_over.load(Ordering::SeqCst), promise.synced.load(Ordering::SeqCst)];
    // Appended whole: a kill leaves it or not. The full stop tells that the last number is.
    let _ = file.write_all(format!("{} {} {sequence} .\n", numbers[0], numbers[1]).as_bytes());
}

/// The child: storms in `dir` until it is killed.
pub fn write(seed: u64, dir: &Path) {
    let mut dice = Dice::new(seed);
    let mut setup = draw(&mut dice, seed);
    setup.set("background", 1);
    let place = Place { disk: Arc::new(RealDisk), sim: None, dir: dir.join("db"), temporary: None };
    let Ok(mut journal) = Journal::create(Some(&dir.join("journal"))) else { return };
    journal.note(&format!("mode kill\n{setup}"));
    let acks = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("acknowledged"));
    let Ok(mut storm) = Storm::over("kill", setup, place) else { return };
    storm.acknowledged = acks.ok();
    let deadline = Deadline::after(Duration::from_secs(CHILD_SECONDS));
    let result = storm.go(&Source::Seed { seed, deadline, steps: u64::MAX }, &mut dice, &mut journal);
    if let Err(text) = result {
        println!("{text}");
    }
}

fn draw(dice: &mut Dice, seed: u64) -> Setup {
    let mut setup = Setup::draw(dice);
    setup.set("seed", seed);
    setup.set("real", 1);
    setup.set("memory_bytes", 256 << 20);
    setup.set("log_segment_bytes", setup.get("log_segment_bytes").min(64 << 10));
    setup.set("checkpoint_log_bytes", *dice.pick(&[&0, &(64 << 10)]));
    // Whether an optimistic transaction meets a conflict depends on threads: then its steps would not tell what
    // there is.
    setup.set("alone", 1);
    setup
}

/// A run.
pub fn run(seed: u64, _: &Options) -> (Counters, Result<(), String>) {
    let mut counters = Counters::default();
    let result = storm(seed, &mut counters);
    (counters, result)
}

fn storm(seed: u64, counters: &mut Counters) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut dice = Dice::new(seed ^ 0xC0FFEE);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let leading = std::env::args_os().skip(1).take_while(|word| word != "--child");
    let mut command = Command::new(program);
    command.args(leading).args(["--kill-writer", &seed.to_string(), "--found"]).arg(dir.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    pause(Duration::from_millis(30 + dice.below(1500) as u64));
    if dice.percent(30) {
        let process = rustix::process::Pid::from_child(&child);
        let stop = |signal| rustix::process::kill_process(process, signal).map_err(|error| error.to_string());
        stop(rustix::process::Signal::STOP)?;
        pause(Duration::from_millis(dice.below(50) as u64));
        stop(rustix::process::Signal::CONT)?;
        pause(Duration::from_millis(dice.below(20) as u64));
    }
    child.kill().map_err(|error| error.to_string())?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    counters.kills += 1;
    if !output.stdout.is_empty() {
        return Err(format!("before it was killed: {}", String::from_utf8_lossy(&output.stdout)));
    }
    judge(dir.path(), counters)
}

fn judge(dir: &Path, counters: &mut Counters) -> Result<(), String> {
    let text = std::fs::read_to_string(dir.join("journal")).unwrap_or_default();
    let script = Script::parse(&text);
    if script.steps.is_empty() {
        return Ok(());
    }
    let mut setup = script.setup.clone();
    let own = Limits { background: false, ..setup.options(Arc::new(RealDisk)) };
    setup.set("real", 0);
    setup.set("background", 0);
    let mut model = Storm::over("kill", setup, Place::simulated()).map_err(|trouble| told(&trouble))?;
    // The last line may be half a step: the step it stands for is done as far as it is readable, and is the one that
    // may be there or not.
    let acknowledged = std::fs::read_to_string(dir.join("acknowledged")).unwrap_or_default();
    // A removal of what is not there is a commit where runs hold the key's place, and none where memory holds all. When
    // rows go to runs is for the background threads to say, so the numbers here and there are told apart.
    let mut numbers = acknowledged.lines().map(numbers_of);
    let mut known = vec![(0, 0)];
    for step in &script.steps {
        model.step(step).map_err(|trouble| format!("{step}, again: {}", told(&trouble)))?;
        if let (Some(Some([_, _, there])), Some(db)) = (numbers.next(), &model.world.db) {
            known.push((there, db.latched().read().sequence()));
        }
    }
    counters.steps += script.steps.len() as u64;
    counters.commits += model.world.counters.commits;
    let promised = acknowledged.lines().rev().find_map(numbers_of).map_or(0, |[promised, ..]| promised);
    let path = dir.join("db");
    let report = check(&path, &own, &mut |_| ()).map_err(|error| format!("check: {error:?}"))?;
    if !report.faults.is_empty() {
        return Err(format!("check finds {:?}", report.faults));
    }
    let db = Db::open(&path, own).map_err(|error| format!("it does not open: {error:?}"))?;
    let sequence = db.latched().read().sequence();
    if sequence < promised {
        return Err(format!("commits {} to {promised} are lost", sequence + 1));
    }
    let before = known.partition_point(|(there, _)| *there <= sequence) - 1;
    let (there, here) = known[before];
    match model.world.history.range(..=here + (sequence - there)).next_back() {
        Some((_, state)) => verify(&db, state).map_err(|trouble| format!("commit {sequence}: {}", told(&trouble))),
        None => Err(format!("commit {sequence} was never made; {promised} were promised")),
    }
}

/// What [`note`] wrote, if the line is whole.
fn numbers_of(line: &str) -> Option<[u64; 3]> {
    let mut numbers = line.strip_suffix(" .")?.split(' ').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}
