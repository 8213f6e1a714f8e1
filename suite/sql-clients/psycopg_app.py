"""psycopg 3: what an application does with it, which connects where PGHOST and its like say."""

import datetime as dt
import decimal
import ipaddress
import logging
import threading
import uuid

import psycopg
import psycopg_pool
from psycopg import errors, sql
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from checks import check, expect, finish

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of pipelines that are left by an error
UTC = dt.timezone.utc
TYPES = {
    "int2": [0, -32768, 32767],
    "int4": [1, -(2**31), 2**31 - 1],
    "int8": [-1, -(2**63), 2**63 - 1],
    "float4": [0.5, -65536.25, float("inf")],
    "float8": [0.1, -1e300, 5e-324, float("-inf")],
    "numeric": [
        decimal.Decimal(text) for text in ("0", "-12.3400", "1e-30", "123456789012345678901234567890.5", "Infinity")
    ],
    "numeric(12,2)": [decimal.Decimal("1234567890.12"), decimal.Decimal("-0.01")],
    "text": ["", "ä\n\t\\'\"€𝄞", "x" * 100_000],
    "varchar(5)": ["12345", ""],
    "bytea": [b"", bytes(range(256)), b"\\x00" * 5000],
    "bool": [True, False],
    "date": [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "time": [dt.time(0, 0), dt.time(23, 59, 59, 999_999)],
    "timetz": [dt.time(12, 30, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30)))],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(1999, 12, 31, 23, 59, 59, 999_999), dt.datetime(9999, 12, 31)],
    "timestamptz": [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2038, 1, 19, 3, 14, 8, 5, tzinfo=UTC)],
    "interval": [dt.timedelta(0), dt.timedelta(days=-3, microseconds=1), dt.timedelta(days=400, hours=23)],
    "uuid": [uuid.UUID(int=0), uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")],
    "inet": [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_interface("fe80::1/64")],
    "int4range": [Range(1, 5), Range(empty=True), Range(None, 7)],
    "tstzrange": [Range(dt.datetime(2024, 1, 1, tzinfo=UTC), None, "[)")],
    "int8multirange": [Multirange([Range(1, 3), Range(8, 10)]), Multirange()],
    "int4[]": [[], [1, None, -3], [[1, 2], [3, 4]]],
    "text[]": [["a,b", '"', "", "NULL", None, "\\"]],
    "numeric[]": [[decimal.Decimal("1.50"), None]],
    "timestamptz[]": [[dt.datetime(2024, 1, 1, tzinfo=UTC)]],
    "uuid[]": [[uuid.UUID(int=7)]],
    "bool[]": [[True, False, None]],
    "bytea[]": [[b"\0\\", b""]],
}


def connect(**options):
    return psycopg.connect(**{"autocommit": True} | options)


def rejected(state, call, *arguments):
    """The error of a call, which must have this SQLSTATE."""
    try:
        call(*arguments)
    except psycopg.Error as error:
        expect(error.sqlstate, state, str(error))
        return error
    raise AssertionError(f"no error, wanted {state}: {arguments}")


