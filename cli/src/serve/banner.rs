//! The screen that a server prints when it is ready.

use std::io::{self, Write};
use std::time::Duration;

use quipu::Durability;
use quipu_rows::trees::is_tree_of_table;
use quipu_server::Server;
use quipu_server::http::HttpListening;
use quipu_server::net::Listening;
use quipu_server::postgres::PostgresListening;

use crate::clock;
use crate::grid::{bytes, counted};

pub(super) fn print(
    server: &Server,
    listening: &Listening,
    http: Option<&HttpListening>,
    postgres: Option<&PostgresListening>,
    recovery: Duration,
) -> io::Result<()> {
    let (config, stats) = (&server.config, server.keyspace.db().stats());
    let rows_of = |prefix: &str| -> i64 {
        stats.tables.iter().filter(|table| table.name.starts_with(prefix)).map(|table| table.tally.rows).sum()
    };
    let directory = std::path::absolute(&config.data).unwrap_or_else(|_| config.data.clone());
    let durability = match server.durability() {
        Durability::Sync => "sync: a write is answered when it is on stable storage",
        Durability::Os => "os: a write is answered when the operating system has it",
        Durability::None => "none: a write is answered at once",
    };
    let mut faces: Vec<String> = Vec::new();
    for address in &listening.addresses {
        let kind = if Some(address.port()) == config.tls_port { "Redis over TLS" } else { "Redis" };
        faces.push(format!("{kind} at {address}"));
    }
    faces.extend(config.unix_socket.iter().map(|path| format!("Redis at {}", path.display())));
    faces.extend(http.iter().flat_map(|http| &http.addresses).map(|address| format!("HTTP at http://{address}")));
    let of_postgres = postgres.iter().flat_map(|postgres| &postgres.addresses);
    faces.extend(of_postgres.map(|address| format!("PostgreSQL at {address}")));
    let peer_addresses = http.iter().flat_map(|http| &http.peer_addresses);
    faces.extend(peer_addresses.map(|address| format!("nodes of the cluster at {address}")));
    let mut out = io::stdout().lock();
    writeln!(out, "Quipu {}, process {}", env!("CARGO_PKG_VERSION"), std::process::id())?;
    writeln!(out, "  data        {}", directory.display())?;
    writeln!(out, "  durability  {durability}")?;
    writeln!(
        out,
        "  holds       {}, {} of memory, {} of log to read at a restart",
        counted(rows_of("keys."), "key"),
        bytes(stats.memory_bytes()),
        bytes(stats.log_tail_bytes)
    )?;
    let has_tables = stats.tables.iter().any(|table| is_tree_of_table(&table.name));
    match postgres {
        Some(_) if has_tables => writeln!(out, "  {:12}tables with columns, which SQL serves", "")?,
        None if has_tables => {
            writeln!(out, "  {:12}tables with columns, which `--pg-port 5432` would serve by SQL", "")?
        }
        _ => {}
    }
    writeln!(out, "  opened in   {}", clock::show(recovery))?;
    for (number, face) in faces.iter().enumerate() {
        writeln!(out, "  {:12}{face}", if number == 0 { "serves" } else { "" })?;
    }
    if let Some(damage) = server.keyspace.db().damage() {
        writeln!(out, "  damage      {damage}")?;
    }
    writeln!(out, "ready")?;
    out.flush()
}
