"""Rows in the order of a key: a table, an index, or a range of either."""

from __future__ import annotations

import json
import operator
import os
import random
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Mapping, NamedTuple
from typing import Optional, Protocol, Sequence, TypedDict, TypeVar, Union, overload

from . import _quipu
from ._errors import Error, InvalidError, WrongTypeError
from ._shown import table_of
from ._types import with_index

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._partition import Partition

R = TypeVar("R")
Row = Dict[str, Any]
#: Where a database lies.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: A value, or a tuple of the values of the first columns of a key.
Key = Any

class Ends(TypedDict, total=False):
    """The ends of a range, as keyword arguments."""

    eq: Key
    ge: Key
    gt: Key
    le: Key
    lt: Key
    starts_with: Key
    #: Whether ``lt`` and ``le`` have rows with NULL too.
    nulls: bool


_ENDS = [word for word in Ends.__annotations__ if word != "nulls"]
_SHOWN_ROWS = 5
_FIRST_CHUNK, _LAST_CHUNK = 16, 1024
_GROUPS_TOGETHER = 1024
_INSERTED_TOGETHER = 1000


class Page(NamedTuple):
    """Some rows of a range."""

    rows: List[Row]
    #: How many rows the whole range has.
    total: int


class Group(NamedTuple):
    """Rows whose keys begin alike."""

    #: The value that their keys begin with, or a tuple of the values.
    key: Any
    count: int  # type: ignore[assignment]
    #: The sum of the column whose sums are kept; None if no sums are.
    sum: Any


def _limits(place: Optional[int]) -> Optional[int]:
    if place is None:
        return None
    return max(-(2**63), min(2**63 - 1, operator.index(place)))


def row_at(place: Any, nth: Callable[[int], Optional[R]]) -> R:
    """The row at a position, as a list would have it."""
    try:
        number = operator.index(place)
    except TypeError:
        raise TypeError(f"rows are found by position, an int or a slice, not {type(place).__name__}") from None
    row = nth(number)
    if row is None:
        raise IndexError(f"there is no row {number}")
    return row


def _natural(what: str, number: int) -> int:
    """A number of rows, columns or parts."""
    number = operator.index(number)
    if number < 0:
        raise InvalidError(f"{what} is 0 or more, not {number}")
    return min(number, 2**63 - 1)


