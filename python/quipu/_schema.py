"""Schemas of tables as Python writes them, and as the JSON that the database takes."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _types
from ._errors import InvalidError

#: A type by its name (``"i64"``, ``"text not null"``), a type of Python, NumPy, pandas or Arrow, or all that a column
#: can have.
ColumnType = Any
#: Columns by their names, each a ``ColumnType``: of a dict of several kinds a checker infers ``object``. Or the columns
#: as a schema in JSON has them, or a schema or fields of Arrow.
Columns = Union[Mapping[str, Any], Iterable[Any]]
#: The columns of an index, or all that it can have.
IndexType = Union[str, Sequence[str], Mapping[str, Any]]
#: Indexes by their names, each an ``IndexType``.
Indexes = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]

_NOT_NULL = " not null"


#: Of an option that is a name, or a list of names.
_NAMES = "names"
#: The options of the parts of a schema, and what they are: a type, names, or one of some words.
_COLUMN_OPTIONS: Dict[str, Any] = {
    "type": str,
    "not_null": bool,
    "default": str,
    "identity": ("always", "by_default"),
    "hidden": bool,
    "generated": str,
    "sql_type": str,
    "sql_collation": str,
    "sql_default": str,
}
_DEFERRALS = ("never", "on_demand", "deferred")
_INDEX_OPTIONS: Dict[str, Any] = {
    "columns": _NAMES,
    "unique": bool,
    "nulls_equal": bool,
    "include": _NAMES,
    "where": str,
    "sum": str,
    "deferral": _DEFERRALS,
    "constraint": bool,
    "primary": bool,
    "sql_order": _NAMES,
}
_CHECK_OPTIONS: Dict[str, Any] = {"condition": str}
_ACTIONS = ("restrict", "restrict_at_once", "cascade", "set_null")
_FOREIGN_KEY_OPTIONS: Dict[str, Any] = {
    "columns": _NAMES,
    "table": str,
    "references": _NAMES,
    "on_delete": _ACTIONS,
    "on_update": _ACTIONS,
    "deferral": _DEFERRALS,
}
#: The first ones are checked part by part.
_TABLE_OPTIONS: Dict[str, Any] = {
    **dict.fromkeys(["columns", "key", "indexes", "checks", "foreign_keys"]),
    "sum": str,
    "comment": str,
    "in_memory": bool,
    "compressed": bool,
    "key_name": str,
}


def _value(what: str, option: str, value: Any, kind: Any) -> Any:
    """The value of an option, if it is one of this kind."""
    if kind == _NAMES:
        given = names(value) if isinstance(value, Iterable) else [value]
        if all(isinstance(name, str) for name in given):
            return given
        expected = "a name or a list of names"
    elif isinstance(kind, tuple):
        word = value.replace(" ", "_") if isinstance(value, str) else value
        if word in kind:
            return word
        expected = f"one of {', '.join(map(repr, kind))}"
    else:
        if isinstance(value, kind):
            return value
        expected = {str: "a str", bool: "True or False"}[kind]
    example = ", such as '0' or \"'left'\"" if option == "default" else ""
    raise InvalidError(f"{what}: {option} is {expected}{example}, not {value!r}")


def _checked(
    what: str, given: Mapping[str, Any], options: Mapping[str, Any], needed: Sequence[str] = ()
) -> Dict[str, Any]:
    """The options that are given; one that is None is left out."""
    found = {}
    for option, value in given.items():
        if option not in options:
            raise InvalidError(f"{what}: {option!r} is not an option; it takes {', '.join(options)}")
        if value is not None:
            found[option] = _value(what, option, value, options[option])
    for option in needed:
        if option not in found:
            raise InvalidError(f"{what}: {option} is not given; it takes {', '.join(options)}")
    return found


def column(name: str, given: ColumnType) -> Dict[str, Any]:
    """A column as a schema in JSON has it, and its ``length_max``, if its type has one."""
    if isinstance(given, Mapping):
        more = dict(given)
        told = column(name, more.pop("type")) if more.get("type") is not None else {"name": name}
        if "type" not in told:
            raise InvalidError(f"column {name}: type is not given; it takes {', '.join(_COLUMN_OPTIONS)}")
        return {**told, **_checked(f"column {name}", more, _COLUMN_OPTIONS)}
    if not isinstance(given, str):
        return {"name": name, "type": _types.of_type(name, given)}
    is_not_null = given.lower().endswith(_NOT_NULL)
    type_name = given[: -len(_NOT_NULL)] if is_not_null else given
    length = _types.length_max(type_name)
    limited = {} if length is None else {"sql_type": f"character varying({length})", "length_max": length}
    return {"name": name, "type": _types.of_name(name, type_name), "not_null": is_not_null, **limited}


def index(name: str, given: IndexType) -> Dict[str, Any]:
    """An index as a schema in JSON has it."""
    options = given if isinstance(given, Mapping) else {"columns": given}
    return {"name": name, **_checked(f"index {name}", options, _INDEX_OPTIONS, ["columns"])}


def _check(name: str, given: Any) -> Dict[str, Any]:
    options = given if isinstance(given, Mapping) else {"condition": given}
    return {"name": name, **_checked(f"check {name}", options, _CHECK_OPTIONS, ["condition"])}


def _foreign_key(name: str, given: Mapping[str, Any]) -> Dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidError(f"foreign key {name} is a dict of {', '.join(_FOREIGN_KEY_OPTIONS)}, not {given!r}")
    return {"name": name, **_checked(f"foreign key {name}", given, _FOREIGN_KEY_OPTIONS, ["columns", "table"])}


def _named(part: str, given: Any) -> List[Tuple[str, Any]]:
    """Parts of a schema with their names: of a dict by these, or of dicts that have them."""
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidError(f"{part} are given by their names, as a dict, or as a list of dicts, not as {given!r}")
    found = []
    for options in given:
        if not isinstance(options, Mapping) or not isinstance(options.get("name"), str):
            raise InvalidError(f"{part}: each is a dict with its name, not {options!r}")
        found.append((options["name"], {option: value for option, value in options.items() if option != "name"}))
    return found


def names(given: Union[str, Iterable[str]]) -> List[str]:
    """One name, or a list of them."""
    return [given] if isinstance(given, str) else list(given)


def declared(
    table: str,
    columns: Columns = (),
    key: Union[str, Sequence[str], None] = None,
    indexes: Optional[Indexes] = None,
    **more: Any,
) -> Dict[str, Any]:
    """A schema as what JSON is made of."""
    fields = _types.fields_of(columns)
    if fields is not None:
        columns = _types.of_fields(fields)
    found_columns = [column(name, given) for name, given in _named("columns", columns)]
    checks = [_check(name, given) for name, given in _named("checks", more.pop("checks", None) or ())]
    for limited in found_columns:
        length = limited.pop("length_max", None)
        if length is not None:
            quoted = limited["name"].replace('"', '""')
            checks.append({"name": f"{limited['name']}_length", "condition": f'length("{quoted}") <= {length}'})
    found: Dict[str, Any] = {"table": table, "columns": found_columns}
    if key is not None:
        found["key"] = names(key)
    if indexes is not None:
        found["indexes"] = [index(name, given) for name, given in _named("indexes", indexes)]
    foreign_keys = more.pop("foreign_keys", None)
    if foreign_keys is not None:
        found["foreign_keys"] = [_foreign_key(name, given) for name, given in _named("foreign keys", foreign_keys)]
    if checks:
        found["checks"] = checks
    return {**found, **_checked(f"table {table}", more, _TABLE_OPTIONS)}


def schema(
    table: str,
    columns: Columns = (),
    key: Union[str, Sequence[str], None] = None,
    indexes: Optional[Indexes] = None,
    **more: Any,
) -> str:
    """A schema in JSON."""
    return json.dumps(declared(table, columns, key, indexes, **more))
