"""A connection to a server, and the rows that come by it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Iterator, List, Optional, Sequence

from ._errors import Error, InvalidError, of_sql

if TYPE_CHECKING:
    from ._sql_server import Client

#: Rows that come together.
_PART_ROWS = 256
#: How long a close waits for a statement until it cancels that once more.
_STEP_SECONDS = 0.1

#: Comments and the like, which are found in one pass.
_BEFORE = r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*"
_QUERY = re.compile(_BEFORE + r"(?:SELECT|VALUES|TABLE|(WITH))\b", re.IGNORECASE)
_CHANGE = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_OF_ROWS = re.compile(_BEFORE + r"(?:SELECT|VALUES|TABLE|WITH|INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_LASTING = re.compile("advisory|set_config|setseed|temp", re.IGNORECASE)


def _only_reads(text: str) -> bool:
    """Whether a statement need not come to its end, and so its rows can come while they are taken."""
    query = _QUERY.match(text)
    return query is not None and (query[1] is None or _CHANGE.search(text) is None)


def _leaves_nothing(text: str) -> bool:
    """Whether a statement has no effect on its session."""
    return _OF_ROWS.match(text) is not None and _LASTING.search(text) is None


class Talk:
    """A connection, on which one statement runs at a time."""

    def __init__(self, client: "Client", connection: Any) -> None:
        self.client, self._connection, self._pgconn = client, connection, connection.pgconn
        self.is_session = False
        #: Whether the session is in a transaction; so it stays if its connection is lost.
        self.is_open = False
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._is_closed = False
        self._is_new = True
        self._text = ""
        self._notices: List[str] = []
        #: What takes the rows of the statement that has not come to its end.
        self._reader: Optional["weakref.ref[Rows]"] = None
        connection.add_notice_handler(lambda notice: self._notices.append(notice.message_primary or ""))

    def _check(self) -> None:
        if self._process != os.getpid():
            raise InvalidError(f"a session of {self.client.name} belongs to the process that began it: begin another")
        if self._is_closed:
            raise InvalidError("the session is closed")
        if self._connection.closed:
            raise self.client.lost("the connection is lost, and the transaction of the session with it")

    def _send(self) -> None:
        self._connection.wait(self.client.generators.send(self._pgconn))

    def _results(self) -> Iterator[Any]:
        """What comes for what was sent, up to its end."""
        while (result := self._connection.wait(self.client.generators.fetch(self._pgconn))) is not None:
            yield result

    def _good(self, result: Any) -> Any:
        """A result, if it is neither a failure nor a COPY."""
        status = self.client.pq.ExecStatus
        if result.status == status.FATAL_ERROR:
            error = self.client.psycopg.errors.error_from_result(result)
            for _ in self._results():
                pass
            raise error
        if result.status in (status.COPY_IN, status.COPY_OUT):
            # A COPY ends with its data, or with the connection.
            self._connection.close()
            word, hint = "COPY TO STDOUT", "Write SELECT, and take its result with arrow() or rows()."
            if result.status == status.COPY_IN:
                word, hint = "COPY FROM STDIN", "Write INSERT, with parameters."
            what, more = f"{word} is not supported here", (None, hint, None, None)
            raise of_sql("0A000", None, what, self._text, more, (None, None, None))
        return result

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Raises what goes wrong. An interrupted statement was cancelled; outside of a session, it ends for good."""
        try:
            yield
        except self.client.psycopg.Error as error:
            self._reader = None
            raise self.client.raised(error, self._text) from error
        except Error:
            self._reader = None
            raise
        except BaseException:
            self._reader = None
            if not self.is_session:
                self._connection.close()
            raise
        finally:
            states = self.client.pq.TransactionStatus
            if self._pgconn.transaction_status in (states.IDLE, states.INTRANS, states.INERROR):
                self.is_open = self._pgconn.transaction_status != states.IDLE

    def run(self, text: str, parameters: Sequence[Any]) -> "Rows":
        """Runs the statements of a text; a single one may have parameters."""
        if "\0" in text:
            raise InvalidError("a statement has no zero byte")
        words, bound = text.encode(), [self.client.values.bound(value) for value in parameters]
        with self._lock:
            self._check()
            with self._failing():
                self._keep()
                if any(value.oid == self.client.values.BYTEA for value in bound) and not _only_reads(text):
                    self.client.refuse_bytes_as_text(text, words, [value.oid for value in bound])
                self._text = text
                if any(value.elements is not None for value in bound):
                    bound = self._with_lists(words, bound)
                self._text, self._notices = text, []
                rows = Rows(self, text, self._notices)
                # A text that may have several statements is sent as one that has.
                if not bound and ";" in text.rstrip().rstrip(";"):
                    self._is_new = False
                    self._pgconn.send_query(words)
                else:
                    self._is_new = self._is_new and not self.is_session and _leaves_nothing(text)
                    values = self.client.values
                    formats = [values.BINARY if value.oid == values.BYTEA else values.TEXT for value in bound]
                    oids, data = [value.oid for value in bound], [value.data for value in bound]
                    self._pgconn.send_query_params(words, data, oids, formats, values.BINARY)
                    rows.is_in_parts = _only_reads(text)
                if rows.is_in_parts and self.client.has_parts:
                    self._pgconn.set_chunked_rows_mode(_PART_ROWS)
                elif rows.is_in_parts:
                    self._pgconn.set_single_row_mode()
                self._send()
                self._reader = weakref.ref(rows)
                while self._reader is not None and rows.in_memory() < _PART_ROWS:
                    self._read(rows)
            return rows

    def _with_lists(self, words: bytes, bound: Sequence[Any]) -> List[Any]:
        """The parameters of a statement, with lists as what it takes them for, which it is asked."""
        text = self._text
        self._pgconn.send_prepare(b"", words, [value.oid for value in bound])
        self._described()
        self._pgconn.send_describe_prepared(b"")
        described = self._described()
        oids = [described.param_type(place) for place in range(described.nparams)]
        found: List[Any] = []
        for place, value in enumerate(bound):
            if value.elements is not None and place < len(oids):
                told = self.client.type(oids[place], self)
                data = self.client.values.bound_list(value.elements, told, place + 1, text)
                value = self.client.values.Bound(oids[place], data)
            found.append(value)
        return found

    def refusal(self, text: str, words: bytes, oids: Sequence[int]) -> Optional[Error]:
        """Why a statement does not take parameters of these types; None if it does, or is wrong in another way."""
        with self._lock, contextlib.suppress(Error), self._failing():
            self._text = text
            self._pgconn.send_prepare(b"", words, oids)
            try:
                self._described()
            except self.client.psycopg.errors.DatatypeMismatch as error:
                return self.client.raised(error, text)
        return None

    def _described(self) -> Any:
        self._send()
        (result,) = [self._good(result) for result in self._results()]
        return result

    def _read(self, rows: Optional["Rows"]) -> None:
        """Takes what comes next of the statement that runs: some rows, or all up to its end."""
        status = self.client.pq.ExecStatus
        for result in self._results():
            self._good(result)
            is_part = result.status in (status.SINGLE_TUPLE, status.TUPLES_CHUNK)
            if rows is not None:
                rows.take(result)
            if is_part:
                return
        self._reader = None
        if rows is not None:
            rows.end()

    def _keep(self) -> None:
        """Reads the statement before to its end: rows of a result that is read on come into memory."""
        while self._reader is not None:
            self._read(self._reader())
        if self._pgconn.transaction_status == self.client.pq.TransactionStatus.ACTIVE:
            # It was interrupted.
            for _ in self._results():
                pass

    def read(self, rows: "Rows") -> bool:
        """Reads rows that follow. Returns whether there may be some."""
        with self._lock:
            if self._reader is None or self._reader() is not rows:
                return False
            self._check()
            with self._failing():
                self._read(rows)
            return True

    def forget(self) -> None:
        """Lets go of the results before, whose rows come into memory no more."""
        with self._lock:
            rows = None if self._reader is None else self._reader()
            if rows is not None:
                rows.is_closed = True

    def is_reading(self) -> bool:
        return self._reader is not None

    def rollback(self) -> None:
        """Ends the transaction, if it is in one."""
        if self.is_open:
            with contextlib.suppress(Error):
                self.run("ROLLBACK", [])

    def is_usable(self) -> bool:
        """Whether it can run a statement."""
        return self._process == os.getpid() and not self._connection.closed and not self.is_open

    def renew(self) -> None:
        """Gives back what a session has, if it may have something, without a wait for it."""
        with self._lock, contextlib.suppress(self.client.psycopg.Error):
            if self._is_new:
                return
            self.is_session, self._is_new = False, True
            self._pgconn.send_query(b"DISCARD ALL")
            self._send()

    def is_renewed(self) -> bool:
        """Whether it is as new, and the server is still there."""
        with self._lock, contextlib.suppress(self.client.psycopg.Error):
            for result in self._results():
                self._good(result)
            # The first has what the server has said last, the second that it is gone.
            self._pgconn.consume_input()
            self._pgconn.consume_input()
            return self.is_usable()
        return False

    def close(self) -> None:
        """Cancels what it runs, and closes it. Again, and in a process that was forked, it does nothing."""
        if self._process != os.getpid():
            return
        while not self._lock.acquire(timeout=_STEP_SECONDS):
            with contextlib.suppress(self.client.psycopg.Error):
                self._connection.cancel_safe(timeout=_STEP_SECONDS)
        try:
            self._is_closed, self.is_open, self._reader = True, False, None
            self._connection.close()
        finally:
            self._lock.release()


