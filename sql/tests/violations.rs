//! Goal: the failure of a row says what PostgreSQL 15 says, with the key that another row has, or the row. Method: its
//! answers, statement by statement.

use std::sync::Arc;

use quipu::{Db, Options};
use quipu_rows::Value;
use quipu_sql::SqlDatabase;
use quipu_sql::identity::rights::Rights;

use crate::rights::Listed;
use crate::sessions::{Client, database, lines, run};

/// The message, detail, constraint and column of the failure of a statement.
fn failure(client: &Client, text: &str) -> [String; 4] {
    let error = run(client, text).expect_err(text);
    let parts = error.parts();
    let shown = |part: &Option<String>| part.clone().unwrap_or_default();
    [parts.message.clone(), shown(&parts.detail), shown(&parts.constraint), shown(&parts.column)]
}

fn with_tables(client: &Client) {
    for statement in [
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        "CREATE TABLE t (id int PRIMARY KEY, n text NOT NULL, k int CHECK (k > 0), d date, m mood, a int[], \
         x numeric(10,2), p positive, CONSTRAINT small CHECK (x < 100))",
        "INSERT INTO t VALUES (1, 'a', 1, '2020-02-03', 'sad', '{1,2}', 1.5, 3)",
        "INSERT INTO t VALUES (2, 'x', 1)",
        "CREATE TABLE \"Odd\" (a int NOT NULL, \"B b\" text UNIQUE)",
        "INSERT INTO \"Odd\" VALUES (1, 'it')",
        "CREATE TABLE later (a int UNIQUE DEFERRABLE INITIALLY DEFERRED, b int)",
        "INSERT INTO later VALUES (1, -1)",
    ] {
        lines(client, statement);
    }
}

#[test]
fn a_row_that_is_refused_is_told_as_postgresql_tells_it() {
    let client = Client::new(&database(), "anna");
    with_tables(&client);
    let long = format!("Failing row contains (3, {}..., -1, null, null, null, null, null).", "ä".repeat(32));
    for (statement, failed) in [
        (
            "INSERT INTO t VALUES (1, 'b', 1)",
            ["duplicate key value violates unique constraint \"t_pkey\"", "Key (id)=(1) already exists.", "t_pkey", ""],
        ),
        (
            "INSERT INTO t VALUES (3, NULL, 1, '2020-02-03', 'ok', '{1,2,null}', 1.5, 3)",
            [
                "null value in column \"n\" of relation \"t\" violates not-null constraint",
                "Failing row contains (3, null, 1, 2020-02-03, ok, {1,2,NULL}, 1.50, 3).",
                "",
                "n",
            ],
        ),
        (
            "INSERT INTO t VALUES (3, repeat('ä', 50), -1)",
            ["new row for relation \"t\" violates check constraint \"t_k_check\"", &long, "t_k_check", ""],
        ),
        (
            "UPDATE t SET x = 101 WHERE id = 1",
            [
                "new row for relation \"t\" violates check constraint \"small\"",
                "Failing row contains (1, a, 1, 2020-02-03, sad, {1,2}, 101.00, 3).",
                "small",
                "",
            ],
        ),
        (
            "UPDATE t SET id = 1 WHERE id = 2",
            ["duplicate key value violates unique constraint \"t_pkey\"", "Key (id)=(1) already exists.", "t_pkey", ""],
        ),
        (
            "INSERT INTO t (n, id) VALUES ('z', 1) ON CONFLICT (id) DO UPDATE SET n = NULL",
            [
                "null value in column \"n\" of relation \"t\" violates not-null constraint",
                "Failing row contains (1, null, 1, 2020-02-03, sad, {1,2}, 1.50, 3).",
                "",
                "n",
            ],
        ),
        (
            "INSERT INTO \"Odd\" VALUES (NULL, 'at')",
            [
                "null value in column \"a\" of relation \"Odd\" violates not-null constraint",
                "Failing row contains (null, at).",
                "",
                "a",
            ],
        ),
        (
            "INSERT INTO later VALUES (1)",
            [
                "duplicate key value violates unique constraint \"later_a_key\"",
                "Key (a)=(1) already exists.",
                "later_a_key",
                "",
            ],
        ),
        (
            "CREATE UNIQUE INDEX keys ON t (k)",
            ["could not create unique index \"keys\"", "Key (k)=(1) is duplicated.", "keys", ""],
        ),
        (
            "CREATE UNIQUE INDEX sums ON t ((k + 1))",
            ["could not create unique index \"sums\"", "Key ((k + 1))=(2) is duplicated.", "sums", ""],
        ),
        (
            "ALTER TABLE t ADD UNIQUE (k)",
            ["could not create unique index \"t_k_key\"", "Key (k)=(1) is duplicated.", "t_k_key", ""],
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT large CHECK (k > 5)",
            ["check constraint \"large\" of relation \"t\" is violated by some row", "", "large", ""],
        ),
        (
            "ALTER TABLE t ALTER COLUMN m SET NOT NULL",
            ["column \"m\" of relation \"t\" contains null values", "", "", "m"],
        ),
        (
            "ALTER TABLE t ADD COLUMN z int NOT NULL",
            ["column \"z\" of relation \"t\" contains null values", "", "", "z"],
        ),
        (
            "ALTER TABLE later ALTER COLUMN b TYPE positive",
            ["value for domain positive violates check constraint \"positive_check\"", "", "positive_check", ""],
        ),
    ] {
        assert_eq!(failure(&client, statement), failed, "{statement}");
    }
}