class Rows:
    """Rows in the order of a key, read when they are asked for. Nothing is loaded.

    They have what lists have: ``len``, positions, slices, iteration from either end.

    Ranges are said by the values of the first columns of the key: ``eq``, ``ge``, ``gt``, ``le``, ``lt`` and
    ``starts_with``, each a value or a tuple. All that takes them asks only about the rows in which they hold. As in
    SQL, they do not hold of NULL: ``lt=10`` has no row whose column is NULL, though that sorts first, unless
    ``nulls=True`` asks for these too, or an end names it: ``ge=None, lt=10``. A ``date`` stands for its midnight in
    UTC where the column has timestamps.
    """

    def __init__(
        self,
        reader: _quipu.Reader,
        keys: _quipu.Range,
        columns: Optional[List[str]] = None,
        path: Optional[str] = None,
    ) -> None:
        self._reader, self._keys, self._columns, self._path = reader, keys, columns, path

    def __repr__(self) -> str:
        reader = self._reader
        kind = type(self).__name__
        name = reader.table_name if reader.index_name is None else f"{reader.table_name}.{reader.index_name}"
        try:
            key = ", ".join(name for name, _ in reader.key_columns())
            of = "" if self._columns is None else f" with {', '.join(self._columns)}"
            # A transaction would rely on the number from then on.
            count = "" if reader.in_transaction else f"{len(self):,} "
            return f"<quipu.{kind} {name}: {count}rows{of} by {key}>"
        except Error as error:
            return f"<quipu.{kind} {name}: {error}>"

    def _repr_html_(self) -> str:
        """The first and last rows, in a notebook. In a transaction, which would rely on them, their names alone."""
        title = repr(self)
        reader = self._reader
        if reader.in_transaction:
            return table_of(title, [], [])
        try:
            rows = Rows(reader.at_one_moment(), self._keys, self._columns)
            count = len(rows)
            parts = [rows[:]] if count <= 2 * _SHOWN_ROWS else [rows[:_SHOWN_ROWS], rows[-_SHOWN_ROWS:]]
        except Error:
            return table_of(title, [], [])
        names = list(parts[0][0]) if count > 0 else list(self._columns or [])
        return table_of(title, names, [[list(row.values()) for row in part] for part in parts])

    def _within(self, ends: Mapping[str, object]) -> _quipu.Range:
        if not ends:
            return self._keys
        values = dict(ends)
        nulls = values.pop("nulls", False)
        if not isinstance(nulls, bool):
            raise TypeError(f"nulls is True or False, not {nulls!r}")
        for word in values:
            if word not in _ENDS:
                raise TypeError(f"{word!r} is not an end of a range; there are {', '.join(_ENDS)}")
        return self._reader.range(self._keys, list(values.items()), nulls)

    def range(self, **ends: Unpack[Ends]) -> "Rows":
        """The rows in which these ends hold."""
        return Rows(self._reader, self._within(ends), self._columns, self._path)

    def select(self, *columns: str) -> "Rows":
        """The same rows with these columns only."""
        self._reader.require_columns(list(columns))
        return Rows(self._reader, self._keys, list(columns), self._path)

    def freeze(self) -> "Rows":
        """The same rows at this moment: what others write later is not seen."""
        return Rows(self._reader.at_one_moment(), self._keys, self._columns, self._path)

    @property
    def key_columns(self) -> Dict[str, str]:
        """What rows are sorted by: names and types."""
        return dict(self._reader.key_columns())

    def __len__(self) -> int:
        return self._reader.count(self._keys)

    def __bool__(self) -> bool:
        return self._reader.nth(self._keys, 0) is not None

    def count(self, **ends: Unpack[Ends]) -> int:
        """The number of rows in a range: one descent or two."""
        return self._reader.count(self._within(ends))

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> List[Row]: ...

    def __getitem__(self, place: Union[int, slice]) -> Union[Row, List[Row]]:
        """The row at a position, or the rows of a slice, with the meaning that they have for lists."""
        if isinstance(place, slice):
            step = 1 if place.step is None else _limits(place.step)
            if step == 0:
                raise ValueError("slice step cannot be zero")
            return self._reader.slice(self._keys, _limits(place.start), _limits(place.stop), step, self._columns)
        return row_at(place, self.nth)

    def nth(self, place: int, **ends: Unpack[Ends]) -> Optional[Row]:
        """The row at a position of a range, counted from the end if it is negative; None past the ends."""
        place = operator.index(place)
        if not -(2**63) <= place < 2**63:
            return None
        return self._reader.nth(self._within(ends), place, self._columns)

    def rank(self, key: Key) -> int:
        """The number of rows before all whose key begins with these values, whether or not there are such.

        It is a position: rows with NULL sort first, and count. ``count(lt=key)`` is how many values are below.
        """
        return self._reader.rank(self._keys, key)

    def quantile(self, q: float, **ends: Unpack[Ends]) -> Optional[Row]:
        """The row at a quantile of a range, from 0 to 1; None of an empty range.

        Rows with NULL in the first column that ``eq`` does not fix have no part in it, unless ``nulls=True``.
        """
        return self._reader.quantile(self._within(ends), q, self._columns)

    def sum(self, **ends: Unpack[Ends]) -> Any:
        """The sum, over a range, of the column whose sums the table or the index keeps."""
        return self._reader.sum(self._within(ends))

    def page(self, offset: int, limit: int, **ends: Unpack[Ends]) -> Page:
        """Up to ``limit`` rows from an offset of a range on, and how many the range has."""
        offset, limit = _natural("an offset", offset), _natural("a limit", limit)
        return Page(*self._reader.page(self._within(ends), offset, limit, self._columns))

    def sample(self, rows: int, seed: Optional[int] = None, **ends: Unpack[Ends]) -> List[Row]:
        """Rows of a range, drawn so that each subset is equally likely."""
        seed = random.getrandbits(64) if seed is None else seed
        return self._reader.sample(self._within(ends), _natural("a sample", rows), seed, self._columns)

    def split(self, parts: int, **ends: Unpack[Ends]) -> List["Rows"]:
        """A range cut into parts of equal counts, to within one row."""
        pieces = self._reader.split(self._within(ends), _natural("a number of parts", parts))
        return [Rows(self._reader, keys, self._columns, self._path) for keys, _ in pieces]

    def delete_range(self, **ends: Unpack[Ends]) -> int:
        """Removes the rows of a range, all or none, also of a range of an index. Returns how many there were.

        Of a table without indexes that costs what a few rows do, else a look at each row.
        """
        if not ends:
            raise TypeError("delete_range takes the ends of a range; to remove all rows, drop the table")
        return self._reader.delete_range(self._within(ends))

    def groups(self, columns: Union[int, str, Sequence[str]] = 1, **ends: Unpack[Ends]) -> Iterator[Group]:
        """The number of rows by the values of the first columns of the key: a few descents for each group.

        Columns are said by their number or by their names: ``"month"``, ``["year", "month"]``.
        """
        number: Any = columns
        if not hasattr(columns, "__index__"):
            wanted, names = [columns] if isinstance(columns, str) else list(number), list(self.key_columns)
            if wanted != names[: len(wanted)]:
                raise InvalidError(f"groups are by the first columns of the key, {', '.join(names)}, not {columns!r}")
            number = len(wanted)
        number = _natural("a number of columns", number)
        return self._groups(self._reader.at_one_moment(), self._within(ends), number)

    def _groups(self, reader: _quipu.Reader, rest: Optional[_quipu.Range], columns: int) -> Iterator[Group]:
        while rest is not None:
            groups, rest = reader.groups(rest, columns, _GROUPS_TOGETHER)
            for group in groups:
                yield Group(*group)

    def _stream(self, is_reverse: bool) -> Iterator[Row]:
        # The moment is that of the call, not that of the first row.
        return self._chunks(self._reader.at_one_moment(), is_reverse)

    def _chunks(self, reader: _quipu.Reader, is_reverse: bool) -> Iterator[Row]:
        rest: Optional[_quipu.Range] = self._keys
        limit = _FIRST_CHUNK
        while rest is not None:
            rows, rest = reader.chunk(rest, limit, is_reverse, self._columns)
            yield from rows
            limit = min(limit * 4, _LAST_CHUNK)

    def __iter__(self) -> Iterator[Row]:
        """The rows of this moment, some at a time."""
        return self._stream(False)

    def __reversed__(self) -> Iterator[Row]:
        return self._stream(True)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._reader.stream(self._keys, False, 65536, self._columns)

    def to_arrow(self, *, reverse: bool = False, batch_rows: int = 65536) -> Any:
        """The rows as a ``pyarrow.RecordBatchReader``, which reads batch after batch."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(_Stream(self, reverse, batch_rows))

    def to_pandas(self, **options: Any) -> Any:
        """The rows as a ``pandas.DataFrame``; options are those of ``pyarrow.Table.to_pandas``."""
        return self.to_arrow().read_all().to_pandas(**options)

    def to_polars(self) -> Any:
        """The rows as a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def partitions(self, parts: int, **ends: Unpack[Ends]) -> List["Partition"]:
        """The rows in ``parts`` parts of equal counts that can be pickled and read side by side, all of one moment."""
        from ._partition import Partition

        frozen = self.freeze()
        pieces = frozen._reader.split(self._within(ends), _natural("a number of parts", parts))
        return [Partition._of(frozen, keys, count) for keys, count in pieces]


