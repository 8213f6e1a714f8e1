//! `SLOWLOG`, `LATENCY` and `MONITOR`: which commands took long, and which run now.
//!
//! Differences from Redis: `LATENCY` knows the events `command` and `fast-command`; `MONITOR` does not show commands of
//! administrators, nor passwords.

use super::{Call, CommandResult, Handler, Refusal, help, is_word, refusal};
use crate::facts::by_number;
use crate::resp::number::parse_i64;
use crate::resp::reply::Aggregate;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("slowlog", help::run),
    Handler::new("slowlog|get", slow_get),
    Handler::new("slowlog|len", slow_len),
    Handler::new("slowlog|reset", slow_reset),
    Handler::new("slowlog|help", help::run),
    Handler::new("latency", help::run),
    Handler::new("latency|doctor", doctor),
    Handler::new("latency|graph", graph),
    Handler::new("latency|help", help::run),
    Handler::new("latency|histogram", histogram),
    Handler::new("latency|history", history),
    Handler::new("latency|latest", latest),
    Handler::new("latency|reset", reset),
    Handler::new("monitor", monitor),
];

fn slow_get(call: &mut Call<'_, '_>) -> CommandResult {
    let count = match call.args {
        [_, _] => 10,
        [_, _, count] => parse_i64(count)
            .filter(|count| *count >= -1)
            .ok_or(refusal::text("ERR count should be greater than or equal to -1"))?,
        _ => {
            return Err(Refusal::quoting(
                "ERR unknown subcommand or wrong number of arguments for '",
                call.args[1],
                "'. Try SLOWLOG HELP.",
            ));
        }
    };
    let entries = call.server.slow_log.last(usize::try_from(count).unwrap_or(usize::MAX));
    let reply = &mut *call.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.second as i64);
        reply.integer(entry.us as i64);
        reply.array(entry.words.len());
        entry.words.iter().for_each(|word| reply.bulk(word));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(&entry.name);
    }
    Ok(())
}

fn slow_len(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.integer(call.server.slow_log.len() as i64);
    Ok(())
}

fn slow_reset(call: &mut Call<'_, '_>) -> CommandResult {
    call.server.slow_log.clear();
    call.reply.ok();
    Ok(())
}

fn latest(call: &mut Call<'_, '_>) -> CommandResult {
    let events = call.server.slow_log.all_events();
    call.reply.array(events.len());
    for (name, event) in events {
        let (second, ms) = event.moments.back().copied().unwrap_or_default();
        call.reply.array(4);
        call.reply.bulk(name.as_bytes());
        for number in [second, ms, event.longest_ms] {
            call.reply.integer(number as i64);
        }
    }
    Ok(())
}

fn history(call: &mut Call<'_, '_>) -> CommandResult {
    let events = call.server.slow_log.all_events();
    let event = events.iter().find(|(name, _)| is_word(call.args[2], name));
    let moments = event.map(|(_, event)| event.moments.clone()).unwrap_or_default();
    call.reply.array(moments.len());
    for (second, ms) in moments {
        call.reply.array(2);
        call.reply.integer(second as i64);
        call.reply.integer(ms as i64);
    }
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    let count = call.server.slow_log.clear_events(&call.args[2..]);
    call.reply.integer(count as i64);
    Ok(())
}

fn doctor(call: &mut Call<'_, '_>) -> CommandResult {
    let threshold_ms = call.server.config.parameters.get("latency-monitor-threshold").unwrap_or_default();
    let events = call.server.slow_log.all_events();
    let mut text = String::new();
    if threshold_ms == "0" {
        text.push_str(
            "Latencies are not watched. \"CONFIG SET latency-monitor-threshold <milliseconds>\" begins to.\n",
        );
    } else if events.is_empty() {
        text.push_str(&format!("Nothing has taken {threshold_ms} ms or longer.\n"));
    }
    for (name, event) in events {
        let sum: u64 = event.moments.iter().map(|(_, ms)| ms).sum();
        let count = event.moments.len().max(1) as u64;
        text.push_str(&format!(
            "{name}: in {count} seconds something took {threshold_ms} ms or longer, {} ms on average, {} ms at most. \
             SLOWLOG GET shows commands.\n",
            sum / count,
            event.longest_ms
        ));
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn graph(call: &mut Call<'_, '_>) -> CommandResult {
    const ROWS: u64 = 4;
    let events = call.server.slow_log.all_events();
    let Some((name, event)) = events.iter().find(|(name, _)| is_word(call.args[2], name)) else {
        return Err(Refusal::quoting("ERR No samples available for event '", call.args[2], "'"));
    };
    let mut text = format!("{name}: {} ms at most, the newest moment on the right\n", event.longest_ms);
    for row in (1..=ROWS).rev() {
        for (_, ms) in &event.moments {
            text.push(if ms * ROWS >= event.longest_ms * row { '#' } else { ' ' });
        }
        text.push('\n');
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn histogram(call: &mut Call<'_, '_>) -> CommandResult {
    let names = &call.args[2..];
    let is_wanted = |name: &str| {
        let container = name.split('|').next().unwrap_or(name);
        names.is_empty() || names.iter().any(|wanted| is_word(wanted, name) || is_word(wanted, container))
    };
    let reply = &mut *call.reply;
    let all = reply.later(Aggregate::Map);
    let mut count = 0;
    for spec in by_number().iter().filter(|spec| is_wanted(spec.name)) {
        let Some(command) = call.server.statistics.of(spec) else { continue };
        let Some(durations) = command.durations().filter(|durations| durations.count() > 0) else { continue };
        count += 1;
        reply.bulk(spec.name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(durations.count() as i64);
        reply.bulk(b"histogram_usec");
        let classes = durations.cumulative_us();
        reply.map(classes.len());
        for (us, calls) in classes {
            reply.integer(us as i64);
            reply.integer(calls as i64);
        }
    }
    reply.fill(all, count);
    Ok(())
}

fn monitor(call: &mut Call<'_, '_>) -> CommandResult {
    if !call.session.is_monitor {
        call.session.is_monitor = true;
        call.server.clients.begin_monitor(&call.session.client);
    }
    call.reply.ok();
    Ok(())
}
