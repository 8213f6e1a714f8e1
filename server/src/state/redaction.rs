//! Hides passwords among the words of commands from clients that are shown commands.
//!
//! `MONITOR` shows neither `AUTH`, `HELLO` and `ACL` ([`Flags::SECRET`]) nor commands of administrators. All other
//! cases are handled here; `SLOWLOG` hides the words that Redis's hides, and a few more. The server's log never
//! has words of commands.

use crate::facts::{Flags, Spec, find};

/// Parameters whose values are not shown.
const PARAMETERS: [&[u8]; 5] =
    [b"requirepass", b"masterauth", b"masteruser", b"tls-key-file-pass", b"tls-client-key-file-pass"];

const REDACTED: &[u8] = b"(redacted)";

/// The words of a command without the secrets among them.
pub fn redact<'a>(spec: &Spec, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut redacted = args.to_vec();
    match spec.name {
        "config|set" => {
            for pair in redacted.get_mut(2..).unwrap_or_default().chunks_exact_mut(2) {
                if PARAMETERS.iter().any(|secret| pair[0].eq_ignore_ascii_case(secret)) {
                    pair[1] = REDACTED;
                }
            }
        }
        "auth" => redacted.get_mut(1..).unwrap_or_default().fill(REDACTED),
        "hello" => {
            if let Some(at) = args.iter().skip(2).position(|word| word.eq_ignore_ascii_case(b"auth")) {
                redacted.iter_mut().skip(2 + at + 1).take(2).for_each(|word| *word = REDACTED);
            }
        }
        "acl|setuser" => redacted.get_mut(2..).unwrap_or_default().fill(REDACTED),
        // The command that is tried, and its words.
        "acl|dryrun" => redacted.get_mut(4..).unwrap_or_default().fill(REDACTED),
        // What it is given is refused if it is no command that reads, and was shown by then.
        "q.at" if args.len() > 2 => {
            let is_plain = find(args[2]).is_some_and(|inner| inner.flags.has(Flags::READ));
            if !is_plain {
                redacted[3..].fill(REDACTED);
            }
        }
        _ => {}
    }
    redacted
}