@check
def login():
    with connect() as connection:
        expect(
            connection.execute("SELECT current_user, current_database()").fetchone(),
            (connection.info.user, connection.info.dbname),
        )
        expect(connection.info.server_version // 10000, 15)
        expect(connection.info.parameter_status("server_encoding"), "UTF8")
        expect(connection.info.parameter_status("integer_datetimes"), "on")
        expect(connection.info.encoding, "utf-8")
        assert connection.pgconn.used_password
    try:
        connect(password="not it")
    except psycopg.OperationalError as error:
        assert "password authentication failed" in str(error), error
    else:
        raise AssertionError("a wrong password is taken")
    with connect(options="-c statement_timeout=12345 -c search_path=pg_catalog", application_name="till") as connection:
        expect(connection.execute("SHOW statement_timeout").fetchone(), ("12345ms",))
        expect(connection.execute("SELECT current_schema()").fetchone(), ("pg_catalog",))
        row = connection.execute(
            "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        expect(row, ("till",))


@check
def types_round_trip():
    with connect() as connection:
        for number, (name, values) in enumerate(TYPES.items()):
            connection.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY, v {name})")
            for at, value in enumerate([*values, None]):
                for mark in ("%s", "%t", "%b"):
                    if mark == "%b" and isinstance(value, ipaddress.IPv6Interface):
                        mark = "%s"
                    try:
                        connection.execute(f"DELETE FROM t{number} WHERE id = %s", [at])
                        connection.execute(f"INSERT INTO t{number} VALUES (%s, {mark}::{name})", [at, value])
                    except psycopg.Error as error:
                        raise AssertionError(f"{name} {value!r:.60} {mark}: {error}") from error
                    for binary in (False, True):
                        row = connection.execute(
                            f"SELECT v FROM t{number} WHERE id = %s", [at], binary=binary
                        ).fetchone()
                        expect(row, (value,), f"{name} {mark} binary={binary}")
            for value in values:
                found = connection.execute(f"SELECT count(*) FROM t{number} WHERE v = %s::{name}", [value]).fetchone()[
                    0
                ]
                expect(found, 1, f"{name} = {value!r:.60}")


@check
def json_round_trip():
    value = {"b": [1, 2.5, None, {"ä": "\u20ac\n"}], "a": True, "n": 10**15}
    with connect() as connection:
        connection.execute("CREATE TABLE documents (id int PRIMARY KEY, j json, b jsonb)")
        connection.execute("INSERT INTO documents VALUES (1, %s, %s)", [Json(value), Jsonb(value)])
        for binary in (False, True):
            expect(connection.execute("SELECT j, b FROM documents", binary=binary).fetchone(), (value, value))
        expect(
            connection.execute(
                "SELECT b #>> '{b,3,ä}', b @> %s, b ? 'a' FROM documents", [Jsonb({"a": True})]
            ).fetchone(),
            ("\u20ac\n", True, True),
        )
        connection.execute("UPDATE documents SET b = jsonb_set(b, '{a}', %s) WHERE b->>'a' = 'true'", [Jsonb([1])])
        expect(connection.execute("SELECT b->'a' FROM documents").fetchone(), ([1],))


@check
def types_of_ones_own():
    from enum import Enum

    class Mood(Enum):
        sad = 1
        ok = 2

    with connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute("CREATE TYPE place AS (city text, position int4)")
        connection.execute(
            "CREATE TABLE people (id serial PRIMARY KEY, mood mood, home place, moods mood[], homes place[])"
        )
        register_enum(EnumInfo.fetch(connection, "mood"), connection, Mood)
        register_composite(CompositeInfo.fetch(connection, "place"), connection)
        place = CompositeInfo.fetch(connection, "place")
        expect([place.field_names, place.field_types], [("city", "position"), (25, 23)])
        for binary in (False, True):
            row = connection.execute(
                "INSERT INTO people (mood, home, moods, homes) VALUES (%s, %s::place, %s, %s::place[])"
                " RETURNING mood, home, moods, homes",
                [Mood.ok, ('Ulm, "x"', None), [Mood.sad, Mood.ok], [("a", 1), ("b", 2)]],
                binary=binary,
            ).fetchone()
            expect(
                (row[0], tuple(row[1]), row[2], [tuple(home) for home in row[3]]),
                (Mood.ok, ('Ulm, "x"', None), [Mood.sad, Mood.ok], [("a", 1), ("b", 2)]),
            )


@check
def prepared_statements():
    with connect() as connection:
        connection.prepare_threshold = 2
        connection.execute("CREATE TABLE prepared (id int PRIMARY KEY, v text)")
        for number in range(10):
            connection.execute("INSERT INTO prepared VALUES (%s, %s)", [number, f"v{number}"])
        expect(connection.execute("SELECT count(*), max(v) FROM prepared", prepare=True).fetchone(), (10, "v9"))
        kept = connection.execute(
            "SELECT statement, parameter_types::text[] FROM pg_prepared_statements ORDER BY prepare_time", prepare=False
        ).fetchall()
        expect(
            kept,
            [
                ("INSERT INTO prepared VALUES ($1, $2)", ["smallint", "text"]),
                ("SELECT count(*), max(v) FROM prepared", []),
            ],
        )
        select = "SELECT * FROM prepared WHERE id = %s"
        expect(connection.execute(select, [3], prepare=True).fetchone(), (3, "v3"))
        connection.execute("ALTER TABLE prepared ADD w int DEFAULT 5")
        try:
            expect(connection.execute(select, [3], prepare=True).fetchone(), (3, "v3", 5))
        except errors.FeatureNotSupported as error:
            assert "cached plan must not change result type" in str(error), error
        connection.execute("DEALLOCATE ALL")
        expect(connection.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False).fetchone(), (0,))


