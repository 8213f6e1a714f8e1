//! Many connections, each with one request under way, served by one thread.

use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::dialect::Address;
use super::{Batch, Connection};
use crate::clock::{Deadline, now};
use crate::store::Result;

/// Connections of one thread.
pub(crate) struct Crowd {
    epoll: rustix::fd::OwnedFd,
    members: Vec<Member>,
}

struct Member {
    connection: Connection,
    /// One request.
    batch: Batch,
    sent_at: Instant,
}

/// What a crowd got done.
pub(crate) struct Served {
    /// Nanoseconds from each request's write to its answer.
    pub(crate) nanos: Vec<f64>,
    /// From the first request to the last answer.
    pub(crate) wall_s: f64,
}

impl Crowd {
    /// Opens so many connections.
    pub(crate) fn open(address: Address, connections: usize) -> Result<Self> {
        allow_files(connections as u64 + 64)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut members = Vec::with_capacity(connections);
        for number in 0..connections {
            let connection = Connection::open(address)?;
            epoll::add(&epoll, &connection, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
            members.push(Member { connection, batch: Batch::default(), sent_at: now() });
        }
        Ok(Crowd { epoll, members })
    }

    /// Sends requests that `fill` makes, each connection its next one as soon as the last is answered: `most` of them,
    /// or until the deadline.
    ///
    /// # Errors
    /// As [`Connection::exchange`].
    pub(crate) fn serve(&mut self, most: u64, deadline: &Deadline, fill: &mut dyn FnMut(&mut Batch)) -> Result<Served> {
        let mut nanos = Vec::with_capacity(most as usize);
        let mut under_way = 0;
        let mut left = most;
        let start = now();
        for member in self.members.iter_mut().take(most as usize) {
            member.send_next(fill)?;
            left -= 1;
            under_way += 1;
        }
        let mut events = Vec::with_capacity(256);
        while under_way > 0 {
            wait_for_answers(&self.epoll, &mut events)?;
            if deadline.passed() {
                left = 0;
            }
            for event in &events {
                let member = &mut self.members[event.data.u64() as usize];
                member.connection.receive()?;
                if !member.connection.is_answered(&member.batch)? {
                    continue;
                }
                nanos.push(member.sent_at.elapsed().as_nanos() as f64);
                member.connection.check(&member.batch)?;
                under_way -= 1;
                if left > 0 {
                    member.send_next(fill)?;
                    left -= 1;
                    under_way += 1;
                }
            }
        }
        Ok(Served { nanos, wall_s: start.elapsed().as_secs_f64() })
    }
}

impl Member {
    fn send_next(&mut self, fill: &mut dyn FnMut(&mut Batch)) -> Result<()> {
        self.batch.clear();
        fill(&mut self.batch);
        self.connection.begin();
        self.sent_at = now();
        match self.connection.send(&self.batch)? {
            true => Ok(()),
            // The socket is empty, and its buffer is thousands of times as large as a request.
            false => Err(format!("a request of {} bytes did not fit the socket", self.batch.requests().len()).into()),
        }
    }
}

/// Puts what has happened into `events`, in place of what they held.
///
/// # Errors
/// A silence of a minute.
pub(crate) fn wait_for_answers(epoll: &rustix::fd::OwnedFd, events: &mut Vec<epoll::Event>) -> Result<()> {
    events.clear();
    let silence = Timespec { tv_sec: 60, tv_nsec: 0 };
    match epoll::wait(epoll, spare_capacity(events), Some(&silence)) {
        Ok(0) => Err("no answer in 60 s".into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Raises the limit of open files, which servers started later inherit.
pub(crate) fn allow_files(files: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: limit.maximum })
            .map_err(|error| format!("cannot open {files} files: {error}"))?;
    }
    Ok(())
}
