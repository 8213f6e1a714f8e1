"""Databases, snapshots and transactions."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from . import _quipu, _schema, _types
from ._errors import ConflictError, Error, InvalidError, MissingError
from ._rows import Path, Rows, Table, absolute
from ._sql import Result, SqlSession, run

T = TypeVar("T")
N = TypeVar("N", bound="_Named")

_FIRST_WAIT_SECONDS, _WAIT_SECONDS_MAX = 0.0001, 0.02

#: The databases that this process has open, by their paths.
_open: "weakref.WeakValueDictionary[str, Database]" = weakref.WeakValueDictionary()


def open(
    path: Path,
    *,
    read_only: bool = False,
    create: bool = True,
    durability: Optional[str] = None,
    memtable_bytes: Optional[int] = None,
    cache_bytes: Optional[int] = None,
) -> "Database":
    """Opens the database in a directory, and creates it if there is none; ``":memory:"`` is one without files.

    The directory is made, but not that in which it lies. A database belongs to the process that opens it: one that is
    forked opens it again, which it can once the other has closed it, or if both open it ``read_only``.

    One process can write to a database; those that open it ``read_only`` share it while no process does. A commit is
    acknowledged when it is on stable storage (``durability="sync"``), when the operating system has it (``"os"``), or
    at once (``"none"``). Tables take ``memtable_bytes`` in memory before rows go to disk, and ``cache_bytes`` are kept
    of what is read from there.
    """
    given = os.fsdecode(path)
    where = None if given == ":memory:" else absolute(path)
    if where is not None:
        if not given:
            raise InvalidError("a database has a path, or is ':memory:'; '' is neither")
        above = os.path.dirname(where)
        if not os.path.isdir(above):
            raise MissingError(f"there is no directory {above}, in which the database is to lie; make it first")
    try:
        found = _quipu.Database.open(where, read_only, create, durability, memtable_bytes, cache_bytes)
    except Error as error:
        if error.kind == "busy" and where is not None and open_here(where) is not None:
            error.args = (f"{where} is open in this process already: use that one, or close it first",)
        raise
    database = Database(found, where)
    if where is not None:
        _open[where] = database
    return database


def open_here(path: str) -> Optional["Database"]:
    """The database of a path, as ``absolute`` gives it, that this process has open."""
    found = _open.get(path)
    return found if found is not None and found._source.is_open() else None


class _Source:
    """What has tables."""

    _source: Union[_quipu.Database, _quipu.Snapshot, _quipu.Transaction]
    path: Optional[str]

    def table(self, name: str) -> Table:
        """The table of that name."""
        return Table(self._source.table(name), self, self.path)

    def __getitem__(self, name: str) -> Table:
        if not isinstance(name, str):
            raise TypeError(f"tables are found by name, a str, not {type(name).__name__}")
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._source.table(name)
        except MissingError:
            return False
        return True

    @contextlib.contextmanager
    def _writing(self, reader: _quipu.Reader) -> Iterator[_quipu.Reader]:
        yield reader


class _Named(_Source):
    """What tells the names of its tables, and is closed."""

    _source: Union[_quipu.Database, _quipu.Snapshot]

    def __init__(self, source: Any, path: Optional[str]) -> None:
        self._source, self.path = source, path

    def __enter__(self: N) -> N:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets it. Closing it again does nothing."""
        self._source.close()

    def tables(self) -> List[str]:
        """The names of all tables."""
        return self._source.tables()

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.tables())

    def __len__(self) -> int:
        return len(self._source.tables())

    def __bool__(self) -> bool:
        return True


