"""`pytest --ttmem`: what each test takes of device memory, and what it leaves behind.

pytest starts itself again with the library preloaded, once and before any conftest is loaded. The
peak of a test is the most that it took itself on one device, from its setup to the end of its
teardown: beyond what was held before, and without fixtures that live longer than the test. What it
leaves behind was placed in that time, outside of such fixtures, and is still held at the end. So
the figures of a test do not depend on which tests ran before it.

    @pytest.mark.ttmem(peak_l1="64MiB", leaked=0)
    def test_layer(device): ...
"""

from __future__ import annotations

import os

import pytest

from . import _attach, _baseline, _library, _memory, _sizes
from ._errors import TtmemError
from ._track import Track

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from ._memory import Buffer, DeviceMemory

# Properties of a report that are ours; JUnit files have them, too.
PREFIX = "ttmem_"
# The kinds that an allocator has on the device.
KINDS = ("dram", "l1", "l1_small", "trace")
LIMITS = (*(f"peak_{kind}" for kind in KINDS), "leaked")
# Lines that are named of what one test left behind, and tests that are listed.
LINES, TESTS = 10, 25
# Lines of a stack that are named: a helper, and who called it.
CALLERS = 3
# Buffers of one test that are looked at.
MAX_LEAKED = 10_000


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ttmem", "device memory of Tenstorrent accelerators")
    group.addoption(
        "--ttmem",
        action="store_true",
        help="track the device memory of each test; starts pytest again with the library preloaded",
    )
    group.addoption(
        "--ttmem-baseline",
        metavar="FILE",
        help="fail tests that take or leave behind more than FILE says",
    )
    group.addoption(
        "--ttmem-update",
        action="store_true",
        help="write the figures of the tests that passed into the file of --ttmem-baseline",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Starts pytest again, before a conftest can import ttnn."""
    known = early_config.known_args_namespace
    if not known.ttmem or _library.is_attached():
        return
    # What was captured so far belongs to a file that nobody would read.
    capture = early_config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    try:
        _attach.attach()
    except TtmemError as error:
        raise pytest.UsageError(f"--ttmem: {error}") from None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "ttmem(peak_dram, peak_l1, peak_l1_small, peak_trace, leaked): with --ttmem, the most "
        'that the test may take on one device and leave behind, as bytes or for example "64MiB"',
    )
    if not config.getoption("ttmem"):
        if config.getoption("ttmem_baseline") or config.getoption("ttmem_update"):
            raise pytest.UsageError("--ttmem-baseline and --ttmem-update need --ttmem")
        return
    if not _library.is_attached():
        raise pytest.UsageError(f"--ttmem: this process is not tracked: {_library.HOW_TO_ATTACH}")
    file = config.getoption("ttmem_baseline")
    is_update = config.getoption("ttmem_update")
    if is_update and file is None:
        raise pytest.UsageError("--ttmem-update needs --ttmem-baseline FILE")
    try:
        baseline = _baseline.read(file, missing_ok=is_update) if file else {}
    except _baseline.BaselineError as error:
        raise pytest.UsageError(str(error)) from None
    is_worker = hasattr(config, "workerinput")
    # Who updates compares nothing.
    measure = Measure({} if is_update else baseline)
    config.pluginmanager.register(measure, "ttmem-measure")
    if not is_worker:
        target = os.path.abspath(file) if file and is_update else None
        config.pluginmanager.register(Summary(target, baseline), "ttmem-summary")


class Running:
    """A test at work: what it takes itself, whatever else is held and whoever ran before it."""

    def __init__(self, name: str) -> None:
        self.whole = Track(name, mark=False, collect=False, max_leaked=MAX_LEAKED).__enter__()
        self.part = self.new_part()
        # What is not the test's own.
        self.base = _held(self.part.devices_before)
        self.peaks = dict.fromkeys(KINDS, 0)
        # Events of fixtures that outlive the test: the last before and the last in each.
        self.longer_lived: list[tuple[int, int]] = []

    @staticmethod
    def new_part() -> Track:
        return Track("", mark=False, collect=False, max_leaked=0).__enter__()

    def end_part(self) -> None:
        self.part.__exit__(None, None, None)
        for device in self.part.devices:
            for kind in KINDS:
                own = device.kinds[kind].peak_bytes - self.base.get((device.id, kind), 0)
                self.peaks[kind] = max(self.peaks[kind], own)

    def begin_longer_lived(self) -> None:
        """What a fixture takes that outlives the test is not the test's."""
        self.end_part()

    def end_longer_lived(self) -> None:
        before, self.part = self.part, self.new_part()
        self.longer_lived.append((before.last_order, self.part.first_order))
        held = _held(before.devices)
        for key, now in _held(self.part.devices_before).items():
            self.base[key] = self.base.get(key, 0) + now - held.get(key, 0)

    def end(self) -> tuple[dict[str, int], list[Buffer]]:
        """What the test took and left behind."""
        self.end_part()
        self.whole.__exit__(None, None, None)
        leaked = [each for each in self.whole.leaked if not self.is_longer_lived(each)]
        if leaked:
            leaked = _still_held(leaked)
        figures = {f"peak_{kind}": peak for kind, peak in self.peaks.items()}
        figures["leaked"] = sum(each.total_bytes for each in leaked)
        return figures, leaked

    def is_longer_lived(self, buffer: Buffer) -> bool:
        return any(first < buffer.order <= last for first, last in self.longer_lived)


def _held(devices: tuple[DeviceMemory, ...]) -> dict[tuple[int | None, str], int]:
    return {(each.id, kind): each.kinds[kind].bytes for each in devices for kind in KINDS}


class Measure:
    """Runs each test as a tracked block and judges it."""

    def __init__(self, baseline: dict[str, dict[str, int]]) -> None:
        self.baseline = baseline
        self.running: Running | None = None
        # Fixtures that outlive their test and are being set up, one inside of the other.
        self.depth = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, None, None]:
        running = self.running
        if fixturedef.scope == "function" or running is None or self.depth > 0:
            yield
            return
        running.begin_longer_lived()
        self.depth += 1
        yield
        self.depth -= 1
        running.end_longer_lived()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        from _pytest.runner import runtestprotocol

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self.running = running = Running(item.nodeid)
        try:
            # Reports wait until the test is judged: what it leaves behind is known at its end.
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            self.running = None
        figures, leaked = running.end()
        passed = all(report.outcome == "passed" for report in reports)
        for report in reports:
            report.user_properties += [(PREFIX + name, value) for name, value in figures.items()]
            if passed and report.when == "call":
                self.judge(item, report, figures, leaked)
        if passed and leaked:
            lines = "\n".join(_lines_of(leaked))
            reports[-1].user_properties.append((PREFIX + "lines", lines))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def judge(
        self,
        item: pytest.Item,
        report: pytest.TestReport,
        figures: dict[str, int],
        leaked: list[Buffer],
    ) -> None:
        """Has a test fail that takes or leaves behind more than it may."""
        try:
            limits = _limits_of(item)
        except ValueError as error:
            _fail(report, [f"@pytest.mark.ttmem: {error}"])
            return
        wrong = []
        for name, allowed in limits.items():
            if figures[name] > allowed:
                wrong.append(f"{_said(name, figures[name])}, and the mark allows {_sizes.text(allowed)}")
        for name, before in self.baseline.get(item.nodeid, {}).items():
            if name not in limits and figures.get(name, 0) > before:
                more = _sizes.text(figures[name] - before)
                wrong.append(
                    f"{_said(name, figures[name])}, which is {more} more than the baseline's "
                    f"{_sizes.text(before)}"
                )
        if any(text.startswith("left behind") for text in wrong):
            wrong += [f"  {line}" for line in _lines_of(leaked)]
        if wrong:
            _fail(report, wrong)


