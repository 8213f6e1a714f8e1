"""The ordered keys of a server, in this process and in parts that go to others."""

from __future__ import annotations

import contextlib
import importlib
import numbers
import operator
import pickle
import threading
import urllib.parse
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, overload

from ._errors import Error, InvalidError
from ._rows import _ENDS, row_at
from ._sql_server import connect_sql

#: A key and its string; None where the key holds no string but a collection.
ServerRow = Tuple[bytes, Optional[bytes]]
#: A key; of a str, its UTF-8.
Key = Union[bytes, bytearray, memoryview, str]
_Word = Union[bytes, str, int]
_End = Optional[Tuple[bytes, bool]]

#: What one request reads at most: rows, and bytes if the rows are of the mean length.
_CHUNK_ROWS, _CHUNK_BYTES = 10_000, 8 << 20
_COMMANDS_TOGETHER = 1000
_SECONDS = 600
_OFFSET_END = 2**63
_ENDED = "the snapshot has ended, by its time or by close(); ask for more seconds"


class _Range(NamedTuple):
    """A range of keys: each end is a key and whether it belongs to the range, or None."""

    start: _End = None
    end: _End = None

    def words(self) -> Tuple[bytes, bytes]:
        """How commands name it."""
        start, end = (
            open_end if end is None else (b"[" if end[1] else b"(") + end[0]
            for open_end, end in ((b"-", self.start), (b"+", self.end))
        )
        return start, end

    def after(self, start: _End) -> "_Range":
        """What lies in it from ``start`` on."""
        starts = [end for end in (self.start, start) if end is not None]
        return self._replace(start=max(starts, key=lambda end: (end[0], not end[1]), default=None))

    def before(self, end: _End) -> "_Range":
        """What lies in it up to ``end``."""
        ends = [end for end in (self.end, end) if end is not None]
        return self._replace(end=min(ends, default=None))

    def within(self, word: str, key: Key) -> "_Range":
        """What lies in it and keeps to ``word``, an end as tables have them."""
        if word not in _ENDS:
            raise TypeError(f"{word!r} is not an end of a range; there are {', '.join(_ENDS)}")
        given = _key(key)
        if word == "eq":
            return self.after((given, True)).before((given, True))
        if word == "starts_with":
            # The first key behind all that start so is one byte shorter or more, if the last bytes are the highest.
            head = given.rstrip(b"\xff")
            behind = (head[:-1] + bytes([head[-1] + 1]), False) if head else None
            return self.after((given, True)).before(behind)
        is_inside = word in ("ge", "le")
        return self.after((given, is_inside)) if word in ("ge", "gt") else self.before((given, is_inside))


class _Tally(NamedTuple):
    """How much a range holds, and a hash of it."""

    rows: int
    size: int
    content: bytes


class _Moment(NamedTuple):
    """A snapshot of a server, with the tally of a range.

    The numbers of a server begin anywhere each time it starts, so that of another process is next to never met; the
    tally tells even then.
    """

    number: int
    range: _Range
    tally: _Tally


def _key(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    raise TypeError(f"a key is bytes or str, not {type(key).__name__}")


def _parts(parts: int) -> int:
    number = operator.index(parts)
    if number < 1:
        raise InvalidError(f"a range is split into one part or more, not {number}")
    return number


def _tally_of(answer: Any) -> _Tally:
    # A map, which the older protocol has as a flat array.
    parts = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2]))
    return _Tally(parts[b"rows"], parts[b"bytes"], parts[b"hash"])


def _rows_of(answer: Any) -> List[ServerRow]:
    if answer and isinstance(answer[0], list):
        return [(key, value) for key, value in answer]
    return list(zip(answer[::2], answer[1::2]))


