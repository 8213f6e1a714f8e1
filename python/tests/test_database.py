"""Databases, transactions, snapshots, errors, threads."""

import gc
import os
import pickle
import sys
import threading
import time

import pytest

import quipu


@pytest.fixture
def stock(db):
    table = db.create_table("stock", {"item": "text", "left": "i64 not null"}, key="item", checks={"some": "left >= 0"})
    table.insert_many([{"item": "apples", "left": 5}, {"item": "pears", "left": 0}])
    return table


def test_a_database_is_opened_again(tmp_path):
    with quipu.open(tmp_path) as db:
        db.create_table("t", {"id": {"type": int, "identity": "always"}, "name": "text not null"}, key="id")
        assert [db["t"].insert({"name": name}) for name in "abc"] == [1, 2, 3]
        with pytest.raises(quipu.Error) as error:
            quipu.open(tmp_path)
        assert error.value.kind == "busy"
    with quipu.open(tmp_path) as db:
        assert db.tables() == ["t"] and "t" in db
        assert [row["name"] for row in db["t"]] == ["a", "b", "c"]
        assert db["t"].schema["columns"][1] == {"name": "name", "type": "text", "not_null": True}
    first, second = quipu.open(tmp_path, read_only=True), quipu.open(tmp_path, read_only=True)
    assert len(first["t"]) == len(second["t"]) == 3
    with pytest.raises(quipu.Error) as error:
        first["t"].insert({"name": "d"})
    assert error.value.kind == "read_only"
    first.close(), second.close()
    with pytest.raises(KeyError):
        quipu.open(tmp_path / "nothing", create=False)


def test_paths_are_texts_bytes_or_have_one(tmp_path):
    class Path:
        def __fspath__(self):
            return os.fsencode(tmp_path / "db")

    for path in [os.fsencode(tmp_path / "db"), Path(), str(tmp_path / "db")]:
        with quipu.open(path) as db:
            assert db.path == os.path.realpath(tmp_path / "db")
            with pytest.raises(quipu.Error, match="open in this process already"):
                quipu.open(path)
    with quipu.open(b":memory:") as db:
        db.create_table("t", {"id": int}, key="id").insert((1,))
    with quipu.open(tmp_path / "db") as db:
        db.backup(os.fsencode(tmp_path / "copy"))
    with quipu.open(tmp_path / "copy", read_only=True) as copy:
        assert copy.tables() == []
    with pytest.raises(quipu.InvalidError, match="a database has a path"):
        quipu.open(b"")
    with pytest.raises(TypeError, match="int"):
        quipu.open(5)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"columns": {"a": {"type": "text", "nul": True}}}, "column a: 'nul' is not an option; it takes type, not"),
        ({"columns": {"a": {"not_null": True}}}, "column a: type is not given; it takes type"),
        ({"columns": {"a": {"type": int, "default": 0}}}, "column a: default is a str, such as '0' .*, not 0"),
        ({"columns": {"a": {"type": int, "not_null": "no"}}}, "column a: not_null is True or False, not 'no'"),
        ({"columns": {"a": {"type": int, "identity": True}}}, "column a: identity is one of 'always', 'by_default'"),
        ({"columns": ["a"]}, "columns: each is a dict with its name, not 'a'"),
        ({"columns": "a"}, "columns are given by their names, as a dict, .* not as 'a'"),
        ({"indexes": {"i": {"columns": "a", "uniqe": True}}}, "index i: 'uniqe' is not an option; it takes columns"),
        ({"indexes": {"i": {"unique": True}}}, "index i: columns is not given; it takes columns"),
        ({"indexes": {"i": {"columns": [1]}}}, r"index i: columns is a name or a list of names, not \[1\]"),
        ({"indexes": [{"columns": "a"}]}, "indexes: each is a dict with its name"),
        ({"checks": {"c": {"condtion": "a > 0"}}}, "check c: 'condtion' is not an option; it takes condition"),
        ({"checks": [{"name": "c"}]}, "check c: condition is not given"),
        ({"foreign_keys": {"f": {"columns": "a", "tabel": "b"}}}, "foreign key f: 'tabel' is not an option; it takes"),
        ({"foreign_keys": {"f": {"columns": "a", "table": "b", "on_delete": "no"}}}, "on_delete is one of 'restrict'"),
        ({"index": {"i": "a"}}, "table t: 'index' is not an option; it takes columns, key, indexes, checks"),
        ({"in_memory": 1}, "table t: in_memory is True or False, not 1"),
    ],
)
def test_what_a_schema_cannot_have_is_named(db, schema, says):
    with pytest.raises(quipu.InvalidError, match=says):
        db.create_table("t", **{"columns": {"a": int}, **schema})
    assert list(db) == []


