//! The configuration of `quipu serve`: a file, the environment, flags of its own, and any parameter of Redis as
//! `redis-server` takes it.
//!
//! All are names with values. They are applied in this order to one configuration, which checks each value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args as _};
use quipu_server::config::served::{GROUPS, Served};
use quipu_server::config::{Config, Rejected, file, parameters, reference};

use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  quipu serve                                       Redis clients at port 6379, the data in ./quipu-data
  quipu serve --port 7000 --data air --durability os
  quipu serve --port 6379 --http-port 8000          two faces of the same keys
  quipu serve --pg-port 5432                        SQL for clients of PostgreSQL, over the tables of ./quipu-data
  quipu serve --http-port 8001 --self-url http://a:8001 --data a --cluster http://a:8001,http://b:8001,http://c:8001
                                                    one of three nodes, each with the same list
  quipu serve --config quipu.toml --maxclients 500  a file, and a flag over it
  quipu serve --memtable-bytes 256mb --cache-bytes 512mb   many more keys than memory holds: the rest is on disk
  QUIPU_REQUIREPASS=secret quipu serve --bind 0.0.0.0 --tls-port 6380 --tls-cert-file c.pem --tls-key-file k.pem

Which face is served: those whose port is named; Redis clients at 6379 if none is.

When is a write answered (--durability)?
  sync  when it is on stable storage: survives a power loss; many writes share one fsync
  os    when the operating system has it: survives a killed process, not a power loss
  none  at once: what survives is everything up to some moment

Where values come from, the later over the earlier: defaults, the file (--config), the environment, flags.
The file is TOML with the same names, and users:
  port = 6379
  durability = \"os\"
  [users]
  reader = \"on >secret ~public:* +@read\"
In the environment a name is in capitals: QUIPU_PORT, QUIPU_TLS_PORT.

Every parameter of Redis 7 is accepted as redis-server takes it (--save \"\" --appendonly yes); those that mean nothing here are
named in the log. CONFIG GET * lists all of them, and CONFIG SET changes many while the server runs.

SIGTERM and SIGINT end it in order: answers are sent, a checkpoint is made. A second signal ends it at once.";

/// What `quipu serve` is given: its flags are the parameters of the server.
#[derive(Debug, Default)]
pub(crate) struct Args {
    config: Option<PathBuf>,
    /// Parameters that were given as flags, by name.
    given: Vec<(&'static str, String)>,
    /// Parameters as redis-server takes them.
    pub(crate) redis_style: Vec<(String, String)>,
}

/// Parameters that are flags, with the headings of their groups.
fn flags() -> impl Iterator<Item = (&'static str, &'static Served)> {
    let groups = GROUPS.iter().filter(|group| group.are_flags);
    groups.flat_map(|group| group.parameters.iter().map(|served| (group.title, served)))
}

fn flag(heading: &'static str, served: &'static Served) -> Arg {
    let default = reference::default_of(served).map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let flag = Arg::new(served.name)
        .long(served.name)
        .value_name(served.value_name)
        .help(format!("{}{default}", served.help))
        .help_heading(heading)
        .allow_hyphen_values(served.is_list || reference::may_be_negative(served))
        .action(if served.is_list { ArgAction::Append } else { ArgAction::Set });
    if served.name == "data" { flag.visible_alias("dir") } else { flag }
}

impl clap::Args for Args {
    fn augment_args(command: clap::Command) -> clap::Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read the configuration from this file")
            .help_heading("Data");
        let flags = std::iter::once(file).chain(flags().map(|(heading, served)| flag(heading, served)));
        command
            .about("Serves a database to clients of Redis and PostgreSQL, and over HTTP")
            .after_help(EXAMPLES)
            .args(flags)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Args::augment_args(command)
    }
}

impl clap::FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Args, clap::Error> {
        let mut args = Args::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        self.config = matches.get_one("config").cloned();
        self.given.clear();
        for (_, served) in flags() {
            let values: Vec<&str> =
                matches.get_many::<String>(served.name).into_iter().flatten().map(|value| &**value).collect();
            if !values.is_empty() {
                let value = values.join(" ");
                self.given.push((served.name, if served.is_list { value.replace(',', " ") } else { value }));
            }
        }
        Ok(())
    }
}

