//! Goal: sessions beside each other wait where PostgreSQL's do, and see what PostgreSQL's see. Method: two sessions,
//! and threads where one has to wait for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use quipu::io::sim::SimDisk;
use quipu::{Db, Options};
use quipu_sql::identity::rights::{AllRights, Rights};
use quipu_sql::{Canceller, CopyFormat, Datum, Progress, Result, Session, Sink, SqlDatabase, SqlError, SqlType};

/// Rows as texts.
struct Rows {
    rows: Vec<Vec<Option<String>>>,
    types: Vec<SqlType>,
    environment: Arc<dyn quipu_sql::functions::Environment>,
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

/// What a session answered: the columns, if there are any, the rows, and the tag.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) columns: Option<usize>,
    pub(crate) types: Vec<SqlType>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) tag: String,
}

/// Bytes of a message of COPY.
const COPY_BYTES: usize = 8_000;

/// The number of the next connection.
static PROCESSES: AtomicI32 = AtomicI32::new(1);

/// A client: its session lives in a thread of its own, as in the server.
pub(crate) struct Client {
    asks: Sender<(String, bool, Sender<Result<Answer>>)>,
    canceller: Canceller,
    /// The number of its connection.
    process: i32,
}

impl Client {
    pub(crate) fn new(database: &SqlDatabase, user: &str) -> Client {
        Client::with_rights(database, user, Arc::new(AllRights))
    }

    pub(crate) fn with_rights(database: &SqlDatabase, user: &str, rights: Arc<dyn Rights>) -> Client {
        let (asks, asked) = channel::<(String, bool, Sender<Result<Answer>>)>();
        let (told, canceller) = channel();
        let (database, user) = (database.clone(), user.to_owned());
        let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
        let run = move || {
            let mut session = database.session_with(&user, rights, "quipu", &[]);
            session.set_process(process);
            let _ = told.send(session.canceller());
            for (text, is_prepared, answer) in asked {
                let result = ask(&mut session, &text, is_prepared);
                let synced = session.sync();
                let _ = answer.send(result.and_then(|answer| synced.map(|()| answer)));
            }
        };
        std::thread::Builder::new().stack_size(quipu_sql::STACK_BYTES).spawn(run).expect("a thread");
        Client { asks, canceller: canceller.recv().expect("the thread has begun"), process }
    }

    /// Sends the statements of a text; a single one may be prepared first.
    pub(crate) fn send(&self, text: &str, is_prepared: bool) -> Receiver<Result<Answer>> {
        let (sender, receiver) = channel();
        self.asks.send((text.to_owned(), is_prepared, sender)).expect("the thread lives");
        receiver
    }

    /// Cancels what it runs.
    pub(crate) fn cancel(&self) {
        self.canceller.cancel();
    }
}

fn ask(session: &mut Session, text: &str, is_prepared: bool) -> Result<Answer> {
    // The data of a COPY stand after an empty line.
    let (text, data) = text.split_once("\n\n").unwrap_or((text, ""));
    let statements = session.parse(text)?;
    let is_alone = statements.len() == 1;
    let mut last = Answer::default();
    for statement in statements {
        let prepared = match is_prepared && is_alone {
            true => session.prepare(&statement.text, &[])?,
            false => session.prepare_parsed(statement, &[])?,
        };
        let types: Vec<SqlType> = prepared.columns.iter().flatten().map(|column| column.sql_type).collect();
        let columns = prepared.columns.as_ref().map(Vec::len);
        let mut rows = Rows { rows: Vec::new(), types, environment: session.environment() };
        let mut portal = session.bind(&prepared, Vec::new())?;
        let tag = match session.execute(&mut portal, None, is_alone, &mut rows)? {
            Progress::CopyIn(copy) if data.is_empty() => return Err(session.copy_fail(copy, "the test has no data")),
            Progress::CopyIn(mut copy) => {
                for part in data.as_bytes().chunks(COPY_BYTES) {
                    session.copy_data(&mut copy, part)?;
                }
                session.copy_done(copy)?
            }
            Progress::Done(tag) => tag,
            _ => String::new(),
        };
        last = Answer { columns, rows: rows.rows, types: rows.types, tag };
    }
    Ok(last)
}

/// Runs the statements of a text as a simple query. Returns the rows of the last one.
pub(crate) fn run(client: &Client, text: &str) -> Result<Vec<Vec<Option<String>>>> {
    client.send(text, false).recv().expect("an answer").map(|answer| answer.rows)
}

/// The rows of a query, a line each.
pub(crate) fn lines(client: &Client, text: &str) -> Vec<String> {
    let rows = run(client, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join("|")).collect()
}

