//! Functions and operators of addresses of networks.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definitions, bytes, int};
use crate::types::BaseType;
use crate::types::datum::Datum;
use crate::types::network::Network;
use crate::types::refusal::mismatch;

fn network(values: &[Datum], place: usize) -> Result<Network> {
    Network::of_bytes(bytes(values, place)?).ok_or_else(|| mismatch(BaseType::Inet))
}

/// What a value and another, which is given for -1, make of each other.
fn with_bits(network: Network, bits: i64) -> Result<Network> {
    let most = network.bits_max();
    match bits {
        -1 => Ok(Network { bits: most, ..network }),
        bits => match u8::try_from(bits) {
            Ok(bits) if bits <= most => Ok(Network { bits, ..network }),
            _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid mask length: {bits}"))),
        },
    }
}

pub(crate) fn define(definitions: &mut Definitions) {
    definitions.add("host(inet) text", |_, v| Ok(Datum::text(network(v, 0)?.host())));
    definitions.add("text(inet) text", |_, v| Ok(Datum::text(network(v, 0)?.whole())));
    definitions.add("masklen(inet) int4", |_, v| Ok(Datum::Int(network(v, 0)?.bits.into())));
    definitions.add("family(inet) int4", |_, v| Ok(Datum::Int(if network(v, 0)?.bits_max() == 32 { 4 } else { 6 })));
    definitions.add("network(inet) cidr", |_, v| Ok(network(v, 0)?.network().to_datum()));
    definitions.add("broadcast(inet) inet", |_, v| Ok(network(v, 0)?.broadcast().to_datum()));
    definitions.add("netmask(inet) inet", |_, v| Ok(network(v, 0)?.netmask().to_datum()));
    definitions.add("hostmask(inet) inet", |_, v| Ok(network(v, 0)?.hostmask().to_datum()));
    definitions.add("set_masklen(inet,int4) inet", |_, v| Ok(with_bits(network(v, 0)?, int(v, 1)?)?.to_datum()));
    definitions
        .add("set_masklen(cidr,int4) cidr", |_, v| Ok(with_bits(network(v, 0)?, int(v, 1)?)?.network().to_datum()));
    definitions.add("inet_same_family(inet,inet) bool", |_, v| {
        Ok(Datum::Bool(network(v, 0)?.bits_max() == network(v, 1)?.bits_max()))
    });
    definitions.add("<<(inet,inet) bool", |_, v| {
        let (inner, outer) = (network(v, 0)?, network(v, 1)?);
        Ok(Datum::Bool(outer.contains(inner) && outer.bits < inner.bits))
    });
    definitions.add("<<=(inet,inet) bool", |_, v| Ok(Datum::Bool(network(v, 1)?.contains(network(v, 0)?))));
    definitions.add(">>(inet,inet) bool", |_, v| {
        let (outer, inner) = (network(v, 0)?, network(v, 1)?);
        Ok(Datum::Bool(outer.contains(inner) && outer.bits < inner.bits))
    });
    definitions.add(">>=(inet,inet) bool", |_, v| Ok(Datum::Bool(network(v, 0)?.contains(network(v, 1)?))));
    definitions.add("&&(inet,inet) bool", |_, v| {
        let (a, b) = (network(v, 0)?, network(v, 1)?);
        Ok(Datum::Bool(a.contains(b) || b.contains(a)))
    });
    definitions.add("abbrev(inet) text", |_, v| {
        let network = network(v, 0)?;
        Ok(Datum::text(if network.bits == network.bits_max() { network.host() } else { network.whole() }))
    });
    definitions.add("abbrev(cidr) text", |_, v| Ok(Datum::text(network(v, 0)?.abbreviated())));
    definitions.add("inet_merge(inet,inet) cidr", |_, v| {
        let (a, b) = (network(v, 0)?, network(v, 1)?);
        if a.bits_max() != b.bits_max() {
            let what = "cannot merge addresses from different families";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        Ok(a.merged(b).to_datum())
    });
    arithmetic(definitions);
    devices(definitions);
}

/// Two values of one kind.
fn alike(values: &[Datum], what: &str) -> Result<(Network, Network)> {
    let (a, b) = (network(values, 0)?, network(values, 1)?);
    if a.bits_max() == b.bits_max() {
        return Ok((a, b));
    }
    let what = format!("cannot {what} inet values of different sizes");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}

/// The address so many after another one.
fn moved(network: Network, by: i128) -> Result<Datum> {
    let moved = match u128::try_from(by) {
        Ok(by) => network.number().checked_add(by),
        Err(_) => network.number().checked_sub(by.unsigned_abs()),
    };
    let fits = |number: &u128| network.bits_max() == 128 || *number <= u32::MAX.into();
    Ok(network.numbered(moved.filter(fits).ok_or_else(out_of_range)?).to_datum())
}

fn arithmetic(definitions: &mut Definitions) {
    definitions.add("~(inet) inet", |_, v| {
        let network = network(v, 0)?;
        Ok(network.numbered(!network.number()).to_datum())
    });
    definitions.add("&(inet,inet) inet", |_, v| {
        let (a, b) = alike(v, "AND")?;
        Ok(Network { bits: a.bits.max(b.bits), ..a.numbered(a.number() & b.number()) }.to_datum())
    });
    definitions.add("|(inet,inet) inet", |_, v| {
        let (a, b) = alike(v, "OR")?;
        Ok(Network { bits: a.bits.max(b.bits), ..a.numbered(a.number() | b.number()) }.to_datum())
    });
    definitions.add("+(inet,int8) inet", |_, v| moved(network(v, 0)?, int(v, 1)?.into()));
    definitions.add("+(int8,inet) inet", |_, v| moved(network(v, 1)?, int(v, 0)?.into()));
    definitions.add("-(inet,int8) inet", |_, v| moved(network(v, 0)?, -i128::from(int(v, 1)?)));
    definitions.add("-(inet,inet) int8", |_, v| {
        let (a, b) = alike(v, "subtract")?;
        // The distance of two addresses is less than 2^128, so that the bits of it are exact with their sign.
        let distance = a.number().wrapping_sub(b.number()) as i128;
        let is_right = (distance >= 0) == (a.number() >= b.number());
        let distance = i64::try_from(distance).ok().filter(|_| is_right);
        distance.map(Datum::Int).ok_or_else(out_of_range)
    });
}

/// Operators and functions of addresses of devices, which are alike for both lengths.
fn devices(definitions: &mut Definitions) {
    for name in ["macaddr", "macaddr8"] {
        definitions.add(format!("~({name}) {name}").leak(), |_, v| {
            Ok(Datum::Bytes(bytes(v, 0)?.iter().map(|byte| !byte).collect()))
        });
        definitions.add(format!("&({name},{name}) {name}").leak(), |_, v| joined(v, |a, b| a & b));
        definitions.add(format!("|({name},{name}) {name}").leak(), |_, v| joined(v, |a, b| a | b));
        definitions.add(format!("trunc({name}) {name}").leak(), |_, v| {
            let mut address = bytes(v, 0)?.to_vec();
            address.iter_mut().skip(3).for_each(|byte| *byte = 0);
            Ok(Datum::Bytes(address.into()))
        });
    }
    definitions.add("macaddr8_set7bit(macaddr8) macaddr8", |_, v| {
        let mut address = bytes(v, 0)?.to_vec();
        address.iter_mut().take(1).for_each(|byte| *byte |= 2);
        Ok(Datum::Bytes(address.into()))
    });
}

fn joined(values: &[Datum], join: fn(u8, u8) -> u8) -> Result<Datum> {
    let (a, b) = (bytes(values, 0)?, bytes(values, 1)?);
    Ok(Datum::Bytes(a.iter().zip(b).map(|(a, b)| join(*a, *b)).collect()))
}