def _limits_of(item: pytest.Item) -> dict[str, int]:
    """What the marks of a test allow; the closest mark counts."""
    limits: dict[str, int] = {}
    for mark in item.iter_markers("ttmem"):
        if mark.args:
            raise ValueError(f"limits have names: {', '.join(LIMITS)}")
        for name, size in mark.kwargs.items():
            if name not in LIMITS:
                raise ValueError(f"there is no limit {name!r}, only {', '.join(LIMITS)}")
            if isinstance(size, bool) or not isinstance(size, (int, str)):
                raise ValueError(f"{size!r} is no size; write for example 84MiB or 4096")
            limits.setdefault(name, _sizes.parse(size))
    return limits


def _said(name: str, size: int) -> str:
    if name == "leaked":
        return f"left behind: {_sizes.text(size)}"
    return f"peak of {name.removeprefix('peak_')}: {_sizes.text(size)}"


def _fail(report: pytest.TestReport, wrong: list[str]) -> None:
    report.outcome = "failed"
    report.longrepr = "ttmem: " + "\n".join(wrong)


def _still_held(leaked: list[Buffer]) -> list[Buffer]:
    """Those that are not just waiting for Python's garbage collector.

    It takes longer than most tests: only a test that seems to leak has it run.
    """
    import gc

    gc.collect()
    live = {each.order for each in _memory.memory_snapshot(max_buffers=2**31).buffers}
    return [each for each in leaked if each.order in live]