def test_closing_ends_what_is_open(tmp_path):
    db = quipu.open(tmp_path)
    table = db.create_table("t", {"id": int}, key="id")
    table.insert({"id": 1})
    snapshot, transaction, walk = db.snapshot(), db.transaction(), iter(table)
    transaction["t"].insert({"id": 2})
    next(walk)
    writer = db.write()
    writer["t"].insert({"id": 3})
    db.close()
    db.close()
    for use in [lambda: len(table), lambda: snapshot["t"], transaction.commit, writer.commit, lambda: table[0]]:
        with pytest.raises(ValueError):
            use()
    with quipu.open(tmp_path) as db:
        assert [row["id"] for row in db["t"]] == [1]


def test_names_that_are_not_there(db, stock):
    for use in [lambda: db["nothing"], lambda: stock.index("nothing"), lambda: db.snapshot()["nothing"]]:
        with pytest.raises(KeyError) as error:
            use()
        assert isinstance(error.value, quipu.MissingError) and "nothing" in str(error.value)
    with pytest.raises(quipu.ExistsError):
        db.create_table("stock", {"id": int})
    with pytest.raises(ValueError, match="'whole' is not a type"):
        db.create_table("t", {"id": "whole"})
    with pytest.raises(TypeError):
        db.create_table("t", {"id": complex})
    with pytest.raises(TypeError, match="not an end of a range"):
        stock.count(equal=1)
    with pytest.raises(ValueError):
        stock.count(eq=("apples", 5))
    with pytest.raises(TypeError):
        stock.count(eq=5)
    with pytest.raises(ValueError):
        stock.quantile(1.5)
    with pytest.raises(ValueError, match="keeps no sums"):
        stock.sum()
    with pytest.raises(ValueError, match="step"):
        stock[::0]
    with pytest.raises(TypeError):
        stock["apples"]
    with pytest.raises(ValueError):
        stock.split(0)
    assert not db.drop_table("nothing") and db.drop_table("stock")


def test_constraints_have_names(db, stock):
    with pytest.raises(quipu.ConstraintError) as error:
        stock.insert({"item": "plums", "left": -1})
    found = error.value
    assert (found.constraint, found.table, found.name, found.column) == ("check", "stock", "some", None)
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.name) == (str(found), "some")
    with pytest.raises(quipu.ConstraintError) as error:
        stock.insert({"item": "plums"})
    assert (error.value.constraint, error.value.column) == ("not_null", "left")
    with pytest.raises(quipu.ConstraintError):
        stock.insert_many([{"item": "plums", "left": 1}, {"item": "apples", "left": 1}])
    assert len(stock) == 2, "all or none"


