//! Structs as rows: what a derive declares, what comes back, and what is said of a table that does not fit.

use quipu::{Db, ErrorKind, Options};
use quipu_rows::{
    Action, Column, ColumnValue, Constraint, DataType, Database, Date, Decimal, ForeignKey, Identity, IndexSchema,
    Ordered, Record, Span, TableSchema, Timestamp, Uuid, Value, Violation,
};

fn database() -> Database {
    Database::open(&Db::open("/rows", Options::without_files()).unwrap()).unwrap()
}

#[derive(Record, Clone, Debug, PartialEq)]
#[table(name = "carriers")]
struct Carrier {
    #[column(primary_key)]
    code: String,
    #[column(unique = "by_name", rename = "full name")]
    name: String,
}

#[derive(Record, Clone, Debug, PartialEq)]
#[table(name = "flights", primary_key(carrier, number desc), sum = delay, comment = "what flew", compressed)]
#[table(index(name = "late", columns(origin, delay desc), include(day), predicate = "delay > 15", sum = delay))]
#[table(index(name = "name", columns("lower(origin) desc", number), unique))]
#[table(check(name = "sane", condition = "delay > -1000"))]
struct Flight {
    #[column(references(Carrier, on_delete = cascade, on_update = restrict))]
    carrier: String,
    number: i32,
    #[column(index, check = "length(origin) = 3")]
    origin: String,
    day: Date,
    #[column(default = -1)]
    delay: Option<i16>,
    #[column(type = "decimal(8,2)", default = "1.50")]
    fare: Decimal,
    #[column(skip)]
    seen: bool,
}

fn flight(number: i32) -> Flight {
    Flight {
        carrier: "LA".to_owned(),
        number,
        origin: ["CUZ", "LIM", "PUN"][number as usize % 3].to_owned(),
        day: Date::new(2026, 11, 25).unwrap(),
        delay: (number % 2 == 0).then_some(number as i16),
        fare: Decimal::new(49_90, 2).unwrap(),
        seen: false,
    }
}

fn flights() -> (Database, quipu_rows::RecordTable<Flight>) {
    let database = database();
    let carriers = database.ensure_table_of::<Carrier>().unwrap();
    carriers.insert(&Carrier { code: "LA".to_owned(), name: "Latam".to_owned() }).unwrap();
    let flights = database.ensure_table_of::<Flight>().unwrap();
    (database, flights)
}

#[test]
fn a_struct_declares_what_a_schema_would() {
    let carriers = TableSchema::new("carriers")
        .column(Column::new("code", DataType::TEXT).not_null())
        .column(Column::new("full name", DataType::TEXT).not_null())
        .key(["code"])
        .index(IndexSchema::new("by_name", ["\"full name\""]).unique());
    assert_eq!(Carrier::schema(), carriers);
    let fare = DataType::Decimal { precision: 8, scale: 2 };
    let flights = TableSchema::new("flights")
        .column(Column::new("carrier", DataType::TEXT).not_null())
        .column(Column::new("number", DataType::I32).not_null())
        .column(Column::new("origin", DataType::TEXT).not_null())
        .column(Column::new("day", DataType::Date).not_null())
        .column(Column::new("delay", DataType::I16).default("-1"))
        .column(Column::new("fare", fare).not_null().default("1.50"))
        .key(["carrier", "number desc"])
        .index(IndexSchema::new("origin", ["origin"]))
        .index(IndexSchema::new("late", ["origin", "delay desc"]).include(["day"]).predicate("delay > 15").sum("delay"))
        .index(IndexSchema::new("name", ["lower(origin) desc", "number"]).unique())
        .check("origin_check", "length(origin) = 3")
        .check("sane", "delay > -1000")
        .foreign_key(ForeignKey::new("carrier_fkey", ["carrier"], "carriers").on_delete(Action::Cascade))
        .sum("delay");
    let flights = TableSchema { comment: "what flew".to_owned(), compressed: true, ..flights };
    assert_eq!(Flight::schema(), flights);
    assert_eq!((Flight::TABLE, Flight::COLUMNS.len()), ("flights", 6));
}

