"""`pytest --ttmem`: what each test takes of device memory, and what it leaves behind.

pytest starts itself again with the library preloaded, once and before any conftest is loaded. The
peak of a test is the most that it took itself on one device, from its setup to the end of its
teardown: beyond what was held before, and without fixtures that live longer than the test. What it
leaves behind was placed in that time, outside of such fixtures, and is still held at the end, or
was when its device was closed. So the figures of a test do not depend on which tests ran before
it, nor on when the device is closed.

    @pytest.mark.ttmem(peak_l1="64MiB", leaked=0)
    def test_layer(device): ...
"""

from __future__ import annotations

import os

import pytest

from . import _attach, _baseline, _library, _sizes
from ._errors import TtmemError
from ._running import KINDS, Running, leaked_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from ._running import Limits

# How the figures are called in JUnit files.
PREFIX = "ttmem_"
# The attribute of a report that has what we found, which xdist passes on: the figures, the lines that
# were left behind, and whether a device was opened. Properties of a report may be anybody's.
FOUND = "ttmem_found"
LIMITS = (*(f"peak_{kind}" for kind in KINDS), "leaked")
# Tests that are listed, and new ones that are named.
TESTS, NEW = 25, 5
# How pytest words that a test passed whose mark expects that it fails.
_STRICT = "[XPASS(strict)]"


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
    try:
        _library.ask(_library.FIGURES)
    except TtmemError as error:
        raise pytest.UsageError(f"--ttmem: {error}") from None
    file = config.getoption("ttmem_baseline")
    is_update = config.getoption("ttmem_update")
    if is_update and file is None:
        raise pytest.UsageError("--ttmem-update needs --ttmem-baseline FILE")
    is_worker = hasattr(config, "workerinput")
    try:
        baseline = _baseline.read(file, missing_ok=is_update) if file else {}
        if is_update and not is_worker:
            _baseline.check_target(file)
    except _baseline.BaselineError as error:
        raise pytest.UsageError(str(error)) from None
    # Who updates compares nothing.
    measure = Measure({} if is_update else baseline)
    config.pluginmanager.register(measure, "ttmem-measure")
    if not is_worker:
        target = os.path.abspath(file) if file and is_update else None
        summary = Summary(target, baseline if file else None)
        config.pluginmanager.register(summary, "ttmem-summary")


