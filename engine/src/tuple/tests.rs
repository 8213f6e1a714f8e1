use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The values at which something changes: sizes of integers, signs and exponents of floats, zero and `ff` bytes in
/// strings.
fn edges() -> Vec<Element<'static>> {
    let mut edges = vec![Element::Null, Element::Bool(false), Element::Bool(true)];
    for shift in 0..128 {
        let power = 1i128.wrapping_shl(shift);
        for near in [power.wrapping_sub(1), power, power.wrapping_add(1)] {
            edges.extend([Element::Int(near), Element::Int(near.wrapping_neg())]);
        }
    }
    for float in
        [0.0, f64::from_bits(1), f64::MIN_POSITIVE, 0.1, 1.0, 1.0 + f64::EPSILON, 2.5, 1e300, f64::MAX, f64::INFINITY]
    {
        edges.extend([Element::Float(float), Element::Float(-float)]);
    }
    edges.push(Element::Float(f64::NAN));
    for text in [
        "",
        "\0",
        "\0\0",
        "\0a",
        "\u{1}",
        "a",
        "a\0",
        "a\0\0",
        "a\0b",
        "a\u{1}",
        "aa",
        "b",
        "é",
        "\u{7f}",
        "\u{80}",
        "\u{10ffff}",
    ] {
        edges.extend([Element::Text(text.into()), Element::Bytes(text.as_bytes().to_vec().into())]);
    }
    for bytes in [&[0xff][..], &[0, 0xff], &[0xff, 0], &[0, 0xff, 0], &[0xff, 0xff], &[0, 1], &[1, 0]] {
        edges.push(Element::Bytes(bytes.to_vec().into()));
    }
    for byte in [0, 1, 0x7f, 0xff] {
        let mut uuid = [byte; 16];
        edges.push(Element::Uuid(uuid));
        uuid[15] = 0x42;
        edges.push(Element::Uuid(uuid));
    }
    edges
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn show(elements: &[Element<'_>]) -> String {
    format!("({})", elements.iter().map(Element::to_string).collect::<Vec<_>>().join(", "))
}

fn assert_ordered(a: &[Element<'_>], b: &[Element<'_>]) {
    let (a_bytes, b_bytes) = (encode(a), encode(b));
    assert_eq!(a_bytes.cmp(&b_bytes), a.cmp(b), "{} = {}, {} = {}", show(a), hex(&a_bytes), show(b), hex(&b_bytes));
}

fn random_element(rng: &mut StdRng) -> Element<'static> {
    let string = |rng: &mut StdRng| -> Vec<u8> {
        let size = rng.random_range(0..6);
        (0..size).map(|_| [0, 1, b'a', 0x7f, 0xfe, 0xff][rng.random_range(0..6)]).collect()
    };
    match rng.random_range(0..8) {
        0 => Element::Null,
        1 => Element::Bool(rng.random()),
        2 => Element::Int((rng.random::<i64>() >> rng.random_range(0..64)).into()),
        5 => Element::Int(rng.random::<i128>() >> rng.random_range(0..128)),
        6 => Element::Uuid([rng.random(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, rng.random()]),
        3 => Element::Float(if rng.random() {
            f64::from_bits(rng.random())
        } else {
            rng.random_range(-9..9) as f64 / 4.0
        }),
        4 => Element::Text(String::from_utf8_lossy(&string(rng)).into_owned().into()),
        _ => Element::Bytes(string(rng).into()),
    }
}

#[test]
fn every_pair_of_edges_sorts_as_its_values() {
    let edges = edges();
    for a in &edges {
        for b in &edges {
            assert_ordered(std::slice::from_ref(a), std::slice::from_ref(b));
        }
    }
}

#[test]
fn tuples_sort_element_by_element_and_a_beginning_first() {
    let edges = edges();
    let few: Vec<_> =
        edges.iter().step_by(17).cloned().chain(["", "a", "a\0"].map(|text| Element::Text(text.into()))).collect();
    let mut tuples = vec![vec![]];
    for a in &few {
        tuples.push(vec![a.clone()]);
        tuples.extend(few.iter().map(|b| vec![a.clone(), b.clone()]));
    }
    for a in &tuples {
        for b in &tuples {
            assert_ordered(a, b);
        }
    }
}

#[test]
fn whole_numbers_sort_as_numbers_within_each_kind() {
    for a in -300i64..300 {
        for b in -300i64..300 {
            assert_eq!(encode(&[a.into()]).cmp(&encode(&[b.into()])), a.cmp(&b), "{a} and {b}");
            assert_eq!(encode(&[(a as f64).into()]).cmp(&encode(&[(b as f64).into()])), a.cmp(&b), "{a}.0 and {b}.0");
        }
    }
    assert!(encode(&[Element::Int(i128::MAX)]) < encode(&[Element::Float(f64::NEG_INFINITY)]), "ints before floats");
}

#[test]
fn zeros_are_one_value_and_so_are_nans() {
    let negative_nan = f64::from_bits(f64::NAN.to_bits() | SIGN | 1);
    assert!(negative_nan.is_nan());
    assert_eq!(encode(&[Element::Float(-0.0)]), encode(&[Element::Float(0.0)]));
    assert_eq!(encode(&[Element::Float(negative_nan)]), encode(&[Element::Float(f64::NAN)]));
    let zero = encode(&[Element::Float(-0.0)]);
    let zero = decode(&zero).unwrap();
    assert!(matches!(zero[..], [Element::Float(zero)] if zero.is_sign_positive()));
    assert_eq!(Element::Float(f64::NAN), Element::Float(negative_nan));
}

#[test]
fn edges_come_back() {
    let edges = edges();
    for element in &edges {
        let one = std::slice::from_ref(element);
        assert_eq!(decode(&encode(one)).unwrap(), one);
    }
    let bytes = encode(&edges);
    assert_eq!(decode(&bytes).unwrap(), edges);
    for (index, element) in edges.iter().enumerate() {
        assert_eq!(element_at(&bytes, index).as_ref(), Some(element));
    }
    assert_eq!(element_at(&bytes, edges.len()), None);
}

#[test]
fn random_tuples_come_back_and_sort() {
    let seed = std::env::var("QUIPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("QUIPU_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut last: Vec<Element<'static>> = Vec::new();
    for _ in 0..20_000 {
        // A shared beginning now and then, or no two tuples would differ after their first element.
        let kept = rng.random_range(0..=last.len());
        let mut tuple = last[..kept].to_vec();
        tuple.extend((0..rng.random_range(0..4)).map(|_| random_element(&mut rng)));
        tuple.truncate(6);
        let bytes = encode(&tuple);
        assert_eq!(decode(&bytes).unwrap(), tuple, "{}", hex(&bytes));
        assert_ordered(&last, &tuple);
        for index in 0..=tuple.len() {
            assert_eq!(element_at(&bytes, index).as_ref(), tuple.get(index));
        }
        let range = range(&last);
        assert_eq!(range.contains(&bytes), tuple.starts_with(&last), "{} in {}", show(&tuple), show(&last));
        last = tuple;
    }
}

#[test]
fn what_is_accepted_is_canonical() {
    let seed = std::env::var("QUIPU_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2);
    println!("QUIPU_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let likely = [
        0x00, 0x01, 0x02, 0x0b, 0x0c, 0x0d, 0x12, 0x13, 0x14, 0x15, 0x16, 0x1b, 0x1c, 0x1d, 0x21, 0x30, 0x31, 0x32,
        0x7f, 0x80, 0xf6, 0x09, 0x10, 0xfe, 0xff,
    ];
    let mut accepted = 0;
    for round in 0..200_000 {
        let bytes: Vec<u8> = if round % 2 == 0 {
            let mut bytes = encode(&(0..rng.random_range(1..4)).map(|_| random_element(&mut rng)).collect::<Vec<_>>());
            for _ in 0..rng.random_range(0..3) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = likely[rng.random_range(0..likely.len())];
            }
            bytes.truncate(rng.random_range(0..=bytes.len()));
            bytes
        } else {
            (0..rng.random_range(0..12)).map(|_| likely[rng.random_range(0..likely.len())]).collect()
        };
        for index in 0..4 {
            element_at(&bytes, index);
        }
        parts(&bytes).for_each(|part| drop(part.element()));
        if let Ok(elements) = decode(&bytes) {
            accepted += 1;
            assert_eq!(encode(&elements), bytes, "{} was read as {}", hex(&bytes), show(&elements));
        }
    }
    assert!(accepted > 1_000, "only {accepted} inputs were accepted");
}

#[test]
fn all_short_strings_are_refused_or_canonical() {
    for a in 0..=255u8 {
        for b in 0..=255u8 {
            for bytes in
                [&[a][..], &[a, b], &[0x14, a, b], &[0x30, a, b], &[0x30, a, b, 0], &[0x31, a, b, 0], &[0x12, a, b]]
            {
                let part = parts(bytes).next().map(|part| (part, part.element()));
                if let Some((part, Ok(element))) = part
                    && part.is_descending()
                {
                    let mut again = Vec::new();
                    encode_descending_into(&element, &mut again);
                    assert_eq!(again, part.bytes());
                }
                if let Ok(elements) = decode(bytes) {
                    assert_eq!(encode(&elements), bytes);
                }
            }
        }
    }
}

#[test]
fn other_forms_of_a_value_are_refused_with_the_place() {
    let refused: [(&[u8], &str); 11] = [
        (&[0x00], "at byte 0"),
        (&[0x01, 0xff], "at byte 1"),
        (&[0x15, 0x00], "longer than it need be"),
        (&[0x13, 0xff], "longer than it need be"),
        (&[0x1d, 16, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "past 128 bits"),
        (&[0x1d, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0], "longer than it need be"),
        (&[0x1d, 8, 1, 1, 0, 0, 0, 0, 0, 0], "cut short"),
        (&[0x21, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "a negative zero"),
        (&[0x21, 0xff, 0xf8, 0, 0, 0, 0, 0, 1], "an unusual NaN"),
        (&[0x30, 0xff, 0x00], "not UTF-8"),
        (&[0x14, 0x30, b'a', 0x00, 0xff], "cut short at byte 1"),
    ];
    for (bytes, reason) in refused {
        let error = decode(bytes).expect_err(&hex(bytes));
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(reason), "{}: {error}", hex(bytes));
    }
}

#[test]
fn descending_elements_sort_the_other_way_round_whatever_follows() {
    let edges = edges();
    let encoded: Vec<Vec<u8>> = edges
        .iter()
        .map(|element| {
            let mut bytes = Vec::new();
            encode_descending_into(element, &mut bytes);
            bytes
        })
        .collect();
    for (a, a_bytes) in edges.iter().zip(&encoded) {
        let part = parts(a_bytes).next().unwrap();
        assert!(part.is_descending() && part.bytes() == a_bytes && part.element().unwrap() == *a, "{a}");
        for (b, b_bytes) in edges.iter().zip(&encoded) {
            assert_eq!(a_bytes.cmp(b_bytes), b.cmp(a), "{a} {} and {b} {}", hex(a_bytes), hex(b_bytes));
            assert!(a == b || !b_bytes.starts_with(a_bytes), "{a} begins {b}");
        }
    }
}

#[test]
fn tuples_of_both_directions_come_apart_and_have_their_ranges() {
    let seed = quipu_testing::seeds::seed_or(3);
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let directions = [false, true, true, false];
    let encode_mixed = |tuple: &[Element<'_>]| {
        let mut bytes = Vec::new();
        for (element, is_descending) in tuple.iter().zip(directions) {
            match is_descending {
                true => encode_descending_into(element, &mut bytes),
                false => encode_into(std::slice::from_ref(element), &mut bytes),
            }
        }
        bytes
    };
    let mut last: Vec<Element<'static>> = vec![Element::Null; 4];
    for _ in 0..20_000 {
        let kept = rng.random_range(0..4);
        let mut tuple = last[..kept].to_vec();
        tuple.extend((kept..4).map(|_| random_element(&mut rng)));
        let bytes = encode_mixed(&tuple);
        let order = tuple.iter().zip(&last).zip(directions).map(|((a, b), is_descending)| match is_descending {
            true => b.cmp(a),
            false => a.cmp(b),
        });
        let order = order.fold(Ordering::Equal, Ordering::then);
        assert_eq!(bytes.cmp(&encode_mixed(&last)), order, "{} and {}", show(&tuple), show(&last));
        let mut whole = parts(&bytes);
        let elements: Vec<_> = whole.by_ref().map(|part| part.element().unwrap()).collect();
        assert_eq!((elements, whole.rest()), (tuple.clone(), &[][..]));
        for size in 0..4 {
            let start = encode_mixed(&last[..size]);
            let end = [&start[..], &[tag::ESCAPE]].concat();
            assert_eq!((start..end).contains(&bytes), tuple.starts_with(&last[..size]));
        }
        last = tuple;
    }
}

#[test]
fn strings_without_zeros_are_borrowed() {
    let bytes = encode(&["plain".into(), "a\0b".into()]);
    assert!(matches!(element_at(&bytes, 0), Some(Element::Text(Cow::Borrowed("plain")))));
    assert!(matches!(element_at(&bytes, 1), Some(Element::Text(Cow::Owned(text))) if text == "a\0b"));
}

#[test]
fn the_page_is_right() {
    let page = include_str!("../../../docs/internals/format-tuple.md");
    let (_, examples) = page.split_once("## Examples").unwrap();
    let (examples, _) = examples.split_once("\n## ").unwrap();
    let mut read = 0;
    for line in examples.lines().filter(|line| line.starts_with("| `(")) {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let bytes: Vec<u8> = cells[2].split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let elements = decode(&bytes).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(show(&elements), cells[1], "{line}");
        assert_eq!(encode(&elements), bytes, "{line}");
        read += 1;
    }
    assert!(read > 20, "read only {read} examples");
    let (_, descending) = page.split_once("| element, descending |").unwrap();
    let (descending, _) = descending.split_once("\n\n").unwrap();
    let mut read = 0;
    for line in descending.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let bytes: Vec<u8> = cells[2].split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let part = parts(&bytes).next().unwrap_or_else(|| panic!("{line}"));
        assert_eq!((part.element().unwrap().to_string().as_str(), part.bytes()), (cells[1], &bytes[..]), "{line}");
        read += 1;
    }
    assert_eq!(read, 6);
}