fn code_of(result: Result<Answer>) -> &'static str {
    result.map_or_else(|error| error.state().code(), |_| "00000")
}

pub(crate) fn code(client: &Client, text: &str) -> &'static str {
    code_of(client.send(text, false).recv().expect("an answer"))
}

pub(crate) fn database() -> SqlDatabase {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    SqlDatabase::open(&db).expect("SQL over it")
}

fn with_table(database: &SqlDatabase) -> (Client, Client) {
    let first = Client::new(database, "anna");
    run(&first, "CREATE TABLE t (id int PRIMARY KEY, v int)").expect("created");
    run(&first, "INSERT INTO t VALUES (1, 10), (2, 20)").expect("inserted");
    (first, Client::new(database, "ben"))
}

const WAIT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn temporary_tables_are_of_one_session_and_go_with_it() {
    let db = Db::open("/sql", Options::without_files()).expect("a database without files");
    let database = SqlDatabase::open(&db).expect("SQL over it");
    let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
    for client in [&anna, &ben] {
        run(client, "CREATE TEMP TABLE t (id int PRIMARY KEY); CREATE TEMP VIEW v AS SELECT id FROM t")
            .expect("created");
    }
    run(&anna, "INSERT INTO t VALUES (1), (2)").expect("inserted");
    assert_eq!(lines(&anna, "SELECT count(*) FROM v"), ["2"]);
    assert_eq!(lines(&ben, "SELECT count(*) FROM v"), ["0"]);
    let schema = lines(&anna, "SELECT relnamespace::regnamespace FROM pg_class WHERE oid = 't'::regclass");
    assert_eq!(code(&ben, &format!("SELECT * FROM {}.t", schema[0])), "0A000");
    let count = "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'v')";
    assert_eq!(lines(&ben, count), ["4"]);
    // A process that is killed leaves them there, and the next one that opens the directory removes them.
    let again = SqlDatabase::open(&db).expect("SQL over it again");
    assert_eq!(lines(&Client::new(&again, "carl"), count), ["0"]);
}

#[test]
fn a_database_that_cannot_be_written_is_opened_beside_temporary_tables_that_a_killed_process_left() {
    let disk = SimDisk::new();
    let options = |disk: &SimDisk| Options { disk: Arc::new(disk.clone()), ..Options::default() };
    let database = SqlDatabase::open(&Db::open("/sql", options(&disk)).expect("a database")).expect("SQL over it");
    run(&Client::new(&database, "zoe"), "CREATE TABLE stays (id int)").expect("created");
    let anna = Client::new(&database, "anna");
    run(&anna, "CREATE TEMP TABLE t (id int PRIMARY KEY)").expect("created");
    let killed = disk.kill();
    let reading = Options { read_only: true, ..options(&killed) };
    let database = SqlDatabase::open(&Db::open("/sql", reading).expect("opened to read")).expect("SQL over it");
    for number in 0..4 {
        let client = Client::new(&database, "ben");
        assert_eq!(lines(&client, "SELECT count(*) FROM stays"), ["0"]);
        assert_eq!(code(&client, "SELECT count(*) FROM t"), "42P01", "session {number} takes it for its own");
    }
    let again = options(&killed.kill());
    let database = SqlDatabase::open(&Db::open("/sql", again).expect("opened again")).expect("SQL over it");
    assert_eq!(lines(&Client::new(&database, "carl"), "SELECT count(*) FROM pg_class WHERE relname = 't'"), ["0"]);
}

#[test]
fn transactions_with_temporary_tables_of_one_name_do_not_meet() {
    let database = database();
    let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
    for client in [&anna, &ben] {
        run(client, "BEGIN; CREATE TEMP TABLE t (id int) ON COMMIT DROP; INSERT INTO t VALUES (1)").expect("created");
    }
    for client in [&anna, &ben] {
        assert_eq!(lines(client, "SELECT count(*) FROM t"), ["1"]);
        run(client, "COMMIT").expect("committed");
        assert_eq!(code(client, "SELECT count(*) FROM t"), "42P01");
    }
}

#[test]
fn an_update_waits_for_another_transaction_and_goes_on_with_what_it_has_left() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1").expect("updated");
    let waits = ben.send("UPDATE t SET v = v + 1 WHERE id = 1", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&anna, "COMMIT").expect("committed");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&ben, "SELECT v FROM t WHERE id = 1"), ["12"]);
}

