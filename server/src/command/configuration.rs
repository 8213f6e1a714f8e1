//! `CONFIG`: what can be changed while the server runs.
//!
//! Differences from Redis: addresses, ports and certificates are fixed at the start; `REWRITE` writes the TOML file that the server was started with.
//! Parameters of Redis that mean nothing here are remembered, no more; [`crate::config::Parameters`] lists those that count.

use super::table::{Flags, Group, RunOne, Spec};
use super::{Answer, Call, Refusal, help, refusal};
use crate::config::{Rejected, file};
use crate::log::Level;
use crate::server::printable;

const fn sub(name: &'static str, arity: i32, flags: Flags, run: RunOne) -> Spec {
    Spec::new(name, arity, flags, Group::Server, run)
}

/// The family's lines.
pub const COMMANDS: &[Spec] = &[Spec::new("config", -2, Flags(0), Group::Server, help::run)
    .about("subcommand", "Tells and changes the configuration.", "2.0.0")
    .costs("see its subcommands", "see its subcommands")
    .subcommands(&[
        sub("config|get", -3, Flags::ADMIN, get)
            .about("parameter [parameter ...]", "Parameters that match patterns, with their values.", "2.0.0")
            .costs("O(n) parameters a pattern", "O(n) parameters a pattern"),
        sub("config|set", -4, Flags::ADMIN, set)
            .about("parameter value [parameter value ...]", "Changes parameters: all of them or none.", "2.0.0")
            .costs("O(n) parameters given", "O(n) parameters given"),
        sub("config|resetstat", 2, Flags::ADMIN, reset_statistics)
            .about("", "Starts to count anew what INFO tells.", "2.0.0")
            .costs("O(1)", "O(1)"),
        sub("config|rewrite", 2, Flags::ADMIN, rewrite)
            .about("", "Writes what was changed into the configuration file.", "2.8.0")
            .costs("O(n) bytes of the file", "O(n) bytes of the file"),
        sub("config|help", 2, Flags(0), help::run).about("", "Lists the subcommands.", "5.0.0").costs("O(1)", "O(1)"),
    ])];

fn get(call: &mut Call<'_, '_>) -> Answer {
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

fn set(call: &mut Call<'_, '_>) -> Answer {
    let (pairs, rest) = call.args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(refusal::SYNTAX);
    }
    let failed = |name: &[u8], why: &str| {
        Refusal::new(format!("ERR CONFIG SET failed (possibly related to argument '{}') - {why}", printable(name, 128)))
    };
    let parameters = &call.server.config.parameters;
    // Names first, then values, then all at once: none is set if one cannot be.
    let mut names: Vec<String> = Vec::new();
    let mut first_rejected = None;
    for [name, value] in pairs {
        let text = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !crate::config::parameters::is_known(&text) {
            return Err(Refusal::new(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                printable(name, 128)
            )));
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
    for (name, value) in kept {
        match name.as_str() {
            "requirepass" => call.server.users.require_password(&value),
            "maxmemory-policy" if value != "noeviction" => call.server.log_at(
                Level::Warning,
                format_args!("maxmemory-policy {value}: nothing is evicted here; over maxmemory, writes are refused"),
            ),
            _ => {}
        }
        parameters.set(name, value);
    }
    call.reply.ok();
    Ok(())
}

fn reset_statistics(call: &mut Call<'_, '_>) -> Answer {
    call.server.statistics.clear();
    let counters = &call.server.keyspace.counters;
    for place in [&counters.hits, &counters.misses, &counters.expired] {
        place.store(0, std::sync::atomic::Ordering::Relaxed);
    }
    call.reply.ok();
    Ok(())
}

fn rewrite(call: &mut Call<'_, '_>) -> Answer {
    let config = &call.server.config;
    let Some(path) = &config.file else {
        return Err(refusal::text("ERR The server is running without a config file"));
    };
    // Users stand in the file if they did before, or if there is something to say of them.
    let list = call.server.users.list();
    let is_plain = |list: &[(String, String)]| matches!(list, [(name, rules)] if name == "default" && rules == "on nopass ~* &* +@all");
    let users = if config.users.is_empty() && is_plain(&list) { Vec::new() } else { list };
    file::rewrite(config, path, &users).map_err(|why| Refusal::new(format!("ERR {why}")))?;
    call.reply.ok();
    Ok(())
}
