//! Batches of commands: what one read of a socket brought, or several sockets in one turn of the loop, under one hold of the data and in one commit.
//!
//! Invariants:
//! 1. Answers stand in the order of commands.
//! 2. A [`Turn`] holds the data for a bounded number of commands; then it commits and lets others in.
//! 3. Nothing that a turn answered may be sent before [`Turn::finish`] has returned: until then it need not be durable, be it its own commit or another's that it
//!    has read.
//!
//! Not here: what commands do, sockets.

use std::sync::atomic::Ordering;

use quipu::{Committed, Durability, Result};

use crate::clock;
use crate::command::databases::databases_named;
use crate::command::{Answer, Call, Flags, Refusal, Run, Spec, find, is_word, refusal, table::RunMany};
use crate::keyspace::{Data, Need};
use crate::resp::parse::Batch;
use crate::resp::reply::Reply;
use crate::server::Server;
use crate::session::{Queue, ReplyMode, Session};

/// Commands after which a turn commits and lets others in: a few hundred microseconds.
const COMMANDS_AT_ONCE_MAX: usize = 1024;

/// Commands of a run that are done together.
const RUN_MAX: usize = 512;

/// Bytes of answers after which the rest of a client's commands wait until it has taken them.
const ANSWER_BYTES_AT_ONCE_MAX: usize = 4 << 20;

/// How far the commands of a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All are done.
    Done,
    /// The command of this number needs long and is to be run by [`run_long`]; those before are done.
    Long(usize),
    /// The command of this number has to wait, as `CLIENT PAUSE` wants it; those before are done.
    Paused(usize),
    /// There are many bytes of answers: the commands from this number on are to be run when they are sent.
    Enough(usize),
    /// The session is to be closed; commands behind this number are not looked at.
    Closing,
}

/// A hold of the data over many commands, opened as they need it.
pub struct Turn<'k> {
    server: &'k Server,
    data: Option<Data<'k>>,
    commands: usize,
    /// The last commit of this turn.
    written: Option<Committed<'k>>,
    /// The commits that its reads saw.
    seen: Option<Committed<'k>>,
}

impl<'k> Turn<'k> {
    /// Holding nothing yet.
    pub fn new(server: &'k Server) -> Turn<'k> {
        Turn { server, data: None, commands: 0, written: None, seen: None }
    }

    /// The data, held as needed.
    fn data(&mut self, need: Need) -> Result<&mut Data<'k>> {
        if let Some(data) = &self.data
            && (!data.covers(need) || need == Need::Nothing)
        {
            self.commit()?;
        }
        if self.data.is_none() {
            self.data = Some(Data::open(&self.server.keyspace, need, clock::now_ms())?);
        }
        Ok(self.data.as_mut().expect("opened above"))
    }

    /// Commits and lets others in.
    fn commit(&mut self) -> Result<()> {
        self.commands = 0;
        let Some(data) = self.data.take() else { return Ok(()) };
        let place = if data.covers(Need::Write) { &mut self.written } else { &mut self.seen };
        *place = Some(data.close()?);
        Ok(())
    }

    /// Ends the turn. When it returns, everything answered in it may be sent.
    ///
    /// # Errors
    /// What was answered may not be durable, and must not be sent.
    pub fn finish(mut self, durability: Durability) -> Result<()> {
        self.commit()?;
        if let Some(written) = &self.written {
            written.wait(durability)?;
        }
        if let Some(seen) = &self.seen {
            wait_for_seen(seen, durability);
        }
        Ok(())
    }

    /// Runs the commands of a client from number `from` on.
    pub fn run(
        &mut self,
        session: &mut Session,
        input: &[u8],
        batch: &Batch,
        from: usize,
        reply: &mut Reply,
    ) -> Progress {
        // The words of all commands, so that a run of them is one slice.
        let mut words: Vec<&[u8]> = Vec::with_capacity(batch.len() * 3);
        let mut ends = Vec::with_capacity(batch.len());
        for number in from..batch.len() {
            words.extend(batch.arguments(input, number));
            ends.push(words.len());
        }
        let (mut number, mut start, mut one_by_one) = (0, 0, 0);
        let answered = reply.bytes.len();
        while number < ends.len() {
            if reply.bytes.len() - answered > ANSWER_BYTES_AT_ONCE_MAX {
                return Progress::Enough(from + number);
            }
            let args = &words[start..ends[number]];
            let spec = find(args[0]);
            if number >= one_by_one
                && let Some(spec) = spec
                && let Some(run) = run_of(spec, args.len())
                && self.server.takes_runs(session)
            {
                let width = args.len();
                let mut last = number;
                while last + 1 < ends.len()
                    && last + 1 - number < session.run_max
                    && ends[last + 1] - ends[last] == width
                    && words[ends[last]].eq_ignore_ascii_case(args[0])
                {
                    last += 1;
                }
                if last > number {
                    if self.run_together(session, spec, run, &words[start..ends[last]], width, reply) {
                        (number, start) = (last + 1, ends[last]);
                        continue;
                    }
                    one_by_one = last + 1;
                }
            }
            match self.run_one(session, spec, args, reply) {
                Ok(()) => {}
                Err(NotNow::TakesLong) => return Progress::Long(from + number),
                Err(NotNow::Paused) => return Progress::Paused(from + number),
            }
            if session.closing {
                return Progress::Closing;
            }
            (number, start) = (number + 1, ends[number]);
        }
        Progress::Done
    }

