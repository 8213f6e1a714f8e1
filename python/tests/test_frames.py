"""Tables made from frames, types by the names of others, loads over rows that are there, and frames of rows."""

import datetime
import decimal

import pytest

import quipu
from test_values import COLUMNS, EMPTY, FULL, OTHER

pyarrow = pytest.importorskip("pyarrow")


def frame(**columns):
    return pyarrow.table(columns)


PEOPLE = frame(
    id=pyarrow.array([3, 1, 2], pyarrow.int32()),
    name=["Cid", "Ann", None],
    born=[datetime.date(2001, 2, 3), None, datetime.date(1999, 12, 31)],
    paid=pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pyarrow.decimal128(10, 2)),
    at=pyarrow.array([0, 1, None], pyarrow.timestamp("ns", "UTC")),
    kind=pyarrow.array(["a", "b", "a"]).dictionary_encode(),
)


def types_of(table):
    return {column["name"]: column["type"] for column in table.schema["columns"]}


def test_a_table_is_made_from_a_frame(db):
    at = PEOPLE["at"].cast(pyarrow.timestamp("us", "UTC"), safe=False)
    people = PEOPLE.set_column(PEOPLE.column_names.index("at"), "at", at)
    table = db.create_table_from("people", people, key="id", indexes={"born": "born"}, types={"name": "text(unicode)"})
    assert types_of(table) == {
        "id": "i32",
        "name": "text(unicode)",
        "born": "date",
        "paid": "decimal(10,2)",
        "at": "timestamp",
        "kind": "text",
    }
    assert [row["name"] for row in table] == ["Ann", None, "Cid"] and table.get(3)["paid"] == decimal.Decimal("1.50")
    assert table.index("born")[0]["born"] is None and table.index("born")[-1]["id"] == 3
    with pytest.raises(quipu.ConstraintError):
        table.insert({"id": None, "name": "none"})
    numbered = db.create_table_from("numbered", people.drop_columns(["id"]))
    assert len(numbered) == 3 and list(numbered.key_columns) == ["rowid"]


def test_what_cannot_be_a_table_leaves_none(db):
    twice = frame(id=[1, 1], x=["a", "b"])
    with pytest.raises(quipu.ConstraintError):
        db.create_table_from("twice", twice, key="id")
    with pytest.raises(quipu.InvalidError, match="the key has 'no', which is not a column; there are id, x"):
        db.create_table_from("twice", twice, key="no")
    with pytest.raises(quipu.InvalidError, match="types has 'y', which is not a column"):
        db.create_table_from("twice", twice, key="x", types={"y": "text"})
    with pytest.raises(TypeError, match="column took: duration.* is not a type of a column; there are bool, int"):
        db.create_table_from("lengths", frame(id=[1], took=[datetime.timedelta(1)]), key="id")
    with pytest.raises(quipu.InvalidError, match="column when: .*Date32.* cannot be read, expected json"):
        db.create_table_from("dates", frame(id=[1], when=[[datetime.date(2024, 1, 2)]]), key="id")
    with pytest.raises(TypeError, match="a frame has an Arrow stream"):
        db.create_table_from("none", [1, 2])
    assert list(db) == []


def test_types_have_the_names_that_others_give_them(db):
    given = {
        "a": "int",
        "b": "varchar not null",
        "c": "double precision",
        "d": pyarrow.float32(),
        "e": pyarrow.timestamp("us", "UTC"),
        "f": decimal.Decimal,
        "g": {"type": "string not null"},
        "h": {"type": float, "not_null": True},
        "i": "numeric(6, 2)",
        "j": "timestamp[us, tz=UTC]",
        "k": "Int64",
        "l": "datetime64[us]",
    }
    table = db.create_table("types", given, key="a")
    assert list(types_of(table).values()) == [
        "i64", "text", "f64", "f32", "timestamp", "numeric", "text", "f64", "decimal(6,2)", "timestamp", "i64",
        "timestamp",
    ]
    not_null = {column["name"] for column in table.schema["columns"] if column.get("not_null")}
    assert {"b", "g", "h"} <= not_null
    with pytest.raises(quipu.InvalidError, match="column x: 'strin' is not a type; there are bool, i8"):
        db.create_table("wrong", {"x": "strin"}, key="x")
    with pytest.raises(TypeError, match="column x: complex is not a type of a column; there are bool, int"):
        db.create_table("wrong", {"x": complex}, key="x")


