//! `HELP` of every command that has subcommands, made from the table of commands.

use super::{Call, CommandResult, find, refusal};

/// Lists the subcommands of the command, with what each does. Also what a command does that is never run without a
/// subcommand.
pub(super) fn run(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(spec) = find(call.args[0]) else { return Err(refusal::SYNTAX) };
    let name = spec.name.to_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for sub in spec.subcommands {
        let word = sub.name.rsplit('|').next().unwrap_or_default().to_uppercase();
        lines.push(format!("{word} {}", sub.syntax).trim_end().to_owned());
        lines.push(format!("    {}", sub.summary));
    }
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}
