//! Commands of the shell, which begin with a backslash.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::backend::Ended;
use super::commands::COMMANDS;
use super::copying::Copying;
use super::describe;
use super::files;
use super::row_formats::{Format, Frame};
use super::session::{Flow, Shell};
use super::source::{Script, Source};
use super::splitter::Splitter;
use crate::failure::{Failure, Result};

/// Scripts within scripts, at most.
const SCRIPTS_MAX: usize = 16;

/// Runs a command. `splitter` has the statement that stands before it.
pub(super) fn run(shell: &mut Shell, text: &str, splitter: &mut Splitter, source: &mut dyn Source) -> Result<Flow> {
    let (name, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let rest = rest.trim();
    // `psql` takes a semicolon after a command, out of habit.
    let argument = rest.trim_end_matches(';').trim_end();
    let pattern = (!argument.is_empty()).then_some(argument);
    if restrict(shell, name, argument)? {
        return Ok(Flow::GoOn);
    }
    match name.trim_end_matches(';') {
        "\\q" | "\\quit" => return Ok(Flow::Quit),
        "\\?" | "\\h" | "\\help" => help(shell)?,
        "\\d" | "\\d+" => match pattern {
            Some(pattern) => describe_all(shell, pattern, name.ends_with('+'))?,
            None => list(shell, "relations", &describe::relations("rpvmS", None))?,
        },
        "\\dt" | "\\dt+" => list(shell, "relations", &describe::relations("rp", pattern))?,
        "\\di" | "\\di+" => list(shell, "relations", &describe::relations("i", pattern))?,
        "\\dv" | "\\dv+" => list(shell, "relations", &describe::relations("v", pattern))?,
        "\\dm" | "\\dm+" => list(shell, "relations", &describe::relations("m", pattern))?,
        "\\ds" | "\\ds+" => list(shell, "relations", &describe::relations("S", pattern))?,
        "\\dn" | "\\dn+" => list(shell, "schemas", describe::SCHEMAS)?,
        "\\du" | "\\du+" | "\\dg" => list(shell, "roles", describe::ROLES)?,
        "\\l" | "\\l+" => list(shell, "databases", describe::DATABASES)?,
        "\\x" if matches!(shell.format, Format::Csv | Format::Json) => {
            return Err(Failure::new("\\x is for rows in columns, not for CSV or JSON"));
        }
        "\\x" => {
            let is_on = switch(name, argument, shell.format == Format::Expanded)?;
            shell.format = if is_on { Format::Expanded } else { Format::Aligned };
            shell.say(&format!("Expanded display is {}.", on_or_off(is_on)))?;
        }
        "\\timing" => {
            shell.timing = switch(name, argument, shell.timing)?;
            shell.say(&format!("Timing is {}.", on_or_off(shell.timing)))?;
        }
        "\\g" | "\\gx" => {
            let format = if name == "\\gx" { Format::Expanded } else { shell.format };
            let (text, line) = match splitter.take() {
                (text, _) if text.is_empty() => (shell.last.clone(), 1),
                taken => taken,
            };
            return shell.statement(&text, line, format, source);
        }
        "\\i" | "\\include" => return include(shell, name, argument),
        "\\copy" => {
            let copying = Copying::parse(rest)?;
            return shell.copy(&copying, source);
        }
        "\\e" | "\\edit" => edit(shell, argument, splitter)?,
        "\\p" => {
            let text = match splitter.pending() {
                "" => shell.last.clone(),
                text => text.to_owned(),
            };
            shell.say(&text)?;
        }
        "\\r" => {
            splitter.take();
            shell.say("The statement is forgotten.")?;
        }
        "\\echo" => shell.print(&rest.replace('\'', ""))?,
        "\\conninfo" => {
            let text = format!("{}, database \"{}\"", shell.backend.title(), shell.backend.database());
            shell.print(&text)?;
        }
        "\\!" => {
            let status = shell.interrupts.while_left(|| Command::new("sh").arg("-c").arg(rest).status());
            status.map_err(|error| Failure::new(format!("\\!: cannot run a command of the system: {error}")))?;
        }
        other => return Err(Failure::new(format!("unknown command {other}; \\? lists those there are"))),
    }
    Ok(Flow::GoOn)
}

/// Takes `\restrict` and `\unrestrict`, between which no other command is taken: a dump whose values have commands in
/// them cannot have these run. Returns whether it was one of them.
fn restrict(shell: &mut Shell, name: &str, argument: &str) -> Result<bool> {
    let refused = |text: &str| Err(Failure::new(text));
    match (&shell.restricted_by, name) {
        (Some(key), "\\unrestrict") if key == argument => shell.restricted_by = None,
        (Some(_), "\\unrestrict") => return refused("\\unrestrict: this is not the key of \\restrict"),
        (Some(_), _) => {
            return refused(&format!("{name} is refused: no command is taken between \\restrict and \\unrestrict"));
        }
        (None, "\\restrict") if !argument.is_empty() => shell.restricted_by = Some(argument.to_owned()),
        (None, "\\restrict") => return refused("\\restrict needs a key"),
        (None, "\\unrestrict") => return refused("\\unrestrict: there was no \\restrict"),
        (None, _) => return Ok(false),
    }
    Ok(true)
}

/// Runs the statements and commands of a file.
fn include(shell: &mut Shell, name: &str, argument: &str) -> Result<Flow> {
    let path = file_argument(name, argument)?;
    if shell.depth >= SCRIPTS_MAX {
        return Err(Failure::new(format!("{name}: scripts within {SCRIPTS_MAX} scripts")));
    }
    let mut script = Script::open(&path)?;
    shell.depth += 1;
    let flow = shell.run(&mut script);
    shell.depth -= 1;
    // The end of a script is not that of the shell, unless an error ends all.
    flow.map(|flow| if flow == Flow::Quit { Flow::GoOn } else { flow })
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// What an argument makes of a switch; without one it turns.
fn switch(name: &str, argument: &str, is_on: bool) -> Result<bool> {
    match argument.to_lowercase().as_str() {
        "" => Ok(!is_on),
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        other => Err(Failure::new(format!("{name} takes on or off, not {other}"))),
    }
}

/// A file that is named, in quotes or without.
fn file_argument(name: &str, argument: &str) -> Result<PathBuf> {
    let unquoted = argument.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(argument);
    match unquoted {
        "" => Err(Failure::new(format!("{name} needs the name of a file"))),
        path => Ok(PathBuf::from(path)),
    }
}

fn help(shell: &mut Shell) -> Result<()> {
    let widths = COMMANDS.iter().map(|(name, arguments, _)| name.len() + arguments.len() + 1);
    let width = widths.max().unwrap_or(0);
    let line = |(name, arguments, what): &(&str, &str, &str)| {
        let call = format!("{name} {arguments}");
        format!("  {call:<width$}  {what}\n")
    };
    let list: String = COMMANDS.iter().map(line).collect();
    let head =
        "A statement ends with a semicolon, and may have many lines. Tab completes names; Ctrl-C stops a statement.";
    shell.print(&format!("{head}\n\n{list}\nA PATTERN is a name, with * for any text: \\dt air*"))
}

fn list(shell: &mut Shell, what: &str, question: &str) -> Result<()> {
    shell.question(question, Frame { title: Some(format!("List of {what}")), is_open: false })
}

fn describe_all(shell: &mut Shell, pattern: &str, is_long: bool) -> Result<()> {
    let found = shell.answered(|backend| describe::find(backend, pattern))?;
    if found.is_empty() {
        return Err(Failure::new(format!("Did not find any relation named \"{pattern}\".")));
    }
    for relation in found {
        let frame = Frame { title: Some(relation.heading()), is_open: true };
        shell.question(&relation.columns(), frame)?;
        let footer = shell.answered(|backend| relation.footer(backend, is_long))?;
        shell.say(&footer.into_iter().map(|line| line + "\n").collect::<String>())?;
    }
    Ok(())
}

/// Has a statement, or a file, written in the person's editor.
fn edit(shell: &mut Shell, argument: &str, splitter: &mut Splitter) -> Result<()> {
    let failed = |error: std::io::Error| Failure::new(format!("\\e: {error}"));
    let mut own = tempfile::Builder::new().prefix("quipu-").suffix(".sql").tempfile().map_err(failed)?;
    let text = match splitter.pending() {
        "" => shell.last.clone(),
        text => text.to_owned(),
    };
    writeln!(own, "{text}").map_err(failed)?;
    let path = if argument.is_empty() { own.path().to_owned() } else { file_argument("\\e", argument)? };
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let call = format!("{editor} \"$0\"");
    let status = shell.interrupts.while_left(|| Command::new("sh").arg("-c").arg(call).arg(&path).status());
    if !status.map_err(failed)?.success() {
        return Err(Failure::new(format!("\\e: {editor} has failed; the statement is what it was")));
    }
    let text = read(&path)?;
    shell.say(text.trim_end())?;
    splitter.replace(text.trim_end());
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = std::io::Read::read_to_string(&mut files::open(path)?, &mut text);
    read.map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    Ok(text)
}

impl Shell {
    /// What a question of the shell itself answers.
    fn answered<T>(&mut self, ask: impl FnOnce(&mut dyn super::backend::Backend) -> Result<T, Ended>) -> Result<T> {
        ask(&mut *self.backend).map_err(|ended| match ended {
            Ended::Refused(report) => Failure::new(report.message),
            Ended::Lost(failure) => failure,
        })
    }
}
