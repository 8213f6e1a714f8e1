"""The program ``quipu`` as tests of servers run it."""

import os
import pathlib
import socket

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 60


def program():
    """The program ``quipu``: QUIPU_BIN, or what was built last."""
    named = os.environ.get("QUIPU_BIN")
    if named:
        return named
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    built = [path for path in (target / "release" / "quipu", target / "debug" / "quipu") if path.is_file()]
    if not built:
        pytest.skip("there is no program quipu: build it, or name it in QUIPU_BIN")
    return str(max(built, key=lambda path: path.stat().st_mtime))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
