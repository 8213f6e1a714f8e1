#!/usr/bin/env python3
"""Runs PostgreSQL's own regression files against a server and against a PostgreSQL beside it, statement by statement.

    postgres-regress.py [--quipu PROGRAM] [--out DIR] [--keep] [FILE...]

Files are named without `.sql`; those of postgres-regress.txt if none is named. Each answer is one of

    same      rows, tag or SQLSTATE are those of PostgreSQL
    refused   0A000, where PostgreSQL does it
    follows   a table is not there, or the transaction has failed, because of an earlier statement
    wrong     other rows
    lax       an answer where PostgreSQL refuses
    fails     an error where PostgreSQL does it
    state     another SQLSTATE
    other     another tag, other names of columns, or the same rows in another order
    lost      the connection ended

DIR (regress-out) gets a file of all that is not the same. A file with fewer statements that are the same than its line
in postgres-regress.txt says makes the exit code 1, and so does a lost connection. Needs PostgreSQL 15 in
/usr/lib/postgresql/15, and its sources: REGRESS_DIR, or what `apt-get source` brings to ~/.cache/quipu-regress.
"""

import argparse
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
POSTGRES = "/usr/lib/postgresql/15/bin/"
KINDS = ["same", "refused", "follows", "wrong", "lax", "fails", "state", "other", "lost"]
STYLE = "-c DateStyle=Postgres,MDY -c TimeZone=PST8PDT -c IntervalStyle=postgres_verbose -c statement_timeout=20000"


class Lost(Exception):
    """The connection ended."""


class Client:
    """The simple protocol."""

    def __init__(self, port, database):
        self.address = (port, database)
        self.connect()

    def connect(self):
        port, database = self.address
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.settimeout(60)
        self.buffer = b""
        words = ["user", "postgres", "database", database, "client_encoding", "UTF8", "options", STYLE]
        body = struct.pack("!i", 196608) + b"".join(word.encode() + b"\0" for word in words) + b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        while True:
            kind, body = self.message()
            if kind == b"E":
                raise Lost(body)
            if kind == b"Z":
                return

    def take(self, count):
        while len(self.buffer) < count:
            got = self.socket.recv(1 << 16)
            if not got:
                raise Lost
            self.buffer += got
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def message(self):
        kind, length = struct.unpack("!ci", self.take(5))
        return kind, self.take(length - 4)

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def ask(self, text, data=None):
        """The answer to a statement: ("rows", names, rows), ("tag", tag), ("error", state, text) or ("lost",)."""
        try:
            return self.asked(text, data)
        except (Lost, OSError):
            for _ in range(50):
                try:
                    self.connect()
                    break
                except (Lost, OSError):
                    time.sleep(0.1)
            return ("lost",)

    def asked(self, text, data):
        self.send(b"Q", text.encode("utf8", "surrogateescape") + b"\0")
        names, rows, answer, copied = (), [], ("none",), None
        while True:
            kind, body = self.message()
            if kind == b"T":
                names, rows, at = [], [], 2
                for _ in range(struct.unpack("!h", body[:2])[0]):
                    end = body.index(b"\0", at)
                    names.append(body[at:end].decode("utf8", "replace"))
                    at = end + 19
                names = tuple(names)
                answer = ("rows", names, ())
            elif kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack("!h", body[:2])[0]):
                    (length,) = struct.unpack("!i", body[at : at + 4])
                    at += 4
                    row.append(None if length < 0 else body[at : at + length].decode("utf8", "replace"))
                    at += max(length, 0)
                rows.append(tuple(row))
            elif kind == b"C":
                tag = body[:-1].decode()
                if copied is not None:
                    answer = ("rows", ("copy",), tuple((line,) for line in copied))
                elif answer[0] == "rows":
                    answer = ("rows", names, tuple(rows))
                else:
                    answer = ("tag", tag)
                rows, copied = [], None
            elif kind == b"E":
                fields = {part[:1]: part[1:].decode("utf8", "replace") for part in body.split(b"\0") if part}
                answer = ("error", fields.get(b"C", ""), fields.get(b"M", ""))
            elif kind == b"G":
                if data is not None:
                    self.send(b"d", data.encode("utf8", "surrogateescape"))
                self.send(b"c", b"")
            elif kind == b"H":
                copied = []
            elif kind == b"d":
                copied.append(body.decode("utf8", "replace"))
            elif kind == b"Z":
                return answer


