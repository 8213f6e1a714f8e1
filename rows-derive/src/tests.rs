//! Structs that the macro refuses: each message says which field, attribute or name, and points at it.

use syn::DeriveInput;

use crate::read;

/// The messages of what is wrong with a struct, each with the text that it points at.
fn wrong(text: &str) -> Vec<(String, String)> {
    let input: DeriveInput = syn::parse_str(text).expect("it is Rust");
    let Err(error) = read::record(&input) else { panic!("nothing is wrong with {text}") };
    let at = |error: &syn::Error| error.span().source_text().unwrap_or_default();
    error.into_iter().map(|error| (error.to_string(), at(&error))).collect()
}

/// The one thing that is wrong.
#[track_caller]
fn assert_wrong(text: &str, message: &str, at: &str) {
    assert_eq!(wrong(text), [(message.to_owned(), at.to_owned())], "{text}");
}

/// A struct with a key, of these attributes and of one more field.
fn with(table: &str, field: &str) -> String {
    format!("#[table({table})] struct Flight {{ #[column(primary_key)] number: i32, {field} }}")
}

#[test]
fn only_structs_with_named_fields_are_records() {
    let kind =
        |kind: &str| format!("`Flight` is {kind}: a record is a struct with named fields, which are its columns");
    assert_wrong("struct Flight(i32);", &kind("a struct whose fields have no names"), "Flight");
    assert_wrong("struct Flight;", &kind("a struct without fields"), "Flight");
    assert_wrong("enum Flight { On }", &kind("an enum"), "Flight");
    assert_wrong("union Flight { a: u8 }", &kind("a union"), "Flight");
    let parameters = "a record has no parameters: its fields own their values, and each has one type";
    assert_wrong("struct Flight<'a> { name: &'a str }", parameters, "'a");
    assert_wrong("struct Flight<T> { name: T }", parameters, "T");
    let none = "the struct has no field that is a column";
    assert_wrong("struct Flight { #[column(skip)] name: String }", none, "Flight");
}

#[test]
fn a_primary_key_is_said_once_and_is_not_null() {
    let none = "`Flight` has no primary key: write #[table(primary_key(...))] before the struct, or \
                #[column(primary_key)] before a field";
    assert_wrong("struct Flight { number: i32 }", none, "Flight");
    let second = "a second field of the primary key: write #[table(primary_key(first, second))] before the struct, \
                  which says their order";
    assert_wrong(&with("", "#[column(primary_key)] day: i32"), second, "primary_key");
    let twice = "the struct's attribute says the primary key already: say it in one place";
    assert_wrong(&with("primary_key(number)", ""), twice, "primary_key");
    let optional = "field `day` is of the primary key, which is never NULL: no Option here";
    let text = "#[table(primary_key(day))] struct Flight { day: Option<i32> }";
    assert_wrong(text, optional, "Option<i32>");
    let unknown = "there is no field `date`; there are day";
    assert_wrong("#[table(primary_key(date))] struct Flight { day: i32 }", unknown, "date");
    let named = "`day` is named twice in the primary key";
    assert_wrong("#[table(primary_key(day, day desc))] struct Flight { day: i32 }", named, "day");
    let order = "expected asc or desc after `day`";
    assert_wrong("#[table(primary_key(day down))] struct Flight { day: i32 }", order, "down");
    let expression = "a primary key is of fields, not expressions";
    let found = wrong("#[table(primary_key(\"lower(day)\"))] struct Flight { day: i32 }");
    assert_eq!(found, [(expression.to_owned(), "\"lower(day)\"".to_owned())]);
    let empty = "the primary key has no fields: primary_key(first, second desc)";
    assert_wrong("#[table(primary_key())] struct Flight { day: i32 }", empty, "Flight");
    let fields: Vec<String> = (0..9).map(|number| format!("f{number}: i32")).collect();
    let names: Vec<String> = (0..9).map(|number| format!("f{number}")).collect();
    let many = format!("#[table(primary_key({}))] struct Flight {{ {} }}", names.join(", "), fields.join(", "));
    assert_wrong(&many, "the primary key of a record has at most 8 fields", "Flight");
}

