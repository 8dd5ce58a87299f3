"""`ttmem check` of a program that uses ttnn: its baseline, its codes, and the lines that it names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from ttmem_program import CLOSED, OPENED, environment_of_user, require, write_model

MODEL = f"""
import os, sys
{OPENED}
change = sys.argv[1]
weights = zeros(1024, ttnn.DRAM_MEMORY_CONFIG)
activations = zeros(512, ttnn.L1_MEMORY_CONFIG)
if change == "l1":
    more = zeros(1024, ttnn.L1_MEMORY_CONFIG)  # more of L1
if change == "dram":
    more = zeros(2048, ttnn.DRAM_MEMORY_CONFIG)  # more of DRAM
print("held", held(ttnn.BufferType.DRAM), held(ttnn.BufferType.L1))
if change == "crash":
    os.abort()
activations = more = None
if change != "leak":
    weights = None
{CLOSED}
sys.exit(3 if change == "fail" else 0)
"""


class Checker:
    """Runs `ttmem check` as a user does, with a server of its own."""

    def __init__(self, rows, columns):
        self.model = write_model(MODEL, rows, columns)
        self.baseline = Path("baseline.json")
        self.environment = environment_of_user()

    def check(self, change, *options):
        """The exit code, what was said, and what the allocator held."""
        program = os.environ["TTMEM_TESTS_PROGRAM"]
        # One name, whatever is changed.
        words = [program, "check", f"--baseline={self.baseline}", "--name=model", *options]
        outcome = subprocess.run(
            [*words, "--", sys.executable, str(self.model), change],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        held = re.search(r"^held (\d+) (\d+)$", outcome.stdout, re.MULTILINE)
        said = [line for line in outcome.stderr.splitlines() if line.startswith(("ttmem: ", "  "))]
        return outcome.returncode, "\n".join(said), held and [int(each) for each in held.groups()]

    def line(self, comment):
        lines = self.model.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if comment in line)

    def figures(self):
        return json.loads(self.baseline.read_text())["tests"]["model"]


def check_verdicts(checker):
    code, said, held = checker.check("none")
    require(code == 1 and held is None and "--update" in said, f"no baseline: {code}\n{said}")
    code, said, (dram, l1) = checker.check("none", "--update")
    require(code == 0, f"updating: {code}\n{said}")
    figures = checker.figures()
    expected = {"peak_dram": dram, "peak_l1": l1, "peak_l1_small": 0, "peak_trace": 0, "leaked": 0}
    require(dram > 0 and l1 > 0 and figures == expected, f"{figures}, the allocator {expected}")
    code, said, _held = checker.check("none")
    require(code == 0 and "within the baseline" in said, f"the same again: {code}\n{said}")

    made = checker.line("return ttnn.zeros")
    for change, comment, kind, other in [
        ("l1", "# more of L1", "peak l1 ", "peak dram"),
        ("dram", "# more of DRAM", "peak dram ", "peak l1"),
    ]:
        code, said, _held = checker.check(change)
        require(code == 6, f"more of {change}: {code}\n{said}")
        require(kind in said and ", baseline " in said, f"no {kind} in:\n{said}")
        require(other not in said and "left behind" not in said, f"too much in:\n{said}")
        # The line that held most; of its callers the one with the most is first.
        where = checker.line(comment)
        named = rf"\n    .* in 2: .* at model\.py:{made}, called from model\.py:{where}\b"
        require(re.search(named, said), f"no line of {change} in:\n{said}")
    code, said, _held = checker.check("leak")
    where = checker.line("weights = zeros")
    named = rf"left behind .*\n.*dram of .* at model\.py:{made}, called from model\.py:{where}\b"
    require(code == 6 and re.search(named, said), f"a leak: {code}\n{said}")
    require("peak" not in said, f"the peaks are as before:\n{said}")

    for change, how in [("fail", "ended with code 3"), ("crash", "was ended by signal 6")]:
        code, said, _held = checker.check(change, "--update")
        require(code == 7 and how in said, f"{change}: {code}\n{said}")
    require(checker.figures() == figures, "what failed was written down")

    # The pytest plugin has the same file.
    sys.path.insert(0, os.environ["TTMEM_TESTS_OWN_PACKAGE"])
    from ttmem import _baseline

    before = checker.baseline.read_bytes()
    _baseline.update(str(checker.baseline), {"model": figures})
    require(checker.baseline.read_bytes() == before, "the plugin writes it otherwise")


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    check_verdicts(Checker(rows, columns))
    with open(summary, "w", encoding="utf-8") as file:
        file.write("eight runs of ttmem check, as they should")


if __name__ == "__main__":
    main()
