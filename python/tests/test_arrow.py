"""Arrow in and out: all types, NULLs, ranges, and other libraries."""

import datetime
import pathlib
import runpy

import pytest

import quipu
from test_values import COLUMNS, EMPTY, FULL, OTHER

pyarrow = pytest.importorskip("pyarrow")

EXPECTED_TYPES = {
    "flag": pyarrow.bool_(),
    "a": pyarrow.int8(),
    "b": pyarrow.int16(),
    "c": pyarrow.int32(),
    "d": pyarrow.int64(),
    "e": pyarrow.uint8(),
    "f": pyarrow.uint16(),
    "g": pyarrow.uint32(),
    "h": pyarrow.uint64(),
    "single": pyarrow.float32(),
    "double": pyarrow.float64(),
    "price": pyarrow.decimal128(10, 2),
    "large": pyarrow.decimal128(38, 0),
    "name": pyarrow.utf8(),
    "folded": pyarrow.utf8(),
    "blob": pyarrow.binary(),
    "day": pyarrow.date32(),
    "at": pyarrow.timestamp("us", "UTC"),
    "doc": pyarrow.utf8(),
}


@pytest.fixture
def table(db):
    table = db.create_table("all", {"id": "i64", **COLUMNS}, key="id", indexes={"name": "name"})
    table.insert_many({**[FULL, EMPTY, OTHER][number % 3], "id": number} for number in range(100))
    return table


@pytest.fixture
def numbers(db):
    table = db.create_table("numbers", {"n": int, "square": int, "word": str}, key="n", indexes={"square": "square"})
    table.load(pyarrow.table({"n": range(10_000), "square": [n * n for n in range(10_000)], "word": ["x"] * 10_000}))
    return table


def test_all_types_go_out_and_come_back(db, table):
    found = table.to_arrow().read_all()
    for name, expected in EXPECTED_TYPES.items():
        assert found.schema.field(name).type == expected, name
    found.validate(full=True)
    for number, row in enumerate(table):
        for name in EXPECTED_TYPES:
            value = found[name][number].as_py()
            assert (value if name != "doc" else bool(value)) == (row[name] if name != "doc" else row["doc"] is not None)
    again = db.create_table("again", {"id": "i64", **COLUMNS}, key="id", indexes={"name": "name"})
    assert again.load(table) == 100
    assert list(again) == list(table) and list(again.index("name")) == list(table.index("name"))
    # Into a table with rows, and in a transaction.
    more = found.set_column(0, "id", pyarrow.array(range(100, 200)))
    assert db.load("again", more) == 100
    with db.write() as transaction:
        more = more.set_column(0, "id", pyarrow.array(range(200, 300)))
        assert transaction["again"].load(more) == 100
        assert len(transaction["again"].to_arrow().read_all()) == 300
    assert again[250] == {**table[50], "id": 250}
    empty = db.create_table("empty", {"id": "i64", **COLUMNS}, key="id")
    assert empty.to_arrow().read_all().num_rows == 0 and empty.load(empty) == 0


def test_ranges_batches_and_columns(numbers):
    stream = numbers.range(ge=100, lt=5_100).to_arrow(batch_rows=1_000)
    sizes = [len(batch) for batch in stream]
    assert sizes == [1_000] * 5
    reverse = numbers.select("n").to_arrow(reverse=True, batch_rows=999).read_all()
    assert reverse["n"].to_pylist() == list(range(9_999, -1, -1)) and reverse.column_names == ["n"]
    index = numbers.index("square")
    assert index.range(ge=100, lt=401).to_arrow().read_all()["n"].to_pylist() == list(range(10, 21))
    assert index.select("square", "n").range(lt=10).to_arrow().read_all()["n"].to_pylist() == [0, 1, 2, 3]
    words = index.select("word", "n").to_arrow(batch_rows=333, reverse=True).read_all()
    assert words["n"].to_pylist() == list(range(9_999, -1, -1))
    with pytest.raises(ValueError):
        numbers.select("nothing").to_arrow()
    stream = numbers.to_arrow(batch_rows=10)
    first = stream.read_next_batch()
    numbers.delete_range(ge=5)
    assert len(first) + len(stream.read_all()) == 10_000, "a stream is of one moment"


def test_streams_of_a_transaction(db, numbers):
    with db.transaction() as transaction:
        inside = transaction["numbers"]
        inside.delete_range(lt=9_000)
        assert len(inside.to_arrow(batch_rows=64).read_all()) == 1_000
        assert len(inside.index("square").to_arrow(batch_rows=64).read_all()) == 1_000
        transaction.rollback()


