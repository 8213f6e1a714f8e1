"""The exceptions of the package."""

from __future__ import annotations

from typing import Optional, Tuple


class Error(Exception):
    """What goes wrong in the database.

    ``kind`` says what to do next: ``exists``, ``missing``, ``conflict``, ``invalid``, ``read_only``, ``busy``,
    ``full``, ``corrupt``, ``version``, ``poisoned`` or ``io``.
    """

    kind: str = "invalid"

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
    """A Python object is no value of its column's type."""


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


def wrong_type(table: str, column: str, what: str) -> WrongTypeError:
    """The exception of an object that is no value of its column's type."""
    return WrongTypeError(f"table {table}, column {column}: {what}", "type", table, None, column)
