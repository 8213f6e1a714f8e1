//! Goal: strings, the numbers and the bits in them, as Redis 7.0 answers them.
//! Method: commands in process; what is expected is what Redis 7.0.15 answered.

use crate::support::{Client, in_memory};
use quipu_server::resp::reply::Protocol;

#[test]
fn set_and_its_options() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("set k v", "+OK"),
        ("set k w xx get", "$1|v"),
        ("set k x nx get", "$1|w"),
        ("set k x nx", "$-1"),
        ("set n x xx", "$-1"),
        ("set n x xx get", "$-1"),
        ("set k v ex 10 ex 20", "+OK"),
        ("ttl k", ":20"),
        ("set k v keepttl keepttl", "+OK"),
        ("ttl k", ":20"),
        ("set k v", "+OK"),
        ("ttl k", ":-1"),
        ("set k v ex 10 px 10", "-ERR syntax error"),
        ("set k v keepttl ex 10", "-ERR syntax error"),
        ("set k v ex", "-ERR syntax error"),
        ("set k v persist", "-ERR syntax error"),
        ("set k v px -1", "-ERR invalid expire time in 'set' command"),
        ("set k v ex 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("set k v px 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("setex k 0 v", "-ERR invalid expire time in 'setex' command"),
        ("psetex k ten v", "-ERR value is not an integer or out of range"),
        ("setex k 100 v", "+OK"),
        ("psetex k 100000 v", "+OK"),
        ("ttl k", ":100"),
        ("setnx k w", ":0"),
        ("setnx fresh w", ":1"),
        ("getset k y", "$1|v"),
        ("ttl k", ":-1"),
        ("getdel k", "$1|y"),
        ("getdel k", "$-1"),
        ("set gone v exat 1", "+OK"),
        ("exists gone", ":0"),
        ("dbsize", ":1"),
        ("zadd z 1 a", ":1"),
        ("get z", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("set z v get", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("getset z v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("getdel z", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("type z", "+zset"),
        ("set z v", "+OK"),
        ("type z", "+string"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn getex_and_its_options() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("getex k ex 0", "$-1"),
        ("set k v", "+OK"),
        ("getex k ex 0", "-ERR invalid expire time in 'getex' command"),
        ("getex k keepttl", "-ERR syntax error"),
        ("getex k ex 10 persist", "-ERR syntax error"),
        ("getex k ex 100", "$1|v"),
        ("ttl k", ":100"),
        ("getex k", "$1|v"),
        ("ttl k", ":100"),
        ("getex k persist persist", "$1|v"),
        ("ttl k", ":-1"),
        ("getex k pxat 1", "$1|v"),
        ("exists k", ":0"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn many_at_once() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("mset a 1 b 2 a 3", "+OK"),
        ("mset a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("msetnx c 1 a 2", ":0"),
        ("msetnx c 1 d 2 c 4", ":1"),
        ("zadd z 1 a", ":1"),
        ("mget a b c none z", "*5|$1|3|$1|2|$1|4|$-1|$-1"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn parts() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("append k 12", ":2"),
        ("object encoding k", "$3|int"),
        ("append k 3", ":3"),
        ("object encoding k", "$3|raw"),
        ("get k", "$3|123"),
        ("incr k", ":124"),
        ("object encoding k", "$3|int"),
        ("strlen k", ":3"),
        ("strlen none", ":0"),
        ("setrange k 5 xy", ":7"),
        ("get k", "$7|124\0\0xy"),
        ("setrange none 5 \"\"", ":0"),
        ("exists none", ":0"),
        ("setrange k 0 \"\"", ":7"),
        ("setrange k -1 x", "-ERR offset is out of range"),
        ("setrange k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("setrange k 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("set s \"This is a string\"", "+OK"),
        ("getrange s 0 3", "$4|This"),
        ("getrange s -3 -1", "$3|ing"),
        ("getrange s 0 -1", "$16|This is a string"),
        ("getrange s 10 100", "$6|string"),
        ("getrange s 0 -100", "$1|T"),
        ("getrange s -1 -3", "$0|"),
        ("getrange s -9223372036854775808 9223372036854775807", "$16|This is a string"),
        ("getrange s 9223372036854775807 9223372036854775807", "$0|"),
        ("substr s 5 6", "$2|is"),
        ("getrange none 0 -1", "$0|"),
        ("getrange s a 1", "-ERR value is not an integer or out of range"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn common_subsequences() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("mset a ohmytext b mynewtext", "+OK"),
        ("lcs a b", "$6|mytext"),
        ("lcs a b len", ":6"),
        ("lcs a none", "$0|"),
        ("lcs a b idx", "*4|$7|matches|*2|*2|*2|:4|:7|*2|:5|:8|*2|*2|:2|:3|*2|:0|:1|$3|len|:6"),
        ("lcs a b idx minmatchlen 4 withmatchlen", "*4|$7|matches|*1|*3|*2|:4|:7|*2|:5|:8|:4|$3|len|:6"),
        ("lcs a b len idx", "-ERR If you want both the length and indexes, please just use IDX."),
        ("lcs a b minmatchlen", "-ERR syntax error"),
        ("zadd z 1 a", ":1"),
        ("lcs a z", "-ERR The specified keys must contain string values"),
    ] {
        client.expect(line, answer);
    }
    client.speak(Protocol::Resp3);
    client.expect("lcs a none idx", "%2|$7|matches|*0|$3|len|:0");
}

#[test]
fn numbers() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("incr k", ":1"),
        ("incrby k 41", ":42"),
        ("decrby k 50", ":-8"),
        ("decr k", ":-9"),
        ("pexpire k 100000", ":1"),
        ("incr k", ":-8"),
        ("ttl k", ":100"),
        ("set k 9223372036854775807", "+OK"),
        ("incr k", "-ERR increment or decrement would overflow"),
        ("decrby k -9223372036854775808", "-ERR decrement would overflow"),
        ("incrby k 1.5", "-ERR value is not an integer or out of range"),
        ("set k 007", "+OK"),
        ("incr k", "-ERR value is not an integer or out of range"),
        ("set k \"\"", "+OK"),
        ("incr k", "-ERR value is not an integer or out of range"),
        ("incrbyfloat f 0.1", "$3|0.1"),
        ("incrbyfloat f 0.2", "$3|0.3"),
        ("incrbyfloat f inf", "-ERR increment would produce NaN or Infinity"),
        ("incrbyfloat f x", "-ERR value is not a valid float"),
        ("incrbyfloat k 1", "-ERR value is not a valid float"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn runs_answer_as_their_commands_do() {
    let (one, many) = (in_memory(), in_memory());
    let (mut alone, mut together) = (Client::new(&one), Client::new(&many));
    let mut lines = vec!["zadd key7 1 a".to_owned()];
    for number in 0..2000u32 {
        let key = number.wrapping_mul(2_654_435_761) % 60;
        lines.push(match number / 25 % 8 {
            0 => format!("incr key{key}"),
            1 => format!("get key{key}"),
            2 => format!("setnx key{key} {number}"),
            3 => format!("exists key{key}"),
            4 => format!("unlink key{key}"),
            5 => format!("set key{key} {number} nx"),
            6 => format!("set key{key} text{number}"),
            _ => format!("touch key{key}"),
        });
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected: String = lines.iter().map(|line| alone.run(line)).collect();
    assert_eq!(together.run_all(&lines), expected);
    assert_eq!(together.run("keys *"), alone.run("keys *"));
}

#[test]
fn single_bits() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("setbit k 7 1", ":0"),
        ("setbit k 7 0", ":1"),
        ("getbit k 7", ":0"),
        ("getbit k 100", ":0"),
        ("strlen k", ":1"),
        ("setbit k 20 0", ":0"),
        ("strlen k", ":3"),
        ("setbit k 0 2", "-ERR bit is not an integer or out of range"),
        ("setbit k 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("getbit k #1", "-ERR bit offset is not an integer or out of range"),
        ("set s foobar", "+OK"),
        ("setbit s 1 1", ":1"),
        ("object encoding s", "$3|raw"),
        ("bitcount s", ":26"),
        ("bitcount s 0 0", ":4"),
        ("bitcount s 1 1 byte", ":6"),
        ("bitcount s 5 30 bit", ":17"),
        ("bitcount s -1 -2", ":0"),
        ("bitcount s 0", "-ERR syntax error"),
        ("bitcount none 0", ":0"),
        ("set p \"\\xff\\xf0\\x00\"", "+OK"),
        ("bitpos p 0", ":12"),
        ("bitpos p 1 2", ":-1"),
        ("bitpos p 1 7 15 bit", ":7"),
        ("set full \"\\xff\\xff\"", "+OK"),
        ("bitpos full 0", ":16"),
        ("bitpos full 0 0", ":16"),
        ("bitpos full 0 0 -1", ":-1"),
        ("bitpos full 0 5", ":-1"),
        ("bitpos none 0", ":0"),
        ("bitpos none 1", ":-1"),
        ("bitpos full 2", "-ERR The bit argument must be 1 or 0."),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn strings_combined_bit_by_bit() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("mset a abcd b ABC", "+OK"),
        ("bitop and d a b", ":4"),
        ("get d", "$4|ABC\0"),
        ("bitop or d a b none", ":4"),
        ("get d", "$4|abcd"),
        ("bitop xor d a b", ":4"),
        ("get d", "$4|   d"),
        ("bitop not d none", ":0"),
        ("exists d", ":0"),
        ("bitop not d a b", "-ERR BITOP NOT must be called with a single source key."),
        ("bitop nand d a", "-ERR syntax error"),
    ] {
        client.expect(line, answer);
    }
}

#[test]
fn integers_within_strings() {
    let server = in_memory();
    let mut client = Client::new(&server);
    for (line, answer) in [
        ("bitfield k incrby i5 100 1 get u4 0", "*2|:1|:0"),
        ("bitfield k set u8 #0 255 get i8 0", "*2|:0|:-1"),
        ("bitfield k overflow sat incrby u8 0 10 overflow fail incrby u8 0 10", "*2|:255|$-1"),
        ("bitfield k overflow wrap incrby u8 0 10", "*1|:9"),
        // Redis takes a number this low for one that is too high.
        ("bitfield k overflow sat set i23 0 -9223372036854775808 get i23 0", "*2|:294912|:4194303"),
        (
            "bitfield k get u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("bitfield k overflow max", "-ERR Invalid OVERFLOW type specified"),
        ("bitfield k get u8", "-ERR syntax error"),
        ("bitfield k", "*0"),
        ("bitfield none get i64 5", "*1|:0"),
        ("exists none", ":0"),
        ("bitfield_ro k get u8 0", "*1|:127"),
        ("bitfield_ro k set u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
    ] {
        client.expect(line, answer);
    }
}

/// Redis does the same: who watches is told of numbers, and of nothing else.
#[test]
fn nobody_is_told_of_a_string_that_only_grew_or_stayed() {
    let server = in_memory();
    let (mut watcher, mut other) = (Client::new(&server), Client::new(&server));
    other.run("set k a");
    for (line, is_told) in [
        ("setbit k 1 1", false),
        ("setbit k 1 0", true),
        ("setbit k 20 0", true),
        ("bitfield k set u8 0 33", false),
        ("bitfield k overflow fail set u8 32 256", false),
        ("strlen k", false),
        ("bitfield k set u8 100 0", true),
        ("bitfield none overflow fail set u8 0 256", false),
        ("del none", true),
        ("del none", false),
        ("set none v exat 1", true),
    ] {
        watcher.run("watch k none");
        other.run(line);
        let expected = if is_told { "+OK\r\n*-1\r\n" } else { "+OK\r\n*0\r\n" };
        assert_eq!(watcher.run_all(&["multi", "exec"]), expected, "{line}");
    }
    other.expect("strlen k", ":14");
}