def test_transactions_commit_or_roll_back(db, stock):
    with db.transaction() as transaction:
        transaction["stock"].update("apples", left=4)
        transaction["stock"].insert({"item": "figs", "left": 1})
        assert [row["item"] for row in transaction["stock"]] == ["apples", "figs", "pears"]
        assert [row["item"] for row in reversed(transaction["stock"])] == ["pears", "figs", "apples"]
        assert len(transaction["stock"]) == 3 and len(stock) == 2
    assert stock[0]["left"] == 4 and len(stock) == 3
    for begin in (db.transaction, db.write):
        with pytest.raises(RuntimeError):
            with begin() as transaction:
                transaction["stock"].delete("apples")
                raise RuntimeError
        assert "apples" in stock
        transaction = begin()
        transaction["stock"].delete("apples")
        transaction.rollback()
        with pytest.raises(ValueError):
            transaction.commit()
        assert "apples" in stock
    # A statement that fails does nothing, and the transaction goes on.
    with db.write() as transaction:
        with pytest.raises(quipu.ConstraintError):
            transaction["stock"].insert_many([{"item": "x", "left": 1}, {"item": "apples", "left": 1}])
        transaction["stock"].insert({"item": "kiwis", "left": 1})
        with pytest.raises(RuntimeError):
            with transaction.savepoint():
                transaction["stock"].delete_range(ge="a")
                raise RuntimeError
        with transaction.savepoint():
            transaction["stock"].delete("kiwis")
    assert [row["item"] for row in stock] == ["apples", "figs", "pears"]


