//! Commands about the client's own connection: who the client is, and which version of the protocol it speaks.

use super::{Call, CommandResult, Handler, Refusal, is_word, refusal};
use crate::resp::number::parse_i64;
use crate::resp::reply::Protocol;
use crate::state::session::ReplyMode;
use crate::users::DEFAULT;
use crate::users::refusals::Reason;

/// The version of Redis that clients may take the server for.
pub const REDIS_VERSION: &str = "7.0.15";

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("ping", ping),
    Handler::new("echo", echo),
    Handler::new("quit", quit),
    Handler::new("reset", reset),
    Handler::new("auth", auth),
    Handler::new("hello", hello),
];

fn ping(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(refusal::text("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

fn echo(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.bulk(call.args[1]);
    Ok(())
}

fn quit(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    let session = &mut *call.session;
    session.leave_transaction();
    if session.is_monitor {
        session.is_monitor = false;
        call.server.clients.end_monitor(session.id);
    }
    session.database = 0;
    session.name.clear();
    session.client.names().name.clear();
    session.reply_mode = ReplyMode::On;
    (session.no_evict, session.no_touch) = (false, false);
    session.act_for(call.server.users.default_user());
    session.is_authenticated = call.server.users.needs_no_password();
    call.reply.protocol = Protocol::Resp2;
    call.reply.simple("RESET");
    Ok(())
}

fn auth(call: &mut Call<'_, '_>) -> CommandResult {
    let (name, password) = match call.args {
        [_, password] => {
            if call.server.users.default_user().rules().needs_no_password {
                return Err(refusal::text(
                    "ERR AUTH <password> called without any password configured for the default user. \
                     Are you sure your configuration is correct?",
                ));
            }
            (DEFAULT.as_bytes(), *password)
        }
        [_, name, password] => (*name, *password),
        _ => return Err(refusal::SYNTAX),
    };
    authenticate(call, name, password)?;
    call.reply.ok();
    Ok(())
}

fn authenticate(call: &mut Call<'_, '_>, name: &[u8], password: &[u8]) -> CommandResult {
    match call.server.users.authenticate(name, password) {
        Some(user) => {
            call.session.act_for(user);
            Ok(())
        }
        None => {
            let user = String::from_utf8_lossy(name);
            call.server.note_denied(call.session, Reason::Password, call.args[0], &user);
            Err(refusal::text("WRONGPASS invalid username-password pair or user is disabled."))
        }
    }
}

/// Fails if a name is such that `CLIENT LIST` could not be read.
pub(super) fn check_name(name: &[u8], what: &str) -> CommandResult {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(Refusal::new(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

fn hello(call: &mut Call<'_, '_>) -> CommandResult {
    let mut protocol = None;
    if let Some(word) = call.args.get(1) {
        let version = parse_i64(word).ok_or(refusal::text("ERR Protocol version is not an integer or out of range"))?;
        protocol = Some(match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(refusal::text("NOPROTO unsupported protocol version")),
        });
    }
    // Each option counts as it is read, also if a later one is refused.
    let mut place = 2;
    while let Some(option) = call.args.get(place) {
        if is_word(option, "auth") && place + 2 < call.args.len() {
            authenticate(call, call.args[place + 1], call.args[place + 2])?;
            place += 3;
        } else if is_word(option, "setname") && place + 1 < call.args.len() {
            let name = call.args[place + 1];
            check_name(name, "Client names")?;
            name.clone_into(&mut call.session.name);
            name.clone_into(&mut call.session.client.names().name);
            place += 2;
        } else {
            return Err(Refusal::quoting("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    if !call.session.is_authenticated {
        return Err(refusal::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        ));
    }
    let reply = &mut *call.reply;
    if let Some(protocol) = protocol {
        reply.protocol = protocol;
    }
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if reply.protocol == Protocol::Resp2 { 2 } else { 3 });
    reply.bulk(b"id");
    reply.integer(call.session.id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}
