//! The commands that a connection has sent: read from its socket, parsed, and run in the turn of its thread.
//!
//! Bytes are parsed where the thread has read them. What a connection keeps is what no turn has done with: a command
//! that has not come whole, or commands that wait.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::{COMMANDS_MAX, Connection};
use crate::execution::batch::{Progress, Turn};
use crate::execution::long::{Beside, LongCommand};
use crate::execution::words::Words;
use crate::resp::parse::{Batch, Limits};
use crate::resp::reply::Protocol;
use crate::state::server::Server;
use crate::state::session::Session;
use crate::system::clock;

/// Bytes read from one connection at a time.
pub(super) const READ_BYTES: usize = 256 << 10;

/// Reads what a connection has sent, as far as the turn goes, and runs it.
pub(super) fn read_and_run(
    server: &Arc<Server>,
    turn: &mut Turn<'_>,
    connection: &mut Connection,
    buffer: &mut [u8],
    batch: &mut Batch,
    bytes_in: &mut u64,
    start_long: impl FnOnce(Box<Session>, LongCommand, Protocol),
) -> io::Result<()> {
    let mut long = None;
    let mut own = std::mem::take(&mut connection.input);
    if own.is_empty() {
        let mut filled = 0;
        if connection.is_readable {
            connection.fill(buffer, &mut filled)?;
        }
        *bytes_in += filled as u64;
        let input = &buffer[..filled];
        let consumed = run_input(server, turn, connection, input, batch, &mut long);
        connection.input.extend_from_slice(&input[consumed..]);
        if let Some(Long { session, words, why }) = long {
            let copy = |places: Vec<Range<usize>>| Words::copy(places.into_iter().map(|place| &input[place]));
            let command = LongCommand::new(words.map_or_else(|words| words, copy), why);
            start_long(session, command, connection.reply.protocol);
        }
    } else {
        if connection.is_readable {
            *bytes_in += read_more(connection, &mut own)? as u64;
        }
        let consumed = run_input(server, turn, connection, &own, batch, &mut long);
        match long {
            Some(Long { session, words: Ok(places), why }) => {
                connection.input.extend_from_slice(&own[consumed..]);
                let command = LongCommand::new(Words::take(own, places), why);
                start_long(session, command, connection.reply.protocol);
            }
            other => {
                own.drain(..consumed);
                own.shrink_to(READ_BYTES.max(2 * own.len()));
                connection.input = own;
                if let Some(Long { session, words: Err(words), why }) = other {
                    start_long(session, LongCommand::new(words, why), connection.reply.protocol);
                }
            }
        }
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

/// Reads more after bytes that came before. Returns how many.
fn read_more(connection: &mut Connection, own: &mut Vec<u8>) -> io::Result<usize> {
    let before = own.len();
    let wanted_bytes = connection.wanted_bytes();
    let read_bytes = wanted_bytes.clamp(READ_BYTES / 4, 4 * READ_BYTES);
    if own.capacity() < before + read_bytes {
        // In proportion to what has come, and no more than the command lacks.
        own.reserve_exact(read_bytes.max(wanted_bytes.min(before)));
    }
    own.resize(before + read_bytes, 0);
    let mut filled = before;
    connection.fill(own, &mut filled)?;
    own.truncate(filled);
    Ok(filled - before)
}

/// A command that is to be run beside the loop.
struct Long {
    session: Box<Session>,
    /// Where its words lie in the input; copies, if some had quotes.
    words: Result<Vec<Range<usize>>, Words>,
    why: Beside,
}

/// Parses and runs commands from the start of `input`. Returns how many bytes are done with.
fn run_input(
    server: &Arc<Server>,
    turn: &mut Turn<'_>,
    connection: &mut Connection,
    input: &[u8],
    batch: &mut Batch,
    long: &mut Option<Long>,
) -> usize {
    let mut consumed = 0;
    let mut commands = 0;
    loop {
        let Some(session) = &mut connection.session else { return consumed };
        // The limits change when a client has authenticated: its commands are parsed one at a time until then.
        let commands_max = if session.is_authenticated { connection.parsed_max } else { 1 };
        batch.clear();
        connection.parser.set_limits(limits(server, session));
        let rest = &input[consumed..];
        if speaks_postgres(rest) {
            connection.reply.bytes.extend_from_slice(&refusal_to_postgres());
            connection.is_closing = true;
            return input.len();
        }
        let parsed = connection.parser.parse(rest, commands_max, batch);
        let progress = turn.run(session, rest, batch, 0, &mut connection.reply);
        commands += batch.len();
        connection.note_run(progress == Progress::Done);
        match progress {
            Progress::Done => {}
            Progress::Closing => {
                connection.is_closing = true;
                return input.len();
            }
            Progress::Paused(number) | Progress::Enough(number) | Progress::Lacks(number) => {
                connection.is_paused = matches!(progress, Progress::Paused(_));
                connection.is_parked = matches!(progress, Progress::Lacks(_));
                connection.set_has_commands(true);
                connection.parser.restart_at_command();
                return consumed + number.checked_sub(1).map_or(0, |last| batch.end_of(last));
            }
            Progress::Beside(number, why) => {
                let done = consumed + batch.end_of(number);
                *long = take_long(connection, input, batch.arguments(rest, number), why, done);
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

/// The command of these words, which is run beside the loop; the input up to `done` is done with.
fn take_long<'w>(
    connection: &mut Connection,
    input: &[u8],
    words: impl Iterator<Item = &'w [u8]> + Clone,
    why: Beside,
    done: usize,
) -> Option<Long> {
    // A long value is not copied.
    let words = Words::places_in(input, words.clone()).ok_or_else(|| Words::copy(words));
    // What comes after it waits: it is parsed again then.
    connection.parser.restart_at_command();
    // It runs once this one is answered, also if the client sends no more.
    connection.set_has_commands(done < input.len());
    connection.session.take().map(|session| Long { session, words, why })
}

/// Whether a client of PostgreSQL has come to the port for Redis clients, where it would wait for ever. Its first
/// message begins with its length, below 16 MiB, and asks for TLS, for GSSAPI, or for version 3 of the protocol.
fn speaks_postgres(input: &[u8]) -> bool {
    let Some([0, _, _, _, code @ ..]) = input.first_chunk::<8>() else { return false };
    matches!(u32::from_be_bytes(*code), 80_877_103 | 80_877_104 | 0x3_0000..=0x3_ffff)
}

/// The answer to such a client: an error of its protocol.
fn refusal_to_postgres() -> Vec<u8> {
    let what = "this port is for clients of Redis; `quipu serve --pg-port` has one for clients of PostgreSQL";
    let fields = format!("SFATAL\0VFATAL\0C08P01\0M{what}\0\0");
    let length = (fields.len() + 4) as u32;
    [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
}

/// What a client may send.
fn limits(server: &Server, session: &Session) -> Limits {
    Limits {
        bulk_bytes_max: server.config.parameters.bulk_bytes_max.load(Ordering::Relaxed) as usize,
        is_authenticated: session.is_authenticated,
        ..Limits::default()
    }
}
