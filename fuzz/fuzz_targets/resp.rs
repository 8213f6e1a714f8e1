#![no_main]

use quipu_server::resp::parse::{Batch, Limits, Parser, ProtocolError};

/// The commands of a stream that comes in these reads, and the error that ended it.
fn feed(reads: &[&[u8]], limits: Limits, commands_max: usize) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut parser, mut batch) = (Parser::new(limits), Batch::new());
    let (mut buffer, mut commands) = (Vec::new(), Vec::new());
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            batch.clear();
            let parsed = parser.parse(&buffer, commands_max, &mut batch);
            for number in 0..batch.len() {
                commands.push(batch.arguments(&buffer, number).map(<[u8]>::to_vec).collect());
            }
            match parsed {
                Ok(parsed) => drop(buffer.drain(..parsed.consumed)),
                Err(error) => return (commands, Some(error)),
            }
            if batch.len() < commands_max {
                break;
            }
        }
    }
    (commands, None)
}

// The first byte chooses the limits, the second the size of reads, the third how many commands are parsed at once. The
// rest is what the client sends.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [choice, read_bytes, commands_max, stream @ ..] = bytes else { return };
    let limits = match choice % 3 {
        0 => Limits::default(),
        1 => Limits::unauthenticated(),
        _ => Limits { arguments_max: 4, bulk_bytes_max: 20, inline_bytes_max: 10, is_authenticated: true },
    };
    let reads: Vec<&[u8]> = stream.chunks(usize::from(*read_bytes).max(1)).collect();
    let whole = feed(&[stream], limits, usize::MAX);
    assert_eq!(feed(&reads, limits, usize::from(*commands_max).max(1)), whole);
});
