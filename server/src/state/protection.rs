//! Protected mode: a server that other machines can reach and that asks for no password serves only clients of its own
//! machine.
//!
//! The rule is that of Redis. A client is refused if `protected-mode` is on, the user `default` has `nopass`, and the
//! client has come neither over a loopback address nor by a local socket. The rule is applied when a Redis client
//! connects, and to each request over HTTP.
//!
//! Not here: passwords (`users`), and how HTTP asks for them (`http::access`).

use std::net::{IpAddr, SocketAddr};

/// Why a client is turned away, and what can be done about it.
pub const EXPLANATION: &str = "Quipu is running in protected mode: its user `default` has no password, so it serves \
    only clients of its own machine. Connect from that machine, and for clients of others do one of these: give the \
    user `default` a password (`--requirepass`, or `CONFIG SET requirepass`), or, if no stranger can reach this port, \
    turn the mode off (`--protected-mode no`, or `CONFIG SET protected-mode no`). With `--bind 127.0.0.1` the server \
    does not listen for other machines at all.";

/// Whether a client is turned away. `address` is where it has come from; `None` if that is a local socket.
pub fn turns_away(is_on: bool, has_no_password: bool, address: Option<IpAddr>) -> bool {
    is_on && has_no_password && address.is_some_and(|address| !is_loopback(address))
}

/// Where a client has come from, which may be `1.2.3.4:5`; what is no such thing is a local socket's name.
pub(crate) fn ip_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip())
}

/// Whether a client has come over a loopback address.
pub(crate) fn is_loopback_of(address: &str) -> bool {
    ip_of(address).is_some_and(is_loopback)
}

/// An IPv4 address may come as one of IPv6.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A warning for a server that listens at these addresses, if one is due.
pub fn warning(is_on: bool, has_no_password: bool, addresses: &[SocketAddr]) -> Option<String> {
    let open: Vec<String> =
        addresses.iter().filter(|address| !is_loopback(address.ip())).map(SocketAddr::to_string).collect();
    if open.is_empty() || !has_no_password {
        return None;
    }
    let places = open.join(", ");
    Some(if is_on {
        format!(
            "the user `default` has no password: clients of other machines are turned away at {places} until it has \
             one, or protected-mode is `no`"
        )
    } else {
        format!("the user `default` has no password: any client that reaches {places} can read and change all keys")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn strangers_are_turned_away_while_there_is_no_password() {
        for (is_on, has_no_password, from, is_turned_away) in [
            (true, true, address("10.0.0.7"), true),
            (true, true, address("2001:db8::1"), true),
            (true, true, address("::ffff:10.0.0.7"), true),
            (true, true, address("127.0.0.1"), false),
            (true, true, address("127.9.9.9"), false),
            (true, true, address("::1"), false),
            (true, true, address("::ffff:127.0.0.1"), false),
            (true, true, None, false),
            (false, true, address("10.0.0.7"), false),
            (true, false, address("10.0.0.7"), false),
        ] {
            assert_eq!(turns_away(is_on, has_no_password, from), is_turned_away, "{is_on} {has_no_password} {from:?}");
        }
    }

    #[test]
    fn who_listens_for_strangers_without_a_password_is_warned() {
        let all: [SocketAddr; 1] = ["0.0.0.0:6379".parse().expect("an address")];
        let own: [SocketAddr; 1] = ["127.0.0.1:6379".parse().expect("an address")];
        assert_eq!(warning(true, true, &own), None);
        assert_eq!(warning(true, false, &all), None);
        let away = warning(true, true, &all).expect("a warning");
        assert!(away.contains("turned away at 0.0.0.0:6379"), "{away}");
        let open = warning(false, true, &all).expect("a warning");
        assert!(open.contains("any client that reaches 0.0.0.0:6379"), "{open}");
    }
}
