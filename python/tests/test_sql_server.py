"""SQL of a server: what results and sessions of a database do, those of a server do."""

import contextlib
import datetime
import decimal
import doctest
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import quipu
from running import ROOT, START_SECONDS, free_port, program

# These run here as well, with the database of this file.
from test_sql import (  # noqa: F401
    one,
    people,
    test_a_result_is_of_one_moment,
    test_a_result_shows_its_next_rows,
    test_a_session_is_a_transaction,
    test_a_statement_is_interrupted_and_its_thread_goes_on,
    test_arrays_rows_and_lengths_of_time_come_out,
    test_bytes_are_no_texts,
    test_changes_tell_their_counts,
    test_errors_say_what_and_where,
    test_no_statement_leaves_anything_for_the_next,
    test_other_threads_run_while_a_statement_does,
    test_rows_are_taken_once_and_in_order,
    test_sessions_have_isolations,
    test_several_results_of_one_session_are_read_together,
    test_several_statements_are_one_transaction,
    test_threads_run_statements_beside_each_other,
    test_values_go_in_and_come_out,
    test_what_is_no_value_is_refused,
    test_what_the_statement_needs_says_what_texts_and_lists_are,
)

psycopg = pytest.importorskip("psycopg")


@contextlib.contextmanager
def serving(home, *more, port=None, user="default", **options):
    """The URL of a server that runs meanwhile; ``options`` are those of a connection."""
    binary, port, other = program(), port or free_port(), free_port()
    words = [binary, "serve", "--pg-port", str(port), "--port", str(other), "--data", str(home / "data")]
    with open(home / "log", "ab") as log:
        process = subprocess.Popen([*words, "--durability", "none", *more], stdout=log, stderr=log)
    url = f"postgresql://{user}@127.0.0.1:{port}/quipu"
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, (home / "log").read_text()
            try:
                quipu.connect(url, **options).close()
                break
            except quipu.Error:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("sql_server")) as url:
        yield url


@pytest.fixture
def db(url):
    with quipu.connect(url) as server:
        yield server
    names = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with quipu.connect(url) as server:
        for (name,) in server.sql(names).rows():
            server.sql(f'DROP TABLE "{name}"')


EXPRESSIONS = """true; n::smallint; n; n::bigint; 1.5::real; n / 3e0; n::numeric(6,2); n::numeric / 3; n::numeric(40,3)
2.50::numeric; 1e30::numeric * 1e10; 'NaN'::numeric; NULL; NULL::int; nullif(n, 2); 'it''s ü'; 'a'::varchar(5)
'x'::bpchar; 'a'::char(3); 'a'::"char"; 'a'::name; '\\x00ff'::bytea; date '2020-01-02' + n; time '01:02:03.5'
time '24:00'; interval '-1 us'; n::oid
timestamp '2020-01-02' + n * interval '1 us'; timestamp(3) '1969-12-31 23:59'; timestamptz '2020-01-02 00:00+02'
interval '1 year -2 mons -3 days 4 s'; '{"a":  [1, 2.5, null]}'::json; '[1]'::jsonb::text
'12345678-1234-5678-1234-567812345678'::uuid; ARRAY[n, NULL]; ARRAY[]::int[]; NULL::text[]; ARRAY['a', 'b,"c', NULL]
ARRAY[n / 4.0]; ARRAY[date '2020-01-02']; ARRAY[timestamptz '2020-01-02 00:00+00', NULL]; b'101'; b'101'::varbit(9)
'1 2'::int2vector; 1::text::xid; 1::positive; 'a'::citext"""
#: Arrow has no types for these.
STRANGE = """'sad'::mood; ARRAY['sad'::mood]; row(n, 'x', NULL); row(n, 'x')::pair; ARRAY[row(n, 'x')::pair]
'1.2.3.4'::inet; '::1/64'::inet; '1.2.3.0/24'::cidr; '08:00:2b:01:02:03'::macaddr; int4range(n, 5)
'empty'::int4range; numrange(1.5, NULL)
tstzrange('2020-01-01 00:00+00', NULL, '()'); '{[1,3)}'::int4multirange
'{{1,2},{3,4}}'::int[]; timetz '01:02+02'
'1'::money; '(0,1)'::tid; '08:00:2b:01:02:03:04:05'::macaddr8; ARRAY['1.2.3.4'::inet]; ARRAY[int4range(1, 2)]"""


