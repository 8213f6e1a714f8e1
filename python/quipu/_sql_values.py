"""Parameters and values of PostgreSQL's protocol. Needs the package ``psycopg``.

A statement of its own has its values in binary, and several in one text have them as text, since the protocol has no
more for these. They become the objects that results of a database have, and for Arrow what ``_sql_arrow`` takes.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import struct
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ._errors import InvalidError, of_sql

_psycopg: Any = importlib.import_module("psycopg")
_adapt: Any = importlib.import_module("psycopg.adapt")
_numeric: Any = importlib.import_module("psycopg.types.numeric")
_string: Any = importlib.import_module("psycopg.types.string")
_array: Any = importlib.import_module("psycopg.types.array")
_composite: Any = importlib.import_module("psycopg.types.composite")

TEXT, BINARY = _psycopg.pq.Format.TEXT, _psycopg.pq.Format.BINARY
_UNKNOWN = 0
INT4, _INT8, _NUMERIC, BYTEA, _JSONB, VOID = 23, 20, 1700, 17, 3802, 2278
_JSON_TYPES, _TEXT_TYPES = ("json", "jsonb"), ("text", "varchar", "bpchar", "citext")
_RANGES = ("int4", "int8", "num", "date", "ts", "tstz")
#: What is a number in binary, and a name as text.
_NUMBERED = (
    "xid", "regclass", "regcollation", "regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole",
    "regtype",
)

_DAY_MICROSECONDS = 86_400_000_000
_DAY_ENDS = (struct.pack("!q", _DAY_MICROSECONDS), b"24:00:00")


class Bound(NamedTuple):
    """A parameter as it is sent: its type, 0 where the statement says it, and its bytes; text but of ``BYTEA``."""

    oid: int
    data: Optional[bytes]
    #: Those of a list, which is an array or JSON: the statement says which.
    elements: Optional[Sequence[Any]] = None


def _text(value: str) -> bytes:
    if "\0" in value:
        raise InvalidError("a text of SQL has no zero byte")
    return value.encode()


def _json(value: Any) -> bytes:
    return _text(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def _scalar(value: Any) -> Any:
    """What Python has for a scalar of NumPy or a missing value of pandas; other objects unchanged."""
    kind = type(value)
    if kind.__name__ in ("NaTType", "NAType") and kind.__module__.startswith("pandas."):
        return None
    dtype = getattr(value, "dtype", None)
    if dtype is None or getattr(value, "ndim", None) != 0:
        return value
    if dtype.kind == "M":
        exact = value.astype("datetime64[us]")
        # A date stays one. NaT is not equal to itself, and becomes None.
        is_date = isinstance(value.item(), datetime.date)
        return value.item() if is_date else exact.item() if exact == value or exact != exact else value
    return value.item() if dtype.kind in "biufSU" else value


def bound(value: Any) -> Bound:
    """A parameter as it is sent. ``TypeError`` of what SQL has no value for."""
    value = _scalar(value)
    if value is None:
        return Bound(_UNKNOWN, None)
    if isinstance(value, int) and not isinstance(value, bool):
        oid = INT4 if -(2**31) <= value < 2**31 else _INT8 if -(2**63) <= value < 2**63 else _NUMERIC
        return Bound(oid, str(int(value)).encode())
    try:
        if isinstance(value, str):
            return Bound(_UNKNOWN, _text(value))
        if isinstance(value, dict):
            return Bound(_JSONB, _json(value))
    except InvalidError:
        raise
    except (TypeError, ValueError) as error:
        raise _no_value(value) from error
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Bound(BYTEA, bytes(value))
    if isinstance(value, (list, tuple)):
        return Bound(_UNKNOWN, None, value)
    is_whole = not getattr(value, "nanosecond", 0)
    if isinstance(value, datetime.time) and value.tzinfo is not None or not is_whole:
        raise _no_value(value)
    try:
        dumper = _adapt.Transformer().get_dumper(value, _adapt.PyFormat.TEXT)
    except _psycopg.ProgrammingError as error:
        raise _no_value(value) from error
    return Bound(dumper.oid, bytes(dumper.dump(value)))


def _no_value(value: Any) -> TypeError:
    return TypeError(f"{value!r:.60} is {type(value).__name__}, which is not a value of SQL")


def bound_list(given: Sequence[Any], found: Type, number: int, text: str) -> bytes:
    """The list that is parameter ``number`` of a statement, for its type."""

    def refused(state: str, what: str, hint: str) -> Exception:
        return of_sql(state, None, what, text, (None, hint, f"parameter ${number}", None), (None, None, None))

    hint = "Write a cast at the parameter, such as $1::jsonb or $1::int[]."
    if not found.is_array:
        with contextlib.suppress(TypeError, ValueError):
            if found.name in _JSON_TYPES:
                return _json(given)
        raise refused("42846", f"a list is not a value of the type {found.name}", hint)
    elements: List[str] = []
    for value in map(bound, given):
        if value.elements is not None:
            what = "a list of lists is not a parameter, but where it is JSON"
            raise refused("0A000", what, "Write the array as text: '{{1,2},{3,4}}'.")
        if value.data is None:
            elements.append("NULL")
            continue
        if value.oid != _UNKNOWN and found.name in _TEXT_TYPES:
            own = _psycopg.adapters.types[value.oid].regtype
            raise refused("42846", f"{own} is not a value of the type {found.name}", hint)
        element = "\\x" + value.data.hex() if value.oid == BYTEA else value.data.decode()
        elements.append('"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return ("{" + ",".join(elements) + "}").encode()


def _after(loader: Any, convert: Callable[[Any], Any]) -> Any:
    """A loader that converts what another one has loaded."""

    class Converted:
        format = loader.format

        def __init__(self, oid: int, context: Any = None) -> None:
            self._load = loader(oid, context).load

        def load(self, data: Any) -> Any:
            return convert(self._load(data))

    return Converted


def _of_bytes(convert: Callable[[bytes], Any], form: Any = BINARY) -> Any:
    """A loader that converts bytes."""

    class OfBytes:
        format = form

        def __init__(self, oid: int, context: Any = None) -> None:
            pass

        def load(self, data: Any) -> Any:
            return convert(bytes(data))

    return OfBytes


def _of_time(loader: Any) -> Any:
    """A loader of times of a day, whose end is its beginning."""

    class OfTime:
        format = loader.format

        def __init__(self, oid: int, context: Any = None) -> None:
            self._load = loader(oid, context).load

        def load(self, data: Any) -> Any:
            return datetime.time() if bytes(data) in _DAY_ENDS else self._load(data)

    return OfTime


def _range(value: Any) -> Tuple[Any, ...]:
    return () if value.isempty else (value.lower, value.upper, value.bounds)


def _ranges(value: Any) -> List[Tuple[Any, ...]]:
    return [_range(part) for part in value]


def _bits(data: bytes) -> str:
    (count,) = struct.unpack_from("!i", data)
    return "".join(f"{byte:08b}" for byte in data[4:])[:count]


def _interval(data: bytes) -> Tuple[int, int, int]:
    microseconds, days, months = struct.unpack("!qii", data)
    return months, days, microseconds * 1000


class _Context:
    """What ``psycopg`` asks for loaders."""

    connection = None

    def __init__(self, template: Any) -> None:
        self.adapters = _adapt.AdaptersMap(template)

    def register(self, names: Iterable[str], loader: Any) -> None:
        for name in names:
            self.adapters.register_loader(name, loader)

    def convert(self, names: Iterable[str], make: Callable[[Any], Any]) -> None:
        """Sets loaders that are made of those that there are."""
        for name in names:
            oid = self.adapters.types[name].oid
            for form in (TEXT, BINARY):
                self.adapters.register_loader(oid, make(self.adapters.get_loader(oid, form)))

    def transformer(self) -> Any:
        return _adapt.Transformer(self)


#: Asks for a type: its name with the modifier, and of that of an element, if it is an array, what loads it.
QUESTION = """SELECT format_type($1, $2), t.oid, t.typname, t.typarray, t.oid::regtype::text, t.typtype::text
    FROM pg_type t WHERE t.oid = $1 OR t.typarray = $1 ORDER BY t.typarray = $1 DESC LIMIT 1"""


class Type(NamedTuple):
    """A type of a server."""

    #: That of an element, if it is an array: ``int4``.
    name: str
    is_array: bool


class Types:
    """The types of a server: those that all have, and those that were asked for."""

    def __init__(self) -> None:
        self.python = python = _Context(_psycopg.adapters)
        python.convert(("inet", "cidr"), lambda loader: _after(loader, str))
        python.convert([f"{name}range" for name in _RANGES], lambda loader: _after(loader, _range))
        python.convert([f"{name}multirange" for name in _RANGES], lambda loader: _after(loader, _ranges))
        python.convert(("time",), _of_time)
        # Without a type that is known, it is the label of an enum or another text.
        python.adapters.register_loader(_UNKNOWN, _string.TextBinaryLoader)
        python.register(_NUMBERED, _numeric.OidBinaryLoader)
        python.register(("xid",), _numeric.IntLoader)
        python.register(("macaddr", "macaddr8"), _of_bytes(lambda data: data.hex(":")))
        python.register(("bit", "varbit"), _of_bytes(_bits))
        python.register(("money",), _numeric.Int8BinaryLoader)
        python.register(("tid",), _of_bytes(lambda data: int.from_bytes(data, "big")))
        python.register(("int2vector", "oidvector"), _array.ArrayBinaryLoader)
        self.arrow = arrow = _Context(python.adapters)
        arrow.register(("date",), _numeric.Int4BinaryLoader)
        arrow.register(("time", "timestamp", "timestamptz"), _numeric.Int8BinaryLoader)
        arrow.register(("interval",), _of_bytes(_interval))
        arrow.register(("json", "jsonb"), _string.TextLoader)
        arrow.register(("json",), _string.TextBinaryLoader)
        # The number of the format goes before.
        arrow.register(("jsonb",), _of_bytes(lambda data: data[1:].decode()))
        self._columns: Dict[Tuple[int, int], str] = {}

    def type(self, oid: int) -> Optional[Type]:
        """The type of this number, if it is known."""
        info = self.python.adapters.types.get(oid)
        return None if info is None else Type(info.name, oid != info.oid)

    def column(self, oid: int, modifier: int) -> Optional[str]:
        """What PostgreSQL calls the type of a column, if it is known."""
        info = self.python.adapters.types.get(oid)
        if info is not None and modifier == -1:
            return f"{info.regtype}[]" if oid != info.oid else str(info.regtype)
        return self._columns.get((oid, modifier))

    def learn(self, oid: int, modifier: int, row: Optional[Tuple[Any, ...]]) -> None:
        """Keeps what a server has answered to the question."""
        if row is None:
            self._columns[oid, modifier] = str(oid)
            return
        shown, element, name, array, regtype, kind = row
        self._columns[oid, modifier] = shown
        if self.type(oid) is not None:
            return
        for context in (self.python, self.arrow):
            _psycopg.types.TypeInfo(name, element, array, regtype=regtype).register(context)
            if kind == "c":
                for loader in (_composite.RecordLoader, _composite.RecordBinaryLoader):
                    context.adapters.register_loader(element, loader)


def loaded(load: Callable[..., Any], *arguments: Any) -> Any:
    """What a transformer loads. ``ValueError`` of what Python has no object for."""
    try:
        return load(*arguments)
    except _psycopg.DataError as error:
        raise ValueError(f"the year of a value is out of range, or Python has no such value: {error}") from None