class Part:
    """Rows that have come together, from one on."""

    def __init__(self, result: Any) -> None:
        self.result, self.at, self.end = result, 0, int(result.ntuples)


class Rows:
    """The rows of a result that were not taken yet."""

    def __init__(self, talk: Talk, text: str, notices: List[str]) -> None:
        self.talk, self.text, self.notices = talk, text, notices
        self.parts: Deque[Part] = deque()
        #: The first that has come of the last statement: it knows the columns.
        self.head: Any = None
        self.tag = ""
        self.count: Optional[int] = None
        self.is_in_parts = self.is_lent = self.is_over = self.is_closed = self.is_cut = False
        self._seen = 0

    def take(self, result: Any) -> None:
        """Takes some rows, or the end of a statement, or both."""
        if self.head is None or not self.is_in_parts:
            self.parts.clear()
            self.head, self.tag, self._seen = result, "", 0
        # It may come with the last rows, before the end.
        self.tag = (result.command_status or b"").decode() or self.tag
        self._seen += result.ntuples
        if self.is_closed:
            self.is_cut = self.is_cut or result.ntuples > 0
        elif result.ntuples > 0:
            self.parts.append(Part(result))

    def end(self) -> None:
        """Notes that no rows follow."""
        count = self.tag.rpartition(" ")[2]
        self.count = self._seen if self.tag.startswith("SELECT ") else int(count) if count.isdigit() else None
        self.is_over = True
        self._give_back()

    def _give_back(self) -> None:
        if self.is_lent:
            self.is_lent = False
            self.talk.client.give_back(self.talk)

    def in_memory(self) -> int:
        return sum(part.end - part.at for part in list(self.parts))

    def read(self) -> bool:
        """Reads some that follow. Returns whether there may be some."""
        if self.is_over and not self.is_cut:
            return False
        try:
            # They may have come meanwhile.
            if not self.talk.read(self) and (self.is_cut or not self.is_over):
                raise InvalidError("the result is closed, or its session, and the rows that follow with it")
        except Error:
            self._give_back()
            raise
        return True

    def next_part(self) -> Optional[Part]:
        """What has the next row, which is read if it has not come yet."""
        while True:
            while self.parts and self.parts[0].at == self.parts[0].end:
                self.parts.popleft()
            if self.parts or not self.read():
                return self.parts[0] if self.parts else None

    def close(self) -> None:
        self.is_closed = True
        self.parts.clear()
        if self.is_lent and not self.is_over:
            # The server has no other way to stop, and its other rows would all have to come.
            self.is_lent = False
            self.talk.close()

    def __del__(self) -> None:
        self.close()
