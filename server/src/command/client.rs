//! `CLIENT`: lists the clients that are connected, and changes or closes their connections.
//!
//! Differences from Redis: clients cannot have the server track keys for their caches, so `TRACKING ON` is refused.
//! Memory figures are bytes of buffers. `NO-TOUCH` is remembered, but has no effect, as no key is evicted. No client is
//! ever blocked, so `UNBLOCK` answers 0.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::check_name;
use super::{Call, CommandResult, Handler, Refusal, help, is_word, refusal};
use crate::resp::number::parse_i64;
use crate::state::clients::Client;
use crate::state::session::ReplyMode;
use crate::system::clock;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("client", help::run),
    Handler::new("client|caching", caching),
    Handler::new("client|getname", get_name),
    Handler::new("client|getredir", |call| integer(call, -1)),
    Handler::new("client|help", help::run),
    Handler::new("client|id", |call| integer(call, call.session.id as i64)),
    Handler::new("client|info", info),
    Handler::new("client|kill", kill),
    Handler::new("client|list", list),
    Handler::new("client|no-evict", |call| switch(call, |session, on| session.no_evict = on)),
    Handler::new("client|no-touch", |call| switch(call, |session, on| session.no_touch = on)),
    Handler::new("client|pause", pause),
    Handler::new("client|reply", reply_mode),
    Handler::new("client|setinfo", set_info),
    Handler::new("client|setname", set_name),
    Handler::new("client|tracking", tracking),
    Handler::new("client|trackinginfo", tracking_info),
    Handler::new("client|unblock", unblock),
    Handler::new("client|unpause", unpause),
];

fn integer(call: &mut Call<'_, '_>, number: i64) -> CommandResult {
    call.reply.integer(number);
    Ok(())
}

fn caching(_: &mut Call<'_, '_>) -> CommandResult {
    Err(refusal::text(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    ))
}

fn get_name(call: &mut Call<'_, '_>) -> CommandResult {
    if call.session.name.is_empty() {
        call.reply.null()
    } else {
        call.reply.bulk(&call.session.name)
    }
    Ok(())
}

fn set_name(call: &mut Call<'_, '_>) -> CommandResult {
    let name = call.args[2];
    check_name(name, "Client names")?;
    name.clone_into(&mut call.session.name);
    name.clone_into(&mut call.session.client.names().name);
    call.reply.ok();
    Ok(())
}

fn set_info(call: &mut Call<'_, '_>) -> CommandResult {
    let (option, value) = (call.args[2], call.args[3].to_vec());
    if is_word(option, "lib-name") {
        check_name(&value, "lib-name")?;
        call.session.client.names().library.0 = value;
    } else if is_word(option, "lib-ver") {
        check_name(&value, "lib-ver")?;
        call.session.client.names().library.1 = value;
    } else {
        return Err(Refusal::quoting("ERR Unrecognized option '", option, "'"));
    }
    call.reply.ok();
    Ok(())
}

fn switch(call: &mut Call<'_, '_>, set: fn(&mut crate::state::session::Session, bool)) -> CommandResult {
    let on = is_word(call.args[2], "on");
    if !on && !is_word(call.args[2], "off") {
        return Err(refusal::SYNTAX);
    }
    set(call.session, on);
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    note_self(call);
    let line = call.session.client.line() + "\n";
    call.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

/// Others see a session as it was after its last turn; it sees itself as it is.
fn note_self(call: &mut Call<'_, '_>) {
    call.session.show();
    call.session.client.active_ms.store(clock::now_ms(), Ordering::Relaxed);
    let protocol = if call.reply.protocol == crate::resp::reply::Protocol::Resp2 { 2 } else { 3 };
    call.session.client.protocol.store(protocol, Ordering::Relaxed);
}

/// Whether clients of this kind are plain ones, as all are here.
fn is_plain_kind(word: &[u8]) -> Result<bool, Refusal> {
    if is_word(word, "normal") {
        return Ok(true);
    }
    if ["master", "replica", "slave", "pubsub"].iter().any(|kind| is_word(word, kind)) {
        return Ok(false);
    }
    Err(Refusal::quoting("ERR Unknown client type '", word, "'"))
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let mut clients = call.server.clients.all();
    match call.args {
        [_, _] => {}
        [_, _, option, kind] if is_word(option, "type") => {
            if !is_plain_kind(kind)? {
                clients.clear();
            }
        }
        [_, _, option, ids @ ..] if is_word(option, "id") && !ids.is_empty() => {
            let number = |word: &&[u8]| parse_i64(word).ok_or(refusal::text("ERR Invalid client ID"));
            let ids = ids.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            clients = ids.iter().filter_map(|id| call.server.clients.get(*id as u64)).collect();
        }
        _ => return Err(refusal::SYNTAX),
    }
    note_self(call);
    let lines: String = clients.iter().map(|client| client.line() + "\n").collect();
    call.reply.verbatim("txt", lines.as_bytes());
    Ok(())
}

/// What a client must be like to be closed.
type Condition<'a> = Box<dyn Fn(&Client) -> bool + 'a>;

/// Which clients `CLIENT KILL` closes.
struct Wanted<'a> {
    conditions: Vec<Condition<'a>>,
    /// Whether it passes over the client that asks.
    spares_self: bool,
}

