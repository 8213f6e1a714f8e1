//! Goal: payloads of Redis are read, ours are what Redis reads, and no bytes panic.
//! Method: payloads that Redis 7.0 made, some forms of older versions put together by hand, and random damage.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Broken, SortedSetDump, Value, crc64, dump_string, finish, load};

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn members(pairs: &[(&str, f64)]) -> Value {
    Value::SortedSet(pairs.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect())
}

#[test]
fn the_checksum_is_that_of_redis() {
    assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
}

/// Made by Redis 7.0.15 with `DUMP`.
const STRINGS: [(&str, &str); 6] = [
    ("hello", "000568656c6c6f0a006372df766534200a"),
    ("", "00000a005d9b5c400f7fa2da"),
    ("-5", "00c0fb0a0049c4c6f4d7263f68"),
    ("1000", "00c1e8030a0089d1478ebac4b764"),
    ("-100000", "00c26079feff0a00a1ca8470cc216d9d"),
    ("12345678901", "000b31323334353637383930310a00304e52d727176510"),
];

#[test]
fn strings_are_written_and_read_as_by_redis() {
    for (string, payload) in STRINGS {
        assert_eq!(load(&bytes(payload)), Ok(Value::String(string.as_bytes().to_vec())), "{string}");
        assert_eq!(dump_string(string.as_bytes()), bytes(payload), "{string}");
    }
}

#[test]
fn compressed_strings_are_read() {
    let three = "00c30b40780361626361e069020162630a00c494a1702ae23e06";
    assert_eq!(load(&bytes(three)), Ok(Value::String(b"abc".repeat(40))));
    let long = "00c3164267016161e0ff00e0ff00e03d000278797ae0010201797a0a0092d498853a917db9";
    assert_eq!(load(&bytes(long)), Ok(Value::String([b"a".repeat(600), b"xyz".repeat(5)].concat())));
}

#[test]
fn sorted_sets_are_written_and_read_as_by_redis() {
    let payload = "05050163000000000000f07f016200000000000004400161000000000000f03fc0f900000000000008c00164000000000000f0ff0a005d6abceb648969a8";
    let pairs = [("c", f64::INFINITY), ("b", 2.5), ("a", 1.0), ("-7", -3.0), ("d", f64::NEG_INFINITY)];
    assert_eq!(load(&bytes(payload)), Ok(members(&pairs)));
    let mut dump = SortedSetDump::new(5);
    pairs.iter().for_each(|(member, score)| dump.add(member.as_bytes(), *score));
    assert_eq!(dump.finish(), bytes(payload));
}

#[test]
fn listpacks_are_read() {
    let payload = "11c3409e40e51fe50000001e00816402842d696e6605f28072a404f24039d204de7002df3802df14f902dffd0281610201018162
        0283322e3504e04078e0360013420501c19002c0c802f1401f03cfa002f280380120740d9c0004866d656d62657207f2701120110e808d5b04f2
        c0c62d04f400e40b540220a90609f400f2052a01600903351cdcdf60130397312e30e005000a31652b333030188163028320d40104ff0a001bad
        696beb1d99f4";
    let long = "x".repeat(64);
    let expected = members(&[
        ("d", f64::NEG_INFINITY),
        ("-6000000", -3_000_000.0),
        ("-400", -200.0),
        ("-7", -3.0),
        ("a", 1.0),
        ("b", 2.5),
        (&long, 5.0),
        ("400", 200.0),
        ("8000", 4000.0),
        ("80000", 40_000.0),
        ("member", 70_000.0),
        ("6000000", 3_000_000.0),
        ("10000000000", 5_000_000_000.0),
        ("12345678901", 1e300),
        ("c", f64::INFINITY),
    ]);
    assert_eq!(load(&bytes(payload)), Ok(expected));
}

