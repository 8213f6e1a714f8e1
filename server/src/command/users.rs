//! `ACL`: tells and changes what each user may do.
//!
//! Differences from Redis: `SAVE` and `LOAD` keep users with the data, where Redis has a file for them. They are
//! refused inside `MULTI`, and if the configuration file has the users. `GETUSER` and `LIST` tell the rules about
//! commands as they were given, without those that a later rule has overridden; Redis 7.0 reconstructs them from their
//! effect. `+command|word` exists for subcommands only.

use super::{Call, CommandResult, Handler, Refusal, find, help, is_word, refusal};
use crate::facts::Spec;
use crate::facts::redis;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::word::{SHOWN_BYTES_MAX, shown};
use crate::system::clock;
use crate::users::permissions::{Permissions, members};
use crate::users::{Denied, rules};

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("acl", help::run),
    Handler::new("acl|cat", categories),
    Handler::new("acl|deluser", delete),
    Handler::new("acl|dryrun", dry_run),
    Handler::new("acl|genpass", generate_password),
    Handler::new("acl|getuser", get_user),
    Handler::new("acl|help", help::run),
    Handler::new("acl|list", list),
    Handler::new("acl|load", load),
    Handler::new("acl|log", log),
    Handler::new("acl|save", save),
    Handler::new("acl|setuser", set_user),
    Handler::new("acl|users", users),
    Handler::new("acl|whoami", who_am_i),
];

