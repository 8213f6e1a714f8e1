"""SQL: results and sessions."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Iterator, List, NamedTuple, Optional, Protocol, Sequence, Tuple, Type

from ._errors import Error, InvalidError
from ._shown import shown, table_of

_ISOLATIONS = ("read committed", "repeatable read", "serializable")
#: What a repr shows.
_SHOWN_ROWS, _SHOWN_COLUMNS = 10, 12


class Column(NamedTuple):
    """A column of a result."""

    name: str
    #: The type as PostgreSQL names it: ``bigint``, ``numeric(10,2)``.
    type: str


class Answer(Protocol):
    """What a result reads: ``_quipu.SqlResult``, or what comes from a server."""

    @property
    def notices(self) -> List[str]: ...
    def columns(self) -> Optional[List[Tuple[str, str]]]: ...
    def count(self) -> Optional[int]: ...
    def tag(self) -> str: ...
    def next_row(self) -> Optional[Tuple[Any, ...]]: ...
    def fetch(self, rows: Optional[int]) -> List[Tuple[Any, ...]]: ...
    def peek(self, rows: int) -> Tuple[List[Tuple[Any, ...]], bool]: ...
    def stream(self) -> Any: ...
    def close(self) -> None: ...


class Statements(Protocol):
    """What runs statements: a database, a session, or those of a server."""

    def sql(self, text: str, parameters: Sequence[Any]) -> Answer: ...


class Session(Statements, Protocol):
    """What an ``SqlSession`` is of: ``_quipu.SqlSession``, or that of a server."""

    def is_open(self) -> bool: ...
    def close(self) -> None: ...


class Sessions(Protocol):
    """What begins sessions."""

    def sql_session(self, begin: str) -> Session: ...


def run(source: Statements, text: str, parameters: Sequence[Any]) -> "Result":
    """Runs a statement."""
    if not isinstance(text, str):
        raise TypeError(f"a statement is a str, not {type(text).__name__}")
    return Result(source.sql(text, list(parameters)))


class Result:
    """What a statement answers. Its rows are tuples, and are read while they are taken; each is taken once.

    An iteration, ``fetchone``, ``fetchmany``, ``rows``, ``arrow`` and ``df`` go on where the one before has stopped.
    Rows that are not in memory yet are of the moment at which the statement began. ``close``, or the end of a ``with``
    block, forgets those that are left.
    """

    def __init__(self, source: Answer) -> None:
        self._source = source
        self._columns = [Column(*column) for column in source.columns() or ()]

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def columns(self) -> List[Column]:
        """The names and types of the columns; empty if the statement has no rows to answer."""
        return self._columns

    @property
    def rowcount(self) -> int:
        """How many rows were changed, or read; -1 of a query that is not read to its end, and of other statements."""
        count = self._source.count()
        return -1 if count is None else count

    @property
    def notices(self) -> List[str]:
        """What the database remarks about the statement."""
        return self._source.notices

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def fetchone(self) -> Optional[Tuple[Any, ...]]:
        """The next row; ``None`` at the end."""
        return self._source.next_row()

    def fetchmany(self, rows: int) -> List[Tuple[Any, ...]]:
        """The next rows, at most so many."""
        if rows < 0:
            raise InvalidError(f"a number of rows is 0 or more, not {rows}")
        return self._source.fetch(rows)

    def rows(self) -> List[Tuple[Any, ...]]:
        """All rows that are left."""
        rows: List[Tuple[Any, ...]] = []
        while True:
            part = self._source.fetch(None)
            if not part:
                return rows
            rows += part

    fetchall = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The rows that are left as a stream of Arrow, which has them from then on."""
        return self._source.stream()

    def arrow(self) -> Any:
        """All rows that are left as a ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self).read_all()

    def df(self) -> Any:
        """All rows that are left as a ``pandas.DataFrame``."""
        return self.arrow().to_pandas()

    def close(self) -> None:
        """Forgets the rows that are left. Closing it again does nothing."""
        self._source.close()

    def _repr_html_(self) -> str:
        """The first rows that are left, in a notebook."""
        if not self._columns:
            return table_of(repr(self), [], [])
        names = [column.name for column in self._columns]
        try:
            rows, has_more = self._source.peek(_SHOWN_ROWS)
        except Error as error:
            return table_of(str(error), names, [])
        return table_of(f"{len(rows)} rows" + (" and more" if has_more else ""), names, [rows])

    def __repr__(self) -> str:
        if not self._columns:
            return f"<quipu.Result {self._source.tag() or 'of no statement'}>"
        try:
            rows, has_more = self._source.peek(_SHOWN_ROWS)
        except Error as error:
            return f"<quipu.Result {', '.join(column.name for column in self._columns)}: {error}>"
        columns = self._columns[:_SHOWN_COLUMNS]
        cells = [[shown(value) for value in row[:_SHOWN_COLUMNS]] for row in rows]
        names = [shown(column.name) for column in columns]
        widths = [max(map(len, column)) for column in zip(names, *cells)]
        is_number = [all(isinstance(row[place], (int, float)) for row in rows) for place in range(len(columns))]

        def line(row: Sequence[str]) -> str:
            parts = [str.rjust if right else str.ljust for right in is_number]
            return " | ".join(part(text, width) for part, text, width in zip(parts, row, widths)).rstrip()

        count = f"({len(rows)} row{'' if len(rows) == 1 else 's'})"
        left_out = len(self._columns) - len(columns)
        more = (["..."] if has_more else []) + ([f"({left_out} more columns)"] if left_out else [])
        rule = "-+-".join("-" * width for width in widths)
        return "\n".join([line(names), rule, *map(line, cells), *(more or [count])])


class SqlSession:
    """A transaction of SQL over several calls.

    As a context manager it commits at the end of its block, and rolls back at an exception. Its results can be read
    until then. After a statement that has failed, a transaction can only be rolled back, unless it goes back to a
    SAVEPOINT.
    """

    def __init__(self, source: Sessions, isolation: str, read_only: bool) -> None:
        if isolation not in _ISOLATIONS:
            raise InvalidError(f"isolation is one of {', '.join(map(repr, _ISOLATIONS))}, not {isolation!r}")
        mode = ", READ ONLY" if read_only else ""
        self._source: Session = source.sql_session(f"BEGIN ISOLATION LEVEL {isolation.upper()}{mode}")

    def sql(self, text: str, *parameters: Any) -> Result:
        """Runs a statement in the transaction, or several that have no parameters: see ``Database.sql``."""
        return run(self._source, text, parameters)

    def __enter__(self) -> "SqlSession":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def commit(self) -> None:
        """Commits the transaction, if it has not ended. What follows is a transaction of its own each."""
        if not self._source.is_open():
            return
        if self._source.sql("COMMIT", []).tag() == "ROLLBACK":
            error = InvalidError("a statement of the transaction has failed, so it was rolled back and not committed")
            error.sqlstate = "25P02"
            raise error

    def rollback(self) -> None:
        """Undoes what the transaction did, if it has not ended."""
        if self._source.is_open():
            with contextlib.suppress(Error):
                self._source.sql("ROLLBACK", [])

    def close(self) -> None:
        """Ends the session, and rolls back its transaction if that has not ended. Closing it again does nothing."""
        self._source.close()
