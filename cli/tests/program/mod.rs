//! Runs the program in a directory of its own.
#![allow(clippy::disallowed_methods, reason = "files of the test, not of a database")]

#[cfg(feature = "server")]
mod server;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

#[cfg(feature = "server")]
pub(crate) use server::{Server, free_port, started};

/// An empty directory in which the program runs.
pub(crate) struct Place(tempfile::TempDir);

/// What a run left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn read_bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Runs the program with the words of `line` as arguments; a word in single quotes may have blanks.
    ///
    /// A program that another test starts holds the lock of a database that is open here, from its fork to its exec. So
    /// one that finds the database open tries a few times more.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        let mut outcome = self.run_with(line, "");
        for _ in 0..10 {
            if !outcome.err.contains("open in another process") {
                break;
            }
            outcome = self.run_with(line, "");
        }
        outcome
    }

    /// The same with `input` on standard input.
    pub(crate) fn run_with(&self, line: &str, input: impl AsRef<[u8]>) -> Outcome {
        let quoted = line.split('\'').enumerate();
        let arguments: Vec<&str> = quoted
            .flat_map(|(place, part)| if place % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
            .collect();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        let output = child.wait_with_output().unwrap();
        Outcome {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the program, reads so many bytes of what it prints, and closes the pipe.
    pub(crate) fn run_and_leave(&self, line: &str, bytes: usize) -> (String, Outcome) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = vec![0; bytes];
        child.stdout.take().unwrap().read_exact(&mut out).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let outcome = Outcome { code: output.status.code(), out: String::new(), err };
        (String::from_utf8(out).unwrap(), outcome)
    }

    /// What a run that must succeed prints.
    pub(crate) fn out(&self, line: &str) -> String {
        self.run(line).success()
    }

    /// What the shell answers to one command, in JSON.
    pub(crate) fn ask(&self, data: &str, table: &str, command: &str) -> serde_json::Value {
        let out = self.out(&format!("shell --data {data} --table {table} --json -c '{command}'"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

/// The program while it runs a script, which does not end.
pub(crate) struct Running {
    child: Child,
    input: ChildStdin,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// Begins to run it with these arguments.
    pub(crate) fn begin(place: &Place, arguments: &[&str], script: &str) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(arguments)
            .current_dir(place.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(script.as_bytes()).unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, input, out }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// What Ctrl-C does; then the exit code, and the rest of what it prints.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String, String) {
        // Until the command runs the signal ends the program, and it is a moment until another thread has taken it.
        std::thread::sleep(Duration::from_millis(500));
        assert!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(500));
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        drop(self.input);
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Outcome {
    /// What it printed, if it succeeded.
    pub(crate) fn success(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// What it complained about, if it failed as programs do.
    pub(crate) fn failure(self) -> String {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.err);
        self.err
    }
}
