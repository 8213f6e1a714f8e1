//! What keeps a server going: checkpoints, its end, its role, time.
//!
//! Differences from Redis: what Redis does by writing a file of all data, or a new log, is a checkpoint here, of the tables that have changed; every write is in
//! the log before. There is no replication of this kind, so a server is always a master without replicas, `WAIT` answers 0 at once, and whoever asks for
//! a stream of changes is refused. `WAITAOF` answers when the log is on stable storage, whatever `durability` says. `DEBUG` has what tests use.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::table::{Flags, Group, RunOne, Spec};
use super::{Answer, Call, Refusal, help, is_word, refusal};
use crate::clock;
use crate::resp::number::{parse_f64, parse_i64};
use crate::server::printable;

const ADMIN: Flags = Flags::ADMIN;
const ALONE: Flags = ADMIN.and(Flags::ALONE);

const fn line(name: &'static str, arity: i32, flags: Flags, run: RunOne) -> Spec {
    Spec::new(name, arity, flags, Group::Server, run)
}

/// The family's lines.
pub const COMMANDS: &[Spec] = &[
    line("time", 1, Flags::FAST, time)
        .about("", "The server's time: seconds and microseconds.", "2.6.0")
        .costs("O(1)", "O(1)"),
    line("lastsave", 1, Flags::FAST, last_save)
        .about("", "When the last checkpoint that was asked for ended.", "1.0.0")
        .costs("O(1)", "O(1)"),
    line("save", 1, ALONE.and(Flags::NO_MULTI), save)
        .about("", "Makes a checkpoint, and answers when it is there.", "1.0.0")
        .costs("O(n) rows of tables that have changed; nobody else waits", "O(n), and everybody waits"),
    line("bgsave", -1, ADMIN, background_save)
        .about("[SCHEDULE]", "Begins a checkpoint.", "1.0.0")
        .costs("O(1)", "O(n) pages of memory"),
    line("bgrewriteaof", 1, ADMIN, rewrite_log)
        .about("", "Begins a checkpoint, behind which the log is not needed.", "1.0.0")
        .costs("O(1)", "O(n) pages of memory"),
    line("q.backup", 2, ALONE.and(Flags::NO_MULTI), back_up)
        .about(
            "directory",
            "Copies the database, as it is after one commit, into an empty directory of the server's machine, and answers when the copy is there and durable.",
            "0.1.0",
        )
        .costs("that of a checkpoint, and a link or a copy of each file; nobody else waits", ""),
    line("shutdown", -1, ADMIN.and(Flags::NO_MULTI), shutdown)
        .about(
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
            "Ends the server, with a checkpoint if not told otherwise.",
            "1.0.0",
        )
        .costs("that of a checkpoint", "O(n)"),
    line("role", 1, Flags::FAST, role)
        .about("", "Always that of a master without replicas.", "2.8.12")
        .costs("O(1)", "O(1)"),
    line("replicaof", 3, ADMIN, replica_of)
        .about("NO ONE | host port", "Only NO ONE is there.", "5.0.0")
        .costs("O(1)", "O(1)"),
    line("slaveof", 3, ADMIN, replica_of)
        .about("NO ONE | host port", "The same as REPLICAOF.", "1.0.0")
        .costs("O(1)", "O(1)"),
    line("sync", 1, ADMIN, no_stream)
        .about("", "Refused: there is no replication of this kind.", "1.0.0")
        .costs("O(1)", ""),
    line("psync", -3, ADMIN, no_stream)
        .about("replicationid offset", "Refused: there is no replication of this kind.", "2.8.0")
        .costs("O(1)", ""),
    line("replconf", -1, ADMIN, no_stream)
        .about("", "Refused: there is no replication of this kind.", "3.0.0")
        .costs("O(1)", "O(1)"),
    line("failover", -1, ADMIN, failover).about("", "Refused: there are no replicas.", "6.2.0").costs("O(1)", "O(1)"),
    Spec::new("wait", 3, Flags(0), Group::Generic, wait)
        .about("numreplicas timeout", "How many replicas have what was written: none.", "3.0.0")
        .costs("O(1)", "O(1)"),
    Spec::new("waitaof", 4, Flags::ALONE, Group::Generic, wait_for_log)
        .about("numlocal numreplicas timeout", "Answers when what was written is on stable storage here.", "7.2.0")
        .costs("one fsync", "O(1)"),
    line("debug", -2, ALONE, help::run)
        .about("subcommand", "For tests.", "1.0.0")
        .costs("O(1)", "depends")
        .subcommands(&[
            line("debug|help", 2, Flags(0), help::run)
                .about("", "Lists the subcommands.", "5.0.0")
                .costs("O(1)", "O(1)"),
            line("debug|sleep", 3, ALONE, sleep)
                .about("seconds", "Keeps a thread that serves connections busy for a while.", "2.8.0")
                .costs("O(1)", "O(1)"),
            line("debug|object", -3, ADMIN.and(Flags::READ), object)
                .about("key", "How the value of a key is stored.", "1.0.0")
                .costs("O(log n)", "O(n)"),
            line("debug|set-active-expire", 3, ADMIN, fine)
                .about("0 | 1", "Remembered by nobody: what has expired is gone either way.", "2.8.0")
                .costs("O(1)", "O(1)"),
            line("debug|reload", -2, ALONE, reload)
                .about("[NOSAVE | NOFLUSH | MERGE]", "Makes a checkpoint; what is stored is what is read.", "2.8.0")
                .costs("that of SAVE", "O(n)"),
            line("debug|loadaof", 2, ADMIN, fine)
                .about("", "Does nothing: the log is read at every start.", "2.8.0")
                .costs("O(1)", "O(n)"),
            line("debug|jmap", 2, ADMIN, fine).about("", "Does nothing.", "2.8.0").costs("O(1)", "O(1)"),
            line("debug|quicklist-packed-threshold", 3, ADMIN, fine)
                .about("size", "Does nothing.", "7.0.0")
                .costs("O(1)", "O(1)"),
            line("debug|change-repl-id", 2, ADMIN, fine).about("", "Does nothing.", "4.0.0").costs("O(1)", "O(1)"),
            line("debug|dict-resizing", 3, ADMIN, fine).about("0 | 1", "Does nothing.", "7.0.0").costs("O(1)", "O(1)"),
        ]),
];

