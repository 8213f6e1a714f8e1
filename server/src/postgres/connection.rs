//! A connection from its beginning to its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quipu_sql::types::text_encoding::TextEncoding;
use quipu_sql::{Session, SqlError, SqlState};

use super::answers::{Authentication, Severity};
use super::bell::{Bell, Rung};
use super::buffers::{Incoming, Outgoing};
use super::conversation::{Conversation, End};
use super::login::{Known, Login, not_admitted};
use super::messages;
use super::reach::Reach;
use super::rights::TableRights;
use super::sink::set_name;
use super::stream::{Socket, Stream, is_timeout};
use super::{Face, parameters};
use crate::state::clients::Client;
use crate::state::server::NotAdmitted;
use crate::system::clock;
use crate::system::log::Level;
use crate::system::waiting::Entered;

/// Bytes that a connection may hold without being counted among what clients hold.
const COUNTED_BYTES: usize = 64 << 10;

/// A place among the sessions, which it gives back.
struct SessionSlot<'f>(&'f AtomicUsize);

impl<'f> SessionSlot<'f> {
    fn take(count: &'f AtomicUsize, count_max: usize) -> Option<SessionSlot<'f>> {
        let place = SessionSlot(count);
        (count.fetch_add(1, Ordering::AcqRel) < count_max).then_some(place)
    }
}

impl Drop for SessionSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves a connection. `addresses`: where it comes from, and where it has come to.
pub(super) fn serve(face: &Face, reach: &Arc<Reach>, socket: Socket, addresses: (&str, &str)) {
    let mut incoming = Incoming::default();
    let (known, mut out) = Login::new(face, &mut incoming, Stream::Plain(socket), addresses.0).run();
    let known = match known {
        Ok(Some(known)) => known,
        Ok(None) => return,
        Err(end) => return refuse(face, &mut out, &end, addresses.0),
    };
    let Some(_place) = SessionSlot::take(&face.server.postgres.sessions, face.sessions_max) else {
        return refuse(face, &mut out, &not_admitted(NotAdmitted::Full), addresses.0);
    };
    let client = match face.server.admit(addresses.0.to_owned(), addresses.1.to_owned()) {
        Ok(client) => client,
        Err(why) => return refuse(face, &mut out, &not_admitted(why), addresses.0),
    };
    face.server.postgres.sessions_begun.fetch_add(1, Ordering::Relaxed);
    let (why, level) = match begin(face, reach, &client, &known, &mut out) {
        Ok(session) => {
            let mut conversation = Conversation::new(&face.server, &client, known.user, session, out);
            let end = converse(face, reach, &mut conversation, &mut incoming);
            finish(face, &mut conversation.out, &end)
        }
        Err(error) => finish(face, &mut out, &End::Fatal(error)),
    };
    face.server.farewell(&client, &why, level);
}

/// Begins the session of a client who is let in, and says so.
fn begin(
    face: &Face,
    reach: &Arc<Reach>,
    client: &Client,
    known: &Known,
    out: &mut Outgoing,
) -> Result<Session, SqlError> {
    let told = [
        ("max_connections", face.sessions_max.to_string()),
        ("port", client.local_address.rsplit(':').next().unwrap_or_default().to_owned()),
        ("ssl", if face.tls.is_some() { "on" } else { "off" }.to_owned()),
    ];
    let mut session =
        face.database.session_with(&known.user.name, TableRights::of(&known.user), &known.database, &told);
    let process = (client.id & 0x7fff_ffff) as i32;
    session.set_process(process);
    let ended = reach.clone();
    session.set_end(move || ended.end());
    for (name, value) in &known.settings {
        session.set_at_start(name, value)?;
        if name == "application_name" {
            set_name(client, value);
        }
    }
    let mut names = client.names();
    names.user = known.user.name.to_string();
    names.library = (b"postgres".to_vec(), format!("3.{}", known.minor).into_bytes());
    drop(names);
    // Newer clients take a longer one.
    let secret: [u8; 32] = rand::random();
    let secret = &secret[..if known.minor >= 2 { 32 } else { 4 }];
    reach.note_session(process, secret.to_vec(), session.canceller());
    let reached = reach.clone();
    client.reached_by(move || reached.end());
    out.answers.authentication(Authentication::Ok);
    let encoding = session.environment().setting("client_encoding");
    out.answers.encoding = encoding.and_then(|name| TextEncoding::of_name(&name)).unwrap_or(TextEncoding::UTF8);
    for (name, value) in parameters::reported(&*session.environment()) {
        out.answers.parameter_status(name, &value);
    }
    out.answers.backend_key(process, secret);
    out.answers.ready(session.status());
    Ok(session)
}

/// How a connection waits for its client.
struct Pace<'f> {
    awake: Entered<'f>,
    /// Whether the client sent its last message soon after it had its answer: only then it is worth to ask for the next
    /// one before the thread sleeps.
    is_quick: bool,
    /// What else it waits for, once its session has listened.
    bell: Option<Bell>,
    /// When the client has sent something last.
    heard: Instant,
}

