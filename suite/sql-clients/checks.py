"""What the programs in Python share: checks with names, of which each runs although another one failed."""

import os
import sys
import time
import traceback

CHECKS = []
SLOW_SECONDS = 3


def check(function):
    CHECKS.append(function)
    return function


def expect(got, wanted, of=""):
    assert got == wanted, f"{of}{': ' if of else ''}got {got!r}, wanted {wanted!r}"


def here_lines(error):
    """Where the failure is in the program itself, not in the library."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(__file__) in frame.filename
    ]
    return " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames[1:]))


def finish(client, call=lambda check: check()):
    """Runs all checks, or those that are named, and ends the process."""
    failed = 0
    checks = [check for check in CHECKS if not sys.argv[1:] or check.__name__ in sys.argv[1:]]
    for one in checks:
        begun = time.monotonic()
        try:
            call(one)
        except Exception as error:
            failed += 1
            print(f"{client}: {one.__name__} FAILED ({here_lines(error)}): {type(error).__name__}: {error}".rstrip())
        if (took := time.monotonic() - begun) > SLOW_SECONDS:
            print(f"{client}: {one.__name__} took {took:.1f} s")
    print(f"{client}: {len(checks) - failed} passed, {failed} failed")
    sys.exit(failed > 0)