def listed(text):
    return [word.strip() for line in text.splitlines() for word in line.split("; ")]


@pytest.fixture(scope="module")
def both(url, tmp_path_factory):
    """A server and a database with the same types."""
    with quipu.connect(url) as server, quipu.open(":memory:") as db:
        for each in (server, db):
            each.sql("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text)")
            each.sql("CREATE DOMAIN positive AS int CHECK (value > 0)")
        yield server, db


@pytest.mark.parametrize("expression", listed(EXPRESSIONS + "\n" + STRANGE))
def test_values_are_those_of_a_database(both, expression):
    for rows in (3, 0):
        text = f"SELECT {expression} AS value FROM generate_series(1, {rows}) n"
        ours, theirs = (each.sql(text) for each in both)
        assert ours.columns == theirs.columns
        # Also of the same types.
        assert repr(ours) == repr(theirs) and repr(ours.rows()) == repr(theirs.rows())


@pytest.mark.parametrize("before", ["", "SELECT 1; "])
@pytest.mark.parametrize("expression", listed(EXPRESSIONS))
def test_arrow_is_that_of_a_database(both, expression, before):
    pytest.importorskip("pyarrow")
    if before and ("vector" in expression or "interval '" in expression[:10]):
        pytest.skip("several statements have their values as texts")
    for rows in (3, 0):
        text = f"{before}SELECT {expression} AS value, n FROM generate_series(1, {rows}) n"
        ours, theirs = (each.sql(text).arrow() for each in both)
        assert ours.schema == theirs.schema and ours.schema.metadata == theirs.schema.metadata
        assert ours.to_pylist() == theirs.to_pylist() or "NaN" in expression and ours.equals(theirs)
        ours.validate(full="24:00" not in expression)


def test_arrow_and_frames(people):
    pyarrow = pytest.importorskip("pyarrow")
    result = people.sql("SELECT n, n::numeric / 8 AS part FROM generate_series(1, 20000) n")
    result.fetchone()
    reader = pyarrow.RecordBatchReader.from_stream(result)
    assert [batch.num_rows for batch in reader][-1] < 10_000 and reader.schema.field("part").type.scale == 20
    with pytest.raises(quipu.InvalidError, match="handed over"):
        result.rows()
    result = people.sql("SELECT n FROM generate_series(1, 20000) n")
    assert result.fetchmany(300)[-1] == (300,)
    numbers = result.arrow()["n"]
    assert numbers.to_pylist() == list(range(301, 20_001)) and numbers.num_chunks > 1
    for value in ("'{{1}}'::int[]", "row(1)", "int4range(1, 2)"):
        with pytest.raises(pyarrow.ArrowInvalid, match="cast it to text"):
            people.sql(f"SELECT {value}").arrow()
    text = "SELECT timestamp '20000-01-01' AS a, timestamp 'infinity' AS b, date '0044-03-15 BC' AS c"
    far = people.sql(text).arrow()
    assert far["a"].cast("int64").to_pylist() == [568_971_820_800_000_000]
    assert far["b"].cast("int64").to_pylist() == [2**63 - 1] and far["c"].cast("int32").to_pylist() == [-735_160]
    assert people.sql("SELECT 'sad' AS mood, '1.2.3.4'::inet AS address").arrow().to_pydict() == {
        "mood": ["sad"], "address": ["1.2.3.4"]
    }
    result = people.sql("SELECT 10 / (5000 - n) FROM generate_series(1, 9000) n")
    with pytest.raises(Exception, match="division by zero"):
        result.arrow()
    pandas = pytest.importorskip("pandas")
    frame = people.sql("SELECT id, name FROM people ORDER BY id").df()
    assert isinstance(frame, pandas.DataFrame) and frame["name"].tolist() == ["Ada", "Grace", "Edsger"]
    assert one(people, "SELECT $1 + 1", frame["id"][0]) == 2 and one(people, "SELECT $1", pandas.NaT) is None
    with quipu.open(":memory:") as own:
        copy = own.create_table("copy", {"id": "i32", "name": "text"}, key="id")
        assert copy.load(people.sql("SELECT id, name FROM people")) == 3