@check
def rows_and_counts():
    with connect() as connection:
        connection.execute(
            "CREATE TABLE items (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " name text NOT NULL, price numeric(10,2))"
        )
        cursor = connection.cursor()
        cursor.executemany(
            "INSERT INTO items (name, price) VALUES (%s, %s) RETURNING id",
            [(f"item {n}", n) for n in range(100)],
            returning=True,
        )
        ids = [cursor.fetchone()[0]]
        while cursor.nextset():
            ids.append(cursor.fetchone()[0])
        expect(ids, list(range(1, 101)))
        expect(
            cursor.executemany("UPDATE items SET price = price + 1 WHERE id <= %s", [(10,), (5,)]) or cursor.rowcount,
            15,
        )
        cursor = connection.execute("UPDATE items SET price = 0 WHERE price > 50")
        expect((cursor.rowcount, cursor.statusmessage), (49, "UPDATE 49"))
        cursor = connection.execute("SELECT id, name, price FROM items WHERE id = ANY(%s) ORDER BY id", [[3, 99]])
        expect(cursor.fetchall(), [(3, "item 2", decimal.Decimal("4.00")), (99, "item 98", 0)])
        expect(
            [(c.name, c.type_code, c.precision, c.scale) for c in cursor.description],
            [("id", 23, None, None), ("name", 25, None, None), ("price", 1700, 10, 2)],
        )
        rows = (
            connection.cursor(row_factory=dict_row)
            .execute("SELECT id, upper(name) AS loud FROM items WHERE id = 1")
            .fetchall()
        )
        expect(rows, [{"id": 1, "loud": "ITEM 0"}])
        expect(connection.cursor(row_factory=namedtuple_row).execute("SELECT 1 AS a").fetchone().a, 1)
        composed = sql.SQL("SELECT {} FROM {} WHERE {} = {}").format(
            sql.Identifier("name"), sql.Identifier("public", "items"), sql.Identifier("id"), sql.Literal(7)
        )
        expect(connection.execute(composed).fetchone(), ("item 6",))
        several = connection.execute("SELECT 1; SELECT 2, 3; DELETE FROM items WHERE id > 98")
        expect(several.fetchall(), [(1,)])
        several.nextset()
        expect(several.fetchall(), [(2, 3)])
        several.nextset()
        expect(several.rowcount, 2)


STATES = [
    ("42P01", "SELECT * FROM nothing"),
    ("42703", "SELECT nothing FROM parents"),
    ("42601", "SELEC 1"),
    ("42883", "SELECT nothing(1)"),
    ("42704", "SELECT 1::nothing"),
    ("42803", "SELECT id, count(*) FROM parents"),
    ("42804", "SELECT 1 WHERE 1"),
    ("42P07", "CREATE TABLE parents (id int)"),
    ("2BP01", "DROP TABLE parents"),
    ("3F000", "CREATE TABLE nowhere.t (id int)"),
    ("21000", "SELECT (SELECT generate_series(1, 2))"),
    ("22001", "INSERT INTO parents VALUES (9, 'longer than ten', 1)"),
    ("22003", "SELECT 40000::int2"),
    ("22007", "SELECT 'x'::date"),
    ("22008", "SELECT '2024-02-30'::date"),
    ("22012", "SELECT 1 / 0"),
    ("22P02", "SELECT 'a'::int"),
]