class Measure:
    """Runs each test as a tracked block and judges it."""

    def __init__(self, baseline: dict[str, dict[str, int]]) -> None:
        self.baseline = baseline
        self.running: Running | None = None
        # What is wrong with the test's marks.
        self.mistake: str | None = None
        # Of the test that runs, by phase, and whether others have been given that of its call.
        self.reports: dict[str, pytest.TestReport] = {}
        self.is_call_reported = False
        # Fixtures that outlive their test and are being set up, one inside of the other.
        self.depth = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, None, None]:
        running = self.running
        if running is None or self.depth > 0:
            yield
        elif fixturedef.scope == "function":
            yield
            if _may_have_teardown(fixturedef) and running.has_opened(running.part.devices):
                fixturedef.addfinalizer(self.collect)
        else:
            running.begin_longer_lived()
            self.depth += 1
            yield
            self.depth -= 1
            running.end_longer_lived()
            if running.has_opened(running.part.devices_before):
                fixturedef.addfinalizer(self.collect)

    def collect(self) -> None:
        """Comes right before the teardown of a fixture that opened a device.

        What only waits for the garbage collector would be held when the device is closed, and is
        not left behind when it is closed later.
        """
        if self.running is not None:
            self.running.collect()

    def pytest_fixture_post_finalizer(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> None:
        """A test holds what its fixtures made until its end; what is torn down is not its any more."""
        if fixturedef.scope == "function":
            made = getattr(request.node, "funcargs", None) or {}
            made.pop(fixturedef.argname, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object:
        self.running, self.reports = None, {}
        for protocol in _other_protocols(item, self):
            # One that runs tests again, or each in a process of its own.
            given = {"item": item, "nextitem": nextitem}
            handled = protocol.function(*(given[name] for name in protocol.argnames))
            if handled is not None:
                return handled
        from _pytest.runner import runtestprotocol

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            # Reports wait until the test is judged: what it leaves behind is known at its end.
            runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            # Also when the teardown ends all tests.
            self.running = None
            for report in list(self.reports.values()):
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Begins; here, because the test may have a process of its own, or run several times."""
        self.running, self.reports, self.is_call_reported = None, {}, False
        self.mistake, self.depth = None, 0
        limits: Limits = {}
        try:
            limits = self.limits_of(item)
        except ValueError as error:
            self.mistake = f"@pytest.mark.ttmem: {error}"
        self.running = Running(item.nodeid, limits)
        yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, None]:
        outcome = yield
        report: pytest.TestReport = outcome.get_result()
        # Of a test with subtests the last is its own.
        self.reports[call.when] = report
        if call.when == "teardown" and self.running is not None:
            running, self.running = self.running, None
            self.judge(item, running)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.is_call_reported |= report is self.reports.get("call")

    def judge(self, item: pytest.Item, running: Running) -> None:
        """Ends a test, and has it fail if it is above its limits."""
        if not running.is_ours():
            # A child of a fork that came back from the test: it has an account of its own.
            return
        reports = list(self.reports.values())
        passed = all(report.outcome == "passed" or _is_strict(report) for report in reports)
        is_opened = False
        try:
            figures, leaked = running.end()
            wrong = "\n".join(running.beyond_limits(figures, leaked))
            is_opened = bool(running.whole.devices)
        except TtmemError as error:
            figures, leaked, wrong = {}, [], str(error)
        found: dict[str, Any] = {"figures": figures, "is_opened": is_opened}
        if passed and leaked:
            found["lines"] = "\n".join(leaked_lines(leaked))
        for report in reports:
            report.user_properties += [(PREFIX + name, value) for name, value in figures.items()]
        if "lines" in found:
            reports[-1].user_properties.append((PREFIX + "lines", found["lines"]))
        setattr(reports[-1], FOUND, found)
        if passed and (self.mistake is not None or wrong):
            # Where the call was reported before the end it is the teardown that fails.
            judged = reports[-1] if self.is_call_reported else self.reports.get("call", reports[-1])
            if self.mistake is not None:
                _fail(judged, self.mistake)
            else:
                _exceed(item, judged, wrong)

    def limits_of(self, item: pytest.Item) -> Limits:
        """What a test may take and leave behind; a mark counts before the baseline."""
        known = self.baseline.get(item.nodeid, {})
        limits = {name: (size, False) for name, size in known.items() if name in LIMITS}
        limits.update({name: (size, True) for name, size in _marked(item).items()})
        return limits


def _other_protocols(item: pytest.Item, own: object) -> list[Any]:
    """What other plugins have for running a test, the first to ask first."""
    known = item.ihook.pytest_runtest_protocol.get_hookimpls()
    return [
        each
        for each in reversed(known)
        if each.plugin is not own
        and each.plugin_name != "runner"
        and not each.hookwrapper
        and not getattr(each, "wrapper", False)
    ]


def _may_have_teardown(fixturedef: pytest.FixtureDef[Any]) -> bool:
    """Whether a fixture can close what it opened."""
    import inspect

    return "request" in fixturedef.argnames or inspect.isgeneratorfunction(fixturedef.func)


def _marked(item: pytest.Item) -> dict[str, int]:
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


def _is_strict(report: pytest.TestReport) -> bool:
    """Whether a test failed only because it passed, where its mark expects that it fails."""
    return report.when == "call" and str(report.longrepr).startswith(_STRICT)


def _exceed(item: pytest.Item, report: pytest.TestReport, text: str) -> None:
    """Has a test fail that is above its limits, as it would have failed by itself."""
    reason = getattr(report, "wasxfail", None)
    if _is_strict(report):
        reason = str(report.longrepr).removeprefix(_STRICT).strip()
    mark = item.get_closest_marker("xfail")
    raises = mark.kwargs.get("raises") if mark is not None else None
    if reason is None or (raises is not None and not issubclass(pytest.fail.Exception, raises)):
        _fail(report, text)
        return
    report.outcome = "skipped"
    report.wasxfail = reason
    report.longrepr = f"ttmem: {text}"


def _fail(report: pytest.TestReport, text: str) -> None:
    report.outcome = "failed"
    report.longrepr = f"ttmem: {text}"
    if hasattr(report, "wasxfail"):
        del report.wasxfail


class Summary:
    """Gathers the figures of all tests, of workers as well, and shows them at the end."""

    def __init__(self, target: str | None, baseline: dict[str, dict[str, int]] | None) -> None:
        self.target = target
        self.baseline = baseline
        self.not_written: str | None = None
        self.is_device_opened = False
        self.figures: dict[str, dict[str, int]] = {}
        self.lines: dict[str, str] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome: str = report.outcome
        if outcome == "rerun":
            # As pytest-rerunfailures calls it: what the test does the next time counts.
            return
        if report.outcome != "passed":
            self.failed.add(report.nodeid)
        found = getattr(report, FOUND, None)
        if found is None:
            return
        self.is_device_opened |= found["is_opened"]
        if found["figures"]:
            self.figures[report.nodeid] = found["figures"]
        if "lines" in found:
            self.lines[report.nodeid] = found["lines"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.target is None:
            return
        passed = {k: v for k, v in self.figures.items() if k not in self.failed}
        try:
            _baseline.update(self.target, passed)
        except _baseline.BaselineError as error:
            self.not_written = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

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
        if not self.is_device_opened:
            terminalreporter.line(
                "no device was opened by pytest itself; what its child processes take is not counted"
            )
        self.say_about_baseline(terminalreporter)

    def say_about_baseline(self, terminalreporter: Any) -> None:
        if self.not_written is not None:
            terminalreporter.line(self.not_written, red=True)
        elif self.target is not None:
            terminalreporter.line(f"written to {self.target}")
        elif self.baseline is not None:
            measured = self.figures.keys() - self.failed
            new = sorted(test for test in measured if test not in (self.baseline or {}))
            if new:
                more = f" and {len(new) - NEW} more" if len(new) > NEW else ""
                terminalreporter.line(
                    f"not in the baseline: {', '.join(new[:NEW])}{more}; --ttmem-update adds them"
                )
