//! Addresses of networks: `inet`, `cidr` and `macaddr`.
//!
//! A value of `inet` or `cidr` is bytes that sort as PostgreSQL sorts such values, and are equal where they are:
//!
//! ```text
//! 4 or 6 | the address with zeros after its prefix: 4 or 16 bytes | length of the prefix u8 | the address
//! ```

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Result, SqlError, SqlState};
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::refusal::invalid_text;

/// An address, and how many of its first bits are those of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// The length of the prefix.
    pub bits: u8,
}

impl Network {
    /// The network that bytes of a value are; none if they are no such value.
    pub fn of_bytes(bytes: &[u8]) -> Option<Network> {
        let (address, bits) = match bytes {
            [4, _, _, _, _, bits, address @ ..] => (IpAddr::from(<[u8; 4]>::try_from(address).ok()?), *bits),
            [6, rest @ ..] => {
                let (bits, address) = rest.get(16..)?.split_first()?;
                (IpAddr::from(<[u8; 16]>::try_from(address).ok()?), *bits)
            }
            _ => return None,
        };
        (bits <= bits_max(address)).then_some(Network { address, bits })
    }

    /// The value that it is.
    pub fn to_datum(self) -> Datum {
        let mut bytes = Vec::with_capacity(34);
        bytes.push(if self.address.is_ipv4() { 4 } else { 6 });
        write_address(self.network().address, &mut bytes);
        bytes.push(self.bits);
        write_address(self.address, &mut bytes);
        Datum::Bytes(bytes.into())
    }

    /// The most bits that a prefix of such an address has.
    pub fn bits_max(self) -> u8 {
        bits_max(self.address)
    }

    /// The same with zeros after the prefix.
    pub fn network(self) -> Network {
        self.map(|address, mask| address & mask)
    }

    /// The same with ones after the prefix.
    pub fn broadcast(self) -> Network {
        self.map(|address, mask| address | !mask)
    }

    /// Ones in the prefix.
    pub fn netmask(self) -> Network {
        Network { bits: self.bits_max(), ..self.map(|_, mask| mask) }
    }

    /// Ones after the prefix.
    pub fn hostmask(self) -> Network {
        Network { bits: self.bits_max(), ..self.map(|_, mask| !mask) }
    }

    fn map(self, change: impl Fn(u128, u128) -> u128) -> Network {
        let shift = 128 - u32::from(self.bits_max());
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        self.numbered(change(self.number() << shift, mask) >> shift)
    }

    /// The address as a number.
    pub fn number(self) -> u128 {
        number(self.address)
    }

    /// The same prefix of another address of the kind, whose number's highest bits are left out if it has too many.
    pub fn numbered(self, number: u128) -> Network {
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(number as u32)),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(number)),
        };
        Network { address, ..self }
    }

    /// The least network that has two of one kind.
    pub fn merged(self, other: Network) -> Network {
        let width = u32::from(self.bits_max());
        let same = ((self.number() ^ other.number()) << (128 - width)).leading_zeros();
        let bits = (same.min(width) as u8).min(self.bits).min(other.bits);
        Network { bits, ..self }.network()
    }

    /// The network without the zeros that end it: `10.1/16`.
    pub fn abbreviated(self) -> String {
        let IpAddr::V6(address) = self.address else {
            let octets = (self.number() as u32).to_be_bytes();
            let shown: Vec<String> =
                octets.iter().take(usize::from(self.bits).div_ceil(8).max(1)).map(u8::to_string).collect();
            return format!("{}/{}", shown.join("."), self.bits);
        };
        let segments = address.segments();
        let words = &segments[..if self.bits == 0 { 8 } else { usize::from(self.bits).div_ceil(16).max(2) }];
        format!("{}/{}", with_zeros_left_out(words), self.bits)
    }

    /// Whether all addresses of another network are among those of this one.
    pub fn contains(self, other: Network) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits <= other.bits
            && Network { bits: self.bits, ..other }.network().address == self.network().address
    }

    /// The address without its prefix.
    pub fn host(self) -> String {
        match self.address {
            // PostgreSQL writes an address with 96 zeros before it as one of four numbers.
            IpAddr::V6(address) if address.segments()[..6] == [0; 6] && address.segments()[6] != 0 => {
                format!("::{}", Ipv4Addr::from(number(self.address) as u32))
            }
            address => address.to_string(),
        }
    }

    /// The address with its prefix.
    pub fn whole(self) -> String {
        format!("{}/{}", self.host(), self.bits)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Words of an address, with `::` in the place of the longest row of zeros.
fn with_zeros_left_out(words: &[u16]) -> String {
    let zeros_at = |at: usize| words[at..].iter().take_while(|word| **word == 0).count();
    let (mut begin, mut length) = (0, 0);
    for at in 0..words.len() {
        if zeros_at(at) > length {
            (begin, length) = (at, zeros_at(at));
        }
    }
    let joined = |words: &[u16]| words.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(":");
    match length {
        0 => joined(words),
        _ => format!("{}::{}", joined(&words[..begin]), joined(&words[begin + length..])),
    }
}

fn bits_max(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend(address.octets()),
        IpAddr::V6(address) => out.extend(address.octets()),
    }
}

