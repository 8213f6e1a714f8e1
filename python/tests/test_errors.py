"""Which exception an error becomes, without a database."""

import pytest

from quipu._errors import ConflictError, ConstraintError, CorruptError, Error, InvalidError, MissingError, of_sql


def made(state, engine_kind=None):
    return of_sql(state, engine_kind, "so it is", "SELECT 1", (None, None, None, None), (None, None, None))


@pytest.mark.parametrize(
    "state, kind, found",
    [
        ("40001", "conflict", ConflictError),
        ("42P01", "missing", MissingError),
        ("42703", "invalid", InvalidError),
        ("08P01", "invalid", InvalidError),
        ("23505", "invalid", ConstraintError),
        ("53100", "full", Error),
        ("53400", "full", Error),
        ("57014", "cancelled", Error),
        ("58030", "io", Error),
        ("XX000", "internal", Error),
        ("XX001", "corrupt", CorruptError),
    ],
)
def test_a_state_has_a_kind_and_a_class(state, kind, found):
    error = made(state)
    assert (type(error), error.kind, error.sqlstate) == (found, kind, state)


@pytest.mark.parametrize(
    "state, kind, found",
    [
        ("58030", "poisoned", Error),
        ("XX001", "version", Error),
        ("XX000", "busy", Error),
        ("42704", "missing", MissingError),
    ],
)
def test_the_kind_of_the_engine_says_more_than_the_state(state, kind, found):
    error = made(state, kind)
    assert (type(error), error.kind, error.sqlstate) == (found, kind, state)
