//! Runs one command, so that a panic in it harms only its client.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::command::{Call, CommandResult, refusal};
use crate::facts::{Flags, Spec};
use crate::keyspace::Need;
use crate::state::server::Server;
use crate::state::session::Session;

/// What a command needs of the data.
pub(super) fn need_of(spec: &Spec) -> Need {
    let flags = spec.flags;
    if flags.has(Flags::ALONE) {
        Need::Nothing
    } else if flags.has(Flags::FREES) {
        Need::Removal
    } else if flags.has(Flags::WRITE) {
        Need::Write
    } else {
        Need::Read
    }
}

/// What a command of this client needs of the data: `EXEC` what the commands need that it runs.
pub(super) fn need_in(session: &Session, spec: &Spec) -> Need {
    match &session.queue {
        Some(queue) if is_exec(spec) => {
            let needs = queue.commands.iter().filter(|_| !queue.failed).map(|(spec, _)| need_of(spec));
            needs.max().unwrap_or(Need::Nothing).max(Need::Read)
        }
        _ => need_of(spec),
    }
}

/// Whether it is `EXEC`.
#[inline]
pub(super) fn is_exec(spec: &Spec) -> bool {
    spec.flags.has(Flags::RUNS_QUEUE)
}

/// Runs a command.
pub(super) fn run(call: &mut Call<'_, '_>) -> CommandResult {
    let run = call.handlers.of(call.spec).run;
    guard(call.server, call.spec, || run(call))
}

/// Runs a command, or several that are alike. Should it panic, which is a defect, its client is told so and all others
/// go on.
pub(super) fn guard(server: &Server, spec: &'static Spec, run: impl FnOnce() -> CommandResult) -> CommandResult {
    // What the command had borrowed is whole, or taken back by the caller as after a refusal.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        server.log(format_args!("the command {:?} panicked; please report it with the lines above", spec.name));
        Err(refusal::text("ERR internal error: the command failed; the server's log has the details"))
    })
}
