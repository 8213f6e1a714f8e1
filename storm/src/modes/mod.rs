//! The modes: each a way to break a database, over one of its faces.

pub mod all;
pub mod cluster;
pub(crate) mod crowd;
pub mod damage;
pub mod http;
pub mod kill;
pub(crate) mod owner;
pub mod resp;
pub mod row_tables;
pub mod sequential;
pub mod server;
pub mod sql;
pub mod threads;
pub mod transfers;
