//! Goal: any bytes from a client give a message or an error. Method: valid messages that are cut, changed and mixed,
//! to the decoders alone, and to a server.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::client::{Running, message, packet, texts};
use quipu_server::postgres::messages::{First, Malformed, Message, first, first_packet, next_message, read};
use quipu_testing::seeds::seeds;

/// Messages of all kinds.
fn valid() -> Vec<Vec<u8>> {
    let bind =
        [&texts(&["p", "s"])[..], b"\0\x01\0\x01", b"\0\x02\0\0\0\x02ab\xff\xff\xff\xff", b"\0\x01\0\0"].concat();
    vec![
        message('Q', b"SELECT 1\0"),
        message('P', &[&texts(&["s", "SELECT $1"])[..], b"\0\x01\0\0\0\x17"].concat()),
        message('B', &bind),
        message('D', b"Ss\0"),
        message('E', b"p\0\0\0\0\x05"),
        message('C', b"Pp\0"),
        message('S', b""),
        message('H', b""),
        message('d', b"1\t2\n"),
        message('c', b""),
        message('f', b"why\0"),
        message('F', b"\0\0\0\x01"),
        message('p', b"secret\0"),
        message('X', b""),
    ]
}

#[test]
fn messages_say_what_they_say() {
    let of = |bytes: &[u8]| {
        let (tag, body, length) = next_message(bytes, 1 << 20).expect("well formed").expect("whole");
        assert_eq!(length, bytes.len());
        format!("{:?}", read(tag, body))
    };
    let all = valid();
    assert_eq!(of(&all[0]), "Ok(Query(\"SELECT 1\"))");
    let bind = &all[2];
    let Ok(Message::Bind(bind)) = read(b'B', &bind[5..]) else { panic!("no bind") };
    assert_eq!((bind.portal, bind.statement), ("p", "s"));
    assert_eq!(bind.parameter_formats.iter().collect::<Vec<_>>(), [1]);
    assert_eq!(bind.values.collect::<Vec<_>>(), [Some(&b"ab"[..]), None]);
    assert_eq!(bind.result_formats.iter().collect::<Vec<_>>(), [0]);
    let Ok(Message::Parse { name, text, types }) = read(b'P', &all[1][5..]) else { panic!("no parse") };
    assert_eq!((name, text, types.iter().collect::<Vec<_>>()), ("s", "SELECT $1", vec![23]));
    let startup = packet(3 << 16, b"user\0a\0\0");
    let (body, length) = first_packet(&startup).expect("well formed").expect("whole");
    assert_eq!(length, startup.len());
    let Ok(First::Startup(startup)) = first(body) else { panic!("no startup") };
    assert_eq!(startup.parameters, [("user", "a")]);
    assert_eq!(next_message(b"Q\0\0\0\x03", 9), Err(Malformed::Length));
    assert_eq!(next_message(b"Q\0\0\0\x0a", 9), Err(Malformed::TooLong { bytes: 10, bytes_max: 9 }));
    assert_eq!(next_message(b"y\0\0\0\x04", 9), Err(Malformed::Unknown(b'y')));
    // As many parameters as a statement may have.
    let values = [&65_535u16.to_be_bytes()[..], &vec![255; 4 * 65_535]].concat();
    let bind = [&b"\0\0\0\0"[..], &values, b"\0\0"].concat();
    let Ok(Message::Bind(bind)) = read(b'B', &bind) else { panic!("no bind") };
    assert_eq!((bind.values.len(), bind.values.count()), (65_535, 65_535));
}

/// Changes some bytes, or cuts some away.
fn spoil(bytes: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let place = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes.truncate(place),
            1 => drop(bytes.remove(place)),
            2 => bytes.insert(place, random.random()),
            _ => bytes[place] = random.random(),
        }
    }
}

#[test]
fn no_bytes_panic() {
    for seed in seeds(20) {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..2000 {
            let all = valid();
            let mut bytes = all[random.random_range(0..all.len())].clone();
            spoil(&mut bytes, &mut random);
            let body = bytes.get(5..).unwrap_or_default();
            for tag in b"BCDEFHPQSXcdfp" {
                if let Ok(Message::Bind(bind)) = read(*tag, body) {
                    assert_eq!(bind.values.len(), bind.values.count());
                }
            }
            let _ = first(body);
            let mut rest = &bytes[..];
            while let Ok(Some((_, _, length))) = next_message(rest, 1 << 20) {
                rest = &rest[length..];
            }
            let _ = first_packet(&bytes);
        }
    }
}

/// Whatever one client sends, the next one is served.
#[test]
fn a_server_goes_on_whatever_clients_send() {
    let running = Running::new(|_| {});
    for seed in seeds(30) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = running.session();
        let mut sent = Vec::new();
        for _ in 0..random.random_range(1..20) {
            let all = valid();
            let mut bytes = all[random.random_range(0..all.len() - 1)].clone();
            if random.random_range(0..4) == 0 {
                spoil(&mut bytes, &mut random);
            }
            sent.extend(bytes);
        }
        // The server may close before all is sent.
        let _ = std::io::Write::write_all(&mut client.stream, &sent);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        while client.next().is_some() {}
        let mut client = running.session();
        client.send(&message('S', b""));
        client.expect('Z');
    }
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"\0\0\0\0", b"\0\0\0\x08\x04\xd2\x16\x2f\0"]
    {
        let mut client = running.client();
        client.send(garbage);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        while client.next().is_some() {}
    }
    running.session();
}

#[test]
fn a_malformed_message_ends_the_connection_and_says_so() {
    let running = Running::new(|_| {});
    for (sent, code) in [
        (message('B', b"x"), "08P01"),
        (message('E', b"p\0\0"), "08P01"),
        (message('S', b"x"), "08P01"),
        (message('D', b"Xa\0"), "08P01"),
        (message('p', b"late\0"), "08P01"),
        (b"y\0\0\0\x04".to_vec(), "08P01"),
        (b"Q\0\0\0\0".to_vec(), "08P01"),
        (b"Q\x7f\xff\xff\xff".to_vec(), "54000"),
    ] {
        let mut client = running.session();
        client.send(&sent);
        client.expect_end(code);
    }
    // A text that is no text is an error like any other.
    let mut client = running.session();
    client.send(&message('Q', b"SELECT '\xff'\0"));
    client.expect_error("22021");
    client.expect('Z');
}
