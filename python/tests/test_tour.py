"""The pages run as they are written."""

import doctest
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name, least", [("python.md", 6), ("getting-started-python.md", 5)])
def test_the_page_runs(name, least, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    # That about servers runs beside the tests of servers.
    blocks = [block for block in blocks if "quipu.connect" not in block]
    assert len(blocks) >= least
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, str(DOCS / name), 0)
    report = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


def test_the_example_of_the_package_runs(tmp_path, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "python" / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    with names["quipu"].open("air") as db:
        assert [row["origin"] for row in db["flights"]] == ["JFK"]