def _lines_of(leaked: list[Buffer]) -> list[str]:
    """What was left behind, by the line that placed it, the most first."""
    sums: dict[str, tuple[int, int]] = {}
    for buffer in leaked:
        operation = f"{buffer.operation} at " if buffer.operation else ""
        stack = buffer.lines[:CALLERS] or (buffer.line or "a line that is not known",)
        place = f"{buffer.kind} of {operation}{', called from '.join(stack)}"
        size, count = sums.get(place, (0, 0))
        sums[place] = size + buffer.total_bytes, count + 1
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    lines = [f"{_sizes.text(size)} in {count}: {place}" for place, (size, count) in ordered]
    more = len(lines) - LINES
    return lines if more <= 0 else [*lines[:LINES], f"and {more} more lines"]


class Summary:
    """Gathers the figures of all tests, of workers as well, and shows them at the end."""

    def __init__(self, target: str | None, baseline: dict[str, dict[str, int]]) -> None:
        self.target = target
        self.baseline = baseline
        self.figures: dict[str, dict[str, int]] = {}
        self.lines: dict[str, str] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)
        if report.when != "teardown":
            return
        own = {
            name.removeprefix(PREFIX): value
            for name, value in report.user_properties
            if name.startswith(PREFIX)
        }
        lines = own.pop("lines", None)
        if own:
            self.figures[report.nodeid] = {name: int(str(value)) for name, value in own.items()}
        if lines:
            self.lines[report.nodeid] = str(lines)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self.target is not None:
            passed = {k: v for k, v in self.figures.items() if k not in self.failed}
            _baseline.write(self.target, {**self.baseline, **passed})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.figures:
            return
        terminalreporter.section("device memory")
        kinds = [
            kind
            for kind in KINDS
            if kind in ("dram", "l1")
            or any(figures[f"peak_{kind}"] for figures in self.figures.values())
        ]
        head = "".join(f"{'peak ' + kind:>15}" for kind in kinds)
        terminalreporter.line(f"{head}{'left behind':>15}  test")
        by_size = sorted(self.figures.items(), key=lambda item: -sum(item[1].values()))
        is_verbose = terminalreporter.config.get_verbosity() > 0
        listed = by_size if is_verbose else by_size[:TESTS]
        for test, figures in listed:
            sizes = "".join(f"{_sizes.text(figures[f'peak_{kind}']):>15}" for kind in kinds)
            terminalreporter.line(f"{sizes}{_sizes.text(figures['leaked']):>15}  {test}")
        if len(listed) < len(by_size):
            terminalreporter.line(f"and {len(by_size) - len(listed)} more tests; -v lists all")
        for test, lines in self.lines.items():
            terminalreporter.line(f"{test} left behind")
            for line in lines.splitlines():
                terminalreporter.line(f"    {line}")
        new = [test for test in self.figures if self.baseline and test not in self.baseline]
        if self.target is not None:
            terminalreporter.line(f"written to {self.target}")
        elif new:
            terminalreporter.line(f"{len(new)} tests are not in the baseline: --ttmem-update")
