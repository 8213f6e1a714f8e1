"""Values and rows for people: in a terminal and in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any, Sequence

_SHOWN_CHARS = 30


def shown(value: Any) -> str:
    """A value in one line, cut to the width of a column."""
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def table_of(title: str, names: Sequence[str], parts: Sequence[Sequence[Sequence[Any]]]) -> str:
    """A table of HTML: its title, and its rows in parts, between which rows are left out."""

    def line(tag: str, cells: Sequence[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(shown(cell))}</{tag}>" for cell in cells) + "</tr>"

    gap = "<tr>" + "<td>...</td>" * len(names) + "</tr>"
    body = gap.join("".join(line("td", row) for row in part) for part in parts)
    head = line("th", names) if names else ""
    return f"<table><caption>{escape(title)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