#[derive(Record, Clone, Debug, PartialEq)]
#[table(primary_key(bool, int_8, int_64, unsigned_64, bytes, date, timestamp, uuid))]
struct AllTypes {
    bool: bool,
    int_8: i8,
    int_16: Option<i16>,
    int_32: Option<i32>,
    int_64: i64,
    unsigned_8: Option<u8>,
    unsigned_16: Option<u16>,
    unsigned_32: Option<u32>,
    unsigned_64: u64,
    float_32: Option<f32>,
    float_64: Option<f64>,
    #[column(type = "decimal(38,10)")]
    decimal: Option<Decimal>,
    text: Option<String>,
    #[column(type = "text(unicode)")]
    r#type: Option<String>,
    bytes: Vec<u8>,
    date: Date,
    timestamp: Timestamp,
    uuid: Uuid,
    json: Option<serde_json::Value>,
    #[column(type = "i8")]
    narrow: i64,
}

#[test]
fn all_types_come_back_at_their_limits() {
    let database = database();
    let table = database.ensure_table_of::<AllTypes>().unwrap();
    let least = AllTypes {
        bool: false,
        int_8: i8::MIN,
        int_16: Some(i16::MIN),
        int_32: Some(i32::MIN),
        int_64: i64::MIN,
        unsigned_8: Some(0),
        unsigned_16: Some(0),
        unsigned_32: Some(0),
        unsigned_64: 0,
        float_32: Some(f32::MIN),
        float_64: Some(f64::NEG_INFINITY),
        decimal: Decimal::new(-99_999_999_999_999_999_999_999_999_999_999_999_999, 10),
        text: Some(String::new()),
        r#type: Some("Straße".to_owned()),
        bytes: Vec::new(),
        date: Date::new(-9999, 1, 1).unwrap(),
        timestamp: Timestamp::parse("1677-09-21 00:12:43").unwrap(),
        uuid: Uuid::nil(),
        json: Some(serde_json::json!({"b": [1, 2.5, null], "a": "ü"})),
        narrow: -128,
    };
    let greatest = AllTypes {
        bool: true,
        int_8: i8::MAX,
        int_16: Some(i16::MAX),
        int_32: Some(i32::MAX),
        int_64: i64::MAX,
        unsigned_8: Some(u8::MAX),
        unsigned_16: Some(u16::MAX),
        unsigned_32: Some(u32::MAX),
        unsigned_64: u64::MAX,
        float_32: Some(f32::MIN_POSITIVE),
        float_64: Some(f64::MAX),
        decimal: Decimal::new(1, 10),
        text: Some("\u{0}\u{10ffff}".to_owned()),
        r#type: Some(String::new()),
        bytes: vec![0, 255, 0],
        date: Date::new(9999, 12, 31).unwrap(),
        timestamp: Timestamp::from_microseconds(1).unwrap(),
        uuid: Uuid::max(),
        json: Some(serde_json::Value::Null),
        narrow: 127,
    };
    let nulls = AllTypes {
        int_8: 0,
        int_16: None,
        int_32: None,
        unsigned_8: None,
        unsigned_16: None,
        unsigned_32: None,
        float_32: None,
        float_64: None,
        decimal: None,
        text: None,
        r#type: None,
        json: None,
        ..greatest.clone()
    };
    for record in [&least, &greatest, &nulls] {
        table.insert(record).unwrap();
        assert_eq!(table.get(record.key()).unwrap().as_ref(), Some(record));
        assert_eq!(&table.insert_returning(&AllTypes { int_64: 7, ..record.clone() }).unwrap().uuid, &record.uuid);
    }
    assert_eq!(table.len().unwrap(), 6);
    assert_eq!(table.first(..).unwrap(), Some(least));
    let refused = table.insert(&AllTypes { narrow: 128, ..greatest }).unwrap_err();
    assert!(refused.to_string().ends_with("column narrow: 128 is out of the range of i8, -128 to 127"), "{refused}");
    let names = table.schema().unwrap().columns;
    assert_eq!(names[13].to_string(), "type text(unicode)");
}

