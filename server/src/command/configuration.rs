//! `CONFIG`: tells and changes the configuration of the running server.
//!
//! Differences from Redis: addresses, ports and certificates cannot be changed after the start; `REWRITE` writes the
//! TOML file that the server was started with. Parameters of Redis that mean nothing here are only remembered;
//! [`crate::config::Parameters`] lists those that have an effect.

use super::{Call, CommandResult, Handler, Refusal, help, refusal};
use crate::config::parameters::to_do_after;
use crate::config::served::Then;
use crate::config::{Rejected, file};

/// The rules of a user that may do everything.
const ALL_RULES: &str = "on nopass ~* &* +@all";

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("config", help::run),
    Handler::new("config|get", get),
    Handler::new("config|set", set),
    Handler::new("config|resetstat", reset_statistics),
    Handler::new("config|rewrite", rewrite),
    Handler::new("config|help", help::run),
];

fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let mut found = call.server.config.parameters.matching(&call.args[2..]);
    let directory = call.server.config.directory();
    for (name, value) in &mut found {
        // What the server found out by itself.
        match name.to_ascii_lowercase().as_str() {
            "dir" => {
                *value = std::path::absolute(&directory).unwrap_or_else(|_| directory.clone()).display().to_string()
            }
            "port" => *value = call.server.config.port.unwrap_or(0).to_string(),
            _ => {}
        }
    }
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let (pairs, rest) = call.args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(refusal::SYNTAX);
    }
    let failed = |name: &[u8], why: &str| {
        Refusal::quoting("ERR CONFIG SET failed (possibly related to argument '", name, &format!("') - {why}"))
    };
    let parameters = &call.server.config.parameters;
    // Names first, then values, then all at once: none is set if one cannot be.
    let mut names: Vec<String> = Vec::new();
    let mut first_rejected = None;
    for [name, value] in pairs {
        let text = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !crate::config::parameters::is_known(&text) {
            return Err(Refusal::quoting("ERR Unknown option or number of arguments for CONFIG SET - '", name, "'"));
        }
        if first_rejected.is_none()
            && let Err(Rejected::Because(why)) = parameters.check(&text, "")
            && why.starts_with("can't set")
        {
            first_rejected = Some(failed(name, &why));
        }
        if first_rejected.is_none() && names.contains(&text) {
            first_rejected = Some(failed(name, "duplicate parameter"));
        }
        names.push(text);
        let _ = value;
    }
    if let Some(refusal) = first_rejected {
        return Err(refusal);
    }
    let mut kept = Vec::new();
    for ([name, value], text) in pairs.iter().zip(&names) {
        match parameters.check(text, &String::from_utf8_lossy(value)) {
            Ok(value) => kept.push((text, value)),
            Err(Rejected::Because(why)) => return Err(failed(name, &why)),
            Err(Rejected::Unknown) => return Err(refusal::SYNTAX),
        }
    }
    let mut concerns_engine = false;
    for (name, value) in kept {
        match to_do_after(name) {
            Some(Then::TrackLatencies) => call.server.statistics.track_latencies(value == "yes"),
            Some(Then::RequirePassword) => call.server.users.require_password(&value),
            Some(Then::ApplyToEngine) => concerns_engine = true,
            None => {}
        }
        parameters.set(name, value);
    }
    if concerns_engine {
        call.server.apply_to_engine()?;
    }
    call.reply.ok();
    Ok(())
}

fn reset_statistics(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.statistics.clear();
    let counters = &call.server.keyspace.counters;
    for place in [&counters.hits, &counters.misses, &counters.expired] {
        place.store(0, std::sync::atomic::Ordering::Relaxed);
    }
    call.reply.ok();
    Ok(())
}

fn rewrite(call: &mut Call<'_, '_>) -> CommandResult {
    let config = &call.server.config;
    let Some(path) = &config.file else {
        return Err(refusal::text("ERR The server is running without a config file"));
    };
    // Users stand in the file if they did before, or if there is something to say of them.
    let list = call.server.users.list_to_keep();
    let is_plain =
        |list: &[(String, String)]| matches!(list, [(name, rules)] if name == "default" && rules == ALL_RULES);
    let users = if config.users.is_empty() && is_plain(&list) { Vec::new() } else { list };
    file::rewrite(config, path, &users).map_err(|why| Refusal::new(format!("ERR {why}")))?;
    if !users.is_empty() {
        call.server.note_users_in_file();
    }
    call.reply.ok();
    Ok(())
}
