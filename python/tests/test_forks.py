"""Processes that are forked: what the other one has opened is not used there, and nothing is lost."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading

import pytest

import quipu

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def forked(work):
    """Runs something in a forked process, and returns what it returns, or the exception's text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:60_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return answer


def of_python(code, *arguments):
    """Runs a program of its own, which must end well and say nothing else."""
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def table_of(db, rows=100):
    table = db.create_table("t", {"id": int, "v": str}, key="id", indexes={"v": "v"})
    table.insert_many((id, "v" * 50) for id in range(rows))
    return table


def test_a_forked_process_writes_nothing_and_the_parent_loses_nothing(tmp_path):
    db = quipu.open(tmp_path / "db")
    table = table_of(db)
    snapshot, transaction, walk = db.snapshot(), db.transaction(), iter(table)
    transaction["t"].insert((1_000, "late"))
    next(walk)
    uses = {
        "insert": lambda: table.insert((5_000, "child")),
        "insert_many": lambda: table.insert_many([(5_000, "child")]),
        "upsert": lambda: table.upsert({"id": 5, "v": "child"}),
        "delete": lambda: table.delete(5),
        "len": lambda: len(table),
        "get": lambda: table.get(5),
        "index": lambda: table.index("v")[0],
        "slice": lambda: table[:],
        "snapshot": db.snapshot,
        "of the snapshot": lambda: len(snapshot["t"]),
        "of the transaction": lambda: transaction["t"].get(5),
        "commit": transaction.commit,
        "rollback": transaction.rollback,
        "write": db.write,
        "transaction": db.transaction,
        "create_table": lambda: db.create_table("u", {"id": int}),
        "checkpoint": db.checkpoint,
        "backup": lambda: db.backup(tmp_path / "backup"),
        "tables": db.tables,
        "walk": lambda: list(walk) and len(table),
    }
    for name, use in uses.items():
        answer = forked(use)
        assert answer.startswith("InvalidError") and f"process {os.getpid()}" in answer, f"{name}: {answer}"
        table.insert((10_000 + len(table), name))
    assert forked(db.close) == "None", "it is forgotten there"
    assert forked(gc.collect).isdigit()
    for id in range(20_000, 22_000):
        table.insert((id, "parent"))
    transaction.commit()
    assert len(snapshot["t"]) == 100
    db.close()
    with quipu.open(tmp_path / "db") as db:
        assert len(db["t"]) == 100 + len(uses) + 2_000 + 1
        assert db["t"].count(ge=20_000) == 2_000


def test_a_forked_process_that_only_ends_says_nothing_and_breaks_nothing(tmp_path):
    code = """
import os, sys, quipu
db = quipu.open(sys.argv[1])
table = db.create_table("t", {"id": int}, key="id")
table.insert_many([{"id": id} for id in range(100)])
snapshot, transaction, walk = db.snapshot(), db.transaction(), iter(table)
transaction["t"].insert({"id": 1000})
writer = db.write()
next(walk)
with db:
    for number in range(3):
        if os.fork() == 0:
            sys.exit(0) if number == 0 else db.close() if number == 1 else None
            sys.exit(0)
        assert os.wait()[1] == 0
    writer["t"].insert({"id": 2000})
    writer.commit()
    transaction.commit()
with quipu.open(sys.argv[1]) as db:
    print(len(db["t"]))
"""
    assert of_python(code, tmp_path / "db") == "102\n"


def test_a_forked_process_that_lives_on_does_not_keep_the_directory(tmp_path):
    db = quipu.open(tmp_path / "db")
    table_of(db)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go[1])
        os.write(ready[1], b"!")
        os.read(go[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"!"
    db.close()
    with quipu.open(tmp_path / "db") as again:
        assert len(again["t"]) == 100
    os.close(go[1])
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_process_opens_databases_of_its_own(tmp_path):
    db = quipu.open(tmp_path / "db")
    table = table_of(db)

    def work():
        with quipu.open(tmp_path / "other") as own:
            own_table = table_of(own, 10)
            assert forked(lambda: len(own_table)).startswith("InvalidError")
            with pytest.raises(quipu.InvalidError, match="forked"):
                len(table)
            return len(own_table)

    assert forked(work) == "10"
    with quipu.open(tmp_path / "other") as other:
        assert len(other["t"]) == 10
    assert forked(lambda: quipu.open(tmp_path / "db")).startswith("Error: ") and len(table) == 100
    db.close()
    assert forked(lambda: len(quipu.open(tmp_path / "db")["t"])) == "100"


def test_forks_while_other_threads_write(tmp_path):
    db = quipu.open(tmp_path / "db", durability="none")
    table = table_of(db)
    stop, written = threading.Event(), [0, 0]

    def write(number):
        while not stop.is_set():
            table.insert((1_000_000 * (number + 1) + written[number], "x" * 100))
            written[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            answers = forked(lambda: (gc.collect(), table.insert((5, "child"))))
            assert answers.startswith("InvalidError")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(table) == 100 + sum(written)
    db.close()
    with quipu.open(tmp_path / "db") as db:
        assert len(db["t"]) == 100 + sum(written)


def count_of(part):
    return sum(1 for _ in part)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_read_partitions(tmp_path, method):
    with quipu.open(tmp_path / "db") as db:
        table_of(db, 1_000)
    with quipu.open(tmp_path / "db", read_only=True) as db:
        parts = db["t"].partitions(4)
        assert [count_of(part) for part in parts] == [250] * 4
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(count_of, parts) == [250] * 4
        assert forked(lambda: count_of(parts[1])) == "250", "without pickling too"