def test_conflicts_are_told_and_retried(db, stock):
    a, b = db.transaction(), db.transaction()
    for transaction in (a, b):
        left = transaction["stock"].get("apples")["left"]
        transaction["stock"].update("apples", left=left - 1)
    a.commit()
    with pytest.raises(quipu.ConflictError):
        b.commit()
    # Counts are relied upon as well.
    counting = db.transaction()
    assert counting["stock"].count() == 2
    counting["stock"].update("pears", left=9)
    stock.insert({"item": "figs", "left": 1})
    with pytest.raises(quipu.ConflictError):
        counting.commit()
    skewed = db.transaction("snapshot")
    assert skewed["stock"].count() == 3
    skewed["stock"].update("pears", left=8)
    stock.insert({"item": "plums", "left": 1})
    skewed.commit()
    committed = db.transaction("read committed")
    assert committed["stock"].count() == 4
    stock.insert({"item": "kiwis", "left": 1})
    assert committed["stock"].count() == 5
    committed.rollback()
    with pytest.raises(ValueError):
        db.transaction("none")

    def take(transaction):
        pears = transaction["stock"].get("pears")
        transaction["stock"].update("pears", left=pears["left"] + 1)
        return pears["left"]

    threads = [threading.Thread(target=lambda: [db.retry(take) for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stock.get("pears")["left"] == 8 + 100


def test_the_single_writer_does_not_wait_for_itself(db, stock):
    with db.write() as transaction:
        for use in [lambda: stock.delete("apples"), db.write, lambda: db.create_table("t", {"id": int})]:
            with pytest.raises(ValueError, match="single writer"):
                use()
        assert transaction["stock"].delete("apples")
    assert stock.delete("pears")
    forgotten = db.write()
    del forgotten
    gc.collect()
    assert len(stock) == 0
    stock.insert({"item": "apples", "left": 1})


def test_other_threads_run_while_one_waits(db, stock):
    writer = db.write()
    waiting, done = threading.Event(), threading.Event()

    def wait():
        waiting.set()
        stock.insert({"item": "figs", "left": 1})
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(120)
    # This thread would not get here if the one that waits had the GIL.
    for _ in range(100):
        assert len(stock) == 2 and stock[0]["item"] == "apples"
        time.sleep(0.001)
    assert not done.is_set()
    writer.commit()
    assert done.wait(120)
    thread.join()
    assert len(stock) == 3


def test_threads_read_and_write_together(db, seeded):
    table = db.create_table("t", {"id": int, "thread": int}, key="id", indexes={"thread": "thread"})
    failures = []

    def write(number):
        try:
            for some in range(0, 400, 20):
                table.insert_many((id * 4 + number, number) for id in range(some, some + 20))
        except Exception as error:
            failures.append(error)

    def read():
        try:
            while len(table) < 1600 and not failures:
                with db.snapshot() as snapshot:
                    then = snapshot["t"]
                    count = len(then)
                    assert count % 20 == 0 and sum(1 for _ in then) == count
                    assert sum(group.count for group in then.index("thread").groups()) == count
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and [row["id"] for row in table] == list(range(1600))


def test_constraints_come_and_go(db, stock):
    shelves = db.create_table("shelves", {"name": "text not null"}, key="name")
    shelves.insert({"name": "left"})
    db.add_column("stock", "shelf", "text")
    db.set_default("stock", "shelf", "'left'")
    stock = db["stock"]
    stock.insert({"item": "figs", "left": 3})
    assert stock.get("figs")["shelf"] == "left" and stock.get("apples")["shelf"] is None
    with pytest.raises(quipu.Error, match="apples|shelf"):
        db.set_not_null("stock", "shelf")
    for row in list(stock):
        stock.update(row["item"], shelf="left")
    db.set_not_null("stock", "shelf")
    with pytest.raises(quipu.Error, match="shelf"):
        db["stock"].update("figs", shelf=None)
    db.drop_not_null("stock", "shelf")

    db.add_foreign_key("stock", "on_shelf", "shelf", "shelves", on_delete="set null")
    with pytest.raises(quipu.Error):
        db["stock"].update("figs", shelf="nowhere")
    db["shelves"].delete("left")
    assert {row["shelf"] for row in db["stock"]} == {None}
    db.rename_constraint("stock", "on_shelf", "shelf_of")
    db.drop_constraint("stock", "shelf_of")
    db["stock"].update("figs", shelf="nowhere")

    with pytest.raises(quipu.Error, match="few|left"):
        db.add_check("stock", "few", "left < 1")
    db.add_check("stock", "few", "left < 100")
    with pytest.raises(quipu.Error, match="few"):
        db["stock"].update("figs", left=100)
    db.drop_constraint("stock", "few")
    db["stock"].update("figs", left=100)
    with pytest.raises(quipu.Error):
        db.drop_constraint("stock", "few")


def test_a_backup_is_a_database(db, stock, tmp_path):
    commit = db.backup(tmp_path / "copy")
    stock.delete("apples")
    with quipu.open(tmp_path / "copy") as copy:
        assert commit > 0 and [row["item"] for row in copy["stock"]] == ["apples", "pears"]
        copy["stock"].delete("pears")
    assert [row["item"] for row in stock] == ["pears"]
    with pytest.raises(quipu.Error):
        db.backup(tmp_path / "copy")


def test_snapshots_stay(db, stock):
    snapshot = db.snapshot()
    stock.delete("apples")
    db.add_column("stock", "price", {"type": "decimal(8,2)", "default": "1.50"})
    db.rename_table("stock", "fruit")
    assert snapshot["stock"][:] == [{"item": "apples", "left": 5}, {"item": "pears", "left": 0}]
    assert [str(row["price"]) for row in db["fruit"]] == ["1.50"]
    assert db.create_index("fruit", "price", "price").count() == 1
    with pytest.raises(quipu.Error) as error:
        snapshot["stock"].insert({"item": "figs", "left": 1})
    assert error.value.kind == "read_only"
    snapshot.close()
    with pytest.raises(ValueError):
        snapshot.tables()


def test_a_database_in_memory():
    with quipu.open(":memory:") as db:
        table = db.create_table("t", {"name": str})
        assert table.insert({"name": "a"}) == 1 and table.get(1) == {"name": "a"}
        assert table.select("rowid", "name")[0] == {"rowid": 1, "name": "a"}
        assert sys.getrefcount(db) > 0 and "memory" in repr(db)


def test_a_database_lists_its_tables(db, stock):
    db.create_table("more", {"id": int})
    assert list(db) == ["more", "stock"] and len(db) == 2 and bool(db)
    assert "stock" in db and "nothing" not in db and 5 not in db
    with pytest.raises(TypeError, match="by name"):
        db[0]
    with db.snapshot() as snapshot, db.transaction() as transaction:
        db.drop_table("more")
        assert list(snapshot) == ["more", "stock"] and len(snapshot) == 2 and "more" in snapshot
        assert "stock" in transaction and "nothing" not in transaction
        with pytest.raises(TypeError):
            list(transaction)
    assert list(db) == ["stock"]
    db.drop_table("stock")
    assert db, "a database without tables is one all the same"


def test_tables_say_what_they_are(db, stock):
    db.create_index("stock", "left", ["left"])
    assert repr(stock) == "<quipu.Table stock: 2 rows by item>"
    assert repr(stock.index("left")) == "<quipu.Rows stock.left: 2 rows by left, item>"
    assert repr(stock.range(ge="b").select("left")) == "<quipu.Rows stock: 1 rows with left by item>"
    stock.insert_many((f"x{number}", 1) for number in range(1_000))
    assert repr(stock) == "<quipu.Table stock: 1,002 rows by item>"
    with db.transaction() as transaction:
        assert repr(transaction["stock"]) == "<quipu.Table stock: rows by item>"
        transaction["stock"].insert(("z", 1))
        stock.insert(("y", 1))
    db.close()
    assert "closed" in repr(stock)


def test_what_can_be_no_key_is_not_in_a_table(db, stock):
    assert "apples" in stock and "figs" not in stock and 5 not in stock and None not in stock
    with pytest.raises(quipu.WrongTypeError):
        stock.get(5)


def test_numbers_below_zero_are_told(stock):
    uses = [
        lambda: stock.page(-1, 5),
        lambda: stock.page(0, -5),
        lambda: stock.sample(-1),
        lambda: stock.split(-1),
        lambda: stock.partitions(-1),
        lambda: stock.groups(-1),
    ]
    for use in uses:
        with pytest.raises(quipu.InvalidError, match="0 or more, not -"):
            use()
    assert stock.page(2**70, 2**70) == ([], 2)


def test_paths_that_are_no_place_for_a_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(quipu.InvalidError, match="has a path"):
        quipu.open("")
    with pytest.raises(quipu.MissingError, match="there is no directory .*mispelt"):
        quipu.open(tmp_path / "mispelt" / "db")
    assert list(tmp_path.iterdir()) == []
    with quipu.open("db") as db, quipu.open(":memory:") as memory:
        db.create_table("t", {"id": int})
        assert "db" in repr(db) and memory.tables() == [] and ":memory:" in repr(memory)
    assert [path.name for path in tmp_path.iterdir()] == ["db"]


def test_opening_a_database_twice_says_where_it_is_open(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "db")
    with quipu.open(tmp_path / "db"):
        for path in ["db", "link"]:
            with pytest.raises(quipu.Error, match="open in this process already") as error:
                quipu.open(tmp_path / path)
            assert error.value.kind == "busy"
    with quipu.open(tmp_path / "link") as db:
        assert db.tables() == []


def test_a_moment_that_python_cannot_hold_is_told_with_its_column(db):
    pyarrow = pytest.importorskip("pyarrow")
    table = db.create_table("t", {"id": int, "at": "timestamp"}, key="id")
    table.load(pyarrow.table({"id": [1], "at": pyarrow.array([-(10**17)], pyarrow.timestamp("us"))}))
    with pytest.raises(ValueError, match="table t, column at"):
        list(table)
    assert table.select("id")[:] == [{"id": 1}]


def test_a_writer_that_waits_is_told_that_the_database_was_closed(tmp_path):
    db = quipu.open(tmp_path / "db")
    table = db.create_table("t", {"id": int}, key="id")
    db.write()["t"].insert({"id": 1})
    alone = db.write()
    alone["t"].insert({"id": 2})
    told = []

    def wait():
        try:
            table.insert({"id": 3})
        except quipu.InvalidError as error:
            told.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    db.close()
    thread.join()
    assert told == ["the database is closed"]
    with quipu.open(tmp_path / "db") as db:
        assert len(db["t"]) == 0, "none of them was committed"


def test_groups_by_the_names_of_columns(db):
    table = db.create_table("t", {"a": int, "b": str, "c": int}, key=["a", "b", "c"])
    table.insert_many({"a": n % 3, "b": "xy"[n % 2], "c": n} for n in range(30))
    assert list(table.groups("a")) == list(table.groups(1)) == list(table.groups(["a"]))
    assert [group.key for group in table.groups(("a", "b"), eq=0)] == [(0, "x"), (0, "y")]
    with pytest.raises(quipu.InvalidError, match="by the first columns of the key, a, b, c, not 'b'"):
        table.groups("b")


def test_stats_and_check(tmp_path):
    with quipu.open(tmp_path / "db") as db:
        by = {"columns": "name", "unique": True}
        table = db.create_table("t", {"id": int, "name": str}, key="id", indexes={"by": by})
        table.insert_many({"id": number, "name": f"n{number}"} for number in range(100))
        stats = db.stats()
        assert {name: figures["rows"] for name, figures in stats["tables"].items()} == {"t": 100, "t.by": 100}
        assert stats["failures"] == [] and 0 < stats["memory_bytes"] < stats["memory_bytes_max"]
        assert stats["sequence"] > stats["checkpoint_sequence"]
        db.checkpoint()
        assert db.stats()["checkpoint_sequence"] == stats["sequence"]
        assert db.check() == []
    with pytest.raises(quipu.Error):
        db.stats()
    with pytest.raises(quipu.Error):
        db.check()


def test_one_name_stands_for_a_list_of_names():
    db = quipu.open(":memory:")
    columns = {"id": int, "name": str, "parent": int}
    foreign = {"name": "f", "columns": "parent", "table": "t", "references": "id"}
    indexes = [{"name": "by", "columns": "name", "include": "parent"}]
    db.create_table("t", columns, key="id", indexes=indexes, foreign_keys=[foreign])
    db.create_index("t", "other", {"columns": "name", "unique": True})
    db["t"].insert({"id": 1, "name": "a", "parent": None})
    assert db["t"].index("by").count(eq="a") == db["t"].index("other").count(eq="a") == 1
    with pytest.raises(quipu.Error):
        db["t"].insert({"id": 2, "name": "b", "parent": 7})


def test_a_table_is_made_if_there_is_none_and_must_fit_if_there_is_one(db):
    declared = {"columns": {"id": int, "name": "text not null", "age": "i32"}, "key": "id", "indexes": {"age": ["age"]}}
    people = db.ensure_table("people", **declared)
    people.insert({"id": 1, "name": "Ana"})
    db.add_column("people", "more", "json")
    assert len(db.ensure_table("people", **declared)) == 1
    for change, what in [
        ({"columns": {**declared["columns"], "age": "i64"}}, "column age is `age i32` there and `age i64` in the declar"),
        ({"columns": {"id": int, "age": "i32"}}, "its rows need a value of column `name text not null`"),
        ({"key": ["id", "name"]}, "the primary key is `id` there and `id, name` in the declaration"),
        ({"indexes": {"age": ["age", "name"]}}, "index age is"),
        ({"checks": {"grown": "age > 17"}}, "it has no check grown `age > 17`"),
    ]:
        with pytest.raises(quipu.InvalidError) as error:
            db.ensure_table("people", **{**declared, **change})
        assert what in str(error.value), str(error.value)
    assert db.tables() == ["people"]


def test_the_rows_of_a_range_of_an_index_are_removed(db):
    columns = {"id": int, "state": str, "place": int}
    tasks = db.create_table("tasks", columns, key="id", indexes={"state": ["state", "place"]})
    states = ["done", "open", "late"]
    tasks.insert_many({"id": n, "state": states[n % 3], "place": n} for n in range(6_000))
    by_state = tasks.index("state")
    assert by_state.delete_range(eq="done") == 2_000 and len(tasks) == 4_000
    assert by_state.range(eq="open").delete_range(lt=("open", 100)) == 33
    with pytest.raises(RuntimeError):
        with db.transaction() as transaction:
            assert transaction["tasks"].index("state").delete_range(ge="a") == 3_967
            assert len(transaction["tasks"]) == 0
            raise RuntimeError
    assert len(tasks) == 3_967 and db.check() == []
    with pytest.raises(TypeError, match="takes the ends of a range"):
        by_state.delete_range()
    with pytest.raises(quipu.Error, match="a snapshot cannot be written to"):
        db.snapshot()["tasks"].index("state").delete_range(eq="open")
