"""SQL: parameters and rows, transactions, errors, streams, threads."""

import datetime
import decimal
import os
import signal
import threading
import time
import uuid

import pytest

import quipu

UTC = datetime.timezone.utc


@pytest.fixture
def people(db):
    db.sql("CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, born date, CHECK (id > 0))")
    db.sql("INSERT INTO people VALUES (1, 'Ada', '1815-12-10'), (2, 'Grace', '1906-12-09'), (3, 'Edsger', NULL)")
    return db


def one(db, text, *parameters):
    (row,) = db.sql(text, *parameters).rows()
    return row[0] if len(row) == 1 else row


VALUES = [
    ("bigint", 2**40),
    ("int", -7),
    ("numeric", decimal.Decimal("12345678901234567890.25")),
    ("numeric", decimal.Decimal(2**70)),
    ("float8", 0.1),
    ("real", 0.5),
    ("text", "it's ü\n"),
    ("bytea", b"\0\xff"),
    ("bool", True),
    ("date", datetime.date(2020, 2, 29)),
    ("time", datetime.time(23, 59, 58, 999_999)),
    ("timestamp", datetime.datetime(2020, 1, 2, 3, 4, 5, 6)),
    ("timestamptz", datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("interval", datetime.timedelta(days=3, seconds=5, microseconds=7)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("jsonb", {"a": [1, None, "ü"]}),
    ("json", [1, {"b": 2.5}]),
    ("int[]", [1, None, 3]),
    ("text[]", ["a", "b,c", None]),
    ("text", None),
]


@pytest.mark.parametrize("sql_type, value", VALUES)
def test_values_go_in_and_come_out(db, sql_type, value):
    assert one(db, f"SELECT $1::{sql_type}", value) == value
    assert type(one(db, f"SELECT $1::{sql_type}", value)) is type(value)


def test_what_the_statement_needs_says_what_texts_and_lists_are(people):
    assert one(people, "SELECT name FROM people WHERE born = $1", "1906-12-09") == "Grace"
    assert one(people, "SELECT name FROM people WHERE born = $1", datetime.date(1906, 12, 9)) == "Grace"
    assert people.sql("SELECT id FROM people WHERE id = ANY($1) ORDER BY id", [3, 1, 9]).rows() == [(1,), (3,)]
    assert one(people, "SELECT $1 + 1", 2**31 - 2) == 2**31 - 1
    assert one(people, "SELECT count(*) FROM people WHERE id < $1", 2.5) == 2
    assert one(people, "SELECT count(*) FROM people WHERE id < $1", decimal.Decimal("1.5")) == 1
    assert one(people, "SELECT $1", "text") == "text" and one(people, "SELECT $1", None) is None
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert one(people, "SELECT $1", datetime.datetime(2020, 1, 1, 1, tzinfo=zone)) == datetime.datetime(
        2019, 12, 31, 23, tzinfo=UTC
    )


def test_arrays_rows_and_lengths_of_time_come_out(db):
    assert one(db, "SELECT '{{1,2},{3,4}}'::int[]") == [[1, 2], [3, 4]]
    assert one(db, "SELECT ARRAY[]::int[]") == []
    assert one(db, "SELECT row(1, 'a', NULL)") == (1, "a", None)
    assert one(db, "SELECT interval '1 year 2 months 3 days -1 second'") == datetime.timedelta(days=428, seconds=-1)
    assert one(db, "SELECT 'a'::char(3), pg_typeof(1)::text") == ("a  ", "integer")


def test_objects_are_known_by_their_names(db):
    assert one(db, "SELECT 'pg_class'::regclass, 'integer'::regtype") == ("pg_class", "integer")


def test_what_is_no_value_is_refused(db):
    with pytest.raises(TypeError, match="object"):
        db.sql("SELECT $1", object())
    with pytest.raises(TypeError, match="zone|time"):
        db.sql("SELECT $1", datetime.time(1, tzinfo=UTC))
    with pytest.raises(TypeError, match="str"):
        db.sql(b"SELECT 1")
    with pytest.raises(quipu.InvalidError, match="parameters") as error:
        db.sql("SELECT $1::int + $1")
    assert error.value.sqlstate == "08P01"
    with pytest.raises(quipu.InvalidError) as error:
        db.sql("SELECT $1::int, $2::int", 1, "x")
    assert error.value.sqlstate == "22P02"
    with pytest.raises(ValueError, match="year"):
        db.sql("SELECT date '0001-01-01' - 1").rows()


def test_an_error_says_which_parameter_it_is_about(db):
    with pytest.raises(quipu.InvalidError) as error:
        db.sql("SELECT $1::int, $2::int", 1, "x")
    assert error.value.context == "parameter $2"


def test_bytes_are_no_texts(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY, name text, short varchar(9), data bytea)")
    for text in [
        "INSERT INTO t (id, name) VALUES (1, $1)",
        "INSERT INTO t (id, short) VALUES (1, $1)",
        "INSERT INTO t (id, name) SELECT 1, $1",
        "UPDATE t SET name = coalesce($1, 'x')",
        "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET name = $1",
    ]:
        with pytest.raises(quipu.InvalidError, match="but expression is of type bytea") as error:
            db.sql(text, b"caf\xe9")
        assert error.value.sqlstate == "42804" and "convert_from($1, 'UTF8')" in error.value.hint
    assert one(db, "SELECT count(*) FROM t") == 0
    insert = "INSERT INTO t VALUES ($1, convert_from($2, 'UTF8'), $3::text, $4)"
    # A statement that is run again is not looked at again.
    for number in (1, 2):
        db.sql(insert, number, "é".encode(), b"\xe9", b"\xe9")
    assert db.sql("SELECT * FROM t").fetchone() == (1, "é", "\\xe9", b"\xe9")
    with db.sql_session() as session:
        session.sql("CREATE TEMP TABLE own (data bytea, size int)")
        session.sql("INSERT INTO own VALUES ($1, length($1))", b"abc")
        assert session.sql("SELECT * FROM own WHERE data = $1", b"abc").rows() == [(b"abc", 3)]
        session.sql("SAVEPOINT before")
        with pytest.raises(quipu.InvalidError, match='column "name" is of type text'):
            session.sql("UPDATE t SET data = $1, name = $2", b"", b"")
        session.sql("ROLLBACK TO before")
        assert session.sql("UPDATE t SET data = $1", b"").rowcount == 2


def test_rows_are_taken_once_and_in_order(db):
    text = "SELECT n, n::text AS t FROM generate_series(1, 5000) n"
    result = db.sql(text)
    assert result.columns == [("n", "integer"), ("t", "text")] and result.columns[0].name == "n"
    assert result.rowcount == -1
    assert result.fetchone() == (1, "1")
    assert [row[0] for row in result.fetchmany(200)] == list(range(2, 202))
    assert result.fetchmany(0) == []
    walk = iter(result)
    assert next(walk) == (202, "202")
    assert [row[0] for row in result.rows()] == list(range(203, 5001))
    assert (result.fetchone(), result.rows(), list(walk), result.rowcount) == (None, [], [], 5000)
    with db.sql(text) as result:
        result.fetchone()
    with pytest.raises(quipu.InvalidError, match="closed"):
        result.fetchone()


def test_a_result_shows_its_next_rows(people):
    shown = repr(people.sql("SELECT id, name, born FROM people ORDER BY id"))
    assert shown.splitlines() == [
        "id | name   | born",
        "---+--------+-----------",
        " 1 | Ada    | 1815-12-10",
        " 2 | Grace  | 1906-12-09",
        " 3 | Edsger | NULL",
        "(3 rows)",
    ]
    result = people.sql("SELECT n FROM generate_series(1, 1000) n")
    assert repr(result).splitlines()[-2:] == ["10", "..."]
    assert repr(result) == repr(result) and result.fetchone() == (1,)
    assert repr(people.sql("DELETE FROM people")) == "<quipu.Result DELETE 3>"


def test_changes_tell_their_counts(people):
    assert people.sql("UPDATE people SET name = upper(name) WHERE id < $1", 3).rowcount == 2
    result = people.sql("INSERT INTO people VALUES ($1, $2) RETURNING id, name", 4, "Barbara")
    assert (result.rowcount, result.rows()) == (1, [(4, "Barbara")])
    assert people.sql("DELETE FROM people WHERE id > 100").rowcount == 0
    dropped = people.sql("DROP TABLE IF EXISTS nothing")
    assert (dropped.rowcount, dropped.rows(), dropped.columns) == (-1, [], [])
    assert dropped.notices == ['table "nothing" does not exist, skipping']


def test_several_statements_are_one_transaction(db):
    text = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2); SELECT sum(id) FROM t"
    assert db.sql(text).rows() == [(3,)]
    with pytest.raises(quipu.ConstraintError):
        db.sql("INSERT INTO t VALUES (3); INSERT INTO t VALUES (1)")
    assert one(db, "SELECT count(*) FROM t") == 2
    assert db.sql("SELECT ';'").rows() == [(";",)]
    with pytest.raises(quipu.InvalidError, match="sql_session"):
        db.sql("BEGIN")
    assert db.sql("BEGIN; INSERT INTO t VALUES (9); COMMIT").rows() == [] and one(db, "SELECT count(*) FROM t") == 3


def test_no_statement_leaves_anything_for_the_next(db):
    db.sql("SET search_path = nowhere")
    db.sql("SET TimeZone = 'Europe/Berlin'")
    db.sql("SELECT pg_advisory_lock(7)")
    assert db.sql("SHOW search_path").rows() == db.sql("SELECT current_setting('search_path')").rows()
    assert one(db, "SHOW TimeZone") == "UTC" and one(db, "SHOW search_path") != "nowhere"
    with db.sql_session() as session:
        assert session.sql("SELECT pg_try_advisory_lock(7)").rows() == [(True,)]


def test_errors_say_what_and_where(people):
    def error_of(kind, text, *parameters):
        with pytest.raises(kind) as error:
            people.sql(text, *parameters)
        return error.value

    error = error_of(quipu.InvalidError, "SELECT id,\n  nme FROM people")
    assert (error.sqlstate, error.position) == ("42703", 14)
    assert str(error).splitlines()[1:3] == ["LINE 2:   nme FROM people", "          ^"]
    error = error_of(quipu.ConstraintError, "INSERT INTO people VALUES (1, 'x')")
    assert (error.sqlstate, error.constraint, error.table, error.name) == ("23505", "unique", "people", "people_pkey")
    assert error.detail == "Key (id)=(1) already exists."
    error = error_of(quipu.ConstraintError, "INSERT INTO people VALUES (9, NULL)")
    assert (error.sqlstate, error.constraint, error.column) == ("23502", "not_null", "name")
    assert error_of(quipu.ConstraintError, "INSERT INTO people VALUES (-1, 'x')").constraint == "check"
    assert error_of(quipu.MissingError, "SELECT * FROM nothing").sqlstate == "42P01"
    assert error_of(quipu.ExistsError, "CREATE TABLE people (id int)").kind == "exists"
    assert error_of(quipu.InvalidError, "SELECT 1 / $1", 0).sqlstate == "22012"
    assert error_of(quipu.InvalidError, "SELECT (").sqlstate == "42601"
    for text in ["COPY people FROM STDIN", "COPY people TO STDOUT"]:
        error = error_of(quipu.InvalidError, text)
        assert error.sqlstate == "0A000" and error.hint
    result = people.sql("SELECT 10 / (1000 - n) FROM generate_series(1, 2000) n")
    with pytest.raises(quipu.InvalidError, match="division"):
        result.rows()
    assert one(people, "SELECT count(*) FROM people") == 3


def test_a_session_is_a_transaction(people):
    with people.sql_session() as session:
        session.sql("INSERT INTO people VALUES ($1, $2)", 4, "Barbara")
        assert session.sql("SELECT count(*) FROM people").rows() == [(4,)]
        assert one(people, "SELECT count(*) FROM people") == 3
    assert one(people, "SELECT count(*) FROM people") == 4
    with pytest.raises(ZeroDivisionError):
        with people.sql_session() as session:
            session.sql("DELETE FROM people")
            1 / 0
    assert one(people, "SELECT count(*) FROM people") == 4
    with pytest.raises(quipu.InvalidError, match="closed"):
        session.sql("SELECT 1")
    with pytest.raises(quipu.InvalidError, match="rolled back") as error:
        with people.sql_session() as session:
            session.sql("DELETE FROM people")
            with pytest.raises(quipu.ConstraintError):
                session.sql("INSERT INTO people VALUES (5, NULL)")
            with pytest.raises(quipu.InvalidError) as second:
                session.sql("SELECT 1")
            assert second.value.sqlstate == "25P02"
    assert error.value.sqlstate == "25P02" and one(people, "SELECT count(*) FROM people") == 4
    with people.sql_session() as session:
        session.sql("SAVEPOINT a")
        with pytest.raises(quipu.ConstraintError):
            session.sql("INSERT INTO people VALUES (5, NULL)")
        session.sql("ROLLBACK TO a")
        session.sql("INSERT INTO people VALUES (5, 'Alan')")
    assert one(people, "SELECT count(*) FROM people") == 5
    session = people.sql_session()
    session.sql("DELETE FROM people")
    session.rollback()
    session.commit()
    session.close()
    session.close()
    assert one(people, "SELECT count(*) FROM people") == 5


def test_sessions_have_isolations(people):
    with people.sql_session("repeatable read") as session:
        assert session.sql("SHOW transaction_isolation").rows() == [("repeatable read",)]
        assert session.sql("SELECT count(*) FROM people").rows() == [(3,)]
        people.sql("INSERT INTO people VALUES (4, 'Barbara')")
        assert session.sql("SELECT count(*) FROM people").rows() == [(3,)]
    with pytest.raises(quipu.ConflictError) as error:
        with people.sql_session("serializable") as session:
            session.sql("UPDATE people SET name = 'x' WHERE id = 1")
            people.sql("UPDATE people SET name = 'y' WHERE id = 2")
            session.sql("UPDATE people SET name = 'x' WHERE id = 2")
    assert error.value.sqlstate == "40001" and error.value.kind == "conflict"
    with people.sql_session(read_only=True) as session:
        with pytest.raises(quipu.Error) as error:
            session.sql("DELETE FROM people")
        session.rollback()
    assert (error.value.sqlstate, error.value.kind) == ("25006", "read_only")
    with pytest.raises(quipu.InvalidError, match="isolation"):
        people.sql_session("none")


def test_several_results_of_one_session_are_read_together(db):
    with db.sql_session() as session:
        first = session.sql("SELECT n FROM generate_series(1, 3000) n")
        second = session.sql("SELECT -n FROM generate_series(1, 3000) n")
        assert all(a[0] == -b[0] for a, b in zip(first, second))
        left = session.sql("SELECT n FROM generate_series(1, 3000) n")
    with pytest.raises(quipu.InvalidError, match="closed"):
        left.rows()


def test_a_result_is_of_one_moment(db):
    db.sql("CREATE TABLE t (id bigint PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT id FROM generate_series(0, 4999) id")
    result = db.sql("SELECT id FROM t")
    result.fetchone()
    db.sql("DELETE FROM t")
    assert (len(result.rows()), one(db, "SELECT count(*) FROM t")) == (4999, 0)


def test_tables_of_the_package_and_of_sql_are_the_same(db):
    pyarrow = pytest.importorskip("pyarrow")
    own = db.create_table(
        "own",
        {"id": "i64", "price": "decimal(8,2) not null", "at": "timestamp", "data": "json", "big": "u64"},
        key="id",
        indexes={"by_price": ["price"]},
        checks={"cheap": "price < 100"},
    )
    own.insert((1, decimal.Decimal("2.50"), datetime.datetime(2020, 1, 1, tzinfo=UTC), {"a": 1}, 2**64 - 1))
    row = one(db, "SELECT * FROM own")
    assert row == (1, decimal.Decimal("2.50"), datetime.datetime(2020, 1, 1), {"a": 1}, decimal.Decimal(2**64 - 1))
    db.sql("INSERT INTO own VALUES ($1, $2, $3, $4)", 2, 3.75, datetime.datetime(2021, 1, 1, tzinfo=UTC), [1])
    assert own[1] == {
        "id": 2,
        "price": decimal.Decimal("3.75"),
        "at": datetime.datetime(2021, 1, 1, tzinfo=UTC),
        "data": [1],
        "big": None,
    }
    with pytest.raises(quipu.ConstraintError) as error:
        db.sql("INSERT INTO own VALUES (3, 100)")
    assert error.value.name == "cheap"
    own.load(pyarrow.table({"id": [10, 11], "price": pyarrow.array([1, 2], pyarrow.decimal128(8, 2))}))
    assert one(db, "SELECT count(*) FROM own WHERE price <= 2") == 2
    assert own.index("by_price").count(le=decimal.Decimal(2)) == 2
    db.sql("CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE)")
    db.sql("CREATE INDEX ON made (name DESC)")
    assert "made" in db and [db["made"].insert({"name": name}) for name in "ab"] == [1, 2]
    assert one(db, "INSERT INTO made (name) VALUES ('c') RETURNING id") == 3
    with pytest.raises(quipu.ConstraintError):
        db["made"].insert({"name": "c"})
    db.sql("ALTER TABLE made ADD COLUMN more int DEFAULT 5")
    assert db["made"][0] == {"id": 1, "name": "a", "more": 5}
    db.add_column("made", "last", int)
    assert db.sql("SELECT * FROM made WHERE id = 1").columns[-1] == ("last", "bigint")
    db.drop_table("made")
    with pytest.raises(quipu.MissingError):
        db.sql("SELECT * FROM made")
    db.sql("DROP TABLE own")
    assert db.tables() == []


def test_tables_of_sql_stay(tmp_path):
    with quipu.open(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (id serial PRIMARY KEY, at timestamptz); CREATE VIEW v AS SELECT 7 AS n")
        db.sql("INSERT INTO t (at) VALUES ('2020-01-01 00:00+00')")
    with quipu.open(tmp_path / "db") as db:
        assert one(db, "INSERT INTO t (at) VALUES (NULL) RETURNING id") == 2
        assert one(db, "SELECT at FROM t WHERE id = 1") == datetime.datetime(2020, 1, 1, tzinfo=UTC)
        assert one(db, "SELECT n FROM v") == 7
    with quipu.open(tmp_path / "db", read_only=True) as db:
        assert one(db, "SELECT count(*) FROM t") == 2
        with pytest.raises(quipu.Error) as error:
            db.sql("DELETE FROM t")
        assert (error.value.kind, error.value.sqlstate) == ("read_only", "25006")


def test_arrow_has_texts_of_types_of_sql_alone_or_an_error(db):
    """They were NULL, without a word."""
    db.sql("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    db.sql("CREATE DOMAIN small AS int CHECK (VALUE < 100)")
    values = {
        "'glad'::mood": "glad", "'10.0.0.1/8'::inet": "10.0.0.1/8", "'10.0.0.0/8'::cidr": "10.0.0.0/8",
        "'08:00:2b:01:02:03'::macaddr": "08:00:2b:01:02:03", "'12.50'::money": "$12.50",
        "'10:20:30+02'::timetz": "10:20:30+02", "7::small": 7, "26::oid": 26, "NULL::mood": None,
        "ARRAY['sad', NULL, 'glad']::mood[]": ["sad", None, "glad"], "ARRAY['::1']::inet[]": ["::1"],
    }
    for expression, expected in values.items():
        assert db.sql(f"SELECT {expression} AS v").arrow().column("v").to_pylist() == [expected], expression
    for expression in ["int4range(1, 5)", "ROW(1, 2)", "'(1,2)'::tid", "ARRAY[int4range(1, 5)]"]:
        with pytest.raises(Exception, match="has no type of Arrow; cast it to text"):
            db.sql(f"SELECT {expression} AS v").arrow()


def test_arrow_and_frames(people):
    pyarrow = pytest.importorskip("pyarrow")
    table = people.sql("SELECT * FROM people ORDER BY id").arrow()
    assert [str(field.type) for field in table.schema] == ["int32", "string", "date32[day]"]
    assert table.to_pylist()[2] == {"id": 3, "name": "Edsger", "born": None}
    text = """SELECT n::smallint AS a, n::bigint AS b, n::real AS c, n::float8 AS d, n::numeric(6,2) AS e, n = 1 AS f,
        n::text::bytea AS g, ARRAY[n, NULL] AS h, timestamp '2020-01-01' AS i, timestamptz '2020-01-01 00:00+00' AS j,
        time '01:02' AS k, interval '1 month 1 day' AS l, '{}'::jsonb AS m, '12345678-1234-5678-1234-567812345678'::uuid
        AS n, n / 8.0 AS o, NULL AS p FROM generate_series(1, 3) n"""
    table = people.sql(text).arrow()
    assert [str(field.type) for field in table.schema] == [
        "int16", "int64", "float", "double", "decimal128(6, 2)", "bool", "binary", "list<item: int32>", "timestamp[us]",
        "timestamp[us, tz=UTC]", "time64[us]", "month_day_nano_interval", "string", "extension<arrow.uuid>",
        "decimal128(38, 20)", "string",
    ]
    assert table["h"].to_pylist() == [[1, None], [2, None], [3, None]]
    assert table["e"].to_pylist()[1] == decimal.Decimal("2.00") and table["p"].null_count == 3
    result = people.sql("SELECT n FROM generate_series(1, 10000) n")
    result.fetchone()
    reader = pyarrow.RecordBatchReader.from_stream(result)
    assert reader.read_next_batch().num_rows > 0
    assert sum(batch.num_rows for batch in reader) < 9_999
    with pytest.raises(quipu.InvalidError, match="handed over"):
        result.rows()
    assert people.sql("SELECT n FROM generate_series(1, 10000) n WHERE n < 0").arrow().num_rows == 0
    with pytest.raises(pyarrow.ArrowInvalid, match="dimensions"):
        people.sql("SELECT '{{1}}'::int[]").arrow()
    # The rows of a result go into a table.
    copy = people.create_table("copy", {"id": "i32", "name": "text"}, key="id")
    assert copy.load(people.sql("SELECT id, name FROM people")) == 3
    pandas = pytest.importorskip("pandas")
    frame = people.sql("SELECT id, name FROM people ORDER BY id").df()
    assert isinstance(frame, pandas.DataFrame) and frame["name"].tolist() == ["Ada", "Grace", "Edsger"]
    assert one(people, "SELECT $1 + 1", frame["id"][0]) == 2 and one(people, "SELECT $1", pandas.NaT) is None


def test_threads_run_statements_beside_each_other(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")

    def add(number):
        for _ in range(50):
            if number % 2:
                db.sql("UPDATE t SET n = n + 1 WHERE id = $1", 1)
            else:
                with db.sql_session() as session:
                    session.sql("UPDATE t SET n = n + 1 WHERE id = 1")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one(db, "SELECT n FROM t") == 200


def test_the_single_writer_and_sql(people):
    with people.write() as alone:
        alone["people"].insert((4, "Barbara", None))
        assert one(people, "SELECT count(*) FROM people") == 3, "readers do not wait"
        with pytest.raises(quipu.InvalidError, match="single writer"):
            people.sql("DELETE FROM people")
        deleted = []
        thread = threading.Thread(target=lambda: deleted.append(people.sql("DELETE FROM people").rowcount))
        thread.start()
        thread.join(0.3)
        assert deleted == []
    thread.join()
    assert deleted == [4]


def test_closing_ends_sessions_and_results(tmp_path):
    db = quipu.open(tmp_path / "db")
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    session, result = db.sql_session(), db.sql("SELECT n FROM generate_series(1, 5000) n")
    session.sql("INSERT INTO t VALUES (1)")
    ended = []

    def long():
        try:
            db.sql("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
        except quipu.Error as error:
            ended.append(error)

    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.2)
    db.close()
    thread.join(60)
    assert len(ended) == 1
    for use in [lambda: session.sql("SELECT 1"), result.rows, lambda: db.sql("SELECT 1"), db.sql_session]:
        with pytest.raises(quipu.InvalidError, match="closed"):
            use()
    session.close(), result.close()
    with quipu.open(tmp_path / "db") as db:
        assert len(db["t"]) == 0


def test_a_statement_is_interrupted_and_its_thread_goes_on(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    texts = [
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        "INSERT INTO t SELECT a FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b < 0",
    ]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for text in texts:
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                db.sql(text)
                time.sleep(60)
            timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert one(db, "SELECT count(*) FROM t") == 0
    assert db.sql("INSERT INTO t VALUES (1)").rowcount == 1


def test_other_threads_run_while_a_statement_does(db):
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        db.sql("SELECT pg_sleep(0.3)")
    finally:
        done.set()
        thread.join()
    assert counted[0] > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_uses_nothing_of_it(people):
    session, result = people.sql_session(), people.sql("SELECT n FROM generate_series(1, 5000) n")
    for use in [lambda: people.sql("SELECT 1"), lambda: session.sql("SELECT 1"), result.rows, people.sql_session]:
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                use()
                os.write(writer, b"used")
            except quipu.InvalidError:
                os.write(writer, b"refused")
            finally:
                os._exit(0)
        assert os.read(reader, 100) == b"refused"
        os.wait(), os.close(reader), os.close(writer)
    assert len(result.rows()) == 5000
    session.close()
