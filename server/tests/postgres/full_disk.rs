//! A full disk that statements of SQL meet, and free.

use std::sync::Arc;

use quipu::Options;
use quipu::io::sim::SimDisk;
use quipu_server::execution::housekeeping::give_space_back;

use super::client::Running;
use crate::support::sockets::eventually;

/// Nothing but the client was told, and what was removed was not given back before a client's `CHECKPOINT`.
#[test]
fn found_a_disk_that_was_full_for_sql_was_not_told_as_full_nor_given_back() {
    let disk = SimDisk::new();
    let options = Options {
        disk: Arc::new(disk.clone()),
        page_bytes: 512,
        run_page_bytes: 512,
        log_segment_bytes: 128 << 10,
        ..Options::without_files()
    };
    let running = Running::over(options, |_| {});
    let keyspace = &running.server.keyspace;
    let mut client = running.session();
    assert_eq!(client.code("CREATE TABLE t (id int PRIMARY KEY, v text)"), None);
    disk.set_capacity(disk.used_bytes() + (3 << 20));
    let insert = |number: u32| format!("INSERT INTO t VALUES ({number}, '{}')", "v".repeat(30_000));
    let refused = (0..1000).find_map(|number| client.code(&insert(number)));
    assert_eq!(refused.as_deref(), Some("53100"));
    assert!(keyspace.lack_of_space().is_some_and(|reason| reason.contains("free some space on the disk")));
    assert_eq!(client.code("SELECT count(*) FROM t"), None);
    assert!(!keyspace.space().has_freed(), "a query frees nothing");
    assert_eq!(client.code("BEGIN; DELETE FROM t WHERE id < 5; TRUNCATE t; COMMIT"), None);
    give_space_back(&running.server);
    eventually("the space is given back", || {
        keyspace.ask_for_space();
        keyspace.lack_of_space().is_none()
    });
    assert_eq!(client.code(&insert(1)), None);
}
