//! The side that asks for runs, waits for them, and tells: a run that fails, dies or hangs is shrunk and written down.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use quipu_suite::clock::{Deadline, Stopwatch, fresh_seed};

use crate::library::script::Script;
use crate::modes::all::MODES;
use crate::options::{Options, Program};
use crate::processes::shrink::shrink;
use crate::report::Counters;

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// All was well.
    Well(Counters),
    /// Something was not: why.
    Badly(String),
}

/// Seconds beyond its own time after which a run counts as hanging; a server may take long to start again.
const PATIENCE_SECONDS: f64 = 60.0;
const SERVER_PATIENCE_SECONDS: f64 = 200.0;
/// Trials of a shrinking, and the seconds that it may take.
const TRIALS: usize = 1500;
const SHRINK_SECONDS: f64 = 60.0;

/// A child, started again when it is gone.
pub struct Runner<'p> {
    program: &'p Program,
    options: &'p Options,
    /// Journals and scripts.
    dir: tempfile::TempDir,
    child: Option<(Child, ChildStdin, Receiver<String>)>,
}

impl<'p> Runner<'p> {
    /// Without a child yet.
    ///
    /// # Errors
    /// If there is no room for its files.
    pub fn new(program: &'p Program, options: &'p Options) -> io::Result<Runner<'p>> {
        Ok(Runner { program, options, dir: tempfile::tempdir()?, child: None })
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    fn start(&mut self) -> io::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("errors"))?;
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.leading).arg("--child");
        command.args(["--run-seconds", &self.options.run_seconds.to_string()]);
        command.args(["--steps", &self.options.steps.to_string(), "--stall-ms", &self.options.stall_ms.to_string()]);
        if let Some(quipu) = &self.options.quipu {
            command.arg("--quipu").arg(quipu);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a child without pipes"));
        };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        self.child = Some((child, input, receiver));
        Ok(())
    }

    fn ask(&mut self, request: &str, seconds: f64) -> io::Result<Ended> {
        self.start()?;
        let Some((child, input, answers)) = &mut self.child else { return Err(io::Error::other("no child")) };
        let sent = writeln!(input, "{request}").and_then(|()| input.flush());
        let line = sent
            .map_or(Err(RecvTimeoutError::Disconnected), |()| answers.recv_timeout(Duration::from_secs_f64(seconds)));
        let ended = match line {
            Ok(line) => match line.split_once(' ').unwrap_or((&line, "")) {
                ("ok", counters) => return Ok(Ended::Well(Counters::parse(counters))),
                (_, text) => Ended::Badly(text.to_owned()),
            },
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                Ended::Badly(format!("it hangs: no end after {seconds:.0} s"))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                let errors = std::fs::read_to_string(self.dir.path().join("errors")).unwrap_or_default();
                let last: Vec<&str> = errors.lines().rev().take(3).collect();
                Ended::Badly(format!("the process died: {status}: {}", last.join(" | ")))
            }
        };
        // After a failure nothing in the child is to be trusted.
        if let Some((mut child, ..)) = self.child.take() {
            let _ = child.kill();
            child.wait()?;
        }
        Ok(ended)
    }

    /// A run of a seed.
    ///
    /// # Errors
    /// If there is no child to ask.
    pub fn seed(&mut self, mode: &str, seed: u64) -> io::Result<Ended> {
        let request = format!("seed {mode} {seed} {}", self.journal().display());
        let patience =
            if matches!(mode, "resp" | "http" | "transfers") { SERVER_PATIENCE_SECONDS } else { PATIENCE_SECONDS };
        self.ask(&request, self.options.run_seconds + patience)
    }

    /// A run of a script.
    ///
    /// # Errors
    /// If there is no child to ask.
    pub fn script(&mut self, script: &Script, seconds: f64) -> io::Result<Ended> {
        let path = self.dir.path().join("script");
        write_file(&path, &script.to_string())?;
        let request = format!("script {} {} {}", script.mode, path.display(), self.dir.path().join("again").display());
        self.ask(&request, seconds)
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        if let Some((mut child, ..)) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Storms. Whether nothing was found.
///
/// # Errors
/// If a child cannot be started, or a file not be written.
pub fn run(options: &Options, program: &Program) -> io::Result<bool> {
    let mut runner = Runner::new(program, options)?;
    if let Some(path) = &options.script {
        let script = Script::parse(&std::fs::read_to_string(path)?);
        return Ok(match runner.script(&script, PATIENCE_SECONDS)? {
            Ended::Well(counters) => {
                println!("storm: {} ok: {counters}", path.display());
                true
            }
            Ended::Badly(text) => {
                println!("storm: {} FAILED: {text}", path.display());
                false
            }
        });
    }
    let modes: Vec<&str> =
        if options.only.is_empty() { MODES.to_vec() } else { options.only.iter().map(String::as_str).collect() };
    let first = options.seed.unwrap_or_else(fresh_seed);
    let rounds = options.runs.or(options.seed.map(|_| 1));
    let deadline = match rounds {
        Some(_) => Deadline::never(),
        None => Deadline::after(Duration::from_secs_f64(options.minutes * 60.0)),
    };
    let mut tallies: BTreeMap<&str, (u64, u64, f64, Counters)> = BTreeMap::new();
    let mut found = 0;
    'rounds: for round in 0..rounds.unwrap_or(u64::MAX) {
        for mode in &modes {
            if deadline.passed() {
                break 'rounds;
            }
            let seed = first + round;
            print!("storm: {mode} seed {seed} ... ");
            io::stdout().flush()?;
            let watch = Stopwatch::start();
            let ended = runner.seed(mode, seed)?;
            let (runs, failures, seconds, counters) = tallies.entry(mode).or_default();
            *runs += 1;
            *seconds += watch.seconds();
            match ended {
                Ended::Well(own) => {
                    println!("ok  {own}");
                    counters.add(&own);
                }
                Ended::Badly(text) => {
                    *failures += 1;
                    found += 1;
                    println!("FAILED after {:.1} s\n  {text}", watch.seconds());
                    tell(&mut runner, options, mode, seed, &text)?;
                    if !options.keep_going {
                        break 'rounds;
                    }
                }
            }
        }
    }
    println!();
    for (mode, (runs, failures, seconds, counters)) in tallies {
        println!("storm: {mode}: {runs} runs in {seconds:.0} s, {failures} failed; {counters}");
    }
    Ok(found == 0)
}