#[test]
fn records_are_written_and_read_live_at_snapshots_and_in_transactions() {
    let (database, flights) = flights();
    for number in 0..30 {
        flights.insert(&flight(number)).unwrap();
    }
    assert_eq!(flights.len().unwrap(), 30);
    assert_eq!(flights.get(("LA", 7)).unwrap(), Some(flight(7)));
    assert_eq!(flights.get(("LA", 30)).unwrap(), None);
    assert!(flights.contains(("LA", 0)).unwrap() && !flights.contains(("XX", 0)).unwrap());
    assert_eq!(flights.first(..).unwrap(), Some(flight(29)), "numbers descend");
    assert_eq!(flights.last(..).unwrap(), Some(flight(0)));
    assert_eq!(flights.nth(Span::eq("LA"), 4).unwrap(), Some(flight(25)));
    let page = flights.page(Span::gt(("LA", 20)), 2, 2).unwrap();
    assert_eq!((page.rows, page.offset, page.total), (vec![flight(17), flight(16)], 2, 20));
    let mut seen = Vec::new();
    let visit = |flight: Flight| {
        seen.push(flight.number);
        Ok(seen.len() < 3)
    };
    flights.for_each(Span::gt(("LA", 10)), visit).unwrap();
    assert_eq!(seen, [9, 8, 7]);

    let before = database.snapshot();
    let changed = Flight { delay: Some(999), fare: Decimal::from(7), ..flight(4) };
    assert!(flights.update(&changed).unwrap());
    assert!(!flights.update(&flight(77)).unwrap());
    assert!(flights.put(&Flight { delay: None, ..flight(5) }).unwrap());
    assert!(!flights.put(&flight(31)).unwrap());
    assert!(flights.delete(("LA", 0)).unwrap() && !flights.delete(("LA", 0)).unwrap());
    let exists = flights.insert(&flight(31)).unwrap_err();
    assert_eq!(Violation::of(&exists).map(|violation| violation.constraint), Some(Constraint::PrimaryKey));

    let then = before.table_of::<Flight>().unwrap();
    assert_eq!((then.get(("LA", 4)).unwrap(), then.len().unwrap()), (Some(flight(4)), 30));
    let many = then.get_many([("LA", 3), ("LA", 99), ("LA", 1)]).unwrap();
    assert_eq!(many, [Some(flight(3)), None, Some(flight(1))]);
    let mut rows = then.rows(Span::ge(("LA", 10))).unwrap();
    let ends = (rows.next().unwrap().unwrap().number, rows.next_back().unwrap().unwrap().number);
    assert_eq!((ends, rows.count()), ((10, 0), 9));
    let late = then.index("late").unwrap();
    let numbers = late.rows(Span::eq("CUZ")).unwrap().map(|row| row.map(|flight| flight.number));
    assert_eq!(numbers.collect::<Result<Vec<_>, _>>().unwrap(), [24, 18]);
    assert_eq!(late.nth_back(.., 0).unwrap().map(|flight| flight.number), Some(20));
    assert_eq!(late.sum(..).unwrap(), Value::Int(16 + 18 + 20 + 22 + 24 + 26 + 28));
    let by_name = then.index("name").unwrap();
    assert_eq!(by_name.get(("lim", 4)).unwrap(), Some(flight(4)));

    let transaction = database.begin();
    let inside = transaction.table_of::<Flight>().unwrap();
    assert_eq!(inside.get(("LA", 4)).unwrap(), Some(changed));
    inside.insert(&flight(100)).unwrap();
    assert_eq!(inside.insert_returning(&flight(101)).unwrap(), flight(101));
    assert!(inside.put(&Flight { delay: Some(3), ..flight(101) }).unwrap() && inside.delete(("LA", 100)).unwrap());
    assert_eq!(inside.page(.., 0, 1).unwrap().rows, [Flight { delay: Some(3), ..flight(101) }]);
    assert_eq!(inside.index("origin").unwrap().count(Span::eq("PUN")).unwrap(), 11);
    assert!(!flights.contains(("LA", 101)).unwrap());
    transaction.commit().unwrap();
    assert!(flights.contains(("LA", 101)).unwrap());
    database
        .write(|transaction| {
            let carriers = transaction.table_of::<Carrier>()?;
            assert!(carriers.delete("LA")?, "and all its flights");
            Ok(())
        })
        .unwrap();
    assert!(flights.is_empty().unwrap());
}

