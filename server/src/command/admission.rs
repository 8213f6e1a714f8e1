//! Decides whether a client may give a command now: by its words, the client's rights, free memory and transactions.
//!
//! Not here: what each user may do ([`crate::users`]), and protected mode, which is checked when a client connects.

use std::sync::atomic::Ordering;

use crate::facts::{Flags, Spec};
use crate::resp::word::{SHOWN_BYTES_MAX, shown};
use crate::state::protection;
use crate::state::refusal::{self, Refusal};
use crate::state::server::Server;
use crate::state::session::{Queue, ReplyMode, Session};
use crate::users::Denied;
use crate::users::refusals::Reason;

/// Whether the commands of a client may be run many at once: it wants all answers, is inside no transaction, and no
/// client looks on.
pub fn takes_runs(server: &Server, session: &Session) -> bool {
    let slow_us = server.config.parameters.slow_us.load(Ordering::Relaxed);
    session.queue.is_none()
        && session.is_authenticated
        && session.user.may_do_everything()
        && slow_us != 0
        && !server.clients.has_monitors()
        && server.clients.paused_until_ms() == 0
        && !server.is_full()
        && !server.has_failed_log()
        && server.cluster.get().is_none()
        && session.reply_mode == ReplyMode::On
        && !session.is_monitor
}

/// Whether a client may give this command with these words. Returns the line of the subcommand where there is one.
pub fn admit(
    server: &Server,
    session: &Session,
    spec: Option<&'static Spec>,
    args: &[&[u8]],
) -> Result<&'static Spec, Refusal> {
    let Some(mut spec) = spec else { return Err(unknown_command(args)) };
    if !spec.subcommands.is_empty() && args.len() > 1 {
        let name = args[1];
        spec = spec.subcommands.iter().find(|sub| sub.is_named(name)).ok_or_else(|| {
            let rest = format!("'. Try {} HELP.", spec.name.to_uppercase());
            Refusal::quoting("ERR unknown subcommand '", name, &rest)
        })?;
    }
    if !spec.takes(args.len()) {
        return Err(Refusal::new(format!("ERR wrong number of arguments for '{}' command", spec.name)));
    }
    if !session.is_authenticated && !spec.flags.has(Flags::NO_AUTH) {
        return Err(refusal::text("NOAUTH Authentication required."));
    }
    if !session.user.may_do_everything() {
        check_rules(server, session, spec, args)?;
    }
    if server.cluster.get().is_some() {
        super::replicated::check(session, spec, args)?;
    }
    if spec.name.starts_with("debug") && !may_debug(server, session) {
        return Err(refusal::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
             from a local connection, otherwise you need to set this option in the configuration file, and then \
             restart the server.",
        ));
    }
    // A transaction that would take memory is refused as a whole.
    let takes_memory = spec.flags.has(Flags::DENY_OOM)
        || spec.name == "exec" && session.queue.as_ref().is_some_and(Queue::takes_memory);
    if takes_memory && server.is_full() {
        return Err(refusal::text("OOM command not allowed when used memory > 'maxmemory'."));
    }
    Ok(spec)
}

/// Whether `enable-debug-command` lets a client use `DEBUG`.
fn may_debug(server: &Server, session: &Session) -> bool {
    match server.config.parameters.get("enable-debug-command").as_deref() {
        Some("yes") => true,
        Some("local") => session.client.is_local || protection::is_loopback_of(&session.client.address),
        _ => false,
    }
}

fn check_rules(server: &Server, session: &Session, spec: &'static Spec, args: &[&[u8]]) -> Result<(), Refusal> {
    let Err(denied) = session.user.may(spec, args) else { return Ok(()) };
    // What is noted of the client names this command, and not the one before.
    session.client.command.store(u32::from(spec.number), Ordering::Relaxed);
    Err(match denied {
        Denied::Command => {
            server.note_denied(session, Reason::Command, spec.name.as_bytes(), &session.user.name);
            Refusal::new(format!("NOPERM this user has no permissions to run the '{}' command", spec.name))
        }
        Denied::Key { key, .. } => {
            server.note_denied(session, Reason::Key, &key, &session.user.name);
            refusal::text("NOPERM this user has no permissions to access one of the keys used as arguments")
        }
    })
}

/// Whether a command that was queued may still be given.
pub fn admit_queued(session: &Session, spec: &'static Spec, args: &[&[u8]]) -> Result<(), Refusal> {
    let reason = match session.user.may(spec, args) {
        Ok(()) => return Ok(()),
        Err(Denied::Command) => "no permission to execute the command or subcommand",
        Err(Denied::Key { .. }) => "no permission to touch the specified keys",
    };
    Err(Refusal::new(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
         This command is no longer allowed for the following reason: {reason}"
    )))
}

/// Whether a command may run inside a hold that is there already.
pub fn check_inside(spec: &'static Spec) -> Result<(), Refusal> {
    if spec.flags.has(Flags::ALONE) && !spec.flags.has(Flags::INSIDE_TOO) {
        return Err(refusal::text("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

fn unknown_command(args: &[&[u8]]) -> Refusal {
    let mut words = Vec::new();
    for word in &args[1..] {
        if words.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let cut = shown(word, SHOWN_BYTES_MAX - words.len());
        words.push(b'\'');
        words.extend_from_slice(cut);
        words.extend_from_slice(b"' ");
    }
    let name = shown(args[0], SHOWN_BYTES_MAX);
    Refusal::Bytes([&b"ERR unknown command '"[..], name, b"', with args beginning with: ", &words].concat())
}
