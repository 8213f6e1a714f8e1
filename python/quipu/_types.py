"""Types of columns by the names that other systems have for them, and by the types of NumPy, pandas and Arrow."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ._errors import InvalidError

_NAMES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "numeric"]
_NAMES += ["text", "text(unicode)", "bytes", "bytes(keyed)", "date", "timestamp", "uuid", "json"]
_PYTHON_TYPES = {
    bool: "bool",
    int: "i64",
    float: "f64",
    str: "text",
    bytes: "bytes",
    datetime.date: "date",
    datetime.datetime: "timestamp",
    decimal.Decimal: "numeric",
    uuid.UUID: "uuid",
    dict: "json",
    list: "json",
}
_OTHER_NAMES = {
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(["int", "integer", "bigint", "long"], "i64"),
    **dict.fromkeys(["smallint", "short"], "i16"),
    "tinyint": "i8",
    **dict.fromkeys(["float", "double", "double precision", "float64"], "f64"),
    **dict.fromkeys(["real", "float32", "halffloat", "float16"], "f32"),
    **dict.fromkeys(["str", "string", "varchar", "large_string", "string_view", "utf8", "str_"], "text"),
    "character varying": "text",
    **dict.fromkeys(["boolean", "bool_"], "bool"),
    **dict.fromkeys(["binary", "large_binary", "binary_view", "bytea", "blob", "bytes_"], "bytes"),
    **dict.fromkeys(["datetime", "datetime64", "timestamptz"], "timestamp"),
    **dict.fromkeys(["date32", "date64", "date32[day]", "date64[ms]"], "date"),
    "jsonb": "json",
    "extension<arrow.uuid>": "uuid",
    "extension<arrow.json>": "json",
}
_MOMENT = re.compile(r"(timestamp|datetime64)\[[a-z]+(, *(tz=)?[^\]]*)?\]")
_DECIMAL = re.compile(r"(?:decimal\d*|numeric)\( *(\d+) *(?:, *(\d+) *)?\)")
_LIMITED = re.compile(r"(?:varchar|character varying) *\( *([1-9]\d*) *\)")
#: Lists, structs and maps of Arrow, and of Polars.
_NESTED = re.compile(r"(?:struct|list|large_list|fixed_size_list|map)<.*|(?:struct|list|array)\(.*", re.DOTALL)
_DICTIONARY = re.compile(r"dictionary<values=([^,]+), .*>")


def _known(name: str) -> Optional[str]:
    name = name.strip().lower()
    if name in _NAMES:
        return name
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    if _MOMENT.fullmatch(name):
        return "timestamp"
    if found := _DECIMAL.fullmatch(name):
        return f"decimal({found[1]},{found[2] or 0})"
    if _LIMITED.fullmatch(name):
        return "text"
    if _NESTED.fullmatch(name):
        return "json"
    if found := _DICTIONARY.fullmatch(name):
        return _known(found[1])
    return None


def length_max(name: str) -> Optional[int]:
    """The characters that texts of a type have at most, if its name says so: ``varchar(20)``."""
    found = _LIMITED.fullmatch(name.strip().lower())
    return None if found is None else int(found[1])


def of_name(column: str, name: str) -> str:
    """The type that a name stands for."""
    found = _known(name)
    if found is None:
        known = ", ".join(_NAMES)
        more = "decimal(PRECISION,SCALE), varchar(LENGTH)"
        raise InvalidError(f"column {column}: {name!r} is not a type; there are {known}, {more}")
    return found


def of_type(column: str, given: Any) -> str:
    """The type that a type of Python, NumPy, pandas or Arrow stands for."""
    if isinstance(given, type) and given in _PYTHON_TYPES:
        return _PYTHON_TYPES[given]
    is_arrow = type(given).__module__.split(".")[0] == "pyarrow"
    name = given.__name__ if isinstance(given, type) else str(given)
    if is_arrow and name == "float":
        return "f32"  # What Arrow calls so; a double is one of 64 bits.
    known = _known(name)
    if known is None:
        names = ", ".join(known.__name__ for known in _PYTHON_TYPES)
        raise TypeError(
            f"column {column}: {name} is not a type of a column; there are {names}, those of NumPy and Arrow, and names"
        )
    return known


def of_fields(fields: Iterable[Any], key: Sequence[str] = ()) -> Dict[str, Dict[str, Any]]:
    """The columns of fields of Arrow, as a table has them: those of the key are NOT NULL.

    Lists, structs and maps are JSON. Types that a table lacks, such as lengths of time, are refused with the name of
    the column.
    """
    found: Dict[str, Dict[str, Any]] = {}
    for field in fields:
        if re.fullmatch(r"__index_level_\d+__", field.name):
            continue  # An index of pandas without a name.
        if field.name in found:
            raise InvalidError(f"there are two columns {field.name!r}; the names of a table's columns are different")
        is_not_null = field.name in key or not field.nullable
        found[field.name] = {"type": of_type(field.name, field.type), "not_null": is_not_null}
    return found


def of_frame(frame: Any, key: Sequence[str]) -> Dict[str, Dict[str, Any]]:
    """The columns of anything with an Arrow stream, as a table has them: see ``of_fields``."""
    found = of_fields(schema_of(frame), key)
    missing: List[str] = [name for name in key if name not in found]
    if missing:
        raise InvalidError(f"the key has {missing[0]!r}, which is not a column; there are {', '.join(found)}")
    return found


def fields_of(columns: Any) -> Optional[List[Any]]:
    """The fields of a schema of Arrow, or of a list of them; None of columns that are given in another way."""
    if hasattr(columns, "__arrow_c_schema__"):
        try:
            import pyarrow
        except ImportError:
            if isinstance(columns, Mapping):
                return None  # Such as that of Polars, which has the names of its types.
            raise
        return list(pyarrow.schema(columns))
    if not isinstance(columns, (list, tuple)) or not columns:
        return None
    is_field = [all(hasattr(given, part) for part in ("name", "type", "nullable")) for given in columns]
    return list(columns) if all(is_field) else None


def with_index(frame: Any) -> Any:
    """The frame, with the named levels of its index as columns if it is one of pandas."""
    names = [name for name in getattr(getattr(frame, "index", None), "names", []) if name is not None]
    return frame.reset_index(level=names) if names else frame


def schema_of(frame: Any) -> Any:
    """The ``pyarrow.Schema`` of anything with an Arrow stream; nothing of it is consumed."""
    import pyarrow

    if isinstance(getattr(frame, "schema", None), pyarrow.Schema):
        return frame.schema
    if hasattr(frame, "__arrow_c_schema__"):
        return pyarrow.schema(frame)
    if hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "__len__"):
        return pyarrow.RecordBatchReader.from_stream(frame).schema
    raise TypeError(f"a frame has an Arrow stream that can be read twice, or a schema; {type(frame).__name__} has not")