class Database(_Named):
    """An open database. As a context manager it is closed at the end, with its snapshots and transactions."""

    _source: _quipu.Database

    def __repr__(self) -> str:
        state = "" if self._source.is_open() else " (closed)"
        return f"<quipu.Database {self.path or ':memory:'}{state}>"

    def close(self) -> None:
        """Ends snapshots and transactions, and closes the database. Closing it again does nothing.

        In a process that was forked from that which opened it, it is forgotten, and goes on where it was opened.
        """
        self._source.close()

    def create_table(
        self,
        name: str,
        columns: _schema.Columns,
        *,
        key: Union[str, Sequence[str], None] = None,
        indexes: Optional[_schema.Indexes] = None,
        **more: Any,
    ) -> Table:
        """Creates a table.

        Columns are ``{name: type}``: a name such as ``"i64"``, ``"text not null"`` or ``"decimal(10,2)"``, a Python
        type, or a dict with ``type``, ``not_null``, ``default`` and ``identity``; or a schema of Arrow. Texts of
        ``"varchar(5)"`` have a check, ``NAME_length``. Indexes are ``{name: columns}``, or dicts with ``columns``,
        ``unique``, ``include``, ``where`` and ``sum``. Further parts of a schema are ``checks``, ``foreign_keys``,
        ``sum``, ``comment``, ``in_memory`` and ``compressed``.
        """
        self._source.create_table(_schema.schema(name, columns, key, indexes, **more))
        return self.table(name)

    def ensure_table(
        self,
        name: str,
        columns: _schema.Columns,
        *,
        key: Union[str, Sequence[str], None] = None,
        indexes: Optional[_schema.Indexes] = None,
        **more: Any,
    ) -> Table:
        """The table of that name, created if there is none. Arguments are those of ``create_table``.

        One that is there may have more: columns that rows need not bring, indexes and constraints. If it has something
        otherwise, an ``InvalidError`` says all that differs.
        """
        self._source.ensure_table(_schema.schema(name, columns, key, indexes, **more))
        return self.table(name)

    def create_table_from(
        self,
        name: str,
        frame: Any,
        *,
        key: Union[str, Sequence[str], None] = None,
        indexes: Optional[_schema.Indexes] = None,
        types: Optional[Mapping[str, _schema.ColumnType]] = None,
        **more: Any,
    ) -> Table:
        """Creates a table for a frame, with its rows: of pandas, polars, Arrow or anything with an Arrow stream.

        Columns have the names and types of the frame, but for those that ``types`` says otherwise; those of the key
        are NOT NULL, and lists and structs are JSON. The index of a pandas frame is a column if it has a name, and left
        out if not. Further arguments are those of ``create_table``. If a row cannot be taken, there is no table
        afterwards.
        """
        frame = _types.with_index(frame)
        columns = _types.of_frame(frame, [] if key is None else _schema.names(key))
        for column, given in (types or {}).items():
            if column not in columns:
                raise InvalidError(f"types has {column!r}, which is not a column; there are {', '.join(columns)}")
            is_not_null = _schema.column(column, given).get("not_null") or columns[column]["not_null"]
            options = given if isinstance(given, Mapping) else {"type": given}
            columns[column] = {**options, "not_null": is_not_null}
        self._source.create_table(_schema.schema(name, columns, key, indexes, **more))
        table = self.table(name)
        try:
            table.load(frame)
        except BaseException:
            self.drop_table(name)
            raise
        return table

    def drop_table(self, name: str) -> bool:
        """Drops a table. Returns whether there was one."""
        return self._source.drop_table(name)

    def rename_table(self, name: str, new_name: str) -> None:
        """Gives a table another name."""
        self._source.rename_table(name, new_name)

    def add_column(self, table: str, name: str, column: _schema.ColumnType) -> None:
        """Adds a column; rows that there are have its default."""
        declared = _schema.declared(table, {name: column})
        self._source.add_column(table, json.dumps(declared))
        if "checks" in declared:
            try:
                self._source.add_constraints(table, json.dumps(declared))
            except BaseException:
                self.drop_column(table, name)
                raise

    def drop_column(self, table: str, name: str) -> None:
        """Drops a column."""
        self._source.drop_column(table, name)

    def rename_column(self, table: str, name: str, new_name: str) -> None:
        """Gives a column another name."""
        self._source.rename_column(table, name, new_name)

    def set_default(self, table: str, column: str, default: Optional[str]) -> None:
        """Sets the default of a column for rows to come, as an expression (``"0"``, ``"'left'"``); ``None``: NULL."""
        self._source.set_default(table, column, default)

    def set_not_null(self, table: str, column: str) -> None:
        """Makes a column NOT NULL, after a look at all rows while others write."""
        self._source.set_not_null(table, column)

    def drop_not_null(self, table: str, column: str) -> None:
        """Lets a column be NULL."""
        self._source.drop_not_null(table, column)

    def add_check(self, table: str, name: str, condition: str) -> None:
        """Adds a condition that every row keeps (``"price > 0"``), after a look at all rows while others write."""
        self._source.add_constraints(table, _schema.schema(table, checks={name: condition}))

    def add_foreign_key(
        self,
        table: str,
        name: str,
        columns: Union[str, Sequence[str]],
        refers_to: str,
        *,
        references: Union[str, Sequence[str]] = (),
        on_delete: str = "restrict",
        on_update: str = "restrict",
    ) -> None:
        """Lets columns refer to rows of another table, by its primary key or the columns ``references``.

        What happens to the rows if one that they refer to is deleted or changed: ``restrict``, ``cascade`` or
        ``set null``. All rows are looked at while others write; an index is made for the columns if there is none.
        """
        found = {
            "columns": columns,
            "table": refers_to,
            "references": references,
            "on_delete": on_delete,
            "on_update": on_update,
        }
        self._source.add_constraints(table, _schema.schema(table, foreign_keys={name: found}))

    def drop_constraint(self, table: str, name: str) -> None:
        """Drops a check or a foreign key."""
        self._source.drop_constraint(table, name)

    def rename_constraint(self, table: str, name: str, new_name: str) -> None:
        """Gives an index, a check or a foreign key another name."""
        self._source.rename_constraint(table, name, new_name)

    def create_index(self, table: str, name: str, index: _schema.IndexType) -> Rows:
        """Creates an index while others write, and returns the rows in its order."""
        self._source.create_index(table, _schema.schema(table, indexes={name: index}))
        return self.table(table).index(name)

    def drop_index(self, table: str, name: str) -> None:
        """Drops an index."""
        self._source.drop_index(table, name)

    def rebuild_index(self, table: str, name: str) -> None:
        """Builds an index again from the rows, where ``quipu check`` finds it wrong. Others read and write."""
        self._source.rebuild_index(table, name)

    def load(self, table: str, stream: Any, *, on_conflict: str = "error") -> int:
        """Adds the rows of anything with an Arrow stream to a table: see ``Table.load``."""
        return self.table(table).load(stream, on_conflict=on_conflict)

    def snapshot(self) -> "Snapshot":
        """All tables at this moment, whatever their size."""
        return Snapshot(self._source.snapshot(), self.path)

    def transaction(self, isolation: str = "serializable", *, durability: Optional[str] = None) -> "Transaction":
        """Begins an optimistic transaction: ``serializable``, ``snapshot`` or ``read committed``.

        Others write meanwhile. If one of their commits changes what it relies on, its own raises ``ConflictError``.
        """
        return Transaction(self._source.transaction(isolation, durability), self.path)

    def write(self, *, durability: Optional[str] = None) -> "Transaction":
        """Waits for its turn and begins the transaction of the single writer, which never conflicts.

        Other writers wait until it ends, readers do not. The thread that has it must write through it alone.
        """
        return Transaction(self._source.writer(durability), self.path)

    def retry(self, work: Callable[["Transaction"], T], *, attempts: int = 10, isolation: str = "serializable") -> T:
        """Runs ``work`` in an optimistic transaction and commits it, again after a conflict with growing pauses.

        When the attempts are used up it runs as the single writer.
        """
        wait = _FIRST_WAIT_SECONDS
        for attempt in range(attempts):
            if attempt > 0:
                time.sleep(random.random() * wait)
                wait = min(wait * 2, _WAIT_SECONDS_MAX)
            with contextlib.suppress(ConflictError):
                with self.transaction(isolation) as transaction:
                    result = work(transaction)
                return result
        with self.write() as transaction:
            return work(transaction)

    def sql(self, text: str, *parameters: Any) -> Result:
        """Runs a statement of SQL, a transaction of its own, and returns its result.

        ``$1``, ``$2`` and so on stand for the parameters. Several statements, separated by semicolons and without
        parameters, are one transaction; the result is that of the last one. ``sql_session`` is for transactions of
        several calls.
        """
        return run(self._source, text, parameters)

    def sql_session(self, isolation: str = "read committed", *, read_only: bool = False) -> SqlSession:
        """Begins a transaction of SQL: ``read committed``, ``repeatable read`` or ``serializable``.

        As a context manager it commits at the end of its block, and rolls back at an exception.
        """
        return SqlSession(self._source, isolation, read_only)

    def backup(self, path: Path) -> int:
        """Copies the database to a directory that is empty or not there, as it is after one commit.

        Others read and write meanwhile. The copy opens as a database of its own. Returns the number of the commit.
        """
        return self._source.backup(os.fsdecode(path))

    def checkpoint(self) -> None:
        """Writes what memory holds to files, so that the next opening is fast."""
        self._source.checkpoint()

    def stats(self) -> Dict[str, Any]:
        """What the database holds.

        ``tables`` has, for each table ``t`` and index ``t.name``, its ``rows``, the number of its files on disk
        (``runs``) and their size (``run_bytes``). The other figures are bytes, and numbers of commits. ``failures`` is
        what could not be done in the background, as texts: empty if all is well. Costs a look at each table.
        """
        return self._source.stats()

    def check(self) -> List[str]:
        """What is wrong with rows, indexes and constraints, a text each: empty if nothing is. Reads all of them.

        Files are checked by ``quipu check DIR``, and mended by ``quipu check DIR --repair``.
        """
        return self._source.check()

    @contextlib.contextmanager
    def _writing(self, reader: _quipu.Reader) -> Iterator[_quipu.Reader]:
        name = reader.table_name
        with self.write() as transaction:
            yield transaction._source.table(name)


class Snapshot(_Named):
    """All tables at one moment. While it is open, rows that change are kept twice."""

    _source: _quipu.Snapshot


class Transaction(_Source):
    """A transaction. As a context manager it commits at the end, and rolls back at an exception."""

    _source: _quipu.Transaction
    __iter__ = None

    def __init__(self, source: _quipu.Transaction, path: Optional[str]) -> None:
        self._source, self.path = source, path

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._source.is_over():
            return
        try:
            if kind is None:
                self.commit()
        finally:
            # Also if a signal came while it waited to commit.
            if not self._source.is_over():
                with contextlib.suppress(Error):
                    self.rollback()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """A block of which all is undone at an exception; the transaction goes on."""
        point = self._source.savepoint()
        try:
            yield
        except BaseException:
            with contextlib.suppress(Error):
                self._source.rollback_to(point)
                self._source.release(point)
            raise
        self._source.release(point)

    @contextlib.contextmanager
    def _writing(self, reader: _quipu.Reader) -> Iterator[_quipu.Reader]:
        with self.savepoint():
            yield reader

    def commit(self) -> None:
        """Commits what it did."""
        self._source.commit()

    def rollback(self) -> None:
        """Undoes what it did."""
        self._source.rollback()