#[derive(Record, Clone, Debug, PartialEq)]
struct Ticket {
    #[column(primary_key, identity)]
    id: u64,
    #[column(identity = by_default)]
    number: i32,
    subject: String,
}

#[test]
fn a_table_gives_out_numbers() {
    let database = database();
    let tickets = database.ensure_table_of::<Ticket>().unwrap();
    assert_eq!(Ticket::schema().columns[0].identity, Some(Identity::Always));
    let ticket = |number, subject: &str| Ticket { id: 77, number, subject: subject.to_owned() };
    let first = tickets.insert_returning(&ticket(10, "lost")).unwrap();
    assert_eq!(first, Ticket { id: 1, ..ticket(10, "lost") });
    tickets.insert(&ticket(20, "found")).unwrap();
    assert!(tickets.update(&Ticket { id: 2, ..ticket(21, "kept") }).unwrap());
    assert_eq!(tickets.get(2).unwrap(), Some(Ticket { id: 2, ..ticket(21, "kept") }));
    let refused = tickets.put(&first).unwrap_err();
    assert!(refused.to_string().starts_with("table ticket: the table always gives out a number"), "{refused}");
}

#[derive(Record, Debug, PartialEq)]
#[table(name = "people")]
struct Person {
    #[column(primary_key, type = "text(unicode)")]
    name: String,
    age: Option<u8>,
}

#[test]
fn a_key_that_ignores_case_takes_the_text_of_the_last_write() {
    let database = database();
    let people = database.ensure_table_of::<Person>().unwrap();
    assert!(!people.put(&Person { name: "zoe".to_owned(), age: None }).unwrap());
    assert!(people.put(&Person { name: "Zoë".to_owned(), age: Some(3) }).unwrap());
    assert_eq!(people.get("ZOE").unwrap(), Some(Person { name: "Zoë".to_owned(), age: Some(3) }));
    assert_eq!(people.len().unwrap(), 1);
}

#[test]
fn a_table_that_does_not_fit_is_refused_with_all_that_differs() {
    let refused = |schema: TableSchema| {
        let database = database();
        database.ensure_table_of::<Carrier>().unwrap();
        database.create_table(&schema).unwrap();
        let error = database.ensure_table_of::<Flight>().err().expect("it does not fit");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        text.strip_prefix("table flights does not fit the struct Flight: ").expect(&text).to_owned()
    };
    let mut schema = Flight::schema();
    schema.columns[4] = Column::new("delay", DataType::I32).not_null();
    schema.columns[2].name = "from".to_owned();
    schema.columns.push(Column::new("gate", DataType::TEXT).not_null());
    schema.key = vec!["number".to_owned(), "carrier".to_owned()];
    schema.sum = None;
    schema.indexes.truncate(1);
    schema.indexes[0].columns = vec!["day".to_owned()];
    schema.checks = vec![];
    schema = schema.check("sane", "delay > 0");
    schema.foreign_keys[0].on_delete = Action::Restrict;
    assert_eq!(
        refused(schema).split("; ").collect::<Vec<_>>(),
        [
            "it has no column `origin text not null`",
            "column delay is `delay i32 not null` there and `delay i16 default -1` in the struct",
            "its rows need a value of column `from text not null`, and the struct does not have it",
            "its rows need a value of column `gate text not null`, and the struct does not have it",
            "the primary key is `number, carrier` there and `carrier, number desc` in the struct",
            "the column whose sums are kept is `none` there and `delay` in the struct",
            "index origin is `origin (day)` there and `origin (origin)` in the struct",
            "it has no index `late (origin, delay desc) include (day) sum delay where delay > 15`",
            "it has no index `unique name (lower(origin) desc, number)`",
            "it has no check origin_check `length(origin) = 3`",
            "check sane is `delay > 0` there and `delay > -1000` in the struct",
            "foreign key carrier_fkey is `(carrier) to carriers, on delete restrict, on update restrict` there and \
             `(carrier) to carriers, on delete cascade, on update restrict` in the struct",
        ]
    );
    let missing = database().table_of::<Flight>().err().expect("it is not there");
    assert_eq!(missing.kind(), ErrorKind::Missing);
}

