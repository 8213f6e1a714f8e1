//! `COMMAND`: the facts of all commands; and `MODULE`, whose list is empty.
//!
//! Differences from Redis: `DOCS` gives a command's words as one text under `syntax`, where Redis has a tree of
//! `arguments`.

use super::{Call, CommandResult, Handler, Refusal, find, help, is_word, refusal};
use crate::facts::key_places::{self, KeyPlace};
use crate::facts::redis::{self, Begin, KeySpec, Span};
use crate::facts::{Group, Spec, all, resolve};
use crate::resp::glob;
use crate::resp::reply::{Aggregate, Reply};
use crate::users::permissions::categories_of;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("command", all_commands),
    Handler::new("command|count", count),
    Handler::new("command|docs", docs),
    Handler::new("command|getkeys", get_keys),
    Handler::new("command|getkeysandflags", get_keys_and_flags),
    Handler::new("command|help", help::run),
    Handler::new("command|info", info),
    Handler::new("command|list", list),
    Handler::new("module", help::run),
    Handler::new("module|help", help::run),
    Handler::new("module|list", modules),
];

/// Those that do something: not those that Redis has and Quipu only knows by name.
fn present() -> impl Iterator<Item = &'static Spec> {
    all().filter(|spec| spec.group != Group::Absent)
}

/// The command or subcommand of a name, as `config|get`.
fn named(name: &[u8]) -> Option<&'static Spec> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let spec = find(parts.next()?)?;
    match parts.next() {
        None => Some(spec),
        Some(_) => spec.subcommands.iter().find(|sub| is_word(name, sub.name)),
    }
}

fn modules(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.array(0);
    Ok(())
}

fn all_commands(call: &mut Call<'_, '_>) -> CommandResult {
    let specs: Vec<_> = present().collect();
    call.reply.array(specs.len());
    specs.iter().for_each(|spec| tell(call.reply, spec));
    Ok(())
}

fn count(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.integer(present().count() as i64);
    Ok(())
}

fn info(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() == 2 {
        return all_commands(call);
    }
    call.reply.array(call.args.len() - 2);
    for name in &call.args[2..] {
        match named(name) {
            Some(spec) => tell(call.reply, spec),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// A command as Redis tells of it.
fn tell(reply: &mut Reply, spec: &Spec) {
    let facts = redis::of(spec);
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    reply.set(facts.flags.len());
    facts.flags.iter().for_each(|flag| reply.simple(flag));
    for place in [facts.places.0, facts.places.1, facts.places.2] {
        reply.integer(place.into());
    }
    let categories: Vec<_> = categories_of(spec).collect();
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(&format!("@{name}")));
    reply.set(facts.tips.len());
    facts.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(facts.keys.len());
    facts.keys.iter().for_each(|keys| tell_keys(reply, keys));
    // Redis says a set here where there are none.
    if spec.subcommands.is_empty() {
        reply.set(0)
    } else {
        reply.array(spec.subcommands.len())
    }
    spec.subcommands.iter().for_each(|sub| tell(reply, sub));
}

fn tell_keys(reply: &mut Reply, keys: &KeySpec) {
    let pairs = |reply: &mut Reply, kind: &str, numbers: &[(&str, i64)]| {
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(numbers.len());
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(*number);
        }
    };
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(keys.flags.len());
    keys.flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    match keys.begin {
        Begin::Word(number) => pairs(reply, "index", &[("index", number as i64)]),
        Begin::After(word, from) => {
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(from.into());
        }
        Begin::Unknown => pairs(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match keys.span {
        Span::To { last, step, part } => {
            pairs(reply, "range", &[("lastkey", last.into()), ("keystep", step as i64), ("limit", part as i64)]);
        }
        Span::Counted { at, first, step } => {
            pairs(reply, "keynum", &[("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)]);
        }
        Span::Unknown => pairs(reply, "unknown", &[]),
    }
}

fn docs(call: &mut Call<'_, '_>) -> CommandResult {
    let specs: Vec<&'static Spec> = if call.args.len() == 2 {
        present().collect()
    } else {
        call.args[2..].iter().filter_map(|name| named(name)).collect()
    };
    call.reply.map(specs.len());
    specs.iter().for_each(|spec| tell_docs(call.reply, spec));
    Ok(())
}

fn tell_docs(reply: &mut Reply, spec: &Spec) {
    reply.bulk(spec.name.as_bytes());
    let docs = reply.later(Aggregate::Map);
    let mut pairs = 0;
    for (name, text) in [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", redis::of(spec).group),
        ("complexity", spec.cost),
        ("syntax", spec.syntax),
    ] {
        if !text.is_empty() {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
            pairs += 1;
        }
    }
    if !spec.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(spec.subcommands.len());
        spec.subcommands.iter().for_each(|sub| tell_docs(reply, sub));
        pairs += 1;
    }
    reply.fill(docs, pairs);
}

/// The command that words are, with its keys.
fn keys_of(call: &Call<'_, '_>) -> Result<Vec<KeyPlace>, Refusal> {
    let args = &call.args[2..];
    const INVALID: Refusal = refusal::text("ERR Invalid command specified");
    let spec = resolve(args).ok_or(INVALID)?;
    let has_keys = redis::of(spec).keys.iter().any(|keys| !keys.flags.contains(&"not_key"));
    if !has_keys {
        return Err(refusal::text("ERR The command has no key arguments"));
    }
    if !spec.takes(args.len()) {
        return Err(refusal::text("ERR Invalid number of arguments specified for command"));
    }
    let keys = key_places::keys(spec, args).ok_or(refusal::text("ERR Invalid arguments specified for command"))?;
    if keys.is_empty() {
        return Err(refusal::text("ERR The command has no key arguments"));
    }
    Ok(keys)
}

fn get_keys(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = keys_of(call)?;
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(call.args[2 + key.place]));
    Ok(())
}

fn get_keys_and_flags(call: &mut Call<'_, '_>) -> CommandResult {
    let keys = keys_of(call)?;
    call.reply.array(keys.len());
    for key in keys {
        call.reply.array(2);
        call.reply.bulk(call.args[2 + key.place]);
        call.reply.set(key.flags.len());
        key.flags.iter().for_each(|flag| call.reply.simple(flag));
    }
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> CommandResult {
    let everything = || present().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    let names: Vec<&str> = match call.args {
        [_, _] => everything().map(|spec| spec.name).collect(),
        [_, _, word, kind, value] if is_word(word, "filterby") => {
            if is_word(kind, "module") {
                Vec::new()
            } else if is_word(kind, "aclcat") {
                let bit = redis::category(value).unwrap_or(0);
                everything().filter(|spec| redis::of(spec).categories & bit != 0).map(|spec| spec.name).collect()
            } else if is_word(kind, "pattern") {
                everything()
                    .filter(|spec| glob::matches(value, spec.name.as_bytes(), true))
                    .map(|spec| spec.name)
                    .collect()
            } else {
                return Err(refusal::SYNTAX);
            }
        }
        [_, _, ..] => return Err(refusal::SYNTAX),
        _ => return Err(Refusal::quoting("ERR unknown command '", call.args[0], "'")),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}
