"""Loads orders by COPY and asks the admin for its pages, as a browser does."""

import argparse
import os
import re
import statistics
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

PAGE = 100
CUSTOMERS = 997


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--times", type=int, default=1, help="how often each page is asked for, after the first time")
    parser.add_argument("--ms-max", type=float, default=None, help="what statements of a page may take")
    return parser.parse_args()


def timed(work):
    """The result, and how many milliseconds it took."""
    began = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - began) * 1000


class Database:
    """Adds up how long statements take: what the server and the driver do of a page."""

    def __init__(self):
        self.ms = 0.0

    def __call__(self, execute, *arguments):
        result, took = timed(lambda: execute(*arguments))
        self.ms += took
        return result


def line(number):
    placed = f"2026-01-{number % 28 + 1:02} {number % 24:02}:00:00+00"
    return f"Q{number:09}\tcustomer {number % CUSTOMERS}\t{number % 10_000}.50\t{placed}\n"


def load(rows):
    columns = "code, customer, total, placed"
    with connection.cursor() as cursor, cursor.copy(f"COPY shop_order ({columns}) FROM STDIN") as copy:
        for first in range(1, rows + 1, 1000):
            copy.write("".join(map(line, range(first, min(first + 1000, rows + 1)))))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE shop_order")


def codes(page):
    return re.findall(r'class="field-code"><a [^>]*>(Q\d{9})</a>', page)


def written(numbers):
    return [f"Q{number:09}" for number in numbers]


def pages(rows):
    """What each page is called, its query, the codes that it must show, and its counter."""
    last = (rows - 1) // PAGE + 1
    prefix = "Q00000001"
    found = [code for code in written(range(1, min(rows, 20) + 1)) if code.startswith(prefix)]
    yield "list, first page", "", written(range(1, min(rows, PAGE) + 1)), rows
    yield "list, last page", f"?p={last}", written(range((last - 1) * PAGE + 1, rows + 1)), rows
    yield "search by prefix", f"?q={prefix}", found, len(found)
    yield "sorted by customer, descending", "?o=-2", by_customer(rows), rows


def by_customer(rows):
    """The first page by the name of the customer, descending, then by the number, descending: the admin's order."""
    numbers = []
    for customer in sorted(range(CUSTOMERS), key=lambda customer: f"customer {customer}", reverse=True):
        largest = rows - (rows - customer) % CUSTOMERS
        numbers.extend(range(largest, 0, -CUSTOMERS))
        if len(numbers) >= PAGE:
            break
    return written(numbers[:PAGE])


def what_is_wrong(answer, wanted, total):
    text = answer.content.decode()
    if answer.status_code != 200:
        return f"status {answer.status_code}"
    if codes(text) != wanted:
        return f"{codes(text)[:3]}... instead of {wanted[:3]}..."
    if f"{total} order" not in text:
        return f"the counter is not {total}"
    return None


def main():
    options = arguments()
    _, took = timed(lambda: load(options.rows))
    print(f"COPY of {options.rows} rows: {took / 1000:.1f} s", flush=True)
    client = Client()
    client.force_login(User.objects.create_superuser("admin", "admin@example.org", "admin"))
    # What Django does once is no part of a page.
    client.get("/admin/")
    failures = []
    print(f"{'median of ' + str(options.times):<34}{'page':>10}{'of it statements':>20}{'at first':>12}")
    for what, query, wanted, total in pages(options.rows):
        times, of_statements = [], []
        for _ in range(options.times + 1):
            database = Database()
            with connection.execute_wrapper(database):
                answer, took = timed(lambda query=query: client.get(f"/admin/shop/order/{query}"))
            times.append(took)
            of_statements.append(database.ms)
            if wrong := what_is_wrong(answer, wanted, total):
                failures.append(f"{what}: {wrong}")
                break
        page, median = (statistics.median(values[1:] or values) for values in (times, of_statements))
        print(f"{what:<34}{page:>7.1f} ms{median:>17.1f} ms{of_statements[0]:>9.1f} ms", flush=True)
        if options.ms_max is not None and median > options.ms_max:
            failures.append(f"{what}: {median:.1f} ms, above {options.ms_max:g}")
    for failure in failures:
        print("FAILED", failure)
    print("all pages are right" if not failures else f"{len(failures)} pages are wrong")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