def test_arrays_of_other_layouts_are_read(db):
    columns = {"n": "i32", "text": "text", "blob": "bytes", "day": "date", "at": "timestamp", "x": "f64"}
    table = db.create_table("t", {"id": "i16", **columns}, key="id")
    at = datetime.datetime(2013, 7, 4, 5, 15, tzinfo=datetime.timezone.utc)
    layouts = [
        (pyarrow.uint8(), pyarrow.large_utf8(), pyarrow.large_binary(), pyarrow.date64(), "s", pyarrow.float32()),
        (pyarrow.int64(), pyarrow.string_view(), pyarrow.binary_view(), pyarrow.date32(), "ms", pyarrow.int8()),
        (pyarrow.int32(), None, pyarrow.binary(2), pyarrow.date32(), "ns", pyarrow.float64()),
    ]
    for number, (n, text, blob, day, unit, x) in enumerate(layouts):
        words = pyarrow.array(["é", None], text) if text else pyarrow.array(["é", None]).dictionary_encode()
        part = pyarrow.table(
            {
                "id": pyarrow.array([2 * number, 2 * number + 1], pyarrow.int16()),
                "n": pyarrow.array([7, None], n),
                "text": words,
                "blob": pyarrow.array([b"ab", None], blob),
                "day": pyarrow.array([at.date(), None], day),
                "at": pyarrow.array([at, None], pyarrow.timestamp(unit, "UTC")),
                "x": pyarrow.array([1, None], x),
            }
        ).slice(0, 2)
        assert table.load(part) == 2
        assert table[-2] == {
            "id": 2 * number, "n": 7, "text": "é", "blob": b"ab", "day": at.date(), "at": at, "x": 1.0
        }
        assert set(list(table[-1].values())[1:]) == {None}
    sliced = pyarrow.table({"id": pyarrow.array([90, 91, 92], pyarrow.int16()), "n": [1, None, 3]}).slice(1)
    assert table.load(sliced) == 2 and [row["n"] for row in table[-2:]] == [None, 3]


def test_what_cannot_be_loaded_changes_nothing(db, numbers):
    empty = db.create_table("empty", {"n": int, "price": "decimal(4,2)", "at": "timestamp"}, key="n")
    nanoseconds = pyarrow.array([1], pyarrow.timestamp("ns"))
    cases = [
        ({"n": ["x"]}, "column n: \"x\" is text, expected i64"),
        ({"n": [[1]]}, "List"),
        ({"m": [1]}, "no column \"m\""),
        ({"n": [1, None]}, "NULL"),
        ({"n": [5, 5]}, "two rows have this key|a row has this key|there is a row"),
        ({"n": [1], "price": [1.5]}, "expected decimal"),
        ({"n": [1], "at": nanoseconds}, "not whole microseconds"),
    ]
    for data, words in cases:
        for table in (empty, numbers):
            if set(data) - {"n", "m"} and table is numbers:
                continue
            count = len(table)
            with pytest.raises(ValueError, match=words if table is empty else None):
                table.load(pyarrow.table(data))
            assert len(table) == count
    for wrong in [5, [1], {"n": [1]}, None]:
        with pytest.raises(TypeError, match="__arrow_c_stream__"):
            empty.load(wrong)

    def broken():
        yield pyarrow.record_batch({"n": [-1]})
        raise RuntimeError("the source is gone")

    schema = pyarrow.schema([("n", pyarrow.int64())])
    for table in (empty, numbers):
        count = len(table)
        with pytest.raises(ValueError, match="the source is gone"):
            table.load(pyarrow.RecordBatchReader.from_batches(schema, broken()))
        assert len(table) == count


def test_pandas(db, numbers):
    pandas = pytest.importorskip("pandas")
    frame = numbers.range(lt=100).to_arrow().read_pandas()
    assert isinstance(frame, pandas.DataFrame) and int(frame["square"].sum()) == sum(n * n for n in range(100))
    again = db.create_table("again", {"n": int, "square": int, "word": str}, key="n")
    assert again.load(frame) == 100 and list(again) == numbers[:100]


