"""Values of all types, and objects that are none."""

import datetime
import decimal
import uuid

import pytest

import quipu

UTC = datetime.timezone.utc
EAST, WEST = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (2, -2))
COLUMNS = {
    "flag": "bool",
    "a": "i8",
    "b": "i16",
    "c": "i32",
    "d": "i64",
    "e": "u8",
    "f": "u16",
    "g": "u32",
    "h": "u64",
    "single": "f32",
    "double": "f64",
    "price": "decimal(10,2)",
    "large": "decimal(38,0)",
    "name": "text",
    "folded": "text(unicode)",
    "blob": "bytes",
    "day": "date",
    "at": "timestamp",
    "uid": "uuid",
    "doc": "json",
}
FULL = {
    "flag": True,
    "a": -128,
    "b": 32767,
    "c": -(2**31),
    "d": 2**63 - 1,
    "e": 255,
    "f": 65535,
    "g": 2**32 - 1,
    "h": 2**64 - 1,
    "single": 0.5,
    "double": -1e300,
    "price": decimal.Decimal("-12.50"),
    "large": decimal.Decimal(10**38 - 1),
    "name": "Zoë \U0001f600\0",
    "folded": "Straße",
    "blob": b"\0\xff",
    "day": datetime.date(2013, 2, 28),
    "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "uid": uuid.UUID(int=7),
    "doc": {"b": [1, None, "é"], "a": {"x": 1.5}},
}
EMPTY = {name: None for name in FULL}
OTHER = {
    **FULL,
    "flag": False,
    "name": "",
    "blob": b"",
    "doc": [],
    "day": datetime.date(1, 1, 1),
    "at": datetime.datetime(9999, 12, 31, tzinfo=UTC),
    "double": float("inf"),
}


@pytest.fixture
def table(db):
    return db.create_table("all", {"id": "i64", **COLUMNS}, key="id")


def test_values_come_back(table):
    rows = [{"id": number, **row} for number, row in enumerate([FULL, EMPTY, OTHER])]
    table.insert_many(rows)
    assert table[:] == rows
    assert [type(value) for value in table[0].values()] == [type(value) for value in rows[0].values()]
    assert table.insert([3, *FULL.values()]) == 3
    assert table[3] == {**FULL, "id": 3}


def test_every_type_is_a_key(db):
    for number, (name, data_type) in enumerate(COLUMNS.items()):
        table = db.create_table(f"t{number}", {"key": data_type}, key="key")
        assert table.insert({"key": FULL[name]}) == FULL[name]
        assert table.count(eq=FULL[name]) == 1 and table.rank(FULL[name]) == 0
        assert table.get(FULL[name]) == {"key": FULL[name]}


@pytest.mark.parametrize(
    "column, wrong, expected",
    [
        ("d", "x", "column d: 'x' is str, expected i64"),
        ("d", 1.0, "column d: 1.0 is float, expected i64"),
        ("d", True, "column d: True is bool, expected i64"),
        ("flag", 1, "column flag: 1 is int, expected bool"),
        ("name", b"x", "column name: b'x' is bytes, expected text"),
        ("blob", [1, 2], "column blob: [1, 2] is list, expected bytes"),
        ("price", 1.5, "column price: 1.5 is float, expected decimal(10,2)"),
        ("price", decimal.Decimal("NaN"), "expected decimal(10,2)"),
        ("day", datetime.datetime(2013, 1, 1), "is datetime, expected date"),
        ("at", datetime.date(2013, 1, 1), "is date, expected timestamp"),
        ("uid", "00000000-0000-0000-0000-000000000007", "is str, expected uuid"),
        ("doc", {1, 2}, "is set, expected json"),
        ("doc", float("nan"), "is float, expected json"),
        ("name", object(), "is object, expected text"),
        ("name", "\ud800", "is str, expected text, which holds no lone surrogates"),
        ("doc", {"a": "\ud800"}, "is dict, expected json"),
        ("d", 10**60, "is int, expected i64, which holds no such number"),
        ("double", 10**400, "is int, expected f64, which holds no such number"),
        ("price", -(10**400), "expected decimal(10,2), which holds no such number"),
        ("at", datetime.datetime(1, 1, 1, tzinfo=EAST), "expected timestamp of the years 1 to 9999 in UTC"),
        ("at", datetime.datetime(9999, 12, 31, 23, tzinfo=WEST), "expected timestamp of the years 1 to 9999 in UTC"),
    ],
)
def test_objects_of_another_type_are_refused(table, column, wrong, expected):
    with pytest.raises(TypeError) as error:
        table.insert({"id": 1, column: wrong})
    assert isinstance(error.value, quipu.WrongTypeError) and isinstance(error.value, quipu.Error)
    assert (error.value.table, error.value.column, error.value.constraint) == ("all", column, "type")
    assert expected in str(error.value)
    assert len(table) == 0