def statements(text):
    """The statements of a file for psql: (kind, text, more), where kind is sql, copy (with data), meta or query."""
    found, pending, at, depth = [], [], 0, 0

    def end():
        whole = "".join(pending).strip()
        pending.clear()
        return whole

    while at < len(text):
        char = text[at]
        if char == "\\":
            line = text.find("\n", at)
            line = len(text) if line < 0 else line
            if text.startswith("\\;", at):
                pending.append(";")
                at += 2
                continue
            whole = end()
            found.append(("query", whole, text[at:line]) if whole else ("meta", text[at:line].strip(), None))
            at = line + 1
        elif text.startswith("--", at):
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
        elif text.startswith("/*", at):
            level, after = 1, at + 2
            while after < len(text) and level:
                step = 2 if text[after : after + 2] in ("/*", "*/") else 1
                level += {"/*": 1, "*/": -1}.get(text[after : after + 2], 0)
                after += step
            pending.append(text[at:after])
            at = after
        elif char in "'\"":
            before = "".join(pending)[-2:]
            escapes = char == "'" and re.search(r"(^|\W)[eE]$", before) is not None
            after = at + 1
            while after < len(text):
                if escapes and text[after] == "\\":
                    after += 2
                elif text[after] == char and text[after + 1 : after + 2] == char:
                    after += 2
                elif text[after] == char:
                    break
                else:
                    after += 1
            pending.append(text[at : after + 1])
            at = after + 1
        elif char == "$" and (mark := re.match(r"\$([A-Za-z_]\w*)?\$", text[at:])):
            close = text.find(mark.group(0), at + len(mark.group(0)))
            close = len(text) if close < 0 else close + len(mark.group(0))
            pending.append(text[at:close])
            at = close
        elif char == ";" and depth == 0:
            whole = end()
            at += 1
            data = text.find("\n\\.", at)
            if re.match(r"(?is)copy\b.*\bfrom\s+stdin\b", whole) and data >= 0:
                found.append(("copy", whole, text[text.find("\n", at) + 1 : data + 1]))
                line = text.find("\n", data + 1)
                at = len(text) if line < 0 else line + 1
            elif whole:
                found.append(("sql", whole, None))
        else:
            depth = max(0, depth + {"(": 1, ")": -1}.get(char, 0))
            pending.append(char)
            at += 1
    return found


def substituted(text, variables):
    quoted = lambda match: "'" + variables[match.group(1)].replace("'", "''") + "'"
    text = re.sub(r":'(\w+)'", lambda match: quoted(match) if match.group(1) in variables else match.group(0), text)
    plain = lambda match: variables.get(match.group(1), match.group(0))
    return re.sub(r"(?<![:\w]):(\w+)", plain, text)


def run(path, root, theirs, ours, report):
    variables = {"abs_srcdir": root, "libdir": "/none", "dlsuffix": ".so"}
    with open(path, encoding="utf8", errors="surrogateescape") as file:
        text = file.read()
    for kind, statement, more in statements(text):
        if kind == "meta":
            if match := re.match(r"\\set\s+(\w+)\s*(.*)$", statement):
                parts = re.findall(r"'((?:[^']|'')*)'|(\S+)", substituted(match.group(2), variables))
                variables[match.group(1)] = "".join(quoted or bare for quoted, bare in parts)
            continue
        if kind == "query" and not more.startswith("\\g"):
            continue
        statement, data = substituted(statement, variables), more if kind == "copy" else None
        if match := re.match(r"(?is)(copy\s+.*?\bfrom\s+)'(/[^']+)'(.*)$", statement):
            statement = match.group(1) + "stdin" + match.group(3)
            with open(match.group(2), encoding="utf8", errors="surrogateescape") as file:
                data = file.read()
        wanted, got = theirs.ask(statement, data), ours.ask(statement, data)
        if kind == "query" and more.startswith("\\gset") and wanted[0] == "rows" and wanted[2]:
            prefix = (more.split() + [""])[1]
            variables.update({prefix + name: value or "" for name, value in zip(wanted[1], wanted[2][0])})
        report(statement, wanted, got)


def kind_of(statement, wanted, got):
    if wanted == got or re.match(r"(?is)explain", statement):
        return "same"
    if got[0] == "lost":
        return "lost"
    if got[0] == "error":
        if wanted[0] == "error" and wanted[1] == got[1]:
            return "same"
        if got[1] == "0A000":
            return "refused"
        if wanted[0] == "error":
            return "state"
        return "follows" if got[1] in ("42P01", "3F000", "25P02") else "fails"
    if wanted[0] == "error":
        return "follows" if wanted[1] == "25P02" else "lax"
    if wanted[0] == "rows" and got[0] == "rows":
        order = lambda rows: sorted(rows, key=lambda row: [(value is None, value or "") for value in row])
        if order(wanted[2]) != order(got[2]):
            return "wrong"
        in_order = re.search(r"(?i)order\s+by", statement)
        return "other" if wanted[1] != got[1] or in_order and wanted[2] != got[2] else "same"
    return "other"


