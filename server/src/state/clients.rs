//! The clients that are connected: what others may know of each, and how they reach it.
//!
//! A [`Client`] is the part of a session that other threads see. The thread that serves the client writes it once in
//! each turn of its loop, in plain stores of numbers. Names change seldom and are protected by a lock.
//!
//! Others reach a client through its mailbox: they leave bytes for it (`MONITOR`), or the request to close (`CLIENT
//! KILL`), and wake its thread.
//!
//! Not here: sockets (`net/`), and the part of a session that only its own thread sees (`state/session`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::config::Parameters;
use crate::facts;
use crate::system::clock;

/// Bytes that wait in a mailbox above which its client is closed: it does not keep up with what it monitors.
const MAILBOX_BYTES_MAX: usize = 64 << 20;

/// Bytes that all clients together may hold if `maxmemory-clients` says nothing.
const HELD_BYTES_MAX: usize = 1 << 30;

fn held_bytes_max(parameters: &Parameters) -> usize {
    match parameters.clients_bytes_max() as usize {
        0 => HELD_BYTES_MAX,
        bytes => bytes,
    }
}

/// What others see of a client.
pub struct Client {
    /// A number no other client of this server has had.
    pub id: u64,
    /// Its address.
    pub address: String,
    /// The address it connected to.
    pub local_address: String,
    /// When it connected, in milliseconds since 1970.
    pub connected_ms: u64,
    /// When it last sent something, likewise.
    pub active_ms: AtomicU64,
    /// Its database.
    pub database: AtomicU32,
    /// Commands queued in a transaction; -1: none is begun.
    pub queued: AtomicI64,
    /// Bytes of commands that have not come whole, or wait.
    pub input_bytes: AtomicUsize,
    /// Bytes of answers that wait to be taken.
    pub output_bytes: AtomicUsize,
    /// Bytes of commands queued in a transaction.
    pub queued_bytes: AtomicUsize,
    /// The number of its last command; `u32::MAX`: none yet.
    pub command: AtomicU32,
    /// The version of the protocol it speaks.
    pub protocol: AtomicU32,
    /// Whether it sees all commands.
    pub is_monitor: AtomicBool,
    /// Whether its next command waits, as `CLIENT PAUSE` wants it.
    pub is_waiting: AtomicBool,
    /// Whether it came by a local socket.
    pub is_local: bool,
    /// Bytes of its session.
    pub session_bytes: AtomicUsize,
    /// Bytes that the server holds for it: commands that wait or are queued, and answers.
    held_bytes: AtomicUsize,
    /// Whether it is closed last when clients hold too much: `CLIENT NO-EVICT`.
    pub stays: AtomicBool,
    /// Set when it is to go.
    killed: AtomicBool,
    /// Set when it will take its answers and go.
    leaves: AtomicBool,
    names: Mutex<Names>,
    mailbox: Mutex<Vec<u8>>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What a client is called.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// Its user.
    pub user: String,
    /// The library it uses, and its version.
    pub library: (Vec<u8>, Vec<u8>),
}

impl Client {
    /// One that has just connected.
    pub fn new(id: u64, address: String, local_address: String, now_ms: u64) -> Client {
        let is_local = address.starts_with('/');
        Client {
            id,
            address,
            local_address,
            connected_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            database: AtomicU32::new(0),
            queued: AtomicI64::new(-1),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            command: AtomicU32::new(u32::MAX),
            protocol: AtomicU32::new(2),
            is_monitor: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            is_local,
            session_bytes: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            stays: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            names: Mutex::default(),
            mailbox: Mutex::default(),
            wake: OnceLock::new(),
        }
    }

    /// What it is called.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how its thread is woken.
    pub fn reached_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        // It has one thread all its life.
        let _ = self.wake.set(Box::new(wake));
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Makes it go, soon.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Notes that it goes as soon as it has its answers.
    pub fn note_leaving(&self) {
        self.leaves.store(true, Ordering::Release);
    }