class _Client:
    """A connection to a server, or some: threads share it."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            self._redis = importlib.import_module("redis")
        except ImportError as error:
            raise ImportError("quipu.connect needs the package redis: pip install redis hiredis") from error
        if not isinstance(url, str):
            raise TypeError(f"the URL of a server is a str, not {type(url).__name__}")
        self.url, self.options = url, dict(options)
        try:
            parts = urllib.parse.urlsplit(url)
            found = self._redis.Redis.from_url(url, **{"protocol": 2, **options})
        except ValueError:
            # Its message could tell a part of the password.
            raise InvalidError(
                "a URL is redis://[user:password@]host:port[/database], rediss:// with TLS, unix://path, or "
                "postgresql://[user[:password]@]host:port/name for SQL, and what is special in a user or a password is "
                "written as %XX"
            ) from None
        if found.connection_pool.connection_kwargs.get("decode_responses"):
            raise InvalidError("decode_responses cannot be set: keys and values are bytes")
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._open: Any = found

    def close(self) -> None:
        found, self._open = self._open, None
        if found is not None:
            found.close()

    def ask(self, commands: Sequence[Sequence[_Word]]) -> List[Any]:
        """The answers to commands that are sent together."""
        if self._open is None:
            raise InvalidError(f"the connection to {self.name} is closed")
        pipeline = self._open.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words)
        try:
            answers: List[Any] = pipeline.execute(raise_on_error=False)
        except self._redis.RedisError as error:
            raise self._raised(error) from error
        for answer in answers:
            if isinstance(answer, Exception):
                raise self._raised(answer) from answer
        return answers

    def _raised(self, error: Exception) -> Error:
        text = str(error)
        if not isinstance(error, self._redis.ResponseError):
            raised = Error(f"{self.name}: {text}")
            raised.kind = "io"
            return raised
        if "unknown command" in text:
            return InvalidError(f"{self.name} is not a Quipu server: it does not know the commands Q.*")
        return InvalidError(_ENDED if "there is no snapshot" in text else f"{self.name}: {text}")

    def require_quipu(self) -> None:
        """Fails if there is no server, or one of another kind."""
        try:
            self.ask([("Q.COUNT",)])
        except InvalidError as error:
            # A user may have rights to some keys only.
            if not isinstance(error.__cause__, self._redis.exceptions.NoPermissionError):
                raise

    def take(self, keys: _Range, seconds: int) -> _Moment:
        """Takes a snapshot to read these keys."""
        if operator.index(seconds) < 1:
            raise InvalidError(f"a snapshot lives for a second or more, not {seconds}")
        (number,) = self.ask([("Q.SNAPSHOT", "SECONDS", operator.index(seconds))])
        try:
            (tally,) = self.ask([("Q.AT", number, "Q.TALLY", *keys.words())])
        except BaseException:
            self._release(number)
            raise
        return _Moment(number, keys, _tally_of(tally))

    def ask_at(self, moment: _Moment, commands: Sequence[Sequence[_Word]]) -> List[Any]:
        """The answers to commands that read a snapshot. Fails if it has ended."""
        every = [("Q.TALLY", *moment.range.words()), *commands]
        tally, *answers = self.ask([("Q.AT", moment.number, *words) for words in every])
        if _tally_of(tally) != moment.tally:
            raise InvalidError(_ENDED)
        return answers

    def release(self, moment: _Moment) -> None:
        """Ends a snapshot, if it has not ended."""
        with contextlib.suppress(InvalidError):
            self.ask_at(moment, [])
            self._release(moment.number)

    def _release(self, number: int) -> None:
        with contextlib.suppress(Error):
            self.ask([("Q.RELEASE", number)])


_lock = threading.Lock()
_clients: Dict[bytes, _Client] = {}


def _client_of(url: str, options: Mapping[str, Any]) -> _Client:
    """The connection by which this process reads the partitions of a server."""
    name = pickle.dumps((url, options))
    with _lock:
        found = _clients.get(name)
        if found is None:
            found = _clients[name] = _Client(url, options)
        return found


def close_clients() -> None:
    """Closes the connections by which partitions were read."""
    with _lock:
        for client in _clients.values():
            client.close()
        _clients.clear()


class ServerRows:
    """Keys of a server in their order, with their values, read when they are asked for. Nothing is loaded.

    A row is a tuple of a key and its value, both ``bytes``. The value is None if the key holds no string.

    They have what lists have: ``len``, positions, slices that go forward, iteration from either end. Ranges are said by
    ``eq``, ``ge``, ``gt``, ``le``, ``lt`` and ``starts_with``, each a key: ``bytes``, or a ``str`` for its UTF-8.
    """

    def __init__(self, client: _Client, keys: _Range, moment: Optional[_Moment] = None) -> None:
        self._client, self._keys, self._moment = client, keys, moment

    def _ask(self, *commands: Sequence[_Word]) -> List[Any]:
        return self._client.ask(commands) if self._moment is None else self._client.ask_at(self._moment, commands)

    def _within(self, ends: Mapping[str, Key], start: Optional[Key] = None, end: Optional[Key] = None) -> _Range:
        keys = self._keys
        for word, key in (("ge", start), ("lt", end)):
            if key is not None:
                keys = keys.within(word, key)
        for word, key in ends.items():
            keys = keys.within(word, key)
        return keys

    def _count(self, keys: _Range) -> int:
        (rows,) = self._ask(("Q.COUNT", *keys.words()))
        return int(rows)

    def _pages(self, pages: Sequence[Tuple[_Range, int, int, bool]]) -> List[List[ServerRow]]:
        """For each range, its rows from an offset on, up to a limit, from its end if that is said."""
        commands: List[List[_Word]] = []
        for keys, offset, limit, is_reverse in pages:
            start, end = keys.words()
            commands.append(["Q.RANGE", start, end, "OFFSET", offset, "LIMIT", limit, "WITHVALUES"])
            commands[-1] += ["REV"] if is_reverse else []
        return [_rows_of(answer) for answer in self._ask(*commands)]

    @contextlib.contextmanager
    def _frozen(self) -> Iterator["ServerRows"]:
        """These rows at this moment."""
        if self._moment is not None:
            yield self
            return
        moment = self._client.take(self._keys, _SECONDS)
        try:
            yield ServerRows(self._client, self._keys, moment)
        finally:
            with contextlib.suppress(Error):
                self._client.release(moment)

    def _chunks(self, is_reverse: bool) -> Iterator[List[ServerRow]]:
        with self._frozen() as rows:
            keys = self._keys
            (answer,) = rows._ask(("Q.TALLY", *keys.words()))
            tally = _tally_of(answer)
            left = tally.rows
            limit = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES * tally.rows // max(tally.size, 1)))
            while left > 0:
                (chunk,) = rows._pages([(keys, 0, limit, is_reverse)])
                yield chunk
                left -= len(chunk)
                behind = (chunk[-1][0], False)
                keys = keys.before(behind) if is_reverse else keys.after(behind)

    def range(self, start: Optional[Key] = None, end: Optional[Key] = None, **ends: Key) -> "ServerRows":
        """The rows from ``start`` on that are before ``end``, in which the other ends hold too."""
        return ServerRows(self._client, self._within(ends, start, end), self._moment)

    def count(self, start: Optional[Key] = None, end: Optional[Key] = None, **ends: Key) -> int:
        """The number of rows in a range, as ``range`` has it: one descent or two."""
        return self._count(self._within(ends, start, end))

    def __len__(self) -> int:
        return self._count(self._keys)

    def __contains__(self, key: Key) -> bool:
        return self._count(self._keys.within("eq", key)) > 0

    @overload
    def __getitem__(self, place: int) -> ServerRow: ...

    @overload
    def __getitem__(self, place: slice) -> List[ServerRow]: ...

    def __getitem__(self, place: Union[int, slice]) -> Union[ServerRow, List[ServerRow]]:
        """The row at a position, or the rows of a slice, all of one moment. The step of a slice is 1 or more."""
        if isinstance(place, slice):
            return self._slice(place)
        return row_at(place, self.nth)

    def _slice(self, place: slice) -> List[ServerRow]:
        step = 1 if place.step is None else operator.index(place.step)
        if step == 0:
            raise ValueError("slice step cannot be zero")
        if step < 0:
            raise InvalidError(f"rows of a server are sliced forward: the step is 1 or more, not {step}")
        start = 0 if place.start is None else operator.index(place.start)
        # Without a stop, it lies behind all rows: 0 if places are counted from there.
        stop = (0 if start < 0 else _OFFSET_END) if place.stop is None else operator.index(place.stop)
        if step == 1 and 0 <= start and (place.stop is None or 0 <= stop):
            return self._page(start, stop, False)
        if step == 1 and start < 0 and (place.stop is None or stop < 0):
            return self._page(-stop, -start, True)[::-1]
        with self._frozen() as rows:
            places = range(*place.indices(len(rows)))
            if step == 1:
                return rows._page(places.start, places.stop, False)
            found: List[ServerRow] = []
            for first in range(0, len(places), _COMMANDS_TOGETHER):
                some = places[first : first + _COMMANDS_TOGETHER]
                for page in rows._pages([(self._keys, place, 1, False) for place in some]):
                    found += page
            return found

    def _page(self, start: int, stop: int, is_reverse: bool) -> List[ServerRow]:
        limit = min(stop, _OFFSET_END - 1) - start
        return self._pages([(self._keys, start, limit, is_reverse)])[0] if limit > 0 else []

    def nth(self, place: int, **ends: Key) -> Optional[ServerRow]:
        """The row at a position of a range, counted from the end if it is negative; None past the ends."""
        place = operator.index(place)
        offset = place if place >= 0 else -place - 1
        if offset >= _OFFSET_END:
            return None
        (rows,) = self._pages([(self._within(ends), offset, 1, place < 0)])
        return rows[0] if rows else None

    def rank(self, key: Key) -> int:
        """The number of rows before a key, whether or not there is such a key."""
        return self._count(self._keys.within("lt", key))

    def quantile(self, q: float, **ends: Key) -> Optional[bytes]:
        """The key at a quantile of a range, from 0 to 1; None of an empty range."""
        if not isinstance(q, numbers.Real):
            raise TypeError(f"a quantile is a number, not {type(q).__name__}")
        if not 0 <= q <= 1:
            raise InvalidError(f"a quantile is a number from 0 to 1, not {q}")
        ((key,),) = self._ask(("Q.QUANTILE", *self._within(ends).words(), repr(float(q))))
        found: Optional[bytes] = key
        return found

    def _split(self, keys: _Range, parts: int) -> List[_Range]:
        (cuts,) = self._ask(("Q.SPLIT", *keys.words(), _parts(parts)))
        starts, ends = [(cut, True) for cut in cuts], [(cut, False) for cut in cuts]
        return [_Range(start, end) for start, end in zip([keys.start, *starts], [*ends, keys.end])]

    def split(self, parts: int, **ends: Key) -> List["ServerRows"]:
        """A range cut into parts of equal counts, to within one row; fewer parts if there are fewer rows."""
        pieces = self._split(self._within(ends), parts)
        return [ServerRows(self._client, keys, self._moment) for keys in pieces]

    def __iter__(self) -> Iterator[ServerRow]:
        """The rows of the moment when the first is read, some at a time, from a snapshot that lives for ten minutes."""
        return (row for chunk in self._chunks(False) for row in chunk)

    def __reversed__(self) -> Iterator[ServerRow]:
        return (row for chunk in self._chunks(True) for row in chunk)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The rows as a ``pyarrow.RecordBatchReader`` with the binary columns ``key`` and ``value``."""
        import pyarrow

        binary = pyarrow.binary()
        schema = pyarrow.schema([pyarrow.field("key", binary, nullable=False), pyarrow.field("value", binary)])

        def batches() -> Iterator[Any]:
            for chunk in self._chunks(False):
                columns = [pyarrow.array(column, binary) for column in zip(*chunk)]
                # A table takes columns of more than 2 GiB, which are several arrays.
                yield from pyarrow.Table.from_arrays(columns, schema=schema).to_batches()

        return pyarrow.RecordBatchReader.from_batches(schema, batches())

    def partitions(self, parts: int, *, seconds: int = _SECONDS, **ends: Key) -> "ServerPartitions":
        """The rows in ``parts`` parts of equal counts that can be pickled and read side by side, all of one moment.

        They read a snapshot that the server keeps for so many seconds, a day at most, or until they are closed. There
        are fewer parts if there are fewer rows.
        """
        if self._moment is not None:
            raise InvalidError("these rows are those of a partition already; split() cuts them")
        _parts(parts)
        client, keys = self._client, self._within(ends)
        moment = client.take(keys, seconds)
        try:
            frozen = ServerRows(client, keys, moment)
            pieces = frozen._split(keys, parts)
            counts: List[int] = []
            for first in range(0, len(pieces), _COMMANDS_TOGETHER):
                some = pieces[first : first + _COMMANDS_TOGETHER]
                counts += frozen._ask(*(("Q.COUNT", *piece.words()) for piece in some))
            return ServerPartitions(client, moment, pieces, counts)
        except BaseException:
            client.release(moment)
            raise


