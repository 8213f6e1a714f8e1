"""SQL of a server: what ``connect`` gives for a URL of PostgreSQL's protocol, which the package ``psycopg`` speaks.

1. A statement of its own has a connection for itself until its rows were read. Then the connection waits for the next
   one, after a DISCARD ALL if the statement may have left something there: a setting, a lock, a table.
2. Rows of a query come while they are taken. Other statements are read to their end at once, since they have no effect
   before that.
3. A session has one connection. Before its next statement, rows that its results have not read yet come into memory.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
import weakref
from collections import deque
from typing import Any, Deque, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._errors import Error, InvalidError, of_sql
from ._sql import Result, SqlSession, run
from ._sql_talk import Part, Rows, Talk

_Row = Tuple[Any, ...]

_FORM = "a URL is postgresql://[user[:password]@]host[:port]/name, and what is special in a user or a password is %XX"
#: Connections that wait for the next statement.
_IDLE_MAX = 4
#: Rows of a batch of Arrow.
_BATCH_ROWS = 8192
#: Statements of which it is known that they store no bytes as texts.
_LOOKED_AT_MAX = 64


class _Answer:
    """What a ``Result`` reads: the rows of a statement, as ``_quipu.SqlResult`` has them."""

    def __init__(self, rows: Rows) -> None:
        self.notices = rows.notices
        self._client, self._tag, self._head = rows.talk.client, rows.tag, rows.head
        self._rows: Optional[Rows] = rows
        self._lock = threading.RLock()
        self._transformer = self._client.types.python.transformer()
        #: Whose rows the transformer has.
        self._part: Optional[Part] = None
        self._columns: Optional[List[Tuple[str, str]]] = None
        if self._head is not None and self._head.status not in self._client.without_rows:
            self._columns = [(name, self._client.column(oid, modifier, rows.talk))
                             for name, oid, modifier in self._described()]

    def _described(self) -> List[Tuple[str, int, int]]:
        head = self._head
        return [((head.fname(place) or b"").decode(), head.ftype(place), head.fmod(place))
                for place in range(head.nfields)]

    def _left(self) -> Rows:
        if self._rows is None:
            raise InvalidError("the rows of the result were handed over as an Arrow stream, or it is closed")
        return self._rows

    def _loaded(self, part: Part, first: int, end: int) -> List[_Row]:
        values = self._client.values
        if part is not self._part:
            self._transformer.set_pgresult(part.result, set_loaders=self._part is None)
            self._part = part
        return list(values.loaded(self._transformer.load_rows, first, end, tuple))

    def columns(self) -> Optional[List[Tuple[str, str]]]:
        return self._columns

    def count(self) -> Optional[int]:
        return self._left().count

    def tag(self) -> str:
        return self._tag

    def next_row(self) -> Optional[_Row]:
        row = self._fetched(1)
        return row[0] if row else None

    def fetch(self, rows: Optional[int]) -> List[_Row]:
        if rows is None:
            return self._fetched(None)
        found: List[_Row] = []
        while len(found) < rows and (some := self._fetched(rows - len(found))):
            found += some
        return found

    def _fetched(self, rows: Optional[int]) -> List[_Row]:
        """The next rows, those that have come together or some of them."""
        with self._lock:
            part = self._left().next_part()
            if part is None:
                return []
            first, part.at = part.at, part.end if rows is None else min(part.end, part.at + rows)
            return self._loaded(part, first, part.at)

    def peek(self, rows: int) -> Tuple[List[_Row], bool]:
        with self._lock:
            left = self._left()
            while left.in_memory() <= rows and left.read():
                pass
            found: List[_Row] = []
            for part in list(left.parts):
                found += self._loaded(part, part.at, min(part.end, part.at + rows - len(found)))
            return found, left.in_memory() > rows

    def stream(self) -> Any:
        """The rows as a capsule of Arrow's C stream, which has them from then on. Needs ``pyarrow``."""
        types, head = self._client.types, self._head
        importlib.import_module("pyarrow")
        arrow = importlib.import_module("._sql_arrow", __package__)
        with self._lock:
            left, self._rows = self._left(), None
        columns = []
        for place, (name, oid, modifier) in enumerate(self._described() if self._columns is not None else ()):
            columns.append(arrow.Column(name, types.type(oid), modifier, head.fformat(place)))
        self._transformer, self._part = types.arrow.transformer(), None

        def parts() -> Iterator[List[_Row]]:
            rows: List[_Row] = []
            while (part := left.next_part()) is not None:
                rows += self._loaded(part, part.at, part.end)
                part.at = part.end
                if len(rows) >= _BATCH_ROWS:
                    yield rows
                    rows = []
            if rows:
                yield rows

        return arrow.reader(columns, parts()).__arrow_c_stream__()

    def close(self) -> None:
        with self._lock:
            left, self._rows = self._rows, None
        if left is not None:
            left.close()


