//! Statements that are too large, values that are no values, and clients that leave in the middle of something: each is
//! told with PostgreSQL's code, and neither the session nor the server suffers.

use super::client::{Running, field, message, packet, texts};
use crate::support::sockets::eventually;

/// A Parse, a Bind of these values as texts or as bytes, an Execute and a Sync.
fn prepared(statement: &str, values: &[Option<&[u8]>], are_bytes: bool) -> Vec<u8> {
    let mut bind = texts(&["", ""]);
    bind.extend([0, 1, 0, u8::from(are_bytes)]);
    bind.extend((values.len() as u16).to_be_bytes());
    for value in values {
        bind.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
        bind.extend_from_slice(value.unwrap_or_default());
    }
    bind.extend([0, 0]);
    let parse = message('P', &[&texts(&["", statement])[..], &[0, 0]].concat());
    let execute = message('E', &[&texts(&[""])[..], &[0; 4]].concat());
    [parse, message('B', &bind), execute, message('S', b"")].concat()
}

#[test]
fn a_statement_takes_65_535_parameters_and_no_more() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    assert_eq!(client.code("CREATE TABLE t (v int)"), None);
    let insert = |count: usize| {
        let places: Vec<String> = (1..=count).map(|number| format!("(${number})")).collect();
        format!("INSERT INTO t VALUES {}", places.join(","))
    };
    client.send(&prepared(&insert(65_535), &vec![Some(&b"7"[..]); 65_535], false));
    assert_eq!(client.kinds(), "12CZ");
    client.send(&prepared(&insert(65_536), &[], false));
    client.expect_error("42P02");
    client.expect('Z');
    client.send(&prepared("SELECT $1::int, $2::int", &[Some(b"1")], false));
    client.expect('1');
    client.expect_error("08P01");
    client.expect('Z');
    assert_eq!(client.code("SELECT $1::int").as_deref(), Some("42P02"), "a simple query has none");
    assert_eq!(client.code("SELECT 1 / (count(*) - 65535) FROM t").as_deref(), Some("22012"), "all are there");
}

#[test]
fn values_that_are_none_are_refused_by_their_places() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    for (statement, value, are_bytes, code) in [
        ("SELECT $1::text", &b"a\0b"[..], false, "22021"),
        ("SELECT $1::text", b"a\0b", true, "22021"),
        ("SELECT $1::text", b"a\xffb", false, "22021"),
        ("SELECT $1::int", b"1x", false, "22P02"),
        ("SELECT $1::int", b"99999999999", false, "22003"),
        ("SELECT $1::int", b"\0\0\x01", true, "08P01"),
        ("SELECT $1::bool", b"\0\0", true, "22P03"),
        ("SELECT $1::numeric", b"\0\x01\0", true, "08P01"),
        ("SELECT $1::date", b"2013-02-30", false, "22008"),
        ("SELECT $1::uuid", b"\x01", true, "08P01"),
        ("SELECT $1::int[]", b"{1,2", false, "22P02"),
        ("SELECT $1::jsonb", b"{\"a\":", false, "22P02"),
    ] {
        client.send(&prepared(statement, &[Some(value)], are_bytes));
        client.expect('1');
        client.expect_error(code);
        client.expect('Z');
    }
    client.send(&prepared("SELECT $1::int", &[None], false));
    assert_eq!(client.kinds(), "12DCZ");
}

#[test]
fn a_statement_of_a_hundred_megabytes_is_refused_and_the_session_goes_on() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    let long = |megabytes: usize| format!("SELECT length('{}')", "x".repeat(megabytes << 20));
    assert_eq!(client.code(&long(100)).as_deref(), Some("54000"));
    assert_eq!(client.code(&long(60)), None);
    assert_eq!(client.code(&format!("SELECT {}", "x".repeat(60 << 20))).as_deref(), Some("42703"));
    let nested = format!("SELECT {}1{}", "(".repeat(1 << 20), ")".repeat(1 << 20));
    assert_eq!(client.code(&nested).as_deref(), Some("54001"));
    assert_eq!(client.code("SELECT 1"), None);
}

