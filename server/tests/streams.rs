//! Goal: no stream of commands makes a command panic, leaves keys, elements and deadlines at odds, or answers otherwise
//! in batches than one by one. Method: the code of the fuzz target `commands` over random bytes. A fuzzer finds more;
//! this runs with every `cargo test`. Replay: SEED=... cargo test -p quipu-server --test all streams. WRITE_SEEDS=1
//! writes the seeds of the fuzz targets `commands` and `resp` to `fuzz/corpus/`.

use quipu_server::fuzz;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Streams that are played.
const STREAMS: u64 = 300;

#[test]
fn random_streams_keep_the_keyspace_whole() {
    let seed: Option<u64> = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let seeds = seed.map_or(0..STREAMS, |seed| seed..seed + 1);
    for seed in seeds {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; random.random_range(20..2000)];
        random.fill_bytes(&mut bytes);
        bytes[0] |= 1;
        println!("SEED={seed}");
        fuzz::commands(&bytes);
    }
}

#[test]
fn a_stream_of_bytes_is_played_up_to_its_first_fault() {
    fuzz::commands(b"\0set a 1\r\n*2\r\n$4\r\nincr\r\n$1\r\na\r\nzadd z 1 m 2 n\r\nmulti\r\nexec\r\n$9\r\nbroken");
}

/// What clients send, of each group of commands: where a fuzzer begins.
const STREAMS_OF_CLIENTS: [&str; 12] = [
    "set a 1 ex 100\nget a\nsetnx a 2\ngetset a 3\nappend a xyz\nstrlen a\ngetrange a 0 -1\n\
     setrange a 5 long\nmset a 1 b 2\nmget a b c\nmsetnx c 1 d 2\ngetdel c\ngetex a persist\n",
    "set n 10\nincr n\ndecrby n 3\nincrbyfloat n 1.5\nsetbit m 100 1\ngetbit m 100\nbitcount m 0 -1 bit\n\
     bitpos m 1\nbitop or x m n\nbitfield m set u8 #1 255 incrby i16 0 1 overflow sat incrby u8 8 300\n\
     lcs m n idx\n",
    "zadd z 1 a 2 b 3 c\nzadd z xx gt ch 5 a\nzincrby z -inf b\nzrange z 0 -1 withscores\n\
     zrange z (1 5 byscore limit 0 2\nzrange z [a (c bylex rev\nzrank z a withscore\nzrevrank z c\n\
     zcount z -inf +inf\nzlexcount z - +\nzscore z a\nzmscore z a b x\n",
    "zadd y 1 a 1 b 1 c\nzadd z 2 b 3 c 4 d\nzunionstore u 2 y z weights 2 3 aggregate max\n\
     zinter 2 y z withscores\nzdiffstore d 2 z y\nzintercard 2 y z limit 1\nzrangestore r u 0 1\n\
     zremrangebyrank u 0 0\nzremrangebyscore u (1 +inf\nzremrangebylex y - [b\nzpopmin z 2\n\
     zmpop 2 y z max count 3\nzrem d d\nzcard d\n",
    "set a 1\nzadd z 1 m\nkeys *\nscan 0 match a* count 10 type string\nzscan z 0\ntype z\nexists a b z\n\
     rename a b\nrenamenx b z\ncopy z y replace\nmove a 0\ndel a b\nunlink y\nrandomkey\ndbsize\ntouch z\n\
     object encoding z\nflushdb\n",
    "set a 1\nexpire a 100 nx\nttl a\npexpireat a 99999999999999 gt\npexpiretime a\npersist a\nexpire a -1\n\
     get a\nset b 1 px 1\nset b 2 keepttl\ndump b\nrestore c 0 x\n",
    "watch a\nmulti\nset a 1\nzadd a 1 x\nget a\nnosuch\ndiscard\nmulti\nincr n\nincr n\nq.count - +\nexec\n\
     unwatch\nexec\nmulti\nmulti\nwatch b\nexec\n",
    "mset key:1 a key:2 b key:3 c\nq.count - +\nq.count [key:1 (key:3\nq.rank key:2\nq.nth 1\n\
     q.range - + withvalues rev offset 1 limit 2\nq.sample - + 2\nq.sum - +\nq.delrange [key:2 +\n\
     q.count - +\nq.check\n",
    "set a 1\nq.snapshot\nset a 2\nq.at 1 get a\nq.at 1 q.count - +\nq.release 1\nq.at 1 get a\n",
    "acl setuser u on >p ~k* +@read -get\nacl list\nacl getuser u\nacl whoami\nauth u p\nget k\nset k 1\n\
     acl dryrun u set k 1\nacl deluser u\nacl log\nacl genpass\nacl cat read\n",
    "hello 3\nclient setname me\nclient getname\nclient list\nclient info\nclient reply skip\nping\necho x\n\
     select 0\nselect 1\ncommand count\ncommand docs get\nconfig get max*\ninfo all\nmemory usage a\n\
     slowlog get\nlatency latest\nreset\nquit\n",
    "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nx\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*-1\r\n\
     *0\r\n\r\nset \"b c\" 'd\\x00'\r\n*3\r\n$9999999\r\n",
];

#[test]
fn what_clients_send_is_played_and_makes_seeds() {
    for (number, stream) in STREAMS_OF_CLIENTS.iter().enumerate() {
        let played = |first: u8| [&[first], stream.as_bytes()].concat();
        fuzz::commands(&played(0));
        fuzz::commands(&played(2));
        write_seed("commands", &format!("client-{number:02}"), &played(2 * (number as u8 % 2)));
        let read_bytes = [255, 7, 1][number % 3];
        write_seed(
            "resp",
            &format!("client-{number:02}"),
            &[&[number as u8, read_bytes, 3], stream.as_bytes()].concat(),
        );
    }
    // Choices from the table of commands, some of which are compared with the same one by one.
    for number in 0..8 {
        let random = &mut StdRng::seed_from_u64(number);
        let mut bytes = vec![0; 1500];
        random.fill_bytes(&mut bytes);
        bytes[0] = 1 + 2 * (number as u8 % 2);
        fuzz::commands(&bytes);
        write_seed("commands", &format!("choices-{number:02}"), &bytes);
    }
}

#[expect(clippy::disallowed_methods, reason = "seeds of the fuzzer are no files of a database")]
fn write_seed(target: &str, name: &str, seed: &[u8]) {
    if std::env::var("WRITE_SEEDS").is_err() {
        return;
    }
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join(name), seed).expect("a seed");
}
