//! Goal: sessions beside each other wait where PostgreSQL's do, and see what PostgreSQL's see. Method: two sessions, and
//! threads where one has to wait for the other.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use quipu::{Db, Options};
use quipu_sql::{CopyFormat, Datum, Progress, Result, Session, Sink, SqlDatabase, SqlError, SqlType};

/// Rows as texts.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Vec<Option<String>>>,
    types: Vec<SqlType>,
    environment: Arc<dyn quipu_sql::functions::Environment>,
}

impl Rows {
    /// Takes rows of these types.
    pub(crate) fn of(types: Vec<SqlType>, session: &Session) -> Rows {
        Rows { rows: Vec::new(), types, environment: session.environment() }
    }
}

impl Sink for Rows {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let mut row = Vec::new();
        for (value, sql_type) in values.iter().zip(&self.types) {
            let text = quipu_sql::types::text::to_string(value, *sql_type, &*self.environment)?;
            row.push((!value.is_null()).then_some(text));
        }
        self.rows.push(row);
        Ok(())
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.rows.push(vec![Some(String::from_utf8_lossy(data).into_owned())]);
        Ok(())
    }

    fn notice(&mut self, _notice: &SqlError) {}

    fn setting_changed(&mut self, _name: &str, _value: &str) {}
}

/// Runs the statements of a text as a simple query. Returns the rows of the last one.
pub(crate) fn run(session: &mut Session, text: &str) -> Result<Vec<Vec<Option<String>>>> {
    let result = try_run(session, text);
    let synced = session.sync();
    let rows = result?;
    synced?;
    Ok(rows)
}

fn try_run(session: &mut Session, text: &str) -> Result<Vec<Vec<Option<String>>>> {
    let statements = session.parse(text)?;
    let is_alone = statements.len() == 1;
    let mut last = Vec::new();
    for statement in statements {
        let prepared = session.prepare_parsed(statement, &[])?;
        let types = prepared.columns.iter().flatten().map(|column| column.sql_type).collect();
        let mut rows = Rows::of(types, session);
        let mut portal = session.bind(&prepared, Vec::new())?;
        match session.execute(&mut portal, None, is_alone, &mut rows)? {
            Progress::CopyIn(copy) => {
                return Err(session.copy_fail(copy, "the test has no data"));
            }
            _ => last = rows.rows,
        }
    }
    Ok(last)
}

/// The rows of a query, a line each.
pub(crate) fn lines(session: &mut Session, text: &str) -> Vec<String> {
    let rows = run(session, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join("|")).collect()
}

fn code(session: &mut Session, text: &str) -> &'static str {
    run(session, text).map_or_else(|error| error.state().code(), |_| "00000")
}

pub(crate) fn database() -> SqlDatabase {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    SqlDatabase::open(&db).expect("SQL over it")
}

fn with_table(database: &SqlDatabase) -> (Session, Session) {
    let mut first = database.session("anna", "quipu");
    run(&mut first, "CREATE TABLE t (id int PRIMARY KEY, v int)").expect("created");
    run(&mut first, "INSERT INTO t VALUES (1, 10), (2, 20)").expect("inserted");
    (first, database.session("ben", "quipu"))
}

/// Runs a text in another thread. What comes back is sent when it is over.
fn beside(mut session: Session, text: &'static str) -> std::sync::mpsc::Receiver<(Session, &'static str)> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let code = code(&mut session, text);
        let _ = sender.send((session, code));
    });
    receiver
}

const WAIT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn an_update_waits_for_another_transaction_and_goes_on_with_what_it_has_left() {
    let (mut anna, ben) = with_table(&database());
    run(&mut anna, "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1").expect("updated");
    let waits = beside(ben, "UPDATE t SET v = v + 1 WHERE id = 1");
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&mut anna, "COMMIT").expect("committed");
    let (mut ben, code) = waits.recv_timeout(LONG).expect("it goes on");
    assert_eq!(code, "00000");
    assert_eq!(lines(&mut ben, "SELECT v FROM t WHERE id = 1"), ["12"]);
}

#[test]
fn read_committed_loses_no_update_between_two_transactions() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1").expect("updated");
    run(&mut ben, "BEGIN; SELECT v FROM t WHERE id = 1").expect("read");
    let waits = beside(ben, "UPDATE t SET v = v + 1 WHERE v = 11; COMMIT");
    assert!(waits.recv_timeout(WAIT).is_err(), "nothing has 11 yet, or it waits");
    run(&mut anna, "COMMIT").expect("committed");
    let (mut ben, _) = waits.recv_timeout(LONG).expect("it goes on");
    assert_eq!(code(&mut ben, "SELECT 1"), "00000");
}

#[test]
fn transactions_that_wait_for_each_other_are_told_so() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN; UPDATE t SET v = 0 WHERE id = 1").expect("updated");
    run(&mut ben, "BEGIN; UPDATE t SET v = 0 WHERE id = 2").expect("updated");
    let waits = beside(ben, "UPDATE t SET v = 0 WHERE id = 1");
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    assert_eq!(code(&mut anna, "UPDATE t SET v = 0 WHERE id = 2"), "40P01");
    run(&mut anna, "ROLLBACK").expect("rolled back");
    let (_, code) = waits.recv_timeout(LONG).expect("it goes on");
    assert_eq!(code, "00000");
}

