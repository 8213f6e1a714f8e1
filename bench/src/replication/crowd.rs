//! Connections of one thread, each with one request under way, in a closed loop or in an open one.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::Question;
use crate::clock::now;
use crate::latencies::Latencies;
use crate::store::Result;

/// Servers that say nothing for so long are given up.
const SILENCE: Duration = Duration::from_secs(30);

/// What was served, over one turn or several.
pub(crate) struct Served {
    pub(crate) answered: u64,
    /// Answers that are not what should have been answered.
    pub(crate) failed: u64,
    /// The last of those answers; empty if there were none.
    pub(crate) refusal: String,
    /// Counted from when requests were due.
    pub(crate) latencies: Latencies,
    pub(crate) wall_s: f64,
    /// CPU time of all processes of the cluster.
    pub(crate) nodes_cpu_s: f64,
    /// CPU time of the client.
    pub(crate) client_cpu_s: f64,
    /// Whether requests stopped coming before the time was over: see [`Crowd::open_loop`].
    pub(crate) gave_up: bool,
}

impl Served {
    pub(crate) fn none() -> Self {
        Served {
            answered: 0,
            failed: 0,
            refusal: String::new(),
            latencies: Latencies::new(),
            wall_s: 0.0,
            nodes_cpu_s: 0.0,
            client_cpu_s: 0.0,
            gave_up: false,
        }
    }

    pub(crate) fn add(&mut self, other: &Served) {
        self.answered += other.answered;
        self.failed += other.failed;
        if other.failed > 0 {
            self.refusal.clone_from(&other.refusal);
        }
        self.latencies.add(&other.latencies);
        self.wall_s += other.wall_s;
        self.nodes_cpu_s += other.nodes_cpu_s;
        self.client_cpu_s += other.client_cpu_s;
        self.gave_up |= other.gave_up;
    }

    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / self.wall_s
    }
}

/// Connections to the processes of one cluster.
pub(crate) struct Crowd {
    epoll: rustix::fd::OwnedFd,
    members: Vec<Member>,
    idle: Vec<usize>,
}

struct Member {
    stream: TcpStream,
    number: u64,
    due: Instant,
    answer: Vec<u8>,
}

impl Crowd {
    /// Connections to these ports in turn.
    pub(crate) fn open(ports: &[u16], connections: usize) -> Result<Crowd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut members = Vec::new();
        for number in 0..connections {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[number % ports.len()]))?;
            stream.set_nodelay(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
            members.push(Member { stream, number: 0, due: now(), answer: Vec::with_capacity(512) });
        }
        Ok(Crowd { epoll, idle: (0..members.len()).collect(), members })
    }

    /// Asks about what `next` gives until it gives nothing, a request under way on each connection.
    pub(crate) fn closed_loop(
        &mut self,
        question: Question,
        next: &mut dyn FnMut() -> Option<u64>,
        served: &mut Served,
    ) -> Result<()> {
        let mut is_over = false;
        while !is_over || self.idle.len() < self.members.len() {
            while !is_over && let Some(member) = self.idle.pop() {
                match next() {
                    Some(number) => self.members[member].ask(question, number, now())?,
                    None => {
                        self.idle.push(member);
                        is_over = true;
                    }
                }
            }
            if self.idle.len() < self.members.len() {
                self.receive(question, SILENCE, served)?;
            }
        }
        Ok(())
    }

    /// Asks at a fixed rate for some seconds, whatever is answered, and waits for the rest.
    ///
    /// With `give_up_at`, requests stop coming once it is certain that more than one in a hundred takes longer.
    pub(crate) fn open_loop(
        &mut self,
        question: Question,
        pace: Pace,
        next: &mut dyn FnMut() -> u64,
        served: &mut Served,
    ) -> Result<()> {
        let start = now();
        let mut total = (pace.per_s * pace.seconds).ceil().max(1.0) as u64;
        let due_at = |number: u64| start + Duration::from_secs_f64(number as f64 / pace.per_s);
        let (mut come, mut waiting, mut late) = (0, VecDeque::new(), 0);
        while served.answered < total {
            let moment = now();
            while come < total && due_at(come) <= moment {
                waiting.push_back(due_at(come));
                come += 1;
            }
            while !waiting.is_empty()
                && let Some(member) = self.idle.pop()
            {
                let due = waiting.pop_front().unwrap_or(moment);
                self.members[member].ask(question, next(), due)?;
            }
            if let Some(limit) = pace.give_up_at
                && !served.gave_up
            {
                let overdue = waiting.partition_point(|due| moment.saturating_duration_since(*due) > limit) as u64;
                if late + overdue > total / 100 {
                    served.gave_up = true;
                    total = come - waiting.len() as u64;
                    waiting.clear();
                    come = total;
                    continue;
                }
            }
            let patience = match come < total && waiting.is_empty() {
                true => due_at(come).saturating_duration_since(now()),
                false => SILENCE,
            };
            late += self.receive_late(question, patience, pace.give_up_at, served)?;
        }
        Ok(())
    }

    /// Waits for an answer, `patience` at most. By `poll`, which knows nanoseconds: `epoll_wait` rounds up to
    /// milliseconds, by which requests would be late.
    fn wait(&self, patience: Duration) -> Result<()> {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if patience >= SILENCE => Err(format!("no answer in {} s", SILENCE.as_secs()).into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, question: Question, patience: Duration, served: &mut Served) -> Result<()> {
        self.receive_late(question, patience, None, served).map(|_| ())
    }

    /// Takes the answers that have come, or comes back when `patience` ends. Returns how many took longer than `limit`.
    fn receive_late(
        &mut self,
        question: Question,
        patience: Duration,
        limit: Option<Duration>,
        served: &mut Served,
    ) -> Result<u64> {
        let mut events = Vec::with_capacity(256);
        self.wait(patience)?;
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut late = 0;
        for event in &events {
            let number = event.data.u64() as usize;
            let member = &mut self.members[number];
            let Some(is_good) = member.receive(question)? else { continue };
            let took = member.due.elapsed();
            served.answered += 1;
            if !is_good {
                served.failed += 1;
                served.refusal = member.answer.escape_ascii().to_string();
            }
            served.latencies.record(took.as_nanos() as u64);
            late += u64::from(limit.is_some_and(|limit| took > limit));
            self.idle.push(number);
        }
        Ok(late)
    }
}