def test_polars(db, table, numbers):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(numbers)
    assert frame.shape == (10_000, 3) and frame["square"].sum() == sum(n * n for n in range(10_000))
    assert polars.DataFrame(numbers.index("square").range(lt=10))["n"].to_list() == [0, 1, 2, 3]
    again = db.create_table("again", {"n": int, "square": int, "word": str}, key="n")
    assert again.load(frame) == 10_000 and again[-1] == numbers[-1]
    names = [name for name in COLUMNS if name not in ("uid", "large")]
    everything = polars.DataFrame(table.select("id", *names))
    assert everything["name"].to_list() == [row["name"] for row in table]
    other = db.create_table("other", {"id": "i64", **{name: COLUMNS[name] for name in names}}, key="id")
    assert other.load(everything) == 100
    assert list(other) == [{name: row[name] for name in ["id", *names]} for row in table]


def test_duckdb(db, numbers):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("numbers", numbers.to_arrow())
    assert connection.sql("select count(*), sum(square) from numbers").fetchall() == [
        (10_000, sum(n * n for n in range(10_000)))
    ]
    again = db.create_table("again", {"n": int, "square": int, "word": str}, key="n")
    relation = connection.sql("select i as n, i * i as square, 'x' as word from range(1000) t(i)")
    assert again.load(relation) == 1_000 and list(again) == numbers[:1000]


def test_the_benchmark_of_scans_runs(capsys):
    pytest.importorskip("duckdb")
    path = pathlib.Path(__file__).parent.parent / "benchmarks" / "arrow_scan.py"
    benchmark = runpy.run_path(str(path))
    benchmark["main"](["--rows", "1000", "--repeat", "1"])
    assert {"quipu", "duckdb"} <= set(capsys.readouterr().out.split())


def broken_texts(kind, rows):
    """An array of texts, made of buffers, in which some are no UTF-8."""
    whole = pyarrow.array(rows, {"string": "binary", "large_string": "large_binary"}.get(kind, "binary_view"))
    return pyarrow.Array.from_buffers(getattr(pyarrow, kind)(), len(rows), whole.buffers())


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
@pytest.mark.parametrize("has_rows", [False, True])
def test_texts_that_are_no_utf8_are_refused(db, kind, has_rows):
    rows = [b"good", None, "é".encode(), b"a text with caf\xe9, which is Latin-1", b"x"]
    if kind == "dictionary":
        values = broken_texts("string", [rows[3], rows[0], rows[2]])
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, None, 2, 0, 1], "int8"), values, safe=False)
    else:
        texts = broken_texts(kind, rows)
    table = db.create_table("t", {"id": int, "v": "text", "j": "json"}, key="id")
    if has_rows:
        table.insert((-1, "a", None))
    before = list(table)
    stream = pyarrow.table({"id": range(5), "v": texts})
    # A batch before: rows are counted over the whole stream.
    stream = pyarrow.concat_tables([pyarrow.table({"id": [10], "v": texts.slice(1, 1)}), stream])
    for column in ["v", "j"]:
        with pytest.raises(quipu.InvalidError) as error:
            table.load(stream.select(["id", "v"]).rename_columns(["id", column]).slice(0 if column == "v" else 4))
        message = str(error.value)
        assert f"table t, column {column}, row {4 if column == 'v' else 0} of the stream" in message
        assert "caf\\xe9" in message and "UTF-8" in message
    assert list(table) == before
    # What is not read, under a NULL or unused in a dictionary, does no harm.
    if kind == "dictionary":
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, None], "int8"), values, safe=False)
    else:
        texts = texts.slice(0, 2)
    assert table.load(pyarrow.table({"id": range(2), "v": texts})) == 2
    assert table.get(0)["v"] == "good" and table.get(1)["v"] is None


def test_arrays_that_break_their_rules_are_refused(db):
    table = db.create_table("t", {"id": int, "v": "text", "n": "i64"}, key="id")
    data = pyarrow.py_buffer(b"abcdef")

    def offsets(*places):
        return pyarrow.py_buffer(b"".join(place.to_bytes(4, "little", signed=True) for place in places))

    keys = pyarrow.array([0, 7], "int8")
    wrong = [
        pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets(0, 5, 3), data]),
        pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets(3, -2, 3), data]),
        pyarrow.DictionaryArray.from_arrays(keys, pyarrow.array(["a", "b"]), safe=False),
    ]
    for texts in wrong:
        with pytest.raises(quipu.InvalidError, match="table t, column v"):
            table.load(pyarrow.table({"id": range(2), "v": texts}))
    assert len(table) == 0


