//! Goals: requests are read and refused as Redis 7.0 does it; how the bytes are cut into reads makes no difference; no
//! bytes panic. Replay of the random tests: SEED=... cargo test -p quipu-server resp.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::parse::{Batch, Limits, Parser, ProtocolError};

/// What a parser makes of a stream: its commands, the error that ended it, and how many bytes at the end are no whole
/// command.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize);

/// Feeds the reads as a connection does: what is not consumed is passed again with the next read.
fn feed<'r>(reads: impl IntoIterator<Item = &'r [u8]>, limits: Limits, commands_max: usize) -> Outcome {
    let mut parser = Parser::new(limits);
    let mut batch = Batch::new();
    let (mut buffer, mut commands) = (Vec::new(), Vec::new());
    let mut wanted = 0;
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            batch.clear();
            let parsed = parser.parse(&buffer, commands_max, &mut batch);
            for number in 0..batch.len() {
                assert_eq!(batch.arguments(&buffer, number).len(), batch.command(number).len());
                assert!(
                    batch
                        .arguments(&buffer, number)
                        .zip(batch.command(number))
                        .all(|(bytes, span)| bytes.len() == span.len())
                );
                commands.push(batch.arguments(&buffer, number).map(<[u8]>::to_vec).collect::<Vec<_>>());
            }
            let parsed = match parsed {
                Ok(parsed) => parsed,
                Err(error) => return (commands, Some(error), 0),
            };
            assert!(wanted <= buffer.len() || batch.is_empty(), "a command that wanted more came early");
            assert!(batch.len() <= commands_max && (batch.is_empty() || parsed.consumed > 0));
            buffer.drain(..parsed.consumed);
            wanted = if parsed.wanted == 0 { 0 } else { buffer.len() + parsed.wanted };
            if batch.len() < commands_max {
                assert_eq!(parsed.wanted == 0, buffer.is_empty());
                break;
            }
        }
    }
    (commands, None, buffer.len())
}

