//! Statements change rows, or refuse with a message that says which table, row and column, and what was expected.

use quipu::{Db, ErrorKind, Options};
use quipu_rows::{
    Action, Column, Constraint, DataType, Database, Date, Decimal, ForeignKey, Identity, IndexSchema, Ordered, Span,
    TableSchema, Value, Violation,
};

fn database() -> Database {
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

fn towns() -> TableSchema {
    TableSchema::new("towns")
        .column(Column::new("name", DataType::TEXT))
        .column(Column::new("country", DataType::TEXT).not_null())
        .column(Column::new("people", DataType::I32).default("0"))
        .column(Column::new("mayor", DataType::TEXT))
        .key(["name"])
        .index(IndexSchema::new("country", ["country", "people desc"]))
        .index(IndexSchema::new("mayor", ["lower(mayor)"]).unique())
        .check("people_are_counted", "people >= 0")
}

/// The message of an error, and the constraint that it comes from.
fn refused<T: std::fmt::Debug>(result: quipu::Result<T>) -> (String, Option<Constraint>) {
    let error = result.unwrap_err();
    (error.to_string(), Violation::of(&error).map(|violation| violation.constraint))
}

#[test]
fn rows_come_and_go_with_their_entries() {
    let database = database();
    let towns = database.create_table(&towns()).unwrap();
    towns.insert(("Cusco", "PE", 428_450, "Ana")).unwrap();
    towns.insert(("Lima", "PE", 10_000_000, None::<&str>)).unwrap();
    towns.insert(("Bern", "CH", 134_000, "Bo")).unwrap();
    let by_country = |country: &str| -> Vec<String> {
        let now = database.snapshot();
        let index = now.table("towns").unwrap().index("country").unwrap();
        let rows = index.rows(Span::eq(country)).unwrap();
        rows.map(|row| row.unwrap().get("name").unwrap().to_string()).collect()
    };
    assert_eq!(by_country("PE"), ["\"Lima\"", "\"Cusco\""]);
    assert!(towns.update("Cusco", &[("people", Value::Int(20_000_000))]).unwrap());
    assert_eq!(by_country("PE"), ["\"Cusco\"", "\"Lima\""]);
    assert!(towns.put(("Cusco", "CH", 7, "Ana")).unwrap());
    assert!(!towns.put(("Arequipa", "PE", 1_000_000, None::<&str>)).unwrap());
    assert_eq!(by_country("PE"), ["\"Lima\"", "\"Arequipa\""]);
    assert_eq!(by_country("CH"), ["\"Bern\"", "\"Cusco\""]);
    assert!(towns.update("Bern", &[("name", "Biel".into())]).unwrap());
    assert_eq!(by_country("CH"), ["\"Biel\"", "\"Cusco\""]);
    assert!(towns.delete("Lima").unwrap() && !towns.delete("Lima").unwrap());
    assert!(!towns.update("Lima", &[("people", Value::Int(1))]).unwrap());
    assert_eq!(towns.len().unwrap(), 3);
    let row = towns.insert_columns(&["country", "name"], ("PE", "Puno")).unwrap();
    assert_eq!(row.values().unwrap(), ["Puno".into(), "PE".into(), Value::Int(0), Value::Null]);
    let now = database.snapshot();
    let mayor = now.table("towns").unwrap().index("mayor").unwrap();
    assert_eq!(mayor.get("ANA").unwrap().map(|row| format!("{row:?}")), None, "an index by lower case has no capitals");
    let ana = mayor.get("ana").unwrap().unwrap();
    assert_eq!(format!("{ana:?}"), "towns { name: \"Cusco\", country: \"CH\", people: 7, mayor: \"Ana\" }");
}

#[test]
fn what_a_statement_refuses_is_told_and_changes_nothing() {
    let database = database();
    let towns = database.create_table(&towns()).unwrap();
    towns.insert(("Cusco", "PE", 1, "Ana")).unwrap();
    towns.insert(("Lima", "PE", 2, "Bo")).unwrap();
    let (none, number) = (None::<&str>, None::<i32>);
    for (result, message, constraint) in [
        (
            towns.insert(("Cusco", "PE", 1, none)),
            "table towns, row (\"Cusco\"): a row of this key is there already",
            Some(Constraint::PrimaryKey),
        ),
        (
            towns.insert(("Bern", none, 1, none)),
            "table towns, row (\"Bern\"), column country: NULL in a column that is NOT NULL",
            Some(Constraint::NotNull),
        ),
        (
            towns.insert((none, "CH", 1, none)),
            "table towns, row (NULL), column name: NULL in a column that is NOT NULL",
            Some(Constraint::NotNull),
        ),
        (
            towns.insert(("Bern", "CH", "many", none)),
            "table towns, row (\"Bern\"), column people: \"many\" is text, expected i32",
            Some(Constraint::Type),
        ),
        (
            towns.insert(("Bern", "CH", 1i64 << 40, none)),
            "table towns, row (\"Bern\"), column people: 1099511627776 is out of the range of i32, \
             -2147483648 to 2147483647",
            Some(Constraint::Type),
        ),
        (
            towns.insert(("Bern", "CH", -1, none)),
            "table towns, row (\"Bern\"): check people_are_counted fails: people >= 0, with people = -1",
            Some(Constraint::Check),
        ),
        (
            towns.insert(("Bern", "CH", number, "ANA")),
            "table towns, row (\"Bern\"): another row, (\"Cusco\"), has lower(mayor) = \"ana\" in the unique index mayor",
            Some(Constraint::Unique),
        ),
        (
            towns.insert(("Bern", "CH", 1)),
            "table towns, row (\"Bern\", \"CH\", 1): 3 values for 4 columns: name, country, people, mayor",
            None,
        ),
        (
            towns.put(("Lima", "CH", 1, "ana")).map(drop),
            "table towns, row (\"Lima\"): another row, (\"Cusco\"), has lower(mayor) = \"ana\" in the unique index mayor",
            Some(Constraint::Unique),
        ),
        (
            towns.update("Lima", &[("name", "Cusco".into())]).map(drop),
            "table towns, row (\"Cusco\"): a row of this key is there already",
            Some(Constraint::PrimaryKey),
        ),
        (
            towns.update("Lima", &[("peoples", 1.into())]).map(drop),
            "table towns: there is no column \"peoples\"; the columns are name, country, people, mayor",
            None,
        ),
        (towns.get((1, 2)).map(drop), "2 values for the key of table towns, which has 1 column: name", None),
        (towns.delete(7).map(drop), "table towns, column name: 7 is an integer, expected text", None),
    ] {
        assert_eq!(refused(result), (message.to_owned(), constraint));
    }
    assert_eq!(towns.len().unwrap(), 2);
    assert_eq!(towns.with_index("country", |index| index.len()).unwrap(), 2);
    assert_eq!(towns.with_index("mayor", |index| index.len()).unwrap(), 2);
    assert_eq!(towns.get("Lima").unwrap().unwrap().get("people").unwrap(), Value::Int(2));
}

#[test]
fn a_refused_statement_leaves_its_transaction_as_it_was() {
    let database = database();
    database.create_table(&towns()).unwrap();
    let transaction = database.begin();
    let in_transaction = transaction.table("towns").unwrap();
    in_transaction.insert(("Cusco", "PE", 1, "Ana")).unwrap();
    for _ in 0..2 {
        in_transaction.insert(("Lima", "PE", 2, "ANA")).unwrap_err();
        in_transaction.update("Cusco", &[("people", Value::Int(-1))]).unwrap_err();
    }
    assert!(!in_transaction.contains("Lima").unwrap());
    in_transaction.insert(("Lima", "PE", 2, "Bo")).unwrap();
    in_transaction.update("Lima", &[("name", "Cusco".into()), ("mayor", "ana".into())]).unwrap_err();
    drop(in_transaction);
    transaction.commit().unwrap();
    let towns = database.table("towns").unwrap();
    assert_eq!(towns.count(Span::all()).unwrap(), 2);
    assert_eq!(towns.with_index("mayor", |index| index.len()).unwrap(), 2);
    assert_eq!(towns.with_index("country", |index| index.count(Span::eq("PE"))).unwrap(), 2);
}

/// Work that fails is undone, and what came before it stays. Work that has taken away its own way back leaves a
/// transaction that can only be rolled back: it could have been committed with a part of the work.
#[test]
fn work_of_several_statements_is_done_as_a_whole_or_not_at_all() {
    let database = database();
    let towns = database.create_table(&towns()).unwrap();
    let transaction = database.begin();
    let within = transaction.table("towns").unwrap();
    within.insert(("Lima", "PE", 1, None::<&str>)).unwrap();
    let twice = transaction.all_or_none(|| {
        within.insert(("Cusco", "PE", 1, None::<&str>))?;
        within.insert(("Lima", "PE", 2, None::<&str>))
    });
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(within.len().unwrap(), 1);
    transaction.all_or_none(|| within.insert(("Bern", "CH", 1, None::<&str>))).unwrap();
    transaction.commit().unwrap();
    assert_eq!(towns.len().unwrap(), 2);

    let transaction = database.begin();
    let within = transaction.table("towns").unwrap();
    let before = transaction.savepoint();
    let lost = transaction.all_or_none(|| {
        transaction.rollback_to(before)?;
        within.insert(("Cusco", "PE", 1, None::<&str>))?;
        within.insert(("Lima", "PE", 2, None::<&str>))
    });
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(towns.len().unwrap(), 2);
}

#[test]
fn numbers_are_given_out_once_and_ascend() {
    let database = database();
    let schema = TableSchema::new("orders")
        .column(Column::new("id", DataType::I64).identity(Identity::ByDefault))
        .column(Column::new("item", DataType::TEXT))
        .key(["id"]);
    let orders = database.create_table(&schema).unwrap();
    orders.insert((None::<i64>, "a")).unwrap();
    assert_eq!(orders.insert_columns(&["item"], "b").unwrap().get("id").unwrap(), Value::Int(2));
    orders.insert((7, "c")).unwrap();
    assert_eq!(orders.insert_columns(&["item"], "d").unwrap().get("id").unwrap(), Value::Int(8));
    // Another row of the number is refused, and the number that a transaction gave back is given out again.
    orders.insert((8, "e")).unwrap_err();
    let rolled_back = database.write(|transaction| {
        let row = transaction.table("orders")?.insert_columns(&["item"], "f")?;
        assert_eq!(row.get("id")?, Value::Int(9));
        Err::<(), _>(quipu::Error::new(ErrorKind::Invalid, "never mind"))
    });
    rolled_back.unwrap_err();
    assert_eq!(orders.insert_columns(&["item"], "g").unwrap().get("id").unwrap(), Value::Int(9));
    // A table without a key has a hidden one.
    let events =
        database.create_table(&TableSchema::new("events").column(Column::new("what", DataType::TEXT))).unwrap();
    events.insert("x").unwrap();
    events.insert("x").unwrap();
    let row = events.get(2).unwrap().unwrap();
    assert_eq!((row.values().unwrap(), row.get("rowid").unwrap()), (vec!["x".into()], Value::Int(2)));
    let brought = events.insert_columns(&["rowid", "what"], (5, "x"));
    assert_eq!(
        refused(brought).0,
        "table events, row (NULL), column rowid: 5 for a column that always has a number of the table; \
         give NULL or leave it out"
    );
}

#[test]
fn numbers_are_not_given_out_again_after_a_crash() {
    let disk = quipu::io::sim::SimDisk::new();
    let options = || Options { disk: std::sync::Arc::new(disk.clone()), ..Options::without_files() };
    let last = |times: usize| {
        let database = Database::open(&Db::open("/rows", options()).unwrap()).unwrap();
        let events = match database.open_table("events").unwrap() {
            Some(events) => events,
            None => {
                let schema = TableSchema::new("events").column(Column::new("what", DataType::TEXT));
                database.create_table(&schema).unwrap()
            }
        };
        let row = (0..times).map(|_| events.insert_columns(&["what"], "x").unwrap()).last().unwrap();
        match row.get("rowid").unwrap() {
            Value::Int(number) => number,
            other => panic!("{other}"),
        }
    };
    assert_eq!((last(3), last(2_500), last(1)), (3, 2_503, 2_504));
}

#[test]
fn rows_that_refer_to_others_need_them() {
    let database = database();
    let carriers = TableSchema::new("carriers")
        .column(Column::new("code", DataType::TEXT))
        .column(Column::new("name", DataType::TEXT))
        .key(["code"])
        .index(IndexSchema::new("name", ["name"]).unique());
    let flights = TableSchema::new("flights")
        .column(Column::new("number", DataType::I32))
        .column(Column::new("carrier", DataType::TEXT))
        .column(Column::new("partner", DataType::TEXT))
        .column(Column::new("owner", DataType::TEXT))
        .key(["number"])
        .foreign_key(ForeignKey::new("of_carrier", ["carrier"], "carriers").on_update(Action::Cascade))
        .foreign_key(ForeignKey::new("of_partner", ["partner"], "carriers").on_delete(Action::SetNull))
        .foreign_key(
            ForeignKey::new("of_owner", ["owner"], "carriers")
                .references(["name"])
                .on_delete(Action::Cascade)
                .on_update(Action::SetNull),
        );
    let missing = database.create_table(&flights).err().unwrap();
    assert_eq!((missing.kind(), missing.to_string()), {
        (ErrorKind::Missing, "foreign key of_carrier: there is no table \"carriers\"".to_owned())
    });
    let carriers = database.create_table(&carriers).unwrap();
    let flights = database.create_table(&flights).unwrap();
    for (code, name) in [("AA", "American"), ("B6", "JetBlue"), ("UA", "United")] {
        carriers.insert((code, name)).unwrap();
    }
    let none = None::<&str>;
    flights.insert((1, "AA", "B6", "United")).unwrap();
    flights.insert((2, "AA", none, none)).unwrap();
    flights.insert((3, none, none, "United")).unwrap();
    let wrong = refused(flights.insert((4, "XX", none, none)));
    let message = "table flights, row (4): foreign key of_carrier: there is no row (\"XX\") in table carriers";
    assert_eq!(wrong, (message.to_owned(), Some(Constraint::ForeignKey)));
    refused(flights.update(2, &[("partner", "XX".into())]));
    let restricted = refused(carriers.delete("AA"));
    let message =
        "table carriers, row (\"AA\"): foreign key of_carrier of table flights: 2 rows refer to (\"AA\")".to_owned();
    assert_eq!(restricted, (message, Some(Constraint::ForeignKey)));
    // What refers to it changes with it.
    carriers.update("AA", &[("code", "A1".into())]).unwrap();
    let row = |number: i32| {
        flights
            .get(number)
            .unwrap()
            .map(|row| row.view().unwrap().values().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(row(1).unwrap(), "1 \"A1\" \"B6\" \"United\"");
    carriers.delete("B6").unwrap();
    assert_eq!(row(1).unwrap(), "1 \"A1\" NULL \"United\"");
    carriers.update("UA", &[("name", "Untied".into())]).unwrap();
    assert_eq!((row(1).unwrap(), row(3).unwrap()), ("1 \"A1\" NULL NULL".to_owned(), "3 NULL NULL NULL".to_owned()));
    flights.update(3, &[("owner", "Untied".into())]).unwrap();
    carriers.delete("UA").unwrap();
    assert_eq!((row(3), flights.len().unwrap()), (None, 2));
    let used = database.drop_table("carriers").unwrap_err().to_string();
    assert_eq!(used, "table carriers cannot be dropped: foreign keys of flights refer to it");
    assert!(database.drop_table("flights").unwrap() && database.drop_table("carriers").unwrap());
}

#[test]
fn foreign_keys_between_integers_of_other_widths_compare_numbers() {
    let database = database();
    let parent = |name: &str, data_type| TableSchema::new(name).column(Column::new("id", data_type)).key(["id"]);
    let child = |name: &str, parent: &str, data_type| {
        let foreign_key = ForeignKey::new(format!("{name}_of"), ["of"], parent).on_update(Action::Cascade);
        let id = Column::new("id", DataType::I8);
        TableSchema::new(name).column(id).column(Column::new("of", data_type)).key(["id"]).foreign_key(foreign_key)
    };
    let narrow = database.create_table(&parent("narrow", DataType::I32)).unwrap();
    let wide = database.create_table(&parent("wide", DataType::I64)).unwrap();
    let to_narrow = database.create_table(&child("to_narrow", "narrow", DataType::I64)).unwrap();
    let to_wide = database.create_table(&child("to_wide", "wide", DataType::I32)).unwrap();
    narrow.insert(7).unwrap();
    wide.insert(7).unwrap();
    to_narrow.insert((1, 7)).unwrap();
    to_wide.insert((1, 7)).unwrap();
    // No row of the other table can have this number.
    let refused = |result: quipu::Result<bool>| Violation::of(&result.unwrap_err()).unwrap().constraint;
    let beyond = i64::from(i32::MAX) + 1;
    assert_eq!(refused(to_narrow.update(1, &[("of", Value::from(beyond))])), Constraint::ForeignKey);
    // A number that the rows that refer to it cannot hold.
    assert_eq!(refused(wide.update(7, &[("id", Value::from(beyond))])), Constraint::Type);
    assert!(wide.contains(7).unwrap() && !wide.contains(beyond).unwrap(), "it fails as a whole");
    assert!(wide.update(7, &[("id", Value::from(8))]).unwrap() && narrow.update(7, &[("id", Value::from(8))]).unwrap());
    for table in ["to_narrow", "to_wide"] {
        assert_eq!(database.table(table).unwrap().get(1).unwrap().unwrap().get("of").unwrap(), Value::Int(8));
    }
    assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn rows_of_one_table_may_refer_to_each_other() {
    let database = database();
    let schema = TableSchema::new("people")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("boss", DataType::I32))
        .key(["id"])
        .foreign_key(ForeignKey::new("has_boss", ["boss"], "people").on_delete(Action::Cascade));
    let people = database.create_table(&schema).unwrap();
    people.insert((0, 0)).unwrap();
    for id in 1..2_000 {
        people.insert((id, id - 1)).unwrap();
    }
    people.insert((5_000, 7_000)).unwrap_err();
    assert_eq!(people.len().unwrap(), 2_000);
    people.update(1_000, &[("boss", Value::Int(1_999))]).unwrap();
    assert!(people.delete(1_500).unwrap(), "a circle, and a chain of a thousand rows");
    assert_eq!(people.len().unwrap(), 1_000);
    assert!(people.delete(0).unwrap());
    assert!(people.is_empty().unwrap());
}

#[test]
fn positions_sums_and_groups_are_those_of_an_index() {
    let database = database();
    let schema = TableSchema::new("sales")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("shop", DataType::TEXT))
        .column(Column::new("day", DataType::Date).not_null())
        .column(Column::new("amount", DataType::Decimal { precision: 10, scale: 2 }))
        .key(["id"])
        .index(IndexSchema::new("shop", ["shop", "day desc"]).sum("amount"))
        .sum("amount");
    let sales = database.create_table(&schema).unwrap();
    database
        .write(|transaction| {
            let sales = transaction.table("sales")?;
            for id in 0..1_000 {
                let shop = if id % 10 == 9 { None } else { Some(["north", "south", "west"][id as usize % 3]) };
                let amount = Decimal::new(i128::from(id) * 5, 2);
                sales.insert((id, shop, Date::from_days(16_000 + id % 7).unwrap(), amount))?;
            }
            Ok(())
        })
        .unwrap();
    let now = database.snapshot();
    let table = now.table("sales").unwrap();
    let index = table.index("shop").unwrap();
    let expected = |wanted: &dyn Fn(i32) -> bool| -> (u64, Value<'static>) {
        let ids: Vec<i32> = (0..1_000).filter(|&id| wanted(id)).collect();
        let sum: i128 = ids.iter().map(|&id| i128::from(id) * 5).sum();
        (ids.len() as u64, Decimal::new(sum, 2).unwrap().into())
    };
    assert_eq!(table.tally(Span::ge(200).and_lt(300)).unwrap(), expected(&|id| (200..300).contains(&id)));
    let south = |id: i32| id % 10 != 9 && id % 3 == 1;
    assert_eq!(index.tally(Span::eq("south")).unwrap(), expected(&south));
    let days =
        Span::gt(("south", Date::from_days(16_005).unwrap())).and_le(("south", Date::from_days(16_002).unwrap()));
    assert_eq!(index.tally(&days).unwrap(), expected(&|id| south(id) && (2..5).contains(&(id % 7))));
    let groups: Vec<(String, u64, Value<'_>)> = index
        .groups(.., 1)
        .unwrap()
        .map(|group| group.unwrap())
        .map(|group| (group.values[0].to_string(), group.rows, group.sum.unwrap()))
        .collect();
    let group = |name: &str, wanted: &dyn Fn(i32) -> bool| {
        let (rows, sum) = expected(wanted);
        (name.to_owned(), rows, sum)
    };
    assert_eq!(
        groups,
        [
            group("NULL", &|id| id % 10 == 9),
            group("\"north\"", &|id| id % 10 != 9 && id % 3 == 0),
            group("\"south\"", &south),
            group("\"west\"", &|id| id % 10 != 9 && id % 3 == 2),
        ]
    );
    assert_eq!(index.groups(&days, 2).unwrap().count(), 3);
    assert_eq!(index.groups(.., 4).err().unwrap().kind(), ErrorKind::Invalid);
    // Ranks and offsets are each other's inverse, forwards and backwards.
    let total = index.count(Span::eq("west")).unwrap();
    let before = index.rank("west").unwrap();
    for offset in [0, 1, total / 2, total - 1] {
        let row = index.nth(Span::eq("west"), offset).unwrap().unwrap();
        let key = (row.get("shop").unwrap(), row.get("day").unwrap(), row.get("id").unwrap());
        assert_eq!(index.rank(key).unwrap(), before + offset);
        let back = index.nth_back(Span::eq("west"), total - 1 - offset).unwrap().unwrap();
        assert_eq!(back.get("id").unwrap(), row.get("id").unwrap());
        assert_eq!(
            index.entries().nth(.., before + offset).unwrap().unwrap().get("id").unwrap(),
            row.get("id").unwrap()
        );
    }
    assert!(index.nth(Span::eq("west"), total).unwrap().is_none());
    assert!(index.nth_back(Span::eq("west"), total).unwrap().is_none());
    let parts = index.split(.., 7).unwrap();
    assert_eq!(parts.len(), 7);
    let median = index.quantile(Span::eq("west"), 0.5).unwrap().unwrap();
    assert_eq!(median.get("id").unwrap(), index.nth(Span::eq("west"), total / 2).unwrap().unwrap().get("id").unwrap());
    let forwards: Vec<_> = index.rows(..).unwrap().map(|row| row.unwrap().get("id").unwrap().to_string()).collect();
    let mut backwards: Vec<_> =
        index.rows(..).unwrap().rev().map(|row| row.unwrap().get("id").unwrap().to_string()).collect();
    backwards.reverse();
    assert_eq!((forwards.len(), forwards == backwards), (1_000, true));
    let mut both = index.rows(..).unwrap();
    let mut met = Vec::new();
    while let Some(row) = both.next() {
        met.push(row.unwrap().get("id").unwrap().to_string());
        if let Some(row) = both.next_back() {
            met.push(row.unwrap().get("id").unwrap().to_string());
        }
    }
    met.sort();
    let mut all = forwards.clone();
    all.sort();
    assert_eq!(met, all, "the ends meet and share no row");
    assert_eq!(sales.with(|table| table.sum(..)).unwrap(), expected(&|_| true).1);
}

#[test]
fn text_without_case_and_accents_finds_and_keeps_the_original() {
    let database = database();
    let unicode = DataType::parse("text(unicode)").unwrap();
    let schema = TableSchema::new("names")
        .column(Column::new("name", unicode))
        .column(Column::new("city", unicode))
        .key(["name desc"])
        .index(IndexSchema::new("city", ["city"]))
        .check("not_bern", "city <> 'BERN'");
    let names = database.create_table(&schema).unwrap();
    names.insert(("Zoë", "Zürich")).unwrap();
    names.insert(("Émile", "ZURICH")).unwrap();
    assert_eq!(refused(names.insert(("zoe", "x"))).1, Some(Constraint::PrimaryKey));
    assert_eq!(refused(names.insert(("x", "Bérn"))).1, Some(Constraint::Check));
    let row = names.get("ZOE").unwrap().unwrap();
    assert_eq!(row.values().unwrap(), ["Zoë".into(), Value::from("Zürich")]);
    let now = database.snapshot();
    let table = now.table("names").unwrap();
    let index = table.index("city").unwrap();
    assert_eq!(index.count(Span::eq("zurich")).unwrap(), 2);
    assert_eq!(index.count(Span::starts_with("zÜ")).unwrap(), 2);
    let order: Vec<_> = table.rows(..).unwrap().map(|row| row.unwrap().get("name").unwrap().into_owned()).collect();
    assert_eq!(order, ["Zoë".into(), Value::from("Émile")]);
    let group = index.groups(.., 1).unwrap().next().unwrap().unwrap();
    assert_eq!((group.rows, group.values[0].to_string().to_lowercase().contains("rich")), (2, true));
    // The key is the same, so the row stays where it is and its text changes.
    assert!(names.update("zoe", &[("name", "ZOË".into())]).unwrap());
    assert_eq!(names.get("zoe").unwrap().unwrap().get("name").unwrap(), Value::from("ZOË"));
    assert_eq!(names.len().unwrap(), 2);
}

/// Found by the storm: an index that had a float of the key kept the sign of its zero, which the key does not.
#[test]
fn entries_have_the_floats_that_keys_have() {
    let database = database();
    let schema = TableSchema::new("points")
        .column(Column::new("at", DataType::F64))
        .column(Column::new("small", DataType::F32))
        .column(Column::new("name", DataType::TEXT))
        .key(["at desc", "small"])
        .index(IndexSchema::new("name", ["name"]).include(["at", "small"]));
    let points = database.create_table(&schema).unwrap();
    let odd_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    for (at, small, name) in [(-0.0, -0.0, "zero"), (odd_nan, odd_nan, "nan"), (-1.5, 0.0, "plain")] {
        points.insert((Value::Float(at), Value::Float(small), name)).unwrap();
    }
    assert!(points.update((Value::Float(-1.5), Value::Float(0.0)), &[("at", Value::Float(-0.0))]).is_err());
    assert!(points.update((Value::Float(-1.5), Value::Float(0.0)), &[("small", Value::Float(-0.0))]).unwrap());
    let found = quipu_rows::check(database.db(), &mut |_| ()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

#[test]
fn an_index_that_two_foreign_keys_share_stays_when_the_one_it_was_made_for_fails() {
    let database = database();
    for parent in ["good", "bad"] {
        let parent = TableSchema::new(parent).column(Column::new("id", DataType::I32)).key(["id"]);
        database.create_table(&parent).unwrap();
    }
    let children = TableSchema::new("children").column(Column::new("id", DataType::I32));
    let children = children.column(Column::new("parent", DataType::I32)).key(["id"]);
    let children = database.create_table(&children).unwrap();
    database.table("good").unwrap().insert(1).unwrap();
    children.insert((1, 1)).unwrap();
    let mut added = None;
    let to_bad = ForeignKey::new("to_bad", ["parent"], "bad");
    let refused = database.add_foreign_key("children", to_bad, &mut |progress| {
        if progress.stage == "validating rows" && added.is_none() {
            let to_good = ForeignKey::new("to_good", ["parent"], "good");
            added = Some(database.add_foreign_key("children", to_good, &mut |_| ()));
        }
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    added.expect("rows were looked at").unwrap();
    assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
    let good = database.table("good").unwrap();
    assert!(good.delete(1).is_err(), "a row refers to it");
    assert!(children.insert((2, 2)).is_err(), "it refers to no row");
    assert!(children.delete(1).unwrap() && good.delete(1).unwrap());
    database.drop_constraint("children", "to_good").unwrap();
    database.drop_index("children", "to_bad_index").unwrap();
}

#[test]
fn what_a_change_makes_of_a_row_is_what_an_update_to_it_does() {
    let decimal = |units| Value::Decimal(Decimal::new(units, 2).unwrap());
    let schema = TableSchema::new("things")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("small", DataType::I8))
        .column(Column::new("price", DataType::Decimal { precision: 6, scale: 2 }).not_null())
        .column(Column::new("total", DataType::I64).not_null())
        .column(Column::new("name", DataType::TEXT))
        .column(Column::new("kind", DataType::I16))
        .column(Column::new("number", DataType::I32).identity(Identity::Always))
        .key(["id"])
        .sum("total")
        .index(IndexSchema::new("kind", ["kind"]));
    for has_check in [false, true] {
        let database = database();
        let schema = if has_check { schema.clone().check("cheap", "price < 100") } else { schema.clone() };
        let things = database.create_table(&schema).unwrap();
        let row = (1, 5, decimal(150), 7, "a", 3);
        things.insert_columns(&["id", "small", "price", "total", "name", "kind"], row).unwrap();
        let change = |changes: Vec<(usize, Value<'static>)>| {
            database.write(|transaction| transaction.table("things")?.update_with(1, |_| Ok(changes)))
        };
        let is = |expected: &[Value<'_>]| {
            let row = things.get(1).unwrap().unwrap();
            assert_eq!(row.values().unwrap()[1..expected.len() + 1], *expected);
            assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
        };
        // Of fixed size, to NULL and back, rescaled; of variable size; summed; indexed.
        assert!(change(vec![(1, Value::Int(-6)), (2, Value::Decimal(Decimal::new(25, 1).unwrap()))]).unwrap());
        is(&[Value::Int(-6), decimal(250), Value::Int(7), "a".into(), Value::Int(3)]);
        assert!(change(vec![(1, Value::Null)]).unwrap());
        is(&[Value::Null, decimal(250)]);
        assert!(change(vec![(1, Value::Int(1)), (4, "longer".into())]).unwrap());
        assert!(change(vec![(3, Value::Int(70)), (5, Value::Int(4))]).unwrap());
        let whole = [Value::Int(1), decimal(250), Value::Int(70), "longer".into(), Value::Int(4)];
        is(&whole);
        let now = database.snapshot();
        assert_eq!(now.table("things").unwrap().sum(Span::all()).unwrap(), Value::Int(70));
        // One that changes nothing, and one of nothing.
        let commits = || database.db().latched().read().sequence();
        let before = commits();
        assert!(change(vec![(1, Value::Int(1))]).unwrap() && change(Vec::new()).unwrap());
        assert_eq!(commits(), before);
        // What is refused changes nothing.
        let wrong = [
            (vec![(1, Value::Int(200))], Some(Constraint::Type)),
            (vec![(1, Value::Int(2)), (2, Value::Null)], Some(Constraint::NotNull)),
            (vec![(2, "x".into())], Some(Constraint::Type)),
            (vec![(6, Value::Int(9))], Some(Constraint::Identity)),
            (vec![(7, Value::Int(9))], None),
        ];
        for (changes, constraint) in wrong {
            assert_eq!(refused(change(changes)).1, constraint);
        }
        if has_check {
            let (message, constraint) = refused(change(vec![(2, decimal(10_000))]));
            assert_eq!(constraint, Some(Constraint::Check), "{message}");
        }
        is(&whole);
        // A row from before a column was added, and one from before its column could be NULL.
        database.add_column("things", Column::new("late", DataType::U8).default("8")).unwrap();
        database.drop_not_null("things", "price").unwrap();
        assert!(change(vec![(7, Value::Int(9))]).unwrap());
        assert!(change(vec![(2, Value::Null)]).unwrap());
        let row = things.get(1).unwrap().unwrap();
        assert_eq!((row.get("price").unwrap(), row.get("late").unwrap()), (Value::Null, Value::Int(9)));
        assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_key_that_is_too_long_is_told_with_its_table_row_and_index() {
    for is_unique in [false, true] {
        let database = database();
        let by_text = IndexSchema::new("by_text", ["text"]);
        let notes = TableSchema::new("notes")
            .column(Column::new("id", DataType::I32))
            .column(Column::new("text", DataType::TEXT))
            .key(["id"])
            .index(if is_unique { by_text.unique() } else { by_text });
        let notes = database.create_table(&notes).unwrap();
        notes.insert((1, "short")).unwrap();
        let long = "x".repeat(70_000);
        let what = "index by_text (text): a key of 70";
        let (message, _) = refused(notes.insert((2, long.as_str())));
        assert!(message.starts_with(&format!("table notes, row (2), {what}")), "{message}");
        let (message, _) = refused(notes.update(1, &[("text", long.as_str().into())]));
        assert!(message.starts_with(&format!("table notes, row (1), {what}")), "{message}");
        assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
        assert_eq!(notes.with_index("by_text", |index| index.len()).unwrap(), 1);
    }
}

#[test]
fn a_default_that_names_a_column_is_told_that_it_is_an_expression_without_columns() {
    let schema = towns().column(Column::new("state", DataType::TEXT).default("open"));
    let (message, _) = refused(database().create_table(&schema).map(drop));
    let what = "\"open\" stands for a column, and this expression may have none; texts stand in 'quotes'";
    assert_eq!(message, format!("table towns: column state: {what}"));
}

#[test]
fn a_range_of_an_index_is_removed_from_the_table() {
    let database = database();
    let indexes = [
        IndexSchema::new("by_number", ["number"]),
        IndexSchema::new("by_text", ["lower(text)", "number desc"]),
        IndexSchema::new("large", ["number"]).predicate("number >= 2000"),
    ];
    let schema = TableSchema::new("t")
        .column(Column::new("id", DataType::I32))
        .column(Column::new("number", DataType::I32))
        .column(Column::new("text", DataType::TEXT))
        .key(["id"]);
    let table = database.create_table(&indexes.into_iter().fold(schema, TableSchema::index)).unwrap();
    let fill = || {
        database.write(|transaction| {
            let table = transaction.table("t")?;
            table.delete_range(..)?;
            (0..3_000).try_for_each(|id| {
                let number = if id % 10 == 0 { None } else { Some(id) };
                table.insert((id, number, if id % 3 == 0 { "Three" } else { "other" }))
            })
        })
    };
    for (index, span, removed) in [
        ("by_number", Span::lt(500), 450),
        ("by_number", Span::eq(Value::Null), 300),
        // More than are removed together.
        ("by_number", Span::all(), 3_000),
        ("by_text", Span::eq("three"), 1_000),
        ("by_text", Span::eq(("three", 33)), 1),
        ("by_text", Span::eq("Three"), 0),
        ("large", Span::all(), 900),
        ("large", Span::lt(2_000), 0),
    ] {
        fill().unwrap();
        let count = database.write(|transaction| {
            let table = transaction.table("t")?;
            let index = table.index(index)?;
            let expected = index.count(&span)?;
            let count = index.delete_range(&span)?;
            assert_eq!((index.count(&span)?, count), (0, expected));
            Ok(count)
        });
        assert_eq!((count.unwrap(), table.len().unwrap()), (removed, 3_000 - removed), "{index}");
        assert_eq!(quipu_rows::check(database.db(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
    }
    assert_eq!(table.delete_range(Span::lt(10)).unwrap(), 10, "one commit, without a transaction");
    let late = database.begin();
    late.table("t").unwrap().index("by_number").unwrap().delete_range(Span::lt(100)).unwrap();
    table.insert((5, 7, "new")).unwrap();
    let error = late.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "a row came into the range");
}