/// Takes messages until the connection ends.
fn converse(face: &Face, reach: &Reach, conversation: &mut Conversation<'_>, incoming: &mut Incoming) -> End {
    let mut pace = Pace { awake: face.server.awake.enter(), is_quick: true, bell: None, heard: clock::moment() };
    loop {
        if reach.ends() {
            return End::Fatal(ended());
        }
        let taken = match messages::next_message(incoming.rest(), face.message_bytes_max) {
            Ok(Some((tag, body, bytes))) => {
                // A statement before a Sync is a transaction of its own.
                conversation.is_last = incoming.rest().get(bytes) == Some(&b'S');
                // What the client waits for does not wait for what this message does.
                let sent = conversation.flush_if_awaited().map_err(End::from);
                sent.and_then(|()| conversation.take(tag, body)).map(|()| incoming.consume(bytes))
            }
            Ok(None) => wait(face, reach, &mut pace, conversation, incoming),
            Err(malformed) => Err(malformed.into()),
        };
        if let Err(end) = taken.and_then(|()| Ok(conversation.out.flush_if_full()?)) {
            return end;
        }
    }
}

/// Sends the answers that the client waits for, and waits for it to send more.
fn wait(
    face: &Face,
    reach: &Reach,
    pace: &mut Pace<'_>,
    conversation: &mut Conversation<'_>,
    incoming: &mut Incoming,
) -> Result<(), End> {
    conversation.flush_if_awaited()?;
    if ring(face, pace, conversation)? == Rung::Mailbox {
        return Ok(());
    }
    let timeout = idle_timeout(face, conversation);
    let (out, client) = (&mut conversation.out, conversation.client);
    out.rest();
    let held_bytes = incoming.held_bytes();
    face.server.clients.hold(client, if held_bytes > COUNTED_BYTES { held_bytes } else { 0 });
    out.stream.set_read_timeout(timeout.map(|(timeout, _)| timeout))?;
    let ask_for = Duration::from_micros(face.server.config.parameters.poll_us.load(Ordering::Relaxed));
    let wanted_bytes = messages::wanted_bytes(incoming.rest());
    let (begun, awake) = (clock::moment(), &pace.awake);
    let filled = if pace.is_quick && awake.ask(ask_for, || out.stream.has_more())? {
        incoming.fill(&mut out.stream, wanted_bytes)
    } else {
        awake.sleep(|| incoming.fill(&mut out.stream, wanted_bytes))
    };
    pace.is_quick = clock::since(begun) < 2 * ask_for;
    client.active_ms.store(clock::now_ms(), Ordering::Relaxed);
    pace.heard = clock::moment();
    match filled {
        Ok(0) if reach.ends() => Err(End::Fatal(ended())),
        Ok(0) => Err(End::Left),
        Ok(_) => Ok(()),
        Err(error) if is_timeout(&error) => Err(too_quiet(timeout)),
        Err(error) => Err(error.into()),
    }
}

/// Waits for a client whose session listens, and tells it what is said meanwhile: then it is to be waited for again.
/// Others are not waited for here.
fn ring(face: &Face, pace: &mut Pace<'_>, conversation: &mut Conversation<'_>) -> Result<Rung, End> {
    let Some(mailbox) = conversation.waits_for().cloned() else { return Ok(Rung::Socket) };
    let timeout = idle_timeout(face, conversation);
    let stream = &mut conversation.out.stream;
    let Some(bell) = &mut pace.bell else {
        pace.bell = Some(Bell::new(stream, &mailbox)?);
        conversation.tell_notifications()?;
        return Ok(Rung::Mailbox);
    };
    let left = timeout.map(|(timeout, _)| timeout.saturating_sub(clock::since(pace.heard)));
    let rung = pace.awake.sleep(|| bell.wait(stream, left))?;
    match rung {
        Rung::Socket => {}
        Rung::Mailbox => conversation.tell_notifications()?,
        Rung::Never => return Err(too_quiet(timeout)),
    }
    Ok(rung)
}

fn too_quiet(timeout: Option<(Duration, bool)>) -> End {
    End::Fatal(quipu_sql::idle_timeout_error(timeout.is_some_and(|(_, in_transaction)| in_transaction)))
}

/// How long the client may say nothing, by the server's parameter `timeout` and those of its session, and whether that
/// is the one of a transaction.
fn idle_timeout(face: &Face, conversation: &Conversation<'_>) -> Option<(Duration, bool)> {
    let own = conversation.idle_timeout();
    let idle_s = face.server.config.parameters.idle_s.load(Ordering::Relaxed);
    let of_all = (idle_s > 0).then(|| (Duration::from_secs(idle_s), false));
    own.into_iter().chain(of_all).min_by_key(|(timeout, _)| *timeout)
}

fn ended() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

/// Tells a client, if it can be told, why its connection ends. Returns what the log is told, and how much it matters.
fn finish(face: &Face, out: &mut Outgoing, end: &End) -> (String, Level) {
    match end {
        End::Left => {
            out.stream.end();
            (String::new(), Level::Verbose)
        }
        End::Broken(error) if is_lost(error) => (String::new(), Level::Verbose),
        End::Broken(error) => (error.to_string(), Level::Notice),
        End::Fatal(error) => {
            face.server.postgres.note_error(error.state());
            out.answers.error(Severity::Fatal, error);
            // The client may have gone.
            if out.flush().is_ok() {
                out.stream.end();
                out.stream.linger();
            }
            let level = if error.state() == SqlState::ADMIN_SHUTDOWN { Level::Verbose } else { Level::Notice };
            (error.message().replace(char::is_control, " "), level)
        }
    }
}

/// Ends a connection that has no session.
fn refuse(face: &Face, out: &mut Outgoing, end: &End, address: &str) {
    let (why, level) = finish(face, out, end);
    if !why.is_empty() {
        face.server.log_at(level, format_args!("client of PostgreSQL at {address}: refused: {why}"));
    }
}

/// Whether the client has broken off: many do.
fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}
