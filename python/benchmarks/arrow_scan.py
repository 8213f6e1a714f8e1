"""Reads all columns of a table as Arrow batches: Quipu, and DuckDB from a file of its own, each on one thread.

    maturin develop --release && python benchmarks/arrow_scan.py --rows 10_000_000

The table has five columns: INT (the key), DOUBLE, STRING, INT, TIMESTAMP. The two take turns; medians are shown, and the
sums of what was read must be the same.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import duckdb
import pyarrow
import pyarrow.compute

import quipu

SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.int32()),
        ("fare", pyarrow.float64()),
        ("rider", pyarrow.utf8()),
        ("seats", pyarrow.int32()),
        ("at", pyarrow.timestamp("us", "UTC")),
    ]
)
BATCH_ROWS = 100_000
START = 1_700_000_000_000_000


def trips(rows):
    """The rows, a batch at a time."""
    for first in range(0, rows, BATCH_ROWS):
        ids = range(first, min(first + BATCH_ROWS, rows))
        drawn = [number * 2_654_435_761 % 2**32 for number in ids]
        columns = [
            ids,
            [number % 100_000 / 100 for number in drawn],
            [f"rider-{number:08x}" for number in drawn],
            [number >> 29 for number in drawn],
            [START + number * 1_000 for number in ids],
        ]
        yield pyarrow.record_batch(
            [pyarrow.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA
        )


def sums(reader):
    """Reads all batches, and sums up each column."""
    rows, totals = 0, [0] * len(SCHEMA)
    for batch in reader:
        rows += batch.num_rows
        for place, column in enumerate(batch.columns):
            if pyarrow.types.is_string(column.type):
                column = pyarrow.compute.binary_length(column)
            elif pyarrow.types.is_timestamp(column.type):
                column = pyarrow.compute.subtract(column.cast(pyarrow.int64()), START)
            elif pyarrow.types.is_floating(column.type):
                # Cents, whose sum is exact in whatever order.
                column = pyarrow.compute.round(pyarrow.compute.multiply(column, 100)).cast(pyarrow.int64())
            totals[place] += pyarrow.compute.sum(column).as_py()
    return rows, totals


def batches_of(relation):
    """What DuckDB has found, as a reader that copies no rows; the method's name changed with version 2."""
    names = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")
    return next(getattr(relation, name) for name in names if hasattr(relation, name))(BATCH_ROWS)


def measure(rows, repeat, directory):
    """Seconds of wall and of CPU of each scan, by store."""
    reader = lambda: pyarrow.RecordBatchReader.from_batches(SCHEMA, trips(rows))
    columns = {"id": "i32", "fare": "f64", "rider": "text", "seats": "i32", "at": "timestamp"}
    with quipu.open(directory / "quipu") as db, duckdb.connect(str(directory / "duckdb.db")) as connection:
        table = db.create_table("trips", columns, key="id")
        table.load(reader())
        connection.execute("SET threads = 1")
        connection.execute("SET TimeZone = 'UTC'")
        incoming = reader()
        connection.register("incoming", incoming)
        connection.execute("CREATE TABLE trips AS SELECT * FROM incoming")
        connection.execute("CHECKPOINT")
        scans = {
            "quipu": lambda: table.to_arrow(),
            "duckdb": lambda: batches_of(connection.sql("SELECT * FROM trips")),
        }
        expected, spent = None, {name: [] for name in scans}
        for _ in range(repeat):
            for name, scan in scans.items():
                wall, cpu = time.perf_counter(), time.process_time()
                found = sums(scan())
                spent[name].append((time.perf_counter() - wall, time.process_time() - cpu))
                expected = expected or found
                if found != expected:
                    raise AssertionError(f"{name} has {found}, not {expected}")
        if expected[0] != rows:
            raise AssertionError(f"{expected[0]} rows of {rows}")
    return spent


def report(rows, spent):
    """The figures as a table in Markdown."""
    lines = [f"{rows:,} rows of five columns", "", "| store | wall | CPU | rows/s |", "|---|---:|---:|---:|"]
    for name, times in spent.items():
        wall, cpu = (statistics.median(column) for column in zip(*times))
        lines.append(f"| {name} | {wall:.3f} s | {cpu:.3f} s | {rows / wall / 1e6:.2f}M |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        print(report(options.rows, measure(options.rows, options.repeat, pathlib.Path(directory))))


if __name__ == "__main__":
    main()