#[derive(Record, Clone, Debug, PartialEq)]
#[table(name = "metered", index(name = "late", columns("n desc", "LOWER(s)"), predicate = "n > 15 and s is not null"))]
struct Metered {
    #[column(primary_key)]
    id: i64,
    #[column(check = "n>=10 or n in (1,2,3)", index)]
    n: i64,
    #[column(default = "lower( 'X' )")]
    s: Option<String>,
}

/// The same, after a column got another name in the table and here.
#[derive(Record, Clone, Debug, PartialEq)]
#[table(
    name = "metered",
    index(name = "late", columns("m desc", "lower(s)"), predicate = "(m > 15) AND s IS NOT NULL")
)]
struct RenamedMetered {
    #[column(primary_key)]
    id: i64,
    #[column(check = "m >= 10 OR m in (1, 2, 3)", index = "n")]
    m: i64,
    #[column(default = "'x'")]
    s: Option<String>,
}

/// Renaming any column wrote the expressions of its table anew, in capitals, and they were compared as texts: a struct
/// with its own in small letters did not fit any more, and the program did not start.
#[test]
fn a_struct_fits_its_table_after_columns_were_renamed() {
    let database = database();
    database.ensure_table_of::<Metered>().unwrap();
    database.add_column("metered", Column::new("a", DataType::I64)).unwrap();
    database.rename_column("metered", "a", "z").unwrap();
    database.ensure_table_of::<Metered>().unwrap();
    database.rename_column("metered", "s", "t").unwrap();
    assert!(database.ensure_table_of::<Metered>().is_err(), "its own column has another name");
    database.rename_column("metered", "t", "s").unwrap();
    database.ensure_table_of::<Metered>().unwrap();
    // Of the column of a check, which the derive names after it.
    database.rename_column("metered", "n", "m").unwrap();
    database.set_default("metered", "s", Some("'x'")).unwrap();
    database.ensure_table_of::<RenamedMetered>().unwrap();
    // An index is asked by its name.
    database.rename_constraint("metered", "n", "other").unwrap();
    let error = database.ensure_table_of::<RenamedMetered>().err().expect("it has no such index").to_string();
    assert!(error.ends_with("it has no index `n (m)`, but `other` is that: rename it"), "{error}");
    database.rename_constraint("metered", "other", "n").unwrap();
    database.drop_constraint("metered", "n_check").unwrap();
    database.add_check("metered", quipu_rows::Check::new("least", "m >= 11"), &mut |_| ()).unwrap();
    let error = database.ensure_table_of::<RenamedMetered>().err().expect("it has another check").to_string();
    assert!(error.ends_with("it has no check m_check `m >= 10 OR m IN (1, 2, 3)`"), "{error}");
}

#[test]
fn a_table_may_have_more_than_its_struct() {
    let (database, flights) = flights();
    flights.insert(&flight(1)).unwrap();
    database.add_column("flights", Column::new("gate", DataType::TEXT).default("'A1'")).unwrap();
    database.create_index("flights", IndexSchema::new("day", ["day"]), &mut |_| {}).unwrap();
    assert_eq!(flights.get(("LA", 1)).unwrap(), Some(flight(1)), "a handle follows its table");
    let flights = database.ensure_table_of::<Flight>().unwrap();
    flights.insert(&flight(2)).unwrap();
    flights.deref_update(2, "B2");
    assert!(flights.put(&Flight { delay: None, ..flight(2) }).unwrap());
    let now = database.snapshot();
    let row = now.table("flights").unwrap().get(("LA", 2)).unwrap().unwrap();
    assert_eq!(row.get("gate").unwrap(), "B2".into(), "what the struct lacks stays");
    assert_eq!(row.to::<Flight>().unwrap(), Flight { delay: None, ..flight(2) });
}

trait DerefUpdate {
    fn deref_update(&self, number: i32, gate: &str);
}