    /// Runs commands that are alike together; says whether it did.
    fn run_together(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        run: RunMany,
        words: &[&[u8]],
        width: usize,
        reply: &mut Reply,
    ) -> bool {
        let count = words.len() / width;
        let mark = reply.bytes.len();
        let started = clock::moment();
        let server = self.server;
        let database = session.database;
        session.client.command.store(u32::from(spec.number), Ordering::Relaxed);
        let result = self.data(spec.flags.need()).map_err(Refusal::from).and_then(|data| {
            if spec.flags.has(Flags::EXACT) {
                data.make_exact()?;
            }
            guard(server, spec, || run(&mut Run { words, width, data, database, reply }))
        });
        match result {
            Ok(()) => {}
            Err(Refusal::OneByOne | Refusal::Long) => {
                reply.bytes.truncate(mark);
                return false;
            }
            Err(refusal) => {
                reply.bytes.truncate(mark);
                (0..count).for_each(|_| reply.error(refusal.reply_text().as_bytes()));
            }
        }
        server.statistics.note_commands(spec, count as u64, clock::since(started));
        // Whose answers are long has fewer commands done together.
        let bytes_each = (reply.bytes.len() - mark) / count;
        session.run_max = (ANSWER_BYTES_AT_ONCE_MAX / bytes_each.max(1)).clamp(1, RUN_MAX);
        self.count(count);
        true
    }

    fn count(&mut self, commands: usize) {
        self.commands += commands;
        if self.commands >= COMMANDS_AT_ONCE_MAX {
            // A failure to commit shows in `finish`, before anything is sent: the log says so for ever after.
            let _ = self.commit();
        }
    }

    fn run_one(
        &mut self,
        session: &mut Session,
        spec: Option<&'static Spec>,
        args: &[&[u8]],
        reply: &mut Reply,
    ) -> std::result::Result<(), NotNow> {
        let mark = reply.bytes.len();
        if session.reply_mode == ReplyMode::Skip {
            session.reply_mode = ReplyMode::On;
        }
        if session.reply_mode == ReplyMode::SkipNext {
            session.reply_mode = ReplyMode::Skip;
        }
        let started = clock::moment();
        let server = self.server;
        if spec.is_none() && (is_word(args[0], "post") || is_word(args[0], "host:")) {
            // A browser was talked into sending commands: as Redis does, it is cut off before the body.
            server.log_client(session, format_args!("it speaks HTTP at the port for Redis clients: closed"));
            session.closing = true;
            return Ok(());
        }
        let spec = match server.admit(session, spec, args) {
            Ok(spec) => spec,
            Err(refusal) => {
                if let Some(queue) = &mut session.queue {
                    queue.failed = true;
                }
                if spec.is_some_and(|spec| spec.name == "exec") {
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
                return self.silence(session, reply, mark);
            }
        };
        if server.clients.paused_until_ms() > 0 && server.clients.is_paused(may_write(session, spec)) {
            return Err(NotNow::Paused);
        }
        session.client.command.store(u32::from(spec.number), Ordering::Relaxed);
        // Before it is queued, too: what `EXEC` runs holds the data already.
        let prepared = self.prepare_databases(spec, args);
        if let Some(queue) = &mut session.queue
            && !spec.flags.has(Flags::NO_QUEUE)
            && prepared.is_ok()
        {
            enqueue(queue, spec, args, server, reply);
            return self.silence(session, reply, mark);
        }
        server.tell_monitors(session, spec, args);
        session.can_wait = true;
        let result = prepared.and_then(|()| {
            let data = self.data(spec.flags.need())?;
            if spec.flags.has(Flags::EXACT) {
                data.make_exact()?;
            }
            guard(server, spec, || (spec.run)(&mut Call { args, data, session, reply, server, spec }))
        });
        match result {
            Ok(()) => {}
            Err(Refusal::Long) => {
                reply.bytes.truncate(mark);
                return Err(NotNow::TakesLong);
            }
            Err(refusal) => {
                reply.bytes.truncate(mark);
                reply.error(refusal.reply_text().as_bytes());
                server.statistics.note_failure(spec);
                server.statistics.note_error(&refusal.reply_text());
            }
        }
        let took = clock::since(started);
        server.statistics.note_commands(spec, 1, took);
        server.slow_log.note(&server.config.parameters, session, spec, args, took);
        self.count(1);
        self.silence(session, reply, mark)
    }

    /// Makes the tables of databases that a command names and that nobody has used yet. Nothing may be held meanwhile.
    fn prepare_databases(&mut self, spec: &Spec, args: &[&[u8]]) -> std::result::Result<(), Refusal> {
        for database in databases_named(spec, args).into_iter().flatten() {
            if self.server.keyspace.tables(database).is_none() {
                self.commit()?;
                self.server.keyspace.prepare(database)?;
            }
        }
        Ok(())
    }

    /// Takes an answer back that the client does not want.
    fn silence(&mut self, session: &Session, reply: &mut Reply, mark: usize) -> std::result::Result<(), NotNow> {
        if matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip) {
            reply.bytes.truncate(mark);
        }
        Ok(())
    }
}

