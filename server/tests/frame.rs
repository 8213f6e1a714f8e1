//! Goal: commands run one by one and many together answer alike, and what a batch says is what it did.
//! Method: the same commands in one read and in many, over servers without sockets.

use crate::support::{Client, in_memory};

#[test]
fn a_pipeline_answers_as_its_commands_do() {
    let (one, many) = (in_memory(), in_memory());
    let (mut alone, mut together) = (Client::new(&one), Client::new(&many));
    let mut lines = Vec::new();
    for number in 0..3000u32 {
        let key = number.wrapping_mul(2_654_435_761) % 700;
        lines.push(match number / 40 % 8 {
            0 => format!("set key{key} {number}"),
            1 => format!("get key{key}"),
            2 => format!("set key{key} {number} nx"),
            3 => format!("del key{key}"),
            4 => "q.count - +".to_owned(),
            5 => format!("q.rank key{key}"),
            6 => format!("q.nth {}", key / 2),
            _ => format!("set key{key} {number} {}", if number % 3 == 0 { "xx" } else { "nx" }),
        });
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected: String = lines.iter().map(|line| alone.run(line)).collect();
    assert_eq!(together.run_all(&lines), expected);
    assert_eq!(alone.run("q.count - +"), alone.run("dbsize"));
}

#[test]
fn what_is_unknown_is_refused_in_words() {
    let server = in_memory();
    let mut client = Client::new(&server);
    client.expect("nonsense a b", "-ERR unknown command 'nonsense', with args beginning with: 'a' 'b' ");
    client.expect("get", "-ERR wrong number of arguments for 'get' command");
    client.expect("GET a b", "-ERR wrong number of arguments for 'get' command");
    client.expect("set k v nx xx", "-ERR syntax error");
    client.expect("set k v ex 0", "-ERR invalid expire time in 'set' command");
    client.expect("set k v ex ten", "-ERR value is not an integer or out of range");
}