@pytest.mark.parametrize(
    "column, wrong",
    [("e", 256), ("e", -1), ("d", 2**63), ("d", 10**60), ("h", -(10**60)), ("price", decimal.Decimal("1.234"))],
)
def test_values_out_of_range_are_refused(table, column, wrong):
    with pytest.raises(quipu.ConstraintError) as error:
        table.insert({"id": 1, column: wrong})
    assert isinstance(error.value, ValueError) and error.value.constraint == "type"
    assert error.value.column == column


def test_moments_with_zones_are_converted(table):
    zone = datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))
    table.insert({"id": 1, "at": datetime.datetime(2013, 7, 4, 1, 15, tzinfo=zone)})
    assert table[0]["at"] == datetime.datetime(2013, 7, 4, 6, 45, tzinfo=UTC)
    table.insert({"id": 2, "at": datetime.datetime(2013, 7, 4, 1, 15)})
    assert table[1]["at"] == datetime.datetime(2013, 7, 4, 1, 15, tzinfo=UTC)


def test_scalars_of_numpy_are_taken(table):
    numpy = pytest.importorskip("numpy")
    table.insert({"id": numpy.int64(1), "flag": numpy.bool_(True), "single": numpy.float32(0.5), "d": numpy.int8(3)})
    row = table[0]
    assert (row["id"], row["flag"], row["single"], row["d"]) == (1, True, 0.5, 3)
    with pytest.raises(TypeError):
        table.insert({"id": 2, "d": numpy.float64(1)})


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "D"])
def test_moments_and_lengths_of_time_are_no_integers(table, unit):
    numpy = pytest.importorskip("numpy")
    for wrong in [numpy.datetime64("2024-01-01", unit), numpy.timedelta64(5, unit)]:
        for column in ["d", "h", "double", "price", "large"]:
            with pytest.raises(quipu.WrongTypeError) as error:
                table.insert({"id": 1, column: wrong})
            assert (error.value.table, error.value.column) == ("all", column)
    table.insert({"id": 1, "d": numpy.datetime64("NaT", unit), "at": numpy.datetime64("NaT", unit)})
    assert table[0] == {**EMPTY, "id": 1}


def test_arrays_and_frames_of_one_value_are_no_values(table):
    numpy = pytest.importorskip("numpy")
    wrong = [numpy.array([5]), numpy.array([[5]])]
    pandas = pytest.importorskip("pandas")
    wrong += [pandas.Series([5]), pandas.Index([5])]
    for value in wrong:
        with pytest.raises(quipu.WrongTypeError, match="column d"):
            table.insert({"id": 1, "d": value})
    table.insert({"id": 1, "d": numpy.array(5)})
    assert table[0]["d"] == 5


