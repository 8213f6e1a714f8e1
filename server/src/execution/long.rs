//! Commands that take long, or that other nodes answer: they run beside the loop that serves connections, in steps, so
//! that many of them take turns.
//!
//! Those that read use a snapshot. Those that write prepare what they write while nothing is held, in one step.
//!
//! A command's first step runs it. What it leaves in [`Pieces`] is made in further steps of about a millisecond each. A
//! command that leaves nothing is done in one step, however long that takes. One that goes to the coordinator of a
//! cluster waits for its answer in that step.
//!
//! Not here: the order of steps, and clients that are slow (`net/long.rs`).

use std::time::Duration;

use quipu::latched::PageFaults;

use crate::command::admission::admit;
use crate::command::table::handlers;
use crate::command::{Call, CommandResult, EntityCall, Refusal, TRIES_MAX};
use crate::entities::Coordinator;
use crate::execution::single::{guard, need_of, run};
use crate::execution::words::Words;
use crate::facts::{Flags, Spec, find};
use crate::keyspace::{Data, Need};
use crate::resp::reply::Reply;
use crate::state::pieces::Pieces;
use crate::state::server::Server;
use crate::state::session::{ReplyMode, Session};
use crate::system::clock;

/// Why a command is run beside the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// It takes long.
    TakesLong,
    /// It waits for other nodes: it goes to the coordinator of the cluster.
    Elsewhere,
}

/// A command that is run beside the loop.
pub struct LongCommand {
    words: Words,
    why: Beside,
    /// Its line in the table, once it was admitted.
    spec: Option<&'static Spec>,
    stage: Stage,
    took: Duration,
}

enum Stage {
    Begin,
    Rest(Box<dyn Pieces>),
    Done,
}

/// How far a step came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More steps are needed.
    More,
    /// The answer is complete.
    Done,
    /// The answer was begun and cannot be completed: its client is to be closed.
    Broken(String),
}

impl LongCommand {
    /// The command of these words, to be run, with why it is run here.
    pub fn new(words: Words, why: Beside) -> LongCommand {
        LongCommand { words, why, spec: None, stage: Stage::Begin, took: Duration::ZERO }
    }

    /// Whether nothing was done for it yet.
    pub fn is_new(&self) -> bool {
        matches!(self.stage, Stage::Begin)
    }

    /// Does the next step, whose part of the answer goes to `reply`. When it returns, that may be sent.
    pub fn step(&mut self, server: &Server, session: &mut Session, reply: &mut Reply) -> Step {
        let started = clock::moment();
        let step = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Begin => self.begin(server, session, reply),
            Stage::Rest(mut pieces) => match pieces.next(&server.keyspace, reply) {
                Ok(true) => {
                    self.stage = Stage::Rest(pieces);
                    Step::More
                }
                Ok(false) => Step::Done,
                Err(error) => Step::Broken(format!("the rest of its answer could not be read: {error}")),
            },
            Stage::Done => Step::Done,
        };
        self.took += clock::since(started);
        if step != Step::More
            && let Some(spec) = self.spec
        {
            let args = self.words.args();
            server.statistics.note_commands(spec, 1, self.took);
            server.slow_log.note(&server.config.parameters, session, spec, &args, self.took);
        }
        step
    }

    fn begin(&mut self, server: &Server, session: &mut Session, reply: &mut Reply) -> Step {
        let args = self.words.args();
        let mark = reply.bytes.len();
        session.can_wait = true;
        let admitted = admit(server, session, find(args[0]), &args);
        self.spec = admitted.as_ref().ok().copied();
        let result: Result<(), Refusal> = admitted.and_then(|spec| {
            server.check_log()?;
            if self.why == Beside::Elsewhere
                && let Some(cluster) = server.cluster.get()
                && let Some(run) = handlers().of(spec).elsewhere
            {
                let entities = Coordinator::new(cluster, session.quorum);
                return guard(server, spec, || run(&mut EntityCall { args: &args, entities, session, reply, spec }));
            }
            let now_ms = clock::now_ms();
            let keyspace = &server.keyspace;
            if need_of(spec) >= Need::Removal {
                return write(server, session, spec, &args, reply);
            }
            let is_exact = spec.flags.has(Flags::EXACT);
            let snapshot = if is_exact { keyspace.live_snapshot(now_ms)? } else { keyspace.snapshot() };
            let mut data = Data::patiently_at(keyspace, &snapshot, now_ms);
            run(&mut Call { args: &args, data: &mut data, session, reply, server, spec, handlers: handlers() })?;
            // What is told of others' commits is as durable as they were promised.
            keyspace.db().pending_commits().wait(server.durability()).map_err(|error| {
                server.note_failed_log();
                Refusal::from(error)
            })
        });
        let pieces = session.pieces.take();
        let is_silent = matches!(session.reply_mode, ReplyMode::Off | ReplyMode::Skip);
        match result {
            Ok(()) => {
                if let Some(pieces) = pieces.filter(|_| !is_silent) {
                    self.stage = Stage::Rest(pieces);
                }
            }
            Err(refusal) => {
                reply.bytes.truncate(mark);
                reply.error(refusal.reply_bytes());
                self.spec.iter().for_each(|spec| server.statistics.note_failure(spec));
                server.statistics.note_error(&refusal.reply_text());
            }
        }
        if is_silent {
            reply.bytes.truncate(mark);
        }
        if matches!(self.stage, Stage::Done) { Step::Done } else { Step::More }
    }
}

/// Runs a command that writes much: it prepares that while nothing is held. It is run again while it lacks pages, which
/// this thread loads. What it prepares goes to runs meanwhile, and moves others on, so that pages that were loaded may
/// be those of files that have gone: after a few attempts it does all in the hold, which moves nothing.
fn write(
    server: &Server,
    session: &mut Session,
    spec: &'static Spec,
    args: &[&[u8]],
    reply: &mut Reply,
) -> CommandResult {
    let mark = reply.bytes.len();
    let (mut lent, mut attempts) = (PageFaults::default(), 0);
    loop {
        let mut data = Data::beside(&server.keyspace, clock::now_ms(), lent);
        if attempts >= TRIES_MAX {
            data.begin_writing(clock::now_ms())?;
        }
        attempts += 1;
        // What is not prepared by now is done in the hold.
        session.can_wait = false;
        session.begin_attempt();
        let result = run(&mut Call { args, data: &mut data, session, reply, server, spec, handlers: handlers() });
        match data.end_beside()? {
            Ok(committed) => {
                // As with other commands, what was written before a refusal stays.
                committed.wait(server.durability()).inspect_err(|_| server.note_failed_log())?;
                return result;
            }
            Err(faults) => {
                reply.bytes.truncate(mark);
                session.pieces = None;
                lent = faults;
                server.keyspace.db().latched().load(&mut lent)?;
            }
        }
    }
}
