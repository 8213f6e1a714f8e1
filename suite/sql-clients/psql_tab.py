"""What psql completes at the Tab key: each line is typed up to the bar, and psql must write what stands after it."""

import os
import pty
import re
import select
import sys
import time

LINES = [
    "SELECT * FROM car|s ",
    "SELECT * FROM garage.to|ols ",
    "SELECT * FROM cars WHERE pri|ce ",
    "INSERT INTO cop|ied ",
    "ALTER TABLE cars DROP CONSTRAINT cars_pl|ace_check ",
    "DROP INDEX cars_pr|ice ",
    "DROP VIEW de|ar ",
    "SET search_pa|th ",
    "SHOW server_enc|oding ",
    "ALTER TYPE moo|d ",
    "GRANT SELECT ON car|s ",
    "\\dt mak|ers ",
    "\\dn gar|age ",
    "\\connect {database}| ",
]


def read(descriptor, wanted, seconds=10):
    """What the terminal says, until it has the text."""
    said, end = b"", time.monotonic() + seconds
    while wanted not in said.decode("utf8", "replace") and time.monotonic() < end:
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                said += os.read(descriptor, 65536)
            except OSError:
                break
    return said.decode("utf8", "replace")


def main():
    os.environ |= {"TERM": "dumb", "PSQL_HISTORY": "/dev/null", "INPUTRC": "/dev/null", "PSQLRC": "/dev/null"}
    process, terminal = pty.fork()
    if process == 0:
        os.execvp("psql", ["psql", "-X", "-v", "PROMPT1=ready> ", "-v", "PROMPT2=more> ", "-P", "pager=off"])
    if "ready> " not in read(terminal, "ready> "):
        sys.exit("psql does not start")
    failed = []
    for line in LINES:
        name = os.environ["PGDATABASE"]
        typed, completed = line.replace("{database}|", name[:-1] + "|" + name[-1]).split("|")
        os.write(terminal, typed.encode() + b"\t")
        said = read(terminal, typed + completed, 3)
        if typed + completed not in said:
            failed.append(
                f"{typed} became {said[said.rfind(typed):] if typed in said else said!r}, wanted {typed + completed}"
            )
        os.write(terminal, b"\x15\n")  # the line is emptied
        os.write(terminal, b"\\echo do''ne\n")
        read(terminal, "\ndone")
        read(terminal, "ready> ", 1)
    os.write(terminal, b"\\q\n")
    read(terminal, "\0", 1)
    os.waitpid(process, 0)
    for one in failed:
        print(one)
    print(f"{len(LINES) - len(failed)} lines were completed")
    sys.exit(bool(failed))


main()
