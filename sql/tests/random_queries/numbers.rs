//! Random expressions of exact numbers of all sizes.

use super::draw::Draw;

/// Functions and operators of two numbers.
const OF_TWO: [&str; 17] = [
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / {}",
    "{} % {}",
    "div({}, {})",
    "{} = {}",
    "{} < {}",
    "{} >= {}",
    "gcd({}, {})",
    "lcm({}, {})",
    "mod({}, {})",
    "least({}, {})",
    "{} <> {}",
    "greatest({}, {})",
    "{} - ({})::int8",
    "{}::float8 < {}",
];

/// Functions of one number.
const OF_ONE: [&str; 26] = [
    "-{}",
    "abs({})",
    "sign({})",
    "round({})",
    "trunc({})",
    "ceil({})",
    "floor({})",
    "scale({})",
    "min_scale({})",
    "trim_scale({})",
    "round({}, 2)",
    "round({}, -3)",
    "trunc({}, 5)",
    "trunc({}, -1)",
    "{}::numeric(50, 10)",
    "{}::numeric(10, 3)",
    "{}::numeric(5, -2)",
    "{}::int8",
    "{}::int4",
    "{}::float8",
    "{}::text::numeric",
    "to_char({}, 'FM999999999999999990.00099')",
    "to_char({}, 'S9.99999EEEE')",
    "to_char({}, '9,999,999.99PR')",
    "to_char({}, '000V99')",
    "to_jsonb({})",
];

/// Functions whose results have digits of their own, of numbers that are not too large.
const OF_SOME: [&str; 12] = [
    "sqrt({})",
    "exp({})",
    "ln({})",
    "log({})",
    "log({}, {})",
    "{} ^ {}",
    "{} ^ 3",
    "{} ^ -2",
    "{} ^ 0.5",
    "{} ^ {}::int4",
    "width_bucket({}, 0, 10, 7)",
    "({}::numeric ^ 17) / {}",
];

const SPECIAL: [&str; 8] = ["NaN", "Infinity", "-Infinity", "0", "1", "-1", "0.000", "10"];

fn digits(draw: &mut Draw, count: usize) -> String {
    let all = ["0", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "9"];
    (0..count).map(|_| draw.pick(&all)).collect()
}

/// A number of at most so many digits on either side of the point, in quotes.
fn number(draw: &mut Draw, most: usize) -> String {
    if draw.chance(8) {
        return format!("'{}'::numeric", draw.pick(&SPECIAL));
    }
    let sign = if draw.chance(30) { "-" } else { "" };
    let (whole, fraction) = (1 + draw.below(most), draw.below(most));
    let whole = digits(draw, whole);
    let fraction = if draw.chance(70) { digits(draw, fraction) } else { String::new() };
    let exponent = if draw.chance(5) { format!("e{}", draw.below(40) as i32 - 20) } else { String::new() };
    format!("'{sign}{whole}.{fraction}{exponent}'::numeric")
}

/// A statement that computes with random numbers.
pub(super) fn statement(draw: &mut Draw) -> String {
    let (template, most) = match draw.below(3) {
        0 => (draw.pick(&OF_TWO), draw.one_of(&[3, 12, 30, 60])),
        1 => (draw.pick(&OF_ONE), draw.one_of(&[3, 12, 30, 60])),
        _ => (draw.pick(&OF_SOME), draw.one_of(&[2, 2, 4, 25])),
    };
    let mut expression = template.to_owned();
    while expression.contains("{}") {
        expression = expression.replacen("{}", &number(draw, most), 1);
    }
    format!("SELECT {expression}")
}

/// A statement of an aggregate over random numbers.
pub(super) fn aggregate(draw: &mut Draw) -> String {
    let names = ["sum", "avg", "stddev", "stddev_pop", "variance", "var_pop", "min", "max"];
    let name = draw.pick(&names);
    let most = draw.one_of(&[3, 12, 40]);
    let rows: Vec<String> = (0..1 + draw.below(6)).map(|_| format!("({})", number(draw, most))).collect();
    format!("SELECT {name}(x) FROM (VALUES {}) AS t (x)", rows.join(", "))
}
