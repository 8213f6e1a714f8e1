//! Commands that keep a server going: checkpoints, backups, shutting down, its role, the time.
//!
//! Differences from Redis: where Redis writes a file of all data, or a new log, Quipu makes a checkpoint of the tables
//! that have changed; every write is already in the log. There is no replication of this kind, so a server is always a
//! master without replicas, `WAIT` answers 0 at once, and a client that asks for a stream of changes is refused. On a
//! node of a cluster each write is on `ack` nodes when it is answered, so `WAIT` answers one less, at once. `WAITAOF`
//! answers when the log is on stable storage, whatever `durability` says, and knows of no other log. `DEBUG` has what
//! tests use, for clients that `enable-debug-command` allows to use it.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::replicated::confirmations;
use super::{Call, CommandResult, Handler, Refusal, help, is_word, refusal};
use crate::resp::number::{parse_f64, parse_i64};
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("time", time),
    Handler::new("lastsave", last_save),
    Handler::new("save", save),
    Handler::new("bgsave", background_save),
    Handler::new("bgrewriteaof", rewrite_log),
    Handler::new("q.backup", back_up),
    Handler::new("shutdown", shutdown),
    Handler::new("role", role),
    Handler::new("replicaof", replica_of),
    Handler::new("slaveof", replica_of),
    Handler::new("sync", no_stream),
    Handler::new("psync", no_stream),
    Handler::new("replconf", no_stream),
    Handler::new("failover", failover),
    Handler::new("wait", wait),
    Handler::new("waitaof", wait_for_log),
    Handler::new("debug", help::run),
    Handler::new("debug|help", help::run),
    Handler::new("debug|sleep", sleep),
    Handler::new("debug|object", object),
    Handler::new("debug|set-active-expire", fine),
    Handler::new("debug|reload", reload),
    Handler::new("debug|loadaof", fine),
    Handler::new("debug|jmap", fine),
    Handler::new("debug|quicklist-packed-threshold", fine),
    Handler::new("debug|change-repl-id", fine),
    Handler::new("debug|dict-resizing", fine),
];

fn time(call: &mut Call<'_, '_>) -> CommandResult {
    let us = clock::now_us();
    call.reply.array(2);
    call.reply.integer_bulk((us / 1_000_000) as i64);
    call.reply.integer_bulk((us % 1_000_000) as i64);
    Ok(())
}

fn last_save(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.integer((call.server.saves.last_ms.load(Ordering::Relaxed) / 1000) as i64);
    Ok(())
}

/// Changes of keys so far.
fn changes(call: &Call<'_, '_>) -> u64 {
    call.server.keyspace.counters.changes.load(Ordering::Relaxed)
}

fn save(call: &mut Call<'_, '_>) -> CommandResult {
    match call.server.saves.run(call.server.keyspace.db(), changes(call)) {
        None => return Err(refusal::text("ERR Background save already in progress")),
        Some(result) => result?,
    }
    call.reply.ok();
    Ok(())
}

fn background_save(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args {
        [_] => {}
        [_, word] if is_word(word, "schedule") => {}
        _ => return Err(refusal::SYNTAX),
    }
    if !call.server.saves.start(call.server.keyspace.db(), changes(call)) {
        return Err(refusal::text("ERR Background save already in progress"));
    }
    call.reply.simple("Background saving started");
    Ok(())
}

fn back_up(call: &mut Call<'_, '_>) -> CommandResult {
    let path = std::str::from_utf8(call.args[1]).ok().map(Path::new).filter(|path| path.is_absolute());
    // What a relative one is relative to, the client does not know.
    let Some(path) = path else { return Err(refusal::text("ERR the directory must be an absolute path")) };
    let info = call.server.keyspace.db().backup(path)?;
    call.server.log_client(call.session, format_args!("has the database copied to {}", path.display()));
    call.reply.simple(&format!("commit {}, {} bytes", info.sequence, info.bytes));
    Ok(())
}