def connections(server):
    return one(server, "SELECT count(*) FROM pg_stat_activity")


def settled(server):
    """The connections of a server, once those that earlier tests have closed are gone."""
    deadline, seen = time.monotonic() + START_SECONDS, []
    while len(seen) < 10 or len(set(seen[-10:])) > 1:
        assert time.monotonic() < deadline, seen
        seen.append(connections(server))
        time.sleep(0.02)
    return seen[-1]


def test_rows_come_while_they_are_taken(db):
    text = "SELECT n, repeat('x', 1000) FROM generate_series(1, 1000000) n"
    alone = settled(db)
    result = db.sql(text)
    assert result.fetchone()[0] == 1 and result._source._rows.in_memory() < 1000
    other = iter(db.sql(text))
    assert [next(other)[0] for _ in range(3000)][-1] == 3000 and result.fetchone()[0] == 2
    assert connections(db) == alone + 2
    result.close()
    with pytest.raises(quipu.InvalidError, match="closed"):
        result.fetchone()
    del other, result
    deadline = time.monotonic() + START_SECONDS
    while connections(db) > alone:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for _ in range(20):
        assert len(db.sql("SELECT n FROM generate_series(1, 256) n").rows()) == 256
        assert db.sql("SELECT n FROM generate_series(1, 9) n").fetchone() == (1,)
    assert connections(db) == alone
    results = [db.sql("SELECT n FROM generate_series(1, 512) n") for _ in range(10)]
    assert [len(result.rows()) for result in results] == [512] * 10


def test_rows_come_one_by_one_with_an_older_libpq(db, monkeypatch):
    monkeypatch.setattr(db._client, "has_parts", False)
    alone = settled(db)
    for _ in range(20):
        assert db.sql("SELECT 7").fetchone() == (7,)
    assert connections(db) == alone
    result = db.sql("SELECT n FROM generate_series(1, 1000) n")
    assert repr(result).splitlines()[-2:] == ["10", "..."]
    assert result.fetchmany(2) == [(1,), (2,)] and len(result.rows()) == 998 and result.rowcount == 1000
    assert db.sql("SELECT 1 WHERE false").rows() == [] and one(db, "SELECT 7") == 7
    pytest.importorskip("pyarrow")
    assert db.sql("SELECT n FROM generate_series(1, 1000) n").arrow().num_rows == 1000