    /// Whether it is to go.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Sends it bytes that answer no command.
    pub fn push(&self, bytes: &[u8]) {
        let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = mailbox.is_empty();
        if mailbox.len() + bytes.len() > MAILBOX_BYTES_MAX {
            self.killed.store(true, Ordering::Release);
        } else {
            mailbox.extend_from_slice(bytes);
        }
        drop(mailbox);
        if was_empty {
            self.wake();
        }
    }

    /// Takes what was pushed.
    pub fn take_pushed(&self) -> Vec<u8> {
        std::mem::take(&mut *self.mailbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its line in `CLIENT LIST`.
    pub fn line(&self) -> String {
        let now_ms = clock::now_ms();
        let age = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        let names = self.names().clone();
        let number = self.command.load(Ordering::Relaxed) as usize;
        let command = facts::by_number().get(number).map_or("NULL", |spec| spec.name);
        let queued = self.queued.load(Ordering::Relaxed);
        let mut flags = String::new();
        for (is_set, flag) in [
            (self.is_monitor.load(Ordering::Relaxed), 'O'),
            (queued >= 0, 'x'),
            (self.is_waiting.load(Ordering::Relaxed), 'b'),
            (self.is_local, 'U'),
            (self.is_killed(), 'c'),
        ] {
            if is_set {
                flags.push(flag);
            }
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let input_bytes = self.input_bytes.load(Ordering::Relaxed);
        let output_bytes = self.output_bytes.load(Ordering::Relaxed);
        let queued_bytes = self.queued_bytes.load(Ordering::Relaxed);
        let held_bytes = input_bytes + output_bytes + queued_bytes;
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 \
             multi={queued} qbuf={input_bytes} qbuf-free=0 argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 \
             obl={output_bytes} oll=0 omem={output_bytes} tot-mem={} events=r cmd={command} user={} redir=-1 resp={} lib-name={} \
             lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            self.id,
            String::from_utf8_lossy(&names.name),
            age(self.connected_ms),
            age(self.active_ms.load(Ordering::Relaxed)),
            self.database.load(Ordering::Relaxed),
            self.session_bytes.load(Ordering::Relaxed) + size_of::<Client>() + held_bytes,
            names.user,
            self.protocol.load(Ordering::Relaxed),
            String::from_utf8_lossy(&names.library.0),
            String::from_utf8_lossy(&names.library.1),
        );
        line
    }
}

/// All clients that are connected, by number.
#[derive(Default)]
pub struct Clients {
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    monitors: Mutex<Vec<Arc<Client>>>,
    /// How many see all commands: if there is none, no client is looked for.
    monitor_count: AtomicUsize,
    /// Bytes that the server holds for all of them.
    held_bytes: AtomicUsize,
    /// Until when commands wait, in milliseconds since 1970.
    paused_until_ms: AtomicU64,
    pauses_all: AtomicBool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes one in, if there are fewer than `max`.
    pub fn enter(&self, client: &Arc<Client>, max: u64) -> bool {
        let mut clients = self.lock();
        if clients.len() as u64 >= max {
            return false;
        }
        clients.insert(client.id, client.clone());
        true
    }

    /// One has gone.
    pub fn leave(&self, client: &Client) {
        self.lock().remove(&client.id);
        self.end_monitor(client.id);
        self.hold(client, 0);
        // A thread that works for it need not go on.
        client.killed.store(true, Ordering::Release);
    }

    /// Notes how many bytes the server holds for a client.
    pub fn hold(&self, client: &Client, bytes: usize) {
        let before = client.held_bytes.swap(bytes, Ordering::Relaxed);
        self.held_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Bytes that the server holds for all clients.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Whether clients hold more than half of what they may together: then less is done ahead for those that are slow.
    pub fn is_over(&self, parameters: &Parameters) -> bool {
        self.held_bytes() > held_bytes_max(parameters) / 2
    }

    /// If clients hold more than they may, lets those go that hold the most, and returns them with what they held.
    pub fn evict(&self, parameters: &Parameters) -> Vec<(Arc<Client>, usize)> {
        let max = held_bytes_max(parameters);
        let mut held = self.held_bytes();
        if held <= max {
            return Vec::new();
        }
        let bytes_of = |client: &Client| client.held_bytes.load(Ordering::Relaxed);
        let mut clients: Vec<_> = self
            .all()
            .into_iter()
            .map(|client| (client.stays.load(Ordering::Relaxed), bytes_of(&client), client))
            .collect();
        clients.sort_by_key(|(stays, bytes, client)| (*stays, std::cmp::Reverse(*bytes), client.id));
        let mut gone = Vec::new();
        for (_, bytes, client) in clients {
            if held <= max || bytes == 0 {
                break;
            }
            held = held.saturating_sub(bytes);
            client.kill();
            gone.push((client, bytes));
        }
        gone
    }

    /// All that stay, by number.
    pub fn all(&self) -> Vec<Arc<Client>> {
        let stays = |client: &&Arc<Client>| !client.is_killed() && !client.leaves.load(Ordering::Acquire);
        self.lock().values().filter(stays).cloned().collect()
    }

    /// The one of that number.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// Shows all commands to a client from now on.
    pub fn begin_monitor(&self, client: &Arc<Client>) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        monitors.push(client.clone());
        self.monitor_count.store(monitors.len(), Ordering::Release);
    }

    /// Shows it no more.
    pub fn end_monitor(&self, id: u64) {
        let mut monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner);
        monitors.retain(|client| client.id != id);
        self.monitor_count.store(monitors.len(), Ordering::Release);
    }

    /// Whether a client sees all commands.
    #[inline]
    pub fn has_monitors(&self) -> bool {
        self.monitor_count.load(Ordering::Relaxed) > 0
    }

    /// Shows a command to the clients that see all.
    pub fn tell_monitors(&self, from: &Client, database: usize, args: &[&[u8]]) {
        let now_us = clock::now_us();
        let mut line =
            format!("+{}.{:06} [{} {}]", now_us / 1_000_000, now_us % 1_000_000, database, from.address).into_bytes();
        for word in args {
            line.push(b' ');
            quote(&mut line, word);
        }
        line.extend_from_slice(b"\r\n");
        let monitors = self.monitors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        monitors.iter().filter(|client| client.id != from.id).for_each(|client| client.push(&line));
    }

    /// Lets commands wait: all, or those that write.
    pub fn pause(&self, until_ms: u64, all: bool) {
        // Of two pauses, the longer and the stricter one counts.
        let running = self.paused_until_ms() > clock::now_ms();
        self.pauses_all.store(all || (running && self.pauses_all.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.paused_until_ms.fetch_max(until_ms, Ordering::AcqRel);
    }

    /// Lets them go on.
    pub fn unpause(&self) {
        self.paused_until_ms.store(0, Ordering::Release);
    }

    /// Until when commands wait, in milliseconds since 1970; 0 if they do not.
    #[inline]
    pub fn paused_until_ms(&self) -> u64 {
        self.paused_until_ms.load(Ordering::Relaxed)
    }

    /// Whether a command has to wait.
    pub fn is_paused(&self, writes: bool) -> bool {
        let until_ms = self.paused_until_ms();
        if until_ms == 0 {
            return false;
        }
        if until_ms <= clock::now_ms() {
            // A pause that began in between has stored another moment.
            let _ = self.paused_until_ms.compare_exchange(until_ms, 0, Ordering::AcqRel, Ordering::Relaxed);
            return false;
        }
        writes || self.pauses_all.load(Ordering::Relaxed)
    }
}

/// A word in quotes, as `MONITOR` shows it.
pub fn quote(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'"');
    for byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