def test_moments_are_not_cut(table):
    numpy = pytest.importorskip("numpy")
    exact = numpy.datetime64("2024-01-01T00:00:00.123456000", "ns")
    table.insert({"id": 1, "at": exact, "day": numpy.datetime64("2024-02-29")})
    assert table[0]["at"] == datetime.datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)
    assert table[0]["day"] == datetime.date(2024, 2, 29)
    wrong = [numpy.datetime64("2024-01-01T00:00:00.123456789")]
    pandas = pytest.importorskip("pandas")
    table.insert({"id": 2, "at": pandas.Timestamp("2024-01-01T00:00:00.123456", tz="Europe/Paris")})
    assert table[1]["at"] == datetime.datetime(2023, 12, 31, 23, 0, 0, 123456, UTC)
    wrong += [pandas.Timestamp("2024-01-01T00:00:00.123456789")]
    for value in wrong:
        with pytest.raises(quipu.WrongTypeError, match="column at") as error:
            table.insert({"id": 3, "at": value})
        assert isinstance(value, numpy.datetime64) or "whole microseconds" in str(error.value)


def test_missing_values_of_pandas_are_null(table):
    pandas = pytest.importorskip("pandas")
    nan = float("nan")
    for number, missing in enumerate([pandas.NaT, pandas.NA, nan]):
        columns = set(FULL) - ({"single", "double", "doc"} if missing is nan else set())
        table.insert({"id": number, **{name: missing for name in columns}})
        assert table[number] == {**EMPTY, "id": number}
    table.insert({"id": 3, "double": nan})
    assert table[3]["double"] != table[3]["double"], "a float is NaN or NULL"
    frame = pandas.DataFrame({"id": [20, 21], "name": ["x", None], "d": [1, None], "at": [pandas.NaT, None]})
    frame["d"] = frame["d"].astype("Int64")
    table.insert_many(frame.to_dict("records"))
    assert [(row["name"], row["d"], row["at"]) for row in table.range(ge=20)] == [("x", 1, None), (None, None, None)]
    with pytest.raises(quipu.ConstraintError, match="NOT NULL|NULL"):
        table.insert({"id": pandas.NA})


def test_rows_that_are_none(table):
    for wrong in [5, "abc", None, {1}]:
        with pytest.raises(TypeError):
            table.insert(wrong)
    for wrong in [{"id": 1, "nothing": 2}, (1, 2)]:
        with pytest.raises(ValueError):
            table.insert(wrong)
    with pytest.raises(TypeError):
        table.insert({1: 2})
    with pytest.raises(ValueError, match='no column "nothing"'):
        table.select("nothing")[:]


def test_a_moment_without_a_zone_is_one_in_utc_and_comes_back_so(db):
    naive = datetime.datetime(2026, 1, 2, 9, 30, 0, 5)
    table = db.create_table("t", {"at": "timestamp not null", "id": "i64"}, key="at")
    table.insert({"at": naive, "id": 1})
    assert table[0]["at"] == naive.replace(tzinfo=UTC) and table[0]["at"].tzinfo is UTC
    assert table.get(naive) == table.get(naive.replace(tzinfo=UTC)) == table.get(table[0]["at"].astimezone(EAST))
    # The same moment, said otherwise, is the same key.
    with pytest.raises(quipu.ConstraintError):
        table.insert({"at": naive.replace(tzinfo=UTC).astimezone(WEST), "id": 2})


def test_a_day_is_its_midnight_as_an_end_of_a_range(db):
    columns = {"at": "timestamp not null", "id": "i64"}
    table = db.create_table("t", columns, key="at", indexes={"late": ["at desc", "id"]})
    day, hour = datetime.datetime(2026, 1, 2), datetime.timedelta(hours=1)
    table.insert_many({"at": day + n * hour, "id": n} for n in range(-24, 48))
    first, second = datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)
    assert table.count(ge=first, lt=second) == 24 and table.count(le=first) == 25 and table.count(eq=first) == 1
    assert table.rank(first) == 24 and table.range(gt=first)[0]["id"] == 1
    assert table.index("late").count(gt=second, le=first) == 24
    assert db.sql("SELECT count(*) FROM t WHERE at <= $1::date", first).fetchone() == (25,)
    for row in ({"at": first, "id": 99},):
        with pytest.raises(quipu.WrongTypeError, match="expected timestamp"):
            table.insert(row)
    with pytest.raises(quipu.WrongTypeError):
        table.get(first)
    with pytest.raises(quipu.WrongTypeError):
        table.count(ge="2026-01-02")
