//! Numbers by patterns: `to_char(1234.5, 'FM9,999.00')`, `to_number`.

use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{self, Numeric};
use crate::types::BaseType;
use crate::types::refusal::invalid_text;
use crate::types::text::filling;

/// A place of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum PatternPart {
    /// A digit; zeros before the number are shown from a `0` on.
    Digit {
        is_zero: bool,
    },
    Point,
    Comma,
    /// `S`: the sign
    Sign,
    /// `MI`: a minus or a blank
    Minus,
    /// `PL`: a plus or a blank
    Plus,
    /// `PR`: angle brackets around negative numbers
    Brackets,
    Currency,
    Literal(String),
}

/// A pattern, read.
#[derive(Default)]
struct Pattern {
    places: Vec<PatternPart>,
    is_filled: bool,
    shift: i32,
    is_scientific: bool,
    ordinal: Option<bool>,
}

fn refuse(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Pattern {
    fn parse(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern { is_filled: true, ..Pattern::default() };
        let mut rest = text;
        let mut is_after_point = false;
        let mut has_shift = false;
        while let Some(first) = rest.chars().next() {
            let upper = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
            let mut length = upper.len();
            match upper.as_str() {
                "FM" => pattern.is_filled = false,
                "MI" => pattern.places.push(PatternPart::Minus),
                "PL" => pattern.places.push(PatternPart::Plus),
                "SG" => pattern.places.push(PatternPart::Sign),
                "PR" => pattern.places.push(PatternPart::Brackets),
                "TH" => pattern.ordinal = Some(rest.starts_with("TH")),
                "RN" => {
                    let hint = "Write it without RN.";
                    return Err(SqlError::unsupported("Roman numbers are not supported", hint));
                }
                "EE" if rest.to_ascii_uppercase().starts_with("EEEE") => {
                    (pattern.is_scientific, length) = (true, 4);
                }
                _ => {
                    length = first.len_utf8();
                    match first {
                        '9' | '0' => {
                            pattern.shift += i32::from(has_shift);
                            pattern.places.push(PatternPart::Digit { is_zero: first == '0' });
                        }
                        '.' | 'D' | 'd' if is_after_point => return Err(refuse("multiple decimal points")),
                        '.' | 'D' | 'd' => {
                            is_after_point = true;
                            pattern.places.push(PatternPart::Point);
                        }
                        ',' | 'G' | 'g' => pattern.places.push(PatternPart::Comma),
                        'S' | 's' => pattern.places.push(PatternPart::Sign),
                        'L' | 'l' | '$' if first != '$' => pattern.places.push(PatternPart::Currency),
                        'V' | 'v' => has_shift = true,
                        '"' => {
                            let literal = rest[1..].split('"').next().unwrap_or_default();
                            length = (literal.len() + 2).min(rest.len());
                            pattern.places.push(PatternPart::Literal(literal.to_owned()));
                        }
                        other => pattern.places.push(PatternPart::Literal(other.to_string())),
                    }
                }
            }
            rest = &rest[length..];
        }
        let has_signs = pattern.places.iter().any(|place| {
            matches!(place, PatternPart::Sign | PatternPart::Minus | PatternPart::Plus | PatternPart::Brackets)
        });
        if pattern.is_scientific && (has_signs || has_shift) {
            return Err(refuse("\"EEEE\" is incompatible with other formats"));
        }
        Ok(pattern)
    }

    /// How many digits stand before and after the point.
    fn digits(&self) -> (usize, usize) {
        let point = self.places.iter().position(|place| *place == PatternPart::Point).unwrap_or(self.places.len());
        let count =
            |places: &[PatternPart]| places.iter().filter(|place| matches!(place, PatternPart::Digit { .. })).count();
        (count(&self.places[..point]), count(&self.places[point..]))
    }
}

/// The suffix of an ordinal number.
fn ordinal(whole: &str, is_upper: bool) -> &'static str {
    let last_two = &whole[whole.len().saturating_sub(2)..];
    let pair = match (last_two, whole.as_bytes().last()) {
        ("11" | "12" | "13", _) => ("th", "TH"),
        (_, Some(b'1')) => ("st", "ST"),
        (_, Some(b'2')) => ("nd", "ND"),
        (_, Some(b'3')) => ("rd", "RD"),
        _ => ("th", "TH"),
    };
    if is_upper { pair.1 } else { pair.0 }
}