@check
def errors_by_state():
    with connect() as connection:
        run = connection.execute
        run(
            "CREATE TABLE parents (id int PRIMARY KEY, code varchar(10) UNIQUE NOT NULL,"
            " age int CONSTRAINT grown CHECK (age > 0))"
        )
        run("CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents)")
        run("INSERT INTO parents VALUES (1, 'a', 1)")
        diag = rejected("23505", run, "INSERT INTO parents VALUES (1, 'b', 1)").diag
        expect((diag.constraint_name, diag.table_name, diag.schema_name), ("parents_pkey", "parents", "public"))
        expect(diag.message_detail, "Key (id)=(1) already exists.")
        expect(
            rejected("23505", run, "INSERT INTO parents VALUES (2, 'a', 1)").diag.constraint_name, "parents_code_key"
        )
        expect(rejected("23503", run, "INSERT INTO children VALUES (1, 9)").diag.table_name, "children")
        expect(rejected("23502", run, "INSERT INTO parents VALUES (3, NULL, 1)").diag.column_name, "code")
        expect(rejected("23514", run, "INSERT INTO parents VALUES (3, 'c', 0)").diag.constraint_name, "grown")
        diag = rejected("42P01", run, "SELECT * FROM nothing").diag
        expect((diag.statement_position, diag.message_primary), ("15", 'relation "nothing" does not exist'))
        for state, statement in STATES:
            rejected(state, run, statement)
        connection.autocommit = False
        rejected("22012", run, "SELECT 1 / 0")
        rejected("25P02", run, "SELECT 1")
        expect(connection.info.transaction_status.name, "INERROR")
        connection.rollback()
        connection.read_only = True
        rejected("25006", run, "DELETE FROM children")


@check
def errors_of_foreign_keys():
    with connect() as connection:
        run = connection.execute
        run("CREATE TABLE makers (id int PRIMARY KEY)")
        run("CREATE TABLE things (id int PRIMARY KEY, maker int REFERENCES makers)")
        run("INSERT INTO makers VALUES (1); INSERT INTO things VALUES (1, 1)")
        inserted = rejected("23503", run, "INSERT INTO things VALUES (2, 9)").diag
        deleted = rejected("23503", run, "DELETE FROM makers").diag
        expect(
            [(diag.constraint_name, diag.table_name, diag.message_detail) for diag in (inserted, deleted)],
            [
                ("things_maker_fkey", "things", 'Key (maker)=(9) is not present in table "makers".'),
                ("things_maker_fkey", "things", 'Key (id)=(1) is still referenced from table "things".'),
            ],
        )


@check
def transactions():
    with connect(autocommit=False) as connection, connect() as other:
        connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
        expect(other.execute("SELECT to_regclass('accounts')").fetchone(), (None,))
        connection.commit()
        with connection.transaction():
            connection.execute("INSERT INTO accounts VALUES (1, 10)")
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO accounts VALUES (2, 20)")
                    connection.execute("INSERT INTO accounts VALUES (1, 20)")
            except errors.UniqueViolation:
                pass
            with connection.transaction():
                connection.execute("INSERT INTO accounts VALUES (3, 30)")
            with connection.transaction() as undone:
                connection.execute("INSERT INTO accounts VALUES (4, 40)")
                raise psycopg.Rollback(undone)
            expect(other.execute("SELECT count(*) FROM accounts").fetchone(), (0,))
        expect(other.execute("SELECT array_agg(id ORDER BY id) FROM accounts").fetchone(), ([1, 3],))


@check
def transactions_that_meet():
    with connect(autocommit=False) as one, connect(autocommit=False) as two:
        one.execute("CREATE TABLE counters (id int PRIMARY KEY, n int)")
        one.execute("INSERT INTO counters VALUES (1, 0), (2, 0)")
        one.commit()
        one.isolation_level = two.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        for connection, at in ((one, 1), (two, 2)):
            connection.execute("SELECT sum(n) FROM counters")
            connection.execute("UPDATE counters SET n = n + 1 WHERE id = %s", [at])
        one.commit()
        rejected("40001", two.commit)
        one.isolation_level = two.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        expect(two.execute("SELECT sum(n) FROM counters").fetchone(), (1,))
        one.execute("UPDATE counters SET n = n + 1 WHERE id = 1")
        one.commit()
        expect(two.execute("SELECT sum(n) FROM counters").fetchone(), (1,))
        rejected("40001", two.execute, "UPDATE counters SET n = n + 1 WHERE id = 1")
        two.rollback()
        one.isolation_level = two.isolation_level = None
        one.execute("SELECT * FROM counters WHERE id = 1 FOR UPDATE")
        rejected("55P03", two.execute, "SELECT * FROM counters WHERE id = 1 FOR UPDATE NOWAIT")
        two.rollback()
        two.execute("SET LOCAL lock_timeout = 50")
        rejected("55P03", two.execute, "UPDATE counters SET n = 0 WHERE id = 1")
        two.rollback()
        expect(two.execute("SELECT id FROM counters ORDER BY id FOR UPDATE SKIP LOCKED").fetchall(), [(2,)])
        failed = []

        def crosswise():
            try:
                two.execute("UPDATE counters SET n = 9 WHERE id = 1")
            except psycopg.Error as error:
                failed.append(error.sqlstate)
            two.rollback()

        waiting = threading.Thread(target=crosswise)
        waiting.start()
        try:
            one.execute("UPDATE counters SET n = 9 WHERE id = 2")
        except psycopg.Error as error:
            failed.append(error.sqlstate)
            one.rollback()
        waiting.join()
        expect(failed, ["40P01"])


