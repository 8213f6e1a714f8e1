//! A thread that serves connections: wait, read, run, commit, send.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::connection::{Connection, Weight};
use super::handle::{Handle, Message};
use super::input::{READ_BYTES, read_and_run};
use super::listener::Listener;
use super::loading::{Loading, Parked};
use super::long::{Job, Queue};
use super::stream::Stream;
use crate::execution::batch::{LATE_TURN_MAX, Turn};
use crate::resp::parse::Batch;
use crate::state::server::Server;
use crate::system::clock;
use crate::system::log::Level;
use crate::system::waiting::Entered;

const WAKE_TOKEN: Token = Token(0);
/// The first tokens of listeners and of connections.
const FIRST_LISTENER: usize = 1;
const FIRST_CONNECTION: usize = 1024;
/// How long a stop waits for clients to take their answers.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How long a long answer waits for a client that takes nothing of it, in seconds, if no soft limit of answers says.
const STALL_S: u64 = 60;
/// A connection whose commands took as long in a turn is heavy in the next: it is served after the others.
const HEAVY: Duration = Duration::from_micros(250);
/// How often limits of time are looked at, and paused commands tried again.
const TICK: Duration = Duration::from_millis(100);
const PAUSED_TICK: Duration = Duration::from_millis(5);

pub(super) struct Worker {
    server: Arc<Server>,
    /// Where long commands are run.
    long: Arc<Queue>,
    /// Where what commands lack is brought.
    loading: Arc<Loading>,
    poll: Poll,
    handle: Handle,
    messages: Receiver<Message>,
    listeners: Vec<Listener>,
    /// Listeners that failed because something ran out, such as file descriptors: they are tried again.
    failed_listeners: Vec<usize>,
    /// All workers, among whom the one that listens deals out clients.
    workers: Vec<Handle>,
    next_worker: usize,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections with something to do that no event will tell.
    ready: VecDeque<usize>,
    /// Whether the last turn was over before all had theirs.
    is_behind: bool,
    /// Connections whose next command waits.
    paused: Vec<usize>,
    last_tick: Instant,
    buffer: Box<[u8]>,
    batch: Batch,
}