def test_a_schema_of_arrow_says_what_the_columns_are(db):
    fields = [
        pyarrow.field("id", pyarrow.int32(), nullable=False),
        pyarrow.field("name", pyarrow.string()),
        pyarrow.field("more", pyarrow.struct([("parts", pyarrow.list_(pyarrow.int64()))])),
    ]
    for number, columns in enumerate([pyarrow.schema(fields), fields]):
        table = db.create_table(f"t{number}", columns, key="id")
        assert types_of(table) == {"id": "i32", "name": "text", "more": "json"}
        assert [column.get("not_null", False) for column in table.schema["columns"]] == [True, False, False]
    with pytest.raises(quipu.InvalidError, match="there are two columns 'a'"):
        db.create_table("twice", pyarrow.schema([("a", pyarrow.int8()), ("a", pyarrow.int8())]))
    with pytest.raises(TypeError, match="column a: duration"):
        db.create_table("lengths", pyarrow.schema([("a", pyarrow.duration("s"))]))


def test_lists_and_structs_are_json(db):
    docs = {
        "struct": [{"a": 1, "b": 1.0, "c": 'é"\\\n\x01'}, None, {"a": None, "b": -0.5, "c": ""}],
        "list": [[1, None, 3], [], None],
        "deep": [[{"on": [True, False]}], [{"on": None}], [None]],
        "map": pyarrow.array([[("k", 1), ("l", None)], None, []], pyarrow.map_(pyarrow.string(), pyarrow.int8())),
        "large": pyarrow.array([["a"], None, []], pyarrow.large_list(pyarrow.large_string())),
        "fixed": pyarrow.array([[1, 2], None, [3, 4]], pyarrow.list_(pyarrow.uint64(), 2)),
        "words": pyarrow.ListArray.from_arrays([0, 2, 4, 4], pyarrow.array(["x", "x", "y", None]).dictionary_encode()),
    }
    rows = frame(id=[0, 1, 2], **docs)
    table = db.create_table_from("docs", rows, key="id")
    assert set(types_of(table).values()) == {"i64", "json"}
    wanted = rows.to_pylist()
    for row in wanted:
        row["map"] = None if row["map"] is None else dict(row["map"])
    assert list(table) == wanted
    # The buffers of a part begin elsewhere.
    part = db.create_table_from("part", rows.slice(1, 2), key="id")
    assert list(part) == wanted[1:]
    polars = pytest.importorskip("polars")
    of_polars = polars.DataFrame({"id": [1, 2], "list": [["a"], None], "struct": [{"x": 1}, {"x": None}]})
    assert list(db.create_table_from("polars", of_polars, key="id")) == of_polars.to_dicts()


def test_texts_have_the_length_that_their_type_says(db):
    table = db.create_table("t", {"id": "varchar(2)", "name": "character varying( 3 ) not null"}, key="id")
    table.insert(("ab", "äöü"))
    for wrong in [("abc", "a"), ("x", "abcd")]:
        with pytest.raises(quipu.ConstraintError, match="check (id|name)_length fails"):
            table.insert(wrong)
    with pytest.raises(quipu.InvalidError, match="value too long for type character varying"):
        db.sql("INSERT INTO t VALUES ('abc', 'a')")
    db.add_column("t", "more", "varchar(1)")
    with pytest.raises(quipu.ConstraintError, match="check wrong_length fails"):
        db.add_column("t", "wrong", {"type": "varchar(1)", "default": "'xyz'"})
    assert list(types_of(table)) == ["id", "name", "more"]
    named = db.create_table_from("named", frame(id=[1], name=["Ann"]), key="id", types={"name": "varchar(3) not null"})
    with pytest.raises(quipu.ConstraintError, match="name_length"):
        named.insert((2, "Anna"))
    for wrong in ["char(5)", "varchar(0)", "varchar(x)"]:
        with pytest.raises(quipu.InvalidError, match=r"is not a type; there are .*, varchar\(LENGTH\)"):
            db.create_table("wrong", {"x": wrong})