@check
def copy():
    rows = [(n, f"name\t{n}\\\n" if n % 7 else None, n / 8) for n in range(5000)]
    with connect() as connection:
        connection.execute("CREATE TABLE copied (id int4 PRIMARY KEY, name text, weight float8)")
        for options in ("", "WITH (FORMAT binary)"):
            connection.execute("TRUNCATE copied")
            cursor = connection.cursor()
            with cursor.copy(f"COPY copied (id, name, weight) FROM STDIN {options}") as copy:
                if options:
                    copy.set_types(["int4", "text", "float8"])
                for row in rows:
                    copy.write_row(row)
            expect(cursor.rowcount, 5000)
            with connection.cursor().copy(f"COPY (SELECT * FROM copied ORDER BY id) TO STDOUT {options}") as copy:
                copy.set_types(["int4", "text", "float8"])
                expect(list(copy.rows()), rows, options)
        with connection.cursor().copy(
            "COPY (SELECT * FROM copied WHERE id < 2) TO STDOUT (FORMAT csv, HEADER)"
        ) as copy:
            expect(b"".join(copy), b'id,name,weight\n0,,0\n1,"name\t1\\\n",0.125\n')

        def copied(text):
            with connection.cursor().copy("COPY copied FROM STDIN") as copy:
                copy.write(text)

        expect(rejected("23505", copied, "9000\ta\t1\n1\tb\t2\n").diag.context, "COPY copied, line 2")
        error = rejected("22P02", copied, "9000\ta\t1\nx\tb\t2\n")
        expect(error.diag.context, 'COPY copied, line 2, column id: "x"')
        rejected("22P04", copied, "9000\ta\n")
        rejected("57014", lambda: stopped(connection))
        expect(connection.execute("SELECT count(*) FROM copied").fetchone(), (5000,))


def stopped(connection):
    with connection.cursor().copy("COPY copied FROM STDIN") as copy:
        copy.write("9000\ta\t1\n")
        raise errors.QueryCanceled("by the client")


@check
def cursors_of_the_server():
    with connect(autocommit=False) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT n FROM generate_series(1, 10000) n")
        with connection.cursor("walker") as cursor:
            cursor.itersize = 700
            cursor.execute("SELECT n FROM numbers WHERE n > %s ORDER BY n", [5])
            expect(cursor.fetchone(), (6,))
            expect(cursor.fetchmany(3), [(7,), (8,), (9,)])
            expect(sum(n for n, in cursor), sum(range(10, 10001)))
        with connection.cursor("back", scrollable=True, row_factory=dict_row) as cursor:
            cursor.execute("SELECT n FROM numbers ORDER BY n")
            cursor.scroll(9999, mode="absolute")
            expect(cursor.fetchall(), [{"n": 10000}])
            cursor.scroll(-3)
            expect(cursor.fetchone(), {"n": 9999})
            cursor.scroll(0, mode="absolute")
            expect(cursor.fetchone(), {"n": 1})
        held = connection.cursor("held", withhold=True)
        held.execute("SELECT n FROM numbers ORDER BY n DESC")
        connection.commit()
        connection.execute("DELETE FROM numbers")
        expect(held.fetchmany(2), [(10000,), (9999,)])
        held.close()
        connection.commit()
        rejected("34000", connection.execute, 'FETCH 1 FROM "held"')
        connection.rollback()
        streamed = connection.cursor().stream("SELECT n FROM generate_series(1, 1000) n", size=10)
        expect(sum(n for n, in streamed), 500500)


