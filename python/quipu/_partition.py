"""Parts of a table that go to other processes."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, Iterator, List, Optional

from . import _database, _quipu, _server
from ._errors import InvalidError
from ._rows import Row, Rows

_lock = threading.Lock()
_readers: Dict[str, _quipu.Database] = {}


def _forget() -> None:
    """Begins anew in a process that was forked: what the other one has opened is not its own."""
    global _lock
    _lock = threading.Lock()
    _readers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _reader_of(path: str) -> _quipu.Database:
    """The database as this process has it open already, or opens it to read partitions."""
    opened = _database.open_here(path)
    if opened is not None:
        return opened._source
    with _lock:
        found = _readers.get(path)
        if found is None or not found.is_open():
            found = _readers[path] = _quipu.Database.open(path, True, False, None, None, None)
        return found


def close_readers() -> None:
    """Closes the databases and connections that were opened to read partitions."""
    _server.close_clients()
    with _lock:
        for reader in _readers.values():
            reader.close()
        _readers.clear()


class Partition:
    """A part of a table or an index, with an exact number of rows.

    In the process that made it, a partition reads its snapshot, whatever is written meanwhile. A pickled one opens the
    database read-only where it is read, unless that process has it open, which takes that no other one has it open to
    write; and it refuses to read if the database has changed. So does one that a forked process has without pickling.
    """

    path: Optional[str]
    table: str
    index: Optional[str]
    columns: Optional[List[str]]
    count: int

    @staticmethod
    def _of(rows: Rows, keys: _quipu.Range, count: int) -> "Partition":
        part = Partition.__new__(Partition)
        reader = rows._reader
        part.path, part.table, part.index = rows._path, reader.table_name, reader.index_name
        part.columns, part.count = rows._columns, count
        part._process = os.getpid()
        part._ends, part._sequence = keys.ends(), reader.sequence()
        part._rows = Rows(reader, keys, rows._columns, rows._path)
        return part

    _ends: Any
    _sequence: Optional[int]
    _process: int
    _rows: Optional[Rows]

    def __repr__(self) -> str:
        where = self.table if self.index is None else f"{self.table}.{self.index}"
        return f"<quipu.Partition of {where}: {self.count} rows>"

    def __getstate__(self) -> Dict[str, Any]:
        if self.path is None or self._sequence is None:
            raise InvalidError("a partition of a database in memory, or of a transaction, stays in its process")
        return {**self.__dict__, "_rows": None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)

    def rows(self) -> Rows:
        """The rows."""
        if self._rows is not None and self._process != os.getpid():
            self.__getstate__()
            self._rows = None
        if self._rows is None:
            assert self.path is not None
            snapshot = _reader_of(self.path).snapshot()
            if snapshot.sequence() != self._sequence:
                raise InvalidError(f"{self.path} has changed since the partitions were made; make them again")
            reader = snapshot.table(self.table)
            if self.index is not None:
                reader = reader.with_index(self.index)
            self._rows = Rows(reader, _quipu.Range(*self._ends), self.columns, self.path)
            self._process = os.getpid()
        return self._rows

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.rows().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The rows as a ``pyarrow.Table``."""
        return self.rows().to_arrow().read_all()

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``."""
        return self.rows().to_pandas()
