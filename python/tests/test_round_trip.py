"""Rows of all types go out and come in by every way, and are what they were.

Values are drawn among those that some way would take for others: texts that read as missing, zero with a sign, NaN, the
ends of each type.
"""

import datetime
import decimal
import json
import struct
import uuid

import pytest

UTC = datetime.timezone.utc
ROWS = 60
TEXTS = ["", "NA", "nan", "None", "null", "NaT", "\\N", "0", "-0", "1e5", "2013-02-28", "true", "x" * 5_000]
TEXTS += [" ", "a,b", '"', "\n", "\r\n", "\t", "\0", "é", "e\u0301", "\U0001f600", "\ufeff"]
DOUBLES = [0.0, -0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, float("inf"), -float("inf"), float("nan")]
SINGLES = [0.0, -0.0, 0.5, 2.0**-149, float("inf"), -float("inf"), float("nan")]
CONTEXT = decimal.Context(prec=80)


def integer(bits, signed=True):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda draw: draw.choice([low, low + 1, 0, 1, high - 1, high, draw.randint(low, high)])


def fixed(precision, scale):
    def value(draw):
        most = 10**precision - 1
        units = draw.choice([0, 1, -1, most, -most, draw.randint(-most, most)])
        return decimal.Decimal(units).scaleb(-scale, CONTEXT)

    return value


def double(draw):
    return draw.choice([*DOUBLES, struct.unpack("<d", draw.randbytes(8))[0]])


def single(draw):
    return draw.choice([*SINGLES, struct.unpack("<f", draw.randbytes(4))[0]])


def numeric(draw):
    """Without the sign of zero, which a numeric has not."""
    digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 60)))
    drawn = decimal.Decimal(f"{draw.choice(['', '-'])}{digits}E{draw.randint(-40, 20)}")
    return drawn if drawn else abs(drawn)


def text(draw):
    letters = [chr(draw.choice([draw.randint(1, 0xD7FF), draw.randint(32, 126)])) for _ in range(draw.randint(0, 9))]
    return draw.choice([*TEXTS, "".join(letters)])


def date(draw):
    return draw.choice([datetime.date.min, datetime.date.max, datetime.date.fromordinal(draw.randint(1, 3_652_059))])


def moment(draw):
    """Of all years of `datetime`; nanoseconds, as pandas counts them in some versions, hold 1678 to 2261."""
    drawn = datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=draw.randint(-(2**55), 2**55))
    return draw.choice([datetime.datetime.min.replace(tzinfo=UTC), datetime.datetime.max.replace(tzinfo=UTC), drawn])