def test_types_of_numpy(db):
    numpy = pytest.importorskip("numpy")
    given = {"a": numpy.int32, "b": numpy.dtype("float64"), "c": numpy.bool_, "d": numpy.dtype("datetime64[us]")}
    assert list(types_of(db.create_table("types", given, key="a")).values()) == ["i32", "f64", "bool", "timestamp"]


def test_loads_go_on_where_keys_are_there(db):
    table = db.create_table_from("t", frame(id=[1, 2], x=["a", "b"], y=[10, 20]), key="id")
    more = frame(id=[2, 3], x=["B", "C"])
    with pytest.raises(quipu.ConstraintError):
        table.load(more)
    assert table.load(more, on_conflict="ignore") == 2
    assert [(row["id"], row["x"], row["y"]) for row in table] == [(1, "a", 10), (2, "b", 20), (3, "C", None)]
    assert db.load("t", more, on_conflict="update") == 2
    assert [(row["id"], row["x"], row["y"]) for row in table] == [(1, "a", 10), (2, "B", 20), (3, "C", None)]
    assert table.upsert_many([{"id": 1, "y": 11}, {"id": 9, "x": "new"}]) == 2
    assert table.get(1) == {"id": 1, "x": "a", "y": 11} and table.get(9)["x"] == "new"
    with pytest.raises(quipu.WrongTypeError):
        table.upsert_many([{"id": 1, "y": 12}, {"id": 10, "y": "no number"}])
    assert table.get(1)["y"] == 11 and 10 not in table, "all or none"
    with pytest.raises(quipu.InvalidError, match="on_conflict is"):
        table.load(more, on_conflict="replace")
    with db.write() as transaction:
        assert transaction["t"].load(frame(id=[1], x=["z"]), on_conflict="update") == 1
    assert table.get(1)["x"] == "z"


def test_a_table_is_made_from_the_frame_of_another(db):
    columns = {"id": "i64", **COLUMNS}
    table = db.create_table("all", columns, key="id")
    table.insert_many({"id": number, **row} for number, row in enumerate([FULL, EMPTY, OTHER]))
    again = db.create_table_from("again", table, key="id", types={"folded": "text(unicode)", "doc": "json"})
    assert types_of(again) == types_of(table) and list(again) == list(table)


def test_rows_become_frames(db):
    table = db.create_table_from("t", frame(id=range(100), x=[str(n) for n in range(100)]), key="id")
    pandas = pytest.importorskip("pandas")
    found = table.range(ge=90).to_pandas()
    assert isinstance(found, pandas.DataFrame) and list(found["id"]) == list(range(90, 100))
    again = db.create_table_from("again", found.set_index("id"), key="id")
    assert list(again) == table[90:]
    left_out = db.create_table_from("left_out", found[found["id"] > 95])
    assert [name for name in types_of(left_out) if name != "rowid"] == ["id", "x"]
    assert [row["id"] for row in left_out] == [96, 97, 98, 99]


def test_rows_become_frames_of_polars(db):
    polars = pytest.importorskip("polars")
    table = db.create_table_from("t", polars.DataFrame({"id": [2, 1], "x": ["b", "a"]}), key="id")
    assert table.to_polars().equals(polars.DataFrame({"id": [1, 2], "x": ["a", "b"]}))


def test_notebooks_show_rows(db):
    table = db.create_table_from("t", frame(id=range(100), x=["<b>"] * 100), key="id")
    html = table._repr_html_()
    assert "100 rows by id" in html and "&lt;b&gt;" in html and "<b>" not in html
    assert html.count("<tr>") == 1 + 5 + 1 + 5 and "<td>99</td>" in html
    assert table.range(lt=3)._repr_html_().count("<tr>") == 1 + 3
    assert table.range(lt=0)._repr_html_().count("<tr>") == 0
    result = db.sql("SELECT id, x FROM t ORDER BY id")
    assert result._repr_html_().count("<tr>") == 1 + 10 and "10 rows and more" in result._repr_html_()
    assert len(result.rows()) == 100, "what was shown is still there"
    with db.transaction() as transaction:
        assert transaction["t"]._repr_html_().count("<tr>") == 0
