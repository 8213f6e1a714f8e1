"""Schemas of tables as Python writes them, and as the JSON that the database takes."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _types

#: A type by its name (``"i64"``, ``"text not null"``), a type of Python, NumPy, pandas or Arrow, or all that a column
#: can have.
ColumnType = Any
#: Columns by their names, each a ``ColumnType``: of a dict of several kinds a checker infers ``object``.
Columns = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]
#: The columns of an index, or all that it can have.
IndexType = Union[str, Sequence[str], Mapping[str, Any]]
#: Indexes by their names, each an ``IndexType``.
Indexes = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]

_NOT_NULL = " not null"


def column(name: str, given: ColumnType) -> Dict[str, Any]:
    """A column as a schema in JSON has it."""
    if isinstance(given, Mapping):
        more = dict(given)
        return {**(column(name, more.pop("type")) if "type" in more else {"name": name}), **more}
    if not isinstance(given, str):
        return {"name": name, "type": _types.of_type(name, given)}
    is_not_null = given.lower().endswith(_NOT_NULL)
    return {
        "name": name,
        "type": _types.of_name(name, given[: -len(_NOT_NULL)] if is_not_null else given),
        "not_null": is_not_null,
    }


def index(name: str, given: IndexType) -> Dict[str, Any]:
    """An index as a schema in JSON has it."""
    return {"name": name, **(_with_lists(given) if isinstance(given, Mapping) else {"columns": names(given)})}


#: What an index or a foreign key has lists of names for.
_LISTS = ("columns", "include", "references")


def _with_lists(given: Mapping[str, Any]) -> Dict[str, Any]:
    """An index or a foreign key in which one name may stand for a list of it."""
    return {field: names(value) if field in _LISTS else value for field, value in given.items()}


def names(given: Union[str, Sequence[str]]) -> List[str]:
    """One name, or a list of them."""
    return [given] if isinstance(given, str) else list(given)


def schema(
    table: str,
    columns: Columns = (),
    key: Union[str, Sequence[str], None] = None,
    indexes: Optional[Indexes] = None,
    **more: Any,
) -> str:
    """A schema in JSON."""
    if isinstance(columns, Mapping):
        columns = [column(name, given) for name, given in columns.items()]
    if isinstance(indexes, Mapping):
        indexes = [index(name, given) for name, given in indexes.items()]
    elif indexes is not None:
        indexes = [_with_lists(given) for given in indexes]
    found: Dict[str, Any] = {"table": table, "columns": list(columns)}
    if key is not None:
        found["key"] = names(key)
    if indexes is not None:
        found["indexes"] = indexes
    foreign_keys = more.pop("foreign_keys", None)
    if foreign_keys is not None:
        more["foreign_keys"] = [_with_lists(given) for given in foreign_keys]
    checks = more.pop("checks", None)
    if isinstance(checks, Mapping):
        checks = [{"name": name, "condition": condition} for name, condition in checks.items()]
    found.update({name: value for name, value in {"checks": checks, **more}.items() if value is not None})
    return json.dumps(found)
