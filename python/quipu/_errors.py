"""The exceptions of the package."""

from __future__ import annotations

from typing import List, Optional, Tuple


class Error(Exception):
    """What goes wrong in the database.

    ``kind`` says what to do next: ``exists``, ``missing``, ``conflict``, ``invalid``, ``read_only``, ``busy``,
    ``full``, ``corrupt``, ``version``, ``poisoned`` or ``io``; and of SQL ``cancelled``, for a statement that was stopped
    or ran out of time, and ``internal``, for a defect of the program.

    Those of SQL have the SQLSTATE of PostgreSQL, the ``position`` in the text, in characters from 1 on, and a
    ``detail``, a ``hint`` and a ``context``, where these are known.
    """

    kind: str = "invalid"
    sqlstate: Optional[str] = None
    position: Optional[int] = None
    detail: Optional[str] = None
    hint: Optional[str] = None
    context: Optional[str] = None

    def __str__(self) -> str:
        # A KeyError would show its message in quotes.
        return str(self.args[0]) if self.args else ""


class ConflictError(Error):
    """Another commit has changed what this transaction relies on: run it again."""

    kind = "conflict"


class MissingError(Error, KeyError):
    """There is no table, index or database of that name."""

    kind = "missing"


class ExistsError(Error):
    """There is a table or an index of that name already."""

    kind = "exists"


class InvalidError(Error, ValueError):
    """The call cannot succeed as it is: the message says what was expected."""


class CorruptError(Error):
    """A file fails its checks: keep the files, and run ``quipu check``."""

    kind = "corrupt"


class ConstraintError(Error, ValueError):
    """A row breaks a constraint of its table; nothing of the statement was done.

    ``constraint`` is ``type``, ``not_null``, ``primary_key``, ``unique``, ``check``, ``foreign_key`` or ``identity``;
    ``name`` is that of the index, the check or the foreign key, ``column`` that of the column, if it is one.
    """

    constraint: str
    table: str
    name: Optional[str]
    column: Optional[str]

    def __init__(
        self, message: str, constraint: str = "", table: str = "", name: Optional[str] = None,
        column: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.constraint, self.table, self.name, self.column = constraint, table, name, column

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.args[0], self.constraint, self.table, self.name, self.column)


class WrongTypeError(ConstraintError, TypeError):
    """A Python object is not a value of its column's type."""


_KINDS = {
    "conflict": ConflictError,
    "corrupt": CorruptError,
    "exists": ExistsError,
    "invalid": InvalidError,
    "missing": MissingError,
}


def of_engine(kind: str, message: str, broken: Optional[Tuple[str, str, Optional[str], Optional[str]]]) -> Error:
    """The exception of an error of this kind, and of the constraint that a row breaks."""
    error = ConstraintError(message, *broken) if broken is not None else _KINDS.get(kind, Error)(message)
    error.kind = kind
    return error


_STATES = {
    "22023": "invalid",
    "25006": "read_only",
    "40001": "conflict",
    "40P01": "conflict",
    "42704": "missing",
    "42P01": "missing",
    "42710": "exists",
    "42P07": "exists",
    "55P03": "busy",
    "XX001": "corrupt",
}

#: What the classes of the states are that are not named above; of all others, the call cannot succeed as it is.
_CLASSES = {"53": "full", "57": "cancelled", "58": "io", "QU": "internal", "XX": "internal"}

_CONSTRAINTS = {"23502": "not_null", "23503": "foreign_key", "23505": "unique", "23514": "check", "428C9": "identity"}


def of_sql(
    state: str,
    engine_kind: Optional[str],
    message: str,
    text: str,
    more: Tuple[Optional[str], Optional[str], Optional[str], Optional[int]],
    about: Tuple[Optional[str], Optional[str], Optional[str]],
) -> Error:
    """The exception of a statement that was refused with this SQLSTATE; ``text`` is what was run.

    ``engine_kind`` is the kind of the engine's error, if it comes from one.
    """
    detail, hint, context, position = more
    table, column, constraint = about
    lines = [message]
    if position is not None and 1 <= position <= len(text) + 1:
        lines += _place(text, position)
    named = (("DETAIL", detail), ("HINT", hint), ("CONTEXT", context))
    shown = "\n".join(lines + [f"{name}: {said}" for name, said in named if said])
    error: Error
    if state in _CONSTRAINTS:
        error = ConstraintError(shown, _CONSTRAINTS[state], table or "", constraint, column)
    else:
        kind = engine_kind or _STATES.get(state) or _CLASSES.get(state[:2], "invalid")
        error = _KINDS.get(kind, Error)(shown)
        error.kind = kind
    error.sqlstate, error.position = state, position
    error.detail, error.hint, error.context = detail, hint, context
    return error


def _place(text: str, position: int) -> List[str]:
    """The line of a position, and a mark under it."""
    before = text[: position - 1]
    start = before.rfind("\n") + 1
    line = text[start:].split("\n", 1)[0].rstrip("\r")
    head = f"LINE {before.count(chr(10)) + 1}: "
    at = position - 1 - start
    if len(line) > _LINE_CHARS:
        cut = max(0, at - _LINE_CHARS // 2)
        line, at, head = line[cut : cut + _LINE_CHARS], at - cut, head + ("..." if cut else "")
    return [head + line, " " * (len(head) + at) + "^"]


#: Characters of a long line that a message shows.
_LINE_CHARS = 72


def wrong_type(table: str, column: str, what: str) -> WrongTypeError:
    """The exception of an object that is not a value of its column's type."""
    return WrongTypeError(f"table {table}, column {column}: {what}", "type", table, None, column)
