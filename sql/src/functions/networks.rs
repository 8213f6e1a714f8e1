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
    definitions.add("trunc(macaddr) macaddr", |_, v| {
        let mut address = bytes(v, 0)?.to_vec();
        address.iter_mut().skip(3).for_each(|byte| *byte = 0);
        Ok(Datum::Bytes(address.into()))
    });
}