impl DerefUpdate for quipu_rows::RecordTable<Flight> {
    /// Changes a column that the struct lacks, by the table below.
    fn deref_update(&self, number: i32, gate: &str) {
        let table: &quipu_rows::RowTable = self;
        assert!(table.update(("LA", number), &[("gate", gate.into())]).unwrap());
    }
}

#[derive(Record, Debug)]
#[table(name = "flights", primary_key(number))]
struct Misread {
    number: i32,
    delay: i8,
    origin: i32,
}

#[derive(Record, Debug, PartialEq)]
struct Entry {
    #[column(primary_key)]
    origin: String,
    number: i32,
    day: Date,
}

#[test]
fn rows_of_other_types_are_refused_with_table_column_and_both_types() {
    let (database, flights) = flights();
    flights.insert(&flight(300)).unwrap();
    let now = database.snapshot();
    let table = now.table("flights").unwrap();
    let refused = |number: i32| table.get(("LA", number)).unwrap().unwrap().to::<Misread>().unwrap_err().to_string();
    assert_eq!(refused(300), "table flights, column delay of type i16: 300 is out of range, expected i8");
    flights.insert(&flight(301)).unwrap();
    let now = database.snapshot();
    let table = now.table("flights").unwrap();
    let refused = |number: i32| table.get(("LA", number)).unwrap().unwrap().to::<Misread>().unwrap_err().to_string();
    assert_eq!(refused(301), "table flights, column delay of type i16: NULL, expected i8");
    assert!(flights.update(&Flight { delay: Some(1), ..flight(301) }).unwrap());
    let now = database.snapshot();
    let read = now.table_of::<Misread>().unwrap().first(..).unwrap_err();
    assert_eq!(read.to_string(), "table flights, column origin of type text: \"LIM\" is text, expected i32");
    let no_column = now.table("flights").unwrap().first(..).unwrap().unwrap().to::<Ticket>().unwrap_err();
    assert!(no_column.to_string().starts_with("table flights: there is no column \"id\""), "{no_column}");
    // An entry of an index has some columns, which are enough for a struct of these.
    let entries = now.table("flights").unwrap().entries("late").unwrap();
    let entry = entries.first(..).unwrap().unwrap();
    let wanted = Entry { origin: "CUZ".to_owned(), number: 300, day: flight(0).day };
    assert_eq!(entry.to::<Entry>().unwrap(), wanted);
    let no_column = entry.to::<Flight>().unwrap_err().to_string();
    assert_eq!(no_column, "table flights, column fare: an entry of the index does not have it");
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Celsius(f64);

impl ColumnValue for Celsius {
    const TYPE: DataType = DataType::F64;
    type Borrowed<'v> = f64;

    fn borrow(&self) -> f64 {
        self.0
    }

    fn from_value(value: Value<'_>) -> Result<Celsius, String> {
        match f64::from_value(value)? {
            cold if cold < -273.15 => Err(format!("{cold} is below absolute zero")),
            degrees => Ok(Celsius(degrees)),
        }
    }
}

/// Written by another macro, whose names must not mix with those of the derive.
macro_rules! reading {
    ($name:ident, $row:ident: $type:ty) => {
        #[derive(Record, Clone, Debug, PartialEq)]
        #[table(primary_key(at desc))]
        struct $name {
            at: Timestamp,
            $row: $type,
        }
    };
}

reading!(Reading, row: Option<Celsius>);

#[test]
fn types_of_a_program_are_columns() {
    let database = database();
    let readings = database.ensure_table_of::<Reading>().unwrap();
    let at = Timestamp::from_microseconds(5).unwrap();
    let reading = Reading { at, row: Some(Celsius(-40.0)) };
    readings.insert(&reading).unwrap();
    assert_eq!(readings.get(at).unwrap(), Some(reading.clone()));
    readings.update(&Reading { row: Some(Celsius(-300.0)), ..reading }).unwrap();
    let refused = readings.get(at).unwrap_err().to_string();
    assert_eq!(refused, "table reading, column row of type f64: -300 is below absolute zero, expected f64");
}
