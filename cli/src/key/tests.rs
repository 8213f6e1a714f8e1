use std::ops::RangeBounds;

use quipu_rows::old::Column;

use super::*;

fn schema() -> Schema {
    let columns = [
        ("origin", ColumnType::Text),
        ("month", ColumnType::Int),
        ("delay", ColumnType::Float),
        ("carrier", ColumnType::Text),
        ("seats", ColumnType::Int),
    ]
    .map(|(name, column_type)| Column { name: name.to_owned(), column_type });
    Schema::new(columns.to_vec(), &["origin", "month", "delay"].map(str::to_owned)).unwrap()
}

fn range(text: &str, schema: Option<&Schema>) -> Result<KeyRange> {
    parse_range(&words::split(text).unwrap(), schema)
}

/// The rows of a small table that lie in a range.
fn within(text: &str) -> String {
    let schema = schema();
    let keys =
        ["EWR,1,0.5", "JFK,null,null", "JFK,7,null", "JFK,7,-3.0", "JFK,7,2.5", "JFK,8,1.0", "JFKX,1,1.0", "LGA,1,1.0"];
    let range = range(text, Some(&schema)).unwrap();
    let mut encoded: Vec<Vec<u8>> =
        keys.iter().map(|key| parse(&words::single(key).unwrap(), Some(&schema)).unwrap()).collect();
    assert!(encoded.is_sorted());
    encoded.retain(|key| range.contains(key));
    encoded.iter().map(|key| show(key, Some(&schema))).collect::<Vec<_>>().join(" ")
}

#[test]
fn ranges_of_partial_keys_hold_what_they_say() {
    let all = "EWR,1,0.5 JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0 JFKX,1,1.0 LGA,1,1.0";
    assert_eq!(within(""), all);
    assert_eq!(within(".."), all);
    assert_eq!(within("JFK"), "JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0");
    assert_eq!(within("JFK*"), "JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0 JFKX,1,1.0");
    assert_eq!(within("JFK,7"), "JFK,7,null JFK,7,-3.0 JFK,7,2.5");
    assert_eq!(within("JFK,7 .. JFK,8"), "JFK,7,null JFK,7,-3.0 JFK,7,2.5");
    assert_eq!(within("JFK,7 ..= JFK,8"), "JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0");
    assert_eq!(within("JFK,7,-999 ..= JFK,7"), "JFK,7,-3.0 JFK,7,2.5", "known delays");
    assert_eq!(within(".. JFK"), "EWR,1,0.5");
    assert_eq!(within("..= JFK"), "EWR,1,0.5 JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0");
    assert_eq!(within("JFKX .."), "JFKX,1,1.0 LGA,1,1.0");
    assert_eq!(within("L .. E"), "");
}

#[test]
fn ranges_of_strings_hold_what_they_say() {
    let within = |text: &str| {
        let range = range(text, None).unwrap();
        ["a", "a,b", "ab", "ac", "b"]
            .into_iter()
            .filter(|key| range.contains(&key.as_bytes().to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(within("a"), ["a", "a,b", "ab", "ac"]);
    assert_eq!(within("a*"), ["a", "a,b", "ab", "ac"]);
    assert_eq!(within("a,"), ["a,b"]);
    assert_eq!(within("a .. ab"), ["a", "a,b"]);
    assert_eq!(within("a ..= ab"), ["a", "a,b", "ab"]);
    assert_eq!(within("ab .."), ["ab", "ac", "b"]);
    assert_eq!(range(r"\xff\xff", None).unwrap(), (Bound::Included(vec![0xff, 0xff]), Bound::Unbounded));
    assert_eq!(range(r"a\xff", None).unwrap(), (Bound::Included(b"a\xff".to_vec()), Bound::Excluded(b"b".to_vec())));
}

#[test]
fn wrong_ranges_are_explained() {
    let schema = schema();
    let error = |text: &str| range(text, Some(&schema)).unwrap_err().to_string();
    assert_eq!(error("JFK,x"), r#"column month: "x" is not of type int"#);
    assert_eq!(error("JFK,7,1,2"), "a key of this table has 3 columns, origin,month,delay; here are 4");
    assert_eq!(error("JFK,"), r#"column month: there is nothing; write null, or "" for an empty text"#);
    assert_eq!(error("JFK,7*"), "a star continues text, and this column is not of type text");
    assert_eq!(error("JFK EWR"), r#""EWR" is too much: a range is `a`, `a .. b`, `a ..= b`, `a ..` or `.. b`"#);
    assert_eq!(error("JFK ..="), "there is no key behind `..=`");
    assert_eq!(error("a b .. c"), "more than one key stands before `..`");
    assert_eq!(error("a .. b c"), "more than one key stands behind `..`");
    let error = parse(&words::single("JFK,7").unwrap(), Some(&schema)).unwrap_err();
    assert_eq!(error.to_string(), "a key of this table has 3 columns, origin,month,delay; here are 2");
}

#[test]
fn values_are_all_columns_or_some_by_name() {
    let schema = schema();
    let value = |text: &str| parse_value(&words::split(text).unwrap(), Some(&schema));
    let expected = tuple::encode(&[Element::from("B6"), Element::Int(150)]);
    assert_eq!(value("B6,150").unwrap(), expected);
    assert_eq!(value("seats=150 carrier=B6").unwrap(), expected);
    assert_eq!(value("carrier=\"a b\"").unwrap(), tuple::encode(&[Element::from("a b"), Element::Null]));
    assert_eq!(value("null,null").unwrap(), tuple::encode(&[Element::Null, Element::Null]));
    let reason = "a value of this table has 2 columns, carrier,seats; write all between commas, or some as name=value";
    assert_eq!(value("B6").unwrap_err().to_string(), reason);
    assert_eq!(value("colour=red").unwrap_err().to_string(), reason);
    assert_eq!(value("B6,many").unwrap_err().to_string(), r#"column seats: "many" is not of type int"#);
    assert_eq!(parse_value(&words::split("two words").unwrap(), None).unwrap(), b"two words");
}