/// Waits until what was read of others is durable. Where the log has failed, it never will be, and reads go on all the same.
fn wait_for_seen(seen: &Committed<'_>, durability: Durability) {
    let _ = seen.wait(durability);
}

/// Why a command was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotNow {
    /// It is to be run beside the loop.
    TakesLong,
    /// It has to wait.
    Paused,
}

/// Whether a command may change the data, by itself or by what is queued.
fn may_write(session: &Session, spec: &Spec) -> bool {
    let queued =
        || session.queue.as_ref().is_some_and(|queue| queue.commands.iter().any(|(spec, _)| may_write(session, spec)));
    spec.flags.has(Flags::WRITE) || (spec.flags.has(Flags::EXCLUSIVE) && queued())
}

/// Runs a command. Should it panic, which is a defect, its client is told so and all others go on.
fn guard(server: &Server, spec: &'static Spec, run: impl FnOnce() -> Answer) -> Answer {
    // What the command had borrowed is whole, or taken back by the caller as after a refusal.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| {
        server.log(format_args!("the command {:?} panicked; please report it with the lines above", spec.name));
        Err(refusal::text("ERR internal error: the command failed; the server's log has the details"))
    })
}

fn run_of(spec: &'static Spec, width: usize) -> Option<RunMany> {
    spec.many.iter().find(|(words, _)| *words == width).map(|(_, run)| *run)
}

fn enqueue(queue: &mut Queue, spec: &'static Spec, args: &[&[u8]], server: &Server, reply: &mut Reply) {
    if spec.flags.has(Flags::NO_MULTI) {
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

/// Runs a command whose answer takes long, from a snapshot of its own, while others go on.
pub fn run_long(server: &Server, session: &mut Session, words: &[Vec<u8>], reply: &mut Reply) {
    let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    let started = clock::moment();
    let mark = reply.bytes.len();
    let result = server.admit(session, find(args[0]), &args).and_then(|spec| {
        let now_ms = clock::now_ms();
        let keyspace = &server.keyspace;
        let is_exact = spec.flags.has(Flags::EXACT);
        let snapshot = if is_exact { keyspace.live_snapshot(now_ms)? } else { keyspace.snapshot() };
        let mut data = Data::at(keyspace, &snapshot, now_ms);
        let call = &mut Call { args: &args, data: &mut data, session, reply, server, spec };
        let result = guard(server, spec, || (spec.run)(call));
        let took = clock::since(started);
        server.statistics.note_commands(spec, 1, took);
        server.slow_log.note(&server.config.parameters, session, spec, &args, took);
        result
    });
    if let Err(refusal) = result {
        reply.bytes.truncate(mark);
        reply.error(refusal.reply_text().as_bytes());
    }
    wait_for_seen(&server.keyspace.db().commits(), server.durability());
}

/// Runs a command inside another, such as one that `EXEC` had queued: in the same hold, its refusal as its answer.
pub fn run_inside(call: &mut Call<'_, '_>, spec: &'static Spec, args: &[&[u8]]) {
    let mark = call.reply.bytes.len();
    call.server.tell_monitors(call.session, spec, args);
    let result = call.server.prepare_inside(spec).and_then(|()| {
        if spec.flags.has(Flags::EXACT) {
            call.data.make_exact()?;
        }
        call.server.admit_inside(call.session, spec, args)?;
        call.session.can_wait = false;
        let started = clock::moment();
        let result = (spec.run)(&mut Call {
            args,
            data: call.data,
            session: call.session,
            reply: call.reply,
            server: call.server,
            spec,
        });
        call.server.statistics.note_commands(spec, 1, clock::since(started));
        result
    });
    if let Err(refusal) = result {
        call.server.statistics.note_failure(spec);
        call.server.statistics.note_error(&refusal.reply_text());
        call.reply.bytes.truncate(mark);
        call.reply.error(refusal.reply_text().as_bytes());
    }
}
