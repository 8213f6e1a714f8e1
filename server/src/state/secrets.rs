//! Hides passwords among the words of commands from clients that are shown commands.
//!
//! `AUTH`, `HELLO` and `ACL` are not shown at all ([`Flags::SECRET`]), but for `ACL SETUSER` in `SLOWLOG`, and
//! `MONITOR` does not show commands of administrators. All other cases are handled here. The server's log never has
//! words of commands.

use crate::facts::{Flags, Spec, find};

/// Parameters whose values are not shown.
const PARAMETERS: [&[u8]; 5] =
    [b"requirepass", b"masterauth", b"masteruser", b"tls-key-file-pass", b"tls-client-key-file-pass"];

const REDACTED: &[u8] = b"(redacted)";

/// The words of a command without the secrets among them.
pub fn told<'a>(spec: &Spec, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut told = args.to_vec();
    match spec.name {
        "config|set" => {
            for pair in told.get_mut(2..).unwrap_or_default().chunks_exact_mut(2) {
                if PARAMETERS.iter().any(|secret| pair[0].eq_ignore_ascii_case(secret)) {
                    pair[1] = REDACTED;
                }
            }
        }
        "acl|setuser" => told.get_mut(2..).unwrap_or_default().fill(REDACTED),
        // What it is given is refused if it is no command that reads, and was shown by then.
        "q.at" if args.len() > 2 => {
            let is_plain = find(args[2]).is_some_and(|inner| inner.flags.has(Flags::READ));
            if !is_plain {
                told[3..].fill(REDACTED);
            }
        }
        _ => {}
    }
    told
}