impl<'a> Wanted<'a> {
    /// Reads `option value` pairs.
    fn read(call: &Call<'a, '_>) -> Result<Wanted<'a>, Refusal> {
        let mut wanted = Wanted { conditions: Vec::new(), spares_self: true };
        let (pairs, rest) = call.args[2..].as_chunks::<2>();
        if !rest.is_empty() {
            return Err(refusal::SYNTAX);
        }
        for [option, value] in pairs.iter().copied() {
            if is_word(option, "id") {
                let id = parse_i64(value)
                    .filter(|id| *id > 0)
                    .ok_or(refusal::text("ERR client-id should be greater than 0"))?;
                wanted.conditions.push(Box::new(move |client| client.id == id as u64));
            } else if is_word(option, "type") {
                let is_plain = is_plain_kind(value)?;
                wanted.conditions.push(Box::new(move |_| is_plain));
            } else if is_word(option, "addr") {
                wanted.conditions.push(Box::new(move |client| client.address.as_bytes() == value));
            } else if is_word(option, "laddr") {
                wanted.conditions.push(Box::new(move |client| client.local_address.as_bytes() == value));
            } else if is_word(option, "user") {
                if call.server.users.get(value).is_none() {
                    return Err(Refusal::quoting("ERR No such user '", value, "'"));
                }
                wanted.conditions.push(Box::new(move |client| client.names().user.as_bytes() == value));
            } else if is_word(option, "skipme") {
                wanted.spares_self = match value {
                    word if is_word(word, "yes") => true,
                    word if is_word(word, "no") => false,
                    _ => return Err(refusal::SYNTAX),
                };
            } else {
                return Err(refusal::SYNTAX);
            }
        }
        Ok(wanted)
    }
}

fn kill(call: &mut Call<'_, '_>) -> CommandResult {
    let is_old_form = call.args.len() == 3;
    let wanted = if is_old_form {
        let address = call.args[2];
        let condition: Condition<'_> = Box::new(move |client| client.address.as_bytes() == address);
        Wanted { conditions: vec![condition], spares_self: false }
    } else {
        Wanted::read(call)?
    };
    let mut killed = 0;
    for client in call.server.clients.all() {
        let is_self = Arc::ptr_eq(&client, &call.session.client);
        if (is_self && wanted.spares_self) || !wanted.conditions.iter().all(|condition| condition(&client)) {
            continue;
        }
        killed += 1;
        // A client that closes itself still gets the answer.
        if is_self {
            call.session.closing = true;
            client.note_leaving();
        } else {
            client.kill();
        }
    }
    match (is_old_form, killed) {
        (true, 0) => return Err(refusal::text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, killed) => call.reply.integer(killed),
    }
    Ok(())
}

fn pause(call: &mut Call<'_, '_>) -> CommandResult {
    let all = match call.args.get(3) {
        None => true,
        Some(word) if is_word(word, "all") => true,
        Some(word) if is_word(word, "write") => false,
        Some(_) => return Err(refusal::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let ms = parse_i64(call.args[2]).ok_or(refusal::text("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| refusal::text("ERR timeout is negative"))?;
    if call.args.len() > 4 {
        return Err(refusal::SYNTAX);
    }
    call.server.clients.pause(clock::now_ms().saturating_add(ms), all);
    call.server.keyspace.pause_expiry_until(call.server.clients.paused_until_ms());
    call.reply.ok();
    Ok(())
}

fn unpause(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.clients.unpause();
    call.server.keyspace.pause_expiry_until(0);
    call.reply.ok();
    Ok(())
}

fn reply_mode(call: &mut Call<'_, '_>) -> CommandResult {
    let word = call.args[2];
    if is_word(word, "on") {
        call.session.reply_mode = ReplyMode::On;
        call.reply.ok();
    } else if is_word(word, "off") {
        call.session.reply_mode = ReplyMode::Off;
    } else if is_word(word, "skip") {
        if call.session.reply_mode != ReplyMode::Off {
            call.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(refusal::SYNTAX);
    }
    Ok(())
}

fn tracking(call: &mut Call<'_, '_>) -> CommandResult {
    if is_word(call.args[2], "off") {
        call.reply.ok();
        return Ok(());
    }
    if is_word(call.args[2], "on") {
        return Err(refusal::text("ERR this server does not track keys for client side caching"));
    }
    Err(refusal::SYNTAX)
}

fn tracking_info(call: &mut Call<'_, '_>) -> CommandResult {
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(())
}

fn unblock(call: &mut Call<'_, '_>) -> CommandResult {
    if let Some(word) = call.args.get(3)
        && !is_word(word, "timeout")
        && !is_word(word, "error")
    {
        return Err(refusal::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    call.integer(2)?;
    call.reply.integer(0);
    Ok(())
}
