//! All tests of the crate from outside, in one program: it is linked once, and a long test runs beside the others.

mod admin;
mod arrows;
mod as_redis_does;
mod cold_commands;
mod cold_owners;
mod connections;
mod durability;
mod frame;
mod full_disk;
mod http;
mod http_messages;
mod keys;
mod long_reads;
mod long_strings;
mod over_runs;
mod positions;
mod postgres;
mod protected_mode;
mod reference;
mod rights;
mod sorted_set_scans;
mod sorted_sets;
mod streams;
mod strings;
mod support;
mod transactions;
