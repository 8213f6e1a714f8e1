//! Runs batches of commands: what was read from one or more sockets in one turn of the loop, under one hold of the data
//! and in one commit.
//!
//! Invariants:
//! 1. Answers stand in the order of commands.
//! 2. A [`Turn`] holds the data for a bounded number of commands, and a bounded time of theirs; then it commits and
//!    lets others in. It ends after a bounded time, too. The bound is passed by one command at most.
//! 3. A command that lacks a page of a run has done nothing: it is taken back, whatever it has answered.
//! 4. No answer of a turn may be sent before [`Turn::finish`] has returned: until then it may not be durable, whether
//!    it tells of the turn's own commit or of another's.
//!
//! Not here: what commands do (`command/`), and sockets (`net/`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu::latched::PendingCommit;
use quipu::{Durability, ErrorKind, Result};

use crate::command::admission::takes_runs;
use crate::command::databases::databases_named;
use crate::command::table::handlers;
use crate::command::{Call, CommandResult, Handlers, LONG_BYTES, Refusal, Run, RunMany};
use crate::execution::long::Beside;
use crate::execution::refusals::{admit_or_answer, enqueue, fail, silence};
use crate::execution::single::{guard, is_exec, need_in, run};
use crate::facts::key_places::{keys, only_key};
use crate::facts::{Flags, Group, Spec, find};
use crate::keyspace::{Data, Need};
use crate::resp::parse::Batch;
use crate::resp::reply::Reply;
use crate::state::server::Server;
use crate::state::session::{ReplyMode, Session};
use crate::system::clock;

/// Commands after which a turn commits and lets others in: a few hundred microseconds.
const COMMANDS_AT_ONCE_MAX: usize = 1024;

/// How long the commands of a hold take before others are let in: between two commands.
const HOLD_MAX: Duration = Duration::from_millis(1);

/// How long the commands of a turn take before it is late: then each client has one more command, beside the loop if it
/// reads many rows, until the turn has taken [`LATE_TURN_MAX`].
const TURN_MAX: Duration = Duration::from_millis(5);

/// How long the commands of a turn take before its answers are sent, also if clients have not had a turn yet: between
/// two commands.
pub const LATE_TURN_MAX: Duration = Duration::from_millis(20);

/// Bytes of arguments that count as a command: some 200 ns.
const BYTES_A_COMMAND: usize = 1024;

/// Commands of a run that are done together.
const RUN_MAX: usize = 512;

/// Commands that run together, at least, for which pages are loaded before the first attempt.
const COLD_MIN: usize = 16;

/// Keys of later commands whose pages are asked for together with those that a command lacks.
pub(crate) const LOOKED_AHEAD_MAX: usize = 256;

/// Bytes of answers after which the rest of a client's commands wait until it has taken them.
const ANSWER_BYTES_AT_ONCE_MAX: usize = 4 << 20;

/// How far the commands of a client have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All are done.
    Done,
    /// The command of this number is to be run as a [`crate::execution::long::LongCommand`], for this reason; those
    /// before are done.
    Beside(usize, Beside),
    /// The command of this number has to wait, as `CLIENT PAUSE` wants it; those before are done.
    Paused(usize),
    /// The command of this number lacks pages of runs, or waits for memory. It was taken back; what the session's
    /// attempt lacks is to be brought, and the command to be tried again. Those before are done.
    Lacks(usize),
    /// There are many bytes of answers, or the turn is over: the commands from this number on are to be run when the
    /// answers are sent.
    Enough(usize),
    /// The session is to be closed; commands after this number are not looked at.
    Closing,
}

/// A hold of the data over many commands, opened as they need it.
pub struct Turn<'k> {
    server: &'k Server,
    handlers: &'static Handlers,
    data: Option<Data<'k>>,
    commands: usize,
    /// Whether it is late from the beginning.
    is_late: bool,
    /// What the commands of the hold have taken.
    held: Duration,
    /// What all commands of the turn have taken.
    spent: Duration,
    /// The last commit of this turn.
    written: Option<PendingCommit<'k>>,
    /// The commits that its reads saw.
    seen: Option<PendingCommit<'k>>,
    /// Whether an answer may tell of the data.
    tells: bool,
}

