"""Ctrl-C while calls wait or take long: the call ends, and nothing of it is done."""

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


@pytest.mark.parametrize("name", ["insert", "insert_many", "write", "commit", "create_table", "load", "checkpoint"])
def test_a_wait_for_the_single_writer_is_interrupted(db, stock, name):
    pyarrow = pytest.importorskip("pyarrow")
    holds, ends = threading.Event(), threading.Event()

    def hold():
        with db.write() as alone:
            alone["stock"].insert({"item": "of the other", "left": 1})
            holds.set()
            assert ends.wait(120)

    optimistic = db.transaction()
    optimistic["stock"].insert(("optimistic", 1))
    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(120)
    work = {
        "insert": lambda: stock.insert(("x", 1)),
        "insert_many": lambda: stock.insert_many([("x", 1)]),
        "write": db.write,
        "commit": optimistic.commit,
        "create_table": lambda: db.create_table("other", {"id": int}),
        "load": lambda: stock.load(pyarrow.table({"item": ["x"], "left": [1]})),
        "checkpoint": db.checkpoint,
    }[name]
    try:
        # The other goes on as long as the wait does: only the signal can end it.
        interrupted(work, lambda: time.sleep(0.2))
    finally:
        ends.set()
        thread.join()
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