fn categories(call: &mut Call<'_, '_>) -> CommandResult {
    let names = match call.args {
        [_, _] => redis::CATEGORIES.to_vec(),
        [_, _, name] => {
            let unknown = || Refusal::quoting("ERR Unknown category '", name, "'");
            members(redis::category(name).ok_or_else(unknown)?)
        }
        _ => return Err(unknown_subcommand(call)),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn unknown_subcommand(call: &Call<'_, '_>) -> Refusal {
    Refusal::quoting("ERR unknown subcommand or wrong number of arguments for '", call.args[1], "'. Try ACL HELP.")
}

fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args[2..].contains(&b"default".as_slice()) {
        return Err(refusal::text("ERR The 'default' user cannot be removed"));
    }
    let mut removed = 0;
    for name in &call.args[2..] {
        if let Some(user) = call.server.users.remove(name) {
            call.server.end_sessions_of(&user.name);
            call.session.closing |= user.name == call.session.user.name;
            removed += 1;
        }
    }
    call.reply.integer(removed);
    Ok(())
}

fn dry_run(call: &mut Call<'_, '_>) -> CommandResult {
    let user = call.server.users.get(call.args[2]);
    let user = user.ok_or_else(|| Refusal::quoting("ERR User '", call.args[2], "' not found"))?;
    let args = &call.args[3..];
    let unknown = || Refusal::quoting("ERR Command '", args[0], "' not found");
    let mut spec = find(args[0]).ok_or_else(unknown)?;
    if let Some(sub) = args.get(1).and_then(|word| spec.subcommands.iter().find(|sub| names(sub, word))) {
        spec = sub;
    }
    if !spec.takes(args.len()) {
        return Err(Refusal::new(format!("ERR wrong number of arguments for '{}' command", spec.name)));
    }
    match user.may(spec, args) {
        Ok(()) => call.reply.ok(),
        Err(Denied::Command) => {
            call.reply.bulk(format!("This user has no permissions to run the '{}' command", spec.name).as_bytes());
        }
        Err(Denied::Key { key, .. }) => {
            let key = shown(&key, SHOWN_BYTES_MAX);
            call.reply.bulk(&[b"This user has no permissions to access the '", key, b"' key"].concat());
        }
    }
    Ok(())
}

fn names(sub: &Spec, word: &[u8]) -> bool {
    sub.name.rsplit('|').next().is_some_and(|name| is_word(word, name))
}

fn generate_password(call: &mut Call<'_, '_>) -> CommandResult {
    let bits = match call.args {
        [_, _] => 256,
        [_, _, bits] => parse_i64(bits).ok_or(refusal::NOT_INTEGER)?,
        _ => return Err(unknown_subcommand(call)),
    };
    if !(1..=4096).contains(&bits) {
        return Err(refusal::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let bytes: Vec<u8> = (0..digits.div_ceil(2)).map(|_| rand::random()).collect();
    call.reply.bulk(&rules::hex(&bytes).as_bytes()[..digits]);
    Ok(())
}

fn get_user(call: &mut Call<'_, '_>) -> CommandResult {
    let Some(user) = call.server.users.get(call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    let (rules, reply) = (user.rules(), &mut *call.reply);
    reply.map(6);
    reply.bulk(b"flags");
    let flags = rules.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(rules.passwords.len());
    rules.passwords.iter().for_each(|digest| reply.bulk(rules::hex(digest).as_bytes()));
    tell_permissions(reply, &rules.permissions);
    call.reply.bulk(b"selectors");
    call.reply.array(rules.selectors.len());
    for selector in &rules.selectors {
        call.reply.map(3);
        tell_permissions(call.reply, selector);
    }
    Ok(())
}

fn tell_permissions(reply: &mut Reply, permissions: &Permissions) {
    for (name, text) in [
        ("commands", permissions.command_text()),
        ("keys", permissions.key_text()),
        ("channels", permissions.channel_text()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let list = call.server.users.list();
    call.reply.array(list.len());
    list.iter().for_each(|(name, rules)| call.reply.bulk(format!("user {name} {rules}").as_bytes()));
    Ok(())
}

fn users(call: &mut Call<'_, '_>) -> CommandResult {
    let users = call.server.users.all();
    call.reply.array(users.len());
    users.iter().for_each(|user| call.reply.bulk(user.name.as_bytes()));
    Ok(())
}

fn who_am_i(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.bulk(call.session.user.name.as_bytes());
    Ok(())
}

fn set_user(call: &mut Call<'_, '_>) -> CommandResult {
    let name = std::str::from_utf8(call.args[2]).ok();
    if name == Some("") {
        return Err(refusal::text("ERR A user needs a name: the first argument of ACL SETUSER is empty"));
    }
    let is_bad = |name: &&str| name.contains(|letter: char| letter.is_whitespace() || letter == '\0');
    let Some(name) = name.filter(|name| !is_bad(name)) else {
        return Err(refusal::text("ERR Usernames can't contain spaces or null characters"));
    };
    call.server.users.set(name, &call.args[3..]).map_err(|why| Refusal::new(format!("ERR {why}")))?;
    call.reply.ok();
    Ok(())
}

fn save(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.check_users_are_kept()?;
    call.server.save_users()?;
    call.reply.ok();
    Ok(())
}

fn load(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.check_users_are_kept()?;
    match call.server.load_users()? {
        None => Err(refusal::text("ERR no users were kept; ACL SAVE keeps them")),
        Some(Err(why)) => Err(Refusal::new(format!("ERR {why}"))),
        Some(Ok(())) => {
            call.reply.ok();
            Ok(())
        }
    }
}

fn log(call: &mut Call<'_, '_>) -> CommandResult {
    let count = match call.args {
        [_, _] => 10,
        [_, _, word] if is_word(word, "reset") => {
            call.server.users.refusals.clear();
            call.reply.ok();
            return Ok(());
        }
        [_, _, count] => parse_i64(count).ok_or(refusal::NOT_INTEGER)?.max(0) as usize,
        _ => return Err(unknown_subcommand(call)),
    };
    let entries = call.server.users.refusals.last(count);
    let (now_ms, reply) = (clock::now_ms(), &mut *call.reply);
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        reply.bulk(b"reason");
        reply.bulk(entry.reason.name().as_bytes());
        reply.bulk(b"context");
        reply.bulk(if entry.in_transaction { b"multi" } else { b"toplevel" });
        reply.bulk(b"object");
        reply.bulk(&entry.object);
        reply.bulk(b"username");
        reply.bulk(entry.user.as_bytes());
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.last_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}