/// Takes parameters of Redis that are not flags of `serve` out of a command line: a name with the words up to the next
/// name, as `--save 60 1`.
pub(crate) fn take_redis_style(words: Vec<OsString>) -> (Vec<OsString>, Vec<(String, String)>) {
    let is_serve = words.get(1).is_some_and(|word| word == "serve");
    if !is_serve {
        return (words, Vec::new());
    }
    let command = Args::augment_args(clap::Command::new("serve"));
    let is_flag = |name: &str| {
        let is_alias = |arg: &clap::Arg| arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name));
        command.get_arguments().any(|arg| arg.get_long() == Some(name) || is_alias(arg))
    };
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let name = word.to_str().and_then(|text| text.strip_prefix("--")).map(str::to_owned);
        match name {
            Some(text) => {
                let (name, first) = match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text, None),
                };
                if is_flag(&name) || !parameters::is_known(&name) {
                    left.push(word);
                    continue;
                }
                let mut values: Vec<String> = first.into_iter().collect();
                while let Some(value) = words.next_if(|word| !word.to_string_lossy().starts_with("--")) {
                    values.push(value.to_string_lossy().into_owned());
                }
                taken.push((name, values.join(" ")));
            }
            None => left.push(word),
        }
    }
    (left, taken)
}

/// Puts a configuration together. Also returns the names that were given and have no effect here.
pub(super) fn configure(args: &Args) -> Result<(Config, Vec<String>)> {
    let mut config = Config::default();
    let mut named: Vec<String> = Vec::new();
    if let Some(path) = &args.config {
        named.extend(read_file(&mut config, path)?);
    }
    for name in parameters::names().chain(["data"]) {
        let variable = format!("QUIPU_{}", name.replace('-', "_").to_uppercase());
        if let Ok(value) = std::env::var(&variable) {
            config.set(name, &value).map_err(|rejected| usage(&format!("{variable}={value}"), &rejected))?;
            named.push(name.to_owned());
        }
    }
    let given = args.given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    for (name, value) in given.chain(args.redis_style.iter().cloned()) {
        // A password is not shown.
        let shown = if name.contains("pass") { "..." } else { &value };
        config.set(&name, &value).map_err(|rejected| usage(&format!("--{name} {shown}"), &rejected))?;
        named.push(name);
    }
    if !config.cluster.is_empty() && !config.join.is_empty() {
        let why = "`--cluster` and `--join` exclude each other: a node begins a cluster or joins one";
        return Err(Failure::Usage(why.into()));
    }
    let is_named = |face: &str| named.iter().any(|name| name == face);
    if ["http-port", "pg-port", "tls-port", "unixsocket"].iter().any(|face| is_named(face)) && !is_named("port") {
        config.port = None;
    }
    let ports = [config.port, config.http_port, config.pg_port, config.tls_port];
    if ports.iter().all(Option::is_none) && config.unix_socket.is_none() {
        let why = "nothing is to be served: name `--port`, `--http-port`, `--pg-port`, `--tls-port` or `--unixsocket`";
        return Err(Failure::Usage(why.into()));
    }
    named.retain(|name| !parameters::has_effect(name));
    named.sort();
    named.dedup();
    Ok((config, named))
}

fn read_file(config: &mut Config, path: &Path) -> Result<Vec<String>> {
    file::read(config, path).map_err(Failure::Usage)
}

fn usage(given: &str, rejected: &Rejected) -> Failure {
    Failure::Usage(match rejected {
        Rejected::Unknown => format!("`{given}`: no such setting"),
        Rejected::Because(why) => format!("`{given}`: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (String, Vec<(String, String)>) {
        let words = line.split(' ').map(|word| OsString::from(if word == "''" { "" } else { word })).collect();
        let (left, taken) = take_redis_style(words);
        (left.join(std::ffi::OsStr::new(" ")).to_string_lossy().into_owned(), taken)
    }

    #[test]
    fn parameters_of_redis_are_taken_out() {
        let (left, taken) = split("quipu serve --save '' --port 7000 --appendonly=no --save 60 1 --dir x --nosuch 1");
        assert_eq!(left, "quipu serve --port 7000 --dir x --nosuch 1");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(taken, [pair("save", ""), pair("appendonly", "no"), pair("save", "60 1")]);
    }

    #[test]
    fn other_commands_are_left_alone() {
        assert_eq!(split("quipu shell --save 1"), ("quipu shell --save 1".to_owned(), Vec::new()));
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_address_to_listen_at_does_not_swallow_the_flags_after_it() {
        use clap::Parser;
        let bound = |line: &str| {
            let args = Line::try_parse_from(line.split('+')).expect("a line").args;
            let given =
                |name: &str| args.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.clone());
            (given("bind"), given("port"))
        };
        let port = Some("7111".to_owned());
        assert_eq!(bound("quipu+--bind+127.0.0.1+--port+7111"), (Some("127.0.0.1".to_owned()), port.clone()));
        let both = Some("127.0.0.1 -::1".to_owned());
        assert_eq!(bound("quipu+--port+7111+--bind+127.0.0.1 -::1"), (both.clone(), port.clone()));
        assert_eq!(bound("quipu+--bind+127.0.0.1,-::1+--port+7111"), (both.clone(), port.clone()));
        assert_eq!(bound("quipu+--bind+127.0.0.1+--bind+-::1+--port+7111"), (both, port));
    }
}