impl<'k> Turn<'k> {
    /// Holding nothing yet.
    pub fn new(server: &'k Server) -> Turn<'k> {
        Turn::begin(server, false)
    }

    /// The same, late from the beginning if the one before has left clients without a turn.
    pub fn begin(server: &'k Server, is_late: bool) -> Turn<'k> {
        Turn {
            server,
            is_late,
            handlers: handlers(),
            data: None,
            commands: 0,
            held: Duration::ZERO,
            spent: Duration::ZERO,
            written: None,
            seen: None,
            tells: false,
        }
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

    /// The data as a command needs it.
    fn data_for(&mut self, session: &Session, spec: &Spec) -> Result<&mut Data<'k>> {
        let need = need_in(session, spec);
        let is_exact = spec.flags.has(Flags::EXACT) || is_exec(spec) && session.counts_in_transaction();
        self.data(if is_exact { self.server.keyspace.need_exact(need, clock::now_ms()) } else { need })
    }

    /// Commits and lets others in.
    fn commit(&mut self) -> Result<()> {
        (self.commands, self.held) = (0, Duration::ZERO);
        let Some(data) = self.data.take() else { return Ok(()) };
        let place = if data.covers(Need::Removal) { &mut self.written } else { &mut self.seen };
        *place = Some(data.close()?);
        Ok(())
    }

    /// Ends the turn. When it returns, everything answered in it may be sent.
    ///
    /// # Errors
    /// What was answered may not be durable, and must not be sent.
    pub fn finish(mut self, durability: Durability) -> Result<()> {
        let result = self.end(durability);
        if result.is_err() {
            self.server.note_failed_log();
        }
        result
    }

    fn end(&mut self, durability: Durability) -> Result<()> {
        self.commit()?;
        if let Some(written) = &self.written {
            written.wait(durability)?;
        }
        if let Some(seen) = self.seen.as_ref().filter(|_| self.tells) {
            seen.wait(durability)?;
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
            let is_over = number > 0 && self.spent >= TURN_MAX;
            if is_over || reply.bytes.len() - answered > ANSWER_BYTES_AT_ONCE_MAX {
                return Progress::Enough(from + number);
            }
            session.is_late = self.is_late || self.spent >= TURN_MAX;
            let args = &words[start..ends[number]];
            let spec = find(args[0]);
            if number >= one_by_one
                && let Some(spec) = spec
                && let Some(run) = self.handlers.of(spec).run_of(args.len())
                && takes_runs(self.server, session)
            {
                let width = args.len();
                let last = last_alike(session, &words, &ends, number, width);
                if last > number {
                    match self.run_together(session, spec, run, &words[start..ends[last]], width, reply) {
                        Together::Done => {
                            (number, start) = (last + 1, ends[last]);
                            continue;
                        }
                        Together::OneByOne => one_by_one = last + 1,
                        Together::Lacks => return Progress::Lacks(from + number),
                    }
                }
            }
            match self.run_one(session, spec, args, reply) {
                Ok(()) => {}
                Err(NotNow::Beside(why)) => return Progress::Beside(from + number, why),
                Err(NotNow::Paused) => return Progress::Paused(from + number),
                Err(NotNow::Lacks) => {
                    self.look_ahead(session, &words, start, &ends[number..]);
                    return Progress::Lacks(from + number);
                }
            }
            if session.closing {
                return Progress::Closing;
            }
            (number, start) = (number + 1, ends[number]);
        }
        Progress::Done
    }

    /// Runs commands that are alike together, if they can be.
    fn run_together(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        run: RunMany,
        words: &[&[u8]],
        width: usize,
        reply: &mut Reply,
    ) -> Together {
        let count = words.len() / width;
        if session.attempt.as_ref().is_some_and(|attempt| attempt.failure.is_some()) {
            // One by one, each gets its own pages or its own error.
            session.attempt = None;
            return Together::OneByOne;
        }
        if self.has_to_wait(session, spec, count) {
            return Together::Lacks;
        }
        if session.is_cold && session.attempt.is_none() && count >= COLD_MIN {
            // Most likely they lack pages again: an attempt would be in vain.
            return self.lacks_keys(session, spec, words, width);
        }
        let mark = reply.bytes.len();
        let started = clock::moment();
        let server = self.server;
        let database = session.database;
        session.client.command.store(u32::from(spec.number), Ordering::Relaxed);
        self.tells |= spec.flags.tells();
        let result = self.in_attempt(session, spec, count, |data, _| {
            guard(server, spec, || run(&mut Run { words, width, data, database, reply }))
        });
        match result {
            Ok(()) => {}
            Err(Refusal::OneByOne | Refusal::Long) => {
                reply.bytes.truncate(mark);
                return Together::OneByOne;
            }
            Err(Refusal::Lacks) => {
                reply.bytes.truncate(mark);
                return self.lacks_keys(session, spec, words, width);
            }
            Err(refusal) => {
                reply.bytes.truncate(mark);
                (0..count).for_each(|_| reply.error(refusal.reply_bytes()));
            }
        }
        session.is_cold = session.attempt.take().is_some_and(|attempt| attempt.pages_read > 0);
        let took = clock::since(started);
        server.statistics.note_commands(spec, count as u64, took);
        // Of a client with long answers, fewer commands are done together.
        let bytes_each = (reply.bytes.len() - mark) / count;
        session.run_max = (ANSWER_BYTES_AT_ONCE_MAX / bytes_each.max(1)).clamp(1, RUN_MAX);
        self.count(count, took);
        Together::Done
    }

    /// Has the ways to the keys of commands loaded that run together.
    fn lacks_keys(&self, session: &mut Session, spec: &Spec, words: &[&[u8]], width: usize) -> Together {
        let tables = self.server.keyspace.tables(session.database);
        let faults = &mut session.attempt_at(words.len() / width).faults;
        if let (Some(tables), Some(place)) = (tables, only_key(spec)) {
            words.iter().skip(place).step_by(width).for_each(|key| tables.keys.expect_key(key, faults));
        }
        match faults.is_empty() {
            true => Together::OneByOne,
            false => Together::Lacks,
        }
    }

    /// Holds the data as commands need it, and runs them with the pages that earlier attempts lacked. If one is missing
    /// again, they are taken back.
    fn in_attempt(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        commands: usize,
        run: impl FnOnce(&mut Data<'k>, &mut Session) -> CommandResult,
    ) -> CommandResult {
        session.begin_attempt();
        let data = self.data_for(session, spec)?;
        if let Some(attempt) = &session.attempt {
            data.lend(&attempt.faults);
        }
        let exact = if spec.flags.has(Flags::EXACT) { data.make_exact() } else { Ok(()) };
        data.begin_command();
        let result = exact.map_err(Refusal::from).and_then(|()| run(data, session));
        if data.has_faults() {
            data.take_back(&mut session.attempt_at(commands).faults)?;
            self.server.statistics.page_faults.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Lacks);
        }
        data.keep();
        result
    }

    /// Whether commands that write have to wait until there is memory, and have not yet.
    fn has_to_wait(&self, session: &mut Session, spec: &Spec, commands: usize) -> bool {
        let has_to = need_in(session, spec) >= Need::Removal
            && self.server.keyspace.db().latched().is_short_of_memory()
            && !self.data.as_ref().is_some_and(|data| data.covers(Need::Removal))
            && !session.attempt.as_ref().is_some_and(|attempt| attempt.has_waited);
        if has_to {
            session.attempt_at(commands).waits = true;
        }
        has_to
    }

    /// Has the ways to the keys loaded, too, of the command that was taken back and of those that follow: so the pages
    /// of all of them are loaded together.
    fn look_ahead(&self, session: &mut Session, words: &[&[u8]], start: usize, ends: &[usize]) {
        let tables = self.server.keyspace.tables(session.database);
        let (Some(tables), Some(attempt)) = (tables, &mut session.attempt) else { return };
        if attempt.waits {
            return;
        }
        let (mut start, mut left) = (start, LOOKED_AHEAD_MAX);
        for &end in ends {
            let args = &words[start..end];
            start = end;
            let Some(spec) = find(args[0]).filter(|spec| spec.name != "select") else { return };
            let expected: &[usize] = match only_key(spec) {
                Some(place) => &[place],
                None => &keys(spec, args).unwrap_or_default().iter().map(|key| key.place).collect::<Vec<_>>(),
            };
            // It may have fewer words than it needs: it has not been checked yet.
            for key in expected.iter().filter_map(|&place| args.get(place)) {
                tables.keys.expect_key(key, &mut attempt.faults);
                left -= 1;
                if left == 0 {
                    return;
                }
            }
        }
    }

    fn count(&mut self, commands: usize, took: Duration) {
        self.commands += commands;
        self.held += took;
        self.spent += took;
        if self.commands >= COMMANDS_AT_ONCE_MAX || self.held >= HOLD_MAX {
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
        let reply_mode = session.reply_mode;
        session.begin_command();
        let started = clock::moment();
        let server = self.server;
        let Some(spec) = admit_or_answer(server, session, spec, args, reply) else { return Ok(()) };
        if let Err(not_now) = self.check_time(session, spec) {
            leave(session, not_now, reply_mode);
            return Err(not_now);
        }
        session.client.command.store(u32::from(spec.number), Ordering::Relaxed);
        // Before it is queued, too: what `EXEC` runs holds the data already.
        let prepared = self.prepare_databases(spec, args);
        if let Some(queue) = &mut session.queue
            && !spec.flags.has(Flags::NO_QUEUE)
            && spec.group != Group::Absent
            && prepared.is_ok()
        {
            enqueue(queue, spec, args, server, reply);
            silence(session, reply, mark);
            return Ok(());
        }
        // After what it runs, as in Redis.
        let is_exec = is_exec(spec);
        if !is_exec && session.attempt.is_none() {
            server.tell_monitors(session, spec, args);
        }
        session.can_wait = true;
        let answer = match self.perform(session, spec, args, prepared, reply) {
            Ok(answer) => answer,
            Err(not_now) => {
                reply.bytes.truncate(mark);
                leave(session, not_now, reply_mode);
                return Err(not_now);
            }
        };
        session.attempt = None;
        if is_exec && session.queue.is_some() {
            // It is answered, whatever came of it: nothing of the transaction may be done later.
            session.leave_transaction();
        }
        if let Err(refusal) = answer {
            reply.bytes.truncate(mark);
            fail(server, session, spec, &refusal, reply);
        }
        if is_exec {
            server.tell_monitors(session, spec, args);
        }
        self.note_one(session, spec, args, clock::since(started));
        silence(session, reply, mark);
        Ok(())
    }

    /// Whether a command may be run now: no pause and no lack of memory is in its way.
    fn check_time(&self, session: &mut Session, spec: &Spec) -> std::result::Result<(), NotNow> {
        let clients = &self.server.clients;
        if clients.paused_until_ms() > 0 && clients.is_paused(may_write(session, spec)) {
            return Err(NotNow::Paused);
        }
        let is_run = session.queue.is_none() || spec.flags.has(Flags::NO_QUEUE);
        if is_run && self.has_to_wait(session, spec, 1) { Err(NotNow::Lacks) } else { Ok(()) }
    }

    /// Notes that a command was run.
    fn note_one(&mut self, session: &Session, spec: &'static Spec, args: &[&[u8]], took: Duration) {
        let server = self.server;
        server.statistics.note_commands(spec, 1, took);
        server.slow_log.note(&server.config.parameters, session, spec, args, took);
        let bytes: usize = args.iter().map(|word| word.len()).sum();
        self.count(1 + bytes / BYTES_A_COMMAND, took);
    }

    /// Runs a command that was admitted, with the data that it needs, if it is not to be run beside the loop.
    fn perform(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: &[&[u8]],
        prepared: CommandResult,
        reply: &mut Reply,
    ) -> std::result::Result<CommandResult, NotNow> {
        let (server, handlers) = (self.server, self.handlers);
        let mut ready = check_brought(session, spec).and(prepared);
        if ready.is_ok() && spec.flags.tells() {
            self.tells = true;
            ready = server.check_log();
        }
        if ready.is_err() {
            return Ok(ready);
        }
        if spec.flags.has(Flags::REPLICATED) && server.cluster.get().is_some() {
            return Err(NotNow::Beside(Beside::Elsewhere));
        }
        if spec.flags.has(Flags::STAGES) && args.iter().map(|word| word.len() as u64).sum::<u64>() > LONG_BYTES {
            // Nor does this thread wait for the data meanwhile.
            return Err(NotNow::Beside(Beside::TakesLong));
        }
        let answer = self.in_attempt(session, spec, 1, |data, session| {
            run(&mut Call { args, data, session, reply, server, spec, handlers })
        });
        match answer {
            Err(Refusal::Long) => Err(NotNow::Beside(Beside::TakesLong)),
            Err(Refusal::Lacks) => Err(NotNow::Lacks),
            answer => Ok(answer),
        }
    }

    /// Makes the tables of databases that a command names and that have not been used yet. Nothing may be held
    /// meanwhile.
    fn prepare_databases(&mut self, spec: &Spec, args: &[&[u8]]) -> std::result::Result<(), Refusal> {
        for database in databases_named(spec, args).into_iter().flatten() {
            if self.server.keyspace.tables(database).is_none() {
                self.commit()?;
                self.server.keyspace.prepare(database)?;
            }
        }
        Ok(())
    }
}

/// Why a command was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotNow {
    /// It is to be run beside the loop.
    Beside(Beside),
    /// It has to wait.
    Paused,
    /// It lacks pages, or memory.
    Lacks,
}

/// What became of commands that were to run together.
enum Together {
    Done,
    /// They are to run one by one.
    OneByOne,
    /// They lack pages, or memory.
    Lacks,
}

/// The last of the commands from `number` on that can be run together: they have the same name and as many words.
fn last_alike(session: &Session, words: &[&[u8]], ends: &[usize], number: usize, width: usize) -> usize {
    let name = words[ends[number] - width];
    let run_max = session.attempt.as_ref().map_or(session.run_max, |attempt| attempt.commands);
    let mut last = number;
    while last + 1 < ends.len()
        && last + 1 - number < run_max
        && ends[last + 1] - ends[last] == width
        && words[ends[last]].eq_ignore_ascii_case(name)
    {
        last += 1;
    }
    last
}

/// Whether what an earlier attempt at a command lacked could be brought.
fn check_brought(session: &mut Session, spec: &Spec) -> CommandResult {
    match session.attempt.as_mut().and_then(|attempt| attempt.failure.take()) {
        // It was to wait for memory that no flush will give back: what frees space goes on.
        Some(failure) if failure.kind() == ErrorKind::Full && need_in(session, spec) == Need::Removal => Ok(()),
        Some(failure) => Err(Refusal::from(failure)),
        None => Ok(()),
    }
}

/// Leaves a command that is not run now.
fn leave(session: &mut Session, not_now: NotNow, reply_mode: ReplyMode) {
    match not_now {
        NotNow::Beside(_) => session.attempt = None,
        NotNow::Paused | NotNow::Lacks => {
            // It is tried again, and its answer is still wanted or not.
            session.pieces = None;
            session.reply_mode = reply_mode;
        }
    }
}

/// Whether a command may change the data, by itself or by what is queued.
fn may_write(session: &Session, spec: &Spec) -> bool {
    let queued =
        || session.queue.as_ref().is_some_and(|queue| queue.commands.iter().any(|(spec, _)| may_write(session, spec)));
    spec.flags.has(Flags::WRITE) || (spec.flags.has(Flags::RUNS_QUEUE) && queued())
}