#[test]
fn repeatable_read_is_refused_where_what_it_read_has_changed() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 1").expect("read");
    run(&mut ben, "UPDATE t SET v = 5 WHERE id = 1").expect("updated");
    assert_eq!(lines(&mut anna, "SELECT v FROM t WHERE id = 1"), ["10"], "it sees its own moment");
    assert_eq!(code(&mut anna, "UPDATE t SET v = v + 1 WHERE id = 1"), "40001");
    assert_eq!(code(&mut anna, "SELECT 1"), "25P02");
    run(&mut anna, "ROLLBACK").expect("rolled back");
}

#[test]
fn read_committed_sees_what_was_committed_before_each_statement() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN").expect("begun");
    assert_eq!(lines(&mut anna, "SELECT v FROM t WHERE id = 1"), ["10"]);
    run(&mut ben, "UPDATE t SET v = 11 WHERE id = 1").expect("updated");
    assert_eq!(lines(&mut anna, "SELECT v FROM t WHERE id = 1"), ["11"]);
    run(&mut anna, "COMMIT").expect("committed");
}

#[test]
fn locked_rows_are_refused_or_left_out_if_that_is_asked_for() {
    let (mut anna, mut ben) = with_table(&database());
    assert_eq!(lines(&mut anna, "BEGIN; SELECT id FROM t WHERE id = 1 FOR UPDATE"), ["1"]);
    assert_eq!(code(&mut ben, "SELECT id FROM t WHERE id = 1 FOR UPDATE NOWAIT"), "55P03");
    assert_eq!(lines(&mut ben, "SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), ["2"]);
    assert_eq!(lines(&mut ben, "SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"), ["2"]);
    assert_eq!(lines(&mut ben, "SELECT v FROM t WHERE id = 1"), ["10"], "reading needs no lock");
    run(&mut ben, "SET lock_timeout = '50ms'").expect("set");
    assert_eq!(code(&mut ben, "UPDATE t SET v = 1 WHERE id = 1"), "55P03");
    run(&mut anna, "COMMIT").expect("committed");
    assert_eq!(code(&mut ben, "UPDATE t SET v = 1 WHERE id = 1"), "00000");
}

#[test]
fn an_insert_waits_for_a_key_that_another_transaction_has_inserted() {
    let (mut anna, ben) = with_table(&database());
    run(&mut anna, "BEGIN; INSERT INTO t VALUES (3, 30)").expect("inserted");
    let waits = beside(ben, "INSERT INTO t VALUES (3, 31)");
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&mut anna, "ROLLBACK").expect("rolled back");
    let (mut ben, code) = waits.recv_timeout(LONG).expect("it goes on");
    assert_eq!(code, "00000");
    assert_eq!(lines(&mut ben, "SELECT v FROM t WHERE id = 3"), ["31"]);
}

#[test]
fn a_savepoint_gives_back_locks_and_rows() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN; SAVEPOINT s; UPDATE t SET v = 0 WHERE id = 1").expect("updated");
    run(&mut anna, "ROLLBACK TO s").expect("rolled back");
    assert_eq!(code(&mut ben, "UPDATE t SET v = 7 WHERE id = 1"), "00000");
    run(&mut anna, "COMMIT").expect("committed");
    assert_eq!(lines(&mut anna, "SELECT v FROM t WHERE id = 1"), ["7"]);
}

#[test]
fn many_sessions_add_to_one_row_and_none_is_lost() {
    let database = database();
    let (mut anna, _) = with_table(&database);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let mut session = database.session("many", "quipu");
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let text = match number % 2 {
                        0 => "UPDATE t SET v = v + 1 WHERE id = 1",
                        _ => "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1; COMMIT",
                    };
                    assert_eq!(code(&mut session, text), "00000", "{text}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread");
    }
    assert_eq!(lines(&mut anna, "SELECT v FROM t WHERE id = 1"), ["110"]);
}

#[test]
fn a_failed_statement_leaves_nothing_of_its_transaction_but_the_end() {
    let (mut anna, _) = with_table(&database());
    assert_eq!(code(&mut anna, "INSERT INTO t VALUES (4, 1); INSERT INTO t VALUES (4, 2)"), "23505");
    assert_eq!(lines(&mut anna, "SELECT count(*) FROM t"), ["2"], "several statements of a text are one transaction");
    run(&mut anna, "BEGIN").expect("begun");
    assert_eq!(code(&mut anna, "SELECT 1/0"), "22012");
    assert_eq!(code(&mut anna, "INSERT INTO t VALUES (5, 1)"), "25P02");
    run(&mut anna, "COMMIT").expect("it is a rollback");
    assert_eq!(lines(&mut anna, "SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn definitions_are_undone_with_their_transaction() {
    let (mut anna, mut ben) = with_table(&database());
    run(&mut anna, "BEGIN; CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1)").expect("created");
    assert_eq!(lines(&mut anna, "SELECT a FROM u"), ["1"]);
    assert_eq!(code(&mut ben, "SELECT a FROM u"), "42P01");
    run(&mut anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code(&mut anna, "SELECT a FROM u"), "42P01");
}

#[test]
fn a_cancelled_statement_ends() {
    let database = database();
    let session = database.session("anna", "quipu");
    let canceller = session.canceller();
    let waits = beside(
        session,
        "SELECT count(*) FROM generate_series(1, 2000) a, generate_series(1, 2000) b, generate_series(1, 2000) c",
    );
    std::thread::sleep(WAIT);
    canceller.cancel();
    let (_, code) = waits.recv_timeout(LONG).expect("it ends");
    assert_eq!(code, "57014");
}