#[test]
fn a_row_of_a_copy_is_told_alike_into_an_empty_table_and_into_another() {
    let client = Client::new(&database(), "anna");
    lines(&client, "CREATE TABLE c (id int PRIMARY KEY, b int UNIQUE, v int NOT NULL)");
    for is_empty in [true, false] {
        for (data, detail) in [
            ("7,7,7\n7,8,7\n", "Key (id)=(7) already exists."),
            ("7,7,7\n8,7,7\n", "Key (b)=(7) already exists."),
            ("7,7,\n", "Failing row contains (7, 7, null)."),
        ] {
            let error = run(&client, &format!("COPY c FROM STDIN (FORMAT csv)\n\n{data}")).expect_err(data);
            assert_eq!(error.parts().detail.as_deref(), Some(detail), "{data}, empty: {is_empty}");
        }
        lines(&client, "INSERT INTO c VALUES (1, 1, 1) ON CONFLICT DO NOTHING");
    }
}

#[test]
fn found_a_user_who_may_not_read_a_table_was_told_its_row() {
    let database = database();
    let owner = Client::new(&database, "anna");
    with_tables(&owner);
    let rights = Arc::<Listed>::default();
    let user = Client::with_rights(&database, "ben", Arc::clone(&rights) as Arc<dyn Rights>);
    let insert = "INSERT INTO t VALUES (1, NULL, 1)";
    let again = "INSERT INTO t VALUES (1, 'q', 1)";
    let within = "WITH added AS (INSERT INTO t VALUES (1, 'q', 1)) SELECT 1";
    rights.set(&["INSERT public.t"]);
    for statement in [insert, again, within] {
        assert_eq!(failure(&user, statement)[1], "", "{statement}");
    }
    rights.set(&["INSERT public.t", "SELECT public.t"]);
    let told = ["Failing row contains (1, null, 1, null, null, null, null, null).", "Key (id)=(1) already exists."];
    assert_eq!([&failure(&user, insert)[1], &failure(&user, again)[1]], told);
}

#[test]
fn a_check_may_ask_who_writes_and_nothing_looks_at_it_again() {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let client = Client::new(&database, "anna");
    lines(&client, "CREATE TABLE t (id int PRIMARY KEY, who text CHECK (who = CURRENT_USER))");
    // An empty table is loaded, and another one gets rows.
    for id in [1, 3] {
        let copy = |id: i32, who: &str| run(&client, &format!("COPY t FROM STDIN (FORMAT csv)\n\n{id},{who}\n"));
        let error = copy(id, "ben").expect_err("another user");
        assert_eq!(error.parts().constraint.as_deref(), Some("t_who_check"));
        copy(id, "anna").expect("the user who writes");
    }
    // Neither the check of all rows nor a program without SQL is that user.
    assert_eq!(quipu_rows::check(&db, &mut |_| ()).expect("it is checked").problems, Vec::<String>::new());
    let rows = quipu_rows::Database::open(&db).expect("rows");
    let insert = |who: &str| rows.write(|tx| tx.table("t")?.insert(vec![Value::Int(5), Value::Text(who.into())]));
    let error = insert("anna").expect_err("nobody");
    assert!(error.to_string().contains("t_who_check"), "{error}");
    insert("").expect("no user");
}