fn whole(input: &[u8]) -> Outcome {
    feed([input], Limits::default(), usize::MAX)
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn with_ping(input: &[u8]) -> Vec<u8> {
    [input, PING].concat()
}

/// Requests, and the words of the one command that Redis finds in them.
#[test]
fn accepted_as_in_redis() {
    let cases: &[(&[u8], &[&[u8]])] = &[
        (PING, &[b"PING"]),
        (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &[b"ECHO", b""]),
        (b"*0\r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"*-1\r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"*-7\r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"*-9223372036854775808\r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        // What should be line feeds, and what should be the end of an argument, is not looked at.
        (b"*1\rX$4\rXPINGXX", &[b"PING"]),
        (b"*1\r\n$4\r\nPI\0Gxx", &[b"PI\0G"]),
        (b"\r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"\n\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"   \r\n*1\r\n$4\r\nPING\r\n", &[b"PING"]),
        (b"PING\n", &[b"PING"]),
        (b"PING\r\n", &[b"PING"]),
        (b"  PING \t \r\n", &[b"PING"]),
        (b"PING\rx\r\n", &[b"PING", b"x"]),
        (b"\x0b\x0cECHO a\r\n", &[b"ECHO", b"a"]),
        (b"\x0bECHO\x0b a\r\n", &[b"ECHO\x0b", b"a"]),
        (b"ECHO \xff\xfe\r\n", &[b"ECHO", b"\xff\xfe"]),
        (b"ECHO a\\nb\r\n", &[b"ECHO", b"a\\nb"]),
        (b"$4 a\r\n", &[b"$4", b"a"]),
        (b"\"PING\"\r\n", &[b"PING"]),
        (b"ECHO \"\" ''\r\n", &[b"ECHO", b"", b""]),
        (b"ECHO \"a\\x41\\n\\q\\\"\"\r\n", &[b"ECHO", b"aA\nq\""]),
        (b"ECHO \"\\x0aB\\xFf\\xg1\"\r\n", &[b"ECHO", b"\nB\xffxg1"]),
        (b"ECHO \"\\x4\"\r\n", &[b"ECHO", b"x4"]),
        (b"ECHO \"\\r\\t\\b\\a\\\\\"\r\n", &[b"ECHO", b"\r\t\x08\x07\\"]),
        (b"ECHO 'a\\'b\\n\"'\r\n", &[b"ECHO", b"a'b\\n\""]),
        (b"ECHO a\"b c\"\r\n", &[b"ECHO", b"ab c"]),
        (b"ECHO a'b c' d\r\n", &[b"ECHO", b"ab c", b"d"]),
        (b"ECHO \"a\"\x0b\r\n", &[b"ECHO", b"a"]),
    ];
    for (input, words) in cases {
        let expected: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        assert_eq!(whole(input), (vec![expected], None, 0), "{}", input.escape_ascii());
    }
}

/// Requests that Redis refuses, and how it words that.
#[test]
fn refused_as_in_redis() {
    let cases: &[(&[u8], &[u8])] = &[
        (b"*\r\n", b"invalid multibulk length"),
        (b"*a\r\n", b"invalid multibulk length"),
        (b"*+1\r\n", b"invalid multibulk length"),
        (b"*01\r\n", b"invalid multibulk length"),
        (b"*-0\r\n", b"invalid multibulk length"),
        (b"* 1\r\n", b"invalid multibulk length"),
        (b"*1 \r\n", b"invalid multibulk length"),
        (b"*1\n$4\r\nPING\r\n", b"invalid multibulk length"),
        (b"*2147483648\r\n", b"invalid multibulk length"),
        (b"*9223372036854775808\r\n", b"invalid multibulk length"),
        (b"*-9223372036854775809\r\n", b"invalid multibulk length"),
        (b"*1\r\n$\r\n", b"invalid bulk length"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\n$+4\r\n", b"invalid bulk length"),
        (b"*1\r\n$04\r\n", b"invalid bulk length"),
        (b"*1\r\n$a\r\n", b"invalid bulk length"),
        (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
        (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
        (b"*1\r\n*1\r\n", b"expected '$', got '*'"),
        (b"*1\r\n\r\n", b"expected '$', got '\r'"),
        (b"*1\r\n\n\r\n", b"expected '$', got '\n'"),
        (b"*1\r\n\xff\r\n", b"expected '$', got '\xff'"),
        (b"ECHO \"a\r\n", b"unbalanced quotes in request"),
        (b"ECHO 'a\r\n", b"unbalanced quotes in request"),
        (b"ECHO \"a\"b\r\n", b"unbalanced quotes in request"),
        (b"ECHO a\"b\"c\r\n", b"unbalanced quotes in request"),
        (b"ECHO \"\\\r\n", b"unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let (commands, error, _) = whole(&with_ping(&[]).into_iter().chain(input.iter().copied()).collect::<Vec<_>>());
        assert_eq!(commands.len(), 1, "the command before: {}", input.escape_ascii());
        let error = error.unwrap_or_else(|| panic!("{}", input.escape_ascii()));
        assert_eq!(error.text(), [b"Protocol error: ", *text].concat(), "{}", input.escape_ascii());
    }
    assert_eq!(ProtocolError::ExpectedBulk(b'P').to_string(), "Protocol error: expected '$', got 'P'");
}

/// Redis waits for more.
#[test]
fn incomplete() {
    for (input, wanted) in [
        (&b""[..], 0),
        (b"*", 1),
        (b"*1", 1),
        (b"*1\r", 1),
        (b"*1\r\n", 1),
        (b"*1048576\r\n", 1),
        (b"*1\r\n$536870912\r\n", 536_870_914),
        (b"*1\r\n$4\r\nPI", 4),
        (b"*1\r\n$4\r\nPING\r", 1),
        (b"*1\n$4\nPING\n", 1),
        (b"ECHO \"a\"\r", 1),
    ] {
        let mut batch = Batch::new();
        let parsed = Parser::new(Limits::default()).parse(input, 10, &mut batch).unwrap();
        assert_eq!((parsed.consumed, parsed.wanted, batch.len()), (0, wanted, 0), "{}", input.escape_ascii());
    }
}

#[test]
fn lines_too_long() {
    let most = Limits::default().inline_bytes_max;
    for (before, first, error) in [
        (&b""[..], b'a', ProtocolError::TooBigInline),
        (b"", b'*', ProtocolError::TooBigCount),
        (b"*1\r\n", b'$', ProtocolError::TooBigBulkCount),
        // Redis looks for the end of the line first.
        (b"*1\r\n", b'X', ProtocolError::TooBigBulkCount),
    ] {
        let mut input = before.to_vec();
        input.push(first);
        input.resize(before.len() + most, b'1');
        assert_eq!(whole(&input), (vec![], None, input.len()));
        input.push(b'1');
        assert_eq!(whole(&input), (vec![], Some(error), 0));
    }
    let line = [&vec![b'a'; most], &b"\n"[..]].concat();
    assert_eq!(whole(&line).0[0][0].len(), most);
}

#[test]
fn unauthenticated() {
    for (input, error) in [
        (&b"*10\r\n"[..], None),
        (b"*11\r\n", Some(ProtocolError::UnauthenticatedMultibulkLength)),
        (b"*1000\r\n", Some(ProtocolError::UnauthenticatedMultibulkLength)),
        (b"*0\r\n*11\r\n", Some(ProtocolError::UnauthenticatedMultibulkLength)),
        (b"*2147483648\r\n", Some(ProtocolError::InvalidMultibulkLength)),
        (b"*1\r\n$16384\r\n", None),
        (b"*1\r\n$16385\r\n", Some(ProtocolError::UnauthenticatedBulkLength)),
        (b"*1\r\n$536870913\r\n", Some(ProtocolError::InvalidBulkLength)),
    ] {
        assert_eq!(feed([input], Limits::unauthenticated(), 1).1, error, "{}", input.escape_ascii());
    }
    let mut eleven = b"*11\r\n".to_vec();
    eleven.extend(b"$1\r\na\r\n".repeat(11));
    let (mut parser, mut batch) = (Parser::new(Limits::unauthenticated()), Batch::new());
    let input = with_ping(&[]);
    assert_eq!(parser.parse(&input, 1, &mut batch).unwrap().consumed, input.len());
    assert_eq!(parser.parse(&eleven, 1, &mut batch), Err(ProtocolError::UnauthenticatedMultibulkLength));
    parser.set_limits(Limits::default());
    batch.clear();
    parser.parse(&eleven, 1, &mut batch).unwrap();
    assert_eq!(batch.command(0).len(), 11);
}

/// A command of which nothing is read twice: what has come of it may change under the parser, though it must not.
#[test]
fn no_second_look() {
    let (mut parser, mut batch) = (Parser::new(Limits::default()), Batch::new());
    let mut input = b"*2\r\n$1\r\na\r\n$100000\r\n".to_vec();
    for _ in 0..100 {
        assert!(parser.parse(&input, 1, &mut batch).unwrap().wanted > 0);
        input[..20].fill(b'?');
        input.extend([b'x'; 1000]);
    }
    input.extend(b"\r\n");
    assert_eq!(parser.parse(&input, 1, &mut batch).unwrap().consumed, input.len());
    assert_eq!(batch.arguments(&input, 0).map(<[u8]>::len).collect::<Vec<_>>(), [1, 100_000]);
}

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => (0..60).collect(),
    }
}

/// Commands, and a pipeline that says them in all the ways there are.
fn pipeline(random: &mut StdRng) -> (Vec<Vec<Vec<u8>>>, Vec<u8>) {
    let (mut commands, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..random.random_range(1..6) {
        match random.random_range(0..8) {
            0 => bytes.extend_from_slice(pick(random, &[&b"\r\n"[..], b"\n", b" \r\n", b"*0\r\n", b"*-1\r\n"])),
            1 | 2 => {
                let words: Vec<Vec<u8>> = (0..random.random_range(1..5))
                    .map(|_| {
                        let len = random.random_range(0..6);
                        (0..len).map(|_| pick(random, b"ab\"'\\ \xff\0\n")).collect()
                    })
                    .collect();
                let quoted = words.iter().map(|word| {
                    if !word.is_empty() && word.iter().all(|byte| b"ab\\\xff\0".contains(byte)) {
                        return word.clone();
                    }
                    let escaped: Vec<u8> = word.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).collect();
                    [b"\"", &escaped[..], b"\""].concat()
                });
                bytes.extend(quoted.collect::<Vec<_>>().join(&b" "[..]));
                // A line must not begin like an array; these words never do.
                bytes.extend_from_slice(if random.random() { b"\r\n" } else { b"\n" });
                commands.push(words);
            }
            _ => {
                let words: Vec<Vec<u8>> =
                    (0..if random.random_ratio(1, 20) { 1100 } else { random.random_range(1..5) })
                        .map(|_| {
                            let len = match random.random_range(0..20) {
                                0 => random.random_range(0..1500),
                                1..4 => random.random_range(8..120),
                                _ => random.random_range(0..4),
                            };
                            (0..len).map(|_| pick(random, b"ab\r\n$*1\0")).collect()
                        })
                        .collect();
                bytes.extend(format!("*{}\r\n", words.len()).bytes());
                for word in &words {
                    bytes.extend(format!("${}\r\n", word.len()).bytes());
                    bytes.extend_from_slice(word);
                    bytes.extend_from_slice(b"\r\n");
                }
                commands.push(words);
            }
        }
    }
    (commands, bytes)
}

/// Any cut into two reads, random cuts into three, and reads of one byte give the same commands.
#[test]
fn cuts_make_no_difference() {
    for seed in seeds() {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        let (commands, bytes) = pipeline(random);
        let expected = (commands, None, 0);
        let limits = Limits::default();
        assert_eq!(feed([&bytes[..]], limits, usize::MAX), expected);
        assert_eq!(feed([&bytes[..]], limits, 1), expected);
        assert_eq!(feed(bytes.chunks(1), limits, 2), expected);
        // Every place for pipelines of usual size, some places for long ones.
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 500) {
            assert_eq!(
                feed([&bytes[..cut], &bytes[cut..]], limits, random.random_range(1..4)),
                expected,
                "cut at {cut}"
            );
            let (low, high) = (random.random_range(0..=cut), random.random_range(cut..=bytes.len()));
            assert_eq!(
                feed([&bytes[..low], &bytes[low..high], &bytes[high..]], limits, 9),
                expected,
                "cut at {low}, {high}"
            );
        }
    }
}

/// Whatever the bytes: no panic, and the same outcome in random reads. The fuzz target `resp` does the same.
#[test]
fn mutated_bytes() {
    let small = Limits { arguments_max: 4, bulk_bytes_max: 20, inline_bytes_max: 10, is_authenticated: true };
    let mut errors = 0;
    for seed in seeds() {
        println!("SEED={seed}");
        let random = &mut StdRng::seed_from_u64(seed);
        for _ in 0..300 {
            let mut bytes = pipeline(random).1;
            bytes.truncate(300);
            for _ in 0..random.random_range(1..5) {
                let place = random.random_range(0..=bytes.len());
                match random.random_range(0..3) {
                    0 => bytes.insert(place, pick(random, b"*$-0123456789\r\n \"'\\\0\xff")),
                    1 if place < bytes.len() => bytes[place] = random.random(),
                    _ if place < bytes.len() => drop(bytes.remove(place)),
                    _ => (),
                }
            }
            for limits in [Limits::default(), Limits::unauthenticated(), small] {
                let expected = feed([&bytes[..]], limits, usize::MAX);
                let mut rest = &bytes[..];
                let mut reads = Vec::new();
                while !rest.is_empty() {
                    let (read, behind) = rest.split_at(random.random_range(1..=rest.len().min(40)));
                    reads.push(read);
                    rest = behind;
                }
                let outcome = feed(reads, limits, random.random_range(1..4));
                assert_eq!(outcome, expected, "{}", bytes.escape_ascii());
                errors += usize::from(expected.1.is_some());
            }
        }
    }
    assert!(errors > 100, "{errors}");
}
