//! The output of results: standard output, or a program that shows pages if there is more than a screen of them.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::termios::tcgetwinsize;

use crate::interrupts::Interrupts;

/// The program that shows pages if PAGER names none.
const PAGER: &str = "less";
/// How it does so if LESS does not say: colours, an end after the first screen, long lines cut, the screen left alone.
const LESS: &str = "FRSX";

/// The output of one statement or command.
pub(super) struct Pages {
    plain: BufWriter<Stdout>,
    /// How many lines the screen has; none if it is not asked.
    height: Option<usize>,
    /// The first screen, until it is full.
    held: Vec<u8>,
    lines: usize,
    pager: Option<(Child, BufWriter<ChildStdin>)>,
    has_left: bool,
    interrupts: Interrupts,
}

impl Pages {
    /// With pages only if a person is there to turn them.
    pub(super) fn new(is_interactive: bool, interrupts: &Interrupts) -> Pages {
        let stdout = io::stdout();
        let height = (is_interactive && stdout.is_terminal()).then(|| tcgetwinsize(&stdout).ok()).flatten();
        Pages {
            height: height.map(|size| usize::from(size.ws_row)).filter(|&rows| rows > 0),
            plain: BufWriter::with_capacity(64 << 10, stdout),
            held: Vec::new(),
            lines: 0,
            pager: None,
            has_left: false,
            interrupts: interrupts.clone(),
        }
    }

    /// Whether the person has seen enough.
    pub(super) fn has_left(&self) -> bool {
        self.has_left
    }

    /// Writes what is held, and waits for the person to have read it.
    pub(super) fn end(mut self) -> io::Result<()> {
        match self.pager.take() {
            Some((mut child, mut input)) => {
                // One that was left takes no more.
                let _ = input.flush();
                drop(input);
                self.interrupts.while_left(|| child.wait()).map(drop)
            }
            None => {
                self.plain.write_all(&self.held)?;
                self.plain.flush()
            }
        }
    }

    fn start_pager(&mut self) -> io::Result<()> {
        let program = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
        let mut command = Command::new("sh");
        command.arg("-c").arg(program.as_deref().unwrap_or(PAGER)).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        let mut child = command.spawn()?;
        let Some(input) = child.stdin.take() else { return Ok(()) };
        self.pager = Some((child, BufWriter::new(input)));
        Ok(())
    }

    fn write_to_pager(&mut self, bytes: &[u8]) {
        if let Some((_, input)) = &mut self.pager {
            self.has_left |= input.write_all(bytes).is_err();
        }
    }
}

impl Write for Pages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(height) = self.height else { return self.plain.write(bytes) };
        if self.pager.is_some() {
            self.write_to_pager(bytes);
            return Ok(bytes.len());
        }
        self.held.extend_from_slice(bytes);
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
        if self.lines >= height {
            match self.start_pager() {
                Ok(()) => {
                    let held = std::mem::take(&mut self.held);
                    self.write_to_pager(&held);
                }
                // Without such a program all goes to the screen.
                Err(_) => {
                    self.height = None;
                    self.plain.write_all(&std::mem::take(&mut self.held))?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.height {
            None => self.plain.flush(),
            Some(_) => Ok(()),
        }
    }
}
