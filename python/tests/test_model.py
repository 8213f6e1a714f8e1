"""Tables against sorted lists, under random operations."""

import bisect

import pytest

import quipu


def check_slices(rows, model, random, slices=40):
    assert len(rows) == len(model)
    for place in range(-len(model) - 2, len(model) + 2, max(1, len(model) // 7)):
        if -len(model) <= place < len(model):
            assert rows[place] == model[place]
        else:
            with pytest.raises(IndexError):
                rows[place]
    ends = [None, 0, 1, -1, len(model), -len(model), 2**70, -(2**70)]
    for _ in range(slices):
        start, stop = (random.choice(ends + [random.randint(-len(model) - 3, len(model) + 3)]) for _ in range(2))
        step = random.choice([None, 1, 2, 3, -1, -2, -7, 9, -11, 10**30, -(10**30)])
        assert rows[start:stop:step] == model[start:stop:step], (start, stop, step)


def test_a_table_is_a_sorted_list(db, seeded):
    table = db.create_table(
        "items",
        {"id": "i32", "group": "text not null", "amount": "i64"},
        key="id",
        indexes={"groups": {"columns": ["group", "amount desc"], "sum": "amount"}},
        sum="amount",
    )
    model = {}
    for step in range(600):
        number, action = seeded.randrange(150), seeded.random()
        row = {"id": number, "group": seeded.choice("abc"), "amount": seeded.choice([None, seeded.randrange(-9, 99)])}
        if action < 0.5:
            assert table.upsert(row) == (number in model)
            model[number] = row
        elif action < 0.6:
            if number in model:
                with pytest.raises(quipu.ConstraintError) as error:
                    table.insert(row)
                assert (error.value.constraint, error.value.kind) == ("primary_key", "exists")
            else:
                assert table.insert(row) == number
                model[number] = row
        elif action < 0.8:
            assert table.delete(number) == (model.pop(number, None) is not None)
        elif action < 0.95:
            assert table.update(number, amount=step) == (number in model)
            if number in model:
                model[number] = {**model[number], "amount": step}
        else:
            low = seeded.randrange(150)
            gone = [key for key in model if low <= key < low + 5]
            assert table.delete_range(ge=low, lt=low + 5) == len(gone)
            for key in gone:
                del model[key]
        assert table.get(number) == model.get(number)
        assert (number in table) == (number in model)
    rows = [model[key] for key in sorted(model)]
    assert list(table) == rows and list(reversed(table)) == rows[::-1]
    check_slices(table, rows, seeded)
    keys = sorted(model)
    for _ in range(100):
        a, b = seeded.randrange(-5, 155), seeded.randrange(-5, 155)
        expected = [model[key] for key in keys if a <= key < b]
        part = table.range(ge=a, lt=b)
        assert len(part) == table.count(ge=a, lt=b) == len(expected) and bool(part) == bool(expected)
        assert list(part) == expected and part[:] == expected and list(reversed(part)) == expected[::-1]
        assert part.sum() == table.sum(ge=a, lt=b) == sum(row["amount"] or 0 for row in expected)
        assert table.rank(a) == bisect.bisect_left(keys, a)
        assert part.page(1, 3) == (expected[1:4], len(expected))
        assert part.nth(0) == (expected[0] if expected else None)
        assert part.nth(-1) == (expected[-1] if expected else None)
        assert [row for piece in part.split(3) for row in piece] == expected
        assert part.range(eq=a)[:] == [row for row in expected if row["id"] == a]

    by_group = sorted(rows, key=lambda row: (row["group"], _descending(row["amount"]), row["id"]))
    index = table.index("groups")
    assert list(index) == by_group and list(reversed(index)) == by_group[::-1]
    check_slices(index, by_group, seeded)
    for group in "abcd":
        expected = [row for row in by_group if row["group"] == group]
        assert index.count(eq=group) == len(expected)
        assert index.range(eq=group)[::2] == expected[::2]
        assert index.rank(group) == len([row for row in by_group if row["group"] < group])
    # Amounts descend, and None stands last in a group; ranges of amounts do not have it.
    for group in "abc":
        of_group = [row for row in by_group if row["group"] == group]
        known = [row for row in of_group if row["amount"] is not None]
        low = [row for row in known if row["amount"] <= 20]
        assert index.range(eq=group, ge=(group, 20))[:] == low
        assert index.range(eq=group).range(ge=(group, 20))[:] == low
        assert index.count(eq=group, ge=(group, 20), nulls=True) == len(low) + len(of_group) - len(known)
        assert index.count(eq=(group, None)) == len(of_group) - len(known)
        assert index.quantile(0, eq=group) == known[0] and index.quantile(1, eq=group) == known[-1]
        assert index.quantile(1, eq=group, nulls=True) == of_group[-1]
    with pytest.raises(TypeError):
        index.count(nulls=1)
    groups = {(group.key, group.count, group.sum) for group in index.groups(1)}
    assert groups == {
        (group, len(found), sum(row["amount"] or 0 for row in found))
        for group in "abc"
        if (found := [row for row in by_group if row["group"] == group])
    }
    assert index.sum(starts_with="a") == sum(row["amount"] or 0 for row in by_group if row["group"] == "a")


def _descending(amount):
    return (1, 0) if amount is None else (0, -amount)


def test_quantiles_samples_and_long_iterations(db, seeded):
    table = db.create_table("numbers", {"n": int, "square": int}, key="n", indexes={"square": "square"})
    assert table.insert_many({"n": n, "square": n * n} for n in range(10_000)) == 10_000
    assert table.quantile(0.5)["n"] == 5_000 and table.quantile(0, ge=7)["n"] == 7
    assert table.quantile(0.5, lt=0) is None
    sample = table.sample(50, seed=1)
    assert len({row["n"] for row in sample}) == 50 and sample == table.sample(50, seed=1)
    assert [row["n"] for row in table] == list(range(10_000))
    assert [row["n"] for row in reversed(table.index("square"))] == list(range(9_999, -1, -1))
    assert next(iter(table.range(gt=8_000)))["n"] == 8_001
    assert table.select("square")[3] == {"square": 9}
    assert table.get_many([5, -1, 7]) == [{"n": 5, "square": 25}, None, {"n": 7, "square": 49}]
    parts = table.split(7)
    assert sum(map(len, parts)) == 10_000 and max(map(len, parts)) - min(map(len, parts)) <= 1
    walk = iter(table)
    first = [next(walk) for _ in range(3)]
    table.delete_range(ge=3)
    assert len(first) + sum(1 for _ in walk) == 10_000, "what is walked through is a snapshot"
    assert len(table) == 3
