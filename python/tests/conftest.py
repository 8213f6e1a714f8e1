"""What all tests share."""

import os
import random

import pytest

import quipu


@pytest.fixture
def db(tmp_path):
    with quipu.open(tmp_path / "db", durability="none") as db:
        yield db


@pytest.fixture
def seeded():
    """A random source; the seed is printed, and taken from SEED."""
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")
    return random.Random(seed)
