//! A thread that serves connections: wait, read, run, commit, send.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::connection::Connection;
use super::listener::Listener;
use super::stream::Stream;
use crate::clock;
use crate::execute::{Progress, Turn, run_long};
use crate::resp::parse::{Batch, Limits};
use crate::resp::reply::Reply;
use crate::server::Server;
use crate::session::Session;

/// Bytes read from one connection at a time.
const READ_BYTES: usize = 256 << 10;
/// Commands of one connection in one turn of the loop.
const COMMANDS_MAX: usize = 4096;
const WAKE_TOKEN: Token = Token(0);
/// Listeners have the tokens behind; connections those behind these.
const FIRST_LISTENER: usize = 1;
const FIRST_CONNECTION: usize = 1024;
/// How long a stop waits for clients to take their answers.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How often limits of time are looked at, and paused commands tried again.
const TICK: Duration = Duration::from_millis(100);
const PAUSED_TICK: Duration = Duration::from_millis(5);

/// What others send to a worker.
enum Message {
    /// A client to serve.
    Client(Box<Stream>, String, String),
    /// A long command has been run for the connection in this slot.
    Answered { slot: usize, session: Box<Session>, reply: Reply },
    /// The long command of the client of this number has ended without an answer.
    Lost { slot: usize, id: u64 },
    /// Something was put into the mailbox of the client of this number, or it is to go.
    Mail { slot: usize, id: u64 },
}

/// How others reach a worker.
#[derive(Clone)]
pub(super) struct Handle {
    sender: Sender<Message>,
    waker: Arc<Waker>,
}

impl Handle {
    pub(super) fn wake(&self) {
        // If it cannot be woken, its loop has ended.
        let _ = self.waker.wake();
    }

    fn send(&self, message: Message) {
        // As above.
        let _ = self.sender.send(message);
        self.wake();
    }
}

pub(super) struct Worker {
    server: Arc<Server>,
    poll: Poll,
    handle: Handle,
    messages: Receiver<Message>,
    listeners: Vec<Listener>,
    /// Listeners that failed for want of something, such as file numbers: they are tried again.
    failed_listeners: Vec<usize>,
    /// All workers, among whom the one that listens deals out clients.
    workers: Vec<Handle>,
    next_worker: usize,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections with something to do that no event will tell.
    ready: VecDeque<usize>,
    /// Connections whose next command waits.
    paused: Vec<usize>,
    last_tick: Instant,
    buffer: Box<[u8]>,
    batch: Batch,
}