#[test]
fn attributes_of_a_field_are_known_and_go_together() {
    let column = |attribute: &str| with("", &format!("#[column({attribute})] day: i32"));
    let known = "rename, type, primary_key, unique, index, default, check, identity, references and skip";
    let unknown = format!("`nullable` is not an attribute of #[column]; there are {known}");
    assert_wrong(&column("nullable"), &unknown, "nullable");
    assert_wrong(&column("rename = \"a\", rename = \"b\""), "`rename` is said twice", "rename");
    let skipped = "field `day` is skipped: it is not a column, and has no other attribute";
    assert_wrong(&column("skip, index"), skipped, "skip");
    let both = "a unique index is an index already: `unique` alone is enough";
    assert_wrong(&column("unique, index"), both, "index");
    let default = "a default is a number, true or false, or an expression in quotes: \"'open'\" is a text";
    assert_wrong(&column("default = 'x'"), default, "'x'");
    assert_wrong(&column("default = -true"), default, "true");
    assert_wrong(&column("default = 7u8"), default, "7u8");
    let identity = "expected `identity = always` or `identity = by_default`";
    assert_wrong(&column("identity = sometimes"), identity, "sometimes");
    let both = "field `day` has numbers of the table, and so no default";
    assert_wrong(&column("identity, default = 1"), both, "identity");
    let optional = with("", "#[column(identity)] day: Option<i32>");
    let never = "field `day` has numbers of the table, which are never NULL: no Option here";
    assert_wrong(&optional, never, "Option<i32>");
    let types = wrong(&column("type = \"decimal(2,3)\""));
    assert_eq!(types.len(), 1);
    assert!(types[0].0.starts_with("\"decimal(2,3)\" is not a type of a column; there are bool, i8"), "{types:?}");
    assert_eq!(types[0].1, "\"decimal(2,3)\"");
    let action = "`ignore` is not an action; there are restrict, cascade and set_null";
    assert_wrong(&column("references(Day, on_delete = ignore)"), action, "ignore");
    let twice = "`on_delete` is said twice";
    assert_wrong(&column("references(Day, on_delete = cascade, on_delete = restrict)"), twice, "on_delete");
    let word = "expected a column, on_delete = ... or on_update = ...";
    assert_wrong(&column("references(Day, on_drop = cascade)"), word, "on_drop");
}

#[test]
fn attributes_of_a_table_are_known_and_name_fields() {
    let known = "name, primary_key, index, check, foreign_key, sum, comment, in_memory and compressed";
    let unknown = format!("`unlogged` is not an attribute of #[table]; there are {known}");
    assert_wrong(&with("unlogged", ""), &unknown, "unlogged");
    let names = "there is no field `dya`; there are number, day";
    let day = "day: i32";
    assert_wrong(&with("index(name = \"i\", columns(day, dya desc))", day), names, "dya");
    assert_wrong(&with("index(name = \"i\", columns(day), include(dya))", day), names, "dya");
    assert_wrong(&with("index(name = \"i\", columns(day), sum = dya)", day), names, "dya");
    assert_wrong(&with("sum = dya", day), names, "dya");
    let to = "foreign_key(name = \"f\", columns(dya), references(Day))";
    assert_wrong(&with(to, day), names, "dya");
    let needs = "an index needs columns: index(name = \"...\", columns(...))";
    assert_wrong(&with("index(name = \"i\")", day), needs, "index(name = \"i\")");
    let needs = "an index needs a name: index(name = \"...\", columns(...))";
    assert_wrong(&with("index(columns(day))", day), needs, "index(columns(day))");
    let needs = "a check needs both: check(name = \"...\", condition = \"...\")";
    assert_wrong(&with("check(name = \"c\")", day), needs, "check(name = \"c\")");
    let needs = "a foreign key needs all of: foreign_key(name = \"...\", columns(...), references(...))";
    let part = "foreign_key(name = \"f\", columns(day))";
    assert_wrong(&with(part, day), needs, part);
    let part = "`where` is not an attribute of an index; there are name, columns, unique, include, predicate and sum";
    assert_wrong(&with("index(name = \"i\", columns(day), where = \"true\")", day), part, "where");
    let count = "a foreign key has as many fields as it refers to columns, not 2 and 1";
    let to = "foreign_key(name = \"f\", columns(number, day), references(Day, day))";
    assert_wrong(&with(to, day), count, "\"f\"");
    let skipped = "field `day` is skipped: it is not a column";
    assert_wrong(&with("sum = day", "#[column(skip)] day: i32"), skipped, "day");
}

#[test]
fn names_are_there_once() {
    assert_wrong(
        &with("", "#[column(rename = \"number\")] day: i32"),
        "two columns have the name `number`",
        "\"number\"",
    );
    let twice = "two indexes or constraints have the name `day`; give one another";
    let text = with("index(name = \"day\", columns(number, day))", "#[column(index)] day: i32");
    assert_wrong(&text, twice, "\"day\"");
    let text = with("", "#[column(unique = \"day_check\", check = \"day > 0\")] day: i32");
    assert_wrong(&text, "two indexes or constraints have the name `day_check`; give one another", "\"day > 0\"");
    let empty = "the name of a column has 1 to 128 bytes, not 0";
    assert_wrong(&with("", "#[column(rename = \"\")] day: i32"), empty, "\"\"");
    let control = "the name \"a\\n\" of a table has a control character";
    assert_wrong(&with("name = \"a\\n\"", ""), control, "\"a\\n\"");
}

#[test]
fn all_that_is_wrong_is_told_together() {
    let text = "#[table(nam = \"x\")] struct Flight { #[column(kee)] a: i32, #[column(identity, default = 1)] b: i32 }";
    let found = wrong(text);
    let at: Vec<&str> = found.iter().map(|(_, at)| &**at).collect();
    assert_eq!(at, ["nam", "kee", "identity"]);
}

#[test]
fn a_table_without_a_name_has_that_of_its_struct() {
    for (name, table) in [("Flight", "flight"), ("FlightDelay", "flight_delay"), ("HTTPRequest2", "http_request2")] {
        let text = format!("struct {name} {{ #[column(primary_key)] a: i32 }}");
        let input: DeriveInput = syn::parse_str(&text).unwrap();
        assert_eq!(read::record(&input).unwrap().table, table);
    }
}