class Postgres:
    """A PostgreSQL of its own."""

    def __init__(self, directory, port):
        self.directory, self.port = os.path.join(directory, "postgres"), port
        os.mkdir(self.directory)
        if os.getuid() == 0:
            os.chmod(directory, 0o755)
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.tool(f"initdb -D {self.directory}/data -U postgres -A trust -E UTF8 --locale=C")
        options = f"-o '-p {port} -k {self.directory} -c fsync=off'"
        self.tool(f"pg_ctl -w -D {self.directory}/data {options} -l {self.directory}/log start")

    def tool(self, command):
        words = ["su", "postgres", "-c", POSTGRES + command] if os.getuid() == 0 else ["sh", "-c", POSTGRES + command]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.tool(f"pg_ctl -m immediate -D {self.directory}/data stop")


class Quipu:
    """A server over a directory."""

    def __init__(self, program, data, port):
        words = [program, "serve", "--data", data, "--port", "0", "--pg-port", str(port), "--durability", "os"]
        with open(data + ".log", "a", encoding="utf8") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        for _ in range(200):
            try:
                self.client = Client(port, "postgres")
                return
            except (Lost, OSError):
                time.sleep(0.05)
        raise SystemExit(f"{program} does not answer: see {data}.log")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def sources():
    """The directory src/test/regress of PostgreSQL's sources."""
    if "REGRESS_DIR" in os.environ:
        return os.environ["REGRESS_DIR"]
    cache = os.path.expanduser("~/.cache/quipu-regress")
    os.makedirs(cache, exist_ok=True)
    found = lambda: glob.glob(cache + "/postgresql-15.*/src/test/regress")
    if not found():
        with open(cache + "/sources.list", "w", encoding="utf8") as file:
            file.write("deb-src http://deb.debian.org/debian bookworm main\n")
        state = cache + "/apt"
        os.makedirs(state + "/lists/partial", exist_ok=True)
        options = [f"-oDir::Etc::sourcelist={cache}/sources.list", "-oDir::Etc::sourceparts=-"]
        options += [f"-oDir::State::lists={state}/lists", "-oAPT::Sandbox::User=root"]
        subprocess.run(["apt-get", *options, "update"], check=True, stdout=subprocess.DEVNULL)
        source = ["apt-get", *options, "source", "--download-only", "postgresql-15"]
        subprocess.run(source, check=True, cwd=cache, stdout=subprocess.DEVNULL)
        archive = glob.glob(cache + "/postgresql-15_*.orig.tar.*")[0]
        name = re.sub(r".*postgresql-15_([\d.]+)\.orig.*", r"postgresql-\1", archive)
        subprocess.run(["tar", "xf", archive, "-C", cache, f"{name}/src/test/regress"], check=True)
    return found()[0]


def listed():
    with open(HERE + "/postgres-regress.txt", encoding="utf8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {words[0]: int(words[1]) for words in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quipu", default="target/release/quipu", help="the program")
    parser.add_argument("--out", default="regress-out", help="where differences are written")
    parser.add_argument("--keep", action="store_true", help="keep the data directories")
    parser.add_argument("files", nargs="*")
    told = parser.parse_args()
    root, least = sources(), listed()
    os.makedirs(told.out, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix="quipu-regress-")
    postgres = Postgres(scratch, free_port())
    totals, failed = dict.fromkeys(KINDS, 0), []
    try:
        for name in ["test_setup", *(told.files or least)]:
            is_setup = name == "test_setup"
            database, data = ("base" if is_setup else "regress"), os.path.join(scratch, "base" if is_setup else "data")
            if not is_setup:
                shutil.rmtree(data, ignore_errors=True)
                shutil.copytree(os.path.join(scratch, "base"), data)
            maker = Client(postgres.port, "postgres")
            maker.ask(f"drop database if exists {database} with (force)")
            maker.ask(f"create database {database} template {'template0' if is_setup else 'base'}")
            quipu, counts = Quipu(told.quipu, data, free_port()), dict.fromkeys(KINDS, 0)
            theirs = Client(postgres.port, database)
            with open(os.path.join(told.out, name), "w", encoding="utf8", errors="surrogateescape") as out:

                def report(statement, wanted, got):
                    kind = kind_of(statement, wanted, got)
                    counts[kind] += 1
                    if kind != "same":
                        answers = f"--- PostgreSQL: {str(wanted)[:600]}\n--- Quipu: {str(got)[:600]}"
                        out.write(f"### {kind}\n{statement}\n{answers}\n")

                run(f"{root}/sql/{name}.sql", root, theirs, quipu.client, report)
            theirs.socket.close()
            quipu.client.socket.close()
            quipu.stop()
            print(f"{name:24}", *(f"{kind} {count}" for kind, count in counts.items() if count), flush=True)
            totals = {kind: totals[kind] + counts[kind] for kind in KINDS}
            if counts["lost"] or counts["same"] < least.get(name, 0):
                failed.append(f"{name}: {counts['same']} are the same, {least.get(name, 0)} are listed")
    finally:
        postgres.stop()
        if not told.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"{'all':24}", *(f"{kind} {count}" for kind, count in totals.items() if count))
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