/// How fast requests come, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) per_s: f64,
    pub(crate) seconds: f64,
    pub(crate) give_up_at: Option<Duration>,
}

impl Member {
    fn ask(&mut self, question: Question, number: u64, due: Instant) -> Result<()> {
        (self.number, self.due) = (number, due);
        self.answer.clear();
        Ok(self.stream.write_all(&question.request(number))?)
    }

    /// Reads what has come. Once the answer is whole, whether it is good.
    fn receive(&mut self, question: Question) -> Result<Option<bool>> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => return Err(format!("a node closed after `{}`", self.answer.escape_ascii()).into()),
            count => self.answer.extend_from_slice(&buffer[..count]),
        }
        question.judge(self.number, &self.answer)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::{Operation, Promise};
    use super::*;

    /// A server of one connection that answers each `GET` after this many milliseconds.
    fn slow_server(millis: u64) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut buffer = [0; 256];
            while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
                let end = now() + Duration::from_millis(millis);
                while now() < end {
                    std::thread::yield_now();
                }
                stream.write_all(b"$-1\r\n").unwrap();
            }
        });
        port
    }

    const GET: Question = Question { operation: Operation::Get, promise: Promise::WaitOne };

    /// One connection can do 250 requests a second: of 500 a second, the last waits as long as the turn lasts.
    #[test]
    fn what_waits_for_a_connection_counts_as_slow() {
        let mut crowd = Crowd::open(&[slow_server(4)], 1).unwrap();
        let mut served = Served::none();
        crowd.open_loop(GET, Pace { per_s: 500.0, seconds: 0.2, give_up_at: None }, &mut || 1, &mut served).unwrap();
        assert_eq!((served.answered, served.failed), (100, 100), "no such key");
        assert!(served.latencies.p99_nanos() > 150e6, "{:?}", served.latencies.p99());
    }

    /// The server answers at once, so what is left is how late the client sends: far below a millisecond.
    #[test]
    fn requests_are_sent_when_they_are_due() {
        let mut crowd = Crowd::open(&[slow_server(0)], 1).unwrap();
        let mut served = Served::none();
        crowd.open_loop(GET, Pace { per_s: 900.0, seconds: 0.3, give_up_at: None }, &mut || 1, &mut served).unwrap();
        assert!(served.latencies.median_nanos() < 500e3, "{:?}", served.latencies.median());
    }

    #[test]
    fn a_hopeless_turn_ends_early() {
        let mut crowd = Crowd::open(&[slow_server(4)], 1).unwrap();
        let mut served = Served::none();
        let pace = Pace { per_s: 500.0, seconds: 10.0, give_up_at: Some(Duration::ZERO) };
        crowd.open_loop(GET, pace, &mut || 1, &mut served).unwrap();
        assert!(served.gave_up && served.answered < 5000);
        let mut again = Served::none();
        let mut once = Some(1);
        crowd.closed_loop(GET, &mut || once.take(), &mut again).unwrap();
        assert_eq!(again.answered, 1, "nothing is left under way");
    }
}