fn rewrite_log(call: &mut Call<'_, '_>) -> CommandResult {
    if !call.server.saves.start(call.server.keyspace.db(), changes(call)) {
        return Err(refusal::text("ERR Background append only file rewriting already in progress"));
    }
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn shutdown(call: &mut Call<'_, '_>) -> CommandResult {
    let (mut without_checkpoint, mut with_checkpoint, mut aborts, mut others) = (false, false, false, false);
    for word in &call.args[1..] {
        match word {
            word if is_word(word, "nosave") => without_checkpoint = true,
            word if is_word(word, "save") => with_checkpoint = true,
            word if is_word(word, "now") || is_word(word, "force") => others = true,
            word if is_word(word, "abort") => aborts = true,
            _ => return Err(refusal::SYNTAX),
        }
    }
    if (without_checkpoint && with_checkpoint) || (aborts && (others || without_checkpoint || with_checkpoint)) {
        return Err(refusal::SYNTAX);
    }
    if aborts {
        return Err(refusal::text("ERR No shutdown in progress."));
    }
    call.server.log_client(call.session, format_args!("asks the server to end"));
    call.server.stops_without_checkpoint.store(without_checkpoint, Ordering::Release);
    call.session.closing = true;
    call.server.stop();
    Ok(())
}

fn role(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn replica_of(call: &mut Call<'_, '_>) -> CommandResult {
    if is_word(call.args[1], "no") && is_word(call.args[2], "one") {
        call.reply.ok();
        return Ok(());
    }
    match parse_i64(call.args[2]) {
        Some(0..=65535) => {
            Err(refusal::text("ERR this server follows no other; nodes of a cluster copy keys over HTTP"))
        }
        _ => Err(refusal::text("ERR Invalid master port")),
    }
}

fn no_stream(call: &mut Call<'_, '_>) -> CommandResult {
    Err(Refusal::new(format!(
        "ERR {}: this server has no replicas that follow a stream",
        call.spec.name.to_uppercase()
    )))
}

fn failover(_: &mut Call<'_, '_>) -> CommandResult {
    Err(refusal::text("ERR FAILOVER requires connected replicas."))
}

/// A timeout in milliseconds, checked.
fn check_timeout(call: &Call<'_, '_>, place: usize) -> CommandResult {
    let timeout = parse_i64(call.args[place]).ok_or(refusal::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 { Err(refusal::text("ERR timeout is negative")) } else { Ok(()) }
}

fn wait(call: &mut Call<'_, '_>) -> CommandResult {
    call.integer(1)?;
    check_timeout(call, 2)?;
    let confirmed = call.server.cluster.get().map_or(0, |cluster| confirmations(cluster, call.session));
    call.reply.integer(confirmed);
    Ok(())
}

fn wait_for_log(call: &mut Call<'_, '_>) -> CommandResult {
    let local = call.integer(1)?;
    let replicas = call.integer(2)?;
    check_timeout(call, 3)?;
    if !(0..=1).contains(&local) {
        return Err(refusal::text("ERR value is out of range, must be between 0 and 1"));
    }
    if replicas < 0 {
        return Err(refusal::text("ERR value is out of range, must be positive"));
    }
    call.server.keyspace.db().sync()?;
    call.reply.array(2);
    call.reply.integer(1);
    call.reply.integer(0);
    Ok(())
}

fn sleep(call: &mut Call<'_, '_>) -> CommandResult {
    let seconds = parse_f64(call.args[2]).filter(|seconds| seconds.is_finite()).ok_or(refusal::NOT_FLOAT)?;
    // Ends early if the server does.
    call.server.wait_for_stop_until(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0)));
    call.reply.ok();
    Ok(())
}

fn reload(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.keyspace.db().checkpoint()?;
    call.reply.ok();
    Ok(())
}

fn fine(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

fn object(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.args[2];
    let Some(entry) = call.data.entry(call.database(), key)? else { return Err(refusal::NO_KEY) };
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:0 lru_seconds_idle:0",
        entry.header.kind.name(),
        entry.length()
    );
    call.reply.simple(&text);
    Ok(())
}