@check
def pipelines():
    with connect() as connection:
        connection.execute("CREATE TABLE piped (id int PRIMARY KEY)")
        with connection.pipeline() as pipeline:
            cursors = [connection.execute("INSERT INTO piped VALUES (%s) RETURNING id", [n]) for n in range(200)]
            pipeline.sync()
            expect([cursor.fetchone() for cursor in cursors], [(n,) for n in range(200)])
        try:
            with connection.pipeline() as pipeline:
                good = connection.execute("INSERT INTO piped VALUES (1000)")
                bad = connection.execute("INSERT INTO piped VALUES (1)")
                after = connection.execute("INSERT INTO piped VALUES (1001)")
                pipeline.sync()
        except errors.UniqueViolation:
            pass
        else:
            raise AssertionError("the pipeline did not fail")
        expect(connection.execute("SELECT count(*) FROM piped").fetchone(), (200,))
        with connection.pipeline() as pipeline:
            for statement in ("INSERT INTO piped VALUES (1002)", "INSERT INTO piped VALUES (2)", "SELECT 1"):
                try:
                    connection.execute(statement)
                    pipeline.sync()
                except errors.UniqueViolation:
                    pass
        expect(connection.execute("SELECT count(*) FROM piped").fetchone(), (201,))


@check
def cancels():
    with connect() as connection:
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        rejected("57014", connection.execute, "SELECT pg_sleep(20)")
        timer.join()
        timer = threading.Timer(0.3, connection.cancel)
        timer.start()
        rejected("57014", connection.execute, "SELECT count(*) FROM generate_series(1, 10000000000)")
        timer.join()
        connection.execute("SET statement_timeout = '100ms'")
        rejected("57014", connection.execute, "SELECT pg_sleep(20)")
        connection.execute("SET statement_timeout = 0")
        expect(connection.execute("SELECT 1").fetchone(), (1,))
        with connect() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        rejected("57P01", connection.execute, "SELECT 1")
        assert connection.broken


@check
def notifications():
    with connect() as listener, connect(autocommit=False) as speaker:
        listener.execute('LISTEN "the till"')
        listener.execute("LISTEN other")
        speaker.execute("SELECT pg_notify('the till', %s)", ["ä" * 1000])
        speaker.execute("NOTIFY other")
        expect(list(listener.notifies(timeout=0.2)), [])
        speaker.commit()
        got = [(n.channel, n.payload, n.pid) for n in listener.notifies(timeout=5, stop_after=2)]
        expect(got, [("the till", "ä" * 1000, speaker.info.backend_pid), ("other", "", speaker.info.backend_pid)])
        speaker.execute("NOTIFY other, 'undone'")
        speaker.rollback()
        listener.execute("UNLISTEN *")
        speaker.execute("NOTIFY other, 'late'")
        speaker.commit()
        expect(list(listener.notifies(timeout=0.2)), [])


@check
def notices():
    with connect() as connection:
        seen = []
        connection.add_notice_handler(lambda diag: seen.append((diag.severity, diag.sqlstate, diag.message_primary)))
        connection.execute("DROP TABLE IF EXISTS not_there")
        connection.execute("DO $$ BEGIN RAISE WARNING 'careful: %', 1 + 1; END $$")
        expect(
            seen,
            [("NOTICE", "00000", 'table "not_there" does not exist, skipping'), ("WARNING", "01000", "careful: 2")],
        )


@check
def pools():
    with connect() as connection:
        connection.execute("CREATE TABLE tally (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO tally VALUES (1, 0)")
    with psycopg_pool.ConnectionPool("", min_size=2, max_size=4, timeout=30) as pool:

        def work():
            for _ in range(25):
                with pool.connection() as connection:
                    connection.execute("UPDATE tally SET n = n + 1 WHERE id = 1")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pool.connection() as connection:
            expect(connection.execute("SELECT n FROM tally").fetchone(), (200,))
        pool.check()


@check
def encodings():
    with connect(client_encoding="latin1") as connection:
        expect(connection.execute("SELECT 'ä', length(%s), U&'\\00E4'", ["äö"]).fetchone(), ("ä", 2, "ä"))
        rejected("22P05", connection.execute, "SELECT chr(8364)")


finish("psycopg")