/// Shrinks what failed, and says how to do it again.
fn tell(runner: &mut Runner<'_>, options: &Options, mode: &str, seed: u64, text: &str) -> io::Result<()> {
    println!("  again: quipu storm --only {mode} --seed {seed}");
    let script = Script::parse(&std::fs::read_to_string(runner.journal()).unwrap_or_default());
    if script.steps.is_empty() {
        return Ok(());
    }
    let script = if options.no_shrink {
        script
    } else {
        let deadline = Deadline::after(Duration::from_secs_f64(SHRINK_SECONDS));
        let before = script.steps.len();
        let shrunk = shrink(script, text, TRIALS, &mut |script| match deadline.passed() {
            true => None,
            false => match runner.script(script, 10.0) {
                Ok(Ended::Badly(text)) => Some(text),
                _ => None,
            },
        });
        println!("  shrunk from {before} to {} steps:", shrunk.steps.len());
        shrunk
    };
    std::fs::create_dir_all(&options.found)?;
    let path = options.found.join(format!("{mode}-{seed}.storm"));
    write_file(&path, &format!("# {text}\n{script}"))?;
    for step in script.steps.iter().take(40) {
        let line = step.to_string();
        println!(
            "    {}",
            if line.len() > 200 { format!("{}...", line.chars().take(200).collect::<String>()) } else { line }
        );
    }
    println!("  again: quipu storm --script {}", path.display());
    Ok(())
}