class ServerPartition:
    """A part of the keys of a server, with an exact number of rows.

    It reads its snapshot, whatever is written meanwhile, by a connection of the process that reads it. So it has the
    URL and the options of ``connect``, the password in them included.
    """

    url: str
    count: int

    def __init__(self, client: _Client, moment: _Moment, keys: _Range, count: int) -> None:
        self.url, self.count = client.url, count
        self._options, self._name, self._moment, self._keys = client.options, client.name, moment, keys

    def __repr__(self) -> str:
        return f"<quipu.ServerPartition of {self._name}: {self.count} rows>"

    def rows(self) -> ServerRows:
        """The rows."""
        return ServerRows(_client_of(self.url, self._options), self._keys, self._moment)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[ServerRow]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.rows().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The rows as a ``pyarrow.RecordBatchReader`` with the binary columns ``key`` and ``value``."""
        return self.rows().to_arrow()

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``."""
        return self.to_arrow().read_pandas()


class ServerPartitions(List[ServerPartition]):
    """A list of partitions of one snapshot. As a context manager it releases the snapshot at the end."""

    def __init__(
        self, client: _Client, moment: _Moment, pieces: Sequence[_Range], counts: Sequence[int]
    ) -> None:
        super().__init__(ServerPartition(client, moment, keys, count) for keys, count in zip(pieces, counts))
        self._url, self._options, self._moment = client.url, client.options, moment

    def __enter__(self) -> "ServerPartitions":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the snapshot: the server forgets it, and no partition reads any more. Again, it does nothing."""
        _client_of(self._url, self._options).release(self._moment)


class Server(ServerRows):
    """The keys of a database of a server, in their order. As a context manager it is closed at the end."""

    def __init__(self, client: _Client) -> None:
        super().__init__(client, _Range())

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<quipu.Server {self._client.name}>"

    def close(self) -> None:
        """Closes the connection. Partitions have their own. Closing it again does nothing."""
        self._client.close()


def connect(url: str, **options: Any) -> Any:
    """Connects to a server, ``quipu serve``.

    ``redis://[user:password@]host:port[/database]``, ``rediss://`` with TLS, or ``unix://path`` gives a ``Server``, its
    keys, by the package ``redis``. Options are those of ``redis.Redis.from_url``, such as ``socket_timeout`` and
    ``ssl_ca_certs``.

    ``postgresql://[user[:password]@]host:port/name`` (or ``postgres://``) gives an ``SqlServer``, its tables by SQL, by
    the package ``psycopg``. Options are those of PostgreSQL's clients, such as ``connect_timeout``, ``sslmode`` and
    ``sslrootcert``, in the URL or beside it.
    """
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        return connect_sql(url, options)
    client = _Client(url, options)
    try:
        client.require_quipu()
    except BaseException:
        client.close()
        raise
    return Server(client)