def test_values_that_their_columns_cannot_hold_are_refused(db):
    day = 24 * 60 * 60
    columns = {"price": "decimal(5,2)", "day": "date", "at": "timestamp", "doc": "json", "b": "bool"}
    table = db.create_table("t", {"id": int, "n": "i8 not null", **columns}, key="id")
    beyond = pyarrow.Array.from_buffers(
        pyarrow.decimal128(5, 2), 1, [None, pyarrow.py_buffer((10**9).to_bytes(16, "little"))]
    )
    wrong = {
        "price": [beyond, pyarrow.array([12345678], pyarrow.int64()), pyarrow.array([1.5])],
        "day": [
            pyarrow.array([2**31 - 2], pyarrow.int32()).cast(pyarrow.date32()),
            pyarrow.array([2**62], pyarrow.int64()).cast(pyarrow.date64()),
            pyarrow.array([1], pyarrow.int64()).cast(pyarrow.date64()),
            pyarrow.array([1], pyarrow.timestamp("s")),
            pyarrow.array([day], pyarrow.timestamp("s", "UTC")),
        ],
        "at": [
            pyarrow.array([2**62], pyarrow.timestamp("s")),
            pyarrow.array([2**63 - 2], pyarrow.timestamp("us")),
            pyarrow.array([1], pyarrow.timestamp("ns")),
        ],
        "doc": [
            pyarrow.array(["{"]),
            pyarrow.array([1]),
            pyarrow.array([[float("nan")]]),
            pyarrow.array([{"on": datetime.date(2024, 1, 2)}]),
        ],
        "n": [pyarrow.array([None], pyarrow.int8()), pyarrow.array([128]), pyarrow.array([1.0])],
        "b": [pyarrow.array([1])],
    }
    for column, arrays in wrong.items():
        for array in arrays:
            rest = {} if column == "n" else {"n": [1]}
            with pytest.raises(ValueError, match=f"table t.*column {column}|column {column}.*table t"):
                table.load(pyarrow.table({"id": [1], column: array, **rest}))
    assert len(table) == 0
    # pandas has no other date than a midnight without a zone.
    table.load(pyarrow.table({"id": [1], "n": [1], "day": pyarrow.array([-day], pyarrow.timestamp("s"))}))
    assert table[0]["day"] == datetime.date(1969, 12, 31)


def test_dictionaries_without_values_are_null(db):
    table = db.create_table("t", {"id": int, "v": "text"}, key="id")
    empty = pyarrow.DictionaryArray.from_arrays(pyarrow.array([None, None], "int8"), pyarrow.array([], "string"))
    assert table.load(pyarrow.table({"id": [1, 2], "v": empty})) == 2
    assert [row["v"] for row in table] == [None, None]


def test_streams_without_columns_or_without_a_row_are_refused(db):
    table = db.create_table("t", {"id": int}, key="id")
    with pytest.raises(TypeError, match="has no columns"):
        table.load(pyarrow.chunked_array([[1, 2]]))
    whole = pyarrow.array([{"id": 1}, {"id": 2}])
    with pytest.raises(quipu.InvalidError, match="row 3 of the stream.* is NULL as a whole"):
        table.load(pyarrow.chunked_array([whole, pyarrow.array([{"id": 3}, None])]))
    assert len(table) == 0
    assert table.load(pyarrow.chunked_array([whole, pyarrow.array([{"id": 3}])])) == 3


def test_the_index_of_a_frame_that_was_cut_is_left_out(db):
    pandas = pytest.importorskip("pandas")
    table = db.create_table("t", {"id": int, "v": int}, key="id")
    frame = pandas.DataFrame({"id": range(10), "v": [number % 3 for number in range(10)]})
    assert table.load(frame[frame.v.isin([1, 2])]) == 6
    assert table.load(pandas.concat([frame[frame.v == 0].iloc[:2], frame[frame.v == 0].iloc[2:]])) == 4
    assert [row["id"] for row in table] == list(range(10))
    named = pandas.DataFrame({"v": [1]}, index=pandas.Index([20], name="id"))
    assert table.load(named) == 1 and table.get(20) == {"id": 20, "v": 1}
    with pytest.raises(quipu.InvalidError, match='no column "other"'):
        table.load(pandas.DataFrame({"id": [30]}, index=pandas.Index([1], name="other")))
    kept = db.create_table("kept", {"__index_level_0__": int, "v": int}, key="__index_level_0__")
    assert kept.load(frame[["v"]].iloc[[3, 4, 7]]) == 3
    assert [row["__index_level_0__"] for row in kept] == [3, 4, 7]