class _Session:
    """What an ``SqlSession`` talks by: a connection of its own."""

    def __init__(self, client: "Client", begin: str) -> None:
        self._client, talk = client, client.lend()
        talk.is_session = True
        try:
            talk.run(begin, [])
        except BaseException:
            talk.close()
            raise
        #: None once it is closed.
        self._talk: Optional[Talk] = talk

    def sql(self, text: str, parameters: Sequence[Any]) -> _Answer:
        if self._talk is None:
            raise InvalidError("the session is closed")
        if text in ("COMMIT", "ROLLBACK"):
            self._talk.forget()
        return _Answer(self._talk.run(text, parameters))

    def is_open(self) -> bool:
        return self._talk is not None and self._talk.is_open

    def close(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            if not talk.is_reading():
                talk.rollback()
            self._client.give_back(talk)


class Client:
    """Connections to a server, which statements take by turns: threads share it."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            self.psycopg: Any = importlib.import_module("psycopg")
            self.generators: Any = importlib.import_module("psycopg.generators")
        except ImportError as error:
            raise ImportError("quipu.connect needs the package psycopg: pip install 'psycopg[binary]'") from error
        self.pq = self.psycopg.pq
        self.values: Any = importlib.import_module("._sql_values", __package__)
        self.types = self.values.Types()
        self.has_parts: bool = self.psycopg.capabilities.has_stream_chunked()
        status = self.pq.ExecStatus
        self.without_rows = (status.COMMAND_OK, status.EMPTY_QUERY)
        known = {word.keyword.decode() for word in self.pq.Conninfo.get_defaults()}
        for name in options:
            if name not in known:
                raise TypeError(f"{name!r} is not an option of a connection")
        try:
            parts = self.psycopg.conninfo.conninfo_to_dict(url, **options)
        except self.psycopg.Error:
            # Its message could tell a part of the password.
            raise InvalidError(_FORM) from None
        host, port = str(parts.get("host", "localhost")), str(parts.get("port", 5432))
        name = str(parts.get("dbname", ""))
        if not re.fullmatch("[0-9,]+", port) or "@" in host + name:
            raise InvalidError(_FORM)
        self.name = f"postgresql://{f'[{host}]' if ':' in host else host}:{port}/{name}"
        own = {"client_encoding": "UTF8", "options": f"-c TimeZone=UTC {parts.get('options', '')}".strip()}
        self._conninfo = {"fallback_application_name": "quipu", **parts, **own}
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._is_closed = False
        self._idle: List[Talk] = []
        #: Statements that store no bytes as texts.
        self._looked_at: Deque[Tuple[str, Sequence[int]]] = deque(maxlen=_LOOKED_AT_MAX)
        self._all: "weakref.WeakSet[Talk]" = weakref.WeakSet()

    def is_open(self) -> bool:
        return not self._is_closed

    def lost(self, what: str) -> Error:
        """The exception of a connection that fails."""
        error = Error(f"{self.name}: {what}")
        error.kind = "io"
        return error

    def raised(self, error: Any, text: str) -> Error:
        """The exception of a statement that was refused, or of a connection that fails."""
        if not error.sqlstate:
            return self.lost(str(error).strip())
        told = error.diag
        position = int(told.statement_position) if told.statement_position else None
        more = (told.message_detail, told.message_hint, told.context, position)
        about = (told.table_name, told.column_name, told.constraint_name)
        return of_sql(error.sqlstate, None, told.message_primary or str(error), text, more, about)

    def lend(self) -> Talk:
        """A connection for a statement; ``give_back`` takes it back."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise InvalidError(f"the connection to {self.name} is closed")
                if self._process != os.getpid():
                    # Those of the process that this one was forked from are its own.
                    self._process, self._idle = os.getpid(), []
                talk = self._idle.pop() if self._idle else None
            if talk is None:
                break
            if talk.is_renewed():
                return talk
            talk.close()
        try:
            talk = Talk(self, self.psycopg.Connection.connect(autocommit=True, **self._conninfo))
        except self.psycopg.Error as error:
            raise self.raised(error, "") from error
        with self._lock:
            self._all.add(talk)
        return talk

    def give_back(self, talk: Talk) -> None:
        if talk.is_usable() and not talk.is_reading() and not self._is_closed:
            talk.renew()
            with self._lock:
                if len(self._idle) < _IDLE_MAX and not self._is_closed:
                    self._idle.append(talk)
                    return
        talk.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed, self._idle = True, []
            talks = list(self._all)
        for talk in talks:
            talk.close()

    def run(self, text: str, parameters: Sequence[Any]) -> Rows:
        """Runs the statements of a text, which are a transaction."""
        talk = self.lend()
        try:
            rows = talk.run(text, parameters)
            if talk.is_open:
                talk.rollback()
                what = "a transaction of several calls needs a session of its own; this one was rolled back"
                hint = "Write with server.sql_session() as session: session.sql(...)."
                raise of_sql("25P01", None, what, text, (None, hint, None, None), (None, None, None))
        except BaseException:
            self.give_back(talk)
            raise
        if rows.is_over:
            self.give_back(talk)
        else:
            rows.is_lent = True
        return rows

    def sql(self, text: str, parameters: Sequence[Any]) -> _Answer:
        return _Answer(self.run(text, parameters))

    def sql_session(self, begin: str) -> _Session:
        return _Session(self, begin)

    def refuse_bytes_as_text(self, text: str, words: bytes, oids: List[int]) -> None:
        """Refuses bytes that would be stored in a column of texts, as ``\\x636166``, where no cast says so."""
        if (text, oids) in self._looked_at:
            return
        talk = self.lend()
        try:
            for place, oid in enumerate(oids):
                if oid != self.values.BYTEA:
                    continue
                # No column but one that is declared so takes what is void without a cast; those of texts take
                # integers, and those of bytes do not.
                head, tail = oids[:place], oids[place + 1 :]
                refusal = talk.refusal(text, words, [*head, self.values.VOID, *tail])
                if refusal is not None and talk.refusal(text, words, [*head, self.values.INT4, *tail]) is None:
                    what = str(refusal.args[0]).splitlines()[0].replace("type void", "type bytea")
                    hint = f"Decode the bytes before, or in the statement: convert_from(${place + 1}, 'UTF8')."
                    more = (None, hint, None, refusal.position)
                    raise of_sql("42804", None, what, text, more, (None, None, None))
        finally:
            self.give_back(talk)
        self._looked_at.append((text, oids))

    def type(self, oid: int, talk: Talk) -> Any:
        """The type of this number, which is asked for if it is not known."""
        if self.types.type(oid) is None:
            self._learn(oid, -1, talk)
        return self.types.type(oid)

    def column(self, oid: int, modifier: int, talk: Talk) -> str:
        """What PostgreSQL calls the type of a column, which is asked for if it is not known."""
        if self.types.column(oid, modifier) is None:
            self._learn(oid, modifier, talk)
        return str(self.types.column(oid, modifier))

    def _learn(self, oid: int, modifier: int, talk: Talk) -> None:
        # A session may have made the type itself.
        ask = talk.run if talk.is_session and self.types.type(oid) is None else self.run
        found = _Answer(ask(self.values.QUESTION, [oid, modifier])).fetch(1)
        self.types.learn(oid, modifier, found[0] if found else None)


class SqlServer:
    """The tables of a server by SQL. As a context manager it is closed at the end, with its sessions and results.

    Threads share it: each statement that runs, each session and each result that is not read to its end has a
    connection of its own.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> "SqlServer":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<quipu.SqlServer {self._client.name}{'' if self._client.is_open() else ' (closed)'}>"

    def sql(self, text: str, *parameters: Any) -> Result:
        """Runs a statement of SQL, a transaction of its own, and returns its result: see ``Database.sql``.

        Rows of a query come while they are taken, 256 at a time. ``close`` of a result that was not read to its end
        closes its connection, and the next statement may need another.
        """
        return run(self._client, text, parameters)

    def sql_session(self, isolation: str = "read committed", *, read_only: bool = False) -> SqlSession:
        """Begins a transaction of SQL: ``read committed``, ``repeatable read`` or ``serializable``.

        As a context manager it commits at the end of its block, and rolls back at an exception. It has one connection:
        before its next statement, rows that its results have not read yet come into memory.
        """
        return SqlSession(self._client, isolation, read_only)

    def close(self) -> None:
        """Cancels what runs, and closes the connections. Closing it again does nothing."""
        self._client.close()


def connect_sql(url: str, options: Mapping[str, Any]) -> SqlServer:
    """Connects to a server by PostgreSQL's protocol: see ``connect``."""
    client = Client(url, options)
    client.give_back(client.lend())
    return SqlServer(client)