#[test]
fn read_committed_loses_no_update_between_two_transactions() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1").expect("updated");
    run(&ben, "BEGIN; SELECT v FROM t WHERE id = 1").expect("read");
    let waits = ben.send("UPDATE t SET v = v + 1 WHERE id = 1; COMMIT", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&anna, "COMMIT").expect("committed");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["12"]);
}

#[test]
fn transactions_that_wait_for_each_other_are_told_so() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; UPDATE t SET v = 0 WHERE id = 1").expect("updated");
    run(&ben, "BEGIN; UPDATE t SET v = 0 WHERE id = 2").expect("updated");
    let waits = ben.send("UPDATE t SET v = 0 WHERE id = 1", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    assert_eq!(code(&anna, "UPDATE t SET v = 0 WHERE id = 2"), "40P01");
    run(&anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
}

#[test]
fn repeatable_read_is_refused_where_what_it_read_has_changed() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 1").expect("read");
    run(&ben, "UPDATE t SET v = 5 WHERE id = 1").expect("updated");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["10"], "it sees its own moment");
    assert_eq!(code(&anna, "UPDATE t SET v = v + 1 WHERE id = 1"), "40001");
    assert_eq!(code(&anna, "SELECT 1"), "25P02");
    run(&anna, "ROLLBACK").expect("rolled back");
}

#[test]
fn read_committed_sees_what_was_committed_before_each_statement() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN").expect("begun");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["10"]);
    run(&ben, "UPDATE t SET v = 11 WHERE id = 1").expect("updated");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["11"]);
    run(&anna, "COMMIT").expect("committed");
}

#[test]
fn a_cursor_at_read_committed_is_declared_over_tables_that_others_have_made_since() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; SELECT v FROM t").expect("begun");
    run(&ben, "CREATE TABLE later (id int PRIMARY KEY); INSERT INTO later VALUES (7)").expect("made");
    assert_eq!(lines(&anna, "DECLARE c CURSOR FOR SELECT id FROM later; FETCH c"), ["7"]);
    run(&anna, "COMMIT").expect("committed");
}

#[test]
fn locked_rows_are_refused_or_left_out_if_that_is_asked_for() {
    let (anna, ben) = with_table(&database());
    assert_eq!(lines(&anna, "BEGIN; SELECT id FROM t WHERE id = 1 FOR UPDATE"), ["1"]);
    assert_eq!(code(&ben, "SELECT id FROM t WHERE id = 1 FOR UPDATE NOWAIT"), "55P03");
    assert_eq!(lines(&ben, "SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), ["2"]);
    assert_eq!(lines(&ben, "SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"), ["2"]);
    assert_eq!(lines(&ben, "SELECT v FROM t WHERE id = 1"), ["10"], "reading needs no lock");
    run(&ben, "SET lock_timeout = '50ms'").expect("set");
    assert_eq!(code(&ben, "UPDATE t SET v = 1 WHERE id = 1"), "55P03");
    run(&anna, "COMMIT").expect("committed");
    assert_eq!(code(&ben, "UPDATE t SET v = 1 WHERE id = 1"), "00000");
}

#[test]
fn an_insert_waits_for_a_key_that_another_transaction_has_inserted() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; INSERT INTO t VALUES (3, 30)").expect("inserted");
    let waits = ben.send("INSERT INTO t VALUES (3, 31)", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&ben, "SELECT v FROM t WHERE id = 3"), ["31"]);
}

#[test]
fn a_copy_waits_and_is_waited_for_as_an_insert() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; INSERT INTO t VALUES (3, 30)").expect("inserted");
    let waits = ben.send("COPY t FROM STDIN\n\n3\t31\n4\t41\n", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id >= 3 ORDER BY id"), ["31", "41"]);
    run(&ben, "BEGIN").expect("begun");
    run(&ben, "COPY t FROM STDIN\n\n5\t51\n6\t61\n").expect("copied");
    let waits = anna.send("INSERT INTO t VALUES (6, 60)", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&ben, "COMMIT").expect("committed");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "23505");
}

#[test]
fn a_savepoint_gives_back_rows_and_the_end_gives_back_locks() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; SAVEPOINT s; UPDATE t SET v = 0 WHERE id = 1").expect("updated");
    run(&anna, "ROLLBACK TO s").expect("rolled back");
    let waits = ben.send("UPDATE t SET v = v + 7 WHERE id = 1", false);
    assert!(waits.recv_timeout(WAIT).is_err(), "it waits");
    run(&anna, "UPDATE t SET v = 0 WHERE id = 2; COMMIT").expect("committed");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["17"]);
}

