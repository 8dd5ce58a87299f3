"""`pytest --ttmem` on tests of ttnn: its verdicts, its baseline, its figures in JUnit files.

Alone and with two workers, which have to say the same. Also run where the wheel is installed, with the
stand-in for the runtime: there pytest has to find the plugin by its entry point.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from ttmem_program import require

HERE = Path(__file__).parent
TESTS = HERE / "plugin"
PASS = {
    "test_clean",
    "test_uses_what_lives_longer",
    "test_waits_for_the_collector",
    "test_leaks_as_it_may",
    "test_without_a_mark",
    "test_needs_no_device",
}
FAIL = {
    "test_leaks",
    "test_leaks_in_a_comprehension",
    "test_takes_too_much",
    "test_keeps_to_its_limit_unexpectedly",
    "test_leaks_where_something_else_is_expected",
    "test_has_a_limit_that_is_none",
    "test_fails_by_itself",
}
EXPECTED = {"test_leaks_as_expected", "test_takes_too_much_as_expected"}


class Runner:
    """Runs pytest as a user does: not tracked, in a folder of its own."""

    def __init__(self, rows, columns):
        self.environment = {
            **os.environ,
            "TTMEM_TESTS_ROWS": rows,
            "TTMEM_TESTS_COLUMNS": columns,
        }
        self.words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        packages = os.environ.get("TTMEM_TESTS_PACKAGES")
        if packages is not None:
            own = os.environ["TTMEM_TESTS_OWN_PACKAGE"]
            self.environment["PYTHONPATH"] = f"{packages}:{own}"
            self.environment["TTMEM_ATTACH_LIBRARY"] = self.environment.pop("LD_PRELOAD")
            if not any(Path(own).glob("ttmem-*.dist-info")):
                # Not installed: there is no entry point.
                self.words += ["-p", "ttmem.pytest_plugin"]
        self.runs = 0

    def run(self, *options, attached=True, more=0, scope="session", tests=TESTS, **variables):
        """The outcome of each test, what was printed, and the exit code."""
        report = Path(f"junit-{self.runs}.xml").absolute()
        self.runs += 1
        words = [*self.words, "--ttmem"] if attached else self.words
        outcome = subprocess.run(
            [*words, str(tests), f"--rootdir={TESTS}", f"--junitxml={report}", *options],
            env={
                **self.environment,
                "TTMEM_TESTS_MORE": str(more),
                "TTMEM_TESTS_SCOPE": scope,
                **variables,
            },
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


def line_of(file, text):
    lines = (TESTS / file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def check_verdicts(cases, said):
    for name in PASS:
        require(name in cases and not is_failed(cases[name]), f"{name} should pass:\n{said}")
    for name in FAIL:
        require(name in cases and is_failed(cases[name]), f"{name} should fail:\n{said}")
    require(cases["test_is_skipped"].find("skipped") is not None, "one test is skipped")
    for name in EXPECTED:
        skipped = cases[name].find("skipped")
        is_expected = skipped is not None and skipped.get("type") == "pytest.xfail"
        require(is_expected, f"{name} should fail as expected:\n{said}")
    text = cases["test_keeps_to_its_limit_unexpectedly"].find("failure").get("message")
    require("XPASS(strict)" in text, f"not passed against its mark: {text}")
    # The tensor is made one call further in.
    made = line_of("test_memory.py", "return ttnn.zeros")
    for test, comment in [
        ("test_leaks", "# the leak"),
        ("test_leaks_in_a_comprehension", "# three leaks"),
    ]:
        text = cases[test].find("failure").text
        leak = line_of("test_memory.py", comment)
        named = rf"left behind.*\n.*test_memory\.py:{made}, called from .*test_memory\.py:{leak}$"
        require(re.search(named, text, re.MULTILINE), f"no line in: {text}")
    require(" in 3: " in text, f"three buffers are one line: {text}")
    text = cases["test_takes_too_much"].find("failure").text
    require("peak l1 " in text and "the mark allows 1.0 KiB" in text, f"no limit in: {text}")
    held = line_of("conftest.py", "return ttnn.zeros([1, 1, 64, 64]")
    require(re.search(rf"\n  .* in 1: .*conftest\.py:{held}\b", text), f"no line in: {text}")
    text = cases["test_has_a_limit_that_is_none"].find("failure").text
    require("no limit 'peek_l1'" in text, f"no reason in: {text}")
    require("assert" in cases["test_fails_by_itself"].find("failure").text, "its own reason")
    require("left behind" in said and "peak dram" in said, f"no table in:\n{said}")
    require("<string>" not in said, f"a worker's own program in:\n{said}")


def check_refused(runner, folder):
    """A baseline that cannot be used is found before a test runs."""
    for path, options, reason in [
        (folder / "none" / "baseline.json", ["--ttmem-update"], "there is no folder"),
        (folder, [], "cannot be read"),
        (folder, ["--ttmem-update"], "cannot be read"),
        (Path("/proc/baseline.json"), ["--ttmem-update"], "cannot be written"),
    ]:
        _none, said, code = runner.run(f"--ttmem-baseline={path}", *options)
        require(code == 4 and reason in said, f"{path} {options}: {code}\n{said}")
        require("passed" not in said and "Traceback" not in said, f"{path}:\n{said}")


# Tests that need no device, what pytest says of them, and with which options.
OTHERS = [
    ("1 failed", "IMPORTANT", [], """
     import pytest
     @pytest.fixture
     def ends():
         yield
         pytest.exit("no more tests")
     def test_fails(ends):
         assert False, "IMPORTANT"
     """),
    ("1 failed", "IMPORTANT", [], """
     import pytest
     @pytest.fixture
     def ends():
         yield
         raise KeyboardInterrupt
     def test_fails(ends):
         assert False, "IMPORTANT"
     """),
    ("1 passed, 1 rerun", "", ["--reruns=2"], """
     tries = []
     def test_flaky():
         tries.append(1)
         assert len(tries) == 2
     """),
    ("1 failed, 1 passed", "signal 9", ["--forked"], """
     import os, signal
     def test_crashes():
         os.kill(os.getpid(), signal.SIGKILL)
     def test_passes():
         pass
     """),
    ("2 passed", "", [], """
     def test_has_properties(record_property):
         record_property("ttmem_note", "hello")
         record_property("ttmem_leaked", "much")
     def test_has_a_property_without_a_name(record_property):
         record_property(7, None)
     """),
    ("1 passed", "", [], """
     import os
     def test_comes_back_twice():
         child = os.fork()
         if child:
             os.waitpid(child, 0)
     """),
]


def check_others(runner, folder):
    """What other plugins do with tests, and what tests do to pytest, is as without --ttmem."""
    file = folder / "test_others.py"
    for counts, text, options, code in OTHERS:
        file.write_text(textwrap.dedent(code))
        for attached in (False, True):
            _cases, said, _code = runner.run(*options, tests=file, attached=attached)
            where = f"{options} {'with' if attached else 'without'} --ttmem"
            require(counts in said and text in said, f"{where}, not {counts}:\n{said}")
            require("INTERNALERROR" not in said, f"{where}:\n{said}")
    for options in ([], ["-n", "2"]):
        _cases, said, code = runner.run(*options, tests=file, TTMEM_DISABLE="1")
        require(code == 4 and "TTMEM_DISABLE is 1; unset it" in said, f"off: {code}\n{said}")
        require("INTERNALERROR" not in said, f"off:\n{said}")
    words = [*runner.words, "--ttmem", str(file)]
    program = f"import pytest, sys; sys.exit(pytest.main({words[3:]!r}))"
    outcome = subprocess.run(
        [sys.executable, "-u", "-"],
        input=program,
        env=runner.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = outcome.stdout + outcome.stderr
    require(outcome.returncode == 4 and "standard input" in said, f"{outcome.returncode}\n{said}")
    file.unlink()


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    runner = Runner(rows, columns)

    cases, said, code = runner.run()
    require(code == 1, f"it ended with {code}:\n{said}")
    check_verdicts(cases, said)
    alone = {name: figures(case) for name, case in cases.items() if name in PASS}
    require(int(alone["test_clean"]["ttmem_peak_l1"]) > 0, f"no figures in {alone}")

    for options, scope in [
        (["-n", "2"], "session"),
        ([], "function"),
        (["-n", "2"], "function"),
    ]:
        cases, said, code = runner.run(*options, scope=scope)
        require(code == 1, f"{options} {scope} ended with {code}:\n{said}")
        check_verdicts(cases, said)
    cases, said, code = runner.run("-k", "test_leaks and not may and not expected")
    only = {name for name, case in cases.items() if is_failed(case)}
    require(only == {"test_leaks", "test_leaks_in_a_comprehension"}, f"the last one: {only}\n{said}")
    cases, said, code = runner.run("-k", "expected and not unexpectedly and not else", "-n", "1")
    require(code == 0 and "2 xfailed" in said, f"as expected: {code}\n{said}")
    _cases, said, code = runner.run("-k", "test_needs_no_device")
    require(code == 0 and "no device was opened" in said, f"without a device: {code}\n{said}")

    baseline = Path("baseline.json").absolute()
    clean = " or ".join(PASS)
    cases, said, code = runner.run("-k", clean, f"--ttmem-baseline={baseline}")
    require(code == 4 and "--ttmem-update" in said, f"a missing baseline: {code}\n{said}")
    cases, said, code = runner.run("-k", clean, f"--ttmem-baseline={baseline}", "--ttmem-update")
    require(code == 0, f"updating: {code}\n{said}")
    written = json.loads(baseline.read_text())["tests"]
    require({name.split("::")[-1] for name in written} == PASS, f"the baseline has {list(written)}")
    check_refused(runner, baseline.parent)
    check_others(runner, baseline.parent)
    _cases, said, code = runner.run(f"--ttmem-baseline={baseline}", "-k", "test_clean or expected")
    # What is never written is not asked for.
    require("not in the baseline" not in said, f"none of these is new:\n{said}")
    document = json.loads(baseline.read_text())
    document["tests"].pop("test_memory.py::test_clean")
    fewer = Path("fewer.json").absolute()
    fewer.write_text(json.dumps(document))
    _cases, said, code = runner.run(f"--ttmem-baseline={fewer}", "-k", "test_clean or expected")
    new = "not in the baseline: test_memory.py::test_clean; --ttmem-update"
    require(new in said, f"one of these is new:\n{said}")
    for options in ([], ["-n", "2"]):
        against = ["-k", clean, f"--ttmem-baseline={baseline}", *options]
        cases, said, code = runner.run(*against)
        require(code == 0, f"nothing has changed: {code}\n{said}")
        cases, said, code = runner.run(*against, more=30)
        raised = {name for name, case in cases.items() if is_failed(case)}
        require(code == 1 and raised == {"test_without_a_mark"}, f"a raised peak: {raised}\n{said}")
        require(", baseline " in said and "(+" in said, f"no difference in:\n{said}")

    cases, said, code = runner.run("-k", "test_leaks and not may", attached=False)
    require(code == 0, f"without --ttmem nothing is judged: {code}\n{said}")
    _none, said, code = runner.run(f"--ttmem-baseline={baseline}", attached=False)
    require(code == 4 and "need --ttmem" in said, f"a baseline without tracking: {code}\n{said}")

    with open(summary, "w", encoding="utf-8") as file:
        file.write(f"{runner.runs} runs of pytest, alone and with two workers, as they should")


if __name__ == "__main__":
    main()
