//! A reader who tries all that a page has, in a directory of its own, with servers at ports of their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::blocks::{Asked, Block, all_fit, steady_words_fit};
use crate::http;
use crate::program::{Place, Server, free_port};

/// Words of commands that name another place than the directory of the test, and what stands for them.
const MOVED: [(&str, &str); 9] = [
    // Of fewer flights, which takes a second. The gate compares the rows: `first_command` in `.ci/steps`.
    ("cargo run --release --no-default-features -- demo", "quipu demo --rows 3000"),
    ("http://a:", "http://127.0.0.1:"),
    ("http://b:", "http://127.0.0.1:"),
    ("http://c:", "http://127.0.0.1:"),
    ("http://d:", "http://127.0.0.1:"),
    ("http://e:", "http://127.0.0.1:"),
    ("git clone <this repository>", "ln -s \"$QUIPU_CHECKOUT\""),
    ("/backup/", "backup/"),
    ("/tmp/", "temporary/"),
];

/// The home directory of the reader, in answers.
const HOME: &str = "/home/ann/";

/// Where a checkout has the flights.
const FLIGHTS: &str = "data/flights.csv.zst";

/// Commands whose answers tell how long things took, compared without these figures.
const MEASURED: [&str; 2] = ["quipu serve", "quipu demo"];

/// How often a command to a cluster is given until it succeeds.
const CLUSTER_RUNS_MAX: usize = 200;

/// Programs that a machine may lack. Commands with these are left out there.
const OTHER_PROGRAMS: [&str; 1] = ["jq"];

/// A server that a page has started.
struct Running {
    data: String,
    sql_port: Option<u16>,
    _server: Server,
}

pub(crate) struct Reader {
    page: String,
    place: Place,
    /// The directory in which the next command runs.
    directory: PathBuf,
    /// Ports that the page names, and which are served instead.
    ports: BTreeMap<String, u16>,
    servers: Vec<Running>,
    /// The directory of the database that the page names first.
    data: String,
    /// How many commands and statements have run.
    pub(crate) done: usize,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// The value of a flag in a command.
fn flag<'a>(command: &'a str, name: &str) -> Option<&'a str> {
    let mut words = command.split_whitespace().skip_while(|word| *word != name);
    words.nth(1)
}

/// The ports at which a page has servers listen, and those at which they do here.
fn ports_of(page: &str) -> BTreeMap<String, u16> {
    let words: Vec<&str> = page.split_whitespace().collect();
    let is_port = |pair: &[&str]| pair[0].ends_with("port") && pair[1].parse::<u16>().is_ok_and(|port| port > 0);
    words.windows(2).filter(|pair| is_port(pair)).map(|pair| (pair[1].to_owned(), free_port())).collect()
}

/// All flights of the checkout, compressed.
pub(crate) fn all_flights() -> Vec<u8> {
    std::fs::read(root().join(FLIGHTS)).expect("the flights")
}

/// The first of them, some thousands.
pub(crate) fn some_flights() -> Vec<u8> {
    let flights = all_flights();
    let decoder = ruzstd::decoding::StreamingDecoder::new(&flights[..]).expect("a frame");
    let mut first = Vec::new();
    decoder.take(500_000).read_to_end(&mut first).expect("its beginning");
    first.truncate(first.iter().rposition(|byte| *byte == b'\n').expect("a line") + 1);
    first
}

/// A command without the remark at its end.
fn without_remark(command: &str) -> &str {
    command.split(" # ").next().unwrap_or_default().trim_end()
}

/// Whether the shell of this machine knows a program.
fn is_installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// The words of a command, in which quotes hold blanks.
fn words_of(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_inside) = (None, false);
    for char in command.chars() {
        match (char, quote) {
            ('\'' | '"', None) => quote = Some(char),
            (char, Some(open)) if char == open => quote = None,
            (' ', None) => is_inside = false,
            (char, _) => {
                if !is_inside {
                    words.push(String::new());
                    is_inside = true;
                }
                words.last_mut().expect("a word").push(char);
            }
        }
    }
    words
}

