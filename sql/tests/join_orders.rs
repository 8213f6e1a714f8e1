//! Goal: the order of joins follows from what is counted, and changes no answer. Method: EXPLAIN, and the answers in
//! the order as written.

use crate::sessions::{Client, database, lines};

/// Lines of suppliers, which are of nations, which are of regions.
fn shop() -> Client {
    let client = Client::new(&database(), "quipu");
    for statement in [
        "create table regions (id integer primary key, name text)",
        "create table nations (id integer primary key, region integer references regions)",
        "create table suppliers (id integer primary key, nation integer references nations)",
        "create table lines (id integer primary key, supplier integer, day integer, amount integer)",
        "insert into regions select x, 'region ' || x from generate_series(1, 5) x",
        "insert into nations select x, x % 5 + 1 from generate_series(1, 25) x",
        "insert into suppliers select x, x % 25 + 1 from generate_series(1, 500) x",
        "insert into lines select x, x % 500 + 1, x % 1000, x % 7 from generate_series(1, 30000) x",
        "create table days (id integer primary key, kind integer)",
        "insert into days select x, x % 2 from generate_series(0, 999) x",
        "create index lines_supplier on lines (supplier)",
        "create index lines_day on lines (day)",
    ] {
        lines(&client, statement);
    }
    client
}

/// The tables of a plan, from the first that is read to the last.
fn order(client: &Client, statement: &str) -> Vec<String> {
    let plan = lines(client, &format!("explain {statement}"));
    let table = |line: &String| {
        let (_, after) = line.split_once("Scan of ")?;
        after.split_whitespace().next().map(str::to_owned)
    };
    plan.iter().filter_map(table).collect()
}

/// All lines were read, and the region of each looked up, to find those of one region.
#[test]
fn a_join_begins_where_few_rows_are_left() {
    let client = shop();
    let written = ["lines", "suppliers", "nations", "regions"];
    let grouped = "select n.id, count(*), sum(l.amount) from lines l, suppliers s, nations n, regions r \
                   where l.supplier = s.id and s.nation = n.id and n.region = r.id and r.name = 'region 2' \
                   group by n.id order by n.id";
    assert_eq!(order(&client, grouped), ["regions", "nations", "suppliers", "lines"]);
    let answer = lines(&client, grouped);
    lines(&client, "set join_reorder_ms = 1000000");
    assert_eq!(order(&client, grouped), written);
    assert_eq!(lines(&client, grouped), answer);
    lines(&client, "set join_reorder_ms = 5");
    // The first rows of a join come before all are read: it stays as it is.
    let first = grouped.split(" group by").next().expect("a query").replace("n.id, count(*), sum(l.amount)", "l.id");
    assert_eq!(order(&client, &format!("{first} limit 1")), written);
    // A key of the first table leaves few rows.
    let day = grouped.replace("r.name = 'region 2'", "l.day = 7");
    assert_eq!(order(&client, &day), written);
}

/// Half of the days are of a kind. It was taken for granted that a hundredth of a table has one value of a column.
#[test]
fn conditions_without_a_key_are_tried_with_some_rows() {
    let client = shop();
    let of_kind = |kind: &str| {
        format!(
            "select count(*) from days d, lines l, suppliers s
             where l.day = d.id and l.supplier = s.id and d.kind = {kind} and s.nation = 3"
        )
    };
    lines(&client, "set join_reorder_ms = 0");
    assert_eq!(order(&client, &of_kind("1"))[0], "suppliers");
    assert_eq!(order(&client, &of_kind("7"))[0], "days");
    assert_eq!(lines(&client, &of_kind("1")), ["600"]);
}

/// What is computed of constants is computed once, and as PostgreSQL computes it; an error is one when it comes up.
#[test]
fn constants_are_computed_once() {
    let client = shop();
    let plan = |condition: &str| lines(&client, &format!("explain select * from lines where {condition}")).concat();
    assert!(plan("id < 10 * 10").contains("keys < (100)"), "{}", plan("id < 10 * 10"));
    lines(&client, "create table moments (day date primary key)");
    lines(&client, "insert into moments select date '2026-01-01' + x from generate_series(0, 99) x");
    let count = |condition: &str| lines(&client, &format!("select count(*) from moments where {condition}")).concat();
    assert_eq!(count("day < date '2026-01-01' + interval '1 month'"), "31");
    assert_eq!(count("day <= timestamp '2026-02-01 12:00'"), "32", "not the beginning of a day");
    assert_eq!(count("timestamp '2026-02-01' <= day"), "69");
    assert_eq!(count("day < timestamp 'infinity'"), "100");
    assert_eq!(count("case when day > date '2030-01-01' then 1 / 0 = 1 else true end"), "100");
}

/// A query for each row of a table was read for all lines, though a join left few of them.
#[test]
fn queries_of_conditions_are_read_for_the_pairs_that_are_left() {
    let client = shop();
    let query = "select s.id, count(*) from suppliers s, days d, lines l
                 where s.id = l.supplier + 0 and s.nation = 3 and d.id = l.day and d.kind = 1
                   and exists (select from lines m where m.day = l.day and m.amount <> l.amount)
                 group by s.id order by s.id limit 3";
    let plan = lines(&client, &format!("explain {query}"));
    let scan = plan.iter().position(|line| line.contains("Scan of lines")).expect("a scan of lines");
    assert!(!plan[scan + 1].contains("Filter"), "{plan:#?}");
    let answer = lines(&client, query);
    lines(&client, "set join_reorder_ms = 1000000");
    assert_eq!(lines(&client, query), answer);
}

/// A transaction that is serializable relies on what it has read: it must not rely on what was counted for a plan.
#[test]
fn a_serializable_transaction_counts_nothing_for_its_plans() {
    let client = shop();
    let query = "select count(*) from lines l, suppliers s, regions r where l.supplier = s.id and s.nation = r.id \
                 and r.name = 'region 2'";
    assert_eq!(order(&client, query)[0], "regions");
    lines(&client, "begin isolation level serializable");
    assert_eq!(order(&client, query)[0], "lines");
    lines(&client, "rollback");
}
