"""Figures of tests in a file, to compare later runs with.

`ttmem check` reads and writes the same file, byte for byte, and words differences alike.
"""

from __future__ import annotations

import json
import os
import stat

from . import _sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1


# A longer file is no baseline: one of a hundred thousand tests has 20 MB.
_LONGEST = 64 << 20
# Sizes are numbers of 64 bits, as `ttmem check` reads them.
_MOST = 2**64 - 1
# How long another one may take that writes the same file.
_PATIENCE_SECONDS = 60


class BaselineError(Exception):
    """The file cannot be used."""


def read(path: str, *, missing_ok: bool) -> dict[str, dict[str, int]]:
    """The figures of a file, by test.

    Raises:
        BaselineError: when there is none, or it is no baseline.
    """
    try:
        document = json.loads(_content(path))
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise BaselineError(f"there is no baseline {path}; --ttmem-update writes it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BaselineError(f"the baseline {path} cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BaselineError(f"{path} is no baseline of this version (schema {SCHEMA})")
    tests: Any = document.get("tests")
    is_figures = isinstance(tests, dict) and all(
        isinstance(sizes, dict)
        and all(type(size) is int and 0 <= size <= _MOST for size in sizes.values())
        for sizes in tests.values()
    )
    if not is_figures:
        raise BaselineError(f"{path} is no baseline: its `tests` are not sizes by test")
    figures: dict[str, dict[str, int]] = tests
    return figures


def _content(path: str) -> bytes:
    # Without waiting for somebody who writes into a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no file")
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST >> 20} MiB")
    return content


def check_target(path: str) -> None:
    """Tries whether a file can be written, so that nobody finds out when all tests have run.

    Raises:
        BaselineError: when it cannot.
    """
    # What a link leads to: the link stays.
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise BaselineError(f"the baseline {path} cannot be written: there is no folder {folder}")
    try:
        descriptor, beside = _beside(target)
        os.close(descriptor)
        os.remove(beside)
    except OSError as error:
        raise BaselineError(f"the baseline {path} cannot be written: {error}") from None


def _beside(target: str) -> tuple[int, str]:
    """A new file in the same folder, that no other process has put there."""
    import tempfile

    name = os.path.basename(target)
    return tempfile.mkstemp(prefix=f".{name[:100]}.", dir=os.path.dirname(target))


def update(path: str, tests: dict[str, dict[str, int]]) -> None:
    """Puts the figures of these tests into a file; those of others stay.

    The file is written whole or not at all, with tests in order, so that differences are small. Of
    several that update it at once each waits for the one before.

    Raises:
        BaselineError: when that is not possible.
    """
    target = os.path.realpath(path)
    try:
        folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(folder)
            known = read(target, missing_ok=True)
            document = {"schema": SCHEMA, "tests": {**known, **tests}}
            text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
            _replace(target, f"{text}\n".encode())
        finally:
            # Which ends the lock, too.
            os.close(folder)
    except (OSError, UnicodeError) as error:
        raise BaselineError(f"the baseline {path} cannot be written: {error}") from None


def _lock(folder: int) -> None:
    """Locks a folder against others that update a baseline in it."""
    import fcntl
    import time

    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _replace(target: str, content: bytes) -> None:
    """Puts a file in the place of another one, with the other's mode and owner."""
    descriptor, beside = _beside(target)
    try:
        with open(descriptor, "wb") as file:
            _keep_rights(target, descriptor)
            file.write(content)
        os.replace(beside, target)
    except BaseException:
        os.remove(beside)
        raise


def _keep_rights(target: str, descriptor: int) -> None:
    try:
        before = os.stat(target)
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        return
    now = os.fstat(descriptor)
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:
            # Only root gives files away; who may write to the folder may have this one, too.
            pass
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def label(name: str) -> str:
    """What a figure is called."""
    return "left behind" if name == "leaked" else f"peak {name.removeprefix('peak_')}"


def difference(name: str, now: int, before: int) -> str:
    """A figure that is above the baseline."""
    said, baseline = _sizes.texts(now, before)
    return f"{label(name)} {said}, baseline {baseline} (+{_sizes.text(now - before)})"
