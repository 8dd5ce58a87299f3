"""What the package costs: its import, and its plugin in each test. `cargo xtask bench python` runs it.

Tests are those of one file, each of which places a tensor on the stand-in for the runtime, and lets it go or keeps it: a
test that seems to leak has Python's garbage collector run. They run with and without --ttmem in turn, so that whatever else the machine does meets both. What is compared is the
time from the first test to the last: starting pytest, and starting it again, is a figure of its own.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMPORT = """
import time
begun = time.perf_counter()
import ttmem
print(time.perf_counter() - begun)
"""

CONFTEST = """
import os, time
import pytest, ttnn

@pytest.fixture(scope="session", autouse=True)
def device():
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)

@pytest.hookimpl(hookwrapper=True)
def pytest_runtestloop():
    begun = time.perf_counter()
    yield
    with open(os.environ["TTMEM_TESTS_TOOK"], "w") as file:
        file.write(str(time.perf_counter() - begun))
"""

TESTS = """
import pytest, ttnn

@pytest.mark.parametrize("number", range({tests}))
def test_trivial(device, number):
    shape = [1, 1, 32, 32]
    placed = ttnn.zeros(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
    KEPT.extend([placed][:{keeps}])

KEPT = []
"""


def summary(seconds, scale):
    """Middle and quartiles, in other units."""
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return {name: round(value * scale, 3) for name, value in
            [("median", middle), ("lower_quartile", low), ("upper_quartile", high)]}


def imports(times):
    """How long the import takes in a fresh interpreter."""
    words = [sys.executable, "-c", IMPORT]
    # The first one may have to compile.
    took = [float(subprocess.check_output(words)) for _ in range(times + 1)]
    return took[1:]


class Plugin:
    """Runs a file of trivial tests."""

    def __init__(self, folder, tests, keeps):
        self.folder = Path(folder)
        (self.folder / "conftest.py").write_text(CONFTEST)
        (self.folder / "test_trivial.py").write_text(TESTS.format(tests=tests, keeps=int(keeps)))

    def run(self, *options):
        """Seconds of the tests, and of all."""
        took = self.folder / "took"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        words += ["-p", "ttmem.pytest_plugin", *options, str(self.folder)]
        begun = time.perf_counter()
        subprocess.run(
            words,
            env={**os.environ, "TTMEM_TESTS_TOOK": str(took)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return float(took.read_text()), time.perf_counter() - begun


def plugin(tests, rounds, keeps):
    """What it adds to each test, and once."""
    each, once, plain = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        runner = Plugin(folder, tests, keeps)
        runner.run("--ttmem")
        for _ in range(rounds):
            without, all_without = runner.run()
            with_it, all_with = runner.run("--ttmem")
            plain.append(without / tests)
            each.append((with_it - without) / tests)
            once.append((all_with - with_it) - (all_without - without))
    return {
        "tests": tests,
        "rounds": rounds,
        "test_without_ms": summary(plain, 1e3),
        "added_per_test_ms": summary(each, 1e3),
        "added_once_ms": summary(once, 1e3),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    size = (50, 2) if quick else (300, 9)
    figures = {
        "bench": "python",
        "python": platform.python_version(),
        "import_ms": summary(imports(5 if quick else 31), 1e3),
        "plugin": plugin(*size, keeps=False),
        "plugin_of_leaking_tests": plugin(*size, keeps=True),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