impl Reader {
    /// A reader in a checkout with these flights, and with the files that the page takes for granted.
    pub(crate) fn new(page: &str, text: &str, flights: &[u8], prepared: &[(&str, &str)]) -> Reader {
        let place = Place::new();
        ["bin", "backup", "temporary", "data"].iter().for_each(|name| {
            std::fs::create_dir(place.path(name)).expect("a directory");
        });
        place.write(FLIGHTS, flights);
        // The shell of the program answers as that of Redis, and `quipu sql` speaks as psql does.
        place.write(
            "bin/redis-cli",
            "#!/bin/sh\nline=\nfor word; do line=\"$line \\\"$word\\\"\"; done\n\
             exec quipu shell --connect 127.0.0.1:$REDIS_PORT -c \"$line\"\n",
        );
        place.write(
            "bin/psql",
            "#!/bin/sh\nwhile getopts h:p:U:c: flag; do\n\
             case $flag in U) user=$OPTARG;; p) PSQL_PORT=$OPTARG;; c) ask=$OPTARG;; esac\ndone\n\
             exec quipu sql --connect \"postgres://$user@127.0.0.1:$PSQL_PORT/quipu\" ${ask:+-c \"$ask\"}\n",
        );
        for name in ["bin/redis-cli", "bin/psql"] {
            std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o755)).expect("it may be run");
        }
        for (name, content) in prepared {
            place.write(name, content);
        }
        Reader {
            page: page.to_owned(),
            directory: place.path(""),
            place,
            ports: ports_of(text),
            servers: Vec::new(),
            data: String::new(),
            done: 0,
        }
    }

    /// Does what a block says. `is_left_out` tells which commands are not run.
    pub(crate) fn try_block(&mut self, block: &Block, mut is_left_out: impl FnMut(&str) -> bool) {
        if block.language == "sql" {
            self.ask_statements(block);
            return;
        }
        for asked in block.commands().iter().filter(|asked| !asked.command.starts_with('#')) {
            if is_left_out(&asked.command) {
                continue;
            }
            let lacking = OTHER_PROGRAMS.iter().find(|it| words_of(&asked.command).contains(&(**it).to_owned()));
            if let Some(program) = lacking.filter(|program| !is_installed(program)) {
                println!("{}: left out, as {program} is not installed: {}", self.page, asked.command);
                continue;
            }
            let command = self.moved(&asked.command);
            if let Some(data) = flag(&command, "--data") {
                if self.data.is_empty() {
                    data.clone_into(&mut self.data);
                }
                // The directory belongs to one process.
                self.servers.retain(|running| running.data != data);
            }
            let (succeeds, said) = match command.split(' ').next() {
                Some("curl") => (true, self.fetch(&command)),
                _ if command.starts_with("quipu serve") => (true, self.serve(&command)),
                // Nodes answer before they have met.
                _ if command.starts_with("quipu cluster") => {
                    let mut runs = std::iter::repeat_with(|| self.run(&command)).take(CLUSTER_RUNS_MAX);
                    runs.find(|(succeeds, _)| *succeeds).unwrap_or_else(|| self.run(&command))
                }
                _ => self.run(&command),
            };
            let place = format!("{}, from line {}", self.page, block.line);
            assert!(succeeds || block.language != "sh", "{place}: $ {command}\n{said}");
            if block.language != "sh" {
                self.compare(&place, &command, asked, &said);
            }
            self.done += 1;
        }
    }

    fn compare(&self, place: &str, command: &str, asked: &Asked, said: &str) {
        let expected = asked.answer.join("\n");
        let lines: Vec<&str> = said.lines().collect();
        let is_measured = MEASURED.iter().any(|measured| command.starts_with(measured));
        let is_same = match is_measured {
            true => steady_words_fit(said, &format!("{expected}\n")),
            false => all_fit(&lines, &asked.answer),
        };
        assert!(is_same, "{place}: $ {command}\n{said}\nthe page has:\n{expected}");
    }

    /// A text with the ports that are served here.
    fn with_ports(&self, text: &str) -> String {
        let mut said = text.to_owned();
        for (named, served) in &self.ports {
            said = said.replace(named, &served.to_string());
        }
        said
    }

    /// A command with the places that there are here.
    fn moved(&self, command: &str) -> String {
        let command = MOVED.iter().fold(command.to_owned(), |command, (from, to)| command.replace(from, to));
        self.with_ports(&command)
    }

    /// What a command says, and whether it succeeds. The next one begins where it has gone to.
    fn run(&mut self, command: &str) -> (bool, String) {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_quipu"));
        let mut path = self.place.path("bin").into_os_string();
        path.push(":");
        path.push(program.parent().expect("its directory"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let port = |named: &str| self.ports.get(named).map(u16::to_string).unwrap_or_default();
        let went = self.place.path("went");
        let mut shell = Command::new("sh");
        let script = format!("{{ {command}\n}} 2>&1; ended=$?; pwd >'{}'; exit $ended", went.display());
        shell.args(["-c", &script]).current_dir(&self.directory).stdin(Stdio::null());
        shell.env("PATH", &path).env("QUIPU_CHECKOUT", root()).env("CARGO_NET_OFFLINE", "true");
        shell.env("REDIS_PORT", port("6379")).env("PSQL_PORT", port("5432"));
        let output = shell.output().expect("a shell");
        if let Ok(went) = std::fs::read_to_string(went) {
            self.directory = PathBuf::from(went.trim_end());
        }
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a server, and answers what it says.
    fn serve(&mut self, command: &str) -> String {
        let command = without_remark(command);
        let sql_port = flag(command, "--pg-port").map(|port| port.parse().expect("a port"));
        let arguments: Vec<&str> = command.split_whitespace().skip(2).collect();
        let (server, said) = Server::of(&arguments, &self.directory);
        let data = flag(command, "--data").expect("a directory").to_owned();
        self.servers.push(Running { data, sql_port, _server: server });
        said.replace(&*self.place.path("").to_string_lossy(), HOME)
    }

    /// What a server answers to a command of curl.
    fn fetch(&self, command: &str) -> String {
        let (mut method, mut body, mut url) = ("GET".to_owned(), String::new(), String::new());
        let mut words = words_of(without_remark(command)).into_iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-X" => method = words.next().expect("a method"),
                "--data-binary" => body = words.next().expect("a body"),
                _ => url = word,
            }
        }
        let (host, target) = url.split_once('/').expect("a path");
        let (_, port) = host.rsplit_once(':').expect("a port");
        let address = ([127, 0, 0, 1], port.parse().expect("a port")).into();
        let target = format!("/{target}");
        http::ask(address, &method, &target, body.as_bytes(), "").expect("an answer").text()
    }

    /// Runs statements of SQL by a server over the database that the page names first, each in a session of its own.
    /// The name of a snapshot is the one that the server has given.
    fn ask_statements(&mut self, block: &Block) {
        let port = self.servers.iter().find_map(|running| running.sql_port).unwrap_or_else(|| {
            let port = free_port();
            let command = format!("quipu serve --data {} --pg-port {port}", self.data);
            self.serve(&command);
            port
        });
        let mut snapshot = String::new();
        for statement in block.statements() {
            let mut statement = statement;
            if let Some((before, rest)) = statement.split_once("'63B5") {
                let (_, after) = rest.split_once('\'').expect("the end of a name");
                statement = format!("{before}'{snapshot}'{after}");
            }
            self.place.write("statement.sql", &statement);
            let mut line = format!("sql --connect postgres://default@127.0.0.1:{port}/quipu");
            write!(line, " --csv --on-error stop -f statement.sql").expect("a text");
            let outcome = self.place.run(&line);
            assert_eq!(outcome.code, Some(0), "{}: {statement}\n{}{}", self.page, outcome.out, outcome.err);
            if statement.contains("quipu_snapshot") {
                snapshot = outcome.out.lines().last().unwrap_or_default().to_owned();
            }
            self.done += 1;
        }
    }
}
