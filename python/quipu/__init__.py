"""Quipu: an ordered, durable, transactional database in which every tree is counted.

``open`` gives a ``Database``, whose tables count, rank and slice their rows by position in logarithmic time;
``connect`` a ``Server``, whose keys do, or an ``SqlServer``, whose tables are asked by SQL.
"""

from ._database import Database, Snapshot, Transaction, open
from ._errors import (
    ConflictError,
    ConstraintError,
    CorruptError,
    Error,
    ExistsError,
    InvalidError,
    MissingError,
    WrongTypeError,
)
from ._partition import Partition, close_readers
from ._quipu import VERSION as __version__
from ._rows import Group, Page, Rows, Table
from ._server import Server, ServerPartition, ServerPartitions, ServerRows, connect
from ._sql import Column, Result, SqlSession
from ._sql_server import SqlServer

for _error in (
    ConflictError,
    ConstraintError,
    CorruptError,
    Error,
    ExistsError,
    InvalidError,
    MissingError,
    WrongTypeError,
):
    _error.__module__ = __name__

__all__ = [
    "Column",
    "ConflictError",
    "ConstraintError",
    "CorruptError",
    "Database",
    "Error",
    "ExistsError",
    "Group",
    "InvalidError",
    "MissingError",
    "Page",
    "Partition",
    "Result",
    "Rows",
    "Server",
    "ServerPartition",
    "ServerPartitions",
    "ServerRows",
    "Snapshot",
    "SqlServer",
    "SqlSession",
    "Table",
    "Transaction",
    "WrongTypeError",
    "__version__",
    "close_readers",
    "connect",
    "open",
]
