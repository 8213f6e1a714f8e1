"""The keys of a server: positions, partitions in this process and in others, snapshots that end."""

import bisect
import concurrent.futures
import contextlib
import doctest
import multiprocessing
import pickle
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

import quipu
from running import ROOT, START_SECONDS, free_port, program

redis = pytest.importorskip("redis")


@contextlib.contextmanager
def serving(home, *more, url="redis://127.0.0.1:{port}", port=None, port_option="--port", **options):
    """The URL of a server that runs meanwhile; ``options`` are those of a connection."""
    binary, port = program(), port or free_port()
    url = url.format(port=port)
    words = [binary, "serve", port_option, str(port), "--data", str(home / "data"), "--durability", "none", *more]
    with open(home / "log", "ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        with redis.Redis.from_url(url, **options) as client:
            while True:
                assert process.poll() is None, (home / "log").read_text()
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    assert time.monotonic() < deadline, "the server does not answer"
                    time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        quipu.close_readers()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture
def url(running):
    with redis.Redis.from_url(running) as client:
        client.flushall()
    return running


def load(url, rows, **options):
    with redis.Redis.from_url(url, **options) as client:
        pipeline = client.pipeline(transaction=False)
        for key, value in rows:
            pipeline.set(key, value)
        pipeline.execute()


def numbered(count):
    return [(b"key:%06d" % number, b"value %d" % number) for number in range(count)]


def read(part):
    """What a process reads of a partition."""
    return len(part), list(part)


def size_of(part):
    return len(part), part.to_arrow().read_all().num_rows, len(part.to_pandas())


def in_processes(function, parts):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        return list(pool.map(function, parts))


@contextlib.contextmanager
def writes(url):
    """A client writes all the time: what there was changes, goes, and comes."""
    over = threading.Event()
    failed = []

    def write():
        try:
            with redis.Redis.from_url(url) as client:
                number = 0
                while not over.is_set():
                    pipeline = client.pipeline(transaction=False)
                    pipeline.set(b"key:%06d" % (number * 7 % 5000), b"changed")
                    pipeline.delete(b"key:%06d" % (number * 11 % 5000))
                    pipeline.set(b"key:%06d.5" % (number % 5000), b"new")
                    pipeline.execute()
                    number += 1
        except Exception as error:  # Raised below.
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        assert not failed, failed


@pytest.mark.parametrize("query", ["", "?protocol=3"])
def test_positions_are_those_of_a_list(url, seeded, query):
    rows = {}
    for _ in range(3000):
        key = bytes(seeded.choice(b"\x00az\xff") for _ in range(seeded.randrange(1, 9)))
        rows[key] = seeded.randbytes(seeded.randrange(40))
    load(url, rows.items())
    rows = sorted(rows.items())
    keys = [key for key, _ in rows]
    ends = [None, 0, 1, 7, 500, len(rows) - 1, len(rows), len(rows) + 9, 2**70]
    ends += [-end for end in ends if end]
    with quipu.connect(url + query) as server:
        assert len(server) == len(rows)
        for start in ends:
            for stop in ends:
                assert server[start:stop] == rows[start:stop], (start, stop)
        for _ in range(100):
            start, stop, step = seeded.choice(ends), seeded.choice(ends), seeded.choice([2, 3, 100, 2**65])
            assert server[start:stop:step] == rows[start:stop:step], (start, stop, step)
        for place in (0, 1, -1, len(rows) - 1, -len(rows)):
            assert server[place] == rows[place] == server.nth(place)
        for place in (len(rows), -len(rows) - 1, 2**63, -(2**63) - 1):
            assert server.nth(place) is None
            with pytest.raises(IndexError, match="there is no row"):
                server[place]
        assert list(server) == rows and list(reversed(server)) == rows[::-1]
        for _ in range(100):
            key, other = (seeded.choice(keys) + seeded.choice([b"", b"a", b"\xff"]) for _ in range(2))
            low, high = bisect.bisect_left(keys, key), bisect.bisect_left(keys, other)
            assert server.rank(key) == low and (key in server) == (key in keys)
            assert server.count(key, other) == server.count(ge=key, lt=other) == max(high - low, 0)
            assert list(server.range(key, other)) == rows[low:high]
            behind, through = bisect.bisect_right(keys, key), bisect.bisect_right(keys, other)
            assert server.range(gt=key, le=other)[:] == rows[behind:through]
            part = server.range(key)
            assert part.rank(other) == max(high - low, 0) and part.count(eq=key) == (key in keys)
            head = key[: seeded.randrange(4)]
            inside = [row for row in rows if row[0].startswith(head)]
            assert server.count(starts_with=head) == len(inside)
            assert server.range(starts_with=head)[-3:] == inside[-3:]
            q = seeded.random()
            assert server.quantile(q) == keys[int(q * (len(keys) - 1) + 0.5)]
        assert server.quantile(0) == keys[0] and server.quantile(1) == keys[-1]
        assert server.quantile(0.5, lt=keys[0]) is None
        for parts in (1, 2, 7, 1500, len(rows) + 9):
            pieces = server.split(parts)
            assert [row for piece in pieces for row in piece[:]] == rows
            counts = {len(piece) for piece in pieces}
            assert len(pieces) == min(parts, len(rows)) and max(counts) - min(counts) <= 1


def test_an_empty_database(url):
    with quipu.connect(url) as server:
        assert len(server) == 0 and list(server) == [] and server[:] == [] == server[-5:] and server.rank("a") == 0
        assert server.quantile(0.5) is None and [len(part) for part in server.split(4)] == [0]
        with server.partitions(4) as parts:
            assert [list(part) for part in parts] == [[]] and len(parts[0]) == 0
    with quipu.open(":memory:") as db:
        # A table does the same.
        assert [len(part) for part in db.create_table("t", {"n": int}, key="n").split(4)] == [0]


def test_partitions_are_equal_exact_and_of_one_moment(url):
    rows = numbered(5000)
    load(url, rows)
    with quipu.connect(url) as server, server.partitions(7) as parts, writes(url):
        assert sorted(map(len, parts)) == [714] * 5 + [715] * 2
        assert parts[0].count == len(parts[0]) and "714 rows" in repr(parts[0])
        for _ in range(3):
            assert [row for part in parts for row in part] == rows
        with server.partitions(3, starts_with="key:00009") as few:
            assert [len(part) for part in few] == [len(list(part)) for part in few]
        assert parts[2].rows()[5:8] == [row for part in parts[:3] for row in part][-len(parts[2]) :][5:8]
        assert [len(piece) for piece in parts[2].rows().split(2)] == [357, 357]
        assert list(reversed(parts[0].rows())) == rows[: len(parts[0])][::-1]
        # They outlive the connection that made them.
        server.close()
        assert [row for part in pickle.loads(pickle.dumps(parts)) for row in part] == rows
    with pytest.raises(ValueError, match="is closed"):
        len(server)


def test_partitions_go_to_processes(url):
    rows = numbered(25_000)
    load(url, rows)
    with quipu.connect(url) as server, server.partitions(4, seconds=3600) as parts, writes(url):
        results = in_processes(read, parts)
        assert [count for count, _ in results] == [6250] * 4
        assert [row for _, read_rows in results for row in read_rows] == rows


def test_partitions_of_keys_that_memory_does_not_hold(tmp_path):
    rows = [(key, value * 8) for key, value in numbered(30_000)]
    with serving(tmp_path, "--memtable-bytes", "256kb", "--cache-bytes", "256kb") as url:
        load(url, rows)
        with quipu.connect(url) as server, server.partitions(50) as parts, writes(url):
            assert [len(part) for part in parts] == [600] * 50
            assert [row for part in parts for row in part] == rows
            assert [parts[7].rows()[place] for place in (0, 300, -1)] == [rows[place] for place in (4200, 4500, 4799)]


def test_partitions_go_to_arrow_and_dask(url):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    rows = numbered(12_000)
    load(url, rows)
    with redis.Redis.from_url(url) as client:
        client.zadd("key:000003.set", {"member": 1})
    rows.insert(4, (b"key:000003.set", None))
    with quipu.connect(url) as server, server.partitions(4) as parts:
        schema = pyarrow.schema([pyarrow.field("key", "binary", nullable=False), ("value", "binary")])
        tables = [part.to_arrow().read_all() for part in parts]
        assert all(table.schema == schema for table in tables)
        columns = pyarrow.concat_tables(tables).to_pydict()
        assert list(zip(columns["key"], columns["value"])) == rows
        assert server.range("key:000001", "key:000003").to_arrow().read_all().to_pylist() == [
            {"key": b"key:000001", "value": b"value 1"},
            {"key": b"key:000002", "value": b"value 2"},
        ]
        assert pyarrow.table(parts[0]).num_rows == len(parts[0]) and len(parts[1].to_pandas()) == len(parts[1])
        assert server.range("x").to_arrow().read_all().num_rows == 0
        dask = pytest.importorskip("dask")
        frames = pytest.importorskip("dask.dataframe")
        frame = frames.from_map(quipu.ServerPartition.to_pandas, parts)
        assert frame.npartitions == 4 and len(frame) == 12_001
        assert int(frame["value"].count().compute(scheduler="threads")) == 12_000
        # It makes texts of bytes if it is let.
        assert frame["key"].min().compute(scheduler="threads") == "key:000000"
        with dask.config.set({"dataframe.convert-string": False}):
            frame = frames.from_map(quipu.ServerPartition.to_pandas, parts)
            lengths = frame["key"].map(len, meta=("length", "int64"))
            assert int(lengths.sum().compute(scheduler="threads")) == sum(len(key) for key, _ in rows)
        context = multiprocessing.get_context("spawn")
        with dask.config.set({"multiprocessing.context": "spawn"}):
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                sizes = dask.compute(*[dask.delayed(size_of)(part) for part in parts], scheduler=pool)
        assert all(len(set(size)) == 1 for size in sizes) and sum(size[0] for size in sizes) == 12_001


def test_keys_that_hold_no_strings(url):
    load(url, [("a", "1"), ("c", ""), ("d", "x" * 3_000_000), ("e", "5"), ("f", "6")])
    with redis.Redis.from_url(url) as client:
        client.zadd("b", {"one": 1, "two": 2})
        client.pexpire("f", 50)
        rows = [(b"a", b"1"), (b"b", None), (b"c", b""), (b"d", b"x" * 3_000_000), (b"e", b"5")]
        with quipu.connect(url) as server, server.partitions(2) as parts:
            # What has expired since was there.
            assert [row for part in parts for row in part] == [*rows, (b"f", b"6")]
            time.sleep(0.06)
            assert [row for part in parts for row in part] == [*rows, (b"f", b"6")]
            assert server[:] == list(server) == rows and len(server) == 5 and server[1] == (b"b", None)
        # Another database has other keys.
        with quipu.connect(url + "/3") as other:
            assert len(other) == 0
            load(url + "/3", [("a", "third")])
            with other.partitions(1) as parts:
                assert in_processes(read, parts) == [(1, [(b"a", b"third")])]


def test_long_values_come_few_at_a_time(url):
    load(url, [(b"%04d" % number, b"%04d" % number * 25_000) for number in range(300)])
    with quipu.connect(url) as server, server.partitions(2) as parts:
        chunks = list(parts[0].rows()._chunks(False))
        assert len(chunks) > 1 and max(map(len, chunks)) < 90 and sum(map(len, chunks)) == 150
        assert all(value == key * 25_000 for part in parts for key, value in part)


def test_a_snapshot_that_ends_while_it_is_read(url):
    load(url, numbered(30_000))
    with quipu.connect(url) as server:
        parts = server.partitions(2, seconds=1)
        rows = iter(parts[0])
        assert next(rows) == (b"key:000000", b"value 0")
        time.sleep(1.1)
        ended = pytest.raises(ValueError, match="the snapshot has ended.*ask for more seconds")
        with ended:
            list(rows)
        with ended:
            list(parts[1])
        with ended:
            parts[1].rows()[0]
        with ended, concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(pool.map(read, parts))
        if "pyarrow" in sys.modules:
            with ended:
                parts[0].to_arrow().read_all()
        parts.close()
        with server.partitions(2) as parts:
            pass
        with ended:
            list(parts[0])
        parts.close()


def snapshots_since(url, first):
    """How many snapshots a server keeps of those from a number on; and the number of the next one."""
    with redis.Redis.from_url(url) as client:
        last = client.execute_command("Q.SNAPSHOT")
        return sum(client.execute_command("Q.RELEASE", number) for number in range(first, last + 1)) - 1, last + 1


def test_nothing_keeps_a_snapshot(url):
    load(url, numbered(100))
    with quipu.connect(url) as server:
        with redis.Redis.from_url(url) as client:
            first = client.execute_command("Q.SNAPSHOT") + 1
        assert len(list(server)) == 100 and len(server[5:-5:3]) == 30 and len(server[5:-5]) == 90
        for row in server:
            break
        row = None
        with server.partitions(4):
            pass
        with pytest.raises(quipu.InvalidError):
            server.partitions(10**7)
        kept, first = snapshots_since(url, first)
        assert kept == 0
        server.partitions(2)
        assert snapshots_since(url, first)[0] == 1


def test_a_server_that_starts_anew_has_other_snapshots(tmp_path):
    ended = pytest.raises(ValueError, match="the snapshot has ended")
    with serving(tmp_path) as url:
        load(url, numbered(10))
        with quipu.connect(url) as server:
            parts = server.partitions(2)
    with serving(tmp_path, port=int(url.rpartition(":")[2])) as other:
        with ended:
            list(parts[1])
        parts.close()
        load(other, [("key:000003", "changed")])
        with redis.Redis.from_url(other) as client:
            # Even if the number were to name a snapshot of the new process.
            number = client.execute_command("Q.SNAPSHOT")
            parts._moment = parts._moment._replace(number=number)
            parts[1]._moment = parts._moment
            with ended:
                list(parts[1])
            parts.close()
            assert client.execute_command("Q.RELEASE", number) == 1


def test_passwords_and_errors_do_not_show_them(tmp_path):
    with serving(tmp_path, "--requirepass", "se cret", url="redis://:se%20cret@127.0.0.1:{port}") as url:
        load(url, [("a", "1")])
        with quipu.connect(url) as server, server.partitions(1) as parts:
            assert "cret" not in repr(server) + repr(parts)
            assert in_processes(read, parts) == [(1, [(b"a", b"1")])]
            plain = "redis://" + url.rpartition("@")[2]
            with quipu.connect(plain, password="se cret") as other, other.partitions(1) as parts:
                assert in_processes(read, parts) == [(1, [(b"a", b"1")])]
        for bad in (plain, plain.replace("//", "//:wrong@")):
            with pytest.raises(quipu.Error) as error:
                quipu.connect(bad)
            assert "127.0.0.1" in str(error.value) and "wrong" not in str(error.value)
        with redis.Redis.from_url(url) as client:
            client.execute_command("ACL", "SETUSER", "ada", "on", ">cret", "%R~a:*", "+@read")
            client.execute_command("ACL", "SETUSER", "ada", "+q.snapshot", "+q.at", "+q.release")
            client.set("a:1", "1")
        with quipu.connect(plain.replace("//", "//ada:cret@")) as server:
            assert server.range(starts_with="a:")[:] == [(b"a:1", b"1")] == list(server.range(starts_with="a:"))
            with pytest.raises(quipu.InvalidError, match="permission"):
                len(server)


def test_tls(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl makes no certificate here")
    files = ["--tls-key-file", key, "--tls-cert-file", certificate, "--tls-auth-clients", "no"]
    options = {"ssl_ca_certs": certificate}
    with serving(tmp_path, *files, url="rediss://127.0.0.1:{port}", port_option="--tls-port", **options) as url:
        load(url, [("a", "1")], **options)
        with quipu.connect(url, **options) as server, server.partitions(1) as parts:
            assert in_processes(read, parts) == [(1, [(b"a", b"1")])]
        with pytest.raises(quipu.Error, match="certificate"):
            quipu.connect(url)


def test_a_server_that_is_no_quipu():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer():
            connection, _ = listener.accept()
            with connection:
                while b"Q.COUNT" not in (words := connection.recv(4096)) and words:
                    connection.sendall(b"+OK\r\n" * words.count(b"*"))
                connection.sendall(b"-ERR unknown command 'Q.COUNT', with args beginning with: \r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(quipu.InvalidError, match="127.0.0.1:[0-9]+ is not a Quipu server"):
            quipu.connect(f"redis://127.0.0.1:{port}")
        thread.join()
    with pytest.raises(quipu.Error) as error:
        quipu.connect(f"redis://127.0.0.1:{port}")
    assert error.value.kind == "io" and type(error.value) is quipu.Error


def test_what_cannot_be(url):
    load(url, numbered(10))
    with quipu.connect(url) as server:
        for wrong in (
            lambda: server["key"],
            lambda: server[1.5],
            lambda: server["a":"b"],
            lambda: server.rank(5),
            lambda: server.count(5),
            lambda: server.count(above="a"),
            lambda: 5 in server,
            lambda: server.quantile("0.5"),
            lambda: server.split("4"),
            lambda: server.partitions(2.0),
            lambda: server.partitions(2, seconds="60"),
            lambda: quipu.connect(b"redis://localhost"),
            lambda: quipu.connect(url, no_such_option=1),
        ):
            with pytest.raises(TypeError):
                wrong()
        for wrong, message in (
            (lambda: server[::-1], "the step is 1 or more, not -1"),
            (lambda: server[::0], "slice step cannot be zero"),
            (lambda: server.split(0), "one part or more, not 0"),
            (lambda: server.partitions(-1), "one part or more, not -1"),
            (lambda: server.partitions(1, seconds=0), "a second or more, not 0"),
            (lambda: server.partitions(1, seconds=10**6), "lives for 1 to 86400 seconds"),
            (lambda: server.quantile(1.5), "from 0 to 1, not 1.5"),
            (lambda: server.quantile(float("nan")), "from 0 to 1, not nan"),
            (lambda: server.partitions(1)[0].rows().partitions(2), "those of a partition already"),
            (lambda: quipu.connect("localhost:6379"), "a URL is redis://"),
            (lambda: quipu.connect("redis://:pass/word@localhost"), "a URL is redis://"),
            (lambda: quipu.connect(url, decode_responses=True), "decode_responses cannot be set"),
        ):
            with pytest.raises(ValueError, match=message) as error:
                wrong()
            assert "pass/" not in str(error.value)


def test_without_redis(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ImportError, match="pip install redis hiredis"):
        quipu.connect(url)


def test_the_tour_of_servers_runs(url):
    pytest.importorskip("pyarrow")
    page = ROOT / "docs" / "python.md"
    text = page.read_text(encoding="utf-8").replace("redis://localhost", url)
    (block,) = [block for block in re.findall(r"^```pycon\n(.*?)^```", text, re.M | re.S) if '"redis://' in block]
    report = []
    test = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