impl Worker {
    pub(super) fn new(server: Arc<Server>, _: usize) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE_TOKEN)?);
        let (sender, messages) = channel();
        Ok(Worker {
            server,
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
        loop {
            let timeout = match (self.ready.is_empty(), self.paused.is_empty()) {
                (false, _) => Duration::ZERO,
                (true, false) => PAUSED_TICK,
                (true, true) => TICK,
            };
            match self.poll.poll(&mut events, Some(timeout)) {
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
                            touched.push(slot);
                        }
                    }
                }
            }
            self.read_messages(&mut touched);
            self.resume(&mut touched);
            self.tick(&mut touched);
            self.serve(&touched);
            if self.server.stopping.load(Ordering::Acquire) && self.may_stop(&mut stop_at) {
                return;
            }
        }
    }

    /// Whether all answers are sent, or that has taken too long.
    fn may_stop(&mut self, stop_at: &mut Option<std::time::Instant>) -> bool {
        self.listeners.clear();
        let started = *stop_at.get_or_insert_with(crate::clock::moment);
        let is_idle = |connection: &Connection| connection.backlog_bytes() == 0 && connection.session.is_some();
        self.connections.iter().flatten().all(is_idle) || crate::clock::since(started) > DRAIN_MAX
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
        if idle_s == 0 && soft_bytes == 0 {
            return;
        }
        let now_ms = clock::now_ms();
        for (slot, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            let Some(session) = &connection.session else { continue };
            let idle_ms = now_ms.saturating_sub(connection.client.active_ms.load(Ordering::Relaxed));
            if idle_s > 0 && idle_ms / 1000 >= idle_s && !session.is_monitor {
                connection.give_up(format!("it was idle for {} seconds", idle_ms / 1000));
                touched.push(slot);
            }
            if soft_bytes > 0 && connection.backlog_bytes() > soft_bytes {
                let since = *connection.over_soft_since.get_or_insert_with(clock::moment);
                if clock::since(since).as_secs() >= soft_s {
                    connection.give_up(format!(
                        "it left {} bytes of answers for {soft_s} seconds",
                        connection.backlog_bytes()
                    ));
                    touched.push(slot);
                }
            } else {
                connection.over_soft_since = None;
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
                self.server.farewell(&session, &format!("it cannot be waited for: {error}"));
            }
        }
    }

    fn read_messages(&mut self, touched: &mut Vec<usize>) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Client(stream, address, local) => self.enter(*stream, address, local),
                Message::Answered { slot, session, reply } => {
                    if let Some(Some(connection)) = self.connections.get_mut(slot) {
                        connection.is_closing |= session.closing;
                        connection.session = Some(session);
                        connection.reply.bytes.extend_from_slice(&reply.bytes);
                        connection.reply.protocol = reply.protocol;
                        touched.push(slot);
                    }
                }
                Message::Lost { slot, id } => {
                    if self
                        .connections
                        .get(slot)
                        .is_some_and(|open| open.as_ref().is_some_and(|one| one.client.id == id))
                    {
                        self.server.log(format_args!("client {id}: closed: its command ended without an answer"));
                        self.close(slot);
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

    /// Runs what the connections have sent, in one turn, and sends the answers.
    fn serve(&mut self, touched: &[usize]) {
        if touched.is_empty() {
            return;
        }
        let server = self.server.clone();
        let mut turn = Turn::new(&server);
        let mut bytes_in = 0;
        for &slot in touched {
            let Some(Some(connection)) = self.connections.get_mut(slot) else { continue };
            if !connection.takes_commands() {
                continue;
            }
            if let Err(error) = read_and_run(
                &server,
                &mut turn,
                connection,
                &mut self.buffer,
                &mut self.batch,
                &mut bytes_in,
                |session, words, reply| {
                    spawn_long(&server, &self.handle, slot, session, words, reply);
                },
            ) {
                connection.give_up(format!("reading failed: {error}"));
            }
        }
        if let Err(error) = turn.finish(server.durability()) {
            // What was answered is not durable: nobody may be told otherwise.
            server.log(format_args!("a commit failed: {error}"));
            for &slot in touched {
                if let Some(Some(connection)) = self.connections.get_mut(slot) {
                    connection.reply.bytes.clear();
                    connection.reply.error(format!("MISCONF {error}"));
                    connection.is_closing = true;
                }
            }
        }
        let mut bytes_out = 0;
        for &slot in touched {
            let Some(Some(connection)) = self.connections.get_mut(slot) else { continue };
            let sent = connection.flush();
            bytes_out += *sent.as_ref().unwrap_or(&0) as u64;
            if let Err(error) = &sent
                && connection.why_closed.is_empty()
            {
                connection.give_up(format!("writing failed: {error}"));
            }
            if connection.backlog_bytes() > server.config.output_bytes_max() {
                connection.give_up(format!("it left {} bytes of answers", connection.backlog_bytes()));
            }
            connection.note();
            if connection.is_finished() || (sent.is_err() && connection.session.is_some()) {
                self.close(slot);
            } else if connection.is_paused {
                self.paused.push(slot);
            } else if connection.takes_commands() && (connection.is_readable || connection.has_commands()) {
                self.ready.push_back(slot);
            }
        }
        server.statistics.note_bytes(bytes_in, bytes_out);
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.connections[slot].take() {
            connection.stream.end();
            connection.stream.deregister(self.poll.registry());
            match &connection.session {
                Some(session) => self.server.farewell(session, &connection.why_closed),
                None => self.server.clients.leave(connection.client.id),
            }
            self.free.push(slot);
        }
    }
}

/// Runs a command whose answer takes long on a thread of its own; the connection waits for it, others do not.
fn spawn_long(
    server: &Arc<Server>,
    handle: &Handle,
    slot: usize,
    mut session: Box<Session>,
    words: Vec<Vec<u8>>,
    protocol: crate::resp::reply::Protocol,
) {
    let server = server.clone();
    let promise = Promise { handle: handle.clone(), slot, id: session.id, is_kept: false };
    let run = move || {
        let mut reply = Reply::new(protocol);
        run_long(&server, &mut session, &words, &mut reply);
        promise.keep(session, reply);
    };
    // A thread costs some 20 us, and the command milliseconds. If there is none to be had, the promise is dropped, which closes the connection.
    let _ = std::thread::Builder::new().name("long".to_owned()).spawn(run);
}

/// That a long command will be answered. Dropped without, it lets the connection close.
struct Promise {
    handle: Handle,
    slot: usize,
    id: u64,
    is_kept: bool,
}

impl Promise {
    fn keep(mut self, session: Box<Session>, reply: Reply) {
        self.is_kept = true;
        self.handle.send(Message::Answered { slot: self.slot, session, reply });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.is_kept {
            self.handle.send(Message::Lost { slot: self.slot, id: self.id });
        }
    }
}

/// Reads what a connection has sent, as far as the turn goes, and runs it.
fn read_and_run(
    server: &Arc<Server>,
    turn: &mut Turn<'_>,
    connection: &mut Connection,
    buffer: &mut [u8],
    batch: &mut Batch,
    bytes_in: &mut u64,
    long: impl FnOnce(Box<Session>, Vec<Vec<u8>>, crate::resp::reply::Protocol),
) -> io::Result<()> {
    let mut own = std::mem::take(&mut connection.input);
    let (input, consumed): (&[u8], usize);
    let mut filled = own.len();
    if own.is_empty() {
        if connection.is_readable {
            connection.fill(buffer, &mut filled)?;
        }
        *bytes_in += filled as u64;
        input = &buffer[..filled];
        consumed = run_input(server, turn, connection, input, batch, long);
        connection.input.extend_from_slice(&input[consumed..]);
    } else {
        if connection.is_readable {
            let before = filled;
            own.resize(before + connection.wanted_bytes().clamp(READ_BYTES / 4, 4 * READ_BYTES), 0);
            connection.fill(&mut own, &mut filled)?;
            own.truncate(filled);
            *bytes_in += (filled - before) as u64;
        }
        consumed = run_input(server, turn, connection, &own, batch, long);
        own.drain(..consumed);
        own.shrink_to(READ_BYTES.max(2 * own.len()));
        connection.input = own;
    }
    if connection.is_ended && !connection.has_commands() {
        connection.is_closing = true;
    }
    if *bytes_in > 0 {
        connection.client.active_ms.store(clock::now_ms(), Ordering::Relaxed);
    }
    if connection.input.len() > server.config.query_bytes_max() {
        connection.give_up(format!("{} bytes of commands are over the limit", connection.input.len()));
    }
    Ok(())
}

/// Parses and runs commands from the start of `input`. Returns how many bytes are done with.
fn run_input(
    server: &Arc<Server>,
    turn: &mut Turn<'_>,
    connection: &mut Connection,
    input: &[u8],
    batch: &mut Batch,
    long: impl FnOnce(Box<Session>, Vec<Vec<u8>>, crate::resp::reply::Protocol),
) -> usize {
    let mut consumed = 0;
    let mut commands = 0;
    loop {
        let Some(session) = &mut connection.session else { return consumed };
        // The limits change when a client has authenticated: its commands are parsed one at a time until then.
        let commands_max = if session.is_authenticated { COMMANDS_MAX } else { 1 };
        batch.clear();
        connection.parser.set_limits(limits(server, session));
        let rest = &input[consumed..];
        let parsed = connection.parser.parse(rest, commands_max, batch);
        let progress = turn.run(session, rest, batch, 0, &mut connection.reply);
        commands += batch.len();
        match progress {
            Progress::Done => {}
            Progress::Closing => {
                connection.is_closing = true;
                return input.len();
            }
            Progress::Paused(number) | Progress::Enough(number) => {
                connection.is_paused = matches!(progress, Progress::Paused(_));
                connection.set_has_commands(true);
                connection.parser.restart_at_command();
                return consumed + number.checked_sub(1).map_or(0, |last| batch.end_of(last));
            }
            Progress::Long(number) => {
                let words = batch.arguments(rest, number).map(<[u8]>::to_vec).collect();
                // What comes behind it waits: it is parsed again then.
                let done = consumed + batch.end_of(number);
                connection.parser.restart_at_command();
                // It runs once this one is answered, also if the client sends no more.
                connection.set_has_commands(done < input.len());
                if let Some(session) = connection.session.take() {
                    long(session, words, connection.reply.protocol);
                }
                return done;
            }
        }
        match parsed {
            Ok(parsed) => {
                consumed += parsed.consumed;
                connection.set_wanted_bytes(parsed.wanted);
                let is_full = batch.len() == commands_max;
                connection.set_has_commands(is_full && consumed < input.len());
                if !is_full || commands >= COMMANDS_MAX || consumed == input.len() {
                    return consumed;
                }
            }
            Err(error) => {
                connection.reply.error([b"ERR ", &*error.text()].concat());
                server.statistics.note_refusal();
                connection.is_closing = true;
                return input.len();
            }
        }
    }
}

/// What a client may send.
fn limits(server: &Server, session: &Session) -> Limits {
    Limits {
        bulk_bytes_max: server.config.parameters.bulk_bytes_max.load(Ordering::Relaxed) as usize,
        is_authenticated: session.is_authenticated,
        ..Limits::default()
    }
}
