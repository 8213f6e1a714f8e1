"""Columns of Arrow of the values that a server sends, with the types that results of a database have."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple

from ._sql_values import BINARY, Type

#: From 1970, where Arrow begins, to 2000, where the protocol does.
_EPOCH_DAYS = 10_957
_EPOCH_MICROSECONDS = _EPOCH_DAYS * 86_400_000_000
#: All digits of Arrow's decimal numbers.
_PRECISION_MAX = 38

#: The most digits of numbers before the point, and after it; None if some number is no decimal number of Arrow.
Digits = Optional[Tuple[int, int]]


class Column:
    """A column on its way to Arrow."""

    def __init__(self, name: str, found: Optional[Type], modifier: int, form: Any) -> None:
        self.name, self.modifier, self._form = name, modifier, form
        self._type, self._is_list = found or Type("text", False)
        if self._type in ("int2vector", "oidvector") and form == BINARY:
            self._type, self._is_list = self._type[: -len("vector")], True
        #: Of numbers that declare no digits, the most that were found; None if Arrow has no such number.
        self._digits: Digits = (0, 0)

    @property
    def is_open(self) -> bool:
        """Whether all rows have to be read to know the type."""
        return self._type == "numeric" and (self._is_list or self.modifier < 0)

    def _element(self) -> Any:
        import pyarrow

        if self._type == "numeric":
            if not self.is_open:
                precision, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
                fits = precision <= _PRECISION_MAX and scale <= precision
                return pyarrow.decimal128(precision, scale) if fits else pyarrow.string()
            whole, scale = self._digits or (_PRECISION_MAX, 1)
            return pyarrow.decimal128(_PRECISION_MAX, scale) if whole + scale <= _PRECISION_MAX else pyarrow.string()
        types = {
            "bool": pyarrow.bool_(), "int2": pyarrow.int16(), "int4": pyarrow.int32(), "int8": pyarrow.int64(),
            "oid": pyarrow.uint32(), "xid": pyarrow.uint32(), "float4": pyarrow.float32(), "float8": pyarrow.float64(),
            "bytea": pyarrow.binary(), "date": pyarrow.date32(), "time": pyarrow.time64("us"),
            "timestamp": pyarrow.timestamp("us"), "timestamptz": pyarrow.timestamp("us", "UTC"),
            "interval": pyarrow.month_day_nano_interval(), "uuid": pyarrow.binary(16),
        }
        return types.get(self._type, pyarrow.string())

    def field(self) -> Any:
        """Its name and type, once all rows were read if that is needed."""
        import pyarrow

        kind = self._element()
        if self._is_list:
            return pyarrow.field(self.name, pyarrow.list_(kind))
        extension = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}
        return pyarrow.field(self.name, kind, metadata=extension if self._type == "uuid" else None)

    def array(self, values: Sequence[Any]) -> Any:
        """The array of some values; of numbers whose digits are not known yet, their texts."""
        import pyarrow

        if not self._is_list:
            return self._values(values)
        elements: List[Any] = []
        offsets: List[Optional[int]] = []
        for value in values:
            offsets.append(None if value is None else len(elements))
            if value and isinstance(value[0], list):
                raise pyarrow.ArrowInvalid("an array of several dimensions has no type of Arrow; cast it to text")
            elements += value or ()
        places = pyarrow.array([*offsets, len(elements)], pyarrow.int32())
        return pyarrow.ListArray.from_arrays(places, self._values(elements))

    def _values(self, values: Sequence[Any]) -> Any:
        import pyarrow

        kind = self._element()
        is_number = self._form == BINARY
        if self.is_open:
            return pyarrow.array(list(map(self._counted, values)), pyarrow.string())
        if pyarrow.types.is_string(kind):
            return pyarrow.array(list(map(self._shown, values)), kind)
        if is_number and self._type == "date":
            return _shifted(values, pyarrow.int32(), _EPOCH_DAYS).view(kind)
        if is_number and self._type in ("timestamp", "timestamptz"):
            return _shifted(values, pyarrow.int64(), _EPOCH_MICROSECONDS).view(kind)
        if is_number and self._type == "time":
            return pyarrow.array(values, pyarrow.int64()).view(kind)
        if self._type == "uuid":
            return pyarrow.array([value and value.bytes for value in values], kind)
        return pyarrow.array(values, kind)

    def _counted(self, value: Any) -> Optional[str]:
        """The text of a number, whose digits count."""
        if value is None:
            return None
        if not value.is_finite():
            self._digits = None
            return str(value)
        text = f"{value:f}"
        if self._digits is not None:
            whole, _, fraction = text.lstrip("-").partition(".")
            self._digits = max(self._digits[0], len(whole.lstrip("0"))), max(self._digits[1], len(fraction))
        return text

    def _shown(self, value: Any) -> Optional[str]:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (tuple, list)):
            import pyarrow

            raise pyarrow.ArrowInvalid(f"column {self.name}: {self._type} has no type of Arrow; cast it to text")
        return f"{value:f}" if self._type == "numeric" and value.is_finite() else str(value)


def _shifted(values: Sequence[Any], kind: Any, offset: int) -> Any:
    """Integers from another beginning on; the least and the greatest are infinite, and stay."""
    import pyarrow
    import pyarrow.compute as compute

    ints = pyarrow.array(values, kind)
    greatest = 2 ** (kind.bit_width - 1) - 1
    is_infinite = compute.is_in(ints, pyarrow.array([greatest, -greatest - 1], kind))
    return compute.if_else(is_infinite, ints, compute.add(ints, pyarrow.scalar(offset, kind)))


def reader(columns: List[Column], parts: Iterator[List[Tuple[Any, ...]]]) -> Any:
    """The rows of parts as a ``pyarrow.RecordBatchReader``. All are read first if a type is open."""
    import pyarrow

    def arrays() -> Iterator[Tuple[int, List[Any]]]:
        for rows in parts:
            taken = zip(*rows) if rows and columns else ((),) * len(columns)
            yield len(rows), [column.array(list(values)) for column, values in zip(columns, taken)]

    read: Iterable[Tuple[int, List[Any]]] = arrays()
    if any(column.is_open for column in columns):
        read = list(read)
    schema = pyarrow.schema([column.field() for column in columns])

    def batches() -> Iterator[Any]:
        for count, arrays in read:
            if not columns:
                yield pyarrow.RecordBatch.from_struct_array(pyarrow.array([{}] * count, pyarrow.struct([])))
                continue
            cast = [array.cast(field.type) if column.is_open else array
                    for column, array, field in zip(columns, arrays, schema)]
            yield pyarrow.RecordBatch.from_arrays(cast, schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, batches())
