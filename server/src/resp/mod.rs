//! The bytes that Redis clients and servers exchange: requests ([`parse`]) and answers ([`reply`]) of versions 2 and 3
//! of the protocol, numbers as text ([`number`]), patterns ([`glob`]), and payloads of `DUMP` ([`rdb`]).

pub mod glob;
mod long_double;
pub mod number;
pub mod parse;
pub mod rdb;
pub mod reply;
pub mod word;

#[cfg(test)]
mod tests;
