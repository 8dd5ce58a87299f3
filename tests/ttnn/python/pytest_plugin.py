"""`pytest --ttmem` on tests of the real ttnn: its verdicts, its baseline, its figures in JUnit files.

Alone and with two workers, which have to say the same.
"""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE / "plugin"
PASS = {
    "test_clean",
    "test_uses_what_lives_longer",
    "test_waits_for_the_collector",
    "test_leaks_as_it_may",
    "test_without_a_mark",
}
FAIL = {
    "test_leaks",
    "test_takes_too_much",
    "test_has_a_limit_that_is_none",
    "test_fails_by_itself",
}


class VerdictDiffers(Exception):
    """pytest says something else than it should."""


def require(holds, what):
    if not holds:
        raise VerdictDiffers(what)


class Runner:
    """Runs pytest as a user does: not tracked, in a folder of its own."""

    def __init__(self, rows, columns, attach):
        paths = [os.environ["TTMEM_TESTS_PACKAGES"], str(HERE.parents[2] / "python")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": ":".join(paths),
            "TTMEM_ATTACH_LIBRARY": attach,
            "TTMEM_TESTS_ROWS": rows,
            "TTMEM_TESTS_COLUMNS": columns,
        }
        del self.environment["LD_PRELOAD"]
        self.runs = 0

    def run(self, *options, attached=True, more=0):
        """The outcome of each test, what was printed, and the exit code."""
        report = Path(f"junit-{self.runs}.xml").absolute()
        self.runs += 1
        words = [sys.executable, "-m", "pytest", "-p", "ttmem.pytest_plugin", "-p", "no:cacheprovider"]
        words += ["--ttmem"] if attached else []
        outcome = subprocess.run(
            [*words, str(TESTS), f"--rootdir={TESTS}", f"--junitxml={report}", *options],
            env={**self.environment, "TTMEM_TESTS_MORE": str(more)},
            capture_output=True,
            text=True,
            check=False,
        )
        said = outcome.stdout + outcome.stderr
        if not report.exists():
            return {}, said, outcome.returncode
        cases = {case.get("name"): case for case in ElementTree.parse(report).iter("testcase")}
        report.unlink()
        return cases, said, outcome.returncode


def is_failed(case):
    return case.find("failure") is not None


def figures(case):
    """The properties of a test in a JUnit file."""
    return {each.get("name"): each.get("value") for each in case.iter("property")}


def check_verdicts(cases, said):
    for name in PASS:
        require(name in cases and not is_failed(cases[name]), f"{name} should pass:\n{said}")
    for name in FAIL:
        require(name in cases and is_failed(cases[name]), f"{name} should fail:\n{said}")
    require(cases["test_is_skipped"].find("skipped") is not None, "one test is skipped")
    lines = (TESTS / "test_memory.py").read_text().splitlines()
    leak = next(number for number, line in enumerate(lines, 1) if "# the leak" in line)
    # The tensor is made one call further in.
    made = next(number for number, line in enumerate(lines, 1) if "return ttnn.zeros" in line)
    text = cases["test_leaks"].find("failure").text
    named = rf"left behind.*\n.*test_memory\.py:{made}, called from .*test_memory\.py:{leak}\b"
    require(re.search(named, text), f"no line in: {text}")
    text = cases["test_takes_too_much"].find("failure").text
    require("peak of l1" in text and "allows 1.0 KiB" in text, f"no limit in: {text}")
    text = cases["test_has_a_limit_that_is_none"].find("failure").text
    require("no limit 'peek_l1'" in text, f"no reason in: {text}")
    require("assert" in cases["test_fails_by_itself"].find("failure").text, "its own reason")
    require("left behind" in said and "peak dram" in said, f"no table in:\n{said}")


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    runner = Runner(rows, columns, os.environ["LD_PRELOAD"])

    cases, said, code = runner.run()
    require(code == 1, f"it ended with {code}:\n{said}")
    check_verdicts(cases, said)
    alone = {name: figures(case) for name, case in cases.items() if name in PASS}
    require(int(alone["test_clean"]["ttmem_peak_l1"]) > 0, f"no figures in {alone}")

    cases, said, code = runner.run("-n", "2")
    require(code == 1, f"with workers it ended with {code}:\n{said}")
    check_verdicts(cases, said)

    baseline = Path("baseline.json").absolute()
    clean = " or ".join(PASS)
    cases, said, code = runner.run("-k", clean, f"--ttmem-baseline={baseline}")
    require(code == 4 and "--ttmem-update" in said, f"a missing baseline: {code}\n{said}")
    cases, said, code = runner.run("-k", clean, f"--ttmem-baseline={baseline}", "--ttmem-update")
    require(code == 0, f"updating: {code}\n{said}")
    written = json.loads(baseline.read_text())["tests"]
    require({name.split("::")[-1] for name in written} == PASS, f"the baseline has {list(written)}")
    for options in ([], ["-n", "2"]):
        against = ["-k", clean, f"--ttmem-baseline={baseline}", *options]
        cases, said, code = runner.run(*against)
        require(code == 0, f"nothing has changed: {code}\n{said}")
        cases, said, code = runner.run(*against, more=30)
        raised = {name for name, case in cases.items() if is_failed(case)}
        require(code == 1 and raised == {"test_without_a_mark"}, f"a raised peak: {raised}\n{said}")
        require("more than the baseline" in said, f"no difference in:\n{said}")

    cases, said, code = runner.run("-k", "test_leaks and not may", attached=False)
    require(code == 0, f"without --ttmem nothing is judged: {code}\n{said}")
    _none, said, code = runner.run(f"--ttmem-baseline={baseline}", attached=False)
    require(code == 4 and "need --ttmem" in said, f"a baseline without tracking: {code}\n{said}")

    with open(summary, "w", encoding="utf-8") as file:
        file.write(f"{runner.runs} runs of pytest, alone and with two workers, as they should")


if __name__ == "__main__":
    main()