#[test]
fn many_sessions_add_to_one_row_and_none_is_lost() {
    let database = database();
    let (anna, _) = with_table(&database);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let client = Client::new(&database, "many");
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let text = match number % 2 {
                        0 => "UPDATE t SET v = v + 1 WHERE id = 1",
                        _ => "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1; COMMIT",
                    };
                    assert_eq!(code(&client, text), "00000", "{text}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread");
    }
    assert_eq!(lines(&anna, "SELECT v FROM t WHERE id = 1"), ["110"]);
}

#[test]
fn a_failed_statement_leaves_nothing_of_its_transaction_but_the_end() {
    let (anna, _) = with_table(&database());
    assert_eq!(code(&anna, "INSERT INTO t VALUES (4, 1); INSERT INTO t VALUES (4, 2)"), "23505");
    assert_eq!(lines(&anna, "SELECT count(*) FROM t"), ["2"], "several statements of a text are one transaction");
    run(&anna, "BEGIN").expect("begun");
    assert_eq!(code(&anna, "SELECT 1/0"), "22012");
    assert_eq!(code(&anna, "INSERT INTO t VALUES (5, 1)"), "25P02");
    run(&anna, "COMMIT").expect("it is a rollback");
    assert_eq!(lines(&anna, "SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn definitions_are_undone_with_their_transaction() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN; CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1)").expect("created");
    assert_eq!(lines(&anna, "SELECT a FROM u"), ["1"]);
    assert_eq!(code(&ben, "SELECT a FROM u"), "42P01");
    run(&anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code(&anna, "SELECT a FROM u"), "42P01");
}

#[test]
fn a_cancelled_statement_ends() {
    let database = database();
    let anna = Client::new(&database, "anna");
    let many = "generate_series(1, 2000)";
    let text = format!("SELECT count(*) FROM {many} a, {many} b, {many} c");
    let waits = anna.send(&text, false);
    // It has begun, or begins once more: who begins forgets what was asked before.
    while waits.recv_timeout(WAIT).is_err() {
        anna.canceller.cancel();
        if let Ok(ended) = waits.recv_timeout(WAIT) {
            assert_eq!(code_of(ended), "57014");
            return;
        }
    }
    panic!("it ended on its own");
}

#[test]
fn sessions_tell_each_other_what_they_run_and_cancel_it() {
    let database = database();
    let (anna, ben) = (Client::new(&database, "anna"), Client::new(&database, "ben"));
    let activity = "SELECT state, wait_event_type, query, usename, xact_start IS NULL FROM pg_stat_activity";
    let told = || lines(&ben, &format!("{activity} WHERE pid = {}", anna.process)).remove(0);
    lines(&anna, "BEGIN");
    assert_eq!(told(), "idle in transaction|Client|BEGIN|anna|f");
    assert_eq!(code(&anna, "SELECT 1 / 0"), "22012");
    assert_eq!(told(), "idle in transaction (aborted)|Client|SELECT 1 / 0|anna|f");
    lines(&anna, "ROLLBACK");
    assert_eq!(told(), "idle|Client|ROLLBACK|anna|t");
    let waits = anna.send("SELECT pg_sleep(60)", false);
    while told() != "active|NULL|SELECT pg_sleep(60)|anna|f" {
        std::thread::yield_now();
    }
    assert_eq!(lines(&ben, &format!("SELECT pg_cancel_backend({})", anna.process)), ["t"]);
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it ends")), "57014");
    assert_eq!(told(), "idle|Client|SELECT pg_sleep(60)|anna|t");
    // There are no such connections: one that is not there, and a session without one.
    assert_eq!(lines(&ben, "SELECT pg_cancel_backend(0), pg_terminate_backend(0)"), ["f|f"]);
    assert_eq!(lines(&ben, &format!("SELECT pg_terminate_backend({})", anna.process)), ["f"]);
}

#[test]
fn a_session_that_waits_for_a_lock_is_seen_to_wait() {
    let database = database();
    let (anna, ben) = with_table(&database);
    lines(&anna, "BEGIN");
    lines(&anna, "UPDATE t SET v = 11 WHERE id = 1");
    let waits = ben.send("UPDATE t SET v = 12 WHERE id = 1", false);
    let of_ben = format!("WHERE pid = {}", ben.process);
    let event = format!("SELECT wait_event_type, wait_event, state FROM pg_stat_activity {of_ben}");
    while lines(&anna, &event) != ["Lock|tuple|active"] {
        std::thread::yield_now();
    }
    let locks = format!("SELECT locktype, relation::regclass, mode, granted FROM pg_locks {of_ben} AND NOT granted");
    assert_eq!(lines(&anna, &locks), ["tuple|t|ExclusiveLock|f"]);
    lines(&anna, "COMMIT");
    assert_eq!(code_of(waits.recv_timeout(LONG).expect("it goes on")), "00000");
    assert_eq!(lines(&anna, &format!("SELECT count(*) FROM pg_locks {of_ben}")), ["0"]);
}

#[test]
fn a_prepared_statement_names_what_the_search_path_finds_now() {
    let client = Client::new(&database(), "anna");
    for (schema, x) in [("a", 1), ("b", 2)] {
        run(&client, &format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (x int)")).expect("created");
        run(&client, &format!("INSERT INTO {schema}.t VALUES ({x})")).expect("inserted");
    }
    run(&client, "SET search_path = a; PREPARE p AS SELECT x FROM t").expect("prepared");
    for (schema, x) in [("a", "1"), ("b", "2"), ("a", "1")] {
        lines(&client, &format!("SET search_path = {schema}"));
        let answer = client.send("SELECT x FROM t", true).recv().expect("an answer").expect("rows");
        assert_eq!(answer.rows, [[Some(x.to_owned())]]);
        assert_eq!(lines(&client, "EXECUTE p"), [x]);
    }
}

#[test]
fn a_text_that_is_sent_again_has_its_dates_read_again() {
    let client = Client::new(&database(), "anna");
    let ask = |text: &str| client.send(text, true).recv().expect("an answer").expect("rows").rows;
    let now = "SELECT 'now'::timestamp, 'now'::text::timestamp";
    let first = ask(now);
    lines(&client, "SELECT pg_sleep(0.005)");
    assert!(ask(now)[0].iter().zip(&first[0]).all(|(later, before)| later > before));
}

#[test]
fn a_fetch_may_be_prepared_before_its_cursor_is_there() {
    let mut session = database().session("anna", "quipu");
    let fetch = session.prepare("FETCH ALL FROM c", &[]).expect("prepared");
    assert!(fetch.columns.is_none());
    assert_eq!(code_of(ask(&mut session, "FETCH ALL FROM c", true)), "34000");
    session.sync().expect("synced");
    for statement in ["BEGIN", "DECLARE c CURSOR FOR SELECT n, n::text AS t FROM generate_series(1, 3) n"] {
        ask(&mut session, statement, false).expect("done");
    }
    let portal = session.bind(&fetch, Vec::new()).expect("bound");
    let names = portal.prepared.columns.iter().flatten().map(|column| &*column.name);
    assert_eq!(names.collect::<Vec<_>>(), ["n", "t"]);
    assert_eq!(ask(&mut session, "FETCH ALL FROM c", true).expect("rows").rows.len(), 3);
}

#[test]
fn prepared_statements_and_cursors_are_listed_while_they_are_there() {
    let client = Client::new(&database(), "anna");
    let prepared = || lines(&client, "SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements");
    let cursors = || lines(&client, "SELECT name, is_holdable, statement FROM pg_cursors ORDER BY name");
    lines(&client, "PREPARE one (int) AS SELECT $1");
    assert_eq!(prepared(), ["one|PREPARE one (int) AS SELECT $1|{integer}|t"]);
    lines(&client, "DEALLOCATE one");
    assert!(prepared().is_empty());
    for statement in ["BEGIN", "DECLARE c CURSOR FOR SELECT 1", "DECLARE h CURSOR WITH HOLD FOR SELECT 2"] {
        lines(&client, statement);
    }
    assert_eq!(cursors(), ["c|f|DECLARE c CURSOR FOR SELECT 1", "h|t|DECLARE h CURSOR WITH HOLD FOR SELECT 2"]);
    lines(&client, "COMMIT");
    assert_eq!(cursors(), ["h|t|DECLARE h CURSOR WITH HOLD FOR SELECT 2"]);
    lines(&client, "CLOSE ALL");
    assert!(cursors().is_empty());
}

#[test]
fn advisory_locks_exclude_wait_and_end_with_session_or_transaction() {
    let database = database();
    let (one, two) = (Client::new(&database, "one"), Client::new(&database, "two"));
    assert_eq!(lines(&one, "SELECT pg_try_advisory_lock(7)"), ["t"]);
    assert_eq!(lines(&one, "SELECT pg_try_advisory_lock(7)"), ["t"]);
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock(7)"), ["f"]);
    assert_eq!(lines(&two, "SELECT pg_advisory_unlock(7)"), ["f"]);
    assert_eq!(lines(&one, "SELECT pg_advisory_unlock(7)"), ["t"]);
    // It was taken twice.
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock(7)"), ["f"]);
    let waiting = two.send("SELECT pg_advisory_lock(7)", false);
    assert!(waiting.recv_timeout(Duration::from_millis(100)).is_err());
    assert_eq!(lines(&one, "SELECT pg_advisory_unlock(7)"), ["t"]);
    assert!(waiting.recv_timeout(Duration::from_secs(10)).expect("it has the lock").is_ok());
    lines(&two, "SELECT pg_advisory_unlock_all()");
    assert_eq!(lines(&one, "SELECT pg_try_advisory_lock_shared(8)"), ["t"]);
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock_shared(8)"), ["t"]);
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock(8)"), ["f"]);
    // Of a transaction: until its end.
    lines(&one, "BEGIN");
    assert_eq!(lines(&one, "SELECT pg_try_advisory_xact_lock(1, 2)"), ["t"]);
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock(1, 2)"), ["f"]);
    lines(&one, "COMMIT");
    assert_eq!(lines(&two, "SELECT pg_try_advisory_lock(1, 2)"), ["t"]);
    drop(two);
    let waiting = one.send("SELECT pg_advisory_lock(1, 2)", false);
    assert!(waiting.recv_timeout(Duration::from_secs(10)).expect("the session has ended").is_ok());
}

#[test]
fn advisory_locks_of_two_sessions_in_a_circle_are_a_deadlock() {
    let database = database();
    let (one, two) = (Client::new(&database, "one"), Client::new(&database, "two"));
    lines(&one, "SELECT pg_advisory_lock(1)");
    lines(&two, "SELECT pg_advisory_lock(2)");
    let waiting = one.send("SELECT pg_advisory_lock(2)", false);
    assert!(waiting.recv_timeout(Duration::from_millis(100)).is_err());
    let refused = two.send("SELECT pg_advisory_lock(1)", false).recv().expect("it answers");
    assert_eq!(refused.map(|answer| answer.tag).map_err(|error| error.state().code().to_owned()), Err("40P01".into()));
    lines(&two, "SELECT pg_advisory_unlock(2)");
    assert!(waiting.recv().expect("it answers").is_ok());
}

#[test]
fn parameters_set_by_functions_and_for_a_transaction_end_as_those_of_postgresql() {
    let client = Client::new(&database(), "one");
    assert_eq!(lines(&client, "SELECT set_config('my.own', 'a', false)"), ["a"]);
    assert_eq!(lines(&client, "SELECT current_setting('my.own')"), ["a"]);
    lines(&client, "BEGIN");
    assert_eq!(lines(&client, "SELECT set_config('my.own', 'b', true), current_setting('my.own')"), ["b|b"]);
    lines(&client, "SET LOCAL lock_timeout = '5s'");
    assert_eq!(lines(&client, "SHOW lock_timeout"), ["5s"]);
    lines(&client, "COMMIT");
    assert_eq!(lines(&client, "SELECT current_setting('my.own'), current_setting('lock_timeout')"), ["a|0"]);
    lines(&client, "BEGIN");
    lines(&client, "SET lock_timeout = '7s'");
    lines(&client, "ROLLBACK");
    assert_eq!(lines(&client, "SHOW lock_timeout"), ["0"]);
    // What is set for the session beside that stays, whichever comes first, and goes with its savepoint.
    for (first, second) in [("SET", "SET LOCAL"), ("SET LOCAL", "SET")] {
        let set = |how: &str| {
            let seconds = if how == "SET" { 3 } else { 4 };
            lines(&client, &format!("{how} lock_timeout = '{seconds}s'"));
        };
        lines(&client, "BEGIN");
        set(first);
        set(second);
        lines(&client, "SAVEPOINT s");
        lines(&client, "SET lock_timeout = '9s'");
        lines(&client, "ROLLBACK TO s");
        lines(&client, "COMMIT");
        assert_eq!(lines(&client, "SHOW lock_timeout"), ["3s"], "{first}, {second}");
        lines(&client, "RESET lock_timeout");
    }
    // Without a transaction, for the statement alone.
    lines(&client, "SELECT set_config('my.own', 'c', true)");
    assert_eq!(lines(&client, "SELECT current_setting('my.own')"), ["a"]);
}

#[test]
fn each_transaction_has_a_number_of_its_own() {
    let client = Client::new(&database(), "one");
    let numbers = |text: &str| lines(&client, text);
    assert_ne!(numbers("SELECT txid_current()"), numbers("SELECT txid_current()"));
    lines(&client, "BEGIN");
    assert_eq!(numbers("SELECT txid_current()"), numbers("SELECT txid_current()"));
    lines(&client, "COMMIT");
}

#[test]
fn a_syntax_error_says_where_it_is_also_at_the_end() {
    let client = Client::new(&database(), "one");
    let place = |text: &str| {
        let error = client.send(text, false).recv().expect("an answer").expect_err("it is refused");
        assert_eq!(error.state().code(), "42601", "{text}");
        (error.message().to_owned(), error.parts().position)
    };
    let at_end = |position: usize| ("syntax error at end of input".to_owned(), Some(position));
    let at_semicolon = |position: usize| ("syntax error at or near \";\"".to_owned(), Some(position));
    assert_eq!(place("SELECT ("), at_end(9));
    assert_eq!(place("SELECT (   "), at_end(12));
    assert_eq!(place("SELECT (  -- c"), at_end(15));
    assert_eq!(place("SELECT * FROM"), at_end(14));
    assert_eq!(place("INSERT INTO t"), at_end(14));
    assert_eq!(place("SELECT 'é' || ("), at_end(16));
    assert_eq!(place("SELECT ( ; SELECT 1"), at_semicolon(10));
    assert_eq!(place("SELECT 1; SELECT 1 + ;"), at_semicolon(22));
    assert_eq!(place("SELECT 1;\n SELECT ("), at_end(20));
}

/// What ON CONFLICT names is read as a text of its own.
#[test]
fn an_error_of_what_on_conflict_names_is_at_its_place_in_the_statement() {
    let client = Client::new(&database(), "one");
    run(&client, "CREATE TABLE t (a text UNIQUE)").expect("created");
    let place = |text: &str| {
        let error = client.send(text, false).recv().expect("an answer").expect_err("it is refused");
        (error.state().code(), error.parts().position)
    };
    let text = "INSERT INTO t\n  VALUES ('x') ON CONFLICT (lower(b)) DO NOTHING";
    assert_eq!(place(text), ("42703", text.find("lower").map(|byte| byte + 1)));
    let text = "INSERT INTO t VALUES ('x') ON CONFLICT (a) WHERE b > 1 DO NOTHING";
    assert_eq!(place(text), ("42703", text.find("b > 1").map(|byte| byte + 1)));
}

#[test]
fn a_select_without_columns_answers_rows_without_values() {
    let client = Client::new(&database(), "one");
    for (text, rows) in [("SELECT", 1), ("SELECT;", 1), ("SELECT UNION ALL SELECT", 2), ("SELECT WHERE false", 0)] {
        let answer = client.send(text, false).recv().expect("an answer").expect("it runs");
        assert_eq!((answer.columns, answer.rows.len()), (Some(0), rows), "{text}");
    }
}

#[test]
fn a_row_of_a_copy_that_breaks_a_constraint_is_named_by_its_line() {
    let (client, _) = with_table(&database());
    run(&client, "CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t, v int CHECK (v > 0))").expect("created");
    let context = |text: &str| {
        let error = client.send(text, false).recv().expect("an answer").expect_err("it is refused");
        (error.state().code(), error.parts().context.clone())
    };
    let line = |line: u64| Some(format!("COPY t, line {line}"));
    assert_eq!(context("COPY t FROM STDIN\n\n5\t6\n6\t7\n1\t7\n"), ("23505", line(3)));
    assert_eq!(context("COPY t FROM STDIN (FORMAT csv, HEADER)\n\nid,v\n5,6\n1,7\n"), ("23505", line(3)));
    // Into an empty table, and one that is not.
    assert_eq!(context("COPY u FROM STDIN\n\n1\t1\t1\n2\t1\t0\n"), ("23514", Some("COPY u, line 2".to_owned())));
    run(&client, "INSERT INTO u VALUES (1, 1, 1)").expect("inserted");
    assert_eq!(context("COPY u FROM STDIN\n\n2\t1\t0\n"), ("23514", Some("COPY u, line 1".to_owned())));
    // PostgreSQL looks at foreign keys after the lines.
    assert_eq!(context("COPY u FROM STDIN\n\n2\t77\t1\n"), ("23503", None));
}

#[test]
fn a_copy_takes_the_rows_of_its_condition() {
    let (client, _) = with_table(&database());
    run(&client, "COPY t FROM STDIN WHERE id > 4 AND v <> 61\n\n3\t31\n5\t51\n6\t61\n7\t71\n").expect("copied");
    assert_eq!(lines(&client, "SELECT v FROM t WHERE id > 2 ORDER BY id"), ["51", "71"]);
    run(&client, "CREATE TABLE u (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int)").expect("created");
    run(&client, "COPY u (id) FROM STDIN WITH (FORMAT csv) WHERE u.id % 2 = 1\n\n1\n2\n3\n").expect("copied");
    assert_eq!(lines(&client, "SELECT id FROM u ORDER BY id"), ["1", "3"]);
    assert_eq!(code(&client, "COPY u FROM STDIN\n\n3\t1\n"), "23505");
    assert_eq!(code(&client, "COPY u FROM STDIN WHERE nothing > 1\n\n3\t1\n"), "42703");
    assert_eq!(code(&client, "COPY u FROM STDIN WHERE id >\n\n3\t1\n"), "42601");
}

/// The text that a query answers.
fn text_of(client: &Client, text: &str) -> String {
    lines(client, text).pop().expect("it answers a row")
}

#[test]
fn statements_read_a_snapshot_by_its_name_until_it_is_released() {
    let (anna, ben) = with_table(&database());
    let name = text_of(&anna, "SELECT quipu_snapshot(3600)");
    run(&ben, "INSERT INTO t SELECT i, i FROM generate_series(100, 199) i; UPDATE t SET v = 0").expect("written");
    let then = format!("AS OF SNAPSHOT '{name}'");
    assert_eq!(lines(&ben, &format!("SELECT count(*) FROM t {then}")), ["2"]);
    assert_eq!(lines(&ben, &format!("SELECT v FROM t {then} ORDER BY id OFFSET 1")), ["20"]);
    assert_eq!(lines(&anna, &format!("BEGIN; UPDATE t SET v = 7; SELECT sum(v) FROM t {then}")), ["30"]);
    run(&anna, "ROLLBACK; DROP TABLE t").expect("dropped");
    assert_eq!(lines(&ben, &format!("SELECT sum(v) FROM t as of snapshot '{name}'")), ["30"], "with its definitions");
    assert!(text_of(&ben, &format!("EXPLAIN SELECT count(*) FROM t {then}")).contains("rows=2"));
    assert_eq!(code(&ben, "SELECT 1 FROM t"), "42P01");
    assert_eq!(code(&ben, &format!("SELECT v FROM t {then} FOR UPDATE")), "0A000");
    assert_eq!(code(&ben, &format!("CREATE TABLE u AS SELECT v FROM t {then}")), "0A000");
    assert_eq!(code(&ben, "SELECT 1 AS OF SNAPSHOT 'none'"), "22023");
    assert_eq!(code(&ben, "SELECT quipu_snapshot(-1)"), "22023");
    assert_eq!(lines(&ben, &format!("SELECT quipu_release('{name}'), quipu_release('{name}')")), ["t|f"]);
    assert_eq!(code(&ben, &format!("SELECT v FROM t {then}")), "22023");
    let brief = text_of(&anna, "SELECT quipu_snapshot(0)");
    assert_eq!(code(&ben, &format!("SELECT 1 AS OF SNAPSHOT '{brief}'")), "22023", "its time is over");
}

#[test]
fn an_exported_snapshot_is_read_by_others_until_its_transaction_ends() {
    let (anna, ben) = with_table(&database());
    run(&anna, "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET v = 11 WHERE id = 1").expect("begun");
    let name = text_of(&anna, "SELECT pg_export_snapshot()");
    let import = format!("SET TRANSACTION SNAPSHOT '{name}'");
    run(&ben, "UPDATE t SET v = 21 WHERE id = 2").expect("written after it");
    assert_eq!(code(&ben, &format!("BEGIN; {import}")), "0A000", "read committed keeps no snapshot");
    run(&ben, "ROLLBACK").expect("rolled back");
    run(&ben, &format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {import}")).expect("imported");
    assert_eq!(lines(&ben, "SELECT v FROM t ORDER BY id"), ["10", "20"], "neither its writes nor later ones");
    assert_eq!(code(&ben, "UPDATE t SET v = v + 1 WHERE id = 2"), "40001", "the row has changed since");
    run(&ben, "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s").expect("begun");
    assert_eq!(code(&ben, &import), "25001");
    run(&ben, "ROLLBACK").expect("rolled back");
    assert_eq!(lines(&ben, &format!("SELECT quipu_release('{name}')")), ["f"], "it is not for others to end");
    assert_eq!(lines(&ben, &format!("SELECT sum(v) FROM t AS OF SNAPSHOT '{name}'")), ["30"]);
    run(&anna, "ROLLBACK").expect("rolled back");
    assert_eq!(code(&ben, &format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {import}")), "22023");
}