def document(draw, depth=3):
    """A value of JSON; texts in it have no NUL."""
    word = text(draw).replace("\0", "")
    if depth == 0 or draw.random() < 0.5:
        return draw.choice([None, True, 0, -1, 2**53 + 1, 1.5, word])
    inner = [document(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return inner if draw.random() < 0.5 else {f"{word[:20]}{at}": value for at, value in enumerate(inner)}


TYPES = {
    "bool": lambda draw: draw.random() < 0.5,
    **{f"i{bits}": integer(bits) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": integer(bits, signed=False) for bits in (8, 16, 32, 64)},
    "f32": single,
    "f64": double,
    "decimal(4,2)": fixed(4, 2),
    "decimal(18,0)": fixed(18, 0),
    "decimal(38,38)": fixed(38, 38),
    "decimal(38,10)": fixed(38, 10),
    "numeric": numeric,
    "text": text,
    "text(unicode)": text,
    "bytes": lambda draw: draw.randbytes(draw.choice([0, 1, 40])),
    "bytes(keyed)": lambda draw: b"\x02" + draw.randbytes(draw.choice([2, 3, 40])),
    "date": date,
    "timestamp": moment,
    "uuid": lambda draw: uuid.UUID(bytes=draw.randbytes(16)),
    "json": lambda draw: [document(draw)],
}


def exactly(value):
    """What tells values apart that `==` takes for the same, or that it takes for others: signs of zero, NaN, scales."""
    if isinstance(value, float):
        return ("NaN" if value != value else struct.pack("<d", value),)
    if isinstance(value, (list, dict)):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")  # An exponent above zero is kept as zeros.
    return (type(value).__name__, str(value))


def check_same(found, rows):
    """No value differs; those that do are told with the types of their columns."""
    found = list(found)
    assert len(found) == len(rows)
    kinds = ["i64", *TYPES]
    differing = [
        (kinds[column], wanted, got)
        for row, other in zip(rows, found)
        for column, (wanted, got) in enumerate(zip(row.values(), other.values()))
        if exactly(wanted) != exactly(got)
    ]
    assert differing == []


@pytest.fixture
def world(db, seeded):
    columns = {"id": "i64", **{f"c{at}": name for at, name in enumerate(TYPES)}}
    rows = []
    for at in range(ROWS):
        values = [value(seeded) if seeded.random() < 0.85 else None for value in TYPES.values()]
        rows.append({"id": at, **{f"c{column}": value for column, value in enumerate(values)}})
    table = db.create_table("drawn", columns, key="id")
    table.insert_many(rows)
    return db, columns, rows, table


def other(db, columns, name):
    return db.create_table(name, columns, key="id")


def test_rows(world):
    _, _, rows, table = world
    check_same(table, rows)
    check_same([table.get(row["id"]) for row in rows], rows)


def test_arrow(world):
    pytest.importorskip("pyarrow")
    db, columns, rows, table = world
    again = other(db, columns, "again")
    assert again.load(table.to_arrow().read_all()) == ROWS
    check_same(again, rows)
    streamed = other(db, columns, "streamed")
    assert streamed.load(table.to_arrow(batch_rows=7)) == ROWS
    check_same(streamed, rows)


def test_arrow_over_rows_that_are_there(world):
    """Documents came as texts, and a key that came twice was two rows at once."""
    pyarrow = pytest.importorskip("pyarrow")
    db, columns, rows, table = world
    found = table.to_arrow().read_all()
    half = found.slice(0, ROWS // 2)
    for on_conflict in ["update", "ignore"]:
        again = other(db, columns, on_conflict)
        assert again.load(pyarrow.concat_tables([half, found, half]), on_conflict=on_conflict) == 2 * ROWS
        check_same(again, rows)
        # Numbers in documents keep digits that a float has not.
        documents = ["1.00000000000000000000001", '{"a":12345678901234567890123}']
        exact = pyarrow.table({"id": [0, ROWS], list(columns)[-1]: documents})
        assert again.load(exact, on_conflict=on_conflict) == 2
        kept = again.select(list(columns)[-1]).to_arrow().read_all()[0].to_pylist()
        assert kept[ROWS] == documents[1] and (kept[0] == documents[0]) == (on_conflict == "update")


def test_parquet_of_arrow(world, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    db, columns, rows, table = world
    parquet.write_table(table.to_arrow().read_all(), tmp_path / "rows.parquet")
    again = other(db, columns, "again")
    assert again.load(parquet.read_table(tmp_path / "rows.parquet")) == ROWS
    check_same(again, rows)


def test_pandas(world):
    """By columns of Arrow types: those of NumPy have no NULL beside NaN, and no integers beside NULL."""
    pandas = pytest.importorskip("pandas")
    db, columns, rows, table = world
    frame = table.to_arrow().read_all().to_pandas(types_mapper=pandas.ArrowDtype)
    again = other(db, columns, "again")
    assert again.load(frame) == ROWS
    check_same(again, rows)


def in_sql(value, kind):
    """The value as SQL has it: no type for 64 bits without a sign, and moments of UTC without a zone."""
    if value is not None and kind == "u64":
        return decimal.Decimal(value)
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def test_sql(world):
    db, _, rows, _ = world
    rows = [{name: in_sql(value, kind) for kind, (name, value) in zip(["i64", *TYPES], row.items())} for row in rows]
    db.sql("CREATE TABLE again AS SELECT * FROM drawn")
    for table in ["drawn", "again"]:
        result = db.sql(f"SELECT * FROM {table} ORDER BY id")
        names = [column.name for column in result.columns]
        check_same([dict(zip(names, row)) for row in result], rows)