def test_a_change_is_done_though_its_rows_are_not_read(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT n FROM generate_series(1, 5000) n RETURNING id").close()
    result = db.sql("/* all of them */ WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone")
    assert one(db, "SELECT count(*) FROM t") == 0 and len(result.rows()) == 5000
    # Many comments are no more work than their letters.
    assert db.sql("/* one */ -- two\n" * 10_000 + "INSERT INTO t VALUES (1)").rowcount == 1


def test_results_of_a_session_that_goes_on(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    with db.sql_session() as session:
        first = session.sql("SELECT n FROM generate_series(1, 3000) n")
        closed = session.sql("SELECT n FROM generate_series(1, 3000) n")
        closed.close()
        session.sql("INSERT INTO t VALUES (1)")
        session.sql("SELECT n FROM generate_series(1, 3000) n")
        session.sql("CREATE TYPE fruit AS ENUM ('apple', 'pear')")
        assert session.sql("SELECT $1::fruit[], $2 + 1", ["apple", None], 1).rows() == [(["apple", None], 2)]
        result = session.sql("SELECT ARRAY['pear'::fruit], n FROM generate_series(1, 2000) n")
        assert result.columns[0].type == "fruit[]" and result.rows()[-1] == (["pear"], 2000)
        assert len(first.rows()) == 3000
        session.commit()
        assert session.sql("INSERT INTO t VALUES (2)").rowcount == 1
        session.sql("DROP TYPE fruit")
    assert one(db, "SELECT count(*) FROM t") == 2
    with db.sql_session() as session:
        session.sql("SET TimeZone = 'Asia/Tokyo'")
        moment = session.sql("SELECT timestamptz '2020-01-01 00:00+00'").fetchone()[0]
        assert repr(moment) == "datetime.datetime(2020, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)"
    assert one(db, "SHOW TimeZone") == "UTC"


def test_a_connection_that_is_lost(db, url):
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    end = "SELECT pg_terminate_backend($1)"
    with pytest.raises(quipu.Error) as error:
        with db.sql_session() as session:
            number = session.sql("SELECT pg_backend_pid()").fetchone()[0]
            session.sql("INSERT INTO t VALUES (1)")
            db.sql(end, number)
            with pytest.raises(quipu.Error):
                session.sql("SELECT 1")
    # It does not look as if it were committed.
    assert error.value.kind == "io" and "lost" in str(error.value)
    number = one(db, "SELECT pg_backend_pid()")
    with quipu.connect(url) as other:
        other.sql(end, number)
        deadline = time.monotonic() + START_SECONDS
        while one(other, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", number):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    time.sleep(0.1)
    assert one(db, "SELECT count(*) FROM t") == 0, "an idle connection is not missed"


def test_a_server_that_starts_anew(tmp_path):
    with serving(tmp_path) as url:
        server = quipu.connect(url)
        server.sql("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(quipu.Error) as error:
        server.sql("SELECT 1")
    assert error.value.kind == "io" and type(error.value) is quipu.Error
    with serving(tmp_path, port=int(url.rpartition(":")[2].partition("/")[0])):
        assert server.sql("SELECT count(*) FROM t").rows() == [(0,)]
    server.close()


def test_closing_ends_all(url):
    server = quipu.connect(url)
    assert repr(server) == f"<quipu.SqlServer {url.replace('default@', '')}>"
    session, result = server.sql_session(), server.sql("SELECT n FROM generate_series(1, 5000) n")
    ended = []

    def long():
        try:
            server.sql("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
        except quipu.Error as error:
            ended.append(error)

    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.2)
    server.close()
    thread.join(60)
    assert len(ended) == 1 and repr(server).endswith(" (closed)>")
    for use in [lambda: session.sql("SELECT 1"), result.rows, lambda: server.sql("SELECT 1"), server.sql_session]:
        with pytest.raises(quipu.InvalidError, match="closed"):
            use()
    session.close(), result.close(), server.close()


def test_an_interrupted_session_can_be_rolled_back(db):
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    alone, before = settled(db), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with db.sql_session() as session:
                session.sql("INSERT INTO t VALUES (1)")
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                session.sql("SELECT pg_sleep(60)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert one(db, "SELECT count(*) FROM t") == 0 and settled(db) == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_connections_of_its_own(db):
    session, result = db.sql_session(), db.sql("SELECT n FROM generate_series(1, 5000) n")
    for use, told in [
        (lambda: db.sql("SELECT 1").rows(), b"used"),
        (lambda: session.sql("SELECT 1"), b"refused"),
        (result.rows, b"refused"),
        (lambda: (session.close(), result.close(), db.close()), b"used"),
    ]:
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                use()
                os.write(writer, b"used")
            except quipu.InvalidError:
                os.write(writer, b"refused")
            finally:
                os._exit(0)
        assert os.read(reader, 100) == told
        os.wait(), os.close(reader), os.close(writer)
        assert session.sql("SELECT 1").rows() == [(1,)] and one(db, "SELECT 2") == 2
    assert len(result.rows()) == 5000
    session.close()


def test_passwords_and_errors_do_not_show_them(tmp_path):
    with serving(tmp_path, "--requirepass", "se cret", user="default:se%20cret") as url:
        with quipu.connect(url) as server:
            assert one(server, "SELECT current_user") == "default" and "cret" not in repr(server)
        plain = url.replace("default:se%20cret@", "")
        with quipu.connect(plain.replace("postgresql", "postgres"), user="default", password="se cret") as server:
            assert one(server, "SELECT 1") == 1
        for bad in (plain, plain.replace("//", "//default:wrong@")):
            with pytest.raises(quipu.Error) as error:
                quipu.connect(bad)
            assert error.value.kind == "io" and "127.0.0.1" in str(error.value) and "wrong" not in str(error.value)


def test_tls(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl makes no certificate here")
    files = ["--tls-key-file", key, "--tls-cert-file", certificate, "--pg-require-tls", "yes"]
    options = {"sslmode": "verify-full", "sslrootcert": certificate}
    with serving(tmp_path, *files, **options) as url:
        with quipu.connect(url, **options) as server:
            assert one(server, "SELECT 1") == 1
        for refused in ("?sslmode=disable", "?sslmode=verify-full&sslrootcert=/nowhere"):
            with pytest.raises(quipu.Error) as error:
                quipu.connect(url + refused)
            assert error.value.kind == "io"


PARAMETERS = [
    decimal.Decimal("1E+3"), decimal.Decimal("NaN"), float("inf"), -0.0, 2**63, 2**31, -(2**31), bytearray(b"a"),
    memoryview(b"ab"), datetime.date(1, 1, 1), datetime.datetime.max, datetime.datetime.min, datetime.timedelta.max,
    datetime.timedelta(days=-3, microseconds=1), {"a": float("nan")}, {"a": object()}, "\ud800", "é\U0001f600", set(),
    1j, (1, 2), [], [None], [[1]], [decimal.Decimal("1.5"), 2], ["{", '"'],
]


def test_parameters_are_taken_as_those_of_a_database(both):
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    parameters = [
        *PARAMETERS, numpy.int64(5), numpy.float32(0.5), numpy.bool_(True), numpy.datetime64("2020-01-01"),
        numpy.datetime64("2020-01-01T00:00:00.5"), numpy.datetime64("NaT"), numpy.timedelta64(1, "s"),
        numpy.array([1, 2]), numpy.str_("a"), pandas.Timestamp("2020-01-01"), pandas.NaT, pandas.NA,
        pandas.Timestamp("2020-01-01 00:00:00.000000001"), pandas.Timedelta("1s"), pandas.Series([1]),
    ]

    def told(each, text, parameter):
        try:
            result = each.sql(text, parameter)
            return result.columns, repr(result.rows())
        except (TypeError, quipu.Error) as error:
            return type(error)

    for text in ("SELECT $1", "SELECT $1::jsonb", "SELECT $1::text[]", "SELECT $1::int[]", "SELECT $1 + 1"):
        for parameter in parameters:
            ours, theirs = (told(each, text, parameter) for each in both)
            assert ours == theirs, (text, parameter)


def test_what_cannot_be(db, url):
    with pytest.raises(TypeError, match="no_such_option"):
        quipu.connect(url, no_such_option=1)
    for bad in ("a:pa%ss@localhost/x", "a:pa/ss@localhost/x", "a:1/pass@localhost/x"):
        with pytest.raises(quipu.InvalidError, match="a URL is postgresql://") as error:
            quipu.connect("postgresql://" + bad)
        assert "ss@" not in str(error.value) and error.value.__cause__ is None
    with pytest.raises(quipu.Error) as error:
        quipu.connect(f"postgresql://127.0.0.1:{free_port()}/quipu", connect_timeout=5)
    assert error.value.kind == "io"
    for text, parameters in [("SELECT 1\0", ()), ("SELECT $1", ("a\0b",))]:
        with pytest.raises(quipu.InvalidError, match="zero byte"):
            db.sql(text, *parameters)
    for value, kind, state in [([[1]], "int[]", "0A000"), ([1], "int", "42846"), ([1], "text[]", "42846")]:
        with pytest.raises(quipu.InvalidError) as error:
            db.sql(f"SELECT $1::{kind}", value)
        assert (error.value.sqlstate, error.value.context) == (state, "parameter $1")
    assert db.sql("").rows() == [] and db.sql(" ; ").columns == []
    assert one(db, "SELECT $1::jsonb, $2::text[]", ["a", {"b": 1}], ["x,", None, '"\\']) == (
        ["a", {"b": 1}], ["x,", None, '"\\']
    )


def test_without_psycopg(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match="pip install"):
        quipu.connect(url)


def test_the_tour_of_servers_with_sql_runs(db, url):
    page = ROOT / "docs" / "python.md"
    text = page.read_text(encoding="utf-8").replace("postgresql://localhost/quipu", url)
    (block,) = [block for block in re.findall(r"^```pycon\n(.*?)^```", text, re.M | re.S) if "postgresql://" in block]
    report = []
    test = doctest.DocTestParser().get_doctest(block, {"quipu": quipu}, page.name, str(page), 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
