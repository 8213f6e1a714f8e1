use quipu::{Db, Options};
use quipu_rows::{Column, Database, Ordered, TableSchema};

use super::*;

fn notation() -> KeyNotation {
    let columns = [("origin", DataType::TEXT), ("month", DataType::I8), ("delay", DataType::F64)];
    KeyNotation { columns: columns.map(|(name, data_type)| (name.to_owned(), data_type)).to_vec() }
}

fn span(text: &str) -> Result<Span<'static>> {
    notation().span(&shell_words::split(text).unwrap())
}

/// The keys of a small index that lie in a range.
fn within(text: &str) -> String {
    let keys = "EWR,1,0.5 JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0 JFKX,1,1.0 LGA,1,1.0";
    let database = Database::open(&Db::open("/keys", Options::without_files()).unwrap()).unwrap();
    let mut schema = TableSchema::new("t").column(Column::new("id", DataType::I8)).key(["id"]);
    for (name, data_type) in notation().columns {
        schema = schema.column(Column::new(name, data_type));
    }
    let schema = schema.index(quipu_rows::IndexSchema::new("by", ["origin", "month", "delay"]));
    let table = database.create_table(&schema).unwrap();
    for (id, key) in keys.split(' ').enumerate() {
        let mut values = vec![Value::from(id as i8)];
        values.extend(notation().whole_key(&shell_words::single(key).unwrap()).unwrap());
        table.insert(values).unwrap();
    }
    let snapshot = database.snapshot();
    let index = snapshot.table("t").unwrap().index("by").unwrap();
    let rows = index.rows(span(text).unwrap()).unwrap();
    rows.map(|row| notation().show(&index.key_values(&row.unwrap()).unwrap())).collect::<Vec<_>>().join(" ")
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
    // A month below 8 is not NULL, unless that is asked for.
    assert_eq!(within("JFK .. JFK,8"), "JFK,7,null JFK,7,-3.0 JFK,7,2.5");
    assert_eq!(within("JFK,null .. JFK,8"), "JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5");
    assert_eq!(within("..= JFK"), "EWR,1,0.5 JFK,null,null JFK,7,null JFK,7,-3.0 JFK,7,2.5 JFK,8,1.0");
    assert_eq!(within("JFKX .."), "JFKX,1,1.0 LGA,1,1.0");
    assert_eq!(within("L .. E"), "");
}

#[test]
fn ranges_of_strings_hold_what_they_say() {
    use std::ops::RangeBounds;

    let range = |text: &str| string_range(&shell_words::split(text).unwrap());
    let within = |text: &str| {
        let range = range(text).unwrap();
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
    assert_eq!(range(r"\xff\xff").unwrap(), (Bound::Included(vec![0xff, 0xff]), Bound::Unbounded));
    assert_eq!(range(r"a\xff").unwrap(), (Bound::Included(b"a\xff".to_vec()), Bound::Excluded(b"b".to_vec())));
}

#[test]
fn wrong_ranges_are_explained() {
    let error = |text: &str| span(text).unwrap_err().to_string();
    assert_eq!(error("JFK,x"), r#"column month: "x" is not of type i8"#);
    assert_eq!(error("JFK,7,1,2"), "a key of this table has 3 columns, origin,month,delay; here are 4");
    assert_eq!(error("JFK,"), r#"column month: there is nothing; write null, or "" for an empty text"#);
    assert_eq!(error("JFK,7*"), "a star continues text, and this column is not of type text");
    assert_eq!(
        error("origin=JFK"),
        "a key is written as its values alone, without names; put quotes around origin=JFK if it is a text"
    );
    assert_eq!(error("JFK* .. K"), "a star stands for a range of its own, not for an end of one");
    assert_eq!(error("JFK EWR"), r#""EWR" is too much: a range is `a`, `a .. b`, `a ..= b`, `a ..` or `.. b`"#);
    assert_eq!(error("JFK ..="), "there is no key after `..=`");
    assert_eq!(error("a b .. c"), "more than one key stands before `..`");
    assert_eq!(error("a .. b c"), "more than one key follows `..`");
    let star = notation().whole_key(&shell_words::single("JFK,7,1*").unwrap()).unwrap_err();
    assert!(star.to_string().starts_with("a star stands for a range of keys"), "{star}");
    let error = notation().whole_key(&shell_words::single("JFK,7").unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "a key of this table has 3 columns, origin,month,delay; here are 2");
}

#[test]
fn values_are_all_columns_or_some_by_name() {
    let columns = [("carrier".to_owned(), DataType::TEXT), ("seats".to_owned(), DataType::I16)];
    let key = [("flight".to_owned(), DataType::I16)];
    let values = |text: &str| assignments(&shell_words::split(text).unwrap(), &columns, &key);
    assert_eq!(values("B6,150").unwrap(), [(0, Value::from("B6")), (1, Value::Int(150))]);
    assert_eq!(values("seats=150 carrier=B6").unwrap(), [(1, Value::Int(150)), (0, Value::from("B6"))]);
    assert_eq!(values("carrier=\"a b\"").unwrap(), [(0, Value::from("a b"))]);
    assert_eq!(values("null,null").unwrap(), [(0, Value::Null), (1, Value::Null)]);
    let reason = "a row of this table has 2 columns beside its key, carrier,seats; \
                  write all between commas, or some as name=value";
    assert_eq!(values("B6").unwrap_err().to_string(), reason);
    let reason = |text: &str| values(text).unwrap_err().to_string();
    assert_eq!(
        reason("colour=red"),
        r#"there is no column "colour" beside the key; there are carrier,seats; a text with an = stands in quotes"#
    );
    assert_eq!(
        reason("flight=7"),
        "column flight is one of the key, which stands before the values and does not change"
    );
    assert_eq!(reason("carrier=B6,7"), "column carrier: put quotes around a text with a comma or an =");
    assert_eq!(reason("seats=1 seats=2"), "column seats has two values");
    let star = "a star stands for a range of keys; put quotes around a text that ends with one";
    assert_eq!(reason("carrier=B*"), star);
    assert_eq!(reason("B*,1"), star);
    assert_eq!(values("\"carrier=B6\",150").unwrap()[0], (0, Value::from("carrier=B6")));
    assert_eq!(values("\"carrier\"=null carrier=x").unwrap_err().to_string(), "column carrier has two values");
    assert_eq!(values("\"carrier\"=null").unwrap(), [(0, Value::Null)]);
    assert_eq!(values("carrier=\"null\"").unwrap(), [(0, Value::from("null"))]);
    assert_eq!(values("carrier=a=b*\"\"").unwrap(), [(0, Value::from("a=b*"))]);
    assert_eq!(values("B6,many").unwrap_err().to_string(), r#"column seats: "many" is not of type i16"#);
}
