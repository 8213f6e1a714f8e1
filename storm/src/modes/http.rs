//! The storm over HTTP: honest clients with entities of their own, judged answer by answer, beside clients that send
//! anything.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quipu_suite::clock::Deadline;
use quipu_suite::dice::Dice;

use crate::modes::server::{Judged, Stormed, SumField, Usage, ping, watch};
use crate::options::Options;
use crate::report::Counters;

/// A run.
pub fn run(seed: u64, options: &Options) -> (Counters, Judged) {
    let mut counters = Counters::default();
    let result = storm(&mut Dice::new(seed), options, &mut counters);
    (counters, result)
}

fn storm(dice: &mut Dice, options: &Options, counters: &mut Counters) -> Judged {
    let durability = *dice.pick(&[&"os", &"none", &"sync"]);
    let arguments = ["--durability", durability];
    let mut stormed = Stormed::start(options.quipu.as_deref(), dice, &arguments).map_err(|error| error.to_string())?;
    let process = stormed.process()?;
    let at_rest = Usage::of(process);
    let bound = Usage {
        threads: at_rest.threads + 40,
        resident_kib: at_rest.resident_kib + (500 << 10),
        files: at_rest.files + 400,
    };
    let field =
        SumField::new(&stormed, Deadline::after(Duration::from_secs_f64(options.run_seconds)), options.stall_ms);
    let clients: Vec<Honest> = std::thread::scope(|scope| {
        let field = &field;
        let honest: Vec<_> = (0..1 + dice.below(3))
            .map(|number| {
                let mut client = Honest { dice: Dice::new(dice.seed()), number, entities: BTreeMap::new() };
                scope.spawn(move || field.guard("an honest client", move || client.go(field).map(|()| client)))
            })
            .collect();
        for _ in 0..dice.below(4) {
            let mut dice = Dice::new(dice.seed());
            scope.spawn(move || field.guard("a hostile client", || hostile(field, &mut dice)));
        }
        scope.spawn(move || field.guard("an honest client", || ping(field)));
        scope.spawn(move || field.guard("the watch", || watch(field, process, bound)));
        honest.into_iter().filter_map(|client| client.join().ok().flatten()).collect()
    });
    counters.commands = field.commands.load(Ordering::Relaxed);
    field.end()?;
    let kill = durability != "none" && dice.percent(50);
    stormed.restart(kill).map_err(|error| format!("a restart: {error}"))?;
    counters.kills += u64::from(kill);
    counters.reopens += 1;
    let field = SumField::new(&stormed, Deadline::never(), options.stall_ms);
    clients.iter().try_for_each(|client| client.judge_all(&field)).map_err(|text| format!("after a restart: {text}"))
}

/// A client that knows its entities.
struct Honest {
    dice: Dice,
    number: usize,
    entities: BTreeMap<usize, Vec<u8>>,
}

/// A connection that stays.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(field: &SumField) -> Judged<Connection> {
        let stream = TcpStream::connect(field.http).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Judged {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: storm\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat()).map_err(|error| format!("sending: {error}"))
    }

    /// The status and the body.
    fn answer(&mut self) -> Judged<(u16, Vec<u8>)> {
        let mut line = || {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(|error| format!("no answer: {error}"))?;
            Ok::<String, String>(line.trim_end().to_owned())
        };
        let status = line()?.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
        let mut length = 0;
        loop {
            let header = line()?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| "no length".to_owned())?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).map_err(|error| format!("half an answer: {error}"))?;
        Ok((status, body))
    }
}

impl Honest {
    fn path(&self, number: usize) -> String {
        format!("/v0/entity?id=honest-{}-{number:05}", self.number)
    }

    fn go(&mut self, field: &SumField) -> Judged {
        let mut connection = Connection::open(field)?;
        while !field.is_over() {
            // Several on their way at once, now and then.
            let mut expected = Vec::new();
            for _ in 0..*self.dice.pick(&[&1, &1, &5]) {
                let number = self.dice.below(40);
                let old = self.entities.get(&number).cloned();
                match self.dice.below(10) {
                    0..=3 => {
                        let length = *self.dice.pick(&[&0, &20, &2000, &100_000]);
                        let body = self.dice.bytes(length);
                        connection.send("PUT", &self.path(number), &body)?;
                        self.entities.insert(number, body);
                        expected.push((number, 201, None));
                    }
                    4..=7 => {
                        connection.send("GET", &self.path(number), b"")?;
                        expected.push((number, if old.is_some() { 200 } else { 404 }, old));
                    }
                    8 => {
                        connection.send("DELETE", &self.path(number), b"")?;
                        self.entities.remove(&number);
                        expected.push((number, 202, None));
                    }
                    _ => {
                        let path = format!("/v0/count?start=honest-{0}-&end=honest-{0}.", self.number);
                        connection.send("GET", &path, b"")?;
                        expected.push((number, 200, Some(self.entities.len().to_string().into_bytes())));
                    }
                }
            }
            for (number, status, body) in expected {
                let (found, found_body) = connection.answer()?;
                let is_right =
                    body.as_ref().is_none_or(|body| *body == found_body || trimmed(&found_body) == trimmed(body));
                if found != status || !is_right {
                    let text = String::from_utf8_lossy(&found_body[..found_body.len().min(80)]).into_owned();
                    return Err(format!(
                        "entity {number}: {found} {text:?}, expected {status}, {:?} bytes",
                        body.map(|body| body.len())
                    ));
                }
                field.commands.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn judge_all(&self, field: &SumField) -> Judged {
        let mut connection = Connection::open(field)?;
        for (number, body) in &self.entities {
            connection.send("GET", &self.path(*number), b"")?;
            if connection.answer()? != (200, body.clone()) {
                return Err(format!("entity {number} is not what was acknowledged"));
            }
        }
        Ok(())
    }
}

fn trimmed(body: &[u8]) -> &[u8] {
    body.trim_ascii()
}

/// Sends what no client should, and leaves.
fn hostile(field: &SumField, dice: &mut Dice) -> Judged {
    const HEADS: &[&str] = &[
        "GET /v0/entities?start=a HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /v0/entity?id=hostile HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        "PUT /v0/entity?id=hostile HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\n",
        "POST / HTTP/9.9\r\n\r\n",
        "GET /v0/nth?start=&offset=99999999999999999999 HTTP/1.1\r\nHost: x\r\n\r\n",
        "",
    ];
    while !field.is_over() {
        let mut stream = TcpStream::connect(field.http).map_err(|error| error.to_string())?;
        let length = dice.below(4000);
        let head = dice.pick(HEADS);
        // The server may close while it is being written to.
        let _ = stream.write_all(&[head.as_bytes(), &dice.bytes(length)].concat());
        if dice.percent(50) {
            stream.set_read_timeout(Some(Duration::from_millis(5))).map_err(|error| error.to_string())?;
            let _ = stream.read(&mut [0; 4096]);
        }
    }
    Ok(())
}