impl Worker {
    pub(super) fn new(server: Arc<Server>, long: Arc<Queue>, loading: Arc<Loading>) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE_TOKEN)?);
        let (sender, messages) = channel();
        Ok(Worker {
            server,
            long,
            loading,
            poll,
            handle: Handle { sender, waker },
            messages,
            listeners: Vec::new(),
            failed_listeners: Vec::new(),
            workers: Vec::new(),
            next_worker: 0,
            connections: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            is_behind: false,
            paused: Vec::new(),
            last_tick: clock::moment(),
            buffer: vec![0; READ_BYTES].into(),
            batch: Batch::new(),
        })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Makes this worker the one that listens.
    pub(super) fn accept(&mut self, mut listeners: Vec<Listener>, workers: Vec<Handle>) -> io::Result<()> {
        for (number, listener) in listeners.iter_mut().enumerate() {
            listener.register(self.poll.registry(), Token(FIRST_LISTENER + number))?;
        }
        (self.listeners, self.workers) = (listeners, workers);
        Ok(())
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        let mut touched: Vec<usize> = Vec::new();
        let mut stop_at = None;
        let server = self.server.clone();
        let awake = server.awake.enter();
        loop {
            let timeout = match (self.ready.is_empty(), self.paused.is_empty()) {
                (false, _) => Duration::ZERO,
                (true, false) => PAUSED_TICK,
                (true, true) => TICK,
            };
            let poll_us = self.server.config.parameters.poll_us.load(Ordering::Relaxed);
            let ask_for = if touched.is_empty() { Duration::ZERO } else { Duration::from_micros(poll_us) };
            match wait(&awake, &mut self.poll, &mut events, (ask_for, timeout)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.server.log(format_args!("a thread that serves connections stops: {error}"));
                    return;
                }
            }
            touched.clear();
            touched.extend(self.ready.drain(..));
            for event in &events {
                match event.token() {
                    WAKE_TOKEN => {}
                    Token(number) if number < FIRST_CONNECTION => self.take_clients(number - FIRST_LISTENER),
                    Token(number) => {
                        let slot = number - FIRST_CONNECTION;
                        if let Some(Some(connection)) = self.connections.get_mut(slot) {
                            connection.is_readable |= event.is_readable() || event.is_read_closed();
                            connection.is_read_closed |= event.is_read_closed();
                            if connection.session.is_none() && (event.is_write_closed() || event.is_error()) {
                                connection.give_up_lost("it has gone while its command ran".to_owned());
                            }
                            touched.push(slot);
                        }
                    }
                }
            }
            self.read_messages(&mut touched);
            self.resume(&mut touched);
            self.tick(&mut touched);
            self.serve(&mut touched);
            if self.server.stopping.load(Ordering::Acquire) && self.drain(&mut stop_at) {
                return;
            }
        }
    }

    /// Lets no more clients in. Returns whether all answers are sent, or that has taken too long.
    fn drain(&mut self, stop_at: &mut Option<Instant>) -> bool {
        self.listeners.clear();
        let started = *stop_at.get_or_insert_with(clock::moment);
        let is_idle = |connection: &Connection| {
            connection.backlog_bytes() == 0 && connection.session.is_some() && !connection.is_parked
        };
        self.connections.iter().flatten().all(is_idle) || clock::since(started) > DRAIN_MAX
    }

    /// Lets connections go on whose next command had to wait.
    fn resume(&mut self, touched: &mut Vec<usize>) {
        if self.paused.is_empty() {
            return;
        }
        for slot in std::mem::take(&mut self.paused) {
            if let Some(Some(connection)) = self.connections.get_mut(slot) {
                connection.is_paused = false;
                touched.push(slot);
            }
        }
    }

    /// Looks at limits of time.
    fn tick(&mut self, touched: &mut Vec<usize>) {
        if clock::since(self.last_tick) < TICK {
            return;
        }
        self.last_tick = clock::moment();
        for listener in std::mem::take(&mut self.failed_listeners) {
            self.take_clients(listener);
        }
        let parameters = &self.server.config.parameters;
        let idle_s = parameters.idle_s.load(Ordering::Relaxed);
        let soft_bytes = parameters.output_soft_bytes_max.load(Ordering::Relaxed) as usize;
        let soft_s = parameters.output_soft_s.load(Ordering::Relaxed);
        let stall_s = if soft_bytes > 0 { soft_s } else { STALL_S };
        for (slot, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            let why = if connection.stalled_s() >= stall_s.max(1) {
                Some(format!("it took nothing of a long answer for {stall_s} seconds"))
            } else {
                connection.why_over_time(idle_s, soft_bytes, soft_s)
            };
            if let Some(why) = why {
                connection.give_up(why);
                touched.push(slot);
            }
        }
    }

    fn take_clients(&mut self, number: usize) {
        loop {
            let Some(listener) = self.listeners.get(number) else { return };
            match listener.accept() {
                Ok((stream, address, local)) => self.deal(Box::new(stream), address, local),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.server.log(format_args!("cannot accept a connection: {error}"));
                    self.failed_listeners.push(number);
                    return;
                }
            }
        }
    }

    /// Gives a client to the workers by turns.
    fn deal(&mut self, stream: Box<Stream>, address: String, local: String) {
        let number = self.next_worker % self.workers.len().max(1);
        self.next_worker += 1;
        match self.workers.get(number) {
            Some(worker) if number > 0 => worker.send(Message::Client(stream, address, local)),
            _ => self.enter(*stream, address, local),
        }
    }

    fn enter(&mut self, mut stream: Stream, address: String, local: String) {
        let session = match self.server.welcome(address, local) {
            Ok(session) => session,
            Err(refusal) => {
                let _ = io::Write::write(&mut stream, format!("-{}\r\n", refusal.reply_text()).as_bytes());
                return;
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        match stream.register(self.poll.registry(), Token(FIRST_CONNECTION + slot)) {
            Ok(()) => {
                let (handle, id) = (self.handle.clone(), session.id);
                session.client.reached_by(move || handle.send(Message::Mail { slot, id }));
                self.connections[slot] = Some(Connection::new(stream, session));
                self.ready.push_back(slot);
            }
            Err(error) => {
                self.free.push(slot);
                self.server.farewell(&session.client, &format!("it cannot be waited for: {error}"), Level::Notice);
            }
        }
    }

    fn read_messages(&mut self, touched: &mut Vec<usize>) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Client(stream, address, local) => self.enter(*stream, address, local),
                Message::Answered { job, bytes, step } => {
                    let slot = job.slot;
                    // Its client may have gone, and another may have its slot.
                    if let Some(Some(connection)) = self.connections.get_mut(slot)
                        && connection.client.id == job.session.id
                    {
                        connection.take_answer(*job, bytes, step);
                        touched.push(slot);
                    }
                }
                Message::Loaded { slot, id, attempt } => {
                    if let Some(Some(connection)) = self.connections.get_mut(slot)
                        && connection.client.id == id
                        && let Some(session) = &mut connection.session
                    {
                        session.attempt = Some(attempt);
                        connection.is_parked = false;
                        touched.push(slot);
                    }
                }
                Message::Mail { slot, id } => {
                    if let Some(Some(connection)) = self.connections.get_mut(slot)
                        && connection.client.id == id
                    {
                        if connection.client.is_killed() {
                            connection.give_up("it was killed".to_owned());
                        } else {
                            connection.reply.bytes.extend_from_slice(&connection.client.take_pushed());
                        }
                        touched.push(slot);
                    }
                }
            }
        }
    }

    /// Puts connections that are heavy after the others. Each kind stays in the order in which it came. Returns where
    /// the first is that is not light.
    fn put_heavy_last(&self, touched: &mut [usize]) -> usize {
        let weight = |slot: &usize| {
            let connection = self.connections.get(*slot).and_then(Option::as_ref);
            connection.map_or(Weight::Light, |connection| connection.weight)
        };
        touched.sort_by_key(weight);
        touched.partition_point(|slot| weight(slot) == Weight::Light)
    }

    /// Runs what the connections have sent, in one turn, and sends the answers. Connections that the turn has not come
    /// to when its time is over come first in the next, after those that are light; but each turn serves one that is
    /// not. So a client with small commands waits for a turn and a command, however many clients there are whose
    /// commands take long, and each of these is served in its time.
    fn serve(&mut self, touched: &mut Vec<usize>) {
        if touched.is_empty() {
            return;
        }
        let mut first_heavy = self.put_heavy_last(touched);
        let server = self.server.clone();
        let is_over = server.clients.is_over(&server.config.parameters);
        let mut turn = Turn::begin(&server, self.is_behind);
        let mut bytes_in = 0;
        let began = clock::moment();
        let (mut before, mut served) = (Duration::ZERO, 0);
        // Of those that were not heavy before: how many there are, and how many are now.
        let (mut tried, mut tried_heavy) = (0, 0);
        while served < touched.len() {
            if before >= LATE_TURN_MAX {
                if first_heavy < served || first_heavy == touched.len() {
                    break;
                }
                // Light ones have taken the whole turn.
                touched[served..=first_heavy].rotate_right(1);
                first_heavy = served;
            }
            let slot = touched[served];
            served += 1;
            let Some(Some(connection)) = self.connections.get_mut(slot) else { continue };
            if !connection.takes_commands(is_over) {
                continue;
            }
            let begin_long = |session, read, protocol| {
                let handle = self.handle.clone();
                self.long.push(Job { read, session, protocol, handle, slot });
            };
            let (buffer, batch) = (&mut self.buffer, &mut self.batch);
            if let Err(error) = read_and_run(&server, &mut turn, connection, buffer, batch, &mut bytes_in, begin_long) {
                connection.give_up_lost(format!("reading failed: {error}"));
            }
            let now = clock::since(began);
            let weight = if now - before >= HEAVY { Weight::Heavy } else { Weight::Light };
            if connection.weight != Weight::Heavy {
                tried += 1;
                tried_heavy += usize::from(weight == Weight::Heavy);
            }
            connection.weight = weight;
            before = now;
            if connection.is_parked
                && let Some(attempt) = connection.session.as_mut().and_then(|session| session.attempt.take())
            {
                let (client, handle) = (connection.client.clone(), self.handle.clone());
                self.loading.push(Parked { attempt, client, handle, slot });
            }
        }
        self.is_behind = served < touched.len();
        // Where most took long that were not known to, those that follow may, too: others who come now go first.
        let are_suspected = tried_heavy > 0 && 2 * tried_heavy > tried;
        for slot in touched.drain(served..) {
            if let Some(Some(connection)) = self.connections.get_mut(slot)
                && are_suspected
            {
                connection.weight = connection.weight.max(Weight::Suspected);
            }
            self.ready.push_back(slot);
        }
        if let Err(error) = turn.finish(server.durability()) {
            // What was answered is not durable: no client may be told otherwise.
            server.log(format_args!("a commit failed: {error}"));
            self.take_back_answers(touched, &error);
        }
        let bytes_out = touched.iter().map(|&slot| self.send(slot, is_over)).sum();
        server.statistics.note_bytes(bytes_in, bytes_out);
    }

    /// Answers connections with an error instead of all that they were to be answered, and closes them.
    fn take_back_answers(&mut self, slots: &[usize], error: &quipu::Error) {
        for &slot in slots {
            if let Some(Some(connection)) = self.connections.get_mut(slot) {
                connection.reply.bytes.clear();
                connection.reply.error(format!("MISCONF {error}"));
                connection.is_closing = true;
            }
        }
    }

    /// Sends what a connection has for its client, and notes what it waits for. Returns how many bytes were sent.
    fn send(&mut self, slot: usize, is_over: bool) -> u64 {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return 0 };
        let sent = connection.flush();
        let bytes = *sent.as_ref().unwrap_or(&0) as u64;
        if let Err(error) = &sent
            && connection.why_closed.is_empty()
        {
            connection.give_up_lost(format!("writing failed: {error}"));
        }
        if connection.backlog_bytes() > self.server.config.output_bytes_max() {
            connection.give_up(format!("it left {} bytes of answers", connection.backlog_bytes()));
        }
        connection.note(&self.server.clients);
        if connection.is_finished() || sent.is_err() {
            self.close(slot);
            return bytes;
        }
        if let Some(job) = connection.next_step() {
            self.long.push(job);
        }
        if connection.is_closing {
            // It waits for its answers to be taken.
        } else if connection.is_paused {
            self.paused.push(slot);
        } else if connection.takes_commands(is_over) && (connection.is_readable || connection.has_commands()) {
            self.ready.push_back(slot);
        }
        bytes
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.connections[slot].take() {
            connection.stream.end();
            connection.stream.deregister(self.poll.registry());
            self.server.farewell(&connection.client, &connection.why_closed, connection.level);
            self.free.push(slot);
        }
    }
}

/// Waits for events: asks for the first of the two times, then sleeps for the other at most.
fn wait(
    awake: &Entered<'_>,
    poll: &mut Poll,
    events: &mut Events,
    (ask_for, timeout): (Duration, Duration),
) -> io::Result<()> {
    if timeout.is_zero() {
        return poll.poll(events, Some(timeout));
    }
    let has_more = || poll.poll(events, Some(Duration::ZERO)).map(|()| !events.is_empty());
    if awake.ask(ask_for, has_more)? { Ok(()) } else { awake.sleep(|| poll.poll(events, Some(timeout))) }
}
