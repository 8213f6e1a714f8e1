//! Products and quotients of numbers of 128 bits by way of 256 bits.

/// The first number of more than 38 digits.
const LIMIT: u128 = 10u128.pow(38);

/// The product of two numbers: its upper and its lower half.
pub(super) fn multiply(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let (low, middle, other) = (a_low * b_low, a_high * b_low, a_low * b_high);
    let carry = (low >> 64) + (middle & LOW) + (other & LOW);
    let high = a_high * b_high + (middle >> 64) + (other >> 64) + (carry >> 64);
    (high, (carry << 64) | (low & LOW))
}

/// The quotient and the rest of a number of 256 bits; none if the quotient has more than 128.
fn divide(high: u128, low: u128, divisor: u128) -> Option<(u128, u128)> {
    if high >= divisor {
        return None;
    }
    if high == 0 {
        return Some((low / divisor, low % divisor));
    }
    let (mut rest, mut quotient) = (high, 0u128);
    for bit in (0..128).rev() {
        let is_over = rest >> 127 == 1;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if is_over || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    Some((quotient, rest))
}

/// The quotient of a number of 256 bits, rounded half away from zero; none if it has more than 38 digits.
pub(super) fn divide_rounded(high: u128, low: u128, divisor: u128) -> Option<u128> {
    let (quotient, rest) = divide(high, low, divisor)?;
    let is_up = rest >= divisor - rest;
    (quotient < LIMIT).then(|| quotient + u128::from(is_up)).filter(|quotient| *quotient < LIMIT)
}
