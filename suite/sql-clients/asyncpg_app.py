"""asyncpg: what an application does with it, which connects where PGHOST and its like say."""

import asyncio
import datetime as dt
import decimal
import io
import ipaddress
import json
import uuid

import asyncpg

from checks import check, expect, finish

UTC = dt.timezone.utc
TYPES = {
    "int2": [-32768, 32767],
    "int4": [-(2**31), 2**31 - 1],
    "int8": [-(2**63), 2**63 - 1],
    "float4": [0.5, float("-inf")],
    "float8": [0.1, -1e300],
    "numeric": [decimal.Decimal(text) for text in ("0.00", "-1234.5600", "1e-20", "98765432109876543210.5")],
    "text": ["", "ä\n'€𝄞"],
    "char(4)": ["abcd"],
    "name": ["a name"],
    "bytea": [b"", bytes(range(256))],
    "bool": [True, False],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 30)],
    "time": [dt.time(23, 59, 59, 999_999)],
    "timetz": [dt.time(1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
    "timestamp": [dt.datetime(1999, 12, 31, 23, 59, 59, 999_999)],
    "timestamptz": [dt.datetime(2038, 1, 19, 3, 14, 8, 5, tzinfo=UTC)],
    "interval": [dt.timedelta(days=-3, microseconds=1), dt.timedelta(days=400, hours=23)],
    "uuid": [uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")],
    "jsonb": ['{"a": [1, null, "ä"]}'],
    "json": ['{"b" : 1}'],
    "inet": [ipaddress.ip_address("10.0.0.1")],
    "cidr": [ipaddress.ip_network("10.0.0.0/8")],
    "oid": [2**32 - 1],
    "bit(5)": [asyncpg.BitString("10110")],
    "int4range": [asyncpg.Range(1, 5)],
    "int4multirange": [[asyncpg.Range(1, 3), asyncpg.Range(7, 9)]],
    "int4[]": [[], [1, None, -3], [[1, 2], [3, 4]]],
    "text[]": [["a,b", '"', "", None]],
    "jsonb[]": [['{"a": 1}', None]],
    "timestamptz[]": [[dt.datetime(2024, 1, 1, tzinfo=UTC)]],
}


async def rejected(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


@check
async def login():
    connection = await asyncpg.connect()
    expect(connection.get_server_version().major, 15)
    expect(connection.get_settings().client_encoding, "UTF8")
    await connection.close()
    await rejected(asyncpg.InvalidPasswordError, asyncpg.connect(password="not it"))
    connection = await asyncpg.connect(server_settings={"application_name": "till", "search_path": "pg_catalog"})
    expect(
        await connection.fetchval("SELECT current_setting('application_name') || current_schema()"), "tillpg_catalog"
    )
    await connection.close()


@check
async def types_round_trip():
    connection = await asyncpg.connect()
    for number, (name, values) in enumerate(TYPES.items()):
        await connection.execute(f"CREATE TABLE at{number} (id int PRIMARY KEY, v {name})")
        for at, value in enumerate([*values, None]):
            await connection.execute(f"INSERT INTO at{number} VALUES ($1, $2)", at, value)
            expect(await connection.fetchval(f"SELECT v FROM at{number} WHERE id = $1", at), value, name)
            if value is not None and name != "json":
                expect(await connection.fetchval(f"SELECT v = $1 FROM at{number} WHERE id = $2", value, at), True, name)
    months = await connection.fetchval("SELECT $1::text::interval", "1 mon 2 days 3 sec")
    expect(months, dt.timedelta(days=32, seconds=3))
    expect(await connection.fetchval("SELECT 'infinity'::date"), dt.date.max)
    await connection.close()


@check
async def types_of_ones_own():
    connection = await asyncpg.connect()
    await connection.execute("CREATE TYPE colour AS ENUM ('red', 'green')")
    await connection.execute("CREATE TYPE dot AS (x int, y int, colour colour)")
    await connection.execute("CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)")
    await connection.execute("CREATE TABLE drawings (id serial PRIMARY KEY, dots dot[], main dot, full_ percent)")
    row = await connection.fetchrow(
        "INSERT INTO drawings (dots, main, full_) VALUES ($1, $2, $3) RETURNING *",
        [(1, 2, "red"), (3, None, None)],
        (5, 6, "green"),
        99,
    )
    expect(
        ([tuple(dot) for dot in row["dots"]], row["main"]["colour"], row["full_"]),
        ([(1, 2, "red"), (3, None, None)], "green", 99),
    )
    await rejected(asyncpg.CheckViolationError, connection.execute("INSERT INTO drawings (full_) VALUES (101)"))
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    expect(await connection.fetchval("SELECT $1::jsonb || '{\"b\": 2}'", {"a": [1]}), {"a": [1], "b": 2})
    expect(await connection.fetchval("SELECT ROW(1, 'a'::text, NULL::int)"), (1, "a", None))
    await connection.close()


@check
async def statements():
    connection = await asyncpg.connect()
    expect(await connection.execute("CREATE TABLE people (id int PRIMARY KEY, name text, born date)"), "CREATE TABLE")
    expect(
        await connection.execute("INSERT INTO people VALUES ($1, $2, $3)", 1, "Ann", dt.date(1990, 1, 1)), "INSERT 0 1"
    )
    await connection.executemany("INSERT INTO people VALUES ($1, $2, $3)", [(n, f"p{n}", None) for n in range(2, 500)])
    expect(await connection.execute("UPDATE people SET name = upper(name) WHERE id < 10"), "UPDATE 9")
    statement = await connection.prepare("SELECT id, name, born FROM people WHERE id = $1 AND name LIKE $2")
    expect([(p.name, p.kind) for p in statement.get_parameters()], [("int4", "scalar"), ("text", "scalar")])
    expect(
        [(a.name, a.type.name) for a in statement.get_attributes()],
        [("id", "int4"), ("name", "text"), ("born", "date")],
    )
    expect(dict(await statement.fetchrow(1, "A%")), {"id": 1, "name": "ANN", "born": dt.date(1990, 1, 1)})
    expect(await statement.fetch(1, "B%"), [])
    many = await connection.prepare("INSERT INTO people VALUES ($1, $2, NULL) RETURNING id, name")
    expect([tuple(row) for row in await many.fetchmany([(1000, "a"), (1001, "b")])], [(1000, "a"), (1001, "b")])
    expect(await connection.fetchval("SELECT count(*) FROM people WHERE id = ANY($1::int[])", [1, 2, 9999]), 2)
    rows = await connection.fetch(
        "SELECT * FROM unnest($1::int[], $2::text[]) WITH ORDINALITY AS u(a, b, n)", [1, 2], ["x", None]
    )
    expect([tuple(row) for row in rows], [(1, "x", 1), (2, None, 2)])
    await connection.execute("ALTER TABLE people ADD COLUMN weight float8")
    row = await connection.fetchrow("SELECT * FROM people WHERE id = $1", 1)
    expect(list(row.keys()), ["id", "name", "born", "weight"])
    await connection.execute("ALTER TABLE people DROP COLUMN born")
    expect(list((await connection.fetchrow("SELECT * FROM people WHERE id = $1", 1)).keys()), ["id", "name", "weight"])
    await connection.close()


@check
async def transactions():
    connection, other = await asyncpg.connect(), await asyncpg.connect()
    await connection.execute("CREATE TABLE counters (id int PRIMARY KEY, n int)")
    await connection.execute("INSERT INTO counters VALUES (1, 0), (2, 0)")
    async with connection.transaction():
        await connection.execute("UPDATE counters SET n = 1")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO counters VALUES (1, 1)")
        except asyncpg.UniqueViolationError as error:
            expect((error.sqlstate, error.constraint_name, error.table_name), ("23505", "counters_pkey", "counters"))
        expect(await connection.fetchval("SELECT sum(n) FROM counters"), 2)
        expect(await other.fetchval("SELECT sum(n) FROM counters"), 0)
    expect(await other.fetchval("SELECT sum(n) FROM counters"), 2)
    one, two = connection.transaction(isolation="serializable"), other.transaction(isolation="serializable")
    await one.start()
    await two.start()
    for session, at in ((connection, 1), (other, 2)):
        await session.fetchval("SELECT sum(n) FROM counters")
        await session.execute("UPDATE counters SET n = n + 1 WHERE id = $1", at)
    await one.commit()
    await rejected(asyncpg.SerializationError, two.commit())
    tx = connection.transaction(readonly=True)
    await tx.start()
    await rejected(asyncpg.ReadOnlySQLTransactionError, connection.execute("DELETE FROM counters"))
    await rejected(asyncpg.InFailedSQLTransactionError, connection.execute("SELECT 1"))
    await tx.rollback()
    await connection.close()
    await other.close()


@check
async def errors_by_state():
    connection = await asyncpg.connect()
    await connection.execute(
        "CREATE TABLE owners (id int PRIMARY KEY); CREATE TABLE dogs (owner int REFERENCES owners)"
    )
    await rejected(asyncpg.ForeignKeyViolationError, connection.execute("INSERT INTO dogs VALUES (1)"))
    await rejected(asyncpg.UndefinedTableError, connection.fetch("SELECT * FROM nothing WHERE id = $1", 1))
    await rejected(asyncpg.UndefinedColumnError, connection.fetch("SELECT nothing FROM dogs"))
    await rejected(asyncpg.UndefinedFunctionError, connection.fetch("SELECT nothing($1::int)", 1))
    await rejected(asyncpg.PostgresSyntaxError, connection.fetch("SELECT 1 +"))
    await rejected(asyncpg.DivisionByZeroError, connection.fetchval("SELECT 1 / $1::int", 0))
    await rejected(asyncpg.NumericValueOutOfRangeError, connection.fetchval("SELECT $1::int + $1::int", 2**31 - 1))
    await rejected(asyncpg.DataError, connection.fetchval("SELECT $1::int", "text"))
    await rejected(asyncpg.InterfaceError, connection.fetchval("SELECT $1::int"))
    await connection.close()


@check
async def cursors():
    connection = await asyncpg.connect()
    async with connection.transaction():
        got = [row[0] async for row in connection.cursor("SELECT generate_series(1, $1::int)", 1000, prefetch=70)]
        expect(got, list(range(1, 1001)))
        cursor = await connection.cursor("SELECT generate_series(1, 100)")
        expect((await cursor.fetchrow())[0], 1)
        expect([row[0] for row in await cursor.fetch(2)], [2, 3])
        expect(len(await cursor.fetch(1000)), 97)
        expect(await cursor.fetchrow(), None)
    await connection.close()


@check
async def cursors_that_skip():
    connection = await asyncpg.connect()
    async with connection.transaction():
        cursor = await connection.cursor("SELECT generate_series(1, 100)")
        expect(await cursor.forward(10), 10)
        expect((await cursor.fetchrow())[0], 11)
    await connection.close()


@check
async def copy():
    rows = [
        (n, None if n % 5 == 0 else f"t\t{n}\\", dt.datetime(2024, 1, 1, tzinfo=UTC), decimal.Decimal(n) / 4)
        for n in range(3000)
    ]
    connection = await asyncpg.connect()
    await connection.execute("CREATE TABLE copied (id int PRIMARY KEY, v text, at timestamptz, price numeric)")
    expect(await connection.copy_records_to_table("copied", records=rows), "COPY 3000")
    expect([tuple(row) for row in await connection.fetch("SELECT * FROM copied ORDER BY id")], rows)
    file = io.BytesIO()
    expect(
        await connection.copy_from_query("SELECT id, v FROM copied WHERE id = ANY($1) ORDER BY 1", [1, 5], output=file),
        "COPY 2",
    )
    expect(file.getvalue(), b"1\tt\\t1\\\\\n5\t\\N\n")
    file = io.BytesIO()
    await connection.copy_from_table("copied", output=file, format="csv", columns=["id", "price"], header=True)
    expect(file.getvalue()[:27], b"id,price\n0,0\n1,0.25\n2,0.5\n3")
    await connection.execute("TRUNCATE copied")
    file.seek(0)
    expect(
        await connection.copy_to_table("copied", source=file, format="csv", columns=["id", "price"], header=True),
        "COPY 3000",
    )
    expect(await connection.fetchval("SELECT sum(price) FROM copied"), sum(row[3] for row in rows))
    error = await rejected(asyncpg.UniqueViolationError, connection.copy_records_to_table("copied", records=rows))
    expect(error.constraint_name, "copied_pkey")
    await connection.close()


@check
async def cancels():
    connection = await asyncpg.connect()
    await rejected(asyncio.TimeoutError, connection.fetchval("SELECT pg_sleep(20)", timeout=0.2))
    expect(await connection.fetchval("SELECT 1"), 1)
    task = asyncio.create_task(connection.fetchval("SELECT count(*) FROM generate_series(1, 10000000000)"))
    await asyncio.sleep(0.2)
    task.cancel()
    await rejected(asyncio.CancelledError, task)
    expect(await connection.fetchval("SELECT 2"), 2)
    await connection.close()


@check
async def notifications():
    listener, speaker = await asyncpg.connect(), await asyncpg.connect()
    heard = asyncio.Queue()
    await listener.add_listener("news", lambda *told: heard.put_nowait(told[1:]))
    await speaker.execute("SELECT pg_notify('news', 'first')")
    expect(await asyncio.wait_for(heard.get(), 5), (speaker.get_server_pid(), "news", "first"))
    notices = []
    speaker.add_log_listener(lambda _, notice: notices.append((notice.severity, notice.sqlstate)))
    await speaker.execute("DROP TABLE IF EXISTS not_there")
    expect(notices, [("NOTICE", "00000")])
    await listener.close()
    await speaker.close()


@check
async def pools():
    async def begin(connection):
        await connection.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

    async with asyncpg.create_pool(min_size=2, max_size=5, init=begin) as pool:
        await pool.execute("CREATE TABLE tally (id int PRIMARY KEY, n int, seen json)")
        async with pool.acquire() as connection:
            await connection.execute("INSERT INTO tally VALUES (1, 0, $1)", {"a": 1})
            await connection.execute("SET search_path = pg_catalog")
            await connection.execute("SELECT pg_advisory_lock(7)")

        async def work():
            async with pool.acquire() as connection, connection.transaction():
                n = await connection.fetchval("SELECT n FROM tally WHERE id = 1 FOR UPDATE")
                await connection.execute("UPDATE tally SET n = $1 WHERE id = 1", n + 1)

        await asyncio.gather(*(work() for _ in range(100)))
        expect(tuple(await pool.fetchrow("SELECT n, seen FROM tally")), (100, {"a": 1}))
        expect(await pool.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0)
    connection = await asyncpg.connect()
    await connection.execute("SET search_path = pg_catalog")
    await connection.reset()
    expect(await connection.fetchval("SHOW search_path"), '"$user", public')
    await connection.close()


finish("asyncpg", lambda one: asyncio.run(one()))