/// A set as Redis 2.4 to 6.2 packs it. Redis 7.0 takes the payload, and answers these members.
fn ziplist() -> Vec<u8> {
    let mut entries: Vec<u8> = Vec::new();
    let mut before = 0u8;
    for entry in [
        &b"\x01a"[..],
        b"\xF2",
        b"\xFE\x80",
        b"\x032.5",
        b"\xC0\x10\x27",
        b"\xF0\x40\x42\x0F",
        b"\x40\x02xy",
        b"\xD0\x00\x00\x00\x7F",
        b"\x80\x00\x00\x00\x01z",
        b"\xE0\x00\x00\x00\x00\x01\x00\x00\x00",
    ] {
        entries.push(before);
        entries.extend_from_slice(entry);
        before = entry.len() as u8 + 1;
    }
    let last = 10 + entries.len() as u32 - u32::from(before);
    let mut list = (11 + entries.len() as u32).to_le_bytes().to_vec();
    list.extend_from_slice(&last.to_le_bytes());
    list.extend_from_slice(&10u16.to_le_bytes());
    list.extend_from_slice(&entries);
    list.push(0xFF);
    let mut payload = vec![12];
    super::write_string(&mut payload, &list);
    finish(payload)
}

#[test]
fn forms_of_older_versions_are_read() {
    let expected =
        members(&[("a", 1.0), ("-128", 2.5), ("10000", 1_000_000.0), ("xy", 2_130_706_432.0), ("z", 4_294_967_296.0)]);
    assert_eq!(load(&ziplist()), Ok(expected));
    let text = finish(b"\x03\x03\x01a\x031.5\x01b\xFE\x01c\xFF".to_vec());
    assert_eq!(load(&text), Ok(members(&[("a", 1.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)])));
}

#[test]
fn what_is_damaged_or_unknown_is_told() {
    let good = bytes(STRINGS[0].1);
    for place in 0..good.len() {
        let mut damaged = good.clone();
        damaged[place] ^= 0x10;
        assert_eq!(load(&damaged), Err(Broken::Footer), "{place}");
        assert_eq!(load(&good[..place]), Err(Broken::Footer), "{place}");
    }
    for body in [
        &b""[..],
        b"\x00",
        b"\x00\x05abcd",
        b"\x00\xC3\x01\x09\x00",
        b"\x00\xC3\x02\x05\x20\x00",
        b"\x00\xC3\x01\x81\x00\x00\x00\x01\x00\x00\x00\x00\x00",
        b"\x00\xC4\x00",
        b"\x05\x00",
        b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f",
        b"\x03\x02\x01a\x011\x01a\x012",
        b"\x03\x01\x01a\xFD",
        b"\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x11\x07\x07\x00\x00\x00\x00\x00\xFF",
    ] {
        assert_eq!(load(&finish(body.to_vec())), Err(Broken::Value), "{}", body.escape_ascii());
    }
    // What is of another type is told as such, and not as broken.
    for (body, kind) in [(&b"\x04\x01\x01a\x01b"[..], "hash"), (b"\x0f\x00", "stream"), (b"\x12\x01", "list")] {
        assert_eq!(load(&finish(body.to_vec())), Err(Broken::Absent(kind)), "{}", body.escape_ascii());
    }
    let mut newer = good[..good.len() - 10].to_vec();
    newer.extend_from_slice(&99u16.to_le_bytes());
    let checksum = crc64(&newer);
    newer.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(load(&newer), Err(Broken::Footer));
}

#[test]
fn no_bytes_panic() {
    let random = &mut StdRng::seed_from_u64(21);
    let listpack =
        "11c3409e40e51fe50000001e00816402842d696e6605f28072a404f24039d204de7002df3802df14f902dffd02816102010181620283";
    let bodies: Vec<Vec<u8>> = STRINGS
        .iter()
        .map(|(_, payload)| bytes(payload))
        .chain([ziplist(), bytes(listpack)])
        .map(|payload| payload[..payload.len() - 10].to_vec())
        .collect();
    for _ in 0..50_000 {
        let mut body = bodies[random.random_range(0..bodies.len())].clone();
        for _ in 0..random.random_range(1..4) {
            let place = random.random_range(0..body.len());
            body[place] = random.random();
        }
        body[0] = [0, 3, 5, 12, 17][random.random_range(0..5)];
        let _ = load(&finish(body));
    }
}