fn time(call: &mut Call<'_, '_>) -> Answer {
    let us = clock::now_us();
    call.reply.array(2);
    call.reply.integer_bulk((us / 1_000_000) as i64);
    call.reply.integer_bulk((us % 1_000_000) as i64);
    Ok(())
}

fn last_save(call: &mut Call<'_, '_>) -> Answer {
    call.reply.integer((call.server.saves.last_ms.load(Ordering::Relaxed) / 1000) as i64);
    Ok(())
}

/// Changes of keys so far.
fn changes(call: &Call<'_, '_>) -> u64 {
    call.server.keyspace.counters.changes.load(Ordering::Relaxed)
}

fn save(call: &mut Call<'_, '_>) -> Answer {
    match call.server.saves.run(call.server.keyspace.db(), changes(call)) {
        None => return Err(refusal::text("ERR Background save already in progress")),
        Some(result) => result?,
    }
    call.reply.ok();
    Ok(())
}

fn background_save(call: &mut Call<'_, '_>) -> Answer {
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

fn back_up(call: &mut Call<'_, '_>) -> Answer {
    let path = std::str::from_utf8(call.args[1]).ok().map(Path::new).filter(|path| path.is_absolute());
    // What a relative one is relative to, the client does not know.
    let Some(path) = path else { return Err(refusal::text("ERR the directory must be an absolute path")) };
    let info = call.server.keyspace.db().backup(path)?;
    call.server.log_client(call.session, format_args!("has the database copied to {}", path.display()));
    call.reply.simple(&format!("commit {}, {} bytes", info.sequence, info.bytes));
    Ok(())
}

fn rewrite_log(call: &mut Call<'_, '_>) -> Answer {
    if !call.server.saves.start(call.server.keyspace.db(), changes(call)) {
        return Err(refusal::text("ERR Background append only file rewriting already in progress"));
    }
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn shutdown(call: &mut Call<'_, '_>) -> Answer {
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

fn role(call: &mut Call<'_, '_>) -> Answer {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn replica_of(call: &mut Call<'_, '_>) -> Answer {
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

fn no_stream(call: &mut Call<'_, '_>) -> Answer {
    Err(Refusal::new(format!(
        "ERR {}: this server has no replicas that follow a stream",
        call.spec.name.to_uppercase()
    )))
}

fn failover(_: &mut Call<'_, '_>) -> Answer {
    Err(refusal::text("ERR FAILOVER requires connected replicas."))
}

/// A timeout in milliseconds, checked.
fn check_timeout(call: &Call<'_, '_>, place: usize) -> Answer {
    let timeout = parse_i64(call.args[place]).ok_or(refusal::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 { Err(refusal::text("ERR timeout is negative")) } else { Ok(()) }
}

fn wait(call: &mut Call<'_, '_>) -> Answer {
    call.integer(1)?;
    check_timeout(call, 2)?;
    call.reply.integer(0);
    Ok(())
}

fn wait_for_log(call: &mut Call<'_, '_>) -> Answer {
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

fn sleep(call: &mut Call<'_, '_>) -> Answer {
    let seconds = parse_f64(call.args[2]).filter(|seconds| seconds.is_finite()).ok_or(refusal::NOT_FLOAT)?;
    // Ends early if the server does.
    call.server.wait_for_stop_until(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0)));
    call.reply.ok();
    Ok(())
}

fn reload(call: &mut Call<'_, '_>) -> Answer {
    call.server.keyspace.db().checkpoint()?;
    call.reply.ok();
    Ok(())
}

fn fine(call: &mut Call<'_, '_>) -> Answer {
    call.reply.ok();
    Ok(())
}

fn object(call: &mut Call<'_, '_>) -> Answer {
    let key = call.args[2];
    let Some(entry) = call.data.entry(call.database(), key)? else { return Err(refusal::NO_KEY) };
    let text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:0 lru_seconds_idle:0",
        printable(entry.header.kind.name().as_bytes(), 32),
        entry.body.len()
    );
    call.reply.simple(&text);
    Ok(())
}
