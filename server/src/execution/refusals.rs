//! The answers of commands that are not run: not admitted, failed, or queued for `EXEC`.

use crate::command::Refusal;
use crate::command::admission::{admit, check_inside};
use crate::execution::single::is_exec;
use crate::facts::{Flags, Spec};
use crate::resp::reply::Reply;
use crate::resp::word::is_word;
use crate::state::server::Server;
use crate::state::session::{Queue, ReplyMode, Session};

/// Whether a browser was talked into sending commands: as Redis does, it is cut off before the body.
fn is_browser(args: &[&[u8]]) -> bool {
    is_word(args[0], "post") || is_word(args[0], "host:")
}

/// Takes an answer back that the client does not want.
pub(super) fn silence(session: &Session, reply: &mut Reply, mark: usize) {
    if matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip) {
        reply.bytes.truncate(mark);
    }
}

/// The facts of a command that may be run; `None` if it may not, which was answered.
#[inline]
pub(super) fn admit_or_answer(
    server: &Server,
    session: &mut Session,
    spec: Option<&'static Spec>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Option<&'static Spec> {
    if spec.is_none() && is_browser(args) {
        server.log_client(session, format_args!("it speaks HTTP at the port for Redis clients: closed"));
        session.closing = true;
        return None;
    }
    match admit(server, session, spec, args) {
        Ok(spec) => Some(spec),
        Err(refusal) => {
            let mark = reply.bytes.len();
            refuse(server, session, spec, &refusal, reply);
            silence(session, reply, mark);
            None
        }
    }
}

/// Answers a command that was not admitted.
fn refuse(server: &Server, session: &mut Session, spec: Option<&'static Spec>, refusal: &Refusal, reply: &mut Reply) {
    if let Some(queue) = &mut session.queue {
        queue.failed = true;
    }
    if spec.is_some_and(is_exec) {
        // A malformed EXEC ends the transaction all the same.
        session.leave_transaction();
        let text = refusal.reply_text();
        let why = text.strip_prefix("ERR ").unwrap_or(&text);
        reply.error(format!("EXECABORT Transaction discarded because of: {why}"));
    } else {
        reply.error(refusal.reply_bytes());
    }
    server.statistics.note_refusal();
    server.statistics.note_error(&refusal.reply_text());
    spec.into_iter().for_each(|spec| server.statistics.note_rejected(spec));
}

/// Answers a command that failed.
pub(super) fn fail(server: &Server, session: &mut Session, spec: &'static Spec, refusal: &Refusal, reply: &mut Reply) {
    reply.error(refusal.reply_bytes());
    server.statistics.note_failure(spec);
    server.statistics.note_error(&refusal.reply_text());
    // What is not here, or has no table to work on, was not queued, so EXEC must not run the others.
    if let Some(queue) = session.queue.as_mut().filter(|_| !spec.flags.has(Flags::NO_QUEUE)) {
        queue.failed = true;
    }
}

pub(super) fn enqueue(queue: &mut Queue, spec: &'static Spec, args: &[&[u8]], server: &Server, reply: &mut Reply) {
    if spec.flags.has(Flags::NO_MULTI) || check_inside(spec).is_err() {
        queue.failed = true;
        reply.error("ERR Command not allowed inside a transaction");
        return;
    }
    let bytes: usize = args.iter().map(|word| word.len()).sum();
    queue.bytes += bytes;
    if queue.bytes > server.config.queue_bytes_max() {
        queue.failed = true;
        reply.error("ERR the transaction is too large; send it in parts, or raise client-query-buffer-limit");
        return;
    }
    queue.commands.push((spec, args.iter().map(|word| word.to_vec()).collect()));
    reply.simple("QUEUED");
}
