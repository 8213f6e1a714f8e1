"""Parts of a table in this process, in others, and with Dask."""

import concurrent.futures
import multiprocessing
import pickle

import pytest

import quipu


def total_of(part):
    return len(part), sum(row["n"] for row in part)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "db"
    with quipu.open(path) as db:
        table = db.create_table("numbers", {"n": int, "square": int}, key="n", indexes={"square": "square desc"})
        table.insert_many((n, n * n) for n in range(1_003))
    yield path
    quipu.close_readers()


def test_partitions_are_equal_and_exact(path):
    with quipu.open(path) as db:
        parts = db["numbers"].partitions(4)
        assert sorted(map(len, parts)) == [250, 251, 251, 251]
        # They are of one moment, whatever is written.
        db["numbers"].delete_range(ge=500)
        assert [row["n"] for part in parts for row in part] == list(range(1_003))
        assert sum(len(part) for part in db["numbers"].partitions(4, lt=100)) == 100
        assert len(db["numbers"].range(lt=3).partitions(10)) == 3


def test_partitions_go_to_processes(path):
    with quipu.open(path, read_only=True) as db:
        for rows in (db["numbers"], db["numbers"].index("square").select("n")):
            parts = rows.partitions(3)
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                results = list(pool.map(total_of, parts))
            assert sum(count for count, _ in results) == 1_003
            assert sum(total for _, total in results) == sum(range(1_003))


def test_a_pickled_partition_knows_that_it_is_stale(path):
    with quipu.open(path) as db:
        saved = pickle.dumps(db["numbers"].partitions(2))
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            with pytest.raises(quipu.Error) as error:
                pool.submit(total_of, pickle.loads(saved)[0]).result()
        assert error.value.kind == "busy"
    parts = pickle.loads(saved)
    assert [row["n"] for part in parts for row in part] == list(range(1_003))
    quipu.close_readers()
    with quipu.open(path) as db:
        db["numbers"].update(5, square=0)
    with pytest.raises(ValueError, match="has changed"):
        pickle.loads(saved)[0].rows()
    with quipu.open(":memory:") as db:
        db.create_table("t", {"n": int}, key="n").insert({"n": 1})
        (part,) = db["t"].partitions(1)
        assert list(part) == [{"n": 1}]
        with pytest.raises(ValueError):
            pickle.dumps(part)


def test_dask_reads_them_side_by_side(path):
    pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    with quipu.open(path, read_only=True) as db:
        parts = db["numbers"].partitions(4)
        frame = frames.from_map(quipu.Partition.to_pandas, parts)
        assert frame.npartitions == 4 and len(frame) == 1_003
        assert int(frame["square"].sum().compute(scheduler="threads")) == sum(n * n for n in range(1_003))
        totals = dask.compute(*[dask.delayed(total_of)(part) for part in parts], scheduler="threads")
        assert sum(total for _, total in totals) == sum(range(1_003))
        context = multiprocessing.get_context("spawn")
        with dask.config.set({"multiprocessing.context": "spawn"}):
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                totals = dask.compute(*[dask.delayed(total_of)(part) for part in parts], scheduler=pool)
        assert sum(count for count, _ in totals) == 1_003


def test_a_pickled_partition_is_read_in_the_process_that_has_the_database_open(tmp_path):
    with quipu.open(tmp_path / "db") as db:
        table = db.create_table("t", {"id": int}, key="id")
        table.insert_many([[id] for id in range(10)])
        part = pickle.loads(pickle.dumps(table.partitions(2)[1]))
        assert [row["id"] for row in part] == [5, 6, 7, 8, 9]
        late = pickle.loads(pickle.dumps(table.partitions(2)[1]))
        table.insert([10])
        with pytest.raises(quipu.InvalidError, match="has changed"):
            list(late)
