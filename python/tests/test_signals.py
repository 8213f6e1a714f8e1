"""Ctrl-C while calls wait or take long: the call ends, and nothing of it is done."""

import contextlib
import gc
import os
import signal
import threading
import time

import pytest

import quipu


@pytest.fixture(autouse=True)
def interrupts():
    """A program that a shell has started in the background ignores Ctrl-C, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def stock(db):
    return db.create_table("stock", {"item": str, "left": int}, key="item")


def interrupted(work, ready):
    """Runs something that waits, and interrupts it once it is under way."""

    def interrupt():
        ready()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # Python drops an exception that a signal raises while a finalizer runs: no object is collected meanwhile.
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            work()
            # Where it did not wait, the signal is still on its way.
            time.sleep(60)
    finally:
        gc.enable()
        thread.join()


@contextlib.contextmanager
def another_writes(db):
    """A block beside the transaction of the single writer of another thread, which adds a row."""
    holds, ends = threading.Event(), threading.Event()

    def hold():
        with db.write() as alone:
            alone["stock"].insert({"item": "of the other", "left": 1})
            holds.set()
            assert ends.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(120)
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.mark.parametrize("name", ["insert", "insert_many", "write", "commit", "create_table", "load", "checkpoint"])
def test_a_wait_for_the_single_writer_is_interrupted(db, stock, name):
    pyarrow = pytest.importorskip("pyarrow")
    optimistic = db.transaction()
    optimistic["stock"].insert(("optimistic", 1))
    work = {
        "insert": lambda: stock.insert(("x", 1)),
        "insert_many": lambda: stock.insert_many([("x", 1)]),
        "write": db.write,
        "commit": optimistic.commit,
        "create_table": lambda: db.create_table("other", {"id": int}),
        "load": lambda: stock.load(pyarrow.table({"item": ["x"], "left": [1]})),
        "checkpoint": db.checkpoint,
    }[name]
    with another_writes(db):
        # The other goes on as long as the wait does: only the signal can end it.
        interrupted(work, lambda: time.sleep(0.2))
    assert [row["item"] for row in stock] == ["of the other"] and db.tables() == ["stock"]
    # One that has given up is not waited for.
    assert stock.insert(("later", 1)) == "later"
    with db.write() as alone:
        alone["stock"].delete("later")
    assert len(stock) == 1


def test_long_calls_are_interrupted_and_nothing_of_them_is_done(db):
    pyarrow = pytest.importorskip("pyarrow")
    table = db.create_table("t", {"id": int}, key="id")
    rows = pyarrow.table({"id": range(3_000_000)})
    interrupted(lambda: table.load(rows), lambda: time.sleep(0.05))
    assert len(table) in (0, 3_000_000), "all or nothing"
    table = db.create_table("u", {"id": int}, key="id")
    table.load(rows.slice(0, 100_000))
    interrupted(lambda: [table[:] for _ in range(1000)], lambda: time.sleep(0.05))
    assert len(table[:]) == 100_000


SQL_THAT_WAITS = ["first insert", "first select", "insert", "two inserts", "create table", "in a session", "commit"]


@pytest.mark.parametrize("name", SQL_THAT_WAITS)
def test_sql_that_waits_for_the_single_writer_is_interrupted(db, stock, name):
    if not name.startswith("first"):
        # The first statement in a database writes the catalogue of SQL.
        db.sql("SELECT 1")
    insert = "INSERT INTO stock VALUES ('x', 1)"
    session = db.sql_session() if name in ("in a session", "commit") else None
    if name == "commit":
        session.sql(insert)
    work = {
        "first insert": lambda: db.sql(insert),
        "first select": lambda: db.sql("SELECT 1"),
        "insert": lambda: db.sql(insert),
        "two inserts": lambda: db.sql(f"{insert}; INSERT INTO stock VALUES ('y', 2)"),
        "create table": lambda: db.sql("CREATE TABLE other (id int PRIMARY KEY)"),
        "in a session": lambda: session.sql(insert),
        "commit": lambda: session.commit(),
    }[name]
    with another_writes(db):
        interrupted(work, lambda: time.sleep(0.2))
    if session is not None:
        session.close()
    assert [row["item"] for row in stock] == ["of the other"] and db.tables() == ["stock"]
    assert db.sql(insert).rowcount == 1 and len(stock) == 2


def test_the_first_sql_of_the_single_writer_is_refused_and_waits_for_nobody(tmp_path):
    with quipu.open(tmp_path / "db") as db:
        with db.write():
            with pytest.raises(quipu.InvalidError, match="the first statement of SQL in a database writes its"):
                db.sql("SELECT 1")
        assert db.sql("SELECT 1").rows() == [(1,)]
    with quipu.open(tmp_path / "db") as db, db.write():
        assert db.sql("SELECT 1").rows() == [(1,)], "the catalogue is there"


ROWS = 300_000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    pyarrow = pytest.importorskip("pyarrow")
    with quipu.open(tmp_path_factory.mktemp("many") / "db", durability="none") as db:
        table = db.create_table("many", {"id": int, "n": int}, key="id", indexes={"n": "n"})
        table.load(pyarrow.table({"id": range(ROWS), "n": range(ROWS)}))
        db.sql("SELECT 1")
        yield db


def in_a_transaction(begin, work):
    with begin() as transaction:
        work(transaction["many"])


LONG = {
    "get_many": lambda db: db["many"].get_many(range(ROWS)),
    "check": lambda db: db.check(),
    "create_index": lambda db: db.create_index("many", "new", ["n", "id"]),
    "rebuild_index": lambda db: db.rebuild_index("many", "n"),
    "slice": lambda db: db["many"].index("n")[:],
    "slice with a step": lambda db: db["many"].index("n")[::9],
    "page": lambda db: db["many"].page(0, ROWS),
    "delete_range": lambda db: db["many"].delete_range(ge=0),
    "insert_many": lambda db: db["many"].insert_many((ROWS + n, n) for n in range(ROWS)),
    "upsert_many": lambda db: db["many"].upsert_many({"id": n, "n": -1} for n in range(ROWS)),
    "a select": lambda db: db.sql("SELECT count(*) FROM many a, many b WHERE a.n + b.n < 0"),
    "fetchmany": lambda db: db.sql("SELECT * FROM many").fetchmany(ROWS),
    "an update": lambda db: db.sql("UPDATE many SET n = n + 1"),
    "get_many in a transaction": lambda db: in_a_transaction(db.transaction, lambda many: many.get_many(range(ROWS))),
    "delete_range in a transaction": lambda db: in_a_transaction(db.write, lambda many: many.delete_range(ge=0)),
    "load in a transaction": lambda db: in_a_transaction(db.write, lambda many: many.load(more_rows())),
}


def more_rows():
    import pyarrow

    return pyarrow.table({"id": range(ROWS, 2 * ROWS), "n": range(ROWS)})


@pytest.mark.parametrize("name", LONG)
def test_long_calls_look_for_signals(many, name):
    sent, handled = [], []

    def handle(*_):
        handled.append(time.process_time())
        raise KeyboardInterrupt

    def ready():
        time.sleep(0.1)
        sent.append(time.process_time())

    signal.signal(signal.SIGINT, handle)
    interrupted(lambda: LONG[name](many), ready)
    # What the process has worked: beside others, it may have to wait for its turn of the processor.
    assert handled[0] - sent[0] < 1, "it went on"
    table = many["many"]
    assert len(table) == ROWS and table.index("n")[0] == {"id": 0, "n": 0} and table[-1]["n"] == ROWS - 1
    assert [index["name"] for index in table.schema["indexes"]] == ["n"] and "new" not in many.stats()["tables"]
