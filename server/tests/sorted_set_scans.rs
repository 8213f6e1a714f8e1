//! Goal: a scan of a sorted set returns what stays in it, whatever happens to scores meanwhile, however long the client
//! waits, and however many other scans there are; and the server remembers nothing of it.

use std::collections::BTreeMap;

use crate::support::{Client, in_memory};

/// One answer: the next cursor, and members with their scores.
fn step(client: &mut Client<'_>, line: &str) -> (String, Vec<(String, String)>) {
    let answer = client.run(line);
    let mut parts = answer.split("\r\n").filter(|part| !part.starts_with(['$', '*']) && !part.is_empty());
    let cursor = parts.next().expect("a cursor").to_owned();
    let parts: Vec<&str> = parts.collect();
    (cursor, parts.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect())
}

/// The members that a scan tells, with the scores told last, and what `between` does after each answer.
fn walk(
    client: &mut Client<'_>,
    key: &str,
    count: usize,
    mut between: impl FnMut(&mut Client<'_>),
) -> BTreeMap<String, String> {
    let (mut cursor, mut members, mut steps) = ("0".to_owned(), BTreeMap::new(), 0);
    loop {
        let (next, some) = step(client, &format!("zscan {key} {cursor} count {count}"));
        assert!(some.len() <= count + 1, "{} members at once", some.len());
        members.extend(some);
        cursor = next;
        steps += 1;
        assert!(steps < 100_000, "it never ends");
        if cursor == "0" {
            return members;
        }
        between(client);
    }
}

fn add(client: &mut Client<'_>, key: &str, members: usize, score: impl Fn(usize) -> usize) {
    let commands: Vec<Vec<Vec<u8>>> = (0..members)
        .map(|number| {
            let words = ["zadd".to_owned(), key.to_owned(), score(number).to_string(), format!("m{number}")];
            words.map(String::into_bytes).to_vec()
        })
        .collect();
    client.send(&commands);
}

#[test]
fn an_unfinished_scan_holds_no_memory() {
    let server = in_memory();
    let mut client = Client::new(&server);
    add(&mut client, "z", 1000, |number| number);
    for _ in 0..2000 {
        client.run("zscan z 0 count 10");
    }
    assert_eq!(server.keyspace.db().stats().snapshots, 0);
}

#[test]
fn a_scan_goes_on_after_any_number_of_others() {
    let server = in_memory();
    let mut client = Client::new(&server);
    add(&mut client, "z", 1000, |number| number);
    let (cursor, first) = step(&mut client, "zscan z 0 count 10");
    for _ in 0..1100 {
        client.run("zscan z 0 count 10");
    }
    let (_, second) = step(&mut client, &format!("zscan z {cursor} count 10"));
    assert!(first.iter().all(|member| !second.contains(member)), "it began again");
}

#[test]
fn a_scan_tells_every_member_that_stays_whatever_happens_to_scores() {
    // Each with its own score, and all with the same.
    for scores in [1000, 1] {
        let server = in_memory();
        let mut client = Client::new(&server);
        add(&mut client, "z", 1000, |number| number % scores);
        let mut round = 0;
        let members = walk(&mut client, "z", 50, |client| {
            round += 1;
            // Members go to the front and to the end; some go for good, new ones come.
            for number in (0..900).filter(|number| number % 7 == round % 7) {
                let score = if (number + round) % 2 == 0 { 5000 } else { -5000 };
                client.run(&format!("zadd z {score} m{number}"));
            }
            client.run(&format!("zrem z m{}", 999 - round));
            client.run(&format!("zadd z {round} new{round}"));
        });
        for number in 0..900 {
            assert!(members.contains_key(&format!("m{number}")), "m{number} is missing");
        }
    }
}

#[test]
fn a_cursor_can_be_used_again_and_in_another_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path");
    let (cursor, second) = {
        let server = crate::support::server(quipu::Options::default(), path);
        let mut client = Client::new(&server);
        add(&mut client, "z", 1000, |number| number);
        let (cursor, _) = step(&mut client, "zscan z 0 count 10");
        let (_, second) = step(&mut client, &format!("zscan z {cursor} count 10"));
        (cursor, second)
    };
    let server = crate::support::server(quipu::Options::default(), path);
    let mut client = Client::new(&server);
    assert_eq!(step(&mut client, &format!("zscan z {cursor} count 10")).1, second);
    client.expect("rename z y", "+OK");
    assert_eq!(step(&mut client, &format!("zscan y {cursor} count 10")).1, second);
    // Past all hashes.
    client.expect("zscan y -1", "*2|$1|0|*0");
}

/// Names are looked for in one reading of the set for many answers, which is kept for a while, within bounds.
#[test]
fn many_members_of_one_score_are_scanned_in_few_readings() {
    let server = in_memory();
    let mut client = Client::new(&server);
    add(&mut client, "z", 30_000, |_| 1);
    let mut largest = 0;
    let members = walk(&mut client, "z", 500, |_| largest = largest.max(server.windows.len()));
    assert_eq!(members.len(), 30_000);
    assert_eq!(largest, 1);
    // What has come since the set was read is told too.
    add(&mut client, "z", 31_000, |_| 1);
    assert_eq!(walk(&mut client, "z", 500, |_| {}).len(), 31_000);
    for number in 0..20 {
        add(&mut client, &format!("y{number}"), 2000, |_| 1);
        client.run(&format!("zscan y{number} 0 count 10"));
    }
    assert!(server.windows.len() <= 4);
    server.windows.end_idle(u64::MAX);
    assert!(server.windows.is_empty());
}

#[test]
fn long_members_come_few_at_a_time() {
    let server = in_memory();
    let mut client = Client::new(&server);
    let name = |number: usize| format!("{number:05}{}", "x".repeat(20_000));
    for number in 0..600 {
        client.run(&format!("zadd z 1 {}", name(number)));
    }
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let answer = client.send(&[crate::support::words(&format!("zscan z {cursor} count 20000"))]);
        assert!(answer.len() < 6 << 20, "{} bytes at once", answer.len());
        let text = String::from_utf8(answer).expect("text");
        cursor = text.split("\r\n").nth(2).expect("a cursor").to_owned();
        seen += text.matches("xxx\r\n").count();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 600);
}

#[test]
fn scans_inside_a_transaction_see_what_it_wrote() {
    let server = in_memory();
    let mut client = Client::new(&server);
    add(&mut client, "z", 600, |number| number);
    client.expect("zadd y 1 a", ":1");
    client.expect("multi", "+OK");
    client.expect("zadd y 2 b", "+QUEUED");
    client.expect("zscan y 0", "+QUEUED");
    client.expect("zscan z 0 count 2", "+QUEUED");
    let answer = client.run("exec");
    assert!(
        answer.starts_with("*3\r\n:1\r\n*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n"),
        "{answer}"
    );
}
