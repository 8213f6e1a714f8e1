"""Loads orders by COPY and asks the admin for its pages, as a browser does."""

import os
import re
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

PAGE = 100


def timed(what, work):
    began = time.perf_counter()
    result = work()
    print(f"{what:<34}{(time.perf_counter() - began) * 1000:10.1f} ms", flush=True)
    return result


def load(rows):
    columns = "code, customer, total, placed"
    with connection.cursor() as cursor, cursor.copy(f"COPY shop_order ({columns}) FROM STDIN") as copy:
        for number in range(1, rows + 1):
            placed = f"2026-01-{number % 28 + 1:02} {number % 24:02}:00:00+00"
            copy.write_row((f"Q{number:09}", f"customer {number % 997}", f"{number % 10_000}.50", placed))


def codes(page):
    return re.findall(r'class="field-code"><a [^>]*>(Q\d{9})</a>', page)


def main():
    rows = int(sys.argv[1])
    timed(f"COPY of {rows} rows", lambda: load(rows))
    user = User.objects.create_superuser("admin", "admin@example.org", "admin")
    client = Client()
    client.force_login(user)
    failures = []

    def page(what, query, wanted, total):
        answer = timed(what, lambda: client.get(f"/admin/shop/order/{query}"))
        text = answer.content.decode()
        if answer.status_code != 200:
            failures.append(f"{what}: status {answer.status_code}")
        elif codes(text) != wanted:
            failures.append(f"{what}: {codes(text)[:3]}... instead of {wanted[:3]}...")
        elif f"{total} order" not in text:
            failures.append(f"{what}: the counter is not {total}")

    def written(numbers):
        return [f"Q{number:09}" for number in numbers]

    last = (rows - 1) // PAGE + 1
    page("list, first page (not yet warm)", "", written(range(1, min(rows, PAGE) + 1)), rows)
    page("list, first page", "", written(range(1, min(rows, PAGE) + 1)), rows)
    page("list, last page", f"?p={last}", written(range((last - 1) * PAGE + 1, rows + 1)), rows)
    prefix = "Q00000001"
    found = [code for code in written(range(1, min(rows, 20) + 1)) if code.startswith(prefix)]
    page("search by prefix", f"?q={prefix}", found, len(found))
    page("sorted by customer, descending", "?o=-2", by_customer(rows), rows)
    for failure in failures:
        print("FAILED", failure)
    print("all pages are right" if not failures else f"{len(failures)} pages are wrong")
    sys.exit(bool(failures))


def by_customer(rows):
    """The first page by the name of the customer, descending, then by the number, descending: the admin's order."""
    numbers = sorted(range(1, rows + 1), key=lambda number: (f"customer {number % 997}", number), reverse=True)
    return [f"Q{number:09}" for number in numbers[:PAGE]]


if __name__ == "__main__":
    main()
