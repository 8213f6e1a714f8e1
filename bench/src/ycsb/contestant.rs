//! The contestants: a store or a typed table in this process, or a server beside it.

use super::drive::Outcome;
use super::mix::Mix;
use super::records::key_of;
use super::typed::{UserTable, UserTableKind};
use crate::Bench;
use crate::socket::{Running, Server, Strings};
use crate::store::{Client, Durability, Result, Setup, Store, StoreKind};

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) enum Contestant<'a> {
    /// In this process.
    Store(&'a StoreKind),
    /// The same, of typed fields.
    Table(&'a UserTableKind),
    /// Beside it, over RESP.
    Server(&'a Server),
}

impl Contestant<'_> {
    /// As in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Store(kind) => kind.name,
            Contestant::Table(kind) => kind.name,
            Contestant::Server(server) => server.name,
        }
    }

    /// Whether it can be measured on this machine.
    pub(crate) fn is_there(self) -> bool {
        match self {
            Contestant::Store(_) | Contestant::Table(_) => true,
            Contestant::Server(server) => server.is_there(),
        }
    }

    /// Whether it can do what this workload asks.
    pub(crate) fn can(self, mix: &Mix) -> bool {
        match self {
            Contestant::Store(_) | Contestant::Table(_) => true,
            // Redis keeps no order of keys.
            Contestant::Server(server) => server.counts() || !mix.scans(),
        }
    }

    /// Whether the size of its cache was set.
    pub(crate) fn has_cache(self) -> bool {
        match self {
            Contestant::Store(kind) => kind.has_cache,
            Contestant::Table(_) => true,
            Contestant::Server(_) => false,
        }
    }

    /// Opens it, empty.
    pub(crate) fn open(self, bench: &Bench<'_>, cache_bytes: u64) -> Result<Open> {
        let setup = Setup { durability: Durability::Os, cache_bytes, in_memory: false };
        match self {
            Contestant::Store(kind) => {
                let dir = bench.place.fresh()?;
                let store = (kind.open)(dir.path(), setup)?;
                Ok(Open::Store { store, _dir: dir })
            }
            Contestant::Table(kind) => {
                let dir = bench.place.fresh()?;
                let table = (kind.open)(dir.path(), setup)?;
                Ok(Open::Table { table, _dir: dir })
            }
            Contestant::Server(server) => Ok(Open::Server(server.start(bench, Durability::Os)?)),
        }
    }
}

/// One that is open.
pub(crate) enum Open {
    Store { store: Box<dyn Store>, _dir: tempfile::TempDir },
    Table { table: Box<dyn UserTable>, _dir: tempfile::TempDir },
    Server(Running),
}

impl Open {
    fn clients(&self, threads: usize) -> Result<Vec<Box<dyn Client + '_>>> {
        let client = |_| match self {
            Open::Store { store, .. } => store.client(),
            Open::Table { table, .. } => table.client(),
            Open::Server(server) => Ok(Box::new(Strings::open(server)?) as Box<dyn Client>),
        };
        (0..threads).map(client).collect()
    }

    /// Does a step with so many clients. A server's CPU time is its own, without the clients'.
    pub(crate) fn step(
        &self,
        threads: usize,
        work: impl FnOnce(Vec<Box<dyn Client + '_>>) -> Outcome,
    ) -> Result<Outcome> {
        let clients = self.clients(threads)?;
        let Open::Server(server) = self else { return Ok(work(clients)) };
        let before = server.cpu_s();
        let mut outcome = work(clients);
        outcome.spent.cpu_s = server.cpu_s() - before;
        Ok(outcome)
    }

    /// How many records there are.
    pub(crate) fn count(&self) -> Result<u64> {
        match self {
            Open::Store { store, .. } => {
                let mut count = 0;
                // All keys begin with `user` and a digit, and `:` follows the digits.
                let (from, mut to) = (*b"user00000000000000000000", key_of(0));
                to[4] = b':';
                store.read(&mut |reader| {
                    count = reader.count(&from, &to)?;
                    Ok(())
                })?;
                Ok(count)
            }
            Open::Table { table, .. } => table.count(),
            Open::Server(server) => Strings::open(server)?.count(),
        }
    }
}
