//! The trait of a store that is measured.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use super::population::Take;
use super::records::Table;
use super::requests::{
    DeliveryRequest, NewOrderRequest, OrderStatusRequest, PaymentRequest, Request, StockLevelRequest,
};
use crate::store::{Result, Setup};

/// A kind of contestant: a name and a way to open one.
#[derive(Clone, Copy)]
pub(crate) struct ContestantKind {
    /// As in tables and in `--stores`.
    pub(crate) name: &'static str,
    /// What it is and how it does it, in one line.
    pub(crate) settings: &'static str,
    /// Whether its cache has a size.
    pub(crate) has_cache: bool,
    /// Whether it differs from another one in its files alone, so that it is not measured in memory.
    pub(crate) only_files: bool,
    /// Opens an empty one in an empty directory, or the one that was closed there.
    pub(crate) open: fn(&Path, Setup) -> Result<Box<dyn Contestant>>,
}

/// Hands rows of a table to what takes them.
pub(crate) type Rows<'r> = &'r mut dyn FnMut(Take<'_>) -> Result<()>;

/// An open store with the nine tables.
pub(crate) trait Contestant: Sync {
    /// Fills an empty table. Rows come in the order of the primary key.
    fn load(&self, table: Table, rows: Rows<'_>) -> Result<()>;

    /// Builds the indexes: customers by last and first name, orders by customer.
    fn build_indexes(&self) -> Result<()>;

    /// Does, and waits for, what writing has left to do, so that all of it is in files.
    fn settle(&self) -> Result<()>;

    /// A terminal's connection.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Lends every row of a table, in the order of the primary key.
    fn visit(&self, table: Table, take: Take<'_>) -> Result<()>;

    /// What the store's own check finds, if it has one.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is committed, and this is a fingerprint of what the terminal shows.
    Committed(u64),
    /// It was rolled back, as asked.
    RolledBack,
}

/// One terminal's connection: each call is a transaction, retried where it met a conflict.
pub(crate) trait Session: Send {
    fn new_order(&mut self, request: &NewOrderRequest) -> Result<Ending>;
    fn payment(&mut self, request: &PaymentRequest) -> Result<Ending>;
    fn order_status(&mut self, request: &OrderStatusRequest) -> Result<Ending>;
    fn delivery(&mut self, request: &DeliveryRequest) -> Result<Ending>;
    fn stock_level(&mut self, request: &StockLevelRequest) -> Result<Ending>;

    /// How many attempts met a conflict and were made again.
    fn retries(&self) -> u64 {
        0
    }

    /// Any of them.
    fn run(&mut self, request: &Request) -> Result<Ending> {
        match request {
            Request::NewOrder(request) => self.new_order(request),
            Request::Payment(request) => self.payment(request),
            Request::OrderStatus(request) => self.order_status(request),
            Request::Delivery(request) => self.delivery(request),
            Request::StockLevel(request) => self.stock_level(request),
        }
    }
}

/// What a terminal shows, as a fingerprint.
#[derive(Default)]
pub(crate) struct Answer(DefaultHasher);

impl Answer {
    pub(crate) fn number(&mut self, number: impl Into<i64>) {
        self.0.write_i64(number.into());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.write(text.as_bytes());
    }

    pub(crate) fn ending(self) -> Ending {
        Ending::Committed(self.0.finish())
    }
}

/// The error of a row that must be there and is not.
pub(crate) fn missing(table: Table, key: &[i32]) -> Box<dyn std::error::Error + Send + Sync> {
    format!("{}: no row {key:?}", table.name()).into()
}