/// Nothing of a COPY is there whose client fails or leaves, and no lock of it stays.
#[test]
fn a_copy_that_is_cut_short_leaves_nothing() {
    let running = Running::new(|_| {});
    let mut other = running.session();
    assert_eq!(other.code("CREATE TABLE t (id int PRIMARY KEY)"), None);
    let begun = |within: bool| {
        let mut client = running.session();
        if within {
            assert_eq!(client.code("BEGIN; INSERT INTO t VALUES (5)"), None);
        }
        client.send(&message('Q', b"COPY t FROM STDIN\0"));
        client.expect('G');
        client.send(&[message('d', b"1\n2"), message('d', b"\n3\n")].concat());
        client
    };
    for within in [false, true] {
        let mut client = begun(within);
        client.send(&message('f', b"no more\0"));
        assert!(client.expect_error("57014").contains("no more"));
        client.expect('Z');
        assert_eq!(client.code("ROLLBACK"), None);
        drop(begun(within));
        // In the middle of a message.
        let mut client = begun(within);
        client.send(&message('d', b"4\n5\n")[..7]);
        drop(client);
        eventually("the locks of what was cut short are gone", || {
            other.code("BEGIN; LOCK TABLE t NOWAIT; COMMIT").is_none_or(|_| other.code("ROLLBACK").is_some())
        });
        assert_eq!(other.code("SELECT 1 / count(*) FROM t").as_deref(), Some("22012"), "no row is there");
    }
}

#[test]
fn a_client_that_wants_tls_where_there_is_none_is_told_and_may_go_on_without() {
    let running = Running::new(|_| {});
    let mut client = running.client();
    client.send(&packet(80_877_103, b""));
    let mut answer = [0];
    std::io::Read::read_exact(&mut client.stream, &mut answer).expect("an answer");
    assert_eq!(&answer, b"N");
    client.begin(0, &[("user", "default")]);
    client.until_ready();
    assert_eq!(client.code("SELECT 1"), None);
}

/// A portal reads what there was when it began, however long it is left alone, and keeps no writer waiting.
#[test]
fn a_portal_that_is_left_open_keeps_nothing_from_others() {
    let running = Running::new(|_| {});
    let (mut client, mut other) = (running.session(), running.session());
    assert_eq!(other.code("CREATE TABLE t (id int PRIMARY KEY)"), None);
    assert_eq!(other.code("INSERT INTO t SELECT generate_series(1, 1000)"), None);
    assert_eq!(client.code("BEGIN"), None);
    let parse = message('P', &[&texts(&["", "SELECT id FROM t ORDER BY id"])[..], &[0, 0]].concat());
    let bind = message('B', &[&texts(&["open", ""])[..], &[0; 6]].concat());
    let some = |rows: u32| message('E', &[&texts(&["open"])[..], &rows.to_be_bytes()].concat());
    client.send(&[parse, bind, some(10), message('S', b"")].concat());
    assert_eq!(client.kinds(), format!("12{}sZ", "D".repeat(10)));
    assert_eq!(other.code("DELETE FROM t WHERE id % 2 = 0"), None);
    assert_eq!(other.code("INSERT INTO t VALUES (2000)"), None);
    client.send(&[some(0), message('S', b"")].concat());
    assert_eq!(client.kinds(), format!("{}CZ", "D".repeat(990)));
    assert_eq!(client.code("COMMIT"), None);
}

/// Object mappers make messages for people of these fields.
#[test]
fn a_broken_foreign_key_is_told_by_the_table_that_refers_and_the_key() {
    let running = Running::new(|_| {});
    let mut client = running.session();
    let made = "CREATE TABLE makers (id int PRIMARY KEY, name text UNIQUE); INSERT INTO makers VALUES (1, 'Rust & Co');
                CREATE TABLE things (id int PRIMARY KEY, maker int REFERENCES makers,
                    name text REFERENCES makers (name));
                INSERT INTO things VALUES (1, 1, 'Rust & Co')";
    assert_eq!(client.code(made), None);
    let insert = "insert or update on table \"things\" violates foreign key constraint";
    let delete = "update or delete on table \"makers\" violates foreign key constraint";
    for (statement, said, detail) in [
        (
            "INSERT INTO things VALUES (2, 9)",
            format!("{insert} \"things_maker_fkey\""),
            "Key (maker)=(9) is not present in table \"makers\".",
        ),
        (
            "UPDATE things SET name = 'a, b'",
            format!("{insert} \"things_name_fkey\""),
            "Key (name)=(a, b) is not present in table \"makers\".",
        ),
        (
            "UPDATE makers SET name = 'other'",
            format!("{delete} \"things_name_fkey\" on table \"things\""),
            "Key (name)=(Rust & Co) is still referenced from table \"things\".",
        ),
        (
            "DELETE FROM things WHERE false; UPDATE things SET name = NULL; DELETE FROM makers",
            format!("{delete} \"things_maker_fkey\" on table \"things\""),
            "Key (id)=(1) is still referenced from table \"things\".",
        ),
    ] {
        client.send(&message('Q', &texts(&[statement])));
        let body = loop {
            match client.next().expect("a message") {
                ('E', body) => break body,
                ('Z', _) => panic!("{statement} was done"),
                _ => {}
            }
        };
        client.expect('Z');
        let told = ['C', 'M', 'D', 't'].map(|letter| field(&body, letter).unwrap_or_default());
        assert_eq!(told, ["23503", &said, detail, "things"], "{statement}");
    }
}