fn scientific(number: &Numeric, pattern: &Pattern) -> String {
    let (_, after) = pattern.digits();
    if !number.is_finite() {
        // As many places as a number has, and one for the sign.
        return format!(" #.{}", "#".repeat(after + 4));
    }
    let sign = if number.signum() < 0 || !pattern.is_filled { "" } else { " " };
    format!("{sign}{}", numeric::scientific(number, after as u32))
}

/// A number with the point moved to the right by so many digits.
fn power_of_ten(digits: i32) -> Result<Numeric> {
    numeric::power(&10.into(), &i64::from(digits).into()).and_then(|power| numeric::round(&power, 0))
}

/// The number by a pattern.
///
/// # Errors
/// 42601 of a pattern that makes no sense, 22003.
pub(crate) fn write(number: &Numeric, pattern: &str) -> Result<String> {
    let pattern = Pattern::parse(pattern)?;
    if pattern.is_scientific {
        return Ok(scientific(number, &pattern));
    }
    let moved = match pattern.shift {
        0 => None,
        shift => Some(numeric::product(number, &power_of_ten(shift)?)?),
    };
    let number = moved.as_ref().unwrap_or(number);
    let (before, after) = pattern.digits();
    let rounded = numeric::round(number, after as i32)?;
    let is_negative = rounded.signum() < 0;
    let mut shown = numeric::absolute(&rounded).to_string();
    // `NaN` and `Infinity` stand where the digits before the point do, and end what is written.
    let is_word = !rounded.is_finite() && shown.len() <= before;
    if !rounded.is_finite() && !is_word {
        shown = format!("{}.{}", "#".repeat(before + 1), "#".repeat(after));
    }
    let (whole, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
    // A zero before the point is shown by a `0` only.
    let whole = if whole == "0" && after > 0 { "" } else { whole };
    let is_over = whole.len() > before;
    let first_zero = pattern.places.iter().position(|place| matches!(place, PatternPart::Digit { is_zero: true }));
    let has_sign = |kind: PatternPart| pattern.places.contains(&kind);
    // A place for a plus says nothing of a negative number.
    let has_plus = has_sign(PatternPart::Plus) && !is_negative;
    let is_own_sign =
        has_sign(PatternPart::Sign) || has_sign(PatternPart::Minus) || has_plus || has_sign(PatternPart::Brackets);
    let last_shown = if is_over { before + after } else { last_digit(&pattern, fraction) };
    let mut state = Writer {
        out: String::new(),
        digits: filling(whole.len(), before, ' ')
            .chain(whole.chars())
            .chain(fraction.chars())
            .map(|c| if is_over { '#' } else { c })
            .collect(),
        is_started: false,
        is_negative,
        sign_due: !is_own_sign || has_sign(PatternPart::Brackets),
        is_filled: pattern.is_filled,
        has_brackets: has_sign(PatternPart::Brackets),
    };
    let point = pattern.places.iter().position(|place| *place == PatternPart::Point).unwrap_or(pattern.places.len());
    let sign_first = pattern
        .places
        .iter()
        .position(|place| *place == PatternPart::Sign)
        .is_some_and(|at| !pattern.places[..at].iter().any(|place| matches!(place, PatternPart::Digit { .. })));
    let mut digit = 0;
    for (at, place) in pattern.places.iter().enumerate() {
        if is_word && digit == before {
            break;
        }
        match place {
            PatternPart::Digit { .. } => {
                let c = state.digits.get(digit).copied().unwrap_or(if is_over { '#' } else { '0' });
                let is_zero_shown = first_zero.is_some_and(|zero| zero <= at) && at < point;
                state.digit(c, is_zero_shown, at > point, digit <= last_shown, sign_first);
                digit += 1;
            }
            PatternPart::Point => {
                state.begin(sign_first);
                state.out.push('.');
            }
            PatternPart::Comma if state.is_started => state.out.push(','),
            PatternPart::Comma => state.blank(),
            PatternPart::Sign if sign_first => {}
            PatternPart::Sign => state.out.push(if is_negative { '-' } else { '+' }),
            PatternPart::Minus if is_negative => state.out.push('-'),
            PatternPart::Plus if !is_negative => state.out.push('+'),
            PatternPart::Minus | PatternPart::Plus | PatternPart::Currency => state.blank(),
            PatternPart::Brackets if is_negative => state.out.push('>'),
            PatternPart::Brackets => state.blank(),
            PatternPart::Literal(text) => state.out.push_str(text),
        }
    }
    if let Some(is_upper) = pattern.ordinal.filter(|_| !is_negative && fraction.is_empty()) {
        state.out.push_str(ordinal(whole, is_upper));
    }
    Ok(state.out)
}

/// The last digit that must be shown without filling: those after the point up to the last that is not zero.
fn last_digit(pattern: &Pattern, fraction: &str) -> usize {
    let (before, after) = pattern.digits();
    if pattern.is_filled {
        return before + after;
    }
    let point = pattern.places.iter().position(|place| *place == PatternPart::Point).unwrap_or(pattern.places.len());
    let digits_after = pattern.places[point..].iter().filter(|place| matches!(place, PatternPart::Digit { .. }));
    let forced = digits_after.enumerate().filter(|(_, place)| **place == PatternPart::Digit { is_zero: true }).last();
    let forced = forced.map_or(0, |(index, _)| index + 1);
    let significant = fraction.trim_end_matches('0').len();
    (before + forced.max(significant)).saturating_sub(1)
}

/// What is written so far.
struct Writer {
    out: String,
    digits: Vec<char>,
    is_started: bool,
    is_negative: bool,
    sign_due: bool,
    is_filled: bool,
    has_brackets: bool,
}

impl Writer {
    fn blank(&mut self) {
        if self.is_filled {
            self.out.push(' ');
        }
    }

    /// Before the first digit stands the sign.
    fn begin(&mut self, sign_first: bool) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        match (sign_first, self.is_negative) {
            (true, true) => self.out.push('-'),
            (true, false) => self.out.push('+'),
            _ if !self.sign_due => {}
            (_, true) => self.out.push(if self.has_brackets { '<' } else { '-' }),
            _ => self.blank(),
        }
        self.sign_due = false;
    }

    fn digit(&mut self, c: char, is_zero_shown: bool, is_after_point: bool, is_needed: bool, sign_first: bool) {
        match c {
            ' ' if is_zero_shown || self.is_started => {
                self.begin(sign_first);
                self.out.push('0');
            }
            ' ' => self.blank(),
            c => {
                self.begin(sign_first);
                if !is_after_point || is_needed {
                    self.out.push(c);
                }
            }
        }
    }
}

/// The number that a text writes by a pattern: its digits, its point and its sign; all else is passed over.
///
/// # Errors
/// 22P02 if there is no digit.
pub(crate) fn read(text: &str, pattern: &str) -> Result<Numeric> {
    let parsed = Pattern::parse(pattern)?;
    let (before, after) = parsed.digits();
    let mut digits = String::new();
    let mut is_negative = false;
    let (mut whole, mut fraction, mut has_point) = (0, 0, false);
    for c in text.chars() {
        match c {
            '-' | '<' => is_negative = true,
            '.' if !has_point && after > 0 => {
                has_point = true;
                digits.push('.');
            }
            '.' => break,
            c if c.is_ascii_digit() && has_point && fraction < after => {
                fraction += 1;
                digits.push(c);
            }
            c if c.is_ascii_digit() && !has_point && whole < before => {
                whole += 1;
                digits.push(c);
            }
            _ => {}
        }
    }
    let value = Numeric::parse(digits.trim_end_matches('.')).map_err(|_| invalid_text(BaseType::Numeric, text))?;
    let value = if is_negative { numeric::negate(&value) } else { value };
    match parsed.shift {
        0 => Ok(value),
        shift => numeric::quotient(&value, &power_of_ten(shift)?),
    }
}