/// The value that a text writes.
///
/// # Errors
/// 22P02.
pub fn parse(text: &str, base: BaseType) -> Result<Datum> {
    let invalid = || invalid_text(base, text);
    match base {
        BaseType::MacAddr => return parse_mac(text).ok_or_else(invalid),
        BaseType::MacAddr8 => return parse_mac8(text).ok_or_else(invalid),
        _ => {}
    }
    let network = parse_network(text, base == BaseType::Cidr).ok_or_else(invalid)?;
    if base == BaseType::Cidr && network.network() != network {
        let message = format!("invalid cidr value: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            .with_detail("Value has bits set to right of mask."));
    }
    Ok(network.to_datum())
}

fn parse_network(text: &str, is_cidr: bool) -> Option<Network> {
    let (written, bits) = match text.split_once('/') {
        Some((written, bits)) => (written, Some(bits)),
        None => (text, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bits = match bits {
        Some(bits) => Some(bits.parse::<u8>().ok().filter(|_| is_number(bits))?),
        None => None,
    };
    let network = if written.contains(':') {
        let address = IpAddr::from(written.parse::<Ipv6Addr>().ok()?);
        Network { address, bits: bits.unwrap_or(128) }
    } else {
        // Numbers that are left out are zeros.
        let parts: Vec<&str> = written.split('.').collect();
        let mut octets = [0_u8; 4];
        for (place, part) in parts.iter().enumerate() {
            *octets.get_mut(place)? = part.parse().ok().filter(|_| is_number(part))?;
        }
        let said = parts.len() as u8 * 8;
        let bits = match bits {
            Some(bits) => bits,
            None if is_cidr => class_of(octets[0], said),
            None if said == 32 => 32,
            None => return None,
        };
        Network { address: octets.into(), bits }
    };
    (network.bits <= network.bits_max()).then_some(network)
}

/// The prefix of a network that is written without one, by the class of its first number.
fn class_of(first: u8, said: u8) -> u8 {
    let class = match first {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    if (224..240).contains(&first) && said == 8 { 4 } else { class.max(said) }
}

fn parse_mac(text: &str) -> Option<Datum> {
    let text = text.trim();
    let separator = text.chars().find(|c| !c.is_ascii_hexdigit());
    let parts: Vec<&str> = match separator {
        None => vec![text],
        Some(separator @ (':' | '-' | '.')) => text.split(separator).collect(),
        Some(_) => return None,
    };
    let is_whole = match (parts.len(), separator) {
        (1, None) => parts[0].len() == 12,
        (2, Some(':' | '-')) => parts.iter().all(|part| part.len() == 6),
        (3, Some('.' | '-')) => parts.iter().all(|part| part.len() == 4),
        (6, Some(':' | '-')) => parts.iter().all(|part| (1..=2).contains(&part.len())),
        _ => false,
    };
    let digits: String = match parts.len() {
        6 => parts.iter().map(|part| format!("{part:0>2}")).collect(),
        _ => parts.concat(),
    };
    if !is_whole || digits.len() != 12 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..12).step_by(2).map(|at| digits.get(at..at + 2));
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    Some(Datum::Bytes(bytes?.into()))
}

/// Pairs of digits, six or eight of them, which all have the same sign between them or none.
fn parse_mac8(text: &str) -> Option<Datum> {
    let mut rest = text.trim();
    let mut separator = None;
    let mut bytes = Vec::with_capacity(8);
    while !rest.is_empty() {
        let (pair, after) = rest.split_at_checked(2)?;
        if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(pair, 16).ok()?);
        rest = after;
        if let Some(sign) = rest.chars().next().filter(|sign| matches!(sign, ':' | '-' | '.')) {
            if *separator.get_or_insert(sign) != sign || rest.len() == 1 {
                return None;
            }
            rest = &rest[1..];
        }
    }
    match bytes.len() {
        6 => Some(Datum::Bytes(mac8_of_mac(&bytes).into())),
        8 => Some(Datum::Bytes(bytes.into())),
        _ => None,
    }
}

/// The address of eight bytes that stands for one of six.
pub fn mac8_of_mac(bytes: &[u8]) -> Vec<u8> {
    let (first, last) = bytes.split_at(3.min(bytes.len()));
    [first, &[0xff, 0xfe], last].concat()
}

/// Appends a value; whether the bytes are one of the type.
pub fn write(bytes: &[u8], base: BaseType, out: &mut String) -> bool {
    if base.is_device() {
        for (place, byte) in bytes.iter().enumerate() {
            let _ = write!(out, "{}{byte:02x}", if place == 0 { "" } else { ":" });
        }
        return true;
    }
    let Some(network) = Network::of_bytes(bytes) else { return false };
    let is_host = base == BaseType::Inet && network.bits == network.bits_max();
    out.push_str(&if is_host { network.host() } else { network.whole() });
    true
}

/// The value that bytes of the protocol are: family, bits, whether it is a `cidr`, length, address.
///
/// # Errors
/// 22P03.
pub fn read_binary(bytes: &[u8], base: BaseType) -> Result<Datum> {
    let invalid = || {
        let message = format!("invalid binary value of type {}", base.catalogue_name());
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    if base.is_device() {
        let length = if base == BaseType::MacAddr { 6 } else { 8 };
        return if bytes.len() == length { Ok(Datum::Bytes(bytes.into())) } else { Err(invalid()) };
    }
    let network = match bytes {
        [2, bits, _, 4, address @ ..] => <[u8; 4]>::try_from(address).ok().map(|octets| (octets.into(), *bits)),
        [3, bits, _, 16, address @ ..] => <[u8; 16]>::try_from(address).ok().map(|octets| (octets.into(), *bits)),
        _ => None,
    };
    let network = network.map(|(address, bits)| Network { address, bits });
    let network = network.filter(|network| network.bits <= network.bits_max()).ok_or_else(invalid)?;
    if base == BaseType::Cidr && network.network() != network { Err(invalid()) } else { Ok(network.to_datum()) }
}

/// Appends the bytes of a value, as the protocol has them; whether the bytes are one of the type.
pub fn write_binary(bytes: &[u8], base: BaseType, out: &mut Vec<u8>) -> bool {
    if base.is_device() {
        out.extend(bytes);
        return true;
    }
    let Some(network) = Network::of_bytes(bytes) else { return false };
    let is_v4 = network.address.is_ipv4();
    out.extend([if is_v4 { 2 } else { 3 }, network.bits, u8::from(base == BaseType::Cidr), if is_v4 { 4 } else { 16 }]);
    write_address(network.address, out);
    true
}
