#!/usr/bin/env bash
# Runs the tests of redis-py (from its source distribution) against a running server.
#
#   redis-py.sh HOST:PORT [PROTOCOL] [PYTEST ARGUMENTS...]
#   redis-py.sh fetch
#
# PROTOCOL is 2 (default) or 3. `fetch` only brings the release and what its tests need, and fails if it cannot. Tests that name what the server is not made to answer are listed, with the reason, in
# redis-py-skips.txt beside this script. REDIS_PY_SKIPS names another list, REDIS_PY_VERSION another release,
# REDIS_PY_DIR the directory in which the release and a virtual environment are kept between runs. The server's
# database is emptied by the tests: never point this at a server that holds anything.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
address=${1:?usage: redis-py.sh HOST:PORT [PROTOCOL] [PYTEST ARGUMENTS...], or redis-py.sh fetch}
protocol=${2:-2}
shift $(($# < 2 ? $# : 2))

version=${REDIS_PY_VERSION:-5.0.8}
skips=$(realpath "${REDIS_PY_SKIPS:-$here/redis-py-skips.txt}")
dir=${REDIS_PY_DIR:-${TMPDIR:-/tmp}/quipu-redis-py}
source=$dir/redis-$version
files=(tests/test_commands.py tests/test_pipeline.py tests/test_encoding.py tests/test_connection.py
    tests/test_connection_pool.py tests/test_lock.py tests/test_monitor.py tests/test_retry.py
    tests/test_parsers/test_helpers.py tests/test_helpers.py tests/test_command_parser.py)

mkdir -p "$dir"
if [ ! -e "$dir/venv/complete" ]; then
    python3 -m venv "$dir/venv"
    "$dir/venv/bin/pip" install --quiet 'pytest==7.4.4' 'pytest-asyncio==0.23.8' 'pytest-timeout==2.4.0' packaging cachetools
    touch "$dir/venv/complete"
fi
if [ ! -d "$source" ]; then
    "$dir/venv/bin/pip" download --quiet --no-deps --no-binary redis --dest "$dir" "redis==$version"
    tar -xzf "$dir/redis-$version.tar.gz" -C "$dir"
fi
[ "$address" != fetch ] || exit 0

# A list of patterns, where `--deselect` knows only prefixes (and `test_set` would take `test_setex` along).
cat > "$source/quipu_skips.py" <<'PYTHON'
import fnmatch
import os

import pytest


def pytest_configure(config):
    for mark in ("onlynoncluster", "onlycluster", "redismod", "ssl", "asyncio", "experimental", "replica"):
        config.addinivalue_line("markers", f"{mark}: of redis-py")


def pytest_collection_modifyitems(config, items):
    skips = []
    with open(os.environ["QUIPU_SKIPS"]) as lines:
        for line in lines:
            pattern, _, why = line.strip().partition("  ")
            if pattern and not pattern.startswith("#"):
                skips.append((pattern, why.strip() or "no reason given"))
    for item in items:
        name = item.nodeid.removeprefix("tests/").split("[")[0]
        for pattern, why in skips:
            if fnmatch.fnmatchcase(name, pattern):
                item.add_marker(pytest.mark.skip(reason=why))
                break
PYTHON

cd "$source"
QUIPU_SKIPS=$skips PYTHONPATH=$source exec "$dir/venv/bin/python" -m pytest -p quipu_skips -p no:cacheprovider \
    -q --tb=short --timeout=30 -rf -m "not redismod and not ssl and not onlycluster" \
    --redis-url "redis://$address/0" --protocol "$protocol" "${files[@]}" "$@"