class _Stream:
    def __init__(self, rows: Rows, is_reverse: bool, batch_rows: int) -> None:
        self._rows, self._is_reverse, self._batch_rows = rows, is_reverse, batch_rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        rows = self._rows
        return rows._reader.stream(rows._keys, self._is_reverse, self._batch_rows, rows._columns)


class _Owner(Protocol):
    """What a table belongs to."""

    def _writing(self, reader: _quipu.Reader) -> ContextManager[_quipu.Reader]:
        """A reader whose writes are one commit."""


class Table(Rows):
    """A table: its rows in the order of the primary key. ``key in table`` asks for a row of that key."""

    def __init__(self, reader: _quipu.Reader, owner: _Owner, path: Optional[str]) -> None:
        super().__init__(reader, reader.range(None, [], False), None, path)
        self._owner = owner

    @property
    def schema(self) -> Dict[str, Any]:
        """What is declared of the table."""
        found: Dict[str, Any] = json.loads(self._reader.schema())
        return found

    def index(self, name: str) -> Rows:
        """The rows in the order of an index."""
        reader = self._reader.with_index(name)
        return Rows(reader, reader.range(None, [], False), None, self._path)

    def get(self, key: Key, default: Any = None) -> Any:
        """The row of a key, a value or a tuple."""
        row = self._reader.get(key)
        return default if row is None else row

    def get_many(self, keys: Iterable[Key]) -> List[Optional[Row]]:
        """The rows of many keys, in their order; None where there is none."""
        return self._reader.get_many(list(keys))

    def __contains__(self, key: object) -> bool:
        try:
            return self._reader.contains(key)
        except WrongTypeError:
            # As of a list: what cannot be a key is not in it.
            return False

    def insert(self, row: Union[Mapping[str, Any], Sequence[Any]]) -> Any:
        """Adds a row, with defaults for columns that it lacks, and returns its key."""
        return self._reader.insert(row)

    def insert_many(self, rows: Iterable[Union[Mapping[str, Any], Sequence[Any]]]) -> int:
        """Adds rows, all or none; outside of a transaction they are one commit. Returns how many."""
        with self._owner._writing(self._reader) as reader:
            count = 0
            some: List[Union[Mapping[str, Any], Sequence[Any]]] = []
            for row in rows:
                some.append(row)
                if len(some) == _INSERTED_TOGETHER:
                    count += reader.insert_all(some)
                    some = []
            return count + reader.insert_all(some)

    def upsert(self, row: Mapping[str, Any]) -> bool:
        """Adds a row, or changes the given columns of the row of its key. Returns whether there was one."""
        return self._reader.upsert(row)

    def update(self, key: Key, changes: Optional[Mapping[str, Any]] = None, **more: Any) -> bool:
        """Changes columns of the row of a key. Returns whether there is one."""
        return self._reader.update(key, {**(changes or {}), **more})

    def delete(self, key: Key) -> bool:
        """Removes the row of a key. Returns whether there was one."""
        return self._reader.delete(key)

    def upsert_many(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Adds rows, or changes the given columns of those whose keys there are, all or none. Returns how many came."""
        with self._owner._writing(self._reader) as reader:
            count = 0
            for row in rows:
                reader.upsert(row)
                count += 1
            return count

    def load(self, stream: Any, *, on_conflict: str = "error") -> int:
        """Adds the rows of anything with an Arrow stream, all or none. Returns how many came.

        Into a table without rows they go sorted and straight to disk. A row whose key is there is an error, unless
        ``on_conflict`` is ``"update"``, which changes the columns that come, or ``"ignore"``, which leaves the row as
        it was. Those two go row by row.
        """
        return self._reader.load(with_index(stream), on_conflict)


def absolute(path: Path) -> str:
    """The path by which a database is known."""
    return os.path.realpath(os.fsdecode(path))
